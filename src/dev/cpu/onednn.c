#include "dev/cpu/onednn.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- what differs between the versions: descriptors of memory and of a matmul ----

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t memory_desc;
typedef const_dnnl_memory_desc_t memory_desc_ref;

static dnnl_status_t make_desc(memory_desc *d, const dnnl_dims_t dims, dnnl_data_type_t type,
                               const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(d, 2, dims, type, strides);
}

static void drop_desc(memory_desc *d)
{
    if (*d)
        dnnl_memory_desc_destroy(*d);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
}

static dnnl_status_t make_matmul_desc(dnnl_primitive_desc_t *pd, const memory_desc d[3],
                                      dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    return dnnl_matmul_primitive_desc_create(pd, engine, d[0], d[1], NULL, d[2], attr);
}
#else
typedef dnnl_memory_desc_t memory_desc;
typedef const dnnl_memory_desc_t *memory_desc_ref;

static dnnl_status_t make_desc(memory_desc *d, const dnnl_dims_t dims, dnnl_data_type_t type,
                               const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(d, 2, dims, type, strides);
}

static void drop_desc(memory_desc *d)
{
    (void)d;
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1);
}

static dnnl_status_t make_matmul_desc(dnnl_primitive_desc_t *pd, const memory_desc d[3],
                                      dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    dnnl_matmul_desc_t op;
    dnnl_status_t bad = dnnl_matmul_desc_init(&op, &d[0], &d[1], NULL, &d[2]);
    return bad ? bad : dnnl_primitive_desc_create(pd, &op, attr, engine, NULL);
}
#endif

// ---- the handle ----

// Everything that a primitive was made for.
typedef struct shape {
    int64_t m, n, k, lda, ldb, ldc;
    int32_t ta, tb, in, out, add, pad; // pad: compared bytewise, so no byte may be undefined
} shape;

typedef struct matmul {
    bool taken;
    shape of;
    dnnl_primitive_desc_t pd;   // NULL: there is no fast one for this shape
    dnnl_primitive_t primitive; // NULL: only its scratch was asked for so far
    dnnl_memory_t memory[4];    // source, weights, destination, scratch
    size_t scratch;
} matmul;

enum { SLOTS = 192 };

struct ax_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int threads;
    void (*set_threads)(int); // of the OpenMP runtime that oneDNN runs on
    int next;                 // slot to give up when all are taken
    matmul slot[SLOTS];
};

#define DNNL_TRY(call)                                                                             \
    do {                                                                                           \
        dnnl_status_t dnnl_try_status = (call);                                                    \
        AX_CHECK(dnnl_try_status == dnnl_success,                                                  \
                 dnnl_try_status == dnnl_out_of_memory ? AX_ENOMEM : AX_EUNSUPPORTED,              \
                 "oneDNN: %s failed with status %d (see dnnl_types.h)", #call,                     \
                 (int)dnnl_try_status);                                                            \
    } while (0)

ax_status ax_onednn_open(int threads, ax_onednn **out)
{
    ax_onednn *h = calloc(1, sizeof *h);
    AX_CHECK(h, AX_ENOMEM, "oneDNN: no memory for a handle");
    h->threads = threads;
    // Looked up, not linked: this build may have no OpenMP while oneDNN has one. The setting is
    // of the calling thread, so that ranks which are threads do not disturb one another.
    *(void **)&h->set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    dnnl_status_t bad = dnnl_engine_create(&h->engine, dnnl_cpu, 0);
    if (!bad)
        bad = dnnl_stream_create(&h->stream, h->engine, dnnl_stream_default_flags);
    if (bad) {
        ax_onednn_close(h);
        AX_FAIL(AX_EUNSUPPORTED, "oneDNN: no cpu engine (status %d)", (int)bad);
    }
    *out = h;
    return AX_OK;
}

static void drop(matmul *s)
{
    for (int i = 0; i < 4; i++)
        if (s->memory[i])
            dnnl_memory_destroy(s->memory[i]);
    if (s->primitive)
        dnnl_primitive_destroy(s->primitive);
    if (s->pd)
        dnnl_primitive_desc_destroy(s->pd);
    *s = (matmul){0};
}

void ax_onednn_close(ax_onednn *h)
{
    if (!h)
        return;
    for (int i = 0; i < SLOTS; i++)
        drop(&h->slot[i]);
    if (h->stream)
        dnnl_stream_destroy(h->stream);
    if (h->engine)
        dnnl_engine_destroy(h->engine);
    free(h);
}

bool ax_onednn_has_bf16(void)
{
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa(), bf16 = dnnl_cpu_isa_avx512_core_bf16;
    return (isa & bf16) == bf16;
}

void ax_onednn_version(char *text, size_t size)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, size, "%d.%d.%d", v->major, v->minor, v->patch);
}

static void use_threads(const ax_onednn *h)
{
    if (h->set_threads)
        h->set_threads(h->threads);
}

// A view of one row or less may have any stride; oneDNN wants one that holds a row.
static int64_t pitch_of(ax_tensor t)
{
    return t.rows > 1 ? t.stride : t.cols;
}

ax_status ax_onednn_sgemm(ax_onednn *h, const ax_gemm_args *g)
{
    int64_t k = g->ta == AX_N ? g->a.cols : g->a.rows;
    use_threads(h);
    DNNL_TRY(dnnl_sgemm(g->ta == AX_N ? 'N' : 'T', g->tb == AX_N ? 'N' : 'T', g->c.rows, g->c.cols,
                        k, 1, g->a.data, pitch_of(g->a), g->b.data, pitch_of(g->b), (float)g->beta,
                        g->c.data, pitch_of(g->c)));
    return AX_OK;
}

// ---- primitives ----

static shape shape_of(const ax_gemm_args *g)
{
    return (shape){
        .m = g->c.rows,
        .n = g->c.cols,
        .k = g->ta == AX_N ? g->a.cols : g->a.rows,
        .lda = pitch_of(g->a),
        .ldb = pitch_of(g->b),
        .ldc = pitch_of(g->c),
        .ta = (int32_t)g->ta,
        .tb = (int32_t)g->tb,
        .in = (int32_t)g->a.dtype,
        .out = (int32_t)g->c.dtype,
        .add = g->beta != 0,
    };
}

static dnnl_data_type_t type_of(int32_t dtype)
{
    return dtype == AX_BF16 ? dnnl_bf16 : dnnl_f32;
}

static dnnl_status_t make_pd(const ax_onednn *h, const shape *s, dnnl_primitive_attr_t attr,
                             dnnl_primitive_desc_t *pd)
{
    const dnnl_dims_t a = {s->m, s->k}, b = {s->k, s->n}, c = {s->m, s->n};
    const dnnl_dims_t a_strides = {s->ta ? 1 : s->lda, s->ta ? s->lda : 1};
    const dnnl_dims_t b_strides = {s->tb ? 1 : s->ldb, s->tb ? s->ldb : 1};
    const dnnl_dims_t c_strides = {s->ldc, 1};
    memory_desc d[3];
    memset(d, 0, sizeof d); // version 3: pointers, dropped below whether they were made or not
    dnnl_status_t bad = make_desc(&d[0], a, type_of(s->in), a_strides);
    if (!bad)
        bad = make_desc(&d[1], b, type_of(s->in), b_strides);
    if (!bad)
        bad = make_desc(&d[2], c, type_of(s->out), c_strides);
    if (!bad)
        bad = make_matmul_desc(pd, d, attr, h->engine);
    for (int i = 0; i < 3; i++)
        drop_desc(&d[i]);
    return bad;
}

// Scratch from the caller, and the sum onto c where there is one.
static dnnl_status_t make_attr(bool add, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t bad = dnnl_primitive_attr_create(attr);
    if (!bad)
        bad = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (!bad)
        bad = dnnl_post_ops_create(&ops);
    if (!bad && add)
        bad = append_sum(ops);
    if (!bad)
        bad = dnnl_primitive_attr_set_post_ops(*attr, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return bad;
}

// oneDNN names what it picked: "ref:any" is the loop that defines the meaning.
static bool is_fast(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           name && strncmp(name, "ref", 3) != 0;
}

// A shape without a fast implementation takes a slot too: it is asked for again at every call.
static void fill_slot(const ax_onednn *h, const shape *s, matmul *slot)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t bad = make_attr(s->add, &attr);
    if (!bad)
        bad = make_pd(h, s, attr, &pd);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    *slot = (matmul){.taken = true, .of = *s};
    if (!bad && is_fast(pd)) {
        slot->pd = pd;
        slot->scratch = dnnl_memory_desc_get_size(
            dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    } else if (!bad) {
        dnnl_primitive_desc_destroy(pd);
    }
}

static matmul *slot_of(ax_onednn *h, const ax_gemm_args *g)
{
    shape s = shape_of(g);
    matmul *slot = NULL;
    for (int i = 0; i < SLOTS && !slot; i++) {
        if (!h->slot[i].taken)
            slot = &h->slot[i];
        else if (memcmp(&h->slot[i].of, &s, sizeof s) == 0)
            return &h->slot[i];
    }
    if (!slot) {
        slot = &h->slot[h->next];
        h->next = (h->next + 1) % SLOTS;
        drop(slot);
    }
    use_threads(h); // the scratch depends on the number of threads
    fill_slot(h, &s, slot);
    return slot;
}

static ax_status make_primitive(const ax_onednn *h, matmul *s)
{
    static const dnnl_query_t query[4] = {dnnl_query_src_md, dnnl_query_weights_md,
                                          dnnl_query_dst_md, dnnl_query_scratchpad_md};
    DNNL_TRY(dnnl_primitive_create(&s->primitive, s->pd));
    for (int i = 0; i < 4; i++) {
        memory_desc_ref md = dnnl_primitive_desc_query_md(s->pd, query[i], 0);
        DNNL_TRY(dnnl_memory_create(&s->memory[i], md, h->engine, DNNL_MEMORY_NONE));
    }
    return AX_OK;
}

bool ax_onednn_has_matmul(ax_onednn *h, const ax_gemm_args *g, size_t *scratch)
{
    const matmul *s = slot_of(h, g);
    *scratch = s->scratch;
    return s->pd != NULL;
}

ax_status ax_onednn_matmul(ax_onednn *h, const ax_gemm_args *g, void *scratch)
{
    matmul *s = slot_of(h, g);
    AX_CHECK(s->pd, AX_EINTERNAL, "oneDNN has no fast matmul for %lld x %lld x %lld: ask first",
             (long long)s->of.m, (long long)s->of.n, (long long)s->of.k);
    use_threads(h);
    if (!s->primitive)
        AX_TRY(make_primitive(h, s));
    void *data[4] = {g->a.data, g->b.data, g->c.data, scratch};
    static const int arg[4] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t args[4];
    for (int i = 0; i < 4; i++) {
        DNNL_TRY(dnnl_memory_set_data_handle(s->memory[i], data[i]));
        args[i] = (dnnl_exec_arg_t){arg[i], s->memory[i]};
    }
    DNNL_TRY(dnnl_primitive_execute(s->primitive, h->stream, 4, args));
    DNNL_TRY(dnnl_stream_wait(h->stream));
    return AX_OK;
}

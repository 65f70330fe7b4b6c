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
    shape of;
    dnnl_primitive_desc_t pd;   // NULL: the slot is free
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

ax_status ax_onednn_sgemm(ax_onednn *h, const ax_gemm_args *g)
{
    int64_t k = g->ta == AX_N ? g->a.cols : g->a.rows;
    // A view of one row or less may have any stride; BLAS wants one that holds a row.
    int64_t lda = g->a.stride > g->a.cols ? g->a.stride : g->a.cols;
    int64_t ldb = g->b.stride > g->b.cols ? g->b.stride : g->b.cols;
    int64_t ldc = g->c.stride > g->c.cols ? g->c.stride : g->c.cols;
    use_threads(h);
    DNNL_TRY(dnnl_sgemm(g->ta == AX_N ? 'N' : 'T', g->tb == AX_N ? 'N' : 'T', g->c.rows, g->c.cols,
                        k, 1, g->a.data, lda, g->b.data, ldb, (float)g->beta, g->c.data, ldc));
    return AX_OK;
}

// ---- primitives ----

static shape shape_of(const ax_gemm_args *g)
{
    return (shape){
        .m = g->c.rows,
        .n = g->c.cols,
        .k = g->ta == AX_N ? g->a.cols : g->a.rows,
        .lda = g->a.stride,
        .ldb = g->b.stride,
        .ldc = g->c.stride,
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

static ax_status make_pd(const ax_onednn *h, const shape *s, dnnl_primitive_attr_t attr,
                         dnnl_primitive_desc_t *pd)
{
    const dnnl_dims_t a = {s->m, s->k}, b = {s->k, s->n}, c = {s->m, s->n};
    const dnnl_dims_t a_strides = {s->ta ? 1 : s->lda, s->ta ? s->lda : 1};
    const dnnl_dims_t b_strides = {s->tb ? 1 : s->ldb, s->tb ? s->ldb : 1};
    const dnnl_dims_t c_strides = {s->ldc, 1};
    memory_desc d[3];
    DNNL_TRY(make_desc(&d[0], a, type_of(s->in), a_strides));
    DNNL_TRY(make_desc(&d[1], b, type_of(s->in), b_strides));
    DNNL_TRY(make_desc(&d[2], c, type_of(s->out), c_strides));
    dnnl_status_t bad = make_matmul_desc(pd, d, attr, h->engine);
    for (int i = 0; i < 3; i++)
        drop_desc(&d[i]);
    AX_CHECK(!bad, AX_EUNSUPPORTED, "oneDNN has no matmul for %lld x %lld x %lld (status %d)",
             (long long)s->m, (long long)s->n, (long long)s->k, (int)bad);
    return AX_OK;
}

static ax_status make_slot(const ax_onednn *h, const shape *s, matmul *slot)
{
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    DNNL_TRY(dnnl_primitive_attr_create(&attr));
    DNNL_TRY(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    DNNL_TRY(dnnl_post_ops_create(&ops));
    if (s->add)
        DNNL_TRY(append_sum(ops));
    DNNL_TRY(dnnl_primitive_attr_set_post_ops(attr, ops));
    ax_status st = make_pd(h, s, attr, &slot->pd);
    dnnl_post_ops_destroy(ops);
    dnnl_primitive_attr_destroy(attr);
    if (st != AX_OK)
        return st;
    slot->of = *s;
    slot->scratch = dnnl_memory_desc_get_size(
        dnnl_primitive_desc_query_md(slot->pd, dnnl_query_scratchpad_md, 0));
    return AX_OK;
}

static ax_status find_slot(ax_onednn *h, const ax_gemm_args *g, matmul **out)
{
    shape s = shape_of(g);
    matmul *free_slot = NULL;
    for (int i = 0; i < SLOTS && !free_slot; i++) {
        if (!h->slot[i].pd)
            free_slot = &h->slot[i];
        else if (memcmp(&h->slot[i].of, &s, sizeof s) == 0) {
            *out = &h->slot[i];
            return AX_OK;
        }
    }
    if (!free_slot) {
        free_slot = &h->slot[h->next];
        h->next = (h->next + 1) % SLOTS;
        drop(free_slot);
    }
    use_threads(h); // the scratch depends on the number of threads
    AX_TRY(make_slot(h, &s, free_slot));
    *out = free_slot;
    return AX_OK;
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

size_t ax_onednn_matmul_scratch(ax_onednn *h, const ax_gemm_args *g)
{
    matmul *s;
    // A shape that cannot be made fails again, with its message, when it is run.
    return find_slot(h, g, &s) == AX_OK ? s->scratch : 0;
}

ax_status ax_onednn_matmul(ax_onednn *h, const ax_gemm_args *g, void *scratch)
{
    matmul *s;
    AX_TRY(find_slot(h, g, &s));
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

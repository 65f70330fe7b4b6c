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

static dnnl_status_t make_any_desc(memory_desc *d, const dnnl_dims_t dims, dnnl_data_type_t type)
{
    return dnnl_memory_desc_create_with_tag(d, 2, dims, type, dnnl_format_tag_any);
}

static memory_desc_ref ref_of(const memory_desc *d)
{
    return *d;
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

static dnnl_status_t make_any_desc(memory_desc *d, const dnnl_dims_t dims, dnnl_data_type_t type)
{
    return dnnl_memory_desc_init_by_tag(d, 2, dims, type, dnnl_format_tag_any);
}

static memory_desc_ref ref_of(const memory_desc *d)
{
    return d;
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
    int32_t ta, tb, in, out, add, layout, member, zero; // compared bytewise: no byte is undefined
} shape;

enum { SOURCE, WEIGHTS, RESULT, SCRATCH, AS_GIVEN, PACK_SCRATCH, MEMORIES };

typedef struct matmul {
    bool taken;
    uint64_t used; // when it was asked for last
    shape of;
    dnnl_primitive_desc_t pd;      // NULL: there is no fast one for this shape
    dnnl_primitive_t primitive;    // NULL: only its scratch was asked for so far
    dnnl_primitive_desc_t pack_pd; // of a layout that is not the caller's
    dnnl_primitive_t pack;
    dnnl_memory_t memory[MEMORIES];
    dnnl_stream_t stream; // of a member that works alone; NULL: that of the handle
    ax_onednn_need need;
} matmul;

enum { SLOTS = 256 };

struct ax_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int threads;
    void (*set_threads)(int); // of the OpenMP runtime that oneDNN runs on
    uint64_t clock;           // calls so far: the slot that was not asked for longest is given up
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
    const dnnl_primitive_t primitive[2] = {s->primitive, s->pack};
    const dnnl_primitive_desc_t pd[2] = {s->pd, s->pack_pd};
    for (int i = 0; i < MEMORIES; i++)
        if (s->memory[i])
            dnnl_memory_destroy(s->memory[i]);
    for (int i = 0; i < 2; i++) {
        if (primitive[i])
            dnnl_primitive_destroy(primitive[i]);
        if (pd[i])
            dnnl_primitive_desc_destroy(pd[i]);
    }
    if (s->stream)
        dnnl_stream_destroy(s->stream);
    *s = (matmul){0};
}

void ax_onednn_forget(ax_onednn *h)
{
    for (int i = 0; i < SLOTS; i++)
        drop(&h->slot[i]);
}

void ax_onednn_close(ax_onednn *h)
{
    if (!h)
        return;
    ax_onednn_forget(h);
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

static void use_threads(const ax_onednn *h, int threads)
{
    if (h->set_threads)
        h->set_threads(threads);
}

// A view of one row or less may have any stride; oneDNN wants one that holds a row.
static int64_t pitch_of(ax_tensor t)
{
    return t.rows > 1 ? t.stride : t.cols;
}

ax_status ax_onednn_sgemm(ax_onednn *h, const ax_gemm_args *g)
{
    use_threads(h, h->threads);
    return ax_onednn_sgemm_alone(g);
}

// oneDNN does not spread work over a team that is at work already.
ax_status ax_onednn_sgemm_alone(const ax_gemm_args *g)
{
    int64_t k = g->ta == AX_N ? g->a.cols : g->a.rows;
    DNNL_TRY(dnnl_sgemm(g->ta == AX_N ? 'N' : 'T', g->tb == AX_N ? 'N' : 'T', g->c.rows, g->c.cols,
                        k, 1, g->a.data, pitch_of(g->a), g->b.data, pitch_of(g->b), (float)g->beta,
                        g->c.data, pitch_of(g->c)));
    return AX_OK;
}

// ---- primitives ----

static shape shape_of(const ax_gemm_args *g, const ax_onednn_use *use)
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
        .layout = (int32_t)use->layout,
        .member = use->member,
    };
}

static dnnl_data_type_t type_of(int32_t dtype)
{
    return dtype == AX_BF16 ? dnnl_bf16 : dnnl_f32;
}

// The weights as the caller has them.
static dnnl_status_t make_given_desc(const shape *s, memory_desc *d)
{
    const dnnl_dims_t dims = {s->k, s->n};
    const dnnl_dims_t strides = {s->tb ? 1 : s->ldb, s->tb ? s->ldb : 1};
    return make_desc(d, dims, type_of(s->in), strides);
}

// The weights as the product reads them.
static dnnl_status_t make_weights_desc(const shape *s, memory_desc *d)
{
    const dnnl_dims_t dims = {s->k, s->n};
    const dnnl_dims_t turned = {s->tb ? s->n : 1, s->tb ? 1 : s->k};
    if (s->layout == AX_ONEDNN_BEST)
        return make_any_desc(d, dims, type_of(s->in));
    if (s->layout == AX_ONEDNN_TURNED)
        return make_desc(d, dims, type_of(s->in), turned);
    return make_given_desc(s, d);
}

static dnnl_status_t make_pd(const ax_onednn *h, const shape *s, dnnl_primitive_attr_t attr,
                             dnnl_primitive_desc_t *pd)
{
    const dnnl_dims_t a = {s->m, s->k}, c = {s->m, s->n};
    const dnnl_dims_t a_strides = {s->ta ? 1 : s->lda, s->ta ? s->lda : 1};
    const dnnl_dims_t c_strides = {s->ldc, 1};
    memory_desc d[3];
    memset(d, 0, sizeof d); // version 3: pointers, dropped below whether they were made or not
    dnnl_status_t bad = make_desc(&d[0], a, type_of(s->in), a_strides);
    if (!bad)
        bad = make_weights_desc(s, &d[1]);
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

static memory_desc_ref md_of(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

static size_t scratch_of(const_dnnl_primitive_desc_t pd)
{
    return dnnl_memory_desc_get_size(md_of(pd, dnnl_query_scratchpad_md));
}

// What brings the weights into the layout of slot->pd. False: they are in it already, or cannot be
// brought.
static bool make_pack_pd(const ax_onednn *h, matmul *slot)
{
    dnnl_primitive_attr_t attr = NULL;
    memory_desc given;
    memset(&given, 0, sizeof given);
    memory_desc_ref weights = md_of(slot->pd, dnnl_query_weights_md);
    dnnl_status_t bad = make_given_desc(&slot->of, &given);
    bool same = !bad && dnnl_memory_desc_equal(weights, ref_of(&given));
    if (!bad && !same)
        bad = make_attr(false, &attr);
    if (!bad && !same)
        bad = dnnl_reorder_primitive_desc_create(&slot->pack_pd, ref_of(&given), h->engine, weights,
                                                 h->engine, attr);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (!bad && !same)
        bad = dnnl_memory_create(&slot->memory[AS_GIVEN], ref_of(&given), h->engine,
                                 DNNL_MEMORY_NONE);
    drop_desc(&given);
    if (bad || same)
        return false;
    size_t scratch = scratch_of(slot->pack_pd);
    slot->need.packed = dnnl_memory_desc_get_size(weights);
    slot->need.scratch = scratch > slot->need.scratch ? scratch : slot->need.scratch;
    return true;
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
    if (bad)
        return;
    slot->pd = pd;
    slot->need.scratch = scratch_of(pd);
    if (is_fast(pd) && (s->layout == AX_ONEDNN_PLAIN || make_pack_pd(h, slot)))
        return;
    drop(slot);
    *slot = (matmul){.taken = true, .of = *s};
}

static matmul *find_slot(ax_onednn *h, const shape *s)
{
    for (int i = 0; i < SLOTS; i++)
        if (h->slot[i].taken && memcmp(&h->slot[i].of, s, sizeof *s) == 0)
            return &h->slot[i];
    return NULL;
}

static matmul *slot_of(ax_onednn *h, const ax_gemm_args *g, const ax_onednn_use *use)
{
    shape s = shape_of(g, use);
    matmul *slot = find_slot(h, &s);
    if (!slot) {
        slot = &h->slot[0];
        for (int i = 1; i < SLOTS; i++)
            if (h->slot[i].used < slot->used)
                slot = &h->slot[i];
        drop(slot);
        use_threads(h, use->member ? 1 : h->threads); // the scratch depends on their number
        fill_slot(h, &s, slot);
    }
    slot->used = ++h->clock;
    return slot;
}

static ax_status make_memory(const ax_onednn *h, matmul *s, int i, memory_desc_ref md)
{
    DNNL_TRY(dnnl_memory_create(&s->memory[i], md, h->engine, DNNL_MEMORY_NONE));
    return AX_OK;
}

static ax_status make_primitive(const ax_onednn *h, matmul *s)
{
    static const dnnl_query_t query[] = {[SOURCE] = dnnl_query_src_md,
                                         [WEIGHTS] = dnnl_query_weights_md,
                                         [RESULT] = dnnl_query_dst_md,
                                         [SCRATCH] = dnnl_query_scratchpad_md};
    DNNL_TRY(dnnl_primitive_create(&s->primitive, s->pd));
    for (int i = SOURCE; i <= SCRATCH; i++)
        AX_TRY(make_memory(h, s, i, md_of(s->pd, query[i])));
    if (s->of.member)
        DNNL_TRY(dnnl_stream_create(&s->stream, h->engine, dnnl_stream_default_flags));
    if (!s->pack_pd)
        return AX_OK;
    DNNL_TRY(dnnl_primitive_create(&s->pack, s->pack_pd));
    return make_memory(h, s, PACK_SCRATCH, md_of(s->pack_pd, dnnl_query_scratchpad_md));
}

bool ax_onednn_has(ax_onednn *h, const ax_gemm_args *g, const ax_onednn_use *use,
                   ax_onednn_need *need)
{
    const matmul *s = slot_of(h, g, use);
    *need = s->need;
    return s->pd != NULL;
}

bool ax_onednn_same_layout(ax_onednn *h, const ax_gemm_args *x, const ax_gemm_args *y,
                           const ax_onednn_use *use)
{
    const matmul *a = slot_of(h, x, use), *b = slot_of(h, y, use);
    return a->pd && b->pd &&
           dnnl_memory_desc_equal(md_of(a->pd, dnnl_query_weights_md),
                                  md_of(b->pd, dnnl_query_weights_md));
}

ax_status ax_onednn_ready(ax_onednn *h, const ax_gemm_args *g, const ax_onednn_use *use)
{
    matmul *s = slot_of(h, g, use);
    AX_CHECK(s->pd, AX_EINTERNAL, "oneDNN has no fast matmul for %lld x %lld x %lld: ask first",
             (long long)s->of.m, (long long)s->of.n, (long long)s->of.k);
    use_threads(h, use->member ? 1 : h->threads);
    return s->primitive ? AX_OK : make_primitive(h, s);
}

static ax_status execute(const ax_onednn *h, const matmul *s, dnnl_primitive_t primitive, int count,
                         dnnl_exec_arg_t *args, void *const *data)
{
    dnnl_stream_t stream = s->stream ? s->stream : h->stream;
    for (int i = 0; i < count; i++)
        DNNL_TRY(dnnl_memory_set_data_handle(args[i].memory, data[i]));
    DNNL_TRY(dnnl_primitive_execute(primitive, stream, count, args));
    DNNL_TRY(dnnl_stream_wait(stream));
    return AX_OK;
}

ax_status ax_onednn_pack(ax_onednn *h, const ax_gemm_args *g, const ax_onednn_use *use,
                         ax_onednn_room room)
{
    AX_TRY(ax_onednn_ready(h, g, use));
    shape of = shape_of(g, use);
    const matmul *s = find_slot(h, &of);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, s->memory[AS_GIVEN]},
                              {DNNL_ARG_TO, s->memory[WEIGHTS]},
                              {DNNL_ARG_SCRATCHPAD, s->memory[PACK_SCRATCH]}};
    return execute(h, s, s->pack, 3, args, (void *const[]){g->b.data, room.packed, room.scratch});
}

ax_status ax_onednn_run(ax_onednn *h, const ax_gemm_args *g, const ax_onednn_use *use,
                        ax_onednn_room room)
{
    if (!use->member)
        AX_TRY(ax_onednn_ready(h, g, use));
    shape of = shape_of(g, use);
    const matmul *s = find_slot(h, &of);
    AX_CHECK(s && s->primitive, AX_EINTERNAL, "oneDNN: a product of one thread was not made ready");
    void *weights = use->layout == AX_ONEDNN_PLAIN ? g->b.data : room.packed;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->memory[SOURCE]},
                              {DNNL_ARG_WEIGHTS, s->memory[WEIGHTS]},
                              {DNNL_ARG_DST, s->memory[RESULT]},
                              {DNNL_ARG_SCRATCHPAD, s->memory[SCRATCH]}};
    return execute(h, s, s->primitive, 4, args,
                   (void *const[]){g->a.data, weights, g->c.data, room.scratch});
}

// ---- the usual one ----

bool ax_onednn_has_matmul(ax_onednn *h, const ax_gemm_args *g, size_t *scratch)
{
    ax_onednn_need need;
    bool has = ax_onednn_has(h, g, &(ax_onednn_use){0}, &need);
    *scratch = need.scratch;
    return has;
}

ax_status ax_onednn_matmul(ax_onednn *h, const ax_gemm_args *g, void *scratch)
{
    return ax_onednn_run(h, g, &(ax_onednn_use){0}, (ax_onednn_room){.scratch = scratch});
}

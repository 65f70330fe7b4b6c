#include "dev/kern.h"

#include <string.h>

// ---- checks, made once for every backend ----

enum {
    F32 = 1 << AX_F32,
    F64 = 1 << AX_F64,
    BF16 = 1 << AX_BF16,
    I32 = 1 << AX_I32,
    ACC = F32 | F64,
    ACT = F32 | F64 | BF16,
};
enum { ANY = -1 };

static ax_dtype acc_of(ax_dtype act)
{
    return act == AX_F64 ? AX_F64 : AX_F32;
}

static unsigned only(ax_dtype dtype)
{
    return 1u << dtype;
}

static unsigned act_or_acc(ax_dtype act)
{
    return only(act) | only(acc_of(act));
}

// Activation dtypes that go with an accumulation dtype.
static unsigned act_of(ax_dtype acc)
{
    return acc == AX_F64 ? F64 : F32 | BF16;
}

static ax_status want(const char *kern, const char *name, ax_tensor t, int64_t rows, int64_t cols,
                      unsigned dtypes)
{
    AX_CHECK((unsigned)t.dtype <= AX_I32 && dtypes & only(t.dtype), AX_EINTERNAL,
             "%s: no kernel for a %s of dtype %s beside these operands", kern, name,
             (unsigned)t.dtype <= AX_I32 ? ax_dtype_name(t.dtype) : "?");
    AX_CHECK(t.rows >= 0 && t.cols >= 0 && (rows == ANY || t.rows == rows) &&
                 (cols == ANY || t.cols == cols),
             AX_EINTERNAL, "%s: %s is %lld x %lld, wanted %lld x %lld (-1: any)", kern, name,
             (long long)t.rows, (long long)t.cols, (long long)rows, (long long)cols);
    AX_CHECK(t.rows <= 1 || t.stride >= t.cols, AX_EINTERNAL,
             "%s: rows of %s overlap: stride %lld, %lld columns", kern, name, (long long)t.stride,
             (long long)t.cols);
    AX_CHECK(t.data || t.rows == 0 || t.cols == 0, AX_EINTERNAL, "%s: %s has no memory", kern,
             name);
    return AX_OK;
}

static ax_status want_like(const char *kern, const char *name, ax_tensor t, ax_tensor like)
{
    return want(kern, name, t, like.rows, like.cols, only(like.dtype));
}

static void poll(ax_device *dev)
{
    if (dev->poll)
        dev->poll(dev->poll_ctx);
}

static void note(ax_device *dev, const char *slot, const int64_t size[3], double begin_s)
{
    ax_timeline_add(dev->timeline, &(ax_timeline_span){.name = slot,
                                                       .kind = AX_TIME_KERNEL,
                                                       .size = {size[0], size[1], size[2]},
                                                       .begin_s = begin_s,
                                                       .end_s = ax_clock_s()});
}

// The end of every public call; sizes are those of a span of the timeline.
#define RUN_SIZED(slot, rows, cols, depth, ...)                                                    \
    do {                                                                                           \
        if (dev->measuring) {                                                                      \
            if (dev->timeline)                                                                     \
                dev->timeline->lost++;                                                             \
            return AX_OK;                                                                          \
        }                                                                                          \
        double begin_s = dev->timeline ? ax_clock_s() : 0;                                         \
        AX_TRY(dev->kern->slot(dev, __VA_ARGS__));                                                 \
        if (dev->timeline)                                                                         \
            note(dev, #slot, (int64_t[3]){rows, cols, depth}, begin_s);                            \
        poll(dev);                                                                                 \
        return AX_OK;                                                                              \
    } while (0)
#define RUN(slot, like, ...) RUN_SIZED(slot, (like).rows, (like).cols, 0, __VA_ARGS__)

static ax_status reserve(ax_device *dev, const char *kern, size_t bytes)
{
    if (bytes > dev->workspace_need)
        dev->workspace_need = bytes;
    AX_CHECK(dev->measuring || bytes <= dev->workspace_size, AX_EINTERNAL,
             "%s: needs %zu bytes of workspace, the device has %zu: measure, then ax_device_grow",
             kern, bytes, dev->workspace_size);
    return AX_OK;
}

// ---- gemm ----

static ax_status check_gemm(const ax_gemm_args *g, int64_t *m, int64_t *n, int64_t *k)
{
    *m = g->ta == AX_N ? g->a.rows : g->a.cols;
    *k = g->ta == AX_N ? g->a.cols : g->a.rows;
    *n = g->tb == AX_N ? g->b.cols : g->b.rows;
    AX_TRY(want("gemm", "a", g->a, ANY, ANY, ACT));
    AX_TRY(want("gemm", "b", g->b, g->tb == AX_N ? *k : *n, g->tb == AX_N ? *n : *k,
                only(g->a.dtype)));
    AX_TRY(want("gemm", "c", g->c, *m, *n, act_or_acc(g->a.dtype)));
    AX_CHECK(g->beta == 0 || g->beta == 1, AX_EINTERNAL, "gemm: beta is %g, wanted 0 or 1",
             g->beta);
    return AX_OK;
}

ax_status ax_gemm(ax_device *dev, const ax_gemm_args *g)
{
    int64_t m, n, k;
    AX_TRY(check_gemm(g, &m, &n, &k));
    AX_TRY(reserve(dev, "gemm", dev->kern->gemm_workspace(dev, g)));
    dev->matmul_flops += 2.0 * (double)m * (double)n * (double)k;
    RUN_SIZED(gemm, m, n, k, g);
}

// ---- attention ----

static ax_status check_heads(const char *kern, int64_t heads, int64_t kv_heads, int64_t head_dim)
{
    AX_CHECK(head_dim > 0 && kv_heads > 0 && heads > 0 && heads % kv_heads == 0, AX_EINTERNAL,
             "%s: %lld heads do not share %lld kv heads of size %lld", kern, (long long)heads,
             (long long)kv_heads, (long long)head_dim);
    AX_CHECK(head_dim <= AX_HEAD_DIM_MAX, AX_EUNSUPPORTED,
             "model.head_dim=%lld: attention is built for at most %d", (long long)head_dim,
             AX_HEAD_DIM_MAX);
    return AX_OK;
}

static ax_status check_attention(const char *kern, const ax_attention_args *g)
{
    int64_t rows = g->sequences * g->seq, q = g->heads * g->head_dim;
    int64_t kv = g->kv_heads * g->head_dim;
    AX_TRY(check_heads(kern, g->heads, g->kv_heads, g->head_dim));
    AX_CHECK(g->sequences >= 0 && g->seq >= 0, AX_EINTERNAL, "%s: %lld sequences of %lld rows",
             kern, (long long)g->sequences, (long long)g->seq);
    AX_TRY(want(kern, "q", g->q, rows, q, ACT));
    AX_TRY(want(kern, "k", g->k, rows, kv, only(g->q.dtype)));
    AX_TRY(want(kern, "v", g->v, rows, kv, only(g->q.dtype)));
    AX_TRY(want(kern, "out", g->out, rows, q, only(g->q.dtype)));
    if (g->positions.data)
        AX_TRY(want(kern, "positions", g->positions, 1, rows, I32));
    return want(kern, "lse", g->lse, rows, g->heads, only(acc_of(g->q.dtype)));
}

// Matmul flops of the two products of the forward pass, the masked half left out.
static double attention_flops(const ax_attention_args *g)
{
    double seq = (double)g->seq, pairs = seq * (seq + 1) / 2; // of a query and what it sees
    return 4 * (double)g->sequences * (double)g->heads * (double)g->head_dim * pairs;
}

ax_status ax_attention_fwd(ax_device *dev, const ax_attention_args *g)
{
    AX_TRY(check_attention("attention_fwd", g));
    AX_TRY(reserve(dev, "attention_fwd", dev->kern->attention_workspace(dev, g)));
    dev->matmul_flops += attention_flops(g);
    RUN(attention_fwd, g->q, g);
}

ax_status ax_attention_bwd(ax_device *dev, const ax_attention_args *g)
{
    AX_TRY(check_attention("attention_bwd", g));
    AX_TRY(want_like("attention_bwd", "dout", g->dout, g->q));
    AX_TRY(want_like("attention_bwd", "dq", g->dq, g->q));
    AX_TRY(want_like("attention_bwd", "dk", g->dk, g->k));
    AX_TRY(want_like("attention_bwd", "dv", g->dv, g->v));
    AX_TRY(reserve(dev, "attention_bwd", dev->kern->attention_workspace(dev, g)));
    dev->matmul_flops += 2.5 * attention_flops(g); // five products where forward has two
    RUN(attention_bwd, g->q, g);
}

ax_status ax_attention_cached(ax_device *dev, const ax_attention_cached_args *g)
{
    const char *kern = "attention_cached";
    int64_t rows = g->sequences * g->queries, kept = g->sequences * g->kv_heads * g->room;
    AX_TRY(check_heads(kern, g->heads, g->kv_heads, g->head_dim));
    AX_CHECK(g->sequences >= 0 && g->queries > 0 && g->room >= g->queries, AX_EINTERNAL,
             "%s: %lld queries of %lld sequences in room for %lld keys", kern,
             (long long)g->queries, (long long)g->sequences, (long long)g->room);
    AX_TRY(want(kern, "q", g->q, rows, g->heads * g->head_dim, ACT));
    AX_TRY(want(kern, "k", g->k, kept, g->head_dim, only(g->q.dtype)));
    AX_TRY(want(kern, "v", g->v, kept, g->head_dim, only(g->q.dtype)));
    AX_TRY(want(kern, "lengths", g->lengths, 1, g->sequences, I32));
    AX_TRY(want_like(kern, "out", g->out, g->q));
    AX_TRY(reserve(dev, kern, dev->kern->attention_cached_workspace(dev, g)));
    dev->matmul_flops +=
        4 * (double)rows * (double)g->heads * (double)g->head_dim * (double)g->room;
    RUN(attention_cached, g->q, g);
}

// ---- norms ----

static int64_t row_sums(const ax_norm_args *g)
{
    return g->kind == AX_LAYERNORM ? 2 : 1;
}

static ax_status check_norm(const char *kern, const ax_norm_args *g)
{
    AX_TRY(want(kern, "x", g->x, ANY, ANY, ACC));
    AX_TRY(want(kern, "sums", g->sums, g->x.rows, row_sums(g), only(g->x.dtype)));
    AX_CHECK(g->width >= g->x.cols && g->width > 0, AX_EINTERNAL,
             "%s: %lld columns of a width of %lld", kern, (long long)g->x.cols,
             (long long)g->width);
    return AX_OK;
}

static ax_status check_norm_bwd(const char *kern, const ax_norm_args *g)
{
    AX_TRY(check_norm(kern, g));
    AX_TRY(want(kern, "w", g->w, 1, g->x.cols, only(g->x.dtype)));
    AX_TRY(want(kern, "dy", g->dy, g->x.rows, g->x.cols, act_of(g->x.dtype)));
    return want(kern, "dsums", g->dsums, g->x.rows, row_sums(g), only(g->x.dtype));
}

ax_status ax_norm_sums(ax_device *dev, const ax_norm_args *g)
{
    AX_TRY(check_norm("norm_sums", g));
    RUN(norm_sums, g->x, g);
}

ax_status ax_norm_fwd(ax_device *dev, const ax_norm_args *g)
{
    AX_TRY(check_norm("norm_fwd", g));
    AX_TRY(want("norm_fwd", "w", g->w, 1, g->x.cols, only(g->x.dtype)));
    if (g->b.data)
        AX_TRY(want_like("norm_fwd", "b", g->b, g->w));
    AX_CHECK(!g->b.data || g->kind == AX_LAYERNORM, AX_EINTERNAL,
             "norm_fwd: an RMSNorm has no bias");
    AX_TRY(want("norm_fwd", "y", g->y, g->x.rows, g->x.cols, act_of(g->x.dtype)));
    RUN(norm_fwd, g->x, g);
}

ax_status ax_norm_bwd_sums(ax_device *dev, const ax_norm_args *g)
{
    AX_TRY(check_norm_bwd("norm_bwd_sums", g));
    RUN(norm_bwd_sums, g->x, g);
}

ax_status ax_norm_bwd(ax_device *dev, const ax_norm_args *g)
{
    AX_TRY(check_norm_bwd("norm_bwd", g));
    AX_TRY(want_like("norm_bwd", "dx", g->dx, g->x));
    AX_TRY(want_like("norm_bwd", "dw", g->dw, g->w));
    if (g->db.data)
        AX_TRY(want_like("norm_bwd", "db", g->db, g->w));
    RUN(norm_bwd, g->x, g);
}

// ---- rope, activations, bias ----

ax_status ax_rope(ax_device *dev, ax_tensor x, ax_tensor positions, ax_tensor inv_freq,
                  int64_t head_dim, int direction)
{
    AX_CHECK(head_dim > 0 && head_dim % 2 == 0 && head_dim <= AX_HEAD_DIM_MAX &&
                 x.cols % head_dim == 0,
             AX_EINTERNAL, "rope: %lld columns are no heads of %lld (even, at most %d)",
             (long long)x.cols, (long long)head_dim, AX_HEAD_DIM_MAX);
    AX_CHECK(direction == 1 || direction == -1, AX_EINTERNAL, "rope: direction is %d, not 1 or -1",
             direction);
    AX_TRY(want("rope", "x", x, ANY, ANY, ACT));
    AX_TRY(want("rope", "positions", positions, 1, x.rows, I32));
    AX_TRY(want("rope", "inv_freq", inv_freq, 1, head_dim / 2, only(acc_of(x.dtype))));
    RUN(rope, x, x, positions, inv_freq, head_dim, direction);
}

ax_status ax_gelu_fwd(ax_device *dev, ax_tensor x, ax_tensor y)
{
    AX_TRY(want("gelu_fwd", "x", x, ANY, ANY, ACT));
    AX_TRY(want_like("gelu_fwd", "y", y, x));
    RUN(gelu_fwd, x, x, y);
}

ax_status ax_gelu_bwd(ax_device *dev, ax_tensor x, ax_tensor dy, ax_tensor dx)
{
    AX_TRY(want("gelu_bwd", "x", x, ANY, ANY, ACT));
    AX_TRY(want_like("gelu_bwd", "dy", dy, x));
    AX_TRY(want_like("gelu_bwd", "dx", dx, x));
    RUN(gelu_bwd, x, x, dy, dx);
}

ax_status ax_swiglu_fwd(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor y)
{
    AX_TRY(want("swiglu_fwd", "gate", gate, ANY, ANY, ACT));
    AX_TRY(want_like("swiglu_fwd", "up", up, gate));
    AX_TRY(want_like("swiglu_fwd", "y", y, gate));
    RUN(swiglu_fwd, gate, gate, up, y);
}

ax_status ax_swiglu_bwd(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor dy, ax_tensor dgate,
                        ax_tensor dup)
{
    AX_TRY(want("swiglu_bwd", "gate", gate, ANY, ANY, ACT));
    AX_TRY(want_like("swiglu_bwd", "up", up, gate));
    AX_TRY(want_like("swiglu_bwd", "dy", dy, gate));
    AX_TRY(want_like("swiglu_bwd", "dgate", dgate, gate));
    AX_TRY(want_like("swiglu_bwd", "dup", dup, gate));
    RUN(swiglu_bwd, gate, gate, up, dy, dgate, dup);
}

ax_status ax_bias_fwd(ax_device *dev, ax_tensor y, ax_tensor b)
{
    AX_TRY(want("bias_fwd", "y", y, ANY, ANY, ACT));
    AX_TRY(want("bias_fwd", "b", b, 1, y.cols, only(acc_of(y.dtype))));
    RUN(bias_fwd, y, y, b);
}

ax_status ax_bias_bwd(ax_device *dev, ax_tensor dy, ax_tensor db)
{
    AX_TRY(want("bias_bwd", "dy", dy, ANY, ANY, ACT));
    AX_TRY(want("bias_bwd", "db", db, 1, dy.cols, only(acc_of(dy.dtype))));
    RUN(bias_bwd, dy, dy, db);
}

// ---- embedding and loss ----

ax_status ax_embed_fwd(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor table, ax_tensor x)
{
    AX_TRY(want("embed_fwd", "ids", ids, 1, ANY, I32));
    AX_TRY(want("embed_fwd", "table", table, ANY, ANY, ACT));
    unsigned dtypes = table.dtype == AX_F64 ? F64 : F32 | BF16;
    AX_TRY(want("embed_fwd", "x", x, ids.cols, table.cols, dtypes));
    RUN(embed_fwd, x, ids, first, table, x);
}

ax_status ax_embed_bwd(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor dx, ax_tensor dtable)
{
    AX_TRY(want("embed_bwd", "ids", ids, 1, ANY, I32));
    AX_TRY(want("embed_bwd", "dx", dx, ids.cols, ANY, ACT));
    AX_TRY(want("embed_bwd", "dtable", dtable, ANY, dx.cols, only(acc_of(dx.dtype))));
    RUN(embed_bwd, dx, ids, first, dx, dtable);
}

static ax_status check_xent(const char *kern, const ax_xent_args *g)
{
    AX_TRY(want(kern, "logits", g->logits, ANY, ANY, ACC));
    return want(kern, "max", g->max, 1, g->logits.rows, only(g->logits.dtype));
}

static ax_status check_xent_sums(const char *kern, const ax_xent_args *g)
{
    AX_TRY(check_xent(kern, g));
    AX_TRY(want(kern, "targets", g->targets, 1, g->logits.rows, I32));
    return want(kern, "sums", g->sums, g->logits.rows, 2, only(g->logits.dtype));
}

ax_status ax_xent_max(ax_device *dev, const ax_xent_args *g)
{
    AX_TRY(check_xent("xent_max", g));
    RUN(xent_max, g->logits, g);
}

ax_status ax_xent_sums(ax_device *dev, const ax_xent_args *g)
{
    AX_TRY(check_xent_sums("xent_sums", g));
    RUN(xent_sums, g->logits, g);
}

ax_status ax_xent_bwd(ax_device *dev, const ax_xent_args *g)
{
    AX_TRY(check_xent_sums("xent_bwd", g));
    AX_TRY(want("xent_bwd", "dlogits", g->dlogits, g->logits.rows, g->logits.cols,
                act_of(g->logits.dtype)));
    RUN(xent_bwd, g->logits, g);
}

// ---- optimizer, copies and sums ----

ax_status ax_adamw(ax_device *dev, const ax_adamw_args *g)
{
    AX_TRY(want("adamw", "master", g->master, ANY, ANY, ACC));
    AX_TRY(want_like("adamw", "m", g->m, g->master));
    AX_TRY(want_like("adamw", "v", g->v, g->master));
    AX_TRY(want_like("adamw", "grad", g->grad, g->master));
    AX_TRY(want("adamw", "weight", g->weight, g->master.rows, g->master.cols,
                act_of(g->master.dtype)));
    AX_CHECK(g->master.rows <= 1, AX_EINTERNAL, "adamw: a run of elements has one row, not %lld",
             (long long)g->master.rows);
    RUN(adamw, g->master, g);
}

ax_status ax_copy(ax_device *dev, ax_tensor x, ax_tensor y)
{
    AX_TRY(want("copy", "x", x, ANY, ANY, ACT));
    AX_TRY(want("copy", "y", y, x.rows, x.cols, ACT));
    RUN(copy, x, x, y);
}

ax_status ax_add(ax_device *dev, ax_tensor x, ax_tensor y)
{
    AX_TRY(want("add", "x", x, ANY, ANY, ACT));
    AX_TRY(want("add", "y", y, x.rows, x.cols, ACT));
    RUN(add, x, x, y);
}

ax_status ax_fill(ax_device *dev, ax_tensor x, double value)
{
    AX_TRY(want("fill", "x", x, ANY, ANY, ACT));
    RUN(fill, x, x, value);
}

ax_status ax_square_sum(ax_device *dev, ax_tensor x, double out[2])
{
    AX_TRY(want("square_sum", "x", x, ANY, ANY, ACT));
    RUN(square_sum, x, x, out);
}

const char *const *ax_kern_slots(void)
{
    static const char *const slots[] = {
        "gemm",          "attention_fwd",
        "attention_bwd", "attention_cached",
        "norm_sums",     "norm_fwd",
        "norm_bwd_sums", "norm_bwd",
        "rope",          "gelu_fwd",
        "gelu_bwd",      "swiglu_fwd",
        "swiglu_bwd",    "bias_fwd",
        "bias_bwd",      "embed_fwd",
        "embed_bwd",     "xent_max",
        "xent_sums",     "xent_bwd",
        "adamw",         "copy",
        "add",           "fill",
        "square_sum",    NULL,
    };
    return slots;
}

const char *ax_kern_name(const ax_device *dev, const char *slot)
{
    for (const char *const *known = ax_kern_slots(); *known; known++)
        if (strcmp(*known, slot) == 0)
            return dev->ops->kern_name(dev, slot);
    return NULL;
}

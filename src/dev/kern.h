// The kernels. A public call checks shapes and dtypes once, then dispatches through the table of
// the device; `ref` defines the meaning, other backends override what pays.
//
// Letters: m token rows, k in, n out, H width, T tokens of a sequence, A query heads, K kv heads,
// D head size. Dtypes: "act" is the activation dtype (f32, f64, bf16), "acc" its accumulation
// dtype (f64 for f64, else f32). A tensor's dtype decides; combinations not named are refused
// with AX_EINTERNAL. All kernels accept strided rows unless they say packed. Empty tensors are
// legal.
// "+=" marks outputs that are added to.
#pragma once
#include "dev/device.h"

// Scalars of one step, read through a pointer so that a device never waits for the host.
typedef struct ax_step_scalars {
    double lr, beta1, beta2, eps;
    double bias1, bias2; // 1 - beta^step
    double grad_scale;   // clip factor: gradients are multiplied by it on reading
} ax_step_scalars;

typedef enum ax_trans {
    AX_N,
    AX_T,
} ax_trans;

struct ax_gemm_args { // c (m, n) = op(a) (m, k) * op(b) (k, n) + beta * c
    ax_trans ta, tb;
    ax_tensor a, b, c; // a, b act; c act or acc
    double beta;       // 0 (c need not be initialised) or 1
};

enum { AX_HEAD_DIM_MAX = 256 }; // larger heads are refused (AX_EUNSUPPORTED)

// Causal self-attention over `sequences` sequences of T rows: for each head, softmax(q k^T * scale
// + causal mask) v. Query head h reads kv head h / (heads / kv_heads). With positions, row i of a
// sequence sees its rows [i - positions[i], i] alone: attention stays inside documents. Flops are
// counted as without.
typedef struct ax_attention_args {
    int64_t sequences, seq; // rows = sequences * seq
    int64_t heads, kv_heads, head_dim;
    double scale;
    ax_tensor q, k, v;    // (rows, heads*D), (rows, kv_heads*D) x2; act; strided views of one qkv
    ax_tensor out;        // (rows, heads*D) act: written by fwd, read by bwd
    ax_tensor lse;        // (rows, heads) acc: log of the sum of exponentials; written by fwd
    ax_tensor dout;       // bwd: (rows, heads*D) act
    ax_tensor dq, dk, dv; // bwd: written
    ax_tensor positions;  // (1, rows) i32, 0 <= positions[i] <= i in its sequence; no data: causal
} ax_attention_args;

// Attention of a few queries against the keys and values that were kept of their sequences: softmax
// (q k^T * scale) v. The queries of a sequence are its last rows, the keys of them included: query
// i sees keys [0, lengths - queries + i]. Flops are counted as if every sequence filled its room.
typedef struct ax_attention_cached_args {
    int64_t sequences, queries; // rows = sequences * queries
    int64_t heads, kv_heads, head_dim;
    int64_t room; // rows of k and v that belong to a sequence and kv head
    double scale;
    ax_tensor q;       // (rows, heads*D) act
    ax_tensor k, v;    // (sequences*kv_heads*room, D) act: key j of kv head h of sequence s is row
                       // (s*kv_heads + h)*room + j
    ax_tensor lengths; // (1, sequences) i32, queries <= lengths[s] <= room: its keys
    ax_tensor out;     // (rows, heads*D) act: written
} ax_attention_cached_args;

typedef enum ax_norm_kind {
    AX_LAYERNORM, // (x - mean) / sqrt(var + eps) * w + b
    AX_RMSNORM,   // x / sqrt(mean(x^2) + eps) * w
} ax_norm_kind;

// The columns at hand may be a slice of the width: row sums are made by *_sums, added over the
// axis that cuts the width by the caller, and finished with `width`, the whole width. `sums` are
// made in double and rounded once to acc; var = E[x^2] - mean^2 still has a relative error of about
// 2^-23 (mean / std)^2 in f32: where the mean is 1000 times the spread, a tenth of it.
typedef struct ax_norm_args {
    ax_norm_kind kind;
    int64_t width; // whole H
    double eps;
    ax_tensor x;      // (m, cols) acc
    ax_tensor w, b;   // (1, cols) acc; b.data NULL: no bias (always for RMSNorm)
    ax_tensor sums;   // acc. LayerNorm: (m, 2) {sum x^2, sum x}; RMSNorm: (m, 1) {sum x^2}
    ax_tensor y;      // fwd: (m, cols) act
    ax_tensor dy;     // bwd: (m, cols) act
    ax_tensor dsums;  // bwd: acc. LayerNorm: (m, 2) {sum dy*w*xhat, sum dy*w}; RMSNorm: (m, 1)
                      // {sum dy*w*xhat}; xhat = (x - mean) / sqrt(var + eps)
    ax_tensor dx;     // bwd: (m, cols) acc, +=
    ax_tensor dw, db; // bwd: (1, cols) acc, +=; db.data NULL: none
} ax_norm_args;

// Softmax cross-entropy pieces over one slice of the vocabulary: columns [first, first + cols) of
// the padded vocabulary, of which those >= vocab are padding: they count as -inf.
typedef struct ax_xent_args {
    int64_t first, vocab;
    ax_tensor logits;  // (rows, cols) acc
    ax_tensor targets; // (1, rows) i32; < 0: this row does not count
    ax_tensor max;  // (1, rows) acc: max kernel writes the slice's; the others read the global one
    ax_tensor sums; // (rows, 2) acc: {sum of exp(l - max), target logit if here, else 0}
    double scale;   // bwd: 1/N
    ax_tensor dlogits; // (rows, cols) act: written; 0 in rows that do not count and in padding
} ax_xent_args;

typedef struct ax_adamw_args { // one run of elements, packed rows of 1 x count
    const ax_step_scalars *step;
    double weight_decay; // 0 for parameters that are not decayed
    ax_tensor master;    // acc: updated
    ax_tensor m, v;      // acc: updated
    ax_tensor grad;      // acc: read
    ax_tensor weight;    // act or acc: the new weight, rounded; may be master itself
} ax_adamw_args;

struct ax_kern {
    // c = op(a) op(b) + beta c. workspace: bytes this call wants in dev->workspace.
    ax_status (*gemm)(ax_device *dev, const ax_gemm_args *g);
    size_t (*gemm_workspace)(const ax_device *dev, const ax_gemm_args *g);
    ax_status (*attention_fwd)(ax_device *dev, const ax_attention_args *g);
    ax_status (*attention_bwd)(ax_device *dev, const ax_attention_args *g);
    size_t (*attention_workspace)(const ax_device *dev, const ax_attention_args *g);
    ax_status (*attention_cached)(ax_device *dev, const ax_attention_cached_args *g);
    size_t (*attention_cached_workspace)(const ax_device *dev, const ax_attention_cached_args *g);
    ax_status (*norm_sums)(ax_device *dev, const ax_norm_args *g);
    ax_status (*norm_fwd)(ax_device *dev, const ax_norm_args *g);
    ax_status (*norm_bwd_sums)(ax_device *dev, const ax_norm_args *g);
    ax_status (*norm_bwd)(ax_device *dev, const ax_norm_args *g);
    // x (m, heads*D) act in place: rotate pair (i, i + D/2) of each head by angle
    // position * inv_freq[i]; direction -1 undoes it (the backward pass).
    ax_status (*rope)(ax_device *dev, ax_tensor x, ax_tensor positions, ax_tensor inv_freq,
                      int64_t head_dim, int direction);
    // y = gelu(x), tanh form ("gelu_new").  dx = dy * gelu'(x).
    ax_status (*gelu_fwd)(ax_device *dev, ax_tensor x, ax_tensor y);
    ax_status (*gelu_bwd)(ax_device *dev, ax_tensor x, ax_tensor dy, ax_tensor dx);
    // y = silu(gate) * up, and its two gradients.
    ax_status (*swiglu_fwd)(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor y);
    ax_status (*swiglu_bwd)(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor dy,
                            ax_tensor dgate, ax_tensor dup);
    // y (m, n) += row vector b (1, n) acc.   db (1, n) acc += column sums of dy (m, n).
    ax_status (*bias_fwd)(ax_device *dev, ax_tensor y, ax_tensor b);
    ax_status (*bias_bwd)(ax_device *dev, ax_tensor dy, ax_tensor db);
    // x row i = table row ids[i] - first where it lies in [0, table.rows), else 0.
    ax_status (*embed_fwd)(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor table,
                           ax_tensor x);
    // dtable (acc) row ids[i] - first += dx row i, rows outside left out; a fixed order of sums.
    ax_status (*embed_bwd)(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor dx,
                           ax_tensor dtable);
    ax_status (*xent_max)(ax_device *dev, const ax_xent_args *g);
    ax_status (*xent_sums)(ax_device *dev, const ax_xent_args *g);
    ax_status (*xent_bwd)(ax_device *dev, const ax_xent_args *g); // reads max and sums, both global
    ax_status (*adamw)(ax_device *dev, const ax_adamw_args *g);
    // y = x (any of f32, f64, bf16 to any).  y += x likewise.  Same shape, rows may be strided.
    ax_status (*copy)(ax_device *dev, ax_tensor x, ax_tensor y);
    ax_status (*add)(ax_device *dev, ax_tensor x, ax_tensor y);
    ax_status (*fill)(ax_device *dev, ax_tensor x, double value);
    // out[0] += sum of squares in double, out[1] += number of non-finite elements (not squared in).
    ax_status (*square_sum)(ax_device *dev, ax_tensor x, double out[2]);
};

// The public calls: validate, count flops, poll, and (unless the device measures) dispatch.
ax_status ax_gemm(ax_device *dev, const ax_gemm_args *g);
ax_status ax_attention_fwd(ax_device *dev, const ax_attention_args *g);
ax_status ax_attention_bwd(ax_device *dev, const ax_attention_args *g);
ax_status ax_attention_cached(ax_device *dev, const ax_attention_cached_args *g);
ax_status ax_norm_sums(ax_device *dev, const ax_norm_args *g);
ax_status ax_norm_fwd(ax_device *dev, const ax_norm_args *g);
ax_status ax_norm_bwd_sums(ax_device *dev, const ax_norm_args *g);
ax_status ax_norm_bwd(ax_device *dev, const ax_norm_args *g);
// positions (1, m) i32; inv_freq (1, D/2) acc.
ax_status ax_rope(ax_device *dev, ax_tensor x, ax_tensor positions, ax_tensor inv_freq,
                  int64_t head_dim, int direction);
ax_status ax_gelu_fwd(ax_device *dev, ax_tensor x, ax_tensor y);
ax_status ax_gelu_bwd(ax_device *dev, ax_tensor x, ax_tensor dy, ax_tensor dx);
ax_status ax_swiglu_fwd(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor y);
ax_status ax_swiglu_bwd(ax_device *dev, ax_tensor gate, ax_tensor up, ax_tensor dy, ax_tensor dgate,
                        ax_tensor dup);
ax_status ax_bias_fwd(ax_device *dev, ax_tensor y, ax_tensor b);
ax_status ax_bias_bwd(ax_device *dev, ax_tensor dy, ax_tensor db);
// ids (1, m) i32; table (rows, cols) act or acc; x (m, cols) act or acc.
ax_status ax_embed_fwd(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor table, ax_tensor x);
ax_status ax_embed_bwd(ax_device *dev, ax_tensor ids, int64_t first, ax_tensor dx,
                       ax_tensor dtable);
ax_status ax_xent_max(ax_device *dev, const ax_xent_args *g);
ax_status ax_xent_sums(ax_device *dev, const ax_xent_args *g);
ax_status ax_xent_bwd(ax_device *dev, const ax_xent_args *g);
ax_status ax_adamw(ax_device *dev, const ax_adamw_args *g);
ax_status ax_copy(ax_device *dev, ax_tensor x, ax_tensor y);
ax_status ax_add(ax_device *dev, ax_tensor x, ax_tensor y);
ax_status ax_fill(ax_device *dev, ax_tensor x, double value);
ax_status ax_square_sum(ax_device *dev, ax_tensor x, double out[2]);

// Names of the slots that compute, in the order of the table, NULL-terminated.
const char *const *ax_kern_slots(void);
// Name of what runs a slot on this device, for info and traces ("gemm": "onednn sgemm"); NULL:
// there is no such slot.
const char *ax_kern_name(const ax_device *dev, const char *slot);

// The reference: other backends take from it what they do not override.
extern const ax_kern ax_kern_ref;

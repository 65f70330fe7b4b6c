#include "nn/linear.h"

void ax_linear_init(ax_nn *nn, ax_linear *l, const ax_linear_config *config)
{
    const ax_grid *g = nn->grid;
    int parts = 0;
    while (parts < AX_SLAB_PARTS && config->weights[parts])
        parts++;
    *l = (ax_linear){.transposed = config->transposed};
    ax_slab_init(&l->slab, config->index, parts, config->weights);
    for (int i = 0; i < parts; i++)
        l->bias[i] = config->biases[i];

    ax_side_spec outer = {.side = nn->layout.outer,
                          .comm = g->x,
                          .tag_gather = "rows outer",
                          .tag_scatter = "sum outer",
                          .parts = 1};
    ax_side_spec inner = {.side = config->inner,
                          .comm = g->y,
                          .tag_gather = "rows inner",
                          .tag_scatter = "sum inner",
                          .parts = 1};
    l->in = config->transposed ? inner : outer;
    l->out = config->transposed ? outer : inner;
    l->in.part[0] = l->slab.cols;
    l->out.parts = parts;
    for (int i = 0; i < parts; i++)
        l->out.part[i] = l->slab.param[i]->block_rows;
}

void ax_linear_hold(ax_linear *l, ax_side outer, ax_side inner)
{
    l->in.side = l->transposed ? inner : outer;
    l->out.side = l->transposed ? outer : inner;
}

// The columns of part `i` held here, and the entries of its bias that belong to them.
static void bias_view(const ax_linear *l, int i, ax_tensor *y, ax_tensor *b)
{
    int64_t share = l->out.part[i], first = 0, from = 0;
    if (l->out.side == AX_SIDE_HEADS) {
        share /= l->out.comm->size;
        from = l->out.comm->rank * share;
    }
    for (int k = 0; k < i; k++)
        first += l->out.part[k] / (l->out.part[i] / share);
    *y = ax_tensor_cols(*y, first, share);
    *b = ax_tensor_cols(*b, from, share);
}

static ax_status add_bias(ax_nn *nn, const ax_linear *l, ax_tensor out)
{
    for (int i = 0; i < l->slab.parts; i++) {
        if (!l->bias[i])
            continue;
        ax_tensor y = out, b = l->bias[i]->weight;
        bias_view(l, i, &y, &b);
        AX_TRY(ax_bias_fwd(nn->dev, y, b));
    }
    return AX_OK;
}

static ax_status add_bias_grads(ax_nn *nn, const ax_linear *l, ax_tensor dout)
{
    for (int i = 0; i < l->slab.parts; i++) {
        if (!l->bias[i])
            continue;
        ax_tensor dy = dout, db = l->bias[i]->grad;
        bias_view(l, i, &dy, &db);
        AX_TRY(ax_bias_bwd(nn->dev, dy, db));
    }
    return AX_OK;
}

ax_status ax_linear_fwd(ax_nn *nn, ax_linear *l, ax_tensor in, ax_tensor out, ax_tensor *kept)
{
    size_t mark = ax_arena_mark(nn->call);
    bool keep = nn->keep_gathered && kept && !ax_side_is_whole(&l->in);
    ax_flow rows, sum;
    ax_tensor whole, w, partial;
    AX_TRY(ax_side_gather_begin(nn, &l->in, in, keep ? nn->step : nn->call, &rows));
    AX_TRY(ax_weights_get(nn, &l->slab, &w));
    AX_TRY(ax_side_gather_end(nn, &l->in, &rows, &whole));
    AX_TRY(ax_side_partial(nn, &l->out, out, &partial));
    AX_TRY(ax_gemm(nn->dev, &(ax_gemm_args){.tb = AX_T, .a = whole, .b = w, .c = partial}));
    AX_TRY(ax_weights_done(nn, &l->slab));
    AX_TRY(ax_side_scatter_begin(nn, &l->out, partial, out, &sum));
    AX_TRY(ax_side_scatter_end(nn, &sum));
    AX_TRY(add_bias(nn, l, out));
    ax_arena_release(nn->call, mark);
    if (kept)
        *kept = keep ? whole : (ax_tensor){0};
    return AX_OK;
}

typedef struct backward { // one layer's backward pass, between its two matmuls
    ax_tensor dout, in;   // whole: (m, n/Gout), (m, k/Gin)
    ax_tensor din;        // as held
    ax_tensor partial;
    ax_flow rows, sum;
} backward;

static ax_status input_grad_begin(ax_nn *nn, ax_linear *l, backward *b)
{
    ax_tensor w;
    AX_TRY(ax_weights_get(nn, &l->slab, &w));
    AX_TRY(ax_side_partial(nn, &l->in, b->din, &b->partial));
    AX_TRY(ax_gemm(nn->dev, &(ax_gemm_args){.a = b->dout, .b = w, .c = b->partial}));
    AX_TRY(ax_weights_done(nn, &l->slab));
    AX_TRY(ax_side_scatter_begin(nn, &l->in, b->partial, b->din, &b->sum));
    return nn->overlap & AX_OAR ? AX_OK : ax_side_scatter_end(nn, &b->sum);
}

static ax_status weight_grad(ax_nn *nn, ax_linear *l, backward *b)
{
    ax_tensor dw;
    double beta;
    AX_TRY(ax_grads_open(nn, &l->slab, &dw, &beta));
    AX_TRY(ax_gemm(nn->dev,
                   &(ax_gemm_args){.ta = AX_T, .a = b->dout, .b = b->in, .c = dw, .beta = beta}));
    return ax_grads_close(nn, &l->slab);
}

static ax_status input_again_begin(ax_nn *nn, ax_linear *l, ax_tensor in, ax_tensor kept,
                                   backward *b)
{
    if (kept.data) {
        b->rows = (ax_flow){.out = kept};
        return AX_OK;
    }
    return ax_side_gather_begin(nn, &l->in, in, nn->call, &b->rows);
}

static ax_status input_again_end(ax_nn *nn, ax_linear *l, ax_tensor kept, backward *b)
{
    if (!kept.data)
        return ax_side_gather_end(nn, &l->in, &b->rows, &b->in);
    b->in = kept;
    return AX_OK;
}

ax_status ax_linear_bwd(ax_nn *nn, ax_linear *l, ax_tensor in, ax_tensor kept, ax_tensor dout,
                        ax_tensor din)
{
    size_t mark = ax_arena_mark(nn->call);
    backward b = {.din = din};
    ax_flow rows;
    AX_TRY(add_bias_grads(nn, l, dout));
    AX_TRY(ax_side_gather_begin(nn, &l->out, dout, nn->call, &rows));
    AX_TRY(ax_side_gather_end(nn, &l->out, &rows, &b.dout));

    AX_TRY(input_again_begin(nn, l, in, kept, &b));
    if (!(nn->overlap & AX_RAG))
        AX_TRY(input_again_end(nn, l, kept, &b));
    // Where dI needs no sum, dW goes first: its own sum over z then hides under the dI matmul.
    bool sum_first = l->in.comm->size > 1;
    if (sum_first)
        AX_TRY(input_grad_begin(nn, l, &b));
    if (nn->overlap & AX_RAG)
        AX_TRY(input_again_end(nn, l, kept, &b));
    AX_TRY(weight_grad(nn, l, &b));
    if (!sum_first)
        AX_TRY(input_grad_begin(nn, l, &b));
    AX_TRY(ax_side_scatter_end(nn, &b.sum));
    ax_arena_release(nn->call, mark);
    return AX_OK;
}

// Every backward kernel of the reference against central differences of its forward kernel, in
// double: the gradient of sum(out * r) for a random r. (The other devices are compared with the
// reference by test_kernels.)
#include "operand.h"

typedef struct rig {
    ax_device dev;
    ax_tensor in[4];  // perturbed
    ax_tensor din[4]; // what backward says
    ax_tensor out, r;
    double (*loss)(struct rig *); // runs forward
    void *args;
} rig;

static ax_tensor matrix(int64_t rows, int64_t cols, uint64_t seed)
{
    double *data = calloc((size_t)(rows * cols) + 1, sizeof *data);
    assert_non_null(data);
    ax_tensor t = ax_tensor_over(data, AX_F64, rows, cols);
    if (seed)
        randomise(t, seed, 1);
    return t;
}

static double weighted(ax_tensor out, ax_tensor r)
{
    double sum = 0;
    for (int64_t i = 0; i < out.rows; i++)
        for (int64_t j = 0; j < out.cols; j++)
            sum += get(out, i, j) * get(r, i, j);
    return sum;
}

static void open_rig(rig *g)
{
    *g = (rig){0};
    assert_int_equal(ax_device_open(&(ax_device_config){.name = "ref", .core = -1}, &g->dev),
                     AX_OK);
}

// Every element of input `which`.
static void check_input(rig *g, int which)
{
    const double h = 1e-5;
    ax_tensor x = g->in[which], dx = g->din[which];
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.cols; j++) {
            double v = get(x, i, j);
            set(x, i, j, v + h);
            double up = g->loss(g);
            set(x, i, j, v - h);
            double down = g->loss(g);
            set(x, i, j, v);
            double slope = (up - down) / (2 * h), said = get(dx, i, j);
            if (!(fabs(slope - said) <= 1e-7 * (1 + fabs(slope))))
                fail_msg("input %d (%lld, %lld): %.10g by differences, %.10g by backward", which,
                         (long long)i, (long long)j, slope, said);
        }
}

static void close_rig(rig *g)
{
    for (int i = 0; i < 4; i++) {
        free(g->in[i].data);
        free(g->din[i].data);
    }
    free(g->out.data);
    free(g->r.data);
    ax_device_close(&g->dev);
}

// ---- attention ----

static double attention_loss(rig *g)
{
    assert_int_equal(ax_attention_fwd(&g->dev, g->args), AX_OK);
    return weighted(g->out, g->r);
}

static void attention_differences(int32_t *position)
{
    enum { S = 2, T = 5, A = 4, K = 2, D = 3 };
    rig g;
    open_rig(&g);
    for (int i = 0; i < 3; i++) {
        int64_t cols = i == 0 ? A * D : K * D;
        g.in[i] = matrix(S * T, cols, 11 + (uint64_t)i);
        g.din[i] = matrix(S * T, cols, 0);
    }
    g.out = matrix(S * T, A * D, 0);
    g.r = matrix(S * T, A * D, 17);
    ax_tensor lse = matrix(S * T, A, 0);
    ax_attention_args args = {.sequences = S,
                              .seq = T,
                              .heads = A,
                              .kv_heads = K,
                              .head_dim = D,
                              .scale = 0.7,
                              .q = g.in[0],
                              .k = g.in[1],
                              .v = g.in[2],
                              .out = g.out,
                              .lse = lse,
                              .dout = g.r,
                              .dq = g.din[0],
                              .dk = g.din[1],
                              .dv = g.din[2],
                              .positions = ax_tensor_over(position, AX_I32, 1, S * T)};
    g.args = &args;
    g.loss = attention_loss;
    attention_loss(&g);
    assert_int_equal(ax_attention_bwd(&g.dev, &args), AX_OK);
    for (int i = 0; i < 3; i++)
        check_input(&g, i);
    free(lse.data);
    close_rig(&g);
}

static void attention_gradient(void **state)
{
    (void)state;
    attention_differences(NULL);
}

static void masked_attention_gradient(void **state)
{
    (void)state;
    attention_differences((int32_t[]){0, 1, 0, 1, 2, 0, 0, 1, 2, 3});
}

// ---- norms ----

static double norm_loss(rig *g)
{
    assert_int_equal(ax_norm_sums(&g->dev, g->args), AX_OK);
    assert_int_equal(ax_norm_fwd(&g->dev, g->args), AX_OK);
    return weighted(g->out, g->r);
}

static void norm_gradient(ax_norm_kind kind)
{
    enum { M = 4, H = 9 };
    rig g;
    open_rig(&g);
    int inputs = kind == AX_LAYERNORM ? 3 : 2;
    for (int i = 0; i < inputs; i++) {
        g.in[i] = matrix(i == 0 ? M : 1, H, 21 + (uint64_t)i);
        g.din[i] = matrix(i == 0 ? M : 1, H, 0);
    }
    g.out = matrix(M, H, 0);
    g.r = matrix(M, H, 27);
    int width = kind == AX_LAYERNORM ? 2 : 1; // of the row sums
    ax_tensor sums = matrix(M, width, 0), dsums = matrix(M, width, 0);
    ax_norm_args args = {.kind = kind,
                         .width = H,
                         .eps = 1e-5,
                         .x = g.in[0],
                         .w = g.in[1],
                         .b = g.in[2],
                         .sums = sums,
                         .y = g.out,
                         .dy = g.r,
                         .dsums = dsums,
                         .dx = g.din[0],
                         .dw = g.din[1],
                         .db = g.din[2]};
    g.args = &args;
    g.loss = norm_loss;
    norm_loss(&g);
    assert_int_equal(ax_norm_bwd_sums(&g.dev, &args), AX_OK);
    assert_int_equal(ax_norm_bwd(&g.dev, &args), AX_OK);
    for (int i = 0; i < inputs; i++)
        check_input(&g, i);
    free(sums.data);
    free(dsums.data);
    close_rig(&g);
}

static void layernorm_gradient(void **state)
{
    (void)state;
    norm_gradient(AX_LAYERNORM);
}

static void rmsnorm_gradient(void **state)
{
    (void)state;
    norm_gradient(AX_RMSNORM);
}

// A norm whose width is cut in two, with the row sums added by hand, is the norm of the whole.
static void norm_of_slices(void **state)
{
    (void)state;
    enum { M = 3, H = 10, CUT = 4 };
    rig g;
    open_rig(&g);
    ax_tensor x = matrix(M, H, 31), w = matrix(1, H, 32), y = matrix(M, H, 0),
              cut = matrix(M, H, 0);
    ax_tensor sums = matrix(M, 2, 0), left = matrix(M, 2, 0), right = matrix(M, 2, 0);
    ax_norm_args all = {
        .kind = AX_LAYERNORM, .width = H, .eps = 1e-5, .x = x, .w = w, .sums = sums, .y = y};
    assert_int_equal(ax_norm_sums(&g.dev, &all), AX_OK);
    assert_int_equal(ax_norm_fwd(&g.dev, &all), AX_OK);
    ax_norm_args part[2] = {all, all};
    for (int i = 0; i < 2; i++) {
        int64_t first = i ? CUT : 0, count = i ? H - CUT : CUT;
        part[i].x = ax_tensor_cols(x, first, count);
        part[i].w = ax_tensor_cols(w, first, count);
        part[i].y = ax_tensor_cols(cut, first, count);
        part[i].sums = i ? right : left;
        assert_int_equal(ax_norm_sums(&g.dev, &part[i]), AX_OK);
    }
    assert_int_equal(ax_add(&g.dev, right, left), AX_OK);
    for (int i = 0; i < 2; i++) {
        part[i].sums = left;
        assert_int_equal(ax_norm_fwd(&g.dev, &part[i]), AX_OK);
    }
    for (int64_t i = 0; i < M * H; i++)
        assert_true(fabs(((double *)y.data)[i] - ((double *)cut.data)[i]) < 1e-13);
    ax_tensor mine[] = {x, w, y, cut, sums, left, right};
    for (int i = 0; i < 7; i++)
        free(mine[i].data);
    close_rig(&g);
}

// ---- activations, rope, bias ----

static double gelu_loss(rig *g)
{
    assert_int_equal(ax_gelu_fwd(&g->dev, g->in[0], g->out), AX_OK);
    return weighted(g->out, g->r);
}

static void gelu_gradient(void **state)
{
    (void)state;
    rig g;
    open_rig(&g);
    g.in[0] = matrix(5, 7, 41);
    g.din[0] = matrix(5, 7, 0);
    g.out = matrix(5, 7, 0);
    g.r = matrix(5, 7, 42);
    g.loss = gelu_loss;
    assert_int_equal(ax_gelu_bwd(&g.dev, g.in[0], g.r, g.din[0]), AX_OK);
    check_input(&g, 0);
    close_rig(&g);
}

static double swiglu_loss(rig *g)
{
    assert_int_equal(ax_swiglu_fwd(&g->dev, g->in[0], g->in[1], g->out), AX_OK);
    return weighted(g->out, g->r);
}

static void swiglu_gradient(void **state)
{
    (void)state;
    rig g;
    open_rig(&g);
    for (int i = 0; i < 2; i++) {
        g.in[i] = matrix(5, 7, 51 + (uint64_t)i);
        g.din[i] = matrix(5, 7, 0);
    }
    g.out = matrix(5, 7, 0);
    g.r = matrix(5, 7, 53);
    g.loss = swiglu_loss;
    assert_int_equal(ax_swiglu_bwd(&g.dev, g.in[0], g.in[1], g.r, g.din[0], g.din[1]), AX_OK);
    check_input(&g, 0);
    check_input(&g, 1);
    close_rig(&g);
}

static int32_t positions[4] = {0, 3, 1, 90};
static double frequencies[3] = {1, 0.1, 0.01};

static ax_status rotate(rig *g, ax_tensor x, int direction)
{
    return ax_rope(&g->dev, x, ax_tensor_over(positions, AX_I32, 1, 4),
                   ax_tensor_over(frequencies, AX_F64, 1, 3), 6, direction);
}

static double rope_loss(rig *g)
{
    assert_int_equal(ax_copy(&g->dev, g->in[0], g->out), AX_OK);
    assert_int_equal(rotate(g, g->out, 1), AX_OK);
    return weighted(g->out, g->r);
}

static void rope_gradient(void **state)
{
    (void)state;
    rig g;
    open_rig(&g);
    g.in[0] = matrix(4, 12, 61);
    g.din[0] = matrix(4, 12, 62); // dy, turned in place into dx
    g.out = matrix(4, 12, 0);
    g.r = matrix(4, 12, 62);
    g.loss = rope_loss;
    assert_int_equal(rotate(&g, g.din[0], -1), AX_OK);
    check_input(&g, 0);
    close_rig(&g);
}

static double bias_loss(rig *g)
{
    assert_int_equal(ax_fill(&g->dev, g->out, 0.5), AX_OK);
    assert_int_equal(ax_bias_fwd(&g->dev, g->out, g->in[0]), AX_OK);
    return weighted(g->out, g->r);
}

static void bias_gradient(void **state)
{
    (void)state;
    rig g;
    open_rig(&g);
    g.in[0] = matrix(1, 7, 71);
    g.din[0] = matrix(1, 7, 0);
    g.out = matrix(5, 7, 0);
    g.r = matrix(5, 7, 72);
    g.loss = bias_loss;
    assert_int_equal(ax_bias_bwd(&g.dev, g.r, g.din[0]), AX_OK);
    check_input(&g, 0);
    close_rig(&g);
}

// ---- embedding and loss ----

static int32_t ids[6] = {3, 4, 2, 9, 4, 7}; // 2 and 9 lie outside rows 3..7
enum { FIRST = 3 };

static double embed_loss(rig *g)
{
    assert_int_equal(
        ax_embed_fwd(&g->dev, ax_tensor_over(ids, AX_I32, 1, 6), FIRST, g->in[0], g->out), AX_OK);
    return weighted(g->out, g->r);
}

static void embed_gradient(void **state)
{
    (void)state;
    rig g;
    open_rig(&g);
    g.in[0] = matrix(5, 4, 81);
    g.din[0] = matrix(5, 4, 0);
    g.out = matrix(6, 4, 0);
    g.r = matrix(6, 4, 82);
    g.loss = embed_loss;
    assert_int_equal(ax_embed_bwd(&g.dev, ax_tensor_over(ids, AX_I32, 1, 6), FIRST, g.r, g.din[0]),
                     AX_OK);
    check_input(&g, 0);
    close_rig(&g);
}

enum { ROWS = 4, COLS = 6, VOCAB = 5 };
static int32_t targets[ROWS] = {0, 4, -1, 2};

// The mean loss of the rows that count, scaled by args->scale.
static double xent_loss(rig *g)
{
    ax_xent_args *a = g->args;
    double loss = 0;
    assert_int_equal(ax_xent_max(&g->dev, a), AX_OK);
    assert_int_equal(ax_xent_sums(&g->dev, a), AX_OK);
    for (int64_t i = 0; i < ROWS; i++)
        if (targets[i] >= 0)
            loss += log(get(a->sums, i, 0)) + get(a->max, 0, i) - get(a->sums, i, 1);
    return loss * a->scale;
}

static void xent_gradient(void **state)
{
    (void)state;
    rig g;
    open_rig(&g);
    g.in[0] = matrix(ROWS, COLS, 91);
    g.din[0] = matrix(ROWS, COLS, 0);
    ax_tensor max = matrix(1, ROWS, 0), sums = matrix(ROWS, 2, 0);
    ax_xent_args args = {0,   VOCAB, g.in[0], ax_tensor_over(targets, AX_I32, 1, ROWS),
                         max, sums,  0.25,    g.din[0]};
    g.args = &args;
    g.loss = xent_loss;
    xent_loss(&g);
    assert_int_equal(ax_xent_bwd(&g.dev, &args), AX_OK);
    check_input(&g, 0);
    for (int64_t i = 0; i < ROWS; i++)
        assert_true(get(g.din[0], i, COLS - 1) == 0); // the padded column
    free(max.data);
    free(sums.data);
    close_rig(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"attention's gradient equals differences, with shared kv heads", attention_gradient, 0, 0,
         0},
        {"attention's gradient equals differences, inside documents", masked_attention_gradient, 0,
         0, 0},
        {"LayerNorm's gradient equals differences", layernorm_gradient, 0, 0, 0},
        {"RMSNorm's gradient equals differences", rmsnorm_gradient, 0, 0, 0},
        {"a norm of slices with added sums is the norm of the whole", norm_of_slices, 0, 0, 0},
        {"gelu's gradient equals differences", gelu_gradient, 0, 0, 0},
        {"swiglu's gradient equals differences", swiglu_gradient, 0, 0, 0},
        {"rope's gradient is the rotation back", rope_gradient, 0, 0, 0},
        {"the bias gradient equals differences", bias_gradient, 0, 0, 0},
        {"the embedding's gradient equals differences", embed_gradient, 0, 0, 0},
        {"the loss's gradient equals differences, padding and ignored rows at 0", xent_gradient, 0,
         0, 0},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

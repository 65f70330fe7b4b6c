#include "grid_case.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void grid_list(ax_grid_shape out[GRIDS])
{
    static const int ranks[] = {1, 2, 3, 4, 6, 8};
    int n = 0;
    for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++)
        for (int i = 0; n < GRIDS && ax_layout_grid(ranks[r], i, &out[n]); i++)
            n++;
}

// ---- factors ----

enum { FACTORS = 12, LEVELS = GRIDS };

typedef struct row { // a level of each factor, or -1
    int level[FACTORS];
} row;

enum {
    F_GRID,
    F_KIND,
    F_TIED,
    F_KV,
    F_SPLIT,
    F_REPLICATED,
    F_RECOMPUTE,
    F_KEEP,
    F_LAZY,
    F_SETTLE,
    F_OVERLAP,
    F_ORDER
};

static const int levels[FACTORS] = {GRIDS, 2, 2, 4, SPLITS, 2, 3, 2, 2, 2, 4, 4};

static const unsigned overlap_of[] = {AX_OVERLAP_ALL, 0, AX_OAG | AX_OAR | AX_ODATA,
                                      AX_RAG | AX_ORS | AX_OUPDATE};
static const char *const order_of[] = {"xyzd", "yxzd", "dzyx", "zxdy"};

static grid_case case_of(const row *r)
{
    ax_grid_shape grids[GRIDS];
    grid_list(grids);
    const int *l = r->level;
    grid_case c = {.grid = grids[l[F_GRID]],
                   .kind = l[F_KIND],
                   .tied = l[F_TIED],
                   .kv = l[F_KV],
                   .split = l[F_SPLIT],
                   .replicated = l[F_REPLICATED],
                   .recompute = (ax_recompute)l[F_RECOMPUTE],
                   .keep = l[F_KEEP],
                   .lazy = l[F_LAZY],
                   .settle = l[F_SETTLE],
                   .overlap = overlap_of[l[F_OVERLAP]],
                   .act = AX_F64,
                   .device = "ref"};
    memcpy(c.grid.order, order_of[l[F_ORDER]], sizeof c.grid.order);
    return c;
}

// ---- pairwise covering ----

typedef struct cover {
    bool seen[FACTORS][FACTORS][LEVELS][4]; // of factors a < b; only the grid has more levels
} cover;

static bool *pair_at(cover *v, int a, int x, int b, int y)
{
    return a < b ? &v->seen[a][b][x][y] : &v->seen[b][a][y][x];
}

static int gain(cover *v, const row *r, int f, int level)
{
    int n = 0;
    for (int k = 0; k < FACTORS; k++)
        if (k != f && r->level[k] >= 0)
            n += !*pair_at(v, f, level, k, r->level[k]);
    return n;
}

// The first pair that no row has yet starts the next row.
static bool start_row(cover *v, row *r)
{
    for (int f = 0; f < FACTORS; f++)
        r->level[f] = -1;
    for (int a = 0; a < FACTORS; a++)
        for (int x = 0; x < levels[a]; x++)
            for (int b = a + 1; b < FACTORS; b++)
                for (int y = 0; y < levels[b]; y++)
                    if (!*pair_at(v, a, x, b, y)) {
                        r->level[a] = x;
                        r->level[b] = y;
                        return true;
                    }
    return false;
}

// The other factors take the level that covers most new pairs; ties go round with the row number.
static void finish_row(cover *v, row *r, int number)
{
    for (int f = 0; f < FACTORS; f++) {
        int best = -1;
        for (int i = 0; i < levels[f] && r->level[f] < 0; i++) {
            int level = (i + number) % levels[f];
            if (best < 0 || gain(v, r, f, level) > gain(v, r, f, best))
                best = level;
        }
        if (r->level[f] < 0)
            r->level[f] = best;
    }
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++)
            *pair_at(v, a, r->level[a], b, r->level[b]) = true;
}

int cases_pairwise(grid_case *out, int room)
{
    cover *v = calloc(1, sizeof *v);
    row r;
    int n = 0;
    for (; v && n < room && start_row(v, &r); n++) {
        finish_row(v, &r, n);
        out[n] = case_of(&r);
    }
    free(v);
    return n;
}

bool cases_all(int64_t i, grid_case *out)
{
    row r;
    uint64_t turn = (uint64_t)i * 2654435761u;
    for (int f = FACTORS - 1; f > F_RECOMPUTE; f--) {
        r.level[f] = (int)((turn >> 16 >> f) % (uint64_t)levels[f]);
    }
    for (int f = F_RECOMPUTE; f >= 0; f--) {
        r.level[f] = (int)(i % levels[f]);
        i /= levels[f];
    }
    *out = case_of(&r);
    return i == 0;
}

// ---- jobs ----

static bool is_sixth(const grid_case *c)
{
    return ax_grid_ranks(&c->grid) % 3 == 0;
}

static void set_batch(const grid_case *c, trial *j)
{
    const int64_t whole = is_sixth(c) ? 24 : 32, columns = c->grid.z * c->grid.data;
    static const int64_t ones[] = {8, 6}, pairs[] = {16, 12};
    j->arch.seq = is_sixth(c) ? 12 : 8;
    j->config.batch = whole;
    switch ((split)c->split) {
    case SPLIT_FOUR:
        j->config.micro_batch = whole / columns / 4;
        break;
    case SPLIT_ONES:
        j->config.batch = ones[is_sixth(c)];
        j->config.micro_batch = 1;
        break;
    case SPLIT_ODD:
        j->arch.seq = is_sixth(c) ? 9 : 12;
        j->config.batch = pairs[is_sixth(c)];
        j->config.micro_batch = 2;
        break;
    case SPLIT_NONE:
    case SPLITS:
        break;
    }
}

static int64_t kv_heads(const grid_case *c, int64_t heads)
{
    const int64_t choice[] = {heads, heads / 2, 2, 1};
    int64_t kv = choice[c->kv];
    return kv % c->grid.x == 0 || c->grid.x % kv == 0 ? kv : 1;
}

trial case_trial(const grid_case *c, int steps)
{
    trial j = {.steps = steps,
               .lr = 1e-3,
               .settle = c->settle,
               .documents = c->documents,
               .tuned = c->tuned};
    int64_t heads = is_sixth(c) ? 6 : 8, hidden = is_sixth(c) ? 48 : 32;
    j.arch = (ax_arch){.kind = c->kind,
                       .layers = 2,
                       .hidden = hidden,
                       .heads = heads,
                       .kv_heads = kv_heads(c, heads),
                       .head_dim = hidden / heads,
                       .ffn = 2 * hidden,
                       .vocab = 101,
                       .tied = c->tied,
                       .norm_eps = 1e-5,
                       .rope_theta = 1e4,
                       .init_std = 0.02};
    j.config = (ax_trainer_config){
        .grid = c->grid,
        .activations = c->replicated ? AX_ACT_REPLICATED : AX_ACT_SHARDED,
        .device = c->device,
        .lazy = c->lazy,
        .act = c->act,
        .threads = 1,
        .overlap = c->overlap,
        .recompute = c->recompute,
        .keep_gathered = c->keep,
        .wide_sums = c->wide,
        .narrow_grads = c->narrow,
        .optim = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 0.5}};
    set_batch(c, &j);
    return j;
}

void case_print(const grid_case *c, char *text, size_t size)
{
    static const char *const tuned_name[] = {"", ", tuned by force", ", tuned by time"};
    static const char *const split_name[] = {"one micro-batch", "four micro-batches",
                                             "single sequences", "odd sequences"};
    static const char *const recompute_name[] = {"", ", selective", ", recompute"};
    char grid[64];
    ax_grid_print(&c->grid, grid, sizeof grid);
    snprintf(text, size, "%s %s %s kv=%d, %s, %s%s%s%s%s%s%s%s%s, overlap %u, %s %s", grid,
             c->kind == AX_GPT ? "gpt" : "llama", c->tied ? "tied" : "untied",
             (int)case_trial(c, 1).arch.kv_heads, split_name[c->split],
             c->replicated ? "replicated" : "sharded", recompute_name[c->recompute],
             c->keep ? ", keep" : "", c->lazy ? ", lazy" : "", c->settle ? ", settled" : "",
             c->documents ? ", documents" : "", c->wide ? ", sums in fp32" : "",
             c->narrow ? ", gradients in bf16" : "", tuned_name[c->tuned], c->overlap,
             ax_dtype_name(c->act), c->device);
}

// ---- serial runs ----

typedef struct serial {
    trial trial;
    outcome outcome;
    struct serial *next;
} serial;

static serial *known;

static bool same_trial(const trial *a, const trial *b)
{
    return memcmp(&a->arch, &b->arch, sizeof a->arch) == 0 && a->config.batch == b->config.batch &&
           a->documents == b->documents && a->config.act == b->config.act &&
           strcmp(a->config.device, b->config.device) == 0;
}

const outcome *serial_of(const grid_case *c, int steps)
{
    trial mine = case_trial(c, steps); // the grid decides on shape and kv heads
    mine.config.grid = (ax_grid_shape){1, 1, 1, 1, "xyzd"};
    mine.config.micro_batch = 0;
    mine.config.activations = AX_ACT_REPLICATED;
    mine.config.overlap = 0;
    mine.config.recompute = AX_RECOMPUTE_NONE;
    mine.config.lazy = mine.config.keep_gathered = mine.settle = false;
    mine.config.wide_sums = mine.config.narrow_grads = false;
    mine.tuned = TRIAL_UNTUNED;
    for (serial *s = known; s; s = s->next)
        if (same_trial(&s->trial, &mine) && s->trial.steps == steps)
            return &s->outcome;
    serial *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->trial = mine;
    if (trial_run_local(&mine, &s->outcome) != AX_OK) {
        free(s);
        return NULL;
    }
    s->next = known;
    known = s;
    return &s->outcome;
}

void serial_fini(void)
{
    while (known) {
        serial *s = known;
        known = s->next;
        outcome_fini(&s->outcome);
        free(s);
    }
}

// How much of the time that communication takes is hidden under computing.
//
//     bench_overlap [grid=x=2,z=2] [share=40] [layers=4] [hidden=256] [seq=64] [batch=8]
//                   [rounds=9] [waits=1]
//
// A small GPT on local ranks whose axes are emulated links (comm/hook_link.h): slow enough that
// without overlap communication is `share` percent of the step, the same for each axis that moves
// anything. Every row of docs/parallelism.md section 4 alone, then all: blocks of two steps, each
// between two without overlap. waits=1 tells where the ranks still stand waiting with all of them.
//
//     comm      what the transfers of a step occupy the links for
//     could     what can be hidden: of each transfer the lesser of its time on the link and the
//               time of the kernels that this rank runs between its begin and its wait; of a
//               transfer that was over before anybody asked for it, its time. A link carries one
//               transfer at a time, so a kernel hides only one transfer of each link: it counts
//               for the oldest
//     saved     median over the rounds of (the mean of the two blocks without overlap, less the
//               block with it)
//     hidden    saved / could: of the wall clock, which a busy machine bends
//     exposed   the time in which a transfer was on its link, or not yet noticed to be over, while
//               its rank stood waiting for it
//     by links  what is exposed less than without overlap, over could
//
// Steps with overlap and without give the same bits, which is checked first.
#include "comm/hook_link.h"
#include "train/ranks.h"
#include "train/step.h"

#include "base/rng.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 2, MOST_ROUNDS = 50, LOG = 1 << 14, MODES = 8 };

static const struct {
    const char *name;
    unsigned overlap;
} modes[MODES] = {
    {"off", 0},      {"OAG", AX_OAG},    {"RAG", AX_RAG},        {"OAR", AX_OAR},
    {"ORS", AX_ORS}, {"data", AX_ODATA}, {"update", AX_OUPDATE}, {"all", AX_OVERLAP_ALL}};

typedef struct bench {
    const char *grid;
    int64_t share, layers, hidden, seq, batch, rounds, waits;
    ax_arch arch;
    ax_grid_shape shape;
} bench;

typedef struct measured { // of one mode, by round; seconds of one step
    double step[MOST_ROUNDS], saved[MOST_ROUNDS];
    double could[MOST_ROUNDS], comm[MOST_ROUNDS], exposed[MOST_ROUNDS], hidden[MOST_ROUNDS];
} measured;

typedef struct rank_state {
    const bench *b;
    ax_comm *world;
    ax_trainer t;
    ax_links links;
    ax_link_flight log[LOG];
    measured mode[MODES];
} rank_state;

// ---- steps ----

static void set_overlap(ax_trainer *t, unsigned overlap)
{
    t->model.nn.overlap = overlap;
    t->optim.config.overlap_data = overlap & AX_ODATA;
    t->optim.config.overlap_update = overlap & AX_OUPDATE;
}

static void load(rank_state *s, uint64_t step)
{
    int64_t vocab = s->b->arch.vocab, n = ax_trainer_rows(&s->t) * s->b->seq;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = ax_trainer_row(&s->t, i / s->b->seq), at = row * s->b->seq + i % s->b->seq;
        uint64_t bits = ax_rng_bits(1, step, (uint64_t)at);
        s->t.ids[i] = (int32_t)(bits % (uint64_t)vocab);
        s->t.targets[i] = (int32_t)((bits >> 32) % (uint64_t)vocab);
    }
}

static ax_status meet(rank_state *s)
{
    double one = 1;
    return ax_comm_sum(s->world, &one, 1);
}

// Seconds of one step of `STEPS`, everything that they began over.
static ax_status run_block(rank_state *s, unsigned overlap, double *seconds)
{
    ax_step_result r;
    AX_TRY(meet(s));
    set_overlap(&s->t, overlap);
    s->links.logged = 0;
    s->t.timeline.count = 0;
    s->t.timeline.paused = false;
    double begun = ax_clock_s();
    for (int i = 0; i < STEPS; i++)
        AX_TRY(ax_step(&s->t, 1e-4, &r));
    AX_TRY(ax_optim_settle(&s->t.optim));
    *seconds = (ax_clock_s() - begun) / STEPS;
    s->t.timeline.paused = true;
    return ax_comm_max(s->world, seconds, 1);
}

// ---- bits ----

static uint64_t hash_of(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static ax_status hash_run(rank_state *s, unsigned overlap, uint64_t *out)
{
    uint64_t h = 0xcbf29ce484222325u;
    AX_TRY(ax_params_init(&s->t.model.params, &s->t.grid, &s->t.dev, 1));
    ax_weights_forget(&s->t.model.nn);
    s->t.optim.updates = 0;
    set_overlap(&s->t, overlap);
    for (uint64_t i = 0; i < 3; i++) {
        ax_step_result r;
        load(s, i);
        AX_TRY(ax_step(&s->t, 1e-3, &r));
        h = hash_of(h, &r.loss, sizeof r.loss);
        h = hash_of(h, &r.grad_norm, sizeof r.grad_norm);
    }
    AX_TRY(ax_optim_settle(&s->t.optim));
    for (int i = 0; i < s->t.model.params.count; i++) {
        const ax_param *p = &s->t.model.params.list[i];
        h = hash_of(h, p->weight.data, ax_tensor_bytes(p->weight));
        h = hash_of(h, p->master.data, ax_tensor_bytes(p->master));
    }
    *out = h;
    return AX_OK;
}

static ax_status check_bits(rank_state *s)
{
    uint64_t off, on;
    AX_TRY(hash_run(s, 0, &off));
    AX_TRY(hash_run(s, AX_OVERLAP_ALL, &on));
    double differ = off != on;
    AX_TRY(ax_comm_max(s->world, &differ, 1));
    AX_CHECK(differ == 0, AX_EINTERNAL, "overlap on and off give other bits");
    return AX_OK;
}

// ---- links ----

static int links_used(const rank_state *s)
{
    int used = 0;
    for (int i = 0; i < AX_LINKS; i++)
        used += s->links.link[i].busy_s > 0;
    return used;
}

// Bandwidths at which the links of the axes that are used are occupied for equal times.
static ax_status set_speeds(rank_state *s)
{
    double alone, share = (double)s->b->share / 100;
    AX_TRY(run_block(s, 0, &alone)); // to warm up
    for (int i = 0; i < AX_LINKS; i++)
        s->links.link[i].busy_s = 0;
    AX_TRY(run_block(s, 0, &alone));
    double each = alone * share / (1 - share) / links_used(s);
    for (int i = 0; i < AX_LINKS && s->links.link[i].axis; i++) {
        ax_link *l = &s->links.link[i];
        double bytes = l->busy_s * l->bytes_per_s / STEPS;
        double speed = bytes > 0 ? bytes / each : 1e12;
        AX_TRY(ax_comm_max(s->world, &speed, 1));
        l->bytes_per_s = speed;
        if (s->world->rank == 0 && bytes > 0)
            printf("  link %-5s %9.2f MB a step at %8.2f MB/s\n", l->axis, bytes * 1e-6,
                   speed * 1e-6);
    }
    return AX_OK;
}

// ---- what can be hidden ----

static int oldest_first(const void *a, const void *b)
{
    double x = ((const ax_link_flight *)a)->begun_s, y = ((const ax_link_flight *)b)->begun_s;
    return x < y ? -1 : x > y;
}

// Seconds of kernels between begin and wait of `f` that hide no other transfer of the link yet.
static double claim(const ax_timeline *t, const ax_link_flight *f, double *used)
{
    double claimed = 0;
    for (int64_t i = 0; i < t->count && claimed < f->seconds; i++) {
        const ax_timeline_span *s = &t->span[i];
        bool under = s->begin_s >= f->begun_s && (f->asked_s == 0 || s->end_s <= f->asked_s);
        if (s->kind != AX_TIME_KERNEL || !under)
            continue;
        double left = s->end_s - s->begin_s - used[i], want = f->seconds - claimed;
        double take = left < want ? left : want;
        used[i] += take;
        claimed += take;
    }
    return f->asked_s == 0 ? f->seconds : claimed;
}

// Seconds in which the transfer was under way and its rank stood waiting for it.
static double exposed(const ax_link_flight *f)
{
    double start_s = f->end_s - f->seconds;
    double from = f->asked_s > start_s ? f->asked_s : start_s;
    return f->asked_s > 0 && f->landed_s > from ? f->landed_s - from : 0;
}

static ax_status look_back(rank_state *s, measured *of, int round)
{
    double could = 0, comm = 0, stood = 0;
    const ax_timeline *t = &s->t.timeline;
    double *used = malloc((size_t)t->count * sizeof *used);
    AX_CHECK(used && s->links.logged < LOG, AX_ENOMEM, "no room for what the links did");
    qsort(s->log, (size_t)s->links.logged, sizeof *s->log, oldest_first);
    for (int link = 0; link < AX_LINKS; link++) {
        memset(used, 0, (size_t)t->count * sizeof *used);
        for (int i = 0; i < s->links.logged; i++) {
            const ax_link_flight *f = &s->log[i];
            if ((f->links & -f->links) != 1u << link) // one of several links counts for all
                continue;
            comm += f->seconds / STEPS;
            stood += exposed(f) / STEPS;
            could += claim(t, f, used) / STEPS;
        }
    }
    free(used);
    of->comm[round] = comm;
    of->could[round] = could;
    of->exposed[round] = stood;
    return AX_OK;
}

// ---- rounds ----

static ax_status run_round(rank_state *s, int round)
{
    measured *off = &s->mode[0];
    double before, after;
    AX_TRY(run_block(s, 0, &before));
    AX_TRY(look_back(s, off, round));
    s->mode[0].step[round] = before;
    for (int m = 1; m < MODES; m++) {
        measured *of = &s->mode[m];
        AX_TRY(run_block(s, modes[m].overlap, &of->step[round]));
        AX_TRY(look_back(s, of, round));
        double stood = off->exposed[round];
        AX_TRY(run_block(s, 0, &after));
        AX_TRY(look_back(s, off, round));
        stood = (stood + off->exposed[round]) / 2 - of->exposed[round];
        of->hidden[round] = of->could[round] > 0 ? stood / of->could[round] : 0;
        of->saved[round] = (before + after) / 2 - of->step[round];
        before = after;
    }
    return AX_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void print(rank_state *s)
{
    int64_t n = s->b->rounds;
    double off = median(s->mode[0].step, n), comm = median(s->mode[0].comm, n);
    printf("  without overlap %.1f ms a step, of which %.1f ms (%.0f %%) are communication\n",
           off * 1e3, comm * 1e3, 100 * comm / off);
    printf("  row       ms a step   could   saved (min .. max)     hidden   exposed   by links\n");
    for (int m = 1; m < MODES; m++) {
        measured *of = &s->mode[m];
        double could = median(of->could, n), saved = median(of->saved, n);
        printf("  %-8s %10.1f %7.1f %7.1f (%6.1f .. %6.1f) ", modes[m].name,
               median(of->step, n) * 1e3, could * 1e3, saved * 1e3, of->saved[0] * 1e3,
               of->saved[n - 1] * 1e3);
        bool any = could > 0.005 * off;
        any ? printf("%6.0f %%", 100 * saved / could) : printf("%8s", "-");
        printf(" %9.1f ", median(of->exposed, n) * 1e3);
        any ? printf("%8.0f %%\n", 100 * median(of->hidden, n)) : printf("%10s\n", "-");
    }
}

// Where this rank stands waiting, by axis and tag.
static void print_waits(const rank_state *s)
{
    enum { MOST = 64 };
    struct {
        const char *axis, *tag;
        double seconds;
    } row[MOST];
    int rows = 0;
    const ax_timeline *t = &s->t.timeline;
    for (int64_t i = 0; i < t->count; i++) {
        const ax_timeline_span *p = &t->span[i];
        int k = 0;
        if (p->kind != AX_TIME_WAIT)
            continue;
        while (k < rows && (strcmp(row[k].axis, p->axis) != 0 || strcmp(row[k].tag, p->name) != 0))
            k++;
        if (k == MOST)
            continue;
        if (k == rows) {
            rows++;
            row[k].axis = p->axis;
            row[k].tag = p->name;
            row[k].seconds = 0;
        }
        row[k].seconds += p->end_s - p->begin_s;
    }
    printf("  waits of rank 0 with all rows:\n");
    for (int k = 0; k < rows; k++)
        if (row[k].seconds > 1e-4)
            printf("  %-8s %-16s %8.2f ms a step\n", row[k].axis, row[k].tag,
                   row[k].seconds / STEPS * 1e3);
}

static ax_status run_all(rank_state *s)
{
    double seconds;
    AX_TRY(check_bits(s));
    AX_TRY(set_speeds(s));
    for (int i = 0; i < (int)s->b->rounds; i++)
        AX_TRY(run_round(s, i));
    if (s->world->rank == 0)
        print(s);
    if (s->b->waits) {
        AX_TRY(run_block(s, AX_OVERLAP_ALL, &seconds));
        if (s->world->rank == 0)
            print_waits(s);
    }
    return AX_OK;
}

static ax_status run_linked(rank_state *s)
{
    ax_trainer_config c = {
        .arch = &s->b->arch,
        .grid = s->b->shape,
        .batch = s->b->batch,
        .device = "cpu",
        .act = AX_F32,
        .overlap = AX_OVERLAP_ALL,
        .trace = STEPS + 1,
        .optim = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1}};
    ax_comm *linked;
    AX_TRY(ax_comm_split(s->world, "world", 0, s->world->rank, &linked));
    ax_status st = ax_comm_link_open(linked, &s->links, &linked);
    if (st == AX_OK)
        st = ax_trainer_open(&c, linked, &s->t);
    if (st == AX_OK)
        st = run_all(s);
    ax_trainer_close(&s->t);
    ax_comm_close(linked);
    return st;
}

static ax_status bench_rank(void *ctx, ax_comm *world)
{
    rank_state *s = calloc(1, sizeof *s);
    AX_CHECK(s, AX_ENOMEM, "no memory for the measurements");
    static const char *const axes[AX_LINKS] = {"x", "y", "z", "data"};
    s->b = ctx;
    s->world = world;
    const int size[AX_LINKS] = {s->b->shape.x, s->b->shape.y, s->b->shape.z, s->b->shape.data};
    for (int i = 0, k = 0; i < AX_LINKS; i++)
        if (size[i] > 1)
            s->links.link[k++] = (ax_link){.axis = axes[i], .bytes_per_s = 1e12};
    s->links.log = s->log;
    s->links.log_room = LOG;
    ax_status st = run_linked(s);
    free(s);
    return st;
}

// ---- arguments ----

static ax_status parse(bench *b, const char *argument)
{
    static const struct {
        const char *key;
        size_t offset;
        int64_t most;
    } number[] = {{"share=", offsetof(bench, share), 90},
                  {"layers=", offsetof(bench, layers), 64},
                  {"hidden=", offsetof(bench, hidden), 8192},
                  {"seq=", offsetof(bench, seq), 8192},
                  {"batch=", offsetof(bench, batch), 4096},
                  {"rounds=", offsetof(bench, rounds), MOST_ROUNDS},
                  {"waits=", offsetof(bench, waits), 1}};
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
        size_t n = strlen(number[i].key);
        if (strncmp(argument, number[i].key, n) != 0)
            continue;
        int64_t *to = (int64_t *)((char *)b + number[i].offset);
        AX_CHECK(ax_parse_int(argument + n, to) && *to > 0 && *to <= number[i].most, AX_EUSAGE,
                 "%s is not a number from 1 to %lld", argument, (long long)number[i].most);
        return AX_OK;
    }
    AX_CHECK(
        strncmp(argument, "grid=", 5) == 0, AX_EUSAGE,
        "%s: known are grid=, share=, layers=, hidden=, seq=, batch=, rounds=, waits=", argument);
    b->grid = argument + 5;
    return AX_OK;
}

static ax_status prepare(bench *b, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        AX_TRY(parse(b, argv[i]));
    AX_TRY(ax_grid_parse(b->grid, &b->shape));
    AX_TRY(ax_arch_preset("gpt2-124m", &b->arch));
    b->arch.layers = b->layers;
    b->arch.hidden = b->hidden;
    b->arch.ffn = 4 * b->hidden;
    b->arch.head_dim = 64;
    b->arch.heads = b->arch.kv_heads = b->hidden / b->arch.head_dim;
    b->arch.seq = b->seq;
    b->arch.vocab = 1024;
    return ax_arch_check(&b->arch);
}

int main(int argc, char **argv)
{
    bench b = {.grid = "x=2,z=2",
               .share = 40,
               .layers = 4,
               .hidden = 256,
               .seq = 64,
               .batch = 8,
               .rounds = 9};
    if (prepare(&b, argc, argv) != AX_OK)
        return 2;
    printf("%s: %lld blocks of width %lld, B=%lld T=%lld\n", b.grid, (long long)b.layers,
           (long long)b.hidden, (long long)b.batch, (long long)b.seq);
    return ax_ranks_run(ax_grid_ranks(&b.shape), bench_rank, &b) == AX_OK ? 0 : 1;
}

// Which way a product is made on a device with a tuner: the one that was decided on; while the
// tuner is timing, every way in turn on the real operands, and then the default, whose result is
// that of the call.
#include "dev/cpu/cpu_gemm.h"
#include "dev/cpu/cpu_tune.h"

#include <stdlib.h>

enum {
    ROUNDS = 5,   // timings of a way
    FEW = 3,      // of products that take long
    HOPELESS = 2, // times the default: not timed again
};
static const double long_s = 0.1;

typedef struct trial { // of one product
    bool on[AX_TUNER_WAYS];
    int rounds;
    double seconds[AX_TUNER_WAYS][ROUNDS];
    int count[AX_TUNER_WAYS];
} trial;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void no_poll(void *ctx)
{
    (void)ctx;
}

// Cut as for a communicator where there is one, but what that moves on meanwhile is not timed.
static ax_status time_way(ax_device *dev, const ax_gemm_args *g, int way, double *seconds)
{
    void (*poll)(void *ctx) = dev->poll;
    dev->poll = poll ? no_poll : NULL;
    double begun = ax_clock_s();
    ax_status st = ax_cpu_ways[way].run(dev, g);
    *seconds = ax_clock_s() - begun;
    dev->poll = poll;
    if (poll)
        poll(dev->poll_ctx);
    return st;
}

// Ways take turns, so that a machine that slows down for a while slows all of them.
static ax_status run_round(ax_device *dev, const ax_gemm_args *g, int round, trial *t)
{
    for (int way = 0; ax_cpu_ways[way].name; way++) {
        double s;
        if (!t->on[way])
            continue;
        AX_TRY(time_way(dev, g, way, &s));
        if (round < 0) // its primitives were made
            continue;
        t->seconds[way][t->count[way]++] = s;
        t->on[way] = round > 0 || s <= HOPELESS * t->seconds[0][0];
    }
    return AX_OK;
}

static ax_status time_ways(ax_device *dev, const ax_gemm_args *g, ax_tuner_entry *e)
{
    trial t = {.rounds = ROUNDS};
    for (int way = 0; ax_cpu_ways[way].name; way++)
        t.on[way] = ax_gemm_way_applies(dev, g, way);
    for (int round = -1; round < t.rounds; round++) {
        AX_TRY(run_round(dev, g, round, &t));
        if (round == 0 && t.seconds[0][0] > long_s)
            t.rounds = FEW;
    }
    for (int way = 0; ax_cpu_ways[way].name; way++) {
        qsort(t.seconds[way], (size_t)t.count[way], sizeof(double), ascending);
        e->seconds[way] = t.count[way] ? t.seconds[way][t.count[way] / 2] : 0;
    }
    return AX_OK;
}

// c may be written over and over only where it is not added to.
static bool is_timed(const ax_device *dev, const ax_gemm_args *g, const ax_tuner_entry *e)
{
    return e->way == AX_WAY_OPEN && g->beta == 0 && dev->tuner->timing;
}

static int way_of(const ax_device *dev, const ax_gemm_args *g, const ax_tuner_entry *e)
{
    return e && e->way > 0 && ax_gemm_way_applies(dev, g, e->way) ? e->way : 0;
}

size_t ax_cpu_tuned_workspace(const ax_device *dev, const ax_gemm_args *g)
{
    const ax_gemm_key key = ax_gemm_key_of(dev, g);
    const ax_tuner_entry *e = ax_tuner_note(dev->tuner, &key);
    size_t bytes = 0, most = 0;
    bool open = e && e->way == AX_WAY_OPEN; // any way may win, and serves sums onto c, too
    if (!(open && dev->measuring) && !(open && is_timed(dev, g, e))) {
        ax_cpu_ways[way_of(dev, g, e)].applies(dev, g, &bytes);
        return bytes;
    }
    for (int way = 0; ax_cpu_ways[way].name; way++)
        if (ax_cpu_ways[way].applies(dev, g, &bytes) && bytes > most)
            most = bytes;
    return most;
}

ax_status ax_cpu_tuned_gemm(ax_device *dev, const ax_gemm_args *g)
{
    const ax_gemm_key key = ax_gemm_key_of(dev, g);
    ax_tuner_entry *e = ax_tuner_find(dev->tuner, &key);
    if (e && is_timed(dev, g, e) && e->seconds[0] == 0)
        AX_TRY(time_ways(dev, g, e));
    return ax_cpu_ways[way_of(dev, g, e)].run(dev, g);
}

const char *ax_cpu_way_name(int way)
{
    int known = 0;
    while (ax_cpu_ways[known].name)
        known++;
    return way >= 0 && way < known ? ax_cpu_ways[way].name : NULL;
}

bool ax_cpu_way_applies(const ax_device *dev, const ax_gemm_args *g, int way)
{
    size_t bytes;
    bool ours = g->a.dtype != AX_F64 && g->c.rows && g->c.cols && ax_cpu_gemm_depth(g);
    return ours && ax_cpu_way_name(way) && ax_cpu_ways[way].applies(dev, g, &bytes);
}

#include "train/tuning.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ax_tuning {
    const ax_run_config *config;
    const char *device;
    ax_tuned_for here;        // rank 0's
    bool resumed;             // the run directory is that of the resumed run
    bool of_run;              // rank 0: what is known stands in the resumed run's own table
    bool settled, remembered; // decided; all of it was known before
    ax_tuned_list known;
    ax_tuner tuner;
};

enum { PATH = 4096 };
static const double least_gain = 0.03; // smaller ones are noise

void ax_tuning_path(const ax_run_config *c, char *path, size_t size)
{
    path[0] = '\0';
    if (*c->train.tune_file)
        snprintf(path, size, "%s", c->train.tune_file);
    else if (!ax_tuned_cache(path, size))
        path[0] = '\0';
}

static void run_path(const char *run, char *path, size_t size)
{
    snprintf(path, size, "%s/tuning.txt", run);
}

// ---- opening ----

static int known_way(const void *ctx, const ax_gemm_key *key)
{
    const ax_tuning *t = ctx;
    const ax_tuned *item = ax_tuned_find(&t->known, key);
    return item ? ax_gemm_way_find(t->device, item->way) : AX_WAY_OPEN;
}

// Rank 0's.
static ax_status read_known(ax_tuning *t, const ax_resume *from)
{
    char path[PATH + 128];
    AX_TRY(ax_tuned_here(t->device, &t->here));
    run_path(from->run, path, sizeof path);
    t->of_run = from->found && access(path, F_OK) == 0;
    if (t->of_run)
        return ax_tuned_read(path, &t->here, &t->known);
    ax_tuning_path(t->config, path, sizeof path);
    if (*path && ax_tuned_read(path, &t->here, &t->known) != AX_OK)
        ax_log(AX_LOG_WARN, "tuning", "nothing is known of earlier runs: all is timed anew");
    return AX_OK;
}

static ax_status share(ax_comm *world, void *bytes, size_t size)
{
    return ax_comm_bcast(world,
                         &(ax_xfer){.send = bytes,
                                    .recv = bytes,
                                    .count = (int64_t)(size / sizeof(int32_t)),
                                    .dtype = AX_I32,
                                    .tag = "tuning"},
                         0);
}

ax_status ax_tuning_open(const ax_run_config *c, const ax_resume *from, ax_comm *world,
                         ax_tuning **out)
{
    bool lazy;
    *out = NULL;
    if (!c->train.tune)
        return AX_OK;
    ax_tuning *t = calloc(1, sizeof *t);
    ax_status st = t ? AX_OK : ax_fail(AX_ENOMEM, __FILE__, __LINE__, "no memory to tune with");
    AX_TRY_TO(failed, ax_comm_agree(world, st));
    t->config = c;
    t->device = ax_config_device(c, &lazy);
    t->resumed = from->found && !from->elsewhere;
    t->tuner.known = known_way;
    t->tuner.known_ctx = t;
    AX_TRY_TO(failed, ax_comm_agree(world, world->rank == 0 ? read_known(t, from) : AX_OK));
    AX_TRY_TO(failed, share(world, &t->known, sizeof t->known));
    *out = t;
    return AX_OK;
failed:
    free(t);
    return st;
}

void ax_tuning_close(ax_tuning *t)
{
    free(t);
}

ax_tuner *ax_tuning_tuner(ax_tuning *t)
{
    return t ? &t->tuner : NULL;
}

// ---- agreeing ----

typedef struct agreement { // room for it
    int64_t count;
    ax_gemm_key key[AX_TUNER_KEYS]; // of rank 0, open and timed
    // Over all ranks: how many know the product, seconds of each way, how many timed it.
    double sum[AX_TUNER_KEYS][1 + 2 * AX_TUNER_WAYS];
} agreement;
enum { SECONDS = 1, TIMED = 1 + AX_TUNER_WAYS };

static bool is_timed(const ax_tuner_entry *e)
{
    return e && e->way == AX_WAY_OPEN && e->seconds[0] > 0;
}

static void add_times(const ax_tuner_entry *e, double *sum)
{
    sum[0] = 1;
    for (int way = 0; way < AX_TUNER_WAYS; way++) {
        sum[SECONDS + way] = e->seconds[way];
        sum[TIMED + way] = e->seconds[way] > 0;
    }
}

// A way counts where every rank of the product could take it.
static void decide(ax_tuner_entry *e, const double *sum)
{
    double least = sum[SECONDS] * (1 - least_gain);
    e->way = 0;
    for (int way = 0; way < AX_TUNER_WAYS; way++) {
        bool all = sum[TIMED + way] == sum[0];
        e->seconds[way] = all ? sum[SECONDS + way] / sum[0] : 0;
        if (way == 0 || !all || sum[SECONDS + way] >= least)
            continue;
        least = sum[SECONDS + way];
        e->way = way;
    }
}

static ax_status agree_in(agreement *a, ax_tuner *tuner, ax_comm *world)
{
    for (int i = 0; i < tuner->count && world->rank == 0; i++)
        if (is_timed(&tuner->entry[i]))
            a->key[a->count++] = tuner->entry[i].key;
    AX_TRY(share(world, a, offsetof(agreement, sum)));
    if (a->count == 0)
        return AX_OK;
    for (int64_t i = 0; i < a->count; i++) {
        const ax_tuner_entry *e = ax_tuner_find(tuner, &a->key[i]);
        if (is_timed(e))
            add_times(e, a->sum[i]);
    }
    AX_TRY(ax_comm_sum(world, a->sum[0], (int)a->count * (1 + 2 * AX_TUNER_WAYS)));
    for (int64_t i = 0; i < a->count; i++) {
        ax_tuner_entry *e = ax_tuner_note(tuner, &a->key[i]);
        if (e && e->way == AX_WAY_OPEN)
            decide(e, a->sum[i]);
    }
    return AX_OK;
}

ax_status ax_tuning_agree(ax_tuner *tuner, ax_comm *world)
{
    agreement *a = calloc(1, sizeof *a);
    ax_status st = a ? AX_OK : ax_fail(AX_ENOMEM, __FILE__, __LINE__, "no memory to agree in");
    st = ax_comm_agree(world, st);
    if (st == AX_OK)
        st = agree_in(a, tuner, world);
    free(a);
    return st;
}

// ---- remembering: rank 0's ----

static void list_decided(const ax_tuning *t, ax_tuned_list *list)
{
    for (int i = 0; i < t->tuner.count; i++) {
        const ax_tuner_entry *e = &t->tuner.entry[i];
        const ax_tuned *before = ax_tuned_find(&t->known, &e->key);
        ax_tuned item = {.key = e->key};
        if (e->way == AX_WAY_OPEN)
            continue;
        if (e->seconds[0] > 0) {
            item.seconds = e->seconds[e->way];
            item.default_seconds = e->seconds[0];
            snprintf(item.way, sizeof item.way, "%s", ax_gemm_way_name(t->device, e->way));
        } else if (before) {
            item = *before;
        }
        ax_tuned_put(list, &item);
    }
}

static void announce(const ax_tuning *t, const ax_tuned_list *list)
{
    int64_t faster = 0;
    double by_default = 0, seconds = 0;
    for (int64_t i = 0; i < list->count; i++) {
        faster += strcmp(list->item[i].way, "default") != 0;
        by_default += list->item[i].default_seconds;
        seconds += list->item[i].seconds;
    }
    ax_log(AX_LOG_INFO, "tuning",
           "%s: %lld of %lld products faster than by default, %.1f %% in all",
           t->remembered ? "remembered" : "measured", (long long)faster, (long long)list->count,
           seconds > 0 ? 100 * (by_default / seconds - 1) : 0.0);
    if (t->tuner.lost)
        ax_log(AX_LOG_WARN, "tuning", "more than %d different products: the others are not tuned",
               AX_TUNER_KEYS);
}

static ax_status remember(const ax_tuning *t)
{
    char path[PATH + 128];
    const ax_train_options *o = &t->config->train;
    ax_tuned_list *list = calloc(1, sizeof *list);
    ax_status st = AX_OK;
    AX_CHECK(list, AX_ENOMEM, "no memory to remember what was tuned");
    list_decided(t, list);
    if (t->config->verbosity >= 0)
        announce(t, list);
    ax_tuning_path(t->config, path, sizeof path);
    if (!t->remembered && *path && ax_tuned_write(path, &t->here, list, true) != AX_OK)
        ax_log(AX_LOG_WARN, "tuning", "what was tuned is not remembered for the next run");
    run_path(o->out, path, sizeof path);
    if (*o->out && !(t->resumed && t->of_run && t->remembered))
        st = ax_tuned_write(path, &t->here, list, t->resumed);
    free(list);
    return st;
}

// ---- around the first step ----

void ax_tuning_begin(ax_tuning *t)
{
    if (t)
        t->tuner.timing = !t->settled;
}

ax_status ax_tuning_end(ax_tuning *t, ax_device *dev, ax_comm *world, bool worked)
{
    if (!t || t->settled)
        return AX_OK;
    t->tuner.timing = false;
    if (!worked)
        return AX_OK;
    t->settled = true;
    t->remembered = true;
    for (int i = 0; i < t->tuner.count; i++)
        t->remembered = t->remembered && !is_timed(&t->tuner.entry[i]);
    AX_TRY(ax_tuning_agree(&t->tuner, world));
    ax_gemm_forget(dev);
    return ax_comm_agree(world, world->rank == 0 ? remember(t) : AX_OK);
}

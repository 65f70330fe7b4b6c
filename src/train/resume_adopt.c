// What a run takes over of its configuration, and what may be given anew.
#include "train/resume_parts.h"

#include "train/config_yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has(const char *const *list, const char *key)
{
    for (; *list; list++)
        if (strcmp(*list, key) == 0)
            return true;
    return false;
}

static bool in_section(const char *key, const char *section)
{
    size_t n = strlen(section);
    return strncmp(key, section, n) == 0 && key[n] == '.';
}

// Keys that belong to one start of the program, not to the run.
static bool of_this_start(const char *key)
{
    static const char *const list[] = {"grid",      "ranks",        "model.preset",
                                       "train.out", "train.resume", NULL};
    static const char *const sections[] = {"model", "data", "train", "comm", "loss"};
    if (has(list, key))
        return true;
    bool ours = strcmp(key, "device") == 0;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        ours = ours || in_section(key, sections[i]);
    return !ours; // another verb's
}

// Those decide how long, where and how fast a run computes; numbers change by rounding at most.
// What is not listed may not change.
static bool may_change(const ax_resume *r, const char *key)
{
    static const char *const list[] = {"device",
                                       "train.steps",
                                       "train.epochs",
                                       "train.micro_batch",
                                       "train.precision",
                                       "train.recompute",
                                       "train.activations",
                                       "train.overlap",
                                       "train.keep_gathered",
                                       "train.nonfinite",
                                       "train.threads",
                                       "train.tune",
                                       "train.tune_file",
                                       "train.log_every",
                                       "train.eval_every",
                                       "train.eval_batches",
                                       "train.save_every",
                                       "train.save_async",
                                       "train.keep",
                                       "train.stop_before",
                                       "train.wall_time",
                                       "train.trace",
                                       "comm.gradients",
                                       "comm.activations",
                                       NULL};
    // Files are recognised by what they hold, where that is known.
    bool files = strcmp(key, "data.train") == 0 || strcmp(key, "data.valid") == 0;
    bool init = strcmp(key, "model.init") == 0;
    return has(list, key) || (files && r->data_known) || (init && r->found);
}

typedef struct adoption {
    ax_run_config *c; // NULL: only compare
    const ax_run_config *given;
    const ax_resume *r;
    bool complained; // of a key that this program does not know
} adoption;

// Texts may be of any length; numbers and words are short.
static const char *value_of(const ax_options *o, const char *key, char *room, size_t size)
{
    for (int i = 0; i < o->parts; i++)
        for (const ax_option *k = o->part[i].table; k->key; k++)
            if (strcmp(k->key, key) == 0 && (k->kind == AX_OPT_TEXT || k->kind == AX_OPT_LIST))
                return *(const char *const *)((const char *)o->part[i].target + k->offset);
    return ax_options_get(o, key, room, size) == AX_OK ? room : "";
}

// "0: as many as heads": the program would have filled it in.
static bool is_automatic(const ax_option *o, const char *value)
{
    static const char *const words[] = {"", "0", "auto", NULL};
    return strcmp(o->value, value) == 0 && has(words, value);
}

static ax_status compare(const adoption *a, const ax_option *o, const char *value)
{
    char room[64];
    const char *present = value_of(&a->given->options, o->key, room, sizeof room);
    bool same = strcmp(present, value) == 0 || is_automatic(o, present);
    AX_CHECK(same || a->r->found, AX_EUSAGE,
             "%s=%s, but the run that began in %s has %s, and train.resume=auto begins it again: "
             "leave the key out, remove the directory, or give another train.out",
             o->key, present, a->r->run, *value ? value : "none");
    AX_CHECK(same, AX_EUSAGE,
             "%s=%s, but the run in %s has %s, and a resumed run cannot change it: leave the key "
             "out, or begin a new run from its weights with model.init=%s",
             o->key, present, a->r->run, *value ? value : "none", a->r->dir);
    return AX_OK;
}

// The length of a run is told by one of two keys.
static bool is_length_given(const ax_run_config *c)
{
    return ax_options_is_set(&c->options, "train.steps") ||
           ax_options_is_set(&c->options, "train.epochs");
}

// A device that is given anew and computes in double leaves no choice, so that a precision of the
// run is none of its user's now.
static bool brings_precision(const ax_run_config *c)
{
    bool lazy;
    return ax_options_is_set(&c->options, "device") &&
           strcmp(ax_config_device(c, &lazy), "ref") == 0;
}

// What gave way to model.init when the run began does so when the same command goes on with it.
static bool yields_to_init(const ax_run_config *c, const char *key)
{
    bool model = in_section(key, "model") && !ax_config_on_line(c, "model.preset");
    return (model || strcmp(key, "data.tokenizer") == 0) && ax_config_yields(c, key);
}

static ax_status take_key(void *ctx, const char *key, const char *value, const char *where)
{
    adoption *a = ctx;
    const ax_run_config *c = a->given;
    const ax_option *o = ax_options_find(&c->options, key);
    bool length = strcmp(key, "train.steps") == 0 || strcmp(key, "train.epochs") == 0;
    if (of_this_start(key) || (length && is_length_given(c)))
        return AX_OK;
    if (!o) {
        if (!a->complained && ax_log_current().rank == 0)
            ax_log(AX_LOG_WARN, NULL, "%s: %s=%s is no key of this program; passed over", where,
                   key, value);
        a->complained = true;
        return AX_OK;
    }
    if (strcmp(key, "train.steps") == 0 && c->train.epochs > 0)
        return AX_OK; // given anew, in the other unit
    if (strcmp(key, "train.precision") == 0 && brings_precision(c))
        return AX_OK;
    bool yields = yields_to_init(c, key);
    bool given = ax_options_is_set(&c->options, key) && !yields;
    bool preset = *c->preset && in_section(key, "model") && strcmp(key, "model.init") != 0;
    if ((given || (preset && !yields)) && !may_change(a->r, key))
        AX_TRY(compare(a, o, value));
    else if (given)
        return AX_OK;
    return a->c ? ax_options_set(&a->c->options, key, value, where) : AX_OK;
}

// The launch as it was, where it was not given anew and the number of ranks allows it.
static ax_status take_launch(void *ctx, const char *key, const char *value, const char *where)
{
    ax_run_config *c = ctx;
    bool launch = strcmp(key, "grid") == 0 || strcmp(key, "ranks") == 0;
    return launch ? ax_options_set(&c->options, key, value, where) : AX_OK;
}

static ax_status adopt_launch(const ax_resume *r, const char *config, int ranks, ax_run_config *c)
{
    ax_grid_shape was;
    char text[64];
    if (ax_options_is_set(&c->options, "grid"))
        return AX_OK;
    if (ranks == 0)
        AX_TRY(ax_config_yaml_parse(config, strlen(config), r->dir, take_launch, c));
    if (!*r->grid || strcmp(c->grid, "auto") != 0)
        return AX_OK;
    // The grid that was chosen then, and no other, gives the same bits again.
    AX_TRY(ax_grid_parse(r->grid, &was));
    int now = ranks ? ranks : c->ranks ? (int)c->ranks : 1;
    ax_grid_print(&was, text, sizeof text);
    if (ax_grid_ranks(&was) == now)
        return ax_options_set(&c->options, "grid", text, r->dir);
    if (ax_log_current().rank == 0)
        ax_log(AX_LOG_INFO, "resume", "%d ranks, where %d saved: the grid is chosen anew", now,
               ax_grid_ranks(&was));
    return AX_OK;
}

// A run that was to leave before the end of a job goes on where no end is known, too. A limit that
// was given long ago must not come as a surprise.
static ax_status adopt_end(const ax_resume *r, bool given, bool timed, ax_run_config *c)
{
    const ax_train_options *t = &c->train;
    const char *end = getenv("SLURM_JOB_END_TIME");
    if (!timed && t->wall_time > 0 && ax_log_current().rank == 0)
        ax_log(AX_LOG_INFO, "resume",
               "the run's train.wall_time=%g holds again: it leaves after as many seconds; 0 takes "
               "the limit away",
               t->wall_time);
    if (given || t->stop_before <= 0 || t->wall_time > 0 || (end && *end))
        return AX_OK;
    if (ax_log_current().rank == 0)
        ax_log(AX_LOG_INFO, "resume",
               "the end of this job is not known: train.stop_before=%g of the run is left out",
               t->stop_before);
    return ax_options_set(&c->options, "train.stop_before", "0", r->dir);
}

ax_status ax_resume_compare(const ax_resume *r, const char *config, const ax_run_config *given)
{
    adoption a = {.given = given, .r = r};
    return ax_config_yaml_parse(config, strlen(config), r->dir, take_key, &a);
}

ax_status ax_resume_adopt(const ax_resume *r, const char *config, int ranks, ax_run_config *c)
{
    if (!config)
        return AX_OK;
    bool given = ax_options_is_set(&c->options, "train.stop_before");
    bool timed = ax_options_is_set(&c->options, "train.wall_time");
    adoption a = {.c = c, .given = c, .r = r};
    AX_TRY(ax_config_yaml_parse(config, strlen(config), r->dir, take_key, &a));
    AX_TRY(ax_options_set(&c->options, "model.preset", "", r->dir)); // the other keys say its shape
    if (!*c->train.out)
        AX_TRY(ax_options_set(&c->options, "train.out", r->run, r->dir));
    AX_TRY(adopt_end(r, given, timed, c));
    return adopt_launch(r, config, ranks, c);
}

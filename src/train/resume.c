#include "train/resume.h"

#include "base/log.h"
#include "train/config_yaml.h"
#include "train/rundir.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// ---- what a checkpoint says of itself

static ax_status take_state(void *ctx, const char *key, const char *value, const char *where)
{
    ax_resume *r = ctx;
    bool read = true;
    if (strcmp(key, "plan.grid") == 0)
        snprintf(r->grid, sizeof r->grid, "%s", value);
    else if (strcmp(key, "plan.dtype") == 0)
        snprintf(r->dtype, sizeof r->dtype, "%s", value);
    else if (strcmp(key, "data.tokens") == 0)
        read = ax_parse_int(value, &r->data_tokens) && r->data_tokens >= 0;
    else if (strcmp(key, "loss") == 0)
        read = ax_parse_real(value, &r->loss);
    AX_CHECK(read, AX_EFORMAT, "%s: the state's %s is '%s'", where, key, value);
    return AX_OK;
}

void ax_resume_state(const ax_run_config *c, const ax_trainer *t, int64_t step, int64_t data_tokens,
                     double loss, ax_text *out)
{
    const ax_layout *l = &t->layout;
    char grid[64];
    ax_grid_print(&t->grid.shape, grid, sizeof grid);
    ax_text_add(out, "{\"plan\":{\"ranks\":%d,\"grid\":\"%s\",\"activations\":\"%s\"",
                t->grid.ranks, grid, l->activations == AX_ACT_SHARDED ? "sharded" : "replicated");
    ax_text_add(out, ",\"micro_batch\":%lld,\"accumulation\":%lld,\"dtype\":\"%s\"}",
                (long long)l->micro_batch, (long long)l->accumulation,
                ax_dtype_name(t->config.act));
    ax_text_add(out, ",\"data\":{\"seed\":%lld,\"tokens\":%lld,\"next_sample\":%lld}",
                (long long)c->data.seed, (long long)data_tokens, (long long)(step * l->batch));
    // Random numbers are a pure function of seed, stream and index: the next step is their state.
    ax_text_add(out,
                ",\"random\":{\"generator\":\"philox4x32-10\",\"seed\":%lld,\"next_step\":%lld}",
                (long long)c->train.seed, (long long)step + 1);
    ax_text_add(out, ",\"loss\":%.17g}", isfinite(loss) ? loss : 0.0);
}

static void set_place(ax_resume *r, const char *run, const char *name)
{
    ax_resume there = {0};
    snprintf(there.run, sizeof there.run, "%s", run);
    snprintf(there.name, sizeof there.name, "%s", name);
    memcpy(r->run, there.run, sizeof r->run);
    memcpy(r->name, there.name, sizeof r->name);
    snprintf(r->dir, sizeof r->dir, "%s/%s", there.run, there.name);
}

// Reads r->dir. On failure *r names it still, and found is false.
static ax_status read_checkpoint(ax_resume *r, char **config)
{
    ax_ckpt_info info;
    r->found = false;
    AX_TRY(ax_ckpt_read_info(r->dir, &info));
    r->step = info.step;
    r->updates = info.updates;
    r->tokens = info.tokens;
    ax_status st = AX_OK;
    if (info.state && *info.state)
        st = ax_config_yaml_parse(info.state, strlen(info.state), r->dir, take_state, r);
    if (st == AX_OK && (info.step < 1 || info.updates < 0 || info.tokens < 0))
        st = ax_fail(AX_EFORMAT, __FILE__, __LINE__,
                     "%s: no training run saved it: start from it with model.init=%s", r->dir,
                     r->dir);
    if (st == AX_OK) {
        *config = info.config; // its owner now
        info.config = NULL;
        r->found = true;
    }
    ax_ckpt_info_fini(&info);
    return st;
}

// ---- choosing

// A broken checkpoint neither stands in the way of the next one of its step, nor counts among those
// that are kept.
static void set_aside(const ax_resume *r, const char *why)
{
    char aside[AX_RESUME_PATH + 96];
    snprintf(aside, sizeof aside, "%s/broken-%s", r->run, r->name);
    bool moved = rename(r->dir, aside) == 0;
    ax_log(AX_LOG_WARN, NULL, "%s %s; it is %s %s", r->dir, why,
           moved ? "passed over and now named" : "passed over:", moved ? aside : strerror(errno));
}

// The newest below `below` that is complete and can be read. `ours`: the lock of the run is held.
static ax_status choose_newest(const char *run, int64_t below, bool ours, ax_resume *r,
                               char **config)
{
    ax_ckpt_list list;
    AX_TRY(ax_ckpt_list_read(run, &list));
    for (int i = 0; i < list.count && !r->found; i++) {
        const ax_ckpt_entry *e = &list.entry[i];
        if (e->step >= below)
            continue;
        set_place(r, run, e->name);
        const char *why = !e->complete                          ? "is not whole"
                          : read_checkpoint(r, config) != AX_OK ? "cannot be read"
                                                                : NULL;
        if (why && ours)
            set_aside(r, why);
        else if (why)
            ax_log(AX_LOG_WARN, NULL, "%s %s and is passed over", r->dir, why);
    }
    int all = list.count;
    ax_ckpt_list_fini(&list);
    AX_CHECK(r->found || all == 0, AX_EFORMAT,
             "%s: none of its checkpoints%s is whole: look with axonn checkpoint verify, or start "
             "anew in another train.out",
             run, below == INT64_MAX ? "" : " before that one");
    return AX_OK;
}

static bool is_directory(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool same_directory(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

// train.resume=auto in a directory that exists.
static ax_status choose_auto(const char *out, ax_resume *r, char **config)
{
    bool used, claimed;
    r->back = true;
    AX_TRY(choose_newest(out, INT64_MAX, true, r, config));
    if (r->found)
        return AX_OK;
    AX_TRY(ax_rundir_look(out, &used, &claimed));
    AX_CHECK(!claimed, AX_EFORMAT,
             "%s/latest names a checkpoint, but there is none: bring it back, or start anew in "
             "another train.out",
             out);
    r->restart = used;
    if (used)
        ax_log(AX_LOG_WARN, NULL,
               "%s holds a run that ended before its first checkpoint; it begins again", out);
    return AX_OK;
}

// A checkpoint, or a run directory, whose newest one is meant.
static ax_status choose_path(const char *path, ax_resume *r, char **config)
{
    char run[AX_RESUME_PATH];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    AX_CHECK(n + 128 < sizeof run, AX_EUSAGE, "train.resume: the path is too long");
    snprintf(run, sizeof run, "%.*s", (int)n, path);
    AX_CHECK(is_directory(run), AX_EUSAGE,
             "train.resume=%s: no such directory (never, auto, or a checkpoint)", path);
    AX_TRY(choose_newest(run, INT64_MAX, false, r, config));
    r->back = r->found;
    if (r->found)
        return AX_OK;
    char *slash = strrchr(run, '/'), name[sizeof r->name];
    const char *base = slash ? slash + 1 : run;
    AX_CHECK(snprintf(name, sizeof name, "%.63s", base) == (int)strlen(base), AX_EUSAGE,
             "train.resume=%s: the name is too long", path);
    if (slash)
        *slash = '\0';
    set_place(r, !slash ? "." : slash == run ? "/" : run, name);
    return read_checkpoint(r, config);
}

// Going back behind a newer checkpoint would leave two stories in one directory.
static ax_status check_newest(const char *out, const ax_resume *r)
{
    char name[64];
    AX_TRY(ax_resume_newest(out, name, sizeof name));
    AX_CHECK(strlen(name) < strlen(r->name) ||
                 (strlen(name) == strlen(r->name) && strcmp(name, r->name) <= 0),
             AX_EUSAGE,
             "train.resume=%s: %s is newer; go on from that with train.resume=auto, move it away, "
             "or give another train.out",
             r->dir, name);
    return AX_OK;
}

static ax_status choose_out(const ax_run_config *c, ax_lock *lock, ax_resume *r, char **config)
{
    const char *out = *c->train.out ? c->train.out : r->run, *mode = c->train.resume;
    bool used, claimed;
    char path[AX_LOCK_PATH], what[AX_LOCK_PATH];
    AX_CHECK(*out, AX_EUSAGE, "train.resume=%s needs train.out, where the run is", mode);
    if (!is_directory(out)) {
        r->elsewhere = r->found;
        return AX_OK;
    }
    AX_CHECK(strlen(out) + 64 < sizeof path, AX_EUSAGE, "train.out: the path is too long");
    snprintf(path, sizeof path, "%s/lock", out);
    snprintf(what, sizeof what, "train.out=%s", out);
    AX_TRY(ax_lock_take(path, what, lock));
    if (strcmp(mode, "auto") == 0)
        return choose_auto(out, r, config);
    if (r->found && same_directory(out, r->run)) {
        set_place(r, out, r->name);
        return check_newest(out, r);
    }
    r->elsewhere = r->found;
    AX_TRY(ax_rundir_look(out, &used, &claimed));
    AX_CHECK(!used, AX_EUSAGE,
             "train.out=%s: this directory holds a run: train.resume=auto goes on with it, or "
             "choose another train.out",
             out);
    return AX_OK;
}

ax_status ax_resume_choose(const ax_run_config *c, ax_lock *lock, ax_resume *r, char **config)
{
    const char *mode = c->train.resume;
    bool never = strcmp(mode, "never") == 0, automatic = strcmp(mode, "auto") == 0;
    *r = (ax_resume){0};
    *config = NULL;
    AX_CHECK(*mode, AX_EUSAGE, "train.resume is empty: never, auto, or a checkpoint");
    AX_CHECK(strlen(c->train.out) + 128 < AX_RESUME_PATH, AX_EUSAGE,
             "train.out: the path is too long");
    if (never && !*c->train.out)
        return AX_OK;
    ax_status st = AX_OK;
    if (!never && !automatic)
        st = choose_path(mode, r, config);
    if (st == AX_OK)
        st = choose_out(c, lock, r, config);
    if (st != AX_OK) {
        free(*config);
        *config = NULL;
    }
    return st;
}

ax_status ax_resume_newest(const char *run, char *name, size_t size)
{
    ax_ckpt_list list;
    AX_TRY(ax_ckpt_list_read(run, &list));
    if (size)
        name[0] = '\0';
    for (int i = 0; i < list.count; i++)
        if (list.entry[i].complete) {
            snprintf(name, size, "%s", list.entry[i].name);
            break;
        }
    ax_ckpt_list_fini(&list);
    return AX_OK;
}

// ---- telling the others

// Bytes travel as 32-bit words.
static ax_status share_bytes(ax_comm *world, void *bytes, size_t size)
{
    size_t words = (size + 3) / 4;
    int32_t *all = calloc(words + 1, sizeof *all);
    ax_status st = ax_comm_agree(world, all ? AX_OK : AX_ENOMEM);
    if (st == AX_OK) {
        memcpy(all, bytes, world->rank == 0 ? size : 0);
        st = ax_comm_bcast(world,
                           &(ax_xfer){.send = all,
                                      .recv = all,
                                      .count = (int64_t)words,
                                      .dtype = AX_I32,
                                      .tag = "resume"},
                           0);
    }
    if (st == AX_OK)
        memcpy(bytes, all, size);
    free(all);
    return st;
}

ax_status ax_resume_share(ax_comm *world, ax_resume *r, char **config)
{
    double length = world->rank == 0 && *config ? (double)strlen(*config) + 1 : 0;
    AX_TRY(share_bytes(world, r, sizeof *r));
    AX_TRY(ax_comm_max(world, &length, 1));
    if (length == 0)
        return AX_OK;
    if (world->rank > 0)
        *config = malloc((size_t)length);
    AX_TRY(ax_comm_agree(world, *config ? AX_OK : AX_ENOMEM));
    return share_bytes(world, *config, (size_t)length);
}

// ---- the configuration

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
    static const char *const list[] = {"grid",
                                       "ranks",
                                       "model.preset",
                                       "train.out",
                                       "train.resume",
                                       "train.stop_before",
                                       "train.wall_time",
                                       NULL};
    static const char *const sections[] = {"model", "data", "train", "loss"};
    if (has(list, key))
        return true;
    bool ours = strcmp(key, "device") == 0;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        ours = ours || in_section(key, sections[i]);
    return !ours; // another verb's
}

// Those decide how long, where and how fast a run computes; numbers change by rounding at most.
// What is not listed may not change.
static bool may_change(const char *key)
{
    static const char *const list[] = {"device",
                                       "model.init",
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
                                       NULL};
    return has(list, key);
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
    AX_CHECK(strcmp(present, value) == 0 || is_automatic(o, present), AX_EUSAGE,
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
    bool given = ax_options_is_set(&c->options, key);
    bool preset = *c->preset && in_section(key, "model") && strcmp(key, "model.init") != 0;
    if ((given || preset) && !may_change(key))
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

ax_status ax_resume_adopt(const ax_resume *r, const char *config, int ranks, ax_run_config *c)
{
    if (!r->found)
        return AX_OK;
    adoption a = {.c = c, .given = c, .r = r};
    AX_TRY(ax_config_yaml_parse(config, strlen(config), r->dir, take_key, &a));
    AX_TRY(ax_options_set(&c->options, "model.preset", "", r->dir)); // the other keys say its shape
    if (!*c->train.out)
        AX_TRY(ax_options_set(&c->options, "train.out", r->run, r->dir));
    return adopt_launch(r, config, ranks, c);
}

ax_status ax_resume_check_data(const ax_resume *r, int64_t tokens)
{
    AX_CHECK(
        !r->found || !r->data_tokens || r->data_tokens == tokens, AX_EUSAGE,
        "data.train holds %lld tokens to learn from, but had %lld when %s was saved: the order "
        "of the samples would be another; bring the old files back, or begin a new run with "
        "model.init=%s",
        (long long)tokens, (long long)r->data_tokens, r->dir, r->dir);
    return AX_OK;
}

// ---- loading

// Rank 0's: the one before the one that failed.
static ax_status step_back(ax_resume *r, const ax_run_config *c)
{
    char *config = NULL;
    int64_t below = r->step;
    if (r->elsewhere)
        ax_log(AX_LOG_WARN, NULL, "%s is BROKEN; going back to the checkpoint before it", r->dir);
    else
        set_aside(r, "is BROKEN, going back to the one before");
    r->found = false;
    AX_TRY(choose_newest(r->run, below, !r->elsewhere, r, &config));
    adoption a = {.given = c, .r = r};
    ax_status st =
        config ? ax_config_yaml_parse(config, strlen(config), r->dir, take_key, &a) : AX_OK;
    free(config);
    return st;
}

ax_status ax_resume_load(ax_resume *r, const ax_run_config *c, ax_trainer *t)
{
    ax_comm *world = t->grid.world;
    for (;;) {
        ax_status st = ax_ckpt_load(r->dir, &t->model.params, &t->grid, &t->dev, true);
        if (st == AX_OK)
            break;
        if (st != AX_EFORMAT || !r->back)
            return st;
        ax_comm_recover(world);
        AX_TRY(ax_comm_agree(world, world->rank == 0 ? step_back(r, c) : AX_OK));
        AX_TRY(share_bytes(world, r, sizeof *r));
    }
    t->optim.updates = r->updates;
    return AX_OK;
}

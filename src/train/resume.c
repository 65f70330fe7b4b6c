// Which checkpoint a run goes on from.
#include "train/resume_parts.h"

#include "ckpt/manifest.h"
#include "train/config_yaml.h"
#include "train/rundir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ax_log_config ax_resume_hush(void)
{
    ax_log_config before = ax_log_current(), hushed = before;
    hushed.hushed = true;
    ax_log_setup(hushed);
    ax_error_clear();
    return before;
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

// ---- one checkpoint

// Reads r->dir. On failure *r names it still, and found is false.
static ax_status read_checkpoint(ax_resume *r, char **config)
{
    ax_ckpt_info info;
    r->found = r->data_known = false;
    AX_TRY(ax_ckpt_read_info(r->dir, &info));
    r->step = info.step;
    r->updates = info.updates;
    r->tokens = info.tokens;
    ax_status st = AX_OK;
    if (info.state && *info.state)
        st = ax_config_yaml_parse(info.state, strlen(info.state), r->dir, ax_resume_take_state, r);
    if (st == AX_OK && (info.step < 1 || info.updates < 0 || info.tokens < 0))
        st = ax_fail(AX_EUSAGE, __FILE__, __LINE__,
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

static bool is_missing(const char *dir, const char *name)
{
    char path[AX_RESUME_PATH + 160];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) != 0 && errno == ENOENT;
}

// A save that was cut, or a copy: some file is not there. Not so where the disk, or a permission,
// keeps what may be whole.
static bool lacks_file(const char *dir)
{
    ax_manifest m;
    bool lacks = is_missing(dir, AX_MANIFEST_NAME);
    ax_log_config log = ax_resume_hush();
    ax_status st = lacks ? AX_EIO : ax_manifest_read(dir, &m);
    ax_log_setup(log);
    if (st != AX_OK)
        return lacks;
    for (int i = 0; i < m.files; i++)
        lacks = lacks || is_missing(dir, m.file[i].name);
    ax_manifest_fini(&m);
    return lacks;
}

// ---- those of a run

void ax_resume_set_aside(const ax_resume *r, const char *what, const char *why)
{
    char aside[AX_RESUME_PATH + 96];
    snprintf(aside, sizeof aside, "%s/broken-%s", r->run, r->name);
    bool moved = rename(r->dir, aside) == 0;
    for (int again = 2; !moved && again < 100 && (errno == ENOTEMPTY || errno == EEXIST); again++) {
        snprintf(aside, sizeof aside, "%s/broken-%s.%d", r->run, r->name, again);
        moved = rename(r->dir, aside) == 0;
    }
    ax_log(AX_LOG_WARN, NULL, "%s %s; it is %s %s (%s)", r->dir, what,
           moved ? "passed over and now named" : "passed over:", moved ? aside : strerror(errno),
           why);
}

static ax_status check_name(const ax_resume *r, const ax_ckpt_entry *e)
{
    AX_CHECK(!e->misnamed, AX_EFORMAT,
             "%s holds step %lld: it was renamed or copied; name it step-%08lld, or move it out of "
             "the run",
             r->dir, (long long)r->step, (long long)r->step);
    return AX_OK;
}

// Reads an entry; a damaged one is passed over, so that found is false.
static ax_status try_entry(const ax_ckpt_entry *e, bool ours, ax_resume *r, char **config)
{
    char why[1024];
    ax_log_config log = ax_resume_hush();
    ax_status st = read_checkpoint(r, config);
    ax_log_setup(log);
    if (st == AX_OK)
        return check_name(r, e);
    snprintf(why, sizeof why, "%s", ax_error_text());
    if (st != AX_EFORMAT && !(st == AX_EIO && lacks_file(r->dir))) {
        ax_fail(st, __FILE__, __LINE__, "%s", why);
        return st;
    }
    const char *what = e->complete ? "cannot be read" : "is not whole";
    if (ours)
        ax_resume_set_aside(r, what, why);
    else
        ax_log(AX_LOG_WARN, NULL, "%s %s and is passed over (%s)", r->dir, what, why);
    return AX_OK;
}

ax_status ax_resume_choose_below(const char *run, int64_t below, bool ours, ax_resume *r,
                                 char **config)
{
    ax_ckpt_list list;
    ax_status st = AX_OK;
    AX_TRY(ax_ckpt_list_read(run, &list));
    for (int i = 0; st == AX_OK && i < list.count && !r->found; i++) {
        if (list.entry[i].step >= below)
            continue;
        set_place(r, run, list.entry[i].name);
        st = try_entry(&list.entry[i], ours, r, config);
    }
    int all = list.count;
    ax_ckpt_list_fini(&list);
    AX_TRY(st);
    AX_CHECK(r->found || all == 0, AX_EFORMAT,
             "%s: none of its checkpoints%s is whole: look with axonn checkpoint verify, or start "
             "anew in another train.out",
             run, below == INT64_MAX ? "" : " before that one");
    return AX_OK;
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

// ---- train.resume and train.out

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

// A text of any length, the caller's; NULL where there is no such file.
static ax_status read_text(const char *path, char **out)
{
    size_t room = 0;
    *out = NULL;
    FILE *f = fopen(path, "r");
    AX_CHECK(f || errno == ENOENT, AX_EIO, "%s: %s", path, strerror(errno));
    if (!f)
        return AX_OK;
    errno = 0;
    ssize_t length = getdelim(out, &room, '\0', f);
    bool failed = ferror(f) || (length < 0 && !feof(f));
    int why = errno;
    fclose(f);
    if (length < 0) {
        free(*out);
        *out = NULL;
    }
    AX_CHECK(!failed, AX_EIO, "%s: %s", path, strerror(why));
    return AX_OK;
}

static ax_status find_fork(void *ctx, const char *key, const char *value, const char *where)
{
    (void)where;
    ax_resume *r = ctx;
    bool path = strcmp(value, "never") != 0 && strcmp(value, "auto") != 0;
    if (strcmp(key, "train.resume") == 0 && path)
        snprintf(r->name, sizeof r->name, "%.63s", value);
    return AX_OK;
}

// One that went on from another run's checkpoint would begin from random weights.
static ax_status check_fork(const char *out, const char *text)
{
    ax_resume from = {0};
    if (text)
        AX_TRY(ax_config_yaml_parse(text, strlen(text), out, find_fork, &from));
    AX_CHECK(!*from.name, AX_EUSAGE,
             "%s holds a run that went on from train.resume=%s and ended before its first "
             "checkpoint: start it again with that train.resume, in another train.out",
             out, from.name);
    return AX_OK;
}

// A run that was cut before it saved begins again as it was told to begin.
static ax_status begin_again(const char *out, ax_resume *r, char **config)
{
    set_place(r, out, "config.yaml");
    AX_TRY(read_text(r->dir, config));
    AX_TRY(check_fork(out, *config));
    r->restart = true;
    ax_log(AX_LOG_WARN, NULL,
           "%s holds a run that ended before its first checkpoint%s; it begins again", out,
           *config ? "" : " and has no config.yaml, so that the keys of this start count");
    return AX_OK;
}

// train.resume=auto in a directory that exists.
static ax_status choose_auto(const char *out, ax_resume *r, char **config)
{
    bool used, claimed;
    r->back = true;
    AX_TRY(ax_resume_choose_below(out, INT64_MAX, true, r, config));
    if (r->found)
        return AX_OK;
    AX_TRY(ax_rundir_look(out, &used, &claimed));
    AX_CHECK(!claimed, AX_EFORMAT,
             "%s has had checkpoints, but none is whole: bring one back, or start anew in another "
             "train.out",
             out);
    return used ? begin_again(out, r, config) : AX_OK;
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
    AX_TRY(ax_resume_choose_below(run, INT64_MAX, false, r, config));
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
    ax_ckpt_entry e;
    AX_TRY(ax_ckpt_entry_read(r->dir, &e));
    AX_TRY(check_name(r, &e));
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
    ax_ckpt_mend(out);
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

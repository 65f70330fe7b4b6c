#include "train/rundir.h"

#include "base/log.h"
#include "ckpt/ckpt.h"
#include "ckpt/companions.h"
#include "ckpt/disk.h"
#include "train/keep_companions.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Creates a directory and those above it.
static ax_status make_directories(const char *path)
{
    char part[4096];
    AX_CHECK(strlen(path) < sizeof part, AX_EUSAGE, "train.out: the path is too long");
    for (size_t i = 1; i <= strlen(path); i++) {
        if (path[i] != '/' && path[i] != 0)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        AX_CHECK(mkdir(part, 0777) == 0 || errno == EEXIST, AX_EIO, "train.out=%s: %s: %s", path,
                 part, strerror(errno));
    }
    return AX_OK;
}

// Written beside and renamed, so that no reader ever sees half of it.
static ax_status write_file(const char *dir, const char *name, const char *text)
{
    char path[4200], fresh[4208];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *f = fopen(fresh, "w");
    AX_CHECK(f, AX_EIO, "%s: %s", fresh, strerror(errno));
    bool bad = fputs(text, f) < 0;
    bad = fflush(f) || bad;
    bad = fsync(fileno(f)) || bad;
    bad = fclose(f) || bad;
    bad = bad || rename(fresh, path) != 0;
    int why = errno;
    if (bad)
        unlink(fresh);
    AX_CHECK(!bad, AX_EIO, "%s: %s", path, strerror(why));
    return AX_OK;
}

ax_status ax_rundir_look(const char *out, bool *used, bool *claimed)
{
    DIR *d = opendir(out);
    AX_CHECK(d, AX_EIO, "train.out=%s: %s", out, strerror(errno));
    *used = *claimed = false;
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        *claimed = *claimed || strcmp(e->d_name, "latest") == 0 ||
                   strncmp(e->d_name, "broken-step-", 12) == 0;
        *used = *used || *claimed || strcmp(e->d_name, "metrics.jsonl") == 0 ||
                strncmp(e->d_name, "step-", 5) == 0;
    }
    closedir(d);
    return AX_OK;
}

// Where the directory was there before, the lock is held already, and it was looked into.
static ax_status claim(const char *out, ax_lock *lock)
{
    char path[AX_LOCK_PATH], what[AX_LOCK_PATH];
    bool used, claimed;
    if (lock->fd > 0)
        return AX_OK;
    AX_TRY(make_directories(out));
    AX_TRY(ax_rundir_look(out, &used, &claimed));
    snprintf(path, sizeof path, "%s/lock", out);
    snprintf(what, sizeof what, "train.out=%s", out);
    AX_TRY(ax_lock_take(path, what, lock));
    AX_TRY(ax_rundir_look(out, &used, &claimed)); // another process may have come first
    AX_CHECK(!used, AX_EUSAGE, "train.out=%s: another run has just begun here", out);
    return AX_OK;
}

static ax_status write_config(const char *out, const ax_run_config *config)
{
    ax_text yaml = {0};
    ax_status st = ax_config_print(config, &yaml);
    if (st == AX_OK)
        st = write_file(out, "config.yaml", yaml.text);
    ax_text_fini(&yaml);
    return st;
}

static const char *side_name(ax_side side)
{
    static const char *const names[] = {
        [AX_SIDE_COPY] = "copied", [AX_SIDE_ROWS] = "sequences", [AX_SIDE_HEADS] = "heads"};
    return names[side];
}

// What was chosen where the user left it open.
static void describe_plan(const ax_trainer *t, ax_text *out)
{
    const ax_layout *l = &t->layout;
    bool sharded = l->activations == AX_ACT_SHARDED;
    ax_text_add(out, ",\"plan\":{\"activations\":\"%s\",\"attention_over_y\":\"%s\"",
                sharded ? "sharded" : "replicated", side_name(l->attention));
    ax_text_add(out, ",\"micro_batch\":%lld,\"accumulation\":%lld,\"kv_copies\":%d",
                (long long)l->micro_batch, (long long)l->accumulation, l->kv_copies);
    ax_text_add(out, ",\"vocab_padded\":%lld,\"rank_bytes\":%.0f}", (long long)l->vocab_padded,
                ax_trainer_bytes(&t->size));
}

// Texts may be of any length; numbers and words are short.
static void add_value(ax_text *t, const ax_options *all, const ax_option *o, const void *target)
{
    char value[128] = "";
    if (o->kind == AX_OPT_TEXT || o->kind == AX_OPT_LIST) {
        ax_text_add_json(t, *(const char *const *)((const char *)target + o->offset));
        return;
    }
    if (ax_options_get(all, o->key, value, sizeof value) != AX_OK)
        t->failed = true;
    ax_text_add_json(t, value);
}

// The "run" object of metrics.jsonl: every key as text, the plan, the build.
static void describe(const ax_job *job, const ax_trainer *trainer, ax_text *t)
{
    const ax_run_config *c = job->config;
    char grid[64];
    ax_grid_print(&job->trainer.grid, grid, sizeof grid);
    ax_text_add(t, "{\"version\":\"%s\",\"ranks\":%d,\"grid\":\"%s\",\"dtype\":\"%s\"", AX_VERSION,
                job->ranks, grid, ax_dtype_name(job->trainer.act));
    ax_text_add(t, ",\"parameters\":%lld", (long long)ax_arch_parameters(&c->arch));
    describe_plan(trainer, t);
    ax_text_add(t, ",\"config\":{");
    const char *comma = "";
    for (int i = 0; i < c->options.parts; i++) {
        for (const ax_option *o = c->options.part[i].table; o->key; o++) {
            ax_text_add(t, "%s\"%s\":", comma, o->key);
            add_value(t, &c->options, o, c->options.part[i].target);
            comma = ",";
        }
    }
    ax_text_add(t, "}}");
}

static void announce_plan(const ax_trainer *t)
{
    const ax_layout *l = &t->layout;
    bool sharded = l->activations == AX_ACT_SHARDED;
    char where[64] = "";
    if (t->grid.shape.y > 1)
        snprintf(where, sizeof where, ", attention over y: %s", side_name(l->attention));
    ax_log(AX_LOG_INFO, "plan",
           "activations %s%s, %lld sequence%s a micro-batch, %lld micro-batch%s a step, "
           "%.0f MiB a rank",
           sharded ? "sharded" : "replicated", where, (long long)l->micro_batch,
           l->micro_batch == 1 ? "" : "s", (long long)l->accumulation,
           l->accumulation == 1 ? "" : "es", ax_trainer_bytes(&t->size) / 1048576);
}

static void announce(const ax_job *job)
{
    char grid[64];
    const ax_run_config *c = job->config;
    ax_grid_print(&job->trainer.grid, grid, sizeof grid);
    ax_log(AX_LOG_INFO, "train", "%s, %.2f million parameters, %s, %d rank%s, grid %s",
           c->arch.kind == AX_GPT ? "GPT" : "Llama", (double)ax_arch_parameters(&c->arch) / 1e6,
           ax_dtype_name(job->trainer.act), job->ranks, job->ranks == 1 ? "" : "s", grid);
    if (!*c->train.out)
        ax_log(AX_LOG_WARN, "train", "nothing will be saved: train.out is not set");
    ax_log(AX_LOG_INFO, "data", "%lld tokens to learn from, %lld held out",
           (long long)ax_corpus_tokens(job->corpus, AX_TRAIN),
           (long long)ax_corpus_tokens(job->corpus, AX_VALID));
}

static void announce_resume(const ax_job *job, const ax_resume *r)
{
    const char *dtype = ax_dtype_name(job->trainer.act);
    ax_log(AX_LOG_INFO, "resume", "%s, step %lld of %lld", r->dir, (long long)r->step,
           (long long)job->config->train.steps);
    if (*r->dtype && strcmp(r->dtype, dtype) != 0)
        ax_log(AX_LOG_INFO, "resume", "%s, where %s saved: the numbers change by rounding", dtype,
               r->dtype);
}

static bool is_done(const ax_job *job, const ax_resume *r)
{
    return r->found && !r->elsewhere && r->step >= job->config->train.steps;
}

// A run that goes on takes them from its checkpoint, where it has lost its own.
static ax_status keep_companions(const char *out, const ax_job *job, const ax_resume *r)
{
    const ax_run_config *c = job->config;
    ax_companions_source from = {
        .model = job->init, .tokenizer = c->data.tokenizer, .again = r->restart};
    from.resumed = r->restart && strcmp(from.tokenizer, "byte") != 0 &&
                   access(from.tokenizer, F_OK) != 0; // gone since: what was kept stays
    if (r->found) {
        bool none =
            !ax_companions_are_there(r->dir) && ax_hf_is(c->init); // saved by an older program
        from = (ax_companions_source){.model = none ? c->init : r->dir,
                                      .tokenizer = ax_companion_tokenizer(r->dir, from.tokenizer),
                                      .resumed = !r->elsewhere};
    }
    return ax_keep_companions(&from, out);
}

static ax_status prepare(const char *out, ax_job *job, const ax_resume *r)
{
    if (!*out)
        return AX_OK;
    AX_TRY(claim(out, &job->lock));
    ax_ckpt_sweep(out);
    AX_TRY(keep_companions(out, job, r));
    if (!is_done(job, r))
        AX_TRY(write_config(out, job->config));
    return r->found && !r->elsewhere ? ax_rundir_name_latest(out, r->name) : AX_OK;
}

ax_status ax_rundir_open(ax_job *job, const ax_trainer *t, const ax_resume *r, ax_metrics *m)
{
    ax_text run = {0};
    const char *out = job->config->train.out;
    bool quiet = job->config->verbosity < 0;
    AX_TRY(prepare(out, job, r));
    describe(job, t, &run);
    ax_status st = run.failed ? AX_ENOMEM : AX_OK;
    if (st == AX_OK)
        st = ax_metrics_open(m, &(ax_metrics_place){.dir = out,
                                                    .run = run.text,
                                                    .step = r->step,
                                                    .resumed = r->found,
                                                    .elsewhere = r->elsewhere,
                                                    .replace = r->restart,
                                                    .done = is_done(job, r),
                                                    .log_every = job->config->train.log_every,
                                                    .quiet = quiet});
    ax_text_fini(&run);
    if (st == AX_OK && !quiet && !is_done(job, r)) {
        announce(job);
        announce_plan(t);
        if (r->found)
            announce_resume(job, r);
    }
    return st;
}

ax_status ax_rundir_name_latest(const char *out, const char *name)
{
    char line[72];
    snprintf(line, sizeof line, "%s\n", name);
    AX_TRY(write_file(out, "latest", line));
    return ax_disk_sync_dir(out);
}

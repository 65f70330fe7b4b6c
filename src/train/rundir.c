#include "train/rundir.h"

#include "base/log.h"
#include "ckpt/ckpt.h"

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

// A directory of an earlier run, or one that a checkpoint could not be saved into, is noticed
// before training and not after.
static ax_status check_unused(const char *out)
{
    static const char *const ours[] = {"metrics.jsonl", "latest", "step-"};
    DIR *d = opendir(out);
    AX_CHECK(d, AX_EIO, "train.out=%s: %s", out, strerror(errno));
    bool used = false;
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
            used = used || strncmp(e->d_name, ours[i], strlen(ours[i])) == 0;
    closedir(d);
    AX_CHECK(!used, AX_EUSAGE, "train.out=%s: this directory holds a run; choose another train.out",
             out);
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
           "activations %s%s, %lld sequence%s a micro-batch, %lld a step, %.0f MiB a rank",
           sharded ? "sharded" : "replicated", where, (long long)l->micro_batch,
           l->micro_batch == 1 ? "" : "s", (long long)l->accumulation,
           ax_trainer_bytes(&t->size) / 1048576);
}

static void announce(const ax_job *job)
{
    char grid[64];
    const ax_run_config *c = job->config;
    ax_grid_print(&job->trainer.grid, grid, sizeof grid);
    ax_log(AX_LOG_INFO, "train", "%s, %.2f million parameters, %s, %d rank%s, grid %s",
           c->arch.kind == AX_GPT ? "GPT" : "Llama", (double)ax_arch_parameters(&c->arch) / 1e6,
           ax_dtype_name(job->trainer.act), job->ranks, job->ranks == 1 ? "" : "s", grid);
    ax_log(AX_LOG_INFO, "data", "%lld tokens to learn from, %lld held out",
           (long long)ax_corpus_tokens(job->corpus, AX_TRAIN),
           (long long)ax_corpus_tokens(job->corpus, AX_VALID));
}

ax_status ax_rundir_open(const char *out, const ax_job *job, const ax_trainer *t, ax_metrics *m)
{
    ax_text run = {0};
    bool quiet = job->config->verbosity < 0;
    if (*out) {
        AX_TRY(make_directories(out));
        AX_TRY(check_unused(out));
        AX_TRY(write_config(out, job->config));
    }
    describe(job, t, &run);
    ax_status st = run.failed
                       ? AX_ENOMEM
                       : ax_metrics_open(m, out, run.text, job->config->train.log_every, quiet);
    ax_text_fini(&run);
    if (st == AX_OK && !quiet) {
        announce(job);
        announce_plan(t);
    }
    return st;
}

ax_status ax_rundir_save(const char *out, const ax_run_config *config, ax_trainer *t, int64_t step,
                         int64_t tokens)
{
    char name[32], dir[4200];
    ax_text yaml = {0};
    snprintf(name, sizeof name, "step-%08lld", (long long)step);
    snprintf(dir, sizeof dir, "%s/%s", out, name);
    ax_status st = ax_comm_agree(t->grid.world, ax_config_print(config, &yaml));
    ax_ckpt_info info = {
        .step = step, .updates = t->optim.updates, .tokens = tokens, .config = yaml.text};
    if (st == AX_OK)
        st = ax_ckpt_save(dir, &t->model.params, &t->grid, &t->dev, &info);
    ax_text_fini(&yaml);
    if (st == AX_OK && t->grid.rank == 0) {
        char line[40];
        snprintf(line, sizeof line, "%s\n", name);
        st = write_file(out, "latest", line);
    }
    return ax_comm_agree(t->grid.world, st);
}

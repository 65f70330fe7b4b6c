// checkpoint list, inspect, verify: of one checkpoint, or of a run directory.
#include "cli/cli.h"

#include "ckpt/ckpt.h"
#include "ckpt/disk.h"
#include "ckpt/manifest.h"
#include "ckpt/place.h"
#include "ckpt/safetensors.h"

#include <string.h>
#include <sys/stat.h>

// The checkpoints behind a path.
typedef struct found {
    const ax_run_config *config;
    char dir[AX_PATH_MAX]; // as given, without slashes at its end
    bool run;              // the list's lie in it; else it is one itself, if anything
    ax_ckpt_list list;
    ax_text out;
} found;

static ax_status look(const ax_run_config *c, const char *dir, found *f)
{
    struct stat st;
    size_t n = strlen(dir);
    *f = (found){.config = c};
    while (n > 1 && dir[n - 1] == '/')
        n--;
    AX_CHECK(n < sizeof f->dir, AX_EUSAGE, "%.60s...: the path is too long", dir);
    snprintf(f->dir, sizeof f->dir, "%.*s", (int)n, dir);
    AX_CHECK(stat(dir, &st) == 0 && S_ISDIR(st.st_mode), AX_EUSAGE, "%s: no such directory", dir);
    AX_TRY(ax_ckpt_list_read(f->dir, &f->list));
    f->run = f->list.count > 0 || !ax_place_is_checkpoint(f->dir);
    return AX_OK;
}

static ax_status path_of(const found *f, int i, char *path)
{
    return ax_disk_join(path, f->dir, f->list.entry[i].name);
}

static void add_size(ax_text *t, int64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    int u = 0;
    for (; size >= 1024 && u < 4; u++)
        size /= 1024;
    ax_text_add(t, u ? "%.1f %s" : "%.0f %s", size, unit[u]);
}

// ---- list

static void add_entry(found *f, const char *path, const ax_ckpt_entry *e, bool first)
{
    ax_text *t = &f->out;
    if (!f->config->json) {
        const char *word = e->complete   ? "complete"
                           : e->misnamed ? "MISNAMED" // the step is another: see verify
                                         : "INCOMPLETE";
        ax_text_add(t, "%s  %s  ", path, word);
        add_size(t, e->bytes);
        ax_text_add(t, "\n");
        return;
    }
    ax_text_add(t, "%s{\"path\":", first ? "" : ",");
    ax_text_add_json(t, path);
    if (e->step >= 0)
        ax_text_add(t, ",\"step\":%lld", (long long)e->step);
    ax_text_add(t, ",\"complete\":%s,\"bytes\":%lld}", e->complete ? "true" : "false",
                (long long)e->bytes);
}

static ax_status list_entries(found *f)
{
    char path[AX_PATH_MAX];
    ax_ckpt_entry single;
    if (!f->run) {
        AX_TRY(ax_ckpt_entry_read(f->dir, &single));
        add_entry(f, f->dir, &single, true);
    }
    for (int i = 0; i < f->list.count; i++) {
        AX_TRY(path_of(f, i, path));
        add_entry(f, path, &f->list.entry[i], i == 0);
    }
    if (f->run && f->list.count == 0 && !f->config->json)
        ax_text_add(&f->out, "%s: no checkpoints\n", f->dir);
    return AX_OK;
}

static ax_status list(found *f)
{
    bool json = f->config->json;
    ax_text_add(&f->out, "%s", json ? "{\"checkpoints\":[" : "");
    AX_TRY(list_entries(f));
    ax_text_add(&f->out, "%s", json ? "]}\n" : "");
    return AX_OK;
}

// ---- inspect

static void add_tensor(found *f, const ax_st_tensor *t, const ax_manifest_tensor *listed, int i)
{
    char shape[AX_ST_DIMS * 24];
    ax_st_print_shape(t, shape, sizeof shape);
    if (!f->config->json) {
        ax_text_add(&f->out, "  %-40s %s %s\n", t->name, ax_st_dtype_name(t->dtype), shape);
        return;
    }
    ax_text_add(&f->out, "%s{\"name\":", i ? "," : "");
    ax_text_add_json(&f->out, t->name);
    ax_text_add(&f->out, ",\"dtype\":\"%s\",\"shape\":%s", ax_st_dtype_name(t->dtype), shape);
    if (listed)
        ax_text_add(&f->out, ",\"checksum\":\"%016llx\"", (unsigned long long)listed->sum);
    ax_text_add(&f->out, "}");
}

static ax_status add_file(found *f, const char *dir, const ax_manifest_file *m, int number)
{
    char path[AX_PATH_MAX];
    ax_safetensors s;
    ax_text *t = &f->out;
    AX_TRY(ax_disk_join(path, dir, m->name));
    AX_TRY(ax_safetensors_open(path, &s));
    if (f->config->json) {
        ax_text_add(t, "%s{\"name\":", number ? "," : "");
        ax_text_add_json(t, m->name);
        ax_text_add(t, ",\"bytes\":%lld,\"tensors\":[", (long long)m->bytes);
    } else {
        ax_text_add(t, "%s: %d tensors, ", m->name, s.count);
        add_size(t, m->bytes);
        ax_text_add(t, "\n");
    }
    for (int i = 0; i < s.count; i++)
        add_tensor(f, &s.list[i], ax_manifest_tensor_find(m, s.list[i].name), i);
    ax_text_add(t, "%s", f->config->json ? "]}" : "");
    ax_safetensors_close(&s);
    return AX_OK;
}

static void add_info(found *f, const char *dir, const ax_manifest *m)
{
    ax_text *t = &f->out;
    const ax_ckpt_info *i = &m->info;
    if (f->config->json) {
        ax_text_add(t, "{\"path\":");
        ax_text_add_json(t, dir);
        ax_text_add(t, ",\"step\":%lld,\"updates\":%lld,\"tokens\":%lld", (long long)i->step,
                    (long long)i->updates, (long long)i->tokens);
        ax_text_add(t, ",\"dtype\":\"%s\",\"format\":%lld", ax_dtype_name(i->dtype),
                    (long long)m->format);
        if (*i->state)
            ax_text_add(t, ",\"state\":%s", i->state);
        ax_text_add(t, ",\"config\":");
        ax_text_add_json(t, i->config);
        ax_text_add(t, ",\"files\":[");
        return;
    }
    ax_text_add(t, "%s\nstep      %lld\nupdates   %lld\ntokens    %lld\n", dir, (long long)i->step,
                (long long)i->updates, (long long)i->tokens);
    ax_text_add(t, "dtype     %s\nformat    %lld%s\n", ax_dtype_name(i->dtype),
                (long long)m->format, m->format == 1 ? ", without checksums" : "");
    if (*i->state)
        ax_text_add(t, "state     %s\n", i->state);
}

// The config is long: on -v only.
static ax_status add_checkpoint(found *f, const char *dir, const ax_manifest *m)
{
    bool json = f->config->json;
    AX_TRY(ax_manifest_check_sizes(m, dir));
    add_info(f, dir, m);
    for (int i = 0; i < m->files; i++)
        AX_TRY(add_file(f, dir, &m->file[i], i));
    if (json)
        ax_text_add(&f->out, "]}\n");
    else if (f->config->verbosity > 0)
        ax_text_add(&f->out, "config\n%s", m->info.config);
    return AX_OK;
}

// Of a run: the checkpoint that `latest` names, or the newest complete one.
static ax_status choose(const found *f, char *dir)
{
    char latest[AX_PATH_MAX];
    struct stat st;
    snprintf(dir, AX_PATH_MAX, "%s", f->dir);
    if (!f->run)
        return AX_OK;
    AX_TRY(ax_disk_join(latest, f->dir, "latest"));
    if (stat(latest, &st) == 0)
        return ax_job_checkpoint(f->dir, dir, AX_PATH_MAX);
    for (int i = 0; i < f->list.count; i++)
        if (f->list.entry[i].complete)
            return path_of(f, i, dir);
    AX_FAIL(AX_EIO, "%s: no complete checkpoint is in it", f->dir);
}

static ax_status inspect(found *f)
{
    char dir[AX_PATH_MAX];
    ax_manifest m;
    AX_TRY(choose(f, dir));
    AX_TRY(ax_manifest_read(dir, &m));
    ax_status st = add_checkpoint(f, dir, &m);
    ax_manifest_fini(&m);
    return st;
}

// ---- verify

typedef struct tally {
    int checkpoints, faults;
    int64_t tensors, bytes, unsummed;
} tally;

// `name`: of the checkpoint in the run, "" where there is no run.
static void add_fault(found *f, const char *name, const ax_ckpt_fault *bad, bool first)
{
    char file[AX_PATH_MAX];
    ax_text *t = &f->out;
    snprintf(file, sizeof file, "%s%s%s", name, *name ? "/" : "", bad->file);
    if (!f->config->json) {
        ax_text_add(t, "%s/%s: ", f->dir, file);
        if (bad->tensor[0])
            ax_text_add(t, "tensor '%s': ", bad->tensor);
        ax_text_add(t, "%s\n", bad->why);
        return;
    }
    ax_text_add(t, "%s{\"file\":", first ? "" : ",");
    ax_text_add_json(t, file);
    ax_text_add(t, ",\"tensor\":");
    ax_text_add_json(t, bad->tensor);
    ax_text_add(t, ",\"why\":");
    ax_text_add_json(t, bad->why);
    ax_text_add(t, "}");
}

static ax_status verify_one(found *f, const char *dir, const char *name, tally *all)
{
    ax_ckpt_verdict v;
    AX_TRY(ax_ckpt_verify(dir, &v));
    for (int i = 0; i < v.faults; i++)
        add_fault(f, name, &v.fault[i], all->faults++ == 0);
    all->checkpoints++;
    all->tensors += v.tensors;
    all->bytes += v.bytes;
    all->unsummed += v.unsummed;
    if (!f->config->json && v.faults == 0) {
        ax_text_add(&f->out, "%s: ok, %lld tensors, ", dir, (long long)v.tensors);
        add_size(&f->out, v.bytes);
        ax_text_add(&f->out, "%s\n", v.unsummed ? ", written without checksums" : "");
    }
    ax_ckpt_verdict_fini(&v);
    return AX_OK;
}

// Of a run: each, because a user wants to know which of them can be gone back to.
static ax_status verify_all(found *f, tally *all)
{
    char path[AX_PATH_MAX];
    if (f->list.count == 0)
        return verify_one(f, f->dir, "", all);
    for (int i = 0; i < f->list.count; i++) {
        AX_TRY(path_of(f, i, path));
        AX_TRY(verify_one(f, path, f->list.entry[i].name, all));
    }
    return AX_OK;
}

static ax_status verify(found *f, tally *all)
{
    bool json = f->config->json;
    ax_text list = {0};
    AX_TRY(verify_all(f, all));
    if (!json)
        return AX_OK;
    list = f->out;
    f->out = (ax_text){0};
    ax_text_add(&f->out, "{\"ok\":%s,\"bad\":[%s]", all->faults ? "false" : "true",
                list.text ? list.text : "");
    f->out.failed = f->out.failed || list.failed;
    ax_text_fini(&list);
    ax_text_add(&f->out, ",\"checkpoints\":%d,\"tensors\":%lld,\"bytes\":%lld,\"unsummed\":%lld}\n",
                all->checkpoints, (long long)all->tensors, (long long)all->bytes,
                (long long)all->unsummed);
    return AX_OK;
}

// ---- the verb

static ax_status run_action(const char *action, found *f)
{
    tally all = {0};
    ax_status st = strcmp(action, "list") == 0      ? list(f)
                   : strcmp(action, "inspect") == 0 ? inspect(f)
                                                    : verify(f, &all);
    AX_TRY(st);
    AX_CHECK(!f->out.failed, AX_ENOMEM, "no memory for the answer");
    ax_cli_show(f->out.text ? f->out.text : "", f->out.length);
    AX_CHECK(all.faults == 0, AX_EFORMAT, "%s: %d fault%s found", f->dir, all.faults,
             all.faults == 1 ? "" : "s");
    return AX_OK;
}

static bool is_action(const char *word)
{
    static const char *const actions[] = {"list", "inspect", "verify"};
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(word, actions[i]) == 0)
            return true;
    return false;
}

static ax_status answer(const ax_run_config *c)
{
    found f = {0};
    ax_launch launch = ax_comm_launch();
    AX_CHECK(c->words > 0, AX_EUSAGE, "checkpoint needs one of list, inspect, verify");
    AX_CHECK(is_action(c->word[0]), AX_EUSAGE, "checkpoint %s: there are list, inspect, verify",
             c->word[0]);
    AX_CHECK(c->words == 2, AX_EUSAGE, "checkpoint %s needs a directory: a run's or a checkpoint's",
             c->word[0]);
    if (launch.launcher && launch.rank > 0)
        return AX_OK; // one answer a job
    ax_status st = look(c, c->word[1], &f);
    if (st == AX_OK)
        st = run_action(c->word[0], &f);
    ax_ckpt_list_fini(&f.list);
    ax_text_fini(&f.out);
    return st;
}

ax_status ax_cmd_checkpoint(int argc, char **argv)
{
    ax_run_config c;
    bool helped;
    AX_TRY(ax_cli_config("checkpoint", argc, argv, 2, &c, &helped));
    if (helped)
        return AX_OK;
    ax_status st = answer(&c);
    ax_config_fini(&c);
    return st;
}

// What a checkpoint says of its run beside tensors and keys, and what the data of a run is.
#include "train/resume_parts.h"

#include "data/fingerprint.h"
#include "train/config_yaml.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the state

ax_status ax_resume_take_state(void *ctx, const char *key, const char *value, const char *where)
{
    ax_resume *r = ctx;
    bool read = true;
    if (strcmp(key, "plan.grid") == 0)
        snprintf(r->grid, sizeof r->grid, "%s", value);
    else if (strcmp(key, "plan.dtype") == 0)
        snprintf(r->dtype, sizeof r->dtype, "%s", value);
    else if (strcmp(key, "data.tokens") == 0)
        read = ax_parse_int(value, &r->data_tokens) && r->data_tokens >= 0;
    else if (strcmp(key, "data.files") == 0)
        r->data_known = true;
    else if (strcmp(key, "loss") == 0)
        read = ax_parse_real(value, &r->loss);
    AX_CHECK(read, AX_EFORMAT, "%s: the state's %s is '%s'", where, key, value);
    return AX_OK;
}

static void add_files(const ax_resume_data *data, ax_text *out)
{
    ax_text_add(out, ",\"files\":[");
    for (int i = 0; i < data->files; i++) {
        ax_text_add(out, "%s", i ? "," : "");
        ax_text_add_json(out, data->file[i]);
    }
    ax_text_add(out, "]");
}

void ax_resume_state(const ax_run_config *c, const ax_trainer *t, int64_t step,
                     const ax_resume_data *data, double loss, ax_text *out)
{
    const ax_layout *l = &t->layout;
    char grid[64];
    ax_grid_print(&t->grid.shape, grid, sizeof grid);
    ax_text_add(out, "{\"plan\":{\"ranks\":%d,\"grid\":\"%s\",\"activations\":\"%s\"",
                t->grid.ranks, grid, l->activations == AX_ACT_SHARDED ? "sharded" : "replicated");
    ax_text_add(out, ",\"micro_batch\":%lld,\"accumulation\":%lld,\"dtype\":\"%s\"}",
                (long long)l->micro_batch, (long long)l->accumulation,
                ax_dtype_name(t->config.act));
    ax_text_add(out, ",\"data\":{\"seed\":%lld,\"tokens\":%lld,\"next_sample\":%lld",
                (long long)c->data.seed, (long long)data->tokens, (long long)(step * l->batch));
    add_files(data, out);
    // Random numbers are a pure function of seed, stream and index: the next step is their state.
    ax_text_add(out,
                "},\"random\":{\"generator\":\"philox4x32-10\",\"seed\":%lld,\"next_step\":%lld}",
                (long long)c->train.seed, (long long)step + 1);
    ax_text_add(out, ",\"loss\":%.17g}", isfinite(loss) ? loss : 0.0);
}

// ---- the data

// A file is one line: key, share of its source in the mixture, tokens, fingerprint, base name. The
// name is for messages alone, and last because it may hold blanks.
typedef struct line {
    char key[16], share[32], sum[17];
    int64_t tokens;
    const char *name;
} line;

static bool parse(const char *text, line *out)
{
    int name = 0;
    *out = (line){0};
    int read = sscanf(text, "%15s %31s %" SCNd64 " %16s %n", out->key, out->share, &out->tokens,
                      out->sum, &name);
    out->name = text + name;
    return read == 4 && name > 0;
}

// A state must be read again as JSON and as YAML, and an odd letter is not worth an escape.
static void add_name(const char *path, ax_text *out)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    ax_text json = {0};
    ax_text_add_json(&json, name);
    bool plain = !json.failed && !strchr(json.text, '\\');
    ax_text_fini(&json);
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        bool odd = c < 0x20 || c > 0x7e || c == '"' || c == '\\';
        ax_text_add(out, "%c", odd && !plain ? '?' : *name);
    }
}

static ax_status add_file(const ax_source *s, int file, double share, ax_resume_data *out)
{
    uint64_t sum = 0;
    ax_text text = {0};
    ax_source_file f = ax_source_file_at(s, file);
    AX_TRY(ax_fingerprint_file(s, file, &sum));
    ax_text_add(&text, "%s %.12g %lld %016llx ", share > 0 ? "data.train" : "data.valid", share,
                (long long)f.count, (unsigned long long)sum);
    add_name(f.path, &text);
    char **more = realloc(out->file, (size_t)(out->files + 1) * sizeof *more);
    out->file = more ? more : out->file;
    if (!more || text.failed) {
        ax_text_fini(&text);
        AX_FAIL(AX_ENOMEM, "no memory for a list of the data's files");
    }
    out->file[out->files++] = text.text; // its owner now
    return AX_OK;
}

ax_status ax_resume_data_read(const ax_corpus *c, ax_resume_data *out)
{
    out->tokens = ax_corpus_tokens(c, AX_TRAIN);
    for (int i = 0; i < ax_corpus_sources(c); i++) {
        double share = 0;
        const ax_source *s = ax_corpus_source_at(c, i, &share);
        for (int k = 0; k < ax_source_files(s); k++)
            AX_TRY(add_file(s, k, share, out));
    }
    return AX_OK;
}

void ax_resume_data_fini(ax_resume_data *data)
{
    for (int i = 0; i < data->files; i++)
        free(data->file[i]);
    free(data->file);
    *data = (ax_resume_data){0};
}

// ---- the data then and now

#define WAY_OUT                                                                                    \
    "the samples would be others; bring the old data back, or begin a new run from these weights " \
    "with model.init=%s"

static ax_status check_file(const ax_resume *r, const char *was, const char *is)
{
    line then, now;
    char name[512];
    AX_CHECK(parse(was, &then), AX_EFORMAT, "%s: the state's data.files holds '%s'", r->dir, was);
    parse(is, &now);
    bool renamed = strcmp(then.name, now.name) != 0;
    snprintf(name, sizeof name, "%.200s%s%.200s%s", now.name, renamed ? " (then " : "",
             renamed ? then.name : "", renamed ? ")" : "");
    AX_CHECK(strcmp(then.key, now.key) == 0, AX_EUSAGE,
             "%s: %s stood in %s when %s was saved: " WAY_OUT, now.key, name, then.key, r->dir,
             r->dir);
    AX_CHECK(then.tokens == now.tokens, AX_EUSAGE,
             "%s: %s holds %lld tokens, but held %lld when %s was saved: " WAY_OUT, now.key, name,
             (long long)now.tokens, (long long)then.tokens, r->dir, r->dir);
    AX_CHECK(strcmp(then.sum, now.sum) == 0, AX_EUSAGE,
             "%s: %s does not hold the tokens that it held when %s was saved: " WAY_OUT, now.key,
             name, r->dir, r->dir);
    AX_CHECK(strcmp(then.share, now.share) == 0, AX_EUSAGE,
             "%s: the share of %s in the mixture is %s, but was %s when %s was saved: " WAY_OUT,
             now.key, name, now.share, then.share, r->dir, r->dir);
    return AX_OK;
}

typedef struct comparison {
    const ax_resume *r;
    const ax_resume_data *now;
} comparison;

// The list comes as one text with commas, which no file of the data has in its name.
static ax_status compare_files(void *ctx, const char *key, const char *value, const char *where)
{
    const comparison *c = ctx;
    int i = 0;
    (void)where;
    if (strcmp(key, "data.files") != 0)
        return AX_OK;
    for (const char *at = value; *at; i++) {
        size_t n = strcspn(at, ",");
        char *was = i < c->now->files ? strndup(at, n) : NULL;
        ax_status st = was ? check_file(c->r, was, c->now->file[i]) : AX_OK;
        free(was);
        AX_TRY(st);
        at += n + (at[n] == ',');
    }
    AX_CHECK(i == c->now->files, AX_EUSAGE,
             "data.train and data.valid name %d files, but named %d when %s was saved: " WAY_OUT,
             c->now->files, i, c->r->dir, c->r->dir);
    return AX_OK;
}

// An earlier version kept only a number.
static ax_status check_tokens(const ax_resume *r, int64_t tokens)
{
    AX_CHECK(
        !r->data_tokens || r->data_tokens == tokens, AX_EUSAGE,
        "data.train holds %lld tokens to learn from, but held %lld when %s was saved: " WAY_OUT,
        (long long)tokens, (long long)r->data_tokens, r->dir, r->dir);
    ax_log(AX_LOG_WARN, NULL,
           "%s: an earlier version saved it without fingerprints of its data: that those are the "
           "same files is not checked",
           r->dir);
    return AX_OK;
}

ax_status ax_resume_check_data(const ax_resume *r, const ax_resume_data *now)
{
    ax_ckpt_info info;
    if (!r->found)
        return AX_OK;
    if (!r->data_known)
        return check_tokens(r, now->tokens);
    AX_TRY(ax_ckpt_read_info(r->dir, &info));
    comparison c = {r, now};
    ax_status st = ax_config_yaml_parse(info.state, strlen(info.state), r->dir, compare_files, &c);
    ax_ckpt_info_fini(&info);
    return st;
}

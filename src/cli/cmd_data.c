// axonn data show: what the rows of a training step hold, told from seed and step alone.
#include "cli/cli.h"

#include "data/loader.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

// ---- the command line

// --step N, --step=N or step=N is this verb's own; the other arguments are the run's.
static ax_status take_step(int argc, char **argv, char **rest, int *others, int64_t *step)
{
    const char *value = NULL;
    *others = 0;
    for (int i = 0; i < argc; i++) {
        const char *name = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : argv[i];
        if (strncmp(name, "step=", 5) == 0)
            value = name + 5;
        else if (strcmp(argv[i], "--step") == 0)
            value = i + 1 < argc ? argv[++i] : "";
        else
            rest[(*others)++] = argv[i];
    }
    if (value)
        AX_CHECK(ax_parse_int(value, step) && *step >= 1 && *step <= INT64_C(1) << 40, AX_EUSAGE,
                 "command line: step=%s: the value must be an integer in 1..%lld", value,
                 (long long)(INT64_C(1) << 40));
    return AX_OK;
}

// ---- one row

typedef struct row {
    int64_t number;
    ax_sample sample;
    const ax_source *source;
    int64_t first, last; // documents
} row;

static ax_status look_up(const ax_job *job, const ax_loader *l, int64_t step, int64_t number,
                         row *out)
{
    row r = {.number = number, .sample = ax_loader_sample(l, step, number)};
    r.source = ax_corpus_source(job->corpus, AX_TRAIN, r.sample.source);
    AX_TRY(ax_source_find(r.source, r.sample.begin, &r.first));
    AX_TRY(ax_source_find(r.source, r.sample.end - 1, &r.last));
    *out = r;
    return AX_OK;
}

static ax_status is_empty(const row *r, int64_t document, bool *out)
{
    int64_t begin[2];
    AX_TRY(ax_source_borders(r->source, document, 2, begin));
    *out = begin[0] == begin[1];
    return AX_OK;
}

static void add_document(const row *r, int64_t document, bool json, const char *comma, ax_text *out)
{
    ax_source_place place = ax_source_locate(r->source, document);
    long long where = place.line ? place.line : place.index;
    if (json) {
        ax_text_add(out, "%s{\"document\":%lld,\"file\":", comma, (long long)document);
        ax_text_add_json(out, place.path);
        ax_text_add(out, ",\"%s\":%lld}", place.line ? "line" : "index", where);
    } else {
        ax_text_add(out, "%s %lld (%s %s %lld)", comma, (long long)document, place.path,
                    place.line ? "line" : "number", where);
    }
}

static ax_status add_documents(const row *r, bool json, ax_text *out)
{
    const char *comma = "";
    for (int64_t d = r->first; d <= r->last; d++) {
        bool empty = false;
        AX_TRY(is_empty(r, d, &empty));
        if (empty)
            continue;
        add_document(r, d, json, comma, out);
        comma = ",";
    }
    return AX_OK;
}

static ax_status add_row(const row *r, bool json, ax_text *out)
{
    const ax_sample *s = &r->sample;
    ax_text_add(out,
                json ? "{\"row\":%lld,\"source\":%d,\"epoch\":%lld,\"sample\":%lld,"
                       "\"begin\":%lld,\"end\":%lld,\"documents\":["
                     : "row %lld  source %d  epoch %lld  sample %lld  tokens %lld..%lld  documents",
                (long long)r->number, s->source, (long long)s->epoch + 1, (long long)s->sample,
                (long long)s->begin, (long long)s->end - (json ? 0 : 1));
    AX_TRY(add_documents(r, json, out));
    ax_text_add(out, json ? "]}" : "\n");
    return AX_OK;
}

// ---- the verb

static ax_status add_rows(const ax_job *job, int64_t step, ax_text *out)
{
    ax_loader l;
    const ax_run_config *c = job->config;
    AX_TRY(ax_loader_init(&l, job->corpus, c->train.batch, c->data.seed));
    if (c->json)
        ax_text_add(out, "{\"step\":%lld,\"rows\":[", (long long)step);
    for (int64_t i = 0; i < c->train.batch; i++) {
        row r;
        AX_TRY(look_up(job, &l, step, i, &r));
        ax_text_add(out, c->json && i > 0 ? "," : "");
        AX_TRY(add_row(&r, c->json, out));
    }
    ax_text_add(out, c->json ? "]}\n" : "");
    AX_CHECK(!out->failed, AX_ENOMEM, "no memory to print the rows of a step");
    return AX_OK;
}

static ax_status show_rows(const ax_job *job, int64_t step)
{
    ax_text text = {0};
    ax_status st = add_rows(job, step, &text);
    if (st == AX_OK)
        fputs(text.text, stdout);
    ax_text_fini(&text);
    return st;
}

static ax_status show(ax_run_config *c, int64_t step)
{
    AX_CHECK(c->words == 1 && strcmp(c->word[0], "show") == 0, AX_EUSAGE,
             "data needs the word show: axonn data show --step N");
    ax_launch launch = ax_comm_launch();
    if (launch.launcher && launch.rank > 0)
        return AX_OK; // one answer a job
    AX_CHECK(step >= 1, AX_EUSAGE, "data show needs a step: --step N, from 1");
    ax_job job = {.config = c, .corpus_wanted = true, .documents_wanted = true};
    ax_status st = ax_job_open_data(&job);
    if (st == AX_OK)
        st = show_rows(&job, step);
    ax_job_close_data(&job);
    return st;
}

ax_status ax_cmd_data(int argc, char **argv)
{
    ax_run_config c;
    bool helped;
    int others;
    int64_t step = 0;
    char **rest = malloc((size_t)(argc + 1) * sizeof *rest);
    AX_CHECK(rest, AX_ENOMEM, "no memory for the command line");
    ax_status st = take_step(argc, argv, rest, &others, &step);
    if (st == AX_OK)
        st = ax_cli_config("data", others, rest, 1, &c, &helped);
    if (st == AX_OK && !helped) {
        st = show(&c, step);
        ax_config_fini(&c);
    }
    free(rest);
    return st;
}

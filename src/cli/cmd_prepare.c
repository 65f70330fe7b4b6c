// axonn prepare data.train=FILES out=PREFIX: text and JSON lines to token files.
#include "cli/cli.h"

#include "train/prepare_job.h"

#include <stdlib.h>
#include <string.h>

// out and on-error are short for the verb's own keys.
static const struct {
    const char *name, *key;
} short_forms[] = {
    {"out", "prepare.out"},
    {"on-error", "prepare.on_error"},
    {"on_error", "prepare.on_error"},
};

// "--on-error", "--on-error=skip" or "on_error=skip" get the whole key; others none.
static void lengthen(const char *text, ax_text *out)
{
    bool dashed = strncmp(text, "--", 2) == 0;
    const char *name = text + (dashed ? 2 : 0);
    size_t n = strcspn(name, "=");
    for (size_t i = 0; i < sizeof short_forms / sizeof short_forms[0]; i++) {
        bool is = strlen(short_forms[i].name) == n && !strncmp(name, short_forms[i].name, n);
        if (is && (dashed || name[n] == '=')) {
            ax_text_add(out, "%s%s%s", dashed ? "--" : "", short_forms[i].key, name + n);
            return;
        }
    }
}

static double rate(int64_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes * 1e-6 / seconds : 0;
}

static void print(const ax_run_config *c, const ax_prepared *p)
{
    const ax_prepare_result *r = &p->result;
    ax_text t = {0};
    ax_text_add_json(&t, c->prepare.out);
    if (c->json)
        printf("{\"out\": %s, \"documents\": %lld, \"tokens\": %lld, \"bytes\": %lld, \"skipped\": "
               "%lld, \"empty\": %lld, \"token_bytes\": %d, \"vocab\": %lld, \"threads\": %d, "
               "\"seconds\": %.6f, \"mb_per_s\": %.3f}\n",
               t.failed ? "null" : t.text, (long long)r->documents, (long long)r->tokens,
               (long long)r->text_bytes, (long long)r->skipped, (long long)r->empty, p->width,
               (long long)p->vocab, r->threads, r->seconds, rate(r->text_bytes, r->seconds));
    else
        printf("%s.bin, %s.idx: %lld documents, %lld tokens of %d bytes, from %lld bytes of text\n"
               "left out: %lld empty documents, %lld lines that are no documents\n"
               "%.1f MB/s, %d threads\n",
               c->prepare.out, c->prepare.out, (long long)r->documents, (long long)r->tokens,
               p->width, (long long)r->text_bytes, (long long)r->empty, (long long)r->skipped,
               rate(r->text_bytes, r->seconds), r->threads);
    ax_text_fini(&t);
}

static ax_status run(int argc, char **argv)
{
    ax_run_config c;
    ax_prepared p;
    bool helped;
    AX_TRY(ax_cli_config("prepare", argc, argv, 0, &c, &helped));
    if (helped)
        return AX_OK;
    ax_status st = AX_OK;
    if (*c.data.valid)
        st = ax_fail(AX_EUSAGE, __FILE__, __LINE__,
                     "data.valid=%s: prepare reads data.train alone; prepare held-out files by "
                     "themselves",
                     c.data.valid);
    if (st == AX_OK)
        st = ax_prepare(&c, &p);
    if (st == AX_OK)
        print(&c, &p);
    ax_config_fini(&c);
    return st;
}

ax_status ax_cmd_prepare(int argc, char **argv)
{
    char **line = calloc((size_t)argc + 1, sizeof *line);
    ax_text *text = calloc((size_t)argc + 1, sizeof *text);
    ax_status st = AX_OK;
    if (!line || !text)
        st = ax_fail(AX_ENOMEM, __FILE__, __LINE__, "no memory for the command line");
    for (int i = 0; st == AX_OK && i < argc; i++) {
        lengthen(argv[i], &text[i]);
        line[i] = text[i].text && !text[i].failed ? text[i].text : argv[i];
    }
    if (st == AX_OK)
        st = run(argc, line);
    for (int i = 0; text && i < argc; i++)
        ax_text_fini(&text[i]);
    free(text);
    free(line);
    return st;
}

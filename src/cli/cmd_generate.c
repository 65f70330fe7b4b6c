#include "cli/cli.h"

#include "train/generate.h"

typedef struct printer {
    bool several;
    int64_t number;
    bool failed;
} printer;

static void print_bytes(void *ctx, const char *bytes, size_t length)
{
    (void)ctx;
    ax_cli_show(bytes, length);
    fflush(stdout);
}

// One prompt was printed as it came; several stand under a line with their number.
static void print_text(void *ctx, const ax_generated *g)
{
    printer *p = ctx;
    if (p->several) {
        p->number++;
        printf("%s==> %lld <==\n", p->number > 1 ? "\n" : "", (long long)p->number);
        print_bytes(p, g->prompt, g->prompt_length);
        print_bytes(p, g->text, g->length);
    }
    putchar('\n');
}

static void print_json(void *ctx, const ax_generated *g)
{
    printer *p = ctx;
    ax_text line = {0};
    ax_text_add(&line, "{\"prompt\":");
    ax_text_add_json_bytes(&line, g->prompt, g->prompt_length);
    ax_text_add(&line, ",\"text\":");
    ax_text_add_json_bytes(&line, g->text, g->length);
    ax_text_add(&line, ",\"tokens\":%lld,\"stopped\":\"%s\"}", (long long)g->tokens,
                g->ended ? "eos" : "length");
    p->failed = p->failed || line.failed;
    if (!line.failed) {
        puts(line.text);
        fflush(stdout);
    }
    ax_text_fini(&line);
}

ax_status ax_cmd_generate(int argc, char **argv)
{
    ax_run_config c;
    bool helped;
    AX_TRY(ax_cli_config("generate", argc, argv, AX_CONFIG_WORDS, &c, &helped));
    if (helped)
        return AX_OK;
    printer p = {.several = c.words > 1 || *c.generate.prompts};
    ax_generate_sink sink = {.piece = p.several || c.json ? NULL : print_bytes,
                             .done = c.json ? print_json : print_text,
                             .ctx = &p};
    ax_status st = ax_generate_run(&c, &sink);
    if (st == AX_OK && p.failed)
        st = ax_fail(AX_ENOMEM, __FILE__, __LINE__, "no memory for a line of JSON");
    ax_config_fini(&c);
    return st;
}

#include "cli/cli.h"

#include "base/log.h"
#include "train/key_readers.h"

#include <string.h>

// The keys of a verb, as lines of words.
static ax_status print_keys(const char *verb, FILE *to)
{
    enum { WIDTH = 90 };
    ax_run_config c;
    AX_TRY(ax_config_load(0, NULL, 0, &c));
    size_t width = 0;
    for (int p = 0; p < c.options.parts; p++)
        for (const ax_option *o = c.options.part[p].table; o->key; o++) {
            size_t n = strlen(o->key);
            if (!ax_config_reads(verb, o->key))
                continue;
            if (width == 0)
                fprintf(to, "\nIt reads these keys (axonn help KEY tells of one):\n   ");
            else if (width + n > WIDTH)
                fprintf(to, "\n   "), width = 0;
            fprintf(to, " %s", o->key);
            width += n + 1;
        }
    if (width > 0)
        fprintf(to, "\n");
    ax_config_fini(&c);
    return AX_OK;
}

ax_status ax_cli_help_verb(const char *name, FILE *to)
{
    for (const ax_verb *v = ax_verbs; v->name; v++) {
        if (strcmp(v->name, name) != 0)
            continue;
        fprintf(to, "axonn %s: %s\n\n", v->name, v->summary);
        for (const char *line = v->usage; *line;) {
            size_t n = strcspn(line, "\n");
            fprintf(to, "    %.*s\n", (int)n, line);
            line += n + (line[n] == '\n');
        }
        fprintf(to,
                "\nKeys are key=value or --key value, on the line or in a YAML file (--config);\n"
                "the line wins. axonn help keys lists them.\n");
        return print_keys(v->name, to);
    }
    AX_FAIL(AX_EUSAGE, "no verb '%s' (axonn help lists all)", name);
}

ax_status ax_cli_config(const char *verb, int argc, char **argv, int words, ax_run_config *c,
                        bool *helped)
{
    *helped = false;
    AX_TRY(ax_config_load(argc, argv, words, c));
    if (c->help) {
        *helped = true;
        ax_config_fini(c);
        return ax_cli_help_verb(verb, stdout);
    }
    ax_status st = ax_config_check_readers(c, verb);
    if (st != AX_OK) {
        ax_config_fini(c);
        return st;
    }
    ax_log_config log = ax_log_current();
    log.level = c->verbosity > 0 ? AX_LOG_DEBUG : c->verbosity < 0 ? AX_LOG_WARN : AX_LOG_INFO;
    ax_log_setup(log);
    return AX_OK;
}

static ax_status list_verbs(void)
{
    printf("axonn %s: train GPT and Llama models on a grid x * y * z * data\n\n", AX_VERSION);
    printf(
        "axonn VERB [--config FILE.yaml] [key=value ...] [--ranks N] [--grid G] [--json] [-q|-v]\n"
        "\n");
    for (const ax_verb *v = ax_verbs; v->name; v++)
        printf("    %-10s %s\n", v->name, v->summary);
    printf(
        "\naxonn help VERB shows examples, axonn help keys every key, axonn help KEY one.\n"
        "--config FILE: keys from YAML; --json: one object as the answer; -q, -v: say less, more.\n"
        "Exit status: 0 done, 1 failed, 2 wrong use, 75 stopped early after saving: start it\n"
        "again with train.resume=auto; 130 the same, by Ctrl-C.\n");
    return AX_OK;
}

static ax_status print_text(ax_status st, ax_text *t)
{
    if (st == AX_OK && t->text)
        fputs(t->text, stdout);
    ax_text_fini(t);
    return st;
}

ax_status ax_cmd_help(int argc, char **argv)
{
    ax_text t = {0};
    if (argc == 0)
        return list_verbs();
    if (strcmp(argv[0], "keys") == 0) {
        ax_status st = ax_config_help(argc > 1 ? argv[1] : NULL, &t);
        return print_text(st, &t);
    }
    if (strcmp(argv[0], "options-md") == 0) {
        ax_status st = ax_config_options_md(&t);
        return print_text(st, &t);
    }
    if (strchr(argv[0], '.') || strcmp(argv[0], "grid") == 0 || strcmp(argv[0], "ranks") == 0 ||
        strcmp(argv[0], "device") == 0)
        return print_text(ax_config_help_key(argv[0], &t), &t);
    return ax_cli_help_verb(argv[0], stdout);
}

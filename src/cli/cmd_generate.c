#include "cli/cli.h"

#include "train/generate.h"
#include "train/loop.h"

#include <string.h>
#include <unistd.h>

// On a terminal control bytes show as \xNN, so that a model cannot drive the terminal; in a pipe
// bytes are bytes.
static void emit(void *ctx, const char *bytes, size_t length)
{
    const bool *terminal = ctx;
    for (size_t i = 0; i < length; i++) {
        unsigned char b = (unsigned char)bytes[i];
        bool control = (b < 0x20 && b != '\n' && b != '\t') || b == 0x7f;
        if (*terminal && control)
            printf("\\x%02X", b);
        else
            putchar(b);
    }
    fflush(stdout);
}

static ax_status write_text(const ax_job *job, ax_trainer *t)
{
    bool terminal = isatty(STDOUT_FILENO);
    ax_status st = ax_generate(t, job->tokenizer, &job->config->generate, emit, &terminal);
    if (t->grid.rank == 0)
        putchar('\n');
    return st;
}

static void collect(void *ctx, const char *bytes, size_t length)
{
    ax_text_add_bytes(ctx, bytes, length);
}

static ax_status write_json(const ax_job *job, ax_trainer *t)
{
    ax_text text = {0}, line = {0};
    ax_status st = ax_generate(t, job->tokenizer, &job->config->generate, collect, &text);
    if (st == AX_OK && t->grid.rank == 0) {
        ax_text_add(&line, "{\"text\":");
        ax_text_add_json_bytes(&line, text.text ? text.text : "", text.length);
        ax_text_add(&line, "}");
        st = text.failed || line.failed ? AX_ENOMEM : AX_OK;
        if (st == AX_OK)
            puts(line.text);
    }
    ax_text_fini(&text);
    ax_text_fini(&line);
    return st;
}

static ax_status generate_rank(ax_job *job, ax_comm *world)
{
    ax_trainer t;
    AX_TRY(ax_train_open(job, world, &t));
    ax_status st = job->config->json ? write_json(job, &t) : write_text(job, &t);
    ax_comm_end(world, st);
    ax_trainer_close(&t);
    return st;
}

ax_status ax_cmd_generate(int argc, char **argv)
{
    ax_run_config c;
    bool helped;
    AX_TRY(ax_cli_config("generate", argc, argv, 1, &c, &helped));
    if (helped)
        return AX_OK;
    if (c.words)
        c.generate.prompt = c.word[0];
    ax_job job = {.config = &c, .inference = true, .one_sequence = true};
    ax_status st = AX_OK;
    if (strcmp(c.init, "random") == 0)
        st = ax_fail(AX_EUSAGE, __FILE__, __LINE__,
                     "generate needs a model: model.init=DIR, a run directory or a checkpoint");
    if (st == AX_OK)
        st = ax_job_run(&job, generate_rank);
    ax_config_fini(&c);
    return st;
}

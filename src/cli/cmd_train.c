#include "cli/cli.h"

#include "train/loop.h"

#include <string.h>

static void print_json(const ax_job *job, bool stopped)
{
    const ax_train_summary *s = &job->trained;
    printf("{\"steps\":%lld,\"tokens\":%lld,\"loss\":%.17g", (long long)s->steps,
           (long long)s->tokens, s->loss);
    if (s->evaluated)
        printf(",\"valid_loss\":%.17g", s->valid_loss);
    if (stopped)
        printf(",\"stopped\":true");
    printf(",\"seconds\":%.3f}\n", s->seconds);
}

ax_status ax_cmd_train(int argc, char **argv)
{
    ax_run_config c;
    bool helped;
    AX_TRY(ax_cli_config("train", argc, argv, 0, &c, &helped));
    if (helped)
        return AX_OK;
    if (*c.train.out || strcmp(c.train.resume, "never") != 0)
        ax_cli_watch_signals(); // without a place to save to, a signal just ends the program
    ax_job job = {.config = &c, .corpus_wanted = true, .run_wanted = true, .asked = ax_cli_signal};
    ax_status st = ax_job_run(&job, ax_train_rank);
    bool saved = st == AX_ESTOPPED || st == AX_EINTERRUPTED;
    if ((st == AX_OK || saved) && c.json && job.trained.steps > 0) // rank 0's
        print_json(&job, saved);
    ax_config_fini(&c);
    return st;
}

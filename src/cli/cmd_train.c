#include "cli/cli.h"

#include "train/loop.h"

static void print_json(const ax_job *job)
{
    const ax_train_summary *s = &job->trained;
    printf("{\"steps\":%lld,\"tokens\":%lld,\"loss\":%.17g", (long long)s->steps,
           (long long)s->tokens, s->loss);
    if (s->evaluated)
        printf(",\"valid_loss\":%.17g", s->valid_loss);
    printf(",\"seconds\":%.3f}\n", s->seconds);
}

ax_status ax_cmd_train(int argc, char **argv)
{
    ax_run_config c;
    bool helped;
    AX_TRY(ax_cli_config("train", argc, argv, 0, &c, &helped));
    if (helped)
        return AX_OK;
    ax_job job = {.config = &c, .corpus_wanted = true};
    ax_status st = ax_job_run(&job, ax_train_rank);
    if (st == AX_OK && c.json && job.trained.steps > 0) // rank 0's
        print_json(&job);
    ax_config_fini(&c);
    return st;
}

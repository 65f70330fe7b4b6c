#include "cli/cli.h"

#include "train/loop.h"

ax_status ax_cmd_train(int argc, char **argv)
{
    ax_run_config c;
    bool helped;
    AX_TRY(ax_cli_config("train", argc, argv, 0, &c, &helped));
    if (helped)
        return AX_OK;
    ax_job job = {.config = &c, .corpus_wanted = true};
    ax_status st = ax_job_run(&job, ax_train_rank);
    ax_config_fini(&c);
    return st;
}

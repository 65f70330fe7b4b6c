#include "cli/cli.h"

#include "train/eval.h"
#include "train/loop.h"

#include <math.h>
#include <string.h>

static void print(const ax_job *job, const ax_eval_result *r)
{
    if (job->config->json) {
        printf("{\"valid_loss\":%.17g,\"perplexity\":%.17g,\"tokens\":%lld,\"seconds\":%.3f",
               r->loss, exp(r->loss), (long long)r->tokens, r->seconds);
        if (r->bits_per_byte > 0)
            printf(",\"bits_per_byte\":%.17g", r->bits_per_byte);
        printf("}\n");
        return;
    }
    printf("loss %.6f  perplexity %.3f  tokens %lld  %.1f s", r->loss, exp(r->loss),
           (long long)r->tokens, r->seconds);
    if (r->bits_per_byte > 0)
        printf("  %.4f bits per byte", r->bits_per_byte);
    printf("\n");
}

static ax_status eval_rank(ax_job *job, ax_comm *world)
{
    ax_eval_result r;
    AX_TRY(ax_train_evaluate(job, world, &r));
    if (world->rank == 0)
        print(job, &r);
    return AX_OK;
}

ax_status ax_cmd_eval(int argc, char **argv)
{
    ax_run_config c;
    bool helped;
    AX_TRY(ax_cli_config("eval", argc, argv, 0, &c, &helped));
    if (helped)
        return AX_OK;
    ax_job job = {.config = &c, .corpus_wanted = true, .inference = true};
    ax_status st = AX_OK;
    if (strcmp(c.init, "random") == 0)
        st = ax_fail(AX_EUSAGE, __FILE__, __LINE__,
                     "eval needs a model: model.init=DIR, a run directory or a checkpoint");
    if (st == AX_OK)
        st = ax_job_run(&job, eval_rank);
    ax_config_fini(&c);
    return st;
}

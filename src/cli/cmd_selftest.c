#include "cli/cli.h"

#include "train/selftest.h"

typedef struct proof { // a job and where its verdict goes
    ax_job job;
    ax_selftest_result result;
} proof;

static ax_status selftest_rank(ax_job *job, ax_comm *world)
{
    return ax_selftest_rank(job, world, &((proof *)job)->result);
}

static void print(const ax_job *job, const ax_selftest_result *r)
{
    char grid[64];
    const ax_arch *a = &job->config->arch;
    ax_grid_print(&job->trainer.grid, grid, sizeof grid);
    printf("%s, %lld layers, width %lld, heads %lld, kv heads %lld, ffn %lld, vocabulary %lld%s\n",
           a->kind == AX_GPT ? "GPT" : "Llama", (long long)a->layers, (long long)a->hidden,
           (long long)a->heads, (long long)a->kv_heads, (long long)a->ffn, (long long)a->vocab,
           r->scaled ? " (scaled down)" : "");
    printf("grid %s against one rank, %s on %s\n", grid, ax_dtype_name(job->trainer.act),
           job->trainer.device);
    printf("step        loss      serial    grad norm      serial\n");
    for (int i = 0; i < r->steps; i++)
        printf("%4d  %10.6f  %10.6f   %10.6f  %10.6f\n", i + 1, r->loss[i], r->serial_loss[i],
               r->norm[i], r->serial_norm[i]);
    printf("largest relative difference: loss %.2g, gradient norm %.2g; allowed %.0e\n",
           r->worst_loss, r->worst_norm, r->band);
    printf("%s\n", r->passed ? "passed" : "FAILED");
}

static void print_json(const ax_selftest_result *r)
{
    printf("{\"passed\":%s,\"worst_loss_difference\":%.6g,\"worst_grad_norm_difference\":%.6g,"
           "\"band\":%.6g,\"steps\":%d}\n",
           r->passed ? "true" : "false", r->worst_loss, r->worst_norm, r->band, r->steps);
}

ax_status ax_cmd_selftest(int argc, char **argv)
{
    ax_run_config c;
    bool helped;
    AX_TRY(ax_cli_config("selftest", argc, argv, 0, &c, &helped));
    if (helped)
        return AX_OK;
    proof p = {.job = {.config = &c, .scale_wanted = true}};
    ax_status st = ax_job_run(&p.job, selftest_rank);
    if (st == AX_OK && p.result.steps > 0) { // rank 0's
        if (c.json)
            print_json(&p.result);
        else
            print(&p.job, &p.result);
        if (!p.result.passed)
            st = AX_ENUMERIC;
    }
    ax_config_fini(&c);
    return st;
}

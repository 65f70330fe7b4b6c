// The public interface: the verbs without the terminal.
#include "axonn/axonn.h"

#include "train/eval.h"
#include "train/generate.h"
#include "train/loop.h"

#include <stdlib.h>

typedef struct request { // a job, and what its rank 0 hands back; `job` first, so that one finds it
    ax_job job;
    ax_eval_result evaluation;
    ax_generate_emit *emit;
    void *ctx;
} request;

static axonn_result result_of(ax_status st)
{
    if (st == AX_ESTOPPED)
        return AXONN_STOPPED;
    return st == AX_OK ? AXONN_OK : st == AX_EUSAGE ? AXONN_WRONG_USE : AXONN_FAILED;
}

static axonn_result run(int count, const char *const *settings, request *r, ax_job_main *main)
{
    ax_run_config config;
    // The parser only reads the arguments; its type is that of main's argv.
    char **argv = calloc((size_t)count + 1, sizeof *argv);
    if (!argv)
        return AXONN_FAILED;
    for (int i = 0; i < count; i++)
        argv[i] = (char *)settings[i];
    ax_status st = ax_config_load(count, argv, 0, &config);
    if (st == AX_OK) {
        r->job.config = &config;
        st = ax_job_run(&r->job, main);
        ax_config_fini(&config);
    }
    free(argv);
    return result_of(st);
}

const char *axonn_version(void)
{
    return AX_VERSION;
}

const char *axonn_error(void)
{
    return ax_error_text();
}

axonn_result axonn_train(int count, const char *const *settings)
{
    request r = {.job = {.corpus_wanted = true, .run_wanted = true}};
    return run(count, settings, &r, ax_train_rank);
}

static ax_status evaluate_rank(ax_job *job, ax_comm *world)
{
    ax_eval_result e;
    AX_TRY(ax_train_evaluate(job, world, &e));
    if (world->rank == 0)
        ((request *)job)->evaluation = e;
    return AX_OK;
}

axonn_result axonn_evaluate(int count, const char *const *settings, axonn_evaluation *out)
{
    request r = {.job = {.corpus_wanted = true, .inference = true}};
    axonn_result done = run(count, settings, &r, evaluate_rank);
    if (done == AXONN_OK)
        *out = (axonn_evaluation){r.evaluation.loss, r.evaluation.tokens, r.evaluation.seconds};
    return done;
}

static ax_status generate_rank(ax_job *job, ax_comm *world)
{
    ax_trainer t;
    request *r = (request *)job;
    AX_TRY(ax_train_open(job, world, &t));
    ax_status st = ax_generate(&t, job->tokenizer, &job->config->generate, r->emit, r->ctx);
    ax_comm_end(world, st);
    ax_trainer_close(&t);
    return st;
}

axonn_result axonn_generate(int count, const char *const *settings, axonn_emit *emit, void *ctx)
{
    request r = {.job = {.inference = true, .one_sequence = true}, .emit = emit, .ctx = ctx};
    return run(count, settings, &r, generate_rank);
}

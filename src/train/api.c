// The public interface: the verbs without the terminal.
#include "axonn/axonn.h"

#include "train/eval.h"
#include "train/generate.h"
#include "train/key_readers.h"
#include "train/loop.h"

#include <stdlib.h>

typedef struct request { // a job, and what its rank 0 hands back; `job` first, so that one finds it
    ax_job job;
    ax_eval_result evaluation;
} request;

static axonn_result result_of(ax_status st)
{
    if (st == AX_ESTOPPED)
        return AXONN_STOPPED;
    return st == AX_OK ? AXONN_OK : st == AX_EUSAGE ? AXONN_WRONG_USE : AXONN_FAILED;
}

// The parser only reads the arguments; its type is that of main's argv.
static ax_status load(const char *verb, int count, const char *const *settings,
                      ax_run_config *config)
{
    char **argv = calloc((size_t)count + 1, sizeof *argv);
    AX_CHECK(argv, AX_ENOMEM, "no memory for %d settings", count);
    for (int i = 0; i < count; i++)
        argv[i] = (char *)settings[i];
    ax_status st = ax_config_load(count, argv, 0, config);
    free(argv);
    AX_TRY(st);
    st = ax_config_check_readers(config, verb);
    if (st != AX_OK)
        ax_config_fini(config);
    return st;
}

static axonn_result run(int count, const char *const *settings, request *r, ax_job_main *main)
{
    ax_run_config config;
    ax_status st = load(r->job.run_wanted ? "train" : "eval", count, settings, &config);
    if (st == AX_OK) {
        r->job.config = &config;
        st = ax_job_run(&r->job, main);
        ax_config_fini(&config);
    }
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

typedef struct emission {
    axonn_emit *emit;
    void *ctx;
    bool several;
} emission;

static void emit_piece(void *ctx, const char *bytes, size_t length)
{
    const emission *e = ctx;
    e->emit(e->ctx, bytes, length);
}

static void emit_end(void *ctx, const ax_generated *g)
{
    const emission *e = ctx;
    if (e->several) {
        e->emit(e->ctx, g->prompt, g->prompt_length);
        e->emit(e->ctx, g->text, g->length);
    }
    e->emit(e->ctx, "", 0);
}

axonn_result axonn_generate(int count, const char *const *settings, axonn_emit *emit, void *ctx)
{
    ax_run_config config;
    emission e = {.emit = emit, .ctx = ctx};
    ax_status st = load("generate", count, settings, &config);
    if (st != AX_OK)
        return result_of(st);
    e.several = *config.generate.prompts;
    st = ax_generate_run(
        &config,
        &(ax_generate_sink){.piece = e.several ? NULL : emit_piece, .done = emit_end, .ctx = &e});
    ax_config_fini(&config);
    return result_of(st);
}

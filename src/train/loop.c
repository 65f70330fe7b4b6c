#include "train/loop.h"

#include "base/log.h"
#include "ckpt/ckpt.h"
#include "optim/schedule.h"
#include "train/eval.h"
#include "train/metrics.h"
#include "train/peak.h"
#include "train/rundir.h"
#include "train/step.h"

#include <math.h>
#include <stdio.h>

typedef struct run { // one rank's
    ax_job *job;
    ax_comm *world;
    ax_trainer *t;
    ax_loader loader;
    ax_schedule schedule;
    ax_metrics metrics;          // rank 0's
    int64_t step, tokens, saved; // last step done; tokens so far; step of the last checkpoint
    double peak, memory, model_flops, hardware_flops; // of all ranks; memory: most of any
} run;

static const ax_train_options *options(const run *r)
{
    return &r->job->config->train;
}

ax_status ax_train_open(const ax_job *job, ax_comm *world, ax_trainer *t)
{
    AX_TRY(ax_trainer_open(&job->trainer, world, t));
    ax_status st = ax_comm_end(world, ax_job_init_params(job, t));
    if (st != AX_OK)
        ax_trainer_close(t);
    return st;
}

static ax_schedule schedule_of(const ax_train_options *o)
{
    return (ax_schedule){.kind = (ax_schedule_kind)o->schedule,
                         .lr = o->lr,
                         .min_lr = o->min_lr,
                         .decay = o->wsd_decay,
                         .warmup = o->warmup,
                         .steps = o->steps};
}

// What every rank must know of all: the measured peak, the memory, the flops of a step.
static ax_status measure_job(run *r)
{
    const ax_trainer *t = r->t;
    const ax_arch *a = t->config.arch;
    r->memory = ax_trainer_bytes(&t->size);
    r->hardware_flops = t->size.matmul_flops;
    AX_TRY(ax_comm_max(r->world, &r->memory, 1));
    AX_TRY(ax_comm_sum(r->world, &r->hardware_flops, 1));
    r->model_flops = (double)t->layout.batch * ax_arch_flops(a, a->seq);
    if (t->config.act == AX_F64)
        return AX_OK; // the reference device has no peak worth a share
    return ax_peak_measure(&r->t->dev, t->config.act, r->world, &r->peak);
}

static ax_status load_batch(run *r)
{
    ax_trainer *t = r->t;
    int64_t seq = t->layout.seq;
    for (int64_t i = 0; i < ax_trainer_rows(t); i++)
        AX_TRY(ax_loader_row(
            &r->loader, r->step, ax_trainer_row(t, i),
            &(ax_row){t->ids + i * seq, t->targets + i * seq, t->positions + i * seq}));
    return AX_OK;
}

static ax_status record(run *r, double lr, double seconds, const ax_step_result *s)
{
    int64_t here = r->t->layout.batch * r->t->layout.seq;
    r->tokens += here;
    // A step faster than the measurement at the start shows that other work slowed that down.
    r->peak = r->peak > 0 ? fmax(r->peak, r->hardware_flops / seconds) : 0;
    if (r->world->rank != 0)
        return AX_OK;
    ax_train_summary *sum = &r->job->trained;
    sum->steps = r->step;
    sum->tokens = r->tokens;
    sum->loss = s->loss;
    sum->seconds += seconds;
    return ax_metrics_step(&r->metrics, &(ax_metrics_record){.step = r->step,
                                                             .steps = options(r)->steps,
                                                             .loss = s->loss,
                                                             .lr = lr,
                                                             .grad_norm = s->grad_norm,
                                                             .tokens = r->tokens,
                                                             .kept_tokens = s->kept,
                                                             .step_s = seconds,
                                                             .step_tokens = here,
                                                             .model_flops = r->model_flops,
                                                             .hardware_flops = r->hardware_flops,
                                                             .peak = r->peak,
                                                             .rank_memory_bytes = r->memory,
                                                             .skipped = s->skipped,
                                                             .trace = &r->t->trace});
}

static ax_status train_step(run *r)
{
    ax_step_result result;
    double begun = ax_metrics_clock(), lr = ax_schedule_lr(&r->schedule, r->step);
    ax_comm_trace_reset(&r->t->trace);
    AX_TRY(load_batch(r));
    ax_status st = ax_step(r->t, lr, &result);
    if (st == AX_ENUMERIC && r->world->rank == 0)
        ax_log(AX_LOG_ERROR, NULL, "training stops at step %lld", (long long)r->step);
    AX_TRY(st);
    return record(r, lr, ax_metrics_clock() - begun, &result);
}

static ax_status evaluate(run *r)
{
    ax_eval_result e;
    const ax_train_options *o = options(r);
    if (r->world->rank == 0 && r->step == o->steps)
        ax_log(AX_LOG_INFO, "eval", "scoring the held-out tokens");
    AX_TRY(ax_evaluate(r->t, r->job->corpus, AX_VALID, o->eval_batches * o->batch, &e));
    if (r->world->rank != 0)
        return AX_OK;
    r->job->trained.valid_loss = e.loss;
    r->job->trained.evaluated = true;
    return ax_metrics_evaluation(&r->metrics, &(ax_metrics_eval){.step = r->step,
                                                                 .tokens = e.tokens,
                                                                 .valid_loss = e.loss,
                                                                 .seconds = e.seconds,
                                                                 .bits_per_byte = e.bits_per_byte});
}

static ax_status save(run *r)
{
    const char *out = options(r)->out;
    if (!*out || r->saved == r->step)
        return AX_OK;
    AX_TRY(ax_optim_settle(&r->t->optim));
    AX_TRY(ax_rundir_save(out, r->job->config, r->t, r->step, r->tokens));
    r->saved = r->step;
    return AX_OK;
}

static bool due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

static ax_status steps(run *r)
{
    const ax_train_options *o = options(r);
    bool held_out = ax_corpus_windows(r->job->corpus, AX_VALID) > 0;
    for (r->step = 1; r->step <= o->steps; r->step++) {
        bool last = r->step == o->steps;
        AX_TRY(train_step(r));
        if (held_out && (last || due(o->eval_every, r->step)))
            AX_TRY(evaluate(r));
        if (last || due(o->save_every, r->step))
            AX_TRY(save(r));
    }
    return AX_OK;
}

static ax_status open_run(run *r)
{
    const ax_train_options *o = options(r);
    AX_TRY(ax_loader_init(&r->loader, r->job->corpus, o->batch, r->job->config->data.seed));
    r->schedule = schedule_of(o);
    return r->world->rank == 0 ? ax_rundir_open(o->out, r->job, r->t, &r->metrics) : AX_OK;
}

ax_status ax_train_rank(ax_job *job, ax_comm *world)
{
    ax_trainer t;
    run r = {.job = job, .world = world, .t = &t};
    ax_status st = ax_train_open(job, world, &t);
    if (st != AX_OK)
        return st;
    AX_TRY_TO(done, ax_comm_agree(world, open_run(&r)));
    AX_TRY_TO(done, measure_job(&r));
    AX_TRY_TO(done, steps(&r));
done:
    if (world->rank == 0) {
        ax_status closed = ax_metrics_close(&r.metrics);
        st = st == AX_OK ? closed : st;
    }
    ax_comm_end(world, st);
    ax_trainer_close(&t);
    return st;
}

ax_status ax_train_evaluate(const ax_job *job, ax_comm *world, ax_eval_result *out)
{
    ax_trainer t;
    const ax_train_options *o = &job->config->train;
    AX_TRY(ax_train_open(job, world, &t));
    ax_status st = ax_evaluate(&t, job->corpus, AX_VALID, o->eval_batches * o->batch, out);
    ax_comm_end(world, st);
    ax_trainer_close(&t);
    return st;
}

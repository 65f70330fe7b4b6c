#include "train/loop.h"

#include "base/log.h"
#include "ckpt/disk.h"
#include "optim/schedule.h"
#include "train/eval.h"
#include "train/metrics.h"
#include "train/peak.h"
#include "train/rundir.h"
#include "train/saves.h"
#include "train/step.h"
#include "train/trace_file.h"
#include "train/tuning.h"

#include <math.h>
#include <stdio.h>

typedef struct ballot { // lives until the communicator has forgotten it
    double vote[2];
    ax_req request;
} ballot;

typedef struct run { // one rank's
    ax_job *job;
    ax_comm *world;
    ax_trainer *t;
    ax_loader loader;
    ax_schedule schedule;
    ax_resume from;      // this rank's own
    ax_resume_data data; // rank 0's, where it saves
    ax_saves saves;
    ax_tuning *tuning; // NULL: train.tune=off
    ballot ballot;
    ax_metrics metrics; // rank 0's
    ax_trace_file trace;
    char trace_path[AX_PATH_MAX];
    int64_t step, tokens;  // last step done; tokens so far
    int64_t scored, saved; // steps of the last evaluation and checkpoint; 0: none
    double loss, step_s;   // of the last step
    ax_status leaving;     // AX_OK: going on
    bool writing;          // some rank writes at a checkpoint
    double peak, memory, model_flops, hardware_flops; // of all ranks; memory: most of any
} run;

static const ax_train_options *options(const run *r)
{
    return &r->job->config->train;
}

static ax_status open_tuned(const ax_job *job, ax_tuner *tuner, ax_comm *world, ax_trainer *t)
{
    ax_trainer_config config = job->trainer;
    config.tuner = tuner;
    AX_TRY(ax_trainer_open(&config, world, t));
    ax_status st = AX_OK;
    if (!job->resume.found)
        st = ax_comm_end(world, ax_job_init_params(job, t));
    if (st != AX_OK)
        ax_trainer_close(t);
    return st;
}

ax_status ax_train_open(const ax_job *job, ax_comm *world, ax_trainer *t)
{
    return open_tuned(job, NULL, world, t);
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
    r->loss = s->loss;
    r->step_s = seconds;
    // A step faster than the measurement at the start shows that other work slowed that down. One
    // without targets computes nothing.
    double worked = s->kept > 0 ? 1 : 0;
    r->peak = r->peak > 0 ? fmax(r->peak, worked * r->hardware_flops / seconds) : 0;
    if (r->world->rank != 0)
        return AX_OK;
    ax_train_summary *sum = &r->job->trained;
    sum->steps = r->step;
    sum->tokens = r->tokens;
    sum->loss = s->loss;
    sum->seconds += seconds;
    return ax_metrics_step(&r->metrics,
                           &(ax_metrics_record){.step = r->step,
                                                .steps = options(r)->steps,
                                                .loss = s->loss,
                                                .lr = lr,
                                                .grad_norm = s->grad_norm,
                                                .tokens = r->tokens,
                                                .kept_tokens = s->kept,
                                                .step_s = seconds,
                                                .step_tokens = here,
                                                .model_flops = worked * r->model_flops,
                                                .hardware_flops = worked * r->hardware_flops,
                                                .peak = r->peak,
                                                .rank_memory_bytes = r->memory,
                                                .skipped = s->skipped,
                                                .trace = &r->t->trace});
}

// What ranks decide together after a step, the largest number counts: why to leave, and whether
// someone is still writing. Begun before the metrics are written and waited for after.
static ax_status cast_votes(run *r)
{
    ballot *b = &r->ballot;
    b->vote[0] = (double)ax_leave_now(&r->job->leave, r->step_s);
    b->vote[1] = ax_saves_busy(&r->saves);
    return ax_comm_allreduce_begin(r->world,
                                   &(ax_xfer){.send = b->vote,
                                              .recv = b->vote,
                                              .count = 2,
                                              .dtype = AX_F64,
                                              .op = AX_MAX,
                                              .tag = "votes"},
                                   &b->request);
}

static ax_status count_votes(run *r)
{
    AX_TRY(ax_comm_wait(&r->ballot.request));
    r->leaving = (ax_status)r->ballot.vote[0];
    r->writing = r->ballot.vote[1] > 0;
    return AX_OK;
}

// The first step of a run pays for what is done once, so that it is recorded only where there are
// no others.
static ax_status begin_trace(run *r)
{
    int64_t wanted = r->t->config.trace, left = options(r)->steps - r->from.step;
    int64_t first = r->from.step + (left > wanted ? 2 : 1);
    if (wanted == 0 || r->step != first)
        return AX_OK;
    AX_TRY(ax_disk_join(r->trace_path, options(r)->out, "trace.json"));
    r->trace.path = r->trace_path;
    return ax_trace_begin(&r->trace, r->t);
}

static ax_status end_trace(run *r)
{
    if (r->t->timeline.paused)
        return AX_OK;
    ax_trace_step(&r->trace, r->t, r->step);
    if (r->trace.steps < r->t->config.trace && r->step < options(r)->steps && !r->leaving)
        return AX_OK;
    AX_TRY(ax_trace_write(&r->trace, r->t));
    if (r->world->rank == 0)
        ax_log(AX_LOG_INFO, "trace", "%lld steps in %s: open it in ui.perfetto.dev",
               (long long)r->trace.steps, r->trace.path);
    return AX_OK;
}

static ax_status train_step(run *r)
{
    AX_TRY(begin_trace(r));
    ax_step_result result;
    double begun = ax_metrics_clock(), lr = ax_schedule_lr(&r->schedule, r->step);
    ax_comm_trace_reset(&r->t->trace);
    AX_TRY(load_batch(r));
    ax_tuning_begin(r->tuning);
    ax_status st = ax_step(r->t, lr, &result);
    if (st == AX_ENUMERIC && r->world->rank == 0)
        ax_log(AX_LOG_ERROR, NULL, "training stops at step %lld", (long long)r->step);
    AX_TRY(st);
    double seconds = ax_metrics_clock() - begun;
    AX_TRY(cast_votes(r));
    AX_TRY(record(r, lr, seconds, &result));
    AX_TRY(count_votes(r));
    AX_TRY(ax_tuning_end(r->tuning, &r->t->dev, r->world, result.kept > 0));
    return end_trace(r);
}

// Whoever must leave does not wait for the end of an evaluation, nor does the checkpoint's name.
static ax_status leaves_evaluation(void *ctx, bool *leaves)
{
    run *r = ctx;
    AX_TRY(cast_votes(r));
    AX_TRY(count_votes(r));
    *leaves = r->leaving != AX_OK;
    return r->writing ? AX_OK : ax_saves_finish(&r->saves);
}

static ax_status evaluate(run *r)
{
    ax_eval_result e;
    const ax_train_options *o = options(r);
    if (r->world->rank == 0 && r->step == o->steps)
        ax_log(AX_LOG_INFO, "eval", "scoring the held-out tokens");
    const ax_eval_plan plan = {.split = AX_VALID,
                               .most_windows = o->eval_batches * o->batch,
                               .leave = leaves_evaluation,
                               .ctx = r};
    AX_TRY(ax_evaluate(r->t, r->job->corpus, &plan, &e));
    if (e.cut)
        return AX_OK; // made up for when the run goes on
    r->scored = r->step;
    if (r->world->rank != 0)
        return AX_OK;
    if (e.tokens == 0) {
        ax_log(AX_LOG_WARN, "eval", "none of the held-out tokens is a target: there is no score");
        return AX_OK;
    }
    r->job->trained.valid_loss = e.loss;
    r->job->trained.evaluated = true;
    return ax_metrics_evaluation(&r->metrics, &(ax_metrics_eval){.step = r->step,
                                                                 .tokens = e.tokens,
                                                                 .valid_loss = e.loss,
                                                                 .seconds = e.seconds,
                                                                 .bits_per_byte = e.bits_per_byte});
}

// Lines of the metrics reach the disk before the checkpoint that follows them.
static ax_status save(run *r, bool whole)
{
    const ax_saves_point at = {r->step, r->tokens, &r->data, r->loss};
    ax_status st = r->world->rank == 0 ? ax_metrics_sync(&r->metrics) : AX_OK;
    AX_TRY(ax_comm_agree(r->world, st));
    AX_TRY(ax_saves_begin(&r->saves, &at, whole));
    r->saved = r->step;
    return AX_OK;
}

static bool due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

static ax_status save_when_due(run *r, bool last)
{
    const ax_train_options *o = options(r);
    bool whole = last || r->leaving;
    if (!r->writing)
        AX_TRY(ax_saves_finish(&r->saves));
    if (!*o->out || r->saved == r->step)
        return AX_OK;
    return whole || due(o->save_every, r->step) ? save(r, whole) : AX_OK;
}

// What stands between a step and the next. The checkpoint comes first, so that a job that is cut in
// its evaluation has lost nothing. A rank that must leave scores nothing, or not to the end: that
// is made up for when the run goes on.
static ax_status between(run *r, bool last)
{
    const ax_train_options *o = options(r);
    bool held_out = ax_corpus_windows(r->job->corpus, AX_VALID) > 0;
    bool scores = held_out && (last || due(o->eval_every, r->step));
    if (r->step == 0)
        return AX_OK;
    AX_TRY(save_when_due(r, last));
    if (r->leaving || !scores || r->scored >= r->step)
        return AX_OK;
    AX_TRY(evaluate(r)); // it takes its time, too
    if (!r->leaving) {
        AX_TRY(cast_votes(r));
        AX_TRY(count_votes(r));
    }
    return r->leaving ? save_when_due(r, last) : AX_OK;
}

static void say_leaving(const run *r)
{
    if (r->world->rank != 0)
        return;
    ax_log(AX_LOG_WARN, NULL,
           "leaving after step %lld of %lld; the same command goes on with train.resume=auto",
           (long long)r->step, (long long)options(r)->steps);
}

// Leaving is a status that all ranks return together.
static ax_status steps(run *r)
{
    const ax_train_options *o = options(r);
    for (;;) {
        AX_TRY(between(r, r->step >= o->steps));
        if (r->step >= o->steps || r->leaving)
            break;
        r->step++;
        AX_TRY(train_step(r));
    }
    AX_TRY(ax_saves_finish(&r->saves));
    if (r->world->rank == 0 && r->saves.step > 0)
        ax_log(r->leaving ? AX_LOG_WARN : AX_LOG_INFO, "train", "saved in %s/%s", options(r)->out,
               r->saves.name);
    if (!r->leaving)
        return AX_OK;
    say_leaving(r);
    return ax_comm_agree(r->world, r->leaving);
}

// Where the run stands, on all ranks: rank 0 has read whether the resumed step was scored.
static ax_status go_on(run *r)
{
    double scored = r->metrics.evaluated ? (double)r->from.step : 0;
    AX_TRY(ax_comm_max(r->world, &scored, 1));
    r->scored = (int64_t)scored;
    r->step = r->from.step;
    r->tokens = r->from.tokens;
    r->loss = r->from.loss;
    r->saved = r->from.elsewhere ? 0 : r->from.step;
    if (r->world->rank != 0)
        return AX_OK;
    ax_train_summary *sum = &r->job->trained;
    sum->steps = r->step;
    sum->tokens = r->tokens;
    sum->loss = r->loss;
    if (r->step >= options(r)->steps)
        ax_log(AX_LOG_INFO, "resume",
               "%s is at step %lld and train.steps=%lld: nothing is left to "
               "train",
               r->from.dir, (long long)r->step, (long long)options(r)->steps);
    return AX_OK;
}

static ax_status open_run(run *r)
{
    const ax_train_options *o = options(r);
    AX_TRY(ax_loader_init(&r->loader, r->job->corpus, o->batch, r->job->config->data.seed));
    r->schedule = schedule_of(o);
    r->saves = (ax_saves){
        .out = o->out, .config = r->job->config, .trainer = r->t, .beside = r->t->config.snapshot};
    if (r->world->rank != 0)
        return AX_OK;
    if (*o->out)
        AX_TRY(ax_resume_data_read(r->job->corpus, &r->data));
    AX_TRY(ax_resume_check_data(&r->from, &r->data));
    return ax_rundir_open(r->job, r->t, &r->from, &r->metrics);
}

static ax_status restore(run *r)
{
    r->from = r->job->resume;
    return r->from.found ? ax_resume_load(&r->from, r->job->config, r->t) : AX_OK;
}

ax_status ax_train_rank(ax_job *job, ax_comm *world)
{
    ax_trainer t;
    run r = {.job = job, .world = world, .t = &t};
    AX_TRY(ax_tuning_open(job->config, &job->resume, world, &r.tuning));
    ax_status st = open_tuned(job, ax_tuning_tuner(r.tuning), world, &t);
    if (st != AX_OK) {
        ax_tuning_close(r.tuning);
        return st;
    }
    AX_TRY_TO(done, restore(&r));
    AX_TRY_TO(done, ax_comm_agree(world, open_run(&r)));
    AX_TRY_TO(done, measure_job(&r));
    if (r.from.found)
        AX_TRY_TO(done, go_on(&r));
    AX_TRY_TO(done, steps(&r));
done:
    if (st == AX_ENUMERIC) // all ranks are here: what is being written is worth its name
        ax_saves_finish(&r.saves);
    if (world->rank == 0) {
        ax_status closed = ax_metrics_close(&r.metrics);
        st = st == AX_OK ? closed : st;
    }
    ax_comm_end(world, st);
    ax_saves_close(&r.saves);
    ax_resume_data_fini(&r.data);
    ax_trainer_close(&t);
    ax_tuning_close(r.tuning);
    return st;
}

ax_status ax_train_evaluate(const ax_job *job, ax_comm *world, ax_eval_result *out)
{
    ax_trainer t;
    const ax_train_options *o = &job->config->train;
    AX_TRY(ax_train_open(job, world, &t));
    const ax_eval_plan plan = {.split = AX_VALID, .most_windows = o->eval_batches * o->batch};
    ax_status st = ax_evaluate(&t, job->corpus, &plan, out);
    if (st == AX_OK && out->tokens == 0) { // as every rank knows
        if (world->rank == 0)
            ax_fail(AX_EUSAGE, __FILE__, __LINE__,
                    "none of the held-out tokens is a target to evaluate on");
        st = ax_comm_agree(world, AX_EUSAGE);
    }
    ax_comm_end(world, st);
    ax_trainer_close(&t);
    return st;
}

#include "train/trainer.h"

#include "nn/infer.h"
#include "train/peak.h"
#include "train/ranks.h"
#include "train/step.h"

#include <stdlib.h>

static ax_arena *arena_of(ax_trainer *t, int i)
{
    ax_arena *const all[AX_ARENAS] = {&t->run, &t->step, &t->call, &t->copy};
    return all[i];
}

static const char *const arena_name[AX_ARENAS] = {"run", "step", "call", "copy"};

static ax_status init_model(ax_trainer *t)
{
    const ax_trainer_config *c = &t->config;
    AX_TRY(ax_model_init(&t->model, &(ax_model_config){.arch = c->arch,
                                                       .layout = t->layout,
                                                       .grid = &t->grid,
                                                       .dev = &t->dev,
                                                       .step = &t->step,
                                                       .call = &t->call,
                                                       .act = c->act,
                                                       .overlap = c->overlap,
                                                       .recompute = c->recompute,
                                                       .keep_gathered = c->keep_gathered,
                                                       .wide_sums = c->wide_sums,
                                                       .narrow_grads = c->narrow_grads,
                                                       .document_mask = c->document_mask,
                                                       .cache = c->cache}));
    t->optim = (ax_optim){
        .params = &t->model.params, .grid = &t->grid, .dev = &t->dev, .config = c->optim};
    t->optim.config.narrow_grads = c->narrow_grads;
    t->optim.config.overlap_data = c->overlap & AX_ODATA;
    t->optim.config.overlap_update = c->overlap & AX_OUPDATE;
    t->model.nn.grad_ready = ax_optim_grad_ready;
    t->model.nn.grad_ctx = &t->optim;
    size_t tokens = (size_t)(t->layout.accumulation * t->layout.rows);
    t->ids = calloc(tokens, sizeof *t->ids);
    t->targets = calloc(tokens, sizeof *t->targets);
    t->positions = calloc(tokens, sizeof *t->positions);
    AX_CHECK(t->ids && t->targets && t->positions, AX_ENOMEM,
             "no memory for the %zu token ids of a step", tokens);
    AX_TRY(ax_model_bind(&t->model, &t->run, c->inference ? 0 : AX_BIND_STATE | AX_BIND_GRAD));
    if (!c->inference)
        AX_TRY(ax_optim_bind(&t->optim, &t->run));
    return c->snapshot ? ax_ckpt_snapshot_bind(&t->snapshot, &t->model.params, &t->copy) : AX_OK;
}

static ax_status choose_layout(ax_trainer *t)
{
    const ax_trainer_config *c = &t->config;
    return ax_layout_choose(c->arch, &c->grid, c->batch, c->micro_batch, c->activations,
                            &t->layout);
}

// Every length of a prefill pass, and a step.
static ax_status rehearse_cache(ax_trainer *t)
{
    int64_t room = t->config.cache;
    for (int64_t tokens = 1, seq = 0; seq < room; tokens = seq + 1) {
        seq = ax_infer_seq(&t->model, tokens);
        AX_TRY(ax_infer_prefill(&t->model, &(ax_prefill){.seq = seq}, NULL));
    }
    return ax_infer_step(&t->model, NULL, NULL);
}

// A kernel is one span, and after it, or in the middle, a collective may move on. A collective is
// its begin, its wait, the time it was under way, and a few moves.
static int64_t spans_of_step(const ax_trainer *t)
{
    int64_t calls = 0;
    for (int i = 0; i < t->trace.rows; i++)
        calls += t->trace.row[i].calls;
    return 2 * t->timeline.lost + 8 * calls + 1;
}

// The largest of everything a job of this kind does: a step, an evaluation, a token.
static ax_status rehearse(ax_trainer *t)
{
    double loss;
    ax_step_result result;
    if (t->config.cache)
        return rehearse_cache(t);
    if (!t->config.inference)
        AX_TRY(ax_step(t, 0.0, &result));
    t->size.matmul_flops = t->dev.matmul_flops;
    t->size.spans = spans_of_step(t);
    ax_comm_trace step_alone = t->trace;
    AX_TRY(ax_model_loss(&t->model, &(ax_batch){t->ids, t->targets, NULL}, &loss, NULL));
    AX_TRY(ax_model_logits(&t->model, t->ids, 0, NULL));
    AX_TRY(ax_peak_rehearse(&t->dev, t->config.act));
    t->trace = step_alone;
    return AX_OK;
}

static ax_status measure_into(ax_trainer *t, int rank)
{
    ax_device_config dev = {
        .name = "measure", .as = t->config.device, .threads = t->config.threads};
    AX_TRY(choose_layout(t));
    AX_TRY(ax_device_open(&dev, &t->dev));
    t->dev.tuner = t->config.tuner;
    AX_TRY(ax_grid_open_measure(t->config.grid, rank, t->layout.kv_copies, &t->grid));
    ax_grid_trace(&t->grid, &t->trace);
    t->dev.timeline = &t->timeline;
    for (int i = 0; i < AX_ARENAS; i++)
        *arena_of(t, i) = ax_arena_measure(arena_name[i]);
    AX_TRY(init_model(t));
    AX_TRY(rehearse(t));
    for (int i = 0; i < AX_ARENAS; i++)
        t->size.arena[i] = arena_of(t, i)->peak;
    t->size.workspace = t->dev.workspace_need;
    return AX_OK;
}

ax_status ax_trainer_measure_traffic(const ax_trainer_config *config, int rank,
                                     ax_trainer_size *out, ax_comm_trace *trace)
{
    ax_trainer t = {.config = *config};
    ax_status st = measure_into(&t, rank);
    if (st == AX_OK) {
        *out = t.size;
        if (trace)
            *trace = t.trace;
    }
    ax_comm *world = t.grid.world;
    ax_trainer_close(&t);
    ax_comm_close(world);
    return st;
}

ax_status ax_trainer_measure(const ax_trainer_config *config, int rank, ax_trainer_size *out)
{
    return ax_trainer_measure_traffic(config, rank, out, NULL);
}

// Cores are shared out evenly among the ranks that have the same ones; ranks are pinned only where
// each gets cores of its own. Collective.
static ax_status device_config(const ax_trainer *t, ax_comm *world, ax_device_config *out,
                               int *sharing)
{
    const ax_trainer_config *c = &t->config;
    int ranks, place, cores = ax_device_cores();
    AX_TRY(ax_ranks_sharing_cores(world, &ranks, &place));
    int threads = c->threads ? c->threads : cores / ranks;
    threads = threads < 1 ? 1 : threads;
    bool fits = (long long)threads * ranks <= cores;
    *sharing = ranks;
    *out = (ax_device_config){
        .name = c->device, .threads = threads, .core = fits && ranks > 1 ? place * threads : -1};
    return AX_OK;
}

static ax_status open_arenas(ax_trainer *t)
{
    for (int i = 0; i < AX_ARENAS; i++) {
        AX_TRY(ax_device_alloc(&t->dev, t->size.arena[i], &t->memory[i]));
        *arena_of(t, i) = ax_arena_over(arena_name[i], t->memory[i], t->size.arena[i]);
    }
    return AX_OK;
}

// Refused before anything is allocated: a machine that swaps looks like one that hangs.
static ax_status check_memory(const char *what, double bytes, int ranks)
{
    const double gib = 1073741824;
    double memory = ax_device_memory();
    AX_CHECK(
        bytes * ranks <= memory, AX_ENOMEM,
        "%s of a rank take %.1f GiB, times %d ranks here, but this machine has %.1f GiB: cut the "
        "model over more machines (x, y, z), or try a smaller train.micro_batch, model.seq or "
        "model, or train.recompute=selective or full",
        what, bytes / gib, ranks, memory / gib);
    return AX_OK;
}

static ax_status open_local(ax_trainer *t, int rank, ax_device_config *dev, int ranks)
{
    const ax_trainer_config *c = &t->config;
    double weights = (double)ax_arch_parameters(c->arch) * (double)ax_dtype_size(c->act);
    double tokens = (double)t->layout.accumulation * (double)t->layout.rows * 3 * sizeof(int32_t);
    t->config.threads = dev->threads; // workspaces depend on it
    AX_TRY(check_memory("the weights", weights / ax_grid_ranks(&c->grid), ranks));
    AX_TRY(check_memory("the token ids of a step", tokens, ranks));
    AX_TRY(ax_trainer_measure(c, rank, &t->size));
    double all = ax_trainer_bytes(&t->size), copy = (double)t->size.arena[AX_ARENAS - 1];
    AX_TRY(check_memory("all buffers", all - copy, ranks));
    AX_CHECK(all * ranks <= ax_device_memory(), AX_ENOMEM,
             "the copy of masters and moments that is saved while training goes on takes %.1f GiB "
             "of a rank, more than this machine has left: set train.save_async=off",
             copy / 1073741824);
    dev->workspace = t->size.workspace;
    if (c->trace > 0)
        AX_TRY(ax_timeline_init(&t->timeline, c->trace * t->size.spans));
    t->timeline.paused = true;
    AX_TRY(ax_device_open(dev, &t->dev));
    t->dev.tuner = c->tuner;
    return open_arenas(t);
}

static ax_status open_parts(ax_trainer *t, ax_comm *world)
{
    ax_device_config dev;
    int ranks;
    AX_TRY(device_config(t, world, &dev, &ranks));
    AX_TRY(ax_comm_agree(world, open_local(t, world->rank, &dev, ranks)));
    ax_comm_trace_attach(world, &t->trace);
    if (t->config.trace > 0) {
        t->dev.timeline = &t->timeline;
        world->timeline = &t->timeline;
    }
    ax_comm_set_lazy(world, t->config.lazy);
    AX_TRY(ax_grid_open(world, t->config.grid, t->layout.kv_copies, &t->grid));
    if (world->size > 1) { // alone there is nothing to keep moving
        t->dev.poll = ax_grid_poll;
        t->dev.poll_ctx = &t->grid;
    }
    AX_TRY(ax_comm_agree(world, init_model(t)));
    return ax_comm_agree(world, ax_model_upload(&t->model));
}

ax_status ax_trainer_open(const ax_trainer_config *config, ax_comm *world, ax_trainer *t)
{
    *t = (ax_trainer){.config = *config, .world = world};
    AX_CHECK(config->cache >= 0 && config->cache <= config->arch->seq &&
                 (!config->cache || config->inference),
             AX_EINTERNAL, "a cache of %lld positions in a model of %lld%s",
             (long long)config->cache, (long long)config->arch->seq,
             config->inference ? "" : ", which is trained");
    AX_TRY(choose_layout(t)); // the same answer on every rank
    ax_status st = ax_comm_end(world, open_parts(t, world));
    if (st != AX_OK)
        ax_trainer_close(t);
    return st;
}

void ax_trainer_close(ax_trainer *t)
{
    // Peers may still be reading this rank's new weights. After an abort this returns at once; if
    // it fails here first, the peers must hear of it.
    if (t->model.params.list)
        ax_comm_end(t->world, ax_optim_settle(&t->optim));
    free(t->ids);
    free(t->targets);
    free(t->positions);
    ax_ckpt_snapshot_fini(&t->snapshot);
    ax_model_fini(&t->model);
    ax_grid_close(&t->grid);
    if (t->world) { // it lives on
        ax_comm_trace_attach(t->world, NULL);
        t->world->timeline = NULL;
        ax_comm_set_lazy(t->world, false);
    }
    for (int i = 0; i < AX_ARENAS; i++)
        ax_arena_fini(arena_of(t, i));
    for (int i = 0; i < AX_ARENAS; i++)
        if (t->memory[i])
            ax_device_free(&t->dev, t->memory[i], t->size.arena[i]);
    ax_device_close(&t->dev);
    ax_timeline_fini(&t->timeline);
    *t = (ax_trainer){0};
}

double ax_trainer_bytes(const ax_trainer_size *s)
{
    double sum = (double)s->workspace;
    for (int i = 0; i < AX_ARENAS; i++)
        sum += (double)s->arena[i];
    return sum;
}

int64_t ax_trainer_rows(const ax_trainer *t)
{
    return t->layout.accumulation * t->layout.micro_batch;
}

int64_t ax_trainer_row(const ax_trainer *t, int64_t i)
{
    const ax_grid_shape *s = &t->grid.shape;
    int64_t coordinate = (int64_t)t->grid.cd * s->z + t->grid.cz;
    int64_t micro = i / t->layout.micro_batch, row = i % t->layout.micro_batch;
    return (micro * s->z * s->data + coordinate) * t->layout.micro_batch + row;
}

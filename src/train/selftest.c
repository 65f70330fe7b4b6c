#include "train/selftest.h"

#include "base/rng.h"
#include "train/step.h"

#include <math.h>
#include <string.h>

enum { MOST_PARAMETERS = 20 * 1000 * 1000, SMALL_HEAD = 16, SMALL_SEQ = 32 };

// Keeps what decides whether a size can be cut: its remainder by any power of two up to 64 and by
// small odd numbers that also divide the heads.
static int64_t shrink(int64_t size, int64_t most)
{
    while (size > most && size % 128 == 0)
        size /= 2;
    return size;
}

void ax_selftest_scale(ax_arch *arch, bool *scaled)
{
    *scaled = ax_arch_parameters(arch) > MOST_PARAMETERS;
    if (!*scaled)
        return;
    arch->layers = arch->layers < 2 ? arch->layers : 2;
    arch->seq = arch->seq < SMALL_SEQ ? arch->seq : SMALL_SEQ;
    arch->hidden = shrink(arch->hidden, 256);
    arch->head_dim = arch->head_dim < SMALL_HEAD ? arch->head_dim : SMALL_HEAD;
    arch->ffn = shrink(arch->ffn, 512);
    if (arch->vocab > 1024)
        arch->vocab = 512 + arch->vocab % 512; // as odd as before
}

// Rows are a pure function of (step, row), so every grid sees the same batch.
static void load(ax_trainer *t, int step)
{
    int64_t seq = t->layout.seq, vocab = t->config.arch->vocab;
    uint64_t stream = ax_rng_stream("selftest");
    for (int64_t i = 0; i < ax_trainer_rows(t); i++) {
        uint64_t row = (uint64_t)(step * t->layout.batch + ax_trainer_row(t, i));
        for (int64_t k = 0; k <= seq; k++) {
            uint64_t bits = ax_rng_bits(1, stream, row * (uint64_t)(seq + 1) + (uint64_t)k);
            int32_t id = (int32_t)(bits % (uint64_t)vocab);
            if (k < seq)
                t->ids[i * seq + k] = id;
            if (k > 0)
                t->targets[i * seq + k - 1] = id;
        }
    }
}

static ax_status train(const ax_trainer_config *config, ax_comm *world, int64_t seed, double *loss,
                       double *norm)
{
    ax_trainer t;
    ax_step_result r;
    AX_TRY(ax_trainer_open(config, world, &t));
    ax_status st = ax_params_init(&t.model.params, &t.grid, &t.dev, seed);
    for (int i = 0; i < AX_SELFTEST_STEPS && st == AX_OK; i++) {
        load(&t, i);
        st = ax_step(&t, 1e-3, &r);
        loss[i] = r.loss;
        norm[i] = r.grad_norm;
    }
    ax_comm_end(world, st);
    ax_trainer_close(&t);
    return st;
}

// The same on one rank, by the same code: rank 0 alone, while the others wait.
static ax_status train_serially(const ax_job *job, ax_selftest_result *out)
{
    ax_trainer_config c = job->trainer;
    ax_comm *alone;
    c.grid = (ax_grid_shape){1, 1, 1, 1, "xyzd"};
    c.micro_batch = 0;
    AX_TRY(ax_comm_local_open(1, &alone));
    ax_status st = train(&c, alone, job->config->train.seed, out->serial_loss, out->serial_norm);
    ax_comm_close(alone);
    return st;
}

static double relative(double a, double b)
{
    double d = fabs(a - b) / fabs(b);
    return isfinite(d) ? d : INFINITY;
}

static void judge(ax_dtype act, ax_selftest_result *r)
{
    r->steps = AX_SELFTEST_STEPS;
    r->band = act == AX_F64 ? 1e-12 : act == AX_F32 ? 1e-5 : 3e-2;
    for (int i = 0; i < r->steps; i++) {
        r->worst_loss = fmax(r->worst_loss, relative(r->loss[i], r->serial_loss[i]));
        r->worst_norm = fmax(r->worst_norm, relative(r->norm[i], r->serial_norm[i]));
    }
    r->passed = r->worst_loss <= r->band && r->worst_norm <= r->band;
}

ax_status ax_selftest_rank(ax_job *job, ax_comm *world, ax_selftest_result *result)
{
    ax_selftest_result r = {0};
    const ax_trainer_config *c = &job->trainer;
    AX_TRY(train(c, world, job->config->train.seed, r.loss, r.norm));
    AX_TRY(ax_comm_agree(world, world->rank == 0 ? train_serially(job, &r) : AX_OK));
    if (world->rank == 0) {
        judge(c->act, &r);
        r.scaled = job->scaled;
        *result = r;
    }
    return AX_OK;
}

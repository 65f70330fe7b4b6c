// The recorded steps of four ranks, read back as JSON: every rank, row and step is there, what a
// rank does comes one after another, and transfers of an axis do not overlap.
#include "base/rng.h"
#include "train/ranks.h"
#include "train/step.h"
#include "train/trace_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, STEPS = 2 };

typedef struct job {
    ax_arch arch;
    int64_t room; // steps
    const char *path;
    ax_status ended[RANKS];
    int64_t kernels[RANKS], lost[RANKS];
} job;

static void load_tokens(ax_trainer *t)
{
    for (int64_t i = 0; i < ax_trainer_rows(t) * t->layout.seq; i++) {
        t->ids[i] = (int32_t)(ax_rng_bits(3, 1, (uint64_t)i) % (uint64_t)t->config.arch->vocab);
        t->targets[i] = t->ids[i];
    }
}

static ax_status record(job *j, ax_trainer *t)
{
    ax_step_result r;
    ax_trace_file f = {.path = j->path};
    AX_TRY(ax_params_init(&t->model.params, &t->grid, &t->dev, 1));
    load_tokens(t);
    AX_TRY(ax_step(t, 1e-3, &r)); // not recorded
    AX_TRY(ax_trace_begin(&f, t));
    for (int64_t i = 0; i < STEPS; i++) {
        AX_TRY(ax_step(t, 1e-3, &r));
        ax_trace_step(&f, t, i + 2);
    }
    for (int64_t i = 0; i < t->timeline.count; i++)
        j->kernels[t->grid.rank] += t->timeline.span[i].kind == AX_TIME_KERNEL;
    j->lost[t->grid.rank] = t->timeline.lost;
    return ax_trace_write(&f, t);
}

static ax_status rank_main(void *ctx, ax_comm *world)
{
    job *j = ctx;
    ax_trainer t;
    ax_trainer_config c = {.arch = &j->arch,
                           .grid = {2, 1, 2, 1, "xyzd"},
                           .batch = 4,
                           .device = "ref",
                           .act = AX_F32,
                           .overlap = AX_OVERLAP_ALL,
                           .trace = j->room,
                           .optim = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}};
    AX_TRY(ax_trainer_open(&c, world, &t));
    ax_status st = j->ended[world->rank] = record(j, &t);
    ax_comm_end(world, st);
    ax_trainer_close(&t);
    return st;
}

static job job_of(const char *path)
{
    job j = {.arch = {.kind = AX_LLAMA,
                      .layers = 2,
                      .hidden = 32,
                      .heads = 4,
                      .vocab = 61,
                      .seq = 8,
                      .norm_eps = 1e-5,
                      .rope_theta = 1e4,
                      .init_std = 0.1},
             .room = STEPS,
             .path = path};
    assert_int_equal(ax_arch_check(&j.arch), AX_OK);
    return j;
}

static double real_of(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

// Events of one category on one row come in order and do not overlap.
static void check_row(const json_t *events, int rank, int row, const char *category)
{
    double end = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        if (real_of(e, "pid") != rank || real_of(e, "tid") != row ||
            strcmp(text_of(e, "cat"), category) != 0)
            continue;
        assert_true(real_of(e, "ts") >= end - 0.002); // printed to the nanosecond
        assert_true(real_of(e, "dur") >= 0);
        end = real_of(e, "ts") + real_of(e, "dur");
    }
}

static int64_t count(const json_t *events, int rank, const char *category)
{
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        n += real_of(e, "pid") == rank && strcmp(text_of(e, "cat"), category) == 0;
    }
    return n;
}

static bool has_row(const json_t *events, int rank, const char *name)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        if (real_of(e, "pid") == rank && strcmp(text_of(e, "name"), "thread_name") == 0 &&
            strcmp(text_of(json_object_get(e, "args"), "name"), name) == 0)
            return true;
    }
    return false;
}

// Every product of the model is there with its three sizes.
static void check_products(const json_t *events)
{
    int products = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i), *args = json_object_get(e, "args");
        if (strcmp(text_of(e, "name"), "gemm") != 0)
            continue;
        products++;
        assert_true(real_of(args, "m") > 0 && real_of(args, "n") > 0 && real_of(args, "k") > 0);
        assert_string_equal(text_of(args, "kernel"), "ref");
    }
    // q, k, v in one, o, gate and up in one, down: 2 layers x 4; and the head, once a chunk. Each
    // forward, for its input and for its weights.
    assert_int_equal(products, RANKS * STEPS * 3 * (2 * 4 + 1));
}

static void a_trace_holds_every_rank_row_and_step(void **state)
{
    (void)state;
    char path[] = "/tmp/axonn-trace-XXXXXX";
    close(mkstemp(path));
    job j = job_of(path);
    assert_int_equal(ax_ranks_run(RANKS, rank_main, &j), AX_OK);
    json_error_t bad;
    json_t *root = json_load_file(path, 0, &bad);
    if (!root)
        fail_msg("%s, line %d: %s", path, bad.line, bad.text);
    const json_t *events = json_object_get(root, "traceEvents");
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(j.lost[rank], 0);
        assert_int_equal(count(events, rank, "kernel"), j.kernels[rank]);
        assert_int_equal(count(events, rank, "step"), STEPS);
        assert_true(count(events, rank, "transfer") > 0);
        assert_true(has_row(events, rank, "computes, waits"));
        assert_true(has_row(events, rank, "axis x") && has_row(events, rank, "axis z"));
        assert_true(has_row(events, rank, "axis z (2)"));
        assert_false(has_row(events, rank, "axis y")); // of one rank
        check_row(events, rank, 0, "kernel");
        check_row(events, rank, 0, "exposed");
        for (int row = 1; row < 8; row++)
            check_row(events, rank, row, "transfer");
    }
    check_products(events);
    json_decref(root);
    unlink(path);
}

// Nothing of a file that cannot be made stays behind, and all ranks hear of it.
static void a_trace_that_cannot_be_written_fails_on_all_ranks(void **state)
{
    (void)state;
    job j = job_of("/no/such/directory/trace.json");
    assert_int_equal(ax_ranks_run(RANKS, rank_main, &j), AX_EIO);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(j.ended[rank], AX_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_holds_every_rank_row_and_step),
        cmocka_unit_test(a_trace_that_cannot_be_written_fails_on_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Documents packed into one row, attention masked at their borders, against the same documents in
// rows of their own: the loss of every token, and every gradient.
#include "base/rng.h"
#include "train/ranks.h"
#include "train/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQ = 12, FIRST = 5, DOCUMENTS = 2 }; // documents of 5 and 7 tokens

static const int64_t length_of[DOCUMENTS] = {FIRST, SEQ - FIRST};

typedef struct job {
    ax_arch arch;
    ax_dtype act;
    const char *device;
    ax_recompute recompute;
    double worst_loss, worst_grad; // relative
} job;

static int32_t token(int64_t document, int64_t i)
{
    return (int32_t)(ax_rng_bits(3, (uint64_t)document, (uint64_t)i) % 61);
}

static ax_status open_trainer(const job *j, ax_comm *world, int64_t rows, bool mask, ax_trainer *t)
{
    ax_trainer_config c = {.arch = &j->arch,
                           .grid = {1, 1, 1, 1, "xyzd"},
                           .batch = rows,
                           .device = j->device,
                           .act = j->act,
                           .threads = 1,
                           .recompute = j->recompute,
                           .document_mask = mask};
    AX_TRY(ax_trainer_open(&c, world, t));
    return ax_params_init(&t->model.params, &t->grid, &t->dev, 7);
}

// Writes document `d` from element `at` of the step's rows on.
static void put(ax_trainer *t, int64_t d, int64_t at)
{
    for (int64_t i = 0; i < length_of[d]; i++) {
        t->ids[at + i] = token(d, i);
        t->targets[at + i] = token(d, i + 1);
        t->positions[at + i] = (int32_t)i;
    }
}

static void put_packed(ax_trainer *t)
{
    put(t, 0, 0);
    put(t, 1, FIRST);
}

static void put_apart(ax_trainer *t)
{
    for (int64_t i = 0; i < DOCUMENTS * SEQ; i++) {
        t->ids[i] = 0;
        t->targets[i] = -1;
        t->positions[i] = (int32_t)(i % SEQ);
    }
    for (int64_t d = 0; d < DOCUMENTS; d++)
        put(t, d, d * SEQ);
}

static ax_status token_losses(ax_trainer *t, const int32_t *positions, double *loss)
{
    double sum;
    return ax_model_loss(&t->model, &(ax_batch){t->ids, t->targets, positions}, &sum, loss);
}

static double element(ax_tensor t, int64_t i)
{
    return t.dtype == AX_F64 ? ((double *)t.data)[i] : ((float *)t.data)[i];
}

static void compare_gradient(job *j, const ax_param *a, const ax_param *b, double most)
{
    for (int64_t i = 0; i < a->part; i++) {
        double d = fabs(element(a->part_grad, i) - element(b->part_grad, i)) / most;
        j->worst_grad = d <= j->worst_grad ? j->worst_grad : d; // a NaN stays
    }
}

static ax_status compare(job *j, ax_trainer *packed, ax_trainer *apart)
{
    double together[SEQ], alone[DOCUMENTS * SEQ], most = 0;
    ax_step_result r[2] = {{0}};
    AX_TRY(token_losses(packed, packed->positions, together));
    AX_TRY(token_losses(apart, apart->positions, alone));
    for (int64_t d = 0, at = 0; d < DOCUMENTS; d++)
        for (int64_t i = 0; i < length_of[d]; i++, at++) {
            double e = fabs(together[at] - alone[d * SEQ + i]) / alone[d * SEQ + i];
            j->worst_loss = e <= j->worst_loss ? j->worst_loss : e;
        }
    AX_TRY(ax_step_gradients(packed, &r[0]));
    AX_TRY(ax_step_gradients(apart, &r[1]));
    assert_int_equal(r[0].kept, SEQ);
    assert_int_equal(r[1].kept, SEQ);
    const ax_params *p = &packed->model.params, *q = &apart->model.params;
    for (int i = 0; i < q->count; i++)
        for (int64_t k = 0; k < q->list[i].part; k++)
            most = fmax(most, fabs(element(q->list[i].part_grad, k)));
    for (int i = 0; i < q->count; i++)
        compare_gradient(j, &p->list[i], &q->list[i], most);
    return AX_OK;
}

static ax_status compare_rank(void *ctx, ax_comm *world)
{
    job *j = ctx;
    ax_trainer packed, apart = {0};
    AX_TRY(open_trainer(j, world, 1, true, &packed));
    ax_status st = open_trainer(j, world, DOCUMENTS, true, &apart);
    put_packed(&packed);
    if (st == AX_OK) {
        put_apart(&apart);
        st = compare(j, &packed, &apart);
    }
    ax_trainer_close(&packed);
    ax_trainer_close(&apart);
    return st;
}

static ax_arch arch_of(ax_arch_kind kind)
{
    ax_arch a = {.kind = kind,
                 .layers = 2,
                 .hidden = 32,
                 .heads = 4,
                 .kv_heads = kind == AX_LLAMA ? 2 : 4,
                 .vocab = 61,
                 .seq = SEQ,
                 .tied = kind == AX_GPT,
                 .norm_eps = 1e-5,
                 .rope_theta = 1e4,
                 .init_std = 0.2};
    assert_int_equal(ax_arch_check(&a), AX_OK);
    return a;
}

static void check(const char *device, ax_dtype act, double allowed)
{
    for (int kind = AX_GPT; kind <= AX_LLAMA; kind++)
        for (int recompute = 0; recompute < 3; recompute++) {
            job j = {.arch = arch_of((ax_arch_kind)kind),
                     .act = act,
                     .device = device,
                     .recompute = (ax_recompute)recompute};
            assert_int_equal(ax_ranks_run(1, compare_rank, &j), AX_OK);
            print_message("%s %s %s%s: losses within %.1e, gradients within %.1e\n",
                          kind == AX_GPT ? "gpt" : "llama", device, ax_dtype_name(act),
                          recompute == 2 ? ", recompute"
                          : recompute    ? ", selective"
                                         : "",
                          j.worst_loss, j.worst_grad);
            assert_true(j.worst_loss <= allowed && j.worst_grad <= allowed);
        }
}

static void in_double(void **state)
{
    (void)state;
    check("ref", AX_F64, 1e-13);
}

static void in_less(void **state)
{
    (void)state;
    for (const char *const *name = ax_device_names(); *name; name++) {
        check(*name, AX_F32, 1e-5);
        check(*name, AX_BF16, 1e-5);
    }
}

// ---- the switch, and what is refused

typedef struct switches {
    job job;
    bool mask;
    double plain[SEQ], given[SEQ]; // losses without positions, and with those of two documents
    ax_status bad;                 // what a position before the sequence gives
} switches;

static ax_status switch_rank(void *ctx, ax_comm *world)
{
    switches *s = ctx;
    ax_trainer t;
    AX_TRY(open_trainer(&s->job, world, 1, s->mask, &t));
    put_packed(&t);
    ax_status st = token_losses(&t, t.positions, s->given);
    if (st == AX_OK)
        st = token_losses(&t, NULL, s->plain);
    t.positions[3] = 4;
    double unused[SEQ];
    s->bad = token_losses(&t, t.positions, unused);
    ax_trainer_close(&t);
    return st;
}

static void only_when_asked(void **state)
{
    (void)state;
    for (int kind = AX_GPT; kind <= AX_LLAMA; kind++) {
        switches off = {
            .job = {.arch = arch_of((ax_arch_kind)kind), .act = AX_F64, .device = "ref"}};
        switches on = off;
        on.mask = true;
        assert_int_equal(ax_ranks_run(1, switch_rank, &off), AX_OK);
        assert_int_equal(ax_ranks_run(1, switch_rank, &on), AX_OK);
        assert_memory_equal(off.plain, off.given, sizeof off.plain);
        assert_memory_equal(off.plain, on.plain, sizeof off.plain);
        assert_memory_equal(on.given, on.plain, FIRST * sizeof(double)); // the first document
        for (int i = FIRST; i < SEQ; i++)
            assert_true(fabs(on.given[i] - on.plain[i]) > 1e-6);
        assert_int_equal(off.bad, AX_OK); // not read
    }
}

static void before_its_sequence(void **state)
{
    (void)state;
    switches on = {.job = {.arch = arch_of(AX_GPT), .act = AX_F64, .device = "ref"}, .mask = true};
    assert_int_equal(ax_ranks_run(1, switch_rank, &on), AX_OK);
    assert_int_equal(on.bad, AX_EINTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"a packed row gives the losses and gradients of its documents in rows of their own, in "
         "double",
         in_double, NULL, NULL, NULL},
        {"a packed row gives the losses and gradients of its documents, in fp32 and bf16", in_less,
         NULL, NULL, NULL},
        {"positions are read only with document_mask, and change what follows a border",
         only_when_asked, NULL, NULL, NULL},
        {"a document that begins before its sequence is refused", before_its_sequence, NULL, NULL,
         NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

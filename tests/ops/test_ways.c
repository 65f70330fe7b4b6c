// Every way to make a matrix product, forced: in all modes and dtypes, odd and strided, onto c and
// not, with and without a communicator to poll, within the workspace that a measuring device told.
// And a device that is timing: its products are those of the default, to the bit.
#include "operand.h"

#include "dev/tune.h"
#ifdef AX_WITH_ONEDNN
#include "dev/cpu/cpu.h"
#include "dev/cpu/onednn.h"
#endif
#include <pthread.h>
#include <stdio.h>

typedef struct shape {
    int64_t m, n, k, gap;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 0},       {33, 65, 66, 1},     {130, 144, 70, 3},   {256, 272, 400, 0},
    {1100, 140, 60, 2}, {140, 1100, 130, 5}, {128, 131, 5000, 0},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

typedef struct product {
    operand a, b, c;
    ax_gemm_args gold, test;
} product;

static ax_device opened(const char *name, ax_tuner *tuner)
{
    ax_device dev;
    ax_device_config config = {.name = name, .as = "cpu", .threads = 2, .core = -1};
    assert_int_equal(ax_device_open(&config, &dev), AX_OK);
    dev.tuner = tuner;
    return dev;
}

// form: bits of ta, tb, beta.
static product make_product(const shape *s, int form, ax_dtype in, ax_dtype out)
{
    product p;
    ax_trans ta = (ax_trans)(form & 1), tb = (ax_trans)(form >> 1 & 1);
    double beta = form >> 2;
    p.a = make(in, ta ? s->k : s->m, ta ? s->m : s->k, s->gap, 1);
    p.b = make(in, tb ? s->n : s->k, tb ? s->k : s->n, s->gap, 1);
    p.c = make(out, s->m, s->n, s->gap, 1);
    p.gold = (ax_gemm_args){ta, tb, p.a.gold, p.b.gold, p.c.gold, beta};
    p.test = (ax_gemm_args){ta, tb, p.a.t, p.b.t, p.c.t, beta};
    return p;
}

static void release_product(product *p)
{
    release(&p->a);
    release(&p->b);
    release(&p->c);
}

static void count_poll(void *ctx)
{
    ++*(int *)ctx;
}

static bool has_cpu(void)
{
    return !ax_device_missing("cpu");
}

// One product made one way; c starts from `before`.
static void force(ax_device *dev, product *p, int way, const void *before, int *polls)
{
    ax_tuner measured = {.count = 1}, taken = {.count = 1};
    ax_device measure = opened("measure", &measured);
    measured.entry[0] = (ax_tuner_entry){.key = ax_gemm_key_of(dev, &p->test), .way = way};
    taken.entry[0] = measured.entry[0];
    memcpy(p->c.mem, before, p->c.bytes);
    assert_int_equal(ax_gemm(&measure, &p->test), AX_OK);
    assert_int_equal(ax_device_grow(dev, measure.workspace_need), AX_OK);
    if (measure.workspace_need) // what an earlier product left there
        memset(dev->workspace, 0xff, measure.workspace_need);
    dev->tuner = &taken;
    dev->poll = polls ? count_poll : NULL;
    dev->poll_ctx = polls;
    assert_int_equal(ax_gemm(dev, &p->test), AX_OK);
    dev->poll = NULL;
    assert_int_equal(taken.count, 1);
    double band = p->c.t.dtype == AX_BF16 ? 1.2e-2 : 1e-5, error = error_of(&p->c);
    if (!(error < band))
        fail_msg("%s, %lld x %lld x %lld, %d%d, beta %g: error %.1e", ax_gemm_way_name("cpu", way),
                 (long long)taken.entry[0].key.m, (long long)taken.entry[0].key.n,
                 (long long)taken.entry[0].key.k, (int)p->test.ta, (int)p->test.tb, p->test.beta,
                 error);
    assert_guards(&p->c);
    ax_device_close(&measure);
}

static void force_all(ax_device *ref, ax_device *dev, product *p, int runs[AX_TUNER_WAYS])
{
    void *before = malloc(p->c.bytes);
    assert_non_null(before);
    memcpy(before, p->c.mem, p->c.bytes);
    assert_int_equal(ax_gemm(ref, &p->gold), AX_OK);
    for (int way = 0; ax_gemm_way_name("cpu", way); way++) {
        int polls = 0;
        if (!ax_gemm_way_applies(dev, &p->test, way))
            continue;
        force(dev, p, way, before, NULL);
        force(dev, p, way, before, &polls);
        assert_true(polls > 0);
        runs[way]++;
    }
    free(before);
}

static void every_way_gives_the_product(void **state)
{
    (void)state;
    if (!has_cpu())
        skip();
    int runs[AX_TUNER_WAYS] = {0};
    ax_device ref, dev = opened("cpu", NULL);
    assert_int_equal(ax_device_open(&(ax_device_config){.name = "ref", .core = -1}, &ref), AX_OK);
    for (int i = 0; i < SHAPES; i++)
        for (int form = 0; form < 8; form++)
            for (int kind = 0; kind < 3; kind++) { // f32; bf16 to f32; bf16 to bf16
                product p = make_product(&shapes[i], form, kind ? AX_BF16 : AX_F32,
                                         kind == 2 ? AX_BF16 : AX_F32);
                force_all(&ref, &dev, &p, runs);
                release_product(&p);
            }
    for (int way = 0; ax_gemm_way_name("cpu", way); way++) {
        const char *name = ax_gemm_way_name("cpu", way);
        bool of_processor = strcmp(name, "packed") == 0 || strcmp(name, "widened") == 0;
        print_message("%-16s %4d products\n", name, runs[way]);
        assert_true(runs[way] > 0 || of_processor);
    }
    ax_device_close(&dev);
    ax_device_close(&ref);
}

// While it is timing, a device gives what the default gives, and has a time for every way; a
// product onto c is left alone.
static void timing_changes_no_bit(void **state)
{
    (void)state;
    if (!has_cpu())
        skip();
    static ax_tuner tuner, noted;
    ax_device plain = opened("cpu", NULL), timing = opened("cpu", &tuner);
    ax_device measure = opened("measure", &noted);
    for (int kind = 0; kind < 3; kind++)
        for (int form = 0; form < 8; form += 3) {
            product p = make_product(&shapes[3], form, kind ? AX_BF16 : AX_F32,
                                     kind == 2 ? AX_BF16 : AX_F32);
            product q = make_product(&shapes[3], form, kind ? AX_BF16 : AX_F32,
                                     kind == 2 ? AX_BF16 : AX_F32);
            tuner = noted = (ax_tuner){0};
            tuner.timing = true;
            assert_int_equal(ax_gemm(&measure, &p.test), AX_OK);
            assert_int_equal(ax_device_grow(&plain, measure.workspace_need), AX_OK);
            assert_int_equal(ax_device_grow(&timing, measure.workspace_need), AX_OK);
            double flops = plain.matmul_flops;
            assert_int_equal(ax_gemm(&plain, &p.test), AX_OK);
            flops = plain.matmul_flops - flops;
            double before = timing.matmul_flops;
            assert_int_equal(ax_gemm(&timing, &q.test), AX_OK);
            assert_true(timing.matmul_flops - before == flops);
            assert_memory_equal(p.c.mem, q.c.mem, p.c.bytes);
            assert_int_equal(tuner.count, 1);
            assert_int_equal(tuner.entry[0].way, AX_WAY_OPEN);
            for (int way = 0; way < AX_TUNER_WAYS; way++) {
                bool tried = q.test.beta == 0 && ax_gemm_way_applies(&timing, &q.test, way);
                assert_true((tuner.entry[0].seconds[way] > 0) == tried);
            }
            release_product(&p);
            release_product(&q);
        }
    ax_device_close(&measure);
    ax_device_close(&timing);
    ax_device_close(&plain);
}

// More products than a tuner has room for, and a way that cannot make this one: by default.
static void what_cannot_be_tuned_is_made_by_default(void **state)
{
    (void)state;
    if (!has_cpu())
        skip();
    static ax_tuner tuner;
    ax_device dev = opened("cpu", &tuner);
    tuner = (ax_tuner){.count = AX_TUNER_KEYS, .timing = true};
    product p = make_product(&shapes[1], 0, AX_F32, AX_F32);
    assert_int_equal(ax_gemm(&dev, &p.test), AX_OK);
    assert_true(tuner.lost > 0 && tuner.count == AX_TUNER_KEYS);
    int widened = ax_gemm_way_find("cpu", "widened");
    tuner =
        (ax_tuner){.count = 1, .entry = {{.key = ax_gemm_key_of(&dev, &p.test), .way = widened}}};
    assert_true(widened > 0 && !ax_gemm_way_applies(&dev, &p.test, widened));
    assert_int_equal(ax_gemm(&dev, &p.test), AX_OK);
    assert_int_equal(ax_gemm_way_find("cpu", "no such way"), AX_WAY_OPEN);
    assert_null(ax_gemm_way_name("cpu", AX_TUNER_WAYS));
    assert_string_equal(ax_gemm_way_name("ref", 0), "default");
    release_product(&p);
    ax_device_close(&dev);
}

#ifdef AX_WITH_ONEDNN
typedef struct half { // of a product, made by one thread
    ax_onednn *onednn;
    ax_gemm_args g;
    int member;
    void *scratch;
    ax_status st;
} half;

static void *make_half(void *arg)
{
    half *h = arg;
    h->st = ax_onednn_run(h->onednn, &h->g, &(ax_onednn_use){.member = h->member},
                          (ax_onednn_room){.scratch = h->scratch});
    return NULL;
}

// What the split of bf16 products over the threads is made of, in a dtype that every processor has.
static void members_work_side_by_side(void **state)
{
    (void)state;
    ax_onednn *onednn;
    ax_device ref;
    pthread_t thread[2];
    half part[2];
    product p = make_product(&shapes[3], 0, AX_F32, AX_F32);
    assert_int_equal(ax_device_open(&(ax_device_config){.name = "ref", .core = -1}, &ref), AX_OK);
    assert_int_equal(ax_gemm(&ref, &p.gold), AX_OK);
    assert_int_equal(ax_onednn_open(2, &onednn), AX_OK);
    for (int i = 0; i < 2; i++) {
        ax_onednn_need need;
        part[i] = (half){.onednn = onednn, .g = p.test, .member = i + 1};
        part[i].g.a = ax_tensor_rows(p.a.t, 128 * i, 128);
        part[i].g.c = ax_tensor_rows(p.c.t, 128 * i, 128);
        const ax_onednn_use use = {.member = i + 1};
        assert_true(ax_onednn_has(onednn, &part[i].g, &use, &need));
        part[i].scratch = aligned_alloc(64, need.scratch / 64 * 64 + 64);
        assert_int_equal(ax_onednn_ready(onednn, &part[i].g, &use), AX_OK);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, make_half, &part[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(part[i].st, AX_OK);
        free(part[i].scratch);
    }
    assert_true(error_of(&p.c) < 1e-5);
    ax_onednn_close(onednn);
    ax_device_close(&ref);
    release_product(&p);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"every way gives the product", every_way_gives_the_product, 0, 0, 0},
        {"timing changes no bit", timing_changes_no_bit, 0, 0, 0},
        {"what cannot be tuned is made by default", what_cannot_be_tuned_is_made_by_default, 0, 0,
         0},
#ifdef AX_WITH_ONEDNN
        {"members of a team make their shares side by side", members_work_side_by_side, 0, 0, 0},
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

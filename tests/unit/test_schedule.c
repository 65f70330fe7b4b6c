#include "optim/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

enum { WARMUP = 4, STEPS = 10 };

static void assert_rates(ax_schedule s, const double *want)
{
    for (int64_t step = 1; step <= s.steps; step++)
        assert_true(fabs(ax_schedule_lr(&s, step) - want[step - 1]) < 1e-15);
}

static ax_schedule of_kind(ax_schedule_kind kind)
{
    return (ax_schedule){
        .kind = kind, .lr = 1, .min_lr = 0.1, .decay = 0.3, .warmup = WARMUP, .steps = STEPS};
}

// 0.55 + 0.45 cos(pi t) at t = 1/6 .. 1: the cosines of 30, 60, 90, 120, 150 and 180 degrees.
static void cosine_falls_from_the_peak_to_the_minimum(void **state)
{
    (void)state;
    double c30 = 0.45 * sqrt(3) / 2, c60 = 0.225;
    const double want[STEPS] = {0.25,       0.5,  0.75,       1,          0.55 + c30,
                                0.55 + c60, 0.55, 0.55 - c60, 0.55 - c30, 0.1};
    assert_rates(of_kind(AX_COSINE), want);
}

static void linear_falls_evenly(void **state)
{
    (void)state;
    const double want[STEPS] = {0.25, 0.5, 0.75, 1, 0.85, 0.7, 0.55, 0.4, 0.25, 0.1};
    assert_rates(of_kind(AX_LINEAR), want);
}

static void constant_stays_at_the_peak(void **state)
{
    (void)state;
    const double want[STEPS] = {0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1, 1};
    assert_rates(of_kind(AX_CONSTANT), want);
}

static void wsd_falls_over_the_last_share(void **state)
{
    (void)state;
    const double want[STEPS] = {0.25, 0.5, 0.75, 1, 1, 1, 1, 0.7, 0.4, 0.1};
    assert_rates(of_kind(AX_WSD), want);
}

static void a_long_tail_of_wsd_still_starts_at_the_peak(void **state)
{
    (void)state;
    const double want[STEPS] = {0.25, 0.5, 0.75, 1, 0.85, 0.7, 0.55, 0.4, 0.25, 0.1};
    ax_schedule s = of_kind(AX_WSD);
    s.decay = 0.9;
    assert_rates(s, want);
}

static void step_one_learns_and_the_peak_is_the_last_warmup_step(void **state)
{
    (void)state;
    for (int kind = AX_COSINE; kind <= AX_WSD; kind++) {
        ax_schedule s = of_kind(kind);
        assert_true(ax_schedule_lr(&s, 1) > 0);
        assert_true(ax_schedule_lr(&s, WARMUP - 1) < s.lr);
        assert_true(ax_schedule_lr(&s, WARMUP) == s.lr);
        for (int64_t step = WARMUP + 1; step <= STEPS; step++)
            assert_true(ax_schedule_lr(&s, step) <= ax_schedule_lr(&s, step - 1));
        assert_true(ax_schedule_lr(&s, STEPS) == (kind == AX_CONSTANT ? s.lr : s.min_lr));
    }
}

static void without_warmup_step_one_is_just_below_the_peak(void **state)
{
    (void)state;
    for (int kind = AX_COSINE; kind <= AX_WSD; kind++) {
        ax_schedule s = of_kind(kind);
        s.warmup = 0;
        double first = ax_schedule_lr(&s, 1);
        assert_true(first > 0.9 && first <= 1);
        assert_true(ax_schedule_lr(&s, STEPS) == (kind == AX_CONSTANT ? s.lr : s.min_lr));
    }
}

static void a_job_may_be_all_warmup(void **state)
{
    (void)state;
    for (int kind = AX_COSINE; kind <= AX_WSD; kind++) {
        ax_schedule s = of_kind(kind);
        s.warmup = STEPS;
        for (int64_t step = 1; step <= STEPS; step++)
            assert_true(ax_schedule_lr(&s, step) == s.lr * (double)step / STEPS);
        s.warmup = 2 * STEPS; // cut short: the peak is never reached
        assert_true(ax_schedule_lr(&s, STEPS) == 0.5 * s.lr);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cosine_falls_from_the_peak_to_the_minimum),
        cmocka_unit_test(linear_falls_evenly),
        cmocka_unit_test(constant_stays_at_the_peak),
        cmocka_unit_test(wsd_falls_over_the_last_share),
        cmocka_unit_test(a_long_tail_of_wsd_still_starts_at_the_peak),
        cmocka_unit_test(step_one_learns_and_the_peak_is_the_last_warmup_step),
        cmocka_unit_test(without_warmup_step_one_is_just_below_the_peak),
        cmocka_unit_test(a_job_may_be_all_warmup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

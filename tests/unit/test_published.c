// The authors' communication model against values computed from their public code by an
// independent program: how many grids there are, the first five and their times to a millisecond.
#include "plan/published.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

static const ax_published_bandwidths perlmutter = {
    .at = {{1, 2, 76}, {1, 4, 225}, {1, 0, 80}, {2, 2, 76}, {2, 0, 40}, {4, 0, 20}}, .cases = 6};
static const ax_published_bandwidths frontier = {.at = {{1, 2, 129},
                                                        {1, 4, 52},
                                                        {1, 8, 135},
                                                        {1, 0, 40},
                                                        {2, 2, 50},
                                                        {2, 4, 72},
                                                        {2, 0, 20},
                                                        {4, 2, 36},
                                                        {4, 0, 10},
                                                        {8, 0, 5}},
                                                 .cases = 10};

typedef struct row {
    ax_published_model model;
    int64_t ranks, batch;
    const ax_published_bandwidths *machine;
    int valid;
    ax_published_grid best[5];
} row;

static const row rows[] = {
    {{32, 7168, 2048, 16},
     32,
     1024,
     &perlmutter,
     36,
     {{1, 1, 32, 1, 1.335},
      {1, 1, 16, 2, 1.522},
      {2, 1, 16, 1, 10.134},
      {4, 1, 8, 1, 10.166},
      {4, 1, 4, 2, 10.223}}},
    {{38, 9216, 2048, 32},
     64,
     1024,
     &perlmutter,
     49,
     {{1, 1, 64, 1, 2.663},
      {1, 1, 32, 2, 2.846},
      {2, 1, 32, 1, 9.371},
      {4, 1, 16, 1, 9.376},
      {4, 1, 8, 2, 9.433}}},
    {{38, 9216, 2048, 32},
     4096,
     8192,
     &perlmutter,
     420,
     {{1, 1, 4096, 1, 2.705},
      {1, 1, 2048, 2, 2.707},
      {1, 1, 1024, 4, 2.713},
      {1, 1, 512, 8, 2.725},
      {1, 1, 256, 16, 2.748}}},
    {{24, 4096, 2048, 4},
     512,
     8192,
     &frontier,
     216,
     {{1, 1, 512, 1, 0.674},
      {1, 1, 256, 2, 0.686},
      {1, 1, 128, 4, 0.712},
      {1, 1, 64, 8, 0.763},
      {1, 1, 32, 16, 0.865}}},
    {{42, 12288, 2048, 64},
     8192,
     8192,
     &frontier,
     504,
     {{1, 1, 8192, 1, 10.630},
      {1, 1, 4096, 2, 10.642},
      {1, 1, 2048, 4, 10.668},
      {1, 1, 1024, 8, 10.718},
      {1, 1, 512, 16, 10.818}}},
    {{96, 16384, 2048, 256},
     32768,
     8192,
     &frontier,
     672,
     {{2, 8, 2048, 1, 31.278},
      {2, 8, 1024, 2, 31.282},
      {2, 8, 512, 4, 31.289},
      {2, 8, 256, 8, 31.303},
      {2, 8, 128, 16, 31.331}}},
};

static void the_published_ranking_is_reproduced(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const row *r = &rows[i];
        ax_published_list all;
        assert_int_equal(ax_published_rank(&r->model, r->ranks, r->batch, r->machine, &all), AX_OK);
        assert_int_equal(all.count, r->valid);
        for (int k = 0; k < 5; k++) {
            const ax_published_grid *got = &all.entry[k], *want = &r->best[k];
            assert_int_equal(got->x, want->x);
            assert_int_equal(got->y, want->y);
            assert_int_equal(got->z, want->z);
            assert_int_equal(got->data, want->data);
            assert_true(fabs(got->seconds - want->seconds) <= 5.0001e-4);
        }
        ax_published_list_fini(&all);
    }
}

static void the_degrees_of_the_nine_models_are_theirs(void **state)
{
    (void)state;
    static const struct {
        double parameters;
        int degree;
    } zoo[] = {{5.05e9, 4},   {10.34e9, 8},    {20.11e9, 16},   {39.23e9, 32},  {57.57e9, 64},
               {76.76e9, 64}, {152.87e9, 128}, {310.13e9, 256}, {619.39e9, 512}};
    for (size_t i = 0; i < sizeof zoo / sizeof zoo[0]; i++)
        assert_int_equal(ax_published_least_tensor(zoo[i].parameters), zoo[i].degree);
    assert_int_equal(ax_published_least_tensor(124e6), 1);
    assert_int_equal(ax_published_least_tensor(1200e9), 1024);
}

static void what_the_model_cannot_rank_is_refused(void **state)
{
    (void)state;
    ax_published_list all;
    assert_int_equal(ax_published_rank(&rows[0].model, 48, 1024, &perlmutter, &all), AX_EUSAGE);
    assert_int_equal(ax_published_rank(&rows[0].model, 8, 1024, &perlmutter, &all), AX_EUSAGE);
    assert_int_equal(ax_published_rank(&rows[0].model, 32, 1, &perlmutter, &all), AX_OK);
    ax_published_list_fini(&all); // x and y alone
    const ax_published_bandwidths none = {.at = {{1, 2, 76}}, .cases = 1};
    assert_int_equal(ax_published_rank(&rows[0].model, 32, 1024, &none, &all), AX_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_ranking_is_reproduced),
        cmocka_unit_test(the_degrees_of_the_nine_models_are_theirs),
        cmocka_unit_test(what_the_model_cannot_rank_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

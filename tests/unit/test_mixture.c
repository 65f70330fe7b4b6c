#include "base/log.h"
#include "data/mixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/axonn-test-mixture-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    return !mkdtemp(folder) || chdir(folder);
}

static int leave_folder(void **state)
{
    (void)state;
    remove("me@home.txt");
    return chdir("/") || rmdir(folder);
}

static ax_mixture parse(const char *list)
{
    ax_mixture m;
    assert_int_equal(ax_mixture_parse("data.train", list, &m), AX_OK);
    return m;
}

static void refuses(const char *list, const char *message)
{
    ax_mixture m;
    assert_int_equal(ax_mixture_parse("data.train", list, &m), AX_EUSAGE);
    assert_string_equal(ax_error_text(), message);
}

static void a_list_without_weights_is_one_source(void **state)
{
    (void)state;
    ax_mixture m = parse("a.txt,b.jsonl,c:uint16");
    assert_int_equal(m.sources, 1);
    assert_string_equal(m.files[0], "a.txt,b.jsonl,c:uint16");
    for (int64_t g = 0; g < 100; g++) {
        int64_t index;
        assert_int_equal(ax_mixture_draw(&m, g, &index), 0);
        assert_int_equal(index, g);
    }
    ax_mixture_fini(&m);
    ax_mixture_fini(&m);
}

static void weights_make_sources_and_are_normalised(void **state)
{
    (void)state;
    ax_mixture m = parse("a.txt@3,b@c:uint16@0.5,d@.5");
    assert_int_equal(m.sources, 3);
    assert_string_equal(m.files[0], "a.txt");
    assert_string_equal(m.files[1], "b@c:uint16");
    assert_string_equal(m.files[2], "d");
    assert_true(ax_mixture_share(&m, 0) == 0.75 && ax_mixture_share(&m, 1) == 0.125);
    ax_mixture_fini(&m);
}

static void a_name_with_an_at_sign_is_a_name_where_such_a_file_is(void **state)
{
    (void)state;
    FILE *f = fopen("me@home.txt", "w");
    assert_non_null(f);
    fclose(f);
    ax_mixture m = parse("me@home.txt");
    assert_int_equal(m.sources, 1);
    assert_string_equal(m.files[0], "me@home.txt");
    ax_mixture_fini(&m);
    m = parse("me@home.txt@2");
    assert_string_equal(m.files[0], "me@home.txt");
    ax_mixture_fini(&m);
}

static void weights_that_are_none_are_refused_by_entry(void **state)
{
    (void)state;
    refuses("a@x",
            "data.train: 'a@x': a weight is a number above 0 behind the file, as in FILE@0.7");
    refuses("a@", "data.train: 'a@': a weight is a number above 0 behind the file, as in FILE@0.7");
    refuses("a@0", "data.train: 'a@0': a weight is a number above 0 behind the file, as in "
                   "FILE@0.7");
    refuses("b@1,a@-1", "data.train: 'a@-1': a weight is a number above 0 behind the file, as in "
                        "FILE@0.7");
    refuses("a@nan", "data.train: 'a@nan': a weight is a number above 0 behind the file, as in "
                     "FILE@0.7");
    refuses("@1", "data.train: '@1' names no file before its weight");
    refuses("a@1e308,b@1e308", "data.train: weights too large to add up");
    refuses("a@1,b", "data.train=a@1,b: some files carry a weight (@) and some do not; give one to "
                     "all or to none");
    refuses("a,b@1", "data.train=a,b@1: some files carry a weight (@) and some do not; give one to "
                     "all or to none");
}

// Counts the samples of each source as they come: shares hold after every one, and each source is
// read from its first sample on with none left out and none twice.
static void expect_shares(const char *list, int64_t samples, double within)
{
    ax_mixture m = parse(list);
    int64_t taken[64] = {0};
    for (int64_t g = 0; g < samples; g++) {
        int64_t index;
        int source = ax_mixture_draw(&m, g, &index);
        assert_in_range(source, 0, m.sources - 1);
        assert_int_equal(index, taken[source]++);
        for (int i = 0; i < m.sources; i++)
            assert_true(fabs((double)taken[i] - (double)(g + 1) * ax_mixture_share(&m, i)) <=
                        within);
    }
    ax_mixture_fini(&m);
}

static void shares_are_exact_after_every_sample(void **state)
{
    (void)state;
    expect_shares("a@0.7,b@0.3", 20000, 1);
    expect_shares("a@1,b@999", 20000, 1);
    expect_shares("a@0.5,b@0.2,c@0.3", 20000, 1 + log2(3) / 2);
    expect_shares("a@1,b@2,c@3,d@4,e@5,f@6,g@7,h@1000", 20000, 2.5);
    expect_shares("a@1,b@1,c@1,d@1,e@1,f@1,g@1,h@1,i@1,j@1,k@1,l@1,m@1", 20000, 1 + log2(13) / 2);
}

static void shares_are_exact_far_out(void **state)
{
    (void)state;
    ax_mixture m = parse("a@0.7,b@0.3");
    static const int64_t far[] = {1 << 20, INT64_C(1) << 32, INT64_C(1) << 40, INT64_C(1) << 50};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        int64_t index[2] = {-1, -1}, read;
        int64_t taken[2] = {0, 0};
        for (int64_t g = far[i]; g < far[i] + 1000; g++) {
            int source = ax_mixture_draw(&m, g, &read);
            assert_true(index[source] < 0 || read == index[source] + 1);
            index[source] = read;
            taken[source]++;
        }
        assert_true(fabs((double)taken[0] - 700) <= 1);
        double want = 0.7 * (double)far[i]; // weights are held to 2^-32
        assert_true(fabs((double)(index[0] - taken[0]) - want) <= 2 + (double)far[i] * 0x1p-33);
    }
    ax_mixture_fini(&m);
}

static void a_vanishing_weight_is_no_trap(void **state)
{
    (void)state;
    ax_mixture m = parse("a@1e-300,b@1e300,c@1e-300");
    int64_t index;
    for (int64_t g = 1; g < 1000; g++)
        assert_int_equal(ax_mixture_draw(&m, g, &index), 1);
    ax_mixture_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_without_weights_is_one_source),
        cmocka_unit_test(weights_make_sources_and_are_normalised),
        cmocka_unit_test(a_name_with_an_at_sign_is_a_name_where_such_a_file_is),
        cmocka_unit_test(weights_that_are_none_are_refused_by_entry),
        cmocka_unit_test(shares_are_exact_after_every_sample),
        cmocka_unit_test(shares_are_exact_far_out),
        cmocka_unit_test(a_vanishing_weight_is_no_trap),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

// Known answers of philox4x32-10 as its authors publish them (Random123, kat_vectors). The two low
// words of a block are what ax_rng_bits returns.
static void philox_gives_the_published_known_answers(void **state)
{
    (void)state;
    assert_true(ax_rng_bits(0, 0, 0) == 0xe169c58d6627e8d5u);
    assert_true(ax_rng_bits(UINT64_MAX, UINT64_MAX, UINT64_MAX) == 0x41c83b0e408f276du);
    // counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0
    assert_true(ax_rng_bits(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u) ==
                0x94fdccebd16cfe09u);
}

static void seed_stream_and_index_each_change_the_value(void **state)
{
    (void)state;
    uint64_t v = ax_rng_bits(1, 2, 3);
    assert_true(v == ax_rng_bits(1, 2, 3));
    assert_true(v != ax_rng_bits(2, 2, 3));
    assert_true(v != ax_rng_bits(1, 3, 3));
    assert_true(v != ax_rng_bits(1, 2, 4));
    assert_true(ax_rng_stream("blk.0.attn.q.weight") != ax_rng_stream("blk.1.attn.q.weight"));
    assert_true(ax_rng_stream("") == 0xcbf29ce484222325u); // FNV-1a's offset
    assert_true(ax_rng_stream("a") == 0xaf63dc4c8601ec8cu);
}

static void uniform_and_normal_have_their_moments(void **state)
{
    (void)state;
    enum { N = 100000 };
    double u1 = 0, u2 = 0, n1 = 0, n2 = 0;
    for (uint64_t i = 0; i < N; i++) {
        double u = ax_rng_uniform(7, 1, i), n = ax_rng_normal(7, 2, i);
        assert_true(u >= 0 && u < 1 && isfinite(n));
        u1 += u / N;
        u2 += u * u / N;
        n1 += n / N;
        n2 += n * n / N;
    }
    assert_true(fabs(u1 - 0.5) < 0.005 && fabs(u2 - 1.0 / 3) < 0.005);
    assert_true(fabs(n1) < 0.015 && fabs(n2 - 1) < 0.02);
}

static void a_permutation_meets_every_number_once(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 100, 1023};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        char seen[1024] = {0};
        int64_t n = sizes[s], fixed = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t p = ax_rng_permute(5, 9, n, i);
            assert_in_range(p, 0, n - 1);
            assert_int_equal(seen[p]++, 0);
            fixed += p == i;
        }
        assert_true(n < 100 || fixed < n / 10);
    }
}

static void another_stream_gives_another_permutation(void **state)
{
    (void)state;
    int same = 0;
    for (int64_t i = 0; i < 1000; i++)
        same += ax_rng_permute(5, 9, 1000, i) == ax_rng_permute(5, 10, 1000, i);
    assert_true(same < 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_known_answers),
        cmocka_unit_test(seed_stream_and_index_each_change_the_value),
        cmocka_unit_test(uniform_and_normal_have_their_moments),
        cmocka_unit_test(a_permutation_meets_every_number_once),
        cmocka_unit_test(another_stream_gives_another_permutation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "arch/arch.h"
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

static int mute(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    return 0;
}

static ax_arch preset(const char *name)
{
    ax_arch a = {0};
    assert_int_equal(ax_arch_preset(name, &a), AX_OK);
    assert_int_equal(ax_arch_check(&a), AX_OK);
    return a;
}

static void published_parameter_counts_hold_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t parameters;
    } models[] = {
        {"gpt2-124m", 124439808},        {"llama2-7b", 6738415616},   {"llama2-13b", 13015864320},
        {"llama2-70b", 68976648192},     {"llama3.1-8b", 8030261248}, {"llama3.1-70b", 70553706496},
        {"llama3.1-405b", 405853388800}, {"llama3.2-1b", 1235814400}, {"llama3.2-3b", 3212749824},
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        ax_arch a = preset(models[i].name);
        assert_true(ax_arch_parameters(&a) == models[i].parameters);
    }
}

// Parameters in billions and flops of a sequence with full recompute, as the studies print them.
static void the_scaling_family_has_its_published_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double billions, flops;
    } models[] = {
        {"gpt-5b", 5.05, 8.8339e13},     {"gpt-10b", 10.34, 1.7914e14},
        {"gpt-20b", 20.11, 3.4316e14},   {"gpt-40b", 39.23, 6.6386e14},
        {"gpt-60b", 57.57, 9.7557e14},   {"gpt-80b", 76.76, 1.2892e15},
        {"gpt-160b", 152.87, 2.5707e15}, {"gpt-320b", 310.13, 5.1824e15},
        {"gpt-640b", 619.39, 1.0355e16},
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        ax_arch a = preset(models[i].name);
        assert_true(fabs((double)ax_arch_parameters(&a) / 1e9 - models[i].billions) < 0.0051);
        double full = ax_arch_flops_published(&a, 2048, true);
        assert_true(fabs(full / models[i].flops - 1) < 1e-4);
        assert_true(fabs(ax_arch_flops_published(&a, 2048, false) / full - 0.75) < 1e-12);
        assert_int_equal(a.head_dim, 128);
    }
}

static void every_preset_but_one_without_vocabulary_is_valid(void **state)
{
    (void)state;
    for (const char *const *name = ax_arch_presets(); *name; name++) {
        ax_arch a;
        assert_int_equal(ax_arch_preset(*name, &a), AX_OK);
        if (a.vocab == 0)
            a.vocab = 257;
        assert_int_equal(ax_arch_check(&a), AX_OK);
        assert_true(ax_arch_parameters(&a) > 0);
    }
}

static void an_unknown_preset_names_the_nearest(void **state)
{
    (void)state;
    ax_arch a;
    assert_int_equal(ax_arch_preset("llama3.1-8B", &a), AX_EUSAGE);
    assert_string_equal(ax_error_text(),
                        "model.preset=llama3.1-8B: no such preset; the nearest is 'llama3.1-8b'");
    assert_int_equal(ax_arch_preset("x", &a), AX_EUSAGE);
}

static void checking_fills_the_zeros(void **state)
{
    (void)state;
    ax_arch gpt = {.kind = AX_GPT,
                   .layers = 1,
                   .hidden = 96,
                   .heads = 6,
                   .vocab = 10,
                   .seq = 4,
                   .tied = 2,
                   .rope_theta = 1e4};
    ax_arch llama = gpt;
    llama.kind = AX_LLAMA;
    assert_int_equal(ax_arch_check(&gpt), AX_OK);
    assert_true(gpt.kv_heads == 6 && gpt.head_dim == 16 && gpt.ffn == 384 && gpt.tied == 1);
    assert_int_equal(ax_arch_check(&llama), AX_OK);
    assert_true(llama.ffn == 256 && llama.tied == 0);
    llama.ffn = 0;
    llama.hidden = 102; // 8/3 of it is 272
    assert_int_equal(ax_arch_check(&llama), AX_OK);
    assert_int_equal(llama.ffn, 320);
}

static void refuses(ax_arch a, const char *message)
{
    ax_arch before = a;
    assert_int_equal(ax_arch_check(&a), AX_EUSAGE);
    assert_string_equal(ax_error_text(), message);
    assert_memory_equal(&a, &before, sizeof a);
}

static void shapes_that_cannot_be_are_refused_with_the_numbers(void **state)
{
    (void)state;
    ax_arch a;
    assert_int_equal(ax_arch_preset("tiny", &a), AX_OK);
    refuses(a, "model.vocab=0: must be in 1..134217728");
    a.vocab = 257;
    a.heads = 3;
    a.kv_heads = 0;
    refuses(a, "model.hidden=64 does not divide by model.heads=3; change one or set "
               "model.head_dim");
    a.kv_heads = 2;
    refuses(a, "model.heads=3 must be a multiple of model.kv_heads=2");
    a.heads = 64;
    refuses(a, "model.head_dim=1: rotary positions turn pairs, so it must be even");
    a.heads = 0;
    refuses(a, "model.heads=0: must be in 1..1048576");
    a.heads = 4;
    a.layers = INT64_MAX;
    refuses(a, "model.layers=9223372036854775807: must be in 1..65536");
}

static void the_largest_legal_shape_does_not_overflow(void **state)
{
    (void)state;
    ax_arch a = {.kind = AX_LLAMA,
                 .layers = 65536,
                 .hidden = 1 << 20,
                 .heads = 1 << 10,
                 .head_dim = 1 << 10,
                 .ffn = 1 << 24,
                 .vocab = 1 << 27,
                 .seq = 1 << 27,
                 .rope_theta = 1};
    assert_int_equal(ax_arch_check(&a), AX_OK);
    assert_true(ax_arch_parameters(&a) > 0);
    double sum = 65536.0 * (3.0 * 0x1p44 + 4.0 * 0x1p40);
    assert_true(fabs((double)ax_arch_parameters(&a) / sum - 1) < 1e-3);
}

static void flops_are_six_a_weight_and_token_plus_the_causal_half(void **state)
{
    (void)state;
    ax_arch a = preset("gpt2-124m");
    double weights = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
    double attention = 12.0 * 2 * 1024.0 * 1024 * 768;
    assert_true(ax_arch_flops_forward(&a, 1024) == 2 * weights * 1024 + attention);
    assert_true(ax_arch_flops(&a, 1024) == 6 * weights * 1024 + 3 * attention);
    a.tied = 0; // the head's matmul is there either way
    assert_true(ax_arch_flops(&a, 1024) == 6 * weights * 1024 + 3 * attention);
}

static void biases_of_llama_count(void **state)
{
    (void)state;
    ax_arch a = preset("llama3.1-8b");
    int64_t plain = ax_arch_parameters(&a);
    a.attention_bias = AX_BIAS_ON;
    assert_true(ax_arch_parameters(&a) - plain == 32 * (4096 + 2 * 1024 + 4096));
    a.mlp_bias = AX_BIAS_ON;
    assert_true(ax_arch_parameters(&a) - plain == 32 * (2 * 4096 + 2 * 1024 + 2 * 14336 + 4096));
}

static void rotary_frequencies_are_stretched_as_asked(void **state)
{
    (void)state;
    ax_arch a = preset("llama3.1-8b");
    double plain[64], two_pi = 2 * acos(-1.0);
    a.head_dim = 128;
    for (int i = 0; i < 64; i++)
        plain[i] = ax_arch_rope_frequency(&a, i);
    assert_true(plain[0] == 1);
    assert_true(fabs(plain[32] - pow(5e5, -0.5)) < 1e-18);
    a.rope_scaling = AX_ROPE_LLAMA3;
    a.rope_factor = 8;
    assert_int_equal(ax_arch_check(&a), AX_OK);
    int kept = 0, blended = 0;
    for (int i = 0; i < 64; i++) {
        double wave = two_pi / plain[i], f = ax_arch_rope_frequency(&a, i);
        double smooth = (8192 / wave - 1) / 3;
        double want = wave > 8192   ? plain[i] / 8
                      : wave < 2048 ? plain[i]
                                    : (1 - smooth) * plain[i] / 8 + smooth * plain[i];
        assert_true(fabs(f / want - 1) < 1e-12);
        kept += wave < 2048;
        blended += wave >= 2048 && wave <= 8192;
    }
    assert_int_equal(kept, 29);
    assert_int_equal(blended, 6);
    a.rope_scaling = AX_ROPE_LINEAR;
    assert_true(fabs(ax_arch_rope_frequency(&a, 5) * 8 / plain[5] - 1) < 1e-12);
}

static void a_list_of_ends_is_read_and_checked(void **state)
{
    (void)state;
    ax_arch a = preset("llama2-7b");
    a.eos = "2,31999";
    assert_int_equal(ax_arch_check(&a), AX_OK);
    assert_true(ax_arch_ends(&a, 2) && ax_arch_ends(&a, 31999));
    assert_false(ax_arch_ends(&a, 3) || ax_arch_ends(&a, 0));
    static const char *const bad[] = {"2,32000", "-1", "2,,3", "x", "2;3", ","};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        a.eos = bad[i];
        assert_int_equal(ax_arch_check(&a), AX_EUSAGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_parameter_counts_hold_exactly),
        cmocka_unit_test(the_scaling_family_has_its_published_sizes),
        cmocka_unit_test(every_preset_but_one_without_vocabulary_is_valid),
        cmocka_unit_test(an_unknown_preset_names_the_nearest),
        cmocka_unit_test(checking_fills_the_zeros),
        cmocka_unit_test(shapes_that_cannot_be_are_refused_with_the_numbers),
        cmocka_unit_test(the_largest_legal_shape_does_not_overflow),
        cmocka_unit_test(biases_of_llama_count),
        cmocka_unit_test(rotary_frequencies_are_stretched_as_asked),
        cmocka_unit_test(a_list_of_ends_is_read_and_checked),
        cmocka_unit_test(flops_are_six_a_weight_and_token_plus_the_causal_half),
    };
    return cmocka_run_group_tests(tests, mute, NULL);
}

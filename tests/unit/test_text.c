#include "base/log.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

typedef struct sample {
    int64_t steps, mode;
    double lr;
    const char *out, *list;
    bool flag;
} sample;

static const ax_option table[] = {
    {"train.steps", AX_OPT_INT, offsetof(sample, steps), "100", "1..", "steps"},
    {"train.lr", AX_OPT_REAL, offsetof(sample, lr), "3e-4", "0..1", "rate"},
    {"train.out", AX_OPT_TEXT, offsetof(sample, out), "", "", "directory"},
    {"train.mode", AX_OPT_CHOICE, offsetof(sample, mode), "bf16", "fp32|bf16", "mode"},
    {"train.flag", AX_OPT_FLAG, offsetof(sample, flag), "off", "", "flag"},
    {"train.list", AX_OPT_LIST, offsetof(sample, list), "a,b", "", "list"},
    {0},
};

static sample s;
static ax_options o;

static int open_table(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    return ax_options_init(&o) != AX_OK || ax_options_add(&o, table, &s) != AX_OK;
}

static int close_table(void **state)
{
    (void)state;
    ax_options_fini(&o);
    return 0;
}

static void refuses(const char *key, const char *value, const char *message)
{
    assert_int_equal(ax_options_set(&o, key, value, "command line"), AX_EUSAGE);
    assert_string_equal(ax_error_text(), message);
}

static void integers_are_strict(void **state)
{
    (void)state;
    int64_t v = 5;
    assert_true(ax_parse_int("-12", &v) && v == -12);
    assert_true(ax_parse_int("9223372036854775807", &v) && v == INT64_MAX);
    static const char *const bad[] = {
        "", " 1", "1 ", "1x", "0x1", "1.0", "-", "1k", "9223372036854775808"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(ax_parse_int(bad[i], &v));
    assert_true(v == INT64_MAX);
}

static void reals_are_strict_and_finite(void **state)
{
    (void)state;
    double v = 0;
    assert_true(ax_parse_real("3e-4", &v) && v == 3e-4);
    assert_true(ax_parse_real("-.5", &v) && v == -0.5);
    static const char *const bad[] = {"", " 1", "1 ", "1e", "nan", "inf", "-inf", "0x1p3", "1e999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(ax_parse_real(bad[i], &v));
    assert_true(v == -0.5);
}

static void the_nearest_word_is_found_only_when_it_is_near(void **state)
{
    (void)state;
    static const char *const list[] = {"train.lr", "train.steps", "data.train", NULL};
    assert_string_equal(ax_nearest("train.stps", list), "train.steps");
    assert_string_equal(ax_nearest("train.lrr", list), "train.lr");
    assert_null(ax_nearest("zzz", list));
    assert_null(ax_nearest("", list));
}

static void strings_grow(void **state)
{
    (void)state;
    ax_text t = {0};
    for (int i = 0; i < 1000; i++)
        ax_text_add(&t, "%d,", i % 10);
    assert_int_equal(t.length, 2000);
    assert_int_equal(strlen(t.text), 2000);
    assert_false(t.failed);
    ax_text_fini(&t);
    assert_null(t.text);
}

static void what_could_drive_a_terminal_is_made_visible(void **state)
{
    (void)state;
    static const struct {
        const char *text, *seen;
    } cases[] = {
        {"plain\ttext\n", "plain\ttext\n"},
        {"\x1b[2J\a\x7f\r", "\\x1B[2J\\x07\\x7F\\x0D"},
        {"\xc2\x9b"
         "31m \xc2\xa9 \xc3\x9b \xe2\x82\x9b",
         "\\xC2\\x9B31m \xc2\xa9 \xc3\x9b \xe2\x82\x9b"},
        {"\x9b \x85 \xff \xc2", "\\x9B \\x85 \xff \xc2"},
        {"\xf0\x9f\x98\x80 \xf0\x9f", "\xf0\x9f\x98\x80 \xf0\\x9F"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ax_text t = {0};
        ax_text_add_visible(&t, cases[i].text, strlen(cases[i].text));
        assert_string_equal(t.text, cases[i].seen);
        ax_text_fini(&t);
    }
}

static void json_strings_are_escaped_and_valid(void **state)
{
    (void)state;
    ax_text t = {0};
    ax_text_add_json(&t, "a\"\\\n\x01\x7f \xc3\xa9 \xff \xed\xa0\x80 \xe2\x82");
    assert_string_equal(t.text, "\"a\\\"\\\\\\n\\u0001\\u007f \xc3\xa9 \\ufffd "
                                "\\ufffd\\ufffd\\ufffd \\ufffd\\ufffd\"");
    ax_text_fini(&t);
    // What YAML would take for the end of a line, or refuse.
    ax_text_add_json(&t, "\xc2\x85|\xc2\x9f|\xe2\x80\xa8\xe2\x80\xa9|\xef\xbb\xbf|\xef\xbf\xbf");
    assert_string_equal(t.text, "\"\\u0085|\\u009f|\\u2028\\u2029|\\ufeff|\\uffff\"");
    ax_text_fini(&t);
    ax_text_add_json(&t, "\xc2\xa0\xe2\x80\xa7\xef\xbf\xbd\xf0\x9f\xbf\xbe"); // their neighbours
    assert_string_equal(t.text, "\"\xc2\xa0\xe2\x80\xa7\xef\xbf\xbd\xf0\x9f\xbf\xbe\"");
    ax_text_fini(&t);
}

static void adding_a_table_writes_its_defaults(void **state)
{
    (void)state;
    assert_true(s.steps == 100 && s.lr == 3e-4 && s.mode == 1 && !s.flag);
    assert_string_equal(s.out, "");
    assert_string_equal(s.list, "a,b");
    assert_false(ax_options_is_set(&o, "train.steps"));
    assert_string_equal(ax_options_find(&o, "train.lr")->help, "rate");
    assert_null(ax_options_find(&o, "train.l"));
}

static void values_are_set_and_read_back(void **state)
{
    (void)state;
    static const char *const pairs[][3] = {
        {"train.steps", "2k", "2000"},    {"train.lr", "0.1", "0.1"},
        {"train.out", "a b", "a b"},      {"train.mode", "fp32", "fp32"},
        {"train.flag", "on", "on"},       {"train.list", "x", "x"},
        {"train.steps", "3M", "3000000"}, {"train.lr", "1e-30", "1e-30"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char text[64];
        assert_int_equal(ax_options_set(&o, pairs[i][0], pairs[i][1], "command line"), AX_OK);
        assert_true(ax_options_is_set(&o, pairs[i][0]));
        assert_int_equal(ax_options_get(&o, pairs[i][0], text, sizeof text), AX_OK);
        assert_string_equal(text, pairs[i][2]);
    }
    assert_true(s.steps == 3000000 && s.lr == 1e-30 && s.mode == 0 && s.flag);
}

static void an_unknown_key_names_the_nearest(void **state)
{
    (void)state;
    refuses("train.stepps", "1",
            "command line: unknown key 'train.stepps'; the nearest known key is 'train.steps'");
    refuses("steps", "1",
            "command line: unknown key 'steps'; the nearest known key is 'train.steps'");
    refuses("qqqqqqq", "1", "command line: unknown key 'qqqqqqq'; `axonn help keys` lists all");
}

static void a_bad_value_names_key_kind_and_range(void **state)
{
    (void)state;
    refuses("train.steps", "0", "command line: train.steps=0: the value must be an integer in 1..");
    refuses("train.steps", "1.5",
            "command line: train.steps=1.5: the value must be an integer in 1..");
    refuses("train.lr", "2", "command line: train.lr=2: the value must be a number in 0..1");
    refuses("train.mode", "fp64",
            "command line: train.mode=fp64: the value must be one of fp32|bf16");
    refuses("train.mode", "fp", "command line: train.mode=fp: the value must be one of fp32|bf16");
    refuses("train.flag", "yes", "command line: train.flag=yes: the value must be on or off");
    refuses("train.steps", "9300000000000000k",
            "command line: train.steps=9300000000000000k: the value must be an integer in 1..");
    assert_true(s.steps == 100 && s.lr == 3e-4);
    assert_false(ax_options_is_set(&o, "train.steps"));
}

static void a_key_set_twice_in_one_file_is_refused(void **state)
{
    (void)state;
    assert_int_equal(ax_options_set(&o, "train.steps", "5", "a.yaml:3"), AX_OK);
    assert_int_equal(ax_options_set(&o, "train.steps", "6", "a.yaml:12:4"), AX_EUSAGE);
    assert_string_equal(ax_error_text(),
                        "a.yaml:12:4: train.steps is set twice, first at a.yaml:3; keep one");
    assert_int_equal(ax_options_set(&o, "train.steps", "7", "b.yaml:3"), AX_OK);
    assert_int_equal(s.steps, 7);
}

static void the_command_line_wins_in_either_order(void **state)
{
    (void)state;
    ax_options_set(&o, "train.steps", "5", "a.yaml:3");
    ax_options_set(&o, "train.steps", "6", "command line");
    assert_int_equal(s.steps, 6);
    assert_int_equal(ax_options_set(&o, "train.steps", "7", "b.yaml:1"), AX_OK);
    assert_int_equal(s.steps, 6);
    assert_int_equal(ax_options_set(&o, "train.steps", "bad", "b.yaml:2"), AX_EUSAGE);
    ax_options_set(&o, "train.steps", "8", "command line");
    assert_int_equal(s.steps, 8);
}

static void a_key_may_stand_in_one_table_only(void **state)
{
    (void)state;
    sample other;
    assert_int_equal(ax_options_add(&o, table, &other), AX_EINTERNAL);
}

static void a_buffer_that_is_too_small_is_still_terminated(void **state)
{
    (void)state;
    char text[3];
    assert_int_equal(ax_options_get(&o, "train.mode", text, sizeof text), AX_EINTERNAL);
    assert_string_equal(text, "bf");
}

#define WITH_TABLE(test) cmocka_unit_test_setup_teardown(test, open_table, close_table)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_strict),
        cmocka_unit_test(reals_are_strict_and_finite),
        cmocka_unit_test(the_nearest_word_is_found_only_when_it_is_near),
        cmocka_unit_test(strings_grow),
        cmocka_unit_test(what_could_drive_a_terminal_is_made_visible),
        cmocka_unit_test(json_strings_are_escaped_and_valid),
        WITH_TABLE(adding_a_table_writes_its_defaults),
        WITH_TABLE(values_are_set_and_read_back),
        WITH_TABLE(an_unknown_key_names_the_nearest),
        WITH_TABLE(a_bad_value_names_key_kind_and_range),
        WITH_TABLE(a_key_set_twice_in_one_file_is_refused),
        WITH_TABLE(the_command_line_wins_in_either_order),
        WITH_TABLE(a_key_may_stand_in_one_table_only),
        WITH_TABLE(a_buffer_that_is_too_small_is_still_terminated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "base/log.h"
#include "train/key_readers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/axonn-test-config-XXXXXX";
static ax_run_config c;

static int enter_folder(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    return !mkdtemp(folder) || chdir(folder);
}

static int leave_folder(void **state)
{
    (void)state;
    remove("a.yaml");
    remove("b.yaml");
    return chdir("/") || rmdir(folder);
}

static int close_config(void **state)
{
    (void)state;
    ax_config_fini(&c);
    return 0;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

// Loads the NULL-terminated arguments.
static ax_status load(int words, char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    return ax_config_load(argc, argv, words, &c);
}
#define LOAD(...) load(0, (char *[]){__VA_ARGS__, NULL})

static void refuses(ax_status st, char **argv, const char *message)
{
    assert_int_equal(load(0, argv), st);
    assert_string_equal(ax_error_text(), message);
}
#define REFUSES(st, message, ...) refuses(st, (char *[]){__VA_ARGS__, NULL}, message)

// A file with this text is refused with this message.
static void refuses_yaml(const char *text, const char *message)
{
    write_file("a.yaml", text);
    ax_status st = LOAD("--config", "a.yaml");
    assert_int_equal(st, AX_EUSAGE);
    assert_string_equal(ax_error_text(), message);
}

static void without_arguments_all_is_default(void **state)
{
    (void)state;
    assert_int_equal(load(0, (char *[]){NULL}), AX_OK);
    assert_true(c.train.steps == 100 && c.train.lr == 3e-4 && c.train.min_lr == 3e-5);
    assert_true(c.train.precision == AX_CONFIG_AUTO_PRECISION && c.train.clip == 1);
    assert_true(c.train.schedule == AX_CONFIG_COSINE && c.train.nonfinite == AX_CONFIG_STOP);
    assert_true(c.arch.kind == AX_LLAMA && c.data.valid_fraction == 0.05 && c.data.seed == 1);
    assert_true(c.generate.tokens == 200 && c.ranks == 0 && !c.json && !c.file);
    assert_string_equal(c.grid, "auto");
    assert_string_equal(c.init, "random");
    bool lazy = true;
    assert_string_equal(ax_config_device(&c, &lazy), "cpu");
    assert_false(lazy);
}

static void the_three_spellings_of_a_setting_are_the_same(void **state)
{
    (void)state;
    assert_int_equal(LOAD("train.steps=7", "--train.lr", "1e-3", "--train.seed=9", "--ranks", "4",
                          "--grid", "x=2,y=2", "device=ref-lazy", "--json", "-q"),
                     AX_OK);
    assert_true(c.train.steps == 7 && c.train.lr == 1e-3 && c.train.seed == 9 && c.ranks == 4);
    assert_string_equal(c.grid, "x=2,y=2");
    assert_true(c.json && c.verbosity == -1);
    bool lazy;
    assert_string_equal(ax_config_device(&c, &lazy), "ref");
    assert_true(lazy);
}

static void yaml_nests_lists_and_dots(void **state)
{
    (void)state;
    write_file("a.yaml", "# a run\nmodel: {layers: 3, hidden: 32}\ntrain:\n  steps: 2k\n"
                         "  keep_gathered: on\n  overlap: [oag, ors]\ndata.train:\n  - a.txt\n"
                         "  - 'b c.txt'\ndata.valid: \"\"\ngrid: x=1\n");
    assert_int_equal(LOAD("--config", "a.yaml"), AX_OK);
    assert_true(c.arch.layers == 3 && c.arch.hidden == 32 && c.train.steps == 2000);
    assert_true(c.train.keep_gathered);
    assert_string_equal(c.data.train, "a.txt,b c.txt");
    assert_string_equal(c.data.valid, "");
    assert_true(ax_config_overlaps(&c.train, "oag") && ax_config_overlaps(&c.train, "ors"));
    assert_false(ax_config_overlaps(&c.train, "oar"));
    assert_true(ax_options_is_set(&c.options, "data.valid"));
    assert_string_equal(c.file, "a.yaml");
}

static void defaults_preset_file_and_line_stand_in_this_order(void **state)
{
    (void)state;
    write_file("a.yaml", "model:\n  heads: 8\n  layers: 5\n  preset: tiny\ntrain.steps: 3\n");
    assert_int_equal(LOAD("model.layers=6", "--config=a.yaml", "train.steps=4"), AX_OK);
    assert_true(c.arch.hidden == 64); // preset
    assert_true(c.arch.heads == 8);   // file, though it stands before the preset
    assert_true(c.arch.layers == 6);  // line
    assert_true(c.train.steps == 4);
    ax_config_fini(&c);
    assert_int_equal(LOAD("--config", "a.yaml", "model.preset=gpt2-124m"), AX_OK);
    assert_true(c.arch.kind == AX_GPT && c.arch.hidden == 768 && c.arch.layers == 5);
}

static void of_several_settings_on_the_line_the_last_counts(void **state)
{
    (void)state;
    assert_int_equal(LOAD("train.steps=1", "train.steps=2"), AX_OK);
    assert_int_equal(c.train.steps, 2);
}

static void free_words_are_kept_up_to_the_number_allowed(void **state)
{
    (void)state;
    char *argv[] = {"In the beginning", "generate.tokens=5", "--", "x=1", NULL};
    assert_int_equal(load(2, argv), AX_OK);
    assert_int_equal(c.words, 2);
    assert_string_equal(c.word[0], "In the beginning");
    assert_string_equal(c.word[1], "x=1");
    assert_int_equal(c.generate.tokens, 5);
    ax_config_fini(&c);
    REFUSES(AX_EUSAGE, "command line: unexpected argument 'lr'; settings are written key=value",
            "lr");
}

static void help_ends_the_reading(void **state)
{
    (void)state;
    assert_int_equal(LOAD("--help", "nonsense"), AX_OK);
    assert_true(c.help);
}

static void a_bad_command_line_gets_one_clear_message(void **state)
{
    (void)state;
    REFUSES(AX_EUSAGE,
            "command line: unknown key 'train.stepps'; the nearest known key is 'train.steps'",
            "train.stepps=3");
    REFUSES(AX_EUSAGE, "command line: unknown key 'jsom'; `axonn help keys` lists all", "--jsom");
    REFUSES(AX_EUSAGE, "command line: --train.lr needs a value", "--train.lr");
    REFUSES(AX_EUSAGE, "command line: --config needs a file", "--config");
    REFUSES(AX_EUSAGE, "command line: --config a.yaml and --config b.yaml; give one", "--config",
            "a.yaml", "--config", "b.yaml");
    REFUSES(AX_EUSAGE,
            "command line: unknown switch '-x'; there are -q, -v, -h, --json, --config FILE and "
            "--KEY VALUE",
            "-x");
    REFUSES(AX_EUSAGE, "nowhere.yaml: No such file or directory", "--config", "nowhere.yaml");
    REFUSES(AX_EUSAGE, ".: Is a directory", "--config", ".");
    REFUSES(AX_EUSAGE, "train.min_lr=0.1 is above train.lr=0.01", "train.lr=0.01",
            "train.min_lr=0.1");
    REFUSES(AX_EUSAGE, "train.micro_batch=9 is above train.batch=8", "train.micro_batch=9");
    REFUSES(AX_EUSAGE,
            "train.overlap=oag,all: 'all' is none of on, off, oag, rag, oar, ors, data, update",
            "train.overlap=oag,all");
    REFUSES(AX_EUSAGE, "model.preset=tinny: no such preset; the nearest is 'tiny'",
            "model.preset=tinny");
}

static void a_learning_rate_below_the_floor_lowers_it(void **state)
{
    (void)state;
    assert_int_equal(LOAD("train.lr=1e-5"), AX_OK);
    assert_true(c.train.min_lr == 1e-5);
}

static void a_bad_file_names_the_place(void **state)
{
    (void)state;
    refuses_yaml("train:\n  lr: 1\n  lr: 2\n",
                 "a.yaml:3: train.lr is set twice, first at a.yaml:2; keep one");
    refuses_yaml("train.lr: 1\ntrain: {lr: 2}\n",
                 "a.yaml:2: train.lr is set twice, first at a.yaml:1; keep one");
    refuses_yaml("\ntrian:\n  steps: 4\n",
                 "a.yaml:3: unknown key 'trian.steps'; the nearest known key is 'train.steps'");
    refuses_yaml("train:\n  steps: many\n",
                 "a.yaml:2: train.steps=many: the value must be an integer in 1..");
    refuses_yaml("train:\n  steps:\n", "a.yaml:2:3: train.steps has no value");
    refuses_yaml("train:\n  steps: ~\n", "a.yaml:2:3: train.steps has no value");
    refuses_yaml("train:\n", "a.yaml:1:1: train has no value");
    refuses_yaml("train: &t {steps: 4}\n",
                 "a.yaml:1:8: anchors and aliases are not supported; write the value out");
    refuses_yaml("train: *t\n",
                 "a.yaml:1:8: anchors and aliases are not supported; write the value out");
    refuses_yaml("- 1\n", "a.yaml:1:1: the file must hold keys with values (`train.steps: 100`)");
    refuses_yaml("hello\n", "a.yaml:1:1: the file must hold keys with values (`train.steps: 100`)");
    refuses_yaml("grid: x=1\n---\ngrid: x=2\n", "a.yaml:2:1: a second document; a run has one");
    refuses_yaml("data.train: [[a]]\n", "a.yaml:1:14: an item of a list must be a plain value");
    refuses_yaml("data.train: ['a,b']\n",
                 "a.yaml:1:14: an item of a list may not contain a comma or a zero byte");
    refuses_yaml("? [a]\n: 1\n", "a.yaml:1:3: a key must be a plain word");
    refuses_yaml("grid: \"a\\0b\"\n", "a.yaml:1:7: a zero byte in a value");
}

static void bytes_that_are_no_yaml_name_line_and_column(void **state)
{
    (void)state;
    write_file("a.yaml", "train:\n  lr: [1, 2\nx: 1\n");
    assert_int_equal(LOAD("--config", "a.yaml"), AX_EUSAGE);
    assert_ptr_equal(strstr(ax_error_text(), "a.yaml:3:"), ax_error_text());
    write_file("a.yaml", "grid: x=1\nout: \xff\n");
    assert_int_equal(LOAD("--config", "a.yaml"), AX_EUSAGE);
    assert_ptr_equal(strstr(ax_error_text(), "a.yaml:2:6: not valid YAML"), ax_error_text());
    write_file("a.yaml", "grid:\tx: 1\n\t- 2\n");
    assert_int_equal(LOAD("--config", "a.yaml"), AX_EUSAGE);
}

static void an_empty_file_sets_nothing(void **state)
{
    (void)state;
    write_file("a.yaml", "# nothing\n");
    assert_int_equal(LOAD("--config", "a.yaml"), AX_OK);
    assert_int_equal(c.train.steps, 100);
}

static void deep_nesting_is_refused_not_followed(void **state)
{
    (void)state;
    ax_text t = {0};
    for (int i = 0; i < 400; i++)
        ax_text_add(&t, "{a: ");
    write_file("a.yaml", t.text);
    ax_text_fini(&t);
    assert_int_equal(LOAD("--config", "a.yaml"), AX_EUSAGE);
    assert_non_null(strstr(ax_error_text(), "the key is too long"));
}

static void what_is_printed_loads_as_the_same(void **state)
{
    (void)state;
    assert_int_equal(LOAD("model.preset=tiny", "train.lr=0.1", "train.clip=0", "grid=x=2",
                          "generate.prompt=a \"b\"\n# c: \xc3\xa9", "data.train=a,b"),
                     AX_OK);
    ax_text first = {0}, second = {0};
    assert_int_equal(ax_config_print(&c, &first), AX_OK);
    ax_config_fini(&c);
    write_file("b.yaml", first.text);
    assert_int_equal(LOAD("--config", "b.yaml"), AX_OK);
    assert_string_equal(c.generate.prompt, "a \"b\"\n# c: \xc3\xa9");
    assert_int_equal(ax_config_print(&c, &second), AX_OK);
    assert_string_equal(first.text, second.text);
    assert_non_null(strstr(first.text, "\ntrain:\n  steps: 100\n"));
    ax_text_fini(&first);
    ax_text_fini(&second);
}

static void any_character_of_a_value_survives_printing(void **state)
{
    (void)state;
    ax_text key = {0}, text = {0};
    ax_text_add(&key, "generate.prompt=");
    for (unsigned code = 1; code < 0x10000; code++) {
        if (code >= 0xD800 && code < 0xE000)
            continue;
        if (code < 0x80)
            ax_text_add(&key, "%c", (int)code);
        else if (code < 0x800)
            ax_text_add(&key, "%c%c", (int)(0xC0 | code >> 6), (int)(0x80 | (code & 63)));
        else
            ax_text_add(&key, "%c%c%c", (int)(0xE0 | code >> 12), (int)(0x80 | (code >> 6 & 63)),
                        (int)(0x80 | (code & 63)));
    }
    ax_text_add(&key, "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
    assert_int_equal(LOAD(key.text), AX_OK);
    assert_int_equal(ax_config_print(&c, &text), AX_OK);
    ax_config_fini(&c);
    write_file("b.yaml", text.text);
    assert_int_equal(LOAD("--config", "b.yaml"), AX_OK);
    assert_string_equal(c.generate.prompt, strchr(key.text, '=') + 1);
    ax_text_fini(&key);
    ax_text_fini(&text);
}

static void help_and_the_options_page_name_every_key(void **state)
{
    (void)state;
    ax_text help = {0}, part = {0}, page = {0};
    assert_int_equal(ax_config_help(NULL, &help), AX_OK);
    assert_int_equal(ax_config_help("data", &part), AX_OK);
    assert_int_equal(ax_config_options_md(&page), AX_OK);
    assert_int_equal(load(0, (char *[]){NULL}), AX_OK);
    for (int p = 0; p < c.options.parts; p++)
        for (const ax_option *o = c.options.part[p].table; o->key; o++) {
            char cell[128];
            snprintf(cell, sizeof cell, "| `%s` |", o->key);
            assert_non_null(strstr(page.text, cell));
            assert_non_null(strstr(help.text, o->key));
            assert_non_null(o->help);
        }
    assert_non_null(strstr(part.text, "data.seed=1"));
    assert_null(strstr(part.text, "train.steps"));
    ax_text_fini(&help);
    ax_text_fini(&part);
    ax_text_fini(&page);
}

#define TEST(name) cmocka_unit_test_teardown(name, close_config)

static void epochs_stand_in_for_steps_and_round_them_up(void **state)
{
    (void)state;
    assert_int_equal(LOAD("train.epochs=0.3", "train.batch=4", "train.warmup=20"), AX_OK);
    assert_int_equal(ax_config_resolve_epochs(&c, 1000), AX_OK); // 300 samples, 75 steps
    assert_true(c.train.steps == 75 && c.train.epochs == 0);
    ax_config_fini(&c);
    assert_int_equal(LOAD("train.epochs=3", "train.batch=7"), AX_OK);
    assert_int_equal(ax_config_resolve_epochs(&c, 100), AX_OK); // 300 samples, 42.9 steps
    assert_int_equal(c.train.steps, 43);
    assert_int_equal(ax_config_resolve_epochs(&c, 1), AX_OK); // nothing left to resolve
    assert_int_equal(c.train.steps, 43);
    ax_config_fini(&c);
    assert_int_equal(LOAD("train.epochs=1e-9"), AX_OK);
    assert_int_equal(ax_config_resolve_epochs(&c, 100), AX_OK);
    assert_int_equal(c.train.steps, 1);
    ax_config_fini(&c);
    assert_int_equal(LOAD("train.epochs=2", "train.warmup=9", "train.batch=10"), AX_OK);
    assert_int_equal(ax_config_resolve_epochs(&c, 20), AX_EUSAGE);
    assert_string_equal(ax_error_text(), "train.warmup=9 is above train.steps=4: the peak would "
                                         "never be reached");
    ax_config_fini(&c);
    assert_int_equal(LOAD("train.epochs=1e300"), AX_OK);
    assert_int_equal(ax_config_resolve_epochs(&c, 20), AX_EUSAGE);
    ax_config_fini(&c);
    assert_int_equal(LOAD("train.epochs=2", "train.steps=9"), AX_EUSAGE);
    assert_string_equal(ax_error_text(), "train.epochs=2 and train.steps=9: give one");
    assert_int_equal(LOAD("train.epochs=0", "train.steps=9"), AX_OK);
    assert_int_equal(c.train.steps, 9);
}

static void a_verb_refuses_what_it_does_not_read_on_the_line_alone(void **state)
{
    static const struct {
        const char *verb;
        char *argument;
        bool read;
    } cases[] = {
        {"train", "train.steps=3", true},      {"train", "generate.tokens=3", false},
        {"eval", "train.batch=3", true},       {"eval", "train.steps=3", false},
        {"eval", "data.seed=3", false},        {"eval", "data.valid=a", true},
        {"generate", "data.valid=a", false},   {"generate", "train.threads=1", true},
        {"data", "train.batch=3", true},       {"data", "device=ref", false},
        {"convert", "model.init=a", false},    {"convert", "model.seq=3", true},
        {"prepare", "prepare.out=a", true},    {"prepare", "data.seed=3", false},
        {"selftest", "train.clip=3", true},    {"selftest", "train.lr=3", false},
        {"checkpoint", "train.keep=3", false}, {"info", "device=ref", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(LOAD(cases[i].argument), AX_OK);
        ax_status st = ax_config_check_readers(&c, cases[i].verb);
        if (st != (cases[i].read ? AX_OK : AX_EUSAGE))
            fail_msg("%s %s", cases[i].verb, cases[i].argument);
        ax_config_fini(&c);
    }
    assert_non_null(strstr(ax_error_text(), "checkpoint does not read train.keep"));
    write_file("a.yaml", "train: {keep: 3}\n");
    assert_int_equal(LOAD("--config", "a.yaml"), AX_OK);
    assert_int_equal(ax_config_check_readers(&c, "checkpoint"), AX_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_arguments_all_is_default),
        TEST(the_three_spellings_of_a_setting_are_the_same),
        TEST(yaml_nests_lists_and_dots),
        TEST(defaults_preset_file_and_line_stand_in_this_order),
        TEST(of_several_settings_on_the_line_the_last_counts),
        TEST(free_words_are_kept_up_to_the_number_allowed),
        TEST(help_ends_the_reading),
        TEST(a_bad_command_line_gets_one_clear_message),
        TEST(a_learning_rate_below_the_floor_lowers_it),
        TEST(a_bad_file_names_the_place),
        TEST(a_verb_refuses_what_it_does_not_read_on_the_line_alone),
        TEST(bytes_that_are_no_yaml_name_line_and_column),
        TEST(an_empty_file_sets_nothing),
        TEST(deep_nesting_is_refused_not_followed),
        TEST(what_is_printed_loads_as_the_same),
        TEST(any_character_of_a_value_survives_printing),
        TEST(help_and_the_options_page_name_every_key),
        cmocka_unit_test_teardown(epochs_stand_in_for_steps_and_round_them_up, close_config),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}

#include "base/log.h"
#include "data/loader.h"
#include "data/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ax_tokenizer *tokenizer;
static char folder[] = "/tmp/axonn-test-loader-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    return !mkdtemp(folder) || chdir(folder) || ax_tokenizer_open("byte", &tokenizer) != AX_OK;
}

static int leave_folder(void **state)
{
    (void)state;
    ax_tokenizer_close(tokenizer);
    remove("a.txt");
    remove("b.txt");
    remove("a.jsonl");
    return chdir("/") || rmdir(folder);
}

static void write_bytes(const char *path, const void *bytes, size_t length)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

static void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static ax_data_options options(const char *train)
{
    return (ax_data_options){.train = train,
                             .valid = "",
                             .tokenizer = "byte",
                             .text_key = "text",
                             .prompt_key = "prompt",
                             .completion_key = "completion",
                             .eod = true,
                             .seed = 1};
}

static ax_corpus *open_rows(const ax_data_options *o, int64_t seq)
{
    ax_corpus *c = NULL;
    const ax_corpus_use use = {.seq = seq, .vocab = 257};
    assert_int_equal(ax_corpus_open(o, tokenizer, &use, &c), AX_OK);
    return c;
}

static ax_corpus *open_corpus(const ax_data_options *o)
{
    return open_rows(o, 4);
}

static ax_corpus *open_files(const char *train)
{
    ax_data_options o = options(train);
    return open_corpus(&o);
}

static void refuses(const ax_data_options *o, ax_status st, const char *message)
{
    ax_corpus *c = NULL;
    const ax_corpus_use use = {.seq = 4, .vocab = 257};
    assert_int_equal(ax_corpus_open(o, tokenizer, &use, &c), st);
    assert_string_equal(ax_error_text(), message);
    assert_null(c);
}

// The tokens of the first source: the training split holds those from the front, the held-out one
// those to the end.
static int32_t token_of(const ax_corpus *c, ax_split split, int64_t i)
{
    int32_t id;
    const ax_source *source = ax_corpus_source(c, split, 0);
    int64_t first = split == AX_TRAIN ? 0 : ax_source_tokens(source) - ax_corpus_tokens(c, split);
    assert_int_equal(ax_source_read(source, first + i, 1, &id), AX_OK);
    return id;
}

// The ids of a split as text, '|' for the end of a document.
static void expect_ids(const ax_corpus *c, ax_split split, const char *text)
{
    int64_t count = ax_corpus_tokens(c, split);
    assert_int_equal(count, strlen(text));
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(token_of(c, split, i), text[i] == '|' ? 256 : (unsigned char)text[i]);
}

static int64_t documents(const ax_corpus *c)
{
    return ax_source_documents(ax_corpus_source(c, AX_TRAIN, 0));
}

static void every_text_file_is_one_document(void **state)
{
    (void)state;
    write_text("a.txt", "one\r\ntwo");
    write_text("b.txt", "three");
    ax_corpus *c = open_files("a.txt,b.txt");
    expect_ids(c, AX_TRAIN, "one\r\ntwo|three|");
    expect_ids(c, AX_VALID, "");
    assert_int_equal(documents(c), 2);
    assert_int_equal(ax_corpus_held_out_bytes(c), 0);
    ax_corpus_close(c);
    ax_corpus_close(NULL);
}

static void text_files_are_read_as_bytes(void **state)
{
    (void)state;
    write_bytes("a.txt", "\xff\x00\xfe", 3);
    ax_corpus *c = open_files("a.txt");
    static const int32_t want[] = {255, 0, 254, 256};
    assert_int_equal(ax_corpus_tokens(c, AX_TRAIN), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(token_of(c, AX_TRAIN, i), want[i]);
    ax_corpus_close(c);
}

static void a_large_file_is_read_whole(void **state)
{
    (void)state;
    enum { SIZE = 3 << 20 };
    char *text = malloc(SIZE);
    assert_non_null(text);
    memset(text, 'x', SIZE);
    write_bytes("a.txt", text, SIZE);
    free(text);
    ax_corpus *c = open_files("a.txt");
    assert_int_equal(ax_corpus_tokens(c, AX_TRAIN), SIZE + 1);
    ax_corpus_close(c);
}

static void jsonl_takes_crlf_marks_empty_lines_and_no_last_newline(void **state)
{
    (void)state;
    write_text("a.jsonl", "\xef\xbb\xbf{\"text\":\"a\\u0000\"}\r\n\r\n  \n{\"text\": \"\"}\n"
                          "{\"id\":1,\"text\":\"\\u00e9\"}");
    ax_corpus *c = open_files("a.jsonl");
    static const int32_t want[] = {'a', 0, 256, 0xc3, 0xa9, 256};
    assert_int_equal(ax_corpus_tokens(c, AX_TRAIN), 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(token_of(c, AX_TRAIN, i), want[i]);
    assert_int_equal(documents(c), 2);
    ax_source_place place = ax_source_locate(ax_corpus_source(c, AX_TRAIN, 0), 1);
    assert_string_equal(place.path, "a.jsonl");
    assert_true(place.line == 5 && place.index == 1);
    ax_corpus_close(c);
}

static void a_text_key_of_ones_own_is_used(void **state)
{
    (void)state;
    write_text("a.jsonl", "{\"text\":\"no\",\"body\":\"yes\"}\n");
    ax_data_options o = options("a.jsonl");
    o.text_key = "body";
    ax_corpus *c = open_corpus(&o);
    expect_ids(c, AX_TRAIN, "yes|");
    ax_corpus_close(c);
}

static void bad_jsonl_names_file_line_and_byte(void **state)
{
    (void)state;
    ax_data_options o = options("a.jsonl");
    write_text("a.jsonl", "{\"text\":\"a\"}\n{\"txt\":1}\n");
    refuses(&o, AX_EFORMAT,
            "a.jsonl:2: byte 0: the object has no key 'text'; data.text_key names it");
    write_text("a.jsonl", "{\"text\":1}\n");
    refuses(&o, AX_EFORMAT,
            "a.jsonl:1: byte 0: not a string: the value of 'text'; data.text_key names it");
    write_text("a.jsonl", "\n[1]\n");
    refuses(&o, AX_EFORMAT, "a.jsonl:2: byte 0: not a JSON object");
    write_text("a.jsonl", "{\"text\":\"ab\xff\"}\n");
    refuses(&o, AX_EFORMAT, "a.jsonl:1: byte 11: not valid UTF-8");
    write_text("a.jsonl", "{\"text\":\"ab\"");
    ax_corpus *c;
    const ax_corpus_use use = {.seq = 4, .vocab = 257};
    assert_int_equal(ax_corpus_open(&o, tokenizer, &use, &c), AX_EFORMAT);
    assert_non_null(strstr(ax_error_text(), "a.jsonl:1: byte 12: "));
}

static void missing_files_and_empty_lists_are_refused(void **state)
{
    (void)state;
    ax_data_options o = options("");
    refuses(&o, AX_EUSAGE, "data.train is not set: name a text, a JSONL or a token file");
    o.train = "nowhere.txt";
    refuses(&o, AX_EUSAGE, "nowhere.txt: No such file or directory");
    o.train = ".";
    refuses(&o, AX_EIO, ".: Is a directory");
    write_text("a.txt", "a");
    o.train = "a.txt,";
    refuses(&o, AX_EUSAGE, "data.train=a.txt,: an empty file name in the list");
}

static void the_tail_is_held_out_at_the_rounded_border(void **state)
{
    (void)state;
    write_text("a.txt", "0123456789");
    ax_data_options o = options("a.txt");
    o.valid_fraction = 0.25; // 11 ids: round(8.25)
    ax_corpus *c = open_corpus(&o);
    expect_ids(c, AX_TRAIN, "01234567");
    expect_ids(c, AX_VALID, "89|");
    assert_int_equal(ax_corpus_held_out_bytes(c), 2);
    ax_corpus_close(c);
}

static void files_of_their_own_are_held_out_instead(void **state)
{
    (void)state;
    write_text("a.txt", "train");
    write_text("b.txt", "valid");
    ax_data_options o = options("a.txt");
    o.valid = "b.txt";
    o.valid_fraction = 0.5;
    ax_corpus *c = open_corpus(&o);
    expect_ids(c, AX_TRAIN, "train|");
    expect_ids(c, AX_VALID, "valid|");
    ax_corpus_close(c);
}

static void empty_files_give_an_empty_corpus(void **state)
{
    (void)state;
    write_text("a.txt", "");
    ax_corpus *c = open_files("a.txt");
    expect_ids(c, AX_TRAIN, "");
    ax_loader l;
    assert_int_equal(ax_loader_init(&l, c, 1, 1), AX_EUSAGE);
    assert_int_equal(ax_corpus_windows(c, AX_TRAIN), 0);
    ax_corpus_close(c);
}

static void data_below_one_step_is_refused_with_the_three_numbers(void **state)
{
    (void)state;
    write_text("a.txt", "0123456789"); // 11 ids
    ax_data_options o = options("a.txt");
    ax_corpus *c = open_rows(&o, 5);
    ax_loader l;
    assert_int_equal(ax_loader_init(&l, c, 3, 1), AX_EUSAGE);
    assert_string_equal(ax_error_text(),
                        "the training data holds 2 samples, a step needs 3 (train.batch), a sample "
                        "needs 6 tokens (model.seq + 1): 11 tokens are too few; add data, or lower "
                        "one of the two");
    assert_int_equal(ax_loader_init(&l, c, 2, 1), AX_OK);
    assert_int_equal(l.samples, 2);
    ax_corpus_close(c);
}

static void write_alphabet(int letters)
{
    char text[256];
    for (int i = 0; i < letters; i++)
        text[i] = (char)('!' + i % 90);
    write_bytes("a.txt", text, (size_t)letters);
}

static void every_sample_comes_exactly_once_an_epoch(void **state)
{
    (void)state;
    write_alphabet(71); // 72 ids: 17 samples of 4 (and 3 ids left over)
    ax_corpus *c = open_files("a.txt");
    ax_loader l;
    assert_int_equal(ax_loader_init(&l, c, 3, 1), AX_OK);
    assert_int_equal(l.samples, 17);
    int64_t order[3][17];
    for (int64_t g = 0; g < 3 * 17; g++)
        order[g / 17][g % 17] = ax_loader_sample_id(&l, g / 3 + 1, g % 3);
    for (int epoch = 0; epoch < 3; epoch++) {
        char seen[17] = {0};
        for (int i = 0; i < 17; i++) {
            assert_in_range(order[epoch][i], 0, 16);
            assert_int_equal(seen[order[epoch][i]]++, 0);
        }
    }
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    assert_memory_not_equal(order[1], order[2], sizeof order[0]);
    ax_corpus_close(c);
}

static void a_row_is_its_sample_and_targets_are_one_to_the_right(void **state)
{
    (void)state;
    write_alphabet(41);
    ax_corpus *c = open_files("a.txt");
    ax_loader l;
    assert_int_equal(ax_loader_init(&l, c, 2, 1), AX_OK);
    for (int64_t step = 1; step < 9; step++) {
        int32_t inputs[4], targets[4], positions[4];
        const ax_row row = {inputs, targets, positions};
        assert_int_equal(ax_loader_row(&l, step, 1, &row), AX_OK);
        int64_t id = ax_loader_sample_id(&l, step, 1);
        ax_sample sample = ax_loader_sample(&l, step, 1);
        assert_true(sample.source == 0 && sample.sample == id);
        assert_true(sample.begin == 4 * id && sample.end == 4 * id + 5);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(inputs[k], token_of(c, AX_TRAIN, 4 * id + k));
            assert_int_equal(targets[k], token_of(c, AX_TRAIN, 4 * id + k + 1));
            assert_int_equal(positions[k], k);
        }
    }
    ax_corpus_close(c);
}

static void batches_depend_on_seed_and_step_alone(void **state)
{
    (void)state;
    write_alphabet(200);
    ax_data_options o = options("a.txt");
    ax_corpus *c = open_rows(&o, 2);
    ax_loader a, b, other, half;
    assert_int_equal(ax_loader_init(&a, c, 4, 1), AX_OK);
    assert_int_equal(ax_loader_init(&b, c, 4, 1), AX_OK);
    assert_int_equal(ax_loader_init(&other, c, 4, 2), AX_OK);
    assert_int_equal(ax_loader_init(&half, c, 2, 1), AX_OK);
    int same = 0;
    for (int64_t g = 0; g < 100; g++) {
        int64_t id = ax_loader_sample_id(&a, g / 4 + 1, g % 4);
        assert_int_equal(id, ax_loader_sample_id(&b, g / 4 + 1, g % 4));
        assert_int_equal(id, ax_loader_sample_id(&half, g / 2 + 1, g % 2));
        same += id == ax_loader_sample_id(&other, g / 4 + 1, g % 4);
    }
    assert_true(same < 10);
    ax_corpus_close(c);
}

static void windows_make_every_id_but_the_first_a_target_once(void **state)
{
    (void)state;
    for (int letters = 1; letters < 14; letters++) {
        write_alphabet(letters);
        ax_corpus *c = open_files("a.txt");
        int64_t count = ax_corpus_tokens(c, AX_TRAIN), next = 1;
        for (int64_t i = 0; i < ax_corpus_windows(c, AX_TRAIN); i++) {
            int32_t inputs[4], targets[4], positions[4];
            const ax_row row = {inputs, targets, positions};
            assert_int_equal(ax_corpus_window(c, AX_TRAIN, i, &row), AX_OK);
            int64_t kept = 0;
            for (; kept < 4 && targets[kept] >= 0; kept++, next++) {
                assert_int_equal(inputs[kept], token_of(c, AX_TRAIN, next - 1));
                assert_int_equal(targets[kept], token_of(c, AX_TRAIN, next));
            }
            assert_in_range(kept, 1, 4);
            for (int64_t j = kept; j < 4; j++)
                assert_true(inputs[j] == 256 && targets[j] == -1);
        }
        assert_int_equal(next, count);
        ax_corpus_close(c);
    }
}

static void a_window_beyond_the_end_keeps_nothing(void **state)
{
    (void)state;
    write_alphabet(4);
    ax_corpus *c = open_files("a.txt");
    int32_t inputs[4], targets[4], positions[4];
    const ax_row row = {inputs, targets, positions};
    assert_int_equal(ax_corpus_window(c, AX_TRAIN, 7, &row), AX_OK);
    assert_true(inputs[0] == 256 && targets[0] == -1);
    ax_corpus_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_file_is_one_document),
        cmocka_unit_test(text_files_are_read_as_bytes),
        cmocka_unit_test(a_large_file_is_read_whole),
        cmocka_unit_test(jsonl_takes_crlf_marks_empty_lines_and_no_last_newline),
        cmocka_unit_test(a_text_key_of_ones_own_is_used),
        cmocka_unit_test(bad_jsonl_names_file_line_and_byte),
        cmocka_unit_test(missing_files_and_empty_lists_are_refused),
        cmocka_unit_test(the_tail_is_held_out_at_the_rounded_border),
        cmocka_unit_test(files_of_their_own_are_held_out_instead),
        cmocka_unit_test(empty_files_give_an_empty_corpus),
        cmocka_unit_test(data_below_one_step_is_refused_with_the_three_numbers),
        cmocka_unit_test(every_sample_comes_exactly_once_an_epoch),
        cmocka_unit_test(a_row_is_its_sample_and_targets_are_one_to_the_right),
        cmocka_unit_test(batches_depend_on_seed_and_step_alone),
        cmocka_unit_test(windows_make_every_id_but_the_first_a_target_once),
        cmocka_unit_test(a_window_beyond_the_end_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}

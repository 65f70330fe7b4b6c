#include "base/log.h"
#include "data/fingerprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ax_tokenizer *tokenizer;
static char folder[] = "/tmp/axonn-test-fingerprint-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    return !mkdtemp(folder) || chdir(folder) || ax_tokenizer_open("byte", &tokenizer) != AX_OK;
}

static int leave_folder(void **state)
{
    static const char *const names[] = {"a.txt", "b.txt", "a.jsonl", "ids"};
    (void)state;
    ax_tokenizer_close(tokenizer);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        remove(names[i]);
    return chdir("/") || rmdir(folder);
}

static const char *write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return path;
}

// Of file `file` of a list.
static uint64_t print_of(const char *files, int file, bool eod)
{
    const ax_source_options o = {.tokenizer = tokenizer,
                                 .text_key = "text",
                                 .prompt_key = "prompt",
                                 .completion_key = "completion",
                                 .eod = eod,
                                 .vocab = 257};
    ax_source *s;
    uint64_t sum = 0;
    assert_int_equal(ax_source_open("data.train", files, &o, &s), AX_OK);
    assert_true(file < ax_source_files(s));
    assert_int_equal(ax_fingerprint_file(s, file, &sum), AX_OK);
    ax_source_close(s);
    return sum;
}

static void a_file_is_known_by_what_it_holds_and_not_by_its_place(void **state)
{
    (void)state;
    uint64_t a = print_of(write_file("a.txt", "to be, or not to be"), 0, true);
    assert_true(print_of(write_file("b.txt", "to be, or not to be"), 0, true) == a);
    write_file("b.txt", "something before it");
    assert_true(print_of("b.txt,a.txt", 1, true) == a);
    assert_true(print_of("b.txt,a.txt", 0, true) != a);
    assert_true(print_of(write_file("a.txt", "to be, or nod to be"), 0, true) != a);
    assert_true(print_of(write_file("a.txt", "to be, or not to be "), 0, true) != a);
}

static void the_same_ids_in_other_documents_are_other_data(void **state)
{
    (void)state;
    write_file("a.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"c\"}\n");
    uint64_t two = print_of("a.jsonl", 0, false);
    write_file("a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"bc\"}\n");
    assert_true(print_of("a.jsonl", 0, false) != two);
    // What is learnt of them counts as well.
    write_file("a.jsonl", "{\"prompt\":\"a\",\"completion\":\"bc\"}\n");
    uint64_t pair = print_of("a.jsonl", 0, false);
    write_file("a.jsonl", "{\"prompt\":\"ab\",\"completion\":\"c\"}\n");
    assert_true(print_of("a.jsonl", 0, false) != pair);
}

static void set_id(int64_t token, uint16_t id)
{
    int fd = open("ids", O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &id, sizeof id, token * 2), sizeof id);
    assert_int_equal(close(fd), 0);
}

static void of_a_large_token_file_first_and_last_blocks_count(void **state)
{
    const int64_t count = INT64_C(9) << 20, block = 1 << 16, gap = (count - block) / 63;
    (void)state;
    set_id(count - 1, 7); // before it a hole, which reads as zeros
    uint64_t whole = print_of("ids:uint16", 0, true);
    const int64_t places[] = {0, block - 1, gap + 1, count - 1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        set_id(places[i], 9);
        assert_true(print_of("ids:uint16", 0, true) != whole);
        set_id(places[i], places[i] == count - 1 ? 7 : 0);
        assert_true(print_of("ids:uint16", 0, true) == whole);
    }
    assert_int_equal(truncate("ids", 2 * (count - 1)), 0);
    assert_true(print_of("ids:uint16", 0, true) != whole);
    // One that is read as a whole has no place that does not count.
    assert_int_equal(truncate("ids", 2 * 3 * block), 0);
    whole = print_of("ids:uint16", 0, true);
    set_id(block + block / 2, 9);
    assert_true(print_of("ids:uint16", 0, true) != whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_known_by_what_it_holds_and_not_by_its_place),
        cmocka_unit_test(the_same_ids_in_other_documents_are_other_data),
        cmocka_unit_test(of_a_large_token_file_first_and_last_blocks_count),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}

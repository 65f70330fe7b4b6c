// Files of prompts: what is read, and what is refused where.
#include "data/prompts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ax_status read_text(const char *suffix, const char *text, size_t length, ax_prompts *p)
{
    char path[] = "/tmp/axonn-prompts-XXXXXX", name[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(name, sizeof name, "%s%s", path, suffix);
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, length, f), length);
    fclose(f);
    ax_status st = ax_prompts_read(p, name);
    unlink(name);
    unlink(path);
    return st;
}

static void lines(void **state)
{
    (void)state;
    static const char text[] = "\xEF\xBB\xBF"
                               "one\r\n\n  two  \n\r\n{\"prompt\": 3}\nz\0ro\nlast";
    ax_prompts p = {0};
    assert_int_equal(read_text(".txt", text, sizeof text - 1, &p), AX_OK);
    static const char *const want[] = {"one", "  two  ", "{\"prompt\": 3}", "z", "last"};
    assert_int_equal(p.count, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(p.list[i].text, want[i]);
    assert_int_equal(p.list[3].length, 4);
    ax_prompts_fini(&p);
}

static void objects(void **state)
{
    (void)state;
    static const char text[] = "\xEF\xBB\xBF{\"prompt\":\"a\\nb\",\"id\":7}\r\n\n"
                               "{\"completion\":\"x\",\"prompt\":\"\"}";
    ax_prompts p = {0};
    ax_tokenizer *t;
    assert_int_equal(read_text(".jsonl", text, sizeof text - 1, &p), AX_OK);
    assert_int_equal(p.count, 2);
    assert_string_equal(p.list[0].text, "a\nb");
    assert_int_equal(p.list[1].length, 0);
    assert_int_equal(ax_tokenizer_open("byte", &t), AX_OK);
    assert_int_equal(ax_prompts_encode(&p, t), AX_OK);
    assert_int_equal(p.list[0].ids.count, 3);
    assert_int_equal(p.list[1].ids.count, 1); // begins a document
    assert_int_equal(p.list[1].ids.id[0], ax_tokenizer_eod(t));
    assert_int_equal(ax_prompts_longest(&p), 3);
    ax_tokenizer_close(t);
    ax_prompts_fini(&p);
}

static void refused(const char *suffix, const char *text, ax_status status, const char *says)
{
    ax_prompts p = {0};
    assert_int_equal(read_text(suffix, text, strlen(text), &p), status);
    if (!strstr(ax_error_text(), says))
        fail_msg("'%s' does not say '%s'", ax_error_text(), says);
    ax_prompts_fini(&p);
}

static void refusals(void **state)
{
    (void)state;
    ax_prompts p = {0};
    refused(".txt", "\n\r\n", AX_EUSAGE, "no prompt in it");
    refused(".jsonl", "", AX_EUSAGE, "no prompt in it");
    refused(".jsonl", "{\"prompt\":\"a\"}\n{\"prompt\":\"a\"", AX_EFORMAT, ".jsonl:2: byte ");
    refused(".jsonl", "{\"text\":\"a\"}", AX_EFORMAT, ":1: no object with a string");
    refused(".jsonl", "[1]\n", AX_EFORMAT, ":1: no object with a string");
    refused(".jsonl", "\n{\"prompt\":3}\n", AX_EFORMAT, ":2: no object with a string");
    assert_int_equal(ax_prompts_read(&p, "/no/such/file"), AX_EUSAGE);
    assert_int_equal(ax_prompts_read(&p, "/tmp"), AX_EUSAGE);
    assert_int_equal(p.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"a text file holds a prompt a line, as it is", lines, NULL, NULL, NULL},
        {"a JSONL file holds objects with a prompt", objects, NULL, NULL, NULL},
        {"what holds no prompt is refused, with file and line", refusals, NULL, NULL, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

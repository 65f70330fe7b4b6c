#include "base/log.h"
#include "base/rng.h"
#include "data/documents.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

static char folder[] = "/tmp/axonn-test-documents-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    return !mkdtemp(folder) || chdir(folder);
}

static int empty_folder(void **state)
{
    (void)state;
    DIR *d = opendir(".");
    for (const struct dirent *e; d && (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    return !d || closedir(d);
}

static int leave_folder(void **state)
{
    return empty_folder(state) || chdir("/") || rmdir(folder);
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

static ax_documents *open_as(const char *path, ax_documents_bad on_error)
{
    ax_documents *d = NULL;
    ax_documents_options o = {.text_key = "text", .on_error = on_error};
    if (ax_documents_open(path, &o, &d) != AX_OK)
        fail_msg("%s", ax_error_text());
    return d;
}

static void expect_next(ax_documents *d, const char *text, int64_t line)
{
    ax_document document;
    bool found = false;
    if (ax_documents_next(d, &document, &found) != AX_OK)
        fail_msg("%s", ax_error_text());
    assert_true(found);
    assert_int_equal(document.length, strlen(text));
    assert_memory_equal(document.text, text, document.length);
    assert_int_equal(document.line, line);
}

static void expect_end(ax_documents *d)
{
    ax_document document;
    bool found = true;
    assert_int_equal(ax_documents_next(d, &document, &found), AX_OK);
    assert_false(found);
    ax_documents_close(d);
}

static void expect_refusal(ax_documents *d, ax_status st, const char *message)
{
    ax_document document;
    bool found;
    assert_int_equal(ax_documents_next(d, &document, &found), st);
    assert_string_equal(ax_error_text(), message);
    ax_documents_close(d);
}

static void refuses_line(const char *line, const char *message)
{
    write_text("l.jsonl", line);
    expect_refusal(open_as("l.jsonl", AX_DOCUMENTS_STOP), AX_EFORMAT, message);
}

// ---- lines

static void a_line_is_a_document(void **state)
{
    (void)state;
    write_text("a.jsonl", "{\"text\": \"one\"}\n{\"id\": 7, \"text\": \"two\"}\n");
    ax_documents *d = open_as("a.jsonl", AX_DOCUMENTS_STOP);
    expect_next(d, "one", 1);
    expect_next(d, "two", 2);
    assert_int_equal(ax_documents_lines(d), 2);
    assert_int_equal(ax_documents_bytes(d), 41);
    expect_end(d);
}

static void marks_blank_lines_and_a_missing_newline_are_legal(void **state)
{
    (void)state;
    write_text("a.jsonl", "\xEF\xBB\xBF{\"text\":\"one\"}\r\n\r\n \t\n{\"text\":\"two\"}\r\n\n"
                          "{\"text\":\"\"}\n  {\"text\":\"three\"}");
    ax_documents *d = open_as("a.jsonl", AX_DOCUMENTS_STOP);
    expect_next(d, "one", 1);
    expect_next(d, "two", 4);
    expect_next(d, "", 6);
    expect_next(d, "three", 7);
    expect_end(d);
    write_text("b.jsonl", "\xEF\xBB\xBF");
    expect_end(open_as("b.jsonl", AX_DOCUMENTS_STOP));
    write_text("c.jsonl", "");
    expect_end(open_as("c.jsonl", AX_DOCUMENTS_STOP));
}

static void escapes_become_their_characters(void **state)
{
    (void)state;
    write_text("a.jsonl",
               "{\"t\\u0065xt\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t \\u00e9\\u20AC\\ud83d\\ude00.\"}\n"
               "{\"text\": \"na\xC3\xAFve \xF0\x9F\x98\x80\"}\n"
               "{\"other\": \"\\ud800\", \"more\": [1e999, -0.5E+3, {\"text\": 1}, [], true, null],"
               " \"text\": \"x\", \"big\": 123456789012345678901234567890}\n");
    ax_documents *d = open_as("a.jsonl", AX_DOCUMENTS_STOP);
    expect_next(d, "\"\\/\b\f\n\r\t \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80.", 1);
    expect_next(d, "na\xC3\xAFve \xF0\x9F\x98\x80", 2);
    expect_next(d, "x", 3);
    expect_end(d);
    ax_document document;
    bool found;
    write_text("z.jsonl", "{\"text\": \"a\\u0000b\"}");
    d = open_as("z.jsonl", AX_DOCUMENTS_STOP);
    assert_int_equal(ax_documents_next(d, &document, &found), AX_OK);
    assert_int_equal(document.length, 3);
    assert_memory_equal(document.text, "a\0b", 3);
    ax_documents_close(d);
}

static void a_bad_line_is_named_with_its_byte(void **state)
{
    (void)state;
    refuses_line("{\"text\": \"a\"}x", "l.jsonl:1: byte 13: more text behind the object");
    refuses_line("\n\n{\"text\": \"a\xFF\"}\n", "l.jsonl:3: byte 11: not valid UTF-8");
    refuses_line("{\"text\": \"\xED\xA0\x80\"}\n", "l.jsonl:1: byte 10: not valid UTF-8");
    refuses_line("\xEF\xBB\xBF{\"text\"}", "l.jsonl:1: byte 10: a key needs a ':' behind it");
    refuses_line("{\"txt\": 1}", "l.jsonl:1: byte 0: the object has no key 'text'; data.text_key "
                                 "names it");
    refuses_line("{}", "l.jsonl:1: byte 0: the object has no key 'text'; data.text_key names it");
    refuses_line("{\"text\": 7}", "l.jsonl:1: byte 0: not a string: the value of 'text'; "
                                  "data.text_key names it");
    refuses_line("{\"text\": null}", "l.jsonl:1: byte 0: not a string: the value of 'text'; "
                                     "data.text_key names it");
    refuses_line("[\"text\"]", "l.jsonl:1: byte 0: not a JSON object");
    refuses_line("plain text", "l.jsonl:1: byte 0: not a JSON object");
    refuses_line("{\"text\": \"a\", \"text\": \"b\"}", "l.jsonl:1: byte 15: the key stands twice");
    refuses_line("{\"text\": \"a", "l.jsonl:1: byte 11: the line ends inside of a string");
    refuses_line("{\"text\": \"a\"", "l.jsonl:1: byte 12: the line ends inside of the object");
    refuses_line("{\"text\": \"a\tb\"}",
                 "l.jsonl:1: byte 11: a control character that is not escaped");
    refuses_line("{\"text\": \"\\x\"}", "l.jsonl:1: byte 10: no escape of JSON");
    refuses_line("{\"text\": \"\\u12g4\"}",
                 "l.jsonl:1: byte 10: \\u needs four hexadecimal digits");
    refuses_line("{\"text\": \"a\\ud800\"}", "l.jsonl:1: byte 11: half of a surrogate pair");
    refuses_line("{\"text\": \"\\ude00\"}", "l.jsonl:1: byte 10: half of a surrogate pair");
    refuses_line("{\"text\": \"\\ud800\\u0041\"}", "l.jsonl:1: byte 10: half of a surrogate pair");
    refuses_line("{\"n\": 01, \"text\": \"\"}", "l.jsonl:1: byte 8: no value of JSON");
    refuses_line("{\"n\": NaN, \"text\": \"\"}", "l.jsonl:1: byte 6: no value of JSON");
    refuses_line("{\"n\": [1,], \"text\": \"\"}", "l.jsonl:1: byte 9: no value of JSON");
    refuses_line("{\"text\": \"\",}", "l.jsonl:1: byte 12: a key must be a string");
}

static void nesting_has_a_limit(void **state)
{
    (void)state;
    enum { DEEP = 5000000 };
    char *line = malloc(DEEP + 8);
    memcpy(line, "{\"a\":", 5);
    memset(line + 5, '[', DEEP);
    write_bytes("l.jsonl", line, DEEP + 5);
    free(line);
    expect_refusal(open_as("l.jsonl", AX_DOCUMENTS_STOP), AX_EFORMAT,
                   "l.jsonl:1: byte 1005: nested deeper than 1000");
}

static void bad_lines_can_be_skipped(void **state)
{
    (void)state;
    write_text("a.jsonl", "{\"text\":\"one\"}\n{\"txt\":1}\n\xFF\n{\"text\":\"two\"}\nx\nx\nx\n");
    ax_documents *d = open_as("a.jsonl", AX_DOCUMENTS_SKIP);
    expect_next(d, "one", 1);
    expect_next(d, "two", 4);
    ax_document document;
    bool found = true;
    assert_int_equal(ax_documents_next(d, &document, &found), AX_OK);
    assert_false(found);
    assert_int_equal(ax_documents_skipped(d), 5);
    ax_documents_close(d);
}

static void prompt_and_completion_are_handed_out(void **state)
{
    (void)state;
    write_text("a.jsonl", "{\"completion\": \"b\\n\", \"prompt\": \"a\"}\n");
    ax_documents *d = open_as("a.jsonl", AX_DOCUMENTS_STOP);
    ax_document document;
    bool found = false;
    assert_int_equal(ax_documents_next(d, &document, &found), AX_OK);
    assert_true(found);
    assert_null(document.text);
    assert_int_equal(document.prompt_length, 1);
    assert_memory_equal(document.prompt, "a", 1);
    assert_int_equal(document.completion_length, 2);
    assert_memory_equal(document.completion, "b\n", 2);
    expect_end(d);
    write_text("b.jsonl", "{\"text\": \"t\", \"prompt\": \"a\"}\n");
    d = open_as("b.jsonl", AX_DOCUMENTS_STOP);
    expect_next(d, "t", 1); // text comes first
    expect_end(d);
    refuses_line("{\"prompt\": \"a\"}",
                 "l.jsonl:1: byte 0: a pair needs both keys, 'prompt' and 'completion'");
    refuses_line("{\"prompt\": \"a\", \"completion\": [\"b\"]}",
                 "l.jsonl:1: byte 0: 'prompt' and 'completion' must be strings");
}

// A line as long as the file, and one that begins in the middle of the buffer: time would show if
// bytes were looked at again and again.
static void lines_of_100_mb_take_linear_time(void **state)
{
    (void)state;
    enum { LONG = 100000000 };
    char *line = malloc(LONG + 16);
    memset(line, 'x', LONG + 16);
    memcpy(line, "{\"text\":\"", 9);
    memcpy(line + 9 + LONG, "\"}\n", 3);
    FILE *f = fopen("a.jsonl", "wb");
    assert_non_null(f);
    fputs("{\"text\":\"short\"}\n", f);
    assert_int_equal(fwrite(line, 1, LONG + 12, f), LONG + 12);
    fputs("{\"text\":\"short\"}\n", f);
    assert_int_equal(fclose(f), 0);
    ax_documents *d = open_as("a.jsonl", AX_DOCUMENTS_STOP);
    ax_document document;
    bool found;
    expect_next(d, "short", 1);
    assert_int_equal(ax_documents_next(d, &document, &found), AX_OK);
    assert_int_equal(document.length, LONG);
    assert_memory_equal(document.text, line + 9, LONG);
    expect_next(d, "short", 3);
    expect_end(d);
    free(line);
}

// ---- jansson knows the same language

static void mutate(char *line, size_t *n, size_t room, uint64_t *state)
{
    static const char letters[] = "{}[]\",:\\u0dDeE+-. \n\t1truefalsn\xC3\xA9\xFF\x80";
    for (int i = 0; i < 2; i++) {
        uint64_t r = *state = *state * 6364136223846793005u + 1442695040888963407u;
        size_t at = *n ? (r >> 33) % *n : 0;
        char letter = letters[(r >> 20) % (sizeof letters - 1)];
        if ((r >> 60) < 6 && *n) {
            line[at] = letter;
        } else if ((r >> 60) < 11 && *n + 1 < room) {
            memmove(line + at + 1, line + at, *n - at);
            line[at] = letter;
            ++*n;
        } else if (*n) {
            memmove(line + at, line + at + 1, *n - at - 1);
            --*n;
        }
    }
}

// What it refuses for reasons of its own: numbers too large for it, and strings that nobody wants.
static bool is_particular(const json_error_t *e)
{
    return strstr(e->text, "overflow") || strstr(e->text, "too big") ||
           strstr(e->text, "Unicode") || strstr(e->text, "NUL");
}

static void compare_with_jansson(const char *line, size_t n)
{
    char why[AX_DOCUMENT_WHY];
    ax_document d = {0};
    json_error_t error;
    json_t *tree = json_loadb(line, n, JSON_ALLOW_NUL, &error);
    ax_record record = {.bytes = line, .length = n, .line = 1};
    bool taken =
        ax_document_parse(&record, "x", &(ax_documents_options){.text_key = "text"}, &d, why);
    const json_t *text = json_object_get(tree, "text");
    if (taken && d.text && !tree)
        assert_true(is_particular(&error));
    if (taken && d.text && tree) {
        assert_int_equal(d.length, json_string_length(text));
        assert_memory_equal(d.text, json_string_value(text), d.length);
    }
    if (!taken && json_is_string(text) && !strstr(why, "twice"))
        fail_msg("%.*s: %s", (int)n, line, why);
    json_decref(tree);
    if (taken)
        ax_document_fini(&d);
}

static void what_is_refused_is_what_jansson_refuses(void **state)
{
    (void)state;
    static const char *const seeds[] = {
        "{\"text\":\"a\\u00e9\\ud83d\\ude00\\n\",\"m\":{\"k\":[1,-2.5e+3,true,null,\"x\"]}}",
        "{\"id\":12,\"text\":\"na\xC3\xAFve\",\"f\":false,\"e\":[],\"o\":{}}",
        "{\"te\\u0078t\":\"\\\\\\\"\",\"prompt\":\"a\"}",
    };
    uint64_t random = 1;
    for (int i = 0; i < 200000; i++) {
        char line[256];
        size_t n = strlen(seeds[i % 3]);
        memcpy(line, seeds[i % 3], n);
        mutate(line, &n, sizeof line, &random);
        compare_with_jansson(line, n);
    }
}

// ---- whole files

static void any_other_file_is_one_document(void **state)
{
    (void)state;
    write_text("a.txt", "\xEF\xBB\xBFtwo\r\nlines \xFF\n");
    ax_documents *d = open_as("a.txt", AX_DOCUMENTS_STOP);
    expect_next(d, "\xEF\xBB\xBFtwo\r\nlines \xFF\n", 0);
    expect_end(d);
    write_text("b", "");
    d = open_as("b", AX_DOCUMENTS_STOP);
    expect_next(d, "", 0);
    expect_end(d);
    size_t n = 3000000;
    char *text = calloc(n + 1, 1);
    memset(text, 'y', n);
    write_bytes("c.txt", text, n);
    d = open_as("c.txt", AX_DOCUMENTS_STOP);
    expect_next(d, text, 0);
    expect_end(d);
    free(text);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    ax_documents *d = NULL;
    ax_documents_options o = {.text_key = "text"};
    assert_int_equal(ax_documents_open("none.jsonl", &o, &d), AX_EUSAGE);
    assert_string_equal(ax_error_text(), "none.jsonl: No such file or directory");
    assert_int_equal(ax_documents_open("/", &o, &d), AX_EIO);
    assert_int_equal(ax_documents_open("/dev/zero", &o, &d), AX_EUSAGE);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(ax_documents_open("pipe", &o, &d), AX_EUSAGE);
    assert_string_equal(ax_error_text(), "pipe: not a regular file; pipes and devices have no end "
                                         "to wait for");
    assert_null(d);
}

// ---- zstd

static size_t pack(const char *text, size_t n, unsigned char *out, size_t room)
{
    size_t packed = ZSTD_compress(out, room, text, n, 3);
    assert_false(ZSTD_isError(packed));
    return packed;
}

static void frames_follow_one_another(void **state)
{
    (void)state;
    unsigned char out[1024];
    static const unsigned char skippable[] = {0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'};
    size_t n = pack("{\"text\":\"one\"}\n{\"te", 19, out, sizeof out);
    n += pack("", 0, out + n, sizeof out - n);
    memcpy(out + n, skippable, sizeof skippable);
    n += sizeof skippable;
    n += pack("xt\":\"two\"}\n", 11, out + n, sizeof out - n);
    write_bytes("a.jsonl.zst", out, n);
    ax_documents *d = open_as("a.jsonl.zst", AX_DOCUMENTS_STOP);
    expect_next(d, "one", 1);
    expect_next(d, "two", 2);
    assert_int_equal(ax_documents_bytes(d), 30);
    expect_end(d);
    n = pack("text\n", 5, out, sizeof out);
    write_bytes("a.txt.zst", out, n);
    d = open_as("a.txt.zst", AX_DOCUMENTS_STOP);
    expect_next(d, "text\n", 0);
    expect_end(d);
}

static void many_blocks_are_unpacked(void **state)
{
    (void)state;
    enum { LINES = 200000 };
    size_t room = LINES * 40, n = 0;
    char *text = malloc(room);
    unsigned char *out = malloc(ZSTD_compressBound(room));
    for (int i = 0; i < LINES; i++)
        n += (size_t)snprintf(text + n, room - n, "{\"text\":\"%d\"}\n", i * 7919);
    write_bytes("a.jsonl.zst", out, pack(text, n, out, ZSTD_compressBound(room)));
    ax_documents *d = open_as("a.jsonl.zst", AX_DOCUMENTS_STOP);
    for (int i = 0; i < LINES; i++) {
        char want[32];
        snprintf(want, sizeof want, "%d", i * 7919);
        expect_next(d, want, i + 1);
    }
    assert_int_equal(ax_documents_bytes(d), n);
    expect_end(d);
    free(text);
    free(out);
}

static void a_small_file_does_not_unpack_to_all_memory(void **state)
{
    (void)state;
    enum { SMALL = 60 << 20, LARGE = 200 << 20 };
    static const char *const names[] = {"a.jsonl.zst", "a.txt.zst"};
    char *text = malloc(LARGE), want[160];
    unsigned char *out = malloc(ZSTD_compressBound(LARGE));
    assert_true(text && out);
    memset(text, ' ', LARGE);
    memcpy(text, "{\"text\":\"", 9);
    for (int i = 0; i < 2; i++) {
        size_t n = pack(text, LARGE, out, ZSTD_compressBound(LARGE));
        write_bytes(names[i], out, n);
        ax_documents *d = open_as(names[i], AX_DOCUMENTS_SKIP);
        ax_document document;
        bool found;
        assert_int_equal(ax_documents_next(d, &document, &found), AX_EFORMAT);
        snprintf(want, sizeof want, "%s: its %zu bytes unpack to ", names[i], n);
        assert_non_null(strstr(ax_error_text(), want));
        assert_non_null(strstr(ax_error_text(), "unpack the file first"));
        ax_documents_close(d);
    }
    memcpy(text + SMALL - 2, "\"}", 2);
    write_bytes("a.jsonl.zst", out, pack(text, SMALL, out, ZSTD_compressBound(LARGE)));
    ax_documents *d = open_as("a.jsonl.zst", AX_DOCUMENTS_STOP);
    ax_document document;
    bool found = false;
    assert_int_equal(ax_documents_next(d, &document, &found), AX_OK);
    assert_true(found);
    assert_int_equal(document.length, SMALL - 11);
    ax_documents_close(d);
    free(text);
    free(out);
}

static void a_stream_cut_anywhere_is_refused(void **state)
{
    (void)state;
    unsigned char out[1024];
    ax_document document;
    bool found = true;
    size_t n = pack("{\"text\":\"one\"}\n{\"text\":\"two\"}\n", 30, out, sizeof out);
    for (size_t cut = 0; cut < n; cut++) {
        write_bytes("a.jsonl.zst", out, cut);
        ax_documents *d = open_as("a.jsonl.zst", AX_DOCUMENTS_SKIP);
        ax_status st = AX_OK;
        for (found = true; st == AX_OK && found;)
            st = ax_documents_next(d, &document, &found);
        assert_int_equal(st, AX_EFORMAT);
        assert_non_null(strstr(ax_error_text(), "a.jsonl.zst: the compressed stream ends in the "
                                                "middle, after line "));
        ax_documents_close(d);
    }
    out[n] = 'x';
    write_bytes("a.jsonl.zst", out, n + 5);
    ax_documents *d = open_as("a.jsonl.zst", AX_DOCUMENTS_STOP);
    expect_next(d, "one", 1);
    expect_next(d, "two", 2);
    assert_int_equal(ax_documents_next(d, &document, &found), AX_EFORMAT);
    assert_non_null(strstr(ax_error_text(), "a.jsonl.zst: the zstd stream is damaged near byte "));
    ax_documents_close(d);
    write_text("b.jsonl.zst", "{\"text\":\"not packed\"}\n");
    d = open_as("b.jsonl.zst", AX_DOCUMENTS_STOP);
    assert_int_equal(ax_documents_next(d, &document, &found), AX_EFORMAT);
    assert_non_null(
        strstr(ax_error_text(),
               "b.jsonl.zst: no zstd stream, or a damaged one near byte 0, after line 0: "));
    ax_documents_close(d);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, empty_folder)
    const struct CMUnitTest tests[] = {
        CASE(a_line_is_a_document),
        CASE(marks_blank_lines_and_a_missing_newline_are_legal),
        CASE(escapes_become_their_characters),
        CASE(a_bad_line_is_named_with_its_byte),
        CASE(nesting_has_a_limit),
        CASE(bad_lines_can_be_skipped),
        CASE(prompt_and_completion_are_handed_out),
        CASE(lines_of_100_mb_take_linear_time),
        CASE(what_is_refused_is_what_jansson_refuses),
        CASE(any_other_file_is_one_document),
        CASE(what_is_no_file_is_refused),
        CASE(frames_follow_one_another),
        CASE(many_blocks_are_unpacked),
        CASE(a_stream_cut_anywhere_is_refused),
        CASE(a_small_file_does_not_unpack_to_all_memory),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}

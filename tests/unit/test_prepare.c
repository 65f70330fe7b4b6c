#include "base/log.h"
#include "data/prepare.h"
#include "data/shard.h"
#include "data/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/axonn-test-prepare-XXXXXX";
static ax_tokenizer *bytes, *gpt2;

static int enter_folder(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_WARN});
    return ax_tokenizer_open("byte", &bytes) != AX_OK ||
           ax_tokenizer_open(AX_GOLDEN "/gpt2.json", &gpt2) != AX_OK || !mkdtemp(folder) ||
           chdir(folder);
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
    ax_tokenizer_close(bytes);
    ax_tokenizer_close(gpt2);
    return empty_folder(state) || chdir("/") || rmdir(folder);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static int files_here(void)
{
    int n = 0;
    DIR *d = opendir(".");
    for (const struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

// ---- runs

static ax_data_options from(const char *train)
{
    return (ax_data_options){.train = train, .valid = "", .text_key = "text", .eod = true};
}

static ax_status try(const ax_data_options *data, const ax_prepare_options *o,
                     const ax_tokenizer *t, const ax_prepare_stop *stop, ax_prepare_result *r)
{
    ax_shard_writer *w = NULL;
    if (ax_shard_writer_open(o->out, ax_tokenizer_vocab(t), &w) != AX_OK)
        fail_msg("%s", ax_error_text());
    ax_status st = ax_prepare_files(data, o, t, w, stop, r);
    if (st == AX_OK)
        st = ax_shard_writer_finish(w);
    ax_shard_writer_close(w);
    return st;
}

static ax_prepare_result prepare(const ax_data_options *data, const ax_tokenizer *t, int threads,
                                 const char *out)
{
    ax_prepare_result r = {0};
    ax_prepare_options o = {.out = out, .threads = threads};
    if (try(data, &o, t, NULL, &r) != AX_OK)
        fail_msg("%s", ax_error_text());
    return r;
}

static void refuses(const ax_data_options *data, ax_documents_bad on_error, ax_status st,
                    const char *message)
{
    ax_prepare_result r;
    ax_prepare_options o = {.out = "out", .threads = 3, .on_error = on_error};
    int before = files_here();
    assert_int_equal(try(data, &o, bytes, NULL, &r), st);
    assert_string_equal(ax_error_text(), message);
    assert_int_equal(files_here(), before);
}

static void refuses_with(const ax_tokenizer *t, const ax_data_options *data, ax_status st)
{
    ax_prepare_result r;
    ax_prepare_options o = {.out = "out", .threads = 3};
    int before = files_here();
    assert_int_equal(try(data, &o, t, NULL, &r), st);
    assert_int_equal(files_here(), before);
}

// The ids as text; '|' ends a document, '^' stands for any other id above 255.
static void expect_text(const char *prefix, const ax_tokenizer *t, const char *want,
                        int64_t documents)
{
    ax_shard *s = NULL;
    int32_t ids[256];
    if (ax_shard_open(prefix, &s) != AX_OK)
        fail_msg("%s", ax_error_text());
    assert_int_equal(ax_shard_documents(s), documents);
    int64_t n = ax_shard_tokens(s);
    assert_int_equal(n, strlen(want));
    assert_int_equal(ax_shard_read(s, ax_tokenizer_vocab(t), 0, n, ids), AX_OK);
    for (int64_t i = 0; i < n; i++) {
        char letter = ids[i] == ax_tokenizer_eod(t) ? '|' : ids[i] > 255 ? '^' : (char)ids[i];
        assert_int_equal(letter, want[i]);
    }
    ax_shard_close(s);
}

static void same_file(const char *a, const char *b)
{
    static unsigned char x[1 << 22], y[1 << 22];
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    assert_non_null(f);
    assert_non_null(g);
    size_t n = fread(x, 1, sizeof x, f);
    assert_true(n > 0 && n < sizeof x);
    assert_int_equal(n, fread(y, 1, sizeof y, g));
    assert_memory_equal(x, y, n);
    fclose(f);
    fclose(g);
}

// ---- what is written

static void documents_come_in_order_each_with_its_end(void **state)
{
    (void)state;
    write_text("a.jsonl", "{\"text\":\"one\"}\n{\"text\":\"\"}\n\n{\"text\":\"two\"}");
    write_text("b.txt", "a\nb");
    write_text("c.txt", "");
    ax_data_options data = from("a.jsonl,b.txt,c.txt,a.jsonl");
    ax_prepare_result r = prepare(&data, bytes, 2, "out");
    expect_text("out", bytes, "one|two|a\nb|one|two|", 5);
    assert_int_equal(r.documents, 5);
    assert_int_equal(r.tokens, 20);
    assert_int_equal(r.text_bytes, 15);
    assert_int_equal(r.empty, 3);
    assert_int_equal(r.skipped, 0);
    assert_int_equal(r.read_bytes, 2 * 42 + 3);
    data.eod = false;
    prepare(&data, bytes, 1, "bare");
    expect_text("bare", bytes, "onetwoa\nbonetwo", 5);
}

static void special_tokens_in_a_text_are_text_unless_asked_for(void **state)
{
    (void)state;
    write_text("a.jsonl", "{\"text\":\"<|endoftext|>\"}\n");
    ax_data_options data = from("a.jsonl");
    ax_prepare_result r = prepare(&data, gpt2, 1, "text");
    assert_true(r.tokens > 2);
    data.literals = AX_LITERALS_ARE_TOKENS;
    r = prepare(&data, gpt2, 1, "tokens");
    assert_int_equal(r.tokens, 2);
    expect_text("tokens", gpt2, "||", 1);
}

static void link_golden(const char *name, const char *as)
{
    char path[4096];
    snprintf(path, sizeof path, AX_GOLDEN "/%s", name);
    assert_int_equal(symlink(path, as), 0);
}

static void a_document_can_have_a_beginning(void **state)
{
    (void)state;
    ax_tokenizer *t;
    link_golden("llama2.json", "tokenizer.json");
    write_text("tokenizer_config.json", "{\"bos_token\": \"<s>\"}");
    assert_int_equal(ax_tokenizer_open(".", &t), AX_OK);
    assert_int_equal(ax_tokenizer_bos(t), 1);
    write_text("a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
    ax_data_options data = from("a.jsonl");
    data.bos = true;
    ax_prepare_result r = prepare(&data, t, 1, "out");
    ax_shard *s;
    int32_t ids[16];
    int64_t begin[3];
    assert_true(r.tokens <= 16);
    assert_int_equal(ax_shard_open("out", &s), AX_OK);
    assert_int_equal(ax_shard_read(s, ax_tokenizer_vocab(t), 0, r.tokens, ids), AX_OK);
    assert_int_equal(ax_shard_borders(s, 0, 3, begin), AX_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ids[begin[i]], 1);
        assert_int_equal(ids[begin[i + 1] - 1], 2);
    }
    ax_shard_close(s);
    ax_tokenizer_close(t);
}

// Lines of very different lengths, some longer than a batch.
static void write_mixed(const char *path, int lines)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < lines; i++) {
        int words = i % 997 == 500 ? 60000 : (i * 37) % 90;
        fputs("{\"text\":\"", f);
        for (int j = 0; j < words; j++)
            fprintf(f, "word%d ", (i * 31 + j) % 1000);
        fputs("\"}\n", f);
    }
    assert_int_equal(fclose(f), 0);
}

static void any_number_of_threads_writes_the_same_files(void **state)
{
    (void)state;
    write_mixed("a.jsonl", 3000);
    ax_data_options data = from("a.jsonl");
    ax_prepare_result one = prepare(&data, gpt2, 1, "one");
    assert_true(one.documents > 2900);
    for (int threads = 2; threads <= 7; threads += 5) {
        ax_prepare_result many = prepare(&data, gpt2, threads, "many");
        assert_int_equal(many.threads, threads);
        assert_int_equal(many.tokens, one.tokens);
        same_file("one.bin", "many.bin");
        same_file("one.idx", "many.idx");
        remove("many.bin");
        remove("many.idx");
    }
}

static int digit(char letter)
{
    return letter <= '9' ? letter - '0' : letter - 'a' + 10;
}

// The hostile texts, whose ids are goldens elsewhere, as far as JSON can say them.
static int write_hostile(const char *path, ax_text *all, int64_t *end, int room)
{
    ax_documents *d;
    ax_document hex;
    bool found;
    int n = 0;
    FILE *f = fopen(path, "wb");
    ax_documents_options o = {.text_key = "hex"};
    assert_int_equal(ax_documents_open(AX_GOLDEN "/hostile.jsonl", &o, &d), AX_OK);
    while (ax_documents_next(d, &hex, &found) == AX_OK && found) {
        ax_text text = {0}, line = {0};
        for (size_t i = 0; i + 1 < hex.length; i += 2) {
            char byte = (char)(digit(hex.text[i]) << 4 | digit(hex.text[i + 1]));
            ax_text_add_bytes(&text, &byte, 1);
        }
        if (text.length > 0 && ax_utf8_valid(text.text, text.length) == text.length && n < room) {
            ax_text_add_json_bytes(&line, text.text, text.length);
            fprintf(f, "{\"text\": %s}\n", line.text);
            ax_text_add_bytes(all, text.text, text.length);
            end[n++] = (int64_t)all->length;
        }
        ax_text_fini(&text);
        ax_text_fini(&line);
    }
    ax_documents_close(d);
    assert_int_equal(fclose(f), 0);
    return n;
}

static void expect_document(const ax_shard *s, int64_t number, const char *text, size_t length)
{
    ax_ids ids = {0};
    int64_t border[2];
    assert_int_equal(ax_tokenizer_encode(gpt2, text, length, &ids), AX_OK);
    assert_int_equal(ax_ids_push(&ids, ax_tokenizer_eod(gpt2)), AX_OK);
    assert_int_equal(ax_shard_borders(s, number, 2, border), AX_OK);
    assert_int_equal(border[1] - border[0], ids.count);
    int32_t *have = malloc((size_t)ids.count * sizeof *have);
    assert_int_equal(ax_shard_read(s, ax_tokenizer_vocab(gpt2), border[0], ids.count, have), AX_OK);
    assert_memory_equal(have, ids.id, (size_t)ids.count * sizeof *have);
    free(have);
    ax_ids_fini(&ids);
}

static void the_ids_are_those_of_the_tokenizer(void **state)
{
    (void)state;
    int64_t end[300], begin = 0;
    ax_text all = {0};
    ax_shard *s;
    int n = write_hostile("hostile.jsonl", &all, end, 300);
    assert_true(n > 200);
    ax_data_options data = from("hostile.jsonl");
    prepare(&data, gpt2, 3, "out");
    assert_int_equal(ax_shard_open("out", &s), AX_OK);
    assert_int_equal(ax_shard_documents(s), n);
    for (int i = 0; i < n; begin = end[i++])
        expect_document(s, i, all.text + begin, (size_t)(end[i] - begin));
    ax_text_fini(&all);
    ax_shard_close(s);
}

// ---- what is not

static void a_bad_line_stops_or_is_skipped(void **state)
{
    (void)state;
    FILE *f = fopen("a.jsonl", "wb");
    assert_non_null(f);
    for (int i = 1; i <= 20000; i++) // in several batches; the first in order is the one named
        fputs(i % 5000 == 4999 ? "{\"txt\":\"x\"}\n" : "{\"text\":\"x\"}\n", f);
    assert_int_equal(fclose(f), 0);
    ax_data_options data = from("a.jsonl");
    for (int i = 0; i < 5; i++)
        refuses(&data, AX_DOCUMENTS_STOP, AX_EFORMAT,
                "a.jsonl:4999: byte 0: the object has no key 'text'; data.text_key names it");
    ax_prepare_options o = {.out = "out", .threads = 3, .on_error = AX_DOCUMENTS_SKIP};
    ax_prepare_result r;
    assert_int_equal(try(&data, &o, bytes, NULL, &r), AX_OK);
    assert_int_equal(r.skipped, 4);
    assert_int_equal(r.documents, 19996);
}

static void what_cannot_be_prepared_is_refused(void **state)
{
    (void)state;
    ax_data_options data = from("");
    refuses(&data, AX_DOCUMENTS_STOP, AX_EUSAGE, "data.train is not set: name text or JSONL files");
    write_text("a.jsonl", "{\"text\":\"x\"}\n");
    data.train = "a.jsonl,,a.jsonl";
    refuses(&data, AX_DOCUMENTS_STOP, AX_EUSAGE, "data.train: an empty file name in the list");
    data.train = "a.jsonl,none.jsonl";
    refuses(&data, AX_DOCUMENTS_SKIP, AX_EUSAGE, "none.jsonl: No such file or directory");
    data.train = "a.jsonl,other.bin:uint16";
    refuses(&data, AX_DOCUMENTS_SKIP, AX_EUSAGE,
            "other.bin:uint16: holds tokens already; prepare reads text, .jsonl and their .zst");
    write_text("p.jsonl", "{\"text\":\"x\"}\n{\"prompt\":\"a\",\"completion\":\"b\"}\n");
    data.train = "p.jsonl";
    refuses(&data, AX_DOCUMENTS_SKIP, AX_EUSAGE,
            "p.jsonl:2: a prompt and its completion: a token file has no place for which ids to "
            "learn from; train on the JSONL itself");
    write_text("e.jsonl", "{\"text\":\"\"}\n{}\n");
    data.train = "e.jsonl";
    refuses(&data, AX_DOCUMENTS_SKIP, AX_EUSAGE, "no document in data.train: 1 empty, 1 skipped");
    write_text("z.jsonl.zst", "\x28\xB5\x2F\xFD");
    data.train = "a.jsonl,z.jsonl.zst";
    refuses(&data, AX_DOCUMENTS_SKIP, AX_EFORMAT,
            "z.jsonl.zst: the compressed stream ends in the middle, after line 0: the file is cut");
    data.train = "a.jsonl";
    data.bos = true;
    refuses(&data, AX_DOCUMENTS_STOP, AX_EUSAGE,
            "data.tokenizer=byte has no token that begins a document; set data.bos=off");
}

// ---- long texts

// Lines of every kind, of `size` bytes or a little more.
static void write_long(const char *path, size_t size, ax_text *all)
{
    static const char *const lines[] = {"The quick brown fox, it's said, jumped 12345 times\n",
                                        "over\r\n",
                                        "\n\n   indented\n",
                                        "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac ... --\n",
                                        "<|endoftext|> is text\n\t\n",
                                        "a line without an end "};
    FILE *f = fopen(path, "wb");
    uint64_t seed = 1;
    assert_non_null(f);
    for (size_t n = 0; n < size;) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const char *line = lines[(seed >> 33) % 6];
        n += strlen(line);
        fputs(line, f);
        if (all)
            ax_text_add_bytes(all, line, strlen(line));
    }
    assert_int_equal(fclose(f), 0);
}

static void a_long_text_is_cut_and_keeps_its_ids(void **state)
{
    (void)state;
    ax_text all = {0};
    ax_shard *s;
    write_long("long.txt", 3 << 20, &all);
    write_text("short.txt", "end\n");
    ax_data_options data = from("long.txt,short.txt,long.txt");
    for (int threads = 1; threads <= 4; threads += 3) {
        const char *out = threads == 1 ? "one" : "four";
        ax_prepare_result r = prepare(&data, gpt2, threads, out);
        assert_int_equal(r.documents, 3);
        assert_int_equal(r.text_bytes, 2 * all.length + 4);
        assert_int_equal(ax_shard_open(out, &s), AX_OK);
        assert_int_equal(r.tokens, ax_shard_tokens(s));
        assert_int_equal(ax_shard_documents(s), 3);
        expect_document(s, 0, all.text, all.length);
        expect_document(s, 1, "end\n", 4);
        expect_document(s, 2, all.text, all.length);
        ax_shard_close(s);
    }
    ax_text_fini(&all);
}

// Kilobytes that a process of its own holds at most while it prepares one text.
static long peak_of(const char *path, const char *out)
{
    struct rusage use;
    int status;
    pid_t child = fork();
    if (child == 0) {
        ax_data_options data = from(path);
        prepare(&data, gpt2, 2, out);
        _exit(0);
    }
    assert_int_equal(wait4(child, &status, 0, &use), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return use.ru_maxrss;
}

static void memory_does_not_grow_with_a_text(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); // they keep what was freed
#endif
    write_long("a.txt", 8 << 20, NULL);
    write_long("b.txt", 48 << 20, NULL);
    long small = peak_of("a.txt", "a"), large = peak_of("b.txt", "b");
    print_message("8 MiB of text: %ld MiB, 48 MiB of text: %ld MiB\n", small >> 10, large >> 10);
    assert_true(large - small < 16 << 10);
}

// The tokenizer has no tokens of bytes: the text that holds one that is no character is left out as
// a whole, also its parts that were written already.
static void a_text_that_fails_late_is_skipped_as_a_whole(void **state)
{
    (void)state;
    static const char json[] =
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"'s|'t|'re|'ve|'m|'ll|'d| "
        "?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+\"},"
        "\"behavior\":\"Isolated\",\"invert\":false},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":"
        "0,"
        "\"b\":1,\"\\n\":2,\"</s>\":3},\"merges\":[]}}";
    ax_tokenizer *t;
    ax_shard *s;
    ax_prepare_result r;
    int32_t ids[4];
    assert_int_equal(ax_tokenizer_parse("small", json, strlen(json), &t), AX_OK);
    FILE *f = fopen("late.txt", "wb");
    for (int i = 0; i < 1 << 20; i++)
        fputs(i == 900000 ? "\xff\n" : "a\n", f);
    assert_int_equal(fclose(f), 0);
    write_text("good.txt", "ab\n");
    ax_data_options data = from("good.txt,late.txt,good.txt");
    data.eod = false;
    refuses_with(t, &data, AX_EFORMAT);
    ax_prepare_options o = {.out = "out", .threads = 3, .on_error = AX_DOCUMENTS_SKIP};
    assert_int_equal(try(&data, &o, t, NULL, &r), AX_OK);
    assert_int_equal(r.documents, 2);
    assert_int_equal(r.skipped, 1);
    assert_int_equal(r.tokens, 6);
    assert_int_equal(r.text_bytes, 6);
    assert_int_equal(ax_shard_open("out", &s), AX_OK);
    assert_int_equal(ax_shard_documents(s), 2);
    assert_int_equal(ax_shard_tokens(s), 6);
    assert_int_equal(ax_shard_read(s, 4, 2, 4, ids), AX_OK);
    assert_memory_equal(ids, ((int32_t[]){2, 0, 1, 2}), sizeof ids);
    ax_shard_close(s);
    ax_tokenizer_close(t);
}

static void packed_files_are_no_text(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *name;
    } files[] = {{"\x1f\x8b\x08", "gzip"},
                 {"\xfd"
                  "7zXZ",
                  "xz"},
                 {"BZh91AY&SY", "bzip2"},
                 {"PK\x03\x04", "zip"},
                 {"PAR1xPAR1", "Parquet"},
                 {"\x28\xb5\x2f\xfd", "zstd"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char want[64];
        ax_prepare_result r;
        write_text("a.txt", files[i].bytes);
        ax_data_options data = from("a.txt");
        ax_prepare_options o = {.out = "out", .threads = 1};
        assert_int_equal(try(&data, &o, bytes, NULL, &r), AX_EUSAGE);
        snprintf(want, sizeof want, "a.txt: this is a %s file, not text: ", files[i].name);
        assert_non_null(strstr(ax_error_text(), want));
    }
}

static bool always(void *ctx)
{
    ++*(int *)ctx;
    return true;
}

static void who_asks_to_stop_gets_nothing(void **state)
{
    (void)state;
    int asked = 0;
    write_mixed("a.jsonl", 20000);
    ax_data_options data = from("a.jsonl");
    ax_prepare_options o = {.out = "out", .threads = 4};
    ax_prepare_result r;
    assert_int_equal(try(&data, &o, bytes, &(ax_prepare_stop){always, &asked}, &r), AX_EIO);
    assert_int_equal(asked, 1);
    assert_int_equal(files_here(), 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, empty_folder)
    const struct CMUnitTest tests[] = {
        CASE(documents_come_in_order_each_with_its_end),
        CASE(special_tokens_in_a_text_are_text_unless_asked_for),
        CASE(a_document_can_have_a_beginning),
        CASE(any_number_of_threads_writes_the_same_files),
        CASE(the_ids_are_those_of_the_tokenizer),
        CASE(a_bad_line_stops_or_is_skipped),
        CASE(what_cannot_be_prepared_is_refused),
        CASE(a_long_text_is_cut_and_keeps_its_ids),
        CASE(memory_does_not_grow_with_a_text),
        CASE(a_text_that_fails_late_is_skipped_as_a_whole),
        CASE(packed_files_are_no_text),
        CASE(who_asks_to_stop_gets_nothing),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}

// Training: the merges are those of the Hugging Face trainer on the same text (trained.json, which
// make_tokenizers.py makes), and the file is a tokenizer.
#include "base/log.h"
#include "data/bpe_train.h"
#include "data/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

static json_t *golden(void)
{
    json_t *root = json_load_file(AX_GOLDEN "/trained.json", 0, NULL);
    assert_non_null(root);
    return root;
}

static void train(const char *text, size_t n, int64_t vocab, ax_text *json, int64_t *tokens)
{
    ax_bpe_trainer *t;
    assert_int_equal(ax_bpe_trainer_open(&t), AX_OK);
    assert_int_equal(ax_bpe_trainer_add(t, text, n), AX_OK);
    assert_int_equal(ax_bpe_trainer_run(t, vocab, json, tokens), AX_OK);
    ax_bpe_trainer_close(t);
}

static void the_merges_are_those_of_the_library(void **state)
{
    (void)state;
    json_t *root = golden();
    const json_t *text = json_object_get(root, "text");
    ax_text json = {0};
    int64_t tokens;
    train(json_string_value(text), json_string_length(text), 600, &json, &tokens);
    json_t *ours = json_loadb(json.text, json.length, JSON_REJECT_DUPLICATES, NULL);
    const json_t *model = json_object_get(ours, "model");
    assert_true(json_equal(json_object_get(model, "merges"), json_object_get(root, "merges")));
    assert_int_equal(tokens, json_object_size(json_object_get(model, "vocab")));
    json_decref(ours);
    json_decref(root);
    ax_text_fini(&json);
}

static void what_was_trained_encodes_every_byte(void **state)
{
    (void)state;
    char bytes[256];
    ax_text json = {0}, back = {0};
    ax_tokenizer *t;
    ax_ids ids = {0};
    int64_t tokens;
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    train("aaaa aaaa abab abab", 19, 300, &json, &tokens);
    assert_int_equal(ax_tokenizer_parse("trained", json.text, json.length, &t), AX_OK);
    assert_int_equal(ax_tokenizer_vocab(t), tokens);
    assert_int_equal(ax_tokenizer_eod(t), tokens - 1);
    assert_int_equal(ax_tokenizer_encode(t, bytes, sizeof bytes, &ids), AX_OK);
    ax_decoder d = {.tokenizer = t, .exact = true};
    for (int64_t i = 0; i < ids.count; i++)
        assert_int_equal(ax_decoder_push(&d, ids.id[i], &back), AX_OK);
    ax_decoder_finish(&d, &back);
    assert_int_equal(back.length, sizeof bytes);
    assert_memory_equal(back.text, bytes, sizeof bytes);
    ax_text_fini(&back);
    ax_text_fini(&json);
    ax_ids_fini(&ids);
    ax_tokenizer_close(t);
}

// ---- files

static char *train_file(const char *name, const void *bytes, size_t count)
{
    char path[64] = "/tmp/axonn-test-train-XXXXXX";
    assert_non_null(mkdtemp(path));
    char *folder = strdup(path), file[128];
    snprintf(file, sizeof file, "%s/%s", folder, name);
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
    ax_bpe_trainer *t;
    ax_text json = {0};
    int64_t tokens;
    assert_int_equal(ax_bpe_trainer_open(&t), AX_OK);
    if (ax_bpe_trainer_add_file(t, file, "text") == AX_OK)
        assert_int_equal(ax_bpe_trainer_run(t, 300, &json, &tokens), AX_OK);
    ax_bpe_trainer_close(t);
    unlink(file);
    rmdir(folder);
    free(folder);
    return json.text; // NULL: refused
}

static void texts_lines_and_packed_files_train_the_same(void **state)
{
    (void)state;
    static const char text[] = "aaaa aaaa abab \xc3\xa9t\xc3\xa9";
    static const char lines[] = "\xEF\xBB\xBF{\"text\":\"aaaa aaaa\"}\r\n\n"
                                "{\"text\":\" abab\",\"id\":99999999999999999999}\n"
                                "{\"prompt\":\" \\u00e9t\",\"completion\":\"\xc3\xa9\"}";
    char packed[2][256];
    size_t n = ZSTD_compress(packed[0], sizeof packed[0], text, sizeof text - 1, 1);
    size_t m = ZSTD_compress(packed[1], sizeof packed[1], lines, sizeof lines - 1, 1);
    char *want = train_file("a.txt", text, sizeof text - 1);
    char *got[] = {train_file("a.jsonl", lines, sizeof lines - 1),
                   train_file("a.txt.zst", packed[0], n), train_file("a.jsonl.zst", packed[1], m)};
    assert_non_null(want);
    for (int i = 0; i < 3; i++) {
        assert_non_null(got[i]);
        assert_string_equal(got[i], want);
        free(got[i]);
    }
    free(want);
}

static void a_line_that_is_no_document_is_named(void **state)
{
    (void)state;
    static const char lines[] = "{\"text\":\"a\"}\n{\"txt\":1}\n";
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    assert_null(train_file("a.jsonl", lines, sizeof lines - 1));
    assert_non_null(strstr(ax_error_text(), "a.jsonl:2: "));
    assert_null(train_file("a.jsonl.zst", lines, sizeof lines - 1));
    assert_non_null(strstr(ax_error_text(), "no zstd stream"));
}

static void no_text_gives_the_bytes_and_too_small_a_vocabulary_is_refused(void **state)
{
    (void)state;
    ax_bpe_trainer *t;
    ax_text json = {0};
    int64_t tokens;
    train("", 0, 1000, &json, &tokens);
    assert_int_equal(tokens, 257);
    ax_text_fini(&json);
    assert_int_equal(ax_bpe_trainer_open(&t), AX_OK);
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    assert_int_equal(ax_bpe_trainer_run(t, 256, &json, &tokens), AX_EUSAGE);
    ax_bpe_trainer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_merges_are_those_of_the_library),
        cmocka_unit_test(what_was_trained_encodes_every_byte),
        cmocka_unit_test(texts_lines_and_packed_files_train_the_same),
        cmocka_unit_test(a_line_that_is_no_document_is_named),
        cmocka_unit_test(no_text_gives_the_bytes_and_too_small_a_vocabulary_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

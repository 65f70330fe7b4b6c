// Training: the merges are those of the Hugging Face trainer on the same text (trained.json, which
// make_tokenizers.py makes), and the file is a tokenizer.
#include "base/log.h"
#include "data/bpe_train.h"
#include "data/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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
        cmocka_unit_test(no_text_gives_the_bytes_and_too_small_a_vocabulary_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

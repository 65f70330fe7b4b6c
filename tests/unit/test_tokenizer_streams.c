// Streams of ids, threads that share a tokenizer, long words, and the ends of documents.
#include "base/log.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { GPT2, LLAMA2, LLAMA3, KINDS };
static ax_tokenizer *kind[KINDS];

static int open_all(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2", "llama2", "llama3"};
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    for (int i = 0; i < KINDS; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.json", AX_GOLDEN, names[i]);
        if (ax_tokenizer_open(path, &kind[i]) != AX_OK)
            return 1;
    }
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++)
        ax_tokenizer_close(kind[i]);
    return 0;
}

static void encode(const ax_tokenizer *t, const char *text, size_t n, ax_ids *ids)
{
    ids->count = 0;
    assert_int_equal(ax_tokenizer_encode(t, text, n, ids), AX_OK);
}

static void every_piece_of_a_stream_is_whole_characters(void **state)
{
    (void)state;
    static const char text[] =
        "na\xC3\xAFve \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80\xF0\x9F\x9A\x80 "
        "\xE0\xA4\xA8\xE0\xA4\xAE end";
    for (int k = 0; k < KINDS; k++) {
        ax_ids ids = {0};
        ax_text all = {0};
        encode(kind[k], text, sizeof text - 1, &ids);
        ax_decoder d = {.tokenizer = kind[k]};
        for (int64_t i = 0; i < ids.count; i++) {
            ax_text piece = {0};
            assert_int_equal(ax_decoder_push(&d, ids.id[i], &piece), AX_OK);
            assert_int_equal(ax_utf8_valid(piece.text ? piece.text : "", piece.length),
                             piece.length);
            ax_bytes_add(&all, piece.text ? piece.text : "", piece.length);
            ax_text_fini(&piece);
        }
        ax_decoder_finish(&d, &all);
        assert_string_equal(all.text, text);
        ax_text_fini(&all);
        ax_ids_fini(&ids);
    }
}

static void decode_text(const ax_tokenizer *t, const char *bytes, size_t n, bool exact,
                        const char *want, size_t want_length)
{
    ax_ids ids = {0};
    ax_text out = {0};
    encode(t, bytes, n, &ids);
    ax_decoder d = {.tokenizer = t, .exact = exact};
    for (int64_t i = 0; i < ids.count; i++)
        assert_int_equal(ax_decoder_push(&d, ids.id[i], &out), AX_OK);
    ax_decoder_finish(&d, &out);
    assert_int_equal(out.length, want_length);
    assert_memory_equal(out.text, want, want_length);
    ax_text_fini(&out);
    ax_ids_fini(&ids);
}

static void broken_bytes_become_replacement_characters_unless_exact(void **state)
{
    (void)state;
#define BAD "\xEF\xBF\xBD"
    decode_text(kind[GPT2], "a\xE2\x82|\xFF", 5, false, "a" BAD "|" BAD, 8);
    decode_text(kind[LLAMA2], "a\xE2\x82|\xFF", 5, false, "a" BAD BAD "|" BAD, 11);
    decode_text(kind[GPT2], "a\xE2\x82", 3, false, "a" BAD, 4);
    for (int k = 0; k < KINDS; k++)
        decode_text(kind[k], "a\xE2\x82|\xFF", 5, true, "a\xE2\x82|\xFF", 5);
}

static void special_tokens_in_a_text_are_text_unless_asked_for(void **state)
{
    (void)state;
    static const char text[] = "a<|end_of_text|>b";
    ax_ids ids = {0};
    ax_encoder *e;
    int32_t id = ax_tokenizer_find(kind[LLAMA3], "<|end_of_text|>");
    assert_true(id > 0);
    assert_true(ax_tokenizer_is_special(kind[LLAMA3], id));
    assert_int_equal(ax_tokenizer_eod(kind[LLAMA3]), id);
    encode(kind[LLAMA3], text, sizeof text - 1, &ids);
    for (int64_t i = 0; i < ids.count; i++)
        assert_int_not_equal(ids.id[i], id);
    assert_int_equal(ax_encoder_open(kind[LLAMA3], AX_LITERALS_ARE_TOKENS, &e), AX_OK);
    ids.count = 0;
    assert_int_equal(ax_encoder_encode(e, text, sizeof text - 1, &ids), AX_OK);
    assert_int_equal(ids.count, 3);
    assert_int_equal(ids.id[1], id);
    ax_encoder_close(e);
    ax_ids_fini(&ids);
}

// ---- threads

static const char shared_text[] =
    "The quick brown fox, doesn't it?  12345 \xC3\xBC\xE6\x97\xA5 \xFF";

static void *encode_often(void *state)
{
    const ax_tokenizer *t = state;
    ax_ids first = {0}, ids = {0};
    intptr_t wrong = ax_tokenizer_encode(t, shared_text, sizeof shared_text - 1, &first) != AX_OK;
    for (int i = 0; i < 200; i++) {
        ids.count = 0;
        wrong += ax_tokenizer_encode(t, shared_text, sizeof shared_text - 1, &ids) != AX_OK;
        wrong += ids.count != first.count ||
                 memcmp(ids.id, first.id, (size_t)ids.count * sizeof *ids.id) != 0;
    }
    ax_ids_fini(&first);
    ax_ids_fini(&ids);
    return (void *)wrong;
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, encode_often, kind[i % KINDS]), 0);
    for (int i = 0; i < 8; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        assert_null(wrong);
    }
}

// ---- long words

static double encode_seconds(const ax_tokenizer *t, const char *text, size_t n)
{
    ax_ids ids = {0};
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    encode(t, text, n, &ids);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    ax_ids_fini(&ids);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

// Quadratic work would take 256 times as long, and for hours.
static void a_line_without_blanks_takes_time_in_proportion(void **state)
{
    (void)state;
    enum { SHORT = 1 << 17, LONG = 16 * SHORT };
    static const char *const units[] = {"a", " ", "ab", "quick", "\n"};
    char *text = malloc(LONG);
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        size_t n = strlen(units[u]);
        for (size_t i = 0; i < LONG; i++)
            text[i] = units[u][i % n];
        for (int k = 0; k < KINDS; k++) {
            double one = encode_seconds(kind[k], text, SHORT);
            double many = encode_seconds(kind[k], text, LONG);
            if (many > 100 * one && many > 2)
                fail_msg("kind %d, '%s': %g s for %d bytes, %g s for %d", k, units[u], one, SHORT,
                         many, LONG);
        }
    }
    free(text);
}

// ---- directories

static void write_to(const char *folder, const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void the_directory_names_the_tokens_that_frame_a_document(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_tokenizer_XXXXXX", command[128];
    ax_tokenizer *t;
    assert_non_null(mkdtemp(folder));
    write_to(folder, "tokenizer.json",
             "{\"model\":{\"vocab\":{\"a\":0,\"</s>\":1,\"<end>\":2,\"<go>\":3},\"merges\":[]}}");
    assert_int_equal(ax_tokenizer_open(folder, &t), AX_OK);
    assert_int_equal(ax_tokenizer_eod(t), 1);
    assert_int_equal(ax_tokenizer_bos(t), -1);
    assert_int_equal(ax_tokenizer_vocab(t), 4);
    ax_tokenizer_close(t);
    // A length of 10^30 is what real files say.
    write_to(folder, "tokenizer_config.json",
             "{\"eos_token\":{\"content\":\"<end>\"},\"bos_token\":\"<go>\","
             "\"model_max_length\":1000000000000000019884624838656}");
    assert_int_equal(ax_tokenizer_open(folder, &t), AX_OK);
    assert_int_equal(ax_tokenizer_eod(t), 2);
    assert_int_equal(ax_tokenizer_bos(t), 3);
    ax_tokenizer_close(t);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_of_a_stream_is_whole_characters),
        cmocka_unit_test(broken_bytes_become_replacement_characters_unless_exact),
        cmocka_unit_test(special_tokens_in_a_text_are_text_unless_asked_for),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(a_line_without_blanks_takes_time_in_proportion),
        cmocka_unit_test(the_directory_names_the_tokens_that_frame_a_document),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

// Ids and decoded texts against those that the Hugging Face library gave, in tests/golden.
#include "base/log.h"
#include "data/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const kinds[] = {"gpt2", "llama2", "llama3"};

static char *golden(const char *name)
{
    char *path;
    assert_true(asprintf(&path, "%s/%s", AX_GOLDEN, name) > 0);
    return path;
}

static json_t *load(const char *name)
{
    char *path = golden(name);
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    assert_non_null(root);
    free(path);
    return root;
}

static void open_kind(const char *kind, ax_tokenizer **t)
{
    char name[64];
    snprintf(name, sizeof name, "%s.json", kind);
    char *path = golden(name);
    assert_int_equal(ax_tokenizer_open(path, t), AX_OK);
    free(path);
}

static size_t from_hex(const char *hex, char *out)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        sscanf(hex + 2 * i, "%2x", &byte);
        out[i] = (char)byte;
    }
    return n;
}

static bool same_ids(const ax_ids *ids, const json_t *want)
{
    if ((size_t)ids->count != json_array_size(want))
        return false;
    for (int64_t i = 0; i < ids->count; i++)
        if (ids->id[i] != json_integer_value(json_array_get(want, (size_t)i)))
            return false;
    return true;
}

static void print_ids(const char *what, const ax_ids *ids)
{
    fprintf(stderr, "%s", what);
    for (int64_t i = 0; i < ids->count && i < 40; i++)
        fprintf(stderr, " %d", ids->id[i]);
    fprintf(stderr, "\n");
}

static bool encodes(ax_encoder *e, const char *text, size_t n, const json_t *want)
{
    ax_ids ids = {0};
    assert_int_equal(ax_encoder_encode(e, text, n, &ids), AX_OK);
    bool same = same_ids(&ids, want);
    if (!same) {
        char *json = json_dumps(want, JSON_COMPACT);
        print_ids("got", &ids);
        fprintf(stderr, "want %.200s\n", json);
        free(json);
    }
    ax_ids_fini(&ids);
    return same;
}

static void decode(const ax_tokenizer *t, const json_t *ids, bool special, bool exact, ax_text *out)
{
    ax_decoder d = {.tokenizer = t, .special = special, .exact = exact};
    for (size_t i = 0; i < json_array_size(ids); i++) {
        int32_t id = (int32_t)json_integer_value(json_array_get(ids, i));
        assert_int_equal(ax_decoder_push(&d, id, out), AX_OK);
    }
    ax_decoder_finish(&d, out);
}

static bool decodes(const ax_tokenizer *t, const json_t *ids, bool special, const char *want,
                    size_t length)
{
    ax_text text = {0};
    decode(t, ids, special, false, &text);
    bool same = text.length == length && memcmp(text.text ? text.text : "", want, length) == 0;
    if (!same)
        fprintf(stderr, "decoded '%s', want '%s'\n", text.text ? text.text : "", want);
    ax_text_fini(&text);
    return same;
}

static FILE *lines_of(const char *name)
{
    char *path = golden(name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    free(path);
    return f;
}

typedef struct kind {
    ax_tokenizer *tokenizer;
    ax_encoder *text, *tokens;
} kind;

static int check_row(const kind *k, const json_t *of, const char *hex, const char *text, size_t n)
{
    const json_t *tokens = json_object_get(of, "tokens"), *ids = json_object_get(of, "text");
    const json_t *decoded = json_object_get(of, "decoded");
    bool same = encodes(k->text, text, n, ids);
    same = encodes(k->tokens, text, n, tokens ? tokens : ids) && same;
    if (decoded)
        same = decodes(k->tokenizer, ids, false, json_string_value(decoded),
                       json_string_length(decoded)) &&
               same;
    ax_text back = {0};
    decode(k->tokenizer, ids, true, true, &back);
    // Where blanks are written as marks, a mark in the text comes back as a blank.
    bool has_mark = memmem(text, n, "\xE2\x96\x81", 3);
    if (!has_mark && (back.length != n || memcmp(back.text ? back.text : "", text, n) != 0)) {
        fprintf(stderr, "does not come back\n");
        same = false;
    }
    ax_text_fini(&back);
    if (!same)
        fprintf(stderr, "%s: text %.100s\n", ax_tokenizer_name(k->tokenizer), hex);
    return !same;
}

static void hostile_texts_have_the_ids_of_the_library(void **state)
{
    (void)state;
    kind k[3];
    int bad = 0, rows = 0;
    for (int i = 0; i < 3; i++) {
        open_kind(kinds[i], &k[i].tokenizer);
        assert_int_equal(ax_encoder_open(k[i].tokenizer, AX_LITERALS_ARE_TEXT, &k[i].text), AX_OK);
        assert_int_equal(ax_encoder_open(k[i].tokenizer, AX_LITERALS_ARE_TOKENS, &k[i].tokens),
                         AX_OK);
    }
    FILE *f = lines_of("hostile.jsonl");
    char *line = NULL;
    size_t room = 0;
    for (; getline(&line, &room, f) > 0; rows++) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        const char *hex = json_string_value(json_object_get(row, "hex"));
        char *text = malloc(strlen(hex) / 2 + 1);
        size_t n = from_hex(hex, text);
        for (int i = 0; i < 3; i++)
            bad += check_row(&k[i], json_object_get(row, kinds[i]), hex, text, n);
        free(text);
        json_decref(row);
    }
    assert_true(rows > 250);
    assert_int_equal(bad, 0);
    free(line);
    fclose(f);
    for (int i = 0; i < 3; i++) {
        ax_encoder_close(k[i].text);
        ax_encoder_close(k[i].tokens);
        ax_tokenizer_close(k[i].tokenizer);
    }
}

// Long words take another way through the merges than short ones.
static void a_long_word_has_the_ids_of_the_library(void **state)
{
    (void)state;
    enum { LETTERS = 40000 };
    char *text = malloc(LETTERS), name[32];
    long long count;
    unsigned long long want;
    uint32_t x = 1;
    for (int i = 0; i < LETTERS; i++) {
        x = (x * 1103515245u + 12345u) & 0x7FFFFFFF;
        text[i] = "aehtnios"[x >> 16 & 7];
    }
    FILE *f = lines_of("long_sums.txt");
    while (fscanf(f, "%31s %lld %llx", name, &count, &want) == 3) {
        ax_tokenizer *t;
        ax_ids ids = {0};
        unsigned long long hash = 0xCBF29CE484222325u;
        open_kind(name, &t);
        assert_int_equal(ax_tokenizer_encode(t, text, LETTERS, &ids), AX_OK);
        for (int64_t i = 0; i < ids.count; i++)
            for (int j = 0; j < 32; j += 8)
                hash = (hash ^ ((uint32_t)ids.id[i] >> j & 0xFF)) * 0x100000001B3u;
        assert_int_equal(ids.count, count);
        assert_true(hash == want);
        ax_ids_fini(&ids);
        ax_tokenizer_close(t);
    }
    fclose(f);
    free(text);
}

// ---- two files instead of one

static void write_to(const char *folder, const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

// vocab.json and merges.txt, as GPT-2 has them, of gpt2.json.
static void write_pair(const char *folder)
{
    json_t *root = load("gpt2.json"), *merge;
    const json_t *model = json_object_get(root, "model");
    char *vocab = json_dumps(json_object_get(model, "vocab"), 0), path[4096];
    size_t i;
    write_to(folder, "vocab.json", vocab);
    snprintf(path, sizeof path, "%s/merges.txt", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#version: 0.2\n");
    json_array_foreach(json_object_get(model, "merges"), i, merge)
    {
        if (json_is_string(merge))
            fprintf(f, "%s\n", json_string_value(merge));
        else
            fprintf(f, "%s %s\n", json_string_value(json_array_get(merge, 0)),
                    json_string_value(json_array_get(merge, 1)));
    }
    assert_int_equal(fclose(f), 0);
    free(vocab);
    json_decref(root);
}

static void remove_folder(const char *folder)
{
    char command[4200];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void vocab_and_merges_are_the_same_tokenizer_as_the_json(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_tokenizer_XXXXXX", *line = NULL;
    size_t room = 0;
    kind k;
    int bad = 0;
    assert_non_null(mkdtemp(folder));
    write_pair(folder);
    assert_int_equal(ax_tokenizer_open(folder, &k.tokenizer), AX_OK);
    assert_int_equal(ax_encoder_open(k.tokenizer, AX_LITERALS_ARE_TEXT, &k.text), AX_OK);
    assert_int_equal(ax_encoder_open(k.tokenizer, AX_LITERALS_ARE_TOKENS, &k.tokens), AX_OK);
    FILE *f = lines_of("hostile.jsonl");
    while (getline(&line, &room, f) > 0) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        const char *hex = json_string_value(json_object_get(row, "hex"));
        char *text = malloc(strlen(hex) / 2 + 1);
        size_t n = from_hex(hex, text);
        bad += check_row(&k, json_object_get(row, "gpt2"), hex, text, n);
        free(text);
        json_decref(row);
    }
    assert_int_equal(bad, 0);
    free(line);
    fclose(f);
    ax_encoder_close(k.text);
    ax_encoder_close(k.tokens);
    ax_tokenizer_close(k.tokenizer);
    remove_folder(folder);
}

static void encode_as_tokens(const char *folder, const char *text, ax_tokenizer **t, ax_ids *ids)
{
    ax_encoder *e;
    assert_int_equal(ax_tokenizer_open(folder, t), AX_OK);
    assert_int_equal(ax_encoder_open(*t, AX_LITERALS_ARE_TOKENS, &e), AX_OK);
    ids->count = 0;
    assert_int_equal(ax_encoder_encode(e, text, strlen(text), ids), AX_OK);
    ax_encoder_close(e);
}

// The ids are those of GPT2TokenizerFast on the same directories.
static void what_stands_beside_vocab_and_merges_is_read(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_tokenizer_XXXXXX";
    static const char text[] = "the<pad>the<|endoftext|><fact>";
    ax_tokenizer *t;
    ax_ids ids = {0};
    assert_non_null(mkdtemp(folder));
    write_pair(folder);
    write_to(folder, "added_tokens.json", "{\"<pad>\":700,\"<fact>\":701}");
    write_to(folder, "tokenizer_config.json",
             "{\"pad_token\":\"<pad>\",\"add_prefix_space\":true}");
    encode_as_tokens(folder, text, &t, &ids);
    int32_t the = ax_tokenizer_find(t, "\xC4\xA0the"), end = ax_tokenizer_eod(t);
    assert_true(the > 0 && end >= 0);
    assert_int_equal(ax_tokenizer_vocab(t), 702);
    assert_true(ax_tokenizer_is_special(t, 700) && !ax_tokenizer_is_special(t, 701));
    const int32_t want[] = {the, 700, the, end, 701};
    assert_int_equal(ids.count, 5);
    assert_memory_equal(ids.id, want, sizeof want);
    ax_tokenizer_close(t);

    write_to(folder, "tokenizer_config.json",
             "{\"added_tokens_decoder\":{\"700\":{\"content\":\"<fact>\",\"special\":false},"
             "\"701\":{\"content\":\"<pad>\",\"special\":true,\"lstrip\":true}}}");
    encode_as_tokens(folder, "a <pad>", &t, &ids);
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.id[0], ax_tokenizer_find(t, "a"));
    assert_int_equal(ids.id[1], 701);
    ax_tokenizer_close(t);

    static const char *const bad[] = {"{\"added_tokens_decoder\":{\"x\":{}}}",
                                      "{\"added_tokens_decoder\":{\"7\":3}}",
                                      "{\"add_prefix_space\":3}"};
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_to(folder, "tokenizer_config.json", bad[i]);
        assert_int_equal(ax_tokenizer_open(folder, &t), AX_EFORMAT);
    }
    write_to(folder, "tokenizer_config.json", "{}");
    write_to(folder, "added_tokens.json", "[1]");
    assert_int_equal(ax_tokenizer_open(folder, &t), AX_EFORMAT);
    write_to(folder, "added_tokens.json", "{\"<pad>\":\"x\"}");
    assert_int_equal(ax_tokenizer_open(folder, &t), AX_EFORMAT);
    ax_ids_fini(&ids);
    remove_folder(folder);
}

// ---- every component

static json_t *with_parts(const json_t *base, json_t *parts)
{
    json_t *whole = json_deep_copy(base), *value;
    const char *key;
    json_object_foreach(parts, key, value)
    {
        if (strcmp(key, "model") == 0)
            json_object_update(json_object_get(whole, key), value);
        else
            json_object_set(whole, key, value);
    }
    return whole;
}

static int check_pipeline(const json_t *base, const json_t *row)
{
    ax_tokenizer *t;
    ax_encoder *e;
    json_t *whole = with_parts(base, json_object_get(row, "parts"));
    char *json = json_dumps(whole, 0), *parts = json_dumps(json_object_get(row, "parts"), 0);
    assert_int_equal(ax_tokenizer_parse("pipeline", json, strlen(json), &t), AX_OK);
    assert_int_equal(ax_encoder_open(t, AX_LITERALS_ARE_TOKENS, &e), AX_OK);
    const json_t *cases = json_object_get(row, "cases"), *one;
    int bad = 0;
    size_t i;
    json_array_foreach(cases, i, one)
    {
        const json_t *text = json_array_get(one, 0), *ids = json_array_get(one, 1);
        const json_t *decoded = json_array_get(one, 2);
        bool same = encodes(e, json_string_value(text), json_string_length(text), ids);
        same =
            decodes(t, ids, true, json_string_value(decoded), json_string_length(decoded)) && same;
        if (!same)
            fprintf(stderr, "%s: text '%s'\n", parts, json_string_value(text));
        bad += !same;
    }
    ax_encoder_close(e);
    ax_tokenizer_close(t);
    json_decref(whole);
    free(json);
    free(parts);
    return bad;
}

static void every_component_gives_the_ids_and_texts_of_the_library(void **state)
{
    (void)state;
    json_t *base = load("pipeline.json");
    FILE *f = lines_of("pipelines.jsonl");
    char *line = NULL;
    size_t room = 0;
    int bad = 0, rows = 0;
    for (; getline(&line, &room, f) > 0; rows++) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        bad += check_pipeline(base, row);
        json_decref(row);
    }
    assert_true(rows > 60);
    assert_int_equal(bad, 0);
    free(line);
    fclose(f);
    json_decref(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_texts_have_the_ids_of_the_library),
        cmocka_unit_test(a_long_word_has_the_ids_of_the_library),
        cmocka_unit_test(vocab_and_merges_are_the_same_tokenizer_as_the_json),
        cmocka_unit_test(what_stands_beside_vocab_and_merges_is_read),
        cmocka_unit_test(every_component_gives_the_ids_and_texts_of_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

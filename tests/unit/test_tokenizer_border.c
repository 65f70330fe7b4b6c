// Texts cut at the places that ax_tokenizer_border names: the ids of the parts are those of the
// whole, for every tokenizer and pipeline of the goldens, on hostile texts, at every place.
#include "base/log.h"
#include "data/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct tally {
    int places, wrong;
} tally;

static void check_cut(ax_encoder *e, const char *text, size_t n, size_t at, const ax_ids *whole,
                      tally *count)
{
    ax_ids parts = {0};
    assert_int_equal(ax_encoder_encode(e, text, at, &parts), AX_OK);
    assert_int_equal(ax_encoder_continue(e, text + at, n - at, at, &parts), AX_OK);
    bool same = parts.count == whole->count &&
                (parts.count == 0 ||
                 memcmp(parts.id, whole->id, (size_t)parts.count * sizeof *parts.id) == 0);
    count->places++;
    count->wrong += !same;
    if (!same && count->wrong < 5)
        fprintf(stderr, "cut at byte %zu of '%.*s'\n", at, (int)n, text);
    ax_ids_fini(&parts);
}

// A tokenizer with an encoder for each policy of literals.
typedef struct subject {
    const ax_tokenizer *t;
    ax_encoder *e[2];
} subject;

// Every place of a text, from the last to the first.
static void check_text(const subject *s, ax_literals literals, const char *text, size_t n,
                       tally *count)
{
    ax_encoder *e = s->e[literals];
    ax_ids whole = {0};
    if (ax_encoder_encode(e, text, n, &whole) == AX_OK)
        for (size_t at = n; (at = ax_tokenizer_border(s->t, literals, text, at)) > 0;) {
            if (at == n) { // the tokenizer of bytes: everywhere
                check_cut(e, text, n, n / 2, &whole, count);
                break;
            }
            check_cut(e, text, n, at, &whole, count);
        }
    ax_ids_fini(&whole);
}

// Texts whose middle is a place, between what might reach over it.
static void check_around(const subject *s, const char *left, const char *right, tally *count)
{
    static const char *const middles[] = {
        "a\nb",     "b\n",    "Z\n\n",  "e\n e",          "x\n\t x",     "y\n\r\ny",
        "the\nthe", "a\n1",   "e\n's",  "e\n-",           "T\n\xc3\xa9", "a\n\xcc\x81",
        "end.\n",   ".\nThe", ")\n\nA", ".\r\nA",         "a\r\n",       "\xd0\xb0.\n\xd0\x91",
        "1\n2",     "1\nb",   ">\nA",   "!\n\xe1\x85\xa1"};
    char text[512];
    for (size_t i = 0; i < sizeof middles / sizeof middles[0]; i++) {
        snprintf(text, sizeof text, "%s%s%s", left, middles[i], right);
        check_text(s, AX_LITERALS_ARE_TEXT, text, strlen(text), count);
        check_text(s, AX_LITERALS_ARE_TOKENS, text, strlen(text), count);
    }
}

static const char *const ends[] = {"",
                                   " ",
                                   "word ",
                                   "  ",
                                   "don't",
                                   "12 345",
                                   "\r\n",
                                   "--",
                                   "<S>",
                                   "<L>",
                                   "<R>",
                                   "<N>",
                                   " <W>",
                                   "<|endoftext|>",
                                   "<|end|>",
                                   "</s>",
                                   "\xe2\x96\x81",
                                   ("\xe2\x96\x81"
                                    "a"),
                                   "\xff\xfe",
                                   "a\xcc\x81",
                                   "XX",
                                   "the<T>the"};

static void check_tokenizer(const ax_tokenizer *t, tally *count)
{
    size_t n = sizeof ends / sizeof ends[0];
    subject s = {.t = t};
    for (int literals = 0; literals < 2; literals++)
        assert_int_equal(ax_encoder_open(t, (ax_literals)literals, &s.e[literals]), AX_OK);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            check_around(&s, ends[i], ends[j], count);
    ax_encoder_close(s.e[0]);
    ax_encoder_close(s.e[1]);
}

static tally check_file(const char *name)
{
    char path[4096];
    ax_tokenizer *t;
    tally count = {0};
    snprintf(path, sizeof path, "%s/%s.json", AX_GOLDEN, name);
    assert_int_equal(ax_tokenizer_open(path, &t), AX_OK);
    check_tokenizer(t, &count);
    ax_tokenizer_close(t);
    print_message("%s: %d cuts, %d wrong\n", name, count.places, count.wrong);
    return count;
}

static void parts_have_the_ids_of_the_whole(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2", "llama2", "llama3"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tally count = check_file(names[i]);
        assert_true(count.places > 1000);
        assert_int_equal(count.wrong, 0);
    }
}

// Some pipelines have no places; those that have keep their ids.
static void parts_of_every_pipeline_have_the_ids_of_the_whole(void **state)
{
    (void)state;
    json_t *base = json_load_file(AX_GOLDEN "/pipeline.json", 0, NULL);
    FILE *f = fopen(AX_GOLDEN "/pipelines.jsonl", "r");
    char *line = NULL;
    size_t room = 0;
    int with_places = 0, rows = 0;
    tally all = {0};
    assert_non_null(base);
    assert_non_null(f);
    for (; getline(&line, &room, f) > 0; rows++) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL), *whole = json_deep_copy(base);
        json_t *parts = json_object_get(row, "parts"), *value;
        const char *key;
        ax_tokenizer *t;
        tally count = {0};
        json_object_foreach(parts, key, value)
        {
            if (strcmp(key, "model") == 0)
                json_object_update(json_object_get(whole, key), value);
            else
                json_object_set(whole, key, value);
        }
        char *json = json_dumps(whole, 0), *text = json_dumps(parts, 0);
        assert_int_equal(ax_tokenizer_parse("pipeline", json, strlen(json), &t), AX_OK);
        check_tokenizer(t, &count);
        if (count.wrong)
            fprintf(stderr, "%s: %d of %d cuts wrong\n", text, count.wrong, count.places);
        with_places += count.places > 0;
        all.places += count.places;
        all.wrong += count.wrong;
        ax_tokenizer_close(t);
        free(json);
        free(text);
        json_decref(whole);
        json_decref(row);
    }
    print_message("%d of %d pipelines may be cut; %d cuts, %d wrong\n", with_places, rows,
                  all.places, all.wrong);
    assert_true(with_places > 5 && with_places < rows);
    assert_int_equal(all.wrong, 0);
    free(line);
    fclose(f);
    json_decref(base);
}

// A special token that is text here still hides what overlaps it: one that spans lines leaves no
// place.
static void a_special_token_of_two_lines_leaves_no_place(void **state)
{
    (void)state;
    static const char json[] =
        "{\"added_tokens\":[{\"id\":4,\"content\":\"%s\",\"special\":true}],\"pre_tokenizer\":{"
        "\"type\":"
        "\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,"
        "\"b\":1,\"\xc4\x8a\":2,\"</s>\":3},\"merges\":[]}}";
    for (int lines = 1; lines <= 2; lines++) {
        char text[1024];
        ax_tokenizer *t;
        snprintf(text, sizeof text, json, lines == 1 ? "<ab>" : "<a\\nb>");
        assert_int_equal(ax_tokenizer_parse("special", text, strlen(text), &t), AX_OK);
        size_t at = ax_tokenizer_border(t, AX_LITERALS_ARE_TEXT, "aa\nbb", 5);
        assert_int_equal(at, lines == 1 ? 3 : 0);
        ax_tokenizer_close(t);
    }
}

static void bytes_may_be_cut_anywhere(void **state)
{
    (void)state;
    ax_tokenizer *t;
    tally count = {0};
    assert_int_equal(ax_tokenizer_open("byte", &t), AX_OK);
    assert_int_equal(ax_tokenizer_border(t, AX_LITERALS_ARE_TEXT, "123", 3), 3);
    check_tokenizer(t, &count);
    assert_true(count.places > 0);
    assert_int_equal(count.wrong, 0);
    ax_tokenizer_close(t);
}

int main(void)
{
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true}); // some texts are refused
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_the_ids_of_the_whole),
        cmocka_unit_test(parts_of_every_pipeline_have_the_ids_of_the_whole),
        cmocka_unit_test(a_special_token_of_two_lines_leaves_no_place),
        cmocka_unit_test(bytes_may_be_cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

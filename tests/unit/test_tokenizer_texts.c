// Whole texts with published tokenizers: the ids are those of the Hugging Face library, by number
// and hash (tests/golden/tokenizers/text_sums.txt). The files are large and not part of the
// repository: AXONN_TEST_DATA names the directory that holds tokenizers/ and text/.
#include "data/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *data_folder(void)
{
    const char *folder = getenv("AXONN_TEST_DATA");
    return folder && *folder ? folder : NULL;
}

// A tokenizer.json may lie there compressed.
static ax_status open_packed(const char *path, ax_tokenizer **out)
{
    char command[4400];
    size_t room = 32 << 20, n = 0;
    char *json = malloc(room);
    snprintf(command, sizeof command, "gzip -dc '%s'", path);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    assert_non_null(json);
    for (size_t got; (got = fread(json + n, 1, room - n, p)) > 0;)
        n += got;
    pclose(p);
    ax_status st = ax_tokenizer_parse(path, json, n, out);
    free(json);
    return st;
}

static ax_status open_named(const char *name, ax_tokenizer **out)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tokenizers/%s/tokenizer.json.gz", data_folder(), name);
    if (access(path, R_OK) == 0)
        return open_packed(path, out);
    snprintf(path, sizeof path, "%s/tokenizers/%s", data_folder(), name);
    return ax_tokenizer_open(path, out);
}

static uint64_t hash_ids(uint64_t h, const ax_ids *ids)
{
    for (int64_t i = 0; i < ids->count; i++)
        for (int j = 0; j < 32; j += 8)
            h = (h ^ ((uint32_t)ids->id[i] >> j & 0xFF)) * 0x100000001B3u;
    return h;
}

static void check(const char *name, const char *file, long long count, uint64_t want)
{
    char path[4096], *line = NULL;
    size_t room = 0;
    ax_tokenizer *t;
    ax_ids ids = {0};
    uint64_t hash = 0xCBF29CE484222325u;
    long long found = 0;
    assert_int_equal(open_named(name, &t), AX_OK);
    snprintf(path, sizeof path, "%s/text/%s", data_folder(), file);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (ssize_t n; (n = getline(&line, &room, f)) > 0;) {
        json_t *object = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        const json_t *text = json_object_get(object, "text");
        ids.count = 0;
        assert_int_equal(
            ax_tokenizer_encode(t, json_string_value(text), json_string_length(text), &ids), AX_OK);
        hash = hash_ids(hash, &ids);
        found += ids.count;
        json_decref(object);
    }
    if (found != count || hash != want)
        fail_msg("%s on %s: %lld ids, hash %016llx; the library gives %lld, %016llx", name, file,
                 found, (unsigned long long)hash, count, (unsigned long long)want);
    fclose(f);
    free(line);
    ax_ids_fini(&ids);
    ax_tokenizer_close(t);
}

static void whole_texts_have_the_ids_of_the_library(void **state)
{
    (void)state;
    char name[64], file[256];
    long long count;
    unsigned long long hash;
    if (!data_folder()) {
        fprintf(stderr, "skipped: AXONN_TEST_DATA names no directory with tokenizers/ and text/\n");
        skip();
    }
    FILE *f = fopen(AX_GOLDEN "/text_sums.txt", "r");
    assert_non_null(f);
    while (fscanf(f, "%63s %255s %lld %llx", name, file, &count, &hash) == 4)
        check(name, file, count, hash);
    fclose(f);
}

// GPT-2's older pair of files is the same tokenizer.
static void vocab_and_merges_are_the_same_tokenizer_as_the_json(void **state)
{
    (void)state;
    static const char text[] =
        "It's 1984:\r\n <|endoftext|> na\xC3\xAFve \xF0\x9F\x98\x80  \xFF end ";
    char folder[] = "/tmp/test_tokenizer_XXXXXX", command[8400];
    ax_tokenizer *one, *two;
    ax_ids a = {0}, b = {0};
    if (!data_folder()) {
        fprintf(stderr, "skipped: AXONN_TEST_DATA names no directory with tokenizers/ and text/\n");
        skip();
    }
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command,
             "cp '%s/tokenizers/gpt2/vocab.json' '%s/tokenizers/gpt2/merges.txt' %s", data_folder(),
             data_folder(), folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(open_named("gpt2", &one), AX_OK);
    assert_int_equal(ax_tokenizer_open(folder, &two), AX_OK);
    assert_int_equal(ax_tokenizer_vocab(one), ax_tokenizer_vocab(two));
    assert_int_equal(ax_tokenizer_eod(one), 50256);
    assert_int_equal(ax_tokenizer_eod(two), 50256);
    assert_int_equal(ax_tokenizer_encode(one, text, sizeof text - 1, &a), AX_OK);
    assert_int_equal(ax_tokenizer_encode(two, text, sizeof text - 1, &b), AX_OK);
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.id, b.id, (size_t)a.count * sizeof *a.id);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    ax_ids_fini(&a);
    ax_ids_fini(&b);
    ax_tokenizer_close(one);
    ax_tokenizer_close(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_texts_have_the_ids_of_the_library),
        cmocka_unit_test(vocab_and_merges_are_the_same_tokenizer_as_the_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Files that are not what they claim to be, and components that are not understood: each is
// refused with one message that names the file and the place.
#include "base/log.h"
#include "data/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static int mute(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    return 0;
}

static void refuse(const char *json, size_t length, ax_status want, const char *message)
{
    ax_tokenizer *t = NULL;
    ax_status st = ax_tokenizer_parse("t.json", json, length, &t);
    if (st != want || strcmp(ax_error_text(), message) != 0)
        fail_msg("%.200s\n gave %s: %s\n want %s: %s", json, ax_status_name(st), ax_error_text(),
                 ax_status_name(want), message);
    assert_null(t);
}

typedef struct bad {
    const char *json;
    ax_status st;
    const char *message;
} bad;

static void refuse_all(const bad *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        refuse(list[i].json, strlen(list[i].json), list[i].st, list[i].message);
}
#define REFUSE_ALL(list) refuse_all(list, sizeof(list) / sizeof(list)[0])

#define MODEL(vocab, merges)                                                                       \
    "\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}"
#define PLAIN MODEL("{\"a\":0,\"b\":1,\"ab\":2}", "[\"a b\"]")

static void what_is_no_json_is_refused_with_line_and_byte(void **state)
{
    (void)state;
    static const bad list[] = {
        {"", AX_EFORMAT, "t.json: line 1, byte 0: '[' or '{' expected near end of file"},
        {"{", AX_EFORMAT, "t.json: line 1, byte 1: string or '}' expected near end of file"},
        {"{\"model\":\n{\"vocab\": {\"a\": 0, \"a\": 1}}}", AX_EFORMAT,
         "t.json: line 2, byte 32: duplicate object key near '\"a\"'"},
        {"{\"model\":{\"vocab\":{\"\xff\":0}}}", AX_EFORMAT,
         "t.json: line 1, byte 20: unable to decode byte 0xff near '\"'"},
        {"[]", AX_EFORMAT, "t.json: not a JSON object"},
        {"{}", AX_EFORMAT, "t.json: 'model' must be an object"},
    };
    REFUSE_ALL(list);
}

static void a_vocabulary_must_have_unique_ids_in_proportion_to_its_size(void **state)
{
    (void)state;
    static const bad list[] = {
        {"{" MODEL("[]", "[]") "}", AX_EFORMAT, "t.json: model.vocab must be an object"},
        {"{" MODEL("{}", "[]") "}", AX_EFORMAT, "t.json: there is no token at all"},
        {"{" MODEL("{\"a\":0,\"b\":0}", "[]") "}", AX_EFORMAT,
         "t.json: model.vocab: 'a' and 'b' have the same id 0"},
        {"{" MODEL("{\"a\":-1}", "[]") "}", AX_EFORMAT,
         "t.json: model.vocab: the id of 'a' must be an integer from 0 to 65539"},
        {"{" MODEL("{\"a\":4000000000}", "[]") "}", AX_EFORMAT,
         "t.json: model.vocab: the id of 'a' must be an integer from 0 to 65539"},
        {"{" MODEL("{\"a\":9223372036854775807}", "[]") "}", AX_EFORMAT,
         "t.json: model.vocab: the id of 'a' must be an integer from 0 to 65539"},
        {"{" MODEL("{\"a\":1.5}", "[]") "}", AX_EFORMAT,
         "t.json: model.vocab: the id of 'a' must be an integer from 0 to 65539"},
        {"{" MODEL("{\"a\":\"0\"}", "[]") "}", AX_EFORMAT,
         "t.json: model.vocab: the id of 'a' must be an integer from 0 to 65539"},
    };
    REFUSE_ALL(list);
}

static void merges_must_be_two_known_tokens_that_make_a_third(void **state)
{
    (void)state;
    static const bad list[] = {
        {"{" MODEL("{\"a\":0}", "{}") "}", AX_EFORMAT, "t.json: model.merges must be a list"},
        {"{" MODEL("{\"a\":0}", "[\"a\"]") "}", AX_EFORMAT,
         "t.json: merge 1: 'a' must be two tokens with one blank between"},
        {"{" MODEL("{\"a\":0}", "[\"a  a\"]") "}", AX_EFORMAT,
         "t.json: merge 1: 'a  a' must be two tokens with one blank between"},
        {"{" MODEL("{\"a\":0}", "[[\"a\"]]") "}", AX_EFORMAT,
         "t.json: merge 1 must be \"a b\" or [\"a\", \"b\"]"},
        {"{" MODEL("{\"a\":0}", "[7]") "}", AX_EFORMAT,
         "t.json: merge 1 must be \"a b\" or [\"a\", \"b\"]"},
        {"{" MODEL("{\"a\":0}", "[[\"a\",\"\"]]") "}", AX_EFORMAT,
         "t.json: merge 1 has an empty side"},
        {"{" MODEL("{\"a\":0}", "[[\"a\",\"b\"]]") "}", AX_EFORMAT,
         "t.json: merge 1: 'b' is not in the vocabulary"},
        {"{" MODEL("{\"a\":0,\"b\":1}", "[[\"a\",\"b\"]]") "}", AX_EFORMAT,
         "t.json: merge 1: 'ab' is not in the vocabulary"},
    };
    REFUSE_ALL(list);
}

static void added_tokens_must_agree_with_the_vocabulary(void **state)
{
    (void)state;
    static const bad list[] = {
        {"{\"added_tokens\":{}," PLAIN "}", AX_EFORMAT, "t.json: added_tokens must be a list"},
        {"{\"added_tokens\":[{\"content\":\"x\"}]," PLAIN "}", AX_EFORMAT,
         "t.json: added_tokens[0]: 'id' must be an integer from 0 to 65551"},
        {"{\"added_tokens\":[{\"id\":3}]," PLAIN "}", AX_EFORMAT,
         "t.json: added_tokens[0]: 'content' must be a string"},
        {"{\"added_tokens\":[{\"id\":3,\"content\":\"\"}]," PLAIN "}", AX_EFORMAT,
         "t.json: added_tokens[0]: 'content' is empty"},
        {"{\"added_tokens\":[{\"id\":3,\"content\":\"x\",\"special\":1}]," PLAIN "}", AX_EFORMAT,
         "t.json: added_tokens[0]: 'special' must be true or false"},
        {"{\"added_tokens\":[{\"id\":3,\"content\":\"a\"}]," PLAIN "}", AX_EFORMAT,
         "t.json: added token 'a' has id 3 here and 0 in model.vocab"},
        {"{\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]," PLAIN "}", AX_EFORMAT,
         "t.json: 'b' and the added token 'x' have the same id 1"},
        {"{\"added_tokens\":[{\"id\":3,\"content\":\"x\"},{\"id\":3,\"content\":\"y\"}]," PLAIN "}",
         AX_EFORMAT, "t.json: 'x' and the added token 'y' have the same id 3"},
        {"{\"added_tokens\":[{\"id\":3,\"content\":\"x\"},{\"id\":4,\"content\":\"y\"},"
         "{\"id\":3,\"content\":\"x\",\"lstrip\":true}]," PLAIN "}",
         AX_EFORMAT, "t.json: added token 'x' stands twice"},
        {"{\"added_tokens\":[{\"id\":3,\"content\":\"x\"},{\"id\":4,\"content\":\"x\"}]," PLAIN "}",
         AX_EFORMAT, "t.json: added token 'x' stands twice"},
    };
    REFUSE_ALL(list);
}

#define STEP(key, step) "{\"" key "\":" step "," PLAIN "}"

static void other_components_are_refused_by_name(void **state)
{
    (void)state;
    static const bad list[] = {
        {STEP("normalizer", "{\"type\":\"BertNormalizer\"}"), AX_EUNSUPPORTED,
         "t.json: normalizer 'BertNormalizer' is not supported"},
        {STEP("normalizer", "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Lowercase\"}]}"),
         AX_EUNSUPPORTED, "t.json: normalizer 'Lowercase' is not supported"},
        {STEP("normalizer", "{\"type\":\"Sequence\"}"), AX_EFORMAT,
         "t.json: normalizer: 'normalizers' must be a list"},
        {STEP("normalizer", "7"), AX_EFORMAT, "t.json: normalizer must be an object or null"},
        {STEP("normalizer", "{}"), AX_EFORMAT, "t.json: 'type' must be a string"},
        {STEP("pre_tokenizer", "{\"type\":\"Whitespace\"}"), AX_EUNSUPPORTED,
         "t.json: pre_tokenizer 'Whitespace' is not supported"},
        {STEP("pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
                               "\"behavior\":\"Sideways\"}"),
         AX_EUNSUPPORTED, "t.json: Split has no behavior 'Sideways'"},
        {STEP("pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{},\"behavior\":\"Removed\"}"),
         AX_EFORMAT, "t.json: 'pattern' must hold a 'String' or a 'Regex'"},
        {STEP("pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},"
                               "\"behavior\":\"Removed\"}"),
         AX_EUNSUPPORTED, "t.json: an empty 'pattern' matches everywhere"},
        {STEP("pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},"
                               "\"behavior\":\"Removed\"}"),
         AX_EFORMAT, "t.json: regular expression: missing closing parenthesis, near ''"},
        {STEP("pre_tokenizer",
              "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":"
              "\"Digits\"}]}"),
         AX_EUNSUPPORTED, "t.json: pre_tokenizer 'ByteLevel' must be the last one"},
        {STEP("pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), AX_EFORMAT,
         "t.json: 'replacement' must be one character"},
        {STEP("decoder", "{\"type\":\"WordPiece\"}"), AX_EUNSUPPORTED,
         "t.json: decoder 'WordPiece' is not supported"},
        {STEP("version", "\"2.0\""), AX_EUNSUPPORTED,
         "t.json: version '2.0' is not supported, only '1.0'"},
        {STEP("version", "1"), AX_EUNSUPPORTED, "t.json: version '?' is not supported, only '1.0'"},
        {STEP("post_processor", "{\"type\":\"BertProcessing\"}"), AX_EUNSUPPORTED,
         "t.json: post_processor 'BertProcessing' is not supported"},
        {"{\"model\":{\"type\":\"Unigram\"}}", AX_EUNSUPPORTED,
         "t.json: model type 'Unigram' is not supported, only BPE"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}", AX_EUNSUPPORTED,
         "t.json: model.dropout is not supported: ids would be random"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}}",
         AX_EUNSUPPORTED, "t.json: model.end_of_word_suffix is not supported"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"<unk>\"}}", AX_EFORMAT,
         "t.json: model.unk_token '<unk>' is not in the vocabulary"},
    };
    REFUSE_ALL(list);
}

static void every_prefix_of_a_file_is_refused(void **state)
{
    (void)state;
    static const char json[] = "{\"added_tokens\":[{\"id\":3,\"content\":\"x\"}],\"normalizer\":"
                               "{\"type\":\"NFC\"},\"decoder\":{\"type\":\"Fuse\"}," PLAIN "}";
    ax_tokenizer *t;
    for (size_t n = 0; n + 1 < sizeof json - 1; n++)
        assert_int_equal(ax_tokenizer_parse("t.json", json, n, &t), AX_EFORMAT);
    assert_int_equal(ax_tokenizer_parse("t.json", json, sizeof json - 1, &t), AX_OK);
    ax_tokenizer_close(t);
}

static void a_directory_says_what_it_lacks(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_tokenizer_XXXXXX", want[256], path[128];
    ax_tokenizer *t = NULL;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(ax_tokenizer_open(folder, &t), AX_EUSAGE);
    snprintf(want, sizeof want,
             "data.tokenizer=%s: the directory has neither tokenizer.json nor vocab.json and "
             "merges.txt",
             folder);
    assert_string_equal(ax_error_text(), want);
    snprintf(path, sizeof path, "%s/none.json", folder);
    assert_int_equal(ax_tokenizer_open(path, &t), AX_EUSAGE);
    snprintf(want, sizeof want,
             "data.tokenizer=%s: No such file or directory; give byte, a tokenizer.json or its "
             "directory",
             path);
    assert_string_equal(ax_error_text(), want);
    assert_int_equal(rmdir(folder), 0);
}

static void a_pattern_that_runs_away_names_the_byte(void **state)
{
    (void)state;
    static const char json[] = "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(x+"
                               "x+)+[yz]\"},\"behavior\":"
                               "\"Isolated\"}," MODEL("{\"x\":0,\" \":1}", "[]") "}";
    ax_tokenizer *t;
    ax_ids ids = {0};
    char text[64];
    assert_int_equal(ax_tokenizer_parse("t.json", json, strlen(json), &t), AX_OK);
    memset(text, 'x', sizeof text);
    assert_int_equal(ax_tokenizer_encode(t, text, sizeof text, &ids), AX_EFORMAT);
    assert_string_equal(ax_error_text(),
                        "byte 0 of the text: the split pattern met the match limit");
    assert_int_equal(ids.count, 0);
    memcpy(text, " \xFF ", 3);
    assert_int_equal(ax_tokenizer_encode(t, text, sizeof text, &ids), AX_EFORMAT);
    assert_string_equal(ax_error_text(), "byte 1 of the text (0xff) is not UTF-8 and the t.json "
                                         "tokenizer has no tokens of bytes");
    ax_ids_fini(&ids);
    ax_tokenizer_close(t);
}

// (*NO_JIT) takes the way of machines where no code may be generated.
static void every_limit_of_a_pattern_names_the_byte(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *why;
    } cases[] = {
        {"(*NO_JIT)(x+x+)+[yw]", "the match limit"},
        {"(*NO_JIT)(?:x|y)*[yw]", "the depth limit"},
        {"(*NO_JIT)((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((x|y)))))))))))))))))"
         ")))))))))))))))))))))))))))))))))))))))))))*[yw]",
         "the heap limit"},
        {"(?:x|y)*[yw]", "the stack limit"},
    };
    enum { LENGTH = 1 << 20 };
    char *text = malloc(LENGTH), json[1024], want[128];
    memset(text, 'x', LENGTH);
    memcpy(text, "zz", 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ax_tokenizer *t;
        ax_ids ids = {0};
        int n = snprintf(json, sizeof json,
                         "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},"
                         "\"behavior\":\"Isolated\"}," MODEL("{\"x\":0,\"z\":1}", "[]") "}",
                         cases[i].pattern);
        assert_int_equal(ax_tokenizer_parse("t.json", json, (size_t)n, &t), AX_OK);
        ax_status st = ax_tokenizer_encode(t, text, LENGTH, &ids);
        if (st != AX_EFORMAT)
            fail_msg("%s: %s", cases[i].pattern, ax_status_name(st));
        snprintf(want, sizeof want, "of the text: the split pattern met %s", cases[i].why);
        if (!strstr(ax_error_text(), want) || strncmp(ax_error_text(), "byte ", 5) != 0)
            fail_msg("%s: '%s'", cases[i].pattern, ax_error_text());
        assert_int_equal(ids.count, 0);
        ax_ids_fini(&ids);
        ax_tokenizer_close(t);
    }
    free(text);
}

static void a_decoder_that_runs_away_is_refused(void **state)
{
    (void)state;
    static const char start[] = "{\"decoder\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"z|(x+"
                                "x+)+y\"},\"content\":\"a\"},"
                                "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"z";
    char json[512];
    int n = snprintf(json, sizeof json, "%s%064d\":0}}}", start, 0);
    for (int i = (int)sizeof start - 1; i < n - 6; i++)
        json[i] = 'x'; // behind a match, so that there is something to release
    refuse(json, (size_t)n, AX_EFORMAT,
           "byte 1 of a text: Replace met the match limit of its pattern");
}

#define REPLACE(from, to) "{\"type\":\"Replace\",\"pattern\":{" from "},\"content\":\"" to "\"}"
#define TWICE REPLACE("\"String\":\"a\"", "aa")
#define TWICE_8 TWICE "," TWICE "," TWICE "," TWICE "," TWICE "," TWICE "," TWICE "," TWICE
#define EMPTY_5 REPLACE("\"Regex\":\"a*\"", "bbbb")
#define BYTES_64 "................................................................"
#define SEQUENCE(name, steps) "{\"type\":\"Sequence\",\"" name "\":[" steps "]}"

static void steps_that_multiply_a_text_are_refused(void **state)
{
    (void)state;
    static const bad list[] = {
        {STEP("normalizer", SEQUENCE("normalizers", TWICE_8 "," TWICE "," TWICE "," TWICE)),
         AX_EUNSUPPORTED,
         "t.json: normalizer: its steps could make more than 1024 bytes of one, which is not "
         "supported"},
        {STEP("decoder", SEQUENCE("decoders", TWICE_8 "," TWICE "," TWICE "," TWICE)),
         AX_EUNSUPPORTED,
         "t.json: decoder: its steps could make more than 1024 bytes of one, which is not "
         "supported"},
        {STEP("decoder",
              SEQUENCE("decoders", EMPTY_5 "," EMPTY_5 "," EMPTY_5 "," EMPTY_5 "," EMPTY_5)),
         AX_EUNSUPPORTED,
         "t.json: decoder: its steps could make more than 1024 bytes of one, which is not "
         "supported"},
        {STEP("normalizer", SEQUENCE("normalizers", "{\"type\":\"NFKC\"}," TWICE_8)),
         AX_EUNSUPPORTED,
         "t.json: normalizer: its steps could make more than 1024 bytes of one, which is not "
         "supported"},
        {STEP("normalizer",
              "{\"type\":\"Prepend\",\"prepend\":\"" BYTES_64 BYTES_64 BYTES_64 BYTES_64 ".\"}"),
         AX_EUNSUPPORTED,
         "t.json: normalizer: a Replace or Prepend with more than 256 bytes is not supported"},
    };
    static const char *const good[] = {
        STEP("normalizer", SEQUENCE("normalizers", TWICE_8 "," TWICE "," TWICE)),
        STEP("normalizer",
             "{\"type\":\"Prepend\",\"prepend\":\"" BYTES_64 BYTES_64 BYTES_64 BYTES_64 "\"}"),
        STEP("normalizer", SEQUENCE("normalizers", "{\"type\":\"NFKD\"},{\"type\":\"NFC\"},"
                                                   "{\"type\":\"NFKC\"},{\"type\":\"NFKD\"}")),
        STEP("normalizer", SEQUENCE("normalizers", REPLACE("\"String\":\"abc\"", "") "," REPLACE(
                                                       "\"Regex\":\" {2,}\"", " "))),
    };
    REFUSE_ALL(list);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ax_tokenizer *t;
        assert_int_equal(ax_tokenizer_parse("t.json", good[i], strlen(good[i]), &t), AX_OK);
        ax_tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_json_is_refused_with_line_and_byte),
        cmocka_unit_test(a_vocabulary_must_have_unique_ids_in_proportion_to_its_size),
        cmocka_unit_test(merges_must_be_two_known_tokens_that_make_a_third),
        cmocka_unit_test(added_tokens_must_agree_with_the_vocabulary),
        cmocka_unit_test(other_components_are_refused_by_name),
        cmocka_unit_test(every_prefix_of_a_file_is_refused),
        cmocka_unit_test(a_directory_says_what_it_lacks),
        cmocka_unit_test(a_pattern_that_runs_away_names_the_byte),
        cmocka_unit_test(every_limit_of_a_pattern_names_the_byte),
        cmocka_unit_test(a_decoder_that_runs_away_is_refused),
        cmocka_unit_test(steps_that_multiply_a_text_are_refused),
    };
    return cmocka_run_group_tests(tests, mute, NULL);
}

#include "base/log.h"
#include "data/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

static ax_tokenizer *t;

static int open_bytes(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    return ax_tokenizer_open("byte", &t) != AX_OK;
}

static int close_bytes(void **state)
{
    (void)state;
    ax_tokenizer_close(t);
    ax_tokenizer_close(NULL);
    return 0;
}

static void there_are_256_bytes_and_one_end_of_document(void **state)
{
    (void)state;
    assert_int_equal(ax_tokenizer_vocab(t), 257);
    assert_int_equal(ax_tokenizer_eod(t), 256);
    assert_string_equal(ax_tokenizer_name(t), "byte");
}

static void every_byte_survives_encoding_and_decoding(void **state)
{
    (void)state;
    char text[256];
    for (int i = 0; i < 256; i++)
        text[i] = (char)i;
    ax_ids ids = {0};
    assert_int_equal(ax_tokenizer_encode(t, text, 256, &ids), AX_OK);
    assert_int_equal(ids.count, 256);
    for (int i = 0; i < 256; i++) {
        const char *bytes;
        size_t length;
        assert_int_equal(ids.id[i], i);
        assert_int_equal(ax_tokenizer_decode(t, ids.id[i], &bytes, &length), AX_OK);
        assert_int_equal(length, 1);
        assert_int_equal(bytes[0], text[i]);
    }
    ax_ids_fini(&ids);
}

static void encoding_appends_and_a_list_grows(void **state)
{
    (void)state;
    ax_ids ids = {0};
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(ax_tokenizer_encode(t, "ab", 2, &ids), AX_OK);
        assert_int_equal(ax_ids_push(&ids, 256), AX_OK);
    }
    assert_int_equal(ids.count, 3000);
    assert_int_equal(ids.id[2999], 256);
    assert_int_equal(ids.id[2998], 'b');
    assert_int_equal(ax_tokenizer_encode(t, "", 0, &ids), AX_OK);
    assert_int_equal(ids.count, 3000);
    ax_ids_fini(&ids);
}

static void the_end_of_document_has_no_bytes_and_other_ids_are_refused(void **state)
{
    (void)state;
    const char *bytes;
    size_t length = 9;
    assert_int_equal(ax_tokenizer_decode(t, 256, &bytes, &length), AX_OK);
    assert_int_equal(length, 0);
    assert_int_equal(ax_tokenizer_decode(t, 257, &bytes, &length), AX_EFORMAT);
    assert_string_equal(ax_error_text(), "token id 257: the byte tokenizer has ids 0 to 256");
    assert_int_equal(ax_tokenizer_decode(t, -1, &bytes, &length), AX_EFORMAT);
}

static void a_name_that_is_no_file_is_refused(void **state)
{
    (void)state;
    ax_tokenizer *other = NULL;
    assert_int_equal(ax_tokenizer_open("gpt2", &other), AX_EUSAGE);
    assert_string_equal(
        ax_error_text(),
        "data.tokenizer=gpt2: No such file or directory; give byte, a tokenizer.json "
        "or its directory");
    assert_null(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_are_256_bytes_and_one_end_of_document),
        cmocka_unit_test(every_byte_survives_encoding_and_decoding),
        cmocka_unit_test(encoding_appends_and_a_list_grows),
        cmocka_unit_test(the_end_of_document_has_no_bytes_and_other_ids_are_refused),
        cmocka_unit_test(a_name_that_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, open_bytes, close_bytes);
}

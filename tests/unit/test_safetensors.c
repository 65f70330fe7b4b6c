// The safetensors format by its letter: what is malformed is refused with the names of file and
// tensor.
#include "base/log.h"
#include "ckpt/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_file(void **state)
{
    char *path = strdup("/tmp/axonn-test-safetensors-XXXXXX");
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    *state = path;
    int fd = path ? mkstemp(path) : -1;
    return fd < 0 ? -1 : close(fd);
}

static int close_file(void **state)
{
    unlink(*state);
    free(*state);
    return 0;
}

static void write_file(const char *path, const void *bytes, size_t count)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

static void write_tensors(const char *path, const char *header, size_t data)
{
    size_t n = strlen(header);
    char *bytes = calloc(1, 8 + n + data);
    assert_non_null(bytes);
    bytes[0] = (char)n;
    bytes[1] = (char)(n >> 8);
    memcpy(bytes + 8, header, n);
    write_file(path, bytes, 8 + n + data);
    free(bytes);
}

#define T(name, dtype, shape, begin, end)                                                          \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end   \
    "]}"

static void malformed_files_are_refused_by_file_and_tensor(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *why, *tensor;
    } cases[] = {
        {"{" T("a", "F32", "[2]", "0", "8") "}", 7, "cut short", "'a'"},
        {"{" T("a", "F32", "[2]", "0", "8") "}", 9, "1 bytes follow", "'a'"},
        {"{" T("a", "F32", "[2]", "0", "8") "," T("b", "F32", "[1]", "12", "16") "}", 16,
         "belong to no tensor", "'b'"},
        {"{" T("a", "F32", "[2]", "4", "12") "}", 12, "belong to no tensor", "'a'"},
        {"{" T("a", "F32", "[2]", "0", "8") "," T("b", "F32", "[2]", "4", "12") "}", 12,
         "overlaps 'a'", "'b'"},
        {"{" T("a", "F32", "[2]", "0", "8") "," T("b", "F32", "[2]", "0", "8") "}", 8,
         "overlaps 'a'", "'b'"},
        {"{" T("a", "F33", "[2]", "0", "8") "}", 8, "unknown dtype 'F33'", "'a'"},
        {"{" T("a", "f32", "[2]", "0", "8") "}", 8, "unknown dtype 'f32'", "'a'"},
        {"{" T("a", "F32", "[3]", "0", "8") "}", 8, "do not hold its 12 bytes", "'a'"},
        {"{" T("a", "F32", "[2]", "8", "0") "}", 8, "do not hold", "'a'"},
        {"{" T("a", "F32", "[2,-1]", "0", "8") "}", 8, "no size", "'a'"},
        {"{" T("a", "F32", "[2.0]", "0", "8") "}", 8, "no size", "'a'"},
        {"{" T("a", "F32", "2", "0", "8") "}", 8, "not an array", "'a'"},
        {"{" T("a", "F4", "[3]", "0", "1") "}", 1, "no whole number", "'a'"},
        {"{" T("a", "F32", "[4611686018427387904,4]", "0", "0") "}", 0, "or too many", "'a'"},
        {"{" T("a", "F64", "[2305843009213693952]", "0", "0") "}", 0, "or too many", "'a'"},
        {"{" T("a", "U8", "[9223372036854775]", "0", "9223372036854775") "}", 8, "cut short",
         "'a'"},
        {"{" T("a", "U8", "[1]", "18446744073709551615", "0") "}", 8, "too big", "\"a\""},
        {"{" T("a", "U8", "[1]", "0", "1") "," T("a", "U8", "[1]", "1", "2") "}", 2, "duplicate",
         "\"a\""},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\"}}", 0, "duplicate", "\"a\""},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "not two offsets",
         "'a'"},
        {"{\"a\":[]}", 0, "not an object", "'a'"},
        {"{\"__metadata__\":{\"n\":1}}", 0, "not a string", "'n'"},
        {"{\"__metadata__\":[]}", 0, "not an object", "__metadata__"},
        {" {}", 0, "does not begin with '{'", ""},
        {"\xef\xbb\xbf{}", 0, "does not begin with '{'", ""},
        {"[]", 0, "does not begin with '{'", ""},
        {"{" T("a", "F6_E2M3", "[3]", "0", "2") "}", 2, "no whole number", "'a'"},
        {"{" T("a", "U8", "[]", "0", "0") "}", 0, "do not hold its 1 bytes", "'a'"},
        {"{" T("a", "U8", "[0]", "0", "1") "}", 1, "do not hold its 0 bytes", "'a'"},
        {"{" T("a", "U8", "[0]", "1", "1") "," T("b", "U8", "[2]", "0", "2") "}", 2, "overlaps",
         "'a'"},
        {"{" T("a", "U8", "[4294967296,4294967296,0]", "0", "0") "}", 0, "or too many", "'a'"},
        {"{" T("a", "U8", "[1]", "0", "9223372036854775807") "}", 8, "do not hold", "'a'"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "unknown dtype", "'a'"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "not an array", "'a'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "not two offsets", "'a'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0.0,1.0]}}", 1,
         "not two offsets", "'a'"},
        {"{} x", 0, "not valid", ""},
        {"{", 0, "not valid", ""},
        {"{\"\xff\":1}", 0, "not valid", ""},
        {"{}", 3, "3 bytes follow", ""},
    };
    const char *path = *state;
    ax_safetensors s;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_tensors(path, cases[i].header, cases[i].data);
        assert_int_equal(ax_safetensors_open(path, &s), AX_EFORMAT);
        if (!strstr(ax_error_text(), cases[i].why) || !strstr(ax_error_text(), path) ||
            !strstr(ax_error_text(), cases[i].tensor))
            fail_msg("%s: '%s' does not say '%s'", cases[i].header, ax_error_text(), cases[i].why);
    }
}

static void a_broken_length_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t count;
        const char *why;
    } cases[] = {
        {"", 0, "0 bytes are too few"},
        {"\2\0\0\0\0\0\0", 7, "7 bytes are too few"},
        {"\0\0\0\0\0\0\0\0{}", 10, "header of 0 bytes"},
        {"\3\0\0\0\0\0\0\0{}", 10, "ends after 2 of them"},
        {"\1\xe1\xf5\5\0\0\0\0{}", 10, "header of 100000001 bytes"},
        {"\377\377\377\377\377\377\377\377{}", 10, "header of 18446744073709551615 bytes"},
    };
    const char *path = *state;
    ax_safetensors s;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(path, cases[i].bytes, cases[i].count);
        assert_int_equal(ax_safetensors_open(path, &s), AX_EFORMAT);
        assert_non_null(strstr(ax_error_text(), path));
        assert_non_null(strstr(ax_error_text(), cases[i].why));
    }
    assert_int_equal(ax_safetensors_open("/", &s), AX_EIO); // a directory
    assert_int_equal(ax_safetensors_open("/none", &s), AX_EIO);
}

static void well_formed_oddities_are_read(void **state)
{
    const char *path = *state;
    ax_safetensors s;
    write_tensors(
        path,
        "{\"__metadata__\":{\"format\":\"pt\"}," T("late", "F32", "[1,1]", "3", "7") "," //
        T("none", "F64", "[0,5]", "3", "3") "," T("nibbles", "F4", "[6]", "0", "3") ","  //
        T("one", "BF16", "[]", "7", "9") "}   ",
        9);
    assert_int_equal(ax_safetensors_open(path, &s), AX_OK);
    assert_int_equal(s.count, 4);
    assert_string_equal(s.list[0].name, "nibbles");
    assert_string_equal(s.list[1].name, "none");
    const ax_st_tensor *one = ax_safetensors_find(&s, "one");
    assert_non_null(one);
    assert_int_equal(one->dims, 0);
    assert_int_equal(one->dtype, AX_ST_BF16);
    assert_int_equal(one->end - one->begin, 2);
    assert_null(ax_safetensors_find(&s, "two"));
    char shape[64];
    ax_st_print_shape(ax_safetensors_find(&s, "none"), shape, sizeof shape);
    assert_string_equal(shape, "[0, 5]");
    ax_safetensors_close(&s);
    write_tensors(path, "{}", 0);
    assert_int_equal(ax_safetensors_open(path, &s), AX_OK);
    assert_int_equal(s.count, 0);
    ax_safetensors_close(&s);
}

// ---- writing

static void what_is_written_is_read_back(void **state)
{
    const char *path = *state;
    ax_st_tensor list[] = {
        {.name = "w", .dtype = AX_ST_F64, .dims = 2, .shape = {3, 5}},
        {.name = "a \"name\"", .dtype = AX_ST_BF16, .dims = 1, .shape = {3}},
        {.name = "s", .dtype = AX_ST_F32},
    };
    enum { COUNT = sizeof list / sizeof list[0] };
    ax_safetensors s;
    assert_int_equal(ax_safetensors_create(path, list, COUNT), AX_OK);
    assert_int_equal(list[0].begin % 8, 0);
    assert_int_equal(ax_safetensors_open(path, &s), AX_OK);
    assert_int_equal(s.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        const ax_st_tensor *t = ax_safetensors_find(&s, list[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, list[i].dtype);
        assert_true(ax_st_same_shape(t, &list[i]));
        assert_int_equal(t->begin, list[i].begin);
        assert_int_equal(t->end, list[i].end);
    }
    ax_safetensors_close(&s);
    assert_int_equal(ax_safetensors_create(path, NULL, 0), AX_OK);
    assert_int_equal(ax_safetensors_open(path, &s), AX_OK);
    assert_int_equal(s.count, 0);
    ax_safetensors_close(&s);

    list[0].shape[0] = INT64_MAX / 2;
    assert_int_equal(ax_safetensors_create(path, list, COUNT), AX_EUSAGE);
    assert_non_null(strstr(ax_error_text(), "'w' is too large"));
    list[0] = list[2];
    assert_int_equal(ax_safetensors_create(path, list, COUNT), AX_EUSAGE);
    assert_non_null(strstr(ax_error_text(), "called 's'"));
    list[0].name = "__metadata__";
    assert_int_equal(ax_safetensors_create(path, list, COUNT), AX_EUSAGE);
}

static void a_header_that_is_too_large_is_not_written(void **state)
{
    enum { NAME = 1 << 20, COUNT = 100 };
    char *name = malloc(NAME + COUNT + 1);
    ax_st_tensor list[COUNT];
    assert_non_null(name);
    memset(name, 'n', NAME + COUNT);
    name[NAME + COUNT] = 0;
    for (int i = 0; i < COUNT; i++)
        list[i] = (ax_st_tensor){.name = name + i, .dtype = AX_ST_F32};
    assert_int_equal(ax_safetensors_create(*state, list, COUNT), AX_EUNSUPPORTED);
    assert_non_null(strstr(ax_error_text(), "the format allows 100000000"));
    free(name);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_file, close_file)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(malformed_files_are_refused_by_file_and_tensor),
        CASE(a_broken_length_is_refused),
        CASE(well_formed_oddities_are_read),
        CASE(what_is_written_is_read_back),
        CASE(a_header_that_is_too_large_is_not_written),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}

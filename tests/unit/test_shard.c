#include "base/log.h"
#include "data/shard.h"
#include "data/shard_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static char folder[] = "/tmp/axonn-test-shard-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    return !mkdtemp(folder) || chdir(folder);
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
    return empty_folder(state) || chdir("/") || rmdir(folder);
}

// ---- files

static void write_bytes(const char *path, const void *bytes, size_t length)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

static size_t read_bytes(const char *path, unsigned char *bytes, size_t room)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, room, f);
    fclose(f);
    return n;
}

// A hole with `bytes` at its end; false where the file system has no holes of that size.
static bool write_sparse(const char *path, int64_t size, const void *bytes, size_t length)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    bool done = ftruncate(fd, size) == 0 &&
                pwrite(fd, bytes, length, size - (int64_t)length) == (ssize_t)length;
    close(fd);
    return done;
}

// ---- expectations

static ax_shard *open_shard(const char *path)
{
    ax_shard *s = NULL;
    if (ax_shard_open(path, &s) != AX_OK)
        fail_msg("%s", ax_error_text());
    assert_true(ax_shard_is(path));
    return s;
}

static void refuses(const char *path, ax_status st, const char *message)
{
    ax_shard *s = NULL;
    assert_int_equal(ax_shard_open(path, &s), st);
    assert_string_equal(ax_error_text(), message);
    assert_null(s);
}

static void expect_ids(const ax_shard *s, int64_t vocab, int64_t first, int64_t count,
                       const int32_t *want)
{
    int32_t *ids = malloc((size_t)count * sizeof *ids);
    if (ax_shard_read(s, vocab, first, count, ids) != AX_OK)
        fail_msg("%s", ax_error_text());
    assert_memory_equal(ids, want, (size_t)count * sizeof *ids);
    free(ids);
}

static void expect_borders(const ax_shard *s, int64_t count, const int64_t *want)
{
    int64_t begin[16];
    assert_int_equal(ax_shard_documents(s), count - 1);
    assert_int_equal(ax_shard_borders(s, 0, count, begin), AX_OK);
    assert_memory_equal(begin, want, (size_t)count * sizeof *begin);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(ax_shard_borders(s, i, 1, begin), AX_OK);
        assert_int_equal(begin[0], want[i]);
    }
}

// ---- Megatron's pair

static const int32_t golden_ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 127, 9, 10, 11, 12};
static const int64_t golden_borders[] = {0, 4, 4, 9, 13, 13};

static void the_files_of_megatrons_builder_are_read(void **state)
{
    (void)state;
    static const char *const name[] = {"uint8", "int8", "int16", "uint16", "int32", "int64"};
    static const int64_t widest[] = {255, 127, 32767, 65535, INT32_MAX, INT64_MAX};
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        char path[4096];
        snprintf(path, sizeof path, AX_GOLDEN "/%s", name[i]);
        ax_shard *s = open_shard(path);
        assert_int_equal(ax_shard_tokens(s), 13);
        assert_int_equal(ax_shard_widest(s), widest[i]);
        expect_ids(s, 128, 0, 13, golden_ids);
        expect_ids(s, 128, 7, 3, golden_ids + 7);
        expect_borders(s, 6, golden_borders);
        assert_int_equal(ax_shard_check(s, 128), AX_OK);
        ax_shard_close(s);
    }
}

static void the_pair_has_three_names(void **state)
{
    (void)state;
    static const char *const name[] = {"/plain", "/plain.bin", "/plain.idx"};
    for (int i = 0; i < 3; i++) {
        char path[4096];
        snprintf(path, sizeof path, AX_GOLDEN "%s", name[i]);
        ax_shard *s = open_shard(path);
        assert_int_equal(ax_shard_tokens(s), 7);
        assert_string_equal(ax_shard_path(s), AX_GOLDEN "/plain.bin");
        ax_shard_close(s);
    }
}

static void a_token_belongs_to_the_document_that_holds_it(void **state)
{
    (void)state;
    static const int64_t document[] = {0, 0, 0, 0, 2, 2, 2, 2, 2, 3, 3, 3, 3};
    ax_shard *s = open_shard(AX_GOLDEN "/uint16");
    for (int64_t i = 0, d; i < 13; i++) {
        assert_int_equal(ax_shard_find(s, i, &d), AX_OK);
        assert_int_equal(d, document[i]);
    }
    ax_shard_close(s);
}

static void an_id_beyond_the_vocabulary_is_named(void **state)
{
    (void)state;
    int32_t ids[13];
    ax_shard *s = open_shard(AX_GOLDEN "/uint16");
    assert_int_equal(ax_shard_read(s, 127, 5, 8, ids), AX_EFORMAT);
    assert_string_equal(ax_error_text(),
                        AX_GOLDEN "/uint16.bin: token 8 is 127, but the vocabulary has 127 ids: "
                                  "another tokenizer made the file, or its ids have another width");
    assert_int_equal(ax_shard_check(s, 127), AX_EFORMAT);
    ax_shard_close(s);
    static const int16_t negative[] = {3, -1};
    unsigned char idx[256];
    size_t n = read_bytes(AX_GOLDEN "/int16.idx", idx, sizeof idx);
    write_bytes("n.idx", idx, n);
    unsigned char bin[26] = {0};
    memcpy(bin, negative, sizeof negative);
    write_bytes("n.bin", bin, sizeof bin);
    s = open_shard("n");
    assert_int_equal(ax_shard_check(s, 100), AX_EFORMAT);
    assert_non_null(strstr(ax_error_text(), "n.bin: token 1 is -1,"));
    ax_shard_close(s);
}

static void modes_are_refused_by_name(void **state)
{
    (void)state;
    refuses(AX_GOLDEN "/modes", AX_EUNSUPPORTED,
            AX_GOLDEN "/modes.idx: a multimodal index: its sequences have modes; only text can be "
                      "trained on");
}

// The golden index with one number changed, against the golden .bin.
typedef struct change {
    int offset, width;
    int64_t value;
    ax_status st;
    const char *message;
} change;

enum { POINTERS = 34 + 4 * 6, BORDERS = POINTERS + 8 * 6 };

static const change changes[] = {
    {0, 1, 'm', AX_EFORMAT, "x.idx: does not begin with MMIDIDX: it is no Megatron index"},
    {9, 8, 2, AX_EFORMAT, "x.idx: byte 9: version 2, not 1"},
    {17, 1, 0, AX_EFORMAT, "x.idx: byte 17: 0 is no code of a type (1 to 8)"},
    {17, 1, 9, AX_EFORMAT, "x.idx: byte 17: 9 is no code of a type (1 to 8)"},
    {17, 1, 255, AX_EFORMAT, "x.idx: byte 17: 255 is no code of a type (1 to 8)"},
    {17, 1, 6, AX_EUNSUPPORTED, "x.idx: its ids are float64, but token ids are integers"},
    {17, 1, 7, AX_EUNSUPPORTED, "x.idx: its ids are float32, but token ids are integers"},
    {18, 8, 7, AX_EFORMAT,
     "x.idx: its 154 bytes do not hold the 7 sequences and 6 document borders that it counts: it "
     "is cut, or no index"},
    {18, 8, -1, AX_EFORMAT,
     "x.idx: its 154 bytes do not hold the 18446744073709551615 sequences and 6 document borders "
     "that it counts: it is cut, or no index"},
    {18, 8, 0x1555555555555556, AX_EFORMAT, // times 12: 2^64 + 8
     "x.idx: its 154 bytes do not hold the 1537228672809129302 sequences and 6 document borders "
     "that it counts: it is cut, or no index"},
    {26, 8, 0x2000000000000000, AX_EFORMAT, // times 8: 2^64
     "x.idx: its 154 bytes do not hold the 6 sequences and 2305843009213693952 document borders "
     "that it counts: it is cut, or no index"},
    {26, 8, 5, AX_EFORMAT, "x.idx: 8 bytes too many behind its last entry"},
    {34, 4, -1, AX_EFORMAT,
     "x.idx: sequence 0 has -1 tokens and begins at byte 0, but the .bin has 26 bytes"},
    {34, 4, 4, AX_EFORMAT, "x.idx: sequence 1 begins at byte 6, but those before it end at 8"},
    {34 + 4 * 2, 4, 2147483647, AX_EFORMAT,
     "x.idx: sequence 2 has 2147483647 tokens and begins at byte 8, but the .bin has 26 bytes"},
    {34 + 4 * 5, 4, 0, AX_EFORMAT,
     "x.idx: its sequences end at byte 24, but the .bin has 26 bytes"},
    {POINTERS, 8, 2, AX_EFORMAT,
     "x.idx: sequence 0 begins at byte 2, but those before it end at 0"},
    {POINTERS + 8 * 5, 8, -8, AX_EFORMAT,
     "x.idx: sequence 5 begins at byte -8, but those before it end at 24"},
    {BORDERS, 8, 1, AX_EFORMAT, "x.idx: document 0 begins with sequence 1, not 0"},
    {BORDERS + 8 * 2, 8, 1, AX_EFORMAT,
     "x.idx: document border 2 is sequence 1, which is not from 2 to 6"},
    {BORDERS + 8 * 3, 8, 7, AX_EFORMAT,
     "x.idx: document border 3 is sequence 7, which is not from 2 to 6"},
    {BORDERS + 8 * 5, 8, 5, AX_EFORMAT,
     "x.idx: document border 5 is sequence 5, which is not from 6 to 6"},
};

static void every_rule_of_the_index_is_checked(void **state)
{
    (void)state;
    unsigned char idx[256], bin[64];
    size_t n = read_bytes(AX_GOLDEN "/uint16.idx", idx, sizeof idx);
    write_bytes("x.bin", bin, read_bytes(AX_GOLDEN "/uint16.bin", bin, sizeof bin));
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        unsigned char changed[256];
        memcpy(changed, idx, n);
        memcpy(changed + changes[i].offset, &changes[i].value, (size_t)changes[i].width);
        write_bytes("x.idx", changed, n);
        refuses("x", changes[i].st, changes[i].message);
    }
    int64_t last = 5; // all documents end before the last sequence does
    memcpy(idx + BORDERS + 8 * 4, &last, 8);
    memcpy(idx + BORDERS + 8 * 5, &last, 8);
    write_bytes("x.idx", idx, n);
    refuses("x", AX_EFORMAT, "x.idx: its documents end at sequence 5 of 6");
}

static void an_index_cut_anywhere_is_refused(void **state)
{
    (void)state;
    unsigned char idx[256], bin[64];
    size_t n = read_bytes(AX_GOLDEN "/uint16.idx", idx, sizeof idx);
    write_bytes("x.bin", bin, read_bytes(AX_GOLDEN "/uint16.bin", bin, sizeof bin));
    for (size_t cut = 0; cut < n; cut++) {
        ax_shard *s = NULL;
        write_bytes("x.idx", idx, cut);
        assert_int_equal(ax_shard_open("x", &s), AX_EFORMAT);
        assert_non_null(strstr(ax_error_text(), "x.idx: "));
    }
    write_bytes("x.idx", idx, n);
    write_bytes("x.bin", bin, 25);
    refuses("x", AX_EFORMAT,
            "x.idx: sequence 5 has 1 tokens and begins at byte 24, but the .bin has 25 bytes");
    write_bytes("x.bin", bin, 27);
    refuses("x", AX_EFORMAT, "x.idx: its sequences end at byte 26, but the .bin has 27 bytes");
}

static void a_file_cut_while_open_is_an_error(void **state)
{
    (void)state;
    uint16_t id[100] = {0};
    int32_t ids[100];
    write_bytes("c.bin", id, sizeof id);
    ax_shard *s = open_shard("c.bin:uint16");
    assert_int_equal(truncate("c.bin", 100), 0);
    assert_int_equal(ax_shard_read(s, 10, 0, 50, ids), AX_OK);
    assert_int_equal(ax_shard_read(s, 10, 0, 51, ids), AX_EIO);
    assert_string_equal(ax_error_text(), "c.bin: ends at byte 100: it was cut since it was opened");
    ax_shard_close(s);
}

// ---- llm.c

static void write_llmc(const char *path, int32_t magic, int32_t version, int32_t count,
                       const void *ids, size_t bytes)
{
    unsigned char file[4096] = {0};
    memcpy(file, &(int32_t[3]){magic, version, count}, 12);
    memcpy(file + 1024, ids, bytes);
    write_bytes(path, file, 1024 + bytes);
}

static void an_index_changed_while_open_is_an_error(void **state)
{
    (void)state;
    static const struct {
        int offset;
        int64_t value;
    } cases[] = {
        {BORDERS + 8, INT64_MAX},  {BORDERS + 8, INT64_MIN},     {BORDERS + 8, 7},
        {BORDERS + 16, INT64_MAX}, {POINTERS + 16, INT64_MAX},   {POINTERS + 16, -8},
        {POINTERS + 16, 1 << 20},  {BORDERS + 8 * 5, INT64_MAX},
    };
    unsigned char idx[256], bin[64];
    size_t n = read_bytes(AX_GOLDEN "/uint16.idx", idx, sizeof idx);
    size_t m = read_bytes(AX_GOLDEN "/uint16.bin", bin, sizeof bin);
    write_bytes("x.bin", bin, m);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char changed[256];
        int64_t begin[6];
        write_bytes("x.idx", idx, n);
        ax_shard *s = open_shard("x");
        assert_int_equal(ax_shard_borders(s, 0, 6, begin), AX_OK);
        memcpy(changed, idx, n);
        memcpy(changed + cases[i].offset, &cases[i].value, 8);
        write_bytes("x.idx", changed, n);
        assert_int_equal(ax_shard_borders(s, 0, 6, begin), AX_EIO);
        assert_string_equal(ax_error_text(), "x.idx: changed since it was opened");
        ax_shard_close(s);
    }
}

static void files_of_llmc_are_read(void **state)
{
    (void)state;
    static const uint16_t narrow[] = {50256, 1, 65535};
    static const uint32_t wide[] = {128000, 70000};
    write_llmc("n.bin", 20240520, 1, 3, narrow, sizeof narrow);
    write_llmc("w.tokens", 20240801, 7, 2, wide, sizeof wide);
    ax_shard *s = open_shard("n.bin");
    expect_ids(s, 65536, 0, 3, (int32_t[]){50256, 1, 65535});
    assert_int_equal(ax_shard_documents(s), 0);
    ax_shard_close(s);
    s = open_shard("w.tokens");
    expect_ids(s, 128256, 0, 2, (int32_t[]){128000, 70000});
    assert_int_equal(ax_shard_widest(s), UINT32_MAX);
    ax_shard_close(s);
}

static void a_wrong_header_of_llmc_is_refused(void **state)
{
    (void)state;
    static const uint16_t ids[] = {1, 2, 3};
    write_llmc("n.bin", 20240520, 2, 3, ids, sizeof ids);
    refuses("n.bin", AX_EFORMAT, "n.bin: an llm.c header of version 2, not 1");
    write_llmc("n.bin", 20240801, 1, 3, ids, sizeof ids);
    refuses("n.bin", AX_EFORMAT, "n.bin: an llm.c header of version 1, not 7");
    write_llmc("n.bin", 20240520, 1, 4, ids, sizeof ids);
    refuses("n.bin", AX_EFORMAT,
            "n.bin: its header counts 4 tokens of 2 bytes behind 1024 bytes of header, but the "
            "file has 1030 bytes");
    write_llmc("n.bin", 20240520, 1, -2, ids, 0);
    refuses("n.bin", AX_EFORMAT,
            "n.bin: its header counts -2 tokens of 2 bytes behind 1024 bytes of header, but the "
            "file has 1024 bytes");
    write_llmc("n.bin", 20240522, 1, 3, ids, sizeof ids);
    refuses("n.bin", AX_EUNSUPPORTED,
            "n.bin: an llm.c file of multiple-choice questions, not of training tokens");
}

// ---- bare ids

static void bare_ids_need_their_width(void **state)
{
    (void)state;
    static const uint32_t ids[] = {1, 70000, 4000000000};
    write_bytes("r.bin", ids, sizeof ids);
    refuses("r.bin", AX_EUSAGE,
            "r.bin: there is no .idx beside it and it has no llm.c header, so nothing tells how "
            "wide its ids are: write r.bin:uint16 or r.bin:uint32");
    ax_shard *s = open_shard("r.bin:uint32");
    assert_int_equal(ax_shard_tokens(s), 3);
    expect_ids(s, 100000, 0, 2, (int32_t[]){1, 70000});
    assert_int_equal(ax_shard_check(s, INT32_MAX), AX_EFORMAT);
    assert_non_null(strstr(ax_error_text(), "r.bin: token 2 is 4000000000, but"));
    ax_shard_close(s);
    s = open_shard("r.bin:uint16");
    assert_int_equal(ax_shard_tokens(s), 6);
    ax_shard_close(s);
    refuses("r.bin:int64", AX_EUSAGE,
            "r.bin:int64: bare ids are uint16 or uint32: write r.bin:uint16");
    write_bytes("r.bin", ids, 5);
    refuses("r.bin:uint16", AX_EFORMAT, "r.bin: 5 bytes are no whole number of uint16 ids");
    refuses("none.bin:uint16", AX_EUSAGE, "none.bin: No such file or directory");
    refuses("none.bin", AX_EUSAGE, "none.bin: No such file or directory");
}

static void a_width_must_not_hide_what_the_file_tells(void **state)
{
    (void)state;
    static const uint16_t ids[] = {1, 2, 3};
    write_llmc("n.bin", 20240520, 1, 3, ids, sizeof ids);
    refuses("n.bin:uint16", AX_EUSAGE,
            "n.bin: begins with the header of an llm.c file, which tells its width: leave :uint16 "
            "out");
    refuses(AX_GOLDEN "/plain.bin:uint16", AX_EUSAGE,
            AX_GOLDEN "/plain.bin: the .idx beside it tells its width: leave :uint16 out");
}

static void text_is_no_token_file(void **state)
{
    (void)state;
    write_bytes("book", "text", 4);
    write_bytes("book.bin", "text", 4);
    write_bytes("book.idx", "text", 4);
    assert_false(ax_shard_is("book")); // the file itself comes first
    assert_false(ax_shard_is("none"));
    assert_false(ax_shard_is("a.jsonl"));
    assert_false(ax_shard_is("odd:name"));
    assert_false(ax_shard_is("points:uint"));
    assert_true(ax_shard_is("a.bin"));
    assert_true(ax_shard_is("a.npy:uint32"));
    refuses("a.idx", AX_EUSAGE, "a.idx: the .bin and the .idx must both be there");
}

// ---- large files

static void the_last_sample_of_5_gib_is_read(void **state)
{
    (void)state;
    static const uint16_t end[] = {11, 12, 13};
    int64_t size = (int64_t)5 << 30, tokens = size / 2;
    if (!write_sparse("big.bin", size, end, sizeof end)) {
        print_message("skipped: this file system has no sparse file of 5 GiB\n");
        skip();
    }
    ax_shard *s = open_shard("big.bin:uint16");
    assert_int_equal(ax_shard_tokens(s), tokens);
    expect_ids(s, 14, tokens - 4, 4, (int32_t[]){0, 11, 12, 13});
    int32_t ids[4];
    assert_int_equal(ax_shard_read(s, 13, tokens - 4, 4, ids), AX_EFORMAT);
    assert_non_null(strstr(ax_error_text(), "big.bin: token 2684354559 is 13,"));
    ax_shard_close(s);
}

static void an_index_leads_beyond_4_gib(void **state)
{
    (void)state;
    static const uint16_t end[] = {11, 12, 13};
    int64_t size = (int64_t)5 << 30, third = (int64_t)1 << 30; // tokens
    int32_t length[3] = {(int32_t)third, (int32_t)third, (int32_t)(size / 2 - 2 * third)};
    int64_t pointer[3] = {0, 2 * third, 4 * third}, border[4] = {0, 1, 2, 3};
    unsigned char idx[34 + 12 * 3 + 8 * 4] = "MMIDIDX\0\0";
    idx[9] = 1, idx[17] = 8, idx[18] = 3, idx[26] = 4;
    memcpy(idx + 34, length, sizeof length);
    memcpy(idx + 46, pointer, sizeof pointer);
    memcpy(idx + 70, border, sizeof border);
    write_bytes("big.idx", idx, sizeof idx);
    if (!write_sparse("big.bin", size, end, sizeof end)) {
        print_message("skipped: this file system has no sparse file of 5 GiB\n");
        skip();
    }
    ax_shard *s = open_shard("big");
    expect_borders(s, 4, (int64_t[]){0, third, 2 * third, size / 2});
    expect_ids(s, 14, size / 2 - 3, 3, (int32_t[]){11, 12, 13});
    int64_t d = -1;
    assert_int_equal(ax_shard_find(s, size / 2 - 1, &d), AX_OK);
    assert_int_equal(d, 2);
    ax_shard_close(s);
}

// ---- writing

static void same_file(const char *a, const char *b)
{
    static unsigned char x[1 << 16], y[1 << 16];
    size_t n = read_bytes(a, x, sizeof x);
    assert_int_equal(n, read_bytes(b, y, sizeof y));
    assert_memory_equal(x, y, n);
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

static ax_shard_writer *open_writer(const char *prefix, int64_t vocab)
{
    ax_shard_writer *w = NULL;
    if (ax_shard_writer_open(prefix, vocab, &w) != AX_OK)
        fail_msg("%s", ax_error_text());
    return w;
}

static void written_pairs_are_megatrons_byte_for_byte(void **state)
{
    (void)state;
    ax_shard_writer *w = open_writer("p", 65499);
    assert_int_equal(ax_shard_writer_width(w), 2);
    assert_int_equal(ax_shard_writer_add(w, (int32_t[]){1, 2, 3, 4}, 4), AX_OK);
    assert_int_equal(ax_shard_writer_add(w, (int32_t[]){65498}, 1), AX_OK);
    assert_int_equal(ax_shard_writer_add(w, (int32_t[]){5, 6}, 2), AX_OK);
    assert_int_equal(ax_shard_writer_finish(w), AX_OK);
    ax_shard_writer_close(w);
    same_file("p.bin", AX_GOLDEN "/plain.bin");
    same_file("p.idx", AX_GOLDEN "/plain.idx");
    w = open_writer("q", 128256);
    assert_int_equal(ax_shard_writer_width(w), 4);
    assert_int_equal(ax_shard_writer_add(w, (int32_t[]){65535, 65536, 70000}, 3), AX_OK);
    assert_int_equal(ax_shard_writer_add(w, (int32_t[]){128255}, 1), AX_OK);
    assert_int_equal(ax_shard_writer_add(w, (int32_t[]){0, 1, 2, 3}, 4), AX_OK);
    assert_int_equal(ax_shard_writer_finish(w), AX_OK);
    ax_shard_writer_close(w);
    same_file("q.bin", AX_GOLDEN "/wide.bin");
    same_file("q.idx", AX_GOLDEN "/wide.idx");
    assert_int_equal(files_here(), 4);
}

static void documents_come_in_parts_and_can_be_dropped(void **state)
{
    (void)state;
    static const int32_t some[1 << 19] = {7};
    ax_shard_writer *w = open_writer("p", 65499);
    assert_int_equal(ax_shard_writer_put(w, (int32_t[]){1, 2}, 2), AX_OK);
    assert_int_equal(ax_shard_writer_put(w, (int32_t[]){3, 4}, 2), AX_OK);
    assert_int_equal(ax_shard_writer_end(w), AX_OK);
    assert_int_equal(ax_shard_writer_put(w, some, 5), AX_OK); // in the buffer
    assert_int_equal(ax_shard_writer_drop(w), AX_OK);
    assert_int_equal(ax_shard_writer_add(w, (int32_t[]){65498}, 1), AX_OK);
    for (int i = 0; i < 3; i++) // beyond it
        assert_int_equal(ax_shard_writer_put(w, some, 1 << 19), AX_OK);
    assert_int_equal(ax_shard_writer_drop(w), AX_OK);
    assert_int_equal(ax_shard_writer_put(w, (int32_t[]){5, 6}, 2), AX_OK);
    // A sequence ends at 2^31 - 1: seen before an id is read.
    assert_int_equal(ax_shard_writer_put(w, some, INT32_MAX - 1), AX_EFORMAT);
    assert_non_null(strstr(ax_error_text(), "document 2 has 2147483648 tokens or more"));
    assert_int_equal(ax_shard_writer_end(w), AX_OK);
    assert_int_equal(ax_shard_writer_finish(w), AX_OK);
    ax_shard_writer_close(w);
    same_file("p.bin", AX_GOLDEN "/plain.bin");
    same_file("p.idx", AX_GOLDEN "/plain.idx");
}

static void the_width_follows_the_vocabulary(void **state)
{
    (void)state;
    static const int64_t vocab[] = {1, 65499, 65500, 65536, 70000};
    static const int width[] = {2, 2, 4, 4, 4};
    for (int i = 0; i < 5; i++) {
        ax_shard_writer *w = open_writer("p", vocab[i]);
        int32_t id = (int32_t)vocab[i];
        assert_int_equal(ax_shard_writer_width(w), width[i]);
        assert_int_equal(ax_shard_writer_add(w, &id, 1), AX_EFORMAT);
        id = -1;
        assert_int_equal(ax_shard_writer_add(w, &id, 1), AX_EFORMAT);
        assert_string_equal(strchr(ax_error_text(), ':'),
                            i == 0 ? ": token 0 is -1, but the vocabulary has 1 ids"
                                   : strchr(ax_error_text(), ':'));
        ax_shard_writer_close(w);
    }
    assert_int_equal(files_here(), 0);
}

static void many_documents_and_long_ones_come_back(void **state)
{
    (void)state;
    enum { DOCUMENTS = 20000, LONG = 3000000 };
    ax_shard_writer *w = open_writer("p", 70000);
    int32_t *ids = malloc(LONG * sizeof *ids);
    for (int32_t i = 0; i < LONG; i++)
        ids[i] = i % 70000;
    for (int i = 0; i < DOCUMENTS; i++)
        assert_int_equal(ax_shard_writer_add(w, ids + i, i % 5), AX_OK);
    assert_int_equal(ax_shard_writer_add(w, ids, LONG), AX_OK);
    assert_int_equal(ax_shard_writer_finish(w), AX_OK);
    ax_shard_writer_close(w);
    ax_shard *s = open_shard("p");
    assert_int_equal(ax_shard_documents(s), DOCUMENTS + 1);
    assert_int_equal(ax_shard_tokens(s), DOCUMENTS / 5 * 10 + LONG);
    int64_t *begin = malloc((DOCUMENTS + 2) * sizeof *begin);
    assert_int_equal(ax_shard_borders(s, 0, DOCUMENTS + 2, begin), AX_OK);
    for (int i = 0; i < DOCUMENTS; i += 7) {
        assert_int_equal(begin[i + 1] - begin[i], i % 5);
        expect_ids(s, 70000, begin[i], i % 5, ids + i);
    }
    expect_ids(s, 70000, begin[DOCUMENTS], LONG, ids);
    free(begin);
    free(ids);
    ax_shard_close(s);
}

static void what_is_there_is_not_overwritten(void **state)
{
    (void)state;
    ax_shard_writer *w = NULL;
    write_bytes("p.idx", "x", 1);
    assert_int_equal(ax_shard_writer_open("p", 10, &w), AX_EUSAGE);
    assert_string_equal(ax_error_text(), "p.idx: exists; write to a new name");
    remove("p.idx");
    write_bytes("p.bin", "x", 1);
    assert_int_equal(ax_shard_writer_open("p", 10, &w), AX_EUSAGE);
    assert_string_equal(ax_error_text(),
                        "p.bin: exists, without p.idx: if a writer was killed between the two, "
                        "remove it; else write to a new name");
    remove("p.bin");
    assert_int_equal(ax_shard_writer_open("none/p", 10, &w), AX_EUSAGE);
    assert_string_equal(ax_error_text(),
                        "none/p.bin: cannot write there: No such file or directory");
    assert_null(w);
    w = open_writer("p", 10); // and what came while it was written
    assert_int_equal(ax_shard_writer_add(w, (int32_t[]){1}, 1), AX_OK);
    write_bytes("p.idx", "mine", 4);
    assert_int_equal(ax_shard_writer_finish(w), AX_EIO);
    ax_shard_writer_close(w);
    unsigned char kept[8];
    assert_int_equal(read_bytes("p.idx", kept, sizeof kept), 4);
    assert_int_equal(files_here(), 1);
}

static void an_unfinished_pair_leaves_nothing(void **state)
{
    (void)state;
    ax_shard_writer *w = open_writer("p", 10);
    assert_int_equal(ax_shard_writer_add(w, (int32_t[]){1, 2}, 2), AX_OK);
    assert_int_equal(files_here(), 2);
    ax_shard_writer_close(w);
    assert_int_equal(files_here(), 0);
    write_bytes(".tmp-p.bin", "left by a killed writer", 23);
    w = open_writer("p", 10);
    assert_int_equal(ax_shard_writer_add(w, (int32_t[]){1, 2}, 2), AX_OK);
    assert_int_equal(ax_shard_writer_finish(w), AX_OK);
    ax_shard_writer_close(w);
    assert_int_equal(files_here(), 2);
}

// The limit falls on every part of the work in turn: ids, lengths, pointers, borders.
static void a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    enum { DOCUMENTS = 1000 };
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    static const rlim_t limit[] = {0, 33, 34, 1000, 4000, 4034, 5000, 12033, 12034, 20041};
    for (size_t i = 0; i < sizeof limit / sizeof limit[0]; i++) {
        ax_shard_writer *w = open_writer("p", 10);
        small = before;
        small.rlim_cur = limit[i];
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        ax_status st = AX_OK;
        for (int j = 0; j < DOCUMENTS && st == AX_OK; j++)
            st = ax_shard_writer_add(w, (int32_t[]){1}, 1);
        if (st == AX_OK)
            st = ax_shard_writer_finish(w);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        ax_shard_writer_close(w);
        assert_int_equal(st, AX_EIO);
        assert_non_null(strstr(ax_error_text(), "File too large"));
        assert_int_equal(files_here(), 0);
    }
    signal(SIGXFSZ, handler);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, empty_folder)
    const struct CMUnitTest tests[] = {
        CASE(the_files_of_megatrons_builder_are_read),
        CASE(the_pair_has_three_names),
        CASE(a_token_belongs_to_the_document_that_holds_it),
        CASE(an_id_beyond_the_vocabulary_is_named),
        CASE(modes_are_refused_by_name),
        CASE(every_rule_of_the_index_is_checked),
        CASE(an_index_cut_anywhere_is_refused),
        CASE(a_file_cut_while_open_is_an_error),
        CASE(an_index_changed_while_open_is_an_error),
        CASE(files_of_llmc_are_read),
        CASE(a_wrong_header_of_llmc_is_refused),
        CASE(bare_ids_need_their_width),
        CASE(a_width_must_not_hide_what_the_file_tells),
        CASE(text_is_no_token_file),
        CASE(the_last_sample_of_5_gib_is_read),
        CASE(an_index_leads_beyond_4_gib),
        CASE(written_pairs_are_megatrons_byte_for_byte),
        CASE(documents_come_in_parts_and_can_be_dropped),
        CASE(the_width_follows_the_vocabulary),
        CASE(many_documents_and_long_ones_come_back),
        CASE(what_is_there_is_not_overwritten),
        CASE(an_unfinished_pair_leaves_nothing),
        CASE(a_full_disk_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}

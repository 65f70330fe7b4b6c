#include "data/shard.h"

#include "data/shard_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BLOCK = 32768, // bytes of ids that are converted at once
    LLMC_HEAD = 1024,
    LLMC_UINT16 = 20240520,
    LLMC_EVAL = 20240522,
    LLMC_UINT32 = 20240801,
    CODE_UINT32 = 100, // Megatron has no code for it
};

struct ax_shard {
    char *path, *index_path;
    int fd;
    int code, width;
    int64_t start; // bytes before the first id
    int64_t bytes; // of the file
    int64_t tokens;
    ax_shard_index index; // fd -1: none
};

// ---- names

static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n > m && strcmp(path + n - m, end) == 0;
}

static bool is_file(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

// Where a stated width begins, or NULL: ":uint16", and, to be refused, ":int8" and its like.
static const char *find_width(const char *path)
{
    const char *colon = strrchr(path, ':'), *at = colon ? colon + 1 : "";
    at += *at == 'u';
    size_t digits = strncmp(at, "int", 3) == 0 ? strspn(at + 3, "0123456789") : 0;
    return digits > 0 && !at[3 + digits] ? colon : NULL;
}

// `path` without its last `cut` letters, with `end` behind it.
static char *change_end(const char *path, size_t cut, const char *end)
{
    size_t n = strlen(path) - cut, m = strlen(end);
    char *name = malloc(n + m + 1);
    if (name) {
        memcpy(name, path, n);
        memcpy(name + n, end, m + 1);
    }
    return name;
}

static bool has_both(const char *path, size_t cut)
{
    char *bin = change_end(path, cut, ".bin"), *idx = change_end(path, cut, ".idx");
    bool both = bin && idx && is_file(bin) && is_file(idx);
    free(bin);
    free(idx);
    return both;
}

// A file of that very name comes before a pair with that prefix.
static bool is_prefix(const char *path)
{
    return !is_file(path) && has_both(path, 0);
}

static void sniff(const char *path, int32_t word[3])
{
    memset(word, 0, 3 * sizeof *word);
    int fd = is_file(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    if (pread(fd, word, 12, 0) != 12)
        memset(word, 0, 3 * sizeof *word);
    close(fd);
}

static bool is_llmc(const int32_t word[3])
{
    return (word[0] == LLMC_UINT16 && word[1] == 1) || (word[0] == LLMC_UINT32 && word[1] == 7);
}

bool ax_shard_is(const char *path)
{
    int32_t word[3];
    if (ends_in(path, ".bin") || ends_in(path, ".idx") || find_width(path) || is_prefix(path))
        return true;
    sniff(path, word);
    return is_llmc(word);
}

// ---- opening

static ax_status open_bytes(ax_shard *s)
{
    struct stat about;
    s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
    AX_CHECK(s->fd >= 0, errno == ENOENT ? AX_EUSAGE : AX_EIO, "%s: %s", s->path, strerror(errno));
    AX_CHECK(fstat(s->fd, &about) == 0, AX_EIO, "%s: %s", s->path, strerror(errno));
    AX_CHECK(S_ISREG(about.st_mode), AX_EUSAGE, "%s: not a regular file", s->path);
    s->bytes = about.st_size;
    return AX_OK;
}

static ax_status set_width(ax_shard *s, const char *word)
{
    bool wide = strcmp(word, "uint32") == 0;
    AX_CHECK(wide || strcmp(word, "uint16") == 0, AX_EUSAGE,
             "%s:%s: bare ids are uint16 or uint32: write %s:uint16", s->path, word, s->path);
    s->code = wide ? CODE_UINT32 : AX_SHARD_UINT16;
    s->width = wide ? 4 : 2;
    return AX_OK;
}

// The header must not be taken for ids, nor borders be lost that an index would tell.
static ax_status open_bare(ax_shard *s, const char *word)
{
    int32_t first[3];
    AX_TRY(set_width(s, word));
    AX_TRY(open_bytes(s));
    sniff(s->path, first);
    AX_CHECK(!is_llmc(first), AX_EUSAGE,
             "%s: begins with the header of an llm.c file, which tells its width: leave :%s out",
             s->path, word);
    AX_CHECK(!ends_in(s->path, ".bin") || !has_both(s->path, 4), AX_EUSAGE,
             "%s: the .idx beside it tells its width: leave :%s out", s->path, word);
    AX_CHECK(s->bytes % s->width == 0, AX_EFORMAT,
             "%s: %" PRId64 " bytes are no whole number of %s ids", s->path, s->bytes, word);
    s->tokens = s->bytes / s->width;
    return AX_OK;
}

static ax_status open_llmc(ax_shard *s)
{
    int32_t word[3] = {0};
    AX_TRY(open_bytes(s));
    if (s->bytes >= 12)
        AX_TRY(ax_shard_pread(s->fd, s->path, word, 12, 0));
    AX_CHECK(word[0] != LLMC_EVAL, AX_EUNSUPPORTED,
             "%s: an llm.c file of multiple-choice questions, not of training tokens", s->path);
    bool wide = word[0] == LLMC_UINT32;
    AX_CHECK(wide || word[0] == LLMC_UINT16, AX_EUSAGE,
             "%s: there is no .idx beside it and it has no llm.c header, so nothing tells how wide "
             "its ids are: write %s:uint16 or %s:uint32",
             s->path, s->path, s->path);
    AX_CHECK(word[1] == (wide ? 7 : 1), AX_EFORMAT, "%s: an llm.c header of version %d, not %d",
             s->path, word[1], wide ? 7 : 1);
    s->code = wide ? CODE_UINT32 : AX_SHARD_UINT16;
    s->width = wide ? 4 : 2;
    AX_CHECK(word[2] >= 0 && s->bytes == LLMC_HEAD + (int64_t)word[2] * s->width, AX_EFORMAT,
             "%s: its header counts %d tokens of %d bytes behind %d bytes of header, but the file "
             "has %" PRId64 " bytes",
             s->path, word[2], s->width, LLMC_HEAD, s->bytes);
    s->start = LLMC_HEAD;
    s->tokens = word[2];
    return AX_OK;
}

static ax_status open_pair(ax_shard *s)
{
    AX_TRY(open_bytes(s));
    AX_TRY(ax_shard_index_open(s->index_path, s->bytes, &s->index));
    s->code = s->index.code;
    s->width = s->index.width;
    s->tokens = s->index.tokens;
    return AX_OK;
}

static ax_status set_names(ax_shard *s, const char *path, size_t cut, bool pair)
{
    s->path = change_end(path, cut, pair ? ".bin" : "");
    s->index_path = pair ? change_end(path, cut, ".idx") : NULL;
    AX_CHECK(s->path && (!pair || s->index_path), AX_ENOMEM, "no memory for a file name");
    return AX_OK;
}

static ax_status open_named(ax_shard *s, const char *path)
{
    const char *width = find_width(path);
    bool ended = ends_in(path, ".bin") || ends_in(path, ".idx");
    if (width) {
        AX_TRY(set_names(s, path, strlen(width), false));
        return open_bare(s, width + 1);
    }
    if (is_prefix(path) || (ended && has_both(path, 4))) {
        AX_TRY(set_names(s, path, ended && !is_prefix(path) ? 4 : 0, true));
        return open_pair(s);
    }
    AX_CHECK(!ends_in(path, ".idx"), AX_EUSAGE, "%s: the .bin and the .idx must both be there",
             path);
    AX_TRY(set_names(s, path, 0, false));
    return open_llmc(s);
}

ax_status ax_shard_open(const char *path, ax_shard **out)
{
    ax_shard *s = calloc(1, sizeof *s);
    AX_CHECK(s, AX_ENOMEM, "no memory for a token file");
    s->fd = s->index.fd = -1;
    ax_status st = open_named(s, path);
    if (st != AX_OK) {
        ax_shard_close(s);
        return st;
    }
    *out = s;
    return AX_OK;
}

void ax_shard_close(ax_shard *s)
{
    if (!s)
        return;
    ax_shard_index_close(&s->index);
    if (s->fd >= 0)
        close(s->fd);
    free(s->path);
    free(s->index_path);
    free(s);
}

// ---- what it is

const char *ax_shard_path(const ax_shard *s)
{
    return s->path;
}

int64_t ax_shard_tokens(const ax_shard *s)
{
    return s->tokens;
}

int64_t ax_shard_documents(const ax_shard *s)
{
    return s->index.fd >= 0 ? s->index.documents : 0;
}

int64_t ax_shard_widest(const ax_shard *s)
{
    bool is_unsigned =
        s->code == AX_SHARD_UINT8 || s->code == AX_SHARD_UINT16 || s->code == CODE_UINT32;
    int bits = 8 * s->width - !is_unsigned;
    return (int64_t)(((uint64_t)1 << bits) - 1);
}

// ---- ids

#define WIDEN(type)                                                                                \
    for (int64_t i = 0; i < count; i++)                                                            \
    id[i] = ((const type *)raw)[i]

static void widen(int code, const void *raw, int64_t count, int64_t *id)
{
    switch (code) {
    case AX_SHARD_UINT8:
        WIDEN(uint8_t);
        break;
    case AX_SHARD_INT8:
        WIDEN(int8_t);
        break;
    case AX_SHARD_INT16:
        WIDEN(int16_t);
        break;
    case AX_SHARD_INT32:
        WIDEN(int32_t);
        break;
    case AX_SHARD_INT64:
        WIDEN(int64_t);
        break;
    case AX_SHARD_UINT16:
        WIDEN(uint16_t);
        break;
    default:
        WIDEN(uint32_t);
    }
}

// ids may be NULL: the range is what is asked for.
static ax_status take_ids(const ax_shard *s, int64_t vocab, int64_t first, int64_t count,
                          const int64_t *id, int32_t *ids)
{
    bool bad = false;
    for (int64_t i = 0; i < count; i++)
        bad |= (uint64_t)id[i] >= (uint64_t)vocab;
    for (int64_t i = 0; bad && i < count; i++)
        AX_CHECK((uint64_t)id[i] < (uint64_t)vocab, AX_EFORMAT,
                 "%s: token %" PRId64 " is %" PRId64 ", but the vocabulary has %" PRId64
                 " ids: another tokenizer made the file, or its ids have another width",
                 s->path, first + i, id[i], vocab);
    for (int64_t i = 0; ids && i < count; i++)
        ids[i] = (int32_t)id[i];
    return AX_OK;
}

static ax_status read_ids(const ax_shard *s, int64_t vocab, int64_t first, int64_t count,
                          int32_t *ids)
{
    union {
        unsigned char bytes[BLOCK];
        int64_t aligned;
    } raw;
    int64_t id[BLOCK / 8]; // as many as fit at any width
    for (int64_t i = 0; i < count; i += BLOCK / 8) {
        int64_t n = count - i < BLOCK / 8 ? count - i : BLOCK / 8;
        AX_TRY(ax_shard_pread(s->fd, s->path, raw.bytes, n * s->width,
                              s->start + (first + i) * s->width));
        widen(s->code, raw.bytes, n, id);
        AX_TRY(take_ids(s, vocab, first + i, n, id, ids ? ids + i : NULL));
    }
    return AX_OK;
}

ax_status ax_shard_read(const ax_shard *s, int64_t vocab, int64_t first, int64_t count,
                        int32_t *ids)
{
    AX_CHECK(first >= 0 && count >= 0 && first <= s->tokens && count <= s->tokens - first,
             AX_EINTERNAL, "%s: tokens %" PRId64 " to %" PRId64 " of %" PRId64, s->path, first,
             first + count, s->tokens);
    AX_CHECK(vocab > 0 && vocab <= INT32_MAX, AX_EINTERNAL, "a vocabulary of %" PRId64 " ids",
             vocab);
    return read_ids(s, vocab, first, count, ids);
}

ax_status ax_shard_check(const ax_shard *s, int64_t vocab)
{
    return ax_shard_read(s, vocab, 0, s->tokens, NULL);
}

// ---- documents

ax_status ax_shard_borders(const ax_shard *s, int64_t first, int64_t count, int64_t *begin)
{
    AX_CHECK(s->index.fd >= 0 && first >= 0 && count >= 0 && first <= s->index.documents &&
                 count <= s->index.documents + 1 - first,
             AX_EINTERNAL, "%s: borders %" PRId64 " to %" PRId64 " of %" PRId64 " documents",
             s->path, first, first + count, ax_shard_documents(s));
    return ax_shard_index_borders(&s->index, first, count, begin);
}

ax_status ax_shard_find(const ax_shard *s, int64_t token, int64_t *document)
{
    AX_CHECK(token >= 0 && token < s->tokens, AX_EINTERNAL, "%s: token %" PRId64 " of %" PRId64,
             s->path, token, s->tokens);
    int64_t low = 0, high = ax_shard_documents(s); // begins at or before; begins behind
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2, begin;
        AX_TRY(ax_shard_borders(s, middle, 1, &begin));
        *(begin <= token ? &low : &high) = middle;
    }
    *document = low;
    return AX_OK;
}

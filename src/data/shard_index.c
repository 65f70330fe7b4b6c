#include "data/shard_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 2048 }; // entries

ax_status ax_shard_pread(int fd, const char *path, void *bytes, int64_t count, int64_t offset)
{
    for (int64_t done = 0; done < count;) {
        ssize_t n = pread(fd, (char *)bytes + done, (size_t)(count - done), offset + done);
        if (n < 0 && errno == EINTR)
            continue;
        AX_CHECK(n >= 0, AX_EIO, "%s: %s", path, strerror(errno));
        AX_CHECK(n > 0, AX_EIO, "%s: ends at byte %" PRId64 ": it was cut since it was opened",
                 path, offset + done);
        done += n;
    }
    return AX_OK;
}

// ---- the layout

static int64_t lengths_at(int64_t i)
{
    return AX_SHARD_INDEX_HEAD + 4 * i;
}

static int64_t pointers_at(const ax_shard_index *x, int64_t i)
{
    return AX_SHARD_INDEX_HEAD + 4 * x->sequences + 8 * i;
}

static int64_t documents_at(const ax_shard_index *x, int64_t i)
{
    return AX_SHARD_INDEX_HEAD + 12 * x->sequences + 8 * i;
}

// ---- the head

static uint64_t take64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static ax_status take_code(ax_shard_index *x, int code)
{
    static const int width[] = {[AX_SHARD_UINT8] = 1, [AX_SHARD_INT8] = 1,  [AX_SHARD_INT16] = 2,
                                [AX_SHARD_INT32] = 4, [AX_SHARD_INT64] = 8, [AX_SHARD_UINT16] = 2};
    AX_CHECK(code != 6 && code != 7, AX_EUNSUPPORTED,
             "%s: its ids are %s, but token ids are integers", x->path,
             code == 6 ? "float64" : "float32");
    AX_CHECK(code >= 1 && code <= AX_SHARD_UINT16, AX_EFORMAT,
             "%s: byte 17: %d is no code of a type (1 to 8)", x->path, code);
    x->code = code;
    x->width = width[code];
    return AX_OK;
}

static ax_status check_size(const ax_shard_index *x, uint64_t sequences, uint64_t borders,
                            int64_t size)
{
    uint64_t room = (uint64_t)size - AX_SHARD_INDEX_HEAD;
    AX_CHECK(sequences <= room / 12 && borders <= (room - 12 * sequences) / 8, AX_EFORMAT,
             "%s: its %" PRId64 " bytes do not hold the %" PRIu64 " sequences and %" PRIu64
             " document borders that it counts: it is cut, or no index",
             x->path, size, sequences, borders);
    uint64_t rest = room - 12 * sequences - 8 * borders;
    AX_CHECK(rest == 0 || rest != sequences, AX_EUNSUPPORTED,
             "%s: a multimodal index: its sequences have modes; only text can be trained on",
             x->path);
    AX_CHECK(rest == 0, AX_EFORMAT, "%s: %" PRIu64 " bytes too many behind its last entry", x->path,
             rest);
    return AX_OK;
}

static ax_status read_head(ax_shard_index *x)
{
    struct stat about;
    unsigned char head[AX_SHARD_INDEX_HEAD];
    AX_CHECK(fstat(x->fd, &about) == 0, AX_EIO, "%s: %s", x->path, strerror(errno));
    AX_CHECK(S_ISREG(about.st_mode) && about.st_size >= AX_SHARD_INDEX_HEAD, AX_EFORMAT,
             "%s: too short for an index: it has no %d bytes of header", x->path,
             AX_SHARD_INDEX_HEAD);
    AX_TRY(ax_shard_pread(x->fd, x->path, head, AX_SHARD_INDEX_HEAD, 0));
    AX_CHECK(memcmp(head, "MMIDIDX\0\0", 9) == 0, AX_EFORMAT,
             "%s: does not begin with MMIDIDX: it is no Megatron index", x->path);
    AX_CHECK(take64(head + 9) == 1, AX_EFORMAT, "%s: byte 9: version %" PRIu64 ", not 1", x->path,
             take64(head + 9));
    AX_TRY(take_code(x, head[17]));
    AX_TRY(check_size(x, take64(head + 18), take64(head + 26), about.st_size));
    AX_CHECK(take64(head + 26) > 0, AX_EFORMAT, "%s: byte 26: no border of a document", x->path);
    x->sequences = (int64_t)take64(head + 18);
    x->documents = (int64_t)take64(head + 26) - 1;
    return AX_OK;
}

// ---- the entries

// Sequences follow one another without a gap: the lengths give the offsets.
static ax_status check_sequences(ax_shard_index *x, int64_t bin_bytes)
{
    int32_t length[BLOCK];
    int64_t pointer[BLOCK], at = 0;
    for (int64_t i = 0; i < x->sequences; i += BLOCK) {
        int64_t n = x->sequences - i < BLOCK ? x->sequences - i : BLOCK;
        AX_TRY(ax_shard_pread(x->fd, x->path, length, 4 * n, lengths_at(i)));
        AX_TRY(ax_shard_pread(x->fd, x->path, pointer, 8 * n, pointers_at(x, i)));
        for (int64_t j = 0; j < n; j++) {
            AX_CHECK(length[j] >= 0 && length[j] <= (bin_bytes - at) / x->width, AX_EFORMAT,
                     "%s: sequence %" PRId64 " has %d tokens and begins at byte %" PRId64
                     ", but the .bin has %" PRId64 " bytes",
                     x->path, i + j, (int)length[j], at, bin_bytes);
            AX_CHECK(pointer[j] == at, AX_EFORMAT,
                     "%s: sequence %" PRId64 " begins at byte %" PRId64
                     ", but those before it end at %" PRId64,
                     x->path, i + j, pointer[j], at);
            at += (int64_t)length[j] * x->width;
        }
    }
    AX_CHECK(at == bin_bytes, AX_EFORMAT,
             "%s: its sequences end at byte %" PRId64 ", but the .bin has %" PRId64 " bytes",
             x->path, at, bin_bytes);
    x->tokens = at / x->width;
    return AX_OK;
}

static ax_status check_documents(const ax_shard_index *x)
{
    int64_t border[BLOCK], before = 0;
    for (int64_t i = 0; i <= x->documents; i += BLOCK) {
        int64_t n = x->documents + 1 - i < BLOCK ? x->documents + 1 - i : BLOCK;
        AX_TRY(ax_shard_pread(x->fd, x->path, border, 8 * n, documents_at(x, i)));
        AX_CHECK(i > 0 || border[0] == 0, AX_EFORMAT,
                 "%s: document 0 begins with sequence %" PRId64 ", not 0", x->path, border[0]);
        for (int64_t j = 0; j < n; before = border[j++])
            AX_CHECK(border[j] >= before && border[j] <= x->sequences, AX_EFORMAT,
                     "%s: document border %" PRId64 " is sequence %" PRId64
                     ", which is not from %" PRId64 " to %" PRId64,
                     x->path, i + j, border[j], before, x->sequences);
    }
    AX_CHECK(before == x->sequences, AX_EFORMAT,
             "%s: its documents end at sequence %" PRId64 " of %" PRId64, x->path, before,
             x->sequences);
    return AX_OK;
}

ax_status ax_shard_index_open(const char *path, int64_t bin_bytes, ax_shard_index *out)
{
    ax_shard_index x = {.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    AX_CHECK(x.fd >= 0, AX_EIO, "%s: %s", path, strerror(errno));
    ax_status st = read_head(&x);
    if (st == AX_OK)
        st = check_sequences(&x, bin_bytes);
    if (st == AX_OK)
        st = check_documents(&x);
    if (st != AX_OK) {
        close(x.fd);
        return st;
    }
    *out = x;
    return AX_OK;
}

void ax_shard_index_close(ax_shard_index *x)
{
    if (x->fd >= 0)
        close(x->fd);
    x->fd = -1;
}

// ---- borders

// begin[count]: the first token of each sequence [first, first + count).
static ax_status read_starts(const ax_shard_index *x, int64_t first, int64_t count, int64_t *begin)
{
    int64_t have = x->sequences - first < count ? x->sequences - first : count;
    AX_TRY(ax_shard_pread(x->fd, x->path, begin, 8 * have, pointers_at(x, first)));
    for (int64_t i = 0; i < have; i++) {
        begin[i] /= x->width;
        AX_CHECK(begin[i] >= 0 && begin[i] <= x->tokens, AX_EIO, "%s: changed since it was opened",
                 x->path);
    }
    if (have < count) // the end, which has no entry
        begin[have] = x->tokens;
    return AX_OK;
}

ax_status ax_shard_index_borders(const ax_shard_index *x, int64_t first, int64_t count,
                                 int64_t *begin)
{
    int64_t border[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        int64_t n = count - i < BLOCK ? count - i : BLOCK;
        AX_TRY(ax_shard_pread(x->fd, x->path, border, 8 * n, documents_at(x, first + i)));
        for (int64_t j = 0, run; j < n; j += run) {
            run = 1; // most documents are one sequence: read their starts at once
            AX_CHECK(border[j] >= 0 && border[j] <= x->sequences, AX_EIO,
                     "%s: changed since it was opened", x->path);
            while (j + run < n && border[j + run] == border[j] + run &&
                   border[j] + run <= x->sequences)
                run++;
            AX_TRY(read_starts(x, border[j], run, begin + i + j));
        }
    }
    return AX_OK;
}

#include "data/shard_write.h"

#include "data/shard_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NARROW_VOCAB = 65500, // below: uint16
    BUFFER = 1 << 20,
    BLOCK = 4096, // entries
};

typedef struct sink { // a file that grows
    char *part, *name;
    int fd;
    bool made;     // `part` is ours to remove
    int64_t bytes; // written or in the buffer
    unsigned char *buffer;
    size_t held;
} sink;

struct ax_shard_writer {
    char *folder;
    int64_t vocab;
    int width;
    sink bin, idx; // idx: its lengths come first, so they can be written as they come
    int64_t documents;
    int64_t ids; // of the document under way
};

// ---- bytes

static ax_status write_all(sink *s, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t n = write(s->fd, (const char *)bytes + done, count - done);
        if (n < 0 && errno == EINTR)
            continue;
        AX_CHECK(n > 0, AX_EIO, "%s: cannot write behind %" PRId64 " bytes: %s", s->part,
                 s->bytes - (int64_t)s->held, strerror(n < 0 ? errno : ENOSPC));
        done += (size_t)n;
    }
    return AX_OK;
}

static ax_status flush(sink *s)
{
    AX_TRY(write_all(s, s->buffer, s->held));
    s->held = 0;
    return AX_OK;
}

static ax_status put(sink *s, const void *bytes, size_t count)
{
    for (size_t done = 0, n; done < count; done += n) {
        if (s->held == BUFFER)
            AX_TRY(flush(s));
        n = count - done < BUFFER - s->held ? count - done : BUFFER - s->held;
        memcpy(s->buffer + s->held, (const char *)bytes + done, n);
        s->held += n;
        s->bytes += (int64_t)n;
    }
    return AX_OK;
}

// ---- documents

static ax_status put_narrow(sink *s, const int32_t *ids, int64_t count)
{
    uint16_t narrow[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        int64_t n = count - i < BLOCK ? count - i : BLOCK;
        for (int64_t j = 0; j < n; j++)
            narrow[j] = (uint16_t)ids[i + j];
        AX_TRY(put(s, narrow, (size_t)n * sizeof *narrow));
    }
    return AX_OK;
}

ax_status ax_shard_writer_put(ax_shard_writer *w, const int32_t *ids, int64_t count)
{
    AX_CHECK(count <= INT32_MAX - w->ids, AX_EFORMAT,
             "document %" PRId64 " has %" PRId64
             " tokens or more; a sequence of %s holds 2^31 - 1: cut the text into several",
             w->documents, w->ids + count, w->idx.name);
    for (int64_t i = 0; i < count; i++)
        AX_CHECK(ids[i] >= 0 && ids[i] < w->vocab, AX_EFORMAT,
                 "document %" PRId64 ": token %" PRId64 " is %d, but the vocabulary has %" PRId64
                 " ids",
                 w->documents, w->ids + i, (int)ids[i], w->vocab);
    AX_TRY(w->width == 2 ? put_narrow(&w->bin, ids, count)
                         : put(&w->bin, ids, (size_t)count * sizeof *ids));
    w->ids += count;
    return AX_OK;
}

ax_status ax_shard_writer_end(ax_shard_writer *w)
{
    int32_t length = (int32_t)w->ids;
    AX_TRY(put(&w->idx, &length, sizeof length));
    w->ids = 0;
    w->documents++;
    return AX_OK;
}

ax_status ax_shard_writer_drop(ax_shard_writer *w)
{
    sink *s = &w->bin;
    int64_t keep = s->bytes - w->ids * w->width;
    w->ids = 0;
    AX_TRY(flush(s));
    AX_CHECK(ftruncate(s->fd, keep) == 0 && lseek(s->fd, keep, SEEK_SET) == keep, AX_EIO,
             "%s: cannot go back to byte %" PRId64 ": %s", s->part, keep, strerror(errno));
    s->bytes = keep;
    return AX_OK;
}

ax_status ax_shard_writer_add(ax_shard_writer *w, const int32_t *ids, int64_t count)
{
    AX_TRY(ax_shard_writer_put(w, ids, count));
    return ax_shard_writer_end(w);
}

// ---- the end

// Read back from the file: there may be more documents than memory.
static ax_status put_pointers(ax_shard_writer *w)
{
    int32_t length[BLOCK];
    int64_t pointer[BLOCK], at = 0;
    AX_TRY(flush(&w->idx));
    for (int64_t i = 0; i < w->documents; i += BLOCK) {
        int64_t n = w->documents - i < BLOCK ? w->documents - i : BLOCK;
        AX_TRY(ax_shard_pread(w->idx.fd, w->idx.part, length, 4 * n, AX_SHARD_INDEX_HEAD + 4 * i));
        for (int64_t j = 0; j < n; j++) {
            pointer[j] = at;
            at += (int64_t)length[j] * w->width;
        }
        AX_TRY(put(&w->idx, pointer, (size_t)n * sizeof *pointer));
    }
    return AX_OK;
}

static ax_status put_documents(ax_shard_writer *w)
{
    for (int64_t i = 0; i <= w->documents; i++)
        AX_TRY(put(&w->idx, &i, sizeof i));
    return flush(&w->idx);
}

static void make_head(const ax_shard_writer *w, unsigned char head[AX_SHARD_INDEX_HEAD])
{
    uint64_t version = 1, sequences = (uint64_t)w->documents, borders = sequences + 1;
    memcpy(head, "MMIDIDX\0\0", 9);
    memcpy(head + 9, &version, 8);
    head[17] = w->width == 2 ? AX_SHARD_UINT16 : AX_SHARD_INT32;
    memcpy(head + 18, &sequences, 8);
    memcpy(head + 26, &borders, 8);
}

static ax_status put_head(ax_shard_writer *w)
{
    unsigned char head[AX_SHARD_INDEX_HEAD];
    make_head(w, head);
    ssize_t n = pwrite(w->idx.fd, head, sizeof head, 0);
    AX_CHECK(n == (ssize_t)sizeof head, AX_EIO, "%s: cannot write: %s", w->idx.part,
             strerror(n < 0 ? errno : ENOSPC));
    return AX_OK;
}

static ax_status seal(sink *s)
{
    AX_CHECK(fsync(s->fd) == 0, AX_EIO, "%s: cannot write: %s", s->part, strerror(errno));
    int fd = s->fd;
    s->fd = -1;
    AX_CHECK(close(fd) == 0, AX_EIO, "%s: cannot write: %s", s->part, strerror(errno));
    return AX_OK;
}

static ax_status take_name(sink *s)
{
    int failed = renameat2(AT_FDCWD, s->part, AT_FDCWD, s->name, RENAME_NOREPLACE);
    if (failed && errno == EINVAL) // a file system that cannot tell; the lock keeps others away
        failed = rename(s->part, s->name);
    AX_CHECK(!failed, AX_EIO, "%s: cannot take its name: %s", s->name, strerror(errno));
    free(s->part);
    s->part = NULL;
    return AX_OK;
}

static ax_status sync_folder(const ax_shard_writer *w)
{
    int fd = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AX_CHECK(fd >= 0, AX_EIO, "%s: %s", w->folder, strerror(errno));
    int failed = fsync(fd), why = errno;
    close(fd);
    AX_CHECK(!failed || why == EINVAL, AX_EIO, "%s: %s", w->folder, strerror(why));
    return AX_OK;
}

ax_status ax_shard_writer_finish(ax_shard_writer *w)
{
    AX_TRY(flush(&w->bin));
    AX_TRY(put_pointers(w));
    AX_TRY(put_documents(w));
    AX_TRY(put_head(w));
    AX_TRY(seal(&w->bin));
    AX_TRY(seal(&w->idx));
    AX_TRY(take_name(&w->bin));
    ax_status st = take_name(&w->idx);
    if (st != AX_OK)
        unlink(w->bin.name); // ours: it was given the name just now
    AX_TRY(st);
    return sync_folder(w);
}

// ---- opening

static char *join_name(const char *folder, const char *before, const char *base, const char *end)
{
    size_t n = strlen(folder) + strlen(before) + strlen(base) + strlen(end) + 2;
    char *name = malloc(n);
    if (name)
        snprintf(name, n, "%s/%s%s%s", folder, before, base, end);
    return name;
}

static ax_status name_sink(const ax_shard_writer *w, sink *s, const char *prefix, const char *base,
                           const char *end)
{
    size_t n = strlen(prefix) + strlen(end) + 1;
    s->part = join_name(w->folder, ".tmp-", base, end);
    s->name = malloc(n);
    s->buffer = malloc(BUFFER);
    AX_CHECK(s->part && s->name && s->buffer, AX_ENOMEM, "no memory to write %s", prefix);
    snprintf(s->name, n, "%s%s", prefix, end);
    return AX_OK;
}

static bool is_there(const sink *s)
{
    struct stat about;
    return lstat(s->name, &about) == 0;
}

static ax_status check_free(const ax_shard_writer *w)
{
    AX_CHECK(!is_there(&w->bin) || is_there(&w->idx), AX_EUSAGE,
             "%s: exists, without %s: if a writer was killed between the two, remove it; else "
             "write to a new name",
             w->bin.name, w->idx.name);
    AX_CHECK(!is_there(&w->bin) && !is_there(&w->idx), AX_EUSAGE, "%s: exists; write to a new name",
             w->idx.name);
    return AX_OK;
}

static ax_status open_sink(sink *s)
{
    unlink(s->part); // of a writer that was killed
    s->fd = open(s->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    AX_CHECK(s->fd >= 0, errno == ENOENT ? AX_EUSAGE : AX_EIO, "%s: cannot write there: %s",
             s->name, strerror(errno));
    s->made = true;
    return AX_OK;
}

static ax_status open_writer(ax_shard_writer *w, const char *prefix)
{
    static const unsigned char head[AX_SHARD_INDEX_HEAD];
    const char *slash = strrchr(prefix, '/'), *base = slash ? slash + 1 : prefix;
    AX_CHECK(*base, AX_EUSAGE, "'%s' cannot begin the name of a file", prefix);
    w->folder = !slash            ? strdup(".")
                : slash == prefix ? strdup("/")
                                  : strndup(prefix, (size_t)(slash - prefix));
    AX_CHECK(w->folder, AX_ENOMEM, "no memory to write %s", prefix);
    AX_TRY(name_sink(w, &w->bin, prefix, base, ".bin"));
    AX_TRY(name_sink(w, &w->idx, prefix, base, ".idx"));
    AX_TRY(check_free(w));
    AX_TRY(open_sink(&w->bin));
    AX_TRY(open_sink(&w->idx));
    return put(&w->idx, head, sizeof head); // filled in at the end
}

ax_status ax_shard_writer_open(const char *prefix, int64_t vocab, ax_shard_writer **out)
{
    ax_shard_writer *w = calloc(1, sizeof *w);
    AX_CHECK(w, AX_ENOMEM, "no memory to write %s", prefix);
    w->bin.fd = w->idx.fd = -1;
    w->vocab = vocab;
    w->width = vocab < NARROW_VOCAB ? 2 : 4;
    ax_status st = open_writer(w, prefix);
    if (st != AX_OK) {
        ax_shard_writer_close(w);
        return st;
    }
    *out = w;
    return AX_OK;
}

static void close_sink(sink *s)
{
    if (s->fd >= 0)
        close(s->fd);
    if (s->part && s->made)
        unlink(s->part);
    free(s->part);
    free(s->name);
    free(s->buffer);
}

void ax_shard_writer_close(ax_shard_writer *w)
{
    if (!w)
        return;
    close_sink(&w->bin);
    close_sink(&w->idx);
    free(w->folder);
    free(w);
}

int ax_shard_writer_width(const ax_shard_writer *w)
{
    return w->width;
}

#include "data/documents.h"

#include "base/log.h"
#include "data/documents_json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum {
    ROOM = 1 << 20,   // of the buffer at first
    PART = 256 << 10, // of a text that may be cut, at least
    WARNED = 3,       // skipped lines that are named one by one
    // A few packed bytes can unpack to all memory: what is long must be in proportion to its file.
    PROPORTION_FROM = 64 << 20,
    PROPORTION = 1024,
};

struct ax_documents {
    char *path;
    ax_documents_options options;
    bool has_lines;
    int fd;

    ZSTD_DStream *zstd;    // NULL: the file is not compressed
    unsigned char *packed; // a block of the file
    size_t packed_room, packed_begin, packed_end;
    int64_t packed_before; // bytes of the file before that block
    bool in_frame;         // of zstd; a file may not end there

    char *buffer; // text[begin, end) is there and not handed out; no line ends before `seen`
    size_t room, begin, end, seen;
    bool ended; // nothing is left behind `end`

    int64_t lines, bytes, skipped;
    bool handed;        // the one document of a text file, or its last part
    int64_t handed_out; // bytes of it
    ax_document last;
};

// ---- names

static bool ends_in(const char *path, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n > m && strncmp(path + n - m, end, m) == 0;
}

static size_t without_zst(const char *path)
{
    size_t n = strlen(path);
    return ends_in(path, n, ".zst") ? n - 4 : n;
}

bool ax_documents_has_lines(const char *path)
{
    return ends_in(path, without_zst(path), ".jsonl");
}

// ---- bytes

static ax_status read_file(ax_documents *d, void *to, size_t room, size_t *count)
{
    ssize_t n;
    do
        n = read(d->fd, to, room);
    while (n < 0 && errno == EINTR);
    AX_CHECK(n >= 0, AX_EIO, "%s: %s after line %" PRId64, d->path, strerror(errno), d->lines);
    *count = (size_t)n;
    return AX_OK;
}

static ax_status read_packed(ax_documents *d)
{
    d->packed_begin = 0;
    d->packed_before += (int64_t)d->packed_end;
    AX_TRY(read_file(d, d->packed, d->packed_room, &d->packed_end));
    AX_CHECK(d->packed_end > 0 || !d->in_frame, AX_EFORMAT,
             "%s: the compressed stream ends in the middle, after line %" PRId64
             ": the file is cut",
             d->path, d->lines);
    return AX_OK;
}

// At least one byte unless the file ends.
static ax_status unpack(ax_documents *d, void *to, size_t room, size_t *count)
{
    ZSTD_outBuffer out = {to, room, 0};
    while (out.pos == 0) {
        ZSTD_inBuffer in = {d->packed, d->packed_end, d->packed_begin};
        size_t rest = ZSTD_decompressStream(d->zstd, &out, &in);
        AX_CHECK(!ZSTD_isError(rest), AX_EFORMAT,
                 "%s: %s near byte %" PRId64 ", after line %" PRId64 ": %s", d->path,
                 d->bytes > 0 ? "the zstd stream is damaged" : "no zstd stream, or a damaged one",
                 d->packed_before + (int64_t)in.pos, d->lines, ZSTD_getErrorName(rest));
        bool moved = in.pos > d->packed_begin || out.pos > 0;
        if (moved)
            d->in_frame = rest != 0;
        d->packed_begin = in.pos;
        if (out.pos > 0 || d->packed_begin < d->packed_end)
            continue;
        AX_TRY(read_packed(d));
        if (d->packed_end == 0)
            break;
    }
    *count = out.pos;
    return AX_OK;
}

static ax_status check_proportion(const ax_documents *d, size_t left)
{
    struct stat about;
    if (!d->zstd || left < PROPORTION_FROM)
        return AX_OK;
    AX_CHECK(fstat(d->fd, &about) == 0, AX_EIO, "%s: %s", d->path, strerror(errno));
    AX_CHECK(left / PROPORTION <= (size_t)about.st_size, AX_EFORMAT,
             "%s: its %lld bytes unpack to %zu and more in line %" PRId64
             ", over %d times as many: if that is meant, unpack the file first",
             d->path, (long long)about.st_size, left, d->lines + 1, PROPORTION);
    return AX_OK;
}

// Moves what is left to the front, and doubles the room where that gains less than half.
static ax_status make_room(ax_documents *d)
{
    if (d->end < d->room)
        return AX_OK;
    size_t left = d->end - d->begin;
    AX_TRY(check_proportion(d, left));
    if (left > d->room / 2) {
        char *grown = realloc(d->buffer, d->room * 2);
        AX_CHECK(grown, AX_ENOMEM, "%s: no memory for line %" PRId64 ", of more than %zu bytes",
                 d->path, d->lines + 1, left);
        d->buffer = grown;
        d->room *= 2;
    }
    memmove(d->buffer, d->buffer + d->begin, left);
    d->seen -= d->begin;
    d->begin = 0;
    d->end = left;
    return AX_OK;
}

static ax_status fill(ax_documents *d)
{
    size_t n;
    AX_TRY(make_room(d));
    char *to = d->buffer + d->end;
    AX_TRY(d->zstd ? unpack(d, to, d->room - d->end, &n) : read_file(d, to, d->room - d->end, &n));
    d->end += n;
    d->bytes += (int64_t)n;
    d->ended = n == 0;
    return AX_OK;
}

// ---- records

// Bytes of the next part of a text; 0: all that is left. What was searched once is not searched
// again: a border stays one whatever follows.
static ax_status find_part(ax_documents *d, size_t *part)
{
    const ax_documents_options *o = &d->options;
    *part = 0;
    while (!d->ended) {
        size_t there = d->end - d->begin, searched = d->seen - d->begin;
        if (o->border && there >= PART && there > searched) {
            size_t from = searched > 0 ? searched - 1 : 0; // a border lies between two bytes
            size_t at = o->border(o->border_ctx, d->buffer + d->begin + from, there - from);
            *part = at ? from + at : 0;
            d->seen = d->end;
            if (*part > 0)
                return AX_OK;
        }
        AX_TRY(fill(d));
    }
    return AX_OK;
}

static ax_status read_text(ax_documents *d, ax_record *out, bool *found)
{
    size_t part;
    *found = !d->handed;
    if (d->handed)
        return AX_OK;
    AX_TRY(find_part(d, &part));
    size_t n = part ? part : d->end - d->begin;
    *out = (ax_record){
        .bytes = d->buffer + d->begin, .length = n, .at = d->handed_out, .goes_on = part > 0};
    d->handed = part == 0;
    d->handed_out += (int64_t)n;
    d->begin += n;
    d->seen = d->begin;
    return AX_OK;
}

// The next line with its end, or the rest of the file; length 0: there is none.
static ax_status read_line(ax_documents *d, const char **line, size_t *length)
{
    const char *newline = NULL;
    for (;;) {
        if (d->end > d->seen)
            newline = memchr(d->buffer + d->seen, '\n', d->end - d->seen);
        d->seen = d->end;
        if (newline || d->ended)
            break;
        AX_TRY(fill(d));
    }
    *line = d->buffer + d->begin;
    *length = newline ? (size_t)(newline - *line) + 1 : d->end - d->begin;
    d->begin += *length;
    d->seen = d->begin;
    d->lines += *length > 0;
    return AX_OK;
}

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\n';
}

ax_status ax_documents_read(ax_documents *d, ax_record *out, bool *found)
{
    if (!d->has_lines)
        return read_text(d, out, found);
    for (;;) {
        const char *line;
        size_t n, mark;
        AX_TRY(read_line(d, &line, &n));
        if (n == 0) {
            *found = false;
            return AX_OK;
        }
        mark = d->lines == 1 && n >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        while (n > mark && is_blank(line[n - 1]))
            n--;
        if (n == mark)
            continue;
        *out = (ax_record){
            .bytes = line + mark, .length = n - mark, .skipped = mark, .line = d->lines};
        *found = true;
        return AX_OK;
    }
}

// ---- one line

static bool refuse(char *why, const ax_record *r, const char *path, const char *reason,
                   const char *key)
{
    snprintf(why, AX_DOCUMENT_WHY, "%s:%" PRId64 ": byte %zu: %s%s%s", path, r->line, r->skipped,
             reason, key ? key : "", key ? "'; data.text_key names it" : "");
    return false;
}

static bool refuse_pair(char *why, const ax_record *r, const char *path, const char *rule,
                        const char *const key[3])
{
    char reason[200];
    snprintf(reason, sizeof reason, rule, key[1], key[2]);
    return refuse(why, r, path, reason, NULL);
}

static bool take_document(const ax_json_value value[3], const ax_record *r, const char *path,
                          const char *const key[3], ax_document *out, char *why)
{
    const ax_json_value *text = &value[0], *prompt = &value[1], *completion = &value[2];
    if (text->found && !text->is_string)
        return refuse(why, r, path, "not a string: the value of '", key[0]);
    if (!text->found && !prompt->found && !completion->found)
        return refuse(why, r, path, "the object has no key '", key[0]);
    if (!text->found && !(prompt->found && completion->found))
        return refuse_pair(why, r, path, "a pair needs both keys, '%.60s' and '%.60s'", key);
    if (!text->found && !(prompt->is_string && completion->is_string))
        return refuse_pair(why, r, path, "'%.60s' and '%.60s' must be strings", key);
    out->text = text->text;
    out->length = text->length;
    if (text->found)
        return true;
    out->prompt = prompt->text;
    out->prompt_length = prompt->length;
    out->completion = completion->text;
    out->completion_length = completion->length;
    return true;
}

bool ax_document_parse(const ax_record *r, const char *path, const ax_documents_options *keys,
                       ax_document *out, char why[AX_DOCUMENT_WHY])
{
    ax_json_bad bad;
    ax_json_value value[3];
    ax_document document = {.line = r->line};
    if (r->line == 0) {
        document.text = r->bytes;
        document.length = r->length;
        *out = document;
        return true;
    }
    const char *const key[3] = {keys->text_key, keys->prompt_key ? keys->prompt_key : "prompt",
                                keys->completion_key ? keys->completion_key : "completion"};
    const ax_json_wish wish = {key, 3, value};
    if (!ax_json_pick(r->bytes, r->length, &wish, &document.owner, &bad)) {
        snprintf(why, AX_DOCUMENT_WHY, "%s:%" PRId64 ": byte %zu: %s", path, r->line,
                 bad.at + r->skipped, bad.why);
        return false;
    }
    if (!take_document(value, r, path, key, &document, why)) {
        ax_document_fini(&document);
        return false;
    }
    *out = document;
    return true;
}

void ax_document_fini(ax_document *d)
{
    free(d->owner);
    *d = (ax_document){0};
}

// ---- the reader

static ax_status skip_line(ax_documents *d, const char *why)
{
    AX_CHECK(d->options.on_error == AX_DOCUMENTS_SKIP, AX_EFORMAT, "%s", why);
    if (d->skipped++ < WARNED)
        ax_log(AX_LOG_WARN, "data", "skipped: %s", why);
    return AX_OK;
}

ax_status ax_documents_next(ax_documents *d, ax_document *out, bool *found)
{
    char why[AX_DOCUMENT_WHY];
    ax_document_fini(&d->last);
    for (;;) {
        ax_record record;
        AX_TRY(ax_documents_read(d, &record, found));
        if (!*found)
            return AX_OK;
        if (ax_document_parse(&record, d->path, &d->options, &d->last, why)) {
            *out = d->last;
            return AX_OK;
        }
        AX_TRY(skip_line(d, why));
    }
}

int64_t ax_documents_lines(const ax_documents *d)
{
    return d->lines;
}

int64_t ax_documents_bytes(const ax_documents *d)
{
    return d->bytes;
}

int64_t ax_documents_skipped(const ax_documents *d)
{
    return d->skipped;
}

// ---- opening

static ax_status open_zstd(ax_documents *d)
{
    d->zstd = ZSTD_createDStream();
    d->packed_room = ZSTD_DStreamInSize();
    d->packed = malloc(d->packed_room);
    AX_CHECK(d->zstd && d->packed, AX_ENOMEM, "%s: no memory to unpack it", d->path);
    d->in_frame = true; // a file without a frame is cut
    return AX_OK;
}

// Bytes of other formats are legal text, too, and nothing that anybody means to train on.
static ax_status refuse_packed(const ax_documents *d)
{
    static const struct {
        const char *bytes, *name, *instead;
        size_t length;
    } formats[] = {
        {"\x1f\x8b", "gzip", "unpack it (gzip -d), or pack it with zstd", 2},
        {"\xfd"
         "7zXZ",
         "xz", "unpack it (xz -d), or pack it with zstd", 5},
        {"1AY&SY", "bzip2", "unpack it (bzip2 -d), or pack it with zstd",
         6}, // behind BZh and a digit
        {"PK\x03\x04", "zip", "unpack it", 4},
        {"PAR1", "Parquet", "write its text column as JSON lines", 4},
        {"\x28\xb5\x2f\xfd", "zstd", "let its name end in .zst", 4},
    };
    char head[16] = {0}, tail[4] = {0};
    struct stat about;
    ssize_t n = pread(d->fd, head, sizeof head, 0);
    bool known = fstat(d->fd, &about) == 0 && about.st_size > 4 &&
                 pread(d->fd, tail, sizeof tail, about.st_size - 4) == 4;
    if (memcmp(head, "BZh", 3) == 0 && head[3] >= '1' && head[3] <= '9')
        memmove(head, head + 4, 6);
    if (memcmp(head, "PAR1", 4) == 0 && !(known && memcmp(tail, "PAR1", 4) == 0))
        return AX_OK; // a Parquet file ends as it begins
    for (size_t i = 0; n > 0 && i < sizeof formats / sizeof formats[0]; i++)
        AX_CHECK(memcmp(head, formats[i].bytes, formats[i].length) != 0, AX_EUSAGE,
                 "%s: this is a %s file, not text: %s", d->path, formats[i].name,
                 formats[i].instead);
    return AX_OK;
}

static ax_status open_path(ax_documents *d)
{
    struct stat about;
    AX_CHECK(d->path && d->buffer, AX_ENOMEM, "no memory to read a file");
    AX_CHECK(stat(d->path, &about) == 0, errno == ENOENT ? AX_EUSAGE : AX_EIO, "%s: %s", d->path,
             strerror(errno));
    AX_CHECK(!S_ISDIR(about.st_mode), AX_EIO, "%s: %s", d->path, strerror(EISDIR));
    AX_CHECK(S_ISREG(about.st_mode), AX_EUSAGE,
             "%s: not a regular file; pipes and devices have no end to wait for", d->path);
    d->fd = open(d->path, O_RDONLY | O_CLOEXEC);
    AX_CHECK(d->fd >= 0, errno == ENOENT ? AX_EUSAGE : AX_EIO, "%s: %s", d->path, strerror(errno));
    d->has_lines = ax_documents_has_lines(d->path);
    return d->path[without_zst(d->path)] ? open_zstd(d) : refuse_packed(d);
}

ax_status ax_documents_open(const char *path, const ax_documents_options *options,
                            ax_documents **out)
{
    ax_documents *d = calloc(1, sizeof *d);
    AX_CHECK(d, AX_ENOMEM, "no memory to read a file");
    *d = (ax_documents){
        .path = strdup(path), .options = *options, .fd = -1, .buffer = malloc(ROOM), .room = ROOM};
    ax_status st = open_path(d);
    if (st != AX_OK) {
        ax_documents_close(d);
        return st;
    }
    *out = d;
    return AX_OK;
}

void ax_documents_close(ax_documents *d)
{
    if (!d)
        return;
    ax_document_fini(&d->last);
    ZSTD_freeDStream(d->zstd);
    free(d->packed);
    if (d->fd >= 0)
        close(d->fd);
    free(d->buffer);
    free(d->path);
    free(d);
}

#include "data/source.h"

#include "data/documents.h"
#include "data/shard.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 1 << 16,         // tokens of a read in one pass over a file
    FEW = 64,                // borders read at once
    CHECKED_TOKENS = 1 << 28 // of a token file that is read through when it is opened
};

typedef struct border { // where a document begins
    int64_t begin;      // token of its piece
    int64_t line;
} border;

typedef struct piece { // one file
    char *path;
    int64_t begin, count;              // tokens, in the source
    int64_t first_document, documents; // in the source; of a piece with known borders
    bool known;                        // borders
    ax_shard *shard;                   // NULL: ids are in memory
    ax_ids ids;                        // ~id in a prompt
    border *border;                    // NULL: the shard tells
    int64_t room;
} piece;

struct ax_source {
    char *name;
    const ax_tokenizer *tokenizer;
    int64_t vocab;
    int32_t eod;
    piece *piece;
    int pieces;
    int64_t tokens, documents;
    bool known, pairs;
    int64_t empty_files, empty_documents;
};

typedef struct reader { // of text, while opening
    const ax_source_options *o;
    ax_source *s;
    ax_encoder *encoder;
} reader;

// ---- text

static ax_status add_border(piece *p, int64_t begin, int64_t line)
{
    if (p->documents == p->room) {
        int64_t room = p->room ? 2 * p->room : 64;
        border *grown = realloc(p->border, (size_t)room * sizeof *grown);
        AX_CHECK(grown, AX_ENOMEM, "%s: no memory for %lld documents", p->path, (long long)room);
        p->border = grown;
        p->room = room;
    }
    p->border[p->documents++] = (border){begin, line};
    return AX_OK;
}

static ax_status encode(reader *r, piece *p, const char *text, size_t length)
{
    return length ? ax_encoder_encode(r->encoder, text, length, &p->ids) : AX_OK;
}

static ax_status add_pair(reader *r, piece *p, const ax_document *d)
{
    int64_t begin = p->ids.count;
    if (r->o->bos)
        AX_TRY(ax_ids_push(&p->ids, ax_tokenizer_bos(r->o->tokenizer)));
    AX_TRY(encode(r, p, d->prompt, d->prompt_length));
    for (int64_t i = begin; i < p->ids.count; i++)
        p->ids.id[i] = ~p->ids.id[i];
    return encode(r, p, d->completion, d->completion_length);
}

static ax_status add_text(reader *r, piece *p, const ax_document *d)
{
    if (r->o->bos)
        AX_TRY(ax_ids_push(&p->ids, ax_tokenizer_bos(r->o->tokenizer)));
    return encode(r, p, d->text, d->length);
}

static ax_status add_document(reader *r, piece *p, const ax_document *d)
{
    if (d->length + d->prompt_length + d->completion_length == 0) {
        r->s->empty_documents++;
        return AX_OK;
    }
    AX_TRY(add_border(p, p->ids.count, d->line));
    AX_TRY(d->text ? add_text(r, p, d) : add_pair(r, p, d));
    return r->o->eod ? ax_ids_push(&p->ids, r->s->eod) : AX_OK;
}

static ax_status read_documents(reader *r, piece *p, ax_documents *d)
{
    ax_document document;
    bool found, first = true, pairs = false;
    for (;;) {
        AX_TRY(ax_documents_next(d, &document, &found));
        if (!found)
            break;
        bool pair = !document.text;
        AX_CHECK(first || pair == pairs, AX_EFORMAT,
                 "%s:%lld: a %s after lines with a %s; a file holds one kind, so put the other "
                 "into a file of its own",
                 p->path, (long long)document.line, pair ? "prompt and completion" : "text",
                 pair ? "text" : "prompt and completion");
        first = false;
        pairs = pair;
        AX_TRY(add_document(r, p, &document));
    }
    r->s->pairs = r->s->pairs || pairs;
    return AX_OK;
}

static ax_status open_text(reader *r, piece *p)
{
    ax_documents *d;
    const ax_source_options *o = r->o;
    AX_CHECK(!o->eod || r->s->eod >= 0, AX_EUSAGE,
             "data.tokenizer=%s has no token that ends a document; name one as eos_token in a "
             "tokenizer_config.json beside it",
             ax_tokenizer_name(o->tokenizer));
    AX_CHECK(!o->bos || ax_tokenizer_bos(o->tokenizer) >= 0, AX_EUSAGE,
             "data.bos=on, but data.tokenizer=%s has no token that begins a document",
             ax_tokenizer_name(o->tokenizer));
    if (!r->encoder)
        AX_TRY(ax_encoder_open(o->tokenizer, o->literals, &r->encoder));
    int64_t empty = r->s->empty_documents;
    const ax_documents_options how = {
        .text_key = o->text_key, .prompt_key = o->prompt_key, .completion_key = o->completion_key};
    AX_TRY(ax_documents_open(p->path, &how, &d));
    ax_status st = read_documents(r, p, d);
    ax_documents_close(d);
    AX_TRY(st);
    p->count = p->ids.count;
    p->known = true;
    if (p->documents == 0) {
        r->s->empty_files++;
        if (!ax_documents_has_lines(p->path)) // its one document is the file: count it once
            r->s->empty_documents = empty;
    }
    return AX_OK;
}

// ---- token files

// Documents of bare ids: each ends with the end-of-document id.
static ax_status index_block(const ax_source *s, piece *p, int64_t first, int64_t count,
                             const int32_t *ids)
{
    for (int64_t i = 0; i < count; i++)
        if (ids[i] == s->eod && first + i + 1 < p->count)
            AX_TRY(add_border(p, first + i + 1, 0));
    return AX_OK;
}

static ax_status index_shard(const ax_source *s, piece *p)
{
    int32_t *ids = malloc(BLOCK * sizeof *ids);
    AX_CHECK(ids, AX_ENOMEM, "no memory to read %s", p->path);
    ax_status st = p->count ? add_border(p, 0, 0) : AX_OK;
    for (int64_t at = 0; st == AX_OK && at < p->count; at += BLOCK) {
        int64_t n = p->count - at < BLOCK ? p->count - at : BLOCK;
        st = ax_shard_read(p->shard, s->vocab, at, n, ids);
        if (st == AX_OK)
            st = index_block(s, p, at, n, ids);
    }
    free(ids);
    return st;
}

static ax_status open_shard(reader *r, piece *p)
{
    ax_source *s = r->s;
    AX_TRY(ax_shard_open(p->path, &p->shard));
    p->count = ax_shard_tokens(p->shard);
    p->documents = ax_shard_documents(p->shard);
    p->known = p->documents > 0 || p->count == 0;
    s->empty_files += p->count == 0;
    if (!p->known && r->o->documents) {
        AX_CHECK(s->eod >= 0, AX_EUSAGE,
                 "%s has no document borders, and data.tokenizer=%s no token that ends a document",
                 p->path, ax_tokenizer_name(s->tokenizer));
        p->known = true;
        return index_shard(s, p);
    }
    return p->count <= CHECKED_TOKENS ? ax_shard_check(p->shard, s->vocab) : AX_OK;
}

// ---- opening and closing

static ax_status add_file(reader *r, const char *name, size_t length)
{
    ax_source *s = r->s;
    piece *grown = realloc(s->piece, (size_t)(s->pieces + 1) * sizeof *grown);
    AX_CHECK(grown, AX_ENOMEM, "no memory for a list of files");
    s->piece = grown;
    piece *p = &s->piece[s->pieces++];
    *p = (piece){.path = strndup(name, length), .begin = s->tokens, .first_document = s->documents};
    AX_CHECK(p->path, AX_ENOMEM, "no memory for a file name");
    AX_TRY(ax_shard_is(p->path) ? open_shard(r, p) : open_text(r, p));
    s->tokens += p->count;
    s->documents += p->documents;
    s->known = s->known && p->known;
    return AX_OK;
}

static ax_status add_files(reader *r, const char *key, const char *files)
{
    for (const char *at = files;; at++) {
        size_t n = strcspn(at, ",");
        AX_CHECK(n > 0, AX_EUSAGE, "%s=%s: an empty file name in the list", key, files);
        AX_TRY(add_file(r, at, n));
        at += n;
        if (!*at)
            return AX_OK;
    }
}

ax_status ax_source_open(const char *key, const char *files, const ax_source_options *options,
                         ax_source **out)
{
    ax_source *s = calloc(1, sizeof *s);
    AX_CHECK(s, AX_ENOMEM, "no memory for a source of data");
    reader r = {.o = options, .s = s};
    s->name = strdup(files);
    s->tokenizer = options->tokenizer;
    s->vocab = options->vocab;
    s->eod = ax_tokenizer_eod(options->tokenizer);
    s->known = true;
    ax_status st = s->name ? add_files(&r, key, files)
                           : ax_fail(AX_ENOMEM, __FILE__, __LINE__, "no memory for file names");
    ax_encoder_close(r.encoder);
    if (st != AX_OK) {
        ax_source_close(s);
        return st;
    }
    *out = s;
    return AX_OK;
}

void ax_source_close(ax_source *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->pieces; i++) {
        ax_shard_close(s->piece[i].shard);
        ax_ids_fini(&s->piece[i].ids);
        free(s->piece[i].border);
        free(s->piece[i].path);
    }
    free(s->piece);
    free(s->name);
    free(s);
}

const char *ax_source_name(const ax_source *s)
{
    return s->name;
}

int ax_source_files(const ax_source *s)
{
    return s->pieces;
}

ax_source_file ax_source_file_at(const ax_source *s, int file)
{
    const piece *p = &s->piece[file];
    return (ax_source_file){.path = p->path,
                            .begin = p->begin,
                            .count = p->count,
                            .first_document = p->first_document,
                            .documents = p->documents,
                            .held = !p->shard};
}

int64_t ax_source_tokens(const ax_source *s)
{
    return s->tokens;
}

bool ax_source_has_pairs(const ax_source *s)
{
    return s->pairs;
}

int64_t ax_source_empty_files(const ax_source *s)
{
    return s->empty_files;
}

int64_t ax_source_empty_documents(const ax_source *s)
{
    return s->empty_documents;
}

// ---- reading

// The last piece that begins at or before a token: empty ones before it are passed over.
static const piece *holding_token(const ax_source *s, int64_t token)
{
    int low = 0, high = s->pieces;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (s->piece[middle].begin <= token)
            low = middle;
        else
            high = middle;
    }
    return &s->piece[low];
}

static ax_status read_piece(const ax_source *s, const piece *p, int64_t first, int64_t count,
                            int32_t *ids)
{
    if (p->shard)
        return ax_shard_read(p->shard, s->vocab, first, count, ids);
    memcpy(ids, p->ids.id + first, (size_t)count * sizeof *ids);
    return AX_OK;
}

ax_status ax_source_read(const ax_source *s, int64_t first, int64_t count, int32_t *ids)
{
    const piece *p = count > 0 ? holding_token(s, first) : NULL;
    for (; count > 0; p++) {
        int64_t n = p->begin + p->count - first;
        n = n < count ? n : count;
        if (n > 0)
            AX_TRY(read_piece(s, p, first - p->begin, n, ids));
        first += n;
        count -= n;
        ids += n;
    }
    return AX_OK;
}

static ax_status piece_borders(const piece *p, int64_t first, int64_t count, int64_t *begin)
{
    if (!p->border && p->shard && p->documents)
        return ax_shard_borders(p->shard, first, count, begin);
    for (int64_t i = 0; i < count; i++)
        begin[i] = first + i < p->documents ? p->border[first + i].begin : p->count;
    return AX_OK;
}

// The last document of a table that begins at or before a token of its piece.
static ax_status piece_find(const piece *p, int64_t token, int64_t *out)
{
    if (!p->border)
        return ax_shard_find(p->shard, token, out);
    int64_t low = 0, high = p->documents;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (p->border[middle].begin <= token)
            low = middle;
        else
            high = middle;
    }
    *out = low;
    return AX_OK;
}

// Borders behind token `first` of a piece, as far as its next `count` tokens go.
static ax_status mark_borders(const piece *p, int64_t first, int64_t count, int32_t *ends)
{
    int64_t document, begin[FEW];
    AX_TRY(piece_find(p, first, &document));
    for (document++; document <= p->documents;) {
        int64_t n = p->documents + 1 - document;
        n = n < FEW ? n : FEW;
        AX_TRY(piece_borders(p, document, n, begin));
        for (int64_t i = 0; i < n; i++) {
            if (begin[i] > first + count)
                return AX_OK;
            if (begin[i] > first) // else of an empty document
                ends[begin[i] - 1 - first] = 1;
        }
        document += n;
    }
    return AX_OK;
}

ax_status ax_source_ends(const ax_source *s, int64_t first, int64_t count, const int32_t *ids,
                         int32_t *ends)
{
    const piece *p = count > 0 ? holding_token(s, first) : NULL;
    memset(ends, 0, (size_t)count * sizeof *ends);
    for (; count > 0; p++) {
        int64_t n = p->begin + p->count - first;
        bool whole = n <= count; // the file ends here, and with it a document
        n = whole ? n : count;
        if (n > 0 && p->known)
            AX_TRY(mark_borders(p, first - p->begin, n, ends));
        for (int64_t i = 0; i < n && !p->known; i++)
            ends[i] = ids[i] == s->eod;
        if (n > 0 && whole)
            ends[n - 1] = 1;
        first += n;
        count -= n;
        ids += n;
        ends += n;
    }
    return AX_OK;
}

ax_status ax_source_bytes(const ax_source *s, int64_t begin, int64_t end, int64_t *out)
{
    int64_t total = 0;
    *out = 0;
    if (s->pairs)
        return AX_OK;
    for (const piece *p = s->piece; p < s->piece + s->pieces; p++) {
        int64_t low = begin > p->begin ? begin - p->begin : 0;
        int64_t high = end - p->begin < p->count ? end - p->begin : p->count;
        if (low < high && p->shard)
            return AX_OK;
        for (int64_t i = low; i < high; i++) {
            const char *bytes;
            size_t length;
            AX_TRY(ax_tokenizer_decode(s->tokenizer, p->ids.id[i], &bytes, &length));
            total += (int64_t)length;
        }
    }
    *out = total;
    return AX_OK;
}

// ---- documents

int64_t ax_source_documents(const ax_source *s)
{
    return s->known ? s->documents : -1;
}

static const piece *holding_document(const ax_source *s, int64_t document)
{
    const piece *p = s->piece;
    while (p + 1 < s->piece + s->pieces && p[1].first_document <= document)
        p++;
    return p;
}

ax_status ax_source_borders(const ax_source *s, int64_t first, int64_t count, int64_t *begin)
{
    while (count > 0 && first < s->documents) {
        const piece *p = holding_document(s, first);
        int64_t n = p->first_document + p->documents - first;
        n = n < count ? n : count;
        AX_TRY(piece_borders(p, first - p->first_document, n, begin));
        for (int64_t i = 0; i < n; i++)
            begin[i] += p->begin;
        first += n;
        count -= n;
        begin += n;
    }
    if (count > 0)
        *begin = s->tokens;
    return AX_OK;
}

ax_status ax_source_find(const ax_source *s, int64_t token, int64_t *document)
{
    const piece *p = holding_token(s, token);
    AX_TRY(piece_find(p, token - p->begin, document));
    *document += p->first_document;
    return AX_OK;
}

ax_source_place ax_source_locate(const ax_source *s, int64_t document)
{
    const piece *p = holding_document(s, document);
    int64_t index = document - p->first_document;
    return (ax_source_place){
        .path = p->path, .index = index, .line = p->border ? p->border[index].line : 0};
}

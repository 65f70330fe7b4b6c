#include "data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

static const char unknown_character[] = "\xEF\xBF\xBD"; // U+FFFD

// ---- the bytes of each token, made once

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static void fall_back(ax_text *text)
{
    const char *s = text->text;
    if (text->length != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return;
    int high = hex_digit(s[3]), low = hex_digit(s[4]);
    if (high < 0 || low < 0)
        return;
    text->text[0] = (char)(high * 16 + low);
    text->length = 1;
}

static void strip(const ax_step *step, ax_text *text)
{
    size_t n = step->text_length;
    for (int64_t i = 0; i < step->start && text->length >= n; i++) {
        if (memcmp(text->text, step->text, n) != 0)
            break;
        memmove(text->text, text->text + n, text->length - n);
        text->length -= n;
    }
    for (int64_t i = 0; i < step->stop && text->length >= n; i++) {
        if (memcmp(text->text + text->length - n, step->text, n) != 0)
            break;
        text->length -= n;
    }
}

static ax_status rewrite(const ax_step *step, ax_text *text)
{
    ax_text next = {0};
    ax_status st = ax_step_rewrite(step, text->text, text->length, &next);
    ax_text_fini(text);
    *text = next;
    return st;
}

// Marks to blanks.
static ax_status unmark(const ax_step *step, ax_text *text)
{
    ax_step to_blank = *step;
    to_blank.kind = AX_STEP_REPLACE;
    to_blank.text = " ";
    to_blank.text_length = 1;
    return rewrite(&to_blank, text);
}

static ax_status decode_step(const ax_step *step, ax_text *text)
{
    switch (step->kind) {
    case AX_STEP_BYTE_LEVEL: {
        size_t length;
        if (text->length && ax_byte_level_bytes(text->text, text->length, text->text, &length))
            text->length = length;
        return AX_OK;
    }
    case AX_STEP_BYTE_FALLBACK:
        fall_back(text);
        return AX_OK;
    case AX_STEP_STRIP:
        strip(step, text);
        return AX_OK;
    case AX_STEP_METASPACE:
        return unmark(step, text);
    case AX_STEP_REPLACE:
        return rewrite(step, text);
    default:
        return AX_OK;
    }
}

// A Strip behind the place where all tokens are one text is no matter of single tokens.
static ax_status decode_token(const ax_tokenizer *t, const ax_spelling *s, ax_text *text)
{
    text->length = 0;
    ax_bytes_add(text, s->text ? s->text : "", s->length);
    for (int64_t i = 0; i < t->decoder.count; i++) {
        const ax_step *step = &t->decoder.step[i];
        AX_TRY(decode_step(step, text));
        if (step->kind == AX_STEP_FUSE || step->kind == AX_STEP_BYTE_LEVEL)
            break;
    }
    AX_CHECK(!text->failed, AX_ENOMEM, "no memory for the tokens of a tokenizer");
    return AX_OK;
}

static void note_start(ax_tokenizer *t)
{
    bool fused = false;
    t->spaced = t->decoder.count == 0;
    for (int64_t i = 0; i < t->decoder.count; i++) {
        const ax_step *step = &t->decoder.step[i];
        t->each_byte = t->each_byte || step->kind == AX_STEP_BYTE_FALLBACK;
        if (step->kind == AX_STEP_METASPACE && step->prepend != AX_PREPEND_NEVER) {
            t->first_loses_marks = true;
            t->mark = step->text;
            t->mark_length = step->text_length;
        }
        if (fused && step->kind == AX_STEP_STRIP) {
            t->strip = step->start;
            t->strip_text = step->text;
            t->strip_length = step->text_length;
        }
        fused = fused || step->kind == AX_STEP_FUSE || step->kind == AX_STEP_BYTE_LEVEL;
    }
}

static ax_status build_piece(ax_tokenizer *t, int32_t id, const ax_spelling *s, ax_text *text)
{
    ax_piece *p = &t->piece[id];
    AX_TRY(decode_token(t, s, text));
    p->at = t->pieces.length;
    p->length = (uint32_t)text->length;
    ax_bytes_add(&t->pieces, text->text, text->length);
    return AX_OK;
}

static ax_status build_pieces(ax_tokenizer *t, ax_text *text)
{
    for (int64_t id = 0; id < t->bpe.ids; id++)
        if (t->bpe.spelling[id].text)
            AX_TRY(build_piece(t, (int32_t)id, &t->bpe.spelling[id], text));
    for (int64_t i = 0; i < t->addeds; i++) {
        const ax_added *a = &t->added[i];
        ax_spelling normal = {.text = a->normal.text, .length = (uint32_t)a->normal.length};
        if (a->normalized)
            AX_TRY(build_piece(t, a->id, &normal, text));
        t->piece[a->id].special = a->special;
    }
    return AX_OK;
}

ax_status ax_pieces_build(ax_tokenizer *t, const char *where)
{
    ax_text text = {0};
    note_start(t);
    t->piece = calloc((size_t)t->bpe.ids, sizeof *t->piece);
    AX_CHECK(t->piece, AX_ENOMEM, "%s: no memory for its tokens", where);
    ax_status st = build_pieces(t, &text);
    ax_text_fini(&text);
    AX_TRY(st);
    AX_CHECK(!t->pieces.failed, AX_ENOMEM, "%s: no memory for its tokens", where);
    return AX_OK;
}

static ax_status check_id(const ax_tokenizer *t, int32_t id)
{
    int64_t top = ax_tokenizer_vocab(t) - 1;
    AX_CHECK(id >= 0 && id <= top, AX_EFORMAT, "token id %d: the %s tokenizer has ids 0 to %lld",
             (int)id, t->name, (long long)top);
    AX_CHECK(t->only_bytes || t->bpe.spelling[id].text, AX_EFORMAT,
             "token id %d: the %s tokenizer has no token with this id", (int)id, t->name);
    return AX_OK;
}

ax_status ax_tokenizer_decode(const ax_tokenizer *t, int32_t id, const char **bytes, size_t *length)
{
    AX_TRY(check_id(t, id));
    bool none = ax_tokenizer_is_special(t, id);
    if (t->only_bytes) {
        *bytes = none ? "" : &t->byte[id];
        *length = !none;
        return AX_OK;
    }
    *bytes = none ? "" : t->pieces.text + t->piece[id].at;
    *length = none ? 0 : t->piece[id].length;
    return AX_OK;
}

// ---- streams

// Writes what stands in held[] and cannot become a character, up to what still can.
static void release(ax_decoder *d, bool all, ax_text *out)
{
    size_t at = 0;
    while (at < d->holds) {
        size_t rest = d->holds - at, n = ax_utf8_next(d->held + at, rest, NULL);
        bool open = false;
        if (n > 0) {
            ax_bytes_add(out, d->held + at, n);
        } else {
            n = ax_utf8_broken(d->held + at, rest, &open);
            if (open && !all)
                break;
            for (size_t i = 0; i < (d->tokenizer->each_byte ? n : 1); i++)
                ax_bytes_add(out, unknown_character, 3);
        }
        at += n;
    }
    memmove(d->held, d->held + at, d->holds - at);
    d->holds -= at;
}

static void write_bytes(ax_decoder *d, const char *s, size_t n, ax_text *out)
{
    if (d->exact) {
        ax_bytes_add(out, s, n);
        return;
    }
    while (n > 0) {
        size_t valid = d->holds ? 0 : ax_utf8_valid(s, n);
        ax_bytes_add(out, s, valid);
        s += valid;
        n -= valid;
        if (n == 0)
            break;
        d->held[d->holds++] = *s++;
        n--;
        release(d, false, out);
    }
}

static void write_stripped(ax_decoder *d, const char *s, size_t n, ax_text *out)
{
    const ax_tokenizer *t = d->tokenizer;
    while (d->stripped < t->strip && n >= t->strip_length && n > 0) {
        if (memcmp(s, t->strip_text, t->strip_length) != 0) {
            d->stripped = t->strip;
            break;
        }
        s += t->strip_length;
        n -= t->strip_length;
        d->stripped++;
    }
    if (n > 0)
        d->stripped = t->strip;
    write_bytes(d, s, n, out);
}

static ax_status write_first(ax_decoder *d, const char *s, size_t n, ax_text *out)
{
    ax_step drop = {.kind = AX_STEP_REPLACE,
                    .pattern = (char *)d->tokenizer->mark,
                    .pattern_length = d->tokenizer->mark_length};
    ax_text text = {0};
    ax_status st = ax_step_rewrite(&drop, s, n, &text);
    if (st == AX_OK)
        write_stripped(d, text.text, text.length, out);
    ax_text_fini(&text);
    return st;
}

ax_status ax_decoder_push(ax_decoder *d, int32_t id, ax_text *out)
{
    const ax_tokenizer *t = d->tokenizer;
    AX_TRY(check_id(t, id));
    if (ax_tokenizer_is_special(t, id) && !d->special)
        return AX_OK;
    bool first = !d->started;
    d->started = true;
    if (t->only_bytes)
        write_bytes(d, &t->byte[id], id < 256, out);
    else if (first && t->first_loses_marks)
        AX_TRY(write_first(d, t->bpe.spelling[id].text, t->bpe.spelling[id].length, out));
    else {
        if (!first && t->spaced)
            write_bytes(d, " ", 1, out);
        write_stripped(d, t->pieces.text + t->piece[id].at, t->piece[id].length, out);
    }
    AX_CHECK(!out->failed, AX_ENOMEM, "no memory for a decoded text");
    return AX_OK;
}

void ax_decoder_finish(ax_decoder *d, ax_text *out)
{
    release(d, true, out);
    *d = (ax_decoder){.tokenizer = d->tokenizer, .special = d->special, .exact = d->exact};
}

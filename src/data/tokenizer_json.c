// A tokenizer.json: its model, its vocabulary and its added tokens.
#include "data/tokenizer_parts.h"

#include "base/log.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ids may leave gaps, but a table of all ids must stay in proportion to the file.
enum { GAPS_MOST = 1 << 16, GAPS_FACTOR = 4 };

// ---- the byte-level alphabet: printable bytes are themselves, the others follow U+0100

static bool is_printable(int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

uint32_t ax_byte_character(int byte)
{
    if (is_printable(byte))
        return (uint32_t)byte;
    uint32_t others = 0;
    for (int i = 0; i < byte; i++)
        others += !is_printable(i);
    return 0x100 + others;
}

int ax_character_byte(uint32_t code)
{
    if (code < 0x100)
        return is_printable((int)code) ? (int)code : -1;
    if (code >= 0x100 + 68)
        return -1;
    if (code < 0x100 + 33)
        return (int)code - 0x100;                                  // 0 to 32
    return code < 0x100 + 67 ? (int)code - 0x100 - 33 + 127 : 173; // 127 to 160, and 173
}

bool ax_byte_level_bytes(const char *s, size_t n, char *out, size_t *length)
{
    size_t count = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        i += ax_utf8_next(s + i, n - i, &code);
        int byte = ax_character_byte(code);
        if (byte < 0)
            return false;
        out[count++] = (char)byte;
    }
    *length = count;
    return true;
}

// ---- ids

// The highest id of vocabulary and added tokens, before anything is sized by it.
static ax_status highest_id(const json_t *vocab, const json_t *added, const char *where,
                            int64_t *out)
{
    const char *key;
    json_t *value;
    size_t i;
    int64_t entries = (int64_t)(json_object_size(vocab) + json_array_size(added)), top = -1;
    int64_t most = entries * GAPS_FACTOR + GAPS_MOST;
    json_object_foreach((json_t *)vocab, key, value)
    {
        int64_t id = json_integer_value(value);
        AX_CHECK(json_is_integer(value) && id >= 0 && id < most, AX_EFORMAT,
                 "%s: model.vocab: the id of '%.80s' must be an integer from 0 to %lld", where, key,
                 (long long)most - 1);
        top = id > top ? id : top;
    }
    json_array_foreach(added, i, value)
    {
        const json_t *number = json_object_get(value, "id");
        int64_t id = json_integer_value(number);
        AX_CHECK(json_is_integer(number) && id >= 0 && id < most, AX_EFORMAT,
                 "%s: added_tokens[%zu]: 'id' must be an integer from 0 to %lld", where, i,
                 (long long)most - 1);
        top = id > top ? id : top;
    }
    AX_CHECK(top >= 0, AX_EFORMAT, "%s: there is no token at all", where);
    *out = top;
    return AX_OK;
}

static size_t vocab_bytes(const json_t *vocab)
{
    size_t bytes = 0;
    for (void *it = json_object_iter((json_t *)vocab); it;
         it = json_object_iter_next((json_t *)vocab, it))
        bytes += json_object_iter_key_len(it) + 1;
    return bytes;
}

static ax_status read_vocab(ax_tokenizer *t, const json_t *vocab, const char *where)
{
    ax_bpe *b = &t->bpe;
    b->spelling = calloc((size_t)b->ids, sizeof *b->spelling);
    char *to = t->spellings = malloc(vocab_bytes(vocab) + 1);
    AX_CHECK(b->spelling && to, AX_ENOMEM, "%s: no memory for its vocabulary", where);
    for (void *it = json_object_iter((json_t *)vocab); it;
         it = json_object_iter_next((json_t *)vocab, it)) {
        const char *key = json_object_iter_key(it);
        size_t length = json_object_iter_key_len(it);
        int64_t id = json_integer_value(json_object_iter_value(it));
        AX_CHECK(!b->spelling[id].text, AX_EFORMAT,
                 "%s: model.vocab: '%.80s' and '%.80s' have the same id %lld", where,
                 b->spelling[id].text, key, (long long)id);
        AX_CHECK(length < 1 << 20, AX_EFORMAT, "%s: model.vocab: a token of %zu bytes", where,
                 length);
        memcpy(to, key, length + 1);
        b->spelling[id] = (ax_spelling){.text = to, .length = (uint32_t)length};
        to += length + 1;
    }
    return AX_OK;
}

// ---- merges

typedef struct merge_reader {
    const ax_bpe *bpe;
    ax_spell_map map; // of spellings
    const char *where;
    ax_text joined;
} merge_reader;

static ax_status find_part(const merge_reader *r, size_t number, const char *text, size_t length,
                           int32_t *id)
{
    *id = ax_spell_map_find(&r->map, text, length);
    AX_CHECK(*id >= 0, AX_EFORMAT, "%s: merge %zu: '%.*s' is not in the vocabulary", r->where,
             number, (int)(length < 80 ? length : 80), text);
    return AX_OK;
}

static ax_status read_pair(merge_reader *r, size_t number, const char *left, size_t left_length,
                           const char *right, size_t right_length, ax_bpe_merge *out)
{
    AX_CHECK(left_length && right_length, AX_EFORMAT, "%s: merge %zu has an empty side", r->where,
             number);
    AX_TRY(find_part(r, number, left, left_length, &out->left));
    AX_TRY(find_part(r, number, right, right_length, &out->right));
    r->joined.length = 0;
    ax_bytes_add(&r->joined, left, left_length);
    ax_bytes_add(&r->joined, right, right_length);
    AX_CHECK(!r->joined.failed, AX_ENOMEM, "no memory for a merge");
    return find_part(r, number, r->joined.text, r->joined.length, &out->joined);
}

// "a b"
static ax_status read_line(merge_reader *r, size_t number, const char *line, size_t length,
                           ax_bpe_merge *out)
{
    const char *blank = memchr(line, ' ', length);
    size_t left = blank ? (size_t)(blank - line) : 0;
    bool two = blank && !memchr(blank + 1, ' ', length - left - 1);
    AX_CHECK(two, AX_EFORMAT, "%s: merge %zu: '%.*s' must be two tokens with one blank between",
             r->where, number, (int)(length < 80 ? length : 80), line);
    return read_pair(r, number, line, left, blank + 1, length - left - 1, out);
}

static ax_status read_merge(merge_reader *r, size_t number, const json_t *m, ax_bpe_merge *out)
{
    if (json_is_string(m))
        return read_line(r, number, json_string_value(m), json_string_length(m), out);
    const json_t *left = json_array_get(m, 0), *right = json_array_get(m, 1);
    AX_CHECK(json_array_size(m) == 2 && json_is_string(left) && json_is_string(right), AX_EFORMAT,
             "%s: merge %zu must be \"a b\" or [\"a\", \"b\"]", r->where, number);
    return read_pair(r, number, json_string_value(left), json_string_length(left),
                     json_string_value(right), json_string_length(right), out);
}

static ax_status read_merges(ax_tokenizer *t, const json_t *list, const char *where)
{
    size_t n = json_array_size(list);
    merge_reader r = {.bpe = &t->bpe, .where = where};
    ax_bpe_merge *merge = malloc((n + 1) * sizeof *merge);
    ax_status st = AX_OK;
    if (!merge || n >= INT32_MAX)
        st = ax_fail(AX_ENOMEM, __FILE__, __LINE__, "%s: no memory for its merges", where);
    if (st == AX_OK)
        st = ax_spell_map_build(&r.map, t->bpe.spelling, t->bpe.ids);
    for (size_t i = 0; st == AX_OK && i < n; i++)
        st = read_merge(&r, i + 1, json_array_get(list, i), &merge[i]);
    if (st == AX_OK)
        st = ax_bpe_build(&t->bpe, merge, (int64_t)n);
    ax_text_fini(&r.joined);
    free(r.map.slot);
    free(merge);
    return st;
}

// ---- symbols of bytes

static ax_status read_raw(ax_tokenizer *t, const char *where)
{
    ax_bpe *b = &t->bpe;
    size_t bytes = 0;
    for (int64_t id = 0; id < b->ids; id++)
        bytes += b->spelling[id].length;
    b->raw = calloc((size_t)b->ids, sizeof *b->raw);
    char *to = t->raws = malloc(bytes + 1);
    AX_CHECK(b->raw && to, AX_ENOMEM, "%s: no memory for its vocabulary", where);
    for (int64_t id = 0; id < b->ids; id++) {
        const ax_spelling *s = &b->spelling[id];
        size_t length;
        if (!s->text || !ax_byte_level_bytes(s->text, s->length, to, &length))
            continue;
        b->raw[id] = (ax_spelling){.text = to, .length = (uint32_t)length};
        if (length == 1)
            b->byte[(unsigned char)*to] = (int32_t)id;
        to += length;
    }
    return AX_OK;
}

// The byte that a token <0x00> to <0xFF> stands for, or -1.
static int fallback_byte(const char *text, size_t length)
{
    int value = 0;
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        bool decimal = text[i] >= '0' && text[i] <= '9';
        if (!decimal && (text[i] < 'A' || text[i] > 'F'))
            return -1;
        value = value * 16 + (decimal ? text[i] - '0' : text[i] - 'A' + 10);
    }
    return value;
}

static void find_bytes(ax_bpe *b)
{
    for (int64_t id = 0; id < b->ids; id++) {
        int byte =
            b->spelling[id].text ? fallback_byte(b->spelling[id].text, b->spelling[id].length) : -1;
        if (byte >= 0)
            b->byte[byte] = (int32_t)id;
    }
}

static ax_status find_unknown(ax_bpe *b, const json_t *model, const char *where)
{
    const json_t *token = json_object_get(model, "unk_token");
    if (!token || json_is_null(token))
        return AX_OK;
    AX_CHECK(json_is_string(token), AX_EFORMAT, "%s: model.unk_token must be a string", where);
    for (int64_t id = 0; id < b->ids && b->unknown < 0; id++)
        if (b->spelling[id].text && b->spelling[id].length == json_string_length(token) &&
            memcmp(b->spelling[id].text, json_string_value(token), b->spelling[id].length) == 0)
            b->unknown = (int32_t)id;
    AX_CHECK(b->unknown >= 0, AX_EFORMAT, "%s: model.unk_token '%.80s' is not in the vocabulary",
             where, json_string_value(token));
    return AX_OK;
}

static ax_status check_bytes(const ax_bpe *b, const char *where)
{
    int lost = 0;
    for (int i = 0; i < 256; i++)
        lost += b->byte[i] < 0;
    AX_CHECK(!lost || !b->bytes || !b->byte_fallback, AX_EUNSUPPORTED,
             "%s: model.byte_fallback behind ByteLevel, with %d bytes that have no token, is not "
             "supported",
             where, lost);
    if (lost && b->unknown < 0)
        ax_log(AX_LOG_WARN, "data",
               "%s: %d of the 256 bytes have no token and there is no unk_token; text that needs "
               "them loses them",
               where, lost);
    return AX_OK;
}

// ---- the model

static ax_status refuse_texts(const json_t *model, const char *where)
{
    static const char *const keys[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const json_t *v = json_object_get(model, keys[i]);
        AX_CHECK(!v || json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0),
                 AX_EUNSUPPORTED, "%s: model.%s is not supported", where, keys[i]);
    }
    const json_t *dropout = json_object_get(model, "dropout");
    AX_CHECK(!dropout || json_is_null(dropout) ||
                 (json_is_number(dropout) && json_number_value(dropout) == 0),
             AX_EUNSUPPORTED, "%s: model.dropout is not supported: ids would be random", where);
    return AX_OK;
}

static ax_status read_flags(ax_bpe *b, const json_t *model, const char *where)
{
    AX_TRY(refuse_texts(model, where));
    AX_TRY(ax_json_bool(model, "fuse_unk", false, where, &b->fuse_unknown));
    AX_TRY(ax_json_bool(model, "byte_fallback", false, where, &b->byte_fallback));
    AX_TRY(ax_json_bool(model, "ignore_merges", false, where, &b->ignore_merges));
    b->unknown = -1;
    for (int i = 0; i < 256; i++)
        b->byte[i] = -1;
    return AX_OK;
}

static ax_status read_model(ax_tokenizer *t, const json_t *model, const json_t *added,
                            const char *where)
{
    ax_bpe *b = &t->bpe;
    const json_t *type = json_object_get(model, "type");
    const json_t *vocab = json_object_get(model, "vocab");
    const json_t *merges = json_object_get(model, "merges");
    int64_t top;
    AX_CHECK(json_is_object(model), AX_EFORMAT, "%s: 'model' must be an object", where);
    // Old files leave the type of BPE out.
    AX_CHECK(!type || (json_is_string(type) && strcmp(json_string_value(type), "BPE") == 0),
             AX_EUNSUPPORTED, "%s: model type '%.40s' is not supported, only BPE", where,
             json_is_string(type) ? json_string_value(type) : "?");
    AX_CHECK(json_is_object(vocab), AX_EFORMAT, "%s: model.vocab must be an object", where);
    AX_CHECK(json_is_array(merges), AX_EFORMAT, "%s: model.merges must be a list", where);
    AX_TRY(read_flags(b, model, where));
    AX_TRY(highest_id(vocab, added, where, &top));
    b->ids = top + 1;
    AX_TRY(read_vocab(t, vocab, where));
    AX_TRY(find_unknown(b, model, where));
    const ax_steps *s = &t->splitter;
    b->bytes = s->count && s->step[s->count - 1].kind == AX_STEP_BYTE_LEVEL;
    if (b->bytes)
        AX_TRY(read_raw(t, where));
    else
        find_bytes(b);
    AX_TRY(check_bytes(b, where));
    return read_merges(t, merges, where);
}

// ---- added tokens

static ax_status read_one_added(const json_t *o, size_t i, const char *where, ax_added *a)
{
    char here[512];
    const char *text;
    snprintf(here, sizeof here, "%.400s: added_tokens[%zu]", where, i);
    AX_TRY(ax_json_text(o, "content", here, &text, &a->length));
    AX_CHECK(a->length > 0, AX_EFORMAT, "%s: 'content' is empty", here);
    a->id = (int32_t)json_integer_value(json_object_get(o, "id"));
    a->text = malloc(a->length + 1);
    AX_CHECK(a->text, AX_ENOMEM, "%s: no memory for it", here);
    memcpy(a->text, text, a->length + 1);
    AX_TRY(ax_json_bool(o, "single_word", false, here, &a->single_word));
    AX_TRY(ax_json_bool(o, "lstrip", false, here, &a->strip_left));
    AX_TRY(ax_json_bool(o, "rstrip", false, here, &a->strip_right));
    AX_TRY(ax_json_bool(o, "special", false, here, &a->special));
    return ax_json_bool(o, "normalized", !a->special, here, &a->normalized);
}

// Enters the token under its id, or finds that the vocabulary has it there already.
static ax_status place_added(ax_tokenizer *t, const ax_added *a, const ax_spell_map *map,
                             const char *where)
{
    ax_spelling *s = &t->bpe.spelling[a->id];
    int32_t known = ax_spell_map_find(map, a->text, a->length);
    AX_CHECK(known < 0 || known == a->id, AX_EFORMAT,
             "%s: added token '%.80s' has id %d here and %d in model.vocab", where, a->text, a->id,
             known);
    AX_CHECK(!s->text || (s->length == a->length && memcmp(s->text, a->text, a->length) == 0),
             AX_EFORMAT, "%s: '%.80s' and the added token '%.80s' have the same id %d", where,
             s->text ? s->text : "", a->text, a->id);
    *s = (ax_spelling){.text = a->text, .length = (uint32_t)a->length};
    return AX_OK;
}

// A token that is looked for after normalising is looked for in its normal form.
static ax_status normal_text(const ax_tokenizer *t, const ax_added *a, ax_text *out)
{
    ax_bytes_add(out, a->text, a->length);
    for (int64_t i = 0; i < t->normalizer.count; i++) {
        ax_text next = {0};
        ax_status st = ax_step_rewrite(&t->normalizer.step[i], out->text, out->length, &next);
        ax_text_fini(out);
        *out = next;
        AX_TRY(st);
    }
    return AX_OK;
}

static ax_status index_added(ax_tokenizer *t, int32_t i)
{
    ax_added *a = &t->added[i];
    if (!a->normalized)
        return ax_trie_add(&t->raw_trie, a->text, a->length, i);
    AX_TRY(normal_text(t, a, &a->normal));
    AX_CHECK(!a->normal.failed, AX_ENOMEM, "no memory for an added token");
    if (a->normal.length == 0)
        return AX_OK;
    return ax_trie_add(&t->normal_trie, a->normal.text, a->normal.length, i);
}

static ax_status add_token(ax_tokenizer *t, const json_t *o, const char *where,
                           const ax_spell_map *map)
{
    int32_t i = (int32_t)t->addeds++;
    AX_TRY(read_one_added(o, (size_t)i, where, &t->added[i]));
    AX_TRY(place_added(t, &t->added[i], map, where));
    return index_added(t, i);
}

static int by_text(const void *left, const void *right)
{
    const ax_added *a = *(const ax_added *const *)left, *b = *(const ax_added *const *)right;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return memcmp(a->text, b->text, a->length);
}

// Which of two tokens with one text says its id, and how it is cut out, would be a guess.
static ax_status check_added(const ax_tokenizer *t, const char *where)
{
    const ax_added **list = malloc(((size_t)t->addeds + 1) * sizeof(ax_added *));
    ax_status st = AX_OK;
    AX_CHECK(list, AX_ENOMEM, "%s: no memory for its added tokens", where);
    for (int64_t i = 0; i < t->addeds; i++)
        list[i] = &t->added[i];
    qsort(list, (size_t)t->addeds, sizeof(ax_added *), by_text);
    for (int64_t i = 1; st == AX_OK && i < t->addeds; i++)
        if (by_text(&list[i - 1], &list[i]) == 0)
            st = ax_fail(AX_EFORMAT, __FILE__, __LINE__, "%s: added token '%.80s' stands twice",
                         where, list[i]->text);
    free(list);
    return st;
}

static ax_status read_added(ax_tokenizer *t, const json_t *list, const char *where)
{
    size_t n = json_array_size(list);
    ax_spell_map map = {0};
    t->added = calloc(n + 1, sizeof *t->added);
    AX_CHECK(t->added, AX_ENOMEM, "%s: no memory for its added tokens", where);
    AX_TRY(ax_spell_map_build(&map, t->bpe.spelling, t->bpe.ids));
    ax_status st = AX_OK;
    for (size_t i = 0; st == AX_OK && i < n; i++)
        st = add_token(t, json_array_get(list, i), where, &map);
    free(map.slot);
    return st == AX_OK ? check_added(t, where) : st;
}

// ---- what stands around the model

static ax_status read_template(ax_tokenizer *t, const json_t *o)
{
    const json_t *first = json_array_get(json_object_get(o, "single"), 0);
    const json_t *id = json_object_get(json_object_get(first, "SpecialToken"), "id");
    if (json_is_string(id))
        t->bos = ax_tokenizer_find(t, json_string_value(id));
    return AX_OK;
}

// Which ids frame a text is the caller's to decide; the first one is noted.
static ax_status read_processor(ax_tokenizer *t, const json_t *o, int depth, const char *where)
{
    const char *type;
    size_t length;
    if (!o || json_is_null(o))
        return AX_OK;
    AX_CHECK(json_is_object(o), AX_EFORMAT, "%s: post_processor must be an object or null", where);
    AX_TRY(ax_json_text(o, "type", where, &type, &length));
    if (strcmp(type, "ByteLevel") == 0)
        return AX_OK;
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(t, o);
    AX_CHECK(strcmp(type, "Sequence") == 0 && depth < 8, AX_EUNSUPPORTED,
             "%s: post_processor '%.40s' is not supported", where, type);
    const json_t *list = json_object_get(o, "processors");
    for (size_t i = 0; i < json_array_size(list); i++)
        AX_TRY(read_processor(t, json_array_get(list, i), depth + 1, where));
    return AX_OK;
}

static ax_status check_version(const json_t *root, const char *where)
{
    const json_t *version = json_object_get(root, "version");
    const char *text = json_is_string(version) ? json_string_value(version) : "?";
    AX_CHECK(!version || strcmp(text, "1.0") == 0, AX_EUNSUPPORTED,
             "%s: version '%.20s' is not supported, only '1.0'", where, text);
    return AX_OK;
}

static void note_unused(const json_t *root, const char *where)
{
    static const char *const keys[] = {"truncation", "padding"};
    for (int i = 0; i < 2; i++) {
        const json_t *v = json_object_get(root, keys[i]);
        if (v && !json_is_null(v))
            ax_log(AX_LOG_WARN, "data", "%s: its %s is not applied", where, keys[i]);
    }
}

ax_status ax_tokenizer_read(ax_tokenizer *t, const json_t *root, const char *where)
{
    const json_t *added = json_object_get(root, "added_tokens");
    AX_CHECK(json_is_object(root), AX_EFORMAT, "%s: not a JSON object", where);
    AX_CHECK(!added || json_is_null(added) || json_is_array(added), AX_EFORMAT,
             "%s: added_tokens must be a list", where);
    AX_TRY(check_version(root, where));
    AX_TRY(ax_steps_read(t, root, where));
    AX_TRY(read_model(t, json_object_get(root, "model"), added, where));
    AX_TRY(read_added(t, added, where));
    AX_TRY(read_processor(t, json_object_get(root, "post_processor"), 0, where));
    note_unused(root, where);
    return ax_pieces_build(t, where);
}

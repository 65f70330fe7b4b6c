#include "data/tokenizer_parts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BYTES = 256, END_OF_DOCUMENT = 256, VOCABULARY = 257 };

// ---- lists of ids

static ax_status reserve(ax_ids *ids, int64_t more)
{
    if (more <= ids->room - ids->count)
        return AX_OK;
    int64_t room = ids->room ? ids->room : 1024;
    while (room - ids->count < more)
        room *= 2;
    int32_t *id = realloc(ids->id, (size_t)room * sizeof *id);
    AX_CHECK(id, AX_ENOMEM, "no memory for %lld token ids", (long long)room);
    ids->id = id;
    ids->room = room;
    return AX_OK;
}

ax_status ax_ids_push(ax_ids *ids, int32_t id)
{
    if (ids->count == ids->room)
        AX_TRY(reserve(ids, 1));
    ids->id[ids->count++] = id;
    return AX_OK;
}

ax_status ax_ids_append(ax_ids *ids, const int32_t *id, int64_t count)
{
    if (count <= 0)
        return AX_OK;
    AX_TRY(reserve(ids, count));
    memcpy(ids->id + ids->count, id, (size_t)count * sizeof *id);
    ids->count += count;
    return AX_OK;
}

void ax_ids_fini(ax_ids *ids)
{
    free(ids->id);
    *ids = (ax_ids){0};
}

// ---- files

typedef char path_text[PATH_MAX];

// DIR/NAME; AX_EUSAGE where that is too long for a path.
static ax_status join_path(const char *folder, const char *name, path_text out)
{
    int n = snprintf(out, sizeof(path_text), "%s/%s", folder, name);
    AX_CHECK(n > 0 && (size_t)n < sizeof(path_text), AX_EUSAGE,
             "data.tokenizer: the path is too long");
    return AX_OK;
}

static bool is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && !S_ISDIR(s.st_mode);
}

static ax_status read_file(const char *path, ax_text *out)
{
    FILE *f = fopen(path, "rb");
    AX_CHECK(f, AX_EIO, "%s: %s", path, strerror(errno));
    char block[1 << 14];
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        ax_bytes_add(out, block, n);
    bool failed = ferror(f);
    fclose(f);
    AX_CHECK(!failed, AX_EIO, "%s: cannot be read", path);
    AX_CHECK(!out->failed, AX_ENOMEM, "%s: no memory for it", path);
    return AX_OK;
}

static ax_status parse_json(const char *where, const char *text, size_t length, size_t flags,
                            json_t **out)
{
    json_error_t error;
    json_t *root = json_loadb(text ? text : "", length,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | flags, &error);
    AX_CHECK(root, AX_EFORMAT, "%s: line %d, byte %d: %s", where, error.line, error.position,
             error.text);
    *out = root;
    return AX_OK;
}

static ax_status load_json(const char *path, size_t flags, json_t **out)
{
    ax_text text = {0};
    ax_status st = read_file(path, &text);
    if (st == AX_OK)
        st = parse_json(path, text.text, text.length, flags, out);
    ax_text_fini(&text);
    return st;
}

// ---- the ids that end and begin a document

static const char *const usual_ends[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<|eot_id|>",
                                         "<eos>",         "<|im_end|>",      NULL};

// "eos_token": "</s>", or an object with that as its "content".
static int32_t named_token(const ax_tokenizer *t, const json_t *config, const char *key)
{
    const json_t *v = json_object_get(config, key);
    if (json_is_object(v))
        v = json_object_get(v, "content");
    return json_is_string(v) ? ax_tokenizer_find(t, json_string_value(v)) : -1;
}

static void choose_ends(ax_tokenizer *t, const json_t *config)
{
    int32_t bos = named_token(t, config, "bos_token");
    t->bos = bos >= 0 ? bos : t->bos;
    t->eod = named_token(t, config, "eos_token");
    for (int i = 0; usual_ends[i] && t->eod < 0; i++)
        t->eod = ax_tokenizer_find(t, usual_ends[i]);
}

// ---- opening

static ax_status new_tokenizer(const char *name, ax_tokenizer **out)
{
    ax_tokenizer *t = calloc(1, sizeof *t);
    AX_CHECK(t, AX_ENOMEM, "no memory for a tokenizer");
    pthread_mutex_init(&t->lock, NULL);
    t->eod = t->bos = -1;
    t->name = strdup(name);
    if (!t->name) {
        ax_tokenizer_close(t);
        AX_FAIL(AX_ENOMEM, "no memory for a tokenizer");
    }
    *out = t;
    return AX_OK;
}

// Takes over `root` and `config` (may be NULL).
static ax_status build(const char *name, const char *where, json_t *root, json_t *config,
                       ax_tokenizer **out)
{
    ax_tokenizer *t = NULL;
    ax_status st = new_tokenizer(name, &t);
    if (st == AX_OK)
        st = ax_tokenizer_read(t, root, where);
    if (st == AX_OK)
        choose_ends(t, config);
    json_decref(root);
    json_decref(config);
    if (st != AX_OK) {
        ax_tokenizer_close(t);
        return st;
    }
    *out = t;
    return AX_OK;
}

ax_status ax_tokenizer_parse(const char *name, const char *json, size_t length, ax_tokenizer **out)
{
    json_t *root;
    AX_TRY(parse_json(name, json, length, 0, &root));
    return build(name, name, root, NULL, out);
}

static ax_status open_bytes(ax_tokenizer **out)
{
    ax_tokenizer *t;
    AX_TRY(new_tokenizer("byte", &t));
    t->only_bytes = true;
    t->eod = END_OF_DOCUMENT;
    for (int i = 0; i < BYTES; i++)
        t->byte[i] = (char)i;
    *out = t;
    return AX_OK;
}

// tokenizer_config.json is optional; it names the special tokens' parts. Its model_max_length may
// be 10^30, written as an integer.
static ax_status read_config(const char *folder, json_t **out)
{
    path_text path;
    *out = NULL;
    AX_TRY(join_path(folder, "tokenizer_config.json", path));
    return is_file(path) ? load_json(path, JSON_DECODE_INT_AS_REAL, out) : AX_OK;
}

static ax_status open_json(const char *name, const char *folder, const char *path,
                           ax_tokenizer **out)
{
    json_t *root, *config;
    AX_TRY(read_config(folder, &config));
    ax_status st = load_json(path, 0, &root);
    if (st != AX_OK) {
        json_decref(config);
        return st;
    }
    return build(name, path, root, config, out);
}

// The lines of merges.txt but for its first, which names a version.
static ax_status read_merges(const char *path, json_t **out)
{
    ax_text text = {0};
    ax_status st = read_file(path, &text);
    json_t *list = json_array();
    for (size_t at = 0; st == AX_OK && at < text.length;) {
        const char *line = text.text + at, *end = memchr(line, '\n', text.length - at);
        size_t n = end ? (size_t)(end - line) : text.length - at;
        at += n + 1;
        if (n > 0 && line[n - 1] == '\r')
            n--;
        if (n == 0 || (n >= 8 && memcmp(line, "#version", 8) == 0))
            continue;
        if (json_array_append_new(list, json_stringn(line, n)) != 0)
            st = ax_fail(AX_EFORMAT, __FILE__, __LINE__, "%s: merge %zu is not UTF-8", path,
                         json_array_size(list) + 1);
    }
    ax_text_fini(&text);
    if (st != AX_OK)
        json_decref(list);
    else
        *out = list;
    return st;
}

// Whether tokenizer_config.json calls the text its bos_token, eos_token or the like.
static bool has_role(const json_t *config, const char *content)
{
    const char *key;
    json_t *value;
    size_t i;
    json_t *item;
    json_object_foreach((json_t *)config, key, value)
    {
        size_t n = strlen(key);
        if (strcmp(key, "additional_special_tokens") == 0)
            json_array_foreach(value, i,
                               item) if (json_is_string(item) &&
                                         strcmp(json_string_value(item), content) == 0) return true;
        const json_t *text = json_is_object(value) ? json_object_get(value, "content") : value;
        if (n > 6 && strcmp(key + n - 6, "_token") == 0 && json_is_string(text) &&
            strcmp(json_string_value(text), content) == 0)
            return true;
    }
    return false;
}

static void add_token(json_t *list, const char *content, json_int_t id, bool special)
{
    json_array_append_new(
        list, json_pack("{s:I, s:s, s:b}", "id", id, "content", content, "special", (int)special));
}

// Newer directories list their added tokens in tokenizer_config.json, by id.
static ax_status add_listed(const char *folder, const json_t *decoder, json_t *list)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)decoder, key, value)
    {
        int64_t id;
        AX_CHECK(ax_parse_int(key, &id) && json_is_object(value), AX_EFORMAT,
                 "%s/tokenizer_config.json: added_tokens_decoder: '%.40s' is no id with a token",
                 folder, key);
        json_t *token = json_copy(value);
        json_object_set_new(token, "id", json_integer(id));
        json_array_append_new(list, token);
    }
    return AX_OK;
}

// Older ones have a file of them, if they have any.
static ax_status add_filed(const char *folder, const json_t *config, json_t *list)
{
    path_text path;
    json_t *root, *value;
    const char *key;
    AX_TRY(join_path(folder, "added_tokens.json", path));
    if (!is_file(path))
        return AX_OK;
    AX_TRY(load_json(path, 0, &root));
    bool fine = json_is_object(root);
    json_object_foreach(root, key, value)
    {
        fine = fine && json_is_integer(value);
        add_token(list, key, json_integer_value(value), has_role(config, key));
    }
    json_decref(root);
    AX_CHECK(fine, AX_EFORMAT, "%s: must hold tokens with their ids", path);
    return AX_OK;
}

static bool is_listed(const json_t *list, const char *content)
{
    size_t i;
    json_t *token;
    json_array_foreach(list, i, token)
    {
        const char *text = json_string_value(json_object_get(token, "content"));
        if (text && strcmp(text, content) == 0)
            return true;
    }
    return false;
}

static ax_status list_added(const char *folder, const json_t *vocab, const json_t *config,
                            json_t *list)
{
    const char *end = "<|endoftext|>";
    const json_t *id = json_object_get(vocab, end);
    const json_t *decoder = json_object_get(config, "added_tokens_decoder");
    if (json_is_object(decoder))
        AX_TRY(add_listed(folder, decoder, list));
    else
        AX_TRY(add_filed(folder, config, list));
    if (json_is_integer(id) && !is_listed(list, end))
        add_token(list, end, json_integer_value(id), true);
    return AX_OK;
}

// What GPT-2's two files leave unsaid and a tokenizer.json says. Takes over vocab and merges.
static json_t *pair_root(json_t *vocab, json_t *merges, json_t *added, bool prefix)
{
    return json_pack("{s:o, s:{s:s, s:b}, s:{s:s, s:b}, s:{s:s, s:o, s:o}}", "added_tokens", added,
                     "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", (int)prefix,
                     "decoder", "type", "ByteLevel", "add_prefix_space", 0, "model", "type", "BPE",
                     "vocab", vocab, "merges", merges);
}

static ax_status open_pair(const char *name, const char *vocab_path, const char *merges_path,
                           ax_tokenizer **out)
{
    json_t *vocab = NULL, *merges = NULL, *config = NULL, *added = json_array();
    bool prefix = false;
    ax_status st = load_json(vocab_path, 0, &vocab);
    if (st == AX_OK)
        st = read_config(name, &config);
    if (st == AX_OK)
        st = read_merges(merges_path, &merges);
    if (st == AX_OK)
        st = ax_json_bool(config, "add_prefix_space", false, name, &prefix);
    if (st == AX_OK)
        st = list_added(name, vocab, config, added);
    if (st == AX_OK)
        return build(name, vocab_path, pair_root(vocab, merges, added, prefix), config, out);
    json_decref(vocab);
    json_decref(merges);
    json_decref(config);
    json_decref(added);
    return st;
}

static ax_status open_folder(const char *name, ax_tokenizer **out)
{
    path_text json, vocab, merges;
    AX_TRY(join_path(name, "tokenizer.json", json));
    AX_TRY(join_path(name, "vocab.json", vocab));
    AX_TRY(join_path(name, "merges.txt", merges));
    if (is_file(json))
        return open_json(name, name, json, out);
    AX_CHECK(is_file(vocab) && is_file(merges), AX_EUSAGE,
             "data.tokenizer=%s: the directory has neither tokenizer.json nor vocab.json and "
             "merges.txt",
             name);
    return open_pair(name, vocab, merges, out);
}

static ax_status open_file(const char *name, ax_tokenizer **out)
{
    path_text folder;
    const char *slash = strrchr(name, '/');
    int n = slash ? (int)(slash - name) : 1;
    snprintf(folder, sizeof folder, "%.*s", n ? n : 1, slash ? name : ".");
    return open_json(name, folder, name, out);
}

ax_status ax_tokenizer_open(const char *name, ax_tokenizer **out)
{
    struct stat s;
    if (strcmp(name, "byte") == 0)
        return open_bytes(out);
    AX_CHECK(stat(name, &s) == 0, AX_EUSAGE,
             "data.tokenizer=%s: %s; give byte, a tokenizer.json or its directory", name,
             strerror(errno));
    return S_ISDIR(s.st_mode) ? open_folder(name, out) : open_file(name, out);
}

void ax_tokenizer_close(ax_tokenizer *t)
{
    if (!t)
        return;
    ax_encoder_free(t->resting);
    ax_bpe_fini(&t->bpe);
    free(t->bpe.spelling);
    free(t->bpe.raw);
    free(t->spellings);
    free(t->raws);
    for (int64_t i = 0; i < t->addeds; i++) {
        free(t->added[i].text);
        ax_text_fini(&t->added[i].normal);
    }
    free(t->added);
    ax_trie_fini(&t->raw_trie);
    ax_trie_fini(&t->normal_trie);
    ax_steps_fini(&t->normalizer);
    ax_steps_fini(&t->splitter);
    ax_steps_fini(&t->decoder);
    free(t->piece);
    ax_text_fini(&t->pieces);
    pthread_mutex_destroy(&t->lock);
    free(t->name);
    free(t);
}

// ---- what it is

int64_t ax_tokenizer_vocab(const ax_tokenizer *t)
{
    return t->only_bytes ? VOCABULARY : t->bpe.ids;
}

int32_t ax_tokenizer_eod(const ax_tokenizer *t)
{
    return t->eod;
}

int32_t ax_tokenizer_bos(const ax_tokenizer *t)
{
    return t->bos;
}

const char *ax_tokenizer_name(const ax_tokenizer *t)
{
    return t->name;
}

const char *ax_tokenizer_spelling(const ax_tokenizer *t, int32_t id, size_t *length)
{
    *length = 0;
    if (id < 0 || id >= ax_tokenizer_vocab(t))
        return NULL;
    if (t->only_bytes) {
        *length = id < BYTES;
        return id < BYTES ? &t->byte[id] : "";
    }
    *length = t->bpe.spelling[id].length;
    return t->bpe.spelling[id].text;
}

int32_t ax_tokenizer_find(const ax_tokenizer *t, const char *spelling)
{
    size_t n = strlen(spelling), length;
    for (int64_t id = 0; id < ax_tokenizer_vocab(t); id++) {
        const char *text = ax_tokenizer_spelling(t, (int32_t)id, &length);
        if (text && length == n && memcmp(text, spelling, n) == 0)
            return (int32_t)id;
    }
    return -1;
}

bool ax_tokenizer_is_special(const ax_tokenizer *t, int32_t id)
{
    if (t->only_bytes)
        return id == END_OF_DOCUMENT;
    return id >= 0 && id < t->bpe.ids && t->piece[id].special;
}

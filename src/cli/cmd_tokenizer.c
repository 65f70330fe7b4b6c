// axonn tokenizer encode|decode|inspect|train: ids and text, one file or standard input at a time.
#include "cli/cli.h"

#include "base/log.h"
#include "data/bpe_train.h"
#include "train/config_yaml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 64 };

typedef struct request {
    const char *tokenizer, *train, *text_key, *out;
    int64_t literals, vocab;
    const char *file; // of --config; NULL: none
    ax_log_level level;
    bool json, help;
    const char *word[WORDS]; // behind the action
    int words;
} request;

#define KEY(field) offsetof(request, field)
static const ax_option request_option_table[] = {
    {"data.tokenizer", AX_OPT_TEXT, KEY(tokenizer), "byte", "",
     "byte, or a tokenizer.json or its directory"},
    {"data.train", AX_OPT_LIST, KEY(train), "", "", "files to train on: *.jsonl, or text"},
    {"data.text_key", AX_OPT_TEXT, KEY(text_key), "text", "",
     "key that holds the text of a JSONL object"},
    {"data.literals", AX_OPT_CHOICE, KEY(literals), "text", "text|tokens",
     "what the text of a special token, as <|endoftext|>, becomes: text like any other, or the "
     "token"},
    {"tokenizer.vocab", AX_OPT_INT, KEY(vocab), "32768", "257..1000000", "tokens to train"},
    {"out", AX_OPT_TEXT, KEY(out), "", "", "directory of the trained tokenizer.json"},
    {0},
};

// ---- the command line

static ax_status set_key(void *ctx, const char *key, const char *value, const char *where)
{
    return ax_options_set(ctx, key, value, where);
}

// As of every verb: whatever is wrong with the file is wrong use.
static ax_status read_file(ax_options *o, const char *path)
{
    ax_status st = ax_config_yaml_read(path, set_key, o);
    return st == AX_EFORMAT || st == AX_EIO ? AX_EUSAGE : st;
}

// `settings`: the keys; else only the file, which stands below them.
static ax_status take_key(ax_options *o, request *r, const char *text, const char *next,
                          bool settings, int *used)
{
    char key[128];
    size_t n = strcspn(text, "=");
    AX_CHECK(n < sizeof key, AX_EUSAGE, "command line: '%.40s...' is no key", text);
    snprintf(key, sizeof key, "%.*s", (int)n, text);
    const char *value = text[n] ? text + n + 1 : next;
    *used = text[n] ? 1 : 2;
    AX_CHECK(value, AX_EUSAGE, "command line: --%s needs a value", key);
    if (strcmp(key, "config") != 0)
        return settings ? ax_options_set(o, key, value, "command line") : AX_OK;
    AX_CHECK(settings || !r->file, AX_EUSAGE, "command line: --config %s and --config %s; give one",
             r->file, value);
    r->file = value;
    return settings ? AX_OK : read_file(o, value);
}

static ax_status take_word(request *r, const char *text)
{
    AX_CHECK(r->words < WORDS, AX_EUSAGE, "command line: more than %d arguments", WORDS);
    r->word[r->words++] = text;
    return AX_OK;
}

static ax_status take(ax_options *o, request *r, const char *text, const char *next, bool settings,
                      int *used)
{
    *used = 1;
    if (strcmp(text, "-h") == 0 || strcmp(text, "--help") == 0)
        r->help = true;
    else if (strcmp(text, "--json") == 0)
        r->json = true;
    else if (strcmp(text, "-q") == 0 || strcmp(text, "-v") == 0)
        r->level = text[1] == 'q' ? AX_LOG_WARN : AX_LOG_DEBUG;
    else if (text[0] == '-' && text[1] == '-' && text[2])
        return take_key(o, r, text + 2, next, settings, used);
    else if (strchr(text, '=') && text[strcspn(text, "=/")] == '=')
        return take_key(o, r, text, NULL, settings, used);
    else if (settings)
        return take_word(r, text);
    return AX_OK;
}

static ax_status read_line(int argc, char **argv, ax_options *o, request *r)
{
    AX_TRY(ax_options_add(o, request_option_table, r));
    r->level = AX_LOG_INFO;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0, used; i < argc; i += used)
            AX_TRY(take(o, r, argv[i], i + 1 < argc ? argv[i + 1] : NULL, pass == 1, &used));
    ax_log_config log = ax_log_current();
    log.level = r->level;
    ax_log_setup(log);
    return AX_OK;
}

static ax_status at_most(const request *r, int words)
{
    AX_CHECK(r->words <= words, AX_EUSAGE, "command line: unexpected argument '%s'",
             r->word[words < r->words ? words : 0]);
    return AX_OK;
}

// ---- files

static ax_status read_stream(FILE *f, const char *name, char **out, size_t *length)
{
    size_t room = 1 << 16, n = 0;
    char *text = malloc(room);
    while (text) {
        n += fread(text + n, 1, room - n, f);
        if (n < room)
            break;
        char *grown = realloc(text, room *= 2);
        if (!grown)
            free(text);
        text = grown;
    }
    AX_CHECK(text, AX_ENOMEM, "%s: no memory for it", name);
    if (ferror(f)) {
        free(text);
        AX_FAIL(AX_EIO, "%s: cannot be read: %s", name, strerror(errno));
    }
    text[n] = 0;
    *out = text;
    *length = n;
    return AX_OK;
}

// The file named by the first word, or standard input.
static ax_status read_input(const request *r, char **out, size_t *length)
{
    AX_TRY(at_most(r, 1));
    if (r->words == 0 || strcmp(r->word[0], "-") == 0)
        return read_stream(stdin, "standard input", out, length);
    FILE *f = fopen(r->word[0], "rb");
    AX_CHECK(f, AX_EUSAGE, "%s: %s", r->word[0], strerror(errno));
    ax_status st = read_stream(f, r->word[0], out, length);
    fclose(f);
    return st;
}

// ---- encode and decode

static ax_status encode_text(const request *r, const ax_tokenizer *t, const char *text,
                             size_t length, ax_ids *ids)
{
    ax_encoder *e;
    AX_TRY(ax_encoder_open(t, (ax_literals)r->literals, &e));
    ax_status st = ax_encoder_encode(e, text, length, ids);
    ax_encoder_close(e);
    return st;
}

static ax_status encode(const request *r, const ax_tokenizer *t)
{
    char *text;
    size_t length;
    ax_ids ids = {0};
    AX_TRY(read_input(r, &text, &length));
    ax_status st = encode_text(r, t, text, length, &ids);
    for (int64_t i = 0; st == AX_OK && i < ids.count; i++)
        printf(i ? " %d" : "%d", (int)ids.id[i]);
    if (st == AX_OK)
        printf("\n");
    ax_ids_fini(&ids);
    free(text);
    return st;
}

static ax_status next_id(const char **at, int64_t *id, bool *found)
{
    static const char blanks[] = " \t\r\n,";
    char word[32];
    *at += strspn(*at, blanks);
    size_t n = strcspn(*at, blanks);
    *found = n > 0;
    if (n == 0)
        return AX_OK;
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), *at);
    AX_CHECK(n < sizeof word && ax_parse_int(word, id) && *id >= 0 && *id <= INT32_MAX, AX_EFORMAT,
             "'%s' is not a token id", word);
    *at += n;
    return AX_OK;
}

// Bytes come out as they went in.
static ax_status decode_ids(const request *r, const ax_tokenizer *t, const char *text, ax_text *out)
{
    ax_decoder d = {
        .tokenizer = t, .special = r->literals == AX_LITERALS_ARE_TOKENS, .exact = true};
    bool found;
    int64_t id;
    for (;;) {
        AX_TRY(next_id(&text, &id, &found));
        if (!found)
            break;
        AX_TRY(ax_decoder_push(&d, (int32_t)id, out));
    }
    ax_decoder_finish(&d, out);
    return AX_OK;
}

static ax_status decode(const request *r, const ax_tokenizer *t)
{
    char *text;
    size_t length;
    ax_text out = {0};
    AX_TRY(read_input(r, &text, &length));
    ax_status st = decode_ids(r, t, text, &out);
    if (st == AX_OK && out.length)
        ax_cli_show(out.text, out.length);
    ax_text_fini(&out);
    free(text);
    return st;
}

// ---- inspect

static void add_token(const ax_tokenizer *t, int32_t id, ax_text *out)
{
    size_t length;
    const char *text = ax_tokenizer_spelling(t, id, &length);
    if (id < 0 || !text)
        ax_text_add(out, "null");
    else
        ax_text_add_json(out, text);
}

// An id with its spelling: "none" where there is none, in JSON -1 and null.
static void add_named(const request *r, const ax_tokenizer *t, const char *name, int32_t id,
                      ax_text *out)
{
    if (id < 0 && !r->json) {
        ax_text_add(out, "none");
        return;
    }
    ax_text_add(out, "%d", (int)id);
    if (r->json)
        ax_text_add(out, ", \"%s_text\":", name);
    ax_text_add(out, " ");
    add_token(t, id, out);
}

static void add_specials(const ax_tokenizer *t, ax_text *out)
{
    const char *between = "";
    for (int64_t id = 0; id < ax_tokenizer_vocab(t); id++) {
        if (!ax_tokenizer_is_special(t, (int32_t)id))
            continue;
        ax_text_add(out, "%s%lld", between, (long long)id);
        between = ", ";
    }
}

static ax_status inspect_ids(const request *r, const ax_tokenizer *t)
{
    for (int i = 0; i < r->words; i++) {
        int64_t id;
        const char *bytes;
        size_t length;
        AX_CHECK(ax_parse_int(r->word[i], &id) && id >= 0 && id < ax_tokenizer_vocab(t), AX_EUSAGE,
                 "'%s' is not an id from 0 to %lld", r->word[i],
                 (long long)ax_tokenizer_vocab(t) - 1);
        AX_TRY(ax_tokenizer_decode(t, (int32_t)id, &bytes, &length));
        ax_text line = {0};
        ax_text_add(&line, "%lld ", (long long)id);
        add_token(t, (int32_t)id, &line);
        ax_text_add(&line, " bytes");
        for (size_t j = 0; j < length; j++)
            ax_text_add(&line, " %02x", (unsigned char)bytes[j]);
        printf("%s\n", line.text ? line.text : "");
        ax_text_fini(&line);
    }
    return AX_OK;
}

static ax_status inspect(const request *r, const ax_tokenizer *t)
{
    if (r->words > 0)
        return inspect_ids(r, t);
    ax_text out = {0};
    ax_text_add(&out, r->json ? "{\"vocab\": %lld, \"eod\": " : "vocab %lld\neod ",
                (long long)ax_tokenizer_vocab(t));
    add_named(r, t, "eod", ax_tokenizer_eod(t), &out);
    ax_text_add(&out, r->json ? ", \"bos\": " : "\nbos ");
    add_named(r, t, "bos", ax_tokenizer_bos(t), &out);
    ax_text_add(&out, r->json ? ", \"special\": [" : "\nspecial ");
    add_specials(t, &out);
    ax_text_add(&out, r->json ? "]}" : "");
    AX_CHECK(!out.failed, AX_ENOMEM, "no memory to describe a tokenizer");
    printf("%s\n", out.text);
    ax_text_fini(&out);
    return AX_OK;
}

// ---- train

static ax_status add_files(const request *r, ax_bpe_trainer *t)
{
    AX_CHECK(*r->train, AX_EUSAGE, "tokenizer train needs data.train=FILE[,FILE...]");
    for (const char *at = r->train; *at;) {
        size_t n = strcspn(at, ",");
        char *path = strndup(at, n);
        AX_CHECK(path, AX_ENOMEM, "no memory for a path");
        ax_status st = ax_bpe_trainer_add_file(t, path, r->text_key);
        free(path);
        AX_TRY(st);
        at += n + (at[n] == ',');
    }
    return AX_OK;
}

// Beside and then renamed: a file with this name is always whole.
static ax_status write_file(const char *folder, const ax_text *json)
{
    char path[4096], part[4112];
    int n = snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    AX_CHECK(n > 0 && (size_t)n < sizeof path, AX_EUSAGE, "out=%s: the path is too long", folder);
    snprintf(part, sizeof part, "%s.part", path);
    AX_CHECK(mkdir(folder, 0777) == 0 || errno == EEXIST, AX_EIO, "out=%s: %s", folder,
             strerror(errno));
    AX_CHECK(access(path, F_OK) != 0, AX_EUSAGE, "%s is there already; name another directory",
             path);
    FILE *f = fopen(part, "wb");
    AX_CHECK(f, AX_EIO, "%s: %s", part, strerror(errno));
    bool written = fwrite(json->text, 1, json->length, f) == json->length;
    written = fflush(f) == 0 && fsync(fileno(f)) == 0 && written;
    written = fclose(f) == 0 && written;
    written = written && rename(part, path) == 0;
    if (!written) {
        int why = errno;
        remove(part);
        AX_FAIL(AX_EIO, "%s: cannot be written: %s", path, strerror(why));
    }
    return AX_OK;
}

static ax_status train_with(const request *r, ax_bpe_trainer *t)
{
    ax_text json = {0};
    int64_t tokens;
    AX_CHECK(*r->out, AX_EUSAGE, "tokenizer train needs out=DIRECTORY");
    AX_TRY(at_most(r, 0));
    AX_TRY(add_files(r, t));
    ax_status st = ax_bpe_trainer_run(t, r->vocab, &json, &tokens);
    if (st == AX_OK)
        st = write_file(r->out, &json);
    if (st == AX_OK)
        printf("%s/tokenizer.json: %lld tokens%s\n", r->out, (long long)tokens,
               tokens < r->vocab ? ", no other pair stands twice" : "");
    ax_text_fini(&json);
    return st;
}

static ax_status train(const request *r)
{
    ax_bpe_trainer *t;
    AX_TRY(ax_bpe_trainer_open(&t));
    ax_status st = train_with(r, t);
    ax_bpe_trainer_close(t);
    return st;
}

// ---- the verb

static ax_status with_tokenizer(const request *r,
                                ax_status (*action)(const request *r, const ax_tokenizer *t))
{
    ax_tokenizer *t;
    AX_TRY(ax_tokenizer_open(r->tokenizer, &t));
    ax_status st = action(r, t);
    ax_tokenizer_close(t);
    return st;
}

static ax_status run_action(request *r)
{
    if (r->help)
        return ax_cli_help_verb("tokenizer", stdout);
    AX_CHECK(r->words > 0, AX_EUSAGE, "tokenizer needs one of encode, decode, inspect, train");
    const char *action = r->word[0];
    memmove(r->word, r->word + 1, sizeof r->word - sizeof r->word[0]);
    r->words--;
    if (strcmp(action, "encode") == 0)
        return with_tokenizer(r, encode);
    if (strcmp(action, "decode") == 0)
        return with_tokenizer(r, decode);
    if (strcmp(action, "inspect") == 0)
        return with_tokenizer(r, inspect);
    AX_CHECK(strcmp(action, "train") == 0, AX_EUSAGE,
             "tokenizer %s: there are encode, decode, inspect, train", action);
    return train(r);
}

ax_status ax_cmd_tokenizer(int argc, char **argv)
{
    request r = {0};
    ax_options o;
    AX_TRY(ax_options_init(&o));
    ax_status st = read_line(argc, argv, &o, &r);
    if (st == AX_OK)
        st = run_action(&r);
    ax_options_fini(&o);
    return st;
}

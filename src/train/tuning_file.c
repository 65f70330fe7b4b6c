#include "train/tuning_file.h"

#include "base/log.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 12, LINE = 512, MOST_BYTES = 4 << 20, MOST_KEPT = 3 << 20 };
static const char head[] =
    "# The fastest way to make each matrix product, as axonn measured it (train.tune).\n"
    "# machine library threads mode m n k in out way seconds default\n";

ax_status ax_tuned_here(const char *device, ax_tuned_for *out)
{
    ax_device dev;
    ax_device_facts f;
    AX_TRY(ax_device_open(&(ax_device_config){.name = device, .threads = 1, .core = -1}, &dev));
    ax_device_facts_of(&dev, &f);
    ax_device_close(&dev);
    *out = (ax_tuned_for){0};
    snprintf(out->machine, sizeof out->machine, "%s/%s", f.processor, f.isa);
    snprintf(out->library, sizeof out->library, "%s-%s", f.library[0].name ? f.library[0].name : "",
             f.library[0].version);
    for (char *at = out->library; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return AX_OK;
}

const ax_tuned *ax_tuned_find(const ax_tuned_list *list, const ax_gemm_key *key)
{
    for (int64_t i = 0; i < list->count; i++)
        if (ax_gemm_key_equal(&list->item[i].key, key))
            return &list->item[i];
    return NULL;
}

void ax_tuned_put(ax_tuned_list *list, const ax_tuned *item)
{
    ax_tuned *there = (ax_tuned *)(uintptr_t)ax_tuned_find(list, &item->key);
    if (!there && list->count < AX_TUNED_MOST)
        there = &list->item[list->count++];
    if (there)
        *there = *item;
}

// ---- a line ----

// Cuts `line` at its blanks; the number of words, WORDS + 1 where there are more.
static int split(char *line, char *word[WORDS])
{
    int count = 0;
    char *rest;
    for (char *at = strtok_r(line, " \t\r", &rest); at; at = strtok_r(NULL, " \t\r", &rest)) {
        if (count == WORDS)
            return WORDS + 1;
        word[count++] = at;
    }
    return count;
}

static bool parse_size(const char *text, int64_t most, int64_t *out)
{
    return ax_parse_int(text, out) && *out > 0 && *out <= most;
}

static bool parse_seconds(const char *text, double *out)
{
    return ax_parse_real(text, out) && isfinite(*out) && *out > 0 && *out < 1e6;
}

static bool parse_mode(const char *text, ax_gemm_key *key)
{
    bool good = strlen(text) == 2 && strspn(text, "nt") == 2;
    key->ta = good && text[0] == 't';
    key->tb = good && text[1] == 't';
    return good;
}

static bool parse_dtype(const char *text, int32_t *out)
{
    *out = strcmp(text, "bf16") == 0 ? AX_BF16 : AX_F32;
    return *out == AX_BF16 || strcmp(text, "f32") == 0;
}

static bool parse_way(const char *text, char way[AX_WAY_NAME])
{
    size_t n = strlen(text);
    bool good =
        n > 0 && n < AX_WAY_NAME && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
    memset(way, 0, AX_WAY_NAME);
    if (good)
        memcpy(way, text, n);
    return good;
}

static bool parse_line(char *line, ax_tuned_for *of, ax_tuned *out)
{
    char *w[WORDS];
    int64_t threads, most = (int64_t)1 << 40;
    *out = (ax_tuned){0};
    if (split(line, w) != WORDS || strlen(w[0]) >= sizeof of->machine ||
        strlen(w[1]) >= sizeof of->library)
        return false;
    snprintf(of->machine, sizeof of->machine, "%s", w[0]);
    snprintf(of->library, sizeof of->library, "%s", w[1]);
    bool good = parse_size(w[2], 1 << 20, &threads) && parse_mode(w[3], &out->key) &&
                parse_size(w[4], most, &out->key.m) && parse_size(w[5], most, &out->key.n) &&
                parse_size(w[6], most, &out->key.k) && parse_dtype(w[7], &out->key.in) &&
                parse_dtype(w[8], &out->key.out) && parse_way(w[9], out->way) &&
                parse_seconds(w[10], &out->seconds) && parse_seconds(w[11], &out->default_seconds);
    out->key.threads = good ? (int32_t)threads : 0;
    return good;
}

static void add_line(ax_text *t, const ax_tuned_for *here, const ax_tuned *item)
{
    const ax_gemm_key *k = &item->key;
    ax_text_add(t, "%s %s %d %c%c %lld %lld %lld %s %s %s %.6g %.6g\n", here->machine,
                here->library, (int)k->threads, k->ta ? 't' : 'n', k->tb ? 't' : 'n',
                (long long)k->m, (long long)k->n, (long long)k->k, ax_dtype_name((ax_dtype)k->in),
                ax_dtype_name((ax_dtype)k->out), item->way, item->seconds, item->default_seconds);
}

// ---- a file ----

typedef struct reading {
    const char *path;
    const ax_tuned_for *here;
    ax_tuned_list *list; // gets the lines of `here`; NULL: nobody wants them
    const ax_tuned_list *ours;
    ax_text *kept; // gets the lines that `ours` does not replace; NULL: nobody wants them
    int number, broken, first_broken;
} reading;

static void take_line(reading *r, const char *line, size_t length)
{
    char copy[LINE];
    ax_tuned item;
    ax_tuned_for of;
    r->number++;
    size_t blanks = strspn(line, " \t\r");
    if (blanks >= length || line[blanks] == '#')
        return;
    bool fits = length < sizeof copy && !memchr(line, 0, length);
    snprintf(copy, sizeof copy, "%.*s", (int)(fits ? length : 0), line);
    if (!fits || !parse_line(copy, &of, &item)) {
        if (r->broken++ == 0)
            r->first_broken = r->number;
        return;
    }
    bool is_ours =
        strcmp(of.machine, r->here->machine) == 0 && strcmp(of.library, r->here->library) == 0;
    if (is_ours && r->list)
        ax_tuned_put(r->list, &item);
    bool room = r->kept && r->kept->length < MOST_KEPT;
    if (room && !(is_ours && ax_tuned_find(r->ours, &item.key)))
        add_line(r->kept, &of, &item);
}

// The whole file, with a zero behind it; *text is NULL where there is none.
static ax_status slurp(const char *path, char **text, size_t *size)
{
    *text = NULL;
    FILE *f = fopen(path, "rb");
    if (!f && (errno == ENOENT || errno == ENOTDIR))
        return AX_OK;
    AX_CHECK(f, AX_EIO, "%s: %s", path, strerror(errno));
    char *bytes = malloc(MOST_BYTES + 1);
    errno = 0;
    *size = bytes ? fread(bytes, 1, MOST_BYTES + 1, f) : 0;
    int why = ferror(f) ? errno : 0;
    fclose(f);
    if (!bytes || why || *size > MOST_BYTES) {
        free(bytes);
        AX_CHECK(bytes, AX_ENOMEM, "%s: no memory to read it", path);
        AX_FAIL(AX_EIO, "%s: %s", path,
                why ? strerror(why) : "larger than 4 MiB: this is no file of train.tune");
    }
    bytes[*size] = '\0';
    *text = bytes;
    return AX_OK;
}

static ax_status read_file(reading *r)
{
    char *text;
    size_t size;
    AX_TRY(slurp(r->path, &text, &size));
    for (char *at = text; text && at < text + size;) {
        char *end = memchr(at, '\n', (size_t)(text + size - at));
        size_t length = (size_t)((end ? end : text + size) - at);
        take_line(r, at, length);
        at += length + 1;
    }
    free(text);
    return AX_OK;
}

ax_status ax_tuned_read(const char *path, const ax_tuned_for *here, ax_tuned_list *out)
{
    reading r = {.path = path, .here = here, .list = out};
    AX_TRY(read_file(&r));
    if (r.broken)
        ax_log(AX_LOG_WARN, "tuning",
               "%s:%d is no line of a tuned product%s; passed over: its product is timed anew",
               path, r.first_broken, r.broken > 1 ? ", nor are others" : "");
    return AX_OK;
}

static ax_status make_folder_of(const char *path)
{
    char part[4096];
    AX_CHECK(strlen(path) < sizeof part, AX_EUSAGE, "train.tune_file: the path is too long");
    for (size_t i = 1; path[i]; i++) {
        if (path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        AX_CHECK(mkdir(part, 0777) == 0 || errno == EEXIST, AX_EIO, "%s: %s", part,
                 strerror(errno));
    }
    return AX_OK;
}

static ax_status replace_file(const char *path, const char *text)
{
    char fresh[4200];
    snprintf(fresh, sizeof fresh, "%s.%ld.new", path, (long)getpid());
    FILE *f = fopen(fresh, "w");
    AX_CHECK(f, AX_EIO, "%s: %s", fresh, strerror(errno));
    bool bad = fputs(text, f) < 0;
    bad = fflush(f) || bad;
    bad = fsync(fileno(f)) || bad;
    bad = fclose(f) || bad;
    bad = bad || rename(fresh, path) != 0;
    int why = errno;
    if (bad)
        unlink(fresh);
    AX_CHECK(!bad, AX_EIO, "%s: %s", path, strerror(why));
    return AX_OK;
}

ax_status ax_tuned_write(const char *path, const ax_tuned_for *here, const ax_tuned_list *list,
                         bool merge)
{
    ax_text text = {0}, kept = {0};
    AX_TRY(make_folder_of(path));
    reading r = {.path = path, .here = here, .ours = list, .kept = &kept};
    ax_status st = merge ? read_file(&r) : AX_OK;
    ax_text_add(&text, "%s", head);
    for (int64_t i = 0; i < list->count; i++)
        add_line(&text, here, &list->item[i]);
    ax_text_add(&text, "%s", kept.text ? kept.text : ""); // behind ours: a list may not hold all
    if (st == AX_OK && (text.failed || kept.failed))
        st = ax_fail(AX_ENOMEM, __FILE__, __LINE__, "%s: no memory to write it", path);
    if (st == AX_OK)
        st = replace_file(path, text.text);
    ax_text_fini(&kept);
    ax_text_fini(&text);
    return st;
}

bool ax_tuned_cache(char *path, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool given = cache && *cache == '/'; // as its standard wants
    if (!given && !(home && *home))
        return false;
    int n =
        snprintf(path, size, "%s%s/axonn/tuning.txt", given ? cache : home, given ? "" : "/.cache");
    return n > 0 && (size_t)n < size;
}

#include "data/mixture.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Where the weight of an entry begins: its '@'. NULL: it has none. A name may hold an '@' of its
// own, as long as a file goes by it.
static ax_status find_weight(const char *key, const char *entry, const char **at, double *weight)
{
    *at = strrchr(entry, '@');
    *weight = 0;
    if (!*at)
        return AX_OK;
    bool number = ax_parse_real(*at + 1, weight);
    if (!number && access(entry, F_OK) == 0) {
        *at = NULL;
        return AX_OK;
    }
    AX_CHECK(number && *weight > 0, AX_EUSAGE,
             "%s: '%s': a weight is a number above 0 behind the file, as in FILE@0.7", key, entry);
    return AX_OK;
}

// Takes one entry of a list: its file and weight, or nothing but the knowledge that it has none.
static ax_status add_entry(ax_mixture *m, const char *key, char *entry)
{
    const char *at;
    double weight;
    AX_TRY(find_weight(key, entry, &at, &weight));
    if (!at)
        return AX_OK;
    char **files = realloc(m->files, (size_t)(m->sources + 1) * sizeof *files);
    m->files = files ? files : m->files;
    double *until = realloc(m->until, (size_t)(m->sources + 1) * sizeof *until);
    m->until = until ? until : m->until;
    char *file = strndup(entry, (size_t)(at - entry));
    if (!files || !until || !file) {
        free(file);
        AX_FAIL(AX_ENOMEM, "no memory for a list of files");
    }
    m->files[m->sources] = file;
    m->until[m->sources] = weight + (m->sources ? m->until[m->sources - 1] : 0);
    m->sources++;
    AX_CHECK(*file, AX_EUSAGE, "%s: '%s' names no file before its weight", key, entry);
    AX_CHECK(isfinite(m->until[m->sources - 1]), AX_EUSAGE, "%s: weights too large to add up", key);
    return AX_OK;
}

static ax_status add_entries(ax_mixture *m, const char *key, const char *list)
{
    int entries = 0;
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        char *entry = strndup(at, n);
        AX_CHECK(entry, AX_ENOMEM, "no memory for a list of files");
        ax_status st = add_entry(m, key, entry);
        bool bare = st == AX_OK && m->sources != ++entries && m->sources > 0;
        if (bare)
            st = ax_fail(AX_EUSAGE, __FILE__, __LINE__,
                         "%s=%s: some files carry a weight (@) and some do not; give one to all or "
                         "to none",
                         key, list);
        free(entry);
        AX_TRY(st);
        at += n;
        if (!*at)
            return AX_OK;
    }
}

// One source, the whole list.
static ax_status add_whole(ax_mixture *m, const char *list)
{
    m->files = malloc(sizeof *m->files);
    m->until = malloc(sizeof *m->until);
    AX_CHECK(m->files && m->until, AX_ENOMEM, "no memory for a list of files");
    m->files[0] = strdup(list);
    AX_CHECK(m->files[0], AX_ENOMEM, "no memory for a list of files");
    m->until[0] = 1;
    m->sources = 1;
    return AX_OK;
}

ax_status ax_mixture_parse(const char *key, const char *list, ax_mixture *out)
{
    ax_mixture m = {0};
    ax_status st = add_entries(&m, key, list);
    if (st == AX_OK && m.sources == 0)
        st = add_whole(&m, list);
    if (st != AX_OK) {
        ax_mixture_fini(&m);
        return st;
    }
    *out = m;
    return AX_OK;
}

void ax_mixture_fini(ax_mixture *m)
{
    for (int i = 0; i < m->sources; i++)
        free(m->files[i]);
    free(m->files);
    free(m->until);
    *m = (ax_mixture){0};
}

static double until(const ax_mixture *m, int sources)
{
    return sources ? m->until[sources - 1] : 0;
}

// round(n * share) for a share in units of 2^-32, in whole numbers: no count ever falls or jumps.
static int64_t count(int64_t n, uint64_t share)
{
    uint64_t high = (uint64_t)n >> 32, low = (uint64_t)n & 0xFFFFFFFFu;
    return (int64_t)(high * share + ((low * share + (1u << 31)) >> 32));
}

int ax_mixture_draw(const ax_mixture *m, int64_t sample, int64_t *index)
{
    int low = 0, high = m->sources;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        double left = until(m, middle) - until(m, low), all = until(m, high) - until(m, low);
        double units = floor(left / all * 0x1p32 + 0.5);
        uint64_t share = units < 1 ? 1 : units > 0x1p32 - 1 ? (1ull << 32) - 1 : (uint64_t)units;
        int64_t before = count(sample, share);
        if (count(sample + 1, share) > before) {
            high = middle;
            sample = before;
        } else {
            low = middle;
            sample -= before;
        }
    }
    *index = sample;
    return low;
}

double ax_mixture_share(const ax_mixture *m, int source)
{
    return (until(m, source + 1) - until(m, source)) / until(m, m->sources);
}

// The checkpoints of a run directory: which there are, and taking old ones and remains away.
#include "ckpt/ckpt.h"
#include "ckpt/disk.h"
#include "ckpt/place.h"

#include "base/log.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char prefix[] = "step-", remains[] = ".tmp-step-", old[] = ".old";
enum { DIGITS = 8, DIGITS_MAX = 18 };

// "step-" and the step, in eight digits or, where it has more, without leading zeros.
bool ax_ckpt_name_step(const char *name, int64_t *step)
{
    size_t start = sizeof prefix - 1;
    if (strncmp(name, prefix, start) != 0)
        return false;
    size_t digits = strspn(name + start, "0123456789");
    if (name[start + digits] || digits < DIGITS || digits > DIGITS_MAX)
        return false;
    if (digits > DIGITS && name[start] == '0')
        return false;
    return ax_parse_int(name + start, step);
}

static ax_status open_dir(const char *path, DIR **out)
{
    *out = opendir(path);
    AX_CHECK(*out, AX_EIO, "%s: cannot read the directory: %s", path, strerror(errno));
    return AX_OK;
}

// Of the plain files in a directory.
static int64_t bytes_in(const char *path)
{
    int64_t bytes = 0;
    struct stat st;
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (fstatat(dirfd(d), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            bytes += st.st_size;
    if (d)
        closedir(d);
    return bytes;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_complete(const char *path, int64_t *step)
{
    ax_ckpt_info info = {0};
    ax_log_config log = ax_log_current(), muted = log;
    muted.muted = true; // why not is what verify tells
    ax_log_setup(muted);
    ax_status st = ax_ckpt_read_info(path, &info);
    ax_log_setup(log);
    *step = st == AX_OK ? info.step : -1;
    if (st == AX_OK)
        ax_ckpt_info_fini(&info);
    return st == AX_OK;
}

static void describe(const char *path, const char *name, ax_ckpt_entry *e)
{
    int64_t named;
    snprintf(e->name, sizeof e->name, "%.63s", name);
    e->complete = is_complete(path, &e->step);
    e->misnamed = e->complete && ax_ckpt_name_step(name, &named) && named != e->step;
    e->complete = e->complete && !e->misnamed;
    e->bytes = bytes_in(path);
}

ax_status ax_ckpt_entry_read(const char *dir, ax_ckpt_entry *out)
{
    ax_place place;
    AX_TRY(ax_place_set(&place, dir));
    AX_CHECK(is_directory(dir), AX_EIO, "%s: no such directory", dir);
    const char *slash = strrchr(place.dir, '/');
    describe(dir, slash ? slash + 1 : place.dir, out);
    return AX_OK;
}

static ax_status add_entry(ax_ckpt_list *list, int *room, ax_ckpt_entry entry)
{
    if (list->count == *room) {
        *room = *room ? *room * 2 : 16;
        ax_ckpt_entry *more = realloc(list->entry, (size_t)*room * sizeof *more);
        AX_CHECK(more, AX_ENOMEM, "no memory for a list of %d checkpoints", *room);
        list->entry = more;
    }
    list->entry[list->count++] = entry;
    return AX_OK;
}

static ax_status look_at(const char *out, const char *name, ax_ckpt_list *list, int *room)
{
    char path[AX_PATH_MAX];
    ax_ckpt_entry entry;
    int64_t step;
    if (!ax_ckpt_name_step(name, &step))
        return AX_OK;
    AX_TRY(ax_disk_join(path, out, name));
    if (!is_directory(path))
        return AX_OK;
    describe(path, name, &entry);
    entry.step = step; // the name decides the order
    return add_entry(list, room, entry);
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = ((const ax_ckpt_entry *)a)->step, y = ((const ax_ckpt_entry *)b)->step;
    return (x < y) - (x > y);
}

ax_status ax_ckpt_list_read(const char *out, ax_ckpt_list *list)
{
    DIR *d = NULL;
    ax_ckpt_list found = {0};
    int room = 0;
    ax_status st = AX_OK;
    AX_TRY(open_dir(out, &d));
    for (const struct dirent *e; st == AX_OK && (e = readdir(d));)
        st = look_at(out, e->d_name, &found, &room);
    closedir(d);
    if (st != AX_OK) {
        ax_ckpt_list_fini(&found);
        return st;
    }
    if (found.count)
        qsort(found.entry, (size_t)found.count, sizeof *found.entry, newest_first);
    *list = found;
    return AX_OK;
}

void ax_ckpt_list_fini(ax_ckpt_list *list)
{
    free(list->entry);
    *list = (ax_ckpt_list){0};
}

// ---- taking away

// A directory that is ours alone gets the name of remains first: if this ends half-way, the next
// sweep goes on. In one with files of others, the manifest goes first.
static void remove_checkpoint(const char *out, const char *name)
{
    char path[AX_PATH_MAX], tmp[AX_PATH_MAX], hidden[80];
    snprintf(hidden, sizeof hidden, ".tmp-%s", name);
    if (ax_disk_join(path, out, name) != AX_OK || ax_disk_join(tmp, out, hidden) != AX_OK)
        return;
    bool moved = ax_place_is_ours(path) && ax_place_remove(tmp) && rename(path, tmp) == 0;
    if (ax_place_remove(moved ? tmp : path))
        ax_log(AX_LOG_DEBUG, "ckpt", "%s: removed", path);
    else if (errno == ENOTEMPTY || errno == EEXIST)
        ax_log(AX_LOG_WARN, "ckpt", "%s: the checkpoint is removed, other files stay there", path);
    else
        ax_log(AX_LOG_WARN, "ckpt", "%s: cannot remove it: %s", moved ? tmp : path,
               strerror(errno));
}

void ax_ckpt_prune(const char *out, int64_t keep, const char *last)
{
    ax_ckpt_list list = {0};
    int64_t kept = 0;
    if (keep <= 0 || ax_ckpt_list_read(out, &list) != AX_OK)
        return;
    for (int i = 0; i < list.count; i++) {
        const ax_ckpt_entry *e = &list.entry[i];
        if (!e->complete || kept++ < keep || (last && strcmp(e->name, last) == 0))
            continue;
        remove_checkpoint(out, e->name);
    }
    ax_ckpt_list_fini(&list);
}

// Calls `tend` for what saves left in `out`: those that stepped aside, or the others.
static void each_of_remains(const char *out, bool aside,
                            void (*tend)(const char *out, const char *name))
{
    DIR *d = NULL;
    char path[AX_PATH_MAX];
    if (open_dir(out, &d) != AX_OK)
        return;
    for (const struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name), tail = sizeof old - 1;
        if (strncmp(e->d_name, remains, sizeof remains - 1) != 0 ||
            ax_disk_join(path, out, e->d_name) != AX_OK || !is_directory(path))
            continue;
        if ((n > tail && strcmp(e->d_name + n - tail, old) == 0) == aside)
            tend(out, e->d_name);
    }
    closedir(d);
}

static void mend(const char *out, const char *name)
{
    char path[AX_PATH_MAX], final[64];
    bool back;
    size_t head = sizeof remains - sizeof prefix; // ".tmp-"
    snprintf(final, sizeof final, "%.*s", (int)(strlen(name) - head - (sizeof old - 1)),
             name + head);
    if (ax_disk_join(path, out, final) != AX_OK)
        return;
    bool done = ax_place_mend(path, &back);
    if (back)
        ax_log(AX_LOG_WARN, "ckpt", "%s: has its name back, which a save that was cut off took",
               path);
    if (!done)
        ax_log(AX_LOG_WARN, "ckpt", "%s/%s: an older checkpoint, which cannot be moved: %s", out,
               name, strerror(errno));
}

static void sweep(const char *out, const char *name)
{
    char path[AX_PATH_MAX];
    if (ax_disk_join(path, out, name) != AX_OK)
        return;
    if (ax_place_remove(path))
        ax_log(AX_LOG_INFO, "ckpt", "%s: removed, what a save that was cut off left", path);
    else
        ax_log(AX_LOG_WARN, "ckpt", "%s: holds other files than a save's: look and remove it",
               path);
}

void ax_ckpt_mend(const char *out)
{
    each_of_remains(out, true, mend);
}

void ax_ckpt_sweep(const char *out)
{
    ax_ckpt_mend(out);
    each_of_remains(out, false, sweep);
}

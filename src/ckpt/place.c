#include "ckpt/place.h"

#include "base/log.h"
#include "ckpt/companions.h"
#include "ckpt/content.h"
#include "ckpt/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// NAME while it is made, and what it replaces where that has to step aside: .tmp-NAME.old
static const char hidden[] = ".tmp-", old[] = ".old";

ax_status ax_place_set(ax_place *p, const char *dir)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    AX_CHECK(n > 0 && n < AX_PATH_MAX, AX_EUSAGE, "'%.60s' cannot be the path of a checkpoint",
             dir);
    snprintf(p->dir, sizeof p->dir, "%.*s", (int)n, dir);
    const char *slash = strrchr(p->dir, '/'), *base = slash ? slash + 1 : p->dir;
    AX_CHECK(*base && strcmp(base, ".") != 0 && strcmp(base, "..") != 0, AX_EUSAGE,
             "'%s' cannot be the path of a checkpoint", dir);
    if (!slash)
        snprintf(p->parent, sizeof p->parent, ".");
    else if (slash == p->dir)
        snprintf(p->parent, sizeof p->parent, "/");
    else
        snprintf(p->parent, sizeof p->parent, "%.*s", (int)(slash - p->dir), p->dir);
    char name[AX_PATH_MAX];
    AX_CHECK(snprintf(name, sizeof name, "%s%s", hidden, base) < AX_PATH_MAX, AX_EUSAGE,
             "%.60s...: the path is too long", dir);
    return ax_disk_join(p->tmp, p->parent, name);
}

bool ax_place_is_checkpoint(const char *dir)
{
    char path[AX_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", dir, AX_MANIFEST_NAME);
    return access(path, F_OK) == 0;
}

// ---- what a save made

// NULL: no more.
static const char *our_file(int i)
{
    if (i == 0)
        return AX_MANIFEST_NAME;
    return i <= AX_CONTENT_FILES ? ax_content_file((ax_content_kind)(i - 1))
                                 : ax_companion_name(i - 1 - AX_CONTENT_FILES);
}

bool ax_place_remove(const char *dir)
{
    char path[AX_PATH_MAX + 32];
    for (int i = 0; our_file(i); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, our_file(i));
        unlink(path);
    }
    return rmdir(dir) == 0 || errno == ENOENT;
}

static bool is_our_file(const char *name)
{
    for (int i = 0; our_file(i); i++)
        if (strcmp(name, our_file(i)) == 0)
            return true;
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

bool ax_place_is_ours(const char *dir)
{
    bool ours = true;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));)
        ours = ours && is_our_file(e->d_name);
    if (d)
        closedir(d);
    return d && ours;
}

// ---- making and naming

ax_status ax_place_make(const ax_place *p)
{
    struct stat there;
    bool taken = lstat(p->dir, &there) == 0 && !ax_place_is_checkpoint(p->dir);
    AX_CHECK(!taken || rmdir(p->dir) == 0, // an empty directory
             AX_EUSAGE, "%s: exists and is no checkpoint; move it away or save elsewhere", p->dir);
    AX_CHECK(ax_place_remove(p->tmp), AX_EIO, "%s: cannot remove what an earlier save left: %s",
             p->tmp, strerror(errno));
    AX_CHECK(mkdir(p->tmp, 0777) == 0, AX_EIO, "%s: cannot make the directory: %s", p->tmp,
             strerror(errno));
    return AX_OK;
}

void ax_place_abandon(const ax_place *p)
{
    if (!p->keep_tmp)
        ax_place_remove(p->tmp);
}

// Two names change places in one move, so that there is a checkpoint at every moment.
static bool exchange(const char *a, const char *b)
{
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0;
}

// Where names cannot change places (network file systems), the older one steps aside first. Who is
// killed between the two moves is mended by ax_place_mend.
static bool replace(const char *fresh, const char *dir)
{
    char aside[AX_PATH_MAX + 8];
    if (exchange(fresh, dir))
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    snprintf(aside, sizeof aside, "%s%s", fresh, old);
    if (rename(dir, aside) != 0)
        return false;
    if (rename(fresh, dir) == 0)
        return rename(aside, fresh) == 0;
    int why = errno;
    if (rename(aside, dir) == 0)
        errno = why;
    return false;
}

static bool put_in_place(const ax_place *p, bool swap)
{
    return swap ? replace(p->tmp, p->dir) : rename(p->tmp, p->dir) == 0;
}

static bool take_back(const ax_place *p, bool swap)
{
    return swap ? replace(p->tmp, p->dir) : rename(p->dir, p->tmp) == 0;
}

static bool is_complete(const char *dir)
{
    ax_manifest m = {0};
    bool whole = ax_place_is_checkpoint(dir) && ax_manifest_read(dir, &m) == AX_OK &&
                 ax_manifest_check_sizes(&m, dir) == AX_OK;
    ax_manifest_fini(&m);
    return whole;
}

// What stands under the name of a whole checkpoint and is none: to broken-NAME, which must be free.
static bool step_aside(const ax_place *p)
{
    char broken[2 * AX_PATH_MAX + 16];
    struct stat there;
    const char *slash = strrchr(p->dir, '/');
    snprintf(broken, sizeof broken, "%s/broken-%s", p->parent, slash ? slash + 1 : p->dir);
    return lstat(broken, &there) != 0 && rename(p->dir, broken) == 0;
}

bool ax_place_mend(const char *dir, bool *back)
{
    char aside[AX_PATH_MAX + 8];
    ax_place p;
    struct stat there;
    *back = false;
    if (ax_place_set(&p, dir) != AX_OK)
        return false;
    snprintf(aside, sizeof aside, "%s%s", p.tmp, old);
    if (lstat(aside, &there) != 0)
        return true;
    if (lstat(dir, &there) == 0) {
        if (is_complete(dir) || !is_complete(aside))
            return ax_place_remove(aside);
        if (!step_aside(&p))
            return false;
    }
    *back = rename(aside, dir) == 0;
    return *back && ax_disk_sync_dir(p.parent) == AX_OK;
}

ax_status ax_place_take(ax_place *p)
{
    bool swap = ax_place_is_checkpoint(p->dir);
    AX_CHECK(put_in_place(p, swap), AX_EIO, "%s: cannot give the checkpoint its name: %s%s", p->dir,
             strerror(errno), swap ? "; move the older one of that name away" : "");
    ax_status st = ax_disk_sync_dir(p->parent);
    // What may not survive a crash is taken back. Where even that fails, the new one keeps the name
    // and the failure stands.
    if (st != AX_OK)
        p->keep_tmp = !take_back(p, swap);
    AX_TRY(st);
    if (swap && !ax_place_remove(p->tmp))
        ax_log(AX_LOG_WARN, "ckpt", "%s: the replaced checkpoint held other files too; kept there",
               p->tmp);
    return AX_OK;
}

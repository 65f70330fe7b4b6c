#include "train/keep_companions.h"

#include "ckpt/companions.h"
#include "ckpt/disk.h"
#include "ckpt/hf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char kept[] = "tokenizer", making[] = ".tmp-tokenizer";

// Ours alone: other files stay, and the directory with them.
static bool remove_directory(const char *dir)
{
    char path[AX_PATH_MAX];
    const char *name;
    for (int i = 0; (name = ax_companion_name(i)); i++)
        if (ax_disk_join(path, dir, name) == AX_OK)
            unlink(path);
    return rmdir(dir) == 0 || errno == ENOENT;
}

static bool has_file(const char *dir, const char *name)
{
    char path[AX_PATH_MAX];
    return *dir && ax_disk_join(path, dir, name) == AX_OK && access(path, F_OK) == 0;
}

static bool is_directory(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

// A tokenizer.json by any name: its settings lie beside it, and no other vocabulary does.
static ax_status copy_file(const char *path, const char *to)
{
    char folder[AX_PATH_MAX];
    const char *slash = strrchr(path, '/');
    int n = slash && slash > path ? (int)(slash - path) : 1;
    AX_CHECK(n < AX_PATH_MAX, AX_EUSAGE, "data.tokenizer: the path is too long");
    snprintf(folder, sizeof folder, "%.*s", n, slash ? path : ".");
    AX_TRY(ax_companion_copy_as(path, to, "tokenizer.json"));
    return ax_companions_copy(folder, to, AX_COMPANION_SETTINGS);
}

static ax_status copy_tokenizer(const char *name, const char *to)
{
    if (strcmp(name, "byte") == 0)
        return AX_OK;
    if (is_directory(name))
        AX_TRY(ax_companions_copy(name, to, AX_COMPANION_TOKENIZER));
    else
        AX_TRY(copy_file(name, to));
    AX_CHECK(ax_hf_has_tokenizer(to), AX_EIO, "data.tokenizer=%s: its files have just gone", name);
    return AX_OK;
}

static ax_status fill(const ax_companions_source *s, const char *to)
{
    if (has_file(s->model, "config.json"))
        AX_TRY(ax_companions_copy(s->model, to, AX_COMPANION_CONFIG | AX_COMPANION_GENERATION));
    AX_TRY(copy_tokenizer(s->tokenizer, to));
    return ax_disk_sync_dir(to);
}

static ax_status take_name(const char *fresh, const char *dir, const char *out)
{
    AX_CHECK(remove_directory(dir), AX_EIO, "%s: is in the way: %s", dir, strerror(errno));
    if (!ax_companions_are_there(fresh)) {
        remove_directory(fresh);
        return AX_OK;
    }
    AX_CHECK(rename(fresh, dir) == 0, AX_EIO, "%s: cannot give it its name: %s", dir,
             strerror(errno));
    return ax_disk_sync_dir(out);
}

// Whatever stands there already and is not this run's belongs to somebody.
static ax_status check_free(const ax_companions_source *s, const char *dir)
{
    struct stat there;
    if (lstat(dir, &there) != 0)
        return AX_OK;
    bool ours = (s->resumed || s->again) && S_ISDIR(there.st_mode);
    AX_CHECK(ours, AX_EUSAGE,
             "%s: is there already, and this run did not make it; a run keeps its tokenizer under "
             "that name: choose another train.out",
             dir);
    return AX_OK;
}

ax_status ax_keep_companions(const ax_companions_source *s, const char *out)
{
    char dir[AX_PATH_MAX], fresh[AX_PATH_MAX];
    AX_TRY(ax_disk_join(dir, out, kept));
    AX_TRY(ax_disk_join(fresh, out, making));
    AX_TRY(check_free(s, dir));
    bool there = remove_directory(fresh); // what a killed start left
    if (s->resumed && is_directory(dir))
        return AX_OK;
    AX_CHECK(there && mkdir(fresh, 0777) == 0, AX_EIO, "%s: cannot make the directory: %s", fresh,
             strerror(errno));
    ax_status st = fill(s, fresh);
    if (st == AX_OK)
        st = take_name(fresh, dir, out);
    if (st != AX_OK)
        remove_directory(fresh);
    return st;
}

const char *ax_kept_companions(const char *out, char *dir)
{
    snprintf(dir, AX_KEPT_PATH, "%.4096s/%s", out, kept);
    return *out && is_directory(dir) ? dir : NULL;
}

const char *ax_companion_tokenizer(const char *dir, const char *name)
{
    bool own = *dir && strcmp(name, "byte") != 0 && ax_hf_has_tokenizer(dir);
    return own ? dir : name;
}

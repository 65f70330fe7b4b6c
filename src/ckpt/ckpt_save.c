// Saving. Rank 0 makes the files, all ranks write into them, rank 0 names them.
#include "ckpt/ckpt.h"
#include "ckpt/content.h"
#include "ckpt/disk.h"
#include "ckpt/manifest.h"
#include "ckpt/runs.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct save {
    const ax_params *ps;
    ax_device *dev;
    const ax_ckpt_info *info;
    ax_content content[AX_CONTENT_FILES];
    int files;     // 1: no moments
    bool keep_tmp; // it is not ours to remove
    char dir[AX_PATH_MAX], parent[AX_PATH_MAX], tmp[AX_PATH_MAX];
} save;

// ---- places

static ax_status set_places(save *s, const char *dir)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    AX_CHECK(n > 0 && n < AX_PATH_MAX, AX_EUSAGE, "'%.60s' cannot be the path of a checkpoint",
             dir);
    snprintf(s->dir, sizeof s->dir, "%.*s", (int)n, dir);
    const char *slash = strrchr(s->dir, '/'), *base = slash ? slash + 1 : s->dir;
    AX_CHECK(*base && strcmp(base, ".") != 0 && strcmp(base, "..") != 0, AX_EUSAGE,
             "'%s' cannot be the path of a checkpoint", dir);
    if (!slash)
        snprintf(s->parent, sizeof s->parent, ".");
    else if (slash == s->dir)
        snprintf(s->parent, sizeof s->parent, "/");
    else
        snprintf(s->parent, sizeof s->parent, "%.*s", (int)(slash - s->dir), s->dir);
    char name[AX_PATH_MAX];
    AX_CHECK(snprintf(name, sizeof name, ".tmp-%s", base) < AX_PATH_MAX, AX_EUSAGE,
             "%.60s...: the path is too long", dir);
    return ax_disk_join(s->tmp, s->parent, name);
}

static bool is_checkpoint(const char *dir)
{
    char path[AX_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", dir, AX_MANIFEST_NAME);
    return access(path, F_OK) == 0;
}

// Only what a save made is removed: a directory with other files in it stays.
static bool remove_ours(const char *dir)
{
    static const char *const names[] = {AX_MANIFEST_NAME, "model.safetensors",
                                        "optimizer.safetensors"};
    char path[AX_PATH_MAX + 32];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    return rmdir(dir) == 0 || errno == ENOENT;
}

// ---- phase 1, rank 0: the files and their headers

static ax_status create_files(save *s)
{
    struct stat there;
    bool taken = lstat(s->dir, &there) == 0 && !is_checkpoint(s->dir);
    AX_CHECK(!taken || rmdir(s->dir) == 0, // an empty directory
             AX_EUSAGE, "%s: exists and is no checkpoint; move it away or save elsewhere", s->dir);
    AX_CHECK(remove_ours(s->tmp), AX_EIO, "%s: cannot remove what an earlier save left: %s", s->tmp,
             strerror(errno));
    AX_CHECK(mkdir(s->tmp, 0777) == 0, AX_EIO, "%s: cannot make the directory: %s", s->tmp,
             strerror(errno));
    for (int k = 0; k < s->files; k++) {
        char path[AX_PATH_MAX];
        AX_TRY(ax_disk_join(path, s->tmp, ax_content_file((ax_content_kind)k)));
        AX_TRY(ax_safetensors_create(path, s->content[k].list, s->content[k].count));
    }
    return AX_OK;
}

// ---- phase 2, all ranks: the tensors

static ax_status write_tensors(save *s, ax_runs *runs, ax_content_kind kind)
{
    const ax_content *c = &s->content[kind];
    for (int i = 0; i < c->count; i++) {
        const ax_param *p = &s->ps->list[i / c->each];
        if (p->owner)
            AX_TRY(ax_runs_write(runs, p, ax_content_tensor(s->ps, kind, i), c->list[i].begin));
    }
    return AX_OK;
}

static ax_status write_file(save *s, ax_content_kind kind)
{
    char path[AX_PATH_MAX];
    int fd = -1;
    ax_runs runs;
    AX_TRY(ax_disk_join(path, s->tmp, ax_content_file(kind)));
    AX_TRY(ax_disk_open(path, O_WRONLY, &fd));
    ax_status st = ax_runs_init(&runs, s->dev, fd, path);
    if (st == AX_OK) {
        st = write_tensors(s, &runs, kind);
        ax_runs_fini(&runs);
    }
    if (st == AX_OK)
        st = ax_disk_sync(fd, path);
    ax_status closed = ax_disk_close(fd, path);
    return st == AX_OK ? closed : st;
}

static ax_status write_files(save *s)
{
    AX_TRY(ax_device_sync(s->dev));
    for (int k = 0; k < s->files; k++)
        AX_TRY(write_file(s, (ax_content_kind)k));
    return AX_OK;
}

// ---- phase 3, rank 0: the manifest and the name

// Two names change places in one move, so that there is a checkpoint at every moment.
static bool exchange(const char *a, const char *b)
{
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0;
}

static bool put_in_place(const save *s, bool swap)
{
    return swap ? exchange(s->tmp, s->dir) : rename(s->tmp, s->dir) == 0;
}

static bool take_back(const save *s, bool swap)
{
    return swap ? exchange(s->tmp, s->dir) : rename(s->dir, s->tmp) == 0;
}

static ax_status take_name(save *s)
{
    bool swap = is_checkpoint(s->dir);
    AX_CHECK(put_in_place(s, swap), AX_EIO, "%s: cannot give the checkpoint its name: %s%s", s->dir,
             strerror(errno), swap ? "; move the older one of that name away" : "");
    ax_status st = ax_disk_sync_dir(s->parent);
    // What may not survive a crash is taken back. Where even that fails, the new one keeps the name
    // and the failure stands.
    if (st != AX_OK)
        s->keep_tmp = !take_back(s, swap);
    AX_TRY(st);
    if (swap && !remove_ours(s->tmp))
        ax_log(AX_LOG_WARN, "ckpt", "%s: the replaced checkpoint held other files too; kept there",
               s->tmp);
    return AX_OK;
}

static ax_status finish(save *s)
{
    ax_manifest m = {.info = *s->info};
    m.info.dtype = s->ps->acc;
    for (int k = 0; k < s->files; k++)
        AX_TRY(ax_manifest_add(&m, s->tmp, ax_content_file((ax_content_kind)k)));
    AX_TRY(ax_manifest_write(s->tmp, &m));
    AX_TRY(ax_disk_sync_dir(s->tmp));
    return take_name(s);
}

// ---- all of it

static ax_status prepare(save *s, const char *dir)
{
    AX_TRY(set_places(s, dir));
    for (int i = 0; i < s->ps->count; i++)
        AX_CHECK(s->ps->list[i].master.data, AX_EUSAGE,
                 "parameter %s has no master here: only a model opened for training can be saved",
                 s->ps->list[i].name);
    s->files = s->ps->count && s->ps->list[0].m.data ? AX_CONTENT_FILES : 1;
    for (int k = 0; k < s->files; k++) {
        ax_text json = {0};
        ax_content *c = &s->content[k];
        AX_TRY(ax_content_init(c, s->ps, (ax_content_kind)k));
        ax_status st = ax_safetensors_layout(c->list, c->count, &json);
        ax_text_fini(&json);
        AX_TRY(st);
    }
    return AX_OK;
}

ax_status ax_ckpt_save(const char *dir, const ax_params *ps, const ax_grid *g, ax_device *dev,
                       const ax_ckpt_info *info)
{
    save s = {.ps = ps, .dev = dev, .info = info};
    bool first = g->world->rank == 0, made = false;
    ax_status st;
    AX_TRY_TO(done, ax_comm_agree(g->world, prepare(&s, dir)));
    made = first;
    AX_TRY_TO(done, ax_comm_agree(g->world, first ? create_files(&s) : AX_OK));
    AX_TRY_TO(done, ax_comm_agree(g->world, write_files(&s)));
    AX_TRY_TO(done, ax_comm_agree(g->world, first ? finish(&s) : AX_OK));
done:
    if (st != AX_OK && made && !s.keep_tmp)
        remove_ours(s.tmp);
    for (int k = 0; k < AX_CONTENT_FILES; k++)
        ax_content_fini(&s.content[k]);
    return st;
}

// Loading. Rank 0 checks the checkpoint against the model and speaks for all; then every rank reads
// its own runs, and rank 0 compares the checksums that these add up to.
#include "ckpt/ckpt.h"
#include "ckpt/content.h"
#include "ckpt/disk.h"
#include "ckpt/manifest.h"
#include "ckpt/runs.h"

#include "base/log.h"
#include "dev/kern.h"

#include <stdlib.h>
#include <string.h>

typedef struct load {
    ax_params *ps;
    const ax_grid *g;
    ax_device *dev;
    ax_manifest manifest;
    ax_content content[AX_CONTENT_FILES];
    uint64_t *sum[AX_CONTENT_FILES]; // checksums: of what this rank read, then of all
    ax_safetensors file[AX_CONTENT_FILES];
    int files;
} load;

static ax_status check_tensor(const ax_safetensors *file, const ax_st_tensor *want)
{
    const ax_st_tensor *got = ax_safetensors_find(file, want->name);
    AX_CHECK(got, AX_EFORMAT, "%s: tensor '%s' of the model is missing", file->path, want->name);
    if (!ax_st_same_shape(got, want)) {
        char here[AX_ST_DIMS * 24], there[AX_ST_DIMS * 24];
        ax_st_print_shape(got, there, sizeof there);
        ax_st_print_shape(want, here, sizeof here);
        AX_FAIL(AX_EFORMAT, "%s: tensor '%s' is %s, but the model's is %s; compare their sizes",
                file->path, want->name, there, here);
    }
    AX_CHECK(got->dtype == AX_ST_F32 || got->dtype == AX_ST_F64, AX_EFORMAT,
             "%s: tensor '%s' has dtype %s; a checkpoint holds F32 or F64", file->path, want->name,
             ax_st_dtype_name(got->dtype));
    return AX_OK;
}

// Marks of the wanted names would save time only for models of many thousand tensors.
static bool is_wanted(const ax_content *c, const char *name)
{
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->list[i].name, name) == 0)
            return true;
    return false;
}

static ax_status check_file(const ax_safetensors *file, const ax_content *c)
{
    for (int i = 0; i < c->count; i++)
        AX_TRY(check_tensor(file, &c->list[i]));
    for (int i = 0; file->count > c->count && i < file->count; i++)
        AX_CHECK(is_wanted(c, file->list[i].name), AX_EFORMAT,
                 "%s: tensor '%s' is no parameter of the model", file->path, file->list[i].name);
    return AX_OK;
}

static ax_status open_file(load *l, const char *dir, ax_content_kind kind)
{
    char path[AX_PATH_MAX];
    ax_content *c = &l->content[kind];
    const ax_manifest_file *listed = ax_manifest_find(&l->manifest, ax_content_file(kind));
    AX_CHECK(listed, AX_EFORMAT, "%s/" AX_MANIFEST_NAME ": lists no %s", dir,
             ax_content_file(kind));
    AX_TRY(ax_disk_join(path, dir, ax_content_file(kind)));
    AX_TRY(ax_content_init(c, l->ps, kind));
    l->sum[kind] = calloc((size_t)c->count + 1, sizeof *l->sum[kind]);
    AX_CHECK(l->sum[kind], AX_ENOMEM, "no memory for %d checksums", c->count);
    AX_TRY(ax_manifest_check_header(&l->manifest, listed, dir));
    AX_TRY(ax_safetensors_open(path, &l->file[kind]));
    return check_file(&l->file[kind], c);
}

static ax_status open_files(load *l, const char *dir)
{
    AX_TRY(ax_manifest_read(dir, &l->manifest));
    AX_TRY(ax_manifest_check_sizes(&l->manifest, dir));
    AX_CHECK(l->files == 1 || ax_manifest_find(&l->manifest, ax_content_file(AX_CONTENT_OPTIMIZER)),
             AX_EFORMAT,
             "%s: holds no optimizer state: a run can start from it (model.init) but not resume",
             dir);
    for (int k = 0; k < l->files; k++)
        AX_TRY(open_file(l, dir, (ax_content_kind)k));
    if (l->manifest.format == 1 && l->g->world->rank == 0)
        ax_log(AX_LOG_WARN, "ckpt",
               "%s: an earlier version wrote it without checksums: damage would go unnoticed", dir);
    return AX_OK;
}

// Where tensor `index` goes: without a master, into this coordinate's part of the weights.
static ax_tensor target(const load *l, ax_content_kind kind, int index)
{
    ax_tensor t = ax_content_tensor(l->ps, kind, index);
    const ax_param *p = &l->ps->list[index];
    if (kind == AX_CONTENT_OPTIMIZER || t.data)
        return t;
    return p->matrix ? ax_tensor_cols(p->weight, l->g->cd * p->part, p->part) : p->weight;
}

static ax_status read_file(load *l, ax_content_kind kind)
{
    const ax_content *c = &l->content[kind];
    const ax_safetensors *file = &l->file[kind];
    ax_runs runs;
    ax_status st;
    AX_TRY(ax_runs_init(&runs, l->dev, file->fd, file->path));
    for (int i = 0; i < c->count; i++) {
        const ax_st_tensor *from = ax_safetensors_find(file, c->list[i].name);
        ax_dtype stored = from->dtype == AX_ST_F64 ? AX_F64 : AX_F32;
        const ax_param *p = &l->ps->list[i / c->each];
        uint64_t *sum = p->owner ? &l->sum[kind][i] : NULL; // each element is counted once
        AX_TRY_TO(done, ax_runs_read(&runs, p, target(l, kind, i), from->begin, stored, sum));
    }
    st = AX_OK;
done:
    ax_runs_fini(&runs);
    return st;
}

static ax_status clear_moments(load *l)
{
    for (int i = 0; i < l->ps->count; i++) {
        ax_param *p = &l->ps->list[i];
        if (!p->m.data)
            continue;
        AX_TRY(ax_fill(l->dev, p->m, 0.0));
        AX_TRY(ax_fill(l->dev, p->v, 0.0));
    }
    return AX_OK;
}

static ax_status read_files(load *l)
{
    for (int k = 0; k < l->files; k++)
        AX_TRY(read_file(l, (ax_content_kind)k));
    return l->files == 1 ? clear_moments(l) : AX_OK;
}

// ---- checksums

static ax_status compare_file(const load *l, ax_content_kind kind)
{
    const char *path = l->file[kind].path;
    const ax_manifest_file *listed = ax_manifest_find(&l->manifest, ax_content_file(kind));
    for (int i = 0; i < l->content[kind].count; i++) {
        const char *name = l->content[kind].list[i].name;
        const ax_manifest_tensor *t = ax_manifest_tensor_find(listed, name);
        AX_CHECK(t, AX_EFORMAT, "%s: tensor '%s' has no checksum in the manifest", path, name);
        AX_CHECK(t->sum == l->sum[kind][i], AX_EFORMAT,
                 "%s: tensor '%s' does not give its checksum: the file was changed or damaged; "
                 "load another checkpoint",
                 path, name);
    }
    return AX_OK;
}

static ax_status compare_files(const load *l)
{
    for (int k = 0; k < l->files && l->manifest.format > 1; k++)
        AX_TRY(compare_file(l, (ax_content_kind)k));
    return AX_OK;
}

static ax_status add_checksums(load *l)
{
    for (int k = 0; k < l->files; k++)
        AX_TRY(ax_checksum_sum(l->g->world, l->sum[k], l->content[k].count));
    return AX_OK;
}

static ax_status check_room(const load *l)
{
    for (int i = 0; l->files > 1 && i < l->ps->count; i++)
        AX_CHECK(l->ps->list[i].m.data && l->ps->list[i].v.data, AX_EINTERNAL,
                 "parameter %s has no room for its moments", l->ps->list[i].name);
    return AX_OK;
}

ax_status ax_ckpt_load(const char *dir, ax_params *ps, const ax_grid *g, ax_device *dev,
                       bool with_state)
{
    load l = {.ps = ps, .g = g, .dev = dev, .files = with_state ? AX_CONTENT_FILES : 1};
    bool first = g->world->rank == 0;
    ax_status st;
    AX_TRY_TO(done, ax_comm_agree(g->world, check_room(&l)));
    AX_TRY_TO(done, ax_comm_agree(g->world, first ? open_files(&l, dir) : AX_OK));
    AX_TRY_TO(done, ax_comm_agree(g->world, first ? AX_OK : open_files(&l, dir)));
    AX_TRY_TO(done, ax_comm_agree(g->world, read_files(&l)));
    AX_TRY_TO(done, add_checksums(&l));
    AX_TRY_TO(done, ax_comm_agree(g->world, first ? compare_files(&l) : AX_OK));
    AX_TRY_TO(done, ax_comm_agree(g->world, ax_params_spread(ps, g, dev)));
done:
    for (int k = 0; k < AX_CONTENT_FILES; k++) {
        ax_safetensors_close(&l.file[k]);
        ax_content_fini(&l.content[k]);
        free(l.sum[k]);
    }
    ax_manifest_fini(&l.manifest);
    return st;
}

// ---- what stands in a checkpoint

ax_status ax_ckpt_read_info(const char *dir, ax_ckpt_info *out)
{
    ax_manifest m;
    AX_TRY(ax_manifest_read(dir, &m));
    ax_status st = ax_manifest_check_sizes(&m, dir);
    if (st == AX_OK) {
        *out = m.info;
        m.info = (ax_ckpt_info){0};
    }
    ax_manifest_fini(&m);
    return st;
}

void ax_ckpt_info_fini(ax_ckpt_info *info)
{
    free(info->config);
    free(info->state);
    *info = (ax_ckpt_info){0};
}

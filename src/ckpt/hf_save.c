// Export. Rank 0 makes the files, all ranks write their slices into them.
#include "ckpt/hf.h"
#include "ckpt/disk.h"
#include "ckpt/hf_floats.h"
#include "ckpt/hf_map.h"
#include "ckpt/hf_slice.h"
#include "ckpt/hf_write.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct save {
    const ax_hf_export *e;
    const ax_params *ps;
    ax_device *dev;
    const char *dir;
    ax_hf_place *place; // of each parameter
    int *tensor;        // of each parameter: index into list
    ax_st_tensor *list; // in the order of the parameters; names lie in place
    int *shard;         // of each tensor
    int count, shards;
} save;

// ---- what goes where: the same on every rank

// q, k and v of a packed tensor stand near one another.
static int find_near(const save *s, const char *name)
{
    enum { NEAR = 16 };
    for (int i = s->count - 1; i >= 0 && i >= s->count - NEAR; i--)
        if (strcmp(s->list[i].name, name) == 0)
            return i;
    return -1;
}

static ax_status list_tensors(save *s)
{
    const ax_hf_map map = {.arch = s->e->arch, .positions = s->e->arch->seq};
    for (int i = 0; i < s->ps->count; i++) {
        ax_hf_place *p = &s->place[i];
        AX_CHECK(s->ps->list[i].master.data, AX_EINTERNAL, "parameter %s has no master to export",
                 s->ps->list[i].name);
        AX_TRY(ax_hf_place_of(&map, &s->ps->list[i], p));
        s->tensor[i] = find_near(s, p->name);
        if (s->tensor[i] >= 0)
            continue;
        s->tensor[i] = s->count;
        s->list[s->count++] = (ax_st_tensor){.name = p->name,
                                             .dtype = s->e->dtype,
                                             .dims = p->dims,
                                             .shape = {p->shape[0], p->shape[1]}};
    }
    return AX_OK;
}

static int64_t bytes_of(const save *s, int tensor)
{
    const ax_st_tensor *t = &s->list[tensor];
    return t->shape[0] * (t->dims > 1 ? t->shape[1] : 1) * ax_floats_size(t->dtype);
}

// A file is full when the next tensor would take it above its size; one tensor is never cut.
static void cut_shards(save *s)
{
    int64_t held = 0;
    for (int i = 0; i < s->count; i++) {
        int64_t bytes = bytes_of(s, i);
        if (i > 0 && held + bytes > s->e->shard_bytes) {
            s->shards++;
            held = 0;
        }
        s->shard[i] = s->shards;
        held += bytes;
    }
    s->shards++;
}

// The tensors of a shard follow one another.
static int shard_range(const save *s, int shard, int *first)
{
    int n = 0;
    *first = 0;
    while (s->shard[*first] != shard)
        ++*first;
    while (*first + n < s->count && s->shard[*first + n] == shard)
        n++;
    return n;
}

static ax_status prepare(save *s)
{
    size_t n = (size_t)s->ps->count;
    AX_TRY(ax_hf_map_check(s->e->arch));
    s->place = calloc(n, sizeof *s->place);
    s->tensor = calloc(n, sizeof *s->tensor);
    s->list = calloc(n, sizeof *s->list);
    s->shard = calloc(n, sizeof *s->shard);
    AX_CHECK(s->place && s->tensor && s->list && s->shard, AX_ENOMEM,
             "%s: no memory for a list of %zu tensors", s->dir, n);
    AX_TRY(list_tensors(s));
    cut_shards(s);
    for (int k = 0; k < s->shards; k++) {
        ax_text json = {0};
        int first, count = shard_range(s, k, &first);
        ax_status st = ax_safetensors_layout(s->list + first, count, &json);
        ax_text_fini(&json);
        AX_TRY(st);
    }
    return AX_OK;
}

static void file_name(const save *s, int shard, char name[64])
{
    if (s->shards == 1)
        snprintf(name, 64, "model.safetensors");
    else
        snprintf(name, 64, "model-%05d-of-%05d.safetensors", shard + 1, s->shards);
}

static ax_status shard_path(const save *s, int shard, char *path)
{
    char name[64];
    file_name(s, shard, name);
    return ax_disk_join(path, s->dir, name);
}

// ---- rank 0: files and headers, then what describes them

static ax_status create_files(save *s)
{
    for (int k = 0; k < s->shards; k++) {
        char path[AX_PATH_MAX];
        int first, count = shard_range(s, k, &first);
        AX_TRY(shard_path(s, k, path));
        AX_TRY(ax_safetensors_create(path, s->list + first, count));
    }
    return AX_OK;
}

typedef struct names {
    const save *s;
    char name[64];
} names;

static const char *name_of(void *ctx, int tensor)
{
    names *n = ctx;
    file_name(n->s, n->s->shard[tensor], n->name);
    return n->name;
}

static ax_status describe(save *s)
{
    names n = {.s = s};
    if (s->shards > 1)
        AX_TRY(ax_hf_write_index(s->dir, s->list, s->count, name_of, &n));
    return ax_hf_write_config(s->dir, s->e);
}

// ---- all ranks: slices

static ax_status write_slice(const save *s, const ax_hf_buffers *b, int fd, const char *path, int i)
{
    const ax_hf_place *place = &s->place[i];
    ax_hf_slice slice = {.fd = fd,
                         .path = path,
                         .begin = s->list[s->tensor[i]].begin,
                         .stored = s->e->dtype,
                         .width = place->shape[1],
                         .first = place->first,
                         .transposed = place->transposed};
    return ax_hf_slice_write(&slice, b, s->dev, &s->ps->list[i], s->ps->list[i].master);
}

static ax_status write_shard(const save *s, const ax_hf_buffers *b, int shard)
{
    char path[AX_PATH_MAX];
    int fd = -1;
    AX_TRY(shard_path(s, shard, path));
    AX_TRY(ax_disk_open(path, O_WRONLY, &fd));
    ax_status st = AX_OK;
    for (int i = 0; i < s->ps->count && st == AX_OK; i++)
        if (s->ps->list[i].owner && s->shard[s->tensor[i]] == shard)
            st = write_slice(s, b, fd, path, i);
    if (st == AX_OK)
        st = ax_disk_sync(fd, path);
    ax_status closed = ax_disk_close(fd, path);
    return st == AX_OK ? closed : st;
}

static ax_status write_shards(save *s)
{
    ax_hf_buffers b;
    ax_status st = AX_OK;
    AX_TRY(ax_device_sync(s->dev));
    AX_TRY(ax_hf_buffers_init(&b));
    for (int k = 0; k < s->shards && st == AX_OK; k++)
        st = write_shard(s, &b, k);
    ax_hf_buffers_fini(&b);
    return st;
}

ax_status ax_hf_save(const char *dir, const ax_hf_export *e, const ax_params *ps, const ax_grid *g,
                     ax_device *dev)
{
    save s = {.e = e, .ps = ps, .dev = dev, .dir = dir};
    bool first = g->world->rank == 0;
    ax_status st;
    AX_TRY_TO(done, ax_comm_agree(g->world, first ? prepare(&s) : AX_OK));
    AX_TRY_TO(done, ax_comm_agree(g->world, first ? AX_OK : prepare(&s)));
    AX_TRY_TO(done, ax_comm_agree(g->world, first ? create_files(&s) : AX_OK));
    AX_TRY_TO(done, ax_comm_agree(g->world, write_shards(&s)));
    AX_TRY_TO(done, ax_comm_agree(g->world, first ? describe(&s) : AX_OK));
done:
    free(s.place);
    free(s.tensor);
    free(s.list);
    free(s.shard);
    return st;
}

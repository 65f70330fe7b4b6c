// Loading. Rank 0 checks the directory against the model and speaks for all; then every rank reads
// its own slices.
#include "ckpt/hf.h"
#include "ckpt/hf_files.h"
#include "ckpt/hf_floats.h"
#include "ckpt/hf_map.h"
#include "ckpt/hf_slice.h"

#include "dev/kern.h"

#include <stdlib.h>
#include <string.h>

typedef struct load {
    ax_params *ps;
    const ax_grid *g;
    ax_device *dev;
    ax_hf_map map;
    ax_hf_files files;
    const ax_hf_tensor **from; // of each parameter
    ax_hf_place *place;
} load;

static ax_status check_tensor(const load *l, const ax_hf_place *want, const ax_hf_tensor *got)
{
    AX_CHECK(got, AX_EFORMAT, "%s: tensor '%s' of the model is missing", l->files.where,
             want->name);
    const char *path = got->file->path;
    ax_st_tensor shape = {.dims = want->dims, .shape = {want->shape[0], want->shape[1]}};
    if (!ax_st_same_shape(got->t, &shape)) {
        char here[AX_ST_DIMS * 24], there[AX_ST_DIMS * 24];
        ax_st_print_shape(got->t, there, sizeof there);
        ax_st_print_shape(&shape, here, sizeof here);
        AX_FAIL(AX_EFORMAT, "%s: tensor '%s' is %s, but by config.json it is %s", path, want->name,
                there, here);
    }
    AX_CHECK(ax_floats_known(got->t->dtype), AX_EUNSUPPORTED,
             "%s: tensor '%s' has dtype %s; only F32, F16, BF16 and F64 are read", path, want->name,
             ax_st_dtype_name(got->t->dtype));
    return AX_OK;
}

static ax_status find_tensors(load *l, bool *used)
{
    for (int i = 0; i < l->ps->count; i++) {
        AX_TRY(ax_hf_place_of(&l->map, &l->ps->list[i], &l->place[i]));
        l->from[i] = ax_hf_files_find(&l->files, l->place[i].name);
        AX_TRY(check_tensor(l, &l->place[i], l->from[i]));
        used[l->from[i] - l->files.list] = true;
    }
    for (int i = 0; i < l->files.count; i++) {
        const ax_hf_tensor *t = &l->files.list[i];
        AX_CHECK(used[i] || ax_hf_is_spare(&l->map, t->t->name), AX_EFORMAT,
                 "%s: tensor '%s' is no part of the model that config.json describes",
                 t->file->path, t->t->name);
    }
    return AX_OK;
}

static ax_status open_all(load *l, const char *dir)
{
    AX_TRY(ax_hf_files_open(dir, &l->files));
    l->map.bare = ax_hf_files_find(&l->files, "wte.weight") != NULL;
    size_t count = (size_t)l->ps->count;
    l->from = calloc(count, sizeof *l->from);
    l->place = calloc(count, sizeof *l->place);
    bool *used = calloc((size_t)l->files.count + 1, sizeof *used);
    ax_status st = AX_ENOMEM;
    if (l->from && l->place && used)
        st = find_tensors(l, used);
    else
        ax_fail(st, __FILE__, __LINE__, "%s: no memory for a list of %zu tensors", dir, count);
    free(used);
    return st;
}

// Without a master, this coordinate's part of the weights is set.
static ax_tensor target(const load *l, const ax_param *p)
{
    if (p->master.data)
        return p->master;
    return p->matrix ? ax_tensor_cols(p->weight, l->g->cd * p->part, p->part) : p->weight;
}

static ax_status read_slices(load *l)
{
    ax_hf_buffers buffers;
    ax_status st = AX_OK;
    AX_TRY(ax_hf_buffers_init(&buffers));
    for (int i = 0; i < l->ps->count && st == AX_OK; i++) {
        const ax_hf_tensor *from = l->from[i];
        const ax_hf_place *place = &l->place[i];
        ax_param *p = &l->ps->list[i];
        ax_hf_slice s = {.fd = from->file->fd,
                         .path = from->file->path,
                         .begin = from->t->begin,
                         .stored = from->t->dtype,
                         .width = place->shape[1],
                         .first = place->first,
                         .transposed = place->transposed};
        st = ax_hf_slice_read(&s, &buffers, l->dev, p, target(l, p));
    }
    ax_hf_buffers_fini(&buffers);
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

static ax_status fill(load *l)
{
    AX_TRY(read_slices(l));
    return clear_moments(l);
}

ax_status ax_hf_load(const char *dir, const ax_hf_config *config, ax_params *ps, const ax_grid *g,
                     ax_device *dev)
{
    load l = {.ps = ps,
              .g = g,
              .dev = dev,
              .map = {.arch = &config->arch, .positions = config->positions}};
    bool first = g->world->rank == 0;
    ax_status st;
    AX_TRY_TO(done, ax_comm_agree(g->world, first ? open_all(&l, dir) : AX_OK));
    AX_TRY_TO(done, ax_comm_agree(g->world, first ? AX_OK : open_all(&l, dir)));
    AX_TRY_TO(done, ax_comm_agree(g->world, fill(&l)));
    AX_TRY_TO(done, ax_comm_agree(g->world, ax_params_spread(ps, g, dev)));
done:
    ax_hf_files_close(&l.files);
    free(l.from);
    free(l.place);
    return st;
}

#include "ckpt/content.h"

#include <stdio.h>
#include <stdlib.h>

const char *ax_content_file(ax_content_kind kind)
{
    return kind == AX_CONTENT_MODEL ? "model.safetensors" : "optimizer.safetensors";
}

static ax_st_tensor describe(const ax_param *p, ax_dtype acc, const char *name)
{
    ax_st_tensor t = {.name = name, .dtype = acc == AX_F64 ? AX_ST_F64 : AX_ST_F32};
    if (p->matrix || p->rows > 1)
        t.shape[t.dims++] = p->rows;
    t.shape[t.dims++] = p->cols;
    return t;
}

ax_status ax_content_init(ax_content *c, const ax_params *ps, ax_content_kind kind)
{
    static const char *const suffix[][2] = {{""}, {".m", ".v"}};
    *c = (ax_content){.each = kind == AX_CONTENT_MODEL ? 1 : 2};
    c->count = ps->count * c->each;
    c->list = calloc((size_t)c->count + 1, sizeof *c->list);
    c->names = calloc((size_t)c->count + 1, sizeof *c->names);
    if (!c->list || !c->names) {
        int count = c->count;
        ax_content_fini(c);
        AX_FAIL(AX_ENOMEM, "no memory for a list of %d tensors", count);
    }
    for (int i = 0; i < c->count; i++) {
        const ax_param *p = &ps->list[i / c->each];
        snprintf(c->names[i], sizeof c->names[i], "%s%s", p->name, suffix[kind][i % c->each]);
        c->list[i] = describe(p, ps->acc, c->names[i]);
    }
    return AX_OK;
}

void ax_content_fini(ax_content *c)
{
    free(c->list);
    free(c->names);
    *c = (ax_content){0};
}

ax_tensor ax_content_tensor(const ax_params *ps, ax_content_kind kind, int index)
{
    if (kind == AX_CONTENT_MODEL)
        return ps->list[index].master;
    const ax_param *p = &ps->list[index / 2];
    return index % 2 ? p->v : p->m;
}

#include "dev/tune.h"

#include "dev/dev_registry.h"

#include <string.h>

ax_gemm_key ax_gemm_key_of(const ax_device *dev, const ax_gemm_args *g)
{
    return (ax_gemm_key){
        .m = g->c.rows,
        .n = g->c.cols,
        .k = g->ta == AX_N ? g->a.cols : g->a.rows,
        .ta = (int32_t)g->ta,
        .tb = (int32_t)g->tb,
        .in = (int32_t)g->a.dtype,
        .out = (int32_t)g->c.dtype,
        .threads = dev->threads,
    };
}

bool ax_gemm_key_equal(const ax_gemm_key *a, const ax_gemm_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

ax_tuner_entry *ax_tuner_find(ax_tuner *t, const ax_gemm_key *key)
{
    for (int i = 0; i < t->count; i++)
        if (ax_gemm_key_equal(&t->entry[i].key, key))
            return &t->entry[i];
    return NULL;
}

ax_tuner_entry *ax_tuner_note(ax_tuner *t, const ax_gemm_key *key)
{
    ax_tuner_entry *e = ax_tuner_find(t, key);
    if (e)
        return e;
    if (t->count == AX_TUNER_KEYS) {
        t->lost++;
        return NULL;
    }
    e = &t->entry[t->count++];
    *e = (ax_tuner_entry){.key = *key, .way = AX_WAY_OPEN};
    if (t->known)
        e->way = t->known(t->known_ctx, key);
    return e;
}

const char *ax_gemm_way_name(const char *device, int way)
{
    const ax_device_ops *ops = ax_device_ops_find(device);
    if (ops && ops->gemm_way_name)
        return ops->gemm_way_name(way);
    return way == 0 ? "default" : NULL;
}

int ax_gemm_way_find(const char *device, const char *name)
{
    int way = 0;
    for (const char *at; (at = ax_gemm_way_name(device, way)); way++)
        if (strcmp(at, name) == 0)
            return way;
    return AX_WAY_OPEN;
}

bool ax_gemm_way_applies(const ax_device *dev, const ax_gemm_args *g, int way)
{
    return way == 0 || (dev->ops->gemm_way_applies && dev->ops->gemm_way_applies(dev, g, way));
}

void ax_gemm_forget(ax_device *dev)
{
    if (dev->ops->gemm_forget && !dev->measuring)
        dev->ops->gemm_forget(dev);
}

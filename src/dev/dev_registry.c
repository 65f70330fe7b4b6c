#include "dev/dev_registry.h"

#include <string.h>

static const ax_device_ops *const backends[] = {
    &ax_device_ops_ref,
#ifdef AX_WITH_ONEDNN
    &ax_device_ops_cpu,
#endif
};

static const char *const names[] = {
    "ref",
#ifdef AX_WITH_ONEDNN
    "cpu",
#endif
    NULL,
};

// Backends that exist, but perhaps not in this build.
static const struct {
    const char *name, *reason;
} absent[] = {
    {"cpu", "this build has no oneDNN: install libdnnl-dev and configure with AXONN_ONEDNN=ON"},
};

const ax_device_ops *ax_device_ops_find(const char *name)
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

const char *const *ax_device_names(void)
{
    return names;
}

const char *ax_device_missing(const char *name)
{
    if (strcmp(name, "measure") == 0 || ax_device_ops_find(name))
        return NULL;
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        if (strcmp(absent[i].name, name) == 0)
            return absent[i].reason;
    return "there is no such device (known: ref, cpu)";
}

#include "dev/dev_registry.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int ax_device_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
}

double ax_device_memory(void)
{
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t count) // FNV-1a
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

uint64_t ax_device_cores_id(void)
{
    cpu_set_t set;
    char host[256] = "";
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    gethostname(host, sizeof host - 1);
    return mix(mix(0xcbf29ce484222325u, host, strlen(host)), &set, sizeof set);
}

static void note_cores(ax_device *dev)
{
    _Static_assert(sizeof dev->cores == sizeof(cpu_set_t), "a set of cores of the system");
    if (sched_getaffinity(0, sizeof dev->cores, (cpu_set_t *)dev->cores) != 0)
        memset(dev->cores, 0, sizeof dev->cores);
}

void ax_device_unpin_thread(const ax_device *dev)
{
    const cpu_set_t *set = (const cpu_set_t *)dev->cores;
    if (CPU_COUNT(set) > 0)
        (void)sched_setaffinity(0, sizeof dev->cores, set);
}

// Measuring is a mode, not a backend: the backend named by `as` answers the workspace queries,
// and neither memory nor kernels of it are used.
ax_status ax_device_open(const ax_device_config *config, ax_device *dev)
{
    bool measuring = strcmp(config->name, "measure") == 0;
    const char *name = measuring ? (config->as ? config->as : "cpu") : config->name;
    const ax_device_ops *ops = ax_device_ops_find(name);
    AX_CHECK(ops, AX_EUNSUPPORTED, "device %s: %s", name, ax_device_missing(name));
    AX_CHECK(config->threads >= 0, AX_EUSAGE, "device %s: %d threads: need 0 (all cores) or more",
             name, config->threads);
    ax_device opened = {
        .ops = ops,
        .threads = config->threads ? config->threads : ax_device_cores(),
        .measuring = measuring,
    };
    note_cores(&opened);
    AX_TRY(ops->open(&opened, config));
    ax_status st = ax_device_grow(&opened, config->workspace);
    if (st != AX_OK) {
        ops->close(&opened);
        return st;
    }
    *dev = opened;
    return AX_OK;
}

void ax_device_close(ax_device *dev)
{
    if (!dev->ops)
        return;
    ax_device_free(dev, dev->workspace, dev->workspace_size);
    dev->ops->close(dev);
    *dev = (ax_device){0};
}

ax_status ax_device_alloc(ax_device *dev, size_t bytes, void **out)
{
    if (dev->measuring) {
        *out = (void *)(uintptr_t)64; // aligned, not NULL, and never touched
        return AX_OK;
    }
    return dev->ops->alloc(dev, bytes, out);
}

void ax_device_free(ax_device *dev, void *mem, size_t bytes)
{
    if (mem && !dev->measuring)
        dev->ops->free(dev, mem, bytes);
}

ax_status ax_device_copy(ax_device *dev, void *to, const void *from, size_t bytes)
{
    return dev->measuring || bytes == 0 ? AX_OK : dev->ops->copy(dev, to, from, bytes);
}

ax_status ax_device_sync(ax_device *dev)
{
    return dev->measuring ? AX_OK : dev->ops->sync(dev);
}

ax_status ax_device_grow(ax_device *dev, size_t bytes)
{
    void *mem = NULL;
    if (bytes)
        AX_TRY(ax_device_alloc(dev, bytes, &mem));
    ax_device_free(dev, dev->workspace, dev->workspace_size);
    dev->workspace = mem;
    dev->workspace_size = bytes;
    return AX_OK;
}

void ax_device_facts_of(const ax_device *dev, ax_device_facts *out)
{
    *out = (ax_device_facts){0};
    dev->ops->facts(dev, out);
}

void ax_device_describe(const ax_device *dev, char *text, size_t size)
{
    ax_device_facts f;
    char libraries[160] = "";
    ax_device_facts_of(dev, &f);
    for (size_t i = 0, n = 0; i < AX_DEVICE_LIBRARIES && f.library[i].name;
         i++, n = strlen(libraries))
        snprintf(libraries + n, sizeof libraries - n, ", %s %s", f.library[i].name,
                 f.library[i].version);
    snprintf(text, size, "%s%s: %s%s, bf16 %s, %d thread%s%s", dev->measuring ? "measuring " : "",
             dev->ops->name, f.isa, libraries, f.bf16, dev->threads, dev->threads == 1 ? "" : "s",
             f.pinned ? ", pinned" : "");
}

bool ax_device_has_bf16(const char *name)
{
    const ax_device_ops *ops = ax_device_ops_find(name);
    return ops && ops->fast_bf16 && ops->fast_bf16();
}

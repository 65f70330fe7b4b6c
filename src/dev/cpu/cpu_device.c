#include "dev/cpu/cpu.h"
#include "dev/cpu/cpu_tune.h"
#include "dev/cpu/onednn.h"
#include "dev/dev_registry.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, LINE = 64 };

static ax_status open_cpu(ax_device *dev, const ax_device_config *config)
{
    ax_status st = AX_OK;
    ax_cpu *cpu = calloc(1, sizeof *cpu);
    AX_CHECK(cpu, AX_ENOMEM, "device cpu: no memory to open");
    const ax_cpu_build *build = ax_cpu_builds;
    while (!build->runs())
        build++;
    cpu->build = build;
    cpu->native_bf16 = ax_onednn_has_bf16();
    dev->kern = build->kern;
    dev->impl = cpu;
    AX_TRY_TO(failed, ax_onednn_open(dev->threads, &cpu->onednn));
    if (config->core >= 0 && !dev->measuring)
        AX_TRY_TO(failed, ax_cpu_pin_team(config->core, dev->threads, &cpu->pin));
    return AX_OK;
failed:
    ax_onednn_close(cpu->onednn);
    free(cpu);
    return st;
}

static void close_cpu(ax_device *dev)
{
    ax_cpu *cpu = ax_cpu_of(dev);
    ax_cpu_unpin_team(cpu->pin);
    ax_onednn_close(cpu->onednn);
    free(cpu);
}

// Large pieces on huge pages, each first touched by the thread that will stream through it.
static ax_status alloc_cpu(ax_device *dev, size_t bytes, void **out)
{
    (void)dev; // used by the pragma alone
    AX_CHECK(bytes <= SIZE_MAX / 2, AX_ENOMEM, "device cpu: %zu bytes are too many", bytes);
    size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : LINE;
    size_t units = bytes ? (bytes + unit - 1) / unit : 1;
    char *mem = aligned_alloc(unit, units * unit);
    AX_CHECK(mem, AX_ENOMEM, "device cpu: no memory for %zu bytes", bytes);
    if (unit == HUGE_PAGE)
        madvise(mem, units * unit, MADV_HUGEPAGE); // a wish; small pages work too
#pragma omp parallel for num_threads(dev->threads) if (unit == HUGE_PAGE) schedule(static)
    for (size_t i = 0; i < units; i++)
        memset(mem + i * unit, 0, unit);
    *out = mem;
    return AX_OK;
}

static void free_cpu(ax_device *dev, void *mem, size_t bytes)
{
    (void)dev;
    (void)bytes;
    free(mem);
}

static ax_status copy_cpu(ax_device *dev, void *to, const void *from, size_t bytes)
{
    (void)dev;
    memmove(to, from, bytes);
    return AX_OK;
}

static ax_status sync_cpu(ax_device *dev)
{
    (void)dev;
    return AX_OK;
}

static void facts_of_cpu(const ax_device *dev, ax_device_facts *out)
{
    const ax_cpu *cpu = ax_cpu_of(dev);
    out->isa = cpu->build->isa;
    ax_cpu_processor(out->processor, sizeof out->processor);
    out->bf16 = cpu->native_bf16 ? "native" : "widened to f32";
    out->pinned = cpu->pin != NULL;
    out->library[0].name = "oneDNN";
    ax_onednn_version(out->library[0].version, sizeof out->library[0].version);
    ax_cpu_pin_library(out->library[1].version, sizeof out->library[1].version);
    if (out->library[1].version[0])
        out->library[1].name = "hwloc";
}

static void forget_products(ax_device *dev)
{
    ax_onednn_forget(ax_cpu_of(dev)->onednn);
}

static const char *kern_name_cpu(const ax_device *dev, const char *slot)
{
    const ax_cpu *cpu = ax_cpu_of(dev);
    if (strcmp(slot, "gemm") == 0)
        return cpu->native_bf16 ? "onednn sgemm, bf16 matmul" : "onednn sgemm";
    return cpu->build->isa;
}

const ax_device_ops ax_device_ops_cpu = {
    .name = "cpu",
    .open = open_cpu,
    .close = close_cpu,
    .alloc = alloc_cpu,
    .free = free_cpu,
    .copy = copy_cpu,
    .sync = sync_cpu,
    .facts = facts_of_cpu,
    .kern_name = kern_name_cpu,
    .fast_bf16 = ax_onednn_has_bf16,
    .gemm_way_name = ax_cpu_way_name,
    .gemm_way_applies = ax_cpu_way_applies,
    .gemm_forget = forget_products,
};

// Pinning by hwloc. Builds without hwloc have cpu_unpinned.c in its place.
#include "dev/cpu/cpu.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>

struct ax_cpu_pin {
    hwloc_topology_t topology;
    hwloc_cpuset_t before, during; // of the calling thread when the device was opened; of its team
    int threads;
};

static ax_status load_topology(hwloc_topology_t *out)
{
    hwloc_topology_t t;
    AX_CHECK(hwloc_topology_init(&t) == 0, AX_ENOMEM, "hwloc: no memory for a topology");
    hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(t) != 0) {
        hwloc_topology_destroy(t);
        AX_FAIL(AX_EUNSUPPORTED, "hwloc cannot read this machine: open the device unpinned");
    }
    *out = t;
    return AX_OK;
}

// Adds core number `index`, modulo the allowed ones, to `set`; false when there is none.
static bool add_core(const ax_cpu_pin *pin, int index, hwloc_cpuset_t set)
{
    int cores = hwloc_get_nbobjs_by_type(pin->topology, HWLOC_OBJ_CORE), allowed = 0;
    for (int pass = 0; pass < 2; pass++) { // count, then find
        int wanted = allowed ? index % allowed : -1, seen = 0;
        for (int i = 0; i < cores; i++) {
            hwloc_obj_t core = hwloc_get_obj_by_type(pin->topology, HWLOC_OBJ_CORE, (unsigned)i);
            if (!hwloc_bitmap_intersects(core->cpuset, pin->before))
                continue;
            if (seen++ == wanted) {
                hwloc_bitmap_or(set, set, core->cpuset);
                hwloc_bitmap_and(set, set, pin->before);
                return true;
            }
        }
        allowed = seen;
        if (allowed == 0)
            return false;
    }
    return false;
}

static void bind_team(const ax_cpu_pin *pin, hwloc_const_cpuset_t set)
{
#pragma omp parallel num_threads(pin->threads)
    hwloc_set_cpubind(pin->topology, set, HWLOC_CPUBIND_THREAD);
}

ax_status ax_cpu_pin_team(int core, int threads, ax_cpu_pin **out)
{
    ax_cpu_pin *pin = calloc(1, sizeof *pin);
    AX_CHECK(pin, AX_ENOMEM, "device cpu: no memory to pin a team");
    ax_status st = load_topology(&pin->topology);
    if (st != AX_OK) {
        free(pin);
        return st;
    }
    pin->threads = threads;
    pin->before = hwloc_bitmap_alloc();
    pin->during = hwloc_bitmap_alloc();
    bool found = pin->before && pin->during &&
                 hwloc_get_cpubind(pin->topology, pin->before, HWLOC_CPUBIND_THREAD) == 0;
    for (int i = 0; i < threads && found; i++)
        found = add_core(pin, core + i, pin->during);
    // A machine that does not let itself be pinned is slower, not wrong: go on unpinned.
    if (!found)
        hwloc_bitmap_copy(pin->during, pin->before);
    bind_team(pin, pin->during);
    *out = pin;
    return AX_OK;
}

void ax_cpu_unpin_team(ax_cpu_pin *pin)
{
    if (!pin)
        return;
    bind_team(pin, pin->before);
    hwloc_bitmap_free(pin->before);
    hwloc_bitmap_free(pin->during);
    hwloc_topology_destroy(pin->topology);
    free(pin);
}

void ax_cpu_pin_library(char *version, size_t size)
{
    snprintf(version, size, "%s", HWLOC_VERSION); // of the headers: the library tells its API only
}

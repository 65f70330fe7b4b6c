// A build without hwloc: teams run where the system puts them.
#include "dev/cpu/cpu.h"

ax_status ax_cpu_pin_team(int core, int threads, ax_cpu_pin **out)
{
    (void)core;
    (void)threads;
    *out = NULL;
    return AX_OK;
}

void ax_cpu_unpin_team(ax_cpu_pin *pin)
{
    (void)pin;
}

void ax_cpu_pin_library(char *version, size_t size)
{
    if (size)
        version[0] = '\0';
}

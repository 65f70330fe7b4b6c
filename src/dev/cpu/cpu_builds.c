#include "dev/cpu/cpu.h"

extern const ax_kern ax_portable_kern;

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
extern const ax_kern ax_avx2_kern, ax_avx512_kern;

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

const ax_cpu_build ax_cpu_builds[] = {
#if defined(__x86_64__)
    {"avx512", &ax_avx512_kern, has_avx512},
    {"avx2", &ax_avx2_kern, has_avx2},
#endif
    {"portable", &ax_portable_kern, always},
    {0},
};

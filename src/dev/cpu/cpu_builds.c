#include "dev/cpu/cpu.h"

// One line of ax_cpu_builds: its table and its products are of the same name.
#define BUILD(isa, runs)                                                                           \
    {                                                                                              \
#isa, &ax_##isa##_kern, ax_##isa##_panel_gemm, ax_##isa##_panel_gemm_workspace, runs       \
    }
#define DECLARE(isa)                                                                               \
    extern const ax_kern ax_##isa##_kern;                                                          \
    ax_status ax_##isa##_panel_gemm(ax_device *dev, const ax_gemm_args *g);                        \
    size_t ax_##isa##_panel_gemm_workspace(const ax_device *dev, const ax_gemm_args *g)

DECLARE(portable);

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
DECLARE(avx2);
DECLARE(avx512);

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
    BUILD(avx512, has_avx512),
    BUILD(avx2, has_avx2),
#endif
    BUILD(portable, always),
    {0},
};

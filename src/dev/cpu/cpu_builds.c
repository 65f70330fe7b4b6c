#include "dev/cpu/cpu.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <sys/utsname.h>
#endif

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

// ---- the processor's name ----

// What is no letter or digit becomes one -; none stands at an end.
static void make_word(const char *from, char *to, size_t size)
{
    size_t n = 0;
    for (; *from && n + 1 < size; from++) {
        if (isalnum((unsigned char)*from))
            to[n++] = (char)tolower((unsigned char)*from);
        else if (n > 0 && to[n - 1] != '-')
            to[n++] = '-';
    }
    while (n > 0 && to[n - 1] == '-')
        n--;
    to[n] = '\0';
}

#if defined(__x86_64__)
// The name alone may be of a whole series: family and model tell the generation.
void ax_cpu_processor(char *text, size_t size)
{
    unsigned brand[13] = {0}, a, b, c, d;
    char whole[80];
    for (unsigned i = 0; i < 3; i++) {
        unsigned *at = brand + 4 * (size_t)i;
        __get_cpuid(0x80000002u + i, at, at + 1, at + 2, at + 3);
    }
    if (!__get_cpuid(1, &a, &b, &c, &d))
        a = 0;
    unsigned family = a >> 8 & 15, model = a >> 4 & 15;
    if (family == 15)
        family += a >> 20 & 255;
    if (family == 6 || family >= 15)
        model += (a >> 16 & 15) << 4;
    snprintf(whole, sizeof whole, "%.48s %u %u", (const char *)brand, family, model);
    make_word(whole, text, size);
}
#else
void ax_cpu_processor(char *text, size_t size)
{
    struct utsname u;
    make_word(uname(&u) == 0 ? u.machine : "unknown", text, size);
}
#endif

#include "verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

void verdict_check(verdict *v, bool ok, const char *fmt, ...)
{
    ok ? v->passed++ : v->failed++;
    if (ok && !v->verbose)
        return;
    va_list args;
    va_start(args, fmt);
    printf("%s ", ok ? "ok    " : "FAILED");
    vprintf(fmt, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
}

void verdict_part(verdict *v, double started, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    printf("%5d cases, %5.1f s: ", v->passed - v->part_passed, verdict_now() - started);
    vprintf(fmt, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
    v->part_passed = v->passed;
}

double verdict_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int verdict_close(const verdict *v)
{
    printf("%d passed, %d failed\n", v->passed, v->failed);
    return v->failed > 0 || v->passed == 0;
}

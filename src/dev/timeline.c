#include "dev/timeline.h"

#include <stdlib.h>
#include <time.h>

double ax_clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

ax_status ax_timeline_init(ax_timeline *t, int64_t room)
{
    *t = (ax_timeline){.room = room};
    t->span = calloc((size_t)(room > 0 ? room : 1), sizeof *t->span);
    AX_CHECK(t->span, AX_ENOMEM, "no memory for a timeline of %lld spans", (long long)room);
    return AX_OK;
}

void ax_timeline_fini(ax_timeline *t)
{
    free(t->span);
    *t = (ax_timeline){0};
}

void ax_timeline_add(ax_timeline *t, const ax_timeline_span *span)
{
    if (t->paused)
        return;
    if (t->count < t->room)
        t->span[t->count++] = *span;
    else
        t->lost++;
}

#include "base/arena.h"

#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 64 };

ax_arena ax_arena_measure(const char *name)
{
    return (ax_arena){.name = name, .size = SIZE_MAX, .measuring = true};
}

ax_arena ax_arena_over(const char *name, void *base, size_t size)
{
    POISON(base, size);
    return (ax_arena){.name = name, .base = base, .size = size};
}

ax_status ax_arena_alloc(ax_arena *a, size_t bytes, void **out)
{
    // One spare line after each piece: the poisoned gap that catches an overrun.
    AX_CHECK(bytes <= SIZE_MAX / 4, AX_ENOMEM, "arena %s: a piece of %zu bytes is too large",
             a->name, bytes);
    size_t need = (bytes + ALIGN - 1) / ALIGN * ALIGN + ALIGN;
    if (need > a->size - a->used)
        AX_FAIL(AX_EINTERNAL,
                "arena %s: %zu bytes wanted, %zu of %zu used: it was measured smaller", a->name,
                bytes, a->used, a->size);
    if (a->measuring) {
        *out = (void *)(uintptr_t)(ALIGN + a->used);
    } else {
        *out = a->base + a->used;
        UNPOISON(a->base + a->used, bytes);
    }
    a->used += need;
    if (a->used > a->peak)
        a->peak = a->used;
    return AX_OK;
}

void ax_arena_fini(ax_arena *a)
{
    if (a->base)
        UNPOISON(a->base, a->size);
    *a = (ax_arena){0};
}

size_t ax_arena_mark(const ax_arena *a)
{
    return a->used;
}

void ax_arena_release(ax_arena *a, size_t mark)
{
    AX_ASSERT(mark <= a->used);
    if (!a->measuring)
        POISON(a->base + mark, a->used - mark);
    a->used = mark;
}

// Bump arenas. The same code fills an arena twice: once in a measuring pass, which only adds
// sizes, and once over real memory, which hands out pointers. What was measured is what is
// allocated.
//
//     ax_arena a = ax_arena_measure("step");
//     build(&a);                       // every ax_arena_alloc succeeds, none may be read
//     void *mem = device_alloc(a.peak);
//     a = ax_arena_over("step", mem, a.peak);
//     build(&a);                       // the same calls, now with real pointers
//
// Pieces are aligned to 64 bytes. Release follows the stack: everything after a mark goes at once.
// Under AddressSanitizer the gaps between pieces are poisoned.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ax_arena {
    const char *name;
    unsigned char *base; // owned by the caller; NULL while measuring
    size_t size;         // bytes at base; unlimited while measuring
    size_t used, peak;   // bytes handed out now, and at most so far
    bool measuring;
} ax_arena;

ax_arena ax_arena_measure(const char *name);
ax_arena ax_arena_over(const char *name, void *base, size_t size);

// A piece of `bytes` bytes, 64-byte aligned, contents undefined. While measuring, an address that
// is not NULL but must not be touched. AX_EINTERNAL when the arena is too small: the measuring
// pass took another path than the binding one.
ax_status ax_arena_alloc(ax_arena *a, size_t bytes, void **out);

// Ends the use of the memory at base, which the caller may then free. A zeroed arena is legal.
void ax_arena_fini(ax_arena *a);

size_t ax_arena_mark(const ax_arena *a);
void ax_arena_release(ax_arena *a, size_t mark);

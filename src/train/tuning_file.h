// A file that remembers which way each matrix product is fastest: one line a product, words between
// blanks, lines of several processors and libraries in one file.
//
//     # machine library threads mode m n k in out way seconds default
//     amd-epyc-25-1/avx2 onednn-2.6.3 2 nt 4096 2304 768 f32 f32 rows 0.0712 0.0752
//
// seconds: of the way; default: of the default way. What begins with # is passed over. A line that
// cannot be read is passed over, too, with one warning a file; lines of another machine or library
// are not ours, and stay where they are.
#pragma once
#include "dev/tune.h"

enum { AX_TUNED_MOST = 1024, AX_WAY_NAME = 24 };

typedef struct ax_tuned { // plain memory: ranks send it to one another
    ax_gemm_key key;
    char way[AX_WAY_NAME];
    double seconds, default_seconds;
} ax_tuned;

typedef struct ax_tuned_list {
    int64_t count;
    ax_tuned item[AX_TUNED_MOST];
} ax_tuned_list;

typedef struct ax_tuned_for { // whose lines are read and written
    char machine[96], library[48];
} ax_tuned_for;

// This machine and the library of its products, as `device` has them.
ax_status ax_tuned_here(const char *device, ax_tuned_for *out);

// The item of a product; NULL: there is none.
const ax_tuned *ax_tuned_find(const ax_tuned_list *list, const ax_gemm_key *key);
// Adds an item, or replaces the one of its product; one too many is left out.
void ax_tuned_put(ax_tuned_list *list, const ax_tuned *item);

// The lines of `here` into a zeroed or filled list; of two lines of one product the later counts.
// AX_OK where there is no such file; AX_EIO where it cannot be read or is larger than 4 MiB.
ax_status ax_tuned_read(const char *path, const ax_tuned_for *here, ax_tuned_list *out);

// Written beside and renamed, so that no reader sees half of it, and on the disk when it returns.
// With `merge` what the file holds besides stays: other machines, other products.
ax_status ax_tuned_write(const char *path, const ax_tuned_for *here, const ax_tuned_list *list,
                         bool merge);

// $XDG_CACHE_HOME/axonn/tuning.txt or ~/.cache/axonn/tuning.txt; false: the user has no home.
bool ax_tuned_cache(char *path, size_t size);

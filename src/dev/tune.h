// Which way each matrix product is made. A backend may know several ways to make one (a library's
// own, transposed operands, packed weights, another split over the threads); a tuner remembers for
// each product of a rank the way to take.
//
//     ax_tuner t = {.known = from_file, .known_ctx = &table};
//     dev.tuner = &t;             // from here on products are noted, and known ways taken
//     t.timing = true;            // open products try every way, and give the default's result
//     ... one training step ...
//     t.timing = false;
//     t.entry[i].way = best_of(&t.entry[i]);   // the same on all ranks: train/tuning.h
//
// A tuner belongs to one rank. It never grows: a product that finds no room is made by default.
// Without a tuner, and for products that are open, the default way is taken.
#pragma once
#include "dev/kern.h"

enum {
    AX_TUNER_KEYS = 192, // products of a training step: some twenty
    AX_TUNER_WAYS = 12,  // of a backend, at most; 0 is the default
    AX_WAY_OPEN = -1,    // nobody has decided yet
};

// A product. Whether c is added to does not count: to time such a product, c would have to be
// copied, which is the largest buffer of a step, and the work is the same. Plain memory without
// gaps: ranks send it to one another.
typedef struct ax_gemm_key {
    int64_t m, n, k;
    int32_t ta, tb;  // ax_trans
    int32_t in, out; // ax_dtype of a and b, and of c
    int32_t threads; // of the device
    int32_t zero;
} ax_gemm_key;

typedef struct ax_tuner_entry {
    ax_gemm_key key;
    int way;                       // AX_WAY_OPEN, or as ax_gemm_way_name counts
    double seconds[AX_TUNER_WAYS]; // median of each way that was timed; 0: it was not
} ax_tuner_entry;

typedef struct ax_tuner {
    // The way of a product that is noted for the first time; NULL: all are open.
    int (*known)(const void *ctx, const ax_gemm_key *key);
    const void *known_ctx;
    bool timing;
    int count;
    int64_t lost; // products that found no room
    ax_tuner_entry entry[AX_TUNER_KEYS];
} ax_tuner;

ax_gemm_key ax_gemm_key_of(const ax_device *dev, const ax_gemm_args *g);
bool ax_gemm_key_equal(const ax_gemm_key *a, const ax_gemm_key *b);

// The entry of a product, noted now where it is new; NULL: there is no room.
ax_tuner_entry *ax_tuner_note(ax_tuner *t, const ax_gemm_key *key);
// The same, but NULL where it was never noted.
ax_tuner_entry *ax_tuner_find(ax_tuner *t, const ax_gemm_key *key);

// Name of a way of a backend, 0 the "default"; NULL beyond the last.
const char *ax_gemm_way_name(const char *device, int way);
// Its number; AX_WAY_OPEN where the backend knows none of that name.
int ax_gemm_way_find(const char *device, const char *name);
// Whether a way can make this very product. The default always can; one that is remembered but
// cannot gives way to it.
bool ax_gemm_way_applies(const ax_device *dev, const ax_gemm_args *g, int way);
// Drops what the backend keeps for ways that were tried. Set-up only.
void ax_gemm_forget(ax_device *dev);

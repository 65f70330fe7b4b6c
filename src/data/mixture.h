// A mixture: from which source the next sample comes.
//
//     ax_mixture m;
//     AX_TRY(ax_mixture_parse("data.train", "web.bin@0.7,books.bin@0.3", &m));
//     int source = ax_mixture_draw(&m, g, &index);   // sample g is number `index` of that source
//
// A list without weights is one source, its files in order; with weights each file is a source.
// The draw is a pure function of g, with no state, so any batch and any grid sees the same. Shares
// are exact all along: of the first n samples, for every n, a source has its share of n to within
// one sample for two sources and 1 + log2(sources) / 2 for more. How: a binary tree over the
// sources; each node sends its sample number n to the left where the rounded count of the left
// share grows from n to n + 1 (a Sturmian word), and counts it there.
#pragma once
#include "base/err.h"

#include <stdint.h>

typedef struct ax_mixture {
    char **files;  // of each source: one, or the whole list where there are no weights
    double *until; // weights of source 0..i together
    int sources;
} ax_mixture;

// AX_EUSAGE: a weight that is no number above 0, or weights at some entries only.
ax_status ax_mixture_parse(const char *key, const char *list, ax_mixture *out);
void ax_mixture_fini(ax_mixture *m); // a zeroed one is legal

int ax_mixture_draw(const ax_mixture *m, int64_t sample, int64_t *index);
double ax_mixture_share(const ax_mixture *m, int source); // 0..1

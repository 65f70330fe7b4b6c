#include "train/pick.h"

#include <math.h>

static int32_t likeliest(const double *logits, int64_t vocab)
{
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

// A heap whose top is the likeliest id that was not taken yet; those taken stand behind it, the
// first of them last.
typedef struct heap {
    const double *logit;
    int32_t *id;
    int64_t left, count;
} heap;

static bool before(const heap *h, int32_t a, int32_t b)
{
    return h->logit[a] > h->logit[b] || (h->logit[a] == h->logit[b] && a < b);
}

static void sift(heap *h, int64_t at)
{
    int32_t id = h->id[at];
    for (int64_t child; (child = 2 * at + 1) < h->left; at = child) {
        if (child + 1 < h->left && before(h, h->id[child + 1], h->id[child]))
            child++;
        if (!before(h, h->id[child], id))
            break;
        h->id[at] = h->id[child];
    }
    h->id[at] = id;
}

static heap heap_over(const double *logits, int64_t vocab, int32_t *order)
{
    heap h = {logits, order, vocab, vocab};
    for (int64_t i = 0; i < vocab; i++)
        order[i] = (int32_t)i;
    for (int64_t i = vocab / 2 - 1; i >= 0; i--)
        sift(&h, i);
    return h;
}

// The i-th likeliest id.
static int32_t nth(heap *h, int64_t i)
{
    while (h->count - h->left <= i) {
        int32_t top = h->id[0];
        h->id[0] = h->id[--h->left];
        h->id[h->left] = top;
        if (h->left > 0)
            sift(h, 0);
    }
    return h->id[h->count - 1 - i];
}

typedef struct weights { // of ids, relative to the likeliest
    const double *logit;
    double top, temperature;
} weights;

static double weight(const weights *w, int64_t id)
{
    return exp((w->logit[id] - w->top) / w->temperature);
}

int32_t ax_pick(const double *logits, int64_t vocab, const ax_generate_options *options, double u,
                int32_t *order)
{
    if (options->temperature <= 0)
        return likeliest(logits, vocab);
    heap h = heap_over(logits, vocab, order);
    weights w = {logits, logits[order[0]], options->temperature};
    bool all = options->top_k <= 0 || options->top_k >= vocab;
    int64_t n = all ? vocab : options->top_k, nucleus = n;
    double total = 0, kept = 0;
    for (int64_t i = 0; i < n; i++)
        total += weight(&w, all ? i : nth(&h, i));
    if (options->top_p < 1) {
        for (nucleus = 0; nucleus < n && (nucleus == 0 || kept < options->top_p * total); nucleus++)
            kept += weight(&w, nth(&h, nucleus));
    } else {
        kept = total;
    }
    double left = u * kept;
    int32_t last = order[0];
    for (int64_t i = 0; i < nucleus; i++) {
        int32_t id = nth(&h, i);
        double share = weight(&w, id);
        if (share <= 0)
            break; // so are all that follow
        last = id;
        left -= share;
        if (left < 0)
            break;
    }
    return last;
}

#include "data/loader.h"

#include "base/rng.h"

#include <string.h>

ax_status ax_loader_init(ax_loader *l, const ax_corpus *c, ax_split split, int64_t seq,
                         int64_t batch, int64_t seed)
{
    int64_t tokens;
    const int32_t *token = ax_corpus_tokens(c, split, &tokens);
    int64_t samples = tokens > 0 ? (tokens - 1) / seq : 0;
    AX_CHECK(samples >= batch, AX_EUSAGE,
             "the %s data holds %lld samples, a step needs %lld (train.batch), a sample needs %lld "
             "tokens (model.seq + 1): %lld tokens are too few; add data, or lower one of the two",
             split == AX_TRAIN ? "training" : "held-out", (long long)samples, (long long)batch,
             (long long)seq + 1, (long long)tokens);
    *l = (ax_loader){
        .corpus = c,
        .token = token,
        .tokens = tokens,
        .samples = samples,
        .seq = seq,
        .batch = batch,
        .seed = (uint64_t)seed,
    };
    return AX_OK;
}

int64_t ax_loader_sample_id(const ax_loader *l, int64_t step, int64_t row)
{
    int64_t g = (step - 1) * l->batch + row;
    uint64_t epoch = (uint64_t)(g / l->samples);
    return ax_rng_permute(l->seed, ax_rng_stream("data.epoch") + epoch, l->samples, g % l->samples);
}

int64_t ax_loader_row(const ax_loader *l, int64_t step, int64_t row, const ax_row *out)
{
    const int32_t *from = l->token + ax_loader_sample_id(l, step, row) * l->seq;
    memcpy(out->ids, from, (size_t)l->seq * sizeof *from);
    memcpy(out->targets, from + 1, (size_t)l->seq * sizeof *from);
    for (int64_t i = 0; i < l->seq; i++)
        out->positions[i] = (int32_t)i;
    return l->seq;
}

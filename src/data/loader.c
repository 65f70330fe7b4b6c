#include "data/loader.h"

#include "base/rng.h"
#include "data/mixture.h"
#include "data/source.h"

static ax_status refuse(const ax_corpus *c, int64_t samples, int64_t batch)
{
    int64_t tokens = ax_corpus_tokens(c, AX_TRAIN);
    bool packed = false;
    for (int i = 0; i < ax_corpus_parts(c, AX_TRAIN); i++)
        packed = packed || ax_corpus_is_packed(c, AX_TRAIN, i);
    AX_CHECK(!packed, AX_EUSAGE,
             "the training data holds %lld samples of whole documents (data.packing), a step needs "
             "%lld (train.batch): %lld tokens are too few; add data, or lower train.batch",
             (long long)samples, (long long)batch, (long long)tokens);
    AX_FAIL(AX_EUSAGE,
            "the training data holds %lld samples, a step needs %lld (train.batch), a sample needs "
            "%lld tokens (model.seq + 1): %lld tokens are too few; add data, or lower one of the "
            "two",
            (long long)samples, (long long)batch, (long long)ax_corpus_seq(c) + 1,
            (long long)tokens);
}

ax_status ax_loader_init(ax_loader *l, const ax_corpus *c, int64_t batch, int64_t seed)
{
    int64_t samples = 0;
    int parts = ax_corpus_parts(c, AX_TRAIN);
    for (int i = 0; i < parts; i++) {
        const ax_source *s = ax_corpus_source(c, AX_TRAIN, i);
        int64_t here = ax_corpus_samples(c, AX_TRAIN, i);
        AX_CHECK(here > 0 || parts == 1, AX_EUSAGE,
                 "%s: no sample to mix in; one needs %lld tokens (model.seq + 1), and what is left "
                 "of the file's %lld for training is less",
                 ax_source_name(s), (long long)ax_corpus_seq(c) + 1,
                 (long long)ax_source_tokens(s));
        samples += here;
    }
    if (samples < batch)
        return refuse(c, samples, batch);
    *l = (ax_loader){.corpus = c, .samples = samples, .batch = batch, .seed = (uint64_t)seed};
    return AX_OK;
}

ax_sample ax_loader_sample(const ax_loader *l, int64_t step, int64_t row)
{
    int64_t g = (step - 1) * l->batch + row, index;
    int source = ax_mixture_draw(ax_corpus_mixture(l->corpus), g, &index);
    int64_t samples = ax_corpus_samples(l->corpus, AX_TRAIN, source);
    ax_sample s = {.source = source, .epoch = index / samples};
    uint64_t stream = ax_rng_stream("data.epoch") + ((uint64_t)source << 40) + (uint64_t)s.epoch;
    s.sample = ax_rng_permute(l->seed, stream, samples, index % samples);
    ax_corpus_span(l->corpus, AX_TRAIN, source, s.sample, &s.begin, &s.end);
    return s;
}

int64_t ax_loader_sample_id(const ax_loader *l, int64_t step, int64_t row)
{
    ax_sample s = ax_loader_sample(l, step, row);
    int64_t before = 0;
    for (int i = 0; i < s.source; i++)
        before += ax_corpus_samples(l->corpus, AX_TRAIN, i);
    return before + s.sample;
}

ax_status ax_loader_row(const ax_loader *l, int64_t step, int64_t row, const ax_row *out)
{
    ax_sample s = ax_loader_sample(l, step, row);
    return ax_corpus_read(l->corpus, AX_TRAIN, s.source, s.sample, out);
}

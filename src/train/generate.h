// Text from a model: sampling one token after another. Collective; every rank ends with the same
// text.
//
//     AX_TRY(ax_generate(t, tokenizer, &options, emit, ctx));
//
// Each token costs one forward pass over the last model.seq tokens.
#pragma once
#include "data/tokenizer.h"
#include "train/config.h"
#include "train/trainer.h"

// Called on rank 0 with the prompt first, then each token's bytes as they come.
typedef void ax_generate_emit(void *ctx, const char *bytes, size_t length);

// temperature 0: the likeliest token, lowest id on ties. Ends at the end-of-document id or after
// options->tokens. An empty prompt begins a
// document: the end-of-document id stands before it.
ax_status ax_generate(ax_trainer *t, const ax_tokenizer *tokenizer,
                      const ax_generate_options *options, ax_generate_emit *emit, void *ctx);

// One sample from `vocab` logits: temperature, then the top_k likeliest, then the smallest set of
// at least top_p; `u` in [0, 1) picks. `order` is scratch of vocab ints.
int32_t ax_generate_pick(const float *logits, int64_t vocab, const ax_generate_options *options,
                         double u, int32_t *order);

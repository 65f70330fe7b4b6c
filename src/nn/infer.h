// Inference with a cache of keys and values: prompts in one pass, then a token a sequence a step.
// Each costs what its own tokens cost, whatever came before.
//
//     for each sequence s with keep[s]: ids[s * seq ..] holds length[s] tokens, and any others behind
//     AX_TRY(ax_infer_prefill(m, &(ax_prefill){ids, seq, length, keep}, logits));
//     ... next[s] from logits[s * vocab_padded ..] ...
//     AX_TRY(ax_infer_step(m, next, logits));   // next[s] < 0: this sequence rests
//
// The model was made with cache > 0. Sequences are the micro_batch of this (data, z) coordinate;
// all coordinates make the same calls with the same seq. Sequences do not see each other: one may
// begin anew while others go on. Collective over x*y*z. Positions count from the first token of
// `ids`.
#pragma once
#include "nn/model.h"

typedef struct ax_prefill {
    const int32_t *ids;    // (micro_batch, seq)
    int64_t seq;           // as ax_infer_seq rounds it
    const int32_t *length; // micro_batch; 1..seq where kept
    const bool *keep;      // micro_batch; false: what the cache has of this sequence stays
} ax_prefill;

// The length of a prefill pass for prompts of `tokens`: few lengths exist, and the memory of each
// is measured.
int64_t ax_infer_seq(const ax_model *m, int64_t tokens);

// logits: (micro_batch, V padded), those that follow the last token of each kept sequence; the rows
// of the others are left alone. Padding is -inf.
ax_status ax_infer_prefill(ax_model *m, const ax_prefill *p, double *logits);
// ids: micro_batch; a sequence with an id < 0 keeps its tokens, and its logits are left alone.
// Others have fewer than `room` tokens so far (AX_EINTERNAL).
ax_status ax_infer_step(ax_model *m, const int32_t *ids, double *logits);

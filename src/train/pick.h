// One token from its logits.
#pragma once
#include "train/config.h"

// Temperature, then the top_k likeliest, then the smallest set of them that holds top_p; `u` in [0,
// 1) picks. Temperature 0: the likeliest; the lowest id on ties. At least one logit is finite, none
// is NaN or +inf; ids at -inf are never drawn. `order` is scratch of vocab ints. What is sorted is
// only what is looked at.
int32_t ax_pick(const double *logits, int64_t vocab, const ax_generate_options *options, double u,
                int32_t *order);

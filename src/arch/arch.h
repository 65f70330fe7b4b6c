// The shape of a model: hyper-parameters, presets, and what follows from them by counting.
//
//     ax_arch a;
//     AX_TRY(ax_arch_preset("gpt2-124m", &a));
//     AX_TRY(ax_arch_check(&a));
//     printf("%lld parameters\n", (long long)ax_arch_parameters(&a));
#pragma once
#include "base/text.h"

typedef enum ax_arch_kind {
    AX_GPT,   // LayerNorm, biases, learned positions, GELU, tied head by default
    AX_LLAMA, // RMSNorm, RoPE, SwiGLU, no biases by default
} ax_arch_kind;

typedef enum ax_bias { // an option's choice index
    AX_BIAS_AUTO,      // as the kind
    AX_BIAS_OFF,
    AX_BIAS_ON,
} ax_bias;

typedef enum ax_rope_scaling { // an option's choice index
    AX_ROPE_PLAIN,
    AX_ROPE_LINEAR, // every frequency divided by the factor
    AX_ROPE_LLAMA3, // low frequencies divided, high ones kept, those between blended
} ax_rope_scaling;

typedef struct ax_arch {
    int64_t kind;     // ax_arch_kind (an option's choice index)
    int64_t layers;   // L
    int64_t hidden;   // H
    int64_t heads;    // A
    int64_t kv_heads; // K; 0: as heads
    int64_t head_dim; // D; 0: hidden / heads
    int64_t ffn;      // F; 0: 4H for gpt, 8H/3 rounded up to a multiple of 64 for llama
    int64_t vocab;    // V; 0: the tokenizer's
    int64_t seq;      // T
    int64_t tied;     // 0 no, 1 yes, 2 auto: as the kind (an option's choice index: off|on|auto)
    double norm_eps;
    double rope_theta;
    double init_std;
    int64_t attention_bias, mlp_bias; // ax_bias
    int64_t rope_scaling;             // ax_rope_scaling
    double rope_factor;               // 0: 1
    double rope_low, rope_high;       // llama3: wavelengths above seq/low, below seq/high; 0: 1, 4
    int64_t rope_original;            // llama3: that seq, of the unscaled model; 0: 8192
    const char *eos;                  // ids that end a text, "2,5"; "" or NULL: the tokenizer's
} ax_arch;

extern const ax_option ax_arch_options[]; // model.*; offsets into ax_arch

// Sets `arch` to a named preset (tiny, gpt2-124m, gpt-5b ... gpt-640b, llama2-7b ...
// llama3.1-405b). AX_EUSAGE names the nearest known one.
ax_status ax_arch_preset(const char *name, ax_arch *arch);
const char *const *ax_arch_presets(void); // NULL-terminated

// Fills the zeros (kv_heads, head_dim, ffn, tied, biases, rope_*) and range-checks all. vocab must
// be known.
ax_status ax_arch_check(ax_arch *arch);

bool ax_arch_has_attention_bias(const ax_arch *arch); // q, k, v and o
bool ax_arch_has_mlp_bias(const ax_arch *arch);

// Rotary frequency of pair i, in radians a position, scaling included.
double ax_arch_rope_frequency(const ax_arch *arch, int64_t i);

// Whether `id` stands in arch->eos.
bool ax_arch_ends(const ax_arch *arch, int64_t id);

// Exact number of parameters, biases, norms and positions included; a tied head counts once.
int64_t ax_arch_parameters(const ax_arch *arch);

// Matmul flops of one sequence, forward and backward, as issued: 6 flops for each weight of a
// matmul and token (the head included, lookups not) and causal attention (half of T x T): the
// numerator of model_flops_per_s. `forward` counts the forward pass alone.
double ax_arch_flops(const ax_arch *arch, int64_t seq);
double ax_arch_flops_forward(const ax_arch *arch, int64_t seq);

// The published formula for GPT models, full recompute (factor 96) or none (72): Narayanan et al.,
// SC21, eq. 3: c * B S L H^2 (1 + S/(6H) + V/(16 L H)), for B = 1.
double ax_arch_flops_published(const ax_arch *arch, int64_t seq, bool recompute);

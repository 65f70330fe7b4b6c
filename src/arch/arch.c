#include "arch/arch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const ax_option ax_arch_options[] = {
    {"model.arch", AX_OPT_CHOICE, offsetof(ax_arch, kind), "llama", "gpt|llama",
     "block: gpt (LayerNorm, biases, learned positions, GELU) or llama (RMSNorm, RoPE, SwiGLU)"},
    {"model.layers", AX_OPT_INT, offsetof(ax_arch, layers), "4", "1..65536", "blocks"},
    {"model.hidden", AX_OPT_INT, offsetof(ax_arch, hidden), "256", "1..1048576",
     "width of the residual stream"},
    {"model.heads", AX_OPT_INT, offsetof(ax_arch, heads), "4", "1..65536", "attention heads"},
    {"model.kv_heads", AX_OPT_INT, offsetof(ax_arch, kv_heads), "0", "0..65536",
     "key and value heads; 0: as many as heads"},
    {"model.head_dim", AX_OPT_INT, offsetof(ax_arch, head_dim), "0", "0..65536",
     "width of a head; 0: hidden / heads"},
    {"model.ffn", AX_OPT_INT, offsetof(ax_arch, ffn), "0", "0..16777216",
     "feed-forward width; 0: 4 hidden for gpt, 8/3 hidden rounded up to a multiple of 64 for "
     "llama"},
    {"model.vocab", AX_OPT_INT, offsetof(ax_arch, vocab), "0", "0..134217728",
     "vocabulary; 0: the tokenizer's"},
    {"model.seq", AX_OPT_INT, offsetof(ax_arch, seq), "256", "1..134217728",
     "tokens of a sequence"},
    {"model.tied", AX_OPT_CHOICE, offsetof(ax_arch, tied), "auto", "off|on|auto",
     "head and embedding are one matrix; auto: on for gpt, off for llama"},
    {"model.norm_eps", AX_OPT_REAL, offsetof(ax_arch, norm_eps), "1e-5", "0..1",
     "added to the variance in norms"},
    {"model.rope_theta", AX_OPT_REAL, offsetof(ax_arch, rope_theta), "10000", "1..",
     "base of the rotary angles (llama)"},
    {"model.init_std", AX_OPT_REAL, offsetof(ax_arch, init_std), "0.02", "0..10",
     "standard deviation of initial weights"},
    {"model.attention_bias", AX_OPT_CHOICE, offsetof(ax_arch, attention_bias), "auto",
     "auto|off|on", "biases of q, k, v and the attention's output; auto: on for gpt"},
    {"model.mlp_bias", AX_OPT_CHOICE, offsetof(ax_arch, mlp_bias), "auto", "auto|off|on",
     "biases of the feed-forward layer; auto: on for gpt"},
    {"model.rope_scaling", AX_OPT_CHOICE, offsetof(ax_arch, rope_scaling), "none",
     "none|linear|llama3", "how rotary frequencies are stretched to longer texts (llama)"},
    {"model.rope_factor", AX_OPT_REAL, offsetof(ax_arch, rope_factor), "1", "1..",
     "by how much rope_scaling stretches"},
    {"model.rope_low", AX_OPT_REAL, offsetof(ax_arch, rope_low), "1", "0..",
     "rope_scaling=llama3: wavelengths above rope_original / rope_low are stretched"},
    {"model.rope_high", AX_OPT_REAL, offsetof(ax_arch, rope_high), "4", "0..",
     "rope_scaling=llama3: wavelengths below rope_original / rope_high are kept"},
    {"model.rope_original", AX_OPT_INT, offsetof(ax_arch, rope_original), "8192", "1..134217728",
     "rope_scaling=llama3: tokens of a sequence before stretching"},
    {"model.eos", AX_OPT_LIST, offsetof(ax_arch, eos), "", "",
     "ids that end a text; empty: the tokenizer's"},
    {0},
};

enum { UNTIED, TIED, AUTO_TIED };

// What no published pretraining shape differs in.
#define PLAIN_ROPE .rope_factor = 1, .rope_low = 1, .rope_high = 4, .rope_original = 8192, .eos = ""
#define GPT(label, L, H, A, V, T)                                                                  \
    {                                                                                              \
        label,                                                                                     \
        {                                                                                          \
            .kind = AX_GPT, .layers = L, .hidden = H, .heads = A, .vocab = V, .seq = T,            \
            .tied = TIED, .norm_eps = 1e-5, .rope_theta = 1e4, .init_std = 0.02, PLAIN_ROPE        \
        }                                                                                          \
    }
#define LLAMA(label, L, H, A, K, F, V, T, theta, tie)                                              \
    {                                                                                              \
        label,                                                                                     \
        {                                                                                          \
            .kind = AX_LLAMA, .layers = L, .hidden = H, .heads = A, .kv_heads = K, .ffn = F,       \
            .vocab = V, .seq = T, .tied = tie, .norm_eps = 1e-5, .rope_theta = theta,              \
            .init_std = 0.02, PLAIN_ROPE                                                           \
        }                                                                                          \
    }

// Shapes as their authors published them. The sequence of Llama 3.1 and 3.2 is the one they were
// pretrained with, before the extension to long contexts. The gpt-*b family is the one that 4D
// scaling studies use, with the vocabulary padded to 51200.
static const struct {
    const char *name;
    ax_arch arch;
} presets[] = {
    LLAMA("tiny", 2, 64, 4, 2, 192, 0, 64, 1e4, UNTIED),
    GPT("gpt2-124m", 12, 768, 12, 50257, 1024),
    GPT("gpt-5b", 24, 4096, 32, 51200, 2048),
    GPT("gpt-10b", 32, 5120, 40, 51200, 2048),
    GPT("gpt-20b", 32, 7168, 56, 51200, 2048),
    GPT("gpt-40b", 38, 9216, 72, 51200, 2048),
    GPT("gpt-60b", 56, 9216, 72, 51200, 2048),
    GPT("gpt-80b", 42, 12288, 96, 51200, 2048),
    GPT("gpt-160b", 84, 12288, 96, 51200, 2048),
    GPT("gpt-320b", 96, 16384, 128, 51200, 2048),
    GPT("gpt-640b", 192, 16384, 128, 51200, 2048),
    LLAMA("llama2-7b", 32, 4096, 32, 32, 11008, 32000, 4096, 1e4, UNTIED),
    LLAMA("llama2-13b", 40, 5120, 40, 40, 13824, 32000, 4096, 1e4, UNTIED),
    LLAMA("llama2-70b", 80, 8192, 64, 8, 28672, 32000, 4096, 1e4, UNTIED),
    LLAMA("llama3.1-8b", 32, 4096, 32, 8, 14336, 128256, 8192, 5e5, UNTIED),
    LLAMA("llama3.1-70b", 80, 8192, 64, 8, 28672, 128256, 8192, 5e5, UNTIED),
    LLAMA("llama3.1-405b", 126, 16384, 128, 8, 53248, 128256, 8192, 5e5, UNTIED),
    LLAMA("llama3.2-1b", 16, 2048, 32, 8, 8192, 128256, 8192, 5e5, TIED),
    LLAMA("llama3.2-3b", 28, 3072, 24, 8, 8192, 128256, 8192, 5e5, TIED),
};
enum { PRESETS = sizeof presets / sizeof presets[0] };

const char *const *ax_arch_presets(void)
{
    static const char *const names[] = {
        "tiny",         "gpt2-124m",     "gpt-5b",      "gpt-10b",     "gpt-20b",
        "gpt-40b",      "gpt-60b",       "gpt-80b",     "gpt-160b",    "gpt-320b",
        "gpt-640b",     "llama2-7b",     "llama2-13b",  "llama2-70b",  "llama3.1-8b",
        "llama3.1-70b", "llama3.1-405b", "llama3.2-1b", "llama3.2-3b", NULL,
    };
    _Static_assert(sizeof names / sizeof names[0] == PRESETS + 1, "one name a preset");
    return names;
}

ax_status ax_arch_preset(const char *name, ax_arch *arch)
{
    for (int i = 0; i < PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0) {
            *arch = presets[i].arch;
            return AX_OK;
        }
    const char *near = ax_nearest(name, ax_arch_presets());
    if (near)
        AX_FAIL(AX_EUSAGE, "model.preset=%s: no such preset; the nearest is '%s'", name, near);
    AX_FAIL(AX_EUSAGE,
            "model.preset=%s: no such preset; there are tiny, gpt2-124m, gpt-5b to "
            "gpt-640b, llama2-7b to llama3.2-3b",
            name);
}

// The limits keep every count of this file inside int64_t: 2^16 blocks of at most
// 3 * 2^20 * 2^24 + 4 * 2^20 * 2^20 + small weights stay below 2^62.
enum { MAX_LAYERS = 1 << 16, MAX_WIDTH = 1 << 20, MAX_FFN = 1 << 24, MAX_IDS = 1 << 27 };

static ax_status check_range(const char *key, int64_t value, int64_t high)
{
    AX_CHECK(value >= 1 && value <= high, AX_EUSAGE, "%s=%lld: must be in 1..%lld", key,
             (long long)value, (long long)high);
    return AX_OK;
}

static ax_status check_heads(ax_arch *a)
{
    long long hidden = a->hidden, heads = a->heads;
    AX_TRY(check_range("model.heads", heads, MAX_WIDTH));
    if (a->kv_heads == 0)
        a->kv_heads = heads;
    AX_TRY(check_range("model.kv_heads", a->kv_heads, heads));
    AX_CHECK(heads % a->kv_heads == 0, AX_EUSAGE,
             "model.heads=%lld must be a multiple of model.kv_heads=%lld", heads,
             (long long)a->kv_heads);
    if (a->head_dim == 0) {
        AX_CHECK(hidden % heads == 0, AX_EUSAGE,
                 "model.hidden=%lld does not divide by model.heads=%lld; change one or set "
                 "model.head_dim",
                 hidden, heads);
        a->head_dim = hidden / heads;
    }
    AX_TRY(check_range("model.head_dim", a->head_dim, MAX_WIDTH / heads));
    AX_CHECK(a->kind != AX_LLAMA || a->head_dim % 2 == 0, AX_EUSAGE,
             "model.head_dim=%lld: rotary positions turn pairs, so it must be even",
             (long long)a->head_dim);
    return AX_OK;
}

// GPT has its biases, always; a key that says otherwise is not passed over.
static ax_status check_bias(const ax_arch *a, const char *key, int64_t *bias)
{
    bool gpt = a->kind == AX_GPT;
    if (*bias == AX_BIAS_AUTO)
        *bias = gpt ? AX_BIAS_ON : AX_BIAS_OFF;
    AX_CHECK(!gpt || *bias == AX_BIAS_ON, AX_EUSAGE, "%s=off: a gpt model has biases", key);
    return AX_OK;
}

static ax_status check_rope(ax_arch *a)
{
    AX_CHECK(a->rope_theta >= 1, AX_EUSAGE, "model.rope_theta=%g: must be at least 1",
             a->rope_theta);
    a->rope_factor = a->rope_factor == 0 ? 1 : a->rope_factor;
    a->rope_low = a->rope_low == 0 ? 1 : a->rope_low;
    a->rope_high = a->rope_high == 0 ? 4 : a->rope_high;
    a->rope_original = a->rope_original == 0 ? 8192 : a->rope_original;
    bool scaled = a->rope_scaling != AX_ROPE_PLAIN;
    AX_CHECK(a->rope_factor >= 1 && isfinite(a->rope_factor), AX_EUSAGE,
             "model.rope_factor=%g: must be at least 1", a->rope_factor);
    AX_CHECK(scaled || a->rope_factor == 1, AX_EUSAGE,
             "model.rope_factor=%g needs model.rope_scaling=linear or llama3", a->rope_factor);
    AX_CHECK(!scaled || a->kind == AX_LLAMA, AX_EUSAGE,
             "model.rope_scaling: a gpt model has no rotary positions");
    AX_CHECK(a->rope_low > 0 && a->rope_high > a->rope_low, AX_EUSAGE,
             "model.rope_high=%g must be above model.rope_low=%g, and both above 0", a->rope_high,
             a->rope_low);
    return check_range("model.rope_original", a->rope_original, MAX_IDS);
}

// Reads the id at *at, and moves behind it and its comma.
static bool next_end(const char **at, int64_t *id)
{
    char word[24];
    size_t n = strcspn(*at, ",");
    if (n == 0 || n >= sizeof word)
        return false;
    memcpy(word, *at, n);
    word[n] = 0;
    *at += n + ((*at)[n] == ',');
    return ax_parse_int(word, id);
}

static ax_status check_ends(const ax_arch *a)
{
    int64_t id;
    for (const char *at = a->eos ? a->eos : ""; *at;)
        AX_CHECK(next_end(&at, &id) && id >= 0 && id < a->vocab, AX_EUSAGE,
                 "model.eos=%s: must be ids below model.vocab=%lld, joined by commas", a->eos,
                 (long long)a->vocab);
    return AX_OK;
}

bool ax_arch_ends(const ax_arch *arch, int64_t id)
{
    int64_t end;
    for (const char *at = arch->eos ? arch->eos : ""; *at && next_end(&at, &end);)
        if (end == id)
            return true;
    return false;
}

ax_status ax_arch_check(ax_arch *arch)
{
    ax_arch a = *arch;
    AX_CHECK(a.kind == AX_GPT || a.kind == AX_LLAMA, AX_EUSAGE,
             "model.arch: neither gpt nor llama");
    AX_TRY(check_range("model.layers", a.layers, MAX_LAYERS));
    AX_TRY(check_range("model.hidden", a.hidden, MAX_WIDTH));
    AX_TRY(check_heads(&a));
    if (a.ffn == 0)
        a.ffn = a.kind == AX_GPT ? 4 * a.hidden : ((8 * a.hidden + 2) / 3 + 63) / 64 * 64;
    AX_TRY(check_range("model.ffn", a.ffn, MAX_FFN));
    AX_TRY(check_range("model.vocab", a.vocab, MAX_IDS));
    AX_TRY(check_range("model.seq", a.seq, MAX_IDS));
    if (a.tied == AUTO_TIED)
        a.tied = a.kind == AX_GPT ? TIED : UNTIED;
    AX_CHECK(a.norm_eps >= 0 && a.norm_eps <= 1, AX_EUSAGE, "model.norm_eps=%g: must be in 0..1",
             a.norm_eps);
    AX_TRY(check_rope(&a));
    AX_TRY(check_bias(&a, "model.attention_bias", &a.attention_bias));
    AX_TRY(check_bias(&a, "model.mlp_bias", &a.mlp_bias));
    AX_TRY(check_ends(&a));
    AX_CHECK(a.init_std >= 0, AX_EUSAGE, "model.init_std=%g: must not be negative", a.init_std);
    *arch = a;
    return AX_OK;
}

bool ax_arch_has_attention_bias(const ax_arch *arch)
{
    return arch->kind == AX_GPT || arch->attention_bias == AX_BIAS_ON;
}

bool ax_arch_has_mlp_bias(const ax_arch *arch)
{
    return arch->kind == AX_GPT || arch->mlp_bias == AX_BIAS_ON;
}

// theta^(-2i/D): RoFormer (arXiv 2104.09864), eq. 15; stretched as Llama 3.1 is.
double ax_arch_rope_frequency(const ax_arch *arch, int64_t i)
{
    const ax_arch *a = arch;
    double f = pow(a->rope_theta, -2.0 * (double)i / (double)a->head_dim);
    if (a->rope_scaling == AX_ROPE_PLAIN)
        return f;
    if (a->rope_scaling == AX_ROPE_LINEAR)
        return f / a->rope_factor;
    double turns = (double)a->rope_original * f / (2 * acos(-1.0)); // in the unscaled sequence
    if (turns < a->rope_low)
        return f / a->rope_factor;
    if (turns > a->rope_high)
        return f;
    double keep = (turns - a->rope_low) / (a->rope_high - a->rope_low);
    return (1 - keep) * f / a->rope_factor + keep * f;
}

// Weights of one block's matmuls.
static int64_t block_weights(const ax_arch *a)
{
    int64_t q = a->heads * a->head_dim, kv = a->kv_heads * a->head_dim;
    int64_t mlp = a->kind == AX_GPT ? 2 : 3; // fc, proj; or gate, up, down
    return a->hidden * (2 * q + 2 * kv) + mlp * a->hidden * a->ffn;
}

int64_t ax_arch_parameters(const ax_arch *arch)
{
    const ax_arch *a = arch;
    int64_t block = block_weights(a), norm = a->hidden, rest = 0;
    if (ax_arch_has_attention_bias(a)) // a bias for every output
        block += (a->heads + 2 * a->kv_heads) * a->head_dim + a->hidden;
    if (ax_arch_has_mlp_bias(a))
        block += (a->kind == AX_GPT ? 1 : 2) * a->ffn + a->hidden;
    if (a->kind == AX_GPT) {
        norm = 2 * a->hidden;      // weight and bias
        rest = a->seq * a->hidden; // learned positions
    }
    int64_t tables = (a->tied == TIED ? 1 : 2) * a->vocab * a->hidden;
    return tables + rest + a->layers * (block + 2 * norm) + norm;
}

double ax_arch_flops_forward(const ax_arch *arch, int64_t seq)
{
    double weights = (double)arch->layers * (double)block_weights(arch) +
                     (double)arch->vocab * (double)arch->hidden;
    double width = (double)(arch->heads * arch->head_dim), t = (double)seq;
    // Two matmuls of 2 T T D flops a head, of which the causal half is needed.
    double attention = (double)arch->layers * 2.0 * t * t * width;
    return 2.0 * weights * t + attention;
}

double ax_arch_flops(const ax_arch *arch, int64_t seq)
{
    return 3.0 * ax_arch_flops_forward(arch, seq);
}

double ax_arch_flops_published(const ax_arch *arch, int64_t seq, bool recompute)
{
    double s = (double)seq, l = (double)arch->layers, h = (double)arch->hidden;
    double factor = recompute ? 96.0 : 72.0;
    return factor * s * l * h * h * (1.0 + s / (6.0 * h) + (double)arch->vocab / (16.0 * l * h));
}

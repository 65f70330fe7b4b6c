#include "ckpt/hf_map.h"

#include <stdio.h>
#include <string.h>

// GPT-2 keeps matrices the other way round, and q, k and v side by side in one.
typedef enum form {
    PLAIN,
    TURNED,
    PACKED_Q,
    PACKED_K,
    PACKED_V,
} form;

typedef struct entry {
    const char *ours, *theirs;
    form form;
} entry;

static const entry gpt_ends[] = {
    {"embed.weight", "wte.weight", PLAIN},       {"positions.weight", "wpe.weight", PLAIN},
    {"final_norm.weight", "ln_f.weight", PLAIN}, {"final_norm.bias", "ln_f.bias", PLAIN},
    {"head.weight", "lm_head.weight", PLAIN},    {NULL, NULL, PLAIN}};

static const entry gpt_block[] = {{"attn_norm.weight", "ln_1.weight", PLAIN},
                                  {"attn_norm.bias", "ln_1.bias", PLAIN},
                                  {"attn.q.weight", "attn.c_attn.weight", PACKED_Q},
                                  {"attn.k.weight", "attn.c_attn.weight", PACKED_K},
                                  {"attn.v.weight", "attn.c_attn.weight", PACKED_V},
                                  {"attn.q.bias", "attn.c_attn.bias", PACKED_Q},
                                  {"attn.k.bias", "attn.c_attn.bias", PACKED_K},
                                  {"attn.v.bias", "attn.c_attn.bias", PACKED_V},
                                  {"attn.o.weight", "attn.c_proj.weight", TURNED},
                                  {"attn.o.bias", "attn.c_proj.bias", PLAIN},
                                  {"mlp_norm.weight", "ln_2.weight", PLAIN},
                                  {"mlp_norm.bias", "ln_2.bias", PLAIN},
                                  {"mlp.up.weight", "mlp.c_fc.weight", TURNED},
                                  {"mlp.up.bias", "mlp.c_fc.bias", PLAIN},
                                  {"mlp.down.weight", "mlp.c_proj.weight", TURNED},
                                  {"mlp.down.bias", "mlp.c_proj.bias", PLAIN},
                                  {NULL, NULL, PLAIN}};

static const entry llama_ends[] = {{"embed.weight", "model.embed_tokens.weight", PLAIN},
                                   {"final_norm.weight", "model.norm.weight", PLAIN},
                                   {"head.weight", "lm_head.weight", PLAIN},
                                   {NULL, NULL, PLAIN}};

static const entry llama_block[] = {{"attn_norm.weight", "input_layernorm.weight", PLAIN},
                                    {"attn.q.weight", "self_attn.q_proj.weight", PLAIN},
                                    {"attn.k.weight", "self_attn.k_proj.weight", PLAIN},
                                    {"attn.v.weight", "self_attn.v_proj.weight", PLAIN},
                                    {"attn.o.weight", "self_attn.o_proj.weight", PLAIN},
                                    {"attn.q.bias", "self_attn.q_proj.bias", PLAIN},
                                    {"attn.k.bias", "self_attn.k_proj.bias", PLAIN},
                                    {"attn.v.bias", "self_attn.v_proj.bias", PLAIN},
                                    {"attn.o.bias", "self_attn.o_proj.bias", PLAIN},
                                    {"mlp_norm.weight", "post_attention_layernorm.weight", PLAIN},
                                    {"mlp.gate.weight", "mlp.gate_proj.weight", PLAIN},
                                    {"mlp.up.weight", "mlp.up_proj.weight", PLAIN},
                                    {"mlp.down.weight", "mlp.down_proj.weight", PLAIN},
                                    {"mlp.gate.bias", "mlp.gate_proj.bias", PLAIN},
                                    {"mlp.up.bias", "mlp.up_proj.bias", PLAIN},
                                    {"mlp.down.bias", "mlp.down_proj.bias", PLAIN},
                                    {NULL, NULL, PLAIN}};

static const entry *find(const entry *table, const char *ours)
{
    for (; table->ours; table++)
        if (strcmp(table->ours, ours) == 0)
            return table;
    return NULL;
}

// Splits "blk.3.attn.q.weight"; -1 and the name itself where there is no block.
static const char *split_name(const char *name, int *block)
{
    int n = 0;
    *block = -1;
    if (sscanf(name, "blk.%d.%n", block, &n) == 1 && n > 0)
        return name + n;
    *block = -1;
    return name;
}

static void set_name(const ax_hf_map *m, const entry *e, int block, ax_hf_place *out)
{
    bool gpt = m->arch->kind == AX_GPT, head = strcmp(e->theirs, "lm_head.weight") == 0;
    const char *front = gpt && !m->bare && !head ? "transformer." : "";
    if (block < 0)
        snprintf(out->name, sizeof out->name, "%s%s", front, e->theirs);
    else
        snprintf(out->name, sizeof out->name, "%s%s.%d.%s", front, gpt ? "h" : "model.layers",
                 block, e->theirs);
}

static void set_shape(const ax_hf_map *m, const entry *e, const ax_param *p, ax_hf_place *out)
{
    bool packed = e->form >= PACKED_Q, vector = !p->matrix && p->rows == 1;
    int64_t rows = p->rows, parts = packed ? 3 : 1;
    if (strcmp(p->name, "positions.weight") == 0) {
        rows = m->positions;
        vector = false;
    }
    out->transposed = e->form != PLAIN && !vector;
    out->dims = vector ? 1 : 2;
    out->shape[0] = vector ? parts * p->cols : out->transposed ? p->cols : rows;
    out->shape[1] = vector ? 0 : out->transposed ? parts * rows : p->cols;
    out->first = packed ? (int64_t)(e->form - PACKED_Q) * (vector ? p->cols : rows) : 0;
}

ax_status ax_hf_place_of(const ax_hf_map *m, const ax_param *p, ax_hf_place *out)
{
    int block;
    bool gpt = m->arch->kind == AX_GPT;
    const char *ours = split_name(p->name, &block);
    const entry *ends = gpt ? gpt_ends : llama_ends, *inner = gpt ? gpt_block : llama_block;
    const entry *e = find(block < 0 ? ends : inner, ours);
    AX_CHECK(e, AX_EINTERNAL, "parameter %s has no name in a Hugging Face model", p->name);
    *out = (ax_hf_place){0};
    set_name(m, e, block, out);
    set_shape(m, e, p, out);
    return AX_OK;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

bool ax_hf_is_spare(const ax_hf_map *m, const char *name)
{
    if (strcmp(name, "lm_head.weight") == 0)
        return m->arch->tied;
    if (m->arch->kind == AX_GPT)
        return ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias");
    return ends_with(name, ".rotary_emb.inv_freq");
}

ax_status ax_hf_map_check(const ax_arch *arch)
{
    const ax_arch *a = arch;
    if (a->kind != AX_GPT)
        return AX_OK;
    AX_CHECK(a->kv_heads == a->heads, AX_EUNSUPPORTED,
             "model.kv_heads=%lld of %lld heads: a Hugging Face GPT-2 has no shared heads",
             (long long)a->kv_heads, (long long)a->heads);
    AX_CHECK(a->heads * a->head_dim == a->hidden, AX_EUNSUPPORTED,
             "model.head_dim=%lld: the heads of a Hugging Face GPT-2 are hidden / heads wide",
             (long long)a->head_dim);
    return AX_OK;
}

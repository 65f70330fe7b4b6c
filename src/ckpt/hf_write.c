#include "ckpt/hf_write.h"

#include "ckpt/companions.h"
#include "ckpt/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Numbers as people write them (1e-5) where that is exact, else in full.
static char *print_json(const json_t *root)
{
    size_t flags = JSON_INDENT(2) | JSON_SORT_KEYS;
    char *text = json_dumps(root, flags | JSON_REAL_PRECISION(15));
    json_t *again = text ? json_loads(text, 0, NULL) : NULL;
    bool exact = again && json_equal(root, again);
    json_decref(again);
    if (exact)
        return text;
    free(text);
    return json_dumps(root, flags);
}

// Takes `root`; NULL: memory ran out on the way.
static ax_status write_json(const char *dir, const char *name, json_t *root)
{
    char path[AX_PATH_MAX];
    int fd = -1;
    char *text = root ? print_json(root) : NULL;
    json_decref(root);
    AX_CHECK(text, AX_ENOMEM, "%s: no memory for %s", dir, name);
    ax_status st = ax_disk_join(path, dir, name);
    if (st == AX_OK)
        st = ax_disk_open(path, O_WRONLY | O_CREAT | O_EXCL, &fd);
    if (st == AX_OK) {
        size_t n = strlen(text);
        text[n] = '\n'; // in place of the end, which a file does not need
        st = ax_disk_write(fd, path, text, n + 1, 0);
        if (st == AX_OK)
            st = ax_disk_sync(fd, path);
        ax_status closed = ax_disk_close(fd, path);
        st = st == AX_OK ? closed : st;
    }
    free(text);
    return st;
}

// ---- config.json

static const char *dtype_name(ax_st_dtype dtype)
{
    return dtype == AX_ST_F16 ? "float16" : dtype == AX_ST_BF16 ? "bfloat16" : "float32";
}

static json_t *ends_of(const char *eos)
{
    json_t *list = json_array();
    for (const char *at = eos ? eos : ""; *at;) {
        char *end;
        json_array_append_new(list, json_integer(strtoll(at, &end, 10)));
        at = end + (*end == ',');
    }
    json_t *all = list;
    if (json_array_size(list) < 2) {
        all = json_array_size(list) ? json_incref(json_array_get(list, 0)) : json_null();
        json_decref(list);
    }
    return all;
}

static json_t *gpt_config(const ax_arch *a)
{
    json_t *inner = a->ffn == 4 * a->hidden ? json_null() : json_integer(a->ffn);
    return json_pack("{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:f, s:b}", "architectures",
                     "GPT2LMHeadModel", "model_type", "gpt2", "activation_function", "gelu_new",
                     "n_positions", (json_int_t)a->seq, "n_embd", (json_int_t)a->hidden, "n_layer",
                     (json_int_t)a->layers, "n_head", (json_int_t)a->heads, "n_inner", inner,
                     "layer_norm_epsilon", a->norm_eps, "tie_word_embeddings", (int)a->tied);
}

static json_t *scaling_of(const ax_arch *a)
{
    if (a->rope_scaling == AX_ROPE_PLAIN)
        return json_null();
    if (a->rope_scaling == AX_ROPE_LINEAR)
        return json_pack("{s:s, s:s, s:f}", "rope_type", "linear", "type", "linear", "factor",
                         a->rope_factor);
    return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", a->rope_factor,
                     "low_freq_factor", a->rope_low, "high_freq_factor", a->rope_high,
                     "original_max_position_embeddings", (json_int_t)a->rope_original);
}

static json_t *llama_config(const ax_arch *a)
{
    json_t *c = json_pack("{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o}",
                          "architectures", "LlamaForCausalLM", "model_type", "llama", "hidden_act",
                          "silu", "max_position_embeddings", (json_int_t)a->seq, "hidden_size",
                          (json_int_t)a->hidden, "intermediate_size", (json_int_t)a->ffn,
                          "num_hidden_layers", (json_int_t)a->layers, "num_attention_heads",
                          (json_int_t)a->heads, "num_key_value_heads", (json_int_t)a->kv_heads,
                          "head_dim", (json_int_t)a->head_dim, "rms_norm_eps", a->norm_eps,
                          "rope_theta", a->rope_theta, "rope_scaling", scaling_of(a));
    if (!c)
        return NULL;
    json_object_set_new(c, "tie_word_embeddings", json_boolean(a->tied));
    json_object_set_new(c, "attention_bias", json_boolean(ax_arch_has_attention_bias(a)));
    json_object_set_new(c, "mlp_bias", json_boolean(ax_arch_has_mlp_bias(a)));
    return c;
}

// The origin's ids and its longest sequence (which training on shorter ones does not shorten) stay;
// the older spellings of two keys, which every reader knows, stand for the newer ones.
static void add_origin(json_t *config, const char *origin)
{
    static const char *const stale[] = {"rope_parameters", "dtype", "transformers_version"};
    char path[AX_PATH_MAX];
    if (!origin || ax_disk_join(path, origin, "config.json") != AX_OK || access(path, F_OK) != 0)
        return;
    json_t *theirs = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    for (size_t i = 0; i < sizeof stale / sizeof stale[0]; i++)
        json_object_del(theirs, stale[i]);
    json_int_t longest = json_integer_value(json_object_get(theirs, "max_position_embeddings"));
    json_t *ours = json_object_get(config, "max_position_embeddings");
    if (longest > json_integer_value(ours))
        json_integer_set(ours, longest);
    json_object_update_missing(config, theirs);
    json_decref(theirs);
}

// Left out, these would be read as ids of a vocabulary that this need not be, and as a dropout that
// this model never had.
static void add_missing(json_t *config, int64_t kind)
{
    json_t *rest = kind == AX_GPT
                       ? json_pack("{s:n, s:n, s:f, s:f, s:f}", "bos_token_id", "eos_token_id",
                                   "attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop", 0.0)
                       : json_pack("{s:n, s:n, s:f}", "bos_token_id", "eos_token_id",
                                   "attention_dropout", 0.0);
    json_object_update_missing(config, rest);
    json_decref(rest);
}

ax_status ax_hf_write_config(const char *dir, const ax_hf_export *e)
{
    const ax_arch *a = e->arch;
    json_t *c = a->kind == AX_GPT ? gpt_config(a) : llama_config(a);
    AX_CHECK(c, AX_ENOMEM, "%s: no memory for its config.json", dir);
    json_object_set_new(c, "vocab_size", json_integer(a->vocab));
    json_object_set_new(c, "torch_dtype", json_string(dtype_name(e->dtype)));
    json_object_set_new(c, "initializer_range", json_real(a->init_std));
    json_object_set_new(c, "use_cache", json_true());
    add_origin(c, e->origin);
    if (a->eos && *a->eos)
        json_object_set_new(c, "eos_token_id", ends_of(a->eos));
    add_missing(c, a->kind);
    return write_json(dir, "config.json", c);
}

ax_status ax_hf_write_index(const char *dir, const ax_st_tensor *list, int count,
                            const char *(*file)(void *ctx, int tensor), void *ctx)
{
    json_t *map = json_object();
    json_int_t total = 0;
    for (int i = 0; i < count; i++) {
        json_object_set_new(map, list[i].name, json_string(file(ctx, i)));
        total += list[i].end - list[i].begin;
    }
    json_t *root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", total, "weight_map", map);
    return write_json(dir, "model.safetensors.index.json", root);
}

ax_status ax_hf_copy_companions(const char *from, const char *to, bool config)
{
    unsigned kinds = AX_COMPANION_GENERATION | AX_COMPANION_TOKENIZER;
    return ax_companions_copy(from, to, kinds | (config ? AX_COMPANION_CONFIG : 0));
}

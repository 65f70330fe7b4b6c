// config.json of GPT-2 and Llama models, as a shape.
#include "ckpt/hf.h"
#include "ckpt/disk.h"
#include "ckpt/hf_map.h"
#include "ckpt/manifest.h"

#include "base/log.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_file(const char *dir, const char *name)
{
    char path[AX_PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

bool ax_hf_is(const char *dir)
{
    return has_file(dir, "config.json") && !has_file(dir, AX_MANIFEST_NAME);
}

bool ax_hf_has_tokenizer(const char *dir)
{
    return has_file(dir, "tokenizer.json") || has_file(dir, "vocab.json");
}

// ---- values

typedef struct reader {
    char path[AX_PATH_MAX];
    const json_t *root; // an object
} reader;

// Absent and null both mean the default.
static const json_t *look(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_null(v) ? NULL : v;
}

static ax_status get_int(const reader *r, const json_t *from, const char *key, int64_t otherwise,
                         int64_t *out)
{
    const json_t *v = look(from, key);
    AX_CHECK(!v || (json_is_integer(v) && json_integer_value(v) > 0), AX_EFORMAT,
             "%s: '%s' is not a positive integer", r->path, key);
    *out = v ? json_integer_value(v) : otherwise;
    return AX_OK;
}

static ax_status get_real(const reader *r, const json_t *from, const char *key, double otherwise,
                          double *out)
{
    const json_t *v = look(from, key);
    AX_CHECK(!v || json_is_number(v), AX_EFORMAT, "%s: '%s' is not a number", r->path, key);
    *out = v ? json_number_value(v) : otherwise;
    return AX_OK;
}

static ax_status get_flag(const reader *r, const char *key, bool otherwise, bool *out)
{
    const json_t *v = look(r->root, key);
    AX_CHECK(!v || json_is_boolean(v), AX_EFORMAT, "%s: '%s' is neither true nor false", r->path,
             key);
    *out = v ? json_is_true(v) : otherwise;
    return AX_OK;
}

static ax_status get_text(const reader *r, const json_t *from, const char *key,
                          const char *otherwise, const char **out)
{
    const json_t *v = look(from, key);
    AX_CHECK(!v || json_is_string(v), AX_EFORMAT, "%s: '%s' is not a string", r->path, key);
    *out = v ? json_string_value(v) : otherwise;
    return AX_OK;
}

// ---- what is known

enum { GPT = 1, LLAMA = 2, BOTH = 3 };

static const struct {
    const char *key;
    int models;
} known[] = {
    {"architectures", BOTH},
    {"model_type", BOTH},
    {"vocab_size", BOTH},
    {"tie_word_embeddings", BOTH},
    {"bos_token_id", BOTH},
    {"eos_token_id", BOTH},
    {"pad_token_id", BOTH},
    {"torch_dtype", BOTH},
    {"dtype", BOTH},
    {"initializer_range", BOTH},
    {"use_cache", BOTH},
    {"transformers_version", BOTH},
    {"_name_or_path", BOTH},
    {"_attn_implementation_autoset", BOTH},
    {"quantization_config", BOTH},
    {"sliding_window", BOTH},
    {"use_sliding_window", BOTH},
    {"partial_rotary_factor", BOTH},
    {"task_specific_params", BOTH},
    {"gradient_checkpointing", BOTH},
    {"output_attentions", BOTH},
    {"output_hidden_states", BOTH},
    {"return_dict", BOTH},
    {"torchscript", BOTH},
    {"is_encoder_decoder", BOTH},
    {"id2label", BOTH},
    {"label2id", BOTH},
    {"num_labels", BOTH},
    {"n_positions", GPT},
    {"n_ctx", GPT},
    {"n_embd", GPT},
    {"n_layer", GPT},
    {"n_head", GPT},
    {"n_inner", GPT},
    {"activation_function", GPT},
    {"layer_norm_epsilon", GPT},
    {"scale_attn_weights", GPT},
    {"scale_attn_by_inverse_layer_idx", GPT},
    {"reorder_and_upcast_attn", GPT},
    {"add_cross_attention", GPT},
    {"summary_activation", GPT},
    {"summary_first_dropout", GPT},
    {"summary_proj_to_labels", GPT},
    {"summary_type", GPT},
    {"summary_use_proj", GPT},
    {"hidden_size", LLAMA},
    {"intermediate_size", LLAMA},
    {"num_hidden_layers", LLAMA},
    {"num_attention_heads", LLAMA},
    {"num_key_value_heads", LLAMA},
    {"head_dim", LLAMA},
    {"hidden_act", LLAMA},
    {"max_position_embeddings", LLAMA},
    {"rms_norm_eps", LLAMA},
    {"rope_theta", LLAMA},
    {"rope_scaling", LLAMA},
    {"rope_parameters", LLAMA},
    {"attention_bias", LLAMA},
    {"mlp_bias", LLAMA},
    {"pretraining_tp", LLAMA},
};

static const char *const known_rope[] = {"rope_type",
                                         "type",
                                         "rope_theta",
                                         "factor",
                                         "low_freq_factor",
                                         "high_freq_factor",
                                         "original_max_position_embeddings",
                                         "partial_rotary_factor"};

static const char *const dropouts[] = {"attention_dropout", "attn_pdrop",     "resid_pdrop",
                                       "embd_pdrop",        "hidden_dropout", "dropout"};

static bool is_one_of(const char *key, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(key, list[i]) == 0)
            return true;
    return false;
}
#define IS_ONE_OF(key, list) is_one_of(key, list, sizeof(list) / sizeof(list)[0])

static bool is_known(const char *key, ax_arch_kind kind)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(key, known[i].key) == 0)
            return known[i].models & (kind == AX_GPT ? GPT : LLAMA);
    return false;
}

static void list_key(ax_text *list, const char *front, const char *key)
{
    ax_text_add(list, "%s%s%s", list->length ? ", " : "", front, key);
}

static void list_rope_keys(const json_t *root, const char *name, ax_text *unknown)
{
    const char *key;
    json_t *value;
    char front[32];
    snprintf(front, sizeof front, "%s.", name);
    json_t *rope = json_object_get(root, name);
    json_object_foreach(rope, key, value) if (!IS_ONE_OF(key, known_rope))
        list_key(unknown, front, key);
}

// Once for the job: rank 0 speaks.
static void warn_of_keys(const reader *r, ax_arch_kind kind)
{
    ax_text unknown = {0}, dropout = {0};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)r->root, key, value)
    {
        if (IS_ONE_OF(key, dropouts)) {
            if (json_number_value(value) != 0)
                list_key(&dropout, "", key);
        } else if (!is_known(key, kind)) {
            list_key(&unknown, "", key);
        }
    }
    list_rope_keys(r->root, "rope_scaling", &unknown);
    list_rope_keys(r->root, "rope_parameters", &unknown);
    bool speak = ax_log_current().rank == 0;
    if (speak && dropout.length)
        ax_log(AX_LOG_INFO, "model", "%s: dropout is not applied (%s)", r->path, dropout.text);
    if (speak && unknown.length)
        ax_log(AX_LOG_WARN, "model", "%s: keys that are not known here are passed over: %s",
               r->path, unknown.text);
    ax_text_fini(&unknown);
    ax_text_fini(&dropout);
}

// ---- what is refused

static ax_status refuse(const reader *r, bool in_use, const char *key, const char *what)
{
    AX_CHECK(!in_use, AX_EUNSUPPORTED, "%s: '%s': %s is not implemented", r->path, key, what);
    return AX_OK;
}

static ax_status check_partial(const reader *r, const json_t *from)
{
    double share;
    AX_TRY(get_real(r, from, "partial_rotary_factor", 1, &share));
    return refuse(r, share != 1, "partial_rotary_factor", "rotating a part of each head");
}

// Heads other than the one over the vocabulary, and bare bodies, go by other names here.
static ax_status check_architectures(const reader *r, ax_arch_kind kind)
{
    const char *wanted = kind == AX_GPT ? "GPT2LMHeadModel" : "LlamaForCausalLM";
    const json_t *list = look(r->root, "architectures");
    AX_CHECK(!list || json_is_array(list), AX_EFORMAT, "%s: 'architectures' is not a list",
             r->path);
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_t *name = json_array_get(list, i);
        AX_CHECK(json_is_string(name), AX_EFORMAT, "%s: 'architectures' holds what is no string",
                 r->path);
        if (strcmp(json_string_value(name), wanted) == 0)
            return AX_OK;
    }
    AX_CHECK(n == 0, AX_EUNSUPPORTED, "%s: architectures: '%.80s' is not implemented; '%s' is",
             r->path, json_string_value(json_array_get(list, 0)), wanted);
    return AX_OK;
}

static ax_status check_refused(const reader *r, ax_arch_kind kind)
{
    bool window, scale, by_layer, cross;
    AX_TRY(check_architectures(r, kind));
    AX_TRY(get_flag(r, "use_sliding_window", true, &window));
    window = window && look(r->root, "sliding_window");
    AX_TRY(refuse(r, window, "sliding_window", "attention over a sliding window"));
    AX_TRY(refuse(r, look(r->root, "quantization_config") != NULL, "quantization_config",
                  "a quantized model"));
    AX_TRY(check_partial(r, r->root));
    if (kind != AX_GPT)
        return AX_OK;
    AX_TRY(get_flag(r, "scale_attn_by_inverse_layer_idx", false, &by_layer));
    AX_TRY(refuse(r, by_layer, "scale_attn_by_inverse_layer_idx", "scaling scores by layer"));
    AX_TRY(get_flag(r, "scale_attn_weights", true, &scale));
    AX_TRY(refuse(r, !scale, "scale_attn_weights", "attention without its scale"));
    AX_TRY(get_flag(r, "add_cross_attention", false, &cross));
    return refuse(r, cross, "add_cross_attention", "attention to an encoder");
}

static ax_status check_activation(const reader *r, const char *key, const char *const names[2])
{
    const char *name;
    AX_TRY(get_text(r, r->root, key, names[0], &name));
    AX_CHECK(strcmp(name, names[0]) == 0 || strcmp(name, names[1]) == 0, AX_EUNSUPPORTED,
             "%s: '%s' is '%s'; only '%s' is implemented", r->path, key, name, names[0]);
    return AX_OK;
}

// ---- shapes

static ax_status read_gpt(const reader *r, ax_hf_config *out)
{
    static const char *const gelu[2] = {"gelu_new", "gelu_pytorch_tanh"};
    const json_t *c = r->root;
    ax_arch *a = &out->arch;
    bool tied;
    AX_TRY(check_activation(r, "activation_function", gelu));
    AX_TRY(get_int(r, c, "vocab_size", 50257, &a->vocab));
    AX_TRY(get_int(r, c, "n_positions", 1024, &a->seq));
    AX_TRY(get_int(r, c, "n_embd", 768, &a->hidden));
    AX_TRY(get_int(r, c, "n_layer", 12, &a->layers));
    AX_TRY(get_int(r, c, "n_head", 12, &a->heads));
    AX_TRY(get_int(r, c, "n_inner", 0, &a->ffn));
    AX_TRY(get_real(r, c, "layer_norm_epsilon", 1e-5, &a->norm_eps));
    AX_TRY(get_flag(r, "tie_word_embeddings", true, &tied));
    a->tied = tied;
    out->positions = a->seq;
    AX_CHECK(a->hidden % a->heads == 0, AX_EFORMAT,
             "%s: n_embd %lld does not divide by n_head %lld", r->path, (long long)a->hidden,
             (long long)a->heads);
    return AX_OK;
}

static ax_status read_scaling(const reader *r, const json_t *rope, ax_arch *a)
{
    const char *type, *older;
    AX_TRY(get_text(r, rope, "type", "default", &older));
    AX_TRY(get_text(r, rope, "rope_type", older, &type));
    AX_TRY(check_partial(r, rope));
    if (strcmp(type, "default") == 0)
        return AX_OK;
    bool llama3 = strcmp(type, "llama3") == 0;
    AX_CHECK(llama3 || strcmp(type, "linear") == 0, AX_EUNSUPPORTED,
             "%s: rope_type '%s' is not implemented; default, linear and llama3 are", r->path,
             type);
    a->rope_scaling = llama3 ? AX_ROPE_LLAMA3 : AX_ROPE_LINEAR;
    static const char *const needed[] = {"factor", "low_freq_factor", "high_freq_factor",
                                         "original_max_position_embeddings"};
    for (int i = 0; i < (llama3 ? 4 : 1); i++)
        AX_CHECK(look(rope, needed[i]), AX_EFORMAT, "%s: rope_type '%s' has no '%s'", r->path, type,
                 needed[i]);
    AX_TRY(get_real(r, rope, needed[0], 1, &a->rope_factor));
    if (!llama3)
        return AX_OK;
    AX_TRY(get_real(r, rope, needed[1], 1, &a->rope_low));
    AX_TRY(get_real(r, rope, needed[2], 4, &a->rope_high));
    return get_int(r, rope, needed[3], 8192, &a->rope_original);
}

// The newer rope_parameters has all in one; older files keep the base outside of rope_scaling.
static ax_status read_rope(const reader *r, ax_arch *a)
{
    const json_t *rope = look(r->root, "rope_parameters");
    rope = rope ? rope : look(r->root, "rope_scaling");
    AX_CHECK(!rope || json_is_object(rope), AX_EFORMAT,
             "%s: rope_parameters or rope_scaling is not an object", r->path);
    AX_TRY(get_real(r, r->root, "rope_theta", 10000, &a->rope_theta));
    AX_TRY(get_real(r, rope, "rope_theta", a->rope_theta, &a->rope_theta));
    return rope ? read_scaling(r, rope, a) : AX_OK;
}

static ax_status read_llama(const reader *r, ax_hf_config *out)
{
    enum { LONGEST = 8192 }; // longer sequences take memory that is better asked for
    static const char *const silu[2] = {"silu", "swish"};
    const json_t *c = r->root;
    ax_arch *a = &out->arch;
    bool tied, attention, mlp;
    AX_TRY(check_activation(r, "hidden_act", silu));
    AX_TRY(get_int(r, c, "vocab_size", 32000, &a->vocab));
    AX_TRY(get_int(r, c, "max_position_embeddings", 2048, &out->positions));
    AX_TRY(get_int(r, c, "hidden_size", 4096, &a->hidden));
    AX_TRY(get_int(r, c, "intermediate_size", 11008, &a->ffn));
    AX_TRY(get_int(r, c, "num_hidden_layers", 32, &a->layers));
    AX_TRY(get_int(r, c, "num_attention_heads", 32, &a->heads));
    AX_TRY(get_int(r, c, "num_key_value_heads", 0, &a->kv_heads));
    AX_TRY(get_int(r, c, "head_dim", 0, &a->head_dim));
    AX_TRY(get_real(r, c, "rms_norm_eps", 1e-6, &a->norm_eps));
    AX_TRY(get_flag(r, "tie_word_embeddings", false, &tied));
    AX_TRY(get_flag(r, "attention_bias", false, &attention));
    AX_TRY(get_flag(r, "mlp_bias", false, &mlp));
    AX_CHECK(!a->kv_heads || a->heads % a->kv_heads == 0, AX_EFORMAT,
             "%s: num_attention_heads %lld does not divide by num_key_value_heads %lld", r->path,
             (long long)a->heads, (long long)a->kv_heads);
    AX_CHECK(a->head_dim || a->hidden % a->heads == 0, AX_EFORMAT,
             "%s: hidden_size %lld does not divide by num_attention_heads %lld, and there is no "
             "head_dim",
             r->path, (long long)a->hidden, (long long)a->heads);
    a->tied = tied;
    a->attention_bias = attention ? AX_BIAS_ON : AX_BIAS_OFF;
    a->mlp_bias = mlp ? AX_BIAS_ON : AX_BIAS_OFF;
    a->seq = out->positions < LONGEST ? out->positions : LONGEST;
    return read_rope(r, a);
}

// ---- ends

// Ids outside of the vocabulary (defaults of a larger one, or -1 for none) never come.
static ax_status read_ends(const reader *r, int64_t vocab, char *text, size_t size)
{
    const json_t *v = look(r->root, "eos_token_id");
    size_t n = 0, count = json_is_array(v) ? json_array_size(v) : v != NULL;
    if (v)
        text[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_is_array(v) ? json_array_get(v, i) : v;
        int64_t id = json_integer_value(item);
        AX_CHECK(json_is_integer(item), AX_EFORMAT,
                 "%s: 'eos_token_id' is neither an id nor a list of ids", r->path);
        if (id < 0 || id >= vocab)
            continue;
        n += (size_t)snprintf(text + n, size - n, "%s%lld", n ? "," : "", (long long)id);
        AX_CHECK(n < size, AX_EFORMAT, "%s: 'eos_token_id' has too many ids", r->path);
    }
    return AX_OK;
}

// ---- files

static ax_status open_reader(const char *dir, const char *name, reader *r, json_t **root)
{
    json_error_t error;
    AX_TRY(ax_disk_join(r->path, dir, name));
    *root = NULL;
    FILE *f = fopen(r->path, "rb");
    AX_CHECK(f, AX_EIO, "%s: cannot open: %s", r->path, strerror(errno));
    json_t *got = json_loadf(f, JSON_REJECT_DUPLICATES, &error);
    fclose(f);
    AX_CHECK(got, AX_EFORMAT, "%s:%d: not valid: %s", r->path, error.line, error.text);
    *root = got;
    r->root = got;
    AX_CHECK(json_is_object(got), AX_EFORMAT, "%s: is not a JSON object", r->path);
    return AX_OK;
}

static ax_status read_kind(const reader *r, ax_arch *a)
{
    const char *type;
    AX_TRY(get_text(r, r->root, "model_type", "", &type));
    bool gpt = strcmp(type, "gpt2") == 0;
    AX_CHECK(gpt || strcmp(type, "llama") == 0, AX_EUNSUPPORTED,
             "%s: model_type '%s' is not implemented; gpt2 and llama are", r->path, type);
    a->kind = gpt ? AX_GPT : AX_LLAMA;
    return AX_OK;
}

// What ax_arch_check would say in the words of our keys, without the file.
static ax_status check_numbers(const reader *r, const ax_arch *a)
{
    int64_t head = a->head_dim ? a->head_dim : a->hidden / a->heads;
    AX_CHECK(a->kind == AX_GPT || head % 2 == 0, AX_EFORMAT,
             "%s: heads are %lld wide: rotary positions turn pairs", r->path, (long long)head);
    AX_CHECK(a->rope_scaling == AX_ROPE_PLAIN || a->rope_factor >= 1, AX_EFORMAT,
             "%s: 'factor' is %g; it must be at least 1", r->path, a->rope_factor);
    AX_CHECK(a->rope_scaling != AX_ROPE_LLAMA3 || (a->rope_low > 0 && a->rope_high > a->rope_low),
             AX_EFORMAT,
             "%s: 'high_freq_factor' %g must be above 'low_freq_factor' %g, and both above 0",
             r->path, a->rope_high, a->rope_low);
    AX_CHECK(a->rope_theta >= 1, AX_EFORMAT, "%s: 'rope_theta' is %g; it must be at least 1",
             r->path, a->rope_theta);
    AX_CHECK(a->norm_eps >= 0 && a->norm_eps <= 1, AX_EFORMAT, "%s: the epsilon of norms is %g",
             r->path, a->norm_eps);
    return AX_OK;
}

static ax_status read_config(const reader *r, ax_hf_config *out)
{
    AX_TRY(read_kind(r, &out->arch));
    ax_arch_kind kind = (ax_arch_kind)out->arch.kind;
    AX_TRY(check_refused(r, kind));
    AX_TRY(kind == AX_GPT ? read_gpt(r, out) : read_llama(r, out));
    AX_TRY(get_real(r, r->root, "initializer_range", 0.02, &out->arch.init_std));
    AX_TRY(read_ends(r, out->arch.vocab, out->eos, sizeof out->eos));
    AX_TRY(check_numbers(r, &out->arch));
    AX_TRY(ax_arch_check(&out->arch));
    warn_of_keys(r, kind);
    if (out->arch.seq < out->positions && ax_log_current().rank == 0)
        ax_log(AX_LOG_INFO, "model", "model.seq is %lld of the %lld positions that %s allows",
               (long long)out->arch.seq, (long long)out->positions, r->path);
    return AX_OK;
}

ax_status ax_hf_read_config(const char *dir, ax_hf_config *out)
{
    reader r;
    json_t *root = NULL;
    ax_hf_config c = {.arch = {.rope_theta = 10000}};
    ax_status st = open_reader(dir, "config.json", &r, &root);
    if (st == AX_OK)
        st = read_config(&r, &c);
    json_decref(root);
    AX_TRY(st);
    // What generation stops at stands there in full.
    if (has_file(dir, "generation_config.json")) {
        st = open_reader(dir, "generation_config.json", &r, &root);
        if (st == AX_OK)
            st = read_ends(&r, c.arch.vocab, c.eos, sizeof c.eos);
        json_decref(root);
        AX_TRY(st);
    }
    *out = c;
    return AX_OK;
}

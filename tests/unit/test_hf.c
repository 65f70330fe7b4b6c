// Hugging Face directories by their letter: what is malformed or not implemented is refused by
// name, floats convert exactly, and slices of every cut make the file and come out of it again.
#include "base/log.h"
#include "ckpt/disk.h"
#include "ckpt/hf.h"
#include "ckpt/hf_files.h"
#include "ckpt/hf_floats.h"
#include "ckpt/hf_slice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- a place for files

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int open_place(void **state)
{
    char *dir = strdup("/tmp/axonn-test-hf-XXXXXX");
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    *state = dir;
    return dir && mkdtemp(dir) ? 0 : -1;
}

static int close_place(void **state)
{
    nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return 0;
}

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void expect_error(const char *why)
{
    if (!strstr(ax_error_text(), why))
        fail_msg("'%s' does not say '%s'", ax_error_text(), why);
}

// ---- config.json

#define GPT_BASE                                                                                   \
    "{\"model_type\":\"gpt2\",\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"n_positions\":16"
#define LLAMA_BASE                                                                                 \
    "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_attention_heads\":2,\"intermediate_size\":" \
    "16,\"num_hidden_layers\":1"

static ax_status read_text(void **state, const char *text, ax_hf_config *c)
{
    write_text(*state, "config.json", text);
    return ax_hf_read_config(*state, c);
}

static void what_is_not_implemented_is_refused_by_name(void **state)
{
    static const struct {
        const char *config, *why;
    } cases[] = {
        {"{\"model_type\":\"mistral\"}", "model_type 'mistral'"},
        {"{}", "model_type ''"},
        {LLAMA_BASE ",\"sliding_window\":4096}", "'sliding_window'"},
        {LLAMA_BASE ",\"quantization_config\":{\"bits\":4}}", "'quantization_config'"},
        {LLAMA_BASE ",\"partial_rotary_factor\":0.5}", "'partial_rotary_factor'"},
        {LLAMA_BASE
         ",\"rope_parameters\":{\"rope_type\":\"default\",\"partial_rotary_factor\":0.5}}",
         "'partial_rotary_factor'"},
        {LLAMA_BASE ",\"hidden_act\":\"gelu\"}", "'hidden_act' is 'gelu'"},
        {LLAMA_BASE ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2}}", "rope_type 'yarn'"},
        {LLAMA_BASE ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}",
         "rope_type 'dynamic'"},
        {GPT_BASE ",\"activation_function\":\"relu\"}", "'activation_function' is 'relu'"},
        {GPT_BASE ",\"scale_attn_by_inverse_layer_idx\":true}",
         "'scale_attn_by_inverse_layer_idx'"},
        {GPT_BASE ",\"scale_attn_weights\":false}", "'scale_attn_weights'"},
        {GPT_BASE ",\"add_cross_attention\":true}", "'add_cross_attention'"},
        {LLAMA_BASE ",\"architectures\":[\"LlamaForSequenceClassification\"]}",
         "architectures: 'LlamaForSequenceClassification'"},
        {GPT_BASE ",\"architectures\":[\"GPT2Model\"]}", "architectures: 'GPT2Model'"},
    };
    ax_hf_config c;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(read_text(state, cases[i].config, &c), AX_EUNSUPPORTED);
        expect_error(cases[i].why);
        expect_error("config.json");
    }
}

static void malformed_configurations_are_refused(void **state)
{
    static const struct {
        const char *config, *why;
    } cases[] = {
        {"", "not valid"},
        {"{", "not valid"},
        {"[]", "not a JSON object"},
        {"{\"a\":1,\"a\":2}", "duplicate"},
        {"{\"model_type\":\"\xff\"}", "not valid"},
        {"{\"model_type\":3}", "'model_type' is not a string"},
        {LLAMA_BASE ",\"vocab_size\":-3}", "'vocab_size' is not a positive integer"},
        {LLAMA_BASE ",\"vocab_size\":3.5}", "'vocab_size' is not a positive integer"},
        {LLAMA_BASE ",\"vocab_size\":99999999999999999999}", "too big"},
        {LLAMA_BASE ",\"head_dim\":\"8\"}", "'head_dim' is not a positive integer"},
        {LLAMA_BASE ",\"rms_norm_eps\":\"small\"}", "'rms_norm_eps' is not a number"},
        {LLAMA_BASE ",\"mlp_bias\":1}", "'mlp_bias' is neither true nor false"},
        {LLAMA_BASE ",\"rope_scaling\":3}", "is not an object"},
        {LLAMA_BASE ",\"rope_scaling\":{\"rope_type\":\"linear\"}}", "has no 'factor'"},
        {LLAMA_BASE ",\"eos_token_id\":\"2\"}", "'eos_token_id'"},
        {LLAMA_BASE ",\"eos_token_id\":[2,[3]]}", "'eos_token_id'"},
        {GPT_BASE ",\"n_embd\":9}", "duplicate"},
        {"{\"model_type\":\"gpt2\",\"n_embd\":9,\"n_head\":2}", "does not divide by n_head"},
        {LLAMA_BASE ",\"num_key_value_heads\":3}", "does not divide by num_key_value_heads 3"},
        {LLAMA_BASE ",\"num_key_value_heads\":0}", "'num_key_value_heads' is not a positive"},
        {LLAMA_BASE ",\"head_dim\":3}", "heads are 3 wide"},
        {LLAMA_BASE ",\"rope_theta\":0}", "'rope_theta' is 0"},
        {LLAMA_BASE ",\"rms_norm_eps\":-1}", "the epsilon of norms is -1"},
        {LLAMA_BASE ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}}", "'factor' is 0"},
        {LLAMA_BASE ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}}",
         "'llama3' has no 'low_freq_factor'"},
        {LLAMA_BASE ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
                    "\"low_freq_factor\":4,\"high_freq_factor\":4,"
                    "\"original_max_position_embeddings\":64}}",
         "'high_freq_factor' 4 must be above"},
        {LLAMA_BASE ",\"architectures\":\"LlamaForCausalLM\"}", "'architectures' is not a list"},
    };
    ax_hf_config c;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(read_text(state, cases[i].config, &c), AX_EFORMAT);
        expect_error(cases[i].why);
        expect_error("config.json");
    }
}

static void old_and_new_keys_mean_the_same(void **state)
{
    static const char *const texts[] = {
        LLAMA_BASE ",\"rope_theta\":5e5,\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,"
                   "\"low_freq_factor\":1,\"high_freq_factor\":4,"
                   "\"original_max_position_embeddings\":64},\"torch_dtype\":\"bfloat16\"}",
        LLAMA_BASE ",\"rope_parameters\":{\"rope_theta\":500000.0,\"rope_type\":\"llama3\","
                   "\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                   "\"original_max_position_embeddings\":64},\"dtype\":\"bfloat16\"}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        ax_hf_config c;
        assert_int_equal(read_text(state, texts[i], &c), AX_OK);
        assert_true(c.arch.rope_theta == 5e5 && c.arch.rope_factor == 8);
        assert_int_equal(c.arch.rope_scaling, AX_ROPE_LLAMA3);
        assert_int_equal(c.arch.rope_original, 64);
        assert_int_equal(c.arch.kv_heads, 2);
        assert_int_equal(c.arch.vocab, 32000);
        assert_int_equal(c.positions, 2048);
    }
}

// What a file leaves out, or calls null, is what transformers takes then.
static void keys_that_are_null_or_absent_have_the_defaults(void **state)
{
    ax_hf_config c;
    assert_int_equal(
        read_text(state,
                  LLAMA_BASE
                  ",\"architectures\":null,\"num_key_value_heads\":null,\"head_dim\":null,"
                  "\"rope_scaling\":null,\"sliding_window\":null,\"pad_token_id\":null,"
                  "\"quantization_config\":null,\"partial_rotary_factor\":1.0,"
                  "\"attention_bias\":null}",
                  &c),
        AX_OK);
    assert_int_equal(c.arch.kv_heads, 2);
    assert_int_equal(c.arch.head_dim, 4);
    assert_int_equal(c.arch.rope_scaling, AX_ROPE_PLAIN);
    assert_int_equal(c.arch.attention_bias, AX_BIAS_OFF);
    assert_true(c.arch.rope_theta == 10000 && c.arch.norm_eps == 1e-6);
    assert_false(c.arch.tied);
    assert_int_equal(
        read_text(state, LLAMA_BASE ",\"use_sliding_window\":false,\"sliding_window\":4096}", &c),
        AX_OK);
    assert_int_equal(read_text(state, GPT_BASE ",\"n_inner\":null}", &c), AX_OK);
    assert_int_equal(c.arch.ffn, 32);
    assert_true(c.arch.tied && c.arch.norm_eps == 1e-5);
    assert_int_equal(read_text(state, "{\"model_type\":\"gpt2\"}", &c), AX_OK);
    assert_int_equal(c.arch.vocab, 50257);
    assert_int_equal(c.positions, 1024);
}

static void ends_come_as_a_number_or_a_list(void **state)
{
    ax_hf_config c;
    assert_int_equal(read_text(state, LLAMA_BASE ",\"eos_token_id\":2}", &c), AX_OK);
    assert_string_equal(c.eos, "2");
    assert_int_equal(read_text(state, LLAMA_BASE ",\"eos_token_id\":[2, 5, 32000, -1]}", &c),
                     AX_OK);
    assert_string_equal(c.eos, "2,5"); // the others never come
    assert_int_equal(read_text(state, LLAMA_BASE ",\"eos_token_id\":null}", &c), AX_OK);
    assert_string_equal(c.eos, "");
    write_text(*state, "generation_config.json", "{\"eos_token_id\":[7,9]}");
    assert_int_equal(read_text(state, LLAMA_BASE ",\"eos_token_id\":2}", &c), AX_OK);
    assert_string_equal(c.eos, "7,9");
}

static void long_models_start_with_a_sequence_that_fits(void **state)
{
    ax_hf_config c;
    assert_int_equal(read_text(state, LLAMA_BASE ",\"max_position_embeddings\":131072}", &c),
                     AX_OK);
    assert_int_equal(c.arch.seq, 8192);
    assert_int_equal(c.positions, 131072);
    assert_int_equal(read_text(state, GPT_BASE "}", &c), AX_OK);
    assert_int_equal(c.arch.seq, 16);
}

// ---- the files of a directory

static void write_tensors(const char *dir, const char *name, ax_st_tensor *list, int count)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(ax_safetensors_create(path, list, count), AX_OK);
}

static void index_and_files_must_agree(void **state)
{
    static const struct {
        const char *index, *why;
        ax_status st;
    } cases[] = {
        {"{", "not valid", AX_EFORMAT},
        {"{}", "no weight_map", AX_EFORMAT},
        {"{\"weight_map\":{}}", "no weight_map", AX_EFORMAT},
        {"{\"weight_map\":{\"a\":3}}", "tensor 'a' is not a string", AX_EFORMAT},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "no plain file name", AX_EFORMAT},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "no plain file name", AX_EFORMAT},
        {"{\"weight_map\":{\"a\":\"..\"}}", "no plain file name", AX_EFORMAT},
        {"{\"weight_map\":{\"a\":\"\"}}", "no plain file name", AX_EFORMAT},
        {"{\"weight_map\":{\"a\":\"none.safetensors\"}}", "none.safetensors: cannot open", AX_EIO},
        {"{\"weight_map\":{\"a\":\"one\",\"a\":\"two\"}}", "duplicate", AX_EFORMAT},
        {"{\"weight_map\":{\"a\":\"one.safetensors\"}}", "tensor 'b' does not stand in the index",
         AX_EFORMAT},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"one.safetensors\",\"c\":"
         "\"one.safetensors\"}}",
         "one.safetensors: tensor 'c' is missing", AX_EFORMAT},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\",\"c\":"
         "\"two.safetensors\"}}",
         "two.safetensors: tensor 'b' is missing", AX_EFORMAT},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"one.safetensors\",\"d\":"
         "\"three.safetensors\"}}",
         "tensor 'b' is in", AX_EFORMAT},
    };
    ax_st_tensor one[] = {{.name = "a", .dtype = AX_ST_F32, .dims = 1, .shape = {2}},
                          {.name = "b", .dtype = AX_ST_F32, .dims = 1, .shape = {2}}};
    ax_st_tensor two[] = {{.name = "c", .dtype = AX_ST_F32, .dims = 1, .shape = {2}}};
    ax_st_tensor three[] = {{.name = "d", .dtype = AX_ST_F32}, {.name = "b", .dtype = AX_ST_F32}};
    write_tensors(*state, "one.safetensors", one, 2);
    write_tensors(*state, "two.safetensors", two, 1);
    write_tensors(*state, "three.safetensors", three, 2);
    ax_hf_files f;
    assert_int_equal(ax_hf_files_open(*state, &f), AX_EIO);
    expect_error("neither model.safetensors nor");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_text(*state, "model.safetensors.index.json", cases[i].index);
        assert_int_equal(ax_hf_files_open(*state, &f), cases[i].st);
        expect_error(cases[i].why);
    }
    write_text(*state, "model.safetensors.index.json",
               "{\"metadata\":{\"total_size\":24},\"weight_map\":{\"a\":\"one.safetensors\","
               "\"c\":\"two.safetensors\",\"b\":\"one.safetensors\"}}");
    assert_int_equal(ax_hf_files_open(*state, &f), AX_OK);
    assert_int_equal(f.count, 3);
    assert_non_null(ax_hf_files_find(&f, "b"));
    assert_null(ax_hf_files_find(&f, "d"));
    ax_hf_files_close(&f);
}

static void symbolic_links_are_followed(void **state)
{
    char blob[512], link[512];
    ax_st_tensor one[] = {{.name = "a", .dtype = AX_ST_F32, .dims = 1, .shape = {2}}};
    ax_hf_files f;
    write_tensors(*state, "blob", one, 1);
    snprintf(blob, sizeof blob, "%s/blob", (char *)*state);
    snprintf(link, sizeof link, "%s/model.safetensors", (char *)*state);
    assert_int_equal(symlink(blob, link), 0);
    assert_int_equal(ax_hf_files_open(*state, &f), AX_OK);
    assert_int_equal(f.count, 1);
    ax_hf_files_close(&f);
}

// The dtype of an export is that of the files, whatever config.json calls it.
static void the_dtype_of_a_model_is_that_of_its_tensors(void **state)
{
    static const struct {
        ax_st_dtype a, b, all;
    } cases[] = {
        {AX_ST_F16, AX_ST_F16, AX_ST_F16},  {AX_ST_BF16, AX_ST_BF16, AX_ST_BF16},
        {AX_ST_F16, AX_ST_BF16, AX_ST_F32}, {AX_ST_BF16, AX_ST_F32, AX_ST_F32},
        {AX_ST_F64, AX_ST_F64, AX_ST_F32},  {AX_ST_BF16, AX_ST_U8, AX_ST_BF16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ax_st_dtype dtype;
        ax_st_tensor list[] = {{.name = "a", .dtype = cases[i].a, .dims = 1, .shape = {2}},
                               {.name = "b", .dtype = cases[i].b, .dims = 1, .shape = {2}}};
        write_tensors(*state, "model.safetensors", list, 2);
        assert_int_equal(ax_hf_read_dtype(*state, &dtype), AX_OK);
        assert_int_equal(dtype, cases[i].all);
    }
}

// ---- floats

static void every_half_survives_and_narrowing_takes_the_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float v = ax_f16_to_f32((uint16_t)h);
        if (isnan(v)) {
            assert_true((h & 0x7fff) > 0x7c00);
            assert_true((ax_f32_to_f16(v) & 0x7fff) > 0x7c00);
            continue;
        }
        assert_int_equal(ax_f32_to_f16(v), h);
        uint32_t size = h & 0x7fff;
        if (size >= 0x7bff)
            continue;
        float next = ax_f16_to_f32((uint16_t)(h + 1)), middle = (v + next) / 2; // exact
        uint16_t even = (uint16_t)(h & 1 ? h + 1 : h);
        assert_int_equal(ax_f32_to_f16(middle), even);
        assert_int_equal(ax_f32_to_f16(nextafterf(middle, v)), h);
        assert_int_equal(ax_f32_to_f16(nextafterf(middle, next)), h + 1);
    }
    assert_int_equal(ax_f32_to_f16(65519.99f), 0x7bff);
    assert_int_equal(ax_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(ax_f32_to_f16(-1e30f), 0xfc00);
    assert_int_equal(ax_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(ax_f32_to_f16(-0x1.000002p-25f), 0x8001);
    assert_int_equal(ax_f32_to_f16(-0.0f), 0x8000);
}

// ---- slices

enum { ROWS = 1150, COLS = 1901, PARTS = 3 }; // more than a buffer, and nothing divides

static float value(int64_t row, int64_t col)
{
    return (float)((row * 31 + col * 7) % 2039) - 1000;
}

static ax_status open_part(const ax_grid_shape *shape, int rank, ax_grid *g, ax_param *p)
{
    AX_TRY(ax_grid_open_measure(*shape, rank, 1, g));
    *p = (ax_param){.name = "w",
                    .rows = ROWS,
                    .cols = COLS,
                    .row_span = AX_OVER_X,
                    .col_span = AX_OVER_Y,
                    .matrix = true};
    return ax_param_place(p, g);
}

static void fill_part(const ax_param *p, ax_tensor t, int which)
{
    memset(t.data, 0x7f, ax_tensor_bytes(t));
    for (ax_run r = {0}; ax_param_next_run(p, &r);)
        for (int64_t i = 0; i < r.count; i++)
            ((float *)t.data)[r.at + i] = value(which * ROWS + r.row, r.col + i);
}

static int64_t count_wrong(const ax_param *p, ax_tensor t, int which)
{
    int64_t wrong = 0, end = 0;
    for (ax_run r = {0}; ax_param_next_run(p, &r); end = r.next)
        for (int64_t i = 0; i < r.count; i++)
            wrong += ((float *)t.data)[r.at + i] != value(which * ROWS + r.row, r.col + i);
    for (; end < t.cols; end++)
        wrong += ((float *)t.data)[end] != 0;
    return wrong;
}

typedef struct pass { // over all ranks of a grid, one after the other
    ax_hf_slice slice;
    ax_hf_buffers buffers;
    ax_device dev;
    bool write;
    int64_t wrong;
} pass;

static void pass_rank(pass *s, const ax_grid_shape *shape, int rank)
{
    ax_grid g;
    ax_param p;
    assert_int_equal(open_part(shape, rank, &g, &p), AX_OK);
    ax_tensor t = ax_tensor_over(malloc((size_t)p.part * sizeof(float)), AX_F32, 1, p.part);
    for (int which = 0; which < PARTS; which++) {
        s->slice.first = which * ROWS;
        if (s->write) {
            fill_part(&p, t, which);
            assert_int_equal(ax_hf_slice_write(&s->slice, &s->buffers, &s->dev, &p, t), AX_OK);
        } else {
            assert_int_equal(ax_hf_slice_read(&s->slice, &s->buffers, &s->dev, &p, t), AX_OK);
            s->wrong += count_wrong(&p, t, which);
        }
    }
    free(t.data);
    ax_comm *world = g.world;
    ax_grid_close(&g);
    ax_comm_close(world);
}

static void pass_grid(pass *s, ax_grid_shape shape, bool write)
{
    s->write = write;
    for (int rank = 0; rank < ax_grid_ranks(&shape); rank++)
        pass_rank(s, &shape, rank);
}

static int64_t wrong_bytes(const pass *s)
{
    int64_t rows = s->slice.transposed ? COLS : PARTS * ROWS, wrong = 0;
    float *line = malloc((size_t)s->slice.width * sizeof *line);
    for (int64_t row = 0; row < rows; row++) {
        assert_int_equal(ax_disk_read(s->slice.fd, s->slice.path, line,
                                      (size_t)s->slice.width * sizeof *line,
                                      s->slice.begin + row * s->slice.width * 4),
                         AX_OK);
        for (int64_t col = 0; col < s->slice.width; col++)
            wrong += line[col] != (s->slice.transposed ? value(col, row) : value(row, col));
    }
    free(line);
    return wrong;
}

static void slices_of_every_cut_make_the_file_and_come_out_again(void **state)
{
    static const ax_grid_shape shapes[] = {
        {1, 1, 1, 1, "xyzd"}, {1, 1, 3, 1, "xyzd"}, {2, 1, 1, 2, "xyzd"}, {5, 1, 7, 1, "xyzd"}};
    char path[512];
    snprintf(path, sizeof path, "%s/w", (char *)*state);
    for (int turned = 0; turned < 2; turned++) {
        pass s = {.slice = {.path = path,
                            .begin = 11,
                            .stored = AX_ST_F32,
                            .width = turned ? PARTS * ROWS : COLS,
                            .transposed = turned}};
        assert_int_equal(ax_hf_buffers_init(&s.buffers), AX_OK);
        assert_int_equal(
            ax_device_open(&(ax_device_config){.name = "ref", .threads = 1, .core = -1}, &s.dev),
            AX_OK);
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            assert_int_equal(ax_disk_open(path, O_RDWR | O_CREAT | O_TRUNC, &s.slice.fd), AX_OK);
            pass_grid(&s, shapes[i], true);
            assert_int_equal(wrong_bytes(&s), 0);
            pass_grid(&s, shapes[(i + 1) % 4], false);
            assert_int_equal(s.wrong, 0);
            ax_disk_close(s.slice.fd, path);
        }
        ax_device_close(&s.dev);
        ax_hf_buffers_fini(&s.buffers);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_place, close_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_not_implemented_is_refused_by_name),
        CASE(malformed_configurations_are_refused),
        CASE(old_and_new_keys_mean_the_same),
        CASE(keys_that_are_null_or_absent_have_the_defaults),
        CASE(ends_come_as_a_number_or_a_list),
        CASE(long_models_start_with_a_sequence_that_fits),
        CASE(index_and_files_must_agree),
        CASE(symbolic_links_are_followed),
        CASE(the_dtype_of_a_model_is_that_of_its_tensors),
        CASE(every_half_survives_and_narrowing_takes_the_nearest_even),
        CASE(slices_of_every_cut_make_the_file_and_come_out_again),
    };
    return cmocka_run_group_tests_name("Hugging Face directories", tests, NULL, NULL);
}

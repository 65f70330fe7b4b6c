// Tiny models as transformers saves them: on every grid the logits of all positions are those of
// transformers, and what is exported holds the bytes that were read.
#include "base/log.h"
#include "ckpt/disk.h"
#include "ckpt/hf.h"
#include "train/ranks.h"
#include "train/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const models[] = {"gpt2",       "gpt2_bare",  "llama_biases",
                                     "llama_tied", "llama_wide", "llama_odd"};
static const char *const grids[] = {"x=1",        "x=2", "x=2,y=2",   "x=2,z=2",
                                    "z=2,data=2", "x=4", "y=2,data=2"};
enum {
    MODELS = sizeof models / sizeof models[0],
    GRIDS = sizeof grids / sizeof grids[0],
    MAX_RANKS = 4,
    BATCH = 4,
    SEQUENCES = 2, // of the golden file; row i of the batch is sequence i % 2
};

typedef struct job {
    char dir[512];
    const char *name, *grid;
    const char *device;
    ax_dtype act;
    bool training;  // with masters, moments and gradients
    const char *to; // NULL: compare logits; else export into this directory
    ax_st_dtype dtype;
    int64_t shard_bytes;

    ax_hf_config config;
    ax_arch arch;
    int32_t *ids;     // (SEQUENCES, T)
    float *logits;    // (SEQUENCES, T, K)
    int32_t *columns; // (K): of the vocabulary; NULL: all of it
    int64_t kept;     // K
    double *lse;      // (SEQUENCES, T): over the whole vocabulary, where only columns are kept
    double worst[MAX_RANKS];
} job;

// NULL where the file has no such tensor; `last` is its last size.
static void *read_tensor(const char *path, const char *name, ax_st_dtype dtype, int64_t *last)
{
    ax_safetensors s;
    assert_int_equal(ax_safetensors_open(path, &s), AX_OK);
    const ax_st_tensor *t = ax_safetensors_find(&s, name);
    if (!t) {
        ax_safetensors_close(&s);
        return NULL;
    }
    assert_int_equal(t->dtype, dtype);
    *last = t->shape[t->dims - 1];
    size_t bytes = (size_t)(t->end - t->begin);
    void *data = malloc(bytes);
    assert_non_null(data);
    assert_int_equal(ax_disk_read(s.fd, path, data, bytes, t->begin), AX_OK);
    ax_safetensors_close(&s);
    return data;
}

static void open_job(job *j)
{
    char path[560];
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_ERROR});
    if (!j->dir[0])
        snprintf(j->dir, sizeof j->dir, "%s/%s", AX_HF_DIR, j->name);
    assert_int_equal(ax_hf_read_config(j->dir, &j->config), AX_OK);
    j->arch = j->config.arch;
    j->arch.eos = j->config.eos;
    snprintf(path, sizeof path, "%s/%s.safetensors", AX_HF_DIR, j->name);
    int64_t seq;
    j->ids = read_tensor(path, "ids", AX_ST_I32, &seq);
    j->columns = read_tensor(path, "columns", AX_ST_I32, &j->kept);
    j->lse = read_tensor(path, "lse", AX_ST_F64, &seq);
    j->logits = read_tensor(path, "logits", AX_ST_F32, &j->kept);
    assert_true(j->ids && j->logits && (!j->columns || j->lse));
}

static void close_job(job *j)
{
    free(j->ids);
    free(j->logits);
    free(j->columns);
    free(j->lse);
}

// ---- logits

static double lse_of(const float *logits, int64_t vocab)
{
    double top = -INFINITY, sum = 0;
    for (int64_t v = 0; v < vocab; v++)
        top = fmax(top, (double)logits[v]);
    for (int64_t v = 0; v < vocab; v++)
        sum += exp((double)logits[v] - top);
    return top + log(sum);
}

// The largest difference, absolute; a NaN counts as one.
static double compare_row(const job *j, const ax_trainer *t, const float *got, int64_t micro,
                          int64_t row)
{
    int64_t seq = t->layout.seq, vocab = j->arch.vocab;
    int64_t sequence = ax_trainer_row(t, micro * t->layout.micro_batch + row / seq) % SEQUENCES;
    int64_t place = sequence * seq + row % seq;
    const float *want = j->logits + place * j->kept;
    double worst = 0;
    for (int64_t k = 0; k < j->kept; k++) {
        double error = fabs((double)got[j->columns ? j->columns[k] : k] - (double)want[k]);
        worst = error <= worst ? worst : error;
    }
    if (j->lse) {
        double error = fabs(lse_of(got, vocab) - j->lse[place]);
        worst = error <= worst ? worst : error;
    }
    for (int64_t v = vocab; v < t->layout.vocab_padded; v++)
        worst = isinf(got[v]) && got[v] < 0 ? worst : INFINITY;
    return worst;
}

static ax_status compare(job *j, ax_trainer *t)
{
    const ax_layout *l = &t->layout;
    assert_true(j->columns || j->kept == j->arch.vocab);
    float *got = malloc((size_t)l->vocab_padded * sizeof *got);
    for (int64_t i = 0; i < ax_trainer_rows(t); i++)
        memcpy(t->ids + i * l->seq, j->ids + ax_trainer_row(t, i) % SEQUENCES * l->seq,
               (size_t)l->seq * sizeof *t->ids);
    for (int64_t k = 0; k < l->accumulation * l->rows; k++) {
        int64_t micro = k / l->rows, row = k % l->rows;
        AX_TRY(ax_model_logits(&t->model, t->ids + micro * l->rows, row, got));
        double error = compare_row(j, t, got, micro, row);
        double *worst = &j->worst[t->grid.rank];
        *worst = error <= *worst ? *worst : error;
    }
    free(got);
    return AX_OK;
}

static ax_status use(job *j, ax_trainer *t)
{
    AX_TRY(ax_hf_load(j->dir, &j->config, &t->model.params, &t->grid, &t->dev));
    if (!j->to)
        return compare(j, t);
    ax_hf_export e = {.arch = &j->arch, .dtype = j->dtype, .shard_bytes = j->shard_bytes};
    return ax_hf_save(j->to, &e, &t->model.params, &t->grid, &t->dev);
}

static ax_status run_rank(void *ctx, ax_comm *world)
{
    job *j = ctx;
    ax_trainer t;
    ax_trainer_config c = {.arch = &j->arch,
                           .batch = BATCH,
                           .device = j->device ? j->device : "cpu",
                           .act = j->act,
                           .threads = 1,
                           .overlap = AX_OVERLAP_ALL,
                           .inference = !j->training};
    AX_TRY(ax_grid_parse(j->grid, &c.grid));
    AX_TRY(ax_trainer_open(&c, world, &t));
    ax_status st = use(j, &t);
    ax_trainer_close(&t);
    return st;
}

static ax_status run(job *j)
{
    ax_grid_shape g;
    assert_int_equal(ax_grid_parse(j->grid, &g), AX_OK);
    memset(j->worst, 0, sizeof j->worst);
    return ax_ranks_run(ax_grid_ranks(&g), run_rank, j);
}

static double worst_of(const job *j)
{
    double worst = 0;
    for (int i = 0; i < MAX_RANKS; i++)
        worst = j->worst[i] <= worst ? worst : j->worst[i];
    return worst;
}

static void logits_are_those_of_transformers_on_every_grid(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        job j = {.name = models[i], .act = AX_F32};
        open_job(&j);
        for (int k = 0; k < GRIDS; k++) {
            j.grid = grids[k];
            assert_int_equal(run(&j), AX_OK);
            printf("%-13s %-11s %.1e\n", models[i], grids[k], worst_of(&j));
            assert_true(worst_of(&j) < 1e-5);
        }
        close_job(&j);
    }
}

static void training_and_the_other_precisions_start_from_the_same_weights(void **state)
{
    static const struct {
        const char *device;
        ax_dtype act;
        double band;
    } runs[] = {{"cpu", AX_F32, 1e-5}, {"ref", AX_F64, 1e-5}, {"cpu", AX_BF16, 5e-2}};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        for (int training = 0; training < 2; training++) {
            job j = {.name = "llama_tied",
                     .grid = "x=2,data=2",
                     .device = runs[i].device,
                     .act = runs[i].act,
                     .training = training};
            open_job(&j);
            assert_int_equal(run(&j), AX_OK);
            printf("%s %s: %.1e\n", j.device, ax_dtype_name(j.act), worst_of(&j));
            assert_true(worst_of(&j) < runs[i].band);
            close_job(&j);
        }
}

// ---- export

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static char *new_directory(void)
{
    char *dir = strdup("/tmp/axonn-test-hf-XXXXXX");
    assert_non_null(dir);
    assert_non_null(mkdtemp(dir));
    return dir;
}

static void drop_directory(char *dir)
{
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(dir);
}

static void *bytes_of(const ax_safetensors *s, const ax_st_tensor *t)
{
    size_t n = (size_t)(t->end - t->begin);
    void *data = malloc(n + 1);
    assert_non_null(data);
    assert_int_equal(ax_disk_read(s->fd, s->path, data, n, t->begin), AX_OK);
    return data;
}

// Each tensor of dir/file stands in `there` with the same bytes; returns how many.
static int compare_file(const char *dir, const char *file, const ax_safetensors *there)
{
    char path[600];
    ax_safetensors here;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    assert_int_equal(ax_safetensors_open(path, &here), AX_OK);
    for (int i = 0; i < here.count; i++) {
        const ax_st_tensor *a = &here.list[i];
        const ax_st_tensor *b = ax_safetensors_find(there, a->name);
        assert_non_null(b);
        assert_int_equal(a->dtype, b->dtype);
        assert_true(ax_st_same_shape(a, b));
        void *left = bytes_of(&here, a), *right = bytes_of(there, b);
        assert_memory_equal(left, right, (size_t)(a->end - a->begin));
        free(left);
        free(right);
    }
    int count = here.count;
    ax_safetensors_close(&here);
    return count;
}

static void export_on(const char *name, const char *grid, int64_t shard_bytes, const char *to)
{
    job j = {.name = name, .grid = grid, .act = AX_F32, .to = to, .shard_bytes = shard_bytes};
    open_job(&j);
    assert_int_equal(ax_hf_read_dtype(j.dir, &j.dtype), AX_OK);
    assert_int_equal(run(&j), AX_OK);
    close_job(&j);
}

static void what_is_exported_holds_the_bytes_that_were_read(void **state)
{
    static const char *const whole[] = {"gpt2", "llama_tied", "llama_wide", "llama_odd"};
    static const char *const cut[] = {"x=1", "x=2,y=2", "x=2,z=2", "z=2,data=2", "x=4"};
    (void)state;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        for (size_t k = 0; k < sizeof cut / sizeof cut[0]; k++) {
            char path[600], *to = new_directory();
            ax_safetensors origin;
            export_on(whole[i], cut[k], 1 << 30, to);
            snprintf(path, sizeof path, "%s/%s/model.safetensors", AX_HF_DIR, whole[i]);
            assert_int_equal(ax_safetensors_open(path, &origin), AX_OK);
            assert_int_equal(compare_file(to, "model.safetensors", &origin), origin.count);
            ax_safetensors_close(&origin);
            drop_directory(to);
        }
}

static void a_model_in_many_files_is_read_back_from_its_index(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        char path[600], *to = new_directory();
        export_on(models[i], "x=2,y=2", 30000, to);
        snprintf(path, sizeof path, "%s/model.safetensors", to);
        assert_int_not_equal(access(path, F_OK), 0);
        job j = {.name = models[i], .grid = "x=2,z=2", .act = AX_F32};
        snprintf(j.dir, sizeof j.dir, "%s", to);
        open_job(&j);
        assert_int_equal(run(&j), AX_OK);
        assert_true(worst_of(&j) < 1e-5);
        close_job(&j);
        drop_directory(to);
    }
}

static void the_ends_and_the_shape_survive_an_export(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        char *to = new_directory();
        ax_hf_config there;
        job j = {.name = models[i]};
        open_job(&j);
        export_on(models[i], "x=2", 1 << 30, to);
        assert_int_equal(ax_hf_read_config(to, &there), AX_OK);
        assert_string_equal(there.eos, j.config.eos);
        assert_memory_equal(&there.arch, &j.config.arch, sizeof there.arch);
        close_job(&j);
        drop_directory(to);
    }
}

// ---- what does not fit

static void read_file(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    text[fread(text, 1, size - 1, f)] = 0;
    fclose(f);
}

// llama_wide's tensors under a config.json in which `from` reads `to`.
static void put_model(const char *dir, const char *from, const char *to)
{
    char path[600], link[600], text[4096];
    snprintf(path, sizeof path, "%s/llama_wide/config.json", AX_HF_DIR);
    read_file(path, text, sizeof text);
    char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(path, sizeof path, "%s/config.json", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(f);
    snprintf(path, sizeof path, "%s/llama_wide/model.safetensors", AX_HF_DIR);
    snprintf(link, sizeof link, "%s/model.safetensors", dir);
    assert_int_equal(symlink(path, link), 0);
}

static void a_tensor_that_is_missing_extra_or_misshapen_is_named(void **state)
{
    static const struct {
        const char *from, *to, *why;
    } cases[] = {
        {"\"vocab_size\": 323", "\"vocab_size\": 324",
         "tensor 'model.embed_tokens.weight' is [323, 32], but by config.json it is [324, 32]"},
        {"\"head_dim\": 12", "\"head_dim\": 8",
         "tensor 'model.layers.0.self_attn.q_proj.weight' is [48, 32]"},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3",
         "tensor 'model.layers.2.input_layernorm.weight' of the model is missing"},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
         "tensor 'model.layers.1.input_layernorm.weight' is no part"},
        {"\"mlp_bias\": false", "\"mlp_bias\": true",
         "tensor 'model.layers.0.mlp.gate_proj.bias' of the model is missing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *dir = new_directory();
        put_model(dir, cases[i].from, cases[i].to);
        job j = {.name = "llama_wide", .grid = "x=2", .act = AX_F32};
        snprintf(j.dir, sizeof j.dir, "%s", dir);
        open_job(&j);
        ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
        assert_int_equal(run(&j), AX_EFORMAT);
        if (!strstr(ax_error_text(), cases[i].why) || !strstr(ax_error_text(), dir))
            fail_msg("'%s' does not say '%s'", ax_error_text(), cases[i].why);
        close_job(&j);
        drop_directory(dir);
    }
}

// Copies of weights that are one matrix, as some files have them, are no extra tensors.
static void a_second_copy_of_tied_weights_may_be_there(void **state)
{
    (void)state;
    char *dir = new_directory();
    put_model(dir, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    char *to = new_directory();
    job j = {.name = "llama_wide", .grid = "x=2", .act = AX_F32, .to = to, .shard_bytes = 1 << 20};
    snprintf(j.dir, sizeof j.dir, "%s", dir);
    open_job(&j);
    assert_int_equal(run(&j), AX_OK);
    close_job(&j);
    drop_directory(dir);
    drop_directory(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_transformers_on_every_grid),
        cmocka_unit_test(training_and_the_other_precisions_start_from_the_same_weights),
        cmocka_unit_test(what_is_exported_holds_the_bytes_that_were_read),
        cmocka_unit_test(a_model_in_many_files_is_read_back_from_its_index),
        cmocka_unit_test(a_tensor_that_is_missing_extra_or_misshapen_is_named),
        cmocka_unit_test(a_second_copy_of_tied_weights_may_be_there),
        cmocka_unit_test(the_ends_and_the_shape_survive_an_export),
    };
    return cmocka_run_group_tests_name("Hugging Face logits", tests, NULL, NULL);
}

// What ranks move: each reads the headers and the bytes of its own slices, each writes its own
// slices, and nothing else. The counters stand between the library and its disk layer (--wrap).
#include "base/log.h"
#include "ckpt/disk.h"
#include "ckpt/hf.h"
#include "ckpt/hf_files.h"
#include "ckpt/hf_floats.h"
#include "train/ranks.h"
#include "train/trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local int64_t bytes_read, bytes_written; // of a rank, which is a thread

ax_status __real_ax_disk_read(int fd, const char *path, void *bytes, size_t count, int64_t offset);
ax_status __wrap_ax_disk_read(int fd, const char *path, void *bytes, size_t count, int64_t offset);
ax_status __wrap_ax_disk_read(int fd, const char *path, void *bytes, size_t count, int64_t offset)
{
    bytes_read += (int64_t)count;
    return __real_ax_disk_read(fd, path, bytes, count, offset);
}

ax_status __real_ax_disk_write(int fd, const char *path, const void *bytes, size_t count,
                               int64_t offset);
ax_status __wrap_ax_disk_write(int fd, const char *path, const void *bytes, size_t count,
                               int64_t offset);
ax_status __wrap_ax_disk_write(int fd, const char *path, const void *bytes, size_t count,
                               int64_t offset)
{
    bytes_written += (int64_t)count;
    return __real_ax_disk_write(fd, path, bytes, count, offset);
}

enum { MAX_RANKS = 4 };
static const char *const grids[] = {"x=1", "x=2", "z=4", "x=2,y=2", "x=2,z=2", "z=2,data=2"};

typedef struct job {
    char from[512];
    const char *grid, *to;
    ax_hf_config config;
    ax_arch arch;
    int64_t headers, payload; // bytes of the files that are read
    int64_t read[MAX_RANKS], written[MAX_RANKS];
    int64_t own[MAX_RANKS], owned[MAX_RANKS]; // elements it holds, and those it counts as its own
    int64_t matrix[MAX_RANKS];                // elements of the largest piece that it holds
} job;

static void count_own(job *j, const ax_params *ps, int rank)
{
    for (int i = 0; i < ps->count; i++) {
        int64_t n = 0;
        for (ax_run r = {0}; ax_param_next_run(&ps->list[i], &r);)
            n += r.count;
        j->own[rank] += n;
        j->owned[rank] += ps->list[i].owner ? n : 0;
        if (ps->list[i].matrix && n > j->matrix[rank])
            j->matrix[rank] = n;
    }
}

static ax_status run_rank(void *ctx, ax_comm *world)
{
    job *j = ctx;
    ax_trainer t;
    ax_trainer_config c = {.arch = &j->arch,
                           .batch = 4,
                           .device = "ref",
                           .act = AX_F64,
                           .threads = 1,
                           .inference = true};
    AX_TRY(ax_grid_parse(j->grid, &c.grid));
    AX_TRY(ax_trainer_open(&c, world, &t));
    int rank = t.grid.rank;
    bytes_read = bytes_written = 0;
    ax_status st = ax_hf_load(j->from, &j->config, &t.model.params, &t.grid, &t.dev);
    j->read[rank] = bytes_read;
    ax_hf_export e = {.arch = &j->arch, .dtype = AX_ST_F16, .shard_bytes = 40000};
    if (st == AX_OK)
        st = ax_hf_save(j->to, &e, &t.model.params, &t.grid, &t.dev);
    j->written[rank] = bytes_written;
    count_own(j, &t.model.params, rank);
    ax_trainer_close(&t);
    return st;
}

static void measure_files(job *j)
{
    ax_hf_files f;
    assert_int_equal(ax_hf_files_open(j->from, &f), AX_OK);
    for (int i = 0; i < f.files; i++) {
        const ax_safetensors *s = &f.file[i];
        j->headers += s->list[0].begin;
        j->payload += s->list[s->count - 1].end - s->list[0].begin;
    }
    ax_hf_files_close(&f);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void run_on(const char *model, const char *grid, int *ranks, job *j)
{
    char to[] = "/tmp/axonn-test-hf-XXXXXX";
    ax_grid_shape shape;
    *j = (job){.grid = grid, .to = to};
    assert_non_null(mkdtemp(to));
    snprintf(j->from, sizeof j->from, "%s/%s", AX_HF_DIR, model);
    assert_int_equal(ax_hf_read_config(j->from, &j->config), AX_OK);
    j->arch = j->config.arch;
    measure_files(j);
    assert_int_equal(ax_grid_parse(grid, &shape), AX_OK);
    *ranks = ax_grid_ranks(&shape);
    assert_int_equal(ax_ranks_run(*ranks, run_rank, j), AX_OK);
    nftw(to, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

// No file holds spare tensors, so one rank reads all of the payload, once.
static void every_rank_reads_and_writes_the_bytes_of_its_own_slices(void **state)
{
    static const struct {
        const char *name;
        int64_t size; // of an element
    } models[] = {{"gpt2", 4}, {"llama_biases", 4}, {"llama_tied", 2}, {"llama_wide", 2}};
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_ERROR});
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        for (size_t k = 0; k < sizeof grids / sizeof grids[0]; k++) {
            int ranks;
            int64_t owned = 0;
            job j;
            run_on(models[i].name, grids[k], &ranks, &j);
            for (int r = 0; r < ranks; r++) {
                assert_int_equal(j.read[r], j.headers + j.own[r] * models[i].size);
                if (r > 0) // rank 0 writes the headers and what describes the model, too
                    assert_int_equal(j.written[r], j.owned[r] * 2);
                owned += j.owned[r];
            }
            assert_int_equal(owned * models[i].size, j.payload);
            assert_true(j.written[0] >= j.owned[0] * 2);
        }
}

// A quarter of the bytes where weights are cut four ways, but for norms and what a cut rounds up.
static void no_rank_reads_a_whole_matrix(void **state)
{
    static const char *const cut[] = {"z=4", "x=2,y=2", "x=2,z=2", "z=2,data=2"};
    (void)state;
    for (size_t k = 0; k < sizeof cut / sizeof cut[0]; k++) {
        int ranks;
        job j;
        run_on("llama_odd", cut[k], &ranks, &j);
        for (int r = 0; r < ranks; r++) {
            assert_true(j.matrix[r] <= j.arch.vocab * j.arch.hidden / 4 + 4096);
            assert_true(j.read[r] - j.headers <= j.payload / 4 + 16384);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_reads_and_writes_the_bytes_of_its_own_slices),
        cmocka_unit_test(no_rank_reads_a_whole_matrix),
    };
    return cmocka_run_group_tests_name("bytes of ranks", tests, NULL, NULL);
}

// No rank ever holds a full matrix: not while initial values are made, nor while checkpoints and
// Hugging Face directories are written and read. The largest matrix of the model is larger than any
// piece of memory that is taken in those phases, and than any piece of any arena.
//
// Linked with every allocating function wrapped: calls from our objects come here.
#include "memory.h"
#include "verdict.h"

#include "base/log.h"
#include "ckpt/ckpt.h"
#include "ckpt/hf.h"
#include "train/ranks.h"

#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_bool watching;
static atomic_size_t largest; // piece asked for at once

static void seen(size_t bytes)
{
    size_t most = atomic_load(&largest);
    while (atomic_load(&watching) && bytes > most)
        if (atomic_compare_exchange_weak(&largest, &most, bytes))
            return;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *mem, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
int __real_posix_memalign(void **mem, size_t align, size_t size);
void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *mem, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
int __wrap_posix_memalign(void **mem, size_t align, size_t size);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t size)
{
    seen(size);
    return __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size)
{
    seen(count * size);
    return __real_calloc(count, size);
}
void *__wrap_realloc(void *mem, size_t size)
{
    seen(size);
    return __real_realloc(mem, size);
}
void *__wrap_aligned_alloc(size_t align, size_t size)
{
    seen(size);
    return __real_aligned_alloc(align, size);
}
int __wrap_posix_memalign(void **mem, size_t align, size_t size)
{
    seen(size);
    return __real_posix_memalign(mem, align, size);
}
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    seen(size);
    return __real_mmap(at, size, protection, flags, fd, offset);
}

// 40 MiB of table; a matrix of a block has 4.
static const ax_arch shape = {.kind = AX_LLAMA,
                              .layers = 1,
                              .hidden = 512,
                              .heads = 8,
                              .kv_heads = 8,
                              .head_dim = 64,
                              .ffn = 2048,
                              .vocab = 20480,
                              .tied = true,
                              .seq = 8,
                              .norm_eps = 1e-5,
                              .rope_theta = 1e4,
                              .init_std = 0.02};

typedef struct run {
    verdict *v;
    ax_arch arch;
    char dir[64];
} run;

// Between two meetings of all ranks only `st` happens.
static ax_status phase(run *r, ax_trainer *t, const char *what, ax_status st)
{
    size_t table = (size_t)(r->arch.vocab * r->arch.hidden) * sizeof(float);
    AX_TRY(ax_comm_agree(t->grid.world, st));
    if (t->grid.rank == 0) {
        size_t most = atomic_exchange(&largest, 0);
        verdict_check(r->v, most < table / 2,
                      "%s: the largest piece of memory has %zu KiB, the largest matrix %zu", what,
                      most >> 10, table >> 10);
    }
    return ax_comm_agree(t->grid.world, AX_OK);
}

static ax_status in_and_out(run *r, ax_trainer *t)
{
    ax_params *ps = &t->model.params;
    ax_grid *g = &t->grid;
    char ckpt[96], hf[96];
    ax_hf_config config;
    snprintf(ckpt, sizeof ckpt, "%s/ckpt", r->dir);
    snprintf(hf, sizeof hf, "%s/hf", r->dir);
    const ax_ckpt_info info = {.dtype = AX_F32};
    const ax_hf_export e = {.arch = &r->arch, .dtype = AX_ST_F32, .shard_bytes = 1 << 30};
    AX_TRY(phase(r, t, "initial values", ax_params_init(ps, g, &t->dev, 1)));
    AX_TRY(phase(r, t, "saving", ax_ckpt_save(ckpt, ps, g, &t->dev, &info)));
    AX_TRY(phase(r, t, "loading", ax_ckpt_load(ckpt, ps, g, &t->dev, true)));
    if (g->rank == 0 && mkdir(hf, 0700) != 0)
        AX_FAIL(AX_EIO, "%s: cannot be made", hf);
    AX_TRY(phase(r, t, "exporting", ax_hf_save(hf, &e, ps, g, &t->dev)));
    AX_TRY(ax_hf_read_config(hf, &config));
    return phase(r, t, "importing", ax_hf_load(hf, &config, ps, g, &t->dev));
}

// Parameters are the only large tensors of the run arena, but for the buffers of two layers and the
// vocabulary.
static void check_pieces(run *r, const ax_trainer *t)
{
    int64_t table = r->arch.vocab * r->arch.hidden, most = 0;
    for (int i = 0; i < t->model.params.count; i++) {
        const ax_param *p = &t->model.params.list[i];
        const ax_tensor held[] = {p->weight, p->master, p->m, p->v, p->grad, p->part_grad};
        for (size_t k = 0; k < sizeof held / sizeof held[0]; k++)
            most = held[k].cols > most ? held[k].cols : most;
    }
    for (int i = 0; i < AX_SLOTS; i++) {
        int64_t slot = t->model.nn.weights.slot[i].weights.cols;
        most = slot > most ? slot : most;
    }
    verdict_check(r->v, most <= table / 2, "the largest tensor has %lld elements, the matrix %lld",
                  (long long)most, (long long)table);
}

static ax_status rank_main(void *ctx, ax_comm *world)
{
    run *r = ctx;
    ax_trainer t;
    ax_trainer_config c = {.arch = &r->arch,
                           .grid = {2, 1, 2, 1, "xyzd"},
                           .batch = 2,
                           .device = ax_device_missing("cpu") ? "ref" : "cpu",
                           .act = AX_F32,
                           .threads = 1,
                           .optim = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}};
    AX_TRY(ax_trainer_open(&c, world, &t));
    AX_TRY(ax_comm_agree(world, AX_OK));
    atomic_store(&watching, true);
    ax_status st = in_and_out(r, &t);
    if (st == AX_OK && world->rank == 0)
        check_pieces(r, &t);
    atomic_store(&watching, false);
    ax_trainer_close(&t);
    return st;
}

static void the_watch_sees(verdict *v)
{
    void *volatile mem;
    atomic_store(&watching, true);
    mem = malloc(123456);
    free(mem);
    atomic_store(&watching, false);
    verdict_check(v, atomic_exchange(&largest, 0) == 123456, "an allocation is seen");
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

int main(int argc, char **argv)
{
    verdict v = {.verbose = argc > 1 && strcmp(argv[1], "-v") == 0};
    double t0 = verdict_now();
    run r = {.v = &v, .arch = shape, .dir = "/tmp/axonn-rank-memory-XXXXXX"};
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_WARN});
    the_watch_sees(&v);
    if (!mkdtemp(r.dir))
        return 1;
    ax_status st = ax_arch_check(&r.arch);
    if (st == AX_OK)
        st = ax_ranks_run(4, rank_main, &r);
    verdict_check(&v, st == AX_OK, "four ranks make, save, load, export and import a model");
    nftw(r.dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    verdict_part(&v, t0, "no rank holds a full matrix: at the start, saving, loading, converting");
    return verdict_close(&v);
}

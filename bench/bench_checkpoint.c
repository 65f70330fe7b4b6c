// Saving and loading of a checkpoint in gigabytes a second, beside what this machine's memory and
// disk can do with as many bytes in the same run: minimum, median and maximum.
//
//     bench_checkpoint DIR [mib=384] [ranks=1] [repeats=5]
//
// DIR lies on the disk that is meant. Masters and moments are `mib` in all, cut over z. In each
// round, one after the other: a copy in memory; a file written and brought to disk; a save; the
// part of a background save that a step waits for; the whole of it; a file read; a load. Before
// reading, the files are dropped from the system's cache.
#include "base/text.h"
#include "ckpt/ckpt.h"
#include "ckpt/disk.h"
#include "train/metrics.h"
#include "train/ranks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_REPEATS = 50, COLUMNS = 2048, LAYERS = 12, BLOCK = 1 << 20 };

typedef enum what { COPY, WRITE, SAVE, STALL, BACKGROUND, READ, LOAD, WHATS } what;
static const struct {
    const char *name;
    int against;
} rows[WHATS] = {
    [COPY] = {"memory: copy", -1},
    [WRITE] = {"disk: write and sync", -1},
    [SAVE] = {"save", WRITE},
    [STALL] = {"background save: what a step waits", COPY},
    [BACKGROUND] = {"background save: all", WRITE},
    [READ] = {"disk: read", -1},
    [LOAD] = {"load", READ},
};

typedef struct bench {
    char dir[AX_PATH_MAX], step[AX_PATH_MAX], file[AX_PATH_MAX];
    int64_t mib, ranks, repeats;
    double bytes;
    double seconds[WHATS][MOST_REPEATS]; // rank 0's
} bench;

typedef struct holder { // one rank
    bench *b;
    ax_comm *world;
    ax_grid grid;
    ax_device dev;
    ax_params params;
    ax_ckpt_snapshot snapshot;
    void *memory;
    size_t bytes, state; // at memory; of masters and moments
    void *block;         // to read into
    int round;
} holder;

// ---- the model

static ax_status describe(holder *h)
{
    int64_t height = (h->b->mib << 20) / 12 / COLUMNS / LAYERS;
    h->params = (ax_params){.act = AX_F32, .acc = AX_F32, .count = LAYERS};
    h->params.list = calloc(LAYERS, sizeof *h->params.list);
    AX_CHECK(h->params.list, AX_ENOMEM, "no memory for a list");
    for (int i = 0; i < LAYERS; i++) {
        ax_param *p = &h->params.list[i];
        *p = (ax_param){.rows = height,
                        .cols = COLUMNS,
                        .row_span = AX_OVER_X,
                        .col_span = AX_OVER_Y,
                        .matrix = true,
                        .init_std = 0.02};
        snprintf(p->name, sizeof p->name, "blk.%d.weight", i);
        AX_TRY(ax_param_place(p, &h->grid));
        h->state += 3 * (size_t)p->part * sizeof(float);
    }
    h->b->bytes = 12.0 * LAYERS * (double)height * COLUMNS; // the same on every rank
    return AX_OK;
}

static ax_status bind(holder *h, ax_arena *a)
{
    AX_TRY(ax_params_bind(&h->params, &h->grid, a, AX_BIND_STATE));
    return ax_ckpt_snapshot_bind(&h->snapshot, &h->params, a);
}

static ax_status hold(holder *h)
{
    ax_grid_shape shape = {1, 1, (int)h->b->ranks, 1, "xyzd"};
    AX_TRY(ax_grid_open(h->world, shape, 1, &h->grid));
    AX_TRY(ax_device_open(&(ax_device_config){.name = "cpu", .threads = 1, .core = -1}, &h->dev));
    AX_TRY(describe(h));
    h->block = malloc(BLOCK);
    AX_CHECK(h->block, AX_ENOMEM, "no memory to read into");
    ax_arena a = ax_arena_measure("run");
    AX_TRY(bind(h, &a));
    h->bytes = a.peak;
    AX_TRY(ax_device_alloc(&h->dev, h->bytes, &h->memory));
    a = ax_arena_over("run", h->memory, h->bytes);
    AX_TRY(bind(h, &a));
    return ax_params_init(&h->params, &h->grid, &h->dev, 1);
}

static void let_go(holder *h)
{
    free(h->block);
    ax_ckpt_snapshot_fini(&h->snapshot);
    ax_params_fini(&h->params);
    if (h->memory)
        ax_device_free(&h->dev, h->memory, h->bytes);
    ax_grid_close(&h->grid);
    ax_device_close(&h->dev);
}

// ---- what is timed

// Each rank copies as many bytes as it saves.
static ax_status copy(holder *h)
{
    for (int i = 0; i < LAYERS; i++) {
        const ax_param *p = &h->params.list[i];
        const ax_tensor from[] = {p->master, p->m, p->v};
        const int to[] = {i, LAYERS + 2 * i, LAYERS + 2 * i + 1};
        for (int k = 0; k < 3; k++)
            memcpy(h->snapshot.tensor[to[k]].data, from[k].data, ax_tensor_bytes(from[k]));
    }
    return AX_OK;
}

static ax_status plain(holder *h, bool write)
{
    int fd = -1;
    const char *path = h->b->file;
    char *bytes = h->memory;
    int64_t mine = h->world->rank * (int64_t)h->state, left = (int64_t)h->state;
    AX_TRY(ax_disk_open(path, write ? O_WRONLY | O_CREAT : O_RDONLY, &fd));
    ax_status st = AX_OK;
    for (int64_t at = 0; st == AX_OK && at < left; at += BLOCK) {
        size_t n = (size_t)(left - at < BLOCK ? left - at : BLOCK);
        st = write ? ax_disk_write(fd, path, bytes + at, n, mine + at)
                   : ax_disk_read(fd, path, h->block, n, mine + at);
    }
    if (st == AX_OK && write)
        st = ax_disk_sync(fd, path);
    ax_disk_close(fd, path);
    return st;
}

static ax_status write_plain(holder *h)
{
    return plain(h, true);
}

static ax_status read_plain(holder *h)
{
    return plain(h, false);
}

static const ax_ckpt_info info = {.step = 1, .updates = 1};

static ax_status save(holder *h)
{
    return ax_ckpt_save(h->b->step, &h->params, &h->grid, &h->dev, &info);
}

static ax_status save_beside(holder *h)
{
    ax_ckpt_saving *s;
    double begun = ax_metrics_clock();
    AX_TRY(ax_ckpt_save_begin(
        h->b->step, &(ax_ckpt_source){&h->params, &h->grid, &h->dev, &h->snapshot}, &info, &s));
    if (h->world->rank == 0)
        h->b->seconds[STALL][h->round] = ax_metrics_clock() - begun;
    return ax_ckpt_save_finish(s);
}

static ax_status load(holder *h)
{
    return ax_ckpt_load(h->b->step, &h->params, &h->grid, &h->dev, true);
}

static ax_status measure(holder *h, what w, ax_status (*work)(holder *h))
{
    AX_TRY(ax_comm_agree(h->world, AX_OK)); // all begin together, and end so
    double begun = ax_metrics_clock();
    ax_status st = ax_comm_agree(h->world, work(h));
    if (h->world->rank == 0)
        h->b->seconds[w][h->round] = ax_metrics_clock() - begun;
    return st;
}

static ax_status forget(const char *dir, const char *name)
{
    char path[AX_PATH_MAX];
    int fd = -1;
    AX_TRY(ax_disk_join(path, dir, name));
    AX_TRY(ax_disk_open(path, O_RDONLY, &fd));
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return ax_disk_close(fd, path);
}

static ax_status forget_files(holder *h)
{
    if (h->world->rank != 0)
        return AX_OK;
    AX_TRY(forget(h->b->dir, "plain"));
    AX_TRY(forget(h->b->step, "model.safetensors"));
    return forget(h->b->step, "optimizer.safetensors");
}

static ax_status run_rounds(holder *h)
{
    for (h->round = 0; h->round < h->b->repeats; h->round++) {
        AX_TRY(measure(h, COPY, copy));
        if (h->world->rank == 0)
            unlink(h->b->file);
        AX_TRY(measure(h, WRITE, write_plain));
        AX_TRY(measure(h, SAVE, save));
        AX_TRY(measure(h, BACKGROUND, save_beside));
        AX_TRY(ax_comm_agree(h->world, forget_files(h)));
        AX_TRY(measure(h, READ, read_plain));
        AX_TRY(measure(h, LOAD, load));
    }
    return AX_OK;
}

static ax_status rank_main(void *ctx, ax_comm *world)
{
    holder h = {.b = ctx, .world = world};
    ax_status st = ax_comm_agree(world, hold(&h));
    if (st == AX_OK)
        st = copy(&h); // pages are there before anything is timed
    if (st == AX_OK)
        st = run_rounds(&h);
    ax_comm_end(world, st);
    let_go(&h);
    return st;
}

// ---- the figures

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(bench *b)
{
    double median[WHATS];
    size_t n = (size_t)b->repeats;
    printf("%.2f GB, %lld rank%s, %lld rounds: GB/s, min median max\n", b->bytes * 1e-9,
           (long long)b->ranks, b->ranks == 1 ? "" : "s", (long long)b->repeats);
    for (int w = 0; w < WHATS; w++) {
        double *s = b->seconds[w];
        qsort(s, n, sizeof *s, by_size);
        median[w] = s[n / 2];
    }
    for (int w = 0; w < WHATS; w++) {
        const double *s = b->seconds[w], gb = b->bytes * 1e-9;
        printf("%-36s %7.2f %7.2f %7.2f", rows[w].name, gb / s[n - 1], gb / median[w], gb / s[0]);
        if (rows[w].against >= 0)
            printf("   %.2f of %s", median[rows[w].against] / median[w],
                   rows[rows[w].against].name);
        printf("\n");
    }
}

static ax_status read_line(int argc, char **argv, bench *b)
{
    AX_CHECK(argc >= 2, AX_EUSAGE, "bench_checkpoint DIR [mib=384] [ranks=1] [repeats=5]");
    snprintf(b->dir, sizeof b->dir, "%s", argv[1]);
    for (int i = 2; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        int64_t *to = strncmp(argv[i], "mib=", 4) == 0       ? &b->mib
                      : strncmp(argv[i], "ranks=", 6) == 0   ? &b->ranks
                      : strncmp(argv[i], "repeats=", 8) == 0 ? &b->repeats
                                                             : NULL;
        AX_CHECK(to && ax_parse_int(value + 1, to) && *to > 0, AX_EUSAGE, "'%s' is no setting",
                 argv[i]);
    }
    AX_CHECK(b->repeats <= MOST_REPEATS && b->ranks <= 64 && b->mib >= 8 && b->mib <= 1 << 20,
             AX_EUSAGE, "8 MiB to 1 TiB, 64 ranks and %d rounds at most", MOST_REPEATS);
    AX_TRY(ax_disk_join(b->step, b->dir, "step-00000001"));
    return ax_disk_join(b->file, b->dir, "plain");
}

static void clear(const bench *b)
{
    static const char *const files[] = {"manifest.json", "model.safetensors",
                                        "optimizer.safetensors"};
    char path[AX_PATH_MAX];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (ax_disk_join(path, b->step, files[i]) == AX_OK)
            unlink(path);
    rmdir(b->step);
    unlink(b->file);
}

int main(int argc, char **argv)
{
    static bench b = {.mib = 384, .ranks = 1, .repeats = 5};
    ax_status st = read_line(argc, argv, &b);
    if (st == AX_OK)
        st = ax_ranks_run((int)b.ranks, rank_main, &b);
    if (st == AX_OK)
        print(&b);
    clear(&b);
    return st == AX_OK ? 0 : 1;
}

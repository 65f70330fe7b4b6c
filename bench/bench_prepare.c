// Megabytes of text a second that prepare turns into token files, against what one core copies in
// memory and what the disk takes, all measured in turns in one run. Least, median and most of the
// repeats.
//
//     bench_prepare DIRECTORY TEXTS.jsonl[,...] TOKENIZER...
//
// DIRECTORY is on the disk to be measured. Each tokenizer is run with one thread and with all.
#include "base/log.h"
#include "data/prepare.h"
#include "data/shard.h"
#include "dev/device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 5, BLOCK = 64 << 20 };

typedef struct rates { // MB/s
    double value[REPEATS];
    int count;
} rates;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(rates *r)
{
    qsort(r->value, (size_t)r->count, sizeof *r->value, compare);
    return r->value[r->count / 2];
}

static void print(const char *name, rates *r, double copy, double disk)
{
    double middle = median(r);
    printf("%-28s %8.1f %8.1f %8.1f MB/s", name, r->value[0], middle, r->value[r->count - 1]);
    if (copy > 0)
        printf("  %.4f of a copy, %.3f of the disk", middle / copy, middle / disk);
    printf("\n");
}

static ax_status measure_copy(rates *out)
{
    char *from = malloc(BLOCK), *to = malloc(BLOCK);
    AX_CHECK(from && to, AX_ENOMEM, "no memory to copy");
    memset(from, 1, BLOCK);
    memset(to, 2, BLOCK);
    double start = now();
    for (int i = 0; i < 8; i++) {
        from[i] = (char)i;
        memcpy(to, from, BLOCK);
        __asm__ volatile("" ::"r"(to) : "memory");
    }
    out->value[out->count++] = 8.0 * BLOCK * 1e-6 / (now() - start);
    free(from);
    free(to);
    return AX_OK;
}

static ax_status measure_disk(const char *dir, rates *out)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/bench-prepare-disk", dir);
    char *block = malloc(BLOCK);
    AX_CHECK(block, AX_ENOMEM, "no memory to write");
    memset(block, 3, BLOCK);
    double start = now();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    bool done = fd >= 0 && write(fd, block, BLOCK) == BLOCK && fsync(fd) == 0;
    out->value[out->count++] = BLOCK * 1e-6 / (now() - start);
    if (fd >= 0)
        close(fd);
    unlink(path);
    free(block);
    AX_CHECK(done, AX_EIO, "%s: cannot be written", path);
    return AX_OK;
}

static ax_status measure_prepare(const char *prefix, const ax_data_options *data,
                                 const ax_tokenizer *t, int threads, rates *out)
{
    ax_shard_writer *w;
    ax_prepare_result r;
    char path[4096];
    ax_prepare_options o = {.out = prefix, .threads = threads};
    double start = now();
    AX_TRY(ax_shard_writer_open(prefix, ax_tokenizer_vocab(t), &w));
    ax_status st = ax_prepare_files(data, &o, t, w, NULL, &r);
    if (st == AX_OK)
        st = ax_shard_writer_finish(w);
    ax_shard_writer_close(w);
    AX_TRY(st);
    out->value[out->count++] = (double)r.text_bytes * 1e-6 / (now() - start);
    static const char *const end[] = {"bin", "idx"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s.%s", prefix, end[i]);
        unlink(path);
    }
    return AX_OK;
}

static ax_status measure(const char *dir, const ax_data_options *data, const char *name)
{
    rates copy = {0}, disk = {0}, one = {0}, all = {0};
    char prefix[4096];
    ax_tokenizer *t;
    snprintf(prefix, sizeof prefix, "%s/bench-prepare", dir);
    AX_TRY(ax_tokenizer_open(name, &t));
    ax_status st = AX_OK;
    for (int i = 0; st == AX_OK && i < REPEATS; i++) {
        st = measure_copy(&copy);
        if (st == AX_OK)
            st = measure_disk(dir, &disk);
        if (st == AX_OK)
            st = measure_prepare(prefix, data, t, 1, &one);
        if (st == AX_OK)
            st = measure_prepare(prefix, data, t, ax_device_cores(), &all);
    }
    ax_tokenizer_close(t);
    AX_TRY(st);
    double a = median(&copy), b = median(&disk);
    printf("%s\n%-28s %8s %8s %8s\n", name, "", "least", "median", "most");
    print("copy in memory", &copy, 0, 0);
    print("write and sync", &disk, 0, 0);
    print("prepare, 1 thread", &one, a, b);
    snprintf(prefix, sizeof prefix, "prepare, %d threads", ax_device_cores());
    print(prefix, &all, a, b);
    return AX_OK;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "bench_prepare DIRECTORY TEXTS.jsonl[,...] TOKENIZER...\n");
        return 2;
    }
    ax_data_options data = {.train = argv[2], .valid = "", .text_key = "text", .eod = true};
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_WARN});
    ax_status st = AX_OK;
    for (int i = 3; st == AX_OK && i < argc; i++)
        st = measure(argv[1], &data, argv[i]);
    return st != AX_OK;
}

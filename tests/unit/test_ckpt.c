// Checkpoints: what one grid saves, every grid loads; what does not fit is refused by name; a save
// that fails or is killed harms nothing.
#include "base/log.h"
#include "ckpt/ckpt.h"
#include "dev/kern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- a disk that fails: the library's calls end here

enum { NEVER = 1 << 30, KILLED = 77 };
static atomic_int calls_left = NEVER; // system calls until the disk fails
static atomic_bool kill_then;         // the process ends instead
static atomic_bool short_writes;      // every write stops half-way

static bool fails_now(void)
{
    if (atomic_fetch_sub(&calls_left, 1) != 1)
        return false;
    if (kill_then)
        _exit(KILLED);
    errno = ENOSPC;
    return true;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    if (fails_now())
        return -1;
    if (short_writes && count > 1)
        count /= 2;
    return syscall(SYS_pwrite64, fd, bytes, count, offset);
}

// Nothing here outlives a crash of the machine, so nothing waits for the disk.
int fsync(int fd)
{
    return fd < 0 || fails_now() ? -1 : 0;
}

int rename(const char *from, const char *to)
{
    return fails_now() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    return fails_now() ? -1 : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    return fails_now() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

// ---- a place to save in

// root/name; kept, each once, until the next test.
static const char *path_in(const char *root, const char *name)
{
    static char paths[32][512];
    static int count;
    char path[sizeof paths[0]];
    count = name ? count : 0;
    snprintf(path, sizeof path, "%s/%s", root, name ? name : "");
    for (int i = 0; i < count; i++)
        if (strcmp(paths[i], path) == 0)
            return paths[i];
    assert_in_range(count, 0, 31);
    return memcpy(paths[count++], path, sizeof path);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int open_place(void **state)
{
    char *root = strdup("/tmp/axonn-test-ckpt-XXXXXX");
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    *state = root;
    path_in("", NULL); // forgets the last test's
    return root && mkdtemp(root) ? 0 : -1;
}

static int close_place(void **state)
{
    nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return 0;
}

// ---- a small model that has every kind of parameter

enum { VOCAB = 100, H = 24, POSITIONS = 10, WIDE = 40 };

static const ax_param model[] = {
    {.name = "embed.weight", .rows = VOCAB, .cols = H, .row_span = AX_OVER_XY, .matrix = true},
    {.name = "positions.weight", .rows = POSITIONS, .cols = H, .col_span = AX_OVER_Y},
    {.name = "norm.weight", .rows = 1, .cols = H, .col_span = AX_OVER_Y},
    {.name = "q.weight",
     .rows = 24,
     .cols = WIDE,
     .row_span = AX_OVER_X,
     .col_span = AX_OVER_Y,
     .matrix = true},
    {.name = "k.weight",
     .rows = 8,
     .cols = WIDE,
     .row_span = AX_OVER_KV,
     .col_span = AX_OVER_Y,
     .matrix = true,
     .joined = true},
    {.name = "q.bias", .rows = 1, .cols = 24, .col_span = AX_OVER_X},
    {.name = "k.bias", .rows = 1, .cols = 8, .col_span = AX_OVER_KV},
    {.name = "o.weight",
     .rows = WIDE,
     .cols = 24,
     .row_span = AX_OVER_Y,
     .col_span = AX_OVER_X,
     .matrix = true},
    {.name = "sliver.weight", .rows = 8, .cols = 1, .row_span = AX_OVER_X, .matrix = true},
    {.name = "large.weight", // more than a host buffer
     .rows = 1032,
     .cols = 264,
     .row_span = AX_OVER_X,
     .col_span = AX_OVER_Y,
     .matrix = true},
    {.name = "whole.bias", .rows = 1, .cols = 3},
};
enum { PARAMS = sizeof model / sizeof model[0], SMALL = 9, FEW = 3 };

// What element (row, col) of a tensor holds, in double; a few are no ordinary numbers.
static double value(const char *name, int kind, int64_t row, int64_t col)
{
    uint64_t index = (uint64_t)(row * 4096 + col);
    if (index % 31 == 7)
        return -0.0;
    uint64_t mix = (index * 4 + (uint64_t)kind) * 0x9e3779b97f4a7c15u + (uint64_t)name[0];
    double v = (float)(mix ^ mix >> 29) * 0x1p-63 - 1;
    v = (float)v;
    return index % 37 == 5 ? (float)(v * 1e-42) : v;
}

typedef struct scene {
    const char *grid, *dir;
    int kv_copies, params;
    ax_dtype act, acc;
    bool save, with_state, no_state;
    bool converted; // the file is of another dtype
    ax_status expected;
    int64_t step;
    char *config;
} scene;

typedef struct ranked {
    ax_comm *world;
    const scene *scene;
    ax_params ps;
    ax_grid g;
    ax_device dev;
    void *memory;
    size_t bytes; // at memory
    ax_status st;
    int64_t wrong;
    char error[512];
} ranked;

static double element(ax_tensor t, int64_t i)
{
    if (t.dtype == AX_F64)
        return ((double *)t.data)[i];
    return t.dtype == AX_F32 ? ((float *)t.data)[i] : ax_bf16_to_f32(((ax_bf16 *)t.data)[i]);
}

static void put(ax_tensor t, int64_t i, double v)
{
    if (t.dtype == AX_F64)
        ((double *)t.data)[i] = v;
    else
        ((float *)t.data)[i] = (float)v;
}

// A signalling NaN survives only where no arithmetic touches it.
static const uint32_t odd_nan = 0x7f812345u;

static bool holds_nan(const ax_param *p, int64_t row, int64_t col)
{
    return strcmp(p->name, "q.weight") == 0 && row == 13 && col == 29;
}

static void fill(const ax_param *p, ax_tensor t, int kind)
{
    memset(t.data, 0x7f, ax_tensor_bytes(t)); // padding must not reach the file
    for (ax_run r = {0}; ax_param_next_run(p, &r);)
        for (int64_t i = 0; i < r.count; i++) {
            put(t, r.at + i, value(p->name, kind, r.row, r.col + i));
            if (holds_nan(p, r.row, r.col + i) && t.dtype == AX_F32)
                memcpy((float *)t.data + r.at + i, &odd_nan, sizeof odd_nan);
        }
}

static bool same(ax_tensor t, int64_t i, double want)
{
    if (t.dtype == AX_BF16)
        want = ax_bf16_to_f32(ax_f32_to_bf16((float)want));
    double got = element(t, i);
    return memcmp(&got, &want, sizeof got) == 0;
}

static int64_t count_wrong(const scene *s, const ax_param *p, ax_tensor t, int kind)
{
    int64_t wrong = 0, end = 0;
    for (ax_run r = {0}; ax_param_next_run(p, &r); end = r.next)
        for (int64_t i = 0; i < r.count; i++) {
            if (!holds_nan(p, r.row, r.col + i))
                wrong += !same(t, r.at + i, value(p->name, kind, r.row, r.col + i));
            else if (t.dtype == AX_F32 && !s->converted)
                wrong += memcmp((float *)t.data + r.at + i, &odd_nan, sizeof odd_nan) != 0;
        }
    for (; end < t.cols; end++)
        wrong += !same(t, end, 0.0);
    return wrong;
}

static ax_status build(ranked *k)
{
    const scene *s = k->scene;
    ax_grid_shape shape;
    AX_TRY(ax_grid_parse(s->grid, &shape));
    AX_TRY(ax_grid_open(k->world, shape, s->kv_copies, &k->g));
    AX_TRY(ax_device_open(&(ax_device_config){.name = "ref", .threads = 1, .core = -1}, &k->dev));
    k->ps = (ax_params){.count = s->params, .act = s->act, .acc = s->acc};
    k->ps.list = calloc(PARAMS, sizeof *k->ps.list);
    memcpy(k->ps.list, model, (size_t)s->params * sizeof *k->ps.list);
    k->ps.list[0].padded_rows = 64ll * shape.x * shape.y;
    while (k->ps.list[0].padded_rows < VOCAB)
        k->ps.list[0].padded_rows += 64ll * shape.x * shape.y;
    for (int i = 0; i < s->params; i++)
        AX_TRY(ax_param_place(&k->ps.list[i], &k->g));
    int what = s->no_state ? 0 : AX_BIND_STATE;
    ax_arena a = ax_arena_measure("run");
    AX_TRY(ax_params_bind(&k->ps, &k->g, &a, what));
    AX_TRY(ax_device_alloc(&k->dev, a.peak, &k->memory));
    k->bytes = a.peak;
    a = ax_arena_over("run", k->memory, a.peak);
    return ax_params_bind(&k->ps, &k->g, &a, what);
}

static void fill_all(ranked *k)
{
    for (int i = 0; i < k->ps.count; i++) {
        ax_param *p = &k->ps.list[i];
        memset(p->weight.data, 0x7f, ax_tensor_bytes(p->weight));
        if (p->master.data)
            fill(p, p->master, 0);
        if (p->m.data) {
            fill(p, p->m, 1);
            fill(p, p->v, 2);
        }
    }
}

// Every part of the piece that this rank gathered, seen as the rank that owns it.
static int64_t wrong_weights(const ranked *k, const ax_param *p)
{
    int64_t wrong = 0;
    for (int d = 0; p->matrix && d < k->g.shape.data; d++) {
        ax_param other = *p;
        other.first += (d - k->g.cd) * p->part;
        wrong += count_wrong(k->scene, &other, ax_tensor_cols(p->weight, d * p->part, p->part), 0);
    }
    return wrong;
}

static void check_all(ranked *k)
{
    for (int i = 0; i < k->ps.count; i++) {
        const ax_param *p = &k->ps.list[i];
        k->wrong += wrong_weights(k, p);
        if (p->master.data)
            k->wrong += count_wrong(k->scene, p, p->master, 0);
        for (int64_t j = 0; p->m.data && !k->scene->with_state && j < p->m.cols; j++)
            k->wrong += element(p->m, j) != 0 || element(p->v, j) != 0;
        if (p->m.data && k->scene->with_state)
            k->wrong += count_wrong(k->scene, p, p->m, 1) + count_wrong(k->scene, p, p->v, 2);
    }
}

static void *run_rank(void *arg)
{
    ranked *k = arg;
    const scene *s = k->scene;
    ax_log_setup((ax_log_config){.rank = k->world->rank, .ranks = k->world->size, .muted = true});
    k->st = build(k);
    if (k->st == AX_OK)
        fill_all(k);
    ax_ckpt_info info = {.step = s->step, .updates = 7, .tokens = 1ll << 40, .config = s->config};
    if (k->st == AX_OK && s->save)
        k->st = ax_ckpt_save(s->dir, &k->ps, &k->g, &k->dev, &info);
    else if (k->st == AX_OK) {
        for (int i = 0; i < k->ps.count; i++)
            if (k->ps.list[i].master.data)
                memset(k->ps.list[i].master.data, 0x7f, ax_tensor_bytes(k->ps.list[i].master));
        k->st = ax_ckpt_load(s->dir, &k->ps, &k->g, &k->dev, s->with_state);
        if (k->st == AX_OK)
            check_all(k);
    }
    snprintf(k->error, sizeof k->error, "%s", ax_error_text());
    ax_device_free(&k->dev, k->memory, k->bytes);
    ax_params_fini(&k->ps);
    ax_device_close(&k->dev);
    ax_grid_close(&k->g);
    ax_comm_close(k->world);
    return NULL;
}

enum { RANKS_MAX = 8 };

static ax_status finish_play(const scene *s, ranked *ranks, int count, const char **why)
{
    static char error[512];
    for (int i = 0; i < count; i++) {
        if (ranks[i].st != ranks[0].st || ranks[i].wrong)
            print_message("%s, rank %d of %s: %s, %lld wrong: %s\n", s->save ? "save" : "load", i,
                          s->grid, ax_status_name(ranks[i].st), (long long)ranks[i].wrong,
                          ranks[i].error);
        assert_int_equal(ranks[i].st, ranks[0].st);
        assert_int_equal(ranks[i].wrong, 0);
    }
    snprintf(error, sizeof error, "%s", ranks[0].error);
    *why = error;
    return ranks[0].st;
}

// Plays a scene on all ranks of its grid, which must return the same; *why: rank 0's message.
static ax_status play_any(scene s, const char **why)
{
    ax_grid_shape shape;
    ax_comm *worlds[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    ranked ranks[RANKS_MAX] = {0};
    s.params = s.params ? s.params : PARAMS;
    s.kv_copies = s.kv_copies ? s.kv_copies : 1;
    assert_int_equal(ax_grid_parse(s.grid, &shape), AX_OK);
    int count = ax_grid_ranks(&shape);
    assert_int_equal(ax_comm_local_open(count, worlds), AX_OK);
    for (int i = 0; i < count; i++) {
        ranks[i] = (ranked){.world = worlds[i], .scene = &s};
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return finish_play(&s, ranks, count, why);
}

static const char *play(scene s)
{
    const char *why;
    ax_status st = play_any(s, &why);
    if (st != s.expected)
        print_message("%s of %s: %s: %s\n", s.save ? "save" : "load", s.grid, ax_status_name(st),
                      why);
    assert_int_equal(st, s.expected);
    return why;
}

static scene saving(const char *grid, const char *dir)
{
    return (scene){.grid = grid, .dir = dir, .save = true, .step = 100};
}

static scene loading(const char *grid, const char *dir)
{
    return (scene){.grid = grid, .dir = dir, .with_state = true};
}

// ---- any grid loads what any grid saved

static const struct {
    const char *grid;
    int kv_copies;
} grids[] = {
    {"x=1", 1},        {"x=2,y=2,z=2", 1},
    {"z=8", 1},        {"data=8", 1},
    {"x=4,z=2", 2},    {"x=8", 4},
    {"y=8", 1},        {"x=4,data=2,order=dxyz", 2},
    {"y=4,data=2", 1}, {"x=2,z=2,data=2", 1},
};
enum { GRIDS = sizeof grids / sizeof grids[0] };

static void what_one_grid_saves_every_grid_loads(void **state)
{
    const char *dir = path_in(*state, "step-00000100");
    for (int from = 0; from < GRIDS; from++) {
        scene s = saving(grids[from].grid, dir); // replaces the one before
        s.kv_copies = grids[from].kv_copies;
        play(s);
        for (int to = 0; to < GRIDS; to++) {
            if (from != 1 && to != (from + 3) % GRIDS)
                continue;
            s = loading(grids[to].grid, dir);
            s.kv_copies = grids[to].kv_copies;
            play(s);
        }
    }
}

static char *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    bytes[*size] = 0;
    fclose(f);
    return bytes;
}

static void all_grids_write_the_same_bytes(void **state)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
    const char *dir = path_in(*state, "step-00000200");
    char *first[2], *now;
    size_t first_size[2], size;
    for (int g = 0; g < GRIDS; g++) {
        scene s = saving(grids[g].grid, dir);
        s.kv_copies = grids[g].kv_copies;
        play(s);
        for (int f = 0; f < 2; f++) {
            now = slurp(path_in(dir, files[f]), &size);
            if (g == 0) {
                first[f] = now;
                first_size[f] = size;
                continue;
            }
            assert_int_equal(size, first_size[f]);
            assert_memory_equal(now, first[f], size);
            free(now);
        }
    }
    free(first[0]);
    free(first[1]);
}

// The file is read with no code of the library: a search for the name and sscanf.
static void the_bytes_lie_where_the_header_says(void **state)
{
    const char *dir = path_in(*state, "step-00000300");
    play(saving("x=2,y=2,z=2", dir));
    size_t size;
    char *file = slurp(path_in(dir, "model.safetensors"), &size);
    uint64_t n;
    memcpy(&n, file, sizeof n); // tests run on little-endian machines
    assert_int_equal(n % 8, 0);
    assert_int_equal(file[8], '{');
    long long end_of_all = 0;
    for (int i = 0; i < PARAMS; i++) {
        const ax_param *p = &model[i];
        char head[256], shape[64];
        bool flat = p->rows == 1;
        snprintf(shape, sizeof shape, flat ? "[%lld]" : "[%lld, %lld]",
                 (long long)(flat ? p->cols : p->rows), (long long)p->cols);
        snprintf(head, sizeof head,
                 "\"%.63s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":", p->name, shape);
        const char *at = memmem(file + 8, n, head, strlen(head));
        assert_non_null(at);
        long long begin, end;
        assert_int_equal(sscanf(at + strlen(head), "[%lld,%lld]", &begin, &end), 2);
        assert_int_equal(end - begin, p->rows * p->cols * 4);
        end_of_all = end > end_of_all ? end : end_of_all;
        for (int64_t e = 0; e < p->rows * p->cols; e++) {
            float want = (float)value(p->name, 0, e / p->cols, e % p->cols);
            const void *expected = holds_nan(p, e / p->cols, e % p->cols) ? (const void *)&odd_nan
                                                                          : (const void *)&want;
            assert_memory_equal(file + 8 + n + begin + e * 4, expected, 4);
        }
    }
    assert_int_equal(8 + n + (uint64_t)end_of_all, size);
    free(file);
}

static void float_and_double_checkpoints_are_read_by_either(void **state)
{
    const char *dir = path_in(*state, "step-00000400");
    for (int wide = 0; wide < 2; wide++) {
        ax_dtype mine = wide ? AX_F64 : AX_F32, other = wide ? AX_F32 : AX_F64;
        scene s = saving("x=2,z=2", dir);
        s.act = s.acc = mine;
        play(s);
        ax_ckpt_info info;
        assert_int_equal(ax_ckpt_read_info(dir, &info), AX_OK);
        assert_int_equal(info.dtype, mine);
        ax_ckpt_info_fini(&info);
        s = loading("y=2,data=2", dir);
        s.act = s.acc = mine;
        play(s);
        s.act = s.acc = other;
        s.converted = true;
        play(s);
    }
}

static void bf16_runs_keep_float_masters_and_inference_needs_none(void **state)
{
    const char *dir = path_in(*state, "step-00000500");
    scene s = saving("x=2,z=2", dir);
    s.act = AX_BF16;
    play(s);
    s = loading("x=2,data=2", dir);
    s.act = AX_BF16;
    play(s);
    s.with_state = false; // moments are there, and zeroed
    play(s);
    s.no_state = true;
    play(s);
    s.grid = "y=2,z=2,data=2";
    play(s);
}

static void the_manifest_gives_back_what_was_saved(void **state)
{
    const char *dir = path_in(*state, "step-00000600");
    scene s = saving("x=2", dir);
    s.step = 600;
    s.config = "model:\n  preset: \"tiny\"\\ \xc3\xa4\n";
    play(s);
    ax_ckpt_info info;
    assert_int_equal(ax_ckpt_read_info(dir, &info), AX_OK);
    assert_int_equal(info.step, 600);
    assert_int_equal(info.updates, 7);
    assert_true(info.tokens == 1ll << 40);
    assert_int_equal(info.dtype, AX_F32);
    assert_string_equal(info.config, s.config);
    ax_ckpt_info_fini(&info);
    struct stat st;
    assert_int_equal(stat(path_in(*state, ".tmp-step-00000600"), &st), -1);
}

// ---- what does not fit is named

static void a_checkpoint_of_another_model_is_refused_by_tensor(void **state)
{
    const char *dir = path_in(*state, "step-00000700");
    scene s = saving("x=2", dir);
    s.params = SMALL;
    play(s);
    s = loading("z=2", dir);
    s.expected = AX_EFORMAT;
    const char *why = play(s);
    assert_non_null(strstr(why, "model.safetensors"));
    assert_non_null(strstr(why, "'large.weight' of the model is missing"));
    s.params = SMALL - 1;
    assert_non_null(strstr(play(s), "'sliver.weight' is no parameter"));

    s = saving("x=2", dir);
    s.params = SMALL;
    s.no_state = true; // float: masters lie in the weights
    play(s);
    s = loading("z=2", dir);
    s.params = SMALL;
    s.expected = AX_EFORMAT;
    assert_non_null(strstr(play(s), "no optimizer state"));
    s.expected = AX_OK;
    s.with_state = false;
    play(s);
}

static void write_file(const char *path, const void *bytes, size_t count)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

// As the first version wrote it, without checksums.
static void write_old_manifest(const char *dir, size_t size)
{
    char text[256];
    int n = snprintf(text, sizeof text,
                     "{\"format\":1,\"step\":3,\"updates\":3,\"tokens\":5,\"dtype\":\"f32\","
                     "\"config\":\"\",\"files\":[{\"name\":\"model.safetensors\",\"bytes\":%zu}]}",
                     size);
    write_file(path_in(dir, "manifest.json"), text, (size_t)n);
}

static void a_tensor_of_another_shape_is_refused_with_both_shapes(void **state)
{
    const char *dir = path_in(*state, "step-00000800");
    play(saving("x=1", dir));
    size_t size;
    char *file = slurp(path_in(dir, "model.safetensors"), &size);
    char *shape = memmem(file, size, "[100, 24]", 9);
    assert_non_null(shape);
    memcpy(shape, "[24, 100]", 9);
    write_file(path_in(dir, "model.safetensors"), file, size);
    scene s = loading("x=2", dir);
    s.expected = AX_EFORMAT;
    s.with_state = false;
    assert_non_null(strstr(play(s), "its header does not give its checksum"));
    write_old_manifest(dir, size);
    const char *why = play(s);
    assert_non_null(strstr(why, "'embed.weight' is [24, 100], but the model's is [100, 24]"));

    write_file(path_in(dir, "model.safetensors"), file, size - 1);
    assert_non_null(strstr(play(s), "the manifest says"));
    free(file);
}

static void a_broken_manifest_is_refused(void **state)
{
    static const struct {
        const char *text, *why;
        ax_status st;
    } cases[] = {
        {"{", "manifest.json:1: not valid", AX_EFORMAT},
        {"{\"format\":2}", "its last line is not its checksum", AX_EFORMAT},
        {"{\"format\":0}", "no format 0", AX_EFORMAT},
        {"{\"format\":3}", "newer than this program", AX_EFORMAT},
        {"{\"format\":1,\"step\":-1}", "'step' is not a count", AX_EFORMAT},
        {"{\"format\":1,\"step\":1,\"updates\":1,\"tokens\":1,\"dtype\":\"i32\"}", "dtype 'i32'",
         AX_EFORMAT},
        {"{\"format\":1,\"step\":1,\"updates\":1,\"tokens\":1,\"dtype\":\"f32\",\"config\":\"\","
         "\"files\":[{\"name\":\"../x\",\"bytes\":1}]}",
         "'../x' is no file of a checkpoint", AX_EFORMAT},
        {"{\"format\":1,\"step\":1,\"updates\":1,\"tokens\":1,\"dtype\":\"f32\",\"config\":\"\","
         "\"files\":[{\"name\":\"..\",\"bytes\":1}]}",
         "'..' is no file of a checkpoint", AX_EFORMAT},
        {"{\"format\":1,\"step\":1,\"updates\":1,\"tokens\":1,\"dtype\":\"f32\",\"config\":\"\","
         "\"files\":[{\"name\":\"a\",\"bytes\":1},{\"name\":\"a\",\"bytes\":1}]}",
         "'a' is listed twice", AX_EFORMAT},
        {"{\"format\":1,\"step\":1,\"updates\":1,\"tokens\":1,\"dtype\":\"f32\",\"config\":\"\","
         "\"files\":[{\"name\":\"a\",\"bytes\":1e3}]}",
         "'bytes' is not a count", AX_EFORMAT},
        {"{\"format\":1,\"step\":1,\"updates\":1,\"tokens\":1,\"dtype\":\"f32\",\"config\":\"\","
         "\"files\":[{\"name\":\"gone\",\"bytes\":1}]}",
         "gone: cannot read its size", AX_EIO},
    };
    const char *dir = path_in(*state, "broken");
    ax_ckpt_info info;
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_int_equal(ax_ckpt_read_info(dir, &info), AX_EIO);
    assert_non_null(strstr(ax_error_text(), "no checkpoint"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(path_in(dir, "manifest.json"), cases[i].text, strlen(cases[i].text));
        assert_int_equal(ax_ckpt_read_info(dir, &info), cases[i].st);
        if (!strstr(ax_error_text(), cases[i].why))
            fail_msg("'%s' does not say '%s'", ax_error_text(), cases[i].why);
    }
}

// ---- a disk that fails

// The step that stands in a checkpoint; -1: there is none.
static int64_t step_of(const char *dir)
{
    ax_ckpt_info info;
    if (ax_ckpt_read_info(dir, &info) != AX_OK)
        return -1;
    int64_t step = info.step;
    ax_ckpt_info_fini(&info);
    return step;
}

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

static void a_save_that_cannot_be_written_leaves_the_older_one(void **state)
{
    const char *old = path_in(*state, "step-00000001");
    play(saving("x=2", old));

    scene s = saving("x=2", path_in(*state, "none/step-00000002"));
    s.expected = AX_EIO;
    assert_non_null(strstr(play(s), "none/.tmp-step-00000002: cannot make the directory: No such"));
    s.dir = path_in(old, "model.safetensors/step-00000002"); // below a file
    assert_non_null(strstr(play(s), "Not a directory"));
    if (geteuid() != 0) {
        const char *locked = path_in(*state, "locked");
        assert_int_equal(mkdir(locked, 0555), 0);
        s.dir = path_in(locked, "step-00000002");
        assert_non_null(strstr(play(s), "Permission denied"));
    }
    s.expected = AX_EUSAGE;
    s.dir = *state; // holds other things
    assert_non_null(strstr(play(s), "exists and is no checkpoint"));

    struct rlimit before, tight;
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    tight = before;
    tight.rlim_cur = 64 * 1024;
    setrlimit(RLIMIT_FSIZE, &tight);
    s.expected = AX_EIO;
    s.dir = path_in(*state, "step-00000002");
    const char *why = play(s);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_non_null(strstr(why, "model.safetensors"));
    assert_non_null(strstr(why, "File too large"));
    assert_false(exists(s.dir));
    assert_false(exists(path_in(*state, ".tmp-step-00000002")));
    play(loading("z=2", path_in(*state, "step-00000001")));
}

// The n-th system call fails, for every n: all ranks return the same error, nothing is left over,
// and the checkpoint that was there, of another name or of the same, is whole.
static void every_call_to_the_disk_may_fail(void **state)
{
    for (int same_name = 0; same_name < 2; same_name++) {
        const char *old = path_in(*state, same_name ? "step-00000012" : "step-00000011");
        const char *next = path_in(*state, "step-00000012");
        scene s = saving("x=2,y=2", old), check = loading("z=2", old);
        s.params = check.params = FEW;
        s.step = 11;
        play(s);
        s.dir = next;
        s.step = 12;
        ax_status st = AX_EIO;
        for (int n = 1; st != AX_OK; n++) {
            const char *why;
            atomic_store(&calls_left, n);
            st = play_any(s, &why);
            bool failed = atomic_exchange(&calls_left, NEVER) <= 0;
            assert_int_equal(st, failed ? AX_EIO : AX_OK);
            assert_int_equal(step_of(old), same_name && !failed ? 12 : 11);
            assert_int_equal(step_of(next), !failed ? 12 : same_name ? 11 : -1);
            assert_false(exists(path_in(*state, ".tmp-step-00000012")));
            if (n % 16 == 1)
                play(check);
        }
    }
}

// The same with a process that ends there. What it leaves does not disturb the next save.
static void a_process_may_die_at_any_call(void **state)
{
    const char *dir = path_in(*state, "step-00000020");
    scene s = saving("x=1", dir), check = loading("z=2", dir);
    s.params = check.params = FEW;
    s.step = 20;
    play(s);
    s.step = 21;
    int status = 0;
    for (int n = 1; n == 1 || WEXITSTATUS(status) == KILLED; n++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            const char *why;
            kill_then = true;
            atomic_store(&calls_left, n);
            _exit(play_any(s, &why) != AX_OK);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == KILLED || WEXITSTATUS(status) == 0);
        assert_in_range(step_of(dir), 20, 21);
        play(check);
    }
    play(s);
    assert_int_equal(step_of(dir), 21);
    assert_false(exists(path_in(*state, ".tmp-step-00000020")));
    play(check);
}

static void writes_that_stop_half_way_go_on(void **state)
{
    const char *dir = path_in(*state, "step-00000030");
    atomic_store(&short_writes, true);
    play(saving("y=2", dir));
    atomic_store(&short_writes, false);
    play(loading("x=2", dir));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_place, close_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_one_grid_saves_every_grid_loads),
        CASE(all_grids_write_the_same_bytes),
        CASE(the_bytes_lie_where_the_header_says),
        CASE(float_and_double_checkpoints_are_read_by_either),
        CASE(bf16_runs_keep_float_masters_and_inference_needs_none),
        CASE(the_manifest_gives_back_what_was_saved),
        CASE(a_checkpoint_of_another_model_is_refused_by_tensor),
        CASE(a_tensor_of_another_shape_is_refused_with_both_shapes),
        CASE(a_broken_manifest_is_refused),
        CASE(a_save_that_cannot_be_written_leaves_the_older_one),
        CASE(every_call_to_the_disk_may_fail),
        CASE(a_process_may_die_at_any_call),
        CASE(writes_that_stop_half_way_go_on),
    };
    return cmocka_run_group_tests_name("ckpt", tests, NULL, NULL);
}

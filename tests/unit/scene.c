#include "scene.h"

#include "base/log.h"
#include "dev/kern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- a place to save in

// root/name; kept, each once, until the next test.
const char *scene_path(const char *root, const char *name)
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

int scene_open_place(void **state)
{
    char *root = strdup("/tmp/axonn-test-ckpt-XXXXXX");
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    *state = root;
    scene_path("", NULL); // forgets the last test's
    return root && mkdtemp(root) ? 0 : -1;
}

int scene_close_place(void **state)
{
    nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return 0;
}

// ---- files

char *scene_slurp(const char *path, size_t *size)
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

void scene_write(const char *path, const void *bytes, size_t count)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

// The step that stands in a checkpoint; -1: there is none.
int64_t scene_step_of(const char *dir)
{
    ax_ckpt_info info;
    if (ax_ckpt_read_info(dir, &info) != AX_OK)
        return -1;
    int64_t step = info.step;
    ax_ckpt_info_fini(&info);
    return step;
}

bool scene_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

// ---- the model

const ax_param scene_model[] = {
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

// What element (row, col) of a tensor holds, in double; a few are no ordinary numbers.
double scene_value(const char *name, int kind, int64_t row, int64_t col)
{
    uint64_t index = (uint64_t)(row * 4096 + col);
    if (index % 31 == 7)
        return -0.0;
    uint64_t mix = (index * 4 + (uint64_t)kind) * 0x9e3779b97f4a7c15u + (uint64_t)name[0];
    double v = (float)(mix ^ mix >> 29) * 0x1p-63 - 1;
    v = (float)v;
    return index % 37 == 5 ? (float)(v * 1e-42) : v;
}

// ---- the ranks

typedef struct ranked {
    ax_comm *world;
    const scene *scene;
    ax_params ps;
    ax_grid g;
    ax_device dev;
    ax_ckpt_snapshot snapshot;
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
const uint32_t scene_odd_nan = 0x7f812345u;

bool scene_holds_nan(const ax_param *p, int64_t row, int64_t col)
{
    return strcmp(p->name, "q.weight") == 0 && row == 13 && col == 29;
}

static void fill(const ax_param *p, ax_tensor t, int kind)
{
    memset(t.data, 0x7f, ax_tensor_bytes(t)); // padding must not reach the file
    for (ax_run r = {0}; ax_param_next_run(p, &r);)
        for (int64_t i = 0; i < r.count; i++) {
            put(t, r.at + i, scene_value(p->name, kind, r.row, r.col + i));
            if (scene_holds_nan(p, r.row, r.col + i) && t.dtype == AX_F32)
                memcpy((float *)t.data + r.at + i, &scene_odd_nan, sizeof scene_odd_nan);
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
            if (!scene_holds_nan(p, r.row, r.col + i))
                wrong += !same(t, r.at + i, scene_value(p->name, kind, r.row, r.col + i));
            else if (t.dtype == AX_F32 && !s->converted)
                wrong +=
                    memcmp((float *)t.data + r.at + i, &scene_odd_nan, sizeof scene_odd_nan) != 0;
        }
    for (; end < t.cols; end++)
        wrong += !same(t, end, 0.0);
    return wrong;
}

static ax_status bind(ranked *k, ax_arena *a, int what)
{
    AX_TRY(ax_params_bind(&k->ps, &k->g, a, what));
    return k->scene->background ? ax_ckpt_snapshot_bind(&k->snapshot, &k->ps, a) : AX_OK;
}

static void pin(void)
{
    cpu_set_t set, one;
    int core = 0;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET(core, &set))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

static ax_status build(ranked *k)
{
    const scene *s = k->scene;
    ax_grid_shape shape;
    AX_TRY(ax_grid_parse(s->grid, &shape));
    AX_TRY(ax_grid_open(k->world, shape, s->kv_copies, &k->g));
    AX_TRY(ax_device_open(&(ax_device_config){.name = "ref", .threads = 1, .core = -1}, &k->dev));
    if (s->pinned)
        pin();
    k->ps = (ax_params){.count = s->params, .act = s->act, .acc = s->acc};
    k->ps.list = calloc(PARAMS, sizeof *k->ps.list);
    memcpy(k->ps.list, scene_model, (size_t)s->params * sizeof *k->ps.list);
    k->ps.list[0].padded_rows = 64ll * shape.x * shape.y;
    while (k->ps.list[0].padded_rows < VOCAB)
        k->ps.list[0].padded_rows += 64ll * shape.x * shape.y;
    for (int i = 0; i < s->params; i++)
        AX_TRY(ax_param_place(&k->ps.list[i], &k->g));
    int what = s->no_state ? 0 : AX_BIND_STATE;
    ax_arena a = ax_arena_measure("run");
    AX_TRY(bind(k, &a, what));
    AX_TRY(ax_device_alloc(&k->dev, a.peak, &k->memory));
    k->bytes = a.peak;
    a = ax_arena_over("run", k->memory, a.peak);
    return bind(k, &a, what);
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

// As the steps after a snapshot change them.
static void spoil_all(ranked *k)
{
    for (int i = 0; i < k->ps.count; i++) {
        const ax_tensor all[] = {k->ps.list[i].master, k->ps.list[i].m, k->ps.list[i].v};
        for (int t = 0; t < 3; t++)
            if (all[t].data)
                memset(all[t].data, 0x7f, ax_tensor_bytes(all[t]));
    }
}

static ax_status save_all(ranked *k)
{
    const scene *s = k->scene;
    ax_ckpt_info info = {.step = s->step,
                         .updates = 7,
                         .tokens = 1ll << 40,
                         .config = s->config,
                         .state = s->state,
                         .companions = s->companions};
    ax_ckpt_saving *saving;
    fill_all(k);
    if (!s->background)
        return ax_ckpt_save(s->dir, &k->ps, &k->g, &k->dev, &info);
    ax_status st = ax_ckpt_save_begin(
        s->dir, &(ax_ckpt_source){&k->ps, &k->g, &k->dev, &k->snapshot}, &info, &saving);
    if (st != AX_OK)
        return s->must_begin ? AX_EINTERNAL : st;
    spoil_all(k);
    return ax_ckpt_save_finish(saving);
}

static ax_status load_all(ranked *k)
{
    spoil_all(k);
    AX_TRY(ax_ckpt_load(k->scene->dir, &k->ps, &k->g, &k->dev, k->scene->with_state));
    check_all(k);
    return AX_OK;
}

static void *run_rank(void *arg)
{
    ranked *k = arg;
    ax_log_setup((ax_log_config){.rank = k->world->rank, .ranks = k->world->size, .muted = true});
    k->st = build(k);
    if (k->st == AX_OK)
        k->st = k->scene->save ? save_all(k) : load_all(k);
    snprintf(k->error, sizeof k->error, "%s", ax_error_text());
    ax_ckpt_snapshot_fini(&k->snapshot);
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
ax_status scene_play_any(scene s, const char **why)
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

const char *scene_play(scene s)
{
    const char *why;
    ax_status st = scene_play_any(s, &why);
    if (st != s.expected)
        print_message("%s of %s: %s: %s\n", s.save ? "save" : "load", s.grid, ax_status_name(st),
                      why);
    assert_int_equal(st, s.expected);
    return why;
}

scene scene_saving(const char *grid, const char *dir)
{
    return (scene){.grid = grid, .dir = dir, .save = true, .step = 100};
}

scene scene_loading(const char *grid, const char *dir)
{
    return (scene){.grid = grid, .dir = dir, .with_state = true};
}

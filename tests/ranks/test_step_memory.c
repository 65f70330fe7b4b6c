// A step after the first allocates nothing in our own code, and what libraries allocate inside a
// step does not grow. Linked with every allocating function wrapped: calls from our objects come
// here, those of shared libraries do not.
#include "trial.h"
#include "grid_case.h"
#include "verdict.h"

#include "base/log.h"
#include "train/ranks.h"
#include "train/step.h"

#include "train/tuning.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_bool counting;
static atomic_int calls;

#define COUNTED() (void)(atomic_load(&counting) && atomic_fetch_add(&calls, 1))

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *mem, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
int __real_posix_memalign(void **mem, size_t align, size_t size);
void __real_free(void *mem);
void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
char *__real_strdup(const char *text);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *mem, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
int __wrap_posix_memalign(void **mem, size_t align, size_t size);
void __wrap_free(void *mem);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    COUNTED();
    return __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size)
{
    COUNTED();
    return __real_calloc(count, size);
}
void *__wrap_realloc(void *mem, size_t size)
{
    COUNTED();
    return __real_realloc(mem, size);
}
void *__wrap_aligned_alloc(size_t align, size_t size)
{
    COUNTED();
    return __real_aligned_alloc(align, size);
}
int __wrap_posix_memalign(void **mem, size_t align, size_t size)
{
    COUNTED();
    return __real_posix_memalign(mem, align, size);
}
void __wrap_free(void *mem)
{
    COUNTED();
    __real_free(mem);
}
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    COUNTED();
    return __real_mmap(at, size, protection, flags, fd, offset);
}
char *__wrap_strdup(const char *text)
{
    COUNTED();
    return __real_strdup(text);
}

typedef struct run {
    trial trial;
    int from, to; // steps in which calls are counted
    long grown;   // bytes in use after them, less those before
} run;

static ax_status steps(ax_trainer *t, int count)
{
    for (int i = 0; i < count; i++) {
        ax_step_result r;
        AX_TRY(ax_step(t, 1e-3, &r));
    }
    return AX_OK;
}

// Between two meetings of all ranks nothing runs but steps.
static ax_status watch(run *r, ax_trainer *t)
{
    struct mallinfo2 before = {0};
    if (r->trial.tuned) {
        t->dev.tuner->timing = r->trial.tuned == TRIAL_TIMED;
        AX_TRY(steps(t, 1));
        AX_TRY(trial_settle(t));
    }
    AX_TRY(steps(t, r->from - 1));
    AX_TRY(ax_comm_agree(t->grid.world, AX_OK));
    if (t->grid.rank == 0)
        before = mallinfo2();
    AX_TRY(ax_comm_agree(t->grid.world, AX_OK));
    atomic_store(&counting, true);
    AX_TRY(steps(t, r->to - r->from + 1));
    AX_TRY(ax_comm_agree(t->grid.world, AX_OK));
    atomic_store(&counting, false);
    if (t->grid.rank == 0) {
        struct mallinfo2 after = mallinfo2();
        r->grown = (long)(after.uordblks + after.hblkhd) - (long)(before.uordblks + before.hblkhd);
    }
    return ax_comm_agree(t->grid.world, AX_OK);
}

static ax_status rank_main(void *ctx, ax_comm *world)
{
    run *r = ctx;
    ax_trainer t;
    ax_trainer_config c = r->trial.config;
    c.arch = &r->trial.arch;
    ax_tuner *tuner = calloc(1, sizeof *tuner);
    AX_CHECK(tuner, AX_ENOMEM, "no memory for a tuner");
    tuner->known = r->trial.tuned == TRIAL_FORCED ? trial_forced_way : NULL;
    c.tuner = r->trial.tuned ? tuner : NULL;
    ax_status opened = ax_trainer_open(&c, world, &t);
    if (opened != AX_OK) {
        free(tuner);
        return opened;
    }
    ax_status st = ax_params_init(&t.model.params, &t.grid, &t.dev, 1);
    for (int64_t i = 0; i < ax_trainer_rows(&t) * t.layout.seq; i++) {
        t.ids[i] = (int32_t)(i * 7 % r->trial.arch.vocab);
        t.targets[i] = (int32_t)(i * 5 % r->trial.arch.vocab);
    }
    if (st == AX_OK)
        st = watch(r, &t);
    ax_trainer_close(&t);
    free(tuner);
    return st;
}

static void nothing_allocated(verdict *v, const grid_case *c, int to)
{
    char name[200];
    run r = {.trial = case_trial(c, 1), .from = to > 5 ? 6 : 2, .to = to};
    r.trial.config.threads = ax_grid_ranks(&c->grid) == 1 ? 2 : 1;
    case_print(c, name, sizeof name);
    atomic_store(&calls, 0);
    ax_status st = ax_ranks_run(ax_grid_ranks(&c->grid), rank_main, &r);
    verdict_check(v, st == AX_OK && atomic_load(&calls) == 0,
                  "%s: steps %d to %d call an allocator %d times in our own code", name, r.from,
                  r.to, atomic_load(&calls));
    // Library caches may still fill up; growth with the number of steps would be far more.
    verdict_check(v, st == AX_OK && r.grown < 4096,
                  "%s: %ld bytes more in use after step %d than "
                  "after step %d",
                  name, r.grown, r.to, r.from - 1);
}

static ax_status refused(void *ctx, ax_comm *world)
{
    ax_trainer t;
    trial *wish = ctx;
    wish->config.arch = &wish->arch;
    atomic_store(&counting, true);
    ax_status st = ax_trainer_open(&wish->config, world, &t);
    atomic_store(&counting, false);
    return st == AX_EUSAGE ? AX_OK : AX_EINTERNAL;
}

// A grid that cannot run is refused before anything is allocated.
static void nothing_allocated_for_a_refusal(verdict *v)
{
    grid_case c = {.grid = {1, 1, 1, 1, "xyzd"}, .act = AX_F32, .device = "ref"};
    trial t = case_trial(&c, 1);
    t.config.grid = (ax_grid_shape){3, 1, 1, 1, "xyzd"}; // of 8 heads
    atomic_store(&calls, 0);
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    ax_status st = ax_ranks_run(1, refused, &t);
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_WARN});
    verdict_check(v, st == AX_OK && atomic_load(&calls) == 0,
                  "a grid that cannot run is refused before anything is allocated (%d calls)",
                  atomic_load(&calls));
}

static void the_count_counts(verdict *v)
{
    void *volatile mem;
    atomic_store(&counting, true);
    mem = malloc(16);
    free(mem);
    atomic_store(&counting, false);
    verdict_check(v, atomic_load(&calls) == 2,
                  "an allocation and its end count as two calls, not %d", atomic_load(&calls));
}

int main(int argc, char **argv)
{
    verdict v = {.verbose = argc > 1 && strcmp(argv[1], "-v") == 0};
    double t0 = verdict_now();
    ax_grid_shape grid[GRIDS];
    mallopt(M_ARENA_MAX, 1); // what the statistics speak of
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_WARN});
    the_count_counts(&v);
    nothing_allocated_for_a_refusal(&v);
    grid_list(grid);
    for (const char *const *name = ax_device_names(); *name; name++) {
        for (int i = 0; i < GRIDS; i += 3) {
            grid_case c = {.grid = grid[i],
                           .kind = i % 2,
                           .tied = i / 4 % 2,
                           .kv = i % 4,
                           .split = i / 3 % SPLITS,
                           .replicated = i / 6 % 2,
                           .recompute = (ax_recompute)(i / 8 % 3),
                           .wide = i % 2,
                           .narrow = i / 2 % 2,
                           .overlap = AX_OVERLAP_ALL,
                           .act = i / 3 % 3 ? AX_BF16 : AX_F32,
                           .device = *name};
            nothing_allocated(&v, &c, i == 0 || i == 3 ? 100 : 5);
            if (strcmp(*name, "cpu") != 0 || i % 2)
                continue;
            c.tuned = i % 4 ? TRIAL_TIMED : TRIAL_FORCED;
            nothing_allocated(&v, &c, 5);
        }
    }
    verdict_part(&v, t0, "no allocation in steps 2 to 5 of our own code, no growth over 100 steps");
    return verdict_close(&v);
}

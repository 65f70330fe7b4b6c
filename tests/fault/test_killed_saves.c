// A process that saves, replaces, prunes and sweeps is killed: at every call that changes the disk,
// one after the other, also where names cannot change places, and by SIGKILL at a hundred random
// moments. Whatever the moment: a list of
// the run names a newest complete checkpoint, not older than the newest that stood there before; it
// verifies and loads with all checksums on another grid; a sweep leaves no remains.
#include "faulty_disk.h"
#include "scene.h"

#include "base/log.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEEP = 2, ENDED_WRONG = 3 };

static const char *step_path(const char *out, int64_t step, char *path, size_t size)
{
    snprintf(path, size, "%s/step-%08lld", out, (long long)step);
    return path;
}

// ---- the process that is killed

// A directory of the run whose files every checkpoint has, too.
static const char *kept(const char *out, char *path, size_t size)
{
    snprintf(path, size, "%s/tokenizer", out);
    return path;
}

static void save(const char *out, int64_t step, int params, bool background)
{
    char path[512], file[512];
    const char *why;
    scene s = scene_saving(step % 2 ? "x=2" : "z=2", step_path(out, step, path, sizeof path));
    s.params = params;
    s.step = step;
    s.background = background;
    s.companions = kept(out, file, sizeof file);
    if (scene_play_any(s, &why) != AX_OK)
        _exit(ENDED_WRONG);
}

// As a run that is resumed does it: over what there is, then on, then older ones are given up.
static void cycle(const char *out, int64_t newest, int params)
{
    char last[32];
    ax_ckpt_sweep(out);
    save(out, newest, params, false);
    save(out, newest + 1, params, true);
    snprintf(last, sizeof last, "step-%08lld", (long long)newest + 1);
    ax_ckpt_prune(out, KEEP, last);
    save(out, newest + 1, params, true);
}

// ---- what is left of it

static int64_t newest_complete(const char *out)
{
    ax_ckpt_list list;
    int64_t newest = -1;
    assert_int_equal(ax_ckpt_list_read(out, &list), AX_OK);
    for (int i = 0; i < list.count && newest < 0; i++)
        if (list.entry[i].complete)
            newest = list.entry[i].step;
    ax_ckpt_list_fini(&list);
    return newest;
}

static void expect_no_remains(const char *out)
{
    ax_ckpt_sweep(out);
    DIR *d = opendir(out);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.'
                ? strncmp(e->d_name, "step-", 5) != 0 && strcmp(e->d_name, "tokenizer") != 0
                : e->d_name[1] == 't')
            fail_msg("%s is left in the run", e->d_name);
    closedir(d);
}

static void expect_verified(const char *dir)
{
    ax_ckpt_verdict v;
    assert_int_equal(ax_ckpt_verify(dir, &v), AX_OK);
    if (v.faults)
        fail_msg("%s/%s: %s", dir, v.fault[0].file, v.fault[0].why);
    ax_ckpt_verdict_fini(&v);
}

// Returns the newest step. Its bytes are verified, and, where wished, loaded.
static int64_t expect_whole(const char *out, int64_t before, int params, bool loaded)
{
    char path[512];
    ax_ckpt_info info;
    int64_t newest = newest_complete(out);
    assert_in_range(newest, before, before + 1);
    step_path(out, newest, path, sizeof path);
    assert_int_equal(ax_ckpt_read_info(path, &info), AX_OK);
    assert_int_equal(info.step, newest);
    ax_ckpt_info_fini(&info);
    scene s = scene_loading("y=2", path);
    s.params = params;
    if (loaded)
        scene_play(s);
    expect_verified(path);
    char companion[600];
    snprintf(companion, sizeof companion, "%s/tokenizer.json", path);
    assert_true(scene_exists(companion));
    expect_no_remains(out);
    assert_int_equal(newest_complete(out), newest);
    return newest;
}

static int end_of(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

// ---- every point, then random ones

static void die_at_every_call(const char *out, bool exchange)
{
    int64_t newest = 1;
    int points = 0, status = FAULTY_DISK_KILLED << 8;
    save(out, newest, FEW, false);
    for (int n = 1; WIFEXITED(status) && WEXITSTATUS(status) == FAULTY_DISK_KILLED; n++, points++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            faulty_disk_no_exchange(!exchange);
            faulty_disk_kill_at(n);
            cycle(out, newest, FEW);
            _exit(0);
        }
        status = end_of(child);
        ax_ckpt_mend(out); // as a start does, before it looks
        newest = expect_whole(out, newest, FEW, n % 4 == 1);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    print_message("killed at %d points\n", points - 1);
    assert_in_range(points, 60, 1000);
}

static void a_process_may_die_at_every_call_that_changes_the_disk(void **state)
{
    die_at_every_call(*state, true);
}

static void and_where_names_cannot_change_places(void **state)
{
    die_at_every_call(*state, false);
}

static void wait_microseconds(double us)
{
    struct timespec t = {.tv_nsec = (long)(us * 1000)};
    nanosleep(&t, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

// Moments are spread over a cycle as long as this machine needs for one.
static void a_process_may_be_killed_at_a_hundred_random_moments(void **state)
{
    enum { KILLS = 100 };
    uint64_t seed = (uint64_t)time(NULL);
    int64_t newest = 1;
    int cut = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    save(*state, newest, PARAMS, false);
    double start = now();
    cycle(*state, newest, PARAMS);
    double length = now() - start;
    newest = expect_whole(*state, newest, PARAMS, true);
    for (int i = 0; i < KILLS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            cycle(*state, newest, PARAMS);
            _exit(0);
        }
        wait_microseconds(ax_rng_uniform(seed, 0, (uint64_t)i) * fmin(length * 1.2, 900e3));
        kill(child, SIGKILL);
        int status = end_of(child);
        cut += WIFSIGNALED(status);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        newest = expect_whole(*state, newest, PARAMS, true);
    }
    print_message("%d of %d were cut off, the newest is step %lld\n", cut, KILLS,
                  (long long)newest);
    assert_in_range(cut, KILLS / 4, KILLS);
}

static int open_place(void **state)
{
    if (scene_open_place(state) != 0 || mkdir(scene_path(*state, "tokenizer"), 0777) != 0)
        return -1;
    scene_write(scene_path(*state, "tokenizer/tokenizer.json"), "{}", 2);
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_place, scene_close_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_process_may_die_at_every_call_that_changes_the_disk),
        CASE(and_where_names_cannot_change_places),
        CASE(a_process_may_be_killed_at_a_hundred_random_moments),
    };
    return cmocka_run_group_tests_name("killed_saves", tests, NULL, NULL);
}

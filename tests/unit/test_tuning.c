// What train.tune remembers, and how ranks agree on it.
#include "base/log.h"
#include "train/ranks.h"
#include "train/tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/axonn-tuning-XXXXXX";
static const ax_tuned_for here = {.machine = "amd-epyc-25-1/avx2", .library = "onednn-2.6.3"};

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void put_file(const char *name, const char *text)
{
    FILE *f = fopen(path_of(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static char *file_text(const char *name)
{
    static char text[1 << 16];
    FILE *f = fopen(path_of(name), "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

static ax_tuned item_of(int64_t m, const char *way)
{
    ax_tuned t = {.key = {.m = m, .n = 7, .k = 9, .ta = 1, .in = AX_BF16, .threads = 2},
                  .seconds = 0.25,
                  .default_seconds = 0.5};
    snprintf(t.way, sizeof t.way, "%s", way);
    return t;
}

static ax_tuned_list *new_list(void)
{
    ax_tuned_list *l = calloc(1, sizeof *l);
    assert_non_null(l);
    return l;
}

// Reads with stderr in a file; how many lines were logged.
static int lines_said(const char *name, ax_tuned_list *out)
{
    char said[64];
    int lines = 0, old = dup(2);
    snprintf(said, sizeof said, "%s/said", dir);
    int fd = open(said, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(old >= 0 && fd >= 0 && dup2(fd, 2) == 2);
    ax_status st = ax_tuned_read(path_of(name), &here, out);
    dup2(old, 2);
    close(old);
    close(fd);
    assert_int_equal(st, AX_OK);
    for (const char *at = file_text("said"); (at = strchr(at, '\n')); at++)
        lines++;
    return lines;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    ax_tuned_list *list = new_list(), *again = new_list();
    ax_tuned first = item_of(5, "rows"), other = item_of(6, "default");
    ax_tuned_put(list, &first);
    ax_tuned_put(list, &other);
    other.key.out = AX_BF16;
    other.key.tb = 1;
    ax_tuned_put(list, &other);
    assert_int_equal(list->count, 3);
    assert_int_equal(ax_tuned_write(path_of("deep/er/t.txt"), &here, list, true), AX_OK);
    assert_int_equal(lines_said("deep/er/t.txt", again), 0);
    assert_memory_equal(list, again, sizeof *list);
    const ax_tuned *found = ax_tuned_find(again, &first.key);
    assert_string_equal(found->way, "rows");
    free(list);
    free(again);
}

static void others_lines_stay_and_ours_are_replaced(void **state)
{
    (void)state;
    const char *foreign = "intel-6-143/avx512 onednn-2.6.3 2 tn 5 7 9 bf16 f32 panels 1 2\n"
                          "amd-epyc-25-1/avx2 onednn-3.1.0 2 tn 5 7 9 bf16 f32 columns 1 2\n";
    char text[1024];
    snprintf(text, sizeof text,
             "# a comment\n%samd-epyc-25-1/avx2 onednn-2.6.3 2 tn 5 7 9 bf16 f32 panels 1 2\n"
             "amd-epyc-25-1/avx2 onednn-2.6.3 2 tn 8 7 9 bf16 f32 turned-a 1 2\n",
             foreign);
    put_file("shared.txt", text);
    ax_tuned_list *list = new_list(), *read = new_list();
    ax_tuned mine = item_of(5, "rows");
    ax_tuned_put(list, &mine);
    assert_int_equal(ax_tuned_write(path_of("shared.txt"), &here, list, true), AX_OK);
    assert_non_null(strstr(file_text("shared.txt"), foreign));
    assert_int_equal(lines_said("shared.txt", read), 0);
    assert_int_equal(read->count, 2);
    assert_string_equal(ax_tuned_find(read, &mine.key)->way, "rows");
    assert_int_equal(ax_tuned_write(path_of("shared.txt"), &here, list, false), AX_OK);
    assert_null(strstr(file_text("shared.txt"), "intel"));
    *read = (ax_tuned_list){0};
    lines_said("shared.txt", read);
    assert_int_equal(read->count, 1);
    free(list);
    free(read);
}

// Each alone between two good lines: those are read, it is not, and one warning is said.
static void broken_lines_are_passed_over(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 5 7 9 f32 f32 rows 1",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 5 7 9 f32 f32 rows 1 2 3",
        "amd-epyc-25-1/avx2 onednn-2.6.3 0 nn 5 7 9 f32 f32 rows 1 2",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nx 5 7 9 f32 f32 rows 1 2",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nnn 5 7 9 f32 f32 rows 1 2",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn -5 7 9 f32 f32 rows 1 2",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 5 0 9 f32 f32 rows 1 2",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 5 7 99999999999999999999 f32 f32 rows 1 2",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 5 7 9 f64 f32 rows 1 2",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 5 7 9 f32 i32 rows 1 2",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 5 7 9 f32 f32 ROWS 1 2",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 5 7 9 f32 f32 a-name-much-longer-than-any-way 1 2",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 5 7 9 f32 f32 rows nan 2",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 5 7 9 f32 f32 rows 1 -2",
        "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 5 7 9 f32 f32 rows 1 1e300",
        "what is this",
    };
    const char *good = "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 1 7 9 f32 f32 rows 1 2\n";
    const char *last = "amd-epyc-25-1/avx2 onednn-2.6.3 2 nn 2 7 9 f32 f32 rows 1 2"; // no newline
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char text[1024];
        ax_tuned_list *read = new_list();
        snprintf(text, sizeof text, "%s%s\n%s%s", good, broken[i], good, last);
        put_file("broken.txt", text);
        assert_int_equal(lines_said("broken.txt", read), 1);
        assert_int_equal(read->count, 2);
        free(read);
    }
    char *endless = malloc(5 << 20);
    assert_non_null(endless);
    memset(endless, 'x', 5 << 20);
    endless[100000] = '\0';
    put_file("broken.txt", endless);
    ax_tuned_list *read = new_list();
    assert_int_equal(lines_said("broken.txt", read), 1);
    assert_int_equal(read->count, 0);
    endless[100000] = 'x';
    endless[(5 << 20) - 1] = '\0';
    put_file("broken.txt", endless);
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    assert_int_equal(ax_tuned_read(path_of("broken.txt"), &here, read), AX_EIO);
    assert_int_equal(ax_tuned_read(dir, &here, read), AX_EIO);
    ax_log_setup((ax_log_config){.ranks = 1});
    assert_int_equal(ax_tuned_read(path_of("none.txt"), &here, read), AX_OK);
    assert_int_equal(read->count, 0);
    free(endless);
    free(read);
}

static void a_full_list_takes_no_more(void **state)
{
    (void)state;
    ax_tuned_list *list = new_list();
    for (int64_t i = 1; i <= AX_TUNED_MOST + 5; i++) {
        ax_tuned item = item_of(i, "rows");
        ax_tuned_put(list, &item);
    }
    assert_int_equal(list->count, AX_TUNED_MOST);
    ax_tuned again = item_of(AX_TUNED_MOST, "panels");
    ax_tuned_put(list, &again);
    assert_string_equal(list->item[AX_TUNED_MOST - 1].way, "panels");
    free(list);
}

static void the_file_lies_in_the_users_cache(void **state)
{
    (void)state;
    char path[256];
    setenv("XDG_CACHE_HOME", "/tmp/cache", 1);
    setenv("HOME", "/tmp/me", 1);
    assert_true(ax_tuned_cache(path, sizeof path));
    assert_string_equal(path, "/tmp/cache/axonn/tuning.txt");
    setenv("XDG_CACHE_HOME", "relative", 1); // its standard: to be ignored
    assert_true(ax_tuned_cache(path, sizeof path));
    assert_string_equal(path, "/tmp/me/.cache/axonn/tuning.txt");
    assert_false(ax_tuned_cache(path, 20));
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_false(ax_tuned_cache(path, sizeof path));
}

// ---- agreeing ----

enum { RANKS = 3, PRODUCTS = 6 };

// Seconds of three ways on each rank; 0: not timed there, -1: the rank does not know the product.
static const double seconds[PRODUCTS][RANKS][3] = {
    {{10, 9, 12}, {10, 9, 5}, {10, 9, 9}},         // way 2 is the least in sum, on one rank alone
    {{10, 9, 12}, {10, 9, 12}, {10, 14, 12}},      // nothing beats the default in sum
    {{10, 5, 9}, {10, 0, 9}, {10, 5, 9}},          // way 1 cannot be had on rank 1
    {{10, 9.8, 11}, {10, 9.8, 11}, {10, 9.8, 11}}, // 2 %: noise
    {{-1}, {10, 5, 5}, {10, 5, 5}},                // rank 0 does not know it
    {{10, 5, 9}, {-1}, {10, 5, 9}},                // rank 1 does not
};
static const int winner[PRODUCTS] = {2, 0, 2, 0, AX_WAY_OPEN, 1};

typedef struct votes {
    int way[RANKS][PRODUCTS + 1];
    double second[RANKS]; // way 2 of the first product
} votes;

static ax_status vote(void *ctx, ax_comm *world)
{
    votes *v = ctx;
    int rank = world->rank;
    ax_tuner *t = calloc(1, sizeof *t);
    AX_CHECK(t, AX_ENOMEM, "no memory for a tuner");
    for (int i = 0; i < PRODUCTS; i++) { // noted in another order on every rank
        int p = (i + 2 * rank) % PRODUCTS;
        ax_gemm_key key = {.m = p + 1, .n = 1, .k = 1, .threads = 1};
        if (seconds[p][rank][0] < 0)
            continue;
        memcpy(ax_tuner_note(t, &key)->seconds, seconds[p][rank], sizeof seconds[p][rank]);
    }
    const ax_gemm_key known = {.m = 100, .n = 1, .k = 1, .threads = 1};
    ax_tuner_note(t, &known)->way = 7; // remembered: stays
    ax_status st = ax_tuning_agree(t, world);
    for (int p = 0; p <= PRODUCTS; p++) {
        ax_gemm_key key = {.m = p < PRODUCTS ? p + 1 : 100, .n = 1, .k = 1, .threads = 1};
        const ax_tuner_entry *e = ax_tuner_find(t, &key);
        v->way[rank][p] = e ? e->way : AX_WAY_OPEN;
        v->second[rank] = p == 0 && e ? e->seconds[2] : v->second[rank];
    }
    free(t);
    return st;
}

static void ranks_take_the_least_sum(void **state)
{
    (void)state;
    votes v = {0};
    assert_int_equal(ax_ranks_run(RANKS, vote, &v), AX_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        for (int p = 0; p < PRODUCTS; p++)
            assert_int_equal(v.way[rank][p], winner[p]);
        assert_int_equal(v.way[rank][PRODUCTS], 7);
        assert_true(v.second[rank] == 26.0 / 3);
    }
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"what is written is read", what_is_written_is_read, 0, 0, 0},
        {"others' lines stay, and ours are replaced", others_lines_stay_and_ours_are_replaced, 0, 0,
         0},
        {"broken lines are passed over with one warning", broken_lines_are_passed_over, 0, 0, 0},
        {"a full list takes no more", a_full_list_takes_no_more, 0, 0, 0},
        {"the file lies in the user's cache", the_file_lies_in_the_users_cache, 0, 0, 0},
        {"ranks take the way of the least sum", ranks_take_the_least_sum, 0, 0, 0},
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

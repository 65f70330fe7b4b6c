#include "base/arena.h"
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

// The same calls for both passes.
static ax_status build(ax_arena *a, void *piece[3])
{
    AX_TRY(ax_arena_alloc(a, 100, &piece[0]));
    size_t mark = ax_arena_mark(a);
    AX_TRY(ax_arena_alloc(a, 1000, &piece[1]));
    ax_arena_release(a, mark);
    return ax_arena_alloc(a, 1, &piece[2]);
}

static void what_was_measured_is_enough_to_bind(void **state)
{
    (void)state;
    void *piece[3];
    ax_arena a = ax_arena_measure("test");
    assert_int_equal(build(&a, piece), AX_OK);
    assert_non_null(piece[0]);
    void *memory = aligned_alloc(64, (a.peak + 63) / 64 * 64);
    assert_non_null(memory);
    ax_arena b = ax_arena_over("test", memory, a.peak);
    assert_int_equal(build(&b, piece), AX_OK);
    assert_int_equal(b.used, a.used);
    assert_int_equal(b.peak, a.peak);
    memset(piece[0], 1, 100);
    memset(piece[2], 2, 1);
    ax_arena_release(&b, 0);
    free(memory);
}

static void pieces_are_aligned_and_follow_the_stack(void **state)
{
    (void)state;
    void *piece[3];
    void *memory = aligned_alloc(64, 4096);
    ax_arena a = ax_arena_over("test", memory, 4096);
    assert_int_equal(build(&a, piece), AX_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal((uintptr_t)piece[i] % 64, 0);
    assert_ptr_equal(piece[1], piece[2]);
    assert_true((char *)piece[1] - (char *)piece[0] >= 100);
    ax_arena_release(&a, 0);
    assert_int_equal(ax_arena_mark(&a), 0);
    free(memory);
}

static void a_piece_beyond_the_measured_size_is_refused(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    void *memory = aligned_alloc(64, 256), *piece = NULL;
    ax_arena a = ax_arena_over("step", memory, 256);
    assert_int_equal(ax_arena_alloc(&a, 1024, &piece), AX_EINTERNAL);
    assert_null(piece);
    assert_non_null(strstr(ax_error_text(), "arena step"));
    assert_int_equal(ax_arena_alloc(&a, SIZE_MAX, &piece), AX_ENOMEM);
    assert_int_equal(ax_arena_alloc(&a, 64, &piece), AX_OK);
    ax_arena_release(&a, 0);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_measured_is_enough_to_bind),
        cmocka_unit_test(pieces_are_aligned_and_follow_the_stack),
        cmocka_unit_test(a_piece_beyond_the_measured_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

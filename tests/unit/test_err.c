#include "base/err.h"
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static ax_status check_positive(int n, int *out)
{
    AX_CHECK(n > 0, AX_EUSAGE, "n=%d: must be positive", n);
    *out = n;
    return AX_OK;
}

static ax_status pass_on(int n, int *out)
{
    AX_TRY(check_positive(n, out));
    return AX_OK;
}

static ax_status clean_up(int n, int *cleaned)
{
    ax_status st = AX_OK;
    int out = 0;
    AX_TRY_TO(done, pass_on(n, &out));
done:
    (*cleaned)++;
    return st;
}

// What `run` writes to stderr.
static void capture(void (*run)(void), char *text, size_t size)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    int old = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    run();
    dup2(old, STDERR_FILENO);
    close(old);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
}

static void a_failure_travels_up_and_keeps_its_message(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    int out = 7;
    assert_int_equal(pass_on(-3, &out), AX_EUSAGE);
    assert_string_equal(ax_error_text(), "n=-3: must be positive");
    assert_int_equal(out, 7);
    assert_int_equal(pass_on(3, &out), AX_OK);
    assert_int_equal(out, 3);
}

static void one_cleanup_label_is_reached_with_the_status(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    int cleaned = 0;
    assert_int_equal(clean_up(-1, &cleaned), AX_EUSAGE);
    assert_int_equal(clean_up(1, &cleaned), AX_OK);
    assert_int_equal(cleaned, 2);
}

static void fail_on_rank_two(void)
{
    int out;
    ax_log_setup((ax_log_config){.rank = 2, .ranks = 4, .level = AX_LOG_INFO});
    pass_on(0, &out);
    ax_log(AX_LOG_DEBUG, "test", "not at this level");
    ax_log(AX_LOG_INFO, "test", "hello");
}

static void an_error_is_one_line_with_the_rank(void **state)
{
    (void)state;
    char text[512];
    capture(fail_on_rank_two, text, sizeof text);
    assert_string_equal(text, "axonn: [rank 2] error: n=0: must be positive\naxonn: test: hello\n");
}

static void log_a_long_line(void)
{
    char body[5000];
    memset(body, 'a', sizeof body - 1);
    body[sizeof body - 1] = 0;
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_INFO});
    ax_log(AX_LOG_INFO, NULL, "%s", body);
}

static void a_line_that_is_too_long_is_cut_but_ends(void **state)
{
    (void)state;
    char text[8192];
    capture(log_a_long_line, text, sizeof text);
    assert_true(strlen(text) < 2050);
    assert_int_equal(text[strlen(text) - 1], '\n');
}

static void every_status_has_a_name(void **state)
{
    (void)state;
    for (int st = AX_OK; st <= AX_EINTERNAL; st++)
        assert_true(strlen(ax_status_name((ax_status)st)) > 1);
    assert_string_equal(ax_status_name((ax_status)99), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_travels_up_and_keeps_its_message),
        cmocka_unit_test(one_cleanup_label_is_reached_with_the_status),
        cmocka_unit_test(an_error_is_one_line_with_the_rank),
        cmocka_unit_test(a_line_that_is_too_long_is_cut_but_ends),
        cmocka_unit_test(every_status_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

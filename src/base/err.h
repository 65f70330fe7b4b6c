// Status codes and the three macros that every fallible function uses.
//
// Whoever decides that something failed says so once, with what to do next (AX_FAIL, AX_CHECK);
// whoever passes the status on stays silent (AX_TRY). Results leave through the last parameters
// and are written only on success.
//
//     AX_CHECK(n > 0, AX_EUSAGE, "train.batch=%lld: need at least one sequence", (long long)n);
//     AX_TRY(ax_file_read(path, &bytes));
//     AX_TRY_TO(done, ax_comm_wait(&req));     // one cleanup label: `done`, status in `st`
#pragma once

typedef enum ax_status {
    AX_OK = 0,
    AX_EUSAGE,       // wrong use: a bad key, value or grid; the program exits with 2
    AX_EIO,          // a file could not be opened, read or written
    AX_EFORMAT,      // a file's bytes are not what they claim to be
    AX_ENOMEM,       // memory could not be had
    AX_ECOMM,        // a communicator failed, or another rank did
    AX_ENUMERIC,     // a loss or gradient is not finite
    AX_EUNSUPPORTED, // this build or machine cannot do it
    AX_EINTERNAL,    // a promise of our own code was broken
    AX_ESTOPPED, // no failure: asked to leave early, and all is saved; the program exits with 75
    AX_EINTERRUPTED, // the same, asked from the keyboard: 130
} ax_status;

// Name of a status in plain words ("file error"). Never NULL.
const char *ax_status_name(ax_status st);

// Logs the message once at error level and returns `st`. The message is also kept for
// ax_error_text(). Use through AX_FAIL.
ax_status ax_fail(ax_status st, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

// The last message that ax_fail logged on this thread, or "". Valid until the next failure.
const char *ax_error_text(void);
void ax_error_clear(void); // from here on "" until this thread fails

// Returns its own copy of the status, so that the compiler sees that a failure is not AX_OK.
#define AX_FAIL(status, ...)                                                                       \
    do {                                                                                           \
        const ax_status ax_fail_status = (status);                                                 \
        ax_fail(ax_fail_status, __FILE__, __LINE__, __VA_ARGS__);                                  \
        return ax_fail_status;                                                                     \
    } while (0)
#define AX_CHECK(cond, st, ...)                                                                    \
    do {                                                                                           \
        if (!(cond))                                                                               \
            AX_FAIL(st, __VA_ARGS__);                                                              \
    } while (0)
#define AX_TRY(expr)                                                                               \
    do {                                                                                           \
        ax_status ax_try_status = (expr);                                                          \
        if (ax_try_status != AX_OK)                                                                \
            return ax_try_status;                                                                  \
    } while (0)
#define AX_TRY_TO(label, expr)                                                                     \
    do {                                                                                           \
        st = (expr);                                                                               \
        if (st != AX_OK)                                                                           \
            goto label;                                                                            \
    } while (0)

// A promise of our own code, checked in debug builds only.
#ifdef NDEBUG
#define AX_ASSERT(cond) ((void)sizeof(cond))
#else
#define AX_ASSERT(cond)                                                                            \
    do {                                                                                           \
        if (!(cond))                                                                               \
            ax_assert_failed(#cond, __FILE__, __LINE__);                                           \
    } while (0)
#endif
void ax_assert_failed(const char *cond, const char *file, int line) __attribute__((noreturn));

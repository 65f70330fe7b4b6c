// Log lines to stderr, with level, rank and tag.
//
//     ax_log_setup((ax_log_config){ .rank = 2, .ranks = 8, .level = AX_LOG_INFO });
//     ax_log(AX_LOG_WARN, "data", "%s: %lld empty documents", path, n);
//
// The set-up is per thread, because ranks may be threads of one process; a thread that was never
// set up logs like a program of one rank. A line is written with one write call, so lines of
// several ranks do not mix.
#pragma once
#include <stdarg.h>
#include <stdbool.h>

typedef enum ax_log_level {
    AX_LOG_ERROR,
    AX_LOG_WARN,
    AX_LOG_INFO,
    AX_LOG_DEBUG,
} ax_log_level;

typedef struct ax_log_config {
    int rank, ranks;    // printed as [rank r] when ranks > 1
    ax_log_level level; // lines above this level are dropped
    bool muted;         // drop errors too: for phases in which every rank says the same
    bool hushed;        // drop errors alone: whoever may go on without what failed tells of it
} ax_log_config;

void ax_log_setup(ax_log_config config);
ax_log_config ax_log_current(void);

void ax_log(ax_log_level level, const char *tag, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void ax_vlog(ax_log_level level, const char *tag, const char *fmt, va_list args);

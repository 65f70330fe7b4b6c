#include "base/log.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local ax_log_config log_config = {.ranks = 1, .level = AX_LOG_INFO};
static _Thread_local char error_text[1024];

void ax_log_setup(ax_log_config config)
{
    log_config = config;
}

ax_log_config ax_log_current(void)
{
    return log_config;
}

void ax_vlog(ax_log_level level, const char *tag, const char *fmt, va_list args)
{
    static const char *const names[] = {"error: ", "warning: ", "", ""};
    bool unsaid =
        (log_config.muted && level <= AX_LOG_WARN) || (log_config.hushed && level == AX_LOG_ERROR);
    if (level > log_config.level || unsaid)
        return;
    char line[2048];
    int n = snprintf(line, sizeof line, "axonn: ");
    if (log_config.ranks > 1 && level <= AX_LOG_WARN)
        n += snprintf(line + n, sizeof line - (size_t)n, "[rank %d] ", log_config.rank);
    n += snprintf(line + n, sizeof line - (size_t)n, "%s", names[level]);
    if (tag && level >= AX_LOG_INFO)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s: ", tag);
    int body = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, args);
    n += body < 0 ? 0 : body;
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    line[n++] = '\n';
    // One write a line; a log that cannot be written must not stop the run.
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
}

void ax_log(ax_log_level level, const char *tag, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    ax_vlog(level, tag, fmt, args);
    va_end(args);
}

const char *ax_status_name(ax_status st)
{
    static const char *const names[] = {
        [AX_OK] = "ok",
        [AX_EUSAGE] = "wrong use",
        [AX_EIO] = "file error",
        [AX_EFORMAT] = "malformed file",
        [AX_ENOMEM] = "out of memory",
        [AX_ECOMM] = "communication failed",
        [AX_ENUMERIC] = "not finite",
        [AX_EUNSUPPORTED] = "not supported",
        [AX_EINTERNAL] = "internal error",
        [AX_ESTOPPED] = "stopped early",
        [AX_EINTERRUPTED] = "interrupted",
    };
    return (unsigned)st < sizeof names / sizeof names[0] ? names[st] : "unknown status";
}

ax_status ax_fail(ax_status st, const char *file, int line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(error_text, sizeof error_text, fmt, args);
    va_end(args);
    ax_log(AX_LOG_ERROR, NULL, "%s", error_text);
    ax_log(AX_LOG_DEBUG, "err", "%s decided at %s:%d", ax_status_name(st), file, line);
    return st;
}

const char *ax_error_text(void)
{
    return error_text;
}

void ax_error_clear(void)
{
    error_text[0] = 0;
}

void ax_assert_failed(const char *cond, const char *file, int line)
{
    ax_log(AX_LOG_ERROR, NULL, "%s:%d: broken promise: %s", file, line, cond);
    abort();
}

#include "train/lock.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct holder {
    char host[256], job[64];
    long pid;
} holder;

// The number under which a scheduler starts a job again.
static const char *job_number(void)
{
    static const char *const name[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"};
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        if (getenv(name[i]) && *getenv(name[i]))
            return getenv(name[i]);
    return "none";
}

static holder self(void)
{
    holder h = {.pid = (long)getpid()};
    if (gethostname(h.host, sizeof h.host - 1) != 0)
        snprintf(h.host, sizeof h.host, "unknown");
    const char *again = getenv("SLURM_RESTART_COUNT"); // which of its starts this is
    snprintf(h.job, sizeof h.job, "%.40s%s%.16s", job_number(), again ? "+" : "",
             again ? again : "");
    return h;
}

static bool read_holder(int fd, holder *h)
{
    char text[512];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    *h = (holder){0};
    return sscanf(text, "host %255s pid %ld job %63s", h->host, &h->pid, h->job) == 3;
}

static ax_status write_holder(int fd, const char *path)
{
    char text[512];
    holder h = self();
    int n = snprintf(text, sizeof text, "host %s pid %ld job %s\n", h.host, h.pid, h.job);
    errno = 0;
    bool written = ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) == n && fsync(fd) == 0;
    if (written)
        return AX_OK;
    int why = errno ? errno : ENOSPC; // a write that stops half-way says nothing
    unlink(path);                     // it is ours, and says of nobody that he holds it
    AX_FAIL(AX_EIO, "%s: cannot write the lock: %s", path, strerror(why));
}

// An earlier start of the job that runs now: it has ended, wherever it was.
static bool is_earlier(const holder *left, const holder *me)
{
    size_t n = strcspn(left->job, "+");
    bool same = strcspn(me->job, "+") == n && strncmp(left->job, me->job, n) == 0;
    return same && strcmp(left->job, me->job) != 0;
}

// With the system's lock on the file, whoever wrote it on this host is gone.
static ax_status check_left(int fd, const char *path, const char *what, bool locked)
{
    holder left, me = self();
    if (!read_holder(fd, &left))
        return AX_OK;
    bool gone = strcmp(left.host, me.host) == 0 &&
                (locked || (kill((pid_t)left.pid, 0) != 0 && errno == ESRCH));
    AX_CHECK(gone || is_earlier(&left, &me), AX_EUSAGE,
             "%s: in use by process %ld on host %s (job %s); if nothing runs there any more, "
             "remove %s",
             what, left.pid, left.host, left.job, path);
    ax_log(AX_LOG_WARN, NULL, "%s: process %ld on host %s (job %s) ended without leaving; going on",
           what, left.pid, left.host, left.job);
    return AX_OK;
}

// Some file systems have no locks: then the text in the file must do.
static ax_status lock_file(int fd, const char *path, const char *what, bool *locked)
{
    holder h;
    *locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (*locked || errno == ENOSYS || errno == ENOLCK || errno == EOPNOTSUPP)
        return AX_OK;
    AX_CHECK(errno == EWOULDBLOCK, AX_EIO, "%s: cannot lock: %s", path, strerror(errno));
    AX_CHECK(read_holder(fd, &h), AX_EUSAGE, "%s: in use by another process (%s)", what, path);
    AX_FAIL(AX_EUSAGE, "%s: in use by process %ld on host %s (job %s)", what, h.pid, h.host, h.job);
}

// The holder removes the file as it leaves: what was locked may no longer be the file of that name.
static bool is_named(int fd, const char *path)
{
    struct stat mine, named;
    return fstat(fd, &mine) == 0 && stat(path, &named) == 0 && mine.st_ino == named.st_ino &&
           mine.st_dev == named.st_dev;
}

static ax_status take(int fd, const char *path, const char *what, bool *gone)
{
    bool locked;
    AX_TRY(lock_file(fd, path, what, &locked));
    *gone = !is_named(fd, path);
    if (*gone)
        return AX_OK;
    AX_TRY(check_left(fd, path, what, locked));
    return write_holder(fd, path);
}

ax_status ax_lock_take(const char *path, const char *what, ax_lock *out)
{
    bool gone = true;
    int fd = -1;
    AX_CHECK(strlen(path) < AX_LOCK_PATH, AX_EUSAGE, "%.60s...: the path is too long", path);
    while (gone) {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        AX_CHECK(fd >= 0, AX_EIO, "%s: cannot make the lock: %s", path, strerror(errno));
        ax_status st = take(fd, path, what, &gone);
        if (st != AX_OK || gone)
            close(fd);
        AX_TRY(st);
    }
    snprintf(out->path, sizeof out->path, "%s", path);
    out->fd = fd;
    out->held = true;
    return AX_OK;
}

void ax_lock_release(ax_lock *l)
{
    if (l->held) {
        unlink(l->path);
        close(l->fd);
    }
    *l = (ax_lock){0};
}

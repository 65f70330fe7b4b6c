#include "faulty_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NEVER = 1 << 30 };
static atomic_int calls_left = NEVER, cores;
static atomic_bool kills, short_writes, no_exchange, no_links;

void faulty_disk_fail_at(int call)
{
    kills = false;
    atomic_store(&calls_left, call);
}

void faulty_disk_kill_at(int call)
{
    kills = true;
    atomic_store(&calls_left, call);
}

bool faulty_disk_heal(void)
{
    return atomic_exchange(&calls_left, NEVER) <= 0;
}

void faulty_disk_write_short(bool on)
{
    short_writes = on;
}

void faulty_disk_no_exchange(bool on)
{
    no_exchange = on;
}

int faulty_disk_cores(void)
{
    return atomic_exchange(&cores, 0);
}

void faulty_disk_no_links(bool on)
{
    no_links = on;
}

static bool fails_now(void)
{
    if (atomic_fetch_sub(&calls_left, 1) != 1)
        return false;
    if (kills)
        _exit(FAULTY_DISK_KILLED);
    errno = ENOSPC;
    return true;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > cores)
        cores = CPU_COUNT(&set);
    if (fails_now())
        return -1;
    if (short_writes && count > 1)
        count /= 2;
    return syscall(SYS_pwrite64, fd, bytes, count, offset);
}

int fsync(int fd)
{
    return fd < 0 || fails_now() ? -1 : 0;
}

int ftruncate(int fd, off_t size)
{
    return fails_now() ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    return fails_now() ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

int rename(const char *from, const char *to)
{
    return fails_now() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int link(const char *from, const char *to)
{
    if (no_links) {
        errno = EPERM;
        return -1;
    }
    return fails_now() ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (no_exchange && flags == RENAME_EXCHANGE) {
        errno = EINVAL;
        return -1;
    }
    return fails_now() ? -1 : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    return fails_now() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

// A full disk lets go of files.
static void may_end(void)
{
    if (kills)
        fails_now();
}

int unlink(const char *path)
{
    may_end();
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    may_end();
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

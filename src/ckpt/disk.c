#include "ckpt/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ax_status ax_disk_open(const char *path, int flags, int *fd)
{
    int got;
    do
        got = open(path, flags | O_CLOEXEC, 0666);
    while (got < 0 && errno == EINTR);
    AX_CHECK(got >= 0, AX_EIO, "%s: cannot open: %s", path, strerror(errno));
    *fd = got;
    return AX_OK;
}

ax_status ax_disk_write(int fd, const char *path, const void *bytes, size_t count, int64_t offset)
{
    const char *from = bytes;
    while (count > 0) {
        ssize_t n = pwrite(fd, from, count, offset);
        if (n < 0 && errno == EINTR)
            continue;
        AX_CHECK(n > 0, AX_EIO, "%s: cannot write %zu bytes at %lld: %s", path, count,
                 (long long)offset, n < 0 ? strerror(errno) : "nothing was written");
        from += n;
        offset += n;
        count -= (size_t)n;
    }
    return AX_OK;
}

void ax_disk_push(int fd, size_t count, int64_t offset)
{
    if (sync_file_range(fd, offset, (off_t)count, SYNC_FILE_RANGE_WRITE) != 0)
        errno = 0; // a file system without it waits for the sync
}

ax_status ax_disk_read(int fd, const char *path, void *bytes, size_t count, int64_t offset)
{
    char *to = bytes;
    while (count > 0) {
        ssize_t n = pread(fd, to, count, offset);
        if (n < 0 && errno == EINTR)
            continue;
        AX_CHECK(n > 0, AX_EIO, "%s: cannot read %zu bytes at %lld: %s", path, count,
                 (long long)offset, n < 0 ? strerror(errno) : "the file ends there");
        to += n;
        offset += n;
        count -= (size_t)n;
    }
    return AX_OK;
}

ax_status ax_disk_reserve(int fd, const char *path, int64_t size)
{
    AX_CHECK(ftruncate(fd, size) == 0, AX_EIO, "%s: cannot make a file of %lld bytes: %s", path,
             (long long)size, strerror(errno));
    int failed;
    do
        failed = size > 0 ? fallocate(fd, 0, 0, size) : 0;
    while (failed && errno == EINTR);
    AX_CHECK(!failed || errno == EOPNOTSUPP || errno == ENOSYS, AX_EIO,
             "%s: cannot reserve %lld bytes: %s", path, (long long)size, strerror(errno));
    return AX_OK;
}

ax_status ax_disk_size(int fd, const char *path, int64_t *size)
{
    struct stat st;
    AX_CHECK(fstat(fd, &st) == 0, AX_EIO, "%s: cannot read its size: %s", path, strerror(errno));
    AX_CHECK(S_ISREG(st.st_mode), AX_EIO, "%s: not a plain file", path);
    *size = st.st_size;
    return AX_OK;
}

ax_status ax_disk_sync(int fd, const char *path)
{
    AX_CHECK(fsync(fd) == 0, AX_EIO, "%s: cannot bring it to disk: %s", path, strerror(errno));
    return AX_OK;
}

ax_status ax_disk_sync_dir(const char *path)
{
    int fd = -1;
    AX_TRY(ax_disk_open(path, O_RDONLY | O_DIRECTORY, &fd));
    ax_status st = AX_OK;
    // Some file systems have no sync of a directory and say EINVAL; there is nothing to wait for.
    if (fsync(fd) != 0 && errno != EINVAL)
        st = ax_fail(AX_EIO, __FILE__, __LINE__, "%s: cannot bring the directory to disk: %s", path,
                     strerror(errno));
    close(fd);
    return st;
}

ax_status ax_disk_close(int fd, const char *path)
{
    AX_CHECK(close(fd) == 0 || errno == EINTR, AX_EIO, "%s: cannot close: %s", path,
             strerror(errno));
    return AX_OK;
}

ax_status ax_disk_join(char *path, const char *dir, const char *name)
{
    int n = snprintf(path, AX_PATH_MAX, "%s/%s", dir, name);
    AX_CHECK(n > 0 && n < AX_PATH_MAX, AX_EUSAGE, "%.60s...: a path of more than %d bytes", dir,
             AX_PATH_MAX - 1);
    return AX_OK;
}

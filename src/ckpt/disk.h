// Whole reads and writes at an offset, and the syncs that make them last. Every failure names the
// file and the system's reason (AX_EIO).
#pragma once
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

// flags as for open(2); new files are made with mode 0666.
ax_status ax_disk_open(const char *path, int flags, int *fd);
ax_status ax_disk_write(int fd, const char *path, const void *bytes, size_t count, int64_t offset);
// Begins to bring written bytes to the disk, so that the sync at the end waits less. A hint.
void ax_disk_push(int fd, size_t count, int64_t offset);
ax_status ax_disk_read(int fd, const char *path, void *bytes, size_t count, int64_t offset);

// Gives a new file its size, with room on the disk where the file system can promise it, so that a
// full disk shows before the work.
ax_status ax_disk_reserve(int fd, const char *path, int64_t size);
ax_status ax_disk_size(int fd, const char *path, int64_t *size);

ax_status ax_disk_sync(int fd, const char *path);
ax_status ax_disk_sync_dir(const char *path);
// Close reports what a write could not; fd is closed either way.
ax_status ax_disk_close(int fd, const char *path);

enum { AX_PATH_MAX = 4096 };
// path[AX_PATH_MAX] = dir/name; AX_EUSAGE when that is too long.
ax_status ax_disk_join(char *path, const char *dir, const char *name);

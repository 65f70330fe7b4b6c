// Between a tensor on the device and its place in a file: only the bytes of this rank's runs move.
//
//     ax_runs r;
//     AX_TRY(ax_runs_init(&r, dev, fd, path));
//     AX_TRY(ax_runs_write(&r, p, p->master, tensor->begin, &sum));
//     ax_runs_fini(&r);
//
// Runs that follow one another in the file become one system call; data passes through a host
// buffer of bounded size. Checksums are of the bytes as they stand in the file.
#pragma once
#include "ckpt/checksum.h"
#include "grid/param.h"

typedef struct ax_runs {
    ax_device *dev; // NULL: tensors lie in host memory, and are only written
    int fd;
    const char *path;  // borrowed, for messages
    void *raw, *ready; // owned: as in the file, and as on the device
} ax_runs;

ax_status ax_runs_init(ax_runs *r, ax_device *dev, int fd, const char *path);
void ax_runs_fini(ax_runs *r); // a zeroed one is legal

// t: (1, part). The tensor begins at byte `offset` of the file and has t's dtype there. The
// checksum of this rank's elements is added to *sum.
ax_status ax_runs_write(ax_runs *r, const ax_param *p, ax_tensor t, int64_t offset, uint64_t *sum);
// t: (1, part), of any float dtype; the file's is f32 or f64. What lies outside the runs is zeroed.
// sum: as above, or NULL.
ax_status ax_runs_read(ax_runs *r, const ax_param *p, ax_tensor t, int64_t offset, ax_dtype stored,
                       uint64_t *sum);

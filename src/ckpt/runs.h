// Between a tensor on the device and its place in a file: only the bytes of this rank's runs move.
//
//     ax_runs r;
//     AX_TRY(ax_runs_init(&r, dev, fd, path));
//     AX_TRY(ax_runs_write(&r, p, p->master, tensor->begin));
//     ax_runs_fini(&r);
//
// Runs that follow one another in the file become one system call; data passes through a host
// buffer of bounded size.
#pragma once
#include "grid/param.h"

typedef struct ax_runs {
    ax_device *dev;
    int fd;
    const char *path;  // borrowed, for messages
    void *raw, *ready; // owned: as in the file, and as on the device
} ax_runs;

ax_status ax_runs_init(ax_runs *r, ax_device *dev, int fd, const char *path);
void ax_runs_fini(ax_runs *r); // a zeroed one is legal

// t: (1, part). The tensor begins at byte `offset` of the file and has t's dtype there.
ax_status ax_runs_write(ax_runs *r, const ax_param *p, ax_tensor t, int64_t offset);
// t: (1, part), of any float dtype; the file's is f32 or f64. What lies outside the runs is zeroed.
ax_status ax_runs_read(ax_runs *r, const ax_param *p, ax_tensor t, int64_t offset, ax_dtype stored);

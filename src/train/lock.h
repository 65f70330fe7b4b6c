// An exclusive claim on a place that is written to: a run directory, the target of a conversion.
//
//     ax_lock lock;
//     AX_TRY(ax_lock_take("out/book/lock", "train.out=out/book", &lock));
//     ...
//     ax_lock_release(&lock);
//
// The file tells host, process and job. What a killed process left is taken over where it is surely
// dead: on this host the system has let go of its lock, and a requeued job has its old number and a
// higher count of starts. Any other claim from another host is refused, and the message says what
// to remove. Where a file system has no locks, the text in the file must do.
#pragma once
#include "base/err.h"

#include <stdbool.h>

enum { AX_LOCK_PATH = 4200 };
typedef struct ax_lock {
    char path[AX_LOCK_PATH];
    int fd;
    bool held;
} ax_lock;

// One rank a job calls it. AX_EUSAGE names `what` and who holds it; AX_EIO.
ax_status ax_lock_take(const char *path, const char *what, ax_lock *out);
void ax_lock_release(ax_lock *l); // a zeroed or released lock is legal

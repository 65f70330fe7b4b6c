// Two bytes of the size of a .bin, then any bytes as the .idx beside it: refused with a message,
// or all borders lie in the .bin, in order.
#include "base/log.h"
#include "data/shard_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const ax_shard_index *x, int64_t bin_bytes)
{
    int64_t border[64], before = 0;
    for (int64_t i = 0; i <= x->documents; i += 64) {
        int64_t n = x->documents + 1 - i < 64 ? x->documents + 1 - i : 64;
        if (ax_shard_index_borders(x, i, n, border) != AX_OK)
            abort();
        for (int64_t j = 0; j < n; before = border[j++])
            if (border[j] < before || border[j] > x->tokens)
                abort();
    }
    if (before != x->tokens || x->tokens * x->width != bin_bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    ax_shard_index x;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_ERROR});
    if (size < 2)
        return 0;
    int64_t bin_bytes = data[0] | data[1] << 8;
    int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, data + 2, size - 2) != (ssize_t)(size - 2))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (ax_shard_index_open(path, bin_bytes, &x) == AX_OK) {
        walk(&x, bin_bytes);
        ax_shard_index_close(&x);
    }
    close(fd);
    return 0;
}

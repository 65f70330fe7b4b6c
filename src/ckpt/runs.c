#include "ckpt/runs.h"

#include "ckpt/disk.h"
#include "dev/kern.h"

#include <stdlib.h>

enum {
    STAGE = 1 << 18, // elements of each host buffer; 2 MiB of doubles
    PUSH = 1 << 14,  // elements of a run, above which its write to the disk begins at once
};

ax_status ax_runs_init(ax_runs *r, ax_device *dev, int fd, const char *path)
{
    *r = (ax_runs){.dev = dev, .fd = fd, .path = path};
    if (!dev)
        return AX_OK;
    r->raw = malloc(STAGE * sizeof(double));
    r->ready = malloc(STAGE * sizeof(double));
    if (r->raw && r->ready)
        return AX_OK;
    ax_runs_fini(r);
    AX_FAIL(AX_ENOMEM, "%s: no memory for its buffers", path);
}

void ax_runs_fini(ax_runs *r)
{
    free(r->raw);
    free(r->ready);
    *r = (ax_runs){0};
}

// Runs that touch in the file; in a part runs always touch.
typedef struct span {
    int64_t place; // elements from the start of the global matrix
    int64_t at, count;
} span;

static bool next_span(const ax_param *p, ax_run *run, span *out)
{
    if (!ax_param_next_run(p, run))
        return false;
    *out = (span){run->row * p->cols + run->col, run->at, run->count};
    for (ax_run ahead = *run; ax_param_next_run(p, &ahead); *run = ahead) {
        if (ahead.row * p->cols + ahead.col != out->place + out->count)
            break;
        out->count += ahead.count;
    }
    return true;
}

// The elements of a part that lie at `bytes` at the moment.
typedef struct window {
    const char *bytes;
    int64_t first, count;
} window;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static ax_status fetch(ax_runs *r, ax_tensor t, int64_t at, window *w)
{
    ax_tensor from = ax_tensor_cols(t, at, least(STAGE, t.cols - at));
    *w = (window){r->dev ? r->raw : from.data, at, from.cols};
    if (!r->dev)
        return AX_OK;
    AX_TRY(ax_device_copy(r->dev, r->raw, from.data, ax_tensor_bytes(from)));
    return ax_device_sync(r->dev);
}

ax_status ax_runs_write(ax_runs *r, const ax_param *p, ax_tensor t, int64_t offset, uint64_t *sum)
{
    size_t size = ax_dtype_size(t.dtype);
    window w = {0};
    span s;
    for (ax_run run = {0}; next_span(p, &run, &s);) {
        while (s.count > 0) {
            if (s.at >= w.first + w.count)
                AX_TRY(fetch(r, t, s.at, &w));
            int64_t n = least(s.count, w.first + w.count - s.at);
            const char *from = w.bytes + (s.at - w.first) * (int64_t)size;
            *sum += ax_checksum_elements(from, size, n, s.place);
            AX_TRY(ax_disk_write(r->fd, r->path, from, (size_t)n * size,
                                 offset + s.place * (int64_t)size));
            if (n > PUSH)
                ax_disk_push(r->fd, (size_t)n * size, offset + s.place * (int64_t)size);
            s = (span){s.place + n, s.at + n, s.count - n};
        }
    }
    return AX_OK;
}

// Double to bf16 goes by way of float, as a master of a float run would.
static void convert(const void *raw, ax_dtype stored, void *ready, ax_dtype dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double v = stored == AX_F64 ? ((const double *)raw)[i] : ((const float *)raw)[i];
        if (dtype == AX_F64)
            ((double *)ready)[i] = v;
        else if (dtype == AX_F32)
            ((float *)ready)[i] = (float)v;
        else
            ((ax_bf16 *)ready)[i] = ax_f32_to_bf16((float)v);
    }
}

static ax_status store(ax_runs *r, ax_tensor t, ax_dtype stored, int64_t first, int64_t count)
{
    // Equal dtypes are not converted: the payload of a NaN stays what it was.
    void *from = r->raw;
    if (stored != t.dtype) {
        convert(r->raw, stored, r->ready, t.dtype, count);
        from = r->ready;
    }
    ax_tensor to = ax_tensor_cols(t, first, count);
    AX_TRY(ax_device_copy(r->dev, to.data, from, ax_tensor_bytes(to)));
    return ax_device_sync(r->dev);
}

ax_status ax_runs_read(ax_runs *r, const ax_param *p, ax_tensor t, int64_t offset, ax_dtype stored,
                       uint64_t *sum)
{
    AX_ASSERT(stored == AX_F32 || stored == AX_F64);
    size_t size = ax_dtype_size(stored);
    int64_t first = 0, held = 0; // what the host buffer holds
    span s;
    for (ax_run run = {0}; next_span(p, &run, &s);) {
        while (s.count > 0) {
            int64_t n = least(s.count, STAGE - held);
            char *to = (char *)r->raw + held * (int64_t)size;
            AX_TRY(ax_disk_read(r->fd, r->path, to, (size_t)n * size,
                                offset + s.place * (int64_t)size));
            if (sum)
                *sum += ax_checksum_elements(to, size, n, s.place);
            s = (span){s.place + n, s.at + n, s.count - n};
            held += n;
            if (held < STAGE)
                continue;
            AX_TRY(store(r, t, stored, first, held));
            first += held;
            held = 0;
        }
    }
    AX_TRY(store(r, t, stored, first, held));
    first += held; // runs touch: what is left is padding
    return ax_fill(r->dev, ax_tensor_cols(t, first, t.cols - first), 0.0);
}

// A parameter inside a tensor of a file: its rows from `first` on, or, where the tensor is stored
// the other way round, its columns. Only the bytes of a rank's own runs move.
//
//     ax_hf_slice s = { .fd = fd, .path = path, .begin = tensor->begin, .stored = tensor->dtype,
//                       .width = tensor->shape[1], .first = 0 };
//     AX_TRY(ax_hf_slice_read(&s, &buffers, dev, p, p->master));
#pragma once
#include "ckpt/safetensors.h"
#include "grid/param.h"

typedef struct ax_hf_slice {
    int fd;
    const char *path;   // for messages
    int64_t begin;      // byte of the tensor's first element
    ax_st_dtype stored; // one that ax_floats_known
    int64_t width;      // elements of a row of the tensor
    int64_t first;      // row (transposed, or a vector: column) of the parameter's first one
    bool transposed;    // element (r, c) of the parameter is (c, first + r) of the tensor
} ax_hf_slice;

typedef struct ax_hf_buffers {
    void *raw, *ready; // owned: as in the file, as on the device; of bounded size
} ax_hf_buffers;

ax_status ax_hf_buffers_init(ax_hf_buffers *b);
void ax_hf_buffers_fini(ax_hf_buffers *b); // a zeroed one is legal

// t: (1, part). What lies outside the runs is zeroed.
ax_status ax_hf_slice_read(const ax_hf_slice *s, const ax_hf_buffers *b, ax_device *dev,
                           const ax_param *p, ax_tensor t);
ax_status ax_hf_slice_write(const ax_hf_slice *s, const ax_hf_buffers *b, ax_device *dev,
                            const ax_param *p, ax_tensor t);

#include "ckpt/hf_slice.h"

#include "ckpt/disk.h"
#include "ckpt/hf_floats.h"
#include "dev/kern.h"

#include <stdlib.h>

// Elements of a buffer. A transposed tensor is read in pieces of STAGE / columns elements, so a
// larger buffer is fewer system calls.
enum { STAGE = 1 << 21, WIDEST = 8 };

ax_status ax_hf_buffers_init(ax_hf_buffers *b)
{
    b->raw = malloc((size_t)STAGE * WIDEST);
    b->ready = malloc((size_t)STAGE * WIDEST);
    if (b->raw && b->ready)
        return AX_OK;
    ax_hf_buffers_fini(b);
    AX_FAIL(AX_ENOMEM, "no memory for two buffers of %d MiB", STAGE * WIDEST >> 20);
}

void ax_hf_buffers_fini(ax_hf_buffers *b)
{
    free(b->raw);
    free(b->ready);
    *b = (ax_hf_buffers){0};
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

typedef struct move { // one transfer, in either direction
    const ax_hf_slice *s;
    const ax_hf_buffers *b;
    ax_device *dev;
    const ax_param *p;
    ax_tensor t;
    bool write;
} move;

static void *host(const move *m, int64_t i)
{
    return (char *)m->b->ready + i * (int64_t)ax_dtype_size(m->t.dtype);
}

// Elements [at, at + count) of the part, between the device and the ready buffer.
static ax_status shift(const move *m, int64_t at, int64_t count, int64_t in_buffer)
{
    ax_tensor mine = ax_tensor_cols(m->t, at, count);
    size_t bytes = ax_tensor_bytes(mine);
    if (m->write)
        AX_TRY(ax_device_copy(m->dev, host(m, in_buffer), mine.data, bytes));
    else
        AX_TRY(ax_device_copy(m->dev, mine.data, host(m, in_buffer), bytes));
    return ax_device_sync(m->dev);
}

// `count` elements that follow one another in the file at element `place`, `stride` apart in the
// ready buffer from `in_buffer` on.
static ax_status pass(const move *m, int64_t place, int64_t count, int64_t in_buffer,
                      int64_t stride)
{
    const ax_hf_slice *s = m->s;
    int64_t size = ax_floats_size(s->stored), byte = s->begin + place * size;
    size_t bytes = (size_t)(count * size);
    if (m->write) {
        ax_floats_store(m->t.dtype, host(m, in_buffer), stride, count, s->stored, m->b->raw);
        return ax_disk_write(s->fd, s->path, m->b->raw, bytes, byte);
    }
    AX_TRY(ax_disk_read(s->fd, s->path, m->b->raw, bytes, byte));
    ax_floats_load(s->stored, m->b->raw, count, m->t.dtype, host(m, in_buffer), stride);
    return AX_OK;
}

// ---- rows as they are

typedef struct span { // runs that touch in the file; in a part runs always touch
    int64_t place, at, count;
} span;

static int64_t place_of(const move *m, const ax_run *r)
{
    // A tensor of one dimension is one row.
    if (!m->p->matrix && m->p->rows == 1)
        return m->s->first + r->col;
    return (m->s->first + r->row) * m->s->width + r->col;
}

static bool next_span(const move *m, ax_run *run, span *out)
{
    if (!ax_param_next_run(m->p, run))
        return false;
    *out = (span){place_of(m, run), run->at, run->count};
    for (ax_run ahead = *run; ax_param_next_run(m->p, &ahead); *run = ahead) {
        if (place_of(m, &ahead) != out->place + out->count)
            break;
        out->count += ahead.count;
    }
    return true;
}

// Runs are gathered in the buffer until it is full: what lies in it is one piece of the part.
static ax_status read_rows(const move *m)
{
    int64_t first = 0, held = 0;
    span s;
    for (ax_run run = {0}; next_span(m, &run, &s);) {
        while (s.count > 0) {
            int64_t n = least(s.count, STAGE - held);
            AX_TRY(pass(m, s.place, n, held, 1));
            s = (span){s.place + n, s.at + n, s.count - n};
            held += n;
            if (held < STAGE)
                continue;
            AX_TRY(shift(m, first, held, 0));
            first += held;
            held = 0;
        }
    }
    return shift(m, first, held, 0);
}

static ax_status write_rows(const move *m)
{
    int64_t first = 0, held = 0;
    span s;
    for (ax_run run = {0}; next_span(m, &run, &s);) {
        while (s.count > 0) {
            if (s.at >= first + held) {
                first = s.at;
                held = least(STAGE, m->t.cols - first);
                AX_TRY(shift(m, first, held, 0));
            }
            int64_t n = least(s.count, first + held - s.at);
            AX_TRY(pass(m, s.place, n, s.at - first, 1));
            s = (span){s.place + n, s.at + n, s.count - n};
        }
    }
    return AX_OK;
}

// ---- rows as columns

// The part is the elements [low, high) of the flattened local block: whole rows but for its ends.
typedef struct band {
    int64_t row, rows; // of the local block, that fit a buffer
    int64_t low, high; // of the flattened block
} band;

// Column `col` of the band: one run in the file.
static ax_status pass_column(const move *m, const band *b, int64_t col)
{
    const ax_param *p = m->p;
    int64_t width = p->block_cols, from = b->row, to = b->row + b->rows;
    from += from * width + col < b->low;
    to -= (to - 1) * width + col >= b->high;
    if (from >= to)
        return AX_OK;
    int64_t place = (p->first_col + col) * m->s->width + m->s->first + p->first_row + from;
    return pass(m, place, to - from, (from - b->row) * width + col, width);
}

static ax_status pass_band(const move *m, const band *b)
{
    const ax_param *p = m->p;
    int64_t width = p->block_cols, start = b->row * width;
    int64_t low = most(b->low, start), high = least(b->high, start + b->rows * width);
    if (m->write)
        AX_TRY(shift(m, low - p->first, high - low, low - start));
    for (int64_t col = 0; col < width; col++)
        AX_TRY(pass_column(m, b, col));
    return m->write ? AX_OK : shift(m, low - p->first, high - low, low - start);
}

static ax_status pass_columns(const move *m)
{
    const ax_param *p = m->p;
    int64_t width = p->block_cols, rows = least(p->block_rows, p->rows - p->first_row);
    int64_t low = p->first, high = least(p->first + p->part, rows * width);
    AX_CHECK(width <= STAGE, AX_EUNSUPPORTED,
             "parameter %s: %lld columns are more than a transposed tensor may have (%d)", p->name,
             (long long)width, STAGE);
    for (int64_t row = low / width; low < high && row * width < high;) {
        int64_t last = (high + width - 1) / width;
        band b = {row, least(STAGE / width, last - row), low, high};
        AX_TRY(pass_band(m, &b));
        row += b.rows;
    }
    return AX_OK;
}

ax_status ax_hf_slice_read(const ax_hf_slice *s, const ax_hf_buffers *b, ax_device *dev,
                           const ax_param *p, ax_tensor t)
{
    move m = {.s = s, .b = b, .dev = dev, .p = p, .t = t};
    AX_TRY(ax_fill(dev, t, 0.0));
    return s->transposed ? pass_columns(&m) : read_rows(&m);
}

ax_status ax_hf_slice_write(const ax_hf_slice *s, const ax_hf_buffers *b, ax_device *dev,
                            const ax_param *p, ax_tensor t)
{
    move m = {.s = s, .b = b, .dev = dev, .p = p, .t = t, .write = true};
    return s->transposed ? pass_columns(&m) : write_rows(&m);
}

#include "plan/published.h"

#include <stdlib.h>

ax_status ax_published_bandwidth(const ax_published_bandwidths *b, int64_t p, int64_t g,
                                 double *gb_per_s)
{
    int row = -1; // the largest p of the table that is not beyond the one asked for
    double any = 0;
    for (int i = 0; i < b->cases; i++)
        if (b->at[i].p <= p)
            row = b->at[i].p;
    for (int i = 0; i < b->cases; i++) {
        if (b->at[i].p != row)
            continue;
        if (b->at[i].g == g) {
            *gb_per_s = b->at[i].gb_per_s;
            return AX_OK;
        }
        if (b->at[i].g == 0)
            any = b->at[i].gb_per_s;
    }
    AX_CHECK(any > 0, AX_EUSAGE,
             "the machine has no bandwidth for an axis of %lld ranks with %lld ranks further in",
             (long long)g, (long long)p);
    *gb_per_s = any;
    return AX_OK;
}

// ---- one grid

typedef struct layer {
    double k; // width multiple
    int transposed;
} layer;

static const layer block[] = {{3, 0}, {1, 1}, {4, 0}, {4, 1}};

// Share of a buffer that one pass of a ring moves.
static double ring(double g)
{
    return (g - 1) / g;
}

// Bytes of one layer over y, x, z, data.
static void volumes(const ax_published_model *m, int64_t batch, const ax_published_grid *grid,
                    layer l, double v[4])
{
    double x = grid->x, y = grid->y, z = grid->z, data = grid->data, h = (double)m->hidden;
    double t = (double)batch * (double)m->seq / (data * z), w = l.k * h * h;
    double narrow = t * h, wide = t * l.k * h; // of what enters, of what leaves
    v[0] = l.transposed ? 2 * ring(y) * narrow / x * 2 : 4 * ring(y) * wide / x * 2;
    v[1] = l.transposed ? 4 * ring(x) * wide / y * 2 : 2 * ring(x) * narrow / y * 2;
    v[2] = 3 * ring(z) * w / (y * x) * 2;
    v[3] = 4 * ring(data) * w / (y * x * z) * 2;
}

ax_status ax_published_time(const ax_published_model *m, int64_t batch,
                            const ax_published_bandwidths *b, ax_published_grid *grid)
{
    const int size[4] = {grid->y, grid->x, grid->z, grid->data};
    double seconds = 0;
    for (size_t i = 0; i < sizeof block / sizeof block[0]; i++) {
        double v[4];
        int64_t inner = 1;
        volumes(m, batch, grid, block[i], v);
        for (int axis = 0; axis < 4; inner *= size[axis++]) {
            double rate;
            if (size[axis] == 1)
                continue;
            AX_TRY(ax_published_bandwidth(b, inner, size[axis], &rate));
            seconds += v[axis] / 1073741824 / rate;
        }
    }
    grid->seconds = seconds * (double)m->layers;
    return AX_OK;
}

// ---- all grids

static int faster(const void *a, const void *b)
{
    const ax_published_grid *p = a, *q = b;
    if (p->seconds != q->seconds)
        return p->seconds < q->seconds ? -1 : 1;
    const int left[4] = {p->x, p->y, p->z, p->data}, right[4] = {q->x, q->y, q->z, q->data};
    for (int i = 0; i < 4; i++) // a fixed order of equals
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

// At most (24 + 1)(24 + 2)(24 + 3)/6 grids.
enum { MOST_BITS = 24, MOST_GRIDS = 2925 };

static bool fits(const ax_published_model *m, int64_t batch, const ax_published_grid *g)
{
    return (int64_t)g->x * g->y * g->z >= m->least_tensor && batch % ((int64_t)g->z * g->data) == 0;
}

static ax_status enumerate(const ax_published_model *m, int bits, int64_t batch,
                           const ax_published_bandwidths *b, ax_published_list *out)
{
    for (int y = 0; y <= bits; y++)
        for (int x = 0; x + y <= bits; x++)
            for (int z = 0; x + y + z <= bits; z++) {
                ax_published_grid g = {1 << x, 1 << y, 1 << z, 1 << (bits - x - y - z), 0};
                if (!fits(m, batch, &g))
                    continue;
                AX_TRY(ax_published_time(m, batch, b, &g));
                out->entry[out->count++] = g;
            }
    return AX_OK;
}

ax_status ax_published_rank(const ax_published_model *m, int64_t ranks, int64_t batch,
                            const ax_published_bandwidths *b, ax_published_list *out)
{
    int bits = 0;
    while (bits < MOST_BITS && (int64_t)1 << bits < ranks)
        bits++;
    AX_CHECK((int64_t)1 << bits == ranks, AX_EUSAGE,
             "plan.model=axonn knows powers of two up to %d alone, not %lld ranks", 1 << MOST_BITS,
             (long long)ranks);
    *out = (ax_published_list){.entry = calloc(MOST_GRIDS, sizeof *out->entry)};
    AX_CHECK(out->entry, AX_ENOMEM, "no memory for a list of grids");
    ax_status st = enumerate(m, bits, batch, b, out);
    if (st == AX_OK && out->count == 0)
        st = ax_fail(AX_EUSAGE, __FILE__, __LINE__,
                     "no grid of %lld ranks has x*y*z >= %d and cuts %lld sequences evenly over "
                     "z*data; change train.batch or the ranks",
                     (long long)ranks, m->least_tensor, (long long)batch);
    if (st != AX_OK)
        ax_published_list_fini(out);
    else
        qsort(out->entry, (size_t)out->count, sizeof *out->entry, faster);
    return st;
}

void ax_published_list_fini(ax_published_list *l)
{
    free(l->entry);
    *l = (ax_published_list){0};
}

int ax_published_least_tensor(double parameters)
{
    static const struct {
        double parameters; // of the authors' model, rounded up
        int degree;
    } known[] = {{5.2e9, 4}, {10.5e9, 8},  {20.5e9, 16}, {40e9, 32},  {58e9, 64},
                 {77e9, 64}, {153e9, 128}, {311e9, 256}, {620e9, 512}};
    enum { KNOWN = sizeof known / sizeof known[0] };
    if (parameters < 1.3e9)
        return 1; // a quarter of the smallest, which takes four
    for (int i = 0; i < KNOWN; i++)
        if (parameters <= known[i].parameters)
            return known[i].degree;
    int degree = known[KNOWN - 1].degree;
    while (degree < 1 << MOST_BITS &&
           degree * known[KNOWN - 1].parameters < parameters * known[KNOWN - 1].degree)
        degree *= 2;
    return degree;
}

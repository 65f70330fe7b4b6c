#include "grid/grid.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { AXIS_X, AXIS_Y, AXIS_Z, AXIS_D, AXES };

static const char axis_letter[AXES + 1] = "xyzd";

static int axis_of(char letter)
{
    const char *at = letter ? strchr(axis_letter, letter) : NULL;
    return at ? (int)(at - axis_letter) : -1;
}

static bool order_is_valid(const char *order)
{
    int seen = 0;
    for (int i = 0; i < AXES; i++) {
        int axis = axis_of(order[i]);
        if (axis < 0)
            return false;
        seen |= 1 << axis;
    }
    return order[AXES] == 0 && seen == (1 << AXES) - 1;
}

static ax_status parse_entry(const char *text, char *entry, ax_grid_shape *s, int *seen)
{
    char *value = strchr(entry, '=');
    AX_CHECK(value, AX_EUSAGE, "grid '%s': '%s' is not axis=size (example: x=2,y=1,z=2,data=1)",
             text, entry);
    *value++ = 0;
    if (strcmp(entry, "order") == 0) {
        AX_CHECK(strlen(value) == AXES && order_is_valid(value), AX_EUSAGE,
                 "grid '%s': order '%s' is not a permutation of xyzd", text, value);
        memcpy(s->order, value, AXES + 1);
        return AX_OK;
    }
    int axis = strcmp(entry, "data") == 0 ? AXIS_D : strlen(entry) == 1 ? axis_of(entry[0]) : -1;
    AX_CHECK(axis >= 0, AX_EUSAGE, "grid '%s': no axis '%s' (axes: x, y, z, data)", text, entry);
    AX_CHECK(!(*seen & 1 << axis), AX_EUSAGE, "grid '%s': axis %s is given twice", text, entry);
    *seen |= 1 << axis;
    int64_t size;
    AX_CHECK(ax_parse_int(value, &size) && size >= 1 && size <= 1 << 20, AX_EUSAGE,
             "grid '%s': size '%s' of axis %s is not a number from 1 to 1048576", text, value,
             entry);
    int *const slot[AXES] = {&s->x, &s->y, &s->z, &s->data};
    *slot[axis] = (int)size;
    return AX_OK;
}

ax_status ax_grid_parse(const char *text, ax_grid_shape *out)
{
    ax_grid_shape s = {.x = 1, .y = 1, .z = 1, .data = 1, .order = "xyzd"};
    char copy[128];
    AX_CHECK(*text && strlen(text) < sizeof copy, AX_EUSAGE,
             "grid '%.40s': expected axis sizes such as x=2,y=1,z=2,data=1", text);
    snprintf(copy, sizeof copy, "%s", text);
    int seen = 0;
    char *rest = copy;
    for (char *entry = strsep(&rest, ","); entry; entry = strsep(&rest, ","))
        AX_TRY(parse_entry(text, entry, &s, &seen));
    int64_t ranks = 1;
    const int size[AXES] = {s.x, s.y, s.z, s.data};
    for (int i = 0; i < AXES; i++) {
        ranks *= size[i];
        AX_CHECK(ranks <= 1 << 24, AX_EUSAGE, "grid '%s': more than 16777216 ranks", text);
    }
    *out = s;
    return AX_OK;
}

void ax_grid_print(const ax_grid_shape *s, char *text, size_t size)
{
    bool usual = strcmp(s->order, "xyzd") == 0;
    snprintf(text, size, "x=%d,y=%d,z=%d,data=%d%s%s", s->x, s->y, s->z, s->data,
             usual ? "" : ",order=", usual ? "" : s->order);
}

int ax_grid_ranks(const ax_grid_shape *s)
{
    return s->x * s->y * s->z * s->data;
}

// Mixed radix: the first letter of the order varies fastest.
static void place(ax_grid *g)
{
    const int size[AXES] = {g->shape.x, g->shape.y, g->shape.z, g->shape.data};
    int *const coordinate[AXES] = {&g->cx, &g->cy, &g->cz, &g->cd};
    int rest = g->rank;
    for (int i = 0; i < AXES; i++) {
        int axis = axis_of(g->shape.order[i]);
        *coordinate[axis] = rest % size[axis];
        rest /= size[axis];
    }
}

// One communicator: its name, the ranks that share `color` in the order of `key`.
typedef struct seat {
    const char *name;
    ax_comm **slot;
    int color, key, size;
} seat;

enum { SEATS = 10 };

static void list_seats(ax_grid *g, seat out[SEATS])
{
    const int gx = g->shape.x, gy = g->shape.y, gz = g->shape.z, gd = g->shape.data;
    const int x = g->cx, y = g->cy, z = g->cz, d = g->cd, copies = g->kv_copies;
    const int zd = d * gz + z, plane = y * gx + x;
    const seat list[SEATS] = {
        {"x", &g->x, zd * gy + y, x, gx},
        {"y", &g->y, zd * gx + x, y, gy},
        {"z", &g->z, d * gx * gy + plane, z, gz},
        {"z", &g->z_sum, d * gx * gy + plane, z, gz},
        {"data", &g->data, z * gx * gy + plane, d, gd},
        {"xy", &g->xy, zd, plane, gx * gy},
        {"zdata", &g->zdata, plane, zd, gz * gd},
        {"xzdata", &g->xzdata, y, zd * gx + x, gx * gz * gd},
        {"yzdata", &g->yzdata, x, zd * gy + y, gy * gz * gd},
        {"kv", &g->kv, (zd * gy + y) * (gx / copies) + x / copies, x % copies, copies},
    };
    memcpy(out, list, sizeof list);
}

static ax_status prepare(ax_grid_shape shape, int rank, int kv_copies, ax_grid *g)
{
    *g = (ax_grid){.shape = shape, .rank = rank, .kv_copies = kv_copies};
    g->ranks = ax_grid_ranks(&shape);
    AX_CHECK(kv_copies >= 1 && shape.x % kv_copies == 0, AX_EINTERNAL,
             "grid: %d kv copies do not divide x=%d", kv_copies, shape.x);
    place(g);
    return AX_OK;
}

ax_status ax_grid_open(ax_comm *world, ax_grid_shape shape, int kv_copies, ax_grid *out)
{
    char text[64];
    ax_grid_print(&shape, text, sizeof text);
    AX_CHECK(ax_grid_ranks(&shape) == world->size, AX_EUSAGE,
             "grid %s has %d ranks, but %d were started: make the product of the axes %d", text,
             ax_grid_ranks(&shape), world->size, world->size);
    ax_grid g;
    AX_TRY(prepare(shape, world->rank, kv_copies, &g));
    g.world = world;
    seat seats[SEATS];
    list_seats(&g, seats);
    for (int i = 0; i < SEATS; i++) {
        ax_status st =
            ax_comm_split(world, seats[i].name, seats[i].color, seats[i].key, seats[i].slot);
        if (st != AX_OK) {
            ax_grid_close(&g);
            return st;
        }
        AX_ASSERT((*seats[i].slot)->size == seats[i].size);
        AX_ASSERT((*seats[i].slot)->rank == seats[i].key);
    }
    *out = g;
    return AX_OK;
}

ax_status ax_grid_open_measure(ax_grid_shape shape, int rank, int kv_copies, ax_grid *out)
{
    ax_grid g;
    AX_TRY(prepare(shape, rank, kv_copies, &g));
    seat seats[SEATS];
    list_seats(&g, seats);
    ax_status st = ax_comm_measure_open(rank, g.ranks, &g.world);
    for (int i = 0; i < SEATS && st == AX_OK; i++) {
        st = ax_comm_measure_open(seats[i].key, seats[i].size, seats[i].slot);
        if (st == AX_OK)
            snprintf((*seats[i].slot)->name, sizeof(*seats[i].slot)->name, "%s", seats[i].name);
    }
    if (st != AX_OK) {
        ax_grid_close(&g);
        ax_comm_close(g.world);
        return st;
    }
    *out = g;
    return AX_OK;
}

void ax_grid_close(ax_grid *g)
{
    if (!g->kv_copies)
        return;
    seat seats[SEATS];
    list_seats(g, seats);
    for (int i = SEATS - 1; i >= 0; i--) {
        ax_comm_close(*seats[i].slot);
        *seats[i].slot = NULL;
    }
}

void ax_grid_trace(ax_grid *g, ax_comm_trace *t)
{
    seat seats[SEATS];
    list_seats(g, seats);
    ax_comm_trace_attach(g->world, t);
    for (int i = 0; i < SEATS; i++)
        ax_comm_trace_attach(*seats[i].slot, t);
}

void ax_grid_poll(void *grid)
{
    ax_grid *g = grid;
    ax_comm *const all[] = {g->x,  g->y,     g->z,      g->z_sum,  g->data,
                            g->xy, g->zdata, g->xzdata, g->yzdata, g->kv};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]->head)
            ax_comm_progress(all[i]); // an error stays with the request and surfaces at its wait
}

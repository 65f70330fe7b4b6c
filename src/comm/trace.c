#include "comm/trace.h"

#include <string.h>

void ax_comm_trace_attach(ax_comm *c, ax_comm_trace *t)
{
    c->trace = t;
}

void ax_comm_trace_reset(ax_comm_trace *t)
{
    *t = (ax_comm_trace){0};
}

static ax_comm_trace_row *row_of(ax_comm_trace *t, const char *axis, const char *tag, ax_coll coll)
{
    for (int i = 0; i < t->rows; i++) {
        ax_comm_trace_row *row = &t->row[i];
        if (row->coll == coll && strcmp(row->tag, tag) == 0 && strcmp(row->axis, axis) == 0)
            return row;
    }
    if (t->rows == AX_TRACE_ROWS)
        return NULL;
    ax_comm_trace_row *row = &t->row[t->rows++];
    *row = (ax_comm_trace_row){.tag = tag, .coll = coll};
    memcpy(row->axis, axis, sizeof row->axis);
    return row;
}

// Index of the axis, or -1 when there is no room for one more.
static int axis_of(ax_comm_trace *t, const char *axis)
{
    for (int i = 0; i < t->axes; i++)
        if (strcmp(t->axis[i].axis, axis) == 0)
            return i;
    if (t->axes == (int)(sizeof t->axis / sizeof t->axis[0]))
        return -1;
    memcpy(t->axis[t->axes].axis, axis, sizeof t->axis[0].axis);
    t->axis[t->axes].bytes = 0;
    t->axis[t->axes].exposed_s = 0;
    t->axis[t->axes].moving_s = 0;
    return t->axes++;
}

int64_t ax_comm_bytes(const ax_comm *c, ax_coll coll, const ax_xfer *x)
{
    int64_t pieces = coll == AX_ALLGATHER || coll == AX_REDUCE_SCATTER ? c->size : 1;
    return pieces * x->count * (int64_t)ax_dtype_size(x->dtype);
}

ax_status ax_comm_trace_count(ax_comm_trace *t, const ax_comm *c, ax_coll coll, const ax_xfer *x)
{
    int64_t bytes = ax_comm_bytes(c, coll, x);
    ax_comm_trace_row *row = row_of(t, c->name, x->tag, coll);
    int axis = axis_of(t, c->name);
    // A trace that silently left something out would prove nothing.
    AX_CHECK(
        row && axis >= 0, AX_EINTERNAL,
        "trace: no room for tag %s on axis %s; raise AX_TRACE_ROWS or the axes in comm/trace.h",
        x->tag, c->name);
    row->calls++;
    row->bytes += bytes;
    t->axis[axis].bytes += bytes;
    return AX_OK;
}

void ax_comm_trace_spent(ax_comm_trace *t, const ax_comm *c, double seconds)
{
    int axis = axis_of(t, c->name);
    t->wait_s += seconds;
    if (axis >= 0)
        t->axis[axis].exposed_s += seconds;
}

void ax_comm_trace_moved(ax_comm_trace *t, const ax_comm *c, double seconds)
{
    int axis = axis_of(t, c->name);
    if (axis >= 0)
        t->axis[axis].moving_s += seconds;
}

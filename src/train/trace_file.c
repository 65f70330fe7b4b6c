#include "train/trace_file.h"

#include "base/log.h"
#include "base/text.h"
#include "ckpt/disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- one rank's events ----

// Rows of a rank: 0 is the rank itself, then one a communicator.
enum { ROWS = 32 };
typedef struct rows {
    const ax_timeline_span *first[ROWS]; // of the row
    int count;
} rows;

// A row that finds no place shares the last one.
static int row_of(rows *r, const ax_timeline_span *s)
{
    for (int i = 1; i < r->count; i++)
        if (r->first[i]->lane == s->lane)
            return i;
    if (r->count == ROWS)
        return ROWS - 1;
    r->first[r->count] = s;
    return r->count++;
}

// Two communicators serve z, so that gathers and sums do not queue behind one another.
static int number_in_axis(const rows *r, int row)
{
    int number = 1;
    for (int i = 1; i < row; i++)
        number += strcmp(r->first[i]->axis, r->first[row]->axis) == 0;
    return number;
}

static const char *verb_of(ax_timeline_kind kind)
{
    return kind == AX_TIME_WAIT ? "wait " : kind == AX_TIME_PROGRESS ? "move " : "";
}

static void add_kernel(ax_text *out, const ax_device *dev, const ax_timeline_span *s)
{
    const char *slot = s->name, *run = ax_kern_name(dev, slot);
    ax_text_add(out, "\"name\":\"%s\",\"cat\":\"kernel\",\"args\":{\"kernel\":\"%s\"", slot,
                run ? run : "");
    if (s->size[2])
        ax_text_add(out, ",\"m\":%lld,\"n\":%lld,\"k\":%lld}", (long long)s->size[0],
                    (long long)s->size[1], (long long)s->size[2]);
    else
        ax_text_add(out, ",\"rows\":%lld,\"columns\":%lld}", (long long)s->size[0],
                    (long long)s->size[1]);
}

static void add_event(ax_text *out, const ax_trainer *t, const ax_trace_file *f,
                      const ax_timeline_span *s, rows *r)
{
    int row = s->kind == AX_TIME_TRANSFER ? row_of(r, s) : 0;
    ax_text_add(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,",
                t->grid.rank, row, 1e6 * (s->begin_s - f->zero_s), 1e6 * (s->end_s - s->begin_s));
    if (s->kind == AX_TIME_KERNEL)
        add_kernel(out, &t->dev, s);
    else if (s->kind == AX_TIME_STEP)
        ax_text_add(out, "\"name\":\"step %lld\",\"cat\":\"step\",\"args\":{}",
                    (long long)s->size[0]);
    else
        ax_text_add(
            out, "\"name\":\"%s%s: %s\",\"cat\":\"%s\",\"args\":{\"axis\":\"%s\",\"bytes\":%lld}",
            verb_of(s->kind), s->axis, s->name,
            s->kind == AX_TIME_WAIT       ? "exposed"
            : s->kind == AX_TIME_PROGRESS ? "progress"
                                          : "transfer",
            s->axis, (long long)s->size[0]);
    ax_text_add(out, "}");
}

static void add_name(ax_text *out, const ax_trainer *t, const char *what, int row, const char *name)
{
    ax_text_add(out, ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":",
                t->grid.rank, row, what);
    ax_text_add_json(out, name);
    ax_text_add(out, "}}");
}

static void add_names(ax_text *out, const ax_trainer *t, const rows *r)
{
    char name[96];
    const ax_grid *g = &t->grid;
    snprintf(name, sizeof name, "rank %d (x=%d y=%d z=%d data=%d)", g->rank, g->cx, g->cy, g->cz,
             g->cd);
    add_name(out, t, "process_name", 0, name);
    add_name(out, t, "thread_name", 0, "computes, waits");
    for (int i = 1; i < r->count; i++) {
        int number = number_in_axis(r, i);
        snprintf(name, sizeof name, "axis %s", r->first[i]->axis);
        if (number > 1)
            snprintf(name, sizeof name, "axis %s (%d)", r->first[i]->axis, number);
        add_name(out, t, "thread_name", i, name);
    }
}

// A part is complete JSON events, each after a comma; rank 0's part begins the list and the last
// rank's part ends it.
static ax_status describe(const ax_trace_file *f, const ax_trainer *t, ax_text *out)
{
    rows r = {.count = 1};
    if (t->grid.rank == 0)
        ax_text_add(out,
                    "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":0,"
                    "\"name\":\"axonn\",\"args\":{\"version\":\"%s\"}}",
                    AX_VERSION);
    for (int64_t i = 0; i < t->timeline.count; i++)
        add_event(out, t, f, &t->timeline.span[i], &r);
    add_names(out, t, &r);
    if (t->grid.rank == t->grid.ranks - 1)
        ax_text_add(out, "\n]}\n");
    AX_CHECK(!out->failed, AX_ENOMEM, "%s: no memory for the events of a rank", f->path);
    if (t->timeline.lost > 0)
        ax_log(AX_LOG_WARN, "trace", "rank %d: %lld of %lld spans found no room", t->grid.rank,
               (long long)t->timeline.lost, (long long)(t->timeline.lost + t->timeline.count));
    return AX_OK;
}

// ---- the file of all ranks ----

// Where this rank's part begins: behind those of the ranks before it. Collective.
static ax_status place(ax_comm *world, size_t mine, int64_t *at)
{
    int64_t *sizes = calloc((size_t)world->size, sizeof *sizes), own = (int64_t)mine;
    ax_status st = AX_OK;
    if (!sizes)
        st = ax_fail(AX_ENOMEM, __FILE__, __LINE__, "no memory for %d sizes", world->size);
    st = ax_comm_agree(world, st);
    if (st == AX_OK) // a size is two words of 32 bits, moved as they are
        st = ax_comm_allgather(
            world,
            &(ax_xfer){.send = &own, .recv = sizes, .count = 2, .dtype = AX_I32, .tag = "trace"});
    *at = 0;
    for (int i = 0; st == AX_OK && i < world->rank; i++)
        *at += sizes[i];
    free(sizes);
    return st;
}

static ax_status make_file(const char *temp)
{
    int fd;
    AX_TRY(ax_disk_open(temp, O_WRONLY | O_CREAT | O_TRUNC, &fd));
    return ax_disk_close(fd, temp);
}

static ax_status write_part(const char *temp, const ax_text *part, int64_t at)
{
    int fd;
    AX_TRY(ax_disk_open(temp, O_WRONLY, &fd));
    ax_status st = ax_disk_write(fd, temp, part->text, part->length, at);
    ax_status closed = ax_disk_close(fd, temp);
    return st == AX_OK ? closed : st;
}

static ax_status give_name(const char *temp, const char *path)
{
    AX_CHECK(rename(temp, path) == 0, AX_EIO, "%s: cannot take its name from %s", path, temp);
    return AX_OK;
}

static ax_status write_parts(const ax_trace_file *f, const ax_trainer *t, const ax_text *part)
{
    ax_comm *world = t->world;
    char temp[AX_PATH_MAX];
    int64_t at;
    int n = snprintf(temp, sizeof temp, "%s.tmp", f->path);
    AX_CHECK(n > 0 && n < AX_PATH_MAX, AX_EUSAGE, "%s: the path is too long", f->path);
    AX_TRY(place(world, part->length, &at));
    AX_TRY(ax_comm_agree(world, world->rank == 0 ? make_file(temp) : AX_OK));
    ax_status st = ax_comm_agree(world, write_part(temp, part, at));
    if (st == AX_OK)
        st = ax_comm_agree(world, world->rank == 0 ? give_name(temp, f->path) : AX_OK);
    if (st != AX_OK && world->rank == 0)
        unlink(temp);
    return st;
}

ax_status ax_trace_begin(ax_trace_file *f, ax_trainer *t)
{
    AX_TRY(ax_comm_agree(t->world, AX_OK)); // all stand here
    f->zero_s = f->begun_s = ax_clock_s();
    f->steps = 0;
    t->timeline.count = t->timeline.lost = 0;
    t->timeline.paused = false;
    return AX_OK;
}

void ax_trace_step(ax_trace_file *f, ax_trainer *t, int64_t step)
{
    double now = ax_clock_s();
    ax_timeline_add(&t->timeline, &(ax_timeline_span){.name = "step",
                                                      .kind = AX_TIME_STEP,
                                                      .size = {step},
                                                      .begin_s = f->begun_s,
                                                      .end_s = now});
    f->begun_s = now;
    f->steps++;
}

ax_status ax_trace_write(ax_trace_file *f, ax_trainer *t)
{
    ax_text part = {0};
    t->timeline.paused = true;
    ax_status st = ax_comm_agree(t->world, describe(f, t, &part));
    if (st == AX_OK)
        st = write_parts(f, t, &part);
    ax_text_fini(&part);
    return st;
}

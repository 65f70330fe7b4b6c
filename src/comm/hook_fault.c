#include "comm/hook_fault.h"

#include "base/log.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct faulty {
    ax_comm base;
    ax_comm *inner;
    ax_fault *plan;
    uint64_t last; // serial of the request that was started last
} faulty;

// splitmix64
static uint64_t scramble(uint64_t v)
{
    v += 0x9e3779b97f4a7c15u;
    v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
    v = (v ^ v >> 27) * 0x94d049bb133111ebu;
    return v ^ v >> 31;
}

static void delay(const ax_fault *plan)
{
    if (plan->delay_us <= 0)
        return;
    uint64_t us = scramble(plan->seed + (uint64_t)plan->count) % (uint64_t)plan->delay_us;
    struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

static ax_status start(faulty *f, const ax_req *r)
{
    ax_fault *plan = f->plan;
    f->last = r->serial;
    plan->count++;
    delay(plan);
    if (plan->count != plan->nth)
        return AX_OK;
    if (plan->what == AX_FAULT_KILL)
        raise(SIGKILL);
    AX_FAIL(AX_ECOMM, "collective %lld (%s on %s) fails on purpose", (long long)plan->count,
            r->x.tag, f->base.name);
}

static ax_status fault_begun(ax_comm *c, const ax_req *r)
{
    faulty *f = c->impl;
    return f->inner->ops->begun ? f->inner->ops->begun(f->inner, r) : AX_OK;
}

static ax_status fault_advance(ax_comm *c, ax_req *r, bool block)
{
    faulty *f = c->impl;
    if (r->serial != f->last)
        AX_TRY(start(f, r));
    return f->inner->ops->advance(f->inner, r, block);
}

static ax_status fault_split(ax_comm *c, int color, int key, ax_comm **out)
{
    faulty *f = c->impl;
    ax_comm *inner = NULL;
    AX_TRY(f->inner->ops->split(f->inner, color, key, &inner));
    if (!inner) {
        *out = NULL;
        return AX_OK;
    }
    ax_status st = ax_comm_fault_open(inner, f->plan, out);
    if (st != AX_OK)
        ax_comm_close(inner);
    return st;
}

static void fault_close(ax_comm *c)
{
    faulty *f = c->impl;
    ax_comm_close(f->inner);
    free(f);
}

static void fault_abort(ax_comm *c, const char *why)
{
    faulty *f = c->impl;
    ax_comm_abort(f->inner, why);
}

static ax_status fault_alloc(ax_comm *c, size_t bytes, void **out)
{
    faulty *f = c->impl;
    return f->inner->ops->alloc(f->inner, bytes, out);
}

static void fault_free(ax_comm *c, void *mem, size_t bytes)
{
    faulty *f = c->impl;
    f->inner->ops->free(f->inner, mem, bytes);
}

static const ax_comm_ops fault_ops = {
    .name = "fault",
    .split = fault_split,
    .close = fault_close,
    .abort = fault_abort,
    .begun = fault_begun,
    .advance = fault_advance,
    .alloc = fault_alloc,
    .free = fault_free,
};

ax_status ax_comm_fault_open(ax_comm *inner, ax_fault *plan, ax_comm **out)
{
    AX_CHECK(!inner->head, AX_EINTERNAL, "fault hook over %s while a request is outstanding",
             inner->name);
    faulty *f = calloc(1, sizeof *f);
    AX_CHECK(f, AX_ENOMEM, "no memory for a communicator");
    f->base = *inner;
    f->base.ops = &fault_ops;
    f->base.impl = f;
    f->inner = inner;
    f->plan = plan;
    f->last = inner->issued;
    *out = &f->base;
    return AX_OK;
}

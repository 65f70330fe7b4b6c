// Communicators: collectives begun here and waited for there.
//
//     ax_req r;
//     AX_TRY(ax_comm_reduce_scatter_begin(c, &(ax_xfer){ .send = dw, .recv = mine, .count = piece,
//                .limit = block, .dtype = AX_F32, .tag = "dw" }, &r));
//     ...                                  // other work; neither send nor recv may be touched
//     AX_TRY(ax_comm_wait(&r));
//
// Rules. Every call is collective over its communicator: all ranks issue the same calls in the
// same order, waits too, with the same count, limit, dtype and op. The requests of one
// communicator complete in the order of their begin. `send` may not change and `recv` may not be
// read until the wait returns; completion includes that every peer has read this rank's memory.
// Errors may arrive late: begin and wait both return them. A request is the caller's memory and
// may be reused after its wait. Sums are made in rank order, starting from rank 0, in f32 for bf16
// data (f64 for f64) and rounded once: every backend gives the same bits, and every rank the same
// bits as the others. A communicator of one rank copies (or does nothing when recv == send).
//
// In place is legal where a rank's own piece lies: recv == send (allreduce), send == recv +
// rank*count (allgather), recv == send + rank*count (reduce_scatter). Any other overlap is refused.
//
// Backends: `local` (ranks are threads of this process), `mpi` (any MPI 3 library), and `measure`
// (no peers: transfers are checked and counted, nothing moves). Hooks wrap any communicator.
#pragma once
#include "dev/tensor.h"
#include "dev/timeline.h"

#include <stdbool.h>

typedef struct ax_comm ax_comm;
typedef struct ax_req ax_req;

typedef enum ax_redop {
    AX_SUM,
    AX_MAX,
} ax_redop;

typedef struct ax_xfer {
    const void *send;
    void *recv;
    int64_t count; // elements of one rank's piece (allgather, reduce_scatter), of the whole (else)
    int64_t limit; // valid elements of the concatenation of all pieces; 0 means ranks*count. What
                   // lies beyond is neither sent nor stored by allgather, counts as zero in
                   // reduce_scatter (whose recv is filled to count)
    ax_dtype dtype;
    ax_redop op;
    const char *tag; // its place in the code: a string literal, for traces
} ax_xfer;

typedef enum ax_coll {
    AX_ALLREDUCE,
    AX_ALLGATHER,
    AX_REDUCE_SCATTER,
    AX_BCAST,
} ax_coll;

struct ax_req { // caller's memory; fields are the communicator's
    ax_comm *comm;
    ax_req *next;
    ax_xfer x;
    ax_coll coll;
    int root;
    double begun_s;  // for the timeline
    int stage;       // of the backend's state machine
    int64_t at;      // progress inside the stage
    uint64_t serial; // number of this collective on its communicator
    bool done, failed;
    void *slot[2]; // the backend's own
};

typedef struct ax_comm_ops {
    const char *name;
    // Collective. A new communicator of the ranks that give the same color, ordered by key, then
    // by old rank. Color < 0: this rank joins none and gets NULL.
    ax_status (*split)(ax_comm *c, int color, int key, ax_comm **out);
    void (*close)(ax_comm *c);
    // Ends the whole job as failed, naming this rank. Never waits for peers.
    void (*abort)(ax_comm *c, const char *why);
    // Told of each request as it is begun, whatever is before it in the queue; NULL: not told.
    ax_status (*begun)(ax_comm *c, const ax_req *r);
    // Advances the oldest unfinished request; block: until it is done.
    ax_status (*advance)(ax_comm *c, ax_req *r, bool block);
    // Memory that peers of this communicator may read without a copy; ordinary memory will do
    // where a backend has no better.
    ax_status (*alloc)(ax_comm *c, size_t bytes, void **out);
    void (*free)(ax_comm *c, void *mem, size_t bytes);
} ax_comm_ops;

struct ax_comm {
    const ax_comm_ops *ops;
    int rank, size;
    char name[16];       // axis name, for traces and errors
    ax_req *head, *tail; // unfinished requests in order
    uint64_t issued;
    bool lazy;        // see ax_comm_set_lazy
    bool measuring;   // no memory is touched
    bool agreed;      // ax_comm_agree returned a failure here: every rank knows
    ax_status failed; // what broke it; every later request returns the same
    void *impl;
    struct ax_comm_trace *trace; // NULL: not traced; inherited by split
    ax_timeline *timeline;       // NULL: nobody wants to know; inherited by split; not owned
    double free_s;               // when the newest complete request was complete (timeline)
};

// Opening. Each gives the world communicator.
// Local: called once by the launching thread; worlds[0..ranks) are then used by one thread each.
ax_status ax_comm_local_open(int ranks, ax_comm **worlds);
// MPI: collective over the job. AX_EUNSUPPORTED in a build without MPI.
ax_status ax_comm_mpi_open(ax_comm **world);
// A communicator without peers that only checks and counts. It can't be split: what other ranks
// would say is unknown, so each axis is opened with the rank and size it would have.
ax_status ax_comm_measure_open(int rank, int size, ax_comm **world);

// Collective, with no request outstanding. A world is closed after the communicators split from it.
ax_status ax_comm_split(ax_comm *c, const char *name, int color, int key, ax_comm **out);
void ax_comm_close(ax_comm *c); // NULL is legal
void ax_comm_abort(ax_comm *c, const char *why);

ax_status ax_comm_allreduce_begin(ax_comm *c, const ax_xfer *x, ax_req *r);
ax_status ax_comm_allgather_begin(ax_comm *c, const ax_xfer *x, ax_req *r);
ax_status ax_comm_reduce_scatter_begin(ax_comm *c, const ax_xfer *x, ax_req *r);
ax_status ax_comm_bcast_begin(ax_comm *c, const ax_xfer *x, int root,
                              ax_req *r); // recv on all; send ignored
ax_status ax_comm_wait(ax_req *r);        // a request that was never begun (zeroed) returns at once
ax_status ax_comm_progress(ax_comm *c);   // polls; never blocks

// Begin and wait in one.
ax_status ax_comm_allreduce(ax_comm *c, const ax_xfer *x);
ax_status ax_comm_allgather(ax_comm *c, const ax_xfer *x);
ax_status ax_comm_reduce_scatter(ax_comm *c, const ax_xfer *x);
ax_status ax_comm_bcast(ax_comm *c, const ax_xfer *x, int root);

// Host scalars, tiny and blocking. Agree: the worst status of all ranks, returned on all; ranks
// that did not fail themselves say which rank did. Set-up phases end with it.
ax_status ax_comm_agree(ax_comm *c, ax_status mine);
// How a rank's work on this world ended, told before it frees anything that peers may read: a
// failure that the ranks did not agree on aborts the job. Returns st. Not collective.
ax_status ax_comm_end(ax_comm *world, ax_status st);
// A failure that all ranks agreed on was dealt with, by all of them: the next one counts again.
void ax_comm_recover(ax_comm *c);
ax_status ax_comm_sum(ax_comm *c, double *values, int count); // in place, same bits on all ranks
ax_status ax_comm_max(ax_comm *c, double *values, int count);
// Fails on all ranks when `value` differs between them, naming `what`. For set-up phases.
ax_status ax_comm_check_equal(ax_comm *c, int64_t value, const char *what);

// Lazy mode, for tests: nothing moves before the wait that orders it, and until then `recv` holds
// NaN (0x7f bytes for integers), so that a missing wait cannot pass. Inherited by split.
void ax_comm_set_lazy(ax_comm *c, bool lazy);

// Names of the backends in this build, NULL-terminated, and why one is missing (NULL: it is not).
const char *const *ax_comm_names(void);
const char *ax_comm_missing(const char *name);
// The library behind the mpi backend, "Open MPI v4.1.4"; "" in a build without. Opens nothing.
void ax_comm_mpi_library(char *text, size_t size);

// How this process was started: read from the launcher's variables (Open MPI, MPICH/PMI, PMIx,
// Slurm) without opening anything. tasks = 1 and launcher NULL: started plainly; tasks = 0: the
// launcher does not say how many.
typedef struct ax_launch {
    const char *launcher; // "Open MPI mpirun", "MPICH mpirun", "srun", "PMIx"; NULL
    int rank, tasks;
    int local_tasks; // on this machine; 0: not said
} ax_launch;
ax_launch ax_comm_launch(void);

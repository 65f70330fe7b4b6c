#include "comm/mpi_node.h"

#include "base/log.h"
#include "base/text.h"

#include <mpi.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum {
    MIB = 1 << 20,
    WINDOW_BYTES = 16 * MIB, // of a rank, at most
    LANES = 16,
    RETURN_MS = 1000, // that a lane waits for its last readers
};

struct ax_mpi_node {
    MPI_Comm comm; // ranks of this machine
    MPI_Win window;
    int ranks;
    unsigned char **base; // by rank here
    size_t lane_bytes;    // 0: there is no window
    unsigned taken;       // lanes of this rank
};

// ---- who is here ----

// Tests make several machines out of one: each of so many ranks. 0: they are what they are.
static int pretended_ranks(void)
{
    const char *text = getenv("AXONN_TEST_NODE_RANKS");
    int64_t n;
    return text && ax_parse_int(text, &n) && n > 0 && n < INT32_MAX ? (int)n : 0;
}

static ax_status find_ranks(MPI_Comm world, ax_mpi_node *node)
{
    int me, size, pretended = pretended_ranks();
    MPI_Comm_rank(world, &me);
    MPI_Comm_size(world, &size);
    MPI_Comm here;
    AX_CHECK(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &here) ==
                 MPI_SUCCESS,
             AX_ECOMM, "MPI_Comm_split_type failed");
    node->comm = here;
    if (pretended) {
        AX_CHECK(MPI_Comm_split(here, me / pretended, me, &node->comm) == MPI_SUCCESS, AX_ECOMM,
                 "MPI_Comm_split failed");
        MPI_Comm_free(&here);
    }
    MPI_Comm_set_errhandler(node->comm, MPI_ERRORS_RETURN);
    MPI_Comm_size(node->comm, &node->ranks);
    return AX_OK;
}

// ---- the window ----

// Bytes free where MPI libraries keep shared memory. A page that does not fit there kills the rank
// that touches it, long after the window was made.
static double shared_bytes_free(void)
{
    const char *pretended = getenv("AXONN_TEST_SHM_BYTES");
    int64_t n;
    struct statvfs s;
    if (pretended && ax_parse_int(pretended, &n))
        return (double)n;
    return statvfs("/dev/shm", &s) == 0 ? (double)s.f_bavail * (double)s.f_frsize : 0;
}

// Bytes of a rank's window, the same on all ranks here; half of what is free is left to others.
static size_t choose_bytes(ax_mpi_node *node)
{
    double room = shared_bytes_free(), least = room;
    int rank;
    MPI_Comm_rank(node->comm, &rank);
    if (MPI_Allreduce(&room, &least, 1, MPI_DOUBLE, MPI_MIN, node->comm) != MPI_SUCCESS)
        return 0;
    double each = least / 2 / node->ranks;
    size_t bytes = each >= WINDOW_BYTES ? WINDOW_BYTES : (size_t)each / MIB * MIB;
    if (bytes == 0 && rank == 0)
        ax_log(AX_LOG_WARN, NULL,
               "/dev/shm has %.1f MiB free, %d ranks here want 2 each: collectives go through "
               "messages of MPI, which is slower (docker run --shm-size=1g makes it larger)",
               least / MIB, node->ranks);
    return bytes;
}

static bool agree(const ax_mpi_node *node, bool mine)
{
    int good = mine, all = 0;
    return MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, node->comm) == MPI_SUCCESS && all;
}

// Whether every rank's part of the window is mapped here.
static bool map_window(ax_mpi_node *node)
{
    for (int p = 0; p < node->ranks; p++) {
        MPI_Aint size;
        int unit;
        void *at;
        if (MPI_Win_shared_query(node->window, p, &size, &unit, &at) != MPI_SUCCESS)
            return false;
        node->base[p] = at;
    }
    return MPI_Win_lock_all(MPI_MODE_NOCHECK, node->window) == MPI_SUCCESS;
}

static void open_window(ax_mpi_node *node)
{
    size_t bytes = choose_bytes(node);
    MPI_Info info;
    void *mine;
    node->lane_bytes = 0;
    if (bytes == 0)
        return;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true"); // each part on pages of its own
    int code = MPI_Win_allocate_shared((MPI_Aint)bytes, 1, info, node->comm, &mine, &node->window);
    MPI_Info_free(&info);
    if (!agree(node, code == MPI_SUCCESS)) {
        int rank;
        MPI_Comm_rank(node->comm, &rank);
        if (rank == 0)
            ax_log(AX_LOG_WARN, NULL,
                   "MPI gave no shared memory for %d ranks here: collectives go through messages, "
                   "which is slower",
                   node->ranks);
        return;
    }
    if (agree(node, map_window(node)))
        node->lane_bytes = bytes / LANES;
}

static ax_status open_parts(MPI_Comm world, ax_mpi_node *node)
{
    if (node)
        AX_TRY(find_ranks(world, node));
    if (node)
        node->base = calloc((size_t)node->ranks, sizeof *node->base);
    AX_CHECK(node && node->base, AX_ENOMEM, "no memory for a list of ranks");
    return AX_OK;
}

ax_status ax_mpi_node_open(const void *world, ax_mpi_node **out)
{
    MPI_Comm all_ranks = *(const MPI_Comm *)world;
    ax_mpi_node *node = malloc(sizeof *node);
    if (node)
        *node = (ax_mpi_node){.comm = MPI_COMM_NULL, .window = MPI_WIN_NULL};
    ax_status st = open_parts(all_ranks, node);
    int good = st == AX_OK, all = 0;
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, all_ranks);
    if (!all) {
        ax_mpi_node_close(node, false);
        return st != AX_OK ? st : AX_ECOMM;
    }
    if (node->ranks > 1)
        open_window(node);
    *out = node;
    return AX_OK;
}

void ax_mpi_node_close(ax_mpi_node *node, bool farewell)
{
    if (!node)
        return;
    if (farewell && node->window != MPI_WIN_NULL) {
        if (node->lane_bytes)
            MPI_Win_unlock_all(node->window);
        MPI_Win_free(&node->window);
    }
    if (farewell && node->comm != MPI_COMM_NULL)
        MPI_Comm_free(&node->comm);
    free(node->base);
    free(node);
}

int ax_mpi_node_ranks(const ax_mpi_node *node)
{
    return node->ranks;
}

// ---- lanes ----

// Where a rank of a communicator keeps its part of it.
typedef struct place {
    int rank_here, lane; // lane -1: it has none
} place;

static int take_lane(ax_mpi_node *node)
{
    for (int i = 0; i < LANES; i++)
        if (!(node->taken & 1u << i)) {
            node->taken |= 1u << i;
            return i;
        }
    return -1;
}

static ax_lane *lane_at(const ax_mpi_node *node, place p)
{
    return (ax_lane *)(void *)(node->base[p.rank_here] + (size_t)p.lane * node->lane_bytes);
}

// Whether all ranks of `comm` are here.
static bool are_here(const ax_mpi_node *node, MPI_Comm comm)
{
    int size, together;
    MPI_Group members, local, both;
    MPI_Comm_group(comm, &members);
    MPI_Comm_group(node->comm, &local);
    MPI_Group_intersection(members, local, &both);
    MPI_Group_size(members, &size);
    MPI_Group_size(both, &together);
    MPI_Group_free(&members);
    MPI_Group_free(&local);
    MPI_Group_free(&both);
    return size == together;
}

static void window_free(ax_window *w)
{
    free(w->lane);
    free(w->from);
    *w = (ax_window){0};
}

// A lane of this rank, made ready for its peers. lane -1 where there is none.
static place own_place(ax_mpi_node *node, MPI_Comm comm)
{
    place own = {.lane = -1};
    MPI_Comm_rank(node->comm, &own.rank_here);
    if (ax_lane_slot(node->lane_bytes) > 0 && are_here(node, comm))
        own.lane = take_lane(node);
    if (own.lane >= 0)
        ax_lane_init(lane_at(node, own));
    return own;
}

ax_status ax_mpi_node_window(ax_mpi_node *node, const void *of, int spins, ax_window *w)
{
    MPI_Comm comm = *(const MPI_Comm *)of;
    int ranks, me;
    MPI_Comm_size(comm, &ranks);
    MPI_Comm_rank(comm, &me);
    place own = own_place(node, comm), *all = malloc((size_t)ranks * sizeof *all);
    *w = (ax_window){.ranks = ranks,
                     .me = me,
                     .spins = spins,
                     .slot_bytes = ax_lane_slot(node->lane_bytes),
                     .lane = calloc((size_t)ranks, sizeof(ax_lane *)),
                     .from = calloc((size_t)ranks, sizeof *w->from),
                     .own_lane = own.lane};
    ax_status st = all && w->lane && w->from ? AX_OK : AX_ENOMEM;
    // All that can fail has: from here on every rank does the same.
    int code = st == AX_OK ? MPI_Allgather(&own, 2, MPI_INT, all, 2, MPI_INT, comm) : MPI_SUCCESS;
    bool complete = st == AX_OK && code == MPI_SUCCESS;
    for (int p = 0; p < ranks && complete; p++) {
        complete = all[p].lane >= 0;
        if (complete)
            w->lane[p] = lane_at(node, all[p]);
    }
    free(all);
    if (!complete) {
        if (own.lane >= 0)
            node->taken &= ~(1u << own.lane);
        window_free(w);
    }
    AX_CHECK(st == AX_OK, AX_ENOMEM, "no memory for a window of %d ranks", ranks);
    AX_CHECK(code == MPI_SUCCESS, AX_ECOMM, "MPI_Allgather of the places in the window failed");
    return AX_OK;
}

void ax_mpi_node_return(ax_mpi_node *node, ax_window *w, bool farewell)
{
    if (w->ranks == 0)
        return;
    bool idle = false;
    for (int ms = 0; farewell && !(idle = ax_window_is_idle(w)) && ms < RETURN_MS; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (idle) // else it stays taken
        node->taken &= ~(1u << w->own_lane);
    window_free(w);
}

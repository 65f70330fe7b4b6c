// Runs one function on every rank of a job: as threads of this process, or as this process's rank
// under mpirun or srun.
//
//     AX_TRY(ax_ranks_run(4, train_rank, &ctx));       // four local ranks
//     AX_TRY(ax_ranks_run_mpi(train_rank, &ctx));      // the launcher's
//
// A rank that fails on its own aborts the job: its peers return AX_ECOMM from whatever they wait
// in. A rank's main calls ax_comm_end before it frees what peers may read. Returns the status of
// the first rank that failed on its own account, else AX_OK.
#pragma once
#include "comm/comm.h"

typedef ax_status ax_rank_main(void *ctx, ax_comm *world);

ax_status ax_ranks_run(int ranks, ax_rank_main *main, void *ctx);
ax_status ax_ranks_run_mpi(ax_rank_main *main, void *ctx);

// How many ranks of the job may run on the same cores as this one (threads of its process,
// processes of its node with the same set), and which of them this is. Collective.
ax_status ax_ranks_sharing_cores(ax_comm *world, int *ranks, int *place);

// Which backends this build has, and how the process was started.
#include "comm/comm.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#if AX_HAVE_MPI
static const char *const names[] = {"local", "mpi", "measure", NULL};
#else
static const char *const names[] = {"local", "measure", NULL};

ax_status ax_comm_mpi_open(ax_comm **world)
{
    (void)world;
    AX_FAIL(AX_EUNSUPPORTED, "this build has no MPI: install libopenmpi-dev or libmpich-dev and "
                             "build with -DAXONN_MPI=ON, or use local ranks");
}

void ax_comm_mpi_library(char *text, size_t size)
{
    if (size)
        text[0] = '\0';
}
#endif

const char *const *ax_comm_names(void)
{
    return names;
}

const char *ax_comm_missing(const char *name)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return NULL;
    return strcmp(name, "mpi") == 0 ? "built without MPI" : "no communicator has this name";
}

// ---- launchers ----

// A whole number >= 0 from the environment; -1: not there.
static long variable(const char *name)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return -1;
    long value = strtol(text, &end, 10);
    return *end || value < 0 ? -1 : value;
}

// A step of srun. The shell of sbatch or salloc has a rank and a step number too, but a reserved
// one.
static bool in_slurm_step(ax_launch *out)
{
    enum { FIRST_RESERVED_BELOW_2_32 = 16 };
    long step = variable("SLURM_STEP_ID"), rank = variable("SLURM_PROCID");
    long tasks = variable("SLURM_STEP_NUM_TASKS");
    if (tasks < 1)
        tasks = variable("SLURM_NTASKS");
    if (step < 0 || step >= (1L << 32) - FIRST_RESERVED_BELOW_2_32 || rank < 0 || tasks < 1)
        return false;
    *out = (ax_launch){.launcher = "srun", .rank = (int)rank, .tasks = (int)tasks};
    return true;
}

static ax_launch find_launch(void)
{
    long rank = variable("OMPI_COMM_WORLD_RANK"), tasks = variable("OMPI_COMM_WORLD_SIZE");
    if (rank >= 0 && tasks >= 1)
        return (ax_launch){.launcher = "Open MPI mpirun", .rank = (int)rank, .tasks = (int)tasks};
    ax_launch slurm = {0};
    bool step = in_slurm_step(&slurm);
    rank = variable("PMI_RANK");
    tasks = variable("PMI_SIZE");
    // MPICH's mpirun starts its proxies with srun inside a Slurm job: then only PMI numbers ranks.
    bool same = step && slurm.rank == rank && slurm.tasks == tasks;
    if (rank >= 0 && tasks >= 1 && !same)
        return (ax_launch){.launcher = "MPICH mpirun", .rank = (int)rank, .tasks = (int)tasks};
    if (step)
        return slurm;
    rank = variable("PMIX_RANK");
    if (rank >= 0)
        return (ax_launch){.launcher = "PMIx", .rank = (int)rank};
    return (ax_launch){.tasks = 1};
}

// "4(x2),3": tasks on each node in order; those of the first node stand for all.
static int first_of_list(const char *name)
{
    const char *text = getenv(name);
    int tasks = text ? atoi(text) : 0;
    return tasks > 0 ? tasks : 0;
}

ax_launch ax_comm_launch(void)
{
    ax_launch l = find_launch();
    static const char *const names_of_count[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                                 "SLURM_STEP_TASKS_PER_NODE",
                                                 "SLURM_TASKS_PER_NODE"};
    for (size_t i = 0; l.launcher && i < sizeof names_of_count / sizeof names_of_count[0]; i++)
        if (!l.local_tasks)
            l.local_tasks = first_of_list(names_of_count[i]);
    if (l.local_tasks > l.tasks && l.tasks > 0)
        l.local_tasks = l.tasks;
    return l;
}

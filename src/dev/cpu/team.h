// The number of the calling thread in its OpenMP team; 0 in builds without OpenMP.
#pragma once

#ifdef _OPENMP
#include <omp.h>
static inline int team_index(void)
{
    return omp_get_thread_num();
}
#else
static inline int team_index(void)
{
    return 0;
}
#endif

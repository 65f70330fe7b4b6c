#include "train/leave.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

double ax_leave_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Of the allocation, as the scheduler says it; 0: it does not.
static ax_status scheduled_end(double *out)
{
    const char *text = getenv("SLURM_JOB_END_TIME");
    *out = 0;
    AX_CHECK(!text || !*text || (ax_parse_real(text, out) && *out > 0), AX_EUSAGE,
             "SLURM_JOB_END_TIME=%s is no time", text);
    return AX_OK;
}

ax_status ax_leave_init(const ax_train_options *o, ax_leave_signal *asked, double started,
                        ax_leave *out)
{
    double end = o->wall_time > 0 ? started + o->wall_time : 0, scheduled = 0;
    if (o->stop_before > 0)
        AX_TRY(scheduled_end(&scheduled));
    if (scheduled > 0 && (end == 0 || scheduled < end))
        end = scheduled;
    AX_CHECK(end > 0 || o->stop_before == 0, AX_EUSAGE,
             "train.stop_before=%g: when the job ends is not known: Slurm tells it in "
             "SLURM_JOB_END_TIME; elsewhere give train.wall_time, in seconds",
             o->stop_before);
    bool timed = end > 0;
    AX_CHECK(!timed || *o->out, AX_EUSAGE,
             "train.%s without train.out: nothing would be saved to go on from",
             o->stop_before > 0 ? "stop_before" : "wall_time");
    double deadline = timed ? end - o->stop_before : 0;
    AX_CHECK(!timed || deadline > started, AX_EUSAGE,
             "train.stop_before=%g: the job ends %.0f s after the start of this run, so that there "
             "is no time for a step; lower it, or ask for more time",
             o->stop_before, end - started);
    *out = (ax_leave){.asked = asked, .deadline = deadline};
    return AX_OK;
}

ax_status ax_leave_now(const ax_leave *l, double step_s)
{
    int number = l->asked ? l->asked() : 0;
    if (number)
        return number == SIGINT ? AX_EINTERRUPTED : AX_ESTOPPED;
    return l->deadline > 0 && ax_leave_clock() + step_s >= l->deadline ? AX_ESTOPPED : AX_OK;
}

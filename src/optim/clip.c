// The global gradient norm, and whether every gradient is finite: one reduction, decided alike
// everywhere.
#include "optim/optim.h"

#include <math.h>

ax_status ax_optim_norm(ax_optim *o, double *norm, int64_t *nonfinite)
{
    double sums[2] = {0, 0}; // squares; elements that are not finite
    for (int i = 0; i < o->params->count; i++) {
        const ax_param *p = &o->params->list[i];
        if (p->owner)
            AX_TRY(ax_square_sum(o->dev, p->part_grad, sums));
    }
    AX_TRY(ax_device_sync(o->dev));
    AX_TRY(ax_comm_sum(o->grid->world, sums, 2));
    *norm = sqrt(sums[0]);
    *nonfinite = (int64_t)sums[1];
    return AX_OK;
}

double ax_clip_factor(double clip, double norm)
{
    return clip > 0 && norm > clip ? clip / (norm + 1e-6) : 1.0;
}

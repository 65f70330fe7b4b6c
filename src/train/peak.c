#include "train/peak.h"

#include "dev/kern.h"
#include "train/metrics.h"

enum { SIZE = 1024 };

static ax_status product(ax_device *dev, ax_tensor a, ax_tensor b, ax_tensor c)
{
    return ax_gemm(dev, &(ax_gemm_args){.tb = AX_T, .a = a, .b = b, .c = c});
}

ax_status ax_peak_rehearse(ax_device *dev, ax_dtype act)
{
    ax_arena a = ax_arena_measure("peak");
    ax_tensor t[3];
    for (int i = 0; i < 3; i++)
        AX_TRY(ax_tensor_alloc(&a, act, SIZE, SIZE, &t[i]));
    return product(dev, t[0], t[1], t[2]);
}

static ax_status best_rate(ax_device *dev, ax_tensor a, ax_tensor b, ax_tensor c, double *rate)
{
    const double budget_s = 0.3, flops = 2.0 * SIZE * SIZE * SIZE;
    double counted = (double)dev->matmul_flops;
    double started = ax_metrics_clock(), best = 0;
    AX_TRY(ax_fill(dev, a, 0.5));
    AX_TRY(ax_fill(dev, b, 0.25));
    for (int i = 0; i < 3 || ax_metrics_clock() - started < budget_s; i++) {
        double begun = ax_metrics_clock();
        AX_TRY(product(dev, a, b, c));
        AX_TRY(ax_device_sync(dev));
        double r = flops / (ax_metrics_clock() - begun);
        best = r > best ? r : best;
    }
    dev->matmul_flops = counted;
    *rate = best;
    return AX_OK;
}

ax_status ax_peak_measure(ax_device *dev, ax_dtype act, ax_comm *world, double *flops_per_s)
{
    size_t bytes = SIZE * SIZE * ax_dtype_size(act);
    void *mem;
    double rate = 0;
    AX_TRY(ax_comm_agree(world, ax_device_alloc(dev, 3 * bytes, &mem)));
    ax_tensor a = ax_tensor_over(mem, act, SIZE, SIZE);
    ax_tensor b = ax_tensor_over((char *)mem + bytes, act, SIZE, SIZE);
    ax_tensor c = ax_tensor_over((char *)mem + 2 * bytes, act, SIZE, SIZE);
    ax_status st = best_rate(dev, a, b, c, &rate);
    ax_device_free(dev, mem, 3 * bytes);
    AX_TRY(ax_comm_agree(world, st));
    AX_TRY(ax_comm_sum(world, &rate, 1));
    *flops_per_s = rate;
    return AX_OK;
}

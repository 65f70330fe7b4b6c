#include "optim/schedule.h"

#include <math.h>

static double towards_min(const ax_schedule *s, double share)
{
    return s->lr * (1 - share) + s->min_lr * share; // exact at both ends
}

static double wsd(const ax_schedule *s, int64_t step)
{
    int64_t tail = llround(s->decay * (double)s->steps), most = s->steps - s->warmup;
    tail = tail < most ? tail : most; // it starts from the peak, whatever its share is
    int64_t into = step - (s->steps - tail);
    return tail > 0 && into > 0 ? towards_min(s, (double)into / (double)tail) : s->lr;
}

double ax_schedule_lr(const ax_schedule *s, int64_t step)
{
    if (step < s->warmup)
        return s->lr * (double)step / (double)s->warmup;
    if (step == s->warmup || s->steps <= s->warmup)
        return s->lr;
    double t = (double)(step - s->warmup) / (double)(s->steps - s->warmup);
    t = t > 1 ? 1 : t;
    switch (s->kind) {
    case AX_COSINE:
        return towards_min(s, 0.5 * (1 - cos(acos(-1.0) * t)));
    case AX_LINEAR:
        return towards_min(s, t);
    case AX_WSD:
        return wsd(s, step);
    case AX_CONSTANT:
        break;
    }
    return s->lr;
}

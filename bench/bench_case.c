#include "bench_case.h"

#include "base/rng.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

bool bench_number(const char *argument, const char *key, int64_t *to, bool *ok)
{
    size_t n = strlen(key);
    if (strncmp(argument, key, n) != 0)
        return false;
    *ok = ax_parse_int(argument + n, to) && *to > 0 && *to <= 1 << 20;
    return true;
}

bool bench_case_set(bench_case *c, const char *argument, bool *ok)
{
    *ok = true;
    if (strncmp(argument, "preset=", 7) == 0) {
        c->preset = argument + 7;
        return true;
    }
    if (strncmp(argument, "precision=", 10) == 0) {
        *ok = strcmp(argument + 10, "fp32") == 0 || strcmp(argument + 10, "bf16") == 0;
        c->act = argument[10] == 'b' ? AX_BF16 : AX_F32;
        return true;
    }
    return bench_number(argument, "batch=", &c->batch, ok) ||
           bench_number(argument, "seq=", &c->seq, ok) ||
           bench_number(argument, "steps=", &c->steps, ok);
}

ax_status bench_case_open(bench_case *c)
{
    static const ax_arch llama = {.kind = AX_LLAMA,
                                  .layers = 12,
                                  .hidden = 768,
                                  .heads = 12,
                                  .kv_heads = 4,
                                  .ffn = 2048,
                                  .vocab = 32000,
                                  .norm_eps = 1e-5,
                                  .rope_theta = 1e4,
                                  .init_std = 0.02};
    if (strcmp(c->preset, "llama-124m") == 0)
        c->arch = llama;
    else
        AX_TRY(ax_arch_preset(c->preset, &c->arch));
    c->arch.seq = c->seq;
    if (c->arch.vocab == 0) // as its tokenizer would say
        c->arch.vocab = 257;
    return ax_arch_check(&c->arch);
}

ax_trainer_config bench_case_trainer(const bench_case *c)
{
    return (ax_trainer_config){
        .arch = &c->arch,
        .grid = {1, 1, 1, 1, "xyzd"},
        .batch = c->batch,
        .device = "cpu",
        .act = c->act,
        .overlap = AX_OVERLAP_ALL,
        .optim = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1}};
}

void bench_case_load(const bench_case *c, ax_trainer *t, int64_t step)
{
    for (int64_t i = 0; i < ax_trainer_rows(t) * c->seq; i++) {
        int64_t row = step * c->batch + ax_trainer_row(t, i / c->seq);
        uint64_t bits = ax_rng_bits(1, 2, (uint64_t)(row * c->seq + i % c->seq));
        t->ids[i] = (int32_t)(bits % (uint64_t)c->arch.vocab);
        t->targets[i] = (int32_t)((bits >> 32) % (uint64_t)c->arch.vocab);
        t->positions[i] = (int32_t)(i % c->seq);
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

bench_spread bench_spread_of(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return (bench_spread){values[0], values[count / 2], values[count - 1]};
}

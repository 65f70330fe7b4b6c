#include "base/rng.h"

#include <math.h>

typedef struct block {
    uint32_t v[4];
} block;

static block philox(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    block c = {
        {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c.v[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c.v[2];
        c = (block){{(uint32_t)(p1 >> 32) ^ c.v[1] ^ k0, (uint32_t)p1,
                     (uint32_t)(p0 >> 32) ^ c.v[3] ^ k1, (uint32_t)p0}};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

uint64_t ax_rng_stream(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

uint64_t ax_rng_bits(uint64_t seed, uint64_t stream, uint64_t index)
{
    block c = philox(seed, stream, index);
    return (uint64_t)c.v[1] << 32 | c.v[0];
}

static double unit(uint32_t low, uint32_t high)
{
    uint64_t bits = (uint64_t)high << 32 | low;
    return (double)(bits >> 11) * 0x1p-53;
}

double ax_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    block c = philox(seed, stream, index);
    return unit(c.v[0], c.v[1]);
}

double ax_rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    block c = philox(seed, stream, index);
    double u = 1.0 - unit(c.v[0], c.v[1]); // (0, 1]: the logarithm stays finite
    double a = 6.283185307179586476925 * unit(c.v[2], c.v[3]);
    return sqrt(-2.0 * log(u)) * cos(a);
}

static uint64_t feistel(uint64_t seed, uint64_t stream, int half_bits, uint64_t x)
{
    uint64_t mask = (1ull << half_bits) - 1;
    uint64_t left = x >> half_bits, right = x & mask;
    for (uint64_t round = 0; round < 4; round++) {
        uint64_t f = ax_rng_bits(seed, stream, right | round << 60) & mask;
        uint64_t next = left ^ f;
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

int64_t ax_rng_permute(uint64_t seed, uint64_t stream, int64_t n, int64_t i)
{
    int half_bits = 1;
    while ((1ll << (2 * half_bits)) < n)
        half_bits++;
    uint64_t x = (uint64_t)i;
    do
        x = feistel(seed, stream, half_bits, x);
    while (x >= (uint64_t)n);
    return (int64_t)x;
}

#include "ckpt/checksum.h"

#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

// With the size known to the compiler a hash is a few instructions.
uint64_t ax_checksum_elements(const void *bytes, size_t size, int64_t count, int64_t first)
{
    const char *from = bytes;
    uint64_t sum = 0, seed = (uint64_t)first;
    AX_ASSERT(size == 4 || size == 8);
    if (size == 4)
        for (int64_t i = 0; i < count; i++)
            sum += XXH3_64bits_withSeed(from + i * 4, 4, seed + (uint64_t)i);
    else
        for (int64_t i = 0; i < count; i++)
            sum += XXH3_64bits_withSeed(from + i * 8, 8, seed + (uint64_t)i);
    return sum;
}

uint64_t ax_checksum_text(const char *text, size_t length)
{
    return XXH3_64bits_withSeed(text, length, length);
}

// Sums are made in double, exact to 2^53: 16 bits at a time leave room for 2^37 ranks.
enum { LIMBS = 4, LIMB_BITS = 16, BATCH = 64 };

ax_status ax_checksum_sum(ax_comm *c, uint64_t *sums, int count)
{
    for (int at = 0; at < count; at += BATCH) {
        double limb[BATCH * LIMBS];
        int n = count - at < BATCH ? count - at : BATCH;
        for (int i = 0; i < n * LIMBS; i++)
            limb[i] = (double)(sums[at + i / LIMBS] >> LIMB_BITS * (i % LIMBS) & 0xffff);
        AX_TRY(ax_comm_sum(c, limb, n * LIMBS));
        for (int i = 0; i < n; i++) {
            sums[at + i] = 0;
            for (int k = 0; k < LIMBS; k++)
                sums[at + i] += (uint64_t)limb[i * LIMBS + k] << LIMB_BITS * k;
        }
    }
    return AX_OK;
}

void ax_checksum_print(uint64_t sum, char text[AX_CHECKSUM_DIGITS + 1])
{
    snprintf(text, AX_CHECKSUM_DIGITS + 1, "%016llx", (unsigned long long)sum);
}

bool ax_checksum_parse(const char *text, uint64_t *out)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t sum = 0;
    if (strlen(text) != AX_CHECKSUM_DIGITS)
        return false;
    for (int i = 0; i < AX_CHECKSUM_DIGITS; i++) {
        const char *digit = strchr(digits, text[i]);
        if (!digit)
            return false;
        sum = sum << 4 | (uint64_t)(digit - digits);
    }
    *out = sum;
    return true;
}

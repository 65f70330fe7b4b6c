// libFuzzer's hook for inputs whose parts are JSON or text, with a zero byte between them.
#include "json_mutator.h"

#include <string.h>

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t first = zero ? (size_t)(zero - data) : size, rest = size - first;
    if (!zero || seed % 8 == 0)
        return seed % 16 == 0 ? LLVMFuzzerMutate(data, size, room)
                              : json_mutate(data, size, room, seed);
    if (seed % 4 == 1 && rest > 1) // what stands behind
        return first + 1 + json_mutate(zero + 1, rest - 1, room - first - 1, seed / 4);
    // The first part, made in a place of its own: the rest moves.
    static uint8_t part[1 << 20];
    size_t space = room - rest;
    if (space > sizeof part || first > space)
        return LLVMFuzzerMutate(data, size, room);
    memcpy(part, data, first);
    size_t length = json_mutate(part, first, space, seed / 4);
    memmove(data + length, data + first, rest);
    memcpy(data, part, length);
    return length + rest;
}

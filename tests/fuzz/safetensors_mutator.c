// libFuzzer's hook for safetensors files: changes the header as JSON, and then mostly mends the
// length before it.
#include "json_mutator.h"

#include <string.h>

enum { PREFIX = 8 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

static uint64_t read_length(const uint8_t *data)
{
    uint64_t n = 0;
    for (int i = 0; i < PREFIX; i++)
        n |= (uint64_t)data[i] << 8 * i;
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    static uint8_t header[1 << 20];
    uint64_t n = size >= PREFIX ? read_length(data) : 0;
    if (n == 0 || n > size - PREFIX || room > sizeof header || seed % 16 == 0)
        return LLVMFuzzerMutate(data, size, room);
    size_t rest = size - PREFIX - n;
    if (seed % 8 == 1) { // one byte more or less behind the header
        size_t length = seed % 3 == 0 && rest > 0 ? size - 1 : size < room ? size + 1 : size;
        if (length > size)
            data[size] = 0;
        return length;
    }
    memcpy(header, data + PREFIX, n);
    size_t length = json_mutate(header, n, room - PREFIX - rest, seed / 8);
    memmove(data + PREFIX + length, data + PREFIX + n, rest);
    memcpy(data + PREFIX, header, length);
    for (int i = 0; i < PREFIX; i++)
        data[i] = (uint8_t)((uint64_t)length >> 8 * i);
    return PREFIX + length + rest;
}

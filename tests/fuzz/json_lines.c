// libFuzzer's hook for JSON lines behind one letter: changes one line as JSON, or the lines.
#include "json_mutator.h"

#include <string.h>

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    static uint8_t line[1 << 20];
    if (size < 2 || data[0] != 'l' || seed % 3 == 0 || room > sizeof line)
        return LLVMFuzzerMutate(data, size, room);
    size_t from = 1 + (seed / 3) % (size - 1);
    while (from > 1 && data[from - 1] != '\n')
        from--;
    uint8_t *newline = memchr(data + from, '\n', size - from);
    size_t length = newline ? (size_t)(newline - data) - from : size - from;
    size_t rest = size - from - length;
    memcpy(line, data + from, length);
    size_t fresh = json_mutate(line, length, room - from - rest, seed / 8);
    memmove(data + from + fresh, data + from + length, rest);
    memcpy(data + from, line, fresh);
    return from + fresh + rest;
}

// libFuzzer's hook for JSON behind one letter.
#include "json_mutator.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    if (size < 2 || seed % 8 == 0)
        return LLVMFuzzerMutate(data, size, room);
    return 1 + json_mutate(data + 1, size - 1, room - 1, seed / 8);
}

// libFuzzer's hook for token files: now and then a Megatron index of random sequences and documents
// that agrees with itself, of which one byte may be changed; else bytes.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

enum { HEAD = 3 + 34, SEQUENCES_MOST = 40, DOCUMENTS_MOST = 20 };

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 12) % below;
}

static size_t put(uint8_t *at, uint64_t value, size_t bytes) // little-endian
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
    return bytes;
}

static size_t make_index(uint8_t *data, unsigned *seed)
{
    static const uint8_t code[] = {1, 2, 3, 4, 5, 8}, width[] = {1, 1, 2, 4, 8, 2};
    unsigned kind = draw(seed, sizeof code), longest = 1 + draw(seed, 30);
    uint64_t sequences = draw(seed, SEQUENCES_MOST), documents = draw(seed, DOCUMENTS_MOST);
    uint64_t length[SEQUENCES_MOST], begin = 0, border = 0;
    size_t n = 3;
    memcpy(data + n, "MMIDIDX\0\0", 9);
    n += 9;
    n += put(data + n, 1, 8);
    data[n++] = code[kind];
    n += put(data + n, sequences, 8);
    n += put(data + n, documents + 1, 8);
    for (uint64_t i = 0; i < sequences; i++)
        n += put(data + n, length[i] = draw(seed, longest), 4);
    for (uint64_t i = 0; i < sequences; begin += length[i++] * width[kind])
        n += put(data + n, begin, 8);
    for (uint64_t i = 0; i < documents; i++) { // empty ones are likely
        n += put(data + n, border, 8);
        border += draw(seed, 2) ? 0 : draw(seed, (unsigned)(sequences - border) + 1);
    }
    n += put(data + n, sequences, 8);
    data[0] = 'm';
    put(data + 1, begin, 2);
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    if (seed % 4 || room < HEAD + 12 * SEQUENCES_MOST + 8 * (DOCUMENTS_MOST + 1))
        return LLVMFuzzerMutate(data, size, room);
    size_t n = make_index(data, &seed);
    if (draw(&seed, 3) == 0)
        data[draw(&seed, (unsigned)n)] ^= (uint8_t)(1u << draw(&seed, 8));
    return n;
}

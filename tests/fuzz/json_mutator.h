// Changes JSON as a tree, so that most of what comes out still reaches the reader of its content.
#pragma once
#include <stddef.h>
#include <stdint.h>

// libFuzzer's own, for bytes.
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

// Changes data[0..size) in place, up to `room` bytes; returns the new size. What is no JSON, or no
// longer fits, is changed as bytes.
size_t json_mutate(uint8_t *data, size_t size, size_t room, unsigned seed);

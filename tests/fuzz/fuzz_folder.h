// A folder in memory, for parsers that read files by name.
//
//     fuzz_file("config.json", data, size);             // replaces what was there
//     ax_hf_read_config(fuzz_folder(), &config);
//
// Made on first use, removed when the program ends.
#pragma once
#include <stddef.h>
#include <stdint.h>

const char *fuzz_folder(void);
// The path of the file, until the next call. size may be 0.
const char *fuzz_file(const char *name, const uint8_t *bytes, size_t size);
void fuzz_no_file(const char *name);

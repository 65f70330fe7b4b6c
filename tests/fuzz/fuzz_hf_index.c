// Any bytes as a model.safetensors.index.json, beside two files of two tensors each.
#include "base/log.h"
#include "ckpt/hf.h"
#include "ckpt/hf_files.h"
#include "fuzz_folder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_tensors(const char *name, const char *header, size_t bytes)
{
    uint8_t file[256] = {0};
    size_t n = strlen(header);
    file[0] = (uint8_t)n;
    memcpy(file + 8, header, n);
    fuzz_file(name, file, 8 + n + bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ax_hf_files f;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_ERROR});
    put_tensors("a",
                "{\"v\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                "\"w\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[1,3]}}",
                3);
    put_tensors("b", "{\"x\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4);
    put_tensors("c", "{}", 0);
    fuzz_file("model.safetensors.index.json", data, size);
    if (ax_hf_files_open(fuzz_folder(), &f) != AX_OK)
        return 0;
    ax_st_dtype dtype;
    if (ax_hf_read_dtype(fuzz_folder(), &dtype) == AX_OK && dtype != AX_ST_F32 && f.count > 2)
        abort(); // a U8 or the F32 is among three
    for (int i = 0; i < f.count; i++)
        if (ax_hf_files_find(&f, f.list[i].t->name) != &f.list[i])
            abort();
    ax_hf_files_close(&f);
    return 0;
}

// manifest.json: the file that makes a directory a checkpoint. Written last, read first.
//
//     { "format": 1, "step": 100, "updates": 99, "tokens": 204800, "dtype": "f32",
//       "files": [ { "name": "model.safetensors", "bytes": 1024 }, ... ], "config": "..." }
//
// Keys it does not know are passed over; a higher format is refused.
#pragma once
#include "ckpt/ckpt.h"

#define AX_MANIFEST_NAME "manifest.json"
enum { AX_MANIFEST_FORMAT = 1, AX_MANIFEST_FILES = 8 };

typedef struct ax_manifest {
    ax_ckpt_info info; // config is owned after a read
    struct {
        char name[64];
        int64_t bytes;
    } file[AX_MANIFEST_FILES];
    int files;
} ax_manifest;

// Adds a file that lies in `dir`, with the size it has there.
ax_status ax_manifest_add(ax_manifest *m, const char *dir, const char *name);
// Writes dir/manifest.json and brings it to disk.
ax_status ax_manifest_write(const char *dir, const ax_manifest *m);
// Reads it and compares the sizes of the files. AX_EIO, AX_EFORMAT. Release with
// ax_ckpt_info_fini(&out->info).
ax_status ax_manifest_read(const char *dir, ax_manifest *out);
bool ax_manifest_has(const ax_manifest *m, const char *name);

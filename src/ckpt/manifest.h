// manifest.json: the file that makes a directory a checkpoint. Written last, read first.
//
//     { "format": 2, "step": 100, "updates": 99, "tokens": 204800, "dtype": "f32",
//       "files": [ { "name": "model.safetensors", "bytes": 1024, "header": "89abcdef01234567",
//                    "tensors": { "embed.weight": "0123456789abcdef", ... } }, ... ],
//       "state": { ... }, "config": "...",
//       "checksum": "fedcba9876543210"
//     }
//
// header is the checksum of the file's JSON; checksum, the last line but one, that of all bytes
// before this line. Format 1 has neither these nor tensors nor state. Keys that are not known are
// passed over; a higher format is refused.
#pragma once
#include "ckpt/checksum.h"
#include "ckpt/ckpt.h"

#define AX_MANIFEST_NAME "manifest.json"
enum { AX_MANIFEST_FORMAT = 2, AX_MANIFEST_FILES = 8 };

typedef struct ax_manifest_tensor {
    char name[96];
    uint64_t sum;
} ax_manifest_tensor;

typedef struct ax_manifest_file {
    char name[64];
    int64_t bytes;
    uint64_t header;
    ax_manifest_tensor *tensor; // in the order of their names after a read
    int tensors;
} ax_manifest_file;

typedef struct ax_manifest {
    ax_ckpt_info info;
    int64_t format;
    ax_manifest_file file[AX_MANIFEST_FILES];
    int files;
} ax_manifest;

// Writes dir/manifest.json, in the present format, and brings it to disk. Nothing of m is changed.
ax_status ax_manifest_write(const char *dir, const ax_manifest *m);
// AX_EUSAGE unless `state` (NULL is legal) is one JSON object that can be read again.
ax_status ax_manifest_check_state(const char *state);

// Reads it, whether the files are there or not. AX_EIO, AX_EFORMAT; AX_EUNSUPPORTED: a higher
// format. Release with ax_manifest_fini.
ax_status ax_manifest_read(const char *dir, ax_manifest *out);
void ax_manifest_fini(ax_manifest *m); // texts and lists; a zeroed one is legal

// One file, and all: there, and of its size. AX_EIO, AX_EFORMAT.
ax_status ax_manifest_check_size(const ax_manifest_file *f, const char *dir);
ax_status ax_manifest_check_sizes(const ax_manifest *m, const char *dir);
// The header of one against its checksum, where the manifest has any.
ax_status ax_manifest_check_header(const ax_manifest *m, const ax_manifest_file *f,
                                   const char *dir);

const ax_manifest_file *ax_manifest_find(const ax_manifest *m, const char *name); // or NULL
const ax_manifest_tensor *ax_manifest_tensor_find(const ax_manifest_file *f, const char *name);

// The line that ends a manifest, from the comma on; `sum` is of all that stands before it.
#define AX_MANIFEST_SEAL ",\n  \"checksum\": \"%016llx\"\n}\n"
enum { AX_MANIFEST_SEAL_SIZE = 37, AX_MANIFEST_MAX = 16 << 20 };

// The safetensors format: 8 bytes little-endian N, N bytes of JSON, then the tensors' bytes.
//
//     ax_st_tensor list[] = { { .name = "w", .dtype = AX_ST_F32, .dims = 2, .shape = { 4, 8 } } };
//     AX_TRY(ax_safetensors_create("model.safetensors", list, 1));     // header and room
//     ... ax_disk_write(fd, path, bytes, count, list[0].begin + ...)
//
//     ax_safetensors s;
//     AX_TRY(ax_safetensors_open("model.safetensors", &s));            // read and checked
//     const ax_st_tensor *w = ax_safetensors_find(&s, "w");
//     ... ax_disk_read(s.fd, s.path, bytes, count, w->begin + ...)
//     ax_safetensors_close(&s);
//
// Elements are little-endian and row-major. In files of others a tensor may begin at any byte.
#pragma once
#include "base/text.h"

typedef enum ax_st_dtype {
    AX_ST_BOOL,
    AX_ST_U8,
    AX_ST_I8,
    AX_ST_F4,
    AX_ST_F6_E2M3,
    AX_ST_F6_E3M2,
    AX_ST_F8_E5M2,
    AX_ST_F8_E4M3,
    AX_ST_F8_E8M0,
    AX_ST_F8_E4M3FNUZ,
    AX_ST_F8_E5M2FNUZ,
    AX_ST_I16,
    AX_ST_U16,
    AX_ST_F16,
    AX_ST_BF16,
    AX_ST_I32,
    AX_ST_U32,
    AX_ST_F32,
    AX_ST_C64,
    AX_ST_F64,
    AX_ST_I64,
    AX_ST_U64,
    AX_ST_DTYPES,
} ax_st_dtype;

const char *ax_st_dtype_name(ax_st_dtype dtype); // as the format spells it: "F32"

enum { AX_ST_DIMS = 8 };
typedef struct ax_st_tensor {
    const char *name;
    ax_st_dtype dtype;
    int dims; // 0: a scalar
    int64_t shape[AX_ST_DIMS];
    int64_t begin, end; // bytes, from the start of the file
} ax_st_tensor;

bool ax_st_same_shape(const ax_st_tensor *a, const ax_st_tensor *b);
void ax_st_print_shape(const ax_st_tensor *t, char *text, size_t size); // "[4, 8]"

// Writing. The tensors lie in the order of the list. `layout` sets begin and end and appends the
// JSON, padded so that the first tensor begins at a multiple of 8; it is a pure function, so that
// ranks know the places in a file that another one creates; `size` is then that of the file. A
// header that no reader would take is refused: two tensors of one name (AX_EUSAGE), more than
// 100,000,000 bytes (AX_EUNSUPPORTED). `create` makes (or empties) the file, writes the header and
// reserves the room.
ax_status ax_safetensors_layout(ax_st_tensor *list, int count, ax_text *json);
int64_t ax_safetensors_size(const ax_st_tensor *list, int count, const ax_text *json);
ax_status ax_safetensors_create(const char *path, ax_st_tensor *list, int count);

// Reading. Open checks the header by the letter of the format: known dtypes, no name twice, ranges
// that equal shape times size and cover the file without gap or overlap. AX_EFORMAT names file and
// tensor. Fields the format does not know are passed over, as its own reader does. The tensors are
// in the order of their bytes; names live until close.
typedef struct ax_safetensors {
    char *path;
    int fd;
    ax_st_tensor *list;
    int count;
} ax_safetensors;

ax_status ax_safetensors_open(const char *path, ax_safetensors *out);
// The checksum of the JSON (ckpt/checksum.h), of a file whose header may be damaged.
ax_status ax_safetensors_header(const char *path, uint64_t *sum);
void ax_safetensors_close(ax_safetensors *s); // a zeroed one is legal
const ax_st_tensor *ax_safetensors_find(const ax_safetensors *s, const char *name); // or NULL

// What the files of a checkpoint hold: the tensors of a list of parameters, shared by saving and
// loading so that they cannot differ.
#pragma once
#include "ckpt/safetensors.h"
#include "grid/param.h"

typedef enum ax_content_kind {
    AX_CONTENT_MODEL,     // masters: tensor i is parameter i
    AX_CONTENT_OPTIMIZER, // moments: tensors 2i (m) and 2i + 1 (v) are those of parameter i
} ax_content_kind;

enum { AX_CONTENT_FILES = 2 };
const char *ax_content_file(ax_content_kind kind); // "model.safetensors"

typedef struct ax_content {
    ax_st_tensor *list;
    int count, each; // tensors, and tensors of one parameter
    char (*names)[72];
} ax_content;

// Names and true global shapes; dtype is the parameters' acc. Places in a file are not set.
ax_status ax_content_init(ax_content *c, const ax_params *ps, ax_content_kind kind);
void ax_content_fini(ax_content *c); // a zeroed one is legal

// The tensor of the parameter that stands at list[index]; no data where it has none.
ax_tensor ax_content_tensor(const ax_params *ps, ax_content_kind kind, int index);

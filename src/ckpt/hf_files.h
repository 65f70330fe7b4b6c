// The safetensors files of a model directory: one, or several under an index.
//
//     ax_hf_files f;
//     AX_TRY(ax_hf_files_open("llama", &f));
//     const ax_hf_tensor *t = ax_hf_files_find(&f, "model.norm.weight");   // t->t, t->file
//     ax_hf_files_close(&f);
//
// Open checks every header, that the names in the index are plain base names, that index and files
// agree, and that no tensor stands twice. AX_EIO, AX_EFORMAT name the file and the tensor.
#pragma once
#include "ckpt/safetensors.h"

typedef struct ax_hf_tensor {
    const ax_st_tensor *t;
    const ax_safetensors *file;
} ax_hf_tensor;

typedef struct ax_hf_files {
    char *where; // what lists the tensors: the file, or the index
    ax_safetensors *file;
    int files;
    ax_hf_tensor *list; // by name
    int count;
} ax_hf_files;

ax_status ax_hf_files_open(const char *dir, ax_hf_files *out);
void ax_hf_files_close(ax_hf_files *f); // a zeroed one is legal
const ax_hf_tensor *ax_hf_files_find(const ax_hf_files *f, const char *name); // or NULL

// The JSON files of a Hugging Face directory that is being written.
#pragma once
#include "ckpt/hf.h"

// dir/config.json. Keys that `e->arch` does not know come from the origin's.
ax_status ax_hf_write_config(const char *dir, const ax_hf_export *e);

// dir/model.safetensors.index.json: `file` names the file of each tensor.
ax_status ax_hf_write_index(const char *dir, const ax_st_tensor *list, int count,
                            const char *(*file)(void *ctx, int tensor), void *ctx);

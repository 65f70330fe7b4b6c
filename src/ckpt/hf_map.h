// Which tensor of a Hugging Face directory holds which parameter, and where in it.
#pragma once
#include "arch/arch.h"
#include "ckpt/safetensors.h"
#include "grid/param.h"

typedef struct ax_hf_map {
    const ax_arch *arch;
    int64_t positions; // rows of the table of learned positions in the files
    bool bare;         // names without the `transformer.` in front: the first GPT-2 files
} ax_hf_map;

typedef struct ax_hf_place {
    char name[112];
    int dims;
    int64_t shape[2];
    int64_t first;   // row of the parameter's first one; transposed, or a vector: column
    bool transposed; // element (r, c) of the parameter is (c, first + r)
} ax_hf_place;

ax_status ax_hf_place_of(const ax_hf_map *m, const ax_param *p, ax_hf_place *out);

// A tensor that holds no parameter and may be there: masks, a second copy of tied weights.
bool ax_hf_is_spare(const ax_hf_map *m, const char *name);

// Whether there is a Hugging Face model of this shape; AX_EUNSUPPORTED says what stands against it.
ax_status ax_hf_map_check(const ax_arch *arch);

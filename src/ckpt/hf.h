// Hugging Face model directories, GPT-2 and Llama: in and out, by slices.
//
//     ax_hf_config c;
//     AX_TRY(ax_hf_read_config("gpt2", &c));                    // c.arch is the model's shape
//     AX_TRY(ax_hf_load("gpt2", &c, &params, &grid, &dev));     // collective
//
//     ax_hf_export e = { .arch = &arch, .dtype = AX_ST_BF16, .shard_bytes = 5000000000 };
//     AX_TRY(ax_hf_save("out", &e, &params, &grid, &dev));      // collective
//
// A directory holds config.json, model.safetensors or several files with
// model.safetensors.index.json, and what transformers keeps beside them. Every rank reads and
// writes the bytes of its own slices; none holds a matrix of others. Symbolic links are followed.
#pragma once
#include "arch/arch.h"
#include "ckpt/safetensors.h"
#include "grid/param.h"

typedef struct ax_hf_config {
    ax_arch arch;      // checked; its eos is NULL, for it would point into this struct
    char eos[256];     // ids that end a text, "2,5"; "": none told
    int64_t positions; // longest sequence: rows of learned positions; arch.seq may be less
} ax_hf_config;

// Whether `dir` is such a directory: it has a config.json, and is no checkpoint.
bool ax_hf_is(const char *dir);

// Reads config.json (and the ends of generation_config.json). What changes the numbers and is not
// implemented is refused by name: AX_EUNSUPPORTED; what is malformed: AX_EFORMAT. Rank 0 notes
// dropout, which is not applied, and keys it does not know, once each. arch.seq of a rotary model
// is at most 8192: longer sequences are asked for.
ax_status ax_hf_read_config(const char *dir, ax_hf_config *out);

// Collective over g->world; all ranks return the same status. Fills masters (where there are none,
// weights), padding with zeros, zeroes moments and spreads. AX_EFORMAT names a tensor that is
// missing, extra or of another shape, and its file; the parameters are then untouched.
ax_status ax_hf_load(const char *dir, const ax_hf_config *config, ax_params *ps, const ax_grid *g,
                     ax_device *dev);

// The narrowest dtype that holds every weight of the files: AX_ST_F16, AX_ST_BF16, else AX_ST_F32.
// Reads the headers; not collective.
ax_status ax_hf_read_dtype(const char *dir, ax_st_dtype *out);

typedef struct ax_hf_export {
    const ax_arch *arch; // checked
    ax_st_dtype dtype;   // AX_ST_F32, AX_ST_F16 or AX_ST_BF16; rounded to nearest even
    int64_t shard_bytes; // above which a further file begins
    const char *origin;  // directory whose config.json tells what arch does not; NULL: none
} ax_hf_export;

// Collective over g->world; all ranks return the same status. Writes the tensors, in their true
// shapes, the index where there are several files, and config.json into the existing directory
// `dir`. AX_EUNSUPPORTED where no such model has that shape. Needs masters.
ax_status ax_hf_save(const char *dir, const ax_hf_export *e, const ax_params *ps, const ax_grid *g,
                     ax_device *dev);

// Whether `dir` has a tokenizer: tokenizer.json or vocab.json.
bool ax_hf_has_tokenizer(const char *dir);
// Copies the tokenizer's files and generation_config.json, those that are there, and config.json
// too where `config` is set. Not collective.
ax_status ax_hf_copy_companions(const char *from, const char *to, bool config);

// Checkpoints: a directory that any grid can load, whichever grid wrote it.
//
//     ax_ckpt_info info = { .step = 100, .updates = 99, .tokens = seen, .config = yaml };
//     AX_TRY(ax_ckpt_save("runs/a/step-00000100", &params, &grid, &dev, &info));
//     ...
//     AX_TRY(ax_ckpt_load("runs/a/step-00000100", &params, &grid2, &dev, true));
//
// The directory holds
//     model.safetensors      masters (F32, or F64 of a double run) under their logical names, in
//                            their true global shapes: the padding of the vocabulary is left out.
//                            A vector of one row has a shape of one dimension
//     optimizer.safetensors  the same shapes as NAME.m and NAME.v: first and second moments
//     manifest.json          step, counts, sizes of the files and the caller's text; written last
//
// No rank gathers anything: each writes and reads the bytes of its own runs. A directory under its
// final name is complete; what a killed save leaves is named `.tmp-...`.
#pragma once
#include "grid/param.h"

typedef struct ax_ckpt_info {
    int64_t step, updates, tokens;
    ax_dtype dtype; // of the tensors: AX_F32 or AX_F64; save takes it from the parameters
    char *config;   // free text (UTF-8); NULL saves "". Owned by whoever filled the struct
} ax_ckpt_info;

// Collective over g->world; all ranks return the same status. `dir` is the final path, and its
// parent must exist. The files are made in `.tmp-NAME` beside it, which is renamed when everything
// is on disk. An older checkpoint of that name is replaced at that moment and not before; any other
// directory that is not empty is refused (AX_EUSAGE). A save that fails (AX_EIO) leaves every
// checkpoint as it was and takes its own files away. Without moments no optimizer file is written.
// Under a limit on file sizes the program must ignore SIGXFSZ for the failure to arrive here.
ax_status ax_ckpt_save(const char *dir, const ax_params *ps, const ax_grid *g, ax_device *dev,
                       const ax_ckpt_info *info);

// What the manifest says, once every file it lists is there in its size: AX_EIO, AX_EFORMAT. Not
// collective. The caller releases *out with ax_ckpt_info_fini.
ax_status ax_ckpt_read_info(const char *dir, ax_ckpt_info *out);
void ax_ckpt_info_fini(ax_ckpt_info *info); // a zeroed info is legal

// Collective over g->world; all ranks return the same status. Fills masters, padding with zeros,
// then spreads them (ax_params_spread). Where a parameter has no master its weights are set,
// rounded as spreading would. with_state: moments come from the checkpoint; otherwise those that
// exist are zeroed. F32 and F64 are converted into each other. AX_EFORMAT names a tensor that is
// missing, extra or of another shape; the parameters are then untouched.
ax_status ax_ckpt_load(const char *dir, ax_params *ps, const ax_grid *g, ax_device *dev,
                       bool with_state);

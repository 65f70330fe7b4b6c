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
//     manifest.json          step, counts, sizes of the files, checksums of every tensor, of the
//                            files' headers and of itself, the caller's texts; written last
// and what belongs to the model: the files of its tokenizer, and the config.json that it came with.
//
// No rank gathers anything: each writes and reads the bytes of its own runs. A directory under its
// final name is complete; what a killed save leaves is named `.tmp-...`.
//
// A tensor's checksum is the sum, modulo 2^64, over its elements of XXH3 (64 bits, the element's
// global row-major number as seed) of the element's bytes: ranks add up what each of them holds,
// whatever the grid, and no element can change or trade places unseen.
#pragma once
#include "grid/param.h"

typedef struct ax_ckpt_info {
    int64_t step, updates, tokens;
    ax_dtype dtype; // of the tensors: AX_F32 or AX_F64; save takes it from the parameters
    // Texts of the caller, UTF-8; NULL saves "". Owned by whoever filled the struct.
    char *config; // YAML of the run
    char *state;  // a JSON object: plan, place in the data, random state; kept as JSON, so that
                  // blanks between its values may come back otherwise. NULL saves none
    // A directory whose companions (ckpt/companions.h), on disk, become the checkpoint's own too;
    // NULL: none. Only save reads it.
    const char *companions;
} ax_ckpt_info;

// Collective over g->world; all ranks return the same status. `dir` is the final path, and its
// parent must exist. The files are made in `.tmp-NAME` beside it, which is renamed when everything
// is on disk. An older checkpoint of that name is replaced at that moment and not before; any other
// directory that is not empty is refused (AX_EUSAGE). A save that fails (AX_EIO) leaves every
// checkpoint as it was and takes its own files away. Without moments no optimizer file is written.
// Under a limit on file sizes the program must ignore SIGXFSZ for the failure to arrive here. info
// is read on rank 0 alone; a state that is no JSON object is AX_EUSAGE.
ax_status ax_ckpt_save(const char *dir, const ax_params *ps, const ax_grid *g, ax_device *dev,
                       const ax_ckpt_info *info);

// ---- saving while training goes on
//
//     AX_TRY(ax_ckpt_snapshot_bind(&snapshot, &params, &arena));   // measured, then bound
//     ax_ckpt_source from = { &params, &grid, &dev, &snapshot };
//     AX_TRY(ax_ckpt_save_begin(dir, &from, &info, &save));
//     ... steps ...; ax_ckpt_save_idle(save) tells when this rank's bytes are on disk
//     AX_TRY(ax_ckpt_save_finish(save));
//
// begin copies masters and moments, which the next step may then change, and hands them to a thread
// of its own, which writes, syncs and never communicates; it may run on every core that its rank
// had before the team was pinned. The name is given by finish. The
// parameters' list, the grid and the snapshot must stay until then; a job that ends calls finish
// too.

typedef struct ax_ckpt_snapshot {
    ax_tensor *tensor; // owned list; as many as the files hold, without data where another rank
    int count;         // writes the tensor
} ax_ckpt_snapshot;
// Takes room for masters and moments of this rank from `arena`, which must lie in host memory. The
// parameters are bound, in the same pass (measured or real); a snapshot may be bound again.
ax_status ax_ckpt_snapshot_bind(ax_ckpt_snapshot *s, const ax_params *ps, ax_arena *arena);
void ax_ckpt_snapshot_fini(ax_ckpt_snapshot *s);

typedef struct ax_ckpt_source { // what is saved, and the room of its copy; all of the caller's
    const ax_params *params;
    const ax_grid *grid;
    ax_device *dev;
    ax_ckpt_snapshot *snapshot; // bound for params
} ax_ckpt_source;

typedef struct ax_ckpt_saving ax_ckpt_saving;

// Collective. One save may be in flight; the snapshot is its own until finish. On failure (what can
// be seen before the writing: AX_EUSAGE, AX_EIO, AX_ENOMEM) *out is NULL and nothing is left over.
// A failure of the writing is told by finish, once, with the message of the rank that met it.
ax_status ax_ckpt_save_begin(const char *dir, const ax_ckpt_source *from, const ax_ckpt_info *info,
                             ax_ckpt_saving **out);
bool ax_ckpt_save_idle(const ax_ckpt_saving *s); // of this rank; not collective, never waits
// Collective. Waits for this rank's thread, agrees, writes the manifest and gives the name. Frees s
// in any case; NULL is legal where it is NULL on all ranks.
ax_status ax_ckpt_save_finish(ax_ckpt_saving *s);

// ---- reading

// What the manifest says, once every file it lists is there in its size: AX_EIO, AX_EFORMAT,
// AX_EUNSUPPORTED where a newer version wrote it. Not collective. The caller releases *out with
// ax_ckpt_info_fini.
ax_status ax_ckpt_read_info(const char *dir, ax_ckpt_info *out);
void ax_ckpt_info_fini(ax_ckpt_info *info); // a zeroed info is legal

// Collective over g->world; all ranks return the same status. Fills masters, padding with zeros,
// compares the checksums, then spreads (ax_params_spread). Where a parameter has no master its
// weights are set, rounded as spreading would. with_state: moments come from the checkpoint;
// otherwise those that exist are zeroed. F32 and F64 are converted into each other. AX_EFORMAT
// names a tensor that is missing, extra or of another shape; the parameters are then untouched. A
// tensor whose bytes do not give its checksum is AX_EFORMAT too, named with its file; the
// parameters are then undefined until another load or ax_params_init. A checkpoint of an earlier
// version without checksums is loaded with a warning.
ax_status ax_ckpt_load(const char *dir, ax_params *ps, const ax_grid *g, ax_device *dev,
                       bool with_state);

// ---- the checkpoints of a run directory; none of these is collective

typedef struct ax_ckpt_entry {
    char name[64]; // "step-00000100"
    int64_t step;
    bool complete; // the manifest is whole and its files have their sizes; checksums are not read
    bool misnamed; // it is, but of another step than its name tells; never complete then
    int64_t bytes;
} ax_ckpt_entry;
typedef struct ax_ckpt_list {
    ax_ckpt_entry *entry; // newest first
    int count;
} ax_ckpt_list;
// The directories step-NNNNNNNN of `out`; none there is no error. Why one is incomplete is not said
// here. AX_EIO where `out` cannot be read. Fini releases; a zeroed list is legal.
ax_status ax_ckpt_list_read(const char *out, ax_ckpt_list *list);
void ax_ckpt_list_fini(ax_ckpt_list *list);

// Whether a name is that of a checkpoint of a run, and of which step.
bool ax_ckpt_name_step(const char *name, int64_t *step);

// One directory, under any name: step is what its manifest says, or -1. AX_EIO where there is none.
ax_status ax_ckpt_entry_read(const char *dir, ax_ckpt_entry *out);

// Removes the oldest complete checkpoints of `out` beyond the newest `keep` (0: all stay), but
// never one that `last` (NULL is legal) names, nor a directory without our manifest. A directory
// that holds other files too loses only ours. Failures are warned of. No save may be in flight.
void ax_ckpt_prune(const char *out, int64_t keep, const char *last);

// Where names cannot change places a save that was killed can have left the checkpoint that it
// replaced as `.tmp-step-NNNNNNNN.old` alone: it gets its name back. Before a list is read that
// decides something. The caller holds the lock of `out`, and no save is in flight. A failure is
// warned of, as those of the sweep are.
void ax_ckpt_mend(const char *out);

// Mends, and removes `.tmp-step-*` of saves that were killed; one with other files in it stays,
// with a warning. The caller holds the lock of `out`, and no save is in flight.
void ax_ckpt_sweep(const char *out);

// Reads every byte and compares all checksums, in little memory. Files that the manifest does not
// list are passed over.
typedef struct ax_ckpt_fault {
    char file[64], tensor[96]; // tensor: "" where the file itself is at fault
    char why[160];
} ax_ckpt_fault;
typedef struct ax_ckpt_verdict {
    ax_ckpt_fault *fault;
    int faults;
    int64_t tensors, bytes; // read
    int64_t unsummed;       // tensors that an earlier version wrote without a checksum
} ax_ckpt_verdict;
// AX_OK whatever is found; AX_EIO where there is no such directory; AX_ENOMEM: not all was read.
ax_status ax_ckpt_verify(const char *dir, ax_ckpt_verdict *out);
void ax_ckpt_verdict_fini(ax_ckpt_verdict *v);

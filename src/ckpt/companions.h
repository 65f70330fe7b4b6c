// The small files that belong to a model and stand beside its weights: what transformers tells of
// it, and its tokenizer.
//
//     AX_TRY(ax_companions_copy("llama", "run/tokenizer", AX_COMPANION_ALL));
//     AX_TRY(ax_companions_link("run/tokenizer", "run/.tmp-step-00000100"));
#pragma once
#include "base/err.h"

#include <stdbool.h>

typedef enum ax_companion_kind {
    AX_COMPANION_CONFIG = 1,     // config.json
    AX_COMPANION_GENERATION = 2, // generation_config.json
    AX_COMPANION_VOCABULARY = 4, // tokenizer.json, vocab.json and merges.txt, tokenizer.model
    AX_COMPANION_SETTINGS = 8,   // of the tokenizer: its special tokens, its template of chats
    AX_COMPANION_TOKENIZER = AX_COMPANION_VOCABULARY | AX_COMPANION_SETTINGS,
    AX_COMPANION_ALL = 15,
} ax_companion_kind;

const char *ax_companion_name(int i); // NULL: no more
// Whether `dir` has any.
bool ax_companions_are_there(const char *dir);

// Of each: the files that are in `from` into the directory `to`, which has none of them; on disk
// but for the directory when it returns. `kinds`: bits of ax_companion_kind. AX_EIO names the file.
ax_status ax_companions_copy(const char *from, const char *to, unsigned kinds);
// All of them as further names of the same files; copies where the file system has none to give.
// The files in `from` are on disk.
ax_status ax_companions_link(const char *from, const char *to);
// One file, of any name, as to/name.
ax_status ax_companion_copy_as(const char *path, const char *to, const char *name);

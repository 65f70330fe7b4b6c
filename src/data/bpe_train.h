// Trains a byte-level BPE of GPT-2's kind and writes it as a tokenizer.json.
//
//     ax_bpe_trainer *t;
//     AX_TRY(ax_bpe_trainer_open(&t));
//     AX_TRY(ax_bpe_trainer_add(t, text, length));   // any number of texts, in any order
//     AX_TRY(ax_bpe_trainer_run(t, 4096, &json));
//
// The vocabulary is the 256 bytes, one token a merge, and last <|endoftext|>. Each merge is the
// commonest pair, of two as common the one of lower ids: the same texts give the same file.
#pragma once
#include "base/err.h"
#include "base/text.h"

enum { AX_BPE_TRAIN_LEAST = 257 }; // tokens of a vocabulary without merges

typedef struct ax_bpe_trainer ax_bpe_trainer;

ax_status ax_bpe_trainer_open(ax_bpe_trainer **out);
ax_status ax_bpe_trainer_add(ax_bpe_trainer *t, const char *text, size_t length);
// The documents of a *.jsonl (data/documents.h), each on its own; any other file is one text.
// Either may end in .zst.
ax_status ax_bpe_trainer_add_file(ax_bpe_trainer *t, const char *path, const char *text_key);
// At most `vocab` tokens: fewer where no pair is left that stands twice. *tokens: how many.
ax_status ax_bpe_trainer_run(ax_bpe_trainer *t, int64_t vocab, ax_text *json, int64_t *tokens);
void ax_bpe_trainer_close(ax_bpe_trainer *t);

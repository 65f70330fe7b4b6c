// Prompts to continue: texts, and their ids.
//
//     ax_prompts p = {0};
//     AX_TRY(ax_prompts_read(&p, "questions.jsonl"));
//     AX_TRY(ax_prompts_encode(&p, tokenizer));       // p.list[i].ids
//     ax_prompts_fini(&p);
#pragma once
#include "data/tokenizer.h"

typedef struct ax_prompt {
    char *text; // terminated; may contain zeros
    size_t length;
    ax_ids ids;
} ax_prompt;

typedef struct ax_prompts { // zero-initialised is empty
    ax_prompt *list;
    int64_t count, room;
} ax_prompts;

ax_status ax_prompts_add(ax_prompts *p, const char *text, size_t length);

// Adds those of a file: *.jsonl holds one JSON object a line with the text under "prompt", any
// other file one text a line. Empty lines, CRLF, a byte-order mark and a last line without an end
// are legal. AX_EUSAGE: no such file, no regular file, or no prompt in it. AX_EFORMAT names file,
// line and byte.
ax_status ax_prompts_read(ax_prompts *p, const char *path);

// Special tokens in a text are text. An empty text begins a document: its one id is the one that
// ends or begins one (AX_EUSAGE where the tokenizer has neither).
ax_status ax_prompts_encode(ax_prompts *p, const ax_tokenizer *t);
int64_t ax_prompts_longest(const ax_prompts *p); // most ids of one
void ax_prompts_fini(ax_prompts *p);

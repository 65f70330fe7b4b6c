// Texts from a model: prompts continued token by token, several at one time, on any grid.
//
//     AX_TRY(ax_generate_run(&config, &(ax_generate_sink){.done = print, .ctx = file}));
//
// Prompts are worked on in rounds of generate.batch, which the (data, z) coordinates share; what is
// missing to fill the grid is padded. A round prefills all its prompts in one pass and then makes
// one token of each a step (nn/infer.h), until the last has ended.
//
// A text does not depend on the others of its round, on the round, or on the grid, but to rounding:
// the draw of token `i` of prompt `p` is a pure function of (generate.seed, p, i), so equal prompts
// have texts of their own. Ids that the tokenizer does not have are never drawn.
//
// The context is model.seq tokens: of a longer prompt the last model.seq count. When it is full,
// its older half is dropped and the rest is read again: what follows then depends on that window.
#pragma once
#include "data/prompts.h"
#include "train/config.h"
#include "train/job.h"

typedef struct ax_generated {
    const char *prompt, *text; // bytes as they are, terminated; text: what was generated
    size_t prompt_length, length;
    int64_t tokens; // generated, the one that ended the text left out
    bool ended;     // by itself, before generate.tokens
} ax_generated;

typedef struct ax_generate_sink { // called on rank 0
    // Of a single prompt: the prompt, then the bytes of each token as they come. NULL: not wanted.
    void (*piece)(void *ctx, const char *bytes, size_t length);
    // Of every prompt, in their order. NULL: not wanted.
    void (*done)(void *ctx, const ax_generated *g);
    void *ctx;
} ax_generate_sink;

// The whole job of a resolved command: prompts are the words of `c`, else generate.prompts, else
// generate.prompt. AX_EUSAGE without model.init, and where both words and a file are given. Not
// collective: starts the ranks.
ax_status ax_generate_run(ax_run_config *c, const ax_generate_sink *sink);

typedef struct ax_generate_task {
    const ax_tokenizer *tokenizer;
    const ax_generate_options *options;
    const ax_prompts *prompts; // encoded
    int64_t number;            // of the first of them, in the draws
} ax_generate_task;

// The work of one rank, on a trainer with a cache (of model.seq positions, or of as many as the
// longest prompt and generate.tokens need). Collective. AX_ENUMERIC: logits are not finite.
ax_status ax_generate(ax_trainer *t, const ax_generate_task *task, const ax_generate_sink *sink);

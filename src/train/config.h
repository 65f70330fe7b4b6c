// The configuration of a run: every key of every module, from a YAML file and the command line.
//
//     ax_run_config c;
//     AX_TRY(ax_config_load(argc - 2, argv + 2, 0, &c));  // what stands behind the verb
//     ... c.train.steps, c.arch.hidden, c.data.train ...
//     ax_config_fini(&c);                                 // strings of c end here
//
// Order: defaults < model.preset < file < command line. On the line: `key=value`, `--key value`,
// `--key=value`, `--config FILE`, `--json`, `-q`, `-v`, `-h` or `--help`; behind `--` all are
// words. The last of several settings of a key on the line counts; a file may set a key once.
//
// YAML: nested mappings become dotted keys (`train: {lr: 1e-3}` is train.lr=1e-3), sequences of
// scalars become comma lists. Refused with file, line and column: bytes that are no YAML, anchors,
// a key without a value, a second document. Purely local: every rank loads for itself.
#pragma once
#include "arch/arch.h"
#include "base/text.h"
#include "data/loader.h"
#include "data/prepare.h"

#include <stdbool.h>

// The words of the choices, in the order of their tables.
typedef enum ax_config_schedule {
    AX_CONFIG_COSINE,
    AX_CONFIG_LINEAR,
    AX_CONFIG_CONSTANT,
    AX_CONFIG_WSD,
} ax_config_schedule;
typedef enum ax_config_precision {
    AX_CONFIG_FP32,
    AX_CONFIG_BF16,
    AX_CONFIG_AUTO_PRECISION, // bf16 where the processor has the instructions, else fp32
} ax_config_precision;
typedef enum ax_config_recompute {
    AX_CONFIG_KEEP_ALL,
    AX_CONFIG_RECOMPUTE_SELECTIVE,
    AX_CONFIG_RECOMPUTE_FULL,
} ax_config_recompute;
typedef enum ax_config_gradients {
    AX_CONFIG_GRADIENTS_FP32,
    AX_CONFIG_GRADIENTS_BF16,
} ax_config_gradients;
typedef enum ax_config_sums {
    AX_CONFIG_SUMS_BF16,
    AX_CONFIG_SUMS_FP32,
} ax_config_sums;
typedef enum ax_config_activations {
    AX_CONFIG_AUTO_ACTIVATIONS,
    AX_CONFIG_SHARDED,
    AX_CONFIG_REPLICATED,
} ax_config_activations;
typedef enum ax_config_nonfinite {
    AX_CONFIG_STOP,
    AX_CONFIG_SKIP,
} ax_config_nonfinite;

typedef struct ax_train_options {
    int64_t steps;
    double epochs;       // in place of steps; 0: off. Resolved by ax_config_resolve_epochs
    int64_t batch;       // global sequences of a step
    int64_t micro_batch; // sequences at one (data, z) coordinate; 0: no accumulation
    double lr, min_lr;   // peak and floor; min_lr <= lr holds after loading
    int64_t warmup;      // steps
    int64_t schedule;    // ax_config_schedule
    double wsd_decay;    // share of the steps
    double weight_decay, beta1, beta2, eps;
    double clip; // global gradient norm; 0: off
    int64_t seed;
    int64_t precision;   // ax_config_precision
    int64_t recompute;   // ax_config_recompute
    int64_t activations; // ax_config_activations
    const char *overlap; // read with ax_config_overlaps
    bool keep_gathered;
    int64_t nonfinite;                         // ax_config_nonfinite
    int64_t threads;                           // of a rank; 0: cores / ranks
    bool tune;                                 // products take the fastest way (train/tuning.h)
    const char *tune_file;                     // where that is remembered; "": the user's cache
    int64_t log_every, eval_every, save_every; // steps; 0: never
    int64_t eval_batches;                      // 0: all of the held-out data
    bool save_async;                           // written beside training
    int64_t keep;                              // checkpoints; 0: all
    const char *out;                           // run directory; "": none
    const char *resume;                        // "never", "auto" or a checkpoint
    int64_t trace;                             // steps; 0: off
    double stop_before;                        // seconds before the end of the job; 0: off
    double wall_time;                          // seconds from the start; 0: the scheduler's
} ax_train_options;
extern const ax_option ax_train_option_table[]; // train.*

// How sums travel between ranks.
typedef struct ax_comm_options {
    int64_t gradients;   // ax_config_gradients
    int64_t activations; // ax_config_sums
} ax_comm_options;
extern const ax_option ax_comm_option_table[]; // comm.*

typedef struct ax_generate_options {
    int64_t tokens;
    double temperature; // 0: greedy
    int64_t top_k;      // 0: off
    double top_p;       // 1: off
    int64_t seed;
    const char *prompt;
    const char *prompts; // a file; "": none
    int64_t batch;       // prompts at work at one time
    bool stop;           // at an id that ends a text
} ax_generate_options;
extern const ax_option ax_generate_option_table[]; // generate.*

typedef enum ax_config_convert {
    AX_CONFIG_AS_SOURCE,
    AX_CONFIG_TO_FP32,
    AX_CONFIG_TO_FP16,
    AX_CONFIG_TO_BF16,
} ax_config_convert;

typedef enum ax_config_convert_to {
    AX_CONFIG_TO_OTHER,
    AX_CONFIG_TO_CHECKPOINT,
    AX_CONFIG_TO_HF,
} ax_config_convert_to;

typedef struct ax_convert_options {
    int64_t to;          // ax_config_convert_to
    int64_t dtype;       // ax_config_convert
    int64_t shard_bytes; // of an exported file, at most where a tensor fits
} ax_convert_options;
extern const ax_option ax_convert_option_table[]; // convert.*

enum { AX_CONFIG_WORDS = 64 };

typedef struct ax_run_config {
    ax_options options; // owns the strings below; asks which keys were set
    ax_arch arch;       // as set: not yet through ax_arch_check
    ax_data_options data;
    ax_train_options train;
    ax_comm_options comm;
    ax_generate_options generate;
    ax_convert_options convert;
    ax_prepare_options prepare;
    const char *preset; // "": none
    const char *init;   // "random", a checkpoint directory or a Hugging Face directory
    int64_t device;     // read with ax_config_device
    const char *grid;   // "auto" or a grid's text
    int64_t ranks;      // 0: the launcher's, or 1

    const char *file; // of --config; NULL: none
    bool json, help;
    int verbosity; // -1 for -q, 0, 1 for -v
    const char *word[AX_CONFIG_WORDS];
    int words; // arguments that are neither keys nor switches, in order
} ax_run_config;

// Parses the arguments behind the verb; at most `words` free words are accepted. The strings of
// `argv` must outlive `c`, and `c` may not be moved: its tables point into it. AX_EUSAGE, for a
// file that is missing or malformed, too: one message that names the place; `c` then needs no fini.
ax_status ax_config_load(int argc, char *const *argv, int words, ax_run_config *c);
void ax_config_fini(ax_run_config *c); // a zeroed config is legal

// What the keys say of one another: for whoever changes them after loading. Loading does it itself,
// but leaves it to the caller where train.resume is not never, for then the checkpoint has the
// rest.
ax_status ax_config_check(ax_run_config *c);

// Whether the command line sets a key. What only a file sets gives way where the line says more:
// model.init on the line brings a model, and the model keys of a file yield to it.
bool ax_config_on_line(const ax_run_config *c, const char *key);
bool ax_config_yields(const ax_run_config *c, const char *key);

// Name of the device as the device layer knows it: "cpu" or "ref"; `*lazy` for ref-lazy.
const char *ax_config_device(const ax_run_config *c, bool *lazy);

// Turns train.epochs into train.steps, once the samples of an epoch are known: steps are rounded
// up, and train.epochs is 0 from then on. AX_EUSAGE: more steps than can be counted, or fewer than
// train.warmup. Nothing where train.epochs is not set.
ax_status ax_config_resolve_epochs(ax_run_config *c, int64_t samples);

// Whether train.overlap switches a point on: "oag", "rag", "oar", "ors", "data" or "update".
bool ax_config_overlaps(const ax_train_options *o, const char *point);

// All keys with their present values as YAML that ax_config_load reads back. Once the caller has
// resolved `c->arch`, so is the text.
ax_status ax_config_print(const ax_run_config *c, ax_text *out);

// All keys with kind, default, range and meaning: as plain text for a terminal (only those of
// `section`, e.g. "train", when not NULL), and as the Markdown of docs/options.md.
ax_status ax_config_help(const char *section, ax_text *out);
// One key. AX_EUSAGE names the nearest where there is none.
ax_status ax_config_help_key(const char *key, ax_text *out);
ax_status ax_config_options_md(ax_text *out);

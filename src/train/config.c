#include "train/config.h"

#include "train/config_yaml.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TRAIN(field) offsetof(ax_train_options, field)
const ax_option ax_train_option_table[] = {
    {"train.steps", AX_OPT_INT, TRAIN(steps), "100", "1..", "optimizer steps"},
    {"train.epochs", AX_OPT_REAL, TRAIN(epochs), "0", "0..",
     "passes over the training data, in place of train.steps; 0: train.steps counts"},
    {"train.batch", AX_OPT_INT, TRAIN(batch), "8", "1..16777216",
     "sequences of a step, over all ranks"},
    {"train.micro_batch", AX_OPT_INT, TRAIN(micro_batch), "0", "0..16777216",
     "sequences of one micro-batch at one (data, z) coordinate; accumulation follows; 0: all at "
     "once"},
    {"train.lr", AX_OPT_REAL, TRAIN(lr), "3e-4", "0..", "peak learning rate"},
    {"train.min_lr", AX_OPT_REAL, TRAIN(min_lr), "3e-5", "0..",
     "learning rate at the end of the schedule; where not set, at most train.lr"},
    {"train.warmup", AX_OPT_INT, TRAIN(warmup), "0", "0..",
     "steps of linear warm-up; the peak is at the last of them"},
    {"train.schedule", AX_OPT_CHOICE, TRAIN(schedule), "cosine", "cosine|linear|constant|wsd",
     "learning rate after warm-up; wsd: constant, then a linear decay"},
    {"train.wsd_decay", AX_OPT_REAL, TRAIN(wsd_decay), "0.1", "0..1",
     "share of the steps in which wsd decays"},
    {"train.weight_decay", AX_OPT_REAL, TRAIN(weight_decay), "0.1", "0..",
     "AdamW weight decay, on matrices only"},
    {"train.beta1", AX_OPT_REAL, TRAIN(beta1), "0.9", "0..0.999999999",
     "AdamW decay of the first moment"},
    {"train.beta2", AX_OPT_REAL, TRAIN(beta2), "0.95", "0..0.999999999",
     "AdamW decay of the second moment"},
    {"train.eps", AX_OPT_REAL, TRAIN(eps), "1e-8", "1e-30..1", "AdamW epsilon"},
    {"train.clip", AX_OPT_REAL, TRAIN(clip), "1", "0..",
     "largest global gradient norm; larger gradients are scaled down; 0: off"},
    {"train.seed", AX_OPT_INT, TRAIN(seed), "1", "0..", "seed of the initial weights"},
    {"train.precision", AX_OPT_CHOICE, TRAIN(precision), "auto", "fp32|bf16|auto",
     "bf16: bf16 operands, fp32 sums and masters; auto: bf16 where the processor has it"},
    {"train.recompute", AX_OPT_CHOICE, TRAIN(recompute), "none", "none|selective|full",
     "activations kept for backward: all, all but outputs of norms and of the mlp's activation, or "
     "only each block's input"},
    {"train.activations", AX_OPT_CHOICE, TRAIN(activations), "auto", "auto|sharded|replicated",
     "activations between layers: cut over all ranks, or repeated; auto: sharded where sizes "
     "allow"},
    {"train.overlap", AX_OPT_LIST, TRAIN(overlap), "on", "",
     "communication under work: on, off, or some of oag,rag,oar,ors,data,update"},
    {"train.keep_gathered", AX_OPT_FLAG, TRAIN(keep_gathered), "off", "",
     "keep gathered inputs for backward: less traffic, more memory"},
    {"train.nonfinite", AX_OPT_CHOICE, TRAIN(nonfinite), "stop", "stop|skip",
     "what a step with a NaN or infinite gradient does"},
    {"train.threads", AX_OPT_INT, TRAIN(threads), "0", "0..1024",
     "threads of a rank; 0: its share of the cores"},
    {"train.tune", AX_OPT_FLAG, TRAIN(tune), "off", "",
     "time every way to make each matrix product in the first step, and keep the fastest"},
    {"train.tune_file", AX_OPT_TEXT, TRAIN(tune_file), "", "",
     "what train.tune found, for later runs; empty: axonn/tuning.txt of the user's cache"},
    {"train.log_every", AX_OPT_INT, TRAIN(log_every), "10", "0..",
     "steps between lines on the screen; 0: off"},
    {"train.eval_every", AX_OPT_INT, TRAIN(eval_every), "0", "0..",
     "steps between evaluations; 0: off"},
    {"train.eval_batches", AX_OPT_INT, TRAIN(eval_batches), "0", "0..",
     "batches of an evaluation; 0: all held-out data"},
    {"train.save_every", AX_OPT_INT, TRAIN(save_every), "0", "0..",
     "steps between checkpoints; 0: only at the end"},
    {"train.save_async", AX_OPT_FLAG, TRAIN(save_async), "on", "",
     "write the checkpoints of save_every while training goes on: takes a copy of masters and "
     "moments"},
    {"train.trace", AX_OPT_INT, TRAIN(trace), "0", "0..1000",
     "steps recorded in trace.json of the run directory: kernels, waits and transfers of every "
     "rank (for ui.perfetto.dev); 0: off"},
    {"train.keep", AX_OPT_INT, TRAIN(keep), "0", "0..",
     "checkpoints that stay, the newest; 0: all"},
    {"train.out", AX_OPT_TEXT, TRAIN(out), "", "",
     "run directory: metrics, configuration, checkpoints; empty: none"},
    {"train.resume", AX_OPT_TEXT, TRAIN(resume), "never", "",
     "never; auto: from the newest whole checkpoint of train.out, from the start where there is "
     "none; or a checkpoint"},
    {"train.stop_before", AX_OPT_REAL, TRAIN(stop_before), "0", "0..",
     "seconds before the end of the job (SLURM_JOB_END_TIME or train.wall_time) at which to save "
     "and exit with 75; 0: off"},
    {"train.wall_time", AX_OPT_REAL, TRAIN(wall_time), "0", "0..",
     "seconds from the start after which to have saved and left with 75; 0: no limit"},
    {0},
};

#define COMM(field) offsetof(ax_comm_options, field)
const ax_option ax_comm_option_table[] = {
    {"comm.gradients", AX_OPT_CHOICE, COMM(gradients), "fp32", "fp32|bf16",
     "sums of matrices' gradients over z and data; bf16: half the bytes, a rounding a hop"},
    {"comm.activations", AX_OPT_CHOICE, COMM(activations), "bf16", "bf16|fp32",
     "sums of partial activations over x and y; with train.precision=fp32 they are fp32 anyway"},
    {0},
};

#define GENERATE(field) offsetof(ax_generate_options, field)
const ax_option ax_generate_option_table[] = {
    {"generate.tokens", AX_OPT_INT, GENERATE(tokens), "200", "0..", "tokens to generate"},
    {"generate.temperature", AX_OPT_REAL, GENERATE(temperature), "0.8", "0..",
     "divides the logits; 0: always the likeliest token"},
    {"generate.top_k", AX_OPT_INT, GENERATE(top_k), "0", "0..",
     "draw from the k likeliest tokens; 0: off"},
    {"generate.top_p", AX_OPT_REAL, GENERATE(top_p), "1", "0..1",
     "draw from the likeliest tokens that hold this probability; 1: off"},
    {"generate.seed", AX_OPT_INT, GENERATE(seed), "1", "0..", "seed of the draws"},
    {"generate.prompt", AX_OPT_TEXT, GENERATE(prompt), "", "",
     "text to continue, where the command line has none; empty: begin a document"},
    {"generate.prompts", AX_OPT_TEXT, GENERATE(prompts), "", "",
     "file of prompts: one a line, or *.jsonl, objects with a \"prompt\""},
    {"generate.batch", AX_OPT_INT, GENERATE(batch), "8", "1..65536",
     "prompts at work at one time, over all ranks"},
    {"generate.stop", AX_OPT_FLAG, GENERATE(stop), "on", "",
     "end a text at the end-of-document id or one of model.eos; off: go on"},
    {0},
};

#define CONVERT(field) offsetof(ax_convert_options, field)
const ax_option ax_convert_option_table[] = {
    {"convert.to", AX_OPT_CHOICE, CONVERT(to), "auto", "auto|checkpoint|hf",
     "what is made; auto: a Hugging Face directory of a checkpoint, and a checkpoint of such a "
     "directory, or a directory again where convert.dtype or convert.shard_bytes is given"},
    {"convert.dtype", AX_OPT_CHOICE, CONVERT(dtype), "source", "source|fp32|fp16|bf16",
     "elements of an exported model; source: as the model came, fp32 once it was trained"},
    {"convert.shard_bytes", AX_OPT_INT, CONVERT(shard_bytes), "5G", "1..",
     "bytes of a file, above which an exported model is cut into several"},
    {0},
};

#define RUN(field) offsetof(ax_run_config, field)
static const ax_option run_option_table[] = {
    {"model.preset", AX_OPT_TEXT, RUN(preset), "", "",
     "a published shape (llama3.1-8b, gpt2-124m, tiny, ...); other model keys change it"},
    {"model.init", AX_OPT_TEXT, RUN(init), "random", "",
     "initial weights: random, a checkpoint directory or a Hugging Face directory"},
    {"device", AX_OPT_CHOICE, RUN(device), "cpu", "cpu|ref|ref-lazy",
     "cpu: fast; ref: plain C in double; ref-lazy: ref with transfers as late as legal"},
    {"grid", AX_OPT_TEXT, RUN(grid), "auto", "",
     "grid of ranks: auto, or x=2,y=1,z=2,data=1[,order=xyzd]"},
    {"ranks", AX_OPT_INT, RUN(ranks), "0", "0..1048576",
     "local ranks in this process; 0: the launcher's, or 1"},
    {0},
};

// ---- values

const char *ax_config_device(const ax_run_config *c, bool *lazy)
{
    *lazy = c->device == 2;
    return c->device == 0 ? "cpu" : "ref";
}

static const char *const overlap_points[] = {"oag", "rag", "oar", "ors", "data", "update", NULL};

static bool list_has(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        if (length == n && strncmp(at, word, n) == 0)
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

bool ax_config_overlaps(const ax_train_options *o, const char *point)
{
    return strcmp(o->overlap, "on") == 0 || list_has(o->overlap, point);
}

static ax_status check_overlap(const char *list)
{
    if (strcmp(list, "on") == 0 || strcmp(list, "off") == 0)
        return AX_OK;
    for (const char *at = list;; at++) {
        char word[16];
        size_t n = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), at);
        bool known = false;
        for (const char *const *point = overlap_points; *point; point++)
            known = known || strcmp(*point, word) == 0;
        AX_CHECK(known, AX_EUSAGE,
                 "train.overlap=%s: '%s' is none of on, off, oag, rag, oar, ors, data, update",
                 list, word);
        at += n;
        if (!*at)
            return AX_OK;
    }
}

static ax_status check_warmup(const ax_train_options *t)
{
    AX_CHECK(t->warmup <= t->steps, AX_EUSAGE,
             "train.warmup=%lld is above train.steps=%lld: the peak would never be reached",
             (long long)t->warmup, (long long)t->steps);
    return AX_OK;
}

ax_status ax_config_resolve_epochs(ax_run_config *c, int64_t samples)
{
    ax_train_options *t = &c->train;
    if (t->epochs <= 0)
        return AX_OK;
    double steps = t->epochs * (double)samples / (double)t->batch;
    // The product of a decimal is off by a rounding error, which is no step.
    steps = fmax(1, ceil(steps * (1 - 1e-12)));
    AX_CHECK(steps < 1e15, AX_EUSAGE,
             "train.epochs=%g over %lld samples: more steps than a run has", t->epochs,
             (long long)samples);
    t->steps = (int64_t)steps;
    t->epochs = 0;
    return check_warmup(t);
}

ax_status ax_config_check(ax_run_config *c)
{
    ax_train_options *t = &c->train;
    if (!ax_options_is_set(&c->options, "train.min_lr") && t->min_lr > t->lr)
        t->min_lr = t->lr;
    AX_CHECK(t->min_lr <= t->lr, AX_EUSAGE, "train.min_lr=%g is above train.lr=%g", t->min_lr,
             t->lr);
    AX_CHECK(t->micro_batch <= t->batch, AX_EUSAGE,
             "train.micro_batch=%lld is above train.batch=%lld", (long long)t->micro_batch,
             (long long)t->batch);
    AX_CHECK(t->epochs <= 0 || !ax_options_is_set(&c->options, "train.steps"), AX_EUSAGE,
             "train.epochs=%g and train.steps=%lld: give one", t->epochs, (long long)t->steps);
    if (t->epochs <= 0)
        AX_TRY(check_warmup(t));
    return check_overlap(t->overlap);
}

// Lays the preset under the model keys that were set.
static ax_status apply_preset(ax_run_config *c)
{
    if (!*c->preset)
        return AX_OK;
    ax_arch set = c->arch;
    AX_TRY(ax_arch_preset(c->preset, &c->arch));
    for (const ax_option *option = ax_arch_options; option->key; option++) {
        // Every field of ax_arch is an int64_t, a double or a text.
        _Static_assert(sizeof(int64_t) == sizeof(double), "one size of field");
        _Static_assert(sizeof(int64_t) == sizeof(char *), "one size of field");
        if (ax_options_is_set(&c->options, option->key))
            memcpy((char *)&c->arch + option->offset, (char *)&set + option->offset,
                   sizeof(int64_t));
    }
    return AX_OK;
}

// ---- the command line

typedef struct argument {
    enum { SWITCH, KEY, WORD } kind;
    char key[128]; // of a switch its name
    const char *value;
} argument;

typedef struct line {
    int argc, at;
    char *const *argv;
    bool only_words; // behind --
} line;

static bool is_assignment(const char *text)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '.')
        n++;
    return n > 0 && isalpha((unsigned char)text[0]) && text[n] == '=';
}

static bool is_switch(const char *text)
{
    static const char *const switches[] = {"--json", "-q", "-v", "-h", "--help"};
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++)
        if (strcmp(text, switches[i]) == 0)
            return true;
    return false;
}

// Splits KEY=VALUE, or takes the next argument as the value.
static ax_status split_key(line *l, const char *text, argument *out)
{
    size_t n = strcspn(text, "=");
    AX_CHECK(n < sizeof out->key, AX_EUSAGE, "command line: '%.40s...' is no key", text);
    out->kind = KEY;
    snprintf(out->key, sizeof out->key, "%.*s", (int)n, text);
    out->value = text[n] ? text + n + 1 : NULL;
    if (!out->value && l->at < l->argc)
        out->value = l->argv[l->at++];
    return AX_OK;
}

static ax_status next_argument(line *l, argument *out)
{
    const char *text = l->argv[l->at++];
    if (!l->only_words && is_assignment(text))
        return split_key(l, text, out);
    if (l->only_words || text[0] != '-' || !text[1]) {
        *out = (argument){.kind = WORD, .value = text};
        return AX_OK;
    }
    if (is_switch(text)) {
        *out = (argument){.kind = SWITCH};
        snprintf(out->key, sizeof out->key, "%s", text);
        return AX_OK;
    }
    AX_CHECK(text[1] == '-' && text[2], AX_EUSAGE,
             "command line: unknown switch '%s'; there are -q, -v, -h, --json, --config FILE and "
             "--KEY VALUE",
             text);
    return split_key(l, text + 2, out);
}

static ax_status take_word(ax_run_config *c, const char *word, int words)
{
    AX_CHECK(c->words < words && c->words < AX_CONFIG_WORDS, AX_EUSAGE,
             "command line: unexpected argument '%s'; settings are written key=value", word);
    c->word[c->words++] = word;
    return AX_OK;
}

static void take_switch(ax_run_config *c, const char *name)
{
    if (strcmp(name, "--json") == 0)
        c->json = true;
    else if (strcmp(name, "-q") == 0)
        c->verbosity = -1;
    else if (strcmp(name, "-v") == 0)
        c->verbosity = 1;
    else
        c->help = true;
}

static ax_status take_file(ax_run_config *c, const char *file)
{
    AX_CHECK(file, AX_EUSAGE, "command line: --config needs a file");
    AX_CHECK(!c->file, AX_EUSAGE, "command line: --config %s and --config %s; give one", c->file,
             file);
    c->file = file;
    return AX_OK;
}

static const char place[] = "command line";

static ax_status take_key(ax_run_config *c, const argument *a)
{
    bool lacks_value = !a->value && ax_options_find(&c->options, a->key);
    AX_CHECK(!lacks_value, AX_EUSAGE, "command line: --%s needs a value", a->key);
    return ax_options_set(&c->options, a->key, a->value ? a->value : "", place);
}

// Walks the line twice: for the file and the switches, and, with `keys`, for the settings, which
// stand above those of the file.
static ax_status read_line(int argc, char *const *argv, int words, bool keys, ax_run_config *c)
{
    line l = {.argc = argc, .argv = argv};
    while (l.at < argc && !c->help) {
        if (!l.only_words && strcmp(argv[l.at], "--") == 0) {
            l.only_words = true;
            l.at++;
            continue;
        }
        argument a;
        AX_TRY(next_argument(&l, &a));
        bool is_config = a.kind == KEY && strcmp(a.key, "config") == 0;
        if (keys && a.kind == KEY && !is_config)
            AX_TRY(take_key(c, &a));
        else if (!keys && is_config)
            AX_TRY(take_file(c, a.value));
        else if (!keys && a.kind == WORD)
            AX_TRY(take_word(c, a.value, words));
        else if (!keys && a.kind == SWITCH)
            take_switch(c, a.key);
    }
    return AX_OK;
}

// ---- loading

static ax_status join(ax_run_config *c)
{
    *c = (ax_run_config){0};
    AX_TRY(ax_options_init(&c->options));
    ax_status st = ax_options_add(&c->options, run_option_table, c);
    if (st == AX_OK)
        st = ax_options_add(&c->options, ax_arch_options, &c->arch);
    if (st == AX_OK)
        st = ax_options_add(&c->options, ax_data_option_table, &c->data);
    if (st == AX_OK)
        st = ax_options_add(&c->options, ax_train_option_table, &c->train);
    if (st == AX_OK)
        st = ax_options_add(&c->options, ax_comm_option_table, &c->comm);
    if (st == AX_OK)
        st = ax_options_add(&c->options, ax_generate_option_table, &c->generate);
    if (st == AX_OK)
        st = ax_options_add(&c->options, ax_convert_option_table, &c->convert);
    if (st == AX_OK)
        st = ax_options_add(&c->options, ax_prepare_option_table, &c->prepare);
    if (st != AX_OK)
        ax_config_fini(c);
    return st;
}

static ax_status set_key(void *ctx, const char *key, const char *value, const char *where)
{
    return ax_options_set(ctx, key, value, where);
}

// Whatever is wrong with a file that the user names is wrong use, as a wrong key is.
static ax_status read_file(ax_run_config *c)
{
    ax_status st = ax_config_yaml_read(c->file, set_key, &c->options);
    return st == AX_EFORMAT || st == AX_EIO ? AX_EUSAGE : st;
}

static ax_status load(int argc, char *const *argv, int words, ax_run_config *c)
{
    AX_TRY(read_line(argc, argv, words, false, c));
    if (c->help)
        return AX_OK;
    if (c->file)
        AX_TRY(read_file(c));
    AX_TRY(read_line(argc, argv, words, true, c));
    AX_TRY(apply_preset(c));
    return strcmp(c->train.resume, "never") == 0 ? ax_config_check(c) : AX_OK;
}

ax_status ax_config_load(int argc, char *const *argv, int words, ax_run_config *c)
{
    AX_TRY(join(c));
    ax_status st = load(argc, argv, words, c);
    if (st != AX_OK)
        ax_config_fini(c);
    return st;
}

void ax_config_fini(ax_run_config *c)
{
    ax_options_fini(&c->options);
    *c = (ax_run_config){0};
}

bool ax_config_on_line(const ax_run_config *c, const char *key)
{
    const char *where = ax_options_where(&c->options, key);
    return where && strcmp(where, place) == 0;
}

bool ax_config_yields(const ax_run_config *c, const char *key)
{
    return ax_config_on_line(c, "model.init") && !ax_config_on_line(c, key);
}

// ---- printing

typedef void visit(const ax_run_config *c, const ax_option *option, const void *field,
                   ax_text *out);

// The part of a key before its first dot; empty for a key of the run itself.
static size_t section_length(const char *key)
{
    size_t n = strcspn(key, ".");
    return key[n] ? n : 0;
}

static bool in_section(const ax_option *option, const char *section)
{
    size_t n = section_length(option->key);
    return strlen(section) == n && strncmp(option->key, section, n) == 0;
}

static void visit_section(const ax_run_config *c, const char *section, visit *each, ax_text *out)
{
    const ax_options *o = &c->options;
    for (int p = 0; p < o->parts; p++)
        for (const ax_option *option = o->part[p].table; option->key; option++)
            if (in_section(option, section))
                each(c, option, (const char *)o->part[p].target + option->offset, out);
}

// In reading order; "" are the keys without a dot.
static const char *const sections[] = {"",     "model",    "data",    "train",
                                       "comm", "generate", "convert", "prepare"};
enum { SECTIONS = sizeof sections / sizeof sections[0] };

static ax_status finish(const ax_text *out)
{
    AX_CHECK(!out->failed, AX_ENOMEM, "no memory to print the keys");
    return AX_OK;
}

static bool is_text(const ax_option *option)
{
    return option->kind == AX_OPT_TEXT || option->kind == AX_OPT_LIST;
}

static void print_yaml(const ax_run_config *c, const ax_option *option, const void *field,
                       ax_text *out)
{
    size_t n = section_length(option->key);
    ax_text_add(out, "%s%s: ", n ? "  " : "", option->key + (n ? n + 1 : 0));
    char value[64];
    if (is_text(option))
        ax_text_add_json(out, *(const char *const *)field); // JSON strings are YAML, too
    else if (ax_options_get(&c->options, option->key, value, sizeof value) == AX_OK)
        ax_text_add(out, "%s", value);
    ax_text_add(out, "\n");
}

ax_status ax_config_print(const ax_run_config *c, ax_text *out)
{
    for (int i = 0; i < SECTIONS; i++) {
        if (*sections[i])
            ax_text_add(out, "%s:\n", sections[i]);
        visit_section(c, sections[i], print_yaml, out);
    }
    return finish(out);
}

static const char *kind_word(const ax_option *option)
{
    static const char *const words[] = {
        [AX_OPT_INT] = "integer", [AX_OPT_REAL] = "number", [AX_OPT_TEXT] = "text",
        [AX_OPT_CHOICE] = "",     [AX_OPT_FLAG] = "on|off", [AX_OPT_LIST] = "list",
    };
    return words[option->kind];
}

static void print_help(const ax_run_config *c, const ax_option *option, const void *field,
                       ax_text *out)
{
    (void)c, (void)field;
    const char *kind = kind_word(option);
    ax_text_add(out, "  %s=%s\n      %s (%s%s%s)\n", option->key,
                *option->value ? option->value : "\"\"", option->help, kind,
                *kind && *option->range ? " " : "", option->range);
}

ax_status ax_config_help(const char *section, ax_text *out)
{
    ax_run_config c;
    if (section && strcmp(section, "run") == 0)
        section = ""; // keys without a dot
    bool known = !section;
    for (int i = 0; i < SECTIONS && !known; i++)
        known = strcmp(section, sections[i]) == 0;
    AX_CHECK(known, AX_EUSAGE,
             "no keys begin with '%s.' (sections: run, model, data, train, comm, generate, "
             "convert, prepare)",
             section);
    AX_TRY(join(&c));
    for (int i = 0; i < SECTIONS; i++)
        if (!section || strcmp(section, sections[i]) == 0)
            visit_section(&c, sections[i], print_help, out);
    ax_config_fini(&c);
    return finish(out);
}

ax_status ax_config_help_key(const char *key, ax_text *out)
{
    ax_run_config c;
    AX_TRY(join(&c));
    const ax_option *o = ax_options_find(&c.options, key);
    ax_status st = AX_OK;
    if (o)
        print_help(&c, o, NULL, out);
    else
        st = ax_options_set(&c.options, key, "", "help"); // says what is near
    ax_config_fini(&c);
    AX_TRY(st);
    return finish(out);
}

// A bar would end a table cell.
static void add_cell(ax_text *out, const char *text)
{
    for (; *text; text++)
        ax_text_add(out, "%s%c", *text == '|' ? "\\" : "", *text);
}

static void print_row(const ax_run_config *c, const ax_option *option, const void *field,
                      ax_text *out)
{
    (void)c, (void)field;
    const char *kind = kind_word(option);
    ax_text_add(out, "| `%s` | ", option->key);
    if (*option->value)
        ax_text_add(out, "`%s`", option->value);
    ax_text_add(out, " | ");
    add_cell(out, kind);
    ax_text_add(out, "%s", *kind && *option->range ? " " : "");
    add_cell(out, option->range);
    ax_text_add(out, " | ");
    add_cell(out, option->help);
    ax_text_add(out, " |\n");
}

ax_status ax_config_options_md(ax_text *out)
{
    ax_run_config c;
    AX_TRY(join(&c));
    ax_text_add(
        out, "# Options\n\n"
             "Generated from the option tables of the program; do not edit.\n\n"
             "A key is written `key=value` on the command line (`--key value` is the same) "
             "and `key: value` in YAML, where nested mappings give dotted keys. The order "
             "is: defaults, `model.preset`, the file, the command line. Integers take the "
             "suffixes k, M and G (powers of ten).\n\n"
             "On the command line a verb refuses what it does not read; a file may hold any "
             "key, so that the `config.yaml` of a run serves every verb but convert and tokenizer. "
             "The model keys of "
             "a file yield to a `model.init` on the command line.\n\n"
             "| switch | verbs | meaning |\n| --- | --- | --- |\n"
             "| `--config FILE` | all | keys from a YAML file |\n"
             "| `--json` | all but help | the answer as one JSON object |\n"
             "| `-q`, `-v` | all | say less, say more |\n"
             "| `-h`, `--help` | all | the page of the verb |\n"
             "| `--step N` | data show | the step to show |\n"
             "| `out=PREFIX`, `--on-error stop\\|skip` | prepare | short for `prepare.out`, "
             "`prepare.on_error` |\n"
             "| `out=DIR`, `tokenizer.vocab=N` | tokenizer train | where the tokenizer goes, its "
             "tokens (32768) |\n"
             "| `--tuning` | info | what `train.tune` found on this machine |\n");
    for (int i = 0; i < SECTIONS; i++) {
        ax_text_add(out,
                    "\n## %s\n\n| key | default | values | meaning |\n| --- | --- | --- | --- |\n",
                    *sections[i] ? sections[i] : "run");
        visit_section(&c, sections[i], print_row, out);
    }
    ax_config_fini(&c);
    return finish(out);
}

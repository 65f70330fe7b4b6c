#include "train/key_readers.h"

#include <string.h>

// A name that ends in a dot stands for all that begin so; behind a '!' for none. The first that
// matches counts.
typedef struct reader {
    const char *verb;
    const char *keys[24];
} reader;

#define LAUNCH "device", "grid", "ranks"
#define PASS                                                                                       \
    "train.precision", "train.threads", "train.activations", "train.overlap", "comm.activations"

static const reader readers[] = {
    {"train", {LAUNCH, "model.", "data.", "train.", "comm."}},
    {"eval", {LAUNCH, PASS, "model.", "!data.seed", "data.", "train.batch", "train.eval_batches"}},
    {"generate", {LAUNCH, PASS, "model.", "data.tokenizer", "generate."}},
    {"selftest",
     {LAUNCH, PASS, "model.", "data.tokenizer", "train.batch", "train.micro_batch",
      "train.recompute", "train.keep_gathered", "train.nonfinite", "train.seed", "train.beta1",
      "train.beta2", "train.eps", "train.weight_decay", "train.clip", "comm.gradients"}},
    {"data", {"model.", "data.", "train.batch"}},
    {"convert",
     {"grid", "ranks", "!model.init", "!model.preset", "model.", "data.tokenizer", "convert."}},
    {"prepare",
     {"ranks", "data.train", "data.valid", "data.tokenizer", "data.text_key", "data.bos",
      "data.eod", "data.literals", "prepare."}},
    {"checkpoint", {NULL}},
    {"info", {"device", "train.tune_file"}},
};

static bool matches(const char *pattern, const char *key)
{
    size_t n = strlen(pattern);
    return pattern[n - 1] == '.' ? strncmp(pattern, key, n) == 0 : strcmp(pattern, key) == 0;
}

static bool reads(const reader *r, const char *key)
{
    for (const char *const *k = r->keys; *k; k++) {
        bool barred = **k == '!';
        if (matches(*k + barred, key))
            return !barred;
    }
    return false;
}

static const reader *find(const char *verb)
{
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++)
        if (strcmp(readers[i].verb, verb) == 0)
            return &readers[i];
    return NULL;
}

bool ax_config_reads(const char *verb, const char *key)
{
    const reader *r = find(verb);
    return r && reads(r, key);
}

ax_status ax_config_check_readers(const ax_run_config *c, const char *verb)
{
    const reader *r = find(verb);
    for (int p = 0; r && p < c->options.parts; p++)
        for (const ax_option *o = c->options.part[p].table; o->key; o++)
            AX_CHECK(!ax_config_on_line(c, o->key) || reads(r, o->key), AX_EUSAGE,
                     "command line: %s does not read %s; leave it out", verb, o->key);
    return AX_OK;
}

#include "train/init_hf.h"

#include <string.h>

// A run's own choice, within what the model allows.
static bool is_free(const char *key)
{
    return strcmp(key, "model.seq") == 0 || strcmp(key, "model.init_std") == 0;
}

// `own` holds the directory's model behind the same table, so that values are compared and carried
// as the command line would write them.
static ax_status take_key(const char *dir, ax_run_config *c, const ax_options *own, const char *key)
{
    char value[512], present[4096];
    AX_TRY(ax_options_get(own, key, value, sizeof value));
    if (!ax_options_is_set(&c->options, key))
        return ax_options_set(&c->options, key, value, dir);
    if (is_free(key))
        return AX_OK;
    if (ax_config_yields(c, key))
        return ax_options_set(&c->options, key, value, dir);
    AX_TRY(ax_options_get(&c->options, key, present, sizeof present));
    AX_CHECK(strcmp(present, value) == 0, AX_EUSAGE,
             "%s=%s, but the model in %s has %s: leave the key out", key, present, dir, value);
    return AX_OK;
}

static ax_status take_model(const char *dir, ax_run_config *c, ax_hf_config *config)
{
    ax_options own;
    ax_arch arch;
    AX_TRY(ax_options_init(&own));
    ax_status st = ax_options_add(&own, ax_arch_options, &arch);
    arch = config->arch;
    arch.eos = config->eos;
    for (const ax_option *o = ax_arch_options; o->key && st == AX_OK; o++)
        st = take_key(dir, c, &own, o->key);
    ax_options_fini(&own);
    return st;
}

ax_status ax_init_tokenizer(const char *dir, ax_run_config *c)
{
    if (ax_options_is_set(&c->options, "data.tokenizer") || !ax_hf_has_tokenizer(dir))
        return AX_OK;
    return ax_options_set(&c->options, "data.tokenizer", dir, dir);
}

ax_status ax_init_hf(const char *dir, ax_run_config *c, ax_hf_config *out)
{
    ax_hf_config config;
    AX_TRY(ax_hf_read_config(dir, &config));
    AX_TRY(take_model(dir, c, &config));
    AX_CHECK(c->arch.seq <= config.positions, AX_EUSAGE,
             "model.seq=%lld, but the model in %s knows %lld positions", (long long)c->arch.seq,
             dir, (long long)config.positions);
    AX_TRY(ax_init_tokenizer(dir, c));
    *out = config;
    return AX_OK;
}

// Any bytes as a config.json, and behind a zero byte as the generation_config.json beside it:
// refused with a message, or a shape that can be counted, and that comes back when it is written.
#include "base/log.h"
#include "ckpt/hf_write.h"
#include "fuzz_folder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void write_again(ax_hf_config *c)
{
    ax_hf_config again;
    c->arch.eos = c->eos;
    fuzz_no_file("config.json");
    fuzz_no_file("generation_config.json");
    ax_hf_export e = {.arch = &c->arch, .dtype = AX_ST_BF16};
    require(ax_hf_write_config(fuzz_folder(), &e) == AX_OK);
    require(ax_hf_read_config(fuzz_folder(), &again) == AX_OK);
    require(strcmp(again.eos, c->eos) == 0);
    again.arch.eos = c->arch.eos;
    for (const ax_option *o = ax_arch_options; o->key; o++) // a field has the size of an int64_t
        require(memcmp((char *)&again.arch + o->offset, (char *)&c->arch + o->offset,
                       sizeof(int64_t)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ax_hf_config c;
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t length = zero ? (size_t)(zero - data) : size;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_ERROR});
    fuzz_file("config.json", data, length);
    if (zero)
        fuzz_file("generation_config.json", zero + 1, size - length - 1);
    else
        fuzz_no_file("generation_config.json");
    if (ax_hf_read_config(fuzz_folder(), &c) != AX_OK)
        return 0;
    require(ax_arch_parameters(&c.arch) > 0 && ax_arch_flops(&c.arch, c.arch.seq) > 0);
    if (c.arch.kind == AX_LLAMA)
        require(ax_arch_rope_frequency(&c.arch, c.arch.head_dim / 2 - 1) >= 0);
    write_again(&c);
    return 0;
}

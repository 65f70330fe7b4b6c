#include "dev/dev_registry.h"
#include "dev/ref/ref.h"

#include <stdlib.h>
#include <string.h>

static ax_status open_ref(ax_device *dev, const ax_device_config *config)
{
    (void)config;
    dev->kern = &ax_kern_ref;
    dev->threads = 1;
    return AX_OK;
}

static void close_ref(ax_device *dev)
{
    (void)dev;
}

static ax_status alloc_ref(ax_device *dev, size_t bytes, void **out)
{
    (void)dev;
    AX_CHECK(bytes <= SIZE_MAX - 64, AX_ENOMEM, "device ref: %zu bytes are too many", bytes);
    size_t room = (bytes + 63) / 64 * 64;
    void *mem = aligned_alloc(64, room ? room : 64);
    AX_CHECK(mem, AX_ENOMEM, "device ref: no memory for %zu bytes", bytes);
    memset(mem, 0, room);
    *out = mem;
    return AX_OK;
}

static void free_ref(ax_device *dev, void *mem, size_t bytes)
{
    (void)dev;
    (void)bytes;
    free(mem);
}

static ax_status copy_ref(ax_device *dev, void *to, const void *from, size_t bytes)
{
    (void)dev;
    memmove(to, from, bytes);
    return AX_OK;
}

static ax_status sync_ref(ax_device *dev)
{
    (void)dev;
    return AX_OK;
}

static void facts_of_ref(const ax_device *dev, ax_device_facts *out)
{
    (void)dev;
    out->isa = "plain C";
    out->bf16 = "widened to f32";
}

static const char *kern_name_ref(const ax_device *dev, const char *slot)
{
    (void)dev;
    (void)slot;
    return "ref";
}

static size_t no_gemm_workspace(const ax_device *dev, const ax_gemm_args *g)
{
    (void)dev;
    (void)g;
    return 0;
}

static size_t no_attention_workspace(const ax_device *dev, const ax_attention_args *g)
{
    (void)dev;
    (void)g;
    return 0;
}

static size_t no_cached_workspace(const ax_device *dev, const ax_attention_cached_args *g)
{
    (void)dev;
    (void)g;
    return 0;
}

const ax_device_ops ax_device_ops_ref = {
    .name = "ref",
    .open = open_ref,
    .close = close_ref,
    .alloc = alloc_ref,
    .free = free_ref,
    .copy = copy_ref,
    .sync = sync_ref,
    .facts = facts_of_ref,
    .kern_name = kern_name_ref,
};

const ax_kern ax_kern_ref = {
    .gemm = ax_ref_gemm,
    .gemm_workspace = no_gemm_workspace,
    .attention_fwd = ax_ref_attention_fwd,
    .attention_bwd = ax_ref_attention_bwd,
    .attention_workspace = no_attention_workspace,
    .attention_cached = ax_ref_attention_cached,
    .attention_cached_workspace = no_cached_workspace,
    .norm_sums = ax_ref_norm_sums,
    .norm_fwd = ax_ref_norm_fwd,
    .norm_bwd_sums = ax_ref_norm_bwd_sums,
    .norm_bwd = ax_ref_norm_bwd,
    .rope = ax_ref_rope,
    .gelu_fwd = ax_ref_gelu_fwd,
    .gelu_bwd = ax_ref_gelu_bwd,
    .swiglu_fwd = ax_ref_swiglu_fwd,
    .swiglu_bwd = ax_ref_swiglu_bwd,
    .bias_fwd = ax_ref_bias_fwd,
    .bias_bwd = ax_ref_bias_bwd,
    .embed_fwd = ax_ref_embed_fwd,
    .embed_bwd = ax_ref_embed_bwd,
    .xent_max = ax_ref_xent_max,
    .xent_sums = ax_ref_xent_sums,
    .xent_bwd = ax_ref_xent_bwd,
    .adamw = ax_ref_adamw,
    .copy = ax_ref_copy,
    .add = ax_ref_add,
    .fill = ax_ref_fill,
    .square_sum = ax_ref_square_sum,
};

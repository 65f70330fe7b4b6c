// Any bytes as a safetensors file: refused with a message, or tensors that lie in the file one
// behind the other, and that the writer lays out in the same way.
#include "base/log.h"
#include "ckpt/safetensors.h"
#include "fuzz_folder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_places(const ax_safetensors *s, int64_t size)
{
    char shape[256];
    int64_t at = s->count ? s->list[0].begin : size;
    require(at >= 8);
    for (int i = 0; i < s->count; i++) {
        const ax_st_tensor *t = &s->list[i];
        require(t->begin == at && t->end >= at && t->dims <= AX_ST_DIMS);
        at = t->end;
        ax_st_print_shape(t, shape, sizeof shape);
        require(i > 1000 || ax_safetensors_find(s, t->name) == t);
    }
    require(at == size);
}

static void write_again(const ax_safetensors *s)
{
    ax_text json = {0};
    ax_st_tensor *list = malloc(((size_t)s->count + 1) * sizeof *list);
    require(list != NULL);
    memcpy(list, s->list, (size_t)s->count * sizeof *list);
    require(ax_safetensors_layout(list, s->count, &json) == AX_OK);
    for (int i = 0; i < s->count; i++)
        require(list[i].end - list[i].begin == s->list[i].end - s->list[i].begin &&
                list[i].begin - list[0].begin == s->list[i].begin - s->list[0].begin);
    ax_text_fini(&json);
    free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ax_safetensors s;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_ERROR});
    if (ax_safetensors_open(fuzz_file("model.safetensors", data, size), &s) != AX_OK)
        return 0;
    check_places(&s, (int64_t)size);
    write_again(&s);
    ax_safetensors_close(&s);
    return 0;
}

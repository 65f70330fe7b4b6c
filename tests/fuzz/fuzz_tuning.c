// Any bytes as the file of train.tune: refused, or a list that comes back when it is written and
// read again, with what it means to others unchanged.
#include "base/log.h"
#include "fuzz_folder.h"
#include "train/tuning_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_item(const ax_tuned *t)
{
    const ax_gemm_key *k = &t->key;
    bool dtypes = (k->in == AX_F32 || k->in == AX_BF16) && (k->out == AX_F32 || k->out == AX_BF16);
    if (k->m < 1 || k->n < 1 || k->k < 1 || k->threads < 1 || !dtypes || !t->way[0] ||
        memchr(t->way, 0, sizeof t->way) == NULL || !(t->seconds > 0) || !(t->default_seconds > 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const ax_tuned_for here = {.machine = "amd-epyc-25-1/avx2", .library = "onednn-2.6.3"};
    static ax_tuned_list list, again, third;
    char path[512];
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_ERROR});
    snprintf(path, sizeof path, "%s", fuzz_file("tuning.txt", data, size));
    list = again = third = (ax_tuned_list){0};
    if (ax_tuned_read(path, &here, &list) != AX_OK)
        return 0;
    for (int64_t i = 0; i < list.count; i++)
        check_item(&list.item[i]);
    if (ax_tuned_write(path, &here, &list, true) != AX_OK ||
        ax_tuned_read(path, &here, &again) != AX_OK || again.count < list.count)
        abort();
    for (int64_t i = 0; i < list.count; i++) {
        const ax_tuned *t = ax_tuned_find(&again, &list.item[i].key);
        if (!t || strcmp(t->way, list.item[i].way) != 0)
            abort();
    }
    if (ax_tuned_write(path, &here, &again, true) != AX_OK ||
        ax_tuned_read(path, &here, &third) != AX_OK || memcmp(&again, &third, sizeof again) != 0)
        abort();
    return 0;
}

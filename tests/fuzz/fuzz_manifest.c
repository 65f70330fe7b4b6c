// Any bytes as a manifest.json behind a letter: 'r' as they are, 's' with the checksum that a
// manifest of the present format ends in, put in place of the last brace. Refused with a message,
// or what comes back when it is written.
#include "base/log.h"
#include "ckpt/manifest.h"
#include "fuzz_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void put_sealed(const uint8_t *data, size_t size)
{
    while (size > 0 && data[size - 1] != '}')
        size--;
    size -= size > 0;
    char *text = malloc(size + AX_MANIFEST_SEAL_SIZE + 1);
    require(text != NULL);
    memcpy(text, data, size);
    snprintf(text + size, AX_MANIFEST_SEAL_SIZE + 1, AX_MANIFEST_SEAL,
             (unsigned long long)ax_checksum_text(text, size));
    fuzz_file(AX_MANIFEST_NAME, (uint8_t *)text, size + AX_MANIFEST_SEAL_SIZE);
    free(text);
}

static void compare_files(const ax_manifest_file *a, const ax_manifest_file *b)
{
    require(a && b && a->bytes == b->bytes && a->header == b->header && a->tensors == b->tensors);
    for (int i = 0; i < a->tensors; i++) {
        const ax_manifest_tensor *t = ax_manifest_tensor_find(b, a->tensor[i].name);
        require(t && t->sum == a->tensor[i].sum);
    }
}

static void write_again(const ax_manifest *m)
{
    ax_manifest again;
    require(ax_manifest_write(fuzz_folder(), m) == AX_OK);
    require(ax_manifest_read(fuzz_folder(), &again) == AX_OK);
    require(again.info.step == m->info.step && again.info.updates == m->info.updates &&
            again.info.tokens == m->info.tokens && again.info.dtype == m->info.dtype);
    require(strcmp(again.info.config, m->info.config) == 0);
    require(strcmp(again.info.state, m->info.state ? m->info.state : "") == 0);
    require(again.files == m->files);
    for (int i = 0; i < m->files; i++)
        compare_files(&m->file[i], ax_manifest_find(&again, m->file[i].name));
    ax_manifest_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ax_manifest m;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_ERROR});
    if (size == 0)
        return 0;
    if (data[0] == 's')
        put_sealed(data + 1, size - 1);
    else
        fuzz_file(AX_MANIFEST_NAME, data + 1, size - 1);
    if (ax_manifest_read(fuzz_folder(), &m) != AX_OK)
        return 0;
    for (int i = 0; i < m.files; i++)
        require(m.file[i].bytes >= 0 && ax_manifest_find(&m, m.file[i].name) == &m.file[i]);
    ax_manifest_check_sizes(&m, fuzz_folder());
    if (!*m.info.state) { // as saved without one
        free(m.info.state);
        m.info.state = NULL;
    }
    if (m.info.state)
        require(ax_manifest_check_state(m.info.state) == AX_OK);
    write_again(&m);
    ax_manifest_fini(&m);
    return 0;
}

// Any bytes as a token file. The first letter tells which: 'm' a Megatron index behind two bytes
// with the size of the .bin, 'l' an llm.c file, 'h' and 'w' bare uint16 and uint32. Refused with a
// message, or ids and borders that can be read from end to end.
#include "base/log.h"
#include "data/shard.h"
#include "fuzz_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATH = 512, VOCAB = 40000, MOST = 1 << 16 };

static void require(bool holds)
{
    if (!holds)
        abort();
}

// Writes the files; false where the letter means nothing.
static bool put_files(const uint8_t *data, size_t size, char path[PATH])
{
    static uint8_t bin[MOST];
    if (size == 0)
        return false;
    fuzz_no_file("t.idx");
    snprintf(path, PATH, "%s/t.bin", fuzz_folder());
    switch (data[0]) {
    case 'm':
        if (size < 3)
            return false;
        for (size_t i = 0; i < sizeof bin; i++)
            bin[i] = i % 8 ? 0 : (uint8_t)(i / 8);
        fuzz_file("t.bin", bin, (size_t)data[1] | (size_t)data[2] << 8);
        fuzz_file("t.idx", data + 3, size - 3);
        return true;
    case 'h':
    case 'w':
        strncat(path, data[0] == 'h' ? ":uint16" : ":uint32", PATH - strlen(path) - 1);
        break;
    case 'l':
        break;
    default:
        return false;
    }
    fuzz_file("t.bin", data + 1, size - 1);
    return true;
}

static void check_ids(const ax_shard *s)
{
    static int32_t ids[MOST];
    int64_t n = ax_shard_tokens(s);
    require(n >= 0 && n <= MOST && ax_shard_widest(s) > 0);
    bool sound = ax_shard_check(s, VOCAB) == AX_OK;
    require((ax_shard_read(s, VOCAB, 0, n, ids) == AX_OK) == sound);
    for (int64_t i = 0; sound && i < n; i++)
        require(ids[i] >= 0 && ids[i] < VOCAB);
    require(ax_shard_read(s, VOCAB, n, 0, ids) == AX_OK);
}

static void check_borders(const ax_shard *s)
{
    int64_t documents = ax_shard_documents(s), tokens = ax_shard_tokens(s), found;
    int64_t *begin = malloc((size_t)(documents + 1) * sizeof *begin);
    require(begin && ax_shard_borders(s, 0, documents + 1, begin) == AX_OK);
    require(begin[0] == 0 && begin[documents] == tokens);
    for (int64_t i = 0; i < documents; i++)
        require(begin[i] <= begin[i + 1]);
    for (int64_t token = 0; documents && token < tokens; token += 1 + tokens / 16) {
        require(ax_shard_find(s, token, &found) == AX_OK);
        require(begin[found] <= token && token < begin[found + 1]);
    }
    free(begin);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[PATH];
    ax_shard *s;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_ERROR});
    if (!put_files(data, size, path))
        return 0;
    require(ax_shard_is(path));
    if (ax_shard_open(path, &s) != AX_OK)
        return 0;
    check_ids(s);
    if (data[0] == 'm')
        check_borders(s);
    ax_shard_close(s);
    return 0;
}

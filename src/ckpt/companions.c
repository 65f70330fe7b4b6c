#include "ckpt/companions.h"

#include "ckpt/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned kind;
} companion[] = {{"config.json", AX_COMPANION_CONFIG},
                 {"generation_config.json", AX_COMPANION_GENERATION},
                 {"tokenizer.json", AX_COMPANION_VOCABULARY},
                 {"tokenizer_config.json", AX_COMPANION_SETTINGS},
                 {"tokenizer.model", AX_COMPANION_VOCABULARY},
                 {"special_tokens_map.json", AX_COMPANION_SETTINGS},
                 {"added_tokens.json", AX_COMPANION_SETTINGS},
                 {"vocab.json", AX_COMPANION_VOCABULARY},
                 {"merges.txt", AX_COMPANION_VOCABULARY},
                 {"chat_template.jinja", AX_COMPANION_SETTINGS}};
enum { COMPANIONS = sizeof companion / sizeof companion[0] };

const char *ax_companion_name(int i)
{
    return i < COMPANIONS ? companion[i].name : NULL;
}

bool ax_companions_are_there(const char *dir)
{
    char path[AX_PATH_MAX];
    for (int i = 0; i < COMPANIONS; i++)
        if (ax_disk_join(path, dir, companion[i].name) == AX_OK && access(path, F_OK) == 0)
            return true;
    return false;
}

static ax_status copy_bytes(int from, const char *from_path, int to, const char *to_path)
{
    enum { BLOCK = 1 << 16 };
    char block[BLOCK];
    int64_t size = 0;
    AX_TRY(ax_disk_size(from, from_path, &size));
    for (int64_t at = 0; at < size; at += BLOCK) {
        size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
        AX_TRY(ax_disk_read(from, from_path, block, n, at));
        AX_TRY(ax_disk_write(to, to_path, block, n, at));
    }
    return ax_disk_sync(to, to_path);
}

static ax_status copy_file(const char *from, const char *to)
{
    int in = -1, out = -1;
    struct stat about;
    AX_TRY(ax_disk_open(from, O_RDONLY | O_NONBLOCK, &in)); // a pipe would wait for a writer
    ax_status st = AX_OK;
    if (fstat(in, &about) != 0 || !S_ISREG(about.st_mode))
        st = ax_fail(AX_EUSAGE, __FILE__, __LINE__, "%s: not a regular file", from);
    if (st == AX_OK)
        st = ax_disk_open(to, O_WRONLY | O_CREAT | O_EXCL, &out);
    if (st == AX_OK) {
        st = copy_bytes(in, from, out, to);
        ax_status closed = ax_disk_close(out, to);
        st = st == AX_OK ? closed : st;
    }
    ax_disk_close(in, from);
    return st;
}

ax_status ax_companion_copy_as(const char *path, const char *to, const char *name)
{
    char target[AX_PATH_MAX];
    AX_TRY(ax_disk_join(target, to, name));
    return copy_file(path, target);
}

static ax_status place(const char *from, const char *to, unsigned kinds, bool linked)
{
    for (int i = 0; i < COMPANIONS; i++) {
        char source[AX_PATH_MAX], target[AX_PATH_MAX];
        AX_TRY(ax_disk_join(source, from, companion[i].name));
        AX_TRY(ax_disk_join(target, to, companion[i].name));
        bool missing = access(source, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
        if (!(companion[i].kind & kinds) || missing)
            continue;
        if (!linked || link(source, target) != 0)
            AX_TRY(copy_file(source, target));
    }
    return AX_OK;
}

ax_status ax_companions_copy(const char *from, const char *to, unsigned kinds)
{
    return place(from, to, kinds, false);
}

ax_status ax_companions_link(const char *from, const char *to)
{
    return place(from, to, AX_COMPANION_ALL, true);
}

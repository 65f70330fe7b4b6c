#include "ckpt/manifest.h"

#include "base/text.h"
#include "ckpt/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MANIFEST_MAX = 16 << 20 };

static ax_status file_bytes(const char *dir, const char *name, int64_t *bytes)
{
    char path[AX_PATH_MAX];
    struct stat st;
    AX_TRY(ax_disk_join(path, dir, name));
    AX_CHECK(stat(path, &st) == 0, AX_EIO, "%s: cannot read its size: %s", path, strerror(errno));
    *bytes = st.st_size;
    return AX_OK;
}

ax_status ax_manifest_add(ax_manifest *m, const char *dir, const char *name)
{
    AX_CHECK(m->files < AX_MANIFEST_FILES, AX_EINTERNAL, "a manifest lists at most %d files",
             AX_MANIFEST_FILES);
    AX_TRY(file_bytes(dir, name, &m->file[m->files].bytes));
    snprintf(m->file[m->files++].name, sizeof m->file[0].name, "%s", name);
    return AX_OK;
}

bool ax_manifest_has(const ax_manifest *m, const char *name)
{
    for (int i = 0; i < m->files; i++)
        if (strcmp(m->file[i].name, name) == 0)
            return true;
    return false;
}

// ---- writing

static void print(const ax_manifest *m, ax_text *json)
{
    ax_text_add(json, "{\n  \"format\": %d,\n  \"step\": %lld,\n", AX_MANIFEST_FORMAT,
                (long long)m->info.step);
    ax_text_add(json, "  \"updates\": %lld,\n  \"tokens\": %lld,\n", (long long)m->info.updates,
                (long long)m->info.tokens);
    ax_text_add(json, "  \"dtype\": \"%s\",\n  \"files\": [", ax_dtype_name(m->info.dtype));
    for (int i = 0; i < m->files; i++) {
        ax_text_add(json, "%s\n    {\"name\": ", i ? "," : "");
        ax_text_add_json(json, m->file[i].name);
        ax_text_add(json, ", \"bytes\": %lld}", (long long)m->file[i].bytes);
    }
    ax_text_add(json, "\n  ],\n  \"config\": ");
    ax_text_add_json(json, m->info.config ? m->info.config : "");
    ax_text_add(json, "\n}\n");
}

static ax_status write_text(const char *path, const ax_text *json)
{
    int fd = -1;
    AX_TRY(ax_disk_open(path, O_WRONLY | O_CREAT | O_TRUNC, &fd));
    ax_status st = ax_disk_write(fd, path, json->text, json->length, 0);
    if (st == AX_OK)
        st = ax_disk_sync(fd, path);
    ax_status closed = ax_disk_close(fd, path);
    return st == AX_OK ? closed : st;
}

ax_status ax_manifest_write(const char *dir, const ax_manifest *m)
{
    char path[AX_PATH_MAX];
    AX_TRY(ax_disk_join(path, dir, AX_MANIFEST_NAME));
    ax_text json = {0};
    print(m, &json);
    // What could not be read again must not be written.
    bool fits = !json.failed && json.length <= MANIFEST_MAX;
    ax_status st = fits ? write_text(path, &json)
                        : ax_fail(json.failed ? AX_ENOMEM : AX_EUSAGE, __FILE__, __LINE__,
                                  "%s: its text does not fit into %s", path,
                                  json.failed ? "memory" : "16 MiB");
    ax_text_fini(&json);
    return st;
}

// ---- reading

static ax_status read_text(const char *path, int fd, char **text, size_t *count)
{
    int64_t size = 0;
    AX_TRY(ax_disk_size(fd, path, &size));
    AX_CHECK(size <= MANIFEST_MAX, AX_EFORMAT, "%s: %lld bytes are too many for a manifest", path,
             (long long)size);
    char *bytes = malloc((size_t)size + 1);
    AX_CHECK(bytes, AX_ENOMEM, "%s: no memory for %lld bytes", path, (long long)size);
    ax_status st = ax_disk_read(fd, path, bytes, (size_t)size, 0);
    if (st != AX_OK) {
        free(bytes);
        return st;
    }
    *text = bytes;
    *count = (size_t)size;
    return AX_OK;
}

static ax_status load(const char *path, json_t **out)
{
    int fd = -1;
    char *text = NULL;
    size_t count = 0;
    AX_CHECK(access(path, F_OK) == 0 || errno != ENOENT, AX_EIO,
             "%s: not there: the directory is no checkpoint, or was never finished", path);
    AX_TRY(ax_disk_open(path, O_RDONLY, &fd));
    ax_status st = read_text(path, fd, &text, &count);
    ax_disk_close(fd, path);
    AX_TRY(st);
    json_error_t error;
    *out = json_loadb(text, count, JSON_REJECT_DUPLICATES, &error);
    free(text);
    AX_CHECK(*out, AX_EFORMAT, "%s:%d: not valid: %s", path, error.line, error.text);
    return AX_OK;
}

static ax_status read_number(const char *path, const json_t *from, const char *key, int64_t *out)
{
    const json_t *v = json_object_get(from, key);
    AX_CHECK(json_is_integer(v) && json_integer_value(v) >= 0, AX_EFORMAT,
             "%s: '%s' is not a count", path, key);
    *out = json_integer_value(v);
    return AX_OK;
}

static ax_status read_text_key(const char *path, const json_t *from, const char *key,
                               const char **out)
{
    const json_t *v = json_object_get(from, key);
    AX_CHECK(json_is_string(v), AX_EFORMAT, "%s: '%s' is not a text", path, key);
    *out = json_string_value(v);
    return AX_OK;
}

static ax_status read_file(const char *path, const char *dir, const json_t *entry, ax_manifest *m)
{
    const char *name = "";
    int64_t bytes = 0, found = 0;
    AX_TRY(read_text_key(path, entry, "name", &name));
    AX_TRY(read_number(path, entry, "bytes", &bytes));
    AX_CHECK(*name && !strchr(name, '/') && strlen(name) < sizeof m->file[0].name, AX_EFORMAT,
             "%s: '%.80s' is no file of a checkpoint", path, name);
    AX_TRY(file_bytes(dir, name, &found));
    AX_CHECK(found == bytes, AX_EFORMAT,
             "%s/%s: %lld bytes, but the manifest says %lld: the copy is incomplete or was changed",
             dir, name, (long long)found, (long long)bytes);
    memcpy(m->file[m->files].name, name, strlen(name) + 1);
    m->file[m->files++].bytes = bytes;
    return AX_OK;
}

static ax_status parse(const char *path, const char *dir, const json_t *root, ax_manifest *m)
{
    int64_t format = 0;
    const char *dtype = "", *config = "";
    AX_TRY(read_number(path, root, "format", &format));
    AX_CHECK(format <= AX_MANIFEST_FORMAT, AX_EFORMAT,
             "%s: format %lld is newer than this program, which reads up to %d", path,
             (long long)format, AX_MANIFEST_FORMAT);
    AX_TRY(read_number(path, root, "step", &m->info.step));
    AX_TRY(read_number(path, root, "updates", &m->info.updates));
    AX_TRY(read_number(path, root, "tokens", &m->info.tokens));
    AX_TRY(read_text_key(path, root, "dtype", &dtype));
    m->info.dtype = strcmp(dtype, ax_dtype_name(AX_F64)) == 0 ? AX_F64 : AX_F32;
    AX_CHECK(strcmp(dtype, ax_dtype_name(m->info.dtype)) == 0, AX_EFORMAT,
             "%s: dtype '%.20s' is neither f32 nor f64", path, dtype);
    AX_TRY(read_text_key(path, root, "config", &config));
    const json_t *files = json_object_get(root, "files");
    AX_CHECK(json_is_array(files) && json_array_size(files) <= AX_MANIFEST_FILES, AX_EFORMAT,
             "%s: 'files' is not a list of at most %d files", path, AX_MANIFEST_FILES);
    for (size_t i = 0; i < json_array_size(files); i++)
        AX_TRY(read_file(path, dir, json_array_get(files, i), m));
    m->info.config = strdup(config);
    AX_CHECK(m->info.config, AX_ENOMEM, "%s: no memory for its config", path);
    return AX_OK;
}

ax_status ax_manifest_read(const char *dir, ax_manifest *out)
{
    char path[AX_PATH_MAX];
    json_t *root = NULL;
    ax_manifest m = {0};
    AX_TRY(ax_disk_join(path, dir, AX_MANIFEST_NAME));
    AX_TRY(load(path, &root));
    ax_status st = parse(path, dir, root, &m);
    json_decref(root);
    if (st == AX_OK)
        *out = m;
    return st;
}

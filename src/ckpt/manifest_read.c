#include "ckpt/disk.h"
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- the text

static ax_status read_text(const char *path, int fd, char **text, size_t *count)
{
    int64_t size = 0;
    AX_TRY(ax_disk_size(fd, path, &size));
    AX_CHECK(size <= AX_MANIFEST_MAX, AX_EFORMAT, "%s: %lld bytes are too many for a manifest",
             path, (long long)size);
    char *bytes = malloc((size_t)size + 1);
    AX_CHECK(bytes, AX_ENOMEM, "%s: no memory for %lld bytes", path, (long long)size);
    ax_status st = ax_disk_read(fd, path, bytes, (size_t)size, 0);
    if (st != AX_OK) {
        free(bytes);
        return st;
    }
    bytes[size] = 0;
    *text = bytes;
    *count = (size_t)size;
    return AX_OK;
}

// Looked for before the text is understood: a changed digit could read as another format.
static ax_status check_seal(const char *path, const char *text, size_t count, bool *sealed)
{
    char seal[AX_MANIFEST_SEAL_SIZE + 1];
    *sealed = false;
    if (count < AX_MANIFEST_SEAL_SIZE)
        return AX_OK;
    const char *end = text + count - AX_MANIFEST_SEAL_SIZE;
    snprintf(seal, sizeof seal, AX_MANIFEST_SEAL,
             (unsigned long long)ax_checksum_text(text, (size_t)(end - text)));
    *sealed = memcmp(end, seal, AX_MANIFEST_SEAL_SIZE) == 0;
    const char *digits = strchr(seal, ':');
    AX_CHECK(*sealed || memcmp(end, seal, (size_t)(digits - seal)) != 0, AX_EFORMAT,
             "%s: its bytes do not give its checksum: it was changed or damaged", path);
    return AX_OK;
}

static ax_status load(const char *path, json_t **out, bool *sealed)
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
    st = check_seal(path, text, count, sealed);
    if (st == AX_OK)
        *out = json_loadb(text, count, JSON_REJECT_DUPLICATES, &error);
    free(text);
    AX_TRY(st);
    AX_CHECK(*out, AX_EFORMAT, "%s:%d: not valid: %s", path, error.line, error.text);
    return AX_OK;
}

// ---- its values

static ax_status read_count(const char *path, const json_t *from, const char *key, int64_t *out)
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

static ax_status read_sum(const char *path, const char *what, const json_t *v, uint64_t *out)
{
    AX_CHECK(json_is_string(v) && ax_checksum_parse(json_string_value(v), out), AX_EFORMAT,
             "%s: the checksum of '%.95s' is not 16 hexadecimal digits", path, what);
    return AX_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ax_manifest_tensor *)a)->name, ((const ax_manifest_tensor *)b)->name);
}

static ax_status read_tensors(const char *path, const json_t *entry, ax_manifest_file *f)
{
    json_t *all = json_object_get(entry, "tensors");
    AX_CHECK(json_is_object(all), AX_EFORMAT, "%s: '%s' has no list of tensors", path, f->name);
    f->tensor = calloc(json_object_size(all) + 1, sizeof *f->tensor);
    AX_CHECK(f->tensor, AX_ENOMEM, "%s: no memory for %zu tensors", path, json_object_size(all));
    const char *name;
    json_t *sum;
    json_object_foreach(all, name, sum)
    {
        ax_manifest_tensor *t = &f->tensor[f->tensors];
        AX_CHECK(*name && strlen(name) < sizeof t->name, AX_EFORMAT,
                 "%s: '%.95s' is no tensor of a checkpoint", path, name);
        memcpy(t->name, name, strlen(name) + 1);
        AX_TRY(read_sum(path, name, sum, &t->sum));
        f->tensors++;
    }
    qsort(f->tensor, (size_t)f->tensors, sizeof *f->tensor, by_name);
    return AX_OK;
}

static bool is_plain(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           strcmp(name, AX_MANIFEST_NAME) != 0;
}

static ax_status read_file(const char *path, const json_t *entry, ax_manifest *m)
{
    const char *name = "";
    ax_manifest_file f = {0};
    AX_TRY(read_text_key(path, entry, "name", &name));
    AX_TRY(read_count(path, entry, "bytes", &f.bytes));
    AX_CHECK(is_plain(name) && strlen(name) < sizeof f.name, AX_EFORMAT,
             "%s: '%.80s' is no file of a checkpoint", path, name);
    AX_CHECK(!ax_manifest_find(m, name), AX_EFORMAT, "%s: '%s' is listed twice", path, name);
    memcpy(f.name, name, strlen(name) + 1);
    ax_manifest_file *to = &m->file[m->files++]; // released with m from here on
    *to = f;
    if (m->format == 1)
        return AX_OK;
    AX_TRY(read_sum(path, name, json_object_get(entry, "header"), &to->header));
    return read_tensors(path, entry, to);
}

static ax_status read_files(const char *path, const json_t *root, ax_manifest *m)
{
    const json_t *files = json_object_get(root, "files");
    AX_CHECK(json_is_array(files) && json_array_size(files) <= AX_MANIFEST_FILES, AX_EFORMAT,
             "%s: 'files' is not a list of at most %d files", path, AX_MANIFEST_FILES);
    for (size_t i = 0; i < json_array_size(files); i++)
        AX_TRY(read_file(path, json_array_get(files, i), m));
    return AX_OK;
}

static ax_status read_dtype(const char *path, const json_t *root, ax_dtype *out)
{
    const char *dtype = "";
    AX_TRY(read_text_key(path, root, "dtype", &dtype));
    *out = strcmp(dtype, ax_dtype_name(AX_F64)) == 0 ? AX_F64 : AX_F32;
    AX_CHECK(strcmp(dtype, ax_dtype_name(*out)) == 0, AX_EFORMAT,
             "%s: dtype '%.20s' is neither f32 nor f64", path, dtype);
    return AX_OK;
}

static ax_status read_texts(const char *path, const json_t *root, ax_ckpt_info *info)
{
    const char *config = "";
    const json_t *state = json_object_get(root, "state");
    AX_TRY(read_text_key(path, root, "config", &config));
    AX_CHECK(!state || json_is_object(state), AX_EFORMAT, "%s: 'state' is not an object", path);
    info->config = strdup(config);
    info->state = state ? json_dumps(state, JSON_COMPACT) : strdup("");
    AX_CHECK(info->config && info->state, AX_ENOMEM, "%s: no memory for its texts", path);
    return AX_OK;
}

static ax_status check_format(const char *path, const json_t *root, bool sealed, int64_t *out)
{
    AX_TRY(read_count(path, root, "format", out));
    AX_CHECK(*out <= AX_MANIFEST_FORMAT, AX_EUNSUPPORTED, // and no damage
             "%s: format %lld is newer than this program, which reads up to %d", path,
             (long long)*out, AX_MANIFEST_FORMAT);
    AX_CHECK(*out > 0, AX_EFORMAT, "%s: there is no format 0", path);
    AX_CHECK(sealed || *out == 1, AX_EFORMAT, "%s: its last line is not its checksum", path);
    return AX_OK;
}

static ax_status parse(const char *path, const json_t *root, bool sealed, ax_manifest *m)
{
    AX_TRY(check_format(path, root, sealed, &m->format));
    AX_TRY(read_count(path, root, "step", &m->info.step));
    AX_TRY(read_count(path, root, "updates", &m->info.updates));
    AX_TRY(read_count(path, root, "tokens", &m->info.tokens));
    AX_TRY(read_dtype(path, root, &m->info.dtype));
    AX_TRY(read_texts(path, root, &m->info));
    return read_files(path, root, m);
}

ax_status ax_manifest_read(const char *dir, ax_manifest *out)
{
    char path[AX_PATH_MAX];
    json_t *root = NULL;
    bool sealed = false;
    AX_TRY(ax_disk_join(path, dir, AX_MANIFEST_NAME));
    AX_TRY(load(path, &root, &sealed));
    ax_manifest m = {0};
    ax_status st = parse(path, root, sealed, &m);
    json_decref(root);
    if (st == AX_OK)
        *out = m;
    else
        ax_manifest_fini(&m);
    return st;
}

// ---- the files

ax_status ax_manifest_check_size(const ax_manifest_file *f, const char *dir)
{
    char path[AX_PATH_MAX];
    struct stat there;
    AX_TRY(ax_disk_join(path, dir, f->name));
    AX_CHECK(stat(path, &there) == 0, AX_EIO, "%s: cannot read its size: %s", path,
             strerror(errno));
    AX_CHECK(there.st_size == f->bytes, AX_EFORMAT,
             "%s: %lld bytes, but the manifest says %lld: the copy is incomplete or was changed",
             path, (long long)there.st_size, (long long)f->bytes);
    return AX_OK;
}

ax_status ax_manifest_check_sizes(const ax_manifest *m, const char *dir)
{
    for (int i = 0; i < m->files; i++)
        AX_TRY(ax_manifest_check_size(&m->file[i], dir));
    return AX_OK;
}

ax_status ax_manifest_check_header(const ax_manifest *m, const ax_manifest_file *f, const char *dir)
{
    char path[AX_PATH_MAX];
    uint64_t sum = 0;
    if (m->format == 1)
        return AX_OK;
    AX_TRY(ax_disk_join(path, dir, f->name));
    AX_TRY(ax_safetensors_header(path, &sum));
    AX_CHECK(sum == f->header, AX_EFORMAT,
             "%s: its header does not give its checksum: the file was changed or damaged", path);
    return AX_OK;
}

#include "ckpt/safetensors.h"

#include "ckpt/checksum.h"
#include "ckpt/disk.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 8, HEADER_MAX = 100000000 };

static const struct {
    const char *name;
    int bits;
} dtypes[AX_ST_DTYPES] = {
    [AX_ST_BOOL] = {"BOOL", 8},
    [AX_ST_U8] = {"U8", 8},
    [AX_ST_I8] = {"I8", 8},
    [AX_ST_F4] = {"F4", 4},
    [AX_ST_F6_E2M3] = {"F6_E2M3", 6},
    [AX_ST_F6_E3M2] = {"F6_E3M2", 6},
    [AX_ST_F8_E5M2] = {"F8_E5M2", 8},
    [AX_ST_F8_E4M3] = {"F8_E4M3", 8},
    [AX_ST_F8_E8M0] = {"F8_E8M0", 8},
    [AX_ST_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
    [AX_ST_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
    [AX_ST_I16] = {"I16", 16},
    [AX_ST_U16] = {"U16", 16},
    [AX_ST_F16] = {"F16", 16},
    [AX_ST_BF16] = {"BF16", 16},
    [AX_ST_I32] = {"I32", 32},
    [AX_ST_U32] = {"U32", 32},
    [AX_ST_F32] = {"F32", 32},
    [AX_ST_C64] = {"C64", 64},
    [AX_ST_F64] = {"F64", 64},
    [AX_ST_I64] = {"I64", 64},
    [AX_ST_U64] = {"U64", 64},
};

const char *ax_st_dtype_name(ax_st_dtype dtype)
{
    return dtypes[dtype].name;
}

bool ax_st_same_shape(const ax_st_tensor *a, const ax_st_tensor *b)
{
    return a->dims == b->dims &&
           memcmp(a->shape, b->shape, (size_t)a->dims * sizeof a->shape[0]) == 0;
}

void ax_st_print_shape(const ax_st_tensor *t, char *text, size_t size)
{
    size_t n = 0;
    for (int i = 0; i < t->dims && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%lld", i ? ", " : "[", (long long)t->shape[i]);
    if (n < size)
        snprintf(text + n, size - n, "%s", t->dims ? "]" : "[]");
}

// Bytes of a tensor; false when they overflow or are not whole.
static bool tensor_bytes(const ax_st_tensor *t, int64_t *out)
{
    int64_t bits = 1;
    for (int i = 0; i < t->dims; i++)
        if (__builtin_mul_overflow(bits, t->shape[i], &bits))
            return false;
    if (__builtin_mul_overflow(bits, (int64_t)dtypes[t->dtype].bits, &bits) || bits % 8 != 0)
        return false;
    *out = bits / 8;
    return true;
}

// ---- writing

static void add_entry(ax_text *json, const ax_st_tensor *t)
{
    char shape[AX_ST_DIMS * 24];
    ax_st_print_shape(t, shape, sizeof shape);
    ax_text_add(json, ",");
    ax_text_add_json(json, t->name);
    ax_text_add(json, ":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%lld,%lld]}",
                dtypes[t->dtype].name, shape, (long long)t->begin, (long long)t->end);
}

ax_status ax_safetensors_layout(ax_st_tensor *list, int count, ax_text *json)
{
    int64_t at = 0;
    // Some readers refuse a file that does not say which framework's layout it has.
    ax_text_add(json, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < count; i++) {
        int64_t bytes = 0;
        AX_CHECK(tensor_bytes(&list[i], &bytes) && !__builtin_add_overflow(at, bytes, &list[i].end),
                 AX_EUSAGE, "tensor '%s' is too large for a file", list[i].name);
        list[i].begin = at;
        at = list[i].end;
        add_entry(json, &list[i]);
    }
    ax_text_add(json, "}");
    while (!json->failed && json->length % 8 != 0)
        ax_text_add(json, " ");
    AX_CHECK(!json->failed, AX_ENOMEM, "no memory for a header of %d tensors", count);
    AX_CHECK(json->length <= HEADER_MAX, AX_EUNSUPPORTED,
             "%d tensors need a header of %zu bytes; the format allows %d", count, json->length,
             HEADER_MAX);
    for (int i = 0; i < count; i++) {
        list[i].begin += PREFIX + (int64_t)json->length;
        list[i].end += PREFIX + (int64_t)json->length;
    }
    return AX_OK;
}

int64_t ax_safetensors_size(const ax_st_tensor *list, int count, const ax_text *json)
{
    return count ? list[count - 1].end : PREFIX + (int64_t)json->length;
}

static ax_status write_header(const char *path, int fd, const ax_text *json, int64_t size)
{
    unsigned char prefix[PREFIX];
    for (int i = 0; i < PREFIX; i++)
        prefix[i] = (unsigned char)((uint64_t)json->length >> 8 * i);
    AX_TRY(ax_disk_reserve(fd, path, size));
    AX_TRY(ax_disk_write(fd, path, prefix, sizeof prefix, 0));
    return ax_disk_write(fd, path, json->text, json->length, PREFIX);
}

ax_status ax_safetensors_create(const char *path, ax_st_tensor *list, int count)
{
    ax_text json = {0};
    ax_status st, closed;
    int fd = -1;
    AX_TRY_TO(done, ax_safetensors_layout(list, count, &json));
    AX_TRY_TO(done, ax_disk_open(path, O_WRONLY | O_CREAT | O_TRUNC, &fd));
    st = write_header(path, fd, &json, ax_safetensors_size(list, count, &json));
    closed = ax_disk_close(fd, path);
    st = st == AX_OK ? closed : st;
done:
    ax_text_fini(&json);
    return st;
}

// ---- reading

// The header of the file; the caller frees *bytes.
static ax_status read_header(const char *path, int fd, int64_t size, char **bytes, size_t *count)
{
    AX_CHECK(size >= PREFIX, AX_EFORMAT,
             "%s: %lld bytes are too few for a safetensors file; it is cut short or something else",
             path, (long long)size);
    unsigned char prefix[PREFIX];
    AX_TRY(ax_disk_read(fd, path, prefix, sizeof prefix, 0));
    uint64_t n = 0;
    for (int i = 0; i < PREFIX; i++)
        n |= (uint64_t)prefix[i] << 8 * i;
    AX_CHECK(n > 0 && n <= HEADER_MAX, AX_EFORMAT,
             "%s: not a safetensors file: it claims a header of %llu bytes (at most %d)", path,
             (unsigned long long)n, HEADER_MAX);
    AX_CHECK((int64_t)n <= size - PREFIX, AX_EFORMAT,
             "%s: the header should have %llu bytes, but the file ends after %lld of them", path,
             (unsigned long long)n, (long long)(size - PREFIX));
    char *text = malloc(n);
    AX_CHECK(text, AX_ENOMEM, "%s: no memory for a header of %llu bytes", path,
             (unsigned long long)n);
    ax_status st = ax_disk_read(fd, path, text, n, PREFIX);
    if (st == AX_OK && text[0] != '{')
        st = ax_fail(AX_EFORMAT, __FILE__, __LINE__,
                     "%s: not a safetensors file: the header does not begin with '{'", path);
    if (st != AX_OK) {
        free(text);
        return st;
    }
    *bytes = text;
    *count = n;
    return AX_OK;
}

ax_status ax_safetensors_header(const char *path, uint64_t *sum)
{
    int fd = -1;
    int64_t size = 0;
    char *text = NULL;
    size_t count = 0;
    AX_TRY(ax_disk_open(path, O_RDONLY, &fd));
    ax_status st = ax_disk_size(fd, path, &size);
    if (st == AX_OK)
        st = read_header(path, fd, size, &text, &count);
    if (st == AX_OK)
        *sum = ax_checksum_text(text, count);
    free(text);
    ax_disk_close(fd, path);
    return st;
}

// Says what stands before the error too: the tensor's name is there.
static ax_status fail_json(const char *path, const char *text, size_t count,
                           const json_error_t *error)
{
    enum { CONTEXT = 120 };
    char context[CONTEXT + 1];
    size_t end = error->position > 0 ? (size_t)error->position : 0, n = 0;
    end = end < count ? end : count;
    for (size_t i = end > CONTEXT ? end - CONTEXT : 0; i < end; i++)
        context[n++] = text[i] >= ' ' && text[i] < 127 ? text[i] : '?';
    context[n] = 0;
    AX_FAIL(AX_EFORMAT, "%s: the header is not valid: %s, after: %s", path, error->text, context);
}

static ax_status check_metadata(const char *path, const json_t *metadata)
{
    AX_CHECK(json_is_object(metadata), AX_EFORMAT, "%s: __metadata__ is not an object", path);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)metadata, key, value) AX_CHECK(
        json_is_string(value), AX_EFORMAT, "%s: __metadata__ '%s' is not a string", path, key);
    return AX_OK;
}

static bool read_counts(const json_t *array, int64_t *out)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *v = json_array_get(array, i);
        out[i] = json_integer_value(v);
        if (!json_is_integer(v) || out[i] < 0)
            return false;
    }
    return true;
}

static bool read_dtype(const json_t *value, ax_st_dtype *out)
{
    for (int i = 0; json_is_string(value) && i < AX_ST_DTYPES; i++)
        if (strcmp(json_string_value(value), dtypes[i].name) == 0) {
            *out = (ax_st_dtype)i;
            return true;
        }
    return false;
}

// One entry of the header. begin and end are left as the file gives them, from the end of the
// header.
static ax_status read_entry(const char *path, const json_t *entry, int64_t buffer, ax_st_tensor *t)
{
    AX_CHECK(json_is_object(entry), AX_EFORMAT, "%s: tensor '%s': its entry is not an object", path,
             t->name);
    const json_t *dtype = json_object_get(entry, "dtype");
    AX_CHECK(read_dtype(dtype, &t->dtype), AX_EFORMAT, "%s: tensor '%s': unknown dtype '%s'", path,
             t->name, json_is_string(dtype) ? json_string_value(dtype) : "(no string)");

    const json_t *shape = json_object_get(entry, "shape");
    AX_CHECK(json_is_array(shape) && json_array_size(shape) <= AX_ST_DIMS, AX_EFORMAT,
             "%s: tensor '%s': the shape is not an array of at most %d sizes", path, t->name,
             AX_ST_DIMS);
    t->dims = (int)json_array_size(shape);
    AX_CHECK(read_counts(shape, t->shape), AX_EFORMAT,
             "%s: tensor '%s': the shape holds something that is no size", path, t->name);
    int64_t bytes = 0;
    AX_CHECK(tensor_bytes(t, &bytes), AX_EFORMAT,
             "%s: tensor '%s': the shape gives no whole number of bytes, or too many", path,
             t->name);

    const json_t *offsets = json_object_get(entry, "data_offsets");
    int64_t range[2] = {0};
    AX_CHECK(json_is_array(offsets) && json_array_size(offsets) == 2 && read_counts(offsets, range),
             AX_EFORMAT, "%s: tensor '%s': data_offsets are not two offsets", path, t->name);
    AX_CHECK(range[0] <= range[1] && range[1] - range[0] == bytes, AX_EFORMAT,
             "%s: tensor '%s': bytes %lld to %lld do not hold its %lld bytes", path, t->name,
             (long long)range[0], (long long)range[1], (long long)bytes);
    AX_CHECK(range[1] <= buffer, AX_EFORMAT,
             "%s: tensor '%s': it ends at byte %lld of %lld: the file is cut short", path, t->name,
             (long long)range[1], (long long)buffer);
    t->begin = range[0];
    t->end = range[1];
    return AX_OK;
}

// Empty tensors come before the one that shares their offset.
static int by_place(const void *left, const void *right)
{
    const ax_st_tensor *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static ax_status check_cover(const ax_safetensors *s, int64_t buffer)
{
    int64_t at = 0;
    for (int i = 0; i < s->count; i++) {
        const ax_st_tensor *t = &s->list[i];
        AX_CHECK(t->begin >= at, AX_EFORMAT,
                 "%s: tensor '%s' begins at byte %lld and overlaps '%s', which ends at %lld",
                 s->path, t->name, (long long)t->begin, i ? s->list[i - 1].name : "",
                 (long long)at);
        AX_CHECK(t->begin == at, AX_EFORMAT,
                 "%s: tensor '%s' begins at byte %lld: bytes from %lld on belong to no tensor",
                 s->path, t->name, (long long)t->begin, (long long)at);
        at = t->end;
    }
    AX_CHECK(at == buffer, AX_EFORMAT, "%s: %lld bytes follow the last tensor%s%s%s", s->path,
             (long long)(buffer - at), s->count ? " '" : "",
             s->count ? s->list[s->count - 1].name : "", s->count ? "'" : "");
    return AX_OK;
}

static ax_status read_entries(ax_safetensors *s, json_t *root, int64_t buffer)
{
    s->list = calloc(json_object_size(root) + 1, sizeof *s->list);
    AX_CHECK(s->list, AX_ENOMEM, "%s: no memory for %zu tensors", s->path, json_object_size(root));
    const char *key;
    json_t *entry;
    json_object_foreach(root, key, entry)
    {
        if (strcmp(key, "__metadata__") == 0) {
            AX_TRY(check_metadata(s->path, entry));
            continue;
        }
        ax_st_tensor *t = &s->list[s->count];
        t->name = strdup(key);
        AX_CHECK(t->name, AX_ENOMEM, "%s: no memory for its tensors' names", s->path);
        s->count++;
        AX_TRY(read_entry(s->path, entry, buffer, t));
    }
    qsort(s->list, (size_t)s->count, sizeof *s->list, by_place);
    return check_cover(s, buffer);
}

static ax_status read_tensors(ax_safetensors *s)
{
    int64_t size = 0;
    char *text = NULL;
    size_t count = 0;
    AX_TRY(ax_disk_size(s->fd, s->path, &size));
    AX_TRY(read_header(s->path, s->fd, size, &text, &count));
    json_error_t error;
    json_t *root = json_loadb(text, count, JSON_REJECT_DUPLICATES, &error);
    int64_t data = PREFIX + (int64_t)count;
    ax_status st =
        root ? read_entries(s, root, size - data) : fail_json(s->path, text, count, &error);
    json_decref(root);
    free(text);
    for (int i = 0; i < s->count; i++) {
        s->list[i].begin += data;
        s->list[i].end += data;
    }
    return st;
}

ax_status ax_safetensors_open(const char *path, ax_safetensors *out)
{
    ax_safetensors s = {.fd = -1, .path = strdup(path)};
    AX_CHECK(s.path, AX_ENOMEM, "%s: no memory for its name", path);
    ax_status st = ax_disk_open(path, O_RDONLY, &s.fd);
    if (st == AX_OK)
        st = read_tensors(&s);
    if (st != AX_OK) {
        ax_safetensors_close(&s);
        return st;
    }
    *out = s;
    return AX_OK;
}

void ax_safetensors_close(ax_safetensors *s)
{
    if (!s->path)
        return;
    if (s->fd >= 0)
        ax_disk_close(s->fd, s->path);
    for (int i = 0; i < s->count; i++)
        free((char *)s->list[i].name);
    free(s->list);
    free(s->path);
    *s = (ax_safetensors){0};
}

const ax_st_tensor *ax_safetensors_find(const ax_safetensors *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->list[i].name, name) == 0)
            return &s->list[i];
    return NULL;
}

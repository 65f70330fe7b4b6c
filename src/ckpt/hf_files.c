#include "ckpt/hf_files.h"

#include "ckpt/disk.h"
#include "ckpt/hf.h"
#include "ckpt/hf_floats.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_FILES = 4096 };

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ax_hf_tensor *)a)->t->name, ((const ax_hf_tensor *)b)->t->name);
}

const ax_hf_tensor *ax_hf_files_find(const ax_hf_files *f, const char *name)
{
    ax_st_tensor key = {.name = name};
    ax_hf_tensor wanted = {.t = &key};
    return f->count ? bsearch(&wanted, f->list, (size_t)f->count, sizeof *f->list, by_name) : NULL;
}

static ax_status list_tensors(ax_hf_files *f)
{
    size_t total = 0;
    for (int i = 0; i < f->files; i++)
        total += (size_t)f->file[i].count;
    f->list = calloc(total + 1, sizeof *f->list);
    AX_CHECK(f->list, AX_ENOMEM, "%s: no memory for %zu tensors", f->where, total);
    for (int i = 0; i < f->files; i++)
        for (int k = 0; k < f->file[i].count; k++)
            f->list[f->count++] = (ax_hf_tensor){&f->file[i].list[k], &f->file[i]};
    qsort(f->list, (size_t)f->count, sizeof *f->list, by_name);
    for (int i = 1; i < f->count; i++)
        AX_CHECK(by_name(&f->list[i - 1], &f->list[i]) != 0, AX_EFORMAT,
                 "%s: tensor '%s' is in %s, too", f->list[i].file->path, f->list[i].t->name,
                 f->list[i - 1].file->path);
    return AX_OK;
}

// ---- the index

// A name that leads nowhere else: what an index says must lie beside it.
static bool is_plain(const char *name)
{
    return *name && !strchr(name, '/') && !strchr(name, '\\') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static const ax_safetensors *find_file(const ax_hf_files *f, const char *dir, const char *name)
{
    size_t n = strlen(dir) + 1;
    for (int i = 0; i < f->files; i++)
        if (strcmp(f->file[i].path + n, name) == 0)
            return &f->file[i];
    return NULL;
}

static ax_status open_file(ax_hf_files *f, const char *dir, const char *name)
{
    char path[AX_PATH_MAX];
    AX_TRY(ax_disk_join(path, dir, name));
    AX_TRY(ax_safetensors_open(path, &f->file[f->files]));
    f->files++;
    return AX_OK;
}

static ax_status open_listed(ax_hf_files *f, const char *dir, const json_t *map)
{
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)map, tensor, value)
    {
        const char *name = json_string_value(value);
        AX_CHECK(name, AX_EFORMAT, "%s: the file of tensor '%s' is not a string", f->where, tensor);
        AX_CHECK(is_plain(name), AX_EFORMAT,
                 "%s: tensor '%s' is in '%s', which is no plain file name; files must lie beside "
                 "the index",
                 f->where, tensor, name);
        if (find_file(f, dir, name))
            continue;
        AX_CHECK(f->files < MOST_FILES, AX_EFORMAT, "%s: names more than %d files", f->where,
                 MOST_FILES);
        AX_TRY(open_file(f, dir, name));
    }
    return AX_OK;
}

// Both ways: what the index names is there, and what is there the index names.
static ax_status check_listed(const ax_hf_files *f, const char *dir, const json_t *map)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)map, name, value)
    {
        const ax_hf_tensor *t = ax_hf_files_find(f, name);
        const ax_safetensors *file = find_file(f, dir, json_string_value(value));
        AX_CHECK(t && t->file == file, AX_EFORMAT,
                 "%s: tensor '%s' is missing: the index says that it is there", file->path, name);
    }
    for (int i = 0; i < f->count; i++)
        AX_CHECK(json_object_get(map, f->list[i].t->name), AX_EFORMAT,
                 "%s: tensor '%s' does not stand in the index", f->list[i].file->path,
                 f->list[i].t->name);
    return AX_OK;
}

static ax_status open_index(ax_hf_files *f, const char *dir, const json_t *root)
{
    const json_t *map = json_object_get(root, "weight_map");
    AX_CHECK(json_is_object(map) && json_object_size(map) > 0, AX_EFORMAT,
             "%s: has no weight_map from tensors to files", f->where);
    size_t room = json_object_size(map);
    f->file = calloc(room < MOST_FILES ? room : MOST_FILES, sizeof *f->file);
    AX_CHECK(f->file, AX_ENOMEM, "%s: no memory for its files", f->where);
    AX_TRY(open_listed(f, dir, map));
    AX_TRY(list_tensors(f));
    return check_listed(f, dir, map);
}

static ax_status read_index(ax_hf_files *f, const char *dir)
{
    json_error_t error;
    json_t *root = json_load_file(f->where, JSON_REJECT_DUPLICATES, &error);
    AX_CHECK(root, AX_EFORMAT, "%s:%d: not valid: %s", f->where, error.line, error.text);
    ax_status st = open_index(f, dir, root);
    json_decref(root);
    return st;
}

// ---- the directory

static ax_status open_one(ax_hf_files *f, const char *dir)
{
    f->file = calloc(1, sizeof *f->file);
    AX_CHECK(f->file, AX_ENOMEM, "%s: no memory for a file", dir);
    AX_TRY(open_file(f, dir, "model.safetensors"));
    return list_tensors(f);
}

static ax_status open_any(ax_hf_files *f, const char *dir)
{
    char one[AX_PATH_MAX], index[AX_PATH_MAX];
    AX_TRY(ax_disk_join(one, dir, "model.safetensors"));
    AX_TRY(ax_disk_join(index, dir, "model.safetensors.index.json"));
    bool single = access(one, F_OK) == 0;
    AX_CHECK(single || access(index, F_OK) == 0, AX_EIO,
             "%s: has neither model.safetensors nor model.safetensors.index.json; other weights "
             "(pytorch_model.bin) must be saved as safetensors first",
             dir);
    f->where = strdup(single ? one : index);
    AX_CHECK(f->where, AX_ENOMEM, "%s: no memory for its name", dir);
    return single ? open_one(f, dir) : read_index(f, dir);
}

ax_status ax_hf_files_open(const char *dir, ax_hf_files *out)
{
    ax_hf_files f = {0};
    ax_status st = open_any(&f, dir);
    if (st != AX_OK) {
        ax_hf_files_close(&f);
        return st;
    }
    *out = f;
    return AX_OK;
}

void ax_hf_files_close(ax_hf_files *f)
{
    for (int i = 0; i < f->files; i++)
        ax_safetensors_close(&f->file[i]);
    free(f->file);
    free(f->list);
    free(f->where);
    *f = (ax_hf_files){0};
}

// The dtype that holds the values of both; F32 holds those of any, but for F64.
static ax_st_dtype wider(ax_st_dtype a, ax_st_dtype b)
{
    return a == b ? a : AX_ST_F32;
}

ax_status ax_hf_read_dtype(const char *dir, ax_st_dtype *out)
{
    ax_hf_files f;
    ax_st_dtype dtype = AX_ST_DTYPES;
    AX_TRY(ax_hf_files_open(dir, &f));
    for (int i = 0; i < f.count; i++) {
        ax_st_dtype own = f.list[i].t->dtype;
        if (ax_floats_known(own))
            dtype = dtype == AX_ST_DTYPES ? own : wider(dtype, own);
    }
    ax_hf_files_close(&f);
    *out = dtype == AX_ST_F16 || dtype == AX_ST_BF16 ? dtype : AX_ST_F32;
    return AX_OK;
}

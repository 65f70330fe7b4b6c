// What a manifest holds, and writing it.
#include "ckpt/manifest.h"

#include "base/text.h"
#include "ckpt/disk.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void ax_manifest_fini(ax_manifest *m)
{
    ax_ckpt_info_fini(&m->info);
    for (int i = 0; i < m->files; i++)
        free(m->file[i].tensor);
    *m = (ax_manifest){0};
}

const ax_manifest_file *ax_manifest_find(const ax_manifest *m, const char *name)
{
    for (int i = 0; i < m->files; i++)
        if (strcmp(m->file[i].name, name) == 0)
            return &m->file[i];
    return NULL;
}

static int by_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const ax_manifest_tensor *)tensor)->name);
}

const ax_manifest_tensor *ax_manifest_tensor_find(const ax_manifest_file *f, const char *name)
{
    if (!f->tensors)
        return NULL;
    return bsearch(name, f->tensor, (size_t)f->tensors, sizeof *f->tensor, by_name);
}

ax_status ax_manifest_check_state(const char *state)
{
    json_error_t error;
    json_t *root = state ? json_loads(state, JSON_REJECT_DUPLICATES, &error) : NULL;
    bool object = json_is_object(root);
    json_decref(root);
    AX_CHECK(!state || object, AX_EUSAGE, "the state of a checkpoint is no JSON object%s%s",
             root ? "" : ": ", root ? "" : error.text);
    return AX_OK;
}

// ---- writing

static void print_tensors(const ax_manifest_file *f, ax_text *json)
{
    for (int i = 0; i < f->tensors; i++) {
        ax_text_add(json, "%s\n      ", i ? "," : "");
        ax_text_add_json(json, f->tensor[i].name);
        ax_text_add(json, ": \"%016llx\"", (unsigned long long)f->tensor[i].sum);
    }
}

static void print_files(const ax_manifest *m, ax_text *json)
{
    ax_text_add(json, "  \"files\": [");
    for (int i = 0; i < m->files; i++) {
        const ax_manifest_file *f = &m->file[i];
        ax_text_add(json, "%s\n    {\"name\": ", i ? "," : "");
        ax_text_add_json(json, f->name);
        ax_text_add(json, ", \"bytes\": %lld, \"header\": \"%016llx\", \"tensors\": {",
                    (long long)f->bytes, (unsigned long long)f->header);
        print_tensors(f, json);
        ax_text_add(json, "\n    }}");
    }
    ax_text_add(json, "\n  ],\n");
}

static void print(const ax_manifest *m, ax_text *json)
{
    const ax_ckpt_info *info = &m->info;
    ax_text_add(json, "{\n  \"format\": %d,\n  \"step\": %lld,\n", AX_MANIFEST_FORMAT,
                (long long)info->step);
    ax_text_add(json, "  \"updates\": %lld,\n  \"tokens\": %lld,\n", (long long)info->updates,
                (long long)info->tokens);
    ax_text_add(json, "  \"dtype\": \"%s\",\n", ax_dtype_name(info->dtype));
    print_files(m, json);
    if (info->state)
        ax_text_add(json, "  \"state\": %s,\n", info->state);
    ax_text_add(json, "  \"config\": ");
    ax_text_add_json(json, info->config ? info->config : "");
    if (!json->failed)
        ax_text_add(json, AX_MANIFEST_SEAL,
                    (unsigned long long)ax_checksum_text(json->text, json->length));
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
    bool fits = !json.failed && json.length <= AX_MANIFEST_MAX;
    ax_status st = fits ? write_text(path, &json)
                        : ax_fail(json.failed ? AX_ENOMEM : AX_EUSAGE, __FILE__, __LINE__,
                                  "%s: its text does not fit into %s", path,
                                  json.failed ? "memory" : "16 MiB");
    ax_text_fini(&json);
    return st;
}

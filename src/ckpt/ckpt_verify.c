// Every byte against its checksum, a tensor at a time through one buffer.
#include "ckpt/ckpt.h"
#include "ckpt/disk.h"
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"

#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGE = 1 << 20 }; // bytes read at once

typedef struct verify {
    ax_ckpt_verdict found;
    const char *dir;
    ax_manifest manifest;
    int room; // of the list of faults
    char *stage;
} verify;

static ax_status add_fault(verify *v, const char *file, const char *tensor, const char *why)
{
    ax_ckpt_verdict *f = &v->found;
    if (f->faults == v->room) {
        v->room = v->room ? v->room * 2 : 16;
        ax_ckpt_fault *more = realloc(f->fault, (size_t)v->room * sizeof *more);
        AX_CHECK(more, AX_ENOMEM, "no memory for a list of %d faults", v->room);
        f->fault = more;
    }
    ax_ckpt_fault *to = &f->fault[f->faults++];
    snprintf(to->file, sizeof to->file, "%s", file);
    snprintf(to->tensor, sizeof to->tensor, "%s", tensor);
    snprintf(to->why, sizeof to->why, "%s", why);
    return AX_OK;
}

// The last failure as a fault: its message without the path that it begins with. Too little memory
// is no fault of the file, and ends the reading.
static ax_status take_failure(verify *v, ax_status st, const char *file, const char *tensor)
{
    if (st == AX_ENOMEM)
        return st;
    const char *why = ax_error_text();
    size_t dir = strlen(v->dir), name = strlen(file);
    if (strncmp(why, v->dir, dir) == 0 && why[dir] == '/' &&
        strncmp(why + dir + 1, file, name) == 0) {
        why += dir + 1 + name;
        why += strspn(why, ": ");
    }
    return add_fault(v, file, tensor, why);
}

static ax_status sum_tensor(verify *v, const ax_safetensors *file, const ax_st_tensor *t,
                            size_t size, uint64_t *sum)
{
    int64_t place = 0;
    *sum = 0;
    for (int64_t at = t->begin; at < t->end;) {
        int64_t n = t->end - at < STAGE ? t->end - at : STAGE;
        AX_TRY(ax_disk_read(file->fd, file->path, v->stage, (size_t)n, at));
        *sum += ax_checksum_elements(v->stage, size, n / (int64_t)size, place);
        place += n / (int64_t)size;
        at += n;
    }
    return AX_OK;
}

static ax_status check_tensor(verify *v, const ax_manifest_file *f, const ax_safetensors *file,
                              const ax_st_tensor *t)
{
    uint64_t sum = 0;
    const ax_manifest_tensor *listed = ax_manifest_tensor_find(f, t->name);
    if (v->manifest.format > 1 && !listed)
        return add_fault(v, f->name, t->name, "the manifest does not list it");
    if (t->dtype != AX_ST_F32 && t->dtype != AX_ST_F64)
        return add_fault(v, f->name, t->name, "its dtype is neither F32 nor F64");
    ax_status st = sum_tensor(v, file, t, t->dtype == AX_ST_F32 ? 4 : 8, &sum);
    if (st != AX_OK)
        return take_failure(v, st, f->name, t->name);
    v->found.tensors++;
    v->found.bytes += t->end - t->begin;
    if (!listed)
        v->found.unsummed++;
    else if (listed->sum != sum)
        return add_fault(v, f->name, t->name, "its bytes do not give its checksum");
    return AX_OK;
}

static ax_status check_tensors(verify *v, const ax_manifest_file *f, const ax_safetensors *file)
{
    v->found.bytes += file->count ? file->list[0].begin : f->bytes;
    for (int i = 0; i < file->count; i++)
        AX_TRY(check_tensor(v, f, file, &file->list[i]));
    for (int i = 0; i < f->tensors; i++)
        if (!ax_safetensors_find(file, f->tensor[i].name))
            AX_TRY(add_fault(v, f->name, f->tensor[i].name, "missing"));
    return AX_OK;
}

static ax_status check_file(verify *v, const ax_manifest_file *f)
{
    char path[AX_PATH_MAX];
    ax_safetensors file;
    AX_TRY(ax_disk_join(path, v->dir, f->name));
    ax_status st = ax_manifest_check_size(f, v->dir);
    if (st == AX_OK)
        st = ax_manifest_check_header(&v->manifest, f, v->dir);
    if (st == AX_OK)
        st = ax_safetensors_open(path, &file);
    if (st != AX_OK)
        return take_failure(v, st, f->name, "");
    st = check_tensors(v, f, &file);
    ax_safetensors_close(&file);
    return st;
}

// A directory that was renamed, or copied over another, passes for a step that it does not hold.
static ax_status check_name(verify *v)
{
    char why[160], name[64];
    int64_t named, step = v->manifest.info.step;
    size_t end = strlen(v->dir), start;
    while (end > 0 && v->dir[end - 1] == '/')
        end--;
    for (start = end; start > 0 && v->dir[start - 1] != '/';)
        start--;
    snprintf(name, sizeof name, "%.*s", (int)(end - start), v->dir + start);
    if (!ax_ckpt_name_step(name, &named) || named == step)
        return AX_OK;
    snprintf(why, sizeof why, "it is of step %lld, but the directory is named after step %lld",
             (long long)step, (long long)named);
    return add_fault(v, AX_MANIFEST_NAME, "", why);
}

static ax_status check_all(verify *v)
{
    ax_status st = ax_manifest_read(v->dir, &v->manifest);
    if (st != AX_OK)
        return take_failure(v, st, AX_MANIFEST_NAME, "");
    AX_TRY(check_name(v));
    v->stage = malloc(STAGE);
    AX_CHECK(v->stage, AX_ENOMEM, "no memory to read a checkpoint with");
    for (int i = 0; i < v->manifest.files; i++)
        AX_TRY(check_file(v, &v->manifest.file[i]));
    return AX_OK;
}

ax_status ax_ckpt_verify(const char *dir, ax_ckpt_verdict *out)
{
    verify v = {.dir = dir};
    DIR *d = opendir(dir);
    AX_CHECK(d, AX_EIO, "%s: cannot read the directory: %s", dir, strerror(errno));
    closedir(d);
    // What is at fault is told by the verdict, and not as it is met.
    ax_log_config log = ax_log_current(), muted = log;
    muted.muted = true;
    ax_log_setup(muted);
    ax_status st = check_all(&v);
    ax_log_setup(log);
    free(v.stage);
    ax_manifest_fini(&v.manifest);
    if (st == AX_OK) {
        *out = v.found;
        return AX_OK;
    }
    char why[1024];
    snprintf(why, sizeof why, "%s", ax_error_text());
    ax_ckpt_verdict_fini(&v.found);
    AX_FAIL(st, "%s: not verified: %s", dir, why);
}

void ax_ckpt_verdict_fini(ax_ckpt_verdict *v)
{
    free(v->fault);
    *v = (ax_ckpt_verdict){0};
}

// Saving. Rank 0 makes the files, all ranks write into them, from their parameters or from a
// snapshot of them, and rank 0 names them.
#include "ckpt/ckpt.h"
#include "ckpt/companions.h"
#include "ckpt/content.h"
#include "ckpt/manifest.h"
#include "ckpt/place.h"
#include "ckpt/runs.h"

#include "base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ax_ckpt_saving {
    const ax_params *ps;
    ax_comm *world;
    ax_device *dev;        // NULL: written from the copy
    const ax_device *home; // the rank's
    const ax_tensor *copy; // the snapshot's
    ax_ckpt_info info;     // rank 0's, with its own texts
    ax_place place;
    bool made; // by this rank: place.tmp
    ax_content content[AX_CONTENT_FILES];
    uint64_t header[AX_CONTENT_FILES], *sum[AX_CONTENT_FILES]; // checksums: of this rank, then all
    int64_t bytes[AX_CONTENT_FILES];
    int files; // 1: no moments

    pthread_t thread;
    bool started;
    atomic_bool idle;
    ax_log_config log; // of the thread
    ax_status st;      // of the writing
    char error[1024];  // the thread's message
};

// ---- the snapshot

static int files_of(const ax_params *ps)
{
    return ps->count && ps->list[0].m.data ? AX_CONTENT_FILES : 1;
}

// Where a tensor of a file stands in the snapshot.
static int copy_index(const ax_params *ps, ax_content_kind kind, int index)
{
    return kind == AX_CONTENT_MODEL ? index : ps->count + index;
}

static int copies_of(const ax_params *ps)
{
    return ps->count * (files_of(ps) == 1 ? 1 : 3);
}

// Replicas that are not written are not copied either.
ax_status ax_ckpt_snapshot_bind(ax_ckpt_snapshot *s, const ax_params *ps, ax_arena *arena)
{
    ax_ckpt_snapshot_fini(s);
    int count = copies_of(ps);
    s->tensor = calloc((size_t)count + 1, sizeof *s->tensor);
    AX_CHECK(s->tensor, AX_ENOMEM, "no memory for a list of %d tensors", count);
    s->count = count;
    for (int k = 0; k < files_of(ps); k++) {
        int each = k == AX_CONTENT_MODEL ? 1 : 2;
        for (int i = 0; i < ps->count * each; i++) {
            const ax_param *p = &ps->list[i / each];
            if (p->owner)
                AX_TRY(ax_tensor_alloc(arena, ps->acc, 1, p->part,
                                       &s->tensor[copy_index(ps, (ax_content_kind)k, i)]));
        }
    }
    return AX_OK;
}

void ax_ckpt_snapshot_fini(ax_ckpt_snapshot *s)
{
    free(s->tensor);
    *s = (ax_ckpt_snapshot){0};
}

static ax_status copy_file(const ax_ckpt_saving *s, ax_content_kind kind, ax_device *dev)
{
    const ax_content *c = &s->content[kind];
    for (int i = 0; i < c->count; i++) {
        ax_tensor to = s->copy[copy_index(s->ps, kind, i)];
        ax_tensor from = ax_content_tensor(s->ps, kind, i);
        if (to.data)
            AX_TRY(ax_device_copy(dev, to.data, from.data, ax_tensor_bytes(from)));
    }
    return AX_OK;
}

static ax_status fill_snapshot(const ax_ckpt_saving *s, ax_device *dev)
{
    for (int k = 0; k < s->files; k++)
        AX_TRY(copy_file(s, (ax_content_kind)k, dev));
    return ax_device_sync(dev);
}

// ---- phase 1: all is checked, rank 0 makes the files and their headers

static ax_status copy_text(const char *from, char **to)
{
    *to = from ? strdup(from) : NULL;
    AX_CHECK(!from || *to, AX_ENOMEM, "no memory for the texts of a checkpoint");
    return AX_OK;
}

static ax_status take_info(ax_ckpt_saving *s, const ax_ckpt_info *info)
{
    AX_TRY(ax_manifest_check_state(info->state));
    s->info = *info;
    s->info.dtype = s->ps->acc;
    s->info.config = s->info.state = NULL;
    AX_TRY(copy_text(info->config, &s->info.config));
    return copy_text(info->state, &s->info.state);
}

static ax_status lay_out(ax_ckpt_saving *s, ax_content_kind kind)
{
    ax_text json = {0};
    ax_content *c = &s->content[kind];
    AX_TRY(ax_content_init(c, s->ps, kind));
    s->sum[kind] = calloc((size_t)c->count + 1, sizeof *s->sum[kind]);
    AX_CHECK(s->sum[kind], AX_ENOMEM, "no memory for %d checksums", c->count);
    ax_status st = ax_safetensors_layout(c->list, c->count, &json);
    if (st == AX_OK) {
        s->header[kind] = ax_checksum_text(json.text, json.length);
        s->bytes[kind] = ax_safetensors_size(c->list, c->count, &json);
    }
    ax_text_fini(&json);
    return st;
}

static ax_status prepare(ax_ckpt_saving *s, const char *dir, const ax_ckpt_info *info,
                         const ax_ckpt_snapshot *snapshot)
{
    AX_TRY(ax_place_set(&s->place, dir));
    if (s->world->rank == 0)
        AX_TRY(take_info(s, info));
    for (int i = 0; i < s->ps->count; i++)
        AX_CHECK(s->ps->list[i].master.data, AX_EUSAGE,
                 "parameter %s has no master here: only a model opened for training can be saved",
                 s->ps->list[i].name);
    s->files = files_of(s->ps);
    if (snapshot) {
        AX_CHECK(snapshot->count == copies_of(s->ps), AX_EINTERNAL,
                 "the snapshot was bound for other parameters");
        s->copy = snapshot->tensor;
    }
    for (int k = 0; k < s->files; k++)
        AX_TRY(lay_out(s, (ax_content_kind)k));
    return AX_OK;
}

static ax_status create_files(ax_ckpt_saving *s)
{
    AX_TRY(ax_place_make(&s->place));
    s->made = true;
    for (int k = 0; k < s->files; k++) {
        char path[AX_PATH_MAX];
        AX_TRY(ax_disk_join(path, s->place.tmp, ax_content_file((ax_content_kind)k)));
        AX_TRY(ax_safetensors_create(path, s->content[k].list, s->content[k].count));
    }
    const char *companions = s->info.companions;
    return companions ? ax_companions_link(companions, s->place.tmp) : AX_OK;
}

static void close_save(ax_ckpt_saving *s)
{
    if (!s)
        return;
    for (int k = 0; k < AX_CONTENT_FILES; k++) {
        ax_content_fini(&s->content[k]);
        free(s->sum[k]);
    }
    ax_ckpt_info_fini(&s->info);
    free(s);
}

static ax_status open_save(const char *dir, const ax_ckpt_source *from, const ax_ckpt_info *info,
                           ax_ckpt_saving **out)
{
    ax_comm *world = from->grid->world;
    bool first = world->rank == 0;
    ax_ckpt_saving *s = calloc(1, sizeof *s);
    ax_status st = s ? AX_OK : ax_fail(AX_ENOMEM, __FILE__, __LINE__, "no memory for a save");
    if (s) {
        s->ps = from->params;
        s->world = world;
        s->home = from->dev;
        st = prepare(s, dir, info, from->snapshot);
    }
    st = ax_comm_agree(world, st);
    if (st == AX_OK)
        st = ax_comm_agree(world, first ? create_files(s) : AX_OK);
    if (st == AX_OK) {
        *out = s;
        return AX_OK;
    }
    if (s && s->made)
        ax_place_abandon(&s->place);
    close_save(s);
    return st;
}

// ---- phase 2, all ranks, none of which communicates: the tensors

static ax_tensor source(const ax_ckpt_saving *s, ax_content_kind kind, int index)
{
    return s->copy ? s->copy[copy_index(s->ps, kind, index)]
                   : ax_content_tensor(s->ps, kind, index);
}

static ax_status write_tensors(ax_ckpt_saving *s, ax_runs *runs, ax_content_kind kind)
{
    const ax_content *c = &s->content[kind];
    for (int i = 0; i < c->count; i++) {
        const ax_param *p = &s->ps->list[i / c->each];
        if (p->owner)
            AX_TRY(ax_runs_write(runs, p, source(s, kind, i), c->list[i].begin, &s->sum[kind][i]));
    }
    return AX_OK;
}

static ax_status write_file(ax_ckpt_saving *s, ax_content_kind kind)
{
    char path[AX_PATH_MAX];
    int fd = -1;
    ax_runs runs;
    AX_TRY(ax_disk_join(path, s->place.tmp, ax_content_file(kind)));
    AX_TRY(ax_disk_open(path, O_WRONLY, &fd));
    ax_status st = ax_runs_init(&runs, s->dev, fd, path);
    if (st == AX_OK) {
        st = write_tensors(s, &runs, kind);
        ax_runs_fini(&runs);
    }
    if (st == AX_OK)
        st = ax_disk_sync(fd, path);
    ax_status closed = ax_disk_close(fd, path);
    return st == AX_OK ? closed : st;
}

static ax_status write_files(ax_ckpt_saving *s)
{
    for (int k = 0; k < s->files; k++)
        AX_TRY(write_file(s, (ax_content_kind)k));
    return AX_OK;
}

// Says nothing itself: finish repeats the message where the program listens.
static void *write_thread(void *arg)
{
    ax_ckpt_saving *s = arg;
    s->log.muted = true;
    ax_log_setup(s->log);
    ax_device_unpin_thread(s->home); // else it takes its time from the team that trains
    s->st = write_files(s);
    if (s->st != AX_OK)
        snprintf(s->error, sizeof s->error, "%s", ax_error_text());
    atomic_store(&s->idle, true);
    return NULL;
}

// Signals are for the thread that trains.
static bool start_thread(ax_ckpt_saving *s)
{
    sigset_t all, before;
    sigfillset(&all);
    s->log = ax_log_current();
    pthread_sigmask(SIG_BLOCK, &all, &before);
    s->started = pthread_create(&s->thread, NULL, write_thread, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return s->started;
}

// From here on no rank waits for another: what fails is told by finish. Once the thread runs, st is
// its own.
static void start(ax_ckpt_saving *s, ax_device *dev)
{
    s->st = fill_snapshot(s, dev);
    if (s->st != AX_OK || start_thread(s))
        return;
    s->st =
        ax_fail(AX_ENOMEM, __FILE__, __LINE__, "no thread to be had that writes the checkpoint");
}

ax_status ax_ckpt_save_begin(const char *dir, const ax_ckpt_source *from, const ax_ckpt_info *info,
                             ax_ckpt_saving **out)
{
    *out = NULL;
    AX_TRY(open_save(dir, from, info, out));
    start(*out, from->dev);
    if (!(*out)->started)
        atomic_store(&(*out)->idle, true);
    return AX_OK;
}

bool ax_ckpt_save_idle(const ax_ckpt_saving *s)
{
    return atomic_load(&s->idle);
}

// ---- phase 3: the checksums of all, the manifest and the name

static ax_status list_file(const ax_ckpt_saving *s, ax_content_kind kind, ax_manifest *m)
{
    const ax_content *c = &s->content[kind];
    ax_manifest_file *f = &m->file[m->files++];
    *f = (ax_manifest_file){.bytes = s->bytes[kind], .header = s->header[kind]};
    snprintf(f->name, sizeof f->name, "%s", ax_content_file(kind));
    f->tensor = calloc((size_t)c->count + 1, sizeof *f->tensor);
    AX_CHECK(f->tensor, AX_ENOMEM, "no memory for a list of %d tensors", c->count);
    f->tensors = c->count;
    for (int i = 0; i < c->count; i++) {
        snprintf(f->tensor[i].name, sizeof f->tensor[i].name, "%s", c->list[i].name);
        f->tensor[i].sum = s->sum[kind][i];
    }
    return ax_manifest_check_size(f, s->place.tmp);
}

static ax_status write_manifest(ax_ckpt_saving *s)
{
    ax_manifest m = {.info = s->info};
    ax_status st = AX_OK;
    s->info = (ax_ckpt_info){0}; // the manifest's now
    for (int k = 0; st == AX_OK && k < s->files; k++)
        st = list_file(s, (ax_content_kind)k, &m);
    if (st == AX_OK)
        st = ax_manifest_write(s->place.tmp, &m);
    ax_manifest_fini(&m);
    return st;
}

static ax_status commit(ax_ckpt_saving *s)
{
    AX_TRY(write_manifest(s));
    AX_TRY(ax_disk_sync_dir(s->place.tmp));
    return ax_place_take(&s->place);
}

static ax_status add_checksums(ax_ckpt_saving *s)
{
    for (int k = 0; k < s->files; k++)
        AX_TRY(ax_checksum_sum(s->world, s->sum[k], s->content[k].count));
    return AX_OK;
}

static void join(ax_ckpt_saving *s)
{
    if (!s->started)
        return;
    pthread_join(s->thread, NULL);
    if (s->st != AX_OK)
        ax_fail(s->st, __FILE__, __LINE__, "%s", s->error);
}

ax_status ax_ckpt_save_finish(ax_ckpt_saving *s)
{
    ax_status st;
    if (!s)
        return AX_OK;
    join(s);
    AX_TRY_TO(done, ax_comm_agree(s->world, s->st));
    AX_TRY_TO(done, add_checksums(s));
    AX_TRY_TO(done, ax_comm_agree(s->world, s->made ? commit(s) : AX_OK));
done:
    if (st != AX_OK && s->made)
        ax_place_abandon(&s->place);
    close_save(s);
    return st;
}

// ---- in one

ax_status ax_ckpt_save(const char *dir, const ax_params *ps, const ax_grid *g, ax_device *dev,
                       const ax_ckpt_info *info)
{
    ax_ckpt_saving *s = NULL;
    AX_TRY(open_save(dir, &(ax_ckpt_source){ps, g, dev, NULL}, info, &s));
    s->dev = dev;
    s->st = ax_device_sync(dev);
    if (s->st == AX_OK)
        s->st = write_files(s);
    return ax_ckpt_save_finish(s);
}

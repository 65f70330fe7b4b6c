#include "train/convert.h"

#include "base/log.h"
#include "ckpt/ckpt.h"
#include "ckpt/disk.h"
#include "ckpt/hf.h"
#include "ckpt/manifest.h"
#include "comm/comm.h"
#include "nn/shape.h"
#include "train/config_yaml.h"
#include "train/init_hf.h"
#include "train/job.h"
#include "train/keep_companions.h"
#include "train/lock.h"
#include "train/ranks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct convert {
    ax_run_config *config;
    bool from_hf, to_hf;
    char source[4096]; // the directory of tensors: behind a run's `latest`
    char origin[4096]; // where the model's other files lie; "": nowhere
    char came_as[8];   // convert.dtype that gives a converted model back as it was; "": not known
    char to[AX_PATH_MAX], parent[AX_PATH_MAX], tmp[AX_PATH_MAX];
    ax_hf_config hf;
    char eos[16]; // where the model names no ends of its own: the tokenizer's
    ax_st_dtype dtype;
    ax_grid_shape grid;
    ax_layout layout;
    int ranks;
    ax_lock lock; // rank 0
    bool made;    // rank 0: `tmp` is there, by us
} convert;

// ---- the source

static bool has_file(const char *dir, const char *name)
{
    char path[AX_PATH_MAX];
    return ax_disk_join(path, dir, name) == AX_OK && access(path, F_OK) == 0;
}

// A checkpoint's model; where its other files lie is in the same text.
static ax_status take_key(void *ctx, const char *key, const char *value, const char *where)
{
    convert *v = ctx;
    ax_options *o = &v->config->options;
    if (strcmp(key, "model.init") == 0 && !v->origin[0] && has_file(value, "config.json"))
        snprintf(v->origin, sizeof v->origin, "%s", value);
    if (strcmp(key, "convert.dtype") == 0 && strcmp(value, "source") != 0)
        snprintf(v->came_as, sizeof v->came_as, "%s", value);
    bool model = strncmp(key, "model.", 6) == 0 && strcmp(key, "model.init") != 0 &&
                 strcmp(key, "model.preset") != 0;
    if ((!model && strcmp(key, "data.tokenizer") != 0) || !ax_options_find(o, key))
        return AX_OK;
    AX_CHECK(!ax_options_is_set(o, key), AX_EUSAGE,
             "%s: the model in %s has its own: leave the key out", key, where);
    return ax_options_set(o, key, value, where);
}

static ax_status read_checkpoint(convert *v)
{
    ax_ckpt_info info;
    AX_TRY(ax_ckpt_read_info(v->source, &info));
    if (has_file(v->source, "config.json"))
        snprintf(v->origin, sizeof v->origin, "%s", v->source);
    ax_status st = ax_config_yaml_parse(info.config, strlen(info.config), v->source, take_key, v);
    if (info.updates > 0) // trained, it no longer fits what it was read from
        v->came_as[0] = 0;
    ax_ckpt_info_fini(&info);
    return st;
}

// Other programs know the end of a text from config.json alone.
static ax_status name_end(convert *v)
{
    ax_run_config *c = v->config;
    const char *name = ax_companion_tokenizer(v->source, c->data.tokenizer);
    ax_tokenizer *t;
    bool there = strcmp(name, "byte") == 0 || access(name, R_OK) == 0;
    if (v->from_hf || !v->to_hf || (c->arch.eos && *c->arch.eos) || !there)
        return AX_OK;
    AX_TRY(ax_tokenizer_open(name, &t));
    int32_t end = ax_tokenizer_eod(t);
    ax_tokenizer_close(t);
    if (end >= 0 && end < c->arch.vocab) {
        snprintf(v->eos, sizeof v->eos, "%d", end);
        c->arch.eos = v->eos;
    }
    return AX_OK;
}

static ax_status choose_target(convert *v)
{
    const ax_run_config *c = v->config;
    const ax_options *o = &c->options;
    bool elements = ax_options_is_set(o, "convert.dtype"),
         shards = ax_options_is_set(o, "convert.shard_bytes");
    v->to_hf = c->convert.to == AX_CONFIG_TO_HF ||
               (c->convert.to == AX_CONFIG_TO_OTHER && (!v->from_hf || elements || shards));
    if (v->to_hf)
        return AX_OK;
    AX_CHECK(v->from_hf, AX_EUSAGE, "convert.to=checkpoint: %s is one already", v->source);
    AX_CHECK(c->convert.dtype == AX_CONFIG_AS_SOURCE || c->convert.dtype == AX_CONFIG_TO_FP32,
             AX_EUSAGE, "convert.dtype: a checkpoint holds fp32; leave the key out");
    AX_CHECK(!shards, AX_EUSAGE,
             "convert.shard_bytes: the weights of a checkpoint are one file; leave the key out");
    return AX_OK;
}

static const struct {
    const char *name;
    ax_st_dtype dtype;
} dtypes[] = {{"fp32", AX_ST_F32}, {"fp16", AX_ST_F16}, {"bf16", AX_ST_BF16}};

// What the elements were goes with a checkpoint, as a setting: back they go without a loss.
static ax_status choose_dtype(convert *v)
{
    int64_t *wish = &v->config->convert.dtype;
    const char *name = *wish == AX_CONFIG_AS_SOURCE ? v->came_as : "";
    ax_st_dtype source = AX_ST_F32;
    if (v->from_hf)
        AX_TRY(ax_hf_read_dtype(v->source, &source));
    v->dtype = *wish == AX_CONFIG_AS_SOURCE ? source : dtypes[*wish - AX_CONFIG_TO_FP32].dtype;
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, dtypes[i].name) == 0)
            v->dtype = dtypes[i].dtype;
        if (!v->to_hf && source == dtypes[i].dtype)
            *wish = AX_CONFIG_TO_FP32 + i;
    }
    if (!v->to_hf)
        v->dtype = AX_ST_F32;
    return AX_OK;
}

static ax_status read_source(convert *v, const char *from)
{
    ax_run_config *c = v->config;
    AX_CHECK(access(from, F_OK) == 0, AX_EUSAGE, "%s: %s", from, strerror(errno));
    AX_TRY(ax_job_checkpoint(from, v->source, sizeof v->source));
    v->from_hf = ax_hf_is(v->source);
    AX_CHECK(v->from_hf || has_file(v->source, AX_MANIFEST_NAME), AX_EUSAGE,
             "%s: no model is there: neither config.json of a Hugging Face directory, nor %s of a "
             "checkpoint, nor `latest` of a run",
             v->source, AX_MANIFEST_NAME);
    if (v->from_hf) {
        snprintf(v->origin, sizeof v->origin, "%s", v->source);
        AX_TRY(ax_init_hf(v->source, c, &v->hf));
    } else {
        AX_TRY(read_checkpoint(v));
    }
    AX_TRY(ax_arch_check(&c->arch));
    AX_TRY(choose_target(v));
    AX_TRY(name_end(v));
    return choose_dtype(v);
}

// ---- the target

static ax_status set_places(convert *v, const char *to)
{
    size_t n = strlen(to);
    while (n > 1 && to[n - 1] == '/')
        n--;
    AX_CHECK(n > 0 && n + 64 < sizeof v->to, AX_EUSAGE, "'%.60s' cannot be the path of a model",
             to);
    snprintf(v->to, sizeof v->to, "%.*s", (int)n, to);
    const char *slash = strrchr(v->to, '/'), *base = slash ? slash + 1 : v->to;
    AX_CHECK(*base && strcmp(base, ".") != 0 && strcmp(base, "..") != 0, AX_EUSAGE,
             "'%s' cannot be the path of a model", to);
    snprintf(v->parent, sizeof v->parent, "%.*s", slash ? (int)(slash - v->to) : 1,
             slash ? v->to : ".");
    if (slash == v->to)
        snprintf(v->parent, sizeof v->parent, "/");
    char name[AX_PATH_MAX];
    snprintf(name, sizeof name, ".tmp-%.4000s", base);
    return ax_disk_join(v->tmp, v->parent, name);
}

static bool is_our_file(const char *name)
{
    static const char *const ends[] = {".safetensors", ".json", ".txt", ".model", ".jinja"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t k = strlen(ends[i]);
        if (n > k && strcmp(name + n - k, ends[i]) == 0)
            return true;
    }
    return false;
}

// A directory that holds only what a conversion writes; any other stays as it is.
static void remove_ours(const char *dir)
{
    DIR *d = opendir(dir);
    bool ours = d != NULL;
    for (const struct dirent *e; ours && (e = readdir(d));)
        ours =
            is_our_file(e->d_name) || strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    if (ours)
        rewinddir(d);
    for (const struct dirent *e; ours && (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    if (ours)
        rmdir(dir);
}

// Nobody else writes there: the lock is ours. A checkpoint has a temporary name of its own inside.
static ax_status remove_stale(const convert *v)
{
    struct stat there;
    char inner[AX_PATH_MAX], name[AX_PATH_MAX];
    snprintf(name, sizeof name, ".tmp-%.4000s", strrchr(v->tmp, '/') + 1);
    AX_TRY(ax_disk_join(inner, v->parent, name));
    const char *const left[] = {v->tmp, inner};
    for (int i = 0; i < 2; i++) {
        if (lstat(left[i], &there) != 0)
            continue;
        remove_ours(left[i]);
        AX_CHECK(lstat(left[i], &there) != 0, AX_EUSAGE,
                 "%s: is in the way, and not all of it is a conversion's; move it away", left[i]);
        ax_log(AX_LOG_WARN, "convert", "%s: removed what a killed conversion left", left[i]);
    }
    return AX_OK;
}

static ax_status claim_target(convert *v)
{
    struct stat there;
    char path[AX_PATH_MAX], name[AX_PATH_MAX];
    const char *slash = strrchr(v->to, '/');
    AX_CHECK(lstat(v->to, &there) != 0, AX_EUSAGE, "%s: exists; convert to a new name", v->to);
    AX_CHECK(stat(v->parent, &there) == 0 && S_ISDIR(there.st_mode), AX_EUSAGE,
             "%s: there is no directory %s to put it into", v->to, v->parent);
    snprintf(name, sizeof name, ".%.4000s.lock", slash ? slash + 1 : v->to);
    AX_TRY(ax_disk_join(path, v->parent, name));
    AX_TRY(ax_lock_take(path, v->to, &v->lock));
    // Whoever held the lock until now may have finished it.
    AX_CHECK(lstat(v->to, &there) != 0, AX_EUSAGE, "%s: exists; convert to a new name", v->to);
    return remove_stale(v);
}

static ax_status take_name(const convert *v)
{
    struct stat there;
    AX_TRY(ax_disk_sync_dir(v->tmp));
    int failed = renameat2(AT_FDCWD, v->tmp, AT_FDCWD, v->to, RENAME_NOREPLACE);
    if (failed && (errno == EINVAL || errno == ENOSYS)) // not on every file system
        failed = lstat(v->to, &there) == 0 || rename(v->tmp, v->to);
    AX_CHECK(!failed, AX_EIO, "%s: cannot give it its name: %s", v->to, strerror(errno));
    return ax_disk_sync_dir(v->parent);
}

// ---- one rank

typedef struct holder { // the weights of one rank
    ax_device dev;
    ax_grid grid;
    ax_params params;
    void *memory;
    size_t bytes;
} holder;

static ax_status hold(convert *v, ax_comm *world, holder *h)
{
    ax_params *ps = &h->params;
    AX_TRY(ax_device_open(&(ax_device_config){.name = "cpu", .threads = 1, .core = -1}, &h->dev));
    AX_TRY(ax_grid_open(world, v->grid, v->layout.kv_copies, &h->grid));
    AX_TRY(ax_shape_params(&v->config->arch, &v->layout, ps));
    ps->act = ps->acc = AX_F32;
    for (int i = 0; i < ps->count; i++)
        AX_TRY(ax_param_place(&ps->list[i], &h->grid));
    ax_arena a = ax_arena_measure("weights");
    AX_TRY(ax_params_bind(ps, &h->grid, &a, 0));
    h->bytes = a.peak;
    AX_TRY(ax_device_alloc(&h->dev, h->bytes, &h->memory));
    a = ax_arena_over("weights", h->memory, h->bytes);
    return ax_params_bind(ps, &h->grid, &a, 0);
}

static void let_go(holder *h)
{
    ax_params_fini(&h->params);
    if (h->memory)
        ax_device_free(&h->dev, h->memory, h->bytes);
    ax_grid_close(&h->grid);
    ax_device_close(&h->dev);
}

static ax_status save_checkpoint(convert *v, holder *h)
{
    ax_text yaml = {0};
    AX_TRY(ax_config_print(v->config, &yaml));
    ax_ckpt_info info = {.config = yaml.text};
    ax_status st = ax_ckpt_save(v->tmp, &h->params, &h->grid, &h->dev, &info);
    ax_text_fini(&yaml);
    return st;
}

static ax_status save_hf(convert *v, holder *h)
{
    ax_hf_export e = {.arch = &v->config->arch,
                      .dtype = v->dtype,
                      .shard_bytes = v->config->convert.shard_bytes,
                      .origin = v->origin[0] ? v->origin : NULL};
    return ax_hf_save(v->tmp, &e, &h->params, &h->grid, &h->dev);
}

static ax_status make_directory(convert *v)
{
    AX_CHECK(mkdir(v->tmp, 0777) == 0, AX_EIO, "%s: cannot make the directory: %s", v->tmp,
             strerror(errno));
    v->made = true;
    return AX_OK;
}

// Other programs cannot read the text of a model without. One that came with none is known so.
static void say_tokenizer(const convert *v)
{
    const char *name = v->config->data.tokenizer;
    if (!v->to_hf || v->origin[0] || ax_hf_has_tokenizer(v->tmp))
        return;
    if (strcmp(name, "byte") == 0)
        ax_log(AX_LOG_INFO, "convert",
               "%s gets no tokenizer: the model reads bytes, as ids 0 to 255, and 256 ends a text",
               v->to);
    else
        ax_log(AX_LOG_WARN, "convert", "%s gets no tokenizer: %s is not there any more", v->to,
               name);
}

// Where the tokenizer of a run lies elsewhere than its model's files, it comes from there.
static ax_status finish(const convert *v)
{
    const char *tokenizer = ax_companion_tokenizer(v->source, v->config->data.tokenizer);
    if (v->origin[0])
        AX_TRY(ax_hf_copy_companions(v->origin, v->tmp, !v->to_hf));
    if (!ax_hf_has_tokenizer(v->tmp) && ax_hf_has_tokenizer(tokenizer))
        AX_TRY(ax_hf_copy_companions(tokenizer, v->tmp, false));
    say_tokenizer(v);
    return take_name(v);
}

static ax_status transfer(convert *v, holder *h)
{
    ax_comm *world = h->grid.world;
    bool first = world->rank == 0;
    if (v->from_hf)
        AX_TRY(ax_hf_load(v->source, &v->hf, &h->params, &h->grid, &h->dev));
    else
        AX_TRY(ax_ckpt_load(v->source, &h->params, &h->grid, &h->dev, false));
    if (v->to_hf) {
        AX_TRY(ax_comm_agree(world, first ? make_directory(v) : AX_OK));
        AX_TRY(save_hf(v, h));
    } else {
        AX_TRY(save_checkpoint(v, h));
        if (first)
            v->made = true;
    }
    return ax_comm_agree(world, first ? finish(v) : AX_OK);
}

static ax_status convert_rank(void *ctx, ax_comm *world)
{
    convert *v = ctx;
    holder h = {0};
    bool first = world->rank == 0;
    ax_status st = ax_comm_agree(world, first ? claim_target(v) : AX_OK);
    if (st == AX_OK)
        st = ax_comm_agree(world, hold(v, world, &h));
    if (st == AX_OK)
        st = transfer(v, &h);
    if (st != AX_OK && first && v->made)
        remove_ours(v->tmp);
    if (first)
        ax_lock_release(&v->lock);
    ax_comm_end(world, st); // peers may be reading the weights still
    let_go(&h);
    return st;
}

// ---- all of it

// Cut over z, weights need no communication and fit any model.
static ax_status choose_grid(convert *v)
{
    const ax_run_config *c = v->config;
    bool automatic = strcmp(c->grid, "auto") == 0;
    if (!automatic)
        AX_TRY(ax_grid_parse(c->grid, &v->grid));
    if (v->ranks == 0)
        v->ranks = automatic ? 1 : ax_grid_ranks(&v->grid);
    if (automatic)
        v->grid = (ax_grid_shape){1, 1, v->ranks, 1, "xyzd"};
    AX_CHECK(ax_grid_ranks(&v->grid) == v->ranks, AX_EUSAGE,
             "grid %s has %d ranks, but %d were started", c->grid, ax_grid_ranks(&v->grid),
             v->ranks);
    int64_t columns = (int64_t)v->grid.z * v->grid.data;
    return ax_layout_choose(&c->arch, &v->grid, columns, 0, AX_ACT_AUTO, &v->layout);
}

static ax_status prepare(convert *v, const char *from, const char *to)
{
    AX_TRY(read_source(v, from));
    AX_TRY(set_places(v, to));
    return choose_grid(v);
}

typedef struct launched {
    convert *v;
    const char *from, *to;
} launched;

static ax_status launched_rank(void *ctx, ax_comm *world)
{
    launched *l = ctx;
    bool first = world->rank == 0;
    AX_TRY(ax_comm_agree(world, first ? prepare(l->v, l->from, l->to) : AX_OK));
    AX_TRY(ax_comm_agree(world, first ? AX_OK : prepare(l->v, l->from, l->to)));
    return convert_rank(l->v, world);
}

static ax_status run(convert *v, const char *from, const char *to)
{
    ax_launch launch = ax_comm_launch();
    int64_t wanted = v->config->ranks;
    v->ranks = (int)wanted;
    if (launch.launcher) {
        AX_CHECK(!wanted || wanted == launch.tasks, AX_EUSAGE,
                 "--ranks %lld, but %s started %d: leave --ranks out", (long long)wanted,
                 launch.launcher, launch.tasks);
        v->ranks = launch.tasks;
        return ax_ranks_run_mpi(launched_rank, &(launched){v, from, to});
    }
    AX_TRY(prepare(v, from, to));
    return ax_ranks_run(v->ranks, convert_rank, v);
}

ax_status ax_convert(ax_run_config *c, const char *from, const char *to, ax_convert_result *out)
{
    convert *v = calloc(1, sizeof *v);
    AX_CHECK(v, AX_ENOMEM, "no memory for a conversion");
    v->config = c;
    ax_status st = run(v, from, to);
    if (st == AX_OK)
        *out = (ax_convert_result){.dtype = ax_st_dtype_name(v->dtype),
                                   .parameters = ax_arch_parameters(&c->arch),
                                   .to_hf = v->to_hf};
    free(v);
    return st;
}

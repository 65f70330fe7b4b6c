#include "train/job.h"

#include "base/log.h"
#include "base/rng.h"
#include "ckpt/ckpt.h"
#include "train/config_yaml.h"
#include "train/init_hf.h"
#include "train/keep_companions.h"
#include "train/selftest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LOCAL_RANKS = 1024 };

// ---- model.init: the checkpoint that brings its own model ----

// The name in RUN/latest; "" where there is no such file, or no name of a neighbour in it.
static void read_latest(const char *run, char *name, size_t size)
{
    char latest[4200];
    snprintf(latest, sizeof latest, "%s/latest", run);
    FILE *f = fopen(latest, "r");
    if (!f || !fgets(name, (int)size, f))
        name[0] = '\0';
    if (f)
        fclose(f);
    name[strcspn(name, "\n")] = '\0';
    if (strchr(name, '/') || strcmp(name, "..") == 0)
        name[0] = '\0';
}

// Whether RUN/NAME is whole: the list knows its entries by name.
static bool is_whole(const ax_ckpt_list *list, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->entry[i].name, name) == 0)
            return list->entry[i].complete;
    return false;
}

ax_status ax_job_checkpoint(const char *path, char *dir, size_t size)
{
    char name[256] = "", newest[64];
    ax_ckpt_list list;
    AX_CHECK(strlen(path) + 300 < size, AX_EUSAGE, "model.init: the path is too long");
    AX_CHECK(access(path, F_OK) == 0, AX_EUSAGE, "model.init=%s: %s", path, strerror(errno));
    AX_TRY(ax_ckpt_list_read(path, &list));
    read_latest(path, name, sizeof name);
    bool whole = is_whole(&list, name);
    ax_ckpt_list_fini(&list);
    AX_TRY(ax_resume_newest(path, newest, sizeof newest));
    snprintf(dir, size, "%s%s%s", path, *name ? "/" : "", name);
    if (whole || !*newest)
        return AX_OK;
    if (ax_log_current().rank == 0)
        ax_log(AX_LOG_WARN, NULL, "%s/latest %s%s; taking %s, the newest that is whole", path,
               *name ? "names a broken checkpoint, " : "is missing or names nothing", name, newest);
    snprintf(dir, size, "%s/%s", path, newest);
    return AX_OK;
}

static bool is_of_rows(const char *key)
{
    static const char *const list[] = {
        "data.text_key", "data.prompt_key", "data.completion_key", "data.bos",           "data.eod",
        "data.literals", "data.packing",    "data.document_mask",  "data.valid_fraction"};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strcmp(key, list[i]) == 0)
            return true;
    return false;
}

// The model and the tokenizer are the checkpoint's; the user may repeat a key, not change it. Where
// the checkpoint has its tokenizer's files beside it, the path they once had is of no use.
static ax_status take_key(void *ctx, const char *key, const char *value, const char *where)
{
    ax_job *job = ctx;
    ax_run_config *c = job->config;
    char present[4096];
    bool tokenizer = strcmp(key, "data.tokenizer") == 0 && !ax_hf_has_tokenizer(job->init);
    bool ours = strncmp(key, "model.", 6) == 0 || tokenizer;
    bool shape = ours && strcmp(key, "model.init") != 0 && strcmp(key, "model.preset") != 0;
    // A model is scored on rows like those it learnt from, unless told otherwise.
    bool rows = job->inference && job->corpus_wanted && is_of_rows(key);
    if (rows && !ax_options_is_set(&c->options, key))
        return ax_options_set(&c->options, key, value, where);
    if (!shape)
        return AX_OK;
    if (!ax_options_is_set(&c->options, key))
        return ax_options_set(&c->options, key, value, where);
    AX_TRY(ax_options_get(&c->options, key, present, sizeof present));
    if (ax_config_yields(c, key))
        return ax_options_set(&c->options, key, value, where);
    AX_CHECK(strcmp(present, value) == 0, AX_EUSAGE,
             "%s=%s, but the checkpoint in model.init has %s: leave the key out", key, present,
             value);
    return AX_OK;
}

static ax_status read_hf(ax_job *job)
{
    ax_run_config *c = job->config;
    AX_TRY(ax_init_hf(job->init, c, &job->hf_config));
    if (!ax_options_is_set(&c->options, "data.tokenizer") && ax_log_current().rank == 0)
        ax_log(AX_LOG_INFO, "data", "%s has no tokenizer: text is read as bytes (data.tokenizer)",
               job->init);
    return AX_OK;
}

static ax_status read_init(ax_job *job)
{
    ax_run_config *c = job->config;
    ax_ckpt_info info;
    if (job->resume.found || strcmp(c->init, "random") == 0)
        return AX_OK; // where a run once began may be gone
    if (ax_config_yields(c, "model.preset"))
        AX_TRY(ax_options_set(&c->options, "model.preset", "", c->init));
    AX_CHECK(
        !*c->preset, AX_EUSAGE,
        "model.preset=%s beside model.init=%s: the checkpoint brings its own model; leave one out",
        c->preset, c->init);
    AX_TRY(ax_job_checkpoint(c->init, job->init, sizeof job->init));
    job->hf = ax_hf_is(job->init);
    if (job->hf)
        return read_hf(job);
    AX_TRY(ax_init_tokenizer(job->init, c));
    AX_TRY(ax_ckpt_read_info(job->init, &info));
    ax_status st = ax_config_yaml_parse(info.config, strlen(info.config), job->init, take_key, job);
    ax_ckpt_info_fini(&info);
    return st;
}

// ---- what the ranks share ----

static unsigned overlap_bits(const ax_train_options *o)
{
    static const struct {
        const char *name;
        unsigned bit;
    } point[] = {{"oag", AX_OAG}, {"rag", AX_RAG},    {"oar", AX_OAR},
                 {"ors", AX_ORS}, {"data", AX_ODATA}, {"update", AX_OUPDATE}};
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof point / sizeof point[0]; i++)
        if (ax_config_overlaps(o, point[i].name))
            bits |= point[i].bit;
    return bits;
}

static ax_status choose_dtype(const ax_run_config *c, const char *device, ax_dtype *act)
{
    int64_t wish = c->train.precision;
    if (strcmp(device, "ref") == 0) {
        AX_CHECK(wish == AX_CONFIG_AUTO_PRECISION, AX_EUSAGE,
                 "device=ref computes in double; leave train.precision out");
        *act = AX_F64;
        return AX_OK;
    }
    bool bf16 =
        wish == AX_CONFIG_BF16 || (wish == AX_CONFIG_AUTO_PRECISION && ax_device_has_bf16(device));
    *act = bf16 ? AX_BF16 : AX_F32;
    return AX_OK;
}

// In which dtype sums travel, once that of the activations is known.
static ax_status choose_sums(ax_job *job)
{
    const ax_run_config *c = job->config;
    ax_trainer_config *t = &job->trainer;
    t->narrow_grads = c->comm.gradients == AX_CONFIG_GRADIENTS_BF16;
    t->wide_sums = c->comm.activations == AX_CONFIG_SUMS_FP32;
    AX_CHECK(t->act != AX_F64 || (!t->narrow_grads && !t->wide_sums), AX_EUSAGE,
             "device=ref sums in double; leave comm.gradients and comm.activations out");
    bool asked = ax_options_is_set(&c->options, "comm.activations") && !job->resume.found;
    if (t->act == AX_F32 && !t->wide_sums && asked && ax_log_current().rank == 0)
        ax_log(AX_LOG_INFO, "train",
               "comm.activations=bf16: activations are fp32 here, and travel as such");
    return AX_OK;
}

static ax_status choose_grid(ax_job *job)
{
    const ax_run_config *c = job->config;
    ax_trainer_config *t = &job->trainer;
    if (strcmp(c->grid, "auto") != 0)
        AX_TRY(ax_grid_parse(c->grid, &t->grid));
    if (job->ranks == 0)
        job->ranks = strcmp(c->grid, "auto") == 0 ? 1 : ax_grid_ranks(&t->grid);
    AX_CHECK(job->launched || job->ranks <= MOST_LOCAL_RANKS, AX_EUSAGE,
             "grid %s: one process runs at most %d ranks; start more under mpirun or srun", c->grid,
             MOST_LOCAL_RANKS);
    if (strcmp(c->grid, "auto") == 0)
        return ax_layout_first_grid(&c->arch, job->ranks, t->batch, t->micro_batch, t->activations,
                                    &t->grid);
    AX_CHECK(ax_grid_ranks(&t->grid) == job->ranks, AX_EUSAGE,
             "grid %s has %d ranks, but %d were started: make the product of the axes %d", c->grid,
             ax_grid_ranks(&t->grid), job->ranks, job->ranks);
    return AX_OK;
}

// Any grid may score and generate: what the last sequences lack is padded.
static void fit_batch(ax_job *job, int64_t batch)
{
    int64_t ranks = job->ranks ? job->ranks : 1;
    ax_grid_shape g;
    if (!job->ranks && strcmp(job->config->grid, "auto") != 0 &&
        ax_grid_parse(job->config->grid, &g) == AX_OK)
        ranks = ax_grid_ranks(&g);
    job->trainer.batch = (batch + ranks - 1) / ranks * ranks;
    job->trainer.micro_batch = 0;
}

static ax_status resolve(ax_job *job)
{
    static const ax_activations held[] = {AX_ACT_AUTO, AX_ACT_SHARDED, AX_ACT_REPLICATED};
    static const ax_recompute again[] = {AX_RECOMPUTE_NONE, AX_RECOMPUTE_SELECTIVE,
                                         AX_RECOMPUTE_FULL};
    ax_run_config *c = job->config;
    const ax_train_options *o = &c->train;
    ax_trainer_config *t = &job->trainer;
    ax_layout layout;
    *t = (ax_trainer_config){.arch = &c->arch,
                             .batch = o->batch,
                             .micro_batch = o->micro_batch,
                             .activations = held[o->activations],
                             .threads = (int)o->threads,
                             .overlap = overlap_bits(o),
                             .recompute = again[o->recompute],
                             .keep_gathered = o->keep_gathered,
                             .document_mask = job->corpus_wanted && c->data.document_mask,
                             .inference = job->inference,
                             .cache = job->cache,
                             .snapshot =
                                 job->run_wanted && *o->out && o->save_every > 0 && o->save_async,
                             .trace = job->run_wanted ? o->trace : 0,
                             .skip_nonfinite = o->nonfinite == AX_CONFIG_SKIP,
                             .optim = {.beta1 = o->beta1,
                                       .beta2 = o->beta2,
                                       .eps = o->eps,
                                       .weight_decay = o->weight_decay,
                                       .clip = o->clip}};
    AX_CHECK(!t->trace || *o->out, AX_EUSAGE,
             "train.trace=%lld: the trace is written in the run directory; give train.out=DIR",
             (long long)o->trace);
    t->device = ax_config_device(c, &t->lazy);
    AX_CHECK(!job->run_wanted || !o->tune || strcmp(t->device, "ref") != 0, AX_EUSAGE,
             "device=ref knows one way to make a matrix product: leave train.tune off");
    AX_TRY(choose_dtype(c, t->device, &t->act));
    AX_TRY(choose_sums(job));
    if (job->inference)
        fit_batch(job, job->sequences ? job->sequences : t->batch);
    AX_TRY(choose_grid(job));
    int64_t columns = (int64_t)t->grid.z * t->grid.data;
    if (job->sequences)
        t->batch = (job->sequences + columns - 1) / columns * columns;
    return ax_layout_choose(&c->arch, &t->grid, t->batch, t->micro_batch, t->activations, &layout);
}

// A run that goes on has its own, and so has one that begins again when the files have gone.
static const char *tokenizer_name(ax_job *job)
{
    const char *name = job->config->data.tokenizer;
    if (job->resume.found)
        return ax_companion_tokenizer(job->resume.dir, name);
    bool gone = job->resume.restart && strcmp(name, "byte") != 0 && access(name, F_OK) != 0;
    const char *kept = gone ? ax_kept_companions(job->config->train.out, job->kept) : NULL;
    return kept ? kept : name;
}

static ax_status open_tokenizer(ax_job *job)
{
    ax_run_config *c = job->config;
    if (job->run_wanted)
        AX_TRY(ax_resume_adopt(&job->resume, job->resume_config, job->ranks, c));
    if (!job->ranks)
        job->ranks = (int)c->ranks;
    AX_TRY(ax_config_check(c));
    if (job->run_wanted)
        AX_TRY(ax_leave_init(&c->train, job->asked, job->started, &job->leave));
    AX_TRY(read_init(job));
    AX_TRY(ax_tokenizer_open(tokenizer_name(job), &job->tokenizer));
    int64_t vocab = ax_tokenizer_vocab(job->tokenizer);
    if (!c->arch.vocab)
        c->arch.vocab = vocab;
    AX_CHECK(c->arch.vocab >= vocab, AX_EUSAGE,
             "model.vocab=%lld is smaller than the %lld ids of data.tokenizer=%s",
             (long long)c->arch.vocab, (long long)vocab, c->data.tokenizer);
    return ax_arch_check(&c->arch);
}

// The steps that train.epochs comes to are a matter of the data.
static ax_status resolve_epochs(ax_job *job)
{
    ax_run_config *c = job->config;
    double epochs = c->train.epochs;
    ax_loader l;
    if (epochs <= 0)
        return AX_OK;
    AX_TRY(ax_loader_init(&l, job->corpus, c->train.batch, c->data.seed));
    AX_TRY(ax_config_resolve_epochs(c, l.samples));
    if (ax_log_current().rank == 0)
        ax_log(AX_LOG_INFO, "data", "%g epoch%s of %lld samples, %lld a step: %lld steps", epochs,
               epochs == 1 ? "" : "s", (long long)l.samples, (long long)c->train.batch,
               (long long)c->train.steps);
    return AX_OK;
}

static ax_status open_corpus(ax_job *job)
{
    const ax_run_config *c = job->config;
    const ax_corpus_use use = {.seq = c->arch.seq,
                               .vocab = c->arch.vocab,
                               .scoring = job->inference,
                               .documents = job->documents_wanted};
    AX_TRY(ax_corpus_open(&c->data, job->tokenizer, &use, &job->corpus));
    return job->inference ? AX_OK : resolve_epochs(job);
}

static ax_status open_shared(ax_job *job)
{
    ax_run_config *c = job->config;
    AX_TRY(open_tokenizer(job));
    if (job->scale_wanted)
        ax_selftest_scale(&c->arch, &job->scaled);
    if (job->prepare)
        AX_TRY(job->prepare(job));
    AX_TRY(resolve(job));
    return job->corpus_wanted ? open_corpus(job) : AX_OK;
}

static ax_status choose_resume(ax_job *job)
{
    return job->run_wanted
               ? ax_resume_choose(job->config, &job->lock, &job->resume, &job->resume_config)
               : AX_OK;
}

ax_status ax_job_open_data(ax_job *job)
{
    AX_TRY(open_tokenizer(job));
    return open_corpus(job);
}

void ax_job_close_data(ax_job *job)
{
    ax_lock_release(&job->lock);
    free(job->resume_config);
    job->resume_config = NULL;
    ax_corpus_close(job->corpus);
    ax_tokenizer_close(job->tokenizer);
    job->corpus = NULL;
    job->tokenizer = NULL;
}

ax_status ax_job_init_params(const ax_job *job, ax_trainer *t)
{
    if (job->hf)
        return ax_hf_load(job->init, &job->hf_config, &t->model.params, &t->grid, &t->dev);
    if (job->init[0])
        return ax_ckpt_load(job->init, &t->model.params, &t->grid, &t->dev, false);
    return ax_params_init(&t->model.params, &t->grid, &t->dev, job->config->train.seed);
}

// ---- starting ----

static ax_status local_main(void *ctx, ax_comm *world)
{
    ax_job *job = ctx;
    return job->main(job, world);
}

// Every process read its own file and arguments; before anything is built they must be the same.
static ax_status compare_configs(ax_job *job, ax_comm *world)
{
    ax_text yaml = {0};
    ax_status st = ax_comm_agree(world, ax_config_print(job->config, &yaml));
    if (st == AX_OK)
        st = ax_comm_check_equal(world, (int64_t)ax_rng_stream(yaml.text), "the configuration");
    ax_text_fini(&yaml);
    return st;
}

static ax_status check_ranks(ax_job *job, int size)
{
    int64_t wanted = job->config->ranks;
    job->ranks = size;
    if (!wanted || wanted == size)
        return AX_OK;
    ax_log_config log = ax_log_current();
    if (log.rank == 0)
        ax_fail(AX_EUSAGE, __FILE__, __LINE__, "--ranks %lld, but %s started %d: leave --ranks out",
                (long long)wanted, ax_comm_launch().launcher, size);
    return AX_EUSAGE;
}

// What is wrong for all is said by rank 0 alone, which opens first; then each rank for itself.
static ax_status launched_main(void *ctx, ax_comm *world)
{
    ax_job *job = ctx;
    ax_status st = check_ranks(job, world->size);
    if (st == AX_OK)
        st = ax_comm_agree(world, world->rank == 0 ? choose_resume(job) : AX_OK);
    if (st == AX_OK && job->run_wanted)
        st = ax_resume_share(world, &job->resume, &job->resume_config);
    if (st == AX_OK)
        st = world->rank == 0 ? open_shared(job) : AX_OK;
    st = ax_comm_agree(world, st);
    if (st == AX_OK)
        st = ax_comm_agree(world, world->rank > 0 ? open_shared(job) : AX_OK);
    if (st == AX_OK)
        st = compare_configs(job, world);
    if (st == AX_OK)
        st = job->main(job, world);
    ax_comm_end(world, st);
    ax_job_close_data(job);
    return st;
}

ax_status ax_job_run(ax_job *job, ax_job_main *main)
{
    ax_launch launch = ax_comm_launch();
    int64_t wanted = job->config->ranks;
    job->main = main;
    job->started = ax_leave_clock();
    job->launched = launch.launcher != NULL;
    job->ranks = (int)wanted;
    if (job->launched)
        return ax_ranks_run_mpi(launched_main, job);
    AX_CHECK(wanted <= MOST_LOCAL_RANKS, AX_EUSAGE,
             "--ranks %lld: one process runs at most %d ranks; start more under mpirun or srun",
             (long long)wanted, MOST_LOCAL_RANKS);
    ax_status st = choose_resume(job);
    if (st == AX_OK)
        st = open_shared(job);
    if (st == AX_OK)
        st = ax_ranks_run(job->ranks, local_main, job);
    ax_job_close_data(job);
    return st;
}

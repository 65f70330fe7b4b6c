#include "data/prepare.h"

#include "base/log.h"
#include "data/prepare_batch.h"
#include "data/shard.h"
#include "dev/device.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WARNED = 3,  // skipped lines that are named one by one
    TELL_S = 10, // seconds between lines about the progress
};

#define KEY(field) offsetof(ax_prepare_options, field)
const ax_option ax_prepare_option_table[] = {
    {"prepare.out", AX_OPT_TEXT, KEY(out), "", "",
     "PREFIX of the token files PREFIX.bin and PREFIX.idx; axonn prepare takes out=PREFIX, too"},
    {"prepare.threads", AX_OPT_INT, KEY(threads), "0", "0..1024",
     "threads that encode; 0: as many as there are cores"},
    {"prepare.on_error", AX_OPT_CHOICE, KEY(on_error), "stop", "stop|skip",
     "what a line that is no document does; skip: it is counted, the first few are named"},
    {0},
};

// A ring of batches. One reader fills them in order, workers take them in order, the writer waits
// for each in order: three counters that only grow, read >= taken and read >= written.
typedef struct slot {
    ax_batch batch;
    bool encoded;
} slot;

typedef struct pipeline {
    const ax_tokenizer *tokenizer;
    ax_batch_wish wish;
    ax_literals literals;
    ax_documents_bad on_error;
    ax_log_config log; // of the other threads: the writer speaks, once and in order
    char **path;
    int paths;

    pthread_mutex_t mutex;
    pthread_cond_t moved; // any of what follows
    slot *slot;
    int slots;
    int64_t read, taken, written;
    size_t in_flight; // bytes of the batches read and not written
    bool ended, stop; // the reader is through; nothing more is wanted
    ax_status st;     // of the reader and of workers that could not begin
    char why[1024];
    int64_t read_bytes;

    ax_prepare_result result;   // the writer's, with what follows
    ax_prepare_result document; // what of it is of the document under way
    bool open;                  // a document of which a part is written
    bool dropping;              // one of which a part was skipped
} pipeline;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static slot *slot_of(pipeline *p, int64_t number)
{
    return &p->slot[number % p->slots];
}

static void lock(pipeline *p)
{
    pthread_mutex_lock(&p->mutex);
}

static void unlock(pipeline *p)
{
    pthread_cond_broadcast(&p->moved);
    pthread_mutex_unlock(&p->mutex);
}

// The first failure counts. Its text is this thread's.
static void give_up(pipeline *p, ax_status st)
{
    lock(p);
    if (st != AX_OK && p->st == AX_OK) {
        p->st = st;
        snprintf(p->why, sizeof p->why, "%s", ax_error_text());
    }
    unlock(p);
}

// ---- the reader

// Free slots alone would let a few endless lines fill the memory.
static bool has_room(const pipeline *p)
{
    size_t most = (size_t)p->slots * 2 * AX_BATCH_BYTES;
    return p->read == p->written ||
           (p->read - p->written < p->slots && p->in_flight <= most - AX_BATCH_BYTES);
}

// The batch to fill, or NULL when all is off.
static ax_batch *next_free(pipeline *p)
{
    lock(p);
    while (!has_room(p) && !p->stop)
        pthread_cond_wait(&p->moved, &p->mutex);
    ax_batch *b = p->stop ? NULL : &slot_of(p, p->read)->batch;
    pthread_mutex_unlock(&p->mutex);
    return b;
}

static void hand_on(pipeline *p, const ax_batch *b)
{
    lock(p);
    slot_of(p, p->read)->encoded = false;
    p->in_flight += b->length;
    p->read++;
    unlock(p);
}

static ax_status read_documents(pipeline *p, ax_documents *d, const char *path, ax_batch **b)
{
    ax_record record;
    bool found;
    for (;;) {
        AX_TRY(ax_documents_read(d, &record, &found));
        if (!found)
            return AX_OK;
        AX_TRY(ax_batch_add(*b, &record, path));
        if (!ax_batch_is_full(*b))
            continue;
        hand_on(p, *b);
        *b = next_free(p);
        if (!*b)
            return AX_OK;
    }
}

static size_t border(const void *ctx, const char *text, size_t length)
{
    const pipeline *p = ctx;
    return ax_tokenizer_border(p->tokenizer, p->literals, text, length);
}

static ax_status read_path(pipeline *p, const char *path, ax_batch **b)
{
    ax_documents *d;
    AX_TRY(ax_documents_open(path,
                             &(ax_documents_options){.text_key = p->wish.text_key,
                                                     .on_error = p->on_error,
                                                     .border = border,
                                                     .border_ctx = p},
                             &d));
    ax_status st = read_documents(p, d, path, b);
    p->read_bytes += ax_documents_bytes(d);
    ax_documents_close(d);
    return st;
}

static void *read_all(void *ctx)
{
    pipeline *p = ctx;
    ax_log_setup(p->log);
    ax_status st = AX_OK;
    ax_batch *b = next_free(p);
    for (int i = 0; i < p->paths && st == AX_OK && b; i++)
        st = read_path(p, p->path[i], &b);
    if (b && b->lines > 0)
        hand_on(p, b); // what came before a failure is judged first
    give_up(p, st);
    lock(p);
    p->ended = true;
    unlock(p);
    return NULL;
}

// ---- the workers

static slot *take(pipeline *p)
{
    lock(p);
    while (p->taken == p->read && !p->ended && !p->stop)
        pthread_cond_wait(&p->moved, &p->mutex);
    slot *s = p->taken < p->read && !p->stop ? slot_of(p, p->taken++) : NULL;
    pthread_mutex_unlock(&p->mutex);
    return s;
}

static void *encode_all(void *ctx)
{
    pipeline *p = ctx;
    ax_encoder *e = NULL;
    ax_log_setup(p->log);
    ax_status st = ax_encoder_open(p->tokenizer, p->literals, &e);
    if (st != AX_OK) {
        give_up(p, st);
        lock(p);
        p->stop = true;
        unlock(p);
        return NULL;
    }
    for (slot *s; (s = take(p));) {
        ax_batch_encode(&s->batch, &p->wish, e);
        lock(p);
        s->encoded = true;
        unlock(p);
    }
    ax_encoder_close(e);
    return NULL;
}

// ---- the writer

// A part of a text that is no text takes the whole of it along.
static ax_status judge(pipeline *p, const ax_batch_line *l)
{
    const char *why = l->why ? l->why : "no memory";
    bool may_skip = l->st == AX_EFORMAT && p->on_error == AX_DOCUMENTS_SKIP;
    AX_CHECK(may_skip, l->st, "%s", why);
    if (p->result.skipped++ < WARNED)
        ax_log(AX_LOG_WARN, NULL, "skipped: %s", why);
    return AX_OK;
}

static ax_status drop(pipeline *p, const ax_batch_line *l, ax_shard_writer *w)
{
    AX_TRY(judge(p, l));
    p->dropping = l->record.goes_on;
    if (!p->open)
        return AX_OK;
    p->open = false;
    p->result.tokens -= p->document.tokens;
    p->result.text_bytes -= p->document.text_bytes;
    return ax_shard_writer_drop(w);
}

static ax_status write_line(pipeline *p, const ax_batch_line *l, const int32_t *ids, int64_t count,
                            ax_shard_writer *w)
{
    if (p->dropping) {
        p->dropping = l->record.goes_on;
        return AX_OK;
    }
    if (l->st != AX_OK)
        return drop(p, l, w);
    if (l->text_bytes == 0 && l->record.at == 0) {
        p->result.empty++;
        return AX_OK;
    }
    if (!p->open)
        p->document = (ax_prepare_result){0};
    ax_status st = ax_shard_writer_put(w, ids, count);
    AX_CHECK(st != AX_EFORMAT, st, "%s: %s", l->path, ax_error_text());
    AX_TRY(st);
    p->open = l->record.goes_on;
    p->document.tokens += count;
    p->document.text_bytes += l->text_bytes;
    p->result.tokens += count;
    p->result.text_bytes += l->text_bytes;
    if (p->open)
        return AX_OK;
    p->result.documents++;
    return ax_shard_writer_end(w);
}

static ax_status write_batch(pipeline *p, const ax_batch *b, ax_shard_writer *w)
{
    int64_t begin = 0;
    for (int64_t i = 0; i < b->lines; begin = b->line[i++].ids_end)
        AX_TRY(write_line(p, &b->line[i], b->ids.id + begin, b->line[i].ids_end - begin, w));
    return AX_OK;
}

// The next batch in order; NULL at the end, or when a thread could not begin.
static ax_batch *next_encoded(pipeline *p)
{
    lock(p);
    while (!p->stop && (p->written == p->read ? !p->ended : !slot_of(p, p->written)->encoded))
        pthread_cond_wait(&p->moved, &p->mutex);
    bool there = !p->stop && p->written < p->read;
    pthread_mutex_unlock(&p->mutex);
    return there ? &slot_of(p, p->written)->batch : NULL;
}

static void release(pipeline *p, ax_batch *b)
{
    size_t length = b->length;
    ax_batch_clear(b);
    lock(p);
    p->in_flight -= length;
    p->written++;
    unlock(p);
}

static void tell(const pipeline *p, double start, double *told)
{
    double now = now_s();
    if (now - *told < TELL_S)
        return;
    *told = now;
    ax_log(AX_LOG_INFO, "prepare", "%" PRId64 " documents, %" PRId64 " tokens, %.1f MB/s",
           p->result.documents, p->result.tokens,
           (double)p->result.text_bytes * 1e-6 / (now - start));
}

static ax_status failure(pipeline *p)
{
    lock(p);
    ax_status st = p->st;
    pthread_mutex_unlock(&p->mutex);
    AX_CHECK(st == AX_OK, st, "%s", p->why);
    return AX_OK;
}

static ax_status write_all(pipeline *p, ax_shard_writer *w, const ax_prepare_stop *stop)
{
    double start = now_s(), told = start;
    for (ax_batch *b; (b = next_encoded(p));) {
        AX_CHECK(!stop || !stop->asked(stop->ctx), AX_EIO,
                 "stopped before the end; nothing is written");
        AX_TRY(write_batch(p, b, w));
        release(p, b);
        tell(p, start, &told);
    }
    AX_TRY(failure(p));
    AX_CHECK(p->result.documents > 0, AX_EUSAGE,
             "no document in data.train: %" PRId64 " empty, %" PRId64 " skipped", p->result.empty,
             p->result.skipped);
    p->result.seconds = now_s() - start;
    return AX_OK;
}

// ---- threads

typedef struct crew {
    pthread_t *thread;
    int started;
} crew;

static ax_status start(crew *c, void *(*main)(void *ctx), pipeline *p)
{
    int failed = pthread_create(&c->thread[c->started], NULL, main, p);
    AX_CHECK(!failed, AX_ENOMEM, "cannot start thread %d: %s; lower prepare.threads", c->started,
             strerror(failed));
    c->started++;
    return AX_OK;
}

static ax_status run_threads(pipeline *p, crew *c, ax_shard_writer *w, const ax_prepare_stop *stop)
{
    AX_TRY(start(c, read_all, p));
    for (int i = 0; i < p->result.threads; i++)
        AX_TRY(start(c, encode_all, p));
    return write_all(p, w, stop);
}

static ax_status run(pipeline *p, ax_shard_writer *w, const ax_prepare_stop *stop)
{
    p->slots = 3 * p->result.threads + 2;
    p->slot = calloc((size_t)p->slots, sizeof *p->slot);
    crew c = {.thread = calloc((size_t)p->result.threads + 1, sizeof *c.thread)};
    ax_status st = AX_OK;
    if (!p->slot || !c.thread)
        st = ax_fail(AX_ENOMEM, __FILE__, __LINE__, "no memory for %d threads", p->result.threads);
    if (st == AX_OK)
        st = run_threads(p, &c, w, stop);
    lock(p);
    p->stop = true;
    unlock(p);
    for (int i = 0; i < c.started; i++)
        pthread_join(c.thread[i], NULL);
    for (int i = 0; p->slot && i < p->slots; i++)
        ax_batch_fini(&p->slot[i].batch);
    free(p->slot);
    free(c.thread);
    return st;
}

// ---- what to read

// Before the work: a name that is wrong shows at once.
static ax_status check_path(const char *path, const pipeline *p)
{
    ax_documents *d;
    AX_CHECK(*path, AX_EUSAGE, "data.train: an empty file name in the list");
    AX_CHECK(!ax_shard_is(path), AX_EUSAGE,
             "%s: holds tokens already; prepare reads text, .jsonl and their .zst", path);
    AX_TRY(ax_documents_open(
        path, &(ax_documents_options){.text_key = p->wish.text_key, .on_error = p->on_error}, &d));
    ax_documents_close(d);
    return AX_OK;
}

static ax_status add_paths(pipeline *p, const char *list)
{
    AX_CHECK(*list, AX_EUSAGE, "data.train is not set: name text or JSONL files");
    int commas = 0;
    for (const char *at = list; *at; at++)
        commas += *at == ',';
    p->path = calloc((size_t)commas + 1, sizeof *p->path);
    AX_CHECK(p->path, AX_ENOMEM, "no memory for file names");
    for (const char *at = list; p->paths <= commas; at += strcspn(at, ",") + 1) {
        char *path = strndup(at, strcspn(at, ","));
        AX_CHECK(path, AX_ENOMEM, "no memory for a file name");
        p->path[p->paths++] = path;
        AX_TRY(check_path(path, p));
    }
    return AX_OK;
}

static ax_status choose_frame(pipeline *p, const ax_data_options *data)
{
    int32_t eod = ax_tokenizer_eod(p->tokenizer), bos = ax_tokenizer_bos(p->tokenizer);
    const char *name = ax_tokenizer_name(p->tokenizer);
    AX_CHECK(!data->eod || eod >= 0, AX_EUSAGE,
             "data.tokenizer=%s has no token that ends a document; name one as eos_token in a "
             "tokenizer_config.json beside it, or set data.eod=off",
             name);
    AX_CHECK(!data->bos || bos >= 0, AX_EUSAGE,
             "data.tokenizer=%s has no token that begins a document; set data.bos=off", name);
    p->wish = (ax_batch_wish){
        .text_key = data->text_key, .bos = data->bos ? bos : -1, .eod = data->eod ? eod : -1};
    return AX_OK;
}

ax_status ax_prepare_files(const ax_data_options *data, const ax_prepare_options *options,
                           const ax_tokenizer *t, ax_shard_writer *w, const ax_prepare_stop *stop,
                           ax_prepare_result *out)
{
    pipeline p = {.tokenizer = t,
                  .literals = (ax_literals)data->literals,
                  .on_error = (ax_documents_bad)options->on_error,
                  .log = ax_log_current()};
    p.log.muted = true;
    p.log.level = AX_LOG_WARN;
    p.result.threads = options->threads > 0 ? (int)options->threads : ax_device_cores();
    pthread_mutex_init(&p.mutex, NULL);
    pthread_cond_init(&p.moved, NULL);
    ax_status st = choose_frame(&p, data);
    if (st == AX_OK)
        st = add_paths(&p, data->train);
    if (st == AX_OK)
        st = run(&p, w, stop);
    for (int i = 0; i < p.paths; i++)
        free(p.path[i]);
    free(p.path);
    pthread_cond_destroy(&p.moved);
    pthread_mutex_destroy(&p.mutex);
    AX_TRY(st);
    *out = p.result;
    out->read_bytes = p.read_bytes;
    return AX_OK;
}

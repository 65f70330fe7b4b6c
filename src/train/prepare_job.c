#include "train/prepare_job.h"

#include "base/log.h"
#include "comm/comm.h"
#include "train/lock.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const int held_back[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
enum { HELD_BACK = sizeof held_back / sizeof held_back[0] };

static bool signal_waits(void *ctx)
{
    const sigset_t *before = ctx;
    sigset_t waiting;
    sigpending(&waiting);
    for (int i = 0; i < HELD_BACK; i++)
        if (sigismember(&waiting, held_back[i]) && !sigismember(before, held_back[i]))
            return true;
    return false;
}

// What the starting shell had this program ignore (nohup, a job behind &) does not end it.
static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

// Before the lock, which would fail there for the same reason and say less.
static ax_status check_folder(const char *out)
{
    struct stat about;
    const char *slash = strrchr(out, '/');
    if (!slash || slash == out)
        return AX_OK;
    char *folder = strndup(out, (size_t)(slash - out));
    AX_CHECK(folder, AX_ENOMEM, "no memory for a file name");
    bool there = stat(folder, &about) == 0 && S_ISDIR(about.st_mode);
    free(folder);
    AX_CHECK(there, AX_EUSAGE, "out=%s: there is no such directory; make it first", out);
    return AX_OK;
}

static ax_status check(const ax_run_config *c, ax_text *lock_path)
{
    ax_launch launch = ax_comm_launch();
    const char *out = c->prepare.out;
    AX_CHECK(!launch.launcher || launch.tasks <= 1, AX_EUSAGE,
             "prepare is one process that uses all cores: start it without %s", launch.launcher);
    AX_CHECK(c->ranks <= 1, AX_EUSAGE, "prepare has no ranks; prepare.threads is what it has");
    AX_CHECK(*out, AX_EUSAGE, "prepare needs out=PREFIX, and writes PREFIX.bin and PREFIX.idx");
    AX_CHECK(out[strlen(out) - 1] != '/', AX_EUSAGE, "out=%s: name a file in it, as %scorpus", out,
             out);
    const char *slash = strrchr(out, '/'), *base = slash ? slash + 1 : out;
    AX_CHECK(strcmp(base, ".") != 0 && strcmp(base, "..") != 0, AX_EUSAGE,
             "out=%s: this is a directory; name a file in it, as %s/corpus", out, out);
    AX_TRY(check_folder(out));
    ax_text_add(lock_path, "%s.lock", out);
    AX_CHECK(!lock_path->failed, AX_ENOMEM, "no memory for a file name");
    return AX_OK;
}

static ax_status write_with(const ax_run_config *c, const ax_tokenizer *t, ax_shard_writer *w,
                            sigset_t *before, ax_prepared *out)
{
    ax_prepare_stop stop = {signal_waits, before};
    AX_TRY(ax_prepare_files(&c->data, &c->prepare, t, w, &stop, &out->result));
    out->vocab = ax_tokenizer_vocab(t);
    out->width = ax_shard_writer_width(w);
    return ax_shard_writer_finish(w);
}

static ax_status write_pair(const ax_run_config *c, sigset_t *before, ax_prepared *out)
{
    ax_tokenizer *t = NULL;
    ax_shard_writer *w = NULL;
    ax_status st = ax_tokenizer_open(c->data.tokenizer, &t);
    if (st == AX_OK)
        st = ax_shard_writer_open(c->prepare.out, ax_tokenizer_vocab(t), &w);
    if (st == AX_OK)
        st = write_with(c, t, w, before, out);
    ax_shard_writer_close(w);
    ax_tokenizer_close(t);
    return st;
}

ax_status ax_prepare(const ax_run_config *c, ax_prepared *out)
{
    ax_text lock_path = {0};
    ax_prepared done = {0};
    ax_lock lock = {0};
    sigset_t hold, before;
    sigemptyset(&hold);
    for (int i = 0; i < HELD_BACK; i++)
        if (!is_ignored(held_back[i]))
            sigaddset(&hold, held_back[i]);
    ax_status st = check(c, &lock_path);
    pthread_sigmask(SIG_BLOCK, &hold, &before);
    if (st == AX_OK)
        st = ax_lock_take(lock_path.text, c->prepare.out, &lock);
    if (st == AX_OK)
        st = write_pair(c, &before, &done);
    ax_lock_release(&lock);
    ax_text_fini(&lock_path);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (st == AX_OK)
        *out = done;
    return st;
}

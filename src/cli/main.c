#include "cli/cli.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const ax_verb ax_verbs[] = {
    {"train", "pretrain or continue training a model on text",
     "axonn train --config examples/quickstart.yaml\n"
     "axonn train data.train=book.txt train.steps=200 train.out=out/book --ranks 4 --grid x=2,z=2\n"
     "axonn train train.out=out/book train.resume=auto train.steps=400\n"
     "axonn train data.train=a.jsonl@0.7,b.jsonl@0.3 train.epochs=2 model.init=models/llama\n"
     "mpirun -n 4 axonn train --config examples/quickstart.yaml",
     ax_cmd_train},
    {"generate", "continue a prompt with a trained model",
     "axonn generate model.init=out/book \"In the beginning\" generate.tokens=300\n"
     "axonn generate model.init=out/book \"In the\" \"And he\" generate.temperature=0.8 --json\n"
     "axonn generate model.init=models/llama generate.prompts=prompts.txt ranks=2",
     ax_cmd_generate},
    {"eval", "token-weighted loss and perplexity of a model on data",
     "axonn eval model.init=out/book data.valid=other.txt --json", ax_cmd_eval},
    {"convert", "a Hugging Face directory to a checkpoint, a checkpoint or run to such a directory",
     "axonn convert llama-3.2-1b start\n"
     "axonn convert out/book book-hf convert.dtype=bf16\n"
     "axonn convert llama-3.2-1b llama-fp16 convert.dtype=fp16",
     ax_cmd_convert},
    {"prepare", "text and JSON lines to token files, with document borders",
     "axonn prepare data.tokenizer=models/llama data.train=a.jsonl,b.jsonl.zst out=corpus\n"
     "axonn prepare data.tokenizer=models/llama data.train=a.jsonl out=corpus --on-error skip\n"
     "axonn train data.tokenizer=models/llama data.train=corpus",
     ax_cmd_prepare},
    {"checkpoint", "list, inspect, verify the checkpoints of a run, or one",
     "axonn checkpoint list out/book\n"
     "axonn checkpoint inspect out/book -v\n"
     "axonn checkpoint verify out/book/step-00000200",
     ax_cmd_checkpoint},
    {"data", "data show: the samples and documents that a training step reads",
     "axonn data show --step 12 data.train=book.txt train.batch=8\n"
     "axonn data show --step 1000 --config examples/quickstart.yaml --json",
     ax_cmd_data},
    {"tokenizer", "train a byte-level BPE; encode, decode, inspect",
     "axonn tokenizer encode data.tokenizer=models/llama book.txt\n"
     "axonn tokenizer decode data.tokenizer=models/llama ids.txt\n"
     "axonn tokenizer inspect data.tokenizer=models/llama 0 1 2\n"
     "axonn tokenizer train data.train=book.txt tokenizer.vocab=4096 out=models/book",
     ax_cmd_tokenizer},
    {"selftest", "prove on this machine that a model and grid give the serial numbers",
     "axonn selftest --ranks 8 --grid x=2,y=2,z=2\n"
     "axonn selftest model.preset=gpt2-124m --grid x=3,z=2\n"
     "mpirun -n 4 axonn selftest device=ref",
     ax_cmd_selftest},
    {"info", "build, devices, instruction sets, libraries, ranks and how they were found",
     "axonn info\naxonn info --json\naxonn info --tuning", ax_cmd_info},
    {"help", "this list, the page of a verb, or all keys",
     "axonn help train\naxonn help keys\naxonn help keys train", ax_cmd_help},
    {NULL, NULL, NULL, NULL},
};

static const ax_verb *find(const char *name)
{
    for (const ax_verb *v = ax_verbs; v->name; v++)
        if (strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

static ax_status unknown(const char *name)
{
    const char *names[32];
    int n = 0;
    for (const ax_verb *v = ax_verbs; v->name && n < 31; v++)
        names[n++] = v->name;
    names[n] = NULL;
    const char *near = ax_nearest(name, names);
    if (near)
        AX_FAIL(AX_EUSAGE, "no verb '%s'; did you mean '%s'? (axonn help lists all)", name, near);
    AX_FAIL(AX_EUSAGE, "no verb '%s' (axonn help lists all)", name);
}

static int exit_status(ax_status st)
{
    switch (st) {
    case AX_OK:
        return 0;
    case AX_EUSAGE:
        return 2;
    case AX_ESTOPPED:
        return 75; // EX_TEMPFAIL: whoever started this may start it again
    case AX_EINTERRUPTED:
        return 128 + SIGINT;
    default:
        return 1;
    }
}

// Libraries take and return large temporaries; handing their pages back to the system each time
// costs up to a third of an MPI collective.
static void keep_pages(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

void ax_cli_show(const char *text, size_t length)
{
    ax_text seen = {0};
    if (!isatty(STDOUT_FILENO)) {
        fwrite(text, 1, length, stdout);
        return;
    }
    ax_text_add_visible(&seen, text, length); // without memory the rest is left out
    fwrite(seen.text ? seen.text : "", 1, seen.length, stdout);
    ax_text_fini(&seen);
}

// `axonn ... | head` has read what it wanted.
static bool reader_left(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

// A standard descriptor that was closed would be taken by the next file that is opened, and what is
// printed would land in it.
static void open_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    open_standard_files();
    ax_launch launch = ax_comm_launch();
    // Until communication is open, what one rank has to say all have: rank 0 speaks.
    ax_log_setup((ax_log_config){.rank = launch.rank,
                                 .ranks = launch.tasks > 0 ? launch.tasks : 1,
                                 .level = AX_LOG_INFO,
                                 .muted = launch.launcher && launch.rank > 0});
    signal(SIGXFSZ, SIG_IGN); // a limit on file sizes arrives as a failed write, with a message
    keep_pages();
    if (argc < 2) {
        fprintf(stderr, "axonn: error: no verb; axonn help lists them\n");
        return 2;
    }
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)
        return exit_status(ax_cmd_help(0, NULL));
    if (strcmp(argv[1], "--version") == 0) {
        printf("axonn %s\n", AX_VERSION);
        return 0;
    }
    const ax_verb *verb = find(argv[1]);
    ax_status st = verb ? verb->run(argc - 2, argv + 2) : unknown(argv[1]);
    bool well = st == AX_OK || st == AX_ESTOPPED || st == AX_EINTERRUPTED;
    if ((fflush(stdout) != 0 || ferror(stdout)) && well && !reader_left())
        st = ax_fail(AX_EIO, __FILE__, __LINE__, "the answer could not be written: %s",
                     strerror(errno));
    return exit_status(st);
}

// Signals that ask a training run to leave. A handler may do no more than leave a number behind, so
// this is the one file that may change a variable of the whole process.
#include "cli/cli.h"

#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void note(int number)
{
    asked = number;
    if (number != SIGINT)
        return;
    // The second one finds the system's own handler: it ends the process at once.
    static const char words[] =
        "\naxonn: leaving after this step; interrupt again to end at once\n";
    ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
    (void)written;
}

// What the starting shell had this program ignore (nohup, a job behind &) stays ignored.
static void watch(int number, const struct sigaction *action)
{
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN)
        return;
    sigaction(number, action, NULL);
}

void ax_cli_watch_signals(void)
{
    struct sigaction plain = {.sa_handler = note, .sa_flags = SA_RESTART};
    struct sigaction once = {.sa_handler = note, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&plain.sa_mask);
    sigemptyset(&once.sa_mask);
    watch(SIGTERM, &plain);
    watch(SIGUSR1, &plain);
    watch(SIGHUP, &plain); // the terminal was closed
    watch(SIGINT, &once);
    signal(SIGPIPE, SIG_IGN); // a log that nobody reads any more loses its lines, not the run
}

int ax_cli_signal(void)
{
    return asked;
}

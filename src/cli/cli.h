// The verbs. Each parses its arguments, calls the library and prints; nothing else happens here.
#pragma once
#include "train/job.h"

#include <stdio.h>

typedef struct ax_verb {
    const char *name;
    const char *summary;                     // one line
    const char *usage;                       // what stands behind the verb, and an example
    ax_status (*run)(int argc, char **argv); // arguments behind the verb
} ax_verb;

extern const ax_verb ax_verbs[]; // ended by a NULL name

ax_status ax_cmd_train(int argc, char **argv);
ax_status ax_cmd_generate(int argc, char **argv);
ax_status ax_cmd_eval(int argc, char **argv);
ax_status ax_cmd_convert(int argc, char **argv);
ax_status ax_cmd_prepare(int argc, char **argv);
ax_status ax_cmd_checkpoint(int argc, char **argv);
ax_status ax_cmd_data(int argc, char **argv);
ax_status ax_cmd_tokenizer(int argc, char **argv);
ax_status ax_cmd_selftest(int argc, char **argv);
ax_status ax_cmd_info(int argc, char **argv);
ax_status ax_cmd_help(int argc, char **argv);

// From here on SIGTERM, SIGUSR1, SIGHUP and a first SIGINT, unless the shell had us ignore them,
// only leave their number, the last one's, for ax_cli_signal (0: none came); a second SIGINT ends
// the process. A pipe whose reader has gone is no signal any more.
void ax_cli_watch_signals(void);
int ax_cli_signal(void);

// Writes text that came from a file or a model to standard output; on a terminal what could drive
// it is made visible, in a pipe bytes are bytes.
void ax_cli_show(const char *text, size_t length);

// Loads the configuration of `verb`; with --help prints its page instead and sets *helped.
ax_status ax_cli_config(const char *verb, int argc, char **argv, int words, ax_run_config *c,
                        bool *helped);
ax_status ax_cli_help_verb(const char *verb, FILE *to);

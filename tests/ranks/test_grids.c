// Every grid gives the serial numbers: the program that shows it.
//
//     test_grids                 all parts, the default tier
//     test_grids serial pairs    some of them
//     test_grids pairs --all     the full product in place of the pairwise list
#include "test_grids.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    part_run *run;
    bool by_name; // only when asked for
} parts[] = {
    {"serial", part_serial, false},       {"pairs", part_pairs, false},
    {"sample", part_sample, true},        {"overlap", part_overlap, false},
    {"documents", part_documents, false}, {"narrow", part_narrow, false},
    {"bytes", part_bytes, false},         {"refusals", part_refusals, false},
    {"pitfalls", part_pitfalls, false},   {"memory", part_memory, false},
    {"recompute", part_recompute, false}, {"tuned", part_tuned, false},
    {"links", part_links, false},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static bool is_asked(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    verdict v = {.verbose = is_asked(argc, argv, "-v")};
    bool all = is_asked(argc, argv, "--all"), some = false;
    ax_log_setup((ax_log_config){.ranks = 1, .level = AX_LOG_WARN});
    if (trial_open_data() != AX_OK)
        return 1;
    for (int i = 0; i < PARTS; i++)
        some = some || is_asked(argc, argv, parts[i].name);
    for (int i = 0; i < PARTS; i++)
        if (is_asked(argc, argv, parts[i].name) || (!some && !parts[i].by_name))
            parts[i].run(&v, all);
    serial_fini();
    trial_close_data();
    return verdict_close(&v);
}

#include "cli/cli.h"
#include "dev/kern.h"
#include "train/tuning.h"

#include <stdlib.h>
#include <string.h>

static const char *compiler(void)
{
#ifdef __clang__
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

// The device that a run would use, open: of the configuration, or ref where the build lacks it.
static ax_status open_used(const ax_run_config *c, ax_device *dev)
{
    bool lazy;
    const char *name = ax_config_device(c, &lazy);
    if (ax_device_missing(name))
        name = ax_device_names()[0];
    return ax_device_open(&(ax_device_config){.name = name, .core = -1}, dev);
}

static ax_status print_devices(void)
{
    char text[512];
    for (const char *const *name = ax_device_names(); *name; name++) {
        ax_device dev;
        AX_TRY(ax_device_open(&(ax_device_config){.name = *name, .core = -1}, &dev));
        ax_device_describe(&dev, text, sizeof text);
        ax_device_close(&dev);
        printf("device    %s\n", text);
    }
    if (ax_device_missing("cpu"))
        printf("device    cpu is missing: %s\n", ax_device_missing("cpu"));
    return AX_OK;
}

// A line for each runner of kernels, with the kernels that it runs.
static void print_kernels(const ax_device *dev)
{
    const char *const *slots = ax_kern_slots();
    for (int i = 0; slots[i]; i++) {
        const char *runner = ax_kern_name(dev, slots[i]);
        int first = 0;
        while (strcmp(ax_kern_name(dev, slots[first]), runner) != 0)
            first++;
        if (first < i)
            continue; // stands in an earlier line
        printf("kernels   %s:", runner);
        for (int j = i; slots[j]; j++)
            if (strcmp(ax_kern_name(dev, slots[j]), runner) == 0)
                printf(" %s", slots[j]);
        printf("\n");
    }
}

static void print_comms(void)
{
    char library[64];
    ax_comm_mpi_library(library, sizeof library);
    for (const char *const *name = ax_comm_names(); *name; name++) {
        bool named = strcmp(*name, "mpi") == 0 && library[0];
        printf("comm      %s%s%s\n", *name, named ? ": " : "", named ? library : "");
    }
    if (ax_comm_missing("mpi"))
        printf("comm      mpi is missing: %s\n", ax_comm_missing("mpi"));
}

static ax_status print_text(const ax_device *dev, const ax_launch *launch)
{
    printf("axonn %s, built with %s\n", AX_VERSION, compiler());
    AX_TRY(print_devices());
    print_kernels(dev);
    print_comms();
    printf("cores     %d\n", ax_device_cores());
    if (launch->launcher)
        printf("ranks     %d, started by %s\n", launch->tasks, launch->launcher);
    else
        printf("ranks     1, started plainly; --ranks N makes N of this process\n");
    return AX_OK;
}

static void add_list(ax_text *t, const char *key, const char *const *names)
{
    ax_text_add(t, ",\"%s\":[", key);
    for (int i = 0; names[i]; i++) {
        ax_text_add(t, "%s", i ? "," : "");
        ax_text_add_json(t, names[i]);
    }
    ax_text_add(t, "]");
}

static void add_pair(ax_text *t, bool first, const char *key, const char *value)
{
    ax_text_add(t, "%s", first ? "" : ",");
    ax_text_add_json(t, key);
    ax_text_add(t, ":");
    ax_text_add_json(t, value);
}

static void add_device(ax_text *t, const ax_device *dev)
{
    const char *const *slots = ax_kern_slots();
    char mpi[64];
    ax_device_facts facts;
    ax_device_facts_of(dev, &facts);
    add_pair(t, false, "device", dev->ops->name);
    add_pair(t, false, "isa", facts.isa);
    add_pair(t, false, "bf16", facts.bf16);
    ax_text_add(t, ",\"libraries\":{");
    int libraries = 0;
    for (; libraries < AX_DEVICE_LIBRARIES && facts.library[libraries].name; libraries++)
        add_pair(t, libraries == 0, facts.library[libraries].name,
                 facts.library[libraries].version);
    ax_comm_mpi_library(mpi, sizeof mpi);
    if (mpi[0])
        add_pair(t, libraries == 0, "MPI", mpi);
    ax_text_add(t, "},\"kernels\":{");
    for (int i = 0; slots[i]; i++)
        add_pair(t, i == 0, slots[i], ax_kern_name(dev, slots[i]));
    ax_text_add(t, "}");
}

static ax_status print_json(const ax_device *dev, const ax_launch *launch)
{
    ax_text t = {0};
    ax_text_add(&t, "{\"version\":\"%s\"", AX_VERSION);
    add_pair(&t, false, "build", compiler());
    add_list(&t, "devices", ax_device_names());
    add_device(&t, dev);
    add_list(&t, "comms", ax_comm_names());
    ax_text_add(&t, ",\"cores\":%d,\"ranks\":%d", ax_device_cores(),
                launch->tasks > 0 ? launch->tasks : 1);
    add_pair(&t, false, "launcher", launch->launcher ? launch->launcher : "");
    ax_text_add(&t, "}");
    ax_status st = t.failed ? AX_ENOMEM : AX_OK;
    if (st == AX_OK)
        puts(t.text);
    ax_text_fini(&t);
    AX_CHECK(st == AX_OK, st, "no memory for the answer");
    return AX_OK;
}

static ax_status print_info(const ax_run_config *c, const ax_launch *launch)
{
    ax_device dev;
    AX_TRY(open_used(c, &dev));
    ax_status st = c->json ? print_json(&dev, launch) : print_text(&dev, launch);
    ax_device_close(&dev);
    return st;
}

// ---- --tuning: what train.tune found on this machine ----

static double gain_of(const ax_tuned *t)
{
    return t->default_seconds / t->seconds - 1;
}

static void print_tuned(const char *path, const ax_tuned_for *here, const ax_tuned_list *list)
{
    printf("tuning    %s: %lld products on %s with %s\n", *path ? path : "no file",
           (long long)list->count, here->machine, here->library);
    if (list->count == 0)
        return;
    printf("%8s %8s %8s  mode  in    out   threads  %-16s %10s %8s\n", "m", "n", "k", "way", "ms",
           "gain");
    for (int64_t i = 0; i < list->count; i++) {
        const ax_tuned *t = &list->item[i];
        const ax_gemm_key *k = &t->key;
        printf("%8lld %8lld %8lld  %c%c    %-5s %-5s %7d  %-16s %10.3f %+6.1f %%\n",
               (long long)k->m, (long long)k->n, (long long)k->k, k->ta ? 't' : 'n',
               k->tb ? 't' : 'n', ax_dtype_name((ax_dtype)k->in), ax_dtype_name((ax_dtype)k->out),
               (int)k->threads, t->way, 1e3 * t->seconds, 100 * gain_of(t));
    }
}

static void add_tuned(ax_text *out, const ax_tuned *t)
{
    const ax_gemm_key *k = &t->key;
    ax_text_add(out, "{\"m\":%lld,\"n\":%lld,\"k\":%lld,\"mode\":\"%c%c\"", (long long)k->m,
                (long long)k->n, (long long)k->k, k->ta ? 't' : 'n', k->tb ? 't' : 'n');
    ax_text_add(out, ",\"in\":\"%s\",\"out\":\"%s\",\"threads\":%d,\"way\":\"%s\"",
                ax_dtype_name((ax_dtype)k->in), ax_dtype_name((ax_dtype)k->out), (int)k->threads,
                t->way);
    ax_text_add(out, ",\"seconds\":%.6g,\"default_seconds\":%.6g,\"gain\":%.4f}", t->seconds,
                t->default_seconds, gain_of(t));
}

static ax_status print_tuned_json(const char *path, const ax_tuned_for *here,
                                  const ax_tuned_list *list)
{
    ax_text t = {0};
    ax_text_add(&t, "{");
    add_pair(&t, true, "file", path);
    add_pair(&t, false, "machine", here->machine);
    add_pair(&t, false, "library", here->library);
    ax_text_add(&t, ",\"products\":[");
    for (int64_t i = 0; i < list->count; i++) {
        ax_text_add(&t, "%s", i ? "," : "");
        add_tuned(&t, &list->item[i]);
    }
    ax_text_add(&t, "]}");
    ax_status st = t.failed ? AX_ENOMEM : AX_OK;
    if (st == AX_OK)
        puts(t.text);
    ax_text_fini(&t);
    AX_CHECK(st == AX_OK, st, "no memory for the answer");
    return AX_OK;
}

static ax_status print_tuning(const ax_run_config *c)
{
    char path[4096];
    bool lazy;
    ax_tuned_for here;
    AX_TRY(ax_tuned_here(ax_config_device(c, &lazy), &here));
    ax_tuned_list *list = calloc(1, sizeof *list);
    AX_CHECK(list, AX_ENOMEM, "no memory for what was tuned");
    ax_tuning_path(c, path, sizeof path);
    ax_status st = *path ? ax_tuned_read(path, &here, list) : AX_OK;
    if (st == AX_OK && c->json)
        st = print_tuned_json(path, &here, list);
    else if (st == AX_OK)
        print_tuned(path, &here, list);
    free(list);
    return st;
}

// A switch of this verb alone: taken out before the others are read.
static bool take_switch(const char *name, int *argc, char **argv)
{
    bool found = false;
    int kept = 0;
    for (int i = 0; i < *argc; i++) {
        bool here = strcmp(argv[i], name) == 0;
        found = found || here;
        if (!here)
            argv[kept++] = argv[i];
    }
    *argc = kept;
    return found;
}

ax_status ax_cmd_info(int argc, char **argv)
{
    ax_run_config c;
    bool helped, tuning = take_switch("--tuning", &argc, argv);
    AX_TRY(ax_cli_config("info", argc, argv, 0, &c, &helped));
    if (helped)
        return AX_OK;
    ax_launch launch = ax_comm_launch();
    bool silent = launch.launcher && launch.rank > 0; // one answer a job
    ax_status st = silent ? AX_OK : tuning ? print_tuning(&c) : print_info(&c, &launch);
    ax_config_fini(&c);
    return st;
}

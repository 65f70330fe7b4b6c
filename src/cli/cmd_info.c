#include "cli/cli.h"

#include <string.h>

static const char *compiler(void)
{
#ifdef __clang__
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

static void describe(const char *name, char *text, size_t size)
{
    ax_device dev;
    snprintf(text, size, "%s", name);
    if (ax_device_open(&(ax_device_config){.name = name, .core = -1}, &dev) != AX_OK)
        return;
    ax_device_describe(&dev, text, size);
    ax_device_close(&dev);
}

static void print_text(const ax_launch *launch)
{
    char text[512];
    printf("axonn %s, built with %s\n", AX_VERSION, compiler());
    for (const char *const *name = ax_device_names(); *name; name++) {
        describe(*name, text, sizeof text);
        printf("device    %s\n", text);
    }
    if (ax_device_missing("cpu"))
        printf("device    cpu is missing: %s\n", ax_device_missing("cpu"));
    for (const char *const *name = ax_comm_names(); *name; name++)
        printf("comm      %s\n", *name);
    if (ax_comm_missing("mpi"))
        printf("comm      mpi is missing: %s\n", ax_comm_missing("mpi"));
    printf("cores     %d\n", ax_device_cores());
    if (launch->launcher)
        printf("ranks     %d, started by %s\n", launch->tasks, launch->launcher);
    else
        printf("ranks     1, started plainly; --ranks N makes N of this process\n");
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

static ax_status print_json(const ax_launch *launch)
{
    ax_text t = {0};
    char text[512];
    const char *const *names = ax_device_names();
    ax_text_add(&t, "{\"version\":\"%s\",\"build\":", AX_VERSION);
    ax_text_add_json(&t, compiler());
    add_list(&t, "devices", names);
    ax_text_add(&t, ",\"isa\":{");
    for (int i = 0; names[i]; i++) {
        describe(names[i], text, sizeof text);
        ax_text_add(&t, "%s\"%s\":", i ? "," : "", names[i]);
        ax_text_add_json(&t, text);
    }
    ax_text_add(&t, "}");
    add_list(&t, "libraries", ax_comm_names());
    ax_text_add(&t, ",\"cores\":%d,\"ranks\":%d,\"launcher\":", ax_device_cores(),
                launch->tasks > 0 ? launch->tasks : 1);
    ax_text_add_json(&t, launch->launcher ? launch->launcher : "");
    ax_text_add(&t, "}");
    AX_CHECK(!t.failed, AX_ENOMEM, "no memory for the answer");
    puts(t.text);
    ax_text_fini(&t);
    return AX_OK;
}

ax_status ax_cmd_info(int argc, char **argv)
{
    ax_run_config c;
    bool helped;
    AX_TRY(ax_cli_config("info", argc, argv, 0, &c, &helped));
    if (helped)
        return AX_OK;
    ax_launch launch = ax_comm_launch();
    ax_status st = AX_OK;
    if (launch.launcher && launch.rank > 0)
        st = AX_OK; // one answer a job
    else if (c.json)
        st = print_json(&launch);
    else
        print_text(&launch);
    ax_config_fini(&c);
    return st;
}

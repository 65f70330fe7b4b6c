// Any bytes as the file of --config: refused with a message, or a configuration that comes back
// when it is printed and read again.
#include "base/log.h"
#include "fuzz_folder.h"
#include "grid/grid.h"
#include "train/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool load(const void *bytes, size_t size, ax_run_config *c)
{
    static const char *const place = "run.yaml";
    char path[512];
    strncpy(path, fuzz_file(place, bytes, size), sizeof path - 1);
    path[sizeof path - 1] = 0;
    char *line[] = {"--config", path};
    return ax_config_load(2, line, 0, c) == AX_OK;
}

static void check_grid(const char *text)
{
    ax_grid_shape shape, again;
    char printed[128];
    if (ax_grid_parse(text, &shape) != AX_OK)
        return;
    ax_grid_print(&shape, printed, sizeof printed);
    if (ax_grid_ranks(&shape) < 1 || ax_grid_parse(printed, &again) != AX_OK ||
        ax_grid_ranks(&again) != ax_grid_ranks(&shape) || strcmp(again.order, shape.order) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static ax_run_config c, again;
    ax_text text = {0}, same = {0};
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_ERROR});
    if (!load(data, size, &c))
        return 0;
    if (ax_config_print(&c, &text) != AX_OK || !load(text.text, text.length, &again))
        abort();
    if (ax_config_print(&again, &same) != AX_OK || strcmp(text.text, same.text) != 0)
        abort();
    check_grid(c.grid);
    if (ax_arch_check(&c.arch) == AX_OK && ax_arch_parameters(&c.arch) <= 0)
        abort();
    ax_text_fini(&text);
    ax_text_fini(&same);
    ax_config_fini(&again);
    ax_config_fini(&c);
    return 0;
}

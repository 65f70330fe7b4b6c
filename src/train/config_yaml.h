// YAML as a flat list of keys: what ax_config_load reads a file with.
//
//     AX_TRY(ax_config_yaml_read("run.yaml", set_key, &config));
//
// Nested mappings give dotted keys, sequences of scalars comma lists. See train/config.h for what
// is refused.
#pragma once
#include "base/err.h"

#include <stddef.h>

// Called for each key in file order; `where` is "FILE:LINE". A failure ends the reading.
typedef ax_status ax_config_key(void *ctx, const char *key, const char *value, const char *where);

// AX_EUSAGE: no such file. AX_EIO, AX_EFORMAT: names file, line and column.
ax_status ax_config_yaml_read(const char *path, ax_config_key *set, void *ctx);

// The same from memory; `name` stands for the file in messages and places.
ax_status ax_config_yaml_parse(const char *text, size_t length, const char *name,
                               ax_config_key *set, void *ctx);

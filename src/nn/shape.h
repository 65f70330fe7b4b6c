// The list of a model's parameters: names, shapes, cuts, initial values. The names are logical and
// the same on every grid; checkpoints use them.
#pragma once
#include "grid/layout.h"
#include "grid/param.h"

// Fills out->list (owned by out; ax_params_fini) in layer order. Places nothing yet.
ax_status ax_shape_params(const ax_arch *arch, const ax_layout *layout, ax_params *out);

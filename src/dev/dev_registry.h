// The backends of this build: dev_registry.c is the one place that knows them all.
#pragma once
#include "dev/device.h"

// NULL: no such backend in this build; ax_device_missing says why.
const ax_device_ops *ax_device_ops_find(const char *name);

extern const ax_device_ops ax_device_ops_ref;
extern const ax_device_ops ax_device_ops_cpu;

// Where a checkpoint lies while it is made, how it gets its name, and how it goes.
#pragma once
#include "ckpt/disk.h"

#include <stdbool.h>

typedef struct ax_place {
    char dir[AX_PATH_MAX], parent[AX_PATH_MAX];
    char tmp[AX_PATH_MAX]; // parent/.tmp-NAME
    bool keep_tmp;         // it is not ours to remove
} ax_place;

ax_status ax_place_set(ax_place *p, const char *dir);
// Makes tmp, empty, once `dir` is seen to be free or an older checkpoint.
ax_status ax_place_make(const ax_place *p);
// Gives tmp the name, in one move, and takes an older checkpoint of that name away. All of tmp must
// be on disk.
ax_status ax_place_take(ax_place *p);
void ax_place_abandon(const ax_place *p); // what make made

bool ax_place_is_checkpoint(const char *dir); // whether it has a manifest
// Only what a save made is removed, the manifest first: a directory with other files in it stays.
// False, with errno, where it is still there.
bool ax_place_remove(const char *dir);
// Ends what a process that was killed between two names began (file systems where names cannot
// change places): an older checkpoint that stepped aside, as .tmp-NAME.old, gets its name `dir`
// back where that is free or holds no whole checkpoint, which is then named broken-NAME (*back);
// else it goes. False, with errno, where it is still there.
bool ax_place_mend(const char *dir, bool *back);
// Whether nothing but files of a save lies in it.
bool ax_place_is_ours(const char *dir);

#include "fuzz_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static char path[512];

static const char *name_file(const char *name)
{
    snprintf(path, sizeof path, "%s/%.255s", fuzz_folder(), name);
    return path;
}

static void remove_folder(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlink(name_file(e->d_name));
    if (d)
        closedir(d);
    rmdir(folder);
}

const char *fuzz_folder(void)
{
    static const char *const places[] = {"/dev/shm/axonn-fuzz-XXXXXX", "/tmp/axonn-fuzz-XXXXXX"};
    for (int i = 0; i < 2 && !*folder; i++) {
        snprintf(folder, sizeof folder, "%s", places[i]);
        if (!mkdtemp(folder))
            *folder = 0;
        else
            atexit(remove_folder);
    }
    if (!*folder) {
        perror("no folder for the files to read");
        exit(1);
    }
    return folder;
}

const char *fuzz_file(const char *name, const uint8_t *bytes, size_t size)
{
    int fd = open(name_file(name), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || (size && write(fd, bytes, size) != (ssize_t)size)) {
        perror(path);
        exit(1);
    }
    close(fd);
    return path;
}

void fuzz_no_file(const char *name)
{
    unlink(name_file(name));
}

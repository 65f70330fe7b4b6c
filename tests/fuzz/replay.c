// Runs a fuzzing entry on the files of directories, without a fuzzer.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return 0;
    size_t room = 1 << 20, n = 0;
    uint8_t *data = malloc(room);
    while (data && (n += fread(data + n, 1, room - n, f)) == room)
        data = realloc(data, room *= 2);
    fclose(f);
    if (!data)
        exit(1);
    // An own block of the exact size, so that a sanitizer sees the first byte read behind it.
    uint8_t *exact = malloc(n ? n : 1);
    if (!exact)
        exit(1);
    memcpy(exact, data, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    free(data);
    return 1;
}

static int replay_folder(const char *folder)
{
    DIR *d = opendir(folder);
    int files = 0;
    if (!d) {
        fprintf(stderr, "%s cannot be opened\n", folder);
        exit(1);
    }
    for (struct dirent *e; (e = readdir(d));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            files += replay_file(path);
    }
    closedir(d);
    return files;
}

int main(int argc, char **argv)
{
    int files = 0;
    for (int i = 1; i < argc; i++)
        files += replay_folder(argv[i]);
    printf("%d files replayed\n", files);
    return files == 0;
}

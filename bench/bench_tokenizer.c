// Megabytes a second of processor time of one thread: axonn and, with python3 and its tokenizers
// package, the Hugging Face library, on the same texts in one run. Median, least and most of the
// runs; the ratio is that of the medians. Processor time, so that other load does not count.
//
//     bench_tokenizer TEXTS.jsonl TOKENIZER...
#include "data/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 3 };

typedef struct texts {
    char **text;
    size_t *length;
    size_t count, bytes;
} texts;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ax_status read_texts(const char *path, texts *out)
{
    FILE *f = fopen(path, "r");
    AX_CHECK(f, AX_EUSAGE, "%s cannot be opened", path);
    char *line = NULL;
    size_t room = 0, most = 0;
    for (ssize_t n; (n = getline(&line, &room, f)) > 0;) {
        json_t *object = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        const json_t *text = json_object_get(object, "text");
        AX_CHECK(json_is_string(text), AX_EFORMAT, "%s: line %zu has no text", path,
                 out->count + 1);
        if (out->count == most) {
            most = most ? most * 2 : 256;
            out->text = realloc(out->text, most * sizeof *out->text);
            out->length = realloc(out->length, most * sizeof *out->length);
            AX_CHECK(out->text && out->length, AX_ENOMEM, "no memory for the texts");
        }
        out->length[out->count] = json_string_length(text);
        out->text[out->count++] = strdup(json_string_value(text));
        out->bytes += json_string_length(text);
        json_decref(object);
    }
    free(line);
    fclose(f);
    return AX_OK;
}

// Seconds of one run over all texts with an encoder that starts without a word in its cache.
static ax_status run(const ax_tokenizer *t, const texts *all, double *seconds, int64_t *tokens)
{
    ax_encoder *e;
    ax_ids ids = {0};
    AX_TRY(ax_encoder_open(t, AX_LITERALS_ARE_TOKENS, &e));
    double start = now();
    *tokens = 0;
    ax_status st = AX_OK;
    for (size_t i = 0; st == AX_OK && i < all->count; i++) {
        ids.count = 0;
        st = ax_encoder_encode(e, all->text[i], all->length[i], &ids);
        *tokens += ids.count;
    }
    *seconds = now() - start;
    ax_ids_fini(&ids);
    ax_encoder_close(e);
    return st;
}

static const char other[] =
    "import json, os, sys, time\n"
    "os.environ['TOKENIZERS_PARALLELISM'] = 'false'\n"
    "from tokenizers import Tokenizer\n"
    "t = Tokenizer.from_file(sys.argv[1])\n"
    "texts = [json.loads(l)['text'] for l in open(sys.argv[2], encoding='utf-8')]\n"
    "seconds = []\n"
    "for i in range(3):\n"
    "    start = time.process_time()\n"
    "    out = t.encode_batch_fast(texts, add_special_tokens=False)\n"
    "    seconds.append(time.process_time() - start)\n"
    "print(*seconds, sum(len(e.ids) for e in out))\n";

// False where the library is not installed.
static bool run_library(const char *file, const char *texts_path, double seconds[RUNS],
                        int64_t *tokens)
{
    char command[8192];
    char script[] = "/tmp/bench_tokenizer_XXXXXX";
    int handle = mkstemp(script);
    FILE *f = handle >= 0 ? fdopen(handle, "w") : NULL;
    if (!f)
        return false;
    fputs(other, f);
    fclose(f);
    snprintf(command, sizeof command, "python3 '%s' '%s' '%s' 2>/dev/null", script, file,
             texts_path);
    FILE *p = popen(command, "r");
    long long n = 0;
    bool read = p && fscanf(p, "%lf %lf %lf %lld", &seconds[0], &seconds[1], &seconds[2], &n) == 4;
    if (p)
        pclose(p);
    remove(script);
    *tokens = n;
    return read;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Prints what the runs did and returns the median of their seconds.
static double report(const char *who, double seconds[RUNS], int64_t tokens, double mb)
{
    qsort(seconds, RUNS, sizeof *seconds, by_size);
    printf("    %-8s %lld tokens, %.1f MB/s (%.1f to %.1f)\n", who, (long long)tokens,
           mb / seconds[RUNS / 2], mb / seconds[RUNS - 1], mb / seconds[0]);
    return seconds[RUNS / 2];
}

static ax_status measure(const char *name, const char *texts_path, const texts *all)
{
    ax_tokenizer *t;
    double seconds[RUNS], mb = (double)all->bytes * 1e-6;
    int64_t tokens = 0;
    char file[4096];
    AX_TRY(ax_tokenizer_open(name, &t));
    ax_status st = AX_OK;
    for (int i = 0; st == AX_OK && i < RUNS; i++)
        st = run(t, all, &seconds[i], &tokens);
    ax_tokenizer_close(t);
    AX_TRY(st);
    printf("%s, %.1f MB of text\n", name, mb);
    double ours = report("axonn", seconds, tokens, mb);
    size_t n = strlen(name);
    bool is_file = n > 5 && strcmp(name + n - 5, ".json") == 0;
    snprintf(file, sizeof file, "%s%s", name, is_file ? "" : "/tokenizer.json");
    if (run_library(file, texts_path, seconds, &tokens))
        printf("    ratio    %.1f\n", report("library", seconds, tokens, mb) / ours);
    else
        printf("    the library is not installed\n");
    return AX_OK;
}

int main(int argc, char **argv)
{
    texts all = {0};
    if (argc < 3) {
        fprintf(stderr, "bench_tokenizer TEXTS.jsonl TOKENIZER...\n");
        return 2;
    }
    ax_status st = read_texts(argv[1], &all);
    for (int i = 2; st == AX_OK && i < argc; i++)
        st = measure(argv[i], argv[1], &all);
    for (size_t i = 0; i < all.count; i++)
        free(all.text[i]);
    free(all.text);
    free(all.length);
    return st == AX_OK ? 0 : 1;
}

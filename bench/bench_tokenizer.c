// Megabytes a second of one thread: axonn and, with python3 and its tokenizers package, the
// Hugging Face library, on the same texts in one run.
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
    clock_gettime(CLOCK_MONOTONIC, &t);
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
    "best = 1e9\n"
    "for i in range(2):\n"
    "    start = time.perf_counter()\n"
    "    out = t.encode_batch_fast(texts, add_special_tokens=False)\n"
    "    best = min(best, time.perf_counter() - start)\n"
    "print(best, sum(len(e.ids) for e in out))\n";

// False where the library is not installed.
static bool run_library(const char *file, const char *texts_path, double *seconds, int64_t *tokens)
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
    bool read = p && fscanf(p, "%lf %lld", seconds, &n) == 2;
    if (p)
        pclose(p);
    remove(script);
    *tokens = n;
    return read;
}

static ax_status measure(const char *name, const char *texts_path, const texts *all)
{
    ax_tokenizer *t;
    double best = 1e9, seconds, library;
    int64_t tokens = 0, library_tokens;
    char file[4096];
    AX_TRY(ax_tokenizer_open(name, &t));
    for (int i = 0; i < RUNS; i++) {
        AX_TRY(run(t, all, &seconds, &tokens));
        best = seconds < best ? seconds : best;
    }
    double mb = (double)all->bytes * 1e-6;
    size_t n = strlen(name);
    bool is_file = n > 5 && strcmp(name + n - 5, ".json") == 0;
    snprintf(file, sizeof file, "%s%s", name, is_file ? "" : "/tokenizer.json");
    printf("%s: %lld tokens, %.1f MB/s", name, (long long)tokens, mb / best);
    if (run_library(file, texts_path, &library, &library_tokens))
        printf("; library: %lld tokens, %.1f MB/s; ratio %.1f", (long long)library_tokens,
               mb / library, library / best);
    else
        printf("; the library is not installed");
    printf("\n");
    ax_tokenizer_close(t);
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

// Rows of every kind of file, against rows made here from a plain list of documents.
#include "base/log.h"
#include "base/rng.h"
#include "data/loader.h"
#include "data/shard_write.h"
#include "data/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DOCUMENTS = 40, ROOM = 2000, MOST_SEQ = 64, EOD = 256 };

static ax_tokenizer *tokenizer;
static char folder[] = "/tmp/axonn-test-rows-XXXXXX";
static const char *const made[] = {"t.jsonl", "m.bin", "m.idx",   "r.bin", "p.jsonl",
                                   "a.txt",   "b.txt", "q.jsonl", "x.bin", "s.jsonl"};

static int enter_folder(void **state)
{
    (void)state;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true});
    return !mkdtemp(folder) || chdir(folder) || ax_tokenizer_open("byte", &tokenizer) != AX_OK;
}

static int leave_folder(void **state)
{
    (void)state;
    ax_tokenizer_close(tokenizer);
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        remove(made[i]);
    return chdir("/") || rmdir(folder);
}

static ax_data_options options(const char *train)
{
    return (ax_data_options){.train = train,
                             .valid = "",
                             .tokenizer = "byte",
                             .text_key = "text",
                             .prompt_key = "prompt",
                             .completion_key = "completion",
                             .eod = true,
                             .seed = 1};
}

static ax_corpus *open_rows(const ax_data_options *o, int64_t seq)
{
    ax_corpus *c = NULL;
    const ax_corpus_use use = {.seq = seq, .vocab = 257};
    assert_int_equal(ax_corpus_open(o, tokenizer, &use, &c), AX_OK);
    return c;
}

static void refuses(const ax_data_options *o, ax_status st, const char *message)
{
    ax_corpus *c = NULL;
    const ax_corpus_use use = {.seq = 4, .vocab = 257};
    assert_int_equal(ax_corpus_open(o, tokenizer, &use, &c), st);
    assert_string_equal(ax_error_text(), message);
}

static void write_bytes(const char *path, const void *bytes, size_t length)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

// ---- a plain list of documents ----

typedef struct tape {
    int32_t id[ROOM];
    bool prompt[ROOM]; // part of one
    int document[ROOM];
    int64_t count;
    int64_t begin[DOCUMENTS + 1];
} tape;

static int draw(int document, int which, int most)
{
    return (int)(ax_rng_bits(3, (uint64_t)which, (uint64_t)document) % (uint64_t)most);
}

static int32_t letter_of(int document, int i)
{
    return 'a' + draw(document, 100 + i, 26);
}

static void add_token(tape *t, int document, int32_t id, bool prompt)
{
    t->id[t->count] = id;
    t->prompt[t->count] = prompt;
    t->document[t->count++] = document;
}

// Documents of 1 to 40 letters; of a pair the first few are the prompt.
static tape make_tape(bool pairs)
{
    tape t = {.count = 0};
    for (int d = 0; d < DOCUMENTS; d++) {
        int letters = 1 + draw(d, 0, 40), prompt = pairs ? draw(d, 1, letters + 1) : 0;
        t.begin[d] = t.count;
        for (int i = 0; i < letters; i++)
            add_token(&t, d, letter_of(d, i), i < prompt);
        add_token(&t, d, EOD, false);
    }
    t.begin[DOCUMENTS] = t.count;
    return t;
}

static void write_lines(const char *path, const tape *t, bool pairs)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int d = 0; d < DOCUMENTS; d++) {
        fputs(pairs ? "{\"prompt\": \"" : "{\"text\": \"", f);
        bool behind = !pairs;
        for (int64_t i = t->begin[d]; i < t->begin[d + 1]; i++) {
            if (!behind && !t->prompt[i]) {
                fputs("\", \"completion\": \"", f);
                behind = true;
            }
            if (t->id[i] != EOD)
                fputc(t->id[i], f);
        }
        fputs("\"}\n", f);
    }
    assert_int_equal(fclose(f), 0);
}

static void write_shards(const tape *t)
{
    ax_shard_writer *w;
    uint16_t bare[ROOM];
    remove("m.bin");
    remove("m.idx");
    assert_int_equal(ax_shard_writer_open("m", 257, &w), AX_OK);
    for (int d = 0; d < DOCUMENTS; d++)
        assert_int_equal(ax_shard_writer_add(w, t->id + t->begin[d], t->begin[d + 1] - t->begin[d]),
                         AX_OK);
    assert_int_equal(ax_shard_writer_finish(w), AX_OK);
    ax_shard_writer_close(w);
    for (int64_t i = 0; i < t->count; i++)
        bare[i] = (uint16_t)t->id[i];
    write_bytes("r.bin", bare, (size_t)t->count * sizeof *bare);
}

typedef struct values {
    int32_t ids[MOST_SEQ], targets[MOST_SEQ], positions[MOST_SEQ];
} values;

static ax_row row_of(values *v)
{
    return (ax_row){v->ids, v->targets, v->positions};
}

// Row [begin, end) of the tape, by the rules of corpus.h.
static values expected(const tape *t, int64_t seq, int64_t begin, int64_t end, bool mask)
{
    values v;
    int32_t position = 0;
    for (int64_t k = 0; k < seq; k++) {
        int64_t i = begin + k;
        bool inside = i + 1 < end;
        bool starts =
            mask && (i + 1 == end || (inside && k > 0 && t->document[i] != t->document[i - 1]));
        bool counts =
            inside && !t->prompt[i + 1] && !(mask && t->document[i] != t->document[i + 1]);
        position = starts ? 0 : position;
        v.ids[k] = inside ? t->id[i] : EOD;
        v.targets[k] = counts ? t->id[i + 1] : -1;
        v.positions[k] = position++;
    }
    return v;
}

static void expect_same(const values *a, const values *b, int64_t seq)
{
    assert_memory_equal(a->ids, b->ids, (size_t)seq * sizeof(int32_t));
    assert_memory_equal(a->targets, b->targets, (size_t)seq * sizeof(int32_t));
    assert_memory_equal(a->positions, b->positions, (size_t)seq * sizeof(int32_t));
}

static void expect_row(const ax_corpus *c, ax_split split, int64_t row, const tape *t, bool mask)
{
    values got;
    ax_row out = row_of(&got);
    int64_t begin, end;
    ax_corpus_span(c, split, 0, row, &begin, &end);
    assert_true(begin >= 0 && begin + 1 <= end && end <= t->count);
    assert_true(end - begin <= ax_corpus_seq(c) + 1);
    values want = expected(t, ax_corpus_seq(c), begin, end, mask);
    assert_int_equal(ax_corpus_window(c, split, row, &out), AX_OK);
    expect_same(&got, &want, ax_corpus_seq(c));
}

static void expect_all_rows(const char *files, const tape *t, ax_packing packing)
{
    for (int mask = 0; mask < 2; mask++) {
        for (int64_t seq = 3; seq <= 60; seq += 3) {
            ax_data_options o = options(files);
            o.packing = packing;
            o.document_mask = mask;
            ax_corpus *c = open_rows(&o, seq);
            assert_int_equal(ax_corpus_tokens(c, AX_TRAIN), t->count);
            for (int64_t i = 0; i < ax_corpus_windows(c, AX_TRAIN); i++)
                expect_row(c, AX_TRAIN, i, t, mask);
            ax_corpus_close(c);
        }
    }
}

// ---- streams ----

static void rows_of_a_stream_are_the_same_from_text_and_from_token_files(void **state)
{
    (void)state;
    const tape t = make_tape(false);
    write_lines("t.jsonl", &t, false);
    write_shards(&t);
    expect_all_rows("t.jsonl", &t, AX_PACKING_STREAM);
    expect_all_rows("m", &t, AX_PACKING_STREAM);
    expect_all_rows("r.bin:uint16", &t, AX_PACKING_AUTO);
}

static void files_of_several_kinds_are_one_stream_in_order(void **state)
{
    (void)state;
    const tape t = make_tape(false);
    tape two = {.count = 0};
    write_lines("t.jsonl", &t, false);
    write_shards(&t);
    write_bytes("a.txt", "xyz", 3);
    for (int64_t i = 0; i < t.count && i < 900; i++)
        add_token(&two, t.document[i], t.id[i], false);
    static const int32_t tail[] = {'x', 'y', 'z', EOD};
    write_bytes("b.txt", "", 0);
    for (int mask = 0; mask < 2; mask++) {
        ax_data_options o = options("b.txt,m,b.txt,a.txt,r.bin:uint16,b.txt");
        o.document_mask = mask;
        ax_corpus *c = open_rows(&o, 16);
        assert_int_equal(ax_corpus_tokens(c, AX_TRAIN), 2 * t.count + 4);
        const ax_source *s = ax_corpus_source(c, AX_TRAIN, 0);
        int32_t ids[ROOM * 2 + 4];
        assert_int_equal(ax_source_read(s, 0, 2 * t.count + 4, ids), AX_OK);
        assert_memory_equal(ids, t.id, (size_t)t.count * 4);
        assert_memory_equal(ids + t.count, tail, sizeof tail);
        assert_memory_equal(ids + t.count + 4, t.id, (size_t)t.count * 4);
        assert_int_equal(ax_source_empty_files(s), 3);
        for (int64_t i = 0; i + 1 < t.count / 16; i++)
            expect_row(c, AX_TRAIN, i, &two, mask);
        ax_corpus_close(c);
    }
}

static void documents_without_an_eod_still_have_borders(void **state)
{
    (void)state;
    values v;
    ax_row out = row_of(&v);
    write_bytes("s.jsonl", "{\"text\":\"abc\"}\n{\"text\":\"de\"}\n{\"text\":\"fgh\"}\n", 44);
    ax_data_options o = options("s.jsonl");
    o.eod = false;
    o.document_mask = true;
    ax_corpus *c = open_rows(&o, 7);
    static const int32_t positions[] = {0, 1, 2, 0, 1, 0, 1};
    static const int32_t targets[] = {'b', 'c', -1, 'e', -1, 'g', 'h'};
    assert_int_equal(ax_corpus_window(c, AX_TRAIN, 0, &out), AX_OK);
    assert_memory_equal(v.ids, ((int32_t[]){'a', 'b', 'c', 'd', 'e', 'f', 'g'}), sizeof targets);
    assert_memory_equal(v.positions, positions, sizeof positions);
    assert_memory_equal(v.targets, targets, sizeof targets);
    ax_corpus_close(c);
}

static void empty_documents_of_a_token_file_change_nothing(void **state)
{
    (void)state;
    const tape t = make_tape(false);
    ax_shard_writer *w;
    remove("m.bin");
    remove("m.idx");
    assert_int_equal(ax_shard_writer_open("m", 257, &w), AX_OK);
    for (int d = 0; d < DOCUMENTS; d++) {
        for (int empty = 0; empty < (d % 3) * 40; empty++)
            assert_int_equal(ax_shard_writer_add(w, t.id, 0), AX_OK);
        assert_int_equal(ax_shard_writer_add(w, t.id + t.begin[d], t.begin[d + 1] - t.begin[d]),
                         AX_OK);
    }
    assert_int_equal(ax_shard_writer_add(w, t.id, 0), AX_OK);
    assert_int_equal(ax_shard_writer_finish(w), AX_OK);
    ax_shard_writer_close(w);
    expect_all_rows("m", &t, AX_PACKING_STREAM);
    expect_all_rows("m", &t, AX_PACKING_WHOLE);
}

// ---- whole documents ----

// The rule of pack.h, in its own words.
static int64_t plan(const tape *t, int64_t seq, int64_t *begin, int64_t *end)
{
    int64_t rows = 0;
    for (int d = 0; d < DOCUMENTS; d++) {
        int64_t from = t->begin[d], to = t->begin[d + 1];
        if (rows > 0 && to - begin[rows - 1] <= seq + 1) {
            end[rows - 1] = to;
            continue;
        }
        for (; to - from > seq + 1; from += seq) {
            begin[rows] = from;
            end[rows++] = from + seq + 1;
        }
        begin[rows] = from;
        end[rows++] = to;
    }
    return rows;
}

static void expect_plan(const char *files, const tape *t)
{
    int64_t begin[ROOM], end[ROOM];
    for (int64_t seq = 1; seq <= 60; seq++) {
        ax_data_options o = options(files);
        o.packing = AX_PACKING_WHOLE;
        ax_corpus *c = open_rows(&o, seq);
        int64_t rows = plan(t, seq, begin, end);
        assert_int_equal(ax_corpus_windows(c, AX_TRAIN), rows);
        assert_int_equal(ax_corpus_samples(c, AX_TRAIN, 0), rows);
        for (int64_t i = 0; i < rows; i++) {
            int64_t b, e;
            ax_corpus_span(c, AX_TRAIN, 0, i, &b, &e);
            assert_true(b == begin[i] && e == end[i]);
        }
        ax_corpus_close(c);
    }
}

static void whole_documents_are_packed_in_order_and_only_long_ones_cut(void **state)
{
    (void)state;
    const tape t = make_tape(false);
    write_lines("t.jsonl", &t, false);
    write_shards(&t);
    expect_plan("t.jsonl", &t);
    expect_plan("m", &t);
    expect_plan("r.bin:uint16", &t);
    expect_all_rows("t.jsonl", &t, AX_PACKING_WHOLE);
    expect_all_rows("m", &t, AX_PACKING_WHOLE);
    expect_all_rows("r.bin:uint16", &t, AX_PACKING_WHOLE);
}

static void packing_loses_no_target_and_counts_none_twice(void **state)
{
    (void)state;
    const tape t = make_tape(false);
    write_lines("t.jsonl", &t, false);
    for (int64_t seq = 1; seq <= 60; seq++) {
        int64_t counted = 0;
        ax_data_options o = options("t.jsonl");
        o.packing = AX_PACKING_WHOLE;
        o.document_mask = true;
        ax_corpus *c = open_rows(&o, seq);
        for (int64_t i = 0; i < ax_corpus_windows(c, AX_TRAIN); i++) {
            values v;
            ax_row out = row_of(&v);
            assert_int_equal(ax_corpus_window(c, AX_TRAIN, i, &out), AX_OK);
            for (int64_t k = 0; k < seq; k++)
                counted += v.targets[k] >= 0;
        }
        assert_int_equal(counted, t.count - DOCUMENTS);
        ax_corpus_close(c);
    }
}

static void the_border_of_packed_data_is_one_of_documents(void **state)
{
    (void)state;
    const tape t = make_tape(false);
    write_lines("t.jsonl", &t, false);
    for (int percent = 0; percent < 100; percent += 7) {
        ax_data_options o = options("t.jsonl");
        o.packing = AX_PACKING_WHOLE;
        o.valid_fraction = percent / 100.0;
        ax_corpus *c = open_rows(&o, 16);
        int64_t border = ax_corpus_tokens(c, AX_TRAIN), best = t.count;
        double want = (double)t.count * (1 - percent / 100.0);
        assert_int_equal(border + ax_corpus_tokens(c, AX_VALID), t.count);
        bool is_begin = false;
        for (int d = 0; d <= DOCUMENTS; d++) {
            int64_t off = llabs(t.begin[d] - (int64_t)(want + 0.5));
            best = off < best ? off : best;
            is_begin = is_begin || t.begin[d] == border;
        }
        assert_true(is_begin);
        assert_int_equal(llabs(border - (int64_t)(want + 0.5)), best);
        ax_corpus_close(c);
    }
}

// ---- pairs ----

static void completions_and_their_ends_are_the_targets_of_pairs(void **state)
{
    (void)state;
    const tape t = make_tape(true);
    write_lines("p.jsonl", &t, true);
    expect_all_rows("p.jsonl", &t, AX_PACKING_AUTO);
    expect_all_rows("p.jsonl", &t, AX_PACKING_STREAM);
    ax_data_options o = options("p.jsonl");
    ax_corpus *c = open_rows(&o, 16);
    assert_true(ax_corpus_is_packed(c, AX_TRAIN, 0));
    ax_corpus_close(c);
}

static void keys_of_ones_own_name_prompt_and_completion(void **state)
{
    (void)state;
    values v;
    ax_row out = row_of(&v);
    const char *line = "{\"question\":\"ab\",\"answer\":\"c\",\"text\":\"no\"}\n";
    write_bytes("q.jsonl", line, strlen(line));
    ax_data_options o = options("q.jsonl");
    o.prompt_key = "question";
    o.completion_key = "answer";
    o.text_key = "body";
    o.bos = false;
    ax_corpus *c = open_rows(&o, 5);
    assert_int_equal(ax_corpus_window(c, AX_TRAIN, 0, &out), AX_OK);
    assert_memory_equal(v.ids, ((int32_t[]){'a', 'b', 'c', EOD, EOD}), 5 * sizeof(int32_t));
    assert_memory_equal(v.targets, ((int32_t[]){-1, 'c', EOD, -1, -1}), 5 * sizeof(int32_t));
    ax_corpus_close(c);
    o.prompt_key = "body";
    refuses(&o, AX_EUSAGE,
            "data.text_key=body, data.prompt_key=body, data.completion_key=answer: name three keys "
            "that differ");
}

static void a_row_may_hold_no_target_at_all(void **state)
{
    (void)state;
    values v;
    ax_row out = row_of(&v);
    const char *line = "{\"prompt\":\"a long one\",\"completion\":\"x\"}\n";
    write_bytes("q.jsonl", line, strlen(line));
    ax_data_options o = options("q.jsonl");
    ax_corpus *c = open_rows(&o, 4); // 12 tokens: [0,5) [4,9) [8,12)
    assert_int_equal(ax_corpus_windows(c, AX_TRAIN), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ax_corpus_window(c, AX_TRAIN, i, &out), AX_OK);
        int counted = 0;
        for (int k = 0; k < 4; k++)
            counted += v.targets[k] >= 0;
        assert_int_equal(counted, i < 2 ? 0 : 2);
    }
    ax_corpus_close(c);
}

static void a_file_holds_texts_or_pairs(void **state)
{
    (void)state;
    ax_data_options o = options("q.jsonl");
    const char *text = "{\"text\":\"a\"}\n\n{\"prompt\":\"a\",\"completion\":\"b\"}\n";
    write_bytes("q.jsonl", text, strlen(text));
    refuses(&o, AX_EFORMAT,
            "q.jsonl:3: a prompt and completion after lines with a text; a file holds one kind, so "
            "put the other into a file of its own");
    text = "{\"prompt\":\"a\",\"completion\":\"b\"}\n{\"text\":\"a\"}\n";
    write_bytes("q.jsonl", text, strlen(text));
    refuses(&o, AX_EFORMAT,
            "q.jsonl:2: a text after lines with a prompt and completion; a file holds one kind, so "
            "put the other into a file of its own");
}

// ---- what is refused ----

static void ids_beyond_the_vocabulary_are_refused_when_a_token_file_is_opened(void **state)
{
    (void)state;
    static const uint16_t ids[] = {1, 2, 3, 300, 5, 6};
    write_bytes("x.bin", ids, sizeof ids);
    ax_data_options o = options("x.bin:uint16");
    ax_corpus *c;
    ax_corpus_use use = {.seq = 4, .vocab = 257};
    assert_int_equal(ax_corpus_open(&o, tokenizer, &use, &c), AX_EFORMAT);
    assert_non_null(strstr(ax_error_text(), "x.bin"));
    assert_non_null(strstr(ax_error_text(), "300"));
    o.packing = AX_PACKING_WHOLE;
    assert_int_equal(ax_corpus_open(&o, tokenizer, &use, &c), AX_EFORMAT);
    use.vocab = 301;
    assert_int_equal(ax_corpus_open(&o, tokenizer, &use, &c), AX_OK);
    ax_corpus_close(c);
}

static void held_out_files_carry_no_weights(void **state)
{
    (void)state;
    ax_data_options o = options("a.txt");
    write_bytes("a.txt", "xyz", 3);
    o.valid = "a.txt@1";
    refuses(
        &o, AX_EUSAGE,
        "data.valid=a.txt@1: held-out files carry no weights; each of their tokens counts once");
}

static void a_begin_that_the_tokenizer_lacks_is_refused(void **state)
{
    (void)state;
    ax_data_options o = options("a.txt");
    write_bytes("a.txt", "xyz", 3);
    o.bos = true;
    refuses(&o, AX_EUSAGE,
            "data.bos=on, but data.tokenizer=byte has no token that begins a document");
}

// ---- mixtures ----

static ax_corpus *open_mixture(const tape *texts, const tape *pairs)
{
    write_shards(texts);
    write_lines("p.jsonl", pairs, true);
    ax_data_options o = options("m@0.6,p.jsonl@0.3,r.bin:uint16@0.1");
    o.valid_fraction = 0.2;
    return open_rows(&o, 8);
}

static void every_source_of_a_mixture_has_epochs_of_its_own(void **state)
{
    (void)state;
    enum { SAMPLES = 6000 };
    const tape texts = make_tape(false), pairs = make_tape(true);
    static const double share[] = {0.6, 0.3, 0.1};
    ax_corpus *c = open_mixture(&texts, &pairs);
    int64_t taken[3] = {0}, most = 0;
    ax_loader l;
    assert_int_equal(ax_loader_init(&l, c, 8, 5), AX_OK);
    char(*seen)[3][ROOM] = calloc(1, sizeof *seen);
    assert_non_null(seen);
    for (int64_t g = 0; g < SAMPLES; g++) {
        ax_sample s = ax_loader_sample(&l, g / 8 + 1, g % 8);
        int64_t samples = ax_corpus_samples(c, AX_TRAIN, s.source);
        assert_int_equal(s.epoch, taken[s.source] / samples);
        assert_in_range(s.sample, 0, samples - 1);
        if (taken[s.source]++ % samples == 0)
            memset((*seen)[s.source], 0, ROOM); // a new epoch
        assert_int_equal((*seen)[s.source][s.sample]++, 0);
        most = s.epoch > most ? s.epoch : most;
    }
    for (int i = 0; i < 3; i++)
        assert_true(llabs(taken[i] - (int64_t)(share[i] * SAMPLES)) <= 2);
    assert_true(most >= 10);
    free(seen);
    ax_corpus_close(c);
}

static void a_mixture_is_the_same_for_every_batch(void **state)
{
    (void)state;
    const tape texts = make_tape(false), pairs = make_tape(true);
    ax_corpus *c = open_mixture(&texts, &pairs);
    ax_loader a, b, other;
    int same = 0;
    assert_int_equal(ax_loader_init(&a, c, 8, 5), AX_OK);
    assert_int_equal(ax_loader_init(&b, c, 3, 5), AX_OK);
    assert_int_equal(ax_loader_init(&other, c, 3, 6), AX_OK);
    for (int64_t g = 0; g < 480; g++) {
        values x, y;
        ax_row into_x = row_of(&x), into_y = row_of(&y);
        ax_sample s = ax_loader_sample(&a, g / 8 + 1, g % 8);
        ax_sample r = ax_loader_sample(&b, g / 3 + 1, g % 3);
        ax_sample q = ax_loader_sample(&other, g / 3 + 1, g % 3);
        assert_true(s.source == r.source && s.epoch == r.epoch && s.sample == r.sample);
        assert_true(s.begin == r.begin && s.end == r.end);
        assert_int_equal(ax_loader_row(&a, g / 8 + 1, g % 8, &into_x), AX_OK);
        assert_int_equal(ax_loader_row(&b, g / 3 + 1, g % 3, &into_y), AX_OK);
        expect_same(&x, &y, 8);
        assert_int_equal(ax_loader_sample_id(&a, g / 8 + 1, g % 8),
                         ax_loader_sample_id(&b, g / 3 + 1, g % 3));
        same += s.sample == q.sample;
    }
    assert_true(same < 100);
    ax_corpus_close(c);
}

static void each_source_of_a_mixture_holds_out_its_tail(void **state)
{
    (void)state;
    const tape texts = make_tape(false), pairs = make_tape(true);
    ax_corpus *c = open_mixture(&texts, &pairs);
    assert_int_equal(ax_corpus_parts(c, AX_VALID), 3);
    int64_t rows = 0, windows = ax_corpus_windows(c, AX_VALID);
    for (int part = 0; part < 3; part++) {
        const tape *t = part == 1 ? &pairs : &texts;
        int64_t begin, end;
        ax_corpus_span(c, AX_VALID, part, 0, &begin, &end);
        assert_true(llabs(begin - t->count * 4 / 5) <= (part == 1 ? 41 : 1));
        for (int64_t i = 0; rows < windows; i++, rows++) {
            values got;
            ax_row out = row_of(&got);
            ax_corpus_span(c, AX_VALID, part, i, &begin, &end);
            values want = expected(t, 8, begin, end, false);
            assert_int_equal(ax_corpus_window(c, AX_VALID, rows, &out), AX_OK);
            expect_same(&got, &want, 8);
            if (end == t->count) {
                rows++;
                break;
            }
        }
    }
    assert_int_equal(rows, windows);
    assert_int_equal(ax_corpus_held_out_bytes(c), 0);
    ax_corpus_close(c);
}

static void a_source_too_small_to_mix_is_refused_by_name(void **state)
{
    (void)state;
    const tape t = make_tape(false);
    ax_loader l;
    write_lines("t.jsonl", &t, false);
    write_bytes("a.txt", "xyz", 3);
    ax_data_options o = options("t.jsonl@1,a.txt@1");
    ax_corpus *c = open_rows(&o, 8);
    assert_int_equal(ax_loader_init(&l, c, 2, 1), AX_EUSAGE);
    assert_string_equal(ax_error_text(),
                        "a.txt: no sample to mix in; one needs 9 tokens (model.seq + 1), and what "
                        "is left of the file's 4 for training is less");
    ax_corpus_close(c);
}

static void packed_data_below_one_step_is_refused_with_its_numbers(void **state)
{
    (void)state;
    ax_loader l;
    write_bytes("s.jsonl", "{\"text\":\"abc\"}\n{\"text\":\"de\"}\n", 29);
    ax_data_options o = options("s.jsonl");
    o.packing = AX_PACKING_WHOLE;
    ax_corpus *c = open_rows(&o, 8);
    assert_int_equal(ax_loader_init(&l, c, 2, 1), AX_EUSAGE);
    assert_string_equal(ax_error_text(),
                        "the training data holds 1 samples of whole documents (data.packing), a "
                        "step needs 2 (train.batch): 7 tokens are too few; add data, or lower "
                        "train.batch");
    ax_corpus_close(c);
}

// ---- threads ----

typedef struct reading {
    const ax_corpus *corpus;
    uint64_t sum;
} reading;

static void *read_all(void *ctx)
{
    reading *r = ctx;
    for (int64_t i = 0; i < ax_corpus_windows(r->corpus, AX_TRAIN); i++) {
        values v;
        ax_row out = row_of(&v);
        if (ax_corpus_window(r->corpus, AX_TRAIN, i, &out) != AX_OK)
            return NULL;
        for (int64_t k = 0; k < ax_corpus_seq(r->corpus); k++)
            r->sum = r->sum * 31 + (uint64_t)(v.ids[k] + 1000 * v.targets[k] + v.positions[k]);
    }
    return r;
}

static void threads_read_one_corpus_together(void **state)
{
    (void)state;
    const tape texts = make_tape(false), pairs = make_tape(true);
    ax_corpus *c = open_mixture(&texts, &pairs);
    reading r[4], alone = {.corpus = c};
    pthread_t thread[4];
    assert_non_null(read_all(&alone));
    for (int i = 0; i < 4; i++) {
        r[i] = (reading){.corpus = c};
        assert_int_equal(pthread_create(&thread[i], NULL, read_all, &r[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *done;
        pthread_join(thread[i], &done);
        assert_non_null(done);
        assert_true(r[i].sum == alone.sum);
    }
    ax_corpus_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_stream_are_the_same_from_text_and_from_token_files),
        cmocka_unit_test(files_of_several_kinds_are_one_stream_in_order),
        cmocka_unit_test(documents_without_an_eod_still_have_borders),
        cmocka_unit_test(empty_documents_of_a_token_file_change_nothing),
        cmocka_unit_test(whole_documents_are_packed_in_order_and_only_long_ones_cut),
        cmocka_unit_test(packing_loses_no_target_and_counts_none_twice),
        cmocka_unit_test(the_border_of_packed_data_is_one_of_documents),
        cmocka_unit_test(completions_and_their_ends_are_the_targets_of_pairs),
        cmocka_unit_test(keys_of_ones_own_name_prompt_and_completion),
        cmocka_unit_test(a_row_may_hold_no_target_at_all),
        cmocka_unit_test(a_file_holds_texts_or_pairs),
        cmocka_unit_test(ids_beyond_the_vocabulary_are_refused_when_a_token_file_is_opened),
        cmocka_unit_test(held_out_files_carry_no_weights),
        cmocka_unit_test(a_begin_that_the_tokenizer_lacks_is_refused),
        cmocka_unit_test(every_source_of_a_mixture_has_epochs_of_its_own),
        cmocka_unit_test(a_mixture_is_the_same_for_every_batch),
        cmocka_unit_test(each_source_of_a_mixture_holds_out_its_tail),
        cmocka_unit_test(a_source_too_small_to_mix_is_refused_by_name),
        cmocka_unit_test(packed_data_below_one_step_is_refused_with_its_numbers),
        cmocka_unit_test(threads_read_one_corpus_together),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}

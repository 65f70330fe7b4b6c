// The checkpoints of a run: listed, pruned, swept; damage is found, named and never loaded.
#include "scene.h"

#include "base/log.h"
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *save_step(const char *out, int64_t step)
{
    char name[32];
    snprintf(name, sizeof name, "step-%08lld", (long long)step);
    scene s = scene_saving("x=2", scene_path(out, name));
    s.params = FEW;
    s.step = step;
    scene_play(s);
    return s.dir;
}

// What is listed, as "step" or "step?" where it is incomplete.
static const char *listed(const char *out)
{
    static char text[256];
    ax_ckpt_list list;
    size_t n = 0;
    assert_int_equal(ax_ckpt_list_read(out, &list), AX_OK);
    text[0] = 0;
    for (int i = 0; i < list.count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld%s", i ? " " : "",
                              (long long)list.entry[i].step, list.entry[i].complete ? "" : "?");
    ax_ckpt_list_fini(&list);
    return text;
}

static void make_dir(const char *path)
{
    assert_int_equal(mkdir(path, 0777), 0);
}

// ---- list, prune, sweep

static void checkpoints_are_listed_newest_first_and_the_broken_ones_as_such(void **state)
{
    static const char *const others[] = {
        "step-1",         "step-00000004.old", "step-000000004",  "step-0000000x",
        "xstep-00000004", "step-00000004 ",    ".tmp-step-00000", "step-"};
    assert_string_equal(listed(*state), "");
    save_step(*state, 9);
    save_step(*state, 123456789012);
    save_step(*state, 10);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        make_dir(scene_path(*state, others[i]));
    scene_write(scene_path(*state, "step-00000007"), "no directory", 12);
    assert_string_equal(listed(*state), "123456789012 10 9");

    make_dir(scene_path(*state, "step-00000011"));
    assert_int_equal(truncate(scene_path(*state, "step-00000010/model.safetensors"), 100), 0);
    scene_write(scene_path(*state, "step-00000009/manifest.json"), "{}", 2);
    assert_string_equal(listed(*state), "123456789012 11? 10? 9?");

    ax_ckpt_list list;
    assert_int_equal(ax_ckpt_list_read(scene_path(*state, "none"), &list), AX_EIO);
    ax_ckpt_list_fini(&(ax_ckpt_list){0});
}

static void a_checkpoint_under_the_name_of_another_step_is_neither_whole_nor_verified(void **state)
{
    ax_ckpt_verdict v;
    ax_ckpt_entry e;
    save_step(*state, 5);
    assert_int_equal(rename(save_step(*state, 6), scene_path(*state, "step-00000008")), 0);
    assert_string_equal(listed(*state), "8? 5");
    assert_int_equal(ax_ckpt_entry_read(scene_path(*state, "step-00000008"), &e), AX_OK);
    assert_true(e.misnamed && !e.complete && e.step == 6);
    ax_ckpt_prune(*state, 1, NULL); // good data, though: it stays
    assert_string_equal(listed(*state), "8? 5");

    assert_int_equal(ax_ckpt_verify(scene_path(*state, "step-00000008/"), &v), AX_OK);
    assert_int_equal(v.faults, 1);
    assert_string_equal(v.fault[0].file, "manifest.json");
    assert_non_null(strstr(v.fault[0].why, "step 6"));
    assert_non_null(strstr(v.fault[0].why, "step 8"));
    ax_ckpt_verdict_fini(&v);
    // Any other name tells no step.
    assert_int_equal(rename(scene_path(*state, "step-00000008"), scene_path(*state, "elsewhere")),
                     0);
    assert_int_equal(ax_ckpt_verify(scene_path(*state, "elsewhere"), &v), AX_OK);
    assert_int_equal(v.faults, 0);
    ax_ckpt_verdict_fini(&v);
}

static void a_listed_checkpoint_has_its_name_and_bytes(void **state)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors",
                                        "manifest.json"};
    const char *dir = save_step(*state, 42);
    ax_ckpt_list list;
    int64_t bytes = 0;
    for (int f = 0; f < 3; f++) {
        struct stat st;
        assert_int_equal(stat(scene_path(dir, files[f]), &st), 0);
        bytes += st.st_size;
    }
    assert_int_equal(ax_ckpt_list_read(*state, &list), AX_OK);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.entry[0].name, "step-00000042");
    assert_int_equal(list.entry[0].bytes, bytes);
    ax_ckpt_list_fini(&list);
}

static void pruning_keeps_the_newest_the_last_and_what_is_not_ours(void **state)
{
    for (int step = 1; step <= 6; step++)
        save_step(*state, step);
    make_dir(scene_path(*state, "step-00000007"));
    scene_write(scene_path(*state, "step-00000007/notes"), "mine", 4);
    ax_ckpt_prune(*state, 0, NULL);
    assert_string_equal(listed(*state), "7? 6 5 4 3 2 1");
    ax_ckpt_prune(*state, 4, "step-00000001");
    assert_string_equal(listed(*state), "7? 6 5 4 3 1");
    assert_int_equal(truncate(scene_path(*state, "step-00000006/model.safetensors"), 1), 0);
    ax_ckpt_prune(*state, 2, NULL); // one that is broken is not counted and not ours to judge
    assert_string_equal(listed(*state), "7? 6? 5 4");

    scene_write(scene_path(*state, "step-00000004/notes"), "{}", 2);
    ax_ckpt_prune(*state, 1, "step-00000005");
    assert_string_equal(listed(*state), "7? 6? 5 4?");
    assert_true(scene_exists(scene_path(*state, "step-00000004/notes")));
    assert_false(scene_exists(scene_path(*state, "step-00000004/manifest.json")));
    assert_false(scene_exists(scene_path(*state, "step-00000004/model.safetensors")));
    assert_false(scene_exists(scene_path(*state, ".tmp-step-00000004")));
    ax_ckpt_prune(*state, 1, NULL);
    assert_string_equal(listed(*state), "7? 6? 5 4?");
}

static void sweeping_takes_the_remains_of_saves_and_nothing_else(void **state)
{
    save_step(*state, 1);
    assert_int_equal(rename(save_step(*state, 2), scene_path(*state, ".tmp-step-00000002")), 0);
    make_dir(scene_path(*state, ".tmp-step-00000003"));
    make_dir(scene_path(*state, ".tmp-step-00000004"));
    scene_write(scene_path(*state, ".tmp-step-00000004/notes"), "mine", 4);
    make_dir(scene_path(*state, ".tmp-model"));
    scene_write(scene_path(*state, ".tmp-step-file"), "mine", 4);
    ax_ckpt_sweep(*state);
    assert_string_equal(listed(*state), "1");
    assert_false(scene_exists(scene_path(*state, ".tmp-step-00000002")));
    assert_false(scene_exists(scene_path(*state, ".tmp-step-00000003")));
    assert_true(scene_exists(scene_path(*state, ".tmp-step-00000004/notes")));
    assert_true(scene_exists(scene_path(*state, ".tmp-model")));
    assert_true(scene_exists(scene_path(*state, ".tmp-step-file")));
}

static void what_stepped_aside_for_a_save_that_was_killed_has_its_name_back(void **state)
{
    const char *two = save_step(*state, 2), *old = scene_path(*state, ".tmp-step-00000002.old");
    assert_int_equal(rename(two, old), 0);
    save_step(*state, 1);
    ax_ckpt_mend(*state);
    assert_string_equal(listed(*state), "2 1");
    assert_int_equal(rename(two, old), 0);
    save_step(*state, 2);
    ax_ckpt_sweep(*state); // the new one has the name
    assert_string_equal(listed(*state), "2 1");
    assert_false(scene_exists(old));
    make_dir(old);
    scene_write(scene_path(old, "notes"), "mine", 4);
    ax_ckpt_sweep(*state);
    assert_true(scene_exists(scene_path(old, "notes")));
}

// ---- damage

static void flip(const char *path, int64_t byte, int bit)
{
    unsigned char c;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &c, 1, byte), 1);
    c ^= (unsigned char)(1 << bit);
    assert_int_equal(pwrite(fd, &c, 1, byte), 1);
    close(fd);
}

static int64_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

// The tensor whose bytes hold `byte` of a file; "": the header does.
static const char *tensor_at(const ax_safetensors *s, int64_t byte)
{
    for (int i = 0; i < s->count; i++)
        if (byte >= s->list[i].begin && byte < s->list[i].end)
            return s->list[i].name;
    return "";
}

static void expect_one_fault(const char *dir, const char *file, const char *tensor, int64_t byte)
{
    ax_ckpt_verdict v;
    assert_int_equal(ax_ckpt_verify(dir, &v), AX_OK);
    if (v.faults != 1 || strcmp(v.fault[0].file, file) != 0 ||
        strcmp(v.fault[0].tensor, tensor) != 0)
        fail_msg("byte %lld of %s: %d faults, the first in '%s' of %s", (long long)byte, file,
                 v.faults, v.faults ? v.fault[0].tensor : "", v.faults ? v.fault[0].file : "");
    assert_true(v.fault[0].why[0]);
    ax_ckpt_verdict_fini(&v);
}

static void expect_whole(const char *dir, int64_t tensors)
{
    ax_ckpt_verdict v;
    assert_int_equal(ax_ckpt_verify(dir, &v), AX_OK);
    for (int i = 0; i < v.faults; i++)
        print_message("%s: %s: %s\n", v.fault[i].file, v.fault[i].tensor, v.fault[i].why);
    assert_int_equal(v.faults, 0);
    assert_int_equal(v.tensors, tensors);
    assert_int_equal(v.unsummed, 0);
    ax_ckpt_verdict_fini(&v);
}

// Every bit of the manifest and of the headers, and a few of every kilobyte behind them.
static void a_flipped_bit_anywhere_is_found_and_its_tensor_named(void **state)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
    const char *dir = save_step(*state, 1);
    expect_whole(dir, 3 * FEW);
    for (int f = 0; f < 2; f++) {
        const char *path = scene_path(dir, files[f]);
        ax_safetensors s;
        assert_int_equal(ax_safetensors_open(path, &s), AX_OK);
        int64_t size = size_of(path), head = s.list[0].begin;
        for (int64_t at = 0; at < size; at += at < head ? 1 : 97)
            for (int bit = at < head ? 0 : (int)(at % 8); bit < 8; bit += at < head ? 1 : 8) {
                flip(path, at, bit);
                expect_one_fault(dir, files[f], tensor_at(&s, at), at);
                flip(path, at, bit);
            }
        flip(path, size - 1, 7);
        expect_one_fault(dir, files[f], s.list[s.count - 1].name, size - 1);
        flip(path, size - 1, 7);
        ax_safetensors_close(&s);
    }
    const char *path = scene_path(dir, "manifest.json");
    for (int64_t at = 0, size = size_of(path); at < size; at++)
        for (int bit = 0; bit < 8; bit++) {
            flip(path, at, bit);
            expect_one_fault(dir, "manifest.json", "", at);
            flip(path, at, bit);
        }
    expect_whole(dir, 3 * FEW);
}

static void missing_short_and_long_files_are_found(void **state)
{
    const char *dir = save_step(*state, 1), *path = scene_path(dir, "optimizer.safetensors");
    const char *aside = scene_path(*state, "aside");
    int64_t size = size_of(path);
    scene_write(scene_path(dir, "tokenizer.json"), "{}", 2); // of others
    expect_whole(dir, 3 * FEW);
    assert_int_equal(truncate(path, size - 1), 0);
    expect_one_fault(dir, "optimizer.safetensors", "", size);
    assert_int_equal(truncate(path, size + 8), 0);
    expect_one_fault(dir, "optimizer.safetensors", "", size);
    assert_int_equal(rename(path, aside), 0);
    expect_one_fault(dir, "optimizer.safetensors", "", size);
    make_dir(path);
    expect_one_fault(dir, "optimizer.safetensors", "", size);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(truncate(aside, size), 0);
    assert_int_equal(symlink(aside, path), 0); // followed
    expect_one_fault(dir, "optimizer.safetensors", "norm.weight.v", size);

    ax_ckpt_verdict v;
    assert_int_equal(ax_ckpt_verify(scene_path(*state, "none"), &v), AX_EIO);
    assert_int_equal(unlink(scene_path(dir, "manifest.json")), 0);
    expect_one_fault(dir, "manifest.json", "", 0);
}

#ifndef __SANITIZE_ADDRESS__ // which needs more memory than any limit that hurts
// In a process of its own, with no room for a buffer.
static void verify_without_memory(const char *dir, const char *said)
{
    struct rlimit none = {0, 0};
    ax_ckpt_verdict v = {0};
    if (!freopen(said, "w", stderr) || setrlimit(RLIMIT_AS, &none) != 0)
        _exit(1);
    void *volatile last; // a compiler may leave out memory that nobody looks at
    do
        last = malloc(1 << 18);
    while (last);
    ax_log_setup((ax_log_config){.ranks = 1});
    _exit(ax_ckpt_verify(dir, &v) == AX_ENOMEM && v.faults == 0 ? 0 : 2);
}

static void without_memory_nothing_is_verified_and_it_says_so(void **state)
{
    const char *dir = save_step(*state, 1), *said = scene_path(*state, "said");
    size_t size;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        verify_without_memory(dir, said);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    char *text = scene_slurp(said, &size);
    assert_non_null(strstr(text, "not verified: "));
    assert_non_null(strstr(text, "no memory"));
    free(text);
}
#endif

static void two_elements_that_trade_places_are_found(void **state)
{
    const char *dir = save_step(*state, 1), *path = scene_path(dir, "model.safetensors");
    ax_safetensors s;
    assert_int_equal(ax_safetensors_open(path, &s), AX_OK);
    int64_t at = s.list[0].begin;
    char *bytes, swap[4];
    size_t size;
    bytes = scene_slurp(path, &size);
    assert_memory_not_equal(bytes + at, bytes + at + 4, 4);
    memcpy(swap, bytes + at, 4);
    memcpy(bytes + at, bytes + at + 4, 4);
    memcpy(bytes + at + 4, swap, 4);
    scene_write(path, bytes, size);
    expect_one_fault(dir, "model.safetensors", s.list[0].name, at);
    free(bytes);
    ax_safetensors_close(&s);
}

// A load compares what it reads: the moments only when they are wanted.
static void damage_is_not_loaded_on_any_grid(void **state)
{
    static const char *const grids[] = {"x=1", "x=2,y=2,z=2", "data=8", "y=4,data=2"};
    const char *dir = scene_path(*state, "step-00000001");
    scene_play(scene_saving("x=2,z=2", dir));
    const char *model = scene_path(dir, "model.safetensors");
    const char *moments = scene_path(dir, "optimizer.safetensors");
    for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++) {
        scene s = scene_loading(grids[g], dir);
        scene_play(s);
        flip(moments, size_of(moments) - 1, 3); // the last of whole.bias.v
        s.expected = AX_EFORMAT;
        const char *why = scene_play(s);
        assert_non_null(strstr(why, "optimizer.safetensors"));
        assert_non_null(strstr(why, "'whole.bias.v' does not give its checksum"));
        s.expected = AX_OK;
        s.with_state = false;
        scene_play(s);
        flip(model, size_of(model) - 1, 0);
        s.expected = AX_EFORMAT;
        assert_non_null(strstr(scene_play(s), "'whole.bias' does not give its checksum"));
        flip(model, size_of(model) - 1, 0);
        flip(moments, size_of(moments) - 1, 3);
        flip(scene_path(dir, "manifest.json"), 40, 1);
        s.with_state = true;
        assert_non_null(strstr(scene_play(s), "manifest.json"));
        flip(scene_path(dir, "manifest.json"), 40, 1);
    }
}

// ---- manifests that lie

static void reseal(const char *dir, const char *text, size_t length)
{
    char seal[64];
    snprintf(seal, sizeof seal, AX_MANIFEST_SEAL,
             (unsigned long long)ax_checksum_text(text, length));
    char *all = malloc(length + sizeof seal);
    assert_non_null(all);
    memcpy(all, text, length);
    memcpy(all + length, seal, strlen(seal));
    scene_write(scene_path(dir, "manifest.json"), all, length + strlen(seal));
    free(all);
}

// Each is well sealed, so that its own check speaks and not the seal's.
static void a_manifest_that_does_not_hold_what_it_should_is_refused(void **state)
{
    static const struct {
        const char *from, *to, *why;
    } cases[] = {
        {"\"embed.weight\": \"", "\"embed.weight\": \"0", "'embed.weight' is not 16 hexadecimal"},
        {"\"embed.weight\": \"", "\"embed.wrongs\": \"", "'embed.weight' has no checksum"},
        {"\"embed.weight\": \"", "\"\": \"", "'' is no tensor of a checkpoint"},
        {"\"norm.weight\":", "\"embed.weight\":", "duplicate object key"},
        {"\"header\": \"", "\"header\": \"x", "'model.safetensors' is not 16 hexadecimal"},
        {"\"tensors\": {", "\"tensors\": 1, \"others\": {", "has no list of tensors"},
        {"\"name\": \"model.safetensors\"", "\"name\": \"optimizer.safetensors\"",
         "'optimizer.safetensors' is listed twice"},
        {"\"name\": \"model.safetensors\"", "\"name\": \"manifest.json\"",
         "'manifest.json' is no file of a checkpoint"},
        {"\"name\": \"optimizer.safetensors\"", "\"name\": \"other.safetensors\"",
         "other.safetensors: cannot read its size"},
        {"\"step\": 1,", "\"step\": 1.5,", "'step' is not a count"},
        {"\"tokens\": ", "\"tokens\": -", "'tokens' is not a count"},
        {"\"bytes\": ", "\"bytes\": 99999999999999999999", "too big integer"},
        {"\"config\": ", "\"state\": [], \"config\": ", "'state' is not an object"},
        {"\"format\": 2", "\"format\": 3", "newer than this program"},
        {"\"files\": [", "\"files\": [ {}, ", "'name' is not a text"},
    };
    const char *dir = save_step(*state, 1);
    size_t size;
    char *text = scene_slurp(scene_path(dir, "manifest.json"), &size);
    size -= AX_MANIFEST_SEAL_SIZE;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *at = memmem(text, size, cases[i].from, strlen(cases[i].from));
        assert_non_null(at);
        size_t from = strlen(cases[i].from), to = strlen(cases[i].to), head = (size_t)(at - text);
        char *other = malloc(size + to);
        assert_non_null(other);
        memcpy(other, text, head);
        memcpy(other + head, cases[i].to, to);
        memcpy(other + head + to, at + from, size - head - from);
        reseal(dir, other, size - from + to);
        free(other);
        scene s = scene_loading("x=2", dir);
        s.params = FEW;
        const char *why;
        assert_int_not_equal(scene_play_any(s, &why), AX_OK);
        if (!strstr(why, cases[i].why))
            fail_msg("'%s' does not say '%s'", why, cases[i].why);
    }
    reseal(dir, text, size);
    expect_whole(dir, 3 * FEW);
    free(text);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, scene_open_place, scene_close_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(checkpoints_are_listed_newest_first_and_the_broken_ones_as_such),
        CASE(a_checkpoint_under_the_name_of_another_step_is_neither_whole_nor_verified),
        CASE(a_listed_checkpoint_has_its_name_and_bytes),
        CASE(pruning_keeps_the_newest_the_last_and_what_is_not_ours),
        CASE(sweeping_takes_the_remains_of_saves_and_nothing_else),
        CASE(what_stepped_aside_for_a_save_that_was_killed_has_its_name_back),
#ifndef __SANITIZE_ADDRESS__
        CASE(without_memory_nothing_is_verified_and_it_says_so),
#endif
        CASE(a_flipped_bit_anywhere_is_found_and_its_tensor_named),
        CASE(missing_short_and_long_files_are_found),
        CASE(two_elements_that_trade_places_are_found),
        CASE(damage_is_not_loaded_on_any_grid),
        CASE(a_manifest_that_does_not_hold_what_it_should_is_refused),
    };
    return cmocka_run_group_tests_name("ckpt_runs", tests, NULL, NULL);
}

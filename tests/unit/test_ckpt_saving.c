// Saves that go on while training does, and what the manifest says of the tensors.
#include "faulty_disk.h"
#include "scene.h"

#include "ckpt/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const grids[] = {"x=1", "x=2,y=2,z=2",           "z=8",           "data=8",
                                    "y=8", "x=4,data=2,order=dxyz", "x=2,z=2,data=2"};
enum { GRIDS = sizeof grids / sizeof grids[0] };

static scene in_background(const char *grid, const char *dir)
{
    scene s = scene_saving(grid, dir);
    s.background = true;
    return s;
}

static void a_save_in_the_background_holds_what_was_there_when_it_began(void **state)
{
    const char *dir = scene_path(*state, "step-00000100");
    for (int g = 0; g < GRIDS; g++) {
        scene_play(in_background(grids[g], dir));
        scene_play(scene_loading(grids[(g + 3) % GRIDS], dir));
    }
    scene s = in_background("x=4,z=2", dir);
    s.kv_copies = 2;
    scene_play(s);
    scene_play(scene_loading("y=2,data=2", dir));
}

static void floats_doubles_and_models_without_moments_are_saved_in_the_background(void **state)
{
    const char *dir = scene_path(*state, "step-00000200");
    scene s = in_background("x=2,z=2", dir), l = scene_loading("y=2,data=2", dir);
    s.act = s.acc = l.act = l.acc = AX_F64;
    scene_play(s);
    scene_play(l);
    s.act = l.act = AX_BF16;
    s.acc = l.acc = AX_F32;
    scene_play(s);
    scene_play(l);
    s.act = AX_F32;
    s.no_state = true;
    scene_play(s);
    l.with_state = false;
    scene_play(l);
}

static void both_ways_to_save_write_the_same_bytes(void **state)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors",
                                        "manifest.json"};
    const char *now = scene_path(*state, "step-00000001");
    const char *later = scene_path(*state, "step-00000002");
    scene_play(scene_saving("x=2,y=2", now));
    scene_play(in_background("z=2,data=2", later));
    for (int f = 0; f < 3; f++) {
        size_t a, b;
        char *one = scene_slurp(scene_path(now, files[f]), &a);
        char *two = scene_slurp(scene_path(later, files[f]), &b);
        assert_int_equal(a, b);
        assert_memory_equal(one, two, a);
        free(one);
        free(two);
    }
}

// On the rank's own cores it would take turns with the team that trains.
static void the_thread_that_saves_may_run_on_all_cores_though_its_rank_is_pinned(void **state)
{
    scene s = scene_saving("x=2", scene_path(*state, "step-00000003"));
    s.pinned = true;
    faulty_disk_cores();
    scene_play(s);
    assert_int_equal(faulty_disk_cores(), 1);
    s.background = true;
    s.dir = scene_path(*state, "step-00000004");
    scene_play(s);
    assert_int_equal(faulty_disk_cores(), ax_device_cores());
}

// A failure of the thread arrives in finish, on all ranks; the older checkpoint stays.
static void a_write_that_fails_in_the_background_is_told_by_finish(void **state)
{
    enum { MADE = 1 + 2 * 4 }; // the directory, two files with room and header
    const char *old = scene_path(*state, "step-00000001");
    scene_play(scene_saving("x=2", old));
    scene s = in_background("x=2", scene_path(*state, "step-00000002"));
    s.must_begin = true;
    s.expected = AX_EIO;
    for (int call = 1; call < 8; call++) {
        faulty_disk_fail_at(MADE + call);
        scene_play(s);
        assert_true(faulty_disk_heal());
        assert_false(scene_exists(s.dir));
        assert_false(scene_exists(scene_path(*state, ".tmp-step-00000002")));
    }
    s.grid = "x=1";
    faulty_disk_fail_at(MADE + 3);
    assert_non_null(strstr(scene_play(s), "No space left on device"));
    faulty_disk_heal();
    scene_play(scene_loading("z=2", old));
}

static void a_save_that_cannot_begin_says_so_at_once(void **state)
{
    scene s = in_background("x=2", scene_path(*state, "none/step-00000002"));
    s.expected = AX_EIO;
    assert_non_null(strstr(scene_play(s), "cannot make the directory"));
    s.dir = *state;
    s.expected = AX_EUSAGE;
    scene_write(scene_path(*state, "a file"), "", 0);
    assert_non_null(strstr(scene_play(s), "exists and is no checkpoint"));
}

static void a_checkpoint_is_replaced_where_names_cannot_change_places(void **state)
{
    const char *dir = scene_path(*state, "step-00000003");
    scene_play(scene_saving("x=2", dir));
    faulty_disk_no_exchange(true);
    scene s = scene_saving("z=2", dir);
    s.step = 4;
    scene_play(s);
    faulty_disk_no_exchange(false);
    assert_int_equal(scene_step_of(dir), 4);
    assert_false(scene_exists(scene_path(*state, ".tmp-step-00000003")));
    assert_false(scene_exists(scene_path(*state, ".tmp-step-00000003.old")));
    scene l = scene_loading("y=2", dir);
    l.step = 4;
    scene_play(l);
}

// A checkpoint is a model by itself, wherever it is moved to.
static void what_belongs_to_the_model_is_in_every_checkpoint(void **state)
{
    static const char *const files[] = {"tokenizer.json", "config.json", "chat_template.jinja"};
    const char *kept = scene_path(*state, "tokenizer");
    struct stat there;
    assert_int_equal(mkdir(kept, 0777), 0);
    for (int f = 0; f < 3; f++)
        scene_write(scene_path(kept, files[f]), files[f], strlen(files[f]));
    scene_write(scene_path(kept, "notes"), "mine", 4);
    for (int links = 0; links < 2; links++) {
        const char *dir = scene_path(*state, links ? "step-00000001" : "step-00000002");
        scene s = in_background("x=2", dir);
        s.companions = kept;
        s.step = links ? 1 : 2;
        faulty_disk_no_links(!links);
        scene_play(s);
        for (int f = 0; f < 3; f++) {
            size_t size;
            char *text = scene_slurp(scene_path(dir, files[f]), &size);
            assert_string_equal(text, files[f]);
            free(text);
            assert_int_equal(stat(scene_path(kept, files[f]), &there), 0);
            assert_int_equal(there.st_nlink, 1 + links);
        }
        assert_false(scene_exists(scene_path(dir, "notes")));
        scene_play(scene_loading("z=2", dir));
    }
    faulty_disk_no_links(false);
    ax_ckpt_prune(*state, 1, NULL); // as all that a save made
    assert_false(scene_exists(scene_path(*state, "step-00000001")));
    assert_true(scene_exists(scene_path(*state, "step-00000002/tokenizer.json")));
    assert_true(scene_exists(scene_path(kept, "tokenizer.json")));
}

// ---- checksums

// By the words of the header alone: XXH3 of an element with its number as seed, added up. The
// numbers were made with the xxhash package of Python.
static void an_elements_checksum_is_xxh3_of_its_bytes_and_place(void **state)
{
    (void)state;
    static const float four[] = {1.0f, -2.5f, 0.0f, 3e-40f};
    static const double two[] = {1.0, -2.5};
    assert_true(ax_checksum_elements(four, 4, 4, 0) == 0xa8b1e884f02a4920u);
    assert_true(ax_checksum_elements(four, 4, 2, 0) + ax_checksum_elements(four + 2, 4, 2, 2) ==
                0xa8b1e884f02a4920u);
    assert_true(ax_checksum_elements(two, 8, 2, 1000000) == 0x7b3704bdf3dfe848u);
    assert_true(ax_checksum_text("{}      ", 8) == 0x880d84c3a6e6507u);
}

static void checksums_are_read_as_sixteen_digits_and_nothing_else(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "0123456789abcde",
                                      "0123456789abcdef0",
                                      "0123456789ABCDEF",
                                      "0x23456789abcdef",
                                      " 123456789abcdef",
                                      "-123456789abcdef"};
    char text[AX_CHECKSUM_DIGITS + 1];
    uint64_t sum = 1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(ax_checksum_parse(bad[i], &sum));
    assert_true(ax_checksum_parse("fedcba9876543210", &sum));
    assert_true(sum == 0xfedcba9876543210u);
    ax_checksum_print(0x0012u, text);
    assert_string_equal(text, "0000000000000012");
}

static void every_grid_gives_the_same_checksums(void **state)
{
    const char *dir = scene_path(*state, "step-00000300");
    for (int wide = 0; wide < 2; wide++) {
        ax_manifest first = {0};
        for (int g = 0; g < GRIDS; g++) {
            ax_manifest m;
            scene s = g % 2 ? in_background(grids[g], dir) : scene_saving(grids[g], dir);
            s.act = s.acc = wide ? AX_F64 : AX_F32;
            scene_play(s);
            assert_int_equal(ax_manifest_read(dir, &m), AX_OK);
            assert_int_equal(m.format, 2);
            assert_int_equal(m.files, 2);
            assert_int_equal(m.file[0].tensors, PARAMS);
            assert_int_equal(m.file[1].tensors, 2 * PARAMS);
            for (int f = 0; g && f < 2; f++) {
                assert_true(m.file[f].header == first.file[f].header);
                assert_memory_equal(m.file[f].tensor, first.file[f].tensor,
                                    (size_t)m.file[f].tensors * sizeof *m.file[f].tensor);
            }
            if (g)
                ax_manifest_fini(&m);
            else
                first = m;
        }
        ax_manifest_fini(&first);
    }
}

static void the_state_comes_back_as_json(void **state)
{
    const char *dir = scene_path(*state, "step-00000400");
    ax_ckpt_info info;
    scene s = scene_saving("x=2", dir);
    s.state =
        "{ \"plan\": {\"grid\": \"x=2\"},\n \"words\": [1, -9007199254740993, 0.1, \"\\u00e4\"] }";
    scene_play(s);
    assert_int_equal(ax_ckpt_read_info(dir, &info), AX_OK);
    assert_string_equal(info.state,
                        "{\"plan\":{\"grid\":\"x=2\"},"
                        "\"words\":[1,-9007199254740993,0.10000000000000001,\"\xc3\xa4\"]}");
    ax_ckpt_info_fini(&info);
    s.state = NULL;
    scene_play(s);
    assert_int_equal(ax_ckpt_read_info(dir, &info), AX_OK);
    assert_string_equal(info.state, "");
    ax_ckpt_info_fini(&info);
}

static void a_state_that_is_no_object_is_refused_before_anything_is_written(void **state)
{
    static char *const bad[] = {"", "[]", "{\"a\":1,\"a\":2}", "{", "{\"a\":99999999999999999999}"};
    scene s = scene_saving("x=2", scene_path(*state, "step-00000500"));
    s.expected = AX_EUSAGE;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        s.state = bad[i];
        assert_non_null(strstr(scene_play(s), "no JSON object"));
        assert_false(scene_exists(s.dir));
        assert_false(scene_exists(scene_path(*state, ".tmp-step-00000500")));
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, scene_open_place, scene_close_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_save_in_the_background_holds_what_was_there_when_it_began),
        CASE(floats_doubles_and_models_without_moments_are_saved_in_the_background),
        CASE(both_ways_to_save_write_the_same_bytes),
        CASE(what_belongs_to_the_model_is_in_every_checkpoint),
        CASE(the_thread_that_saves_may_run_on_all_cores_though_its_rank_is_pinned),
        CASE(a_write_that_fails_in_the_background_is_told_by_finish),
        CASE(a_save_that_cannot_begin_says_so_at_once),
        CASE(a_checkpoint_is_replaced_where_names_cannot_change_places),
        CASE(an_elements_checksum_is_xxh3_of_its_bytes_and_place),
        CASE(checksums_are_read_as_sixteen_digits_and_nothing_else),
        CASE(every_grid_gives_the_same_checksums),
        CASE(the_state_comes_back_as_json),
        CASE(a_state_that_is_no_object_is_refused_before_anything_is_written),
    };
    return cmocka_run_group_tests_name("ckpt_saving", tests, NULL, NULL);
}

// Checkpoints: what one grid saves, every grid loads; what does not fit is refused by name; a save
// that fails or is killed harms nothing.
#include "faulty_disk.h"
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- any grid loads what any grid saved

static const struct {
    const char *grid;
    int kv_copies;
} grids[] = {
    {"x=1", 1},        {"x=2,y=2,z=2", 1},
    {"z=8", 1},        {"data=8", 1},
    {"x=4,z=2", 2},    {"x=8", 4},
    {"y=8", 1},        {"x=4,data=2,order=dxyz", 2},
    {"y=4,data=2", 1}, {"x=2,z=2,data=2", 1},
};
enum { GRIDS = sizeof grids / sizeof grids[0] };

static void what_one_grid_saves_every_grid_loads(void **state)
{
    const char *dir = scene_path(*state, "step-00000100");
    for (int from = 0; from < GRIDS; from++) {
        scene s = scene_saving(grids[from].grid, dir); // replaces the one before
        s.kv_copies = grids[from].kv_copies;
        scene_play(s);
        for (int to = 0; to < GRIDS; to++) {
            if (from != 1 && to != (from + 3) % GRIDS)
                continue;
            s = scene_loading(grids[to].grid, dir);
            s.kv_copies = grids[to].kv_copies;
            scene_play(s);
        }
    }
}

static void all_grids_write_the_same_bytes(void **state)
{
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
    const char *dir = scene_path(*state, "step-00000200");
    char *first[2], *now;
    size_t first_size[2], size;
    for (int g = 0; g < GRIDS; g++) {
        scene s = scene_saving(grids[g].grid, dir);
        s.kv_copies = grids[g].kv_copies;
        scene_play(s);
        for (int f = 0; f < 2; f++) {
            now = scene_slurp(scene_path(dir, files[f]), &size);
            if (g == 0) {
                first[f] = now;
                first_size[f] = size;
                continue;
            }
            assert_int_equal(size, first_size[f]);
            assert_memory_equal(now, first[f], size);
            free(now);
        }
    }
    free(first[0]);
    free(first[1]);
}

// The file is read with no code of the library: a search for the name and sscanf.
static void the_bytes_lie_where_the_header_says(void **state)
{
    const char *dir = scene_path(*state, "step-00000300");
    scene_play(scene_saving("x=2,y=2,z=2", dir));
    size_t size;
    char *file = scene_slurp(scene_path(dir, "model.safetensors"), &size);
    uint64_t n;
    memcpy(&n, file, sizeof n); // tests run on little-endian machines
    assert_int_equal(n % 8, 0);
    assert_int_equal(file[8], '{');
    long long end_of_all = 0;
    for (int i = 0; i < PARAMS; i++) {
        const ax_param *p = &scene_model[i];
        char head[256], shape[64];
        bool flat = p->rows == 1;
        snprintf(shape, sizeof shape, flat ? "[%lld]" : "[%lld, %lld]",
                 (long long)(flat ? p->cols : p->rows), (long long)p->cols);
        snprintf(head, sizeof head,
                 "\"%.63s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":", p->name, shape);
        const char *at = memmem(file + 8, n, head, strlen(head));
        assert_non_null(at);
        long long begin, end;
        assert_int_equal(sscanf(at + strlen(head), "[%lld,%lld]", &begin, &end), 2);
        assert_int_equal(end - begin, p->rows * p->cols * 4);
        end_of_all = end > end_of_all ? end : end_of_all;
        for (int64_t e = 0; e < p->rows * p->cols; e++) {
            float want = (float)scene_value(p->name, 0, e / p->cols, e % p->cols);
            const void *expected = scene_holds_nan(p, e / p->cols, e % p->cols)
                                       ? (const void *)&scene_odd_nan
                                       : (const void *)&want;
            assert_memory_equal(file + 8 + n + begin + e * 4, expected, 4);
        }
    }
    assert_int_equal(8 + n + (uint64_t)end_of_all, size);
    free(file);
}

static void float_and_double_checkpoints_are_read_by_either(void **state)
{
    const char *dir = scene_path(*state, "step-00000400");
    for (int wide = 0; wide < 2; wide++) {
        ax_dtype mine = wide ? AX_F64 : AX_F32, other = wide ? AX_F32 : AX_F64;
        scene s = scene_saving("x=2,z=2", dir);
        s.act = s.acc = mine;
        scene_play(s);
        ax_ckpt_info info;
        assert_int_equal(ax_ckpt_read_info(dir, &info), AX_OK);
        assert_int_equal(info.dtype, mine);
        ax_ckpt_info_fini(&info);
        s = scene_loading("y=2,data=2", dir);
        s.act = s.acc = mine;
        scene_play(s);
        s.act = s.acc = other;
        s.converted = true;
        scene_play(s);
    }
}

static void bf16_runs_keep_float_masters_and_inference_needs_none(void **state)
{
    const char *dir = scene_path(*state, "step-00000500");
    scene s = scene_saving("x=2,z=2", dir);
    s.act = AX_BF16;
    scene_play(s);
    s = scene_loading("x=2,data=2", dir);
    s.act = AX_BF16;
    scene_play(s);
    s.with_state = false; // moments are there, and zeroed
    scene_play(s);
    s.no_state = true;
    scene_play(s);
    s.grid = "y=2,z=2,data=2";
    scene_play(s);
}

static void the_manifest_gives_back_what_was_saved(void **state)
{
    const char *dir = scene_path(*state, "step-00000600");
    scene s = scene_saving("x=2", dir);
    s.step = 600;
    s.config = "model:\n  preset: \"tiny\"\\ \xc3\xa4\n";
    scene_play(s);
    ax_ckpt_info info;
    assert_int_equal(ax_ckpt_read_info(dir, &info), AX_OK);
    assert_int_equal(info.step, 600);
    assert_int_equal(info.updates, 7);
    assert_true(info.tokens == 1ll << 40);
    assert_int_equal(info.dtype, AX_F32);
    assert_string_equal(info.config, s.config);
    ax_ckpt_info_fini(&info);
    struct stat st;
    assert_int_equal(stat(scene_path(*state, ".tmp-step-00000600"), &st), -1);
}

// ---- what does not fit is named

static void a_checkpoint_of_another_model_is_refused_by_tensor(void **state)
{
    const char *dir = scene_path(*state, "step-00000700");
    scene s = scene_saving("x=2", dir);
    s.params = SMALL;
    scene_play(s);
    s = scene_loading("z=2", dir);
    s.expected = AX_EFORMAT;
    const char *why = scene_play(s);
    assert_non_null(strstr(why, "model.safetensors"));
    assert_non_null(strstr(why, "'large.weight' of the model is missing"));
    s.params = SMALL - 1;
    assert_non_null(strstr(scene_play(s), "'sliver.weight' is no parameter"));

    s = scene_saving("x=2", dir);
    s.params = SMALL;
    s.no_state = true; // float: masters lie in the weights
    scene_play(s);
    s = scene_loading("z=2", dir);
    s.params = SMALL;
    s.expected = AX_EFORMAT;
    assert_non_null(strstr(scene_play(s), "no optimizer state"));
    s.expected = AX_OK;
    s.with_state = false;
    scene_play(s);
}

// As the first version wrote it, without checksums.
static void write_old_manifest(const char *dir, size_t size)
{
    char text[256];
    int n = snprintf(text, sizeof text,
                     "{\"format\":1,\"step\":3,\"updates\":3,\"tokens\":5,\"dtype\":\"f32\","
                     "\"config\":\"\",\"files\":[{\"name\":\"model.safetensors\",\"bytes\":%zu}]}",
                     size);
    scene_write(scene_path(dir, "manifest.json"), text, (size_t)n);
}

static void a_tensor_of_another_shape_is_refused_with_both_shapes(void **state)
{
    const char *dir = scene_path(*state, "step-00000800");
    scene_play(scene_saving("x=1", dir));
    size_t size;
    char *file = scene_slurp(scene_path(dir, "model.safetensors"), &size);
    char *shape = memmem(file, size, "[100, 24]", 9);
    assert_non_null(shape);
    memcpy(shape, "[24, 100]", 9);
    scene_write(scene_path(dir, "model.safetensors"), file, size);
    scene s = scene_loading("x=2", dir);
    s.expected = AX_EFORMAT;
    s.with_state = false;
    assert_non_null(strstr(scene_play(s), "its header does not give its checksum"));
    write_old_manifest(dir, size);
    const char *why = scene_play(s);
    assert_non_null(strstr(why, "'embed.weight' is [24, 100], but the model's is [100, 24]"));

    scene_write(scene_path(dir, "model.safetensors"), file, size - 1);
    assert_non_null(strstr(scene_play(s), "the manifest says"));
    free(file);
}

static void a_broken_manifest_is_refused(void **state)
{
    static const struct {
        const char *text, *why;
        ax_status st;
    } cases[] = {
        {"{", "manifest.json:1: not valid", AX_EFORMAT},
        {"{\"format\":2}", "its last line is not its checksum", AX_EFORMAT},
        {"{\"format\":0}", "no format 0", AX_EFORMAT},
        {"{\"format\":3}", "newer than this program", AX_EUNSUPPORTED},
        {"{\"format\":1,\"step\":-1}", "'step' is not a count", AX_EFORMAT},
        {"{\"format\":1,\"step\":1,\"updates\":1,\"tokens\":1,\"dtype\":\"i32\"}", "dtype 'i32'",
         AX_EFORMAT},
        {"{\"format\":1,\"step\":1,\"updates\":1,\"tokens\":1,\"dtype\":\"f32\",\"config\":\"\","
         "\"files\":[{\"name\":\"../x\",\"bytes\":1}]}",
         "'../x' is no file of a checkpoint", AX_EFORMAT},
        {"{\"format\":1,\"step\":1,\"updates\":1,\"tokens\":1,\"dtype\":\"f32\",\"config\":\"\","
         "\"files\":[{\"name\":\"..\",\"bytes\":1}]}",
         "'..' is no file of a checkpoint", AX_EFORMAT},
        {"{\"format\":1,\"step\":1,\"updates\":1,\"tokens\":1,\"dtype\":\"f32\",\"config\":\"\","
         "\"files\":[{\"name\":\"a\",\"bytes\":1},{\"name\":\"a\",\"bytes\":1}]}",
         "'a' is listed twice", AX_EFORMAT},
        {"{\"format\":1,\"step\":1,\"updates\":1,\"tokens\":1,\"dtype\":\"f32\",\"config\":\"\","
         "\"files\":[{\"name\":\"a\",\"bytes\":1e3}]}",
         "'bytes' is not a count", AX_EFORMAT},
        {"{\"format\":1,\"step\":1,\"updates\":1,\"tokens\":1,\"dtype\":\"f32\",\"config\":\"\","
         "\"files\":[{\"name\":\"gone\",\"bytes\":1}]}",
         "gone: cannot read its size", AX_EIO},
    };
    const char *dir = scene_path(*state, "broken");
    ax_ckpt_info info;
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_int_equal(ax_ckpt_read_info(dir, &info), AX_EIO);
    assert_non_null(strstr(ax_error_text(), "no checkpoint"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scene_write(scene_path(dir, "manifest.json"), cases[i].text, strlen(cases[i].text));
        assert_int_equal(ax_ckpt_read_info(dir, &info), cases[i].st);
        if (!strstr(ax_error_text(), cases[i].why))
            fail_msg("'%s' does not say '%s'", ax_error_text(), cases[i].why);
    }
}

// ---- a disk that fails

static void a_save_that_cannot_be_written_leaves_the_older_one(void **state)
{
    const char *old = scene_path(*state, "step-00000001");
    scene_play(scene_saving("x=2", old));

    scene s = scene_saving("x=2", scene_path(*state, "none/step-00000002"));
    s.expected = AX_EIO;
    assert_non_null(
        strstr(scene_play(s), "none/.tmp-step-00000002: cannot make the directory: No such"));
    s.dir = scene_path(old, "model.safetensors/step-00000002"); // below a file
    assert_non_null(strstr(scene_play(s), "Not a directory"));
    if (geteuid() != 0) {
        const char *locked = scene_path(*state, "locked");
        assert_int_equal(mkdir(locked, 0555), 0);
        s.dir = scene_path(locked, "step-00000002");
        assert_non_null(strstr(scene_play(s), "Permission denied"));
    }
    s.expected = AX_EUSAGE;
    s.dir = *state; // holds other things
    assert_non_null(strstr(scene_play(s), "exists and is no checkpoint"));

    struct rlimit before, tight;
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    tight = before;
    tight.rlim_cur = 64 * 1024;
    setrlimit(RLIMIT_FSIZE, &tight);
    s.expected = AX_EIO;
    s.dir = scene_path(*state, "step-00000002");
    const char *why = scene_play(s);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_non_null(strstr(why, "model.safetensors"));
    assert_non_null(strstr(why, "File too large"));
    assert_false(scene_exists(s.dir));
    assert_false(scene_exists(scene_path(*state, ".tmp-step-00000002")));
    scene_play(scene_loading("z=2", scene_path(*state, "step-00000001")));
}

// The n-th system call fails, for every n: all ranks return the same error, nothing is left over,
// and the checkpoint that was there, of another name or of the same, is whole.
static void every_call_to_the_disk_may_fail(void **state)
{
    for (int kind = 0; kind < 4; kind++) {
        static const char *const places[] = {"0", "1", "2", "3"};
        bool same_name = kind & 1;
        const char *place = scene_path(*state, places[kind]);
        const char *old = scene_path(place, same_name ? "step-00000012" : "step-00000011");
        const char *next = scene_path(place, "step-00000012");
        assert_int_equal(mkdir(place, 0777), 0);
        scene s = scene_saving("x=2,y=2", old), check = scene_loading("z=2", old);
        s.params = check.params = FEW;
        s.step = 11;
        scene_play(s);
        s.dir = next;
        s.step = 12;
        s.background = kind & 2;
        ax_status st = AX_EIO;
        for (int n = 1; st != AX_OK; n++) {
            const char *why;
            faulty_disk_fail_at(n);
            st = scene_play_any(s, &why);
            bool failed = faulty_disk_heal();
            assert_int_equal(st, failed ? AX_EIO : AX_OK);
            assert_int_equal(scene_step_of(old), same_name && !failed ? 12 : 11);
            assert_int_equal(scene_step_of(next), !failed ? 12 : same_name ? 11 : -1);
            assert_false(scene_exists(scene_path(place, ".tmp-step-00000012")));
            if (n % 16 == 1)
                scene_play(check);
        }
    }
}

// The same with a process that ends there. What it leaves does not disturb the next save.
static void a_process_may_die_at_any_call(void **state)
{
    const char *dir = scene_path(*state, "step-00000020");
    scene s = scene_saving("x=1", dir), check = scene_loading("z=2", dir);
    s.params = check.params = FEW;
    s.step = 20;
    scene_play(s);
    s.step = 21;
    int status = 0;
    for (int n = 1; n == 1 || WEXITSTATUS(status) == FAULTY_DISK_KILLED; n++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            const char *why;
            faulty_disk_kill_at(n);
            _exit(scene_play_any(s, &why) != AX_OK);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == FAULTY_DISK_KILLED || WEXITSTATUS(status) == 0);
        assert_in_range(scene_step_of(dir), 20, 21);
        scene_play(check);
    }
    scene_play(s);
    assert_int_equal(scene_step_of(dir), 21);
    assert_false(scene_exists(scene_path(*state, ".tmp-step-00000020")));
    scene_play(check);
}

static void writes_that_stop_half_way_go_on(void **state)
{
    const char *dir = scene_path(*state, "step-00000030");
    faulty_disk_write_short(true);
    scene_play(scene_saving("y=2", dir));
    faulty_disk_write_short(false);
    scene_play(scene_loading("x=2", dir));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, scene_open_place, scene_close_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_one_grid_saves_every_grid_loads),
        CASE(all_grids_write_the_same_bytes),
        CASE(the_bytes_lie_where_the_header_says),
        CASE(float_and_double_checkpoints_are_read_by_either),
        CASE(bf16_runs_keep_float_masters_and_inference_needs_none),
        CASE(the_manifest_gives_back_what_was_saved),
        CASE(a_checkpoint_of_another_model_is_refused_by_tensor),
        CASE(a_tensor_of_another_shape_is_refused_with_both_shapes),
        CASE(a_broken_manifest_is_refused),
        CASE(a_save_that_cannot_be_written_leaves_the_older_one),
        CASE(every_call_to_the_disk_may_fail),
        CASE(a_process_may_die_at_any_call),
        CASE(writes_that_stop_half_way_go_on),
    };
    return cmocka_run_group_tests_name("ckpt", tests, NULL, NULL);
}

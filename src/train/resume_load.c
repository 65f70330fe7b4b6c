// Loading what was chosen, and what is done when it turns out to be damaged.
#include "train/resume_parts.h"

#include "train/config_yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- telling the others

// Bytes travel as 32-bit words.
ax_status ax_resume_share_bytes(ax_comm *world, void *bytes, size_t size)
{
    size_t words = (size + 3) / 4;
    int32_t *all = calloc(words + 1, sizeof *all);
    ax_status st = ax_comm_agree(world, all ? AX_OK : AX_ENOMEM);
    if (st == AX_OK) {
        memcpy(all, bytes, world->rank == 0 ? size : 0);
        st = ax_comm_bcast(world,
                           &(ax_xfer){.send = all,
                                      .recv = all,
                                      .count = (int64_t)words,
                                      .dtype = AX_I32,
                                      .tag = "resume"},
                           0);
    }
    if (st == AX_OK)
        memcpy(bytes, all, size);
    free(all);
    return st;
}

ax_status ax_resume_share(ax_comm *world, ax_resume *r, char **config)
{
    double length = world->rank == 0 && *config ? (double)strlen(*config) + 1 : 0;
    AX_TRY(ax_resume_share_bytes(world, r, sizeof *r));
    AX_TRY(ax_comm_max(world, &length, 1));
    if (length == 0)
        return AX_OK;
    if (world->rank > 0)
        *config = malloc((size_t)length);
    AX_TRY(ax_comm_agree(world, *config ? AX_OK : AX_ENOMEM));
    return ax_resume_share_bytes(world, *config, (size_t)length);
}

// ---- going back

// Rank 0's, after a load that failed with `why`. Only damage goes back: a model of other sizes,
// say, leaves good checkpoints as they are.
static ax_status check_damage(const ax_resume *r, const char *why)
{
    ax_ckpt_verdict v;
    AX_TRY(ax_ckpt_verify(r->dir, &v));
    int faults = v.faults;
    ax_ckpt_verdict_fini(&v);
    AX_CHECK(faults > 0, AX_EFORMAT, "%s", why);
    return AX_OK;
}

static void give_up(const ax_resume *r, const char *why)
{
    if (!r->elsewhere)
        ax_resume_set_aside(r, "is BROKEN, going back to the one before", why);
    else
        ax_log(AX_LOG_WARN, NULL, "%s is BROKEN; going back to the checkpoint before it (%s)",
               r->dir, why);
}

// Rank 0's: the one before the one that failed.
static ax_status step_back(ax_resume *r, const ax_run_config *c, const char *why)
{
    char *config = NULL;
    int64_t below = r->step;
    AX_TRY(check_damage(r, why));
    give_up(r, why);
    r->found = false;
    ax_status st = ax_resume_choose_below(r->run, below, !r->elsewhere, r, &config);
    if (st == AX_OK && !r->found) // every one has stepped aside
        st = ax_fail(AX_EFORMAT, __FILE__, __LINE__,
                     "%s: none of its checkpoints is whole: look with axonn checkpoint verify, or "
                     "start anew in another train.out",
                     r->run);
    if (st == AX_OK && config)
        st = ax_resume_compare(r, config, c);
    free(config);
    return st;
}

// Where another checkpoint may be taken, whoever takes it tells why; what nobody recovers from is
// an error, told by the rank that met it.
static ax_status try_load(const ax_resume *r, ax_trainer *t, char *why, size_t size)
{
    ax_log_config log = ax_log_current();
    if (r->back)
        log = ax_resume_hush();
    ax_status st = ax_ckpt_load(r->dir, &t->model.params, &t->grid, &t->dev, true);
    ax_log_setup(log);
    snprintf(why, size, "%s", r->back && st != AX_OK ? ax_error_text() : "");
    bool judged = st == AX_EFORMAT && t->grid.rank == 0;
    if (*why && !judged)
        ax_log(AX_LOG_ERROR, NULL, "%s", why);
    else if (!*why)
        snprintf(why, size, "%.900s: another rank could not load it", r->dir);
    return st;
}

ax_status ax_resume_load(ax_resume *r, const ax_run_config *c, ax_trainer *t)
{
    ax_comm *world = t->grid.world;
    char why[1024];
    for (;;) {
        ax_status st = try_load(r, t, why, sizeof why);
        if (st == AX_OK)
            break;
        if (st != AX_EFORMAT || !r->back)
            return st;
        ax_comm_recover(world);
        AX_TRY(ax_comm_agree(world, world->rank == 0 ? step_back(r, c, why) : AX_OK));
        AX_TRY(ax_resume_share_bytes(world, r, sizeof *r));
    }
    t->optim.updates = r->updates;
    return AX_OK;
}

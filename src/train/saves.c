#include "train/saves.h"

#include "train/keep_companions.h"
#include "train/resume.h"
#include "train/rundir.h"

#include <stdio.h>

// `latest` follows the checkpoint's own name, and only then are older ones given up.
static ax_status publish(const ax_saves *s)
{
    AX_TRY(ax_rundir_name_latest(s->out, s->name));
    if (s->config->train.keep > 0)
        ax_ckpt_prune(s->out, s->config->train.keep, s->name);
    return AX_OK;
}

static ax_status finish(ax_saves *s, ax_status st)
{
    ax_comm *world = s->trainer->grid.world;
    ax_text_fini(&s->yaml);
    ax_text_fini(&s->state);
    AX_TRY(st);
    return ax_comm_agree(world, world->rank == 0 ? publish(s) : AX_OK);
}

ax_status ax_saves_finish(ax_saves *s)
{
    ax_ckpt_saving *flight = s->flight;
    s->flight = NULL;
    return flight ? finish(s, ax_ckpt_save_finish(flight)) : AX_OK;
}

static ax_status describe(ax_saves *s, const ax_saves_point *at)
{
    AX_TRY(ax_config_print(s->config, &s->yaml));
    ax_resume_state(s->config, s->trainer, at->step, at->data, at->loss, &s->state);
    AX_CHECK(!s->state.failed, AX_ENOMEM, "no memory to describe the checkpoint");
    return AX_OK;
}

ax_status ax_saves_begin(ax_saves *s, const ax_saves_point *at, bool whole)
{
    char dir[4200], kept[AX_KEPT_PATH];
    ax_trainer *t = s->trainer;
    AX_TRY(ax_saves_finish(s));
    AX_TRY(ax_optim_settle(&t->optim));
    AX_TRY(ax_comm_agree(t->grid.world, describe(s, at)));
    s->step = at->step;
    snprintf(s->name, sizeof s->name, "step-%08lld", (long long)at->step);
    snprintf(dir, sizeof dir, "%s/%s", s->out, s->name);
    ax_ckpt_info info = {.step = at->step,
                         .updates = t->optim.updates,
                         .tokens = at->tokens,
                         .companions = ax_kept_companions(s->out, kept),
                         .config = s->yaml.text,
                         .state = s->state.text};
    if (whole || !s->beside)
        return finish(s, ax_ckpt_save(dir, &t->model.params, &t->grid, &t->dev, &info));
    const ax_ckpt_source from = {&t->model.params, &t->grid, &t->dev, &t->snapshot};
    return ax_ckpt_save_begin(dir, &from, &info, &s->flight);
}

bool ax_saves_busy(const ax_saves *s)
{
    return s->flight && !ax_ckpt_save_idle(s->flight);
}

void ax_saves_close(ax_saves *s)
{
    ax_ckpt_save_finish(s->flight); // of a failed job: returns at once, and frees
    s->flight = NULL;
    ax_text_fini(&s->yaml);
    ax_text_fini(&s->state);
}

#include "train/metrics.h"

#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double ax_metrics_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Numbers are finite, or the key is absent.
static void add_number(ax_text *t, const char *key, double value)
{
    if (isfinite(value))
        ax_text_add(t, ",\"%s\":%.17g", key, value);
}

static void add_count(ax_text *t, const char *key, int64_t value)
{
    ax_text_add(t, ",\"%s\":%lld", key, (long long)value);
}

static ax_status write_line(ax_metrics *m, ax_text *t)
{
    ax_status st = AX_OK;
    if (t->failed)
        st = ax_fail(AX_ENOMEM, __FILE__, __LINE__, "%s: no memory for a line", m->path);
    else if (m->file && (fprintf(m->file, "%s\n", t->text) < 0 || fflush(m->file)))
        st = ax_fail(AX_EIO, __FILE__, __LINE__, "%s: %s", m->path, strerror(errno));
    ax_text_fini(t);
    return st;
}

ax_status ax_metrics_open(ax_metrics *m, const char *dir, const char *run, int64_t log_every,
                          bool quiet)
{
    *m = (ax_metrics){.log_every = log_every,
                      .terminal = isatty(STDERR_FILENO),
                      .quiet = quiet,
                      .started = ax_metrics_clock()};
    if (!*dir)
        return AX_OK;
    snprintf(m->path, sizeof m->path, "%s/metrics.jsonl", dir);
    m->file = fopen(m->path, "wx");
    AX_CHECK(m->file, errno == EEXIST ? AX_EUSAGE : AX_EIO, "%s: %s%s", m->path, strerror(errno),
             errno == EEXIST ? ": this directory holds a run; choose another train.out" : "");
    ax_text t = {0};
    ax_text_add(&t, "{\"run\":%s}", run);
    ax_status st = write_line(m, &t);
    if (st != AX_OK)
        unlink(m->path); // a start that failed leaves nothing that blocks the next
    return st;
}

static void add_traffic(ax_text *t, const ax_comm_trace *trace)
{
    ax_text_add(t, ",\"comm_bytes\":{");
    for (int i = 0; i < trace->axes; i++)
        ax_text_add(t, "%s\"%s\":%lld", i ? "," : "", trace->axis[i].axis,
                    (long long)trace->axis[i].bytes);
    ax_text_add(t, "},\"comm_exposed_s\":{");
    for (int i = 0; i < trace->axes; i++)
        ax_text_add(t, "%s\"%s\":%.6g", i ? "," : "", trace->axis[i].axis,
                    trace->axis[i].exposed_s);
    ax_text_add(t, "}");
}

static ax_status record_step(ax_metrics *m, const ax_metrics_record *r)
{
    ax_text t = {0};
    ax_text_add(&t, "{\"step\":%lld", (long long)r->step);
    add_number(&t, "loss", r->loss);
    add_number(&t, "lr", r->lr);
    add_number(&t, "grad_norm", r->grad_norm);
    add_count(&t, "tokens", r->tokens);
    add_count(&t, "kept_tokens", r->kept_tokens);
    add_number(&t, "step_s", r->step_s);
    add_number(&t, "tokens_per_s", (double)r->step_tokens / r->step_s);
    add_number(&t, "model_flops_per_s", r->model_flops / r->step_s);
    add_number(&t, "hardware_flops_per_s", r->hardware_flops / r->step_s);
    if (r->peak > 0)
        add_number(&t, "share_of_peak", r->hardware_flops / r->step_s / r->peak);
    add_count(&t, "rank_memory_bytes", (int64_t)r->rank_memory_bytes);
    if (r->skipped)
        ax_text_add(&t, ",\"skipped\":true");
    if (r->trace)
        add_traffic(&t, r->trace);
    ax_text_add(&t, "}");
    return write_line(m, &t);
}

static void clear_line(ax_metrics *m)
{
    if (m->width > 0)
        fprintf(stderr, "\r%*s\r", m->width, "");
    m->width = 0;
}

static void show_step(ax_metrics *m, const ax_metrics_record *r)
{
    bool last = r->step == r->steps, due = m->log_every && r->step % m->log_every == 0;
    if (m->quiet || (!m->terminal && !due && !last && r->step != 1))
        return;
    if (!m->first_step) {
        m->first_step = r->step;
        m->started = ax_metrics_clock() - r->step_s;
    }
    double per_step = (ax_metrics_clock() - m->started) / (double)(r->step - m->first_step + 1);
    double left = per_step * (double)(r->steps - r->step);
    char share[32] = "", text[256];
    if (r->peak > 0)
        snprintf(share, sizeof share, "  %.0f%% of peak",
                 100 * r->hardware_flops / r->step_s / r->peak);
    int n = snprintf(
        text, sizeof text, "step %lld/%lld  loss %.4f  %.0f tokens/s%s  %d:%02d left%s",
        (long long)r->step, (long long)r->steps, r->loss, (double)r->step_tokens / r->step_s, share,
        (int)left / 60, (int)left % 60, r->skipped ? "  (skipped: not finite)" : "");
    if (!m->terminal) {
        fprintf(stderr, "%s\n", text);
        return;
    }
    int before = m->width;
    fprintf(stderr, "\r%s%*s", text, before > n ? before - n : 0, "");
    m->width = n;
    if (due || last) { // stays on the screen as the curve
        fprintf(stderr, "\n");
        m->width = 0;
    }
}

ax_status ax_metrics_step(ax_metrics *m, const ax_metrics_record *r)
{
    show_step(m, r);
    return record_step(m, r);
}

ax_status ax_metrics_evaluation(ax_metrics *m, const ax_metrics_eval *e)
{
    if (!m->quiet) {
        clear_line(m);
        fprintf(stderr, "step %lld  held out: loss %.4f  perplexity %.2f", (long long)e->step,
                e->valid_loss, exp(e->valid_loss));
        if (e->bits_per_byte > 0)
            fprintf(stderr, "  %.3f bits per byte", e->bits_per_byte);
        fprintf(stderr, "\n");
    }
    ax_text t = {0};
    ax_text_add(&t, "{\"step\":%lld", (long long)e->step);
    add_number(&t, "valid_loss", e->valid_loss);
    add_number(&t, "perplexity", exp(e->valid_loss));
    if (e->bits_per_byte > 0)
        add_number(&t, "bits_per_byte", e->bits_per_byte);
    add_count(&t, "valid_tokens", e->tokens);
    add_number(&t, "seconds", e->seconds);
    ax_text_add(&t, "}");
    return write_line(m, &t);
}

ax_status ax_metrics_close(ax_metrics *m)
{
    clear_line(m);
    int failed = m->file ? fclose(m->file) : 0;
    m->file = NULL;
    AX_CHECK(!failed, AX_EIO, "%s: %s", m->path, strerror(errno));
    return AX_OK;
}

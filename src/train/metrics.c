#include "train/metrics.h"

#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
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

// ---- opening

typedef struct lines { // of a file that is there
    off_t keep;        // bytes
    int64_t number;    // lines kept
    int64_t last_step; // of those; 0: none
    bool evaluated;    // the resumed step has its evaluation
} lines;

// The step of a line; 0: it has none. False: the line is not ours.
static bool line_step(const char *line, ssize_t length, int64_t *step)
{
    static const char start[] = "{\"step\":";
    *step = 0;
    if (length < 3 || line[0] != '{' || line[length - 2] != '}' || strlen(line) != (size_t)length)
        return false;
    if (strncmp(line, start, sizeof start - 1) != 0)
        return true;
    *step = strtoll(line + sizeof start - 1, NULL, 10);
    return *step > 0;
}

// Up to the first line beyond `step`, or to a last one without an end.
static ax_status scan(FILE *f, const char *path, int64_t step, lines *out)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    ax_status st = AX_OK;
    *out = (lines){0};
    while ((n = getline(&line, &room, f)) > 0 && line[n - 1] == '\n') {
        int64_t at;
        bool ours = line_step(line, n, &at);
        if (!ours && out->last_step >= step)
            break; // what a power cut leaves behind the last synced line
        if (!ours || (out->number == 0 && strncmp(line, "{\"run\":", 7) != 0)) {
            ax_fail(AX_EFORMAT, __FILE__, __LINE__,
                    "%s:%lld: no line of a run; mend or move the file, then resume", path,
                    (long long)out->number + 1);
            st = AX_EFORMAT;
            break;
        }
        if (at > step)
            break;
        out->evaluated = out->evaluated || (at == step && strstr(line, "\"valid_loss\":"));
        out->last_step = at > 0 ? at : out->last_step;
        out->keep += n;
        out->number++;
    }
    bool failed = ferror(f);
    free(line);
    AX_CHECK(!failed, AX_EIO, "%s: %s", path, strerror(errno));
    return st;
}

// Nothing there, or not even a first line: a new file.
static ax_status go_on(ax_metrics *m, int64_t step, bool elsewhere, bool *fresh)
{
    lines l;
    m->file = fopen(m->path, "r+");
    *fresh = !m->file && errno == ENOENT;
    if (*fresh && !elsewhere)
        ax_log(AX_LOG_WARN, NULL, "%s is gone: the lines up to step %lld are lost", m->path,
               (long long)step);
    if (*fresh)
        return AX_OK;
    AX_CHECK(m->file, AX_EIO, "%s: %s", m->path, strerror(errno));
    AX_TRY(scan(m->file, m->path, step, &l));
    bool cut = fseeko(m->file, l.keep, SEEK_SET) == 0 && ftruncate(fileno(m->file), l.keep) == 0;
    AX_CHECK(cut, AX_EIO, "%s: cannot cut it after step %lld: %s", m->path, (long long)step,
             strerror(errno));
    if (l.last_step == 0 && step > 0 && !elsewhere)
        ax_log(AX_LOG_WARN, NULL, "%s holds no step: the lines up to step %lld are lost", m->path,
               (long long)step);
    else if (l.last_step < step && !elsewhere)
        ax_log(AX_LOG_WARN, NULL, "%s ends at step %lld: the lines up to step %lld are lost",
               m->path, (long long)l.last_step, (long long)step);
    m->evaluated = l.evaluated;
    *fresh = l.number == 0;
    return AX_OK;
}

static ax_status create(ax_metrics *m, bool replace)
{
    if (m->file)
        return AX_OK;
    m->file = fopen(m->path, replace ? "w" : "wx");
    AX_CHECK(m->file, errno == EEXIST ? AX_EUSAGE : AX_EIO, "%s: %s%s", m->path, strerror(errno),
             errno == EEXIST ? ": this directory holds a run; choose another train.out" : "");
    return AX_OK;
}

static ax_status describe(ax_metrics *m, const ax_metrics_place *p)
{
    ax_text t = {0};
    ax_text_add(&t, "{\"run\":%s", p->run);
    if (p->resumed)
        ax_text_add(&t, ",\"resumed_from\":%lld", (long long)p->step);
    ax_text_add(&t, "}");
    return write_line(m, &t);
}

static ax_status open_file(ax_metrics *m, const ax_metrics_place *p, bool *fresh)
{
    if (p->resumed)
        AX_TRY(go_on(m, p->step, p->elsewhere, fresh));
    if (p->done && !*fresh)
        return AX_OK;
    AX_TRY(create(m, p->replace || p->resumed));
    return describe(m, p);
}

ax_status ax_metrics_open(ax_metrics *m, const ax_metrics_place *p)
{
    bool fresh = true;
    *m = (ax_metrics){.log_every = p->log_every,
                      .terminal = isatty(STDERR_FILENO),
                      .quiet = p->quiet,
                      .started = ax_metrics_clock()};
    if (!*p->dir)
        return AX_OK;
    snprintf(m->path, sizeof m->path, "%s/metrics.jsonl", p->dir);
    ax_status st = open_file(m, p, &fresh);
    if (st != AX_OK && m->file && fresh)
        unlink(m->path); // a start that failed leaves nothing that blocks the next
    return st;
}

ax_status ax_metrics_sync(ax_metrics *m)
{
    AX_CHECK(!m->file || fsync(fileno(m->file)) == 0, AX_EIO, "%s: %s", m->path, strerror(errno));
    return AX_OK;
}

static void add_traffic(ax_text *t, const ax_comm_trace *trace)
{
    ax_text_add(t, ",\"comm_bytes\":{");
    for (int i = 0; i < trace->axes; i++)
        ax_text_add(t, "%s\"%s\":%lld", i ? "," : "", trace->axis[i].axis,
                    (long long)trace->axis[i].bytes);
    // Waiting and moving apart: a host moves the data of a hidden transfer itself.
    ax_text_add(t, "},\"comm_exposed_s\":{");
    for (int i = 0; i < trace->axes; i++)
        ax_text_add(t, "%s\"%s\":%.6g", i ? "," : "", trace->axis[i].axis,
                    trace->axis[i].exposed_s);
    ax_text_add(t, "},\"comm_moving_s\":{");
    for (int i = 0; i < trace->axes; i++)
        ax_text_add(t, "%s\"%s\":%.6g", i ? "," : "", trace->axis[i].axis, trace->axis[i].moving_s);
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
    const char *why = r->kept_tokens > 0 ? "  (skipped: not finite)" : "  (skipped: no targets)";
    if (r->peak > 0)
        snprintf(share, sizeof share, "  %.0f%% of peak",
                 100 * r->hardware_flops / r->step_s / r->peak);
    int n = snprintf(
        text, sizeof text, "step %lld/%lld  loss %.4f  %.0f tokens/s%s  %d:%02d left%s",
        (long long)r->step, (long long)r->steps, r->loss, (double)r->step_tokens / r->step_s, share,
        (int)left / 60, (int)left % 60, r->skipped ? why : "");
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

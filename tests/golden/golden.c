#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ax_status read_entry(golden *g, const char *line)
{
    char dtype[8];
    long long rows, cols;
    golden_number *n = &g->numbers[g->number_count];
    golden_tensor *t = &g->tensors[g->tensor_count];
    if (sscanf(line, "number %31s %lf", n->name, &n->value) == 2) {
        g->number_count++;
        return AX_OK;
    }
    AX_CHECK(sscanf(line, "tensor %63s %7s %lld %lld", t->name, dtype, &rows, &cols) == 4,
             AX_EFORMAT, "golden file: '%s' is no entry", line);
    t->dtype = strcmp(dtype, "f32") == 0 ? AX_F32 : strcmp(dtype, "f64") == 0 ? AX_F64 : AX_I32;
    t->rows = rows;
    t->cols = cols;
    g->tensor_count++;
    return AX_OK;
}

static ax_status read_header(golden *g, FILE *f)
{
    char line[256];
    AX_CHECK(fgets(line, sizeof line, f) && strcmp(line, "axonn golden 1\n") == 0, AX_EFORMAT,
             "not a golden file");
    while (fgets(line, sizeof line, f)) {
        if (strcmp(line, "end\n") == 0)
            return AX_OK;
        AX_CHECK(g->number_count < 40 && g->tensor_count < 128, AX_EFORMAT,
                 "golden file: too many entries");
        AX_TRY(read_entry(g, line));
    }
    AX_FAIL(AX_EFORMAT, "golden file: the header has no end");
}

static ax_status read_tensors(golden *g, FILE *f)
{
    for (int i = 0; i < g->tensor_count; i++) {
        golden_tensor *t = &g->tensors[i];
        size_t bytes = (size_t)(t->rows * t->cols) * ax_dtype_size(t->dtype);
        t->data = malloc(bytes);
        AX_CHECK(t->data && fread(t->data, 1, bytes, f) == bytes, AX_EFORMAT,
                 "golden file: tensor %s is cut short", t->name);
    }
    return AX_OK;
}

ax_status golden_open(const char *path, golden *g)
{
    *g = (golden){0};
    FILE *f = fopen(path, "rb");
    AX_CHECK(f, AX_EIO, "%s cannot be opened", path);
    ax_status st = read_header(g, f);
    if (st == AX_OK)
        st = read_tensors(g, f);
    fclose(f);
    return st;
}

void golden_close(golden *g)
{
    for (int i = 0; i < g->tensor_count; i++)
        free(g->tensors[i].data);
    *g = (golden){0};
}

double golden_value(const golden *g, const char *name)
{
    for (int i = 0; i < g->number_count; i++)
        if (strcmp(g->numbers[i].name, name) == 0)
            return g->numbers[i].value;
    fprintf(stderr, "golden file: no number %s\n", name);
    abort();
}

static const golden_tensor *seek(const golden *g, const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    for (int i = 0; i < g->tensor_count; i++) {
        const golden_tensor *t = &g->tensors[i];
        if (strncmp(t->name, prefix, n) == 0 && strcmp(t->name + n, name) == 0)
            return t;
    }
    return NULL;
}

bool golden_has_documents(const golden *g)
{
    return seek(g, "", "positions");
}

const golden_tensor *golden_find(const golden *g, const char *prefix, const char *name)
{
    const golden_tensor *t = seek(g, prefix, name);
    if (t)
        return t;
    fprintf(stderr, "golden file: no tensor %s%s\n", prefix, name);
    abort();
}

const double *golden_doubles(const golden *g, const char *name)
{
    return golden_find(g, "", name)->data;
}

ax_arch golden_arch(const golden *g)
{
    ax_arch a = {.kind = golden_value(g, "gpt") > 0 ? AX_GPT : AX_LLAMA,
                 .layers = (int64_t)golden_value(g, "layers"),
                 .hidden = (int64_t)golden_value(g, "hidden"),
                 .heads = (int64_t)golden_value(g, "heads"),
                 .kv_heads = (int64_t)golden_value(g, "kv_heads"),
                 .head_dim = (int64_t)golden_value(g, "head_dim"),
                 .ffn = (int64_t)golden_value(g, "ffn"),
                 .vocab = (int64_t)golden_value(g, "vocab"),
                 .seq = (int64_t)golden_value(g, "seq"),
                 .tied = (int64_t)golden_value(g, "tied"),
                 .norm_eps = golden_value(g, "norm_eps"),
                 .rope_theta = golden_value(g, "rope_theta"),
                 .init_std = golden_value(g, "init_std")};
    if (ax_arch_check(&a) != AX_OK)
        abort();
    return a;
}

ax_optim_config golden_optim(const golden *g)
{
    return (ax_optim_config){.beta1 = golden_value(g, "beta1"),
                             .beta2 = golden_value(g, "beta2"),
                             .eps = golden_value(g, "eps"),
                             .weight_decay = golden_value(g, "weight_decay"),
                             .clip = golden_value(g, "clip")};
}

static ax_status set_run(ax_trainer *t, const ax_param *p, const float *values, const ax_run *r)
{
    ax_tensor to = ax_tensor_cols(p->master, r->at, r->count);
    for (int64_t i = 0; i < r->count; i++) {
        double wide = values[i];
        size_t size = ax_dtype_size(to.dtype);
        AX_TRY(ax_device_copy(&t->dev, (char *)to.data + (size_t)i * size,
                              to.dtype == AX_F64 ? (const void *)&wide : &values[i], size));
    }
    return AX_OK;
}

ax_status golden_set_weights(const golden *g, ax_trainer *t)
{
    ax_params *ps = &t->model.params;
    for (int i = 0; i < ps->count; i++) {
        const ax_param *p = &ps->list[i];
        const golden_tensor *w = golden_find(g, "weight.", p->name);
        AX_CHECK(w->rows == p->rows && w->cols == p->cols, AX_EFORMAT,
                 "golden file: %s has another shape than the model", p->name);
        ax_run r = {0};
        while (ax_param_next_run(p, &r))
            AX_TRY(set_run(t, p, (const float *)w->data + r.row * p->cols + r.col, &r));
    }
    AX_TRY(ax_params_spread(ps, &t->grid, &t->dev));
    ax_weights_forget(&t->model.nn);
    return AX_OK;
}

void golden_set_batch(const golden *g, ax_trainer *t, int64_t step)
{
    const int32_t *ids = golden_find(g, "", "ids")->data;
    const int32_t *targets = golden_find(g, "", "targets")->data;
    int64_t seq = t->layout.seq, batch = t->layout.batch;
    size_t bytes = (size_t)seq * sizeof *ids;
    for (int64_t i = 0; i < ax_trainer_rows(t); i++) {
        int64_t row = step * batch + ax_trainer_row(t, i);
        memcpy(t->ids + i * seq, ids + row * seq, bytes);
        memcpy(t->targets + i * seq, targets + row * seq, bytes);
        if (golden_has_documents(g))
            memcpy(t->positions + i * seq,
                   (int32_t *)golden_find(g, "", "positions")->data + row * seq, bytes);
    }
}

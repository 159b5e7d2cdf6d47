/* Text encoders whose matrices a file has in FP8, and what compiled graphs make of them. */
#ifndef GRAFT_TESTS_ENGINE_TEXTS_PACKED_H
#define GRAFT_TESTS_ENGINE_TEXTS_PACKED_H
#include "base/half.h"
#include "kernels/hadamard.h"
#include "kernels/quant.h"
#include "tests/engine/codes.h"

static inline void store_matrices_as_e4m3(made_file *f)
{
    for (size_t i = 0; i < f->n; i++) {
        graft_st_tensor *t = &f->tensor[i];
        if (t->rank != 2 || t->dtype != GRAFT_F32) continue;
        float *v = (float *)(uintptr_t)t->data;
        const int64_t n = shape_count(t->shape, 2);
        uint8_t *level = malloc((size_t)n + 1);
        if (!level) abort();
        for (int64_t k = 0; k < n; k++) level[k] = graft_f32_to_f8_e4m3(v[k]);
        free(v);
        t->data = level;
        t->dtype = GRAFT_F8_E4M3;
        t->bytes = (uint64_t)n;
    }
}

/* As another program's integers, of rows that are turned where they can be. */
static inline void store_matrices_as_int8(made_file *f)
{
    for (size_t i = 0, n = f->n; i < n; i++) {
        graft_st_tensor *t = &f->tensor[i], *scale = &f->tensor[f->n], *mark = scale + 1;
        const char *end = strstr(t->name, ".weight");
        if (t->rank != 2 || t->dtype != GRAFT_F32 || !end) continue;
        const int64_t rows = t->shape[0], columns = t->shape[1];
        const bool turns = graft_hadamard_is(16, columns);
        const char *says = turns ? "{\"format\":\"int8_tensorwise\",\"convrot\":true,"
                                   "\"convrot_groupsize\":16}"
                                 : "{\"format\":\"int8_tensorwise\"}";
        float *v = (float *)(uintptr_t)t->data, *each = malloc((size_t)rows * sizeof *each);
        int8_t *level = malloc((size_t)(rows * columns) + 1);
        char name[300];
        if (!each || !level) abort();
        if (turns) graft_hadamard(v, rows * columns, 16);
        for (int64_t r = 0; r < rows; r++) {
            const float *row = v + r * columns;
            each[r] = graft_quant8_scale(GRAFT_QUANT_INT8, graft_quant_absmax(row, columns));
            for (int64_t k = 0; k < columns; k++)
                level[r * columns + k] =
                    (int8_t)graft_quant_round(row[k], graft_quant_inverse(each[r]), 127);
        }
        free(v);
        t->data = level;
        t->dtype = GRAFT_I8;
        t->bytes = (uint64_t)(rows * columns);
        *scale = (graft_st_tensor){.dtype = GRAFT_F32, .rank = 1, .shape = {rows}, .data = each};
        scale->bytes = (uint64_t)rows * sizeof *each;
        snprintf(name, sizeof name, "%s_scale", t->name);
        scale->name = strdup(name);
        *mark = (graft_st_tensor){.dtype = GRAFT_U8, .rank = 1, .data = strdup(says)};
        mark->shape[0] = (int64_t)(mark->bytes = strlen(says));
        snprintf(name, sizeof name, "%.*s.comfy_quant", (int)(end - t->name), t->name);
        mark->name = strdup(name);
        f->n += 2;
    }
}

/* As bitsandbytes' codes, but for tables of tokens and distances; the other file gets their values.
 */
static inline void store_matrices_as_codes(made_file *f, made_file *values, const codes_way *w)
{
    for (size_t i = 0, n = f->n; i < n; i++) {
        const graft_st_tensor *t = &f->tensor[i];
        if (t->rank != 2 || strstr(t->name, "shared") || strstr(t->name, "embed") ||
            strstr(t->name, "bias"))
            continue;
        free((void *)(uintptr_t)values->tensor[i].data);
        values->tensor[i].data = store_as_codes(f, i, w);
    }
}

/* An engine that keeps such matrices packed, or one that does not. */
static inline graft_engine *packing_engine(bool keeps)
{
    graft_engine *g = make_engine("cpu");
    g->floats_most = keeps ? 0 : UINT64_MAX;
    return g;
}

/* Operators on weights of this type in all of its graphs. */
static inline size_t packed_in(graft_engine *g, int32_t type)
{
    graft_exe **exe = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0, found = 0;
    CHECK_OK(graft_compiled_list(g->compiled, &exe, &n, &e), &e);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < exe[i]->graph->n_nodes; k++)
            found += graft_quant_blocks(exe[i]->graph->node[k].attrs.quant) == type;
    graft_compiled_list_free(exe, n);
    return found;
}
#endif

/* Text encoders whose matrices a file has in FP8, and what compiled graphs make of them. */
#ifndef GRAFT_TESTS_ENGINE_TEXTS_PACKED_H
#define GRAFT_TESTS_ENGINE_TEXTS_PACKED_H
#include "base/half.h"
#include "kernels/quant.h"
#include "tests/engine/fixture.h"

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

/* An engine that keeps such matrices packed, or one that does not. */
static inline graft_engine *packing_engine(bool keeps)
{
    graft_engine *g = make_engine("cpu");
    g->floats_most = keeps ? 0 : UINT64_MAX;
    return g;
}

/* Operators on packed weights in all of its graphs. */
static inline size_t packed_in(graft_engine *g)
{
    graft_exe **exe = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0, found = 0;
    CHECK_OK(graft_compiled_list(g->compiled, &exe, &n, &e), &e);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < exe[i]->graph->n_nodes; k++)
            found += graft_quant_blocks(exe[i]->graph->node[k].attrs.quant) == GRAFT_FLOAT_E4M3;
    graft_compiled_list_free(exe, n);
    return found;
}
#endif

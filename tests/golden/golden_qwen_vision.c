/* What looks at pictures for Qwen 2.5-VL. */
#include <stdio.h>

#include "base/alloc.h"
#include "engine/prompts/qwen_vision.h"
#include "tests/golden/golden.h"

static graft_status sight_case(golden *g, const graft_build_options *o,
                               const graft_qwen_vision_arch *a, graft_weights *w,
                               const graft_safetensors *f, int k, graft_err *e)
{
    const graft_st_tensor *pixels = golden_case(f, k, "pixels"), *want = golden_case(f, k, "seen");
    const int64_t cell = (int64_t)2 * a->patch, high = pixels->shape[1], wide = pixels->shape[2];
    char name[64];
    if (!want || pixels->rank != 3 || high % cell || wide % cell ||
        (int64_t)golden_count(want) != high / cell * (wide / cell) * a->out)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d is not of this network", g->file, k);
    float *given = golden_copy(pixels), *moved = golden_copy(pixels), *expected = golden_copy(want);
    float *seen = graft_malloc_array(golden_count(want), sizeof *seen);
    graft_status st =
        given && moved && expected && seen ? GRAFT_OK : graft_fail_nomem(e, "a picture's tokens");
    if (!st) {
        golden_move_channels(given, moved, (const int64_t[]){1, 3, high, wide}, true);
        st = graft_qwen_vision_run(g->engine, o, a, w, moved, high / cell, wide / cell, NULL, seen,
                                   e);
    }
    snprintf(name, sizeof name, "sight case%d", k);
    if (!st) golden_note_model(g, name, golden_error(seen, expected, golden_count(want)));
    graft_free(given);
    graft_free(moved);
    graft_free(expected);
    graft_free(seen);
    return st;
}

graft_status golden_qwen_vision(golden *g, graft_safetensors *f, graft_err *e)
{
    graft_qwen_vision_arch a;
    graft_build_options o;
    graft_weights *all = NULL, *w = NULL;
    graft_status st = graft_weights_create(f, &all, e);
    if (st) return st;
    golden_options(g, &o);
    GRAFT_TRY(graft_qwen_vision_detect(f, "visual.", &a, e));
    GRAFT_TRY(graft_weights_part(all, "visual.", &w, e));
    for (int k = 0; golden_case(f, k, "pixels"); k++) GRAFT_TRY(sight_case(g, &o, &a, w, f, k, e));
out:
    graft_weights_release(w);
    graft_weights_release(all);
    return st;
}

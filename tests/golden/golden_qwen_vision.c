/* What looks at pictures for Qwen 2.5-VL, and for Qwen 3-VL. */
#include <stdio.h>

#include "base/alloc.h"
#include "engine/models/detect/detect.h"
#include "engine/prompts/qwen3_vision.h"
#include "engine/prompts/qwen_vision.h"
#include "tests/golden/golden.h"

/* Of either kind. */
typedef struct tower {
    const graft_safetensors *f;
    bool newer; /* Qwen 3-VL's, which is `third` */
    graft_qwen_vision_arch second;
    graft_qwen3_vision_arch third;
    graft_weights *weights;
    graft_build_options options;
} tower;

static graft_status look(golden *g, const tower *t, const float *pixels, int64_t rows,
                         int64_t columns, float *seen, graft_err *e)
{
    return t->newer ? graft_qwen3_vision_run(g->engine, &t->options, &t->third, t->weights, pixels,
                                             rows, columns, NULL, seen, e)
                    : graft_qwen_vision_run(g->engine, &t->options, &t->second, t->weights, pixels,
                                            rows, columns, NULL, seen, e);
}

/* What goes deeper into the language model is noted by itself. */
static graft_status sight_case(golden *g, const tower *t, int k, graft_err *e)
{
    const graft_st_tensor *pixels = golden_case(t->f, k, "pixels");
    const graft_st_tensor *want = golden_case(t->f, k, "seen");
    const int64_t cell = 2 * (int64_t)(t->newer ? t->third.patch : t->second.patch);
    const int64_t high = pixels->shape[1], wide = pixels->shape[2], parts = 1 + t->third.deep;
    const int64_t each = high / cell * (wide / cell) * (t->newer ? t->third.out : t->second.out);
    char name[64];
    if (!want || pixels->rank != 3 || high % cell || wide % cell ||
        (int64_t)golden_count(want) != parts * each)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d is not of this network", g->file, k);
    float *given = golden_copy(pixels), *moved = golden_copy(pixels), *expected = golden_copy(want);
    float *seen = graft_malloc_array(golden_count(want), sizeof *seen);
    graft_status st =
        given && moved && expected && seen ? GRAFT_OK : graft_fail_nomem(e, "a picture's tokens");
    if (!st) {
        golden_move_channels(given, moved, (const int64_t[]){1, 3, high, wide}, true);
        st = look(g, t, moved, high / cell, wide / cell, seen, e);
    }
    for (int64_t i = 0; i < parts && !st; i++) {
        snprintf(name, sizeof name, "sight case%d part%d", k, (int)i);
        golden_note_model(g, name,
                          golden_error(seen + i * each, expected + i * each, (size_t)each));
    }
    graft_free(given);
    graft_free(moved);
    graft_free(expected);
    graft_free(seen);
    return st;
}

graft_status golden_qwen_vision(golden *g, graft_safetensors *f, graft_err *e)
{
    tower t = {.f = f, .newer = graft_safetensors_find(f, "visual.pos_embed.weight") != NULL};
    graft_weights *all = NULL;
    graft_status st = graft_weights_create(f, &all, e);
    if (st) return st;
    golden_options(g, &t.options);
    GRAFT_TRY(t.newer ? graft_qwen3_vision_detect(f, "visual.", &t.third, e)
                      : graft_qwen_vision_detect(f, "visual.", &t.second, e));
    GRAFT_TRY(graft_weights_part(all, "visual.", &t.weights, e));
    for (int k = 0; golden_case(f, k, "pixels"); k++) GRAFT_TRY(sight_case(g, &t, k, e));
out:
    graft_weights_release(t.weights);
    graft_weights_release(all);
    return st;
}

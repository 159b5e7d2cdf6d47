/* The parts of Qwen 2.5-VL and of Qwen 3-VL that look at pictures, by the names and shapes of their
 * tensors. */
#include "engine/models/detect/detect_parts.h"
#include "engine/models/encoders/qwen3_vision.h"
#include "engine/models/encoders/qwen_vision.h"
#include "kernels/op_desc.h"

#define MAX_LAYERS 128
#define MAX_PATCH  64
#define MAX_SIDE   1024
/* What shapes cannot tell, as published ones have it. */
#define HEADS       16
#define WHOLE_EVERY 8

/* What both kinds have, and what they call it. */
typedef struct tower {
    int32_t *width, *patch, *heads, *layers, *intermediate, *out;
    const char *mlp, *first, *last; /* of the layers that make one of four squares */
} tower;

/* A layer counts with either name, so that a file that lacks the other is refused by it. */
static bool has_layer(const graft_safetensors *f, const char *prefix, int i)
{
    return graft_detect_find(f, prefix, "blocks.%d.attn.qkv.weight", i) ||
           graft_detect_find(f, prefix, "blocks.%d.norm1.weight", i);
}

/* The metadata's number, or else this one. */
static graft_status told(const graft_safetensors *f, const char *name, int32_t or_else,
                         int32_t *out, graft_err *e)
{
    int64_t given = 0;
    graft_status st =
        graft_detect_number(f, graft_safetensors_metadata(f, "config"), name, &given, e);
    *out = given > 0 && given <= GRAFT_ROPE_HEAD_MAX ? (int32_t)given : or_else;
    return st;
}

/* (width,3,2,patch,patch) */
static graft_status detect_squares(const graft_safetensors *f, const char *prefix, const tower *t,
                                   graft_err *e)
{
    const graft_st_tensor *w = graft_detect_find(f, prefix, GRAFT_QWEN_VISION_TENSOR);
    *t->width = graft_detect_dim(w, 0);
    *t->patch = graft_detect_dim(w, 3);
    if (!w || w->rank != 5 || !*t->width || !*t->patch || *t->patch > MAX_PATCH ||
        graft_detect_dim(w, 4) != *t->patch ||
        graft_detect_dim(w, 1) != GRAFT_QWEN_VISION_COLOURS ||
        graft_detect_dim(w, 2) != GRAFT_QWEN_VISION_FRAMES)
        return graft_detect_missing(f, prefix, GRAFT_QWEN_VISION_TENSOR, e);
    return GRAFT_OK;
}

static graft_status detect_tower(const graft_safetensors *f, const char *prefix, const tower *t,
                                 graft_err *e)
{
    int32_t wide = 0;
    const graft_detect_width widths[] = {
        {t->mlp, t->intermediate, 0}, {t->last, t->out, 0}, {t->first, &wide, 1}};
    graft_status st = detect_squares(f, prefix, t, e);
    if (!st) st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (!st) st = told(f, "vision_heads", HEADS, t->heads, e);
    if (st) return st;
    while (*t->layers < MAX_LAYERS && has_layer(f, prefix, *t->layers)) ++*t->layers;
    const int32_t head = *t->width / *t->heads;
    if (*t->layers && wide == GRAFT_QWEN_VISION_MERGED * *t->width && *t->width % *t->heads == 0 &&
        head % 4 == 0 && head <= GRAFT_ROPE_HEAD_MAX)
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: a vision encoder of %d layers and %d heads, of width %d, %d where four "
                      "squares are one, makes no sense",
                      graft_safetensors_path(f), *t->layers, *t->heads, *t->width, wide);
}

graft_status graft_qwen_vision_detect(const graft_safetensors *f, const char *prefix,
                                      graft_qwen_vision_arch *out, graft_err *e)
{
    *out = (graft_qwen_vision_arch){0};
    const tower t = {&out->width,
                     &out->patch,
                     &out->heads,
                     &out->layers,
                     &out->intermediate,
                     &out->out,
                     "blocks.0.mlp.gate_proj.weight",
                     "merger.mlp.0.weight",
                     "merger.mlp.2.weight"};
    graft_status st = detect_tower(f, prefix, &t, e);
    return st ? st : told(f, "vision_whole_every", WHOLE_EVERY, &out->whole_every, e);
}

/* ------------------------------------------------------------------ Qwen 3-VL's */

/* The table of places is a square of rows and columns. */
static graft_status detect_places(const graft_safetensors *f, const char *prefix,
                                  graft_qwen3_vision_arch *a, graft_err *e)
{
    const graft_st_tensor *table = graft_detect_find(f, prefix, "%s", graft_qwen3_vision_table());
    const int32_t places = graft_detect_dim(table, 0);
    while (a->side < MAX_SIDE && (a->side + 1) * (a->side + 1) <= places) a->side++;
    if (!places || table->rank != 2 || a->side * a->side != places ||
        graft_detect_dim(table, 1) != a->width)
        return graft_detect_missing(f, prefix, graft_qwen3_vision_table(), e);
    return GRAFT_OK;
}

static bool goes_deeper(const graft_safetensors *f, const char *prefix, int k)
{
    return graft_detect_find(f, prefix, "deepstack_merger_list.%d.norm.weight", k) ||
           graft_detect_find(f, prefix, "deepstack_merger_list.%d.linear_fc1.weight", k);
}

/* Behind which layers: of published ones the number of all layers tells. */
static graft_status detect_deep(const graft_safetensors *f, const char *prefix,
                                graft_qwen3_vision_arch *a, graft_err *e)
{
    static const struct {
        int32_t layers, first, step;
    } published[] = {{24, 5, 6}, {27, 8, 8}};
    int32_t first = 0, step = 0;
    while (a->deep <= GRAFT_QWEN3_DEEP && goes_deeper(f, prefix, a->deep)) a->deep++;
    if (!a->deep) return GRAFT_OK;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (published[i].layers == a->layers) {
            first = published[i].first;
            step = published[i].step;
        }
    graft_status st = told(f, "vision_deep_first", first, &a->deep_first, e);
    if (!st) st = told(f, "vision_deep_step", step, &a->deep_step, e);
    if (st) return st;
    if (a->deep <= GRAFT_QWEN3_DEEP && a->deep_step &&
        a->deep_first + (a->deep - 1) * a->deep_step < a->layers)
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: which %d of a vision encoder's %d layers go deeper into the language "
                      "model is not known",
                      graft_safetensors_path(f), a->deep, a->layers);
}

graft_status graft_qwen3_vision_detect(const graft_safetensors *f, const char *prefix,
                                       graft_qwen3_vision_arch *out, graft_err *e)
{
    *out = (graft_qwen3_vision_arch){0};
    const tower t = {&out->width,
                     &out->patch,
                     &out->heads,
                     &out->layers,
                     &out->intermediate,
                     &out->out,
                     "blocks.0.mlp.linear_fc1.weight",
                     "merger.linear_fc1.weight",
                     "merger.linear_fc2.weight"};
    graft_status st = detect_tower(f, prefix, &t, e);
    if (!st) st = detect_places(f, prefix, out, e);
    return st ? st : detect_deep(f, prefix, out, e);
}

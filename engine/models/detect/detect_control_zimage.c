/* ControlNets for Z-Image. */
#include <string.h>

#include "base/alloc.h"
#include "engine/models/controls/controlnet.h"
#include "engine/models/detect/detect_parts.h"
#include "engine/weights/quantized.h"
#include "engine/weights/weights.h"

#define PATCH 2 /* of Z-Image; the embedder's name has it, too */

/* Whether nothing but zeros is in it. */
static bool is_zero(const graft_st_tensor *t)
{
    const int64_t row = t->rank == 2 ? t->shape[1] : 0;
    float *v = row > 0 ? graft_malloc_array((size_t)row, sizeof *v) : NULL;
    bool zero = v != NULL;
    for (int64_t i = 0; zero && i < t->shape[0]; i++) {
        graft_st_to_f32(t, i * row, row, v);
        for (int64_t k = 0; zero && k < row; k++) zero = v[k] == 0;
    }
    graft_free(v);
    return zero;
}

/* Version 2.0 was trained with its layers in the refiner's place, whose last layers so stayed what
 * they were at first: zeros. */
static int32_t refining(const graft_safetensors *f, const char *prefix)
{
    const graft_st_tensor *t =
        graft_detect_find(f, prefix, "control_noise_refiner.0.after_proj.weight");
    if (!t) return GRAFT_CONTROL_REFINES_HINT;
    return graft_st_is_weight(t) && !graft_is_quantized(t->dtype) && is_zero(t)
               ? GRAFT_CONTROL_REFINES_TWICE
               : GRAFT_CONTROL_REFINES_BOTH;
}

static graft_status detect_hint(const graft_safetensors *f, const char *prefix,
                                graft_control_arch *out, graft_err *e)
{
    const graft_st_tensor *in = graft_detect_find(f, prefix, GRAFT_CONTROL_ZIMAGE_TENSOR);
    const int32_t numbers = graft_detect_dim(in, 1), planes = numbers / (PATCH * PATCH);
    out->zimage.hidden = graft_detect_dim(in, 0);
    out->zimage.patch = PATCH;
    out->hint_channels = planes;
    if (!numbers || numbers % (PATCH * PATCH) || !out->zimage.hidden)
        return graft_detect_missing(f, prefix, GRAFT_CONTROL_ZIMAGE_TENSOR, e);
    /* A latent has an even number of planes; with a mask and a second latent that is odd. */
    out->zimage.channels = planes % 2 ? (planes - 1) / 2 : planes;
    return GRAFT_OK;
}

graft_status graft_control_zimage_detect(const graft_safetensors *f, const char *prefix,
                                         graft_control_arch *out, graft_err *e)
{
    static const char norm[] = "control_layers.0.attention.q_norm.weight";
    graft_zimage_arch *a = &out->zimage;
    const int32_t head = graft_detect_dim(graft_detect_find(f, prefix, norm), 0);
    const graft_detect_width widths[] = {
        {"control_layers.0.adaLN_modulation.0.weight", &a->told, 1},
        {"control_layers.0.feed_forward.w1.weight", &a->mlp, 0}};
    out->kind = GRAFT_NET_ZIMAGE;
    graft_status st = detect_hint(f, prefix, out, e);
    if (!st) st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (st) return st;
    if (!head || a->hidden % head || head % 2) return graft_detect_missing(f, prefix, norm, e);
    a->heads = a->hidden / head;
    a->depth = graft_zimage_detect_depth(f, prefix, "control_layers");
    a->noise_depth = graft_zimage_detect_depth(f, prefix, "control_noise_refiner");
    out->refining = refining(f, prefix);
    if (a->depth <= GRAFT_STEERED_BLOCKS && a->noise_depth <= GRAFT_STEERED_BLOCKS) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: a ControlNet of more than %d blocks",
                      graft_safetensors_path(f), GRAFT_STEERED_BLOCKS);
}

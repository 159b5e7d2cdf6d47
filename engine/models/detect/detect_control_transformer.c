/* ControlNets for FLUX.1, Stable Diffusion 3 and Qwen-Image. */
#include "engine/models/controls/controlnet.h"
#include "engine/models/detect/detect_parts.h"
#include "engine/weights/quantized.h"
#include "engine/weights/weights.h"

#define PATCH 2 /* of FLUX, and of Qwen-Image */

/* Of how many planes the hint is: those of a latent, and one more where it sees a mask. */
static graft_status check_hint(const graft_safetensors *f, int32_t planes, int32_t channels,
                               graft_err *e)
{
    if (planes == channels || planes == channels + 1) return GRAFT_OK;
    return graft_fail(
        e, GRAFT_E_UNSUPPORTED,
        "%s: this ControlNet's hint has %d planes; known are %d, as its latents have, "
        "and %d with a mask",
        graft_safetensors_path(f), planes, channels, channels + 1);
}

static graft_status check_depth(const graft_safetensors *f, int32_t blocks, graft_err *e)
{
    if (blocks <= GRAFT_STEERED_BLOCKS) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: a ControlNet of more than %d blocks",
                      graft_safetensors_path(f), GRAFT_STEERED_BLOCKS);
}

graft_status graft_control_flux_detect(const graft_safetensors *f, const char *prefix,
                                       const char *config, graft_control_arch *out, graft_err *e)
{
    static const char modes[] = "controlnet_mode_embedder.weight";
    const graft_st_tensor *in = graft_detect_find(f, prefix, "img_in.weight");
    const graft_st_tensor *hint = graft_detect_find(f, prefix, GRAFT_CONTROL_FLUX_TENSOR);
    const graft_st_tensor *types = graft_detect_find(f, prefix, modes);
    graft_flux_arch *a = &out->flux;
    const int32_t numbers = graft_detect_dim(in, 1), of_hint = graft_detect_dim(hint, 1);
    out->kind = GRAFT_NET_FLUX;
    a->hidden = graft_detect_dim(in, 0);
    a->patch = PATCH;
    a->channels = numbers / (PATCH * PATCH);
    out->hint_channels = of_hint / (PATCH * PATCH);
    if (!a->hidden || !a->channels || numbers % (PATCH * PATCH))
        return graft_detect_missing(f, prefix, "img_in.weight", e);
    if (!of_hint || of_hint % (PATCH * PATCH))
        return graft_detect_missing(f, prefix, GRAFT_CONTROL_FLUX_TENSOR, e);
    graft_status st = check_hint(f, out->hint_channels, a->channels, e);
    if (!st) st = graft_flux_detect_blocks(f, prefix, config, a, e);
    if (!st) st = check_depth(f, a->depth > a->single_depth ? a->depth : a->single_depth, e);
    if (st || !types) return st;
    out->types = graft_detect_dim(types, 0);
    if (!out->types || types->rank != 2 || graft_detect_dim(types, 1) != a->hidden)
        return graft_detect_missing(f, prefix, modes, e);
    if (out->types <= GRAFT_CONTROL_MODES) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: a union ControlNet for %d types of pictures; at most %d are supported",
                      graft_safetensors_path(f), out->types, GRAFT_CONTROL_MODES);
}

graft_status graft_control_qwen_image_detect(const graft_safetensors *f, const char *prefix,
                                             const char *config, graft_control_arch *out,
                                             graft_err *e)
{
    graft_qwen_image_arch *a = &out->qwen_image;
    const int32_t of_hint =
        graft_detect_dim(graft_detect_find(f, prefix, GRAFT_CONTROL_FLUX_TENSOR), 1);
    out->kind = GRAFT_NET_QWEN_IMAGE;
    graft_status st = graft_qwen_image_detect(f, prefix, config, a, e);
    if (st) return st;
    out->hint_channels = of_hint / (a->patch * a->patch);
    if (!of_hint || of_hint % (a->patch * a->patch))
        return graft_detect_missing(f, prefix, GRAFT_CONTROL_FLUX_TENSOR, e);
    st = check_hint(f, out->hint_channels, a->channels, e);
    return st ? st : check_depth(f, a->depth, e);
}

graft_status graft_control_blockwise_detect(const graft_safetensors *f, const char *prefix,
                                            graft_control_arch *out, graft_err *e)
{
    graft_qwen_image_arch *a = &out->qwen_image;
    int32_t planes = 0;
    out->kind = GRAFT_NET_QWEN_IMAGE;
    out->within = 1;
    a->patch = PATCH;
    graft_status st =
        graft_detect_patches(f, prefix, "img_in.weight", PATCH, &a->hidden, &planes, e);
    if (st) return st;
    /* Two names of each, so that a file that lacks one of them is refused by that name. */
    while (a->depth < GRAFT_STEERED_BLOCKS + 1 &&
           (graft_detect_find(f, prefix, "controlnet_blocks.%d.y_rms.weight", a->depth) ||
            graft_detect_find(f, prefix, "controlnet_blocks.%d.x_rms.weight", a->depth)))
        a->depth++;
    /* A latent has an even number of planes. */
    a->channels = planes - planes % 2;
    out->hint_channels = planes;
    return check_depth(f, a->depth, e);
}

/* Whether Stability's own mark, a number of whatever type, says that it is for outlines: 0 is blur,
 * 1 canny, 2 depth. */
static bool is_canny(const graft_safetensors *f)
{
    const graft_st_tensor *t = graft_safetensors_find(f, "control_type");
    float v = 0;
    if (!t || (t->rank > 0 && (t->rank != 1 || t->shape[0] != 1))) return false;
    if (graft_st_is_weight(t) && !graft_is_quantized(t->dtype))
        graft_st_to_f32(t, 0, 1, &v);
    else
        v = *(const uint8_t *)t->data; /* of an integer the first byte, its lowest */
    return v == 1;
}

graft_status graft_control_mmdit_detect(const graft_safetensors *f, const char *prefix,
                                        const char *config, graft_control_arch *out, graft_err *e)
{
    graft_mmdit_arch hint = {0}, *a = &out->mmdit;
    const bool whole = graft_detect_find(f, prefix, "x_embedder.proj.weight") != NULL;
    graft_status st = graft_mmdit_detect_patch(f, prefix, GRAFT_CONTROL_MMDIT_TENSOR, &hint, e);
    if (st) return st;
    out->kind = GRAFT_NET_MMDIT;
    out->hint_channels = hint.channels;
    if (whole) {
        st = graft_mmdit_detect(f, prefix, config, a, e);
    } else {
        *a = hint;
        out->canny = is_canny(f);
        st = graft_mmdit_detect_blocks(f, prefix, config, a, e);
    }
    if (!st) st = check_hint(f, hint.channels, a->channels, e);
    if (!st) st = check_depth(f, a->depth, e);
    if (st || (a->hidden == hint.hidden && a->patch == hint.patch)) return st;
    return graft_detect_missing(f, prefix, GRAFT_CONTROL_MMDIT_TENSOR, e);
}

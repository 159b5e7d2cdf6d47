#include "engine/models/detect/detect_parts.h"

#define CHANNELS_MAX 4096
#define HEAD_DIM_MAX 512

/* A quarter of a head turns with each axis, in pairs. */
static graft_status detect_heads(const graft_safetensors *f, const char *prefix,
                                 graft_flux2_arch *a, graft_err *e)
{
    static const char norm[] = "double_blocks.0.img_attn.norm.query_norm.scale";
    const int32_t head_dim = graft_detect_dim(graft_detect_find(f, prefix, norm), 0);
    if (!head_dim) return graft_detect_missing(f, prefix, norm, e);
    if (a->hidden % head_dim || head_dim % 8 || head_dim > HEAD_DIM_MAX)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: a transformer of width %d with heads of %d",
                          graft_safetensors_path(f), a->hidden, head_dim);
    a->heads = a->hidden / head_dim;
    return GRAFT_OK;
}

graft_status graft_flux2_detect(const graft_safetensors *f, const char *prefix,
                                graft_flux2_arch *out, graft_err *e)
{
    *out = (graft_flux2_arch){0};
    int32_t coming_out, gated;
    const graft_detect_width widths[] = {{"img_in.weight", &out->hidden, 0},
                                         {"img_in.weight", &out->channels, 1},
                                         {"final_layer.linear.weight", &coming_out, 0},
                                         {"time_in.in_layer.weight", &out->time_dim, 1},
                                         {"txt_in.weight", &out->context_dim, 1},
                                         {"double_blocks.0.img_mlp.0.weight", &gated, 0}};
    graft_status st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (st) return st;
    if (out->channels != coming_out || out->channels > CHANNELS_MAX || gated % 2)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a FLUX.2 model that takes %d numbers a token and gives %d, with %d "
                          "in its MLPs: only latents are supported",
                          graft_safetensors_path(f), out->channels, coming_out, gated);
    out->mlp = gated / 2;
    out->guidance = graft_flux_detect_guidance(f, prefix);
    graft_flux_detect_depths(f, prefix, &out->depth, &out->single_depth);
    return detect_heads(f, prefix, out, e);
}

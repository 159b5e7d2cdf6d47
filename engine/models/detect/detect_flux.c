#include "engine/models/detect/detect_parts.h"
#include "engine/models/transformers/flux.h"

#define PATCH        2 /* of all published ones; tensors tell its square times the channels */
#define CHANNELS_MAX 4096

void graft_flux_detect_depths(const graft_safetensors *f, const char *prefix, int32_t *depth,
                              int32_t *single_depth)
{
    while (*depth < GRAFT_DETECT_BLOCKS_MAX &&
           (graft_detect_find(f, prefix, "double_blocks.%d.img_attn.qkv.weight", *depth) ||
            graft_detect_find(f, prefix, "double_blocks.%d.img_mlp.0.weight", *depth) ||
            graft_detect_find(f, prefix, "double_blocks.%d.img_mlp.down_proj.weight", *depth)))
        ++*depth;
    *single_depth =
        graft_detect_blocks(f, prefix, "single_blocks", "linear1.weight", "linear2.weight");
}

bool graft_flux_detect_guidance(const graft_safetensors *f, const char *prefix)
{
    return graft_detect_find(f, prefix, "guidance_in.in_layer.weight") ||
           graft_detect_find(f, prefix, "guidance_in.out_layer.weight");
}

/* A head's values turn with row and column; of 128 all published ones leave 16 as they are. */
static graft_status detect_heads(const graft_safetensors *f, const char *prefix, const char *config,
                                 graft_flux_arch *a, graft_err *e)
{
    static const char norm[] = "double_blocks.0.img_attn.norm.query_norm.scale";
    static const int32_t share[2] = {7, 16};
    return graft_detect_turned_heads(f, prefix, config, norm, a->hidden, share, &a->heads,
                                     &a->rope_dim, e);
}

/* Models that see a second picture beside the latent (Canny, Depth) take twice as much as they
 * give, one for inpainting (Fill) also a mask. */
static graft_status detect_channels(const graft_safetensors *f, const char *prefix,
                                    graft_flux_arch *a, graft_err *e)
{
    const graft_st_tensor *in = graft_detect_find(f, prefix, "img_in.weight");
    const graft_st_tensor *out = graft_detect_find(f, prefix, "final_layer.linear.weight");
    const int32_t going_in = graft_detect_dim(in, 1), coming_out = graft_detect_dim(out, 0);
    a->hidden = graft_detect_dim(in, 0);
    if (!a->hidden || !going_in) return graft_detect_missing(f, prefix, "img_in.weight", e);
    if (!coming_out || coming_out % (PATCH * PATCH) || coming_out / (PATCH * PATCH) > CHANNELS_MAX)
        return graft_detect_missing(f, prefix, "final_layer.linear.weight", e);
    a->patch = PATCH;
    a->channels = coming_out / (PATCH * PATCH);
    a->beside = (going_in - coming_out) / (PATCH * PATCH);
    if (going_in == coming_out || going_in == 2 * coming_out ||
        going_in == 2 * coming_out + GRAFT_CELL_PIXELS * PATCH * PATCH)
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: a FLUX model that takes %d numbers a token and gives %d: only latents, "
                      "and with them a picture, or the picture and the mask of Fill, are supported",
                      graft_safetensors_path(f), going_in, coming_out);
}

graft_status graft_flux_detect_blocks(const graft_safetensors *f, const char *prefix,
                                      const char *config, graft_flux_arch *out, graft_err *e)
{
    const graft_detect_width widths[] = {{"time_in.in_layer.weight", &out->time_dim, 1},
                                         {"vector_in.in_layer.weight", &out->pooled_dim, 1},
                                         {"txt_in.weight", &out->context_dim, 1},
                                         {"double_blocks.0.img_mlp.0.weight", &out->mlp, 0}};
    graft_status st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (st) return st;
    out->guidance = graft_flux_detect_guidance(f, prefix);
    graft_flux_detect_depths(f, prefix, &out->depth, &out->single_depth);
    return detect_heads(f, prefix, config, out, e);
}

/* Chroma's: widths and vectors as the blocks want them. */
static graft_status detect_approximator(const graft_safetensors *f, const char *prefix,
                                        graft_flux_arch *a, graft_err *e)
{
    static const char out[] = "distilled_guidance_layer.out_proj.weight";
    const graft_detect_width widths[] = {{"txt_in.weight", &a->context_dim, 1},
                                         {"double_blocks.0.img_mlp.0.weight", &a->mlp, 0}};
    const graft_st_tensor *in = graft_detect_find(f, prefix, GRAFT_CHROMA_TENSOR);
    const int32_t seen = graft_detect_dim(in, 1);
    a->approximator = graft_detect_dim(in, 0);
    a->time_dim = seen / 4;
    if (!a->approximator || !seen || seen % 8)
        return graft_detect_missing(f, prefix, GRAFT_CHROMA_TENSOR, e);
    while (a->approximator_layers < GRAFT_DETECT_BLOCKS_MAX &&
           (graft_detect_find(f, prefix, "distilled_guidance_layer.layers.%d.in_layer.weight",
                              a->approximator_layers) ||
            graft_detect_find(f, prefix, "distilled_guidance_layer.norms.%d.scale",
                              a->approximator_layers)))
        a->approximator_layers++;
    if (graft_detect_dim(graft_detect_find(f, prefix, out), 0) != a->hidden)
        return graft_detect_missing(f, prefix, out, e);
    return graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
}

static graft_status detect_chroma(const graft_safetensors *f, const char *prefix,
                                  const char *config, graft_flux_arch *a, graft_err *e)
{
    if (graft_detect_find(f, prefix, "img_in_patch.weight"))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: Chroma Radiance, which makes pixels in place of a latent, is not "
                          "supported",
                          graft_safetensors_path(f));
    graft_status st = detect_channels(f, prefix, a, e);
    if (!st) st = detect_approximator(f, prefix, a, e);
    if (st) return st;
    graft_flux_detect_depths(f, prefix, &a->depth, &a->single_depth);
    return detect_heads(f, prefix, config, a, e);
}

static bool has_any(const graft_safetensors *f, const char *prefix, const char *const *names,
                    size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (graft_detect_find(f, prefix, "%s", names[i])) return true;
    return false;
}

/* Any of these tensors tells, so that a file that lacks another is refused by that one's name. */
graft_flux_relative graft_flux_relative_of(const graft_safetensors *f, const char *prefix)
{
    static const char *const gated[] = {"double_blocks.0.img_mlp.gate_proj.weight",
                                        "double_blocks.0.img_mlp.up_proj.weight", "txt_norm.scale"};
    static const char *const told[] = {"vector_in.in_layer.weight",   "vector_in.in_layer.bias",
                                       "vector_in.out_layer.weight",  "vector_in.out_layer.bias",
                                       "guidance_in.in_layer.bias",   "guidance_in.in_layer.weight",
                                       "guidance_in.out_layer.weight"};
    static const char *const others[] = {GRAFT_CHROMA_TENSOR, GRAFT_FLUX2_TENSOR,
                                         "double_stream_modulation_txt.lin.weight"};
    if (!graft_detect_find(f, prefix, GRAFT_FLUX_TENSOR) ||
        has_any(f, prefix, others, sizeof others / sizeof *others))
        return GRAFT_FLUX_NONE;
    if (has_any(f, prefix, gated, sizeof gated / sizeof *gated)) return GRAFT_FLUX_OVIS;
    return has_any(f, prefix, told, sizeof told / sizeof *told) ? GRAFT_FLUX_NONE
                                                                : GRAFT_FLUX_LONGCAT;
}

static graft_status detect_relative(const graft_safetensors *f, const char *prefix,
                                    const char *config, graft_flux_relative relative,
                                    graft_flux_arch *a, graft_err *e)
{
    a->gated = relative == GRAFT_FLUX_OVIS;
    a->apart = relative == GRAFT_FLUX_LONGCAT;
    a->words = a->gated ? GRAFT_OVIS_TOKENS : GRAFT_LONGCAT_TOKENS;
    const graft_detect_width widths[] = {
        {"time_in.in_layer.weight", &a->time_dim, 1},
        {"txt_in.weight", &a->context_dim, 1},
        {a->gated ? "double_blocks.0.img_mlp.up_proj.weight" : "double_blocks.0.img_mlp.0.weight",
         &a->mlp, 0}};
    graft_status st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (st) return st;
    if (a->beside)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a relative of FLUX that is told no pooled prompt and sees a picture "
                          "beside its latent",
                          graft_safetensors_path(f));
    graft_flux_detect_depths(f, prefix, &a->depth, &a->single_depth);
    return detect_heads(f, prefix, config, a, e);
}

graft_status graft_flux_detect(const graft_safetensors *f, const char *prefix, const char *config,
                               graft_flux_arch *out, graft_err *e)
{
    *out = (graft_flux_arch){0};
    if (graft_detect_find(f, prefix, GRAFT_CHROMA_TENSOR))
        return detect_chroma(f, prefix, config, out, e);
    graft_status st = detect_channels(f, prefix, out, e);
    if (st) return st;
    const graft_flux_relative relative = graft_flux_relative_of(f, prefix);
    return relative ? detect_relative(f, prefix, config, relative, out, e)
                    : graft_flux_detect_blocks(f, prefix, config, out, e);
}

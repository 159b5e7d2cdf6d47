/* Qwen-Image's transformer, whose files have diffusers' names everywhere. */
#include "engine/models/detect/detect_parts.h"

#define PATCH 2 /* of all published ones; tensors tell its square times the channels */

#define NORM  "transformer_blocks.0.attn.norm_q.weight"
#define MLP   "transformer_blocks.0.img_mlp.net.0.proj.weight"
#define FIRST "time_text_embed.timestep_embedder.linear_1.weight"
/* Of Qwen-Image-Layered, which is told what else its latents are; in diffusers' configuration
 * use_additional_t_cond and, as its places have layers, use_layer3d_rope. */
#define LAYERED "time_text_embed.addition_t_embedding.weight"
/* Stands in files of Edit-2511, for which diffusers' configuration has zero_cond_t. */
#define CLEAN "__index_timestep_zero__"

graft_status graft_qwen_image_detect(const graft_safetensors *f, const char *prefix,
                                     const char *config, graft_qwen_image_arch *out, graft_err *e)
{
    /* Of a head's values seven sixteenths turn with the row, as many with the column: 56 of 128. */
    static const int32_t share[2] = {7, 16};
    *out = (graft_qwen_image_arch){0};
    const graft_detect_width widths[] = {
        {FIRST, &out->time_dim, 1}, {"txt_in.weight", &out->context_dim, 1}, {MLP, &out->mlp, 0}};
    out->patch = PATCH;
    graft_status st =
        graft_detect_patches(f, prefix, "img_in.weight", PATCH, &out->hidden, &out->channels, e);
    if (!st) st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (st) return st;
    out->depth = graft_detect_blocks(f, prefix, "transformer_blocks", "img_mod.1.weight",
                                     "attn.to_q.weight");
    out->clean_references = graft_detect_find(f, prefix, CLEAN) != NULL;
    out->layered = graft_detect_find(f, prefix, LAYERED) != NULL;
    return graft_detect_turned_heads(f, prefix, config, NORM, out->hidden, share, &out->heads,
                                     &out->rope_dim, e);
}

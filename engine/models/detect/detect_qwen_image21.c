/* Qwen-Image 2.1's transformer, by the names of ComfyUI's files; those of diffusers are the same
 * but for one layer (diffusers_qwen_image21.c). */
#include "engine/models/detect/detect_parts.h"

#define NORM  "transformer_blocks.0.attn.norm_q.weight"
#define MLP   "transformer_blocks.0.img_mlp.out.weight"
#define FIRST "time_text_embed.timestep_embedder.linear_1.weight"

graft_status graft_qwen_image21_detect(const graft_safetensors *f, const char *prefix,
                                       const char *config, graft_qwen_image21_arch *out,
                                       graft_err *e)
{
    /* As with Qwen-Image: 56 of a head's 128 values turn with the row, and as many with the column.
     */
    static const int32_t share[2] = {7, 16};
    *out = (graft_qwen_image21_arch){0};
    const graft_detect_width widths[] = {{FIRST, &out->time_dim, 1},
                                         {GRAFT_QWEN_IMAGE21_TENSOR, &out->context_dim, 0},
                                         {MLP, &out->mlp, 1}};
    graft_status st =
        graft_detect_patches(f, prefix, "img_in.weight", 1, &out->hidden, &out->channels, e);
    if (!st) st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (st) return st;
    out->depth = graft_detect_blocks(f, prefix, "transformer_blocks", "img_mlp.out.weight",
                                     "attn.to_q.weight");
    return graft_detect_turned_heads(f, prefix, config, NORM, out->hidden, share, &out->heads,
                                     &out->rope_dim, e);
}

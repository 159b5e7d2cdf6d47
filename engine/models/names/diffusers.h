/* The other names of a layer: files made with diffusers or transformers call the same layers
 * differently than single-file checkpoints do. Pure functions, any thread.
 *
 * `name` is a layer's name without ".weight" and without the part's prefix. Names that have no
 * other form give false; so do results longer than `size`. */
#ifndef GRAFT_MODELS_DIFFUSERS_H
#define GRAFT_MODELS_DIFFUSERS_H
#include "engine/models/names/diffusers_layers.h"
#include "engine/models/parts/arch.h"

/* "input_blocks.4.1.proj_in" -> "down_blocks.1.attentions.0.proj_in". Levels end where the
 * architecture's blocks change their size, so any block list will do. */
bool graft_diffusers_unet_name(const graft_unet_arch *a, const char *name, char *out, size_t size);
/* The same for a ControlNet, `a` the half of a UNet that it has: also "zero_convs.3.0" ->
 * "controlnet_down_blocks.3". */
bool graft_diffusers_control_name(const graft_unet_arch *a, const char *name, char *out,
                                  size_t size);
/* "joint_blocks.0.x_block.mlp.fc1" -> "transformer_blocks.0.ff.net.0.proj"; of `a` only the depth
 * counts. */
bool graft_diffusers_mmdit_name(const graft_mmdit_arch *a, const char *name,
                                graft_diffusers_rows *out);
/* "single_blocks.0.linear1" -> four of "single_transformer_blocks.0". */
bool graft_diffusers_flux_name(const graft_flux_arch *a, const char *name,
                               graft_diffusers_rows *out);
/* "layers.0.attention.qkv" -> "layers.0.attention.to_q", "…to_k" and "…to_v"; also of layers that
 * are called alike. */
bool graft_diffusers_zimage_name(const char *name, graft_diffusers_rows *out);
/* "layers.0.attention.qkv" -> "layers.0.attn.to_q", "…to_k" and "…to_v". */
bool graft_diffusers_lumina2_name(const graft_zimage_arch *a, const char *name,
                                  graft_diffusers_rows *out);
/* "double_blocks.0.img_mlp.0" -> "transformer_blocks.0.ff.linear_in". */
bool graft_diffusers_flux2_name(const char *name, graft_diffusers_rows *out);
/* "blocks.0.attn.wq" -> "transformer_blocks.0.attn.to_q"; also of the prompt's blocks. */
bool graft_diffusers_krea2_name(const char *name, graft_diffusers_rows *out);
/* "transformer_blocks.0.img_mlp.gate_up" -> "transformer_blocks.0.img_mlp.gate_layer" and "…proj":
 * the only layer that is called differently. */
bool graft_diffusers_qwen_image21_name(const char *name, graft_diffusers_rows *out);
/* "layers.0.attention.qkv" -> "layers.0.attention.to_q", "…to_k" and "…to_v"; also of layers that
 * are called alike. */
bool graft_diffusers_ideogram4_name(const char *name, graft_diffusers_rows *out);
/* "blocks.0.mlp.layer1" -> "transformer_blocks.0.ff.net.0.proj". */
bool graft_diffusers_anima_name(const char *name, graft_diffusers_rows *out);
/* "double_layers.0.attn.w2q" -> "joint_transformer_blocks.0.attn.to_q". */
bool graft_diffusers_auraflow_name(const char *name, graft_diffusers_rows *out);
/* "transformer.resblocks.0.mlp.c_fc" -> "text_model.encoder.layers.0.mlp.fc1". */
bool graft_diffusers_text_name(const char *name, char *out, size_t size);
#endif

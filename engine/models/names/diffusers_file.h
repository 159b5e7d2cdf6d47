/* Files in the names of diffusers (UNet2DConditionModel, AutoencoderKL, SD3Transformer2DModel,
 * FluxTransformer2DModel, the ControlNets of these two, ZImageTransformer2DModel,
 * Lumina2Transformer2DModel, Flux2Transformer2DModel, Krea2Transformer2DModel,
 * Ideogram4Transformer2DModel, QwenImage21Transformer2DModel, AuraFlowTransformer2DModel,
 * AutoencoderKLQwenImage and AutoencoderKLQwenImage21; QwenImageTransformer2DModel's names, and
 * those of OmniGen2's authors, are those of all files): their tensors get the names that
 * checkpoints have, by which all else knows them. Which block a tensor belongs to depends on how
 * many layers the blocks before it have, which is counted in the file.
 *
 * For files just opened, of which nobody else knows yet. A file of another kind stays as it is. Of
 * one that has diffusers' names every tensor must be known, and all that belong to a layer must be
 * there: GRAFT_E_FORMAT where one is missing, GRAFT_E_UNSUPPORTED for what Stable Diffusion's
 * networks do not have; messages name tensors as the file does. */
#ifndef GRAFT_MODELS_DIFFUSERS_FILE_H
#define GRAFT_MODELS_DIFFUSERS_FILE_H
#include <stdbool.h>

#include "engine/weights/safetensors.h"

typedef graft_status graft_diffusers_adopt(graft_safetensors *f, graft_err *e);
/* down_blocks.1.attentions.0.proj_in.weight -> input_blocks.4.1.proj_in.weight */
graft_diffusers_adopt graft_diffusers_adopt_unet;
/* transformer_blocks.3.ff.net.2.weight -> joint_blocks.3.x_block.mlp.fc2.weight. Queries, keys and
 * values become one tensor, and halves change places where their order is another: both are copied,
 * about a sixth of the file. */
graft_diffusers_adopt graft_diffusers_adopt_mmdit;
/* single_transformer_blocks.3.proj_out.weight -> single_blocks.3.linear2.weight. Likewise; about a
 * third of the file is copied. */
graft_diffusers_adopt graft_diffusers_adopt_flux;
bool graft_diffusers_is_flux(const graft_safetensors *f);
/* layers.3.attention.to_q.weight, with its keys and values -> layers.3.attention.qkv.weight: a
 * quarter of the file is copied. */
graft_diffusers_adopt graft_diffusers_adopt_zimage;
bool graft_diffusers_is_zimage(const graft_safetensors *f);
/* layers.3.attn.to_q.weight, with its keys and values -> layers.3.attention.qkv.weight: a tenth of
 * the file is copied. */
graft_diffusers_adopt graft_diffusers_adopt_lumina2;
bool graft_diffusers_is_lumina2(const graft_safetensors *f);
/* transformer_blocks.3.ff.linear_in.weight -> double_blocks.3.img_mlp.0.weight. Queries, keys and
 * values of blocks of two streams are copied, a thirteenth of klein's file. */
graft_diffusers_adopt graft_diffusers_adopt_flux2;
bool graft_diffusers_is_flux2(const graft_safetensors *f);
/* transformer_blocks.3.attn.to_q.weight -> blocks.3.attn.wq.weight. Nothing is copied. */
graft_diffusers_adopt graft_diffusers_adopt_krea2;
bool graft_diffusers_is_krea2(const graft_safetensors *f);
/* transformer_blocks.3.img_mlp.gate_layer.weight, with what is beside its gate ->
 * transformer_blocks.3.img_mlp.gate_up.weight: two fifths of the file are copied. Also below
 * ComfyUI's prefix, as some quantized files have it. */
graft_diffusers_adopt graft_diffusers_adopt_qwen_image21;
bool graft_diffusers_is_qwen_image21(const graft_safetensors *f);
/* layers.3.attention.to_q.weight, with its keys and values -> layers.3.attention.qkv.weight: a
 * quarter of the file is copied. */
graft_diffusers_adopt graft_diffusers_adopt_ideogram4;
bool graft_diffusers_is_ideogram4(const graft_safetensors *f);
/* joint_transformer_blocks.3.attn.to_q.weight -> double_layers.3.attn.w2q.weight. The last
 * modulation alone is copied. */
graft_diffusers_adopt graft_diffusers_adopt_auraflow;
bool graft_diffusers_is_auraflow(const graft_safetensors *f);
/* FLUX.1, its relatives and FLUX.2 in the names of their authors but for a few:
 * double_blocks.3.img_attn.norm.query_norm.weight -> …query_norm.scale, as newer programs save
 * them; semantic_txt_in.weight -> txt_in.weight, as Ovis-Image's authors have it. Nothing is
 * copied. */
graft_diffusers_adopt graft_flux_names_adopt;
bool graft_flux_names_differ(const graft_safetensors *f);
/* Of these nine the one that the file is. */
graft_diffusers_adopt graft_diffusers_adopt_net;
/* A ControlNet for FLUX, Stable Diffusion 3 or Z-Image: blocks likewise; what it has beside the
 * transformer's keeps its name. Also one of Stability's for 3.5 large, whose blocks have their own
 * names. */
graft_diffusers_adopt graft_diffusers_adopt_control;
graft_status graft_diffusers_adopt_control_mmdit(graft_safetensors *f, graft_err *e);
/* control_layers.3.attention.to_q.weight, with its keys and values ->
 * control_layers.3.attention.qkv.weight, of one for Z-Image. */
graft_status graft_diffusers_adopt_control_zimage(graft_safetensors *f, graft_err *e);
/* decoder.up_blocks.0.resnets.1.conv1.weight -> decoder.up.3.block.1.conv1.weight; the attention's
 * layers by their old and their new names. */
graft_diffusers_adopt graft_diffusers_adopt_vae;
/* Of a checkpoint, whose other tensors stay as they are: vae.decoder.up_blocks.0.… or
 * first_stage_model.decoder.up_blocks.0.…; the former does it, too. A tensor that a VAE does not
 * have is told of as others that nobody reads. */
graft_diffusers_adopt graft_diffusers_adopt_vae_below;
/* decoder.up_blocks.1.resnets.0.conv1.weight -> decoder.upsamples.4.residual.2.weight. A layer that
 * is missing is noticed when the file is loaded, and is told by its authors' name. The former does
 * it, too. */
graft_diffusers_adopt graft_diffusers_adopt_wan_vae;
bool graft_diffusers_is_wan_vae(const graft_safetensors *f);
#endif

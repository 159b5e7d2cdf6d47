/* Tensors that tell which network a file has: each is in all files of its kind, below the prefix
 * that the network has there, and in those of no other kind but where it says so. In its authors'
 * names, or those that a file has once it is open (names/diffusers_file.h). */
#ifndef GRAFT_MODELS_TENSORS_H
#define GRAFT_MODELS_TENSORS_H

/* Transformers. */
#define GRAFT_MMDIT_TENSOR        "joint_blocks.0.x_block.attn.qkv.weight"
#define GRAFT_FLUX_TENSOR         "double_blocks.0.img_attn.qkv.weight"
#define GRAFT_CHROMA_TENSOR       "distilled_guidance_layer.in_proj.weight" /* and FLUX.1's */
#define GRAFT_FLUX2_TENSOR        "double_stream_modulation_img.lin.weight" /* and FLUX.1's */
#define GRAFT_ZIMAGE_TENSOR       "cap_embedder.1.weight" /* Lumina-Image 2.0, too */
#define GRAFT_QWEN_IMAGE_TENSOR   "transformer_blocks.0.img_mod.1.weight"
#define GRAFT_QWEN_IMAGE21_TENSOR "txt_in.text_norm.weight"
#define GRAFT_KREA2_TENSOR        "txtfusion.projector.weight"
#define GRAFT_IDEOGRAM4_TENSOR    "llm_cond_proj.weight"
#define GRAFT_ERNIE_IMAGE_TENSOR  "layers.0.adaLN_sa_ln.weight"
#define GRAFT_AURAFLOW_TENSOR     "double_layers.0.attn.w1q.weight"
#define GRAFT_HIDREAM_TENSOR      "double_stream_blocks.0.block.ff_i.gate.weight"
#define GRAFT_ANIMA_TENSOR        "llm_adapter.out_proj.weight"
#define GRAFT_OMNIGEN2_TENSOR     "ref_image_patch_embedder.weight"

/* ControlNets of transformers. */
#define GRAFT_CONTROL_FLUX_TENSOR      "controlnet_x_embedder.weight" /* of Qwen-Image's, too */
#define GRAFT_CONTROL_MMDIT_TENSOR     "pos_embed_input.proj.weight"
#define GRAFT_CONTROL_ZIMAGE_TENSOR    "control_all_x_embedder.2-1.weight"
#define GRAFT_CONTROL_BLOCKWISE_TENSOR "controlnet_blocks.0.y_rms.weight"
#define GRAFT_CONTROL_LORA_TENSOR      "lora_controlnet"

/* VAEs other than Stable Diffusion's. */
#define GRAFT_WAN_VAE_TENSOR "decoder.middle.0.residual.0.gamma"
#define GRAFT_TAEHV_TENSOR   "decoder.3.conv.0.weight"

/* Encoders of prompts and of pictures. */
#define GRAFT_T5_TENSOR     "encoder.block.0.layer.0.SelfAttention.q.weight"
#define GRAFT_UMT5_TENSOR   "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"
#define GRAFT_QWEN3_TENSOR  "model.layers.0.self_attn.q_norm.weight"
#define GRAFT_QWEN25_TENSOR "model.layers.0.self_attn.q_proj.bias"
/* Mistral, whose heads have no norms where a Qwen's have some; its relatives have it, too. */
#define GRAFT_MISTRAL_TENSOR "model.layers.0.self_attn.q_proj.weight"
/* Gemma 2; Gemma 3 has it, too. */
#define GRAFT_GEMMA2_TENSOR      "model.layers.0.pre_feedforward_layernorm.weight"
#define GRAFT_QWEN_VISION_TENSOR "patch_embed.proj.weight" /* Qwen 2.5-VL's and 3-VL's */
#define GRAFT_REDUX_TENSOR       "redux_up.weight"         /* which has no prefix */
#endif

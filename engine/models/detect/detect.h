/* Finding out what a file has: architectures (parts/arch.h) from the names and shapes of its
 * tensors. What shapes cannot tell follows from the known families, or stands as JSON in the file's
 * __metadata__.config. Which network it may be is told by one tensor (parts/tensors.h).
 *
 * Pure functions, any thread; *out is zero-filled before it is set, so that equal architectures are
 * equal bytes. */
#ifndef GRAFT_MODELS_DETECT_H
#define GRAFT_MODELS_DETECT_H
#include "engine/models/parts/arch.h"
#include "engine/models/parts/gligen.h"
#include "engine/models/parts/tensors.h"
#include "engine/weights/safetensors.h"

/* Each looks for one part below `prefix` ("model.diffusion_model.") and fails with the first tensor
 * that is missing or does not fit. `config`, the text of __metadata__.config or NULL, tells what
 * shapes cannot. GRAFT_E_UNSUPPORTED for UNets whose output is no latent like the one that goes in:
 * those that see a depth or a second picture. */
graft_status graft_unet_detect(const graft_safetensors *f, const char *prefix, const char *config,
                               graft_unet_arch *out, graft_err *e);
graft_status graft_mmdit_detect(const graft_safetensors *f, const char *prefix, const char *config,
                                graft_mmdit_arch *out, graft_err *e);
graft_status graft_flux_detect(const graft_safetensors *f, const char *prefix, const char *config,
                               graft_flux_arch *out, graft_err *e);
/* Which of FLUX.1's relatives that are told no pooled prompt a file has. */
graft_flux_relative graft_flux_relative_of(const graft_safetensors *f, const char *prefix);
graft_status graft_zimage_detect(const graft_safetensors *f, const char *prefix, const char *config,
                                 graft_zimage_arch *out, graft_err *e);
/* Whether a file with GRAFT_ZIMAGE_TENSOR is one of Lumina-Image 2.0. */
bool graft_zimage_is_lumina2(const graft_safetensors *f, const char *prefix);
/* Of both klein and dev. */
graft_status graft_flux2_detect(const graft_safetensors *f, const char *prefix,
                                graft_flux2_arch *out, graft_err *e);
graft_status graft_qwen_image_detect(const graft_safetensors *f, const char *prefix,
                                     const char *config, graft_qwen_image_arch *out, graft_err *e);
graft_status graft_qwen_image21_detect(const graft_safetensors *f, const char *prefix,
                                       const char *config, graft_qwen_image21_arch *out,
                                       graft_err *e);
graft_status graft_krea2_detect(const graft_safetensors *f, const char *prefix, const char *config,
                                graft_krea2_arch *out, graft_err *e);
graft_status graft_ideogram4_detect(const graft_safetensors *f, const char *prefix,
                                    const char *config, graft_ideogram4_arch *out, graft_err *e);
/* Whether the file says that its network is the one that sees no prompt, which has the same
 * tensors. */
bool graft_ideogram4_sees_no_prompt(const graft_safetensors *f);
graft_status graft_ernie_image_detect(const graft_safetensors *f, const char *prefix,
                                      const char *config, graft_ernie_image_arch *out,
                                      graft_err *e);
graft_status graft_auraflow_detect(const graft_safetensors *f, const char *prefix,
                                   const char *config, graft_auraflow_arch *out, graft_err *e);
graft_status graft_omnigen2_detect(const graft_safetensors *f, const char *prefix,
                                   const char *config, graft_omnigen2_arch *out, graft_err *e);
/* HiDream-I1, and E1, which has the same network. */
graft_status graft_hidream_detect(const graft_safetensors *f, const char *prefix,
                                  const char *config, graft_hidream_arch *out, graft_err *e);
graft_status graft_anima_detect(const graft_safetensors *f, const char *prefix, const char *config,
                                graft_anima_arch *out, graft_err *e);
graft_status graft_control_detect(const graft_safetensors *f, const char *prefix,
                                  const char *config, graft_control_arch *out, graft_err *e);
/* A T2I-Adapter's file: below which prefix it is; NULL: there is none in it. Static. */
const char *graft_t2i_prefix(const graft_safetensors *f);
/* GRAFT_E_UNSUPPORTED for those whose blocks are others than in published files. */
graft_status graft_t2i_detect(const graft_safetensors *f, const char *prefix, graft_t2i_arch *out,
                              graft_err *e);
/* Of any kind; TAESD in diffusers' names. */
graft_status graft_vae_detect(const graft_safetensors *f, const char *prefix, graft_vae_arch *out,
                              graft_err *e);
/* A file of the author's, which has one half of a TAESD. graft_taesd_half_in() tells which. */
typedef enum graft_tiny_part {
    GRAFT_TINY_NONE = 0,
    GRAFT_TINY_ENCODER = 1,
    GRAFT_TINY_DECODER = 2
} graft_tiny_part;
graft_tiny_part graft_taesd_half_in(const graft_safetensors *f);
/* `encoder` may be NULL. GRAFT_E_FORMAT, too, for halves that do not belong together. */
graft_status graft_taesd_pair_detect(const graft_safetensors *encoder,
                                     const graft_safetensors *decoder, graft_vae_arch *out,
                                     graft_err *e);
graft_status graft_text_detect(const graft_safetensors *f, const char *prefix, const char *config,
                               graft_text_arch *out, graft_err *e);
/* GRAFT_E_UNSUPPORTED for a relative of another structure: T5 1.0, whose layers have one wi. */
graft_status graft_t5_detect(const graft_safetensors *f, const char *prefix, graft_t5_arch *out,
                             graft_err *e);
/* Whether a vision encoder is below the prefix. */
bool graft_vision_in(const graft_safetensors *f, const char *prefix);
graft_status graft_vision_detect(const graft_safetensors *f, const char *prefix,
                                 graft_vision_arch *out, graft_err *e);
graft_status graft_redux_detect(const graft_safetensors *f, graft_redux_arch *out, graft_err *e);
/* GRAFT_E_UNSUPPORTED, with their names, for FaceID, for those with an MLP in place of the
 * projection ("full face") and for those of FLUX and Stable Diffusion 3. */
graft_status graft_ip_adapter_detect(const graft_safetensors *f, graft_ip_adapter_arch *out,
                                     graft_err *e);
/* Below which prefix the file has one, of whatever kind: none, or its authors' "model."; NULL:
 * there is none. */
const char *graft_gligen_prefix(const graft_safetensors *f);
/* GRAFT_E_UNSUPPORTED, with what they are for, for those of other things than texts in boxes. */
graft_status graft_gligen_detect(const graft_safetensors *f, const char *prefix,
                                 graft_gligen_arch *out, graft_err *e);
/* Heads of Qwen 2.5 and Mistral are of 128 numbers, or as many as head_dim in __metadata__.config
 * says, or for a Mistral of llama.cpp's KIND.rope.dimension_count; those of Gemma 2 of 256, or as
 * that or KIND.attention.key_length says. GRAFT_E_UNSUPPORTED for relatives: with experts, with
 * norms of heads and behind branches (Gemma 3). */
graft_status graft_qwen3_detect(const graft_safetensors *f, const char *prefix,
                                graft_qwen3_arch *out, graft_err *e);
bool graft_qwen3_is_mistral(const graft_safetensors *f, const char *prefix);
/* Whether it is a Llama 3, by its number of tokens, or as the file says: tokenizer.ggml.pre, or
 * llama in __metadata__.config. */
bool graft_qwen3_is_llama(const graft_safetensors *f, const char *prefix);
/* Whether it has no more layers than Ministral 3's smallest, of 3 billion weights. */
bool graft_qwen3_is_ministral(const graft_safetensors *f, const char *prefix);
/* How many numbers its heads are of, by metadata; any: a number that makes no sense is 128. */
graft_status graft_mistral_head_dim(const graft_safetensors *f, int32_t *out, graft_err *e);
/* What is behind its prefix; heads are 16, and one layer in eight sees the whole picture, or as
 * vision_heads and vision_whole_every in __metadata__.config say. GRAFT_E_UNSUPPORTED for others.
 */
graft_status graft_qwen_vision_detect(const graft_safetensors *f, const char *prefix,
                                      graft_qwen_vision_arch *out, graft_err *e);
/* Likewise of Qwen 3-VL, whose file has GRAFT_QWEN_VISION_TENSOR, too. Heads are 16, or as many as
 * vision_heads says; which layers go deeper is known of 24 and of 27 layers, or vision_deep_first
 * and vision_deep_step say so. */
graft_status graft_qwen3_vision_detect(const graft_safetensors *f, const char *prefix,
                                       graft_qwen3_vision_arch *out, graft_err *e);
graft_status graft_upscaler_detect(const graft_safetensors *f, const char *prefix,
                                   graft_upscaler_arch *out, graft_err *e);
/* Below which prefix a network is that enlarges pictures; NULL: the file has none. Static. */
const char *graft_upscaler_prefix(const graft_safetensors *f);
/* The other facts of the metadata's config, with SD's values where it is silent. GRAFT_E_FORMAT for
 * a schedule that is none, GRAFT_E_UNSUPPORTED for predictions other than eps and v. */
typedef struct graft_checkpoint_config {
    double scale_factor; /* 0: not given */
    bool raw_latents;    /* of a TAEHV: as the VAE gives them, not as a network sees them */
    double beta_start, beta_end;
    bool v_prediction, zsnr; /* v_prediction also from a tensor named "v_pred" */
    bool prediction_given;
    /* From "latent_rgb", five rows of three numbers: sampling/preview.h. */
    bool preview_given;
    float preview[5][3];
} graft_checkpoint_config;
graft_status graft_checkpoint_config_read(const graft_safetensors *f, graft_checkpoint_config *out,
                                          graft_err *e);
#endif

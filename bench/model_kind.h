/* The kinds of models that graft-make-model makes, with the shapes of published ones: sd15, sd21,
 * sdxl, sdxl-refiner, sd3, sd35-medium, sd35-large, flux-dev, flux-schnell, chroma,
 * longcat-image, ovis-image, z-image, flux2-klein, flux2-klein-9b, flux2-dev, qwen-image,
 * qwen-image-layered, qwen-image21, krea2, anima, ideogram4, ernie-image, auraflow, omnigen2,
 * hidream; ssd1b and bk-sdm-small, which are pruned. Those whose names begin with "tiny" are small
 * enough to run whole workflows in tests.
 *
 * FLUX.2's have no VAE, which flux2-vae and tiny-flux2-vae are (--parts vae), and neither they nor
 * Z-Image's have a text encoder, which qwen3-4b and its like are; z-image-layer and flux2-layer
 * have one block of each kind in the real width. Those of Qwen-Image have Qwen 2.5 as a file of its
 * own (--parts qwen3), with what looks at pictures; qwen-image-layer, two blocks in the real width,
 * is a network alone, and qwen-image-layered has no text encoder. Likewise those of Qwen-Image 2.1
 * and Krea 2 have Qwen 3-VL, tiny-krea2 and tiny-ideogram4 its language model alone;
 * qwen-image21-layer has two blocks, krea2-layer two and one of each kind of the prompt's. Anima's
 * have Qwen 3 likewise; anima-layer, one block of the network and one of its adapter in the real
 * width, is a network alone. Ideogram 4's have Qwen 3-VL likewise, and FLUX.2's VAE;
 * ideogram4-layer, two blocks in the real width, is a network alone, and ideogram4-unconditional
 * and tiny-ideogram4-unconditional are those that see no prompt. ERNIE-Image's have Ministral 3 and
 * FLUX.2's VAE likewise; ernie-image-layer is two blocks alone. AuraFlow's have SDXL's VAE, and
 * Pile-T5, also as a file of its own (--parts t5); auraflow-layer, one block of each kind in the
 * real width, is a network alone. OmniGen2's have FLUX.1's VAE and, as a file of its own, the
 * language model of Qwen 2.5-VL-3B; omnigen2-layer, one block of each kind in the real width, is a
 * network alone. HiDream's have FLUX.1's VAE, too, and Llama 3.1 as a file of its own (--parts
 * qwen3); hidream-layer is as omnigen2-layer. tiny-chroma has neither VAE nor text encoder; chroma
 * has T5 as
 * flux-dev. LongCat-Image's have no text encoder, which is qwen-image's, Ovis-Image's has Qwen 3 as
 * a file of its own; of longcat-image-layer and ovis-image-layer, one block of each kind in the
 * real width, and of tiny-longcat-image and tiny-ovis-image there is the network alone.
 * tiny-qwen3-deep has as many layers as FLUX.2 klein asks for; mistral-small and tiny-mistral are
 * dev's. tiny-refiner is a UNet alone, whose prompts are as wide as all. Of SD 3's and FLUX.1's a
 * checkpoint has no T5, which is a file of its own. */
#ifndef GRAFT_BENCH_MODEL_KIND_H
#define GRAFT_BENCH_MODEL_KIND_H
#include <stdbool.h>
#include <stddef.h>

#include "engine/models/encoders/qwen3.h"
#include "engine/models/encoders/qwen3_vision.h"
#include "engine/models/encoders/qwen_vision.h"
#include "engine/models/encoders/t5.h"
#include "engine/models/encoders/textenc.h"
#include "engine/models/transformers/anima.h"
#include "engine/models/transformers/auraflow.h"
#include "engine/models/transformers/ernie_image.h"
#include "engine/models/transformers/flux.h"
#include "engine/models/transformers/flux2.h"
#include "engine/models/transformers/hidream.h"
#include "engine/models/transformers/ideogram4.h"
#include "engine/models/transformers/krea2.h"
#include "engine/models/transformers/mmdit.h"
#include "engine/models/transformers/omnigen2.h"
#include "engine/models/transformers/qwen_image.h"
#include "engine/models/transformers/qwen_image21.h"
#include "engine/models/transformers/zimage.h"
#include "engine/models/unets/unet.h"

/* Prefixes of text encoders in checkpoints. */
#define SD1_TEXT     "cond_stage_model.transformer."
#define SD2_TEXT     "cond_stage_model.model."
#define SDXL_TEXT_L  "conditioner.embedders.0.transformer."
#define SDXL_TEXT_G  "conditioner.embedders.1.model."
#define REFINER_TEXT "conditioner.embedders.0.model."
#define SD3_TEXT_L   "text_encoders.clip_l.transformer."
#define SD3_TEXT_G   "text_encoders.clip_g.transformer."

/* A text encoder. */
typedef struct model_encoder {
    const char *prefix; /* NULL: none */
    graft_text_arch arch;
} model_encoder;

typedef struct model_kind {
    const char *name;
    int32_t model_channels, mult[4], levels, res_blocks;
    int32_t depth[4], middle; /* transformer blocks by level */
    /* Pruned UNets: their transformer blocks in the output blocks where those differ, outermost
     * last; how many of the middle's two residual blocks are gone. */
    int32_t depth_after[GRAFT_MAX_BLOCKS], middle_pruned;
    int32_t context_dim, adm_channels, linear_proj, num_heads, head_dim;
    graft_mmdit_arch mmdit; /* instead of a UNet, where it has a depth */
    graft_flux_arch flux;   /* likewise */
    graft_zimage_arch zimage;
    graft_flux2_arch flux2;
    graft_qwen_image_arch qwen_image;
    graft_qwen_image21_arch qwen_image21;
    graft_krea2_arch krea2;
    graft_anima_arch anima;
    graft_ideogram4_arch ideogram4;
    graft_ernie_image_arch ernie_image;
    graft_auraflow_arch auraflow;
    graft_omnigen2_arch omnigen2;
    graft_hidream_arch hidream;
    bool unclip; /* with an encoder of pictures, as its clip's */
    int32_t vae_channels, vae_mult[5], vae_res_blocks;
    int32_t vae_decoder_channels; /* of Qwen-Image 2.1's; 0: it is none */
    bool vae_folds;               /* FLUX.2's, as a file of its own */
    bool vae_wan;                 /* Wan 2.1's */
    bool vae_alpha;               /* with an alpha channel, as Qwen-Image-Layered's */
    model_encoder text[2];
    graft_t5_arch t5;                     /* a file of its own, without a prefix */
    graft_qwen3_arch qwen3;               /* likewise */
    graft_qwen_vision_arch qwen_vision;   /* in the same file, where it has layers */
    graft_qwen3_vision_arch qwen3_vision; /* likewise */
    const char *config;                   /* __metadata__.config, or NULL */
    const char *model_type;               /* __metadata__.model_type, or NULL */
} model_kind;

/* Kind i, from 0 on; NULL behind the last. */
const model_kind *model_kind_at(size_t i);
#endif

#include "engine/files/kinds.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/tensors.h"

/* By what one of its names contains; where several fit, the first. */
static const struct kind {
    const char *part, *what;
    const char *loader; /* NULL: there is none */
} kinds[] = {
    {".lora_down.", "a LoRA", "LoraLoader"},
    {".lora_A.", "a LoRA", "LoraLoader"},
    {".hada_w1_", "a LoRA", "LoraLoader"},
    {".lokr_w", "a LoRA", "LoraLoader"},
    {"control_all_x_embedder.", "a ControlNet for Z-Image", "ModelPatchLoader"},
    {"controlnet_blocks.0.y_rms.", "a ControlNet of DiffSynth's for Qwen-Image",
     "ModelPatchLoader"},
    {"llm_adapter.", "a diffusion transformer (Anima)", "UNETLoader"},
    {"t_embedding_norm.", "a diffusion transformer (Cosmos-Predict2)", NULL},
    {"position_net.", "a GLIGEN", "GLIGENLoader"},
    {"zero_convs.", "a ControlNet", "ControlNetLoader"},
    {"controlnet_", "a ControlNet", "ControlNetLoader"},
    {"double_layers.", "a diffusion transformer (AuraFlow)", "UNETLoader"},
    {"joint_transformer_blocks.", "a diffusion transformer (AuraFlow)", "UNETLoader"},
    {"joint_blocks.", "a diffusion transformer (SD 3)", "UNETLoader"},
    {"pos_embed.pos_embed", "a diffusion transformer (SD 3)", "UNETLoader"},
    {"double_stream_modulation_", "a diffusion transformer (FLUX.2)", "UNETLoader"},
    {"distilled_guidance_layer.", "a diffusion transformer (Chroma)", "UNETLoader"},
    {"double_blocks.", "a diffusion transformer (FLUX or a relative)", "UNETLoader"},
    {"single_transformer_blocks.", "a diffusion transformer (FLUX or a relative)", "UNETLoader"},
    {"layers.0.adaLN_modulation.1.", "a diffusion transformer (Lumina-Image 2.0 or a relative)",
     "UNETLoader"},
    {"ref_image_patch_embedder.", "a diffusion transformer (OmniGen2)", "UNETLoader"},
    {"time_caption_embed.", "a diffusion transformer (Lumina-Image 2.0 or a relative)",
     "UNETLoader"},
    {"cap_embedder.", "a diffusion transformer (Z-Image or a relative)", "UNETLoader"},
    {"transformer_blocks.0.img_mod.", "a diffusion transformer (Qwen-Image)", "UNETLoader"},
    {"txt_in.text_norm.", "a diffusion transformer (Qwen-Image 2.1)", "UNETLoader"},
    {"txtfusion.", "a diffusion transformer (Krea 2)", "UNETLoader"},
    {"text_fusion.", "a diffusion transformer (Krea 2)", "UNETLoader"},
    {"llm_cond_proj.", "a diffusion transformer (Ideogram 4)", "UNETLoader"},
    {".adaLN_sa_ln.", "a diffusion transformer (ERNIE-Image)", "UNETLoader"},
    {"double_stream_blocks.", "a diffusion transformer (HiDream-I1)", "UNETLoader"},
    {"transformer_blocks.0.attn.", "a diffusion transformer", NULL},
    {"RDB1.conv1.", "an upscale model", "UpscaleModelLoader"},
    {"rdb1.conv1.", "an upscale model", "UpscaleModelLoader"},
    {"decoder.layers.0.weight", "a tiny autoencoder", "VAELoader"},
    {GRAFT_TAEHV_TENSOR, "a tiny autoencoder", "VAELoader"},
    {"decoder.up.", "a VAE", "VAELoader"},
    {"decoder.up_blocks.", "a VAE", "VAELoader"},
    {"decoder.middle.0.residual.", "a VAE", "VAELoader"},
    {"input_blocks.", "a UNet", "UNETLoader"},
    {"down_blocks.", "a UNet", "UNETLoader"},
    {"redux_up.", "a style model", "StyleModelLoader"},
    {".to_k_ip.", "an IP-Adapter", "IPAdapterModelLoader"},
    {"vision_model.embeddings.patch_embedding.", "a vision encoder", "CLIPVisionLoader"},
    {"visual.conv1.", "a vision encoder", "CLIPVisionLoader"},
    {"v.patch_embd.", "what looks at pictures for a text encoder beside it",
     "CLIPLoader with that one's name"},
    {"text_model.encoder.", "a text encoder", "CLIPLoader"},
    {"transformer.resblocks.", "a text encoder", "CLIPLoader"},
    {"SelfAttention.", "a T5 text encoder", "TripleCLIPLoader"},
    {"pre_feedforward_layernorm.", "a Gemma text encoder", "CLIPLoader with type lumina2"},
    {"self_attn.q_norm.", "a Qwen 3 text encoder",
     "CLIPLoader with type lumina2, flux2, krea2, qwen_image, ovis or ideogram4"},
    {"model.layers.0.self_attn.q_proj.bias", "a Qwen 2.5 text encoder",
     "CLIPLoader with type qwen_image, longcat_image or omnigen2"},
    {"model.layers.0.self_attn.q_proj.", "a Mistral, or a relative of it",
     "CLIPLoader with type flux2 or hidream"},
    {"body.0.block1.", "a T2I-Adapter", "ControlNetLoader"},
    {"body.0.resnets.0.block1.", "a T2I-Adapter", "ControlNetLoader"},
    {"body.0.body.0.block1.", "a T2I-Adapter", "ControlNetLoader"},
    {"body.0.weight", "an upscale model", "UpscaleModelLoader"},
};
/* Several of them in one file. */
static const struct kind checkpoint = {NULL, "a checkpoint", "CheckpointLoaderSimple"};

static bool has(const graft_safetensors *f, const char *part)
{
    for (size_t i = 0; i < graft_safetensors_count(f); i++)
        if (strstr(graft_safetensors_at(f, i)->name, part)) return true;
    return false;
}

static bool has_below(const graft_safetensors *f, const char *const *prefixes)
{
    for (; *prefixes; prefixes++)
        for (size_t i = 0; i < graft_safetensors_count(f); i++)
            if (graft_str_starts(graft_safetensors_at(f, i)->name, *prefixes)) return true;
    return false;
}

/* A model and what goes with it, in the places that only checkpoints have. */
static bool is_checkpoint(const graft_safetensors *f)
{
    static const char *const net[] = {"model.diffusion_model.", NULL};
    static const char *const others[] = {"first_stage_model.", "vae.",
                                         "cond_stage_model.",  "conditioner.embedders.",
                                         "text_encoders.",     NULL};
    return has_below(f, net) && has_below(f, others);
}

static const struct kind *kind_of(const graft_safetensors *f)
{
    if (is_checkpoint(f)) return &checkpoint;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (has(f, kinds[i].part)) return &kinds[i];
    return NULL;
}

/* Loaders of a part that checkpoints may have. */
static bool takes_parts(const char *loader)
{
    return strcmp(loader, "VAELoader") == 0 || strcmp(loader, "CLIPLoader") == 0;
}

const char *graft_kind_guess(const graft_safetensors *f, const char *loader, char *out, size_t size)
{
    const struct kind *k = kind_of(f);
    if (!k)
        snprintf(out, size, "%s", "");
    else if (k == &checkpoint && takes_parts(loader))
        snprintf(out, size, "; it seems to be a checkpoint without one");
    else if (!k->loader)
        snprintf(out, size, "; it seems to be %s, which is not supported", k->what);
    else if (strcmp(k->loader, loader) == 0 && strcmp(loader, "LoraLoader") == 0)
        snprintf(out, size, "; it seems to be %s for another kind of model", k->what);
    else if (strcmp(k->loader, loader) == 0 ||
             (k == &checkpoint && strcmp(loader, "UNETLoader") == 0))
        snprintf(out, size, "; it seems to be %s, but not of Stable Diffusion's kind", k->what);
    else
        snprintf(out, size, "; it seems to be %s, which %s %s", k->what, k->loader,
                 strcmp(k->loader, "LoraLoader") == 0 ? "applies" : "opens");
    return out;
}

#include "engine/api/kinds.h"

#include <string.h>

/* By what one of its names contains; where several fit, the first. */
static const struct kind {
    const char *part, *what;
} kinds[] = {
    {".lora_down.", "a LoRA, which LoraLoader applies"},
    {".lora_A.", "a LoRA, which LoraLoader applies"},
    {"zero_convs.", "a ControlNet, which ControlNetLoader opens"},
    {"controlnet_", "a ControlNet, which ControlNetLoader opens"},
    {"joint_blocks.", "a diffusion transformer (SD 3), which is not supported"},
    {"double_blocks.", "a diffusion transformer (FLUX or a relative), which is not supported"},
    {"transformer_blocks.0.attn.", "a diffusion transformer, which is not supported"},
    {"RDB1.conv1.", "an upscale model, which UpscaleModelLoader opens"},
    {"decoder.layers.0.weight", "a tiny autoencoder, which VAELoader opens"},
    {"decoder.up.", "a VAE, which VAELoader opens"},
    {"decoder.up_blocks.", "a VAE in diffusers' names, which are not supported"},
    {"down_blocks.", "a UNet in diffusers' names, which are not supported"},
    {"text_model.encoder.", "a text encoder, which CLIPLoader opens"},
    {"transformer.resblocks.", "a text encoder, which CLIPLoader opens"},
    {"SelfAttention.", "a T5 text encoder, which is not supported"},
};

static bool has(const graft_safetensors *f, const char *part)
{
    for (size_t i = 0; i < graft_safetensors_count(f); i++)
        if (strstr(graft_safetensors_at(f, i)->name, part)) return true;
    return false;
}

const char *graft_kind_guess(const graft_safetensors *f)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (has(f, kinds[i].part)) return kinds[i].what;
    return NULL;
}

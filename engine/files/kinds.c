#include "engine/files/kinds.h"

#include <stdio.h>
#include <string.h>

/* By what one of its names contains; where several fit, the first. */
static const struct kind {
    const char *part, *what;
    const char *loader; /* NULL: there is none */
} kinds[] = {
    {".lora_down.", "a LoRA", "LoraLoader"},
    {".lora_A.", "a LoRA", "LoraLoader"},
    {"zero_convs.", "a ControlNet", "ControlNetLoader"},
    {"controlnet_", "a ControlNet", "ControlNetLoader"},
    {"joint_blocks.", "a diffusion transformer (SD 3)", "UNETLoader"},
    {"pos_embed.pos_embed", "a diffusion transformer (SD 3)", "UNETLoader"},
    {"double_blocks.", "a diffusion transformer (FLUX or a relative)", "UNETLoader"},
    {"single_transformer_blocks.", "a diffusion transformer (FLUX or a relative)", "UNETLoader"},
    {"transformer_blocks.0.attn.", "a diffusion transformer", NULL},
    {"RDB1.conv1.", "an upscale model", "UpscaleModelLoader"},
    {"decoder.layers.0.weight", "a tiny autoencoder", "VAELoader"},
    {"decoder.up.", "a VAE", "VAELoader"},
    {"decoder.up_blocks.", "a VAE", "VAELoader"},
    {"input_blocks.", "a UNet", "UNETLoader"},
    {"down_blocks.", "a UNet", "UNETLoader"},
    {"text_model.encoder.", "a text encoder", "CLIPLoader"},
    {"transformer.resblocks.", "a text encoder", "CLIPLoader"},
    {"SelfAttention.", "a T5 text encoder", "TripleCLIPLoader"},
};

static bool has(const graft_safetensors *f, const char *part)
{
    for (size_t i = 0; i < graft_safetensors_count(f); i++)
        if (strstr(graft_safetensors_at(f, i)->name, part)) return true;
    return false;
}

const char *graft_kind_guess(const graft_safetensors *f, const char *loader, char *out, size_t size)
{
    const struct kind *k = kinds, *end = kinds + sizeof kinds / sizeof *kinds;
    while (k < end && !has(f, k->part)) k++;
    if (k == end)
        snprintf(out, size, "%s", "");
    else if (!k->loader)
        snprintf(out, size, "; it seems to be %s, which is not supported", k->what);
    else if (strcmp(k->loader, loader) == 0)
        snprintf(out, size, "; it seems to be %s, but not of Stable Diffusion's kind", k->what);
    else
        snprintf(out, size, "; it seems to be %s, which %s %s", k->what, k->loader,
                 strcmp(k->loader, "LoraLoader") == 0 ? "applies" : "opens");
    return out;
}

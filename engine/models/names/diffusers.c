#include "engine/models/names/diffusers.h"

#include <stdio.h>
#include <string.h>

static const graft_diffusers_pair text_layers[] = {{"ln_1", "layer_norm1"},
                                                   {"ln_2", "layer_norm2"},
                                                   {"mlp.c_fc", "mlp.fc1"},
                                                   {"mlp.c_proj", "mlp.fc2"},
                                                   {"attn.out_proj", "self_attn.out_proj"},
                                                   {NULL, NULL}};

static const char *renamed(const graft_diffusers_pair *list, const char *name)
{
    for (; list->ours; list++)
        if (strcmp(list->ours, name) == 0) return list->theirs;
    return NULL;
}

static bool fits(int written, size_t size)
{
    return written >= 0 && (size_t)written < size;
}

/* Where block i stands: its level, and how many residual blocks and transformers precede it there.
 */
typedef struct block_place {
    int level, residual, attention;
} block_place;

static block_place input_place(const graft_unet_arch *a, int i)
{
    block_place p = {0, 0, 0};
    for (int k = 1; k < i; k++) {
        p.residual++;
        p.attention += a->input[k].transformer != 0;
        if (a->input[k].down) p = (block_place){p.level + 1, 0, 0};
    }
    return p;
}

static block_place output_place(const graft_unet_arch *a, int i)
{
    block_place p = {0, 0, 0};
    for (int k = 0; k < i; k++) {
        p.residual++;
        p.attention += a->output[k].transformer != 0;
        if (a->output[k].up) p = (block_place){p.level + 1, 0, 0};
    }
    return p;
}

static bool residual_name(const char *block, int index, const char *rest, char *out, size_t size)
{
    const char *layer = renamed(graft_diffusers_residual, rest);
    return layer && fits(snprintf(out, size, "%s.resnets.%d.%s", block, index, layer), size);
}

static bool input_name(const graft_unet_arch *a, int i, int part, const char *rest, char *out,
                       size_t size)
{
    char block[48];
    block_place p = input_place(a, i);
    snprintf(block, sizeof block, "down_blocks.%d", p.level);
    if (a->input[i].down)
        return part == 0 && strcmp(rest, "op") == 0 &&
               fits(snprintf(out, size, "%s.downsamplers.0.conv", block), size);
    if (part == 0) return residual_name(block, p.residual, rest, out, size);
    return part == 1 && a->input[i].transformer &&
           fits(snprintf(out, size, "%s.attentions.%d.%s", block, p.attention, rest), size);
}

static bool output_name(const graft_unet_arch *a, int i, int part, const char *rest, char *out,
                        size_t size)
{
    char block[48];
    block_place p = output_place(a, i);
    int transformer = a->output[i].transformer != 0;
    snprintf(block, sizeof block, "up_blocks.%d", p.level);
    if (part == 0) return residual_name(block, p.residual, rest, out, size);
    if (part == 1 && transformer)
        return fits(snprintf(out, size, "%s.attentions.%d.%s", block, p.attention, rest), size);
    return part == 1 + transformer && a->output[i].up && strcmp(rest, "conv") == 0 &&
           fits(snprintf(out, size, "%s.upsamplers.0.conv", block), size);
}

static bool middle_name(const graft_unet_arch *a, int part, const char *rest, char *out,
                        size_t size)
{
    int last = a->middle_transformer ? 2 : 1;
    if (part == 0 || part == last) return residual_name("mid_block", part != 0, rest, out, size);
    return part == 1 && fits(snprintf(out, size, "mid_block.attentions.0.%s", rest), size);
}

bool graft_diffusers_unet_name(const graft_unet_arch *a, const char *name, char *out, size_t size)
{
    int i = 0, part = 0, n = 0;
    const char *single = renamed(graft_diffusers_single, name);
    if (single) return fits(snprintf(out, size, "%s", single), size);
    if (sscanf(name, "input_blocks.%d.%d.%n", &i, &part, &n) == 2 && n)
        return i > 0 && i < a->n_input && input_name(a, i, part, name + n, out, size);
    if (sscanf(name, "output_blocks.%d.%d.%n", &i, &part, &n) == 2 && n)
        return i >= 0 && i < a->n_output && output_name(a, i, part, name + n, out, size);
    if (sscanf(name, "middle_block.%d.%n", &part, &n) == 1 && n)
        return middle_name(a, part, name + n, out, size);
    return false;
}

bool graft_diffusers_control_name(const graft_unet_arch *a, const char *name, char *out,
                                  size_t size)
{
    int i, n = 0;
    if (sscanf(name, "zero_convs.%d.0%n", &i, &n) == 1 && n && !name[n])
        return fits(snprintf(out, size, "controlnet_down_blocks.%d", i), size);
    if (strcmp(name, "middle_block_out.0") == 0)
        return fits(snprintf(out, size, "controlnet_mid_block"), size);
    if (sscanf(name, "input_hint_block.%d%n", &i, &n) != 1 || !n || name[n])
        return graft_diffusers_unet_name(a, name, out, size);
    if (i % 2 || i < 0 || i > 14) return false;
    if (i == 0) return fits(snprintf(out, size, "controlnet_cond_embedding.conv_in"), size);
    if (i == 14) return fits(snprintf(out, size, "controlnet_cond_embedding.conv_out"), size);
    return fits(snprintf(out, size, "controlnet_cond_embedding.blocks.%d", i / 2 - 1), size);
}

bool graft_diffusers_text_name(const char *name, char *out, size_t size)
{
    int i, n = 0;
    if (strcmp(name, "ln_final") == 0)
        return fits(snprintf(out, size, "text_model.final_layer_norm"), size);
    if (sscanf(name, "transformer.resblocks.%d.%n", &i, &n) != 1 || !n) return false;
    const char *layer = renamed(text_layers, name + n);
    return layer && fits(snprintf(out, size, "text_model.encoder.layers.%d.%s", i, layer), size);
}

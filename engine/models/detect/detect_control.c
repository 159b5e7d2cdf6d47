/* ControlNets, in their authors' names and in diffusers'. */
#include <string.h>

#include "engine/models/controls/control_union.h"
#include "engine/models/controls/controlnet.h"
#include "engine/models/detect/detect_parts.h"
#include "engine/models/names/diffusers.h"

static graft_status add_block(graft_unet_arch *a, graft_unet_block block,
                              const graft_safetensors *f, graft_err *e)
{
    if (a->n_input == GRAFT_MAX_BLOCKS)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: more than %d blocks",
                          graft_safetensors_path(f), GRAFT_MAX_BLOCKS);
    a->input[a->n_input++] = block;
    return GRAFT_OK;
}

static graft_status diffusers_blocks(const graft_safetensors *f, const char *prefix,
                                     graft_unet_arch *a, graft_err *e)
{
    const graft_st_tensor *first = graft_detect_find(f, prefix, "conv_in.weight");
    graft_status st =
        add_block(a, (graft_unet_block){.channels = graft_detect_dim(first, 0)}, f, e);
    a->in_channels = graft_detect_dim(first, 1);
    a->model_channels = graft_detect_dim(first, 0);
    for (int level = 0; level < GRAFT_MAX_LEVELS && !st; level++) {
        int k = 0;
        for (; k < GRAFT_MAX_BLOCKS && !st; k++) {
            char name[64];
            const graft_st_tensor *conv =
                graft_detect_find(f, prefix, "down_blocks.%d.resnets.%d.conv1.weight", level, k);
            if (!conv) break;
            snprintf(name, sizeof name, "down_blocks.%d.attentions.%d", level, k);
            st = add_block(a,
                           (graft_unet_block){.channels = graft_detect_dim(conv, 0),
                                              .transformer = graft_detect_depth(f, prefix, name)},
                           f, e);
        }
        if (!k) break;
        if (!st && graft_detect_find(f, prefix, "down_blocks.%d.downsamplers.0.conv.weight", level))
            st = add_block(a, (graft_unet_block){.down = 1}, f, e);
    }
    if (st) return st;
    return a->model_channels && a->n_input > 1
               ? GRAFT_OK
               : graft_detect_missing(f, prefix, "down_blocks.0.resnets.0.conv1.weight", e);
}

/* The first transformer's attention to the prompt tells its width. */
static graft_status diffusers_context(const graft_safetensors *f, const char *prefix,
                                      graft_unet_arch *a, graft_err *e)
{
    char block[96] = "mid_block.attentions.0", name[128], ours[64];
    for (int i = 0; i < a->n_input; i++) {
        if (!a->input[i].transformer) continue;
        snprintf(ours, sizeof ours, "input_blocks.%d.1.proj_in", i);
        if (graft_diffusers_unet_name(a, ours, name, sizeof name))
            snprintf(block, sizeof block, "%.*s", (int)(strlen(name) - strlen(".proj_in")), name);
        break;
    }
    return graft_detect_context(f, prefix, block, a, e);
}

static graft_status diffusers_half(const graft_safetensors *f, const char *prefix,
                                   graft_unet_arch *a, graft_err *e)
{
    static const graft_detect_middle_names names = {"mid_block.attentions.0",
                                                    {"mid_block.resnets.0", "mid_block.resnets.1"},
                                                    {"conv1.weight", "conv2.weight"}};
    graft_status st = diffusers_blocks(f, prefix, a, e);
    if (st) return st;
    if ((st = graft_detect_middle(f, prefix, &names, a, e))) return st;
    a->time_dim =
        graft_detect_dim(graft_detect_find(f, prefix, "time_embedding.linear_1.weight"), 0);
    if (!a->time_dim) return graft_detect_missing(f, prefix, "time_embedding.linear_1.weight", e);
    a->adm_channels =
        graft_detect_dim(graft_detect_find(f, prefix, "add_embedding.linear_1.weight"), 1);
    if (!a->adm_channels && graft_detect_find(f, prefix, "add_embedding.linear_2.weight"))
        return graft_detect_missing(f, prefix, "add_embedding.linear_1.weight", e);
    return diffusers_context(f, prefix, a, e);
}

static graft_status detect_hint(const graft_safetensors *f, const char *prefix,
                                graft_control_arch *a, graft_err *e)
{
    char name[64], theirs[64];
    const graft_st_tensor *t = NULL;
    for (; a->n_hint < GRAFT_MAX_HINT; a->n_hint++) {
        snprintf(name, sizeof name, "input_hint_block.%d", 2 * a->n_hint);
        if (a->diffusers && !graft_diffusers_control_name(&a->half, name, theirs, sizeof theirs))
            break;
        t = graft_detect_find(f, prefix, "%s.weight", a->diffusers ? theirs : name);
        if (!graft_detect_dim(t, 0)) break;
        if (!a->n_hint) a->hint_channels = graft_detect_dim(t, 1);
        a->hint[a->n_hint] = graft_detect_dim(t, 0);
    }
    if (a->n_hint == 8 && a->hint_channels == 3 && a->hint[7] == a->half.model_channels)
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: its hint has %d channels and goes through %d convolutions; known are 3 "
                      "and 8, the last as wide as the UNet",
                      graft_safetensors_path(f), a->hint_channels, a->n_hint);
}

/* Whether any of a union ControlNet's own parts is there. */
static bool is_union(const graft_safetensors *f, const char *prefix)
{
    return graft_detect_find(f, prefix, "task_embedding") ||
           graft_detect_find(f, prefix, "spatial_ch_projs.weight") ||
           graft_detect_find(f, prefix, "control_add_embedding.linear_1.weight") ||
           graft_detect_find(f, prefix, "transformer_layes.0.attn.in_proj_weight");
}

/* Shapes that the graph asks for are left to it. */
static graft_status detect_union(const graft_safetensors *f, const char *prefix,
                                 graft_control_arch *a, graft_err *e)
{
    const char *path = graft_safetensors_path(f);
    const graft_st_tensor *task = graft_detect_find(f, prefix, "task_embedding");
    const graft_st_tensor *all =
        graft_detect_find(f, prefix, "control_add_embedding.linear_1.weight");
    int32_t types = graft_detect_dim(task, 0), width = graft_detect_dim(all, 1);
    if (!is_union(f, prefix)) return GRAFT_OK;
    if (!types || task->rank != 2) return graft_detect_missing(f, prefix, "task_embedding", e);
    if (!width || all->rank != 2)
        return graft_detect_missing(f, prefix, "control_add_embedding.linear_1.weight", e);
    if (types != 6 && types != GRAFT_CONTROL_TYPES)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a union ControlNet for %d types of pictures; known are 6 and %d",
                          path, types, GRAFT_CONTROL_TYPES);
    if (graft_detect_dim(task, 1) != a->half.model_channels || width % (2 * types))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a union ControlNet whose %d types are %d values wide, and %d in its "
                          "time embedding; known are %d, as its first features have, and an even "
                          "number for each type",
                          path, types, graft_detect_dim(task, 1), width, a->half.model_channels);
    a->types = types;
    a->type_dim = width / types;
    while (a->type_layers < GRAFT_MAX_BLOCKS &&
           graft_detect_find(f, prefix, "transformer_layes.%d.attn.in_proj_weight", a->type_layers))
        a->type_layers++;
    return a->type_layers
               ? GRAFT_OK
               : graft_detect_missing(f, prefix, "transformer_layes.0.attn.in_proj_weight", e);
}

/* ------------------------------------------------------------------ Control-LoRAs */

/* The numbers of its zero convolutions are those of the model's input blocks. */
static graft_status lora_blocks(const graft_safetensors *f, const char *prefix, graft_unet_arch *a,
                                graft_err *e)
{
    for (int i = 0; i < GRAFT_MAX_BLOCKS; i++)
        if (graft_detect_find(f, prefix, "zero_convs.%d.0.weight", i) ||
            graft_detect_find(f, prefix, "zero_convs.%d.0.bias", i))
            a->n_input = i + 1;
    for (int i = 0; i <= a->n_input; i++) {
        char name[64] = "middle_block_out.0";
        if (i < a->n_input || a->n_input < 2) snprintf(name, sizeof name, "zero_convs.%d.0", i);
        const graft_st_tensor *bias = graft_detect_find(f, prefix, "%s.bias", name);
        const graft_st_tensor *t = graft_detect_find(f, prefix, "%s.weight", name);
        const int32_t channels = graft_detect_dim(t, 0);
        snprintf(name + strlen(name), 16, ".%s", t ? "bias" : "weight");
        if (!bias || !channels) return graft_detect_missing(f, prefix, name, e);
        if (i < a->n_input) a->input[i].channels = channels;
    }
    a->model_channels = a->input[0].channels;
    return GRAFT_OK;
}

/* How many values the layer of this name takes: by its factors or by itself. 0: it is not there. */
static int32_t lora_width(const graft_safetensors *f, const char *prefix, const char *layer)
{
    const graft_st_tensor *t = graft_detect_find(f, prefix, "%s.down", layer);
    if (!t) t = graft_detect_find(f, prefix, "%s.weight", layer);
    return graft_detect_dim(t, 1);
}

static graft_status detect_lora(const graft_safetensors *f, const char *prefix, graft_unet_arch *a,
                                graft_err *e)
{
    graft_status st = lora_blocks(f, prefix, a, e);
    a->in_channels = lora_width(f, prefix, "input_blocks.0.0");
    a->adm_channels = lora_width(f, prefix, "label_emb.0.0");
    for (int i = 0; i < a->n_input && !a->context_dim; i++) {
        char layer[96];
        snprintf(layer, sizeof layer, "input_blocks.%d.1.transformer_blocks.0.attn2.to_k", i);
        a->context_dim = lora_width(f, prefix, layer);
    }
    return st;
}

graft_status graft_control_detect(const graft_safetensors *f, const char *prefix,
                                  const char *config, graft_control_arch *out, graft_err *e)
{
    graft_status st;
    memset(out, 0, sizeof *out);
    if (graft_detect_find(f, prefix, GRAFT_CONTROL_FLUX_TENSOR) &&
        graft_detect_find(f, prefix, GRAFT_QWEN_IMAGE_TENSOR))
        return graft_control_qwen_image_detect(f, prefix, config, out, e);
    if (graft_detect_find(f, prefix, GRAFT_CONTROL_BLOCKWISE_TENSOR))
        return graft_control_blockwise_detect(f, prefix, out, e);
    if (graft_detect_find(f, prefix, GRAFT_CONTROL_FLUX_TENSOR))
        return graft_control_flux_detect(f, prefix, config, out, e);
    if (graft_detect_find(f, prefix, GRAFT_CONTROL_MMDIT_TENSOR))
        return graft_control_mmdit_detect(f, prefix, config, out, e);
    if (graft_detect_find(f, prefix, GRAFT_CONTROL_ZIMAGE_TENSOR))
        return graft_control_zimage_detect(f, prefix, out, e);
    if (graft_detect_find(f, prefix, GRAFT_CONTROL_LORA_TENSOR)) {
        out->lora = 1;
        st = detect_lora(f, prefix, &out->half, e);
        return st ? st : detect_hint(f, prefix, out, e);
    }
    out->diffusers =
        graft_detect_find(f, prefix, "controlnet_cond_embedding.conv_in.weight") != NULL;
    if (out->diffusers) {
        st = diffusers_half(f, prefix, &out->half, e);
    } else {
        st = graft_detect_input_blocks(f, prefix, &out->half, e);
        if (!st) st = graft_detect_half(f, prefix, &out->half, e);
    }
    if (!st) st = graft_detect_heads(f, config, &out->half, e);
    if (!st) st = detect_hint(f, prefix, out, e);
    return st ? st : detect_union(f, prefix, out, e);
}

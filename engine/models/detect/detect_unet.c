#include <stdio.h>
#include <string.h>

#include "engine/models/detect/detect_parts.h"

int32_t graft_detect_depth(const graft_safetensors *f, const char *prefix, const char *transformer)
{
    /* Two names, so that a file that lacks one of them is refused by that name. */
    int32_t n = 0;
    while (n < 64 &&
           (graft_detect_find(f, prefix, "%s.transformer_blocks.%d.norm1.weight", transformer, n) ||
            graft_detect_find(f, prefix, "%s.transformer_blocks.%d.attn1.to_q.weight", transformer,
                              n)))
        n++;
    return n;
}

static int32_t transformer_depth(const graft_safetensors *f, const char *prefix, const char *block)
{
    char name[80];
    snprintf(name, sizeof name, "%s.1", block);
    return graft_detect_depth(f, prefix, name);
}

/* A block whose kind cannot be told as the tensor that tells it is gone, while others are there. */
static bool is_broken(const graft_safetensors *f, const char *prefix, const char *block)
{
    return graft_detect_find(f, prefix, "%s.0.in_layers.0.weight", block) ||
           graft_detect_find(f, prefix, "%s.0.out_layers.3.weight", block) ||
           graft_detect_find(f, prefix, "%s.0.emb_layers.1.weight", block);
}

static graft_status broken_block(const graft_safetensors *f, const char *prefix, const char *block,
                                 const char *tensor, graft_err *e)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", block, tensor);
    return graft_detect_missing(f, prefix, name, e);
}

graft_status graft_detect_input_blocks(const graft_safetensors *f, const char *prefix,
                                       graft_unet_arch *a, graft_err *e)
{
    for (int i = 0; i < GRAFT_MAX_BLOCKS; i++) {
        char name[64];
        graft_unet_block *b = &a->input[i];
        snprintf(name, sizeof name, "input_blocks.%d", i);
        const graft_st_tensor *conv = graft_detect_find(f, prefix, "%s.0.weight", name);
        const graft_st_tensor *res = graft_detect_find(f, prefix, "%s.0.in_layers.2.weight", name);
        const graft_st_tensor *down = graft_detect_find(f, prefix, "%s.0.op.weight", name);
        if (i == 0 && conv) {
            b->channels = graft_detect_dim(conv, 0);
            a->in_channels = graft_detect_dim(conv, 1);
        } else if (res) {
            b->channels = graft_detect_dim(res, 0);
            b->transformer = transformer_depth(f, prefix, name);
        } else if (down) {
            b->down = 1;
        } else if (is_broken(f, prefix, name)) {
            return broken_block(f, prefix, name, "0.in_layers.2.weight", e);
        } else if (graft_detect_find(f, prefix, "%s.0.op.bias", name)) {
            return broken_block(f, prefix, name, "0.op.weight", e);
        } else {
            break;
        }
        a->n_input = i + 1;
    }
    if (a->n_input < 2 || !a->input[0].channels)
        return graft_detect_missing(f, prefix, "input_blocks.0.0.weight", e);
    a->model_channels = a->input[0].channels;
    return GRAFT_OK;
}

static graft_status detect_output_blocks(const graft_safetensors *f, const char *prefix,
                                         graft_unet_arch *a, graft_err *e)
{
    for (int i = 0; i < GRAFT_MAX_BLOCKS; i++) {
        char name[64];
        graft_unet_block *b = &a->output[i];
        snprintf(name, sizeof name, "output_blocks.%d", i);
        const graft_st_tensor *res = graft_detect_find(f, prefix, "%s.0.in_layers.2.weight", name);
        if (!res && is_broken(f, prefix, name))
            return broken_block(f, prefix, name, "0.in_layers.2.weight", e);
        if (!res) break;
        b->channels = graft_detect_dim(res, 0);
        b->transformer = transformer_depth(f, prefix, name);
        b->up =
            graft_detect_find(f, prefix, "%s.%d.conv.weight", name, b->transformer ? 2 : 1) != NULL;
        a->n_output = i + 1;
    }
    if (a->n_output == a->n_input) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT, "%s: %d input blocks but %d output blocks",
                      graft_safetensors_path(f), a->n_input, a->n_output);
}

graft_status graft_detect_heads(const graft_safetensors *f, const char *config, graft_unet_arch *a,
                                graft_err *e)
{
    int64_t heads, head_dim;
    graft_status st = graft_detect_number(f, config, "num_heads", &heads, e);
    if (!st) st = graft_detect_number(f, config, "num_head_channels", &head_dim, e);
    if (st) return st;
    if (head_dim <= 0 && heads <= 0) {
        heads = a->context_dim == 768 ? 8 : 0;
        bool of_64 = a->context_dim == 1024 || a->context_dim == 1280 || a->context_dim == 2048;
        head_dim = of_64 ? 64 : 0;
    }
    if (head_dim > 0 && head_dim < 65536)
        a->head_dim = (int32_t)head_dim;
    else if (heads > 0 && heads < 65536)
        a->num_heads = (int32_t)heads;
    else
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: unknown architecture: nothing tells the number of attention heads "
                          "(context width %d, no __metadata__.config)",
                          graft_safetensors_path(f), a->context_dim);
    return GRAFT_OK;
}

graft_status graft_detect_context(const graft_safetensors *f, const char *prefix,
                                  const char *transformer, graft_unet_arch *a, graft_err *e)
{
    const graft_st_tensor *proj = graft_detect_find(f, prefix, "%s.proj_in.weight", transformer);
    a->context_dim = graft_detect_dim(
        graft_detect_find(f, prefix, "%s.transformer_blocks.0.attn2.to_k.weight", transformer), 1);
    if (!proj || !a->context_dim)
        return graft_detect_missing(f, prefix, "…transformer_blocks.0.attn2.to_k.weight", e);
    a->linear_proj = proj->rank == 2;
    return GRAFT_OK;
}

static graft_status detect_context(const graft_safetensors *f, const char *prefix,
                                   graft_unet_arch *a, graft_err *e)
{
    char name[64] = "middle_block.1";
    for (int i = 0; i < a->n_input; i++)
        if (a->input[i].transformer) {
            snprintf(name, sizeof name, "input_blocks.%d.1", i);
            break;
        }
    return graft_detect_context(f, prefix, name, a, e);
}

graft_status graft_detect_middle(const graft_safetensors *f, const char *prefix,
                                 const graft_detect_middle_names *names, graft_unet_arch *a,
                                 graft_err *e)
{
    char name[128];
    a->middle_transformer = graft_detect_depth(f, prefix, names->transformer);
    if (!a->middle_transformer &&
        graft_detect_find(f, prefix, "%s.proj_in.weight", names->transformer)) {
        snprintf(name, sizeof name, "%s.transformer_blocks.0.norm1.weight", names->transformer);
        return graft_detect_missing(f, prefix, name, e);
    }
    /* Behind a transformer there is a second block, whether its tensors are there or not. */
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            if (a->middle_transformer ||
                graft_detect_find(f, prefix, "%s.%s", names->residual[i], names->conv[k]))
                a->middle_residual = i + 1;
    return GRAFT_OK;
}

graft_status graft_detect_half(const graft_safetensors *f, const char *prefix, graft_unet_arch *a,
                               graft_err *e)
{
    static const graft_detect_middle_names names = {"middle_block.1",
                                                    {"middle_block.0", "middle_block.1"},
                                                    {"in_layers.2.weight", "out_layers.3.weight"}};
    const graft_st_tensor *time = graft_detect_find(f, prefix, "time_embed.0.weight");
    graft_status st = graft_detect_middle(f, prefix, &names, a, e);
    if (st) return st;
    if (!graft_detect_dim(time, 0))
        return graft_detect_missing(f, prefix, "time_embed.0.weight", e);
    a->time_dim = graft_detect_dim(time, 0);
    a->adm_channels = graft_detect_dim(graft_detect_find(f, prefix, "label_emb.0.0.weight"), 1);
    if (!a->adm_channels && graft_detect_find(f, prefix, "label_emb.0.2.weight"))
        return graft_detect_missing(f, prefix, "label_emb.0.0.weight", e);
    return detect_context(f, prefix, a, e);
}

/* Sampling takes as many channels from the output as the latent has, whatever stands beside it. */
static graft_status check_channels(const graft_safetensors *f, const graft_unet_arch *a,
                                   graft_err *e)
{
    if (graft_unet_latent_channels(a) == a->out_channels) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: a UNet that takes %d channels and gives %d: only latents, and with "
                      "them a picture, or the mask and the picture of inpainting models, are "
                      "supported",
                      graft_safetensors_path(f), a->in_channels, a->out_channels);
}

/* UNets for video take a picture beside the latent, too, in blocks of the same names; behind each
 * is one more, over time. */
static graft_status check_video(const graft_safetensors *f, const char *prefix, graft_err *e)
{
    if (!graft_detect_find(f, prefix, "input_blocks.1.0.time_stack.in_layers.2.weight"))
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: a UNet for video, which is not supported",
                      graft_safetensors_path(f));
}

/* Stable Diffusion 2.1's are told of ViT-L's vectors (768) or ViT-H's (1024), and as many numbers
 * of noise; others by what their checkpoint has beside them. */
static bool is_unclip(const graft_safetensors *f, const graft_unet_arch *a)
{
    if (!a->adm_channels || a->adm_channels % 2) return false;
    return (a->context_dim == 1024 && (a->adm_channels == 1536 || a->adm_channels == 2048)) ||
           graft_safetensors_find(f, "noise_augmentor.data_mean");
}

graft_status graft_unet_detect(const graft_safetensors *f, const char *prefix, const char *config,
                               graft_unet_arch *out, graft_err *e)
{
    memset(out, 0, sizeof *out);
    graft_status st = graft_detect_input_blocks(f, prefix, out, e);
    if (!st) st = detect_output_blocks(f, prefix, out, e);
    if (st) return st;
    out->out_channels = graft_detect_dim(graft_detect_find(f, prefix, "out.2.weight"), 0);
    if (!out->out_channels) return graft_detect_missing(f, prefix, "out.2.weight", e);
    st = check_video(f, prefix, e);
    if (!st) st = check_channels(f, out, e);
    if (!st) st = graft_detect_half(f, prefix, out, e);
    if (!st) out->unclip = is_unclip(f, out);
    return st ? st : graft_detect_heads(f, config, out, e);
}

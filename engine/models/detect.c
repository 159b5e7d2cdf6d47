#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "engine/models/detect.h"
#include "kernels/op_desc.h"

#define HEAD_DIM_MAX 512
#define CHANNELS_MAX 4096 /* of a transformer's latents */

static graft_status parse_config(const graft_safetensors *f, const char *config, const char *part,
                                 cJSON **root, const cJSON **out, graft_err *e)
{
    *root = NULL;
    *out = NULL;
    if (!config) return GRAFT_OK;
    graft_status st = graft_json_parse(config, strlen(config), "__metadata__.config", root, e);
    if (st) return graft_err_prefix(e, st, "%s", graft_safetensors_path(f));
    const cJSON *sub = cJSON_GetObjectItemCaseSensitive(*root, part);
    *out = cJSON_IsObject(sub) ? sub : *root;
    return GRAFT_OK;
}

graft_status graft_detect_number(const graft_safetensors *f, const char *config, const char *name,
                                 int64_t *out, graft_err *e)
{
    cJSON *root;
    const cJSON *c;
    graft_status st = parse_config(f, config, "unet", &root, &c, e);
    if (st) return st;
    *out = graft_json_int(c, name, 0);
    cJSON_Delete(root);
    return GRAFT_OK;
}

graft_status graft_detect_others(const graft_safetensors *f, const char *prefix,
                                 const graft_detect_other *other, size_t n, graft_err *e)
{
    for (size_t i = 0; i < n; i++)
        if (graft_detect_find(f, prefix, "%s", other[i].tensor))
            return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: %s", graft_safetensors_path(f),
                              other[i].what);
    return GRAFT_OK;
}

graft_status graft_detect_widths(const graft_safetensors *f, const char *prefix,
                                 const graft_detect_width *list, size_t n, graft_err *e)
{
    for (size_t i = 0; i < n; i++) {
        const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", list[i].name);
        *list[i].width = graft_detect_dim(t, list[i].at);
        if (!*list[i].width) return graft_detect_missing(f, prefix, list[i].name, e);
    }
    return GRAFT_OK;
}

int32_t graft_detect_blocks(const graft_safetensors *f, const char *prefix, const char *list,
                            const char *one, const char *other)
{
    int32_t n = 0;
    while (n < GRAFT_DETECT_BLOCKS_MAX &&
           (graft_detect_find(f, prefix, "%s.%d.%s", list, n, one) ||
            graft_detect_find(f, prefix, "%s.%d.%s", list, n, other)))
        n++;
    return n;
}

graft_status graft_detect_turned_heads(const graft_safetensors *f, const char *prefix,
                                       const char *config, const char *norm, int32_t hidden,
                                       const int32_t share[2], int32_t *heads, int32_t *rope_dim,
                                       graft_err *e)
{
    const int32_t head = graft_detect_dim(graft_detect_find(f, prefix, "%s", norm), 0);
    int64_t turned = 0;
    if (!head) return graft_detect_missing(f, prefix, norm, e);
    graft_status st = graft_detect_number(f, config, "rope_dim", &turned, e);
    if (st) return st;
    if (!turned) turned = head / share[1] * share[0];
    if (hidden % head || head % 2 || head > HEAD_DIM_MAX || turned < 0 || turned % 2 ||
        2 * turned > head)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a transformer of width %d with heads of %d, of which %lld turn with "
                          "the row",
                          graft_safetensors_path(f), hidden, head, (long long)turned);
    *heads = hidden / head;
    *rope_dim = (int32_t)turned;
    return GRAFT_OK;
}

graft_status graft_detect_patches(const graft_safetensors *f, const char *prefix, const char *layer,
                                  int32_t patch, int32_t *hidden, int32_t *channels, graft_err *e)
{
    const graft_st_tensor *in = graft_detect_find(f, prefix, "%s", layer);
    const int32_t going_in = graft_detect_dim(in, 1), cells = patch * patch;
    *hidden = graft_detect_dim(in, 0);
    *channels = going_in / cells;
    if (!*hidden || !going_in || going_in % cells || *channels > CHANNELS_MAX)
        return graft_detect_missing(f, prefix, layer, e);
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ UNet */

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

int32_t graft_unet_known_channels(const graft_unet_arch *a)
{
    int32_t more = a->in_channels - a->out_channels;
    return more == a->out_channels || more == a->out_channels + 1 ? more : 0;
}

int32_t graft_unet_latent_channels(const graft_unet_arch *a)
{
    return a->in_channels - graft_unet_known_channels(a);
}

bool graft_unet_is_refiner(const graft_unet_arch *a)
{
    return a->context_dim == 1280 && a->adm_channels == 1280 + 5 * 256;
}

graft_family graft_unet_family(const graft_unet_arch *a)
{
    if (a->context_dim == 768 && !a->adm_channels) return GRAFT_FAMILY_SD1;
    if (a->context_dim == 1024 && !a->adm_channels) return GRAFT_FAMILY_SD2;
    if (a->unclip) return GRAFT_FAMILY_SD2;
    if (a->adm_channels) return GRAFT_FAMILY_SDXL;
    return GRAFT_FAMILY_CUSTOM;
}

/* ------------------------------------------------------------------ VAE */

/* By two names, so that a VAE that lacks one of them is refused by that name. */
static const graft_st_tensor *decoder_block(const graft_safetensors *f, const char *prefix,
                                            int level, int block)
{
    const graft_st_tensor *t =
        graft_detect_find(f, prefix, "decoder.up.%d.block.%d.conv1.weight", level, block);
    return t ? t
             : graft_detect_find(f, prefix, "decoder.up.%d.block.%d.conv2.weight", level, block);
}

static graft_status detect_decoder(const graft_safetensors *f, const char *prefix,
                                   graft_vae_arch *a, graft_err *e)
{
    const graft_st_tensor *in = graft_detect_find(f, prefix, "decoder.conv_in.weight");
    const graft_st_tensor *last = graft_detect_find(f, prefix, "decoder.conv_out.weight");
    a->z_channels = graft_detect_dim(in, 1);
    a->out_channels = graft_detect_dim(last, 0);
    if (!a->z_channels || !a->out_channels)
        return graft_detect_missing(
            f, prefix, a->z_channels ? "decoder.conv_out.weight" : "decoder.conv_in.weight", e);
    while (a->levels < GRAFT_MAX_LEVELS) {
        const graft_st_tensor *t = decoder_block(f, prefix, a->levels, 0);
        if (!t) break;
        a->channels[a->levels++] = graft_detect_dim(t, 0);
    }
    while (a->res_blocks < 16 && decoder_block(f, prefix, 0, a->res_blocks)) a->res_blocks++;
    a->res_blocks--;
    if (a->levels < 1 || a->res_blocks < 1)
        return graft_detect_missing(f, prefix, "decoder.up.0.block.0.conv1.weight", e);
    a->decoder = 1;
    return GRAFT_OK;
}

/* Statistics of its latents tell a VAE whose places are squares of cells: FLUX.2's. */
static graft_status detect_folding(const graft_safetensors *f, const char *prefix,
                                   graft_vae_arch *out, graft_err *e)
{
    static const char *const names[] = {GRAFT_VAE_MEAN, GRAFT_VAE_VARIANCE};
    if (!graft_detect_find(f, prefix, "%s", names[0]) &&
        !graft_detect_find(f, prefix, "%s", names[1]))
        return GRAFT_OK;
    out->fold = 2;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", names[i]);
        if (!t) return graft_detect_missing(f, prefix, names[i], e);
        if (t->rank != 1 || graft_detect_dim(t, 0) != GRAFT_VAE_FOLDED_PLANES ||
            4 * (int64_t)out->embed_dim != GRAFT_VAE_FOLDED_PLANES)
            return graft_fail(e, GRAFT_E_UNSUPPORTED,
                              "%s: %s%s of a VAE with %d channels; FLUX.2's has %d numbers there "
                              "and %d channels",
                              graft_safetensors_path(f), prefix, names[i], out->embed_dim,
                              GRAFT_VAE_FOLDED_PLANES, GRAFT_VAE_FOLDED_PLANES / 4);
    }
    return GRAFT_OK;
}

graft_status graft_vae_detect(const graft_safetensors *f, const char *prefix, graft_vae_arch *out,
                              graft_err *e)
{
    memset(out, 0, sizeof *out);
    if (graft_detect_find(f, prefix, "decoder.layers.0.weight"))
        return graft_taesd_detect(f, prefix, out, e);
    if (graft_detect_find(f, prefix, GRAFT_WAN_VAE_TENSOR))
        return graft_wan_vae_detect(f, prefix, out, e);
    if (graft_detect_find(f, prefix, GRAFT_TAEHV_TENSOR))
        return graft_taehv_detect(f, prefix, out, e);
    graft_status st = detect_decoder(f, prefix, out, e);
    if (st) return st;
    const graft_st_tensor *in = graft_detect_find(f, prefix, "encoder.conv_in.weight");
    out->encoder = in != NULL;
    out->in_channels = in ? graft_detect_dim(in, 1) : out->out_channels;
    const graft_st_tensor *post = graft_detect_find(f, prefix, "post_quant_conv.weight");
    const graft_st_tensor *within = graft_detect_find(f, prefix, "decoder.post_quant_conv.weight");
    if (post || graft_detect_find(f, prefix, "quant_conv.weight"))
        out->quant_conv = GRAFT_QUANT_CONV_BESIDE;
    else if (within || graft_detect_find(f, prefix, "encoder.quant_conv.weight"))
        out->quant_conv = GRAFT_QUANT_CONV_WITHIN;
    if (!post) post = within;
    out->embed_dim = post ? graft_detect_dim(post, 1) : out->z_channels;
    return detect_folding(f, prefix, out, e);
}

/* ------------------------------------------------------------------ text encoders */

static graft_status detect_hf(const graft_safetensors *f, const char *prefix, graft_text_arch *a,
                              graft_err *e)
{
    const graft_st_tensor *pos =
        graft_detect_find(f, prefix, "text_model.embeddings.position_embedding.weight");
    const graft_st_tensor *tok =
        graft_detect_find(f, prefix, "text_model.embeddings.token_embedding.weight");
    const graft_st_tensor *fc =
        graft_detect_find(f, prefix, "text_model.encoder.layers.0.mlp.fc1.weight");
    if (!pos || !tok || !fc)
        return graft_detect_missing(f, prefix, "text_model.embeddings.token_embedding.weight", e);
    a->layout = GRAFT_TEXT_HF;
    a->positions = graft_detect_dim(pos, 0);
    a->width = graft_detect_dim(pos, 1);
    a->vocab = graft_detect_dim(tok, 0);
    a->intermediate = graft_detect_dim(fc, 0);
    a->layers = graft_detect_blocks(f, prefix, "text_model.encoder.layers", "layer_norm1.weight",
                                    "mlp.fc1.weight");
    a->projection = graft_detect_dim(graft_detect_find(f, prefix, "text_projection.weight"), 0);
    return GRAFT_OK;
}

static graft_status detect_openclip(const graft_safetensors *f, const char *prefix,
                                    graft_text_arch *a, graft_err *e)
{
    const graft_st_tensor *pos = graft_detect_find(f, prefix, "positional_embedding");
    const graft_st_tensor *tok = graft_detect_find(f, prefix, "token_embedding.weight");
    const graft_st_tensor *fc =
        graft_detect_find(f, prefix, "transformer.resblocks.0.mlp.c_fc.weight");
    if (!pos || !tok || !fc) return graft_detect_missing(f, prefix, "token_embedding.weight", e);
    a->layout = GRAFT_TEXT_OPENCLIP;
    a->positions = graft_detect_dim(pos, 0);
    a->width = graft_detect_dim(pos, 1);
    a->vocab = graft_detect_dim(tok, 0);
    a->intermediate = graft_detect_dim(fc, 0);
    a->layers =
        graft_detect_blocks(f, prefix, "transformer.resblocks", "ln_1.weight", "mlp.c_fc.weight");
    a->projection = graft_detect_dim(graft_detect_find(f, prefix, "text_projection"), 1);
    a->projection_transposed = a->projection != 0;
    if (!a->projection)
        a->projection = graft_detect_dim(graft_detect_find(f, prefix, "text_projection.weight"), 0);
    return GRAFT_OK;
}

static graft_act act_of(const cJSON *c, const graft_text_arch *a)
{
    const char *name = graft_json_str(c, "hidden_act", graft_json_str(c, "activation", NULL));
    if (name && strcmp(name, "quick_gelu") == 0) return GRAFT_ACT_QUICK_GELU;
    if (name && strcmp(name, "gelu") == 0) return GRAFT_ACT_GELU;
    return a->width == 768 ? GRAFT_ACT_QUICK_GELU : GRAFT_ACT_GELU;
}

graft_status graft_text_detect(const graft_safetensors *f, const char *prefix, const char *config,
                               graft_text_arch *out, graft_err *e)
{
    memset(out, 0, sizeof *out);
    bool openclip = graft_detect_find(f, prefix, "positional_embedding") != NULL;
    graft_status st = openclip ? detect_openclip(f, prefix, out, e) : detect_hf(f, prefix, out, e);
    if (st) return st;
    cJSON *root;
    const cJSON *c;
    if ((st = parse_config(f, config, "text", &root, &c, e))) return st;
    int64_t heads = graft_json_int(c, "num_attention_heads", graft_json_int(c, "heads", 0));
    int64_t eos = graft_json_int(c, "eos_token_id", graft_json_int(c, "eos", 49407));
    out->act = act_of(c, out);
    cJSON_Delete(root);
    if (heads <= 0) heads = out->width / 64;
    if (!out->layers || heads < 1 || heads > out->width || out->width % heads || eos < 0 ||
        eos > INT32_MAX)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: a text encoder of %d layers, width %d, %lld heads, which ends at "
                          "token %lld, makes no sense",
                          graft_safetensors_path(f), out->layers, out->width, (long long)heads,
                          (long long)eos);
    out->eos = (int32_t)eos;
    out->heads = (int32_t)heads;
    return GRAFT_OK;
}

/* All numbers, or none. */
static bool read_preview(const cJSON *rows, float out[5][3])
{
    if (cJSON_GetArraySize(rows) != 5) return false;
    for (int i = 0; i < 5; i++) {
        const cJSON *row = cJSON_GetArrayItem(rows, i);
        if (cJSON_GetArraySize(row) != 3) return false;
        for (int k = 0; k < 3; k++) {
            double v;
            if (!graft_json_f64(cJSON_GetArrayItem(row, k), &v)) return false;
            out[i][k] = (float)v;
        }
    }
    return true;
}

graft_status graft_checkpoint_config_read(const graft_safetensors *f, graft_checkpoint_config *out,
                                          graft_err *e)
{
    const char *text = graft_safetensors_metadata(f, "config");
    cJSON *root;
    const cJSON *c;
    *out = (graft_checkpoint_config){.beta_start = 0.00085, .beta_end = 0.012};
    graft_status st = parse_config(f, text, "", &root, &c, e);
    if (st) return st;
    out->scale_factor = graft_json_num(c, "scale_factor", 0);
    out->raw_latents = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(c, "raw_latents"));
    const cJSON *schedule = cJSON_GetObjectItemCaseSensitive(c, "schedule");
    out->beta_start = graft_json_num(schedule, "beta_start", out->beta_start);
    out->beta_end = graft_json_num(schedule, "beta_end", out->beta_end);
    const cJSON *preview = cJSON_GetObjectItemCaseSensitive(c, "latent_rgb");
    out->preview_given = preview && read_preview(preview, out->preview);
    const bool preview_bad = preview && !out->preview_given;
    const char *prediction = graft_json_str(c, "prediction", NULL);
    out->prediction_given = prediction != NULL;
    out->v_prediction = prediction && prediction[0] == 'v';
    if (prediction && prediction[0] != 'v' && prediction[0] != 'e') /* "epsilon", "v_prediction" */
        st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                        "%s: the prediction \"%.40s\" in __metadata__.config is neither eps nor v",
                        graft_safetensors_path(f), prediction);
    cJSON_Delete(root);
    if (st) return st;
    if (preview_bad)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: latent_rgb in __metadata__.config is not five rows of three numbers",
                          graft_safetensors_path(f));
    if (!(out->beta_start > 0 && out->beta_start < 1 && out->beta_end > 0 && out->beta_end < 1))
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: the schedule in __metadata__.config has betas from %g to %g, which "
                          "are not between 0 and 1",
                          graft_safetensors_path(f), out->beta_start, out->beta_end);
    if (graft_safetensors_find(f, "v_pred")) out->v_prediction = out->prediction_given = true;
    if (graft_safetensors_find(f, "ztsnr")) out->zsnr = true;
    return GRAFT_OK;
}

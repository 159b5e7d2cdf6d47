#include <string.h>

#include "engine/models/detect/detect_parts.h"
#include "engine/models/parts/folding.h"

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

/* Wan 2.1's VAE in its authors' names, by the layers that its halves count through. */
#include "engine/models/detect.h"
#include "engine/models/wan_vae.h"

#define LAYERS_MAX     64
#define RES_BLOCKS_MAX 16

/* Whether layer i of the decoder changes the size; or is a residual block, which has channels. */
static bool resizes(const graft_safetensors *f, const char *prefix, int i)
{
    return graft_detect_find(f, prefix, "decoder.upsamples.%d.resample.1.weight", i) != NULL;
}

static int32_t channels_of(const graft_safetensors *f, const char *prefix, int i)
{
    return graft_detect_dim(
        graft_detect_find(f, prefix, "decoder.upsamples.%d.residual.2.weight", i), 0);
}

/* Levels and their channels, the innermost first; res_blocks are those of the first. */
static graft_status detect_levels(const graft_safetensors *f, const char *prefix, graft_vae_arch *a,
                                  graft_err *e)
{
    int32_t inner[GRAFT_MAX_LEVELS] = {0}, in_first = 0;
    a->levels = 1;
    for (int i = 0; i < LAYERS_MAX && (resizes(f, prefix, i) || channels_of(f, prefix, i)); i++) {
        if (!resizes(f, prefix, i)) {
            inner[a->levels - 1] = channels_of(f, prefix, i);
            in_first += a->levels == 1;
        } else if (++a->levels > GRAFT_MAX_LEVELS) {
            return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: a VAE of more than %d levels",
                              graft_safetensors_path(f), GRAFT_MAX_LEVELS);
        }
    }
    a->res_blocks = in_first - 1;
    for (int32_t i = 0; i < a->levels; i++) {
        a->channels[i] = inner[a->levels - 1 - i];
        if (!a->channels[i] || (i && a->channels[i] % 2) || a->res_blocks < 1 ||
            a->res_blocks > RES_BLOCKS_MAX)
            return graft_fail(
                e, GRAFT_E_UNSUPPORTED,
                "%s: a VAE of Wan's kind with %d channels on level %d and %d residual "
                "blocks makes no sense",
                graft_safetensors_path(f), a->channels[i], i, in_first);
    }
    return GRAFT_OK;
}

graft_status graft_wan_vae_detect(const graft_safetensors *f, const char *prefix,
                                  graft_vae_arch *out, graft_err *e)
{
    const graft_st_tensor *in = graft_detect_find(f, prefix, "encoder.conv1.weight");
    const graft_detect_width widths[] = {{"decoder.conv1.weight", &out->z_channels, 1},
                                         {"decoder.head.2.weight", &out->out_channels, 0},
                                         {"conv2.weight", &out->embed_dim, 1}};
    if (graft_detect_find(f, prefix, "decoder.upsamples.0.upsamples.0.residual.2.weight"))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: Wan 2.2's VAE, which is not supported",
                          graft_safetensors_path(f));
    *out = (graft_vae_arch){.kind = GRAFT_VAE_WAN, .decoder = 1, .encoder = in != NULL};
    graft_status st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (st) return st;
    out->in_channels = in ? graft_detect_dim(in, 1) : out->out_channels;
    return detect_levels(f, prefix, out, e);
}

/* Wan 2.1's VAE in its authors' names, by the layers that its halves count through; and Qwen-Image
 * 2.1's in those of Wan 2.2's, of which it has the structure, by those of each level. */
#include "engine/models/detect/detect_parts.h"
#include "engine/models/vaes/wan_vae.h"

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

/* ------------------------------------------------------------------ Qwen-Image 2.1's */

#define FIRST_LEVEL "decoder.upsamples.0.upsamples.0.residual.2.weight"

static const char *level_of(bool decoder)
{
    return decoder ? "decoder.upsamples.%d.upsamples.%d.%s"
                   : "encoder.downsamples.%d.downsamples.%d.%s";
}

static const graft_st_tensor *in_level(const graft_safetensors *f, const char *prefix, bool decoder,
                                       int32_t level, int32_t layer, const char *tensor)
{
    char name[128];
    snprintf(name, sizeof name, level_of(decoder), level, layer, tensor);
    return graft_detect_find(f, prefix, "%s", name);
}

/* Residual blocks of a level, and the channels that they give; 0: there is none. */
static int32_t blocks_of(const graft_safetensors *f, const char *prefix, bool decoder,
                         int32_t level, int32_t *channels)
{
    int32_t n = 0;
    *channels = 0;
    for (const graft_st_tensor *t; n <= RES_BLOCKS_MAX; n++) {
        t = in_level(f, prefix, decoder, level, n, "residual.2.weight");
        if (!t) break;
        *channels = graft_detect_dim(t, 0);
    }
    return n;
}

/* Whether the ways around levels keep channels, or double or halve them, as published: the encoder
 * doubles them where a video's length changes. */
static bool goes_around(const graft_vae_arch *a)
{
    const int32_t *in = a->channels, *out = a->decoder_channels, last = a->levels - 1;
    if (a->encoder && (a->temporal[0] || in[last - 1] != in[last])) return false;
    for (int32_t i = 1; a->encoder && i < last; i++)
        if (in[i] != (a->temporal[i] ? 2 : 1) * in[i - 1]) return false;
    for (int32_t i = 1; i < last; i++)
        if (out[i + 1] != out[i] && out[i + 1] != 2 * out[i]) return false;
    return out[0] > 0 && (!a->encoder || in[0] > 0);
}

/* What changes a video's length besides is not read, but where it is. Files may have left it out:
 * then it is everywhere but between the outermost two levels, as published. */
static void detect_temporal(const graft_safetensors *f, const char *prefix, graft_vae_arch *a)
{
    const int32_t last = a->levels - 1;
    bool any = false;
    for (int32_t i = 0; i < last; i++) {
        a->temporal[i] =
            in_level(f, prefix, false, i, a->res_blocks, "time_conv.weight") ||
            in_level(f, prefix, true, last - 1 - i, a->res_blocks + 1, "time_conv.weight");
        any = any || a->temporal[i];
    }
    for (int32_t i = 0; i < last && !any; i++) a->temporal[i] = i > 0;
}

static graft_status detect_residual_levels(const graft_safetensors *f, const char *prefix,
                                           graft_vae_arch *a, graft_err *e)
{
    int32_t channels, blocks = blocks_of(f, prefix, true, 0, &channels);
    bool ok = blocks > 1;
    a->res_blocks = blocks - 1;
    while (a->levels < GRAFT_MAX_LEVELS && blocks_of(f, prefix, true, a->levels, &channels))
        a->levels++;
    for (int32_t i = 0; i < a->levels; i++) {
        ok = ok && blocks == blocks_of(f, prefix, true, a->levels - 1 - i, &a->decoder_channels[i]);
        if (a->encoder) ok = ok && a->res_blocks == blocks_of(f, prefix, false, i, &a->channels[i]);
    }
    detect_temporal(f, prefix, a);
    if (ok && a->levels > 1 && goes_around(a)) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: a VAE of Qwen-Image 2.1's kind with %d levels of %d residual blocks in "
                      "its decoder and such channels makes no sense",
                      graft_safetensors_path(f), a->levels, blocks);
}

/* Wan 2.2's own makes videos, and takes squares of four pixels for one of 12 channels. */
static graft_status detect_residual(const graft_safetensors *f, const char *prefix,
                                    graft_vae_arch *a, graft_err *e)
{
    const graft_st_tensor *first = graft_detect_find(f, prefix, "decoder.conv1.weight");
    if (a->out_channels > 4 || (first && first->rank == 5 && first->shape[2] != 1))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: Wan 2.2's VAE, which is not supported",
                          graft_safetensors_path(f));
    a->residual = 1;
    return detect_residual_levels(f, prefix, a, e);
}

graft_status graft_wan_vae_detect(const graft_safetensors *f, const char *prefix,
                                  graft_vae_arch *out, graft_err *e)
{
    const graft_st_tensor *in = graft_detect_find(f, prefix, "encoder.conv1.weight");
    const graft_detect_width widths[] = {{"decoder.conv1.weight", &out->z_channels, 1},
                                         {"decoder.head.2.weight", &out->out_channels, 0},
                                         {"conv2.weight", &out->embed_dim, 1}};
    *out = (graft_vae_arch){.kind = GRAFT_VAE_WAN, .decoder = 1, .encoder = in != NULL};
    graft_status st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (st) return st;
    out->in_channels = in ? graft_detect_dim(in, 1) : out->out_channels;
    if (graft_detect_find(f, prefix, FIRST_LEVEL)) return detect_residual(f, prefix, out, e);
    return detect_levels(f, prefix, out, e);
}

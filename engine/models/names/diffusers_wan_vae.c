/* Wan 2.1's VAE in diffusers' names (AutoencoderKLWan, AutoencoderKLQwenImage): those of the
 * authors count through all layers of a half, as diffusers' encoder does. And Qwen-Image 2.1's
 * (AutoencoderKLQwenImage21), by names of Wan 2.2's kind, which count through those of a level. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

#define WHAT          "Wan 2.1's VAE"
#define LAYERS_MOST   1024
#define RESNETS_MOST  16
#define FIRST_RESNETS "decoder.up_blocks.0.resnets."
/* Tells the latter: with the others it is one of a list. */
#define FIRST_UPSAMPLER "decoder.up_blocks.0.upsampler.resample.1.weight"

/* Layers of a residual block; others are called alike. */
static const graft_diffusers_pair in_block[] = {
    {"residual.0.", "norm1."}, {"residual.2.", "conv1."},       {"residual.3.", "norm2."},
    {"residual.6.", "conv2."}, {"shortcut.", "conv_shortcut."}, {NULL, NULL}};

/* What is once in a half, or beside the halves; with what comes behind, other than blocks. */
static const graft_diffusers_pair once[] = {
    {"encoder.conv1.", "encoder.conv_in."},
    {"encoder.head.0.", "encoder.norm_out."},
    {"encoder.head.2.", "encoder.conv_out."},
    {"encoder.middle.1.", "encoder.mid_block.attentions.0."},
    {"decoder.conv1.", "decoder.conv_in."},
    {"decoder.head.0.", "decoder.norm_out."},
    {"decoder.head.2.", "decoder.conv_out."},
    {"decoder.middle.1.", "decoder.mid_block.attentions.0."},
    {"conv1.", "quant_conv."},
    {"conv2.", "post_quant_conv."},
    {NULL, NULL}};

bool graft_diffusers_is_wan_vae(const graft_safetensors *f)
{
    return graft_diffusers_has(f, "decoder.mid_block.resnets.0.norm1.gamma");
}

/* The name behind the one of its pair that `theirs` begins with, below `place`; false: with none.
 */
static bool renamed(const graft_diffusers_pair *list, const char *place, const char *theirs,
                    graft_name *out)
{
    for (; list->ours; list++)
        if (graft_str_starts(theirs, list->theirs)) {
            *out = NAME("%s%s%s", place, list->ours, theirs + strlen(list->theirs));
            return true;
        }
    return false;
}

/* Of a layer of residual blocks at this place, or of what changes the size there. */
static graft_name in_layer(const char *place, const char *rest)
{
    graft_name out;
    return renamed(in_block, place, rest, &out) ? out : NAME("%s%s", place, rest);
}

/* Of a level of Qwen-Image 2.1's; `blocks` are the residual ones of the half's levels. */
static bool in_residual_level(const char *theirs, bool decoder, int blocks, graft_name *out)
{
    const char *const half = decoder ? "decoder.up" : "encoder.down";
    const char *rest = theirs + strlen(half);
    int level, k, n = 0;
    if (!graft_str_starts(theirs, half) || sscanf(rest, "_blocks.%d.%n", &level, &n) != 1 || !n ||
        level < 0 || level >= LAYERS_MOST)
        return false;
    rest += n;
    const graft_name place = NAME("%ssamples.%d.%ssamples.", half, level, decoder ? "up" : "down");
    n = 0;
    if (sscanf(rest, "resnets.%d.%n", &k, &n) == 1 && n && k >= 0 && k < blocks) {
        *out = in_layer(NAME("%s%d.", place.text, k).text, rest + n);
        return true;
    }
    const char *const sampler = decoder ? "upsampler." : "downsampler.";
    if (!graft_str_starts(rest, sampler)) return false;
    *out = NAME("%s%d.%s", place.text, blocks, rest + strlen(sampler));
    return true;
}

/* What the authors call it, where levels of the decoder have so many residual blocks. */
static bool name_of(const char *theirs, int resnets, bool residual, graft_name *out)
{
    int block, k, n = 0;
    char half[8];
    if (renamed(once, "", theirs, out)) return true;
    if (sscanf(theirs, "%7[ecodnr].mid_block.resnets.%d.%n", half, &block, &n) == 2 && n &&
        (block == 0 || block == 1)) {
        *out = in_layer(NAME("%s.middle.%d.", half, 2 * block).text, theirs + n);
        return true;
    }
    if (residual)
        return in_residual_level(theirs, true, resnets, out) ||
               in_residual_level(theirs, false, resnets - 1, out);
    if (sscanf(theirs, "encoder.down_blocks.%d.%n", &block, &n) == 1 && n && block >= 0 &&
        block < LAYERS_MOST) {
        *out = in_layer(NAME("encoder.downsamples.%d.", block).text, theirs + n);
        return true;
    }
    if (sscanf(theirs, "decoder.up_blocks.%d.resnets.%d.%n", &block, &k, &n) == 2 && n && k >= 0 &&
        k < resnets && block >= 0 && block < LAYERS_MOST) {
        *out = in_layer(NAME("decoder.upsamples.%d.", block * (resnets + 1) + k).text, theirs + n);
        return true;
    }
    if (sscanf(theirs, "decoder.up_blocks.%d.upsamplers.0.%n", &block, &n) == 1 && n &&
        block >= 0 && block < LAYERS_MOST) {
        *out = NAME("decoder.upsamples.%d.%s", block * (resnets + 1) + resnets, theirs + n);
        return true;
    }
    return false;
}

graft_status graft_diffusers_adopt_wan_vae(graft_safetensors *f, graft_err *e)
{
    graft_diffusers_names n;
    int resnets = 0;
    if (!graft_diffusers_is_wan_vae(f)) return GRAFT_OK;
    const bool residual = graft_diffusers_has(f, FIRST_UPSAMPLER);
    while (resnets < RESNETS_MOST &&
           graft_diffusers_has(f, NAME(FIRST_RESNETS "%d.conv1.weight", resnets).text))
        resnets++;
    graft_diffusers_names_init(&n, f, e);
    for (size_t i = 0; i < n.count && !n.status; i++) {
        const char *theirs = graft_safetensors_at(f, i)->name;
        graft_name ours;
        if (name_of(theirs, resnets, residual, &ours))
            graft_diffusers_names_tensor(&n, ours, NAME("%s", theirs), false);
    }
    graft_status st = graft_diffusers_names_apply(&n, WHAT);
    graft_diffusers_names_finish(&n);
    return st;
}

#include "engine/models/taesd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME(...) graft_name_make(__VA_ARGS__)

void graft_taesd_clamp(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = tanhf(x[i] / 3.0f) * 3.0f;
}

graft_name graft_taesd_layer(const graft_vae_arch *a, bool decoder, int32_t number)
{
    if (a->names == GRAFT_TINY_NUMBERS) return NAME("%d", number);
    return decoder ? NAME("decoder.layers.%d", number - 1) : NAME("encoder.layers.%d", number);
}

bool graft_taesd_diffusers_name(bool decoder, const char *name, char *out, size_t size)
{
    char *rest;
    if (*name < '0' || *name > '9') return false;
    long number = strtol(name, &rest, 10);
    if (*rest != '.' || number > INT32_MAX || (decoder && number == 0)) return false;
    int n = snprintf(out, size, "%s.layers.%ld%s", decoder ? "decoder" : "encoder",
                     number - decoder, rest);
    return n >= 0 && (size_t)n < size;
}

/* ------------------------------------------------------------------ units */

bool graft_taesd_units(const graft_vae_arch *a, bool decoder, graft_vae_half *h)
{
    const graft_tiny_half *half = &a->half[decoder];
    const int32_t c = half->width;
    int32_t number = decoder ? 3 : 1;
    bool ok = decoder ? graft_vae_half_add(h, GRAFT_VAE_HEAD, 0, 1, c)
                      : graft_vae_half_add(h, GRAFT_VAE_STEM, 0, 0, c);
    h->unit[0].in_channels = decoder ? a->embed_dim : a->in_channels;
    for (int32_t i = 0; i < a->levels; i++) {
        if (i && decoder) number++; /* of the up-sampling itself */
        if (i)
            ok = ok &&
                 graft_vae_half_add(h, decoder ? GRAFT_VAE_UP : GRAFT_VAE_DOWN, i, number++, c);
        for (int32_t k = 0; k < half->blocks[i]; k++)
            ok = ok && graft_vae_half_add(h, GRAFT_VAE_BLOCK, i, number++, c);
    }
    return ok && (decoder ? graft_vae_half_add(h, GRAFT_VAE_LAST, 0, number, a->out_channels)
                          : graft_vae_half_add(h, GRAFT_VAE_TAIL, 0, number, a->embed_dim));
}

static graft_vid relu(const graft_build *b, graft_vid x)
{
    return graft_build_act(b, x, GRAFT_ACT_RELU);
}

static graft_vid block(const graft_build *b, graft_name name, graft_vid x, int32_t channels)
{
    graft_vid h = x;
    for (int i = 0; i < 3; i++) {
        h = graft_build_conv3(b, NAME("%s.conv.%d", name.text, 2 * i), h, channels);
        if (i < 2) h = relu(b, h);
    }
    return relu(b, graft_build_add(b, h, x));
}

graft_vid graft_taesd_unit(const graft_build *b, const graft_vae_arch *a, bool decoder,
                           const graft_vae_unit *u, graft_vid x)
{
    const graft_name name = graft_taesd_layer(a, decoder, u->block);
    const int32_t c = u->channels;
    switch (u->kind) {
    case GRAFT_VAE_HEAD:
        return relu(b, graft_build_conv3(b, name, graft_build_to_nhwc(b, x, b->act_dtype), c));
    case GRAFT_VAE_STEM:
        return graft_build_conv3(b, name, graft_build_cast(b, x, b->act_dtype), c);
    case GRAFT_VAE_BLOCK:
        return block(b, name, x, c);
    case GRAFT_VAE_UP:
        x = graft_build_upsample(b, x, graft_build_dim(b, x, 1) * 2, graft_build_dim(b, x, 2) * 2);
        return graft_build_conv_plain(b, name, x, (graft_conv_spec){c, 3, 1, {1, 1, 1, 1}});
    case GRAFT_VAE_DOWN:
        return graft_build_conv_plain(b, name, x, (graft_conv_spec){c, 3, 2, {1, 1, 1, 1}});
    case GRAFT_VAE_LAST:
        return graft_build_cast(b, graft_build_conv3(b, name, x, c), GRAFT_F32);
    case GRAFT_VAE_TAIL:
        return graft_build_to_nchw(b, graft_build_conv3(b, name, x, c), GRAFT_F32);
    default:
        return graft_graph_fail(b->g, GRAFT_E_ARG, "TAESD unit %d", (int)u->kind);
    }
}

#include "engine/models/vaes/taesd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME(...)   graft_name_make(__VA_ARGS__)
#define POOL_WIDTH  4 /* times a block's channels */
#define POOL_GROUPS 4
#define POOL_EPS    1e-5f

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

/* Blocks that are part of HEAD or TAIL: their norms see all pixels. */
static int32_t pooled_blocks(const graft_vae_arch *a, bool decoder)
{
    const graft_tiny_half *half = &a->half[decoder];
    return half->pooled ? half->blocks[decoder ? 0 : a->levels - 1] : 0;
}

bool graft_taesd_units(const graft_vae_arch *a, bool decoder, graft_vae_half *h)
{
    const graft_tiny_half *half = &a->half[decoder];
    const int32_t c = half->width;
    int32_t number = decoder ? 3 + pooled_blocks(a, true) : 1;
    bool ok = decoder ? graft_vae_half_add(h, GRAFT_VAE_HEAD, 0, 1, c)
                      : graft_vae_half_add(h, GRAFT_VAE_STEM, 0, 0, c);
    h->unit[0].in_channels = decoder ? a->embed_dim : a->in_channels;
    for (int32_t i = 0; i < a->levels; i++) {
        if (i && decoder) number++; /* of the up-sampling itself */
        if (i)
            ok = ok &&
                 graft_vae_half_add(h, decoder ? GRAFT_VAE_UP : GRAFT_VAE_DOWN, i, number++, c);
        const bool at_latent = i == (decoder ? 0 : a->levels - 1);
        const int32_t within = at_latent ? pooled_blocks(a, decoder) : 0;
        for (int32_t k = within; k < half->blocks[i]; k++)
            ok = ok && graft_vae_half_add(h, GRAFT_VAE_BLOCK, i, number++, c);
        if (!decoder) number += within;
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

/* What such a block adds to what it sees. */
static graft_vid pool(const graft_build *b, graft_name name, graft_vid x, int32_t channels)
{
    const graft_conv_spec wide = {POOL_WIDTH * channels, 1, 1, {0, 0, 0, 0}};
    const graft_conv_spec narrow = {channels, 1, 1, {0, 0, 0, 0}};
    graft_vid h = graft_build_conv_plain(b, NAME("%s.pool.0", name.text), x, wide);
    h = graft_build_group_norm_of(b, NAME("%s.pool.1", name.text), h, POOL_GROUPS, POOL_EPS);
    return graft_build_conv_plain(b, NAME("%s.pool.3", name.text), relu(b, h), narrow);
}

/* Those that begin with layer `number`. */
static graft_vid pooled(const graft_build *b, const graft_vae_arch *a, bool decoder, int32_t number,
                        graft_vid x)
{
    const int32_t c = a->half[decoder].width, n = pooled_blocks(a, decoder);
    for (int32_t i = 0; i < n; i++) {
        const graft_name name = graft_taesd_layer(a, decoder, number + i);
        x = block(b, name, graft_build_add(b, x, pool(b, name, x, c)), c);
    }
    return x;
}

graft_vid graft_taesd_unit(const graft_build *b, const graft_vae_arch *a, bool decoder,
                           const graft_vae_unit *u, graft_vid x)
{
    const graft_name name = graft_taesd_layer(a, decoder, u->block);
    const int32_t c = u->channels;
    switch (u->kind) {
    case GRAFT_VAE_HEAD:
        x = relu(b, graft_build_conv3(b, name, graft_build_to_nhwc(b, x, b->act_dtype), c));
        return pooled(b, a, true, u->block + 2, x);
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
        x = pooled(b, a, false, u->block - pooled_blocks(a, false), x);
        return graft_build_to_nchw(b, graft_build_conv3(b, name, x, c), GRAFT_F32);
    default:
        return graft_graph_fail(b->g, GRAFT_E_ARG, "TAESD unit %d", (int)u->kind);
    }
}

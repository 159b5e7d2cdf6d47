#include "engine/models/wan_vae.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define FRAMES    3      /* that a convolution sees, the picture's own last */
#define EPS       1e-12f /* a pixel of zeros stays so */

const graft_latent_planes graft_wan_planes = {
    .mean = {-0.7571f, -0.7089f, -0.9113f, 0.1075f, -0.1745f, 0.9653f, -0.1517f, 1.5508f, 0.4134f,
             -0.0715f, 0.5517f, -0.3632f, -0.1922f, -0.9497f, 0.2503f, -0.2921f},
    .deviation = {2.8184f, 1.4541f, 2.3275f, 2.6558f, 1.2196f, 1.7708f, 2.6052f, 2.0743f, 3.2687f,
                  2.1526f, 2.8652f, 1.5579f, 1.6382f, 1.1253f, 2.8251f, 1.9160f}};

/* ------------------------------------------------------------------ layers */

static graft_vid normed(const graft_build *b, graft_name name, graft_vid x)
{
    return graft_build_rms_norm(b, NAME("%s.gamma", name.text), x, 1, EPS);
}

/* 3x3, of three pictures. */
static graft_vid conv(const graft_build *b, graft_name name, graft_vid x, int32_t channels)
{
    return graft_build_conv3_of_last(b, name, x, channels, FRAMES);
}

static graft_vid pointwise(const graft_build *b, graft_name name, graft_vid x, int32_t channels)
{
    return graft_build_conv(b, name, x, (graft_conv_spec){channels, 1, 1, {0, 0, 0, 0}});
}

static graft_vid res_block(const graft_build *b, graft_name name, graft_vid x, int32_t channels)
{
    graft_vid skip = x;
    if (graft_build_dim(b, x, 3) != channels)
        skip = pointwise(b, NAME("%s.shortcut", name.text), x, channels);
    graft_vid h = normed(b, NAME("%s.residual.0", name.text), x);
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    h = conv(b, NAME("%s.residual.2", name.text), h, channels);
    h = normed(b, NAME("%s.residual.3", name.text), h);
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    return graft_build_add(b, conv(b, NAME("%s.residual.6", name.text), h, channels), skip);
}

/* Over all pixels with a single head. */
static graft_vid attention(const graft_build *b, graft_name name, graft_vid x)
{
    const int64_t channels = graft_build_dim(b, x, 3);
    const int64_t spatial[4] = {graft_build_dim(b, x, 0), graft_build_dim(b, x, 1),
                                graft_build_dim(b, x, 2), channels};
    const int64_t tokens[3] = {spatial[0], spatial[1] * spatial[2], channels};
    graft_vid qkv[3], h = normed(b, NAME("%s.norm", name.text), x);
    h = graft_graph_reshape(b->g, h, 3, tokens);
    h = graft_build_linear(b, NAME("%s.to_qkv", name.text), h, (int32_t)(3 * channels), true);
    for (int i = 0; i < 3; i++) qkv[i] = graft_graph_slice(b->g, h, i * channels, channels);
    h = graft_build_attention(b, qkv[0], qkv[1], qkv[2], 1, false);
    h = graft_build_linear(b, NAME("%s.proj", name.text), h, (int32_t)channels, true);
    return graft_build_add(b, graft_graph_reshape(b->g, h, 4, spatial), x);
}

static graft_vid middle(const graft_build *b, const char *half, graft_vid h)
{
    const int32_t channels = (int32_t)graft_build_dim(b, h, 3);
    h = res_block(b, NAME("%s.middle.0", half), h, channels);
    h = attention(b, NAME("%s.middle.1", half), h);
    return res_block(b, NAME("%s.middle.2", half), h, channels);
}

static graft_vid finish(const graft_build *b, const char *half, graft_vid h, int32_t channels)
{
    h = graft_build_act(b, normed(b, NAME("%s.head.0", half), h), GRAFT_ACT_SILU);
    return conv(b, NAME("%s.head.2", half), h, channels);
}

/* ------------------------------------------------------------------ units */

int32_t graft_wan_vae_number(const graft_vae_arch *a, bool decoder, int32_t level, int32_t block)
{
    const int32_t in_level = a->res_blocks + (decoder ? 2 : 1);
    return (decoder ? a->levels - 1 - level : level) * in_level + block;
}

static bool decoder_units(const graft_vae_arch *a, graft_vae_half *h)
{
    bool ok = graft_vae_half_add(h, GRAFT_VAE_HEAD, 0, 0, a->channels[a->levels - 1]);
    h->unit[0].in_channels = a->embed_dim;
    for (int32_t i = a->levels - 1; i >= 0; i--) {
        for (int32_t j = 0; j <= a->res_blocks; j++)
            ok = ok && graft_vae_half_add(h, GRAFT_VAE_RES_PIXEL, i, j, a->channels[i]);
        if (i > 0)
            ok =
                ok && graft_vae_half_add(h, GRAFT_VAE_UP, i, a->res_blocks + 1, a->channels[i] / 2);
    }
    return ok && graft_vae_half_add(h, GRAFT_VAE_LAST, 0, 0, a->out_channels);
}

static bool encoder_units(const graft_vae_arch *a, graft_vae_half *h)
{
    bool ok = graft_vae_half_add(h, GRAFT_VAE_STEM, 0, 0, a->channels[0]);
    h->unit[0].in_channels = a->in_channels;
    for (int32_t i = 0; i < a->levels; i++) {
        for (int32_t j = 0; j < a->res_blocks; j++)
            ok = ok && graft_vae_half_add(h, GRAFT_VAE_RES_PIXEL, i, j, a->channels[i]);
        if (i < a->levels - 1)
            ok = ok && graft_vae_half_add(h, GRAFT_VAE_DOWN, i, a->res_blocks, a->channels[i]);
    }
    return ok && graft_vae_half_add(h, GRAFT_VAE_TAIL, 0, 0, 2 * a->embed_dim);
}

bool graft_wan_vae_units(const graft_vae_arch *a, bool decoder, graft_vae_half *out)
{
    return decoder ? decoder_units(a, out) : encoder_units(a, out);
}

static graft_vid resized(const graft_build *b, graft_name name, const graft_vae_unit *u,
                         graft_vid x)
{
    name = NAME("%s.resample.1", name.text);
    if (u->kind == GRAFT_VAE_DOWN)
        return graft_build_conv(b, name, x, (graft_conv_spec){u->channels, 3, 2, {0, 0, 1, 1}});
    x = graft_build_upsample(b, x, graft_build_dim(b, x, 1) * 2, graft_build_dim(b, x, 2) * 2);
    return graft_build_conv3(b, name, x, u->channels);
}

graft_vid graft_wan_vae_unit(const graft_build *b, const graft_vae_arch *a, bool decoder,
                             const graft_vae_unit *u, graft_vid x)
{
    const char *half = decoder ? "decoder" : "encoder";
    const graft_name name = NAME("%s.%s.%d", half, decoder ? "upsamples" : "downsamples",
                                 graft_wan_vae_number(a, decoder, u->level, u->block));
    switch (u->kind) {
    case GRAFT_VAE_HEAD:
        x = pointwise(b, NAME("conv2"), graft_build_to_nhwc(b, x, b->act_dtype), a->z_channels);
        return middle(b, half, conv(b, NAME("decoder.conv1"), x, u->channels));
    case GRAFT_VAE_STEM:
        return conv(b, NAME("encoder.conv1"), graft_build_cast(b, x, b->act_dtype), u->channels);
    case GRAFT_VAE_RES_PIXEL:
        return res_block(b, name, x, u->channels);
    case GRAFT_VAE_UP:
    case GRAFT_VAE_DOWN:
        return resized(b, name, u, x);
    case GRAFT_VAE_LAST:
        return graft_build_cast(b, finish(b, half, x, u->channels), GRAFT_F32);
    case GRAFT_VAE_TAIL:
        x = finish(b, half, middle(b, half, x), 2 * a->z_channels);
        return graft_build_to_nchw(b, pointwise(b, NAME("conv1"), x, u->channels), GRAFT_F32);
    default:
        break;
    }
    return graft_graph_fail(b->g, GRAFT_E_ARG, "VAE unit %d", (int)u->kind);
}

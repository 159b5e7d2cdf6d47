#include "engine/models/vaes/wan_vae.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define FRAMES    3      /* that a convolution sees, the picture's own last */
#define EPS       1e-12f /* a pixel of zeros stays so */

const graft_latent_planes graft_wan_planes = {
    .n = GRAFT_WAN_PLANES,
    .mean = {-0.7571f, -0.7089f, -0.9113f, 0.1075f, -0.1745f, 0.9653f, -0.1517f, 1.5508f, 0.4134f,
             -0.0715f, 0.5517f, -0.3632f, -0.1922f, -0.9497f, 0.2503f, -0.2921f},
    .deviation = {2.8184f, 1.4541f, 2.3275f, 2.6558f, 1.2196f, 1.7708f, 2.6052f, 2.0743f, 3.2687f,
                  2.1526f, 2.8652f, 1.5579f, 1.6382f, 1.1253f, 2.8251f, 1.9160f}};

const graft_latent_planes graft_qwen_image21_planes = {
    .n = GRAFT_QWEN_IMAGE21_PLANES,
    .mean = {0.5126f,  0.7721f,  -0.0631f, 1.3506f,  -0.7855f, -2.1025f, -0.3458f, 1.3722f,
             1.8873f,  -1.7177f, -0.6510f, 0.2732f,  0.7562f,  -0.6163f, -1.0277f, 3.8363f,
             2.0210f,  0.0472f,  0.9320f,  2.0087f,  2.4954f,  -0.1391f, -1.4249f, 1.8464f,
             -0.5236f, 1.2826f,  3.7046f,  -1.3035f, 2.7286f,  -1.4518f, -1.9036f, -1.9955f,
             -0.0342f, -1.0265f, -0.7636f, 3.0555f,  0.0746f,  -3.0751f, -0.1076f, 1.7376f,
             -1.0914f, -1.9435f, -0.2784f, -1.3680f, 0.4809f,  -0.4433f, 0.3764f,  0.5729f,
             -2.0595f, 1.0960f,  -1.3260f, -2.0211f, -5.0179f, 0.5275f,  4.0162f,  1.8505f,
             0.3026f,  1.9373f,  1.4937f,  0.2632f,  0.5547f,  -1.7121f, -0.1562f, 0.0304f},
    .deviation = {3.2001f, 3.2936f, 3.4321f, 3.0091f, 3.1061f, 4.0379f, 4.0705f, 3.7910f,
                  3.0785f, 3.6500f, 3.9308f, 3.0904f, 2.8778f, 3.7675f, 3.7320f, 5.0756f,
                  3.2864f, 4.0397f, 3.1317f, 4.0443f, 2.9249f, 3.9454f, 3.0988f, 4.2489f,
                  3.4896f, 3.8513f, 3.9323f, 3.4719f, 3.7498f, 4.2830f, 3.5694f, 4.2467f,
                  3.9037f, 3.2947f, 5.0770f, 3.5075f, 3.2700f, 3.4767f, 2.8063f, 5.1125f,
                  3.5327f, 4.7833f, 3.1286f, 4.1819f, 3.8527f, 3.8312f, 3.5605f, 4.3875f,
                  3.9624f, 4.0168f, 3.5643f, 4.0550f, 5.5614f, 4.2963f, 4.4080f, 3.4959f,
                  3.8747f, 3.7608f, 3.5735f, 3.1490f, 3.7662f, 3.6746f, 3.4563f, 3.8161f}};

/* A half under construction. */
typedef struct half {
    graft_build b;
    const graft_vae_arch *a;
    const char *name;
    bool decoder;
} half;

/* ------------------------------------------------------------------ layers */

static graft_vid normed(const half *v, graft_name name, graft_vid x)
{
    return graft_build_rms_norm(&v->b, NAME("%s.gamma", name.text), x, 1, EPS);
}

/* 3x3, of three pictures; of the residual kind of one. */
static graft_vid conv(const half *v, graft_name name, graft_vid x, int32_t channels)
{
    return v->a->residual ? graft_build_conv3(&v->b, name, x, channels)
                          : graft_build_conv3_of_last(&v->b, name, x, channels, FRAMES);
}

static graft_vid pointwise(const half *v, graft_name name, graft_vid x, int32_t channels)
{
    return graft_build_conv(&v->b, name, x, (graft_conv_spec){channels, 1, 1, {0, 0, 0, 0}});
}

static graft_vid res_block(const half *v, graft_name name, graft_vid x, int32_t channels)
{
    const graft_build *b = &v->b;
    graft_vid skip = x;
    if (graft_build_dim(b, x, 3) != channels)
        skip = pointwise(v, NAME("%s.shortcut", name.text), x, channels);
    graft_vid h = normed(v, NAME("%s.residual.0", name.text), x);
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    h = conv(v, NAME("%s.residual.2", name.text), h, channels);
    h = normed(v, NAME("%s.residual.3", name.text), h);
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    return graft_build_add(b, conv(v, NAME("%s.residual.6", name.text), h, channels), skip);
}

/* Over all pixels with a single head. */
static graft_vid attention(const half *v, graft_name name, graft_vid x)
{
    const graft_build *b = &v->b;
    const int64_t channels = graft_build_dim(b, x, 3);
    const int64_t spatial[4] = {graft_build_dim(b, x, 0), graft_build_dim(b, x, 1),
                                graft_build_dim(b, x, 2), channels};
    const int64_t tokens[3] = {spatial[0], spatial[1] * spatial[2], channels};
    graft_vid qkv[3], h = normed(v, NAME("%s.norm", name.text), x);
    h = graft_graph_reshape(b->g, h, 3, tokens);
    h = graft_build_linear(b, NAME("%s.to_qkv", name.text), h, (int32_t)(3 * channels), true);
    for (int i = 0; i < 3; i++) qkv[i] = graft_graph_slice(b->g, h, i * channels, channels);
    h = graft_build_attention(b, qkv[0], qkv[1], qkv[2], 1, false);
    h = graft_build_linear(b, NAME("%s.proj", name.text), h, (int32_t)channels, true);
    return graft_build_add(b, graft_graph_reshape(b->g, h, 4, spatial), x);
}

static graft_vid middle(const half *v, graft_vid h)
{
    const int32_t channels = (int32_t)graft_build_dim(&v->b, h, 3);
    h = res_block(v, NAME("%s.middle.0", v->name), h, channels);
    h = attention(v, NAME("%s.middle.1", v->name), h);
    return res_block(v, NAME("%s.middle.2", v->name), h, channels);
}

static graft_vid finish(const half *v, graft_vid h, int32_t channels)
{
    h = graft_build_act(&v->b, normed(v, NAME("%s.head.0", v->name), h), GRAFT_ACT_SILU);
    return conv(v, NAME("%s.head.2", v->name), h, channels);
}

static graft_vid resized(const half *v, graft_name name, bool up, graft_vid x, int32_t channels)
{
    name = NAME("%s.resample.1", name.text);
    if (!up)
        return graft_build_conv(&v->b, name, x, (graft_conv_spec){channels, 3, 2, {0, 0, 1, 1}});
    x = graft_build_upsample(&v->b, x, graft_build_dim(&v->b, x, 1) * 2,
                             graft_build_dim(&v->b, x, 2) * 2);
    return graft_build_conv3(&v->b, name, x, channels);
}

/* ------------------------------------------------------------------ ways around levels */

/* Means of squares of four pixels: (N,H,W,C) to (N,H/2,W/2,C). */
static graft_vid means(const half *v, graft_vid x)
{
    const graft_build *b = &v->b;
    const int64_t n = graft_build_dim(b, x, 0), h = graft_build_dim(b, x, 1) / 2;
    const int64_t w = graft_build_dim(b, x, 2) / 2, c = graft_build_dim(b, x, 3);
    for (int i = 0; i < 2; i++) { /* two rows each, then two columns */
        const int64_t one = i ? c : 2 * w * c;
        x = graft_graph_reshape(b->g, x, 2, (int64_t[]){n * h * (i ? w : 1), 2 * one});
        x = graft_build_add(b, graft_graph_slice(b->g, x, 0, one),
                            graft_graph_slice(b->g, x, one, one));
    }
    return graft_graph_reshape(b->g, graft_build_scale(b, x, 0.25f, 0), 4, (int64_t[]){n, h, w, c});
}

/* Around a level of the encoder. Where it has twice the channels they are two pictures', the first
 * of which is not there: each stands behind one of zeros. */
static graft_vid around_down(const half *v, const graft_vae_unit *u, graft_vid x)
{
    const graft_build *b = &v->b;
    int64_t dim[4];
    x = means(v, x);
    if (u->in_channels == u->channels) return x;
    for (int i = 0; i < 4; i++) dim[i] = graft_build_dim(b, x, i);
    x = graft_graph_reshape(b->g, x, 2, (int64_t[]){dim[0] * dim[1] * dim[2] * dim[3], 1});
    x = graft_build_concat(b, graft_build_scale(b, x, 0, 0), x);
    return graft_graph_reshape(b->g, x, 4, (int64_t[]){dim[0], dim[1], dim[2], 2 * dim[3]});
}

/* Around a level of the decoder. Of two channels that become one the second is the last picture's;
 * where there is one picture, they are its rows by turns. */
static graft_vid around_up(const half *v, const graft_vae_unit *u, graft_vid x)
{
    const graft_build *b = &v->b;
    const int64_t n = graft_build_dim(b, x, 0), h = graft_build_dim(b, x, 1);
    const int64_t w = graft_build_dim(b, x, 2), c = u->channels;
    const bool temporal = v->a->temporal[u->level - 1];
    if (u->in_channels != u->channels) {
        x = graft_graph_reshape(b->g, x, 4, (int64_t[]){n * h, w, c, 2});
        if (temporal)
            x = graft_build_dense(b, graft_graph_slice(b->g, x, 1, 1), GRAFT_DTYPE_NONE);
        else
            x = graft_build_permuted(b, x, (const int32_t[4]){0, 3, 1, 2}, GRAFT_DTYPE_NONE);
        x = graft_graph_reshape(b->g, x, 4, (int64_t[]){n, temporal ? h : 2 * h, w, c});
    }
    return graft_build_upsample(b, x, 2 * h, 2 * w);
}

/* Layers of a level are called by its number from the half's first on. */
static graft_vid level(const half *v, const graft_vae_unit *u, graft_vid x)
{
    const int32_t number = v->decoder ? v->a->levels - 1 - u->level : u->level;
    const graft_name name = v->decoder ? NAME("decoder.upsamples.%d.upsamples", number)
                                       : NAME("encoder.downsamples.%d.downsamples", number);
    const bool same = u->kind == GRAFT_VAE_LEVEL;
    graft_vid y = x;
    for (int32_t i = 0; i < u->block; i++)
        y = res_block(v, NAME("%s.%d", name.text, i), y, u->channels);
    if (same && v->decoder) return y;
    if (!same) y = resized(v, NAME("%s.%d", name.text, u->block), v->decoder, y, u->channels);
    return graft_build_add(&v->b, y,
                           same         ? x
                           : v->decoder ? around_up(v, u, x)
                                        : around_down(v, u, x));
}

/* ------------------------------------------------------------------ units */

int32_t graft_wan_vae_number(const graft_vae_arch *a, bool decoder, int32_t level, int32_t block)
{
    const int32_t in_level = a->res_blocks + (decoder ? 2 : 1);
    return (decoder ? a->levels - 1 - level : level) * in_level + block;
}

/* Channels of a level of a half. */
static int32_t channels_at(const graft_vae_arch *a, bool decoder, int32_t level)
{
    return a->residual && decoder ? a->decoder_channels[level] : a->channels[level];
}

static bool add_level(const graft_vae_arch *a, bool decoder, int32_t level, graft_vae_half *h)
{
    const graft_vae_unit_kind kind = level == (decoder ? 0 : a->levels - 1) ? GRAFT_VAE_LEVEL
                                     : decoder                              ? GRAFT_VAE_LEVEL_UP
                                                                            : GRAFT_VAE_LEVEL_DOWN;
    return graft_vae_half_add(h, kind, level, a->res_blocks + decoder,
                              channels_at(a, decoder, level));
}

static bool decoder_units(const graft_vae_arch *a, graft_vae_half *h)
{
    bool ok = graft_vae_half_add(h, GRAFT_VAE_HEAD, 0, 0, channels_at(a, true, a->levels - 1));
    h->unit[0].in_channels = a->embed_dim;
    for (int32_t i = a->levels - 1; i >= 0; i--) {
        if (a->residual) {
            ok = ok && add_level(a, true, i, h);
            continue;
        }
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
        if (a->residual) {
            ok = ok && add_level(a, false, i, h);
            continue;
        }
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

graft_vid graft_wan_vae_unit(const graft_build *b, const graft_vae_arch *a, bool decoder,
                             const graft_vae_unit *u, graft_vid x)
{
    const half v = {.b = *b, .a = a, .name = decoder ? "decoder" : "encoder", .decoder = decoder};
    const graft_name name = NAME("%s.%s.%d", v.name, decoder ? "upsamples" : "downsamples",
                                 graft_wan_vae_number(a, decoder, u->level, u->block));
    switch (u->kind) {
    case GRAFT_VAE_HEAD:
        x = pointwise(&v, NAME("conv2"), graft_build_to_nhwc(b, x, b->act_dtype), a->z_channels);
        return middle(&v, conv(&v, NAME("decoder.conv1"), x, u->channels));
    case GRAFT_VAE_STEM:
        return conv(&v, NAME("encoder.conv1"), graft_build_cast(b, x, b->act_dtype), u->channels);
    case GRAFT_VAE_RES_PIXEL:
        return res_block(&v, name, x, u->channels);
    case GRAFT_VAE_UP:
    case GRAFT_VAE_DOWN:
        return resized(&v, name, decoder, x, u->channels);
    case GRAFT_VAE_LEVEL:
    case GRAFT_VAE_LEVEL_UP:
    case GRAFT_VAE_LEVEL_DOWN:
        return level(&v, u, x);
    case GRAFT_VAE_LAST:
        return graft_build_cast(b, finish(&v, x, u->channels), GRAFT_F32);
    case GRAFT_VAE_TAIL:
        x = finish(&v, middle(&v, x), 2 * a->z_channels);
        return graft_build_to_nchw(b, pointwise(&v, NAME("conv1"), x, u->channels), GRAFT_F32);
    default:
        break;
    }
    return graft_graph_fail(b->g, GRAFT_E_ARG, "VAE unit %d", (int)u->kind);
}

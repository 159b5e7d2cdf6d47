#include "engine/models/vaes/taehv.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define PAIR      2 /* pictures at once, at most */

/* ------------------------------------------------------------------ units */

/* Pictures that count behind block k of a level. */
static int32_t pictures(const graft_vae_arch *a, bool decoder, int32_t level, int32_t k)
{
    if (decoder) return level == 2 && k + 1 < a->half[1].blocks[level] ? PAIR : 1;
    return level == 1 ? PAIR : 1;
}

static bool add_level(const graft_vae_arch *a, bool decoder, int32_t level, int32_t *number,
                      graft_vae_half *h)
{
    const int32_t c = graft_taehv_width(a, decoder, level);
    /* The encoder makes two of one in its first block, which sees two alike. */
    const int32_t begins = decoder ? pictures(a, true, level, -1) : 1;
    bool ok = true;
    if (level) {
        *number += decoder ? 2 : 1; /* of the up-sampling, and of what makes other pictures */
        ok = graft_vae_half_add(h, decoder ? GRAFT_VAE_UP : GRAFT_VAE_DOWN, level, (*number)++,
                                begins * c);
    }
    for (int32_t k = 0; k < a->half[decoder].blocks[level]; k++)
        ok = ok && graft_vae_half_add(h, GRAFT_VAE_BLOCK, level, (*number)++,
                                      pictures(a, decoder, level, k) * c);
    return ok;
}

bool graft_taehv_units(const graft_vae_arch *a, bool decoder, graft_vae_half *h)
{
    const int32_t c = graft_taehv_width(a, decoder, 0);
    int32_t number = decoder ? 3 : 2;
    bool ok = decoder ? graft_vae_half_add(h, GRAFT_VAE_HEAD, 0, 1, c)
                      : graft_vae_half_add(h, GRAFT_VAE_STEM, 0, 0, c);
    h->unit[0].in_channels = decoder ? a->embed_dim : a->in_channels;
    for (int32_t i = 0; i < a->levels; i++) ok = ok && add_level(a, decoder, i, &number, h);
    return ok && (decoder ? graft_vae_half_add(h, GRAFT_VAE_LAST, 0, number + 1, a->out_channels)
                          : graft_vae_half_add(h, GRAFT_VAE_TAIL, 0, number, a->embed_dim));
}

/* ------------------------------------------------------------------ layers */

static graft_vid relu(const graft_build *b, graft_vid x)
{
    return graft_build_act(b, x, GRAFT_ACT_RELU);
}

/* One of the pictures that x has: 0 is the later one. */
static graft_vid picture(const graft_build *b, graft_vid x, int32_t which, int32_t channels)
{
    if (graft_build_dim(b, x, 3) == channels) return x;
    return graft_build_dense(b, graft_graph_slice(b->g, x, (int64_t)which * channels, channels),
                             GRAFT_DTYPE_NONE);
}

/* What a block makes of one picture, of which its first layer made h. */
static graft_vid rest_of_block(const graft_build *b, graft_name name, graft_vid h, graft_vid x,
                               int32_t c)
{
    h = graft_build_conv3(b, NAME("%s.conv.2", name.text), relu(b, h), c);
    h = graft_build_conv3(b, NAME("%s.conv.4", name.text), relu(b, h), c);
    return relu(b, graft_build_add(b, h, x));
}

/* The first picture, whose memory is zeros. */
static graft_vid first_block(const graft_build *b, graft_name name, graft_vid x, int32_t c)
{
    const graft_name layer = NAME("%s.conv.0", name.text);
    const int64_t dim[4] = {c, c, 3, 3};
    const graft_vid w =
        graft_graph_weight_first(b->g, NAME("%s.weight", layer.text).text, PAIR, 4, dim);
    return rest_of_block(b, name, graft_build_conv3_by(b, layer, x, w, c), x, c);
}

/* The second one: x has both, or is what both are. */
static graft_vid second_block(const graft_build *b, graft_name name, graft_vid x, int32_t c)
{
    const graft_name layer = NAME("%s.conv.0", name.text);
    const int64_t dim[4] = {c, c, 3, 3};
    graft_vid h;
    if (graft_build_dim(b, x, 3) == c)
        h = graft_build_conv3_by(
            b, layer, x,
            graft_graph_weight_sum(b->g, NAME("%s.weight", layer.text).text, PAIR, 4, dim), c);
    else
        h = graft_build_conv3(b, layer, x, c);
    return rest_of_block(b, name, h, picture(b, x, 0, c), c);
}

static graft_vid block(const graft_build *b, graft_name name, const graft_vae_unit *u, graft_vid x,
                       int32_t c)
{
    if (u->channels == PAIR * c) {
        graft_vid later = second_block(b, name, x, c);
        return graft_build_concat(b, later, first_block(b, name, picture(b, x, 1, c), c));
    }
    return u->in_channels == c ? first_block(b, name, x, c) : second_block(b, name, x, c);
}

/* Pointwise layers come before the doubling, which changes nothing and takes a quarter. */
static graft_vid up(const graft_build *b, const graft_vae_unit *u, graft_vid x, int32_t c)
{
    const graft_name name = NAME("decoder.%d", u->block);
    const graft_name grow = NAME("decoder.%d.conv", u->block - 1);
    const int32_t in = u->in_channels, grows = graft_taehv_grows(u->level);
    const int32_t kept = u->channels / c;
    const int64_t dim[2] = {in, in};
    graft_vid h, each[PAIR];
    if (kept == grows)
        h = graft_build_linear(b, grow, x, grows * in, false);
    else
        h = graft_build_linear_by(
            b, x, graft_graph_weight_bottom(b->g, NAME("%s.weight", grow.text).text, grows, 2, dim),
            GRAFT_NO_VALUE);
    for (int32_t i = 0; i < kept; i++) {
        each[i] = picture(b, h, kept - 1 - i, in); /* the later one is behind the other here */
        each[i] = graft_build_upsample(b, each[i], graft_build_dim(b, x, 1) * 2,
                                       graft_build_dim(b, x, 2) * 2);
        each[i] =
            graft_build_conv_plain(b, name, each[i], (graft_conv_spec){c, 3, 1, {1, 1, 1, 1}});
    }
    return kept == PAIR ? graft_build_concat(b, each[0], each[1]) : each[0];
}

static graft_vid down(const graft_build *b, const graft_vae_unit *u, graft_vid x, int32_t c)
{
    const graft_name pool = NAME("encoder.%d.conv", u->block - 1);
    const int64_t dim[2] = {c, c};
    if (u->in_channels == c && graft_taehv_pools(u->level) == PAIR) {
        x = graft_build_linear_by(
            b, x, graft_graph_weight_sum(b->g, NAME("%s.weight", pool.text).text, PAIR, 2, dim),
            GRAFT_NO_VALUE);
    } else {
        if (u->in_channels == PAIR * c) /* it has the earlier one first */
            x = graft_build_concat(b, picture(b, x, 1, c), picture(b, x, 0, c));
        x = graft_build_linear(b, pool, x, c, false);
    }
    return graft_build_conv_plain(b, NAME("encoder.%d", u->block), x,
                                  (graft_conv_spec){c, 3, 2, {1, 1, 1, 1}});
}

graft_vid graft_taehv_unit(const graft_build *b, const graft_vae_arch *a, bool decoder,
                           const graft_vae_unit *u, graft_vid x)
{
    const graft_name name = NAME("%s.%d", decoder ? "decoder" : "encoder", u->block);
    const int32_t c = graft_taehv_width(a, decoder, u->level);
    switch (u->kind) {
    case GRAFT_VAE_HEAD:
        return relu(b, graft_build_conv3(b, name, graft_build_to_nhwc(b, x, b->act_dtype), c));
    case GRAFT_VAE_STEM:
        return relu(b, graft_build_conv3(b, name, graft_build_cast(b, x, b->act_dtype), c));
    case GRAFT_VAE_BLOCK:
        return block(b, name, u, x, c);
    case GRAFT_VAE_UP:
        return up(b, u, x, c);
    case GRAFT_VAE_DOWN:
        return down(b, u, x, c);
    case GRAFT_VAE_LAST:
        return graft_build_cast(b, graft_build_conv3(b, name, relu(b, x), u->channels), GRAFT_F32);
    case GRAFT_VAE_TAIL:
        return graft_build_to_nchw(b, graft_build_conv3(b, name, x, u->channels), GRAFT_F32);
    default:
        return graft_graph_fail(b->g, GRAFT_E_ARG, "TAEHV unit %d", (int)u->kind);
    }
}

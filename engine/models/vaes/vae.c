#include "engine/models/vaes/vae.h"

#include "engine/models/parts/build.h"
#include "engine/models/vaes/taehv.h"
#include "engine/models/vaes/taesd.h"
#include "engine/models/vaes/wan_vae.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
static const float vae_eps = 1e-6f;

/* A part under construction. */
typedef struct half_build {
    graft_build b;
    const graft_vae_arch *arch;
    graft_vid moments;   /* given statistics; GRAFT_NO_VALUE: every norm takes its own */
    int32_t norms, stop; /* norms so far; the one before which building ends, or -1 */
    graft_vid stopped_at;
} half_build;

static graft_vid group_norm(half_build *v, graft_name name, graft_vid x)
{
    int32_t i = v->norms++;
    if (i == v->stop) {
        v->stopped_at = x;
        return GRAFT_NO_VALUE;
    }
    if (v->moments < 0) return graft_build_group_norm(&v->b, name, x, vae_eps);
    return graft_build_group_norm_given(&v->b, name, x,
                                        graft_graph_slice_rows(v->b.g, v->moments, i, 1), vae_eps);
}

static graft_vid res_block(half_build *v, graft_name name, graft_vid x, int32_t channels)
{
    const graft_build *b = &v->b;
    graft_vid skip = x;
    if (graft_build_dim(b, x, 3) != channels) /* first, so that x's memory is free for its norm */
        skip = graft_build_conv(b, NAME("%s.nin_shortcut", name.text), x,
                                (graft_conv_spec){channels, 1, 1, {0, 0, 0, 0}});
    graft_vid h = group_norm(v, NAME("%s.norm1", name.text), x);
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    h = graft_build_conv3(b, NAME("%s.conv1", name.text), h, channels);
    h = h < 0 ? h : group_norm(v, NAME("%s.norm2", name.text), h);
    if (h < 0) return h;
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    h = graft_build_conv3(b, NAME("%s.conv2", name.text), h, channels);
    return graft_build_add(b, h, skip);
}

/* Self-attention over all pixels with a single head. */
static graft_vid attention(half_build *v, graft_name name, graft_vid x)
{
    const graft_build *b = &v->b;
    int32_t channels = (int32_t)graft_build_dim(b, x, 3);
    int64_t spatial[4] = {graft_build_dim(b, x, 0), graft_build_dim(b, x, 1),
                          graft_build_dim(b, x, 2), channels};
    int64_t tokens[3] = {spatial[0], spatial[1] * spatial[2], channels};
    graft_vid h = group_norm(v, NAME("%s.norm", name.text), x);
    h = graft_graph_reshape(b->g, h, 3, tokens);
    graft_vid q = graft_build_linear(b, NAME("%s.q", name.text), h, channels, true);
    graft_vid k = graft_build_linear(b, NAME("%s.k", name.text), h, channels, true);
    graft_vid w = graft_build_linear(b, NAME("%s.v", name.text), h, channels, true);
    h = graft_build_attention(b, q, k, w, 1, false);
    h = graft_build_linear(b, NAME("%s.proj_out", name.text), h, channels, true);
    h = graft_graph_reshape(b->g, h, 4, spatial);
    return graft_build_add(b, h, x);
}

static graft_vid middle(half_build *v, const char *half, graft_vid h)
{
    int32_t channels = (int32_t)graft_build_dim(&v->b, h, 3);
    h = res_block(v, NAME("%s.mid.block_1", half), h, channels);
    h = attention(v, NAME("%s.mid.attn_1", half), h);
    return res_block(v, NAME("%s.mid.block_2", half), h, channels);
}

static graft_vid finish(half_build *v, const char *half, graft_vid h, int32_t channels)
{
    h = group_norm(v, NAME("%s.norm_out", half), h);
    h = graft_build_act(&v->b, h, GRAFT_ACT_SILU);
    return graft_build_conv3(&v->b, NAME("%s.conv_out", half), h, channels);
}

static graft_name quant_conv_name(const half_build *v, const char *half, const char *name)
{
    return NAME("%s%s", v->arch->quant_conv == GRAFT_QUANT_CONV_WITHIN ? half : "", name);
}

static graft_vid head(half_build *v, graft_vid x, int32_t channels)
{
    graft_vid h = graft_build_to_nhwc(&v->b, x, v->b.act_dtype);
    if (v->arch->quant_conv)
        h = graft_build_conv(&v->b, quant_conv_name(v, "decoder.", "post_quant_conv"), h,
                             (graft_conv_spec){v->arch->z_channels, 1, 1, {0, 0, 0, 0}});
    h = graft_build_conv3(&v->b, NAME("decoder.conv_in"), h, channels);
    return middle(v, "decoder", h);
}

static graft_vid tail(half_build *v, graft_vid x, int32_t channels)
{
    graft_vid h = middle(v, "encoder", x);
    h = finish(v, "encoder", h, 2 * v->arch->z_channels);
    if (v->arch->quant_conv)
        h = graft_build_conv(&v->b, quant_conv_name(v, "encoder.", "quant_conv"), h,
                             (graft_conv_spec){channels, 1, 1, {0, 0, 0, 0}});
    return graft_build_to_nchw(&v->b, h, GRAFT_F32);
}

static graft_vid up(const graft_build *b, int32_t level, graft_vid x, int32_t channels)
{
    graft_vid h =
        graft_build_upsample(b, x, graft_build_dim(b, x, 1) * 2, graft_build_dim(b, x, 2) * 2);
    return graft_build_conv3(b, NAME("decoder.up.%d.upsample.conv", level), h, channels);
}

static graft_vid add_unit(half_build *v, bool decoder, const graft_vae_unit *u, graft_vid x)
{
    if (v->arch->kind == GRAFT_VAE_TINY) return graft_taesd_unit(&v->b, v->arch, decoder, u, x);
    if (v->arch->kind == GRAFT_VAE_TAEHV) return graft_taehv_unit(&v->b, v->arch, decoder, u, x);
    if (v->arch->kind == GRAFT_VAE_WAN) return graft_wan_vae_unit(&v->b, v->arch, decoder, u, x);
    switch (u->kind) {
    case GRAFT_VAE_HEAD:
        return head(v, x, u->channels);
    case GRAFT_VAE_STEM:
        return graft_build_conv3(&v->b, NAME("encoder.conv_in"),
                                 graft_build_cast(&v->b, x, v->b.act_dtype), u->channels);
    case GRAFT_VAE_RES:
        return res_block(
            v, NAME("%s.%d.block.%d", decoder ? "decoder.up" : "encoder.down", u->level, u->block),
            x, u->channels);
    case GRAFT_VAE_UP:
        return up(&v->b, u->level, x, u->channels);
    case GRAFT_VAE_DOWN:
        return graft_build_conv(&v->b, NAME("encoder.down.%d.downsample.conv", u->level), x,
                                (graft_conv_spec){u->channels, 3, 2, {0, 0, 1, 1}});
    case GRAFT_VAE_FINISH:
        return graft_build_cast(&v->b, finish(v, "decoder", x, u->channels), GRAFT_F32);
    case GRAFT_VAE_TAIL:
        return tail(v, x, u->channels);
    default:
        break;
    }
    return graft_graph_fail(v->b.g, GRAFT_E_ARG, "VAE unit %d", (int)u->kind);
}

/* ------------------------------------------------------------------ units */

bool graft_vae_half_add(graft_vae_half *h, graft_vae_unit_kind kind, int32_t level, int32_t block,
                        int32_t channels)
{
    if (h->n == GRAFT_VAE_MAX_UNITS) return false;
    int32_t before = h->n ? h->unit[h->n - 1].channels : 0;
    h->unit[h->n++] = (graft_vae_unit){kind, level, block, before, channels};
    return true;
}

static bool decoder_units(const graft_vae_arch *a, graft_vae_half *h)
{
    bool ok = graft_vae_half_add(h, GRAFT_VAE_HEAD, 0, 0, a->channels[a->levels - 1]);
    h->unit[0].in_channels = a->embed_dim;
    for (int32_t i = a->levels - 1; i >= 0; i--) {
        for (int32_t j = 0; j <= a->res_blocks; j++)
            ok = ok && graft_vae_half_add(h, GRAFT_VAE_RES, i, j, a->channels[i]);
        if (i > 0) ok = ok && graft_vae_half_add(h, GRAFT_VAE_UP, i, 0, a->channels[i]);
    }
    return ok && graft_vae_half_add(h, GRAFT_VAE_FINISH, 0, 0, a->out_channels);
}

static bool encoder_units(const graft_vae_arch *a, graft_vae_half *h)
{
    bool ok = graft_vae_half_add(h, GRAFT_VAE_STEM, 0, 0, a->channels[0]);
    h->unit[0].in_channels = a->in_channels;
    for (int32_t i = 0; i < a->levels; i++) {
        for (int32_t j = 0; j < a->res_blocks; j++)
            ok = ok && graft_vae_half_add(h, GRAFT_VAE_RES, i, j, a->channels[i]);
        if (i < a->levels - 1)
            ok = ok && graft_vae_half_add(h, GRAFT_VAE_DOWN, i, 0, a->channels[i]);
    }
    return ok && graft_vae_half_add(h, GRAFT_VAE_TAIL, 0, 0, 2 * a->embed_dim);
}

graft_status graft_vae_half_of(const graft_vae_arch *a, bool decoder, graft_vae_half *out,
                               graft_err *e)
{
    out->n = 0;
    bool ok = a->kind == GRAFT_VAE_TINY    ? graft_taesd_units(a, decoder, out)
              : a->kind == GRAFT_VAE_TAEHV ? graft_taehv_units(a, decoder, out)
              : a->kind == GRAFT_VAE_WAN   ? graft_wan_vae_units(a, decoder, out)
              : decoder                    ? decoder_units(a, out)
                                           : encoder_units(a, out);
    return ok ? GRAFT_OK
              : graft_fail(e, GRAFT_E_LIMIT, "a VAE of more than %d units", GRAFT_VAE_MAX_UNITS);
}

/* ------------------------------------------------------------------ graphs */

static graft_vid input(half_build *v, const graft_vae_part *p, const graft_vae_unit *u,
                       int64_t batch)
{
    int64_t nchw[4] = {batch, u->in_channels, p->height, p->width};
    int64_t nhwc[4] = {batch, p->height, p->width, u->in_channels};
    return graft_graph_input(v->b.g, p->first ? v->b.act_dtype : GRAFT_F32, 4,
                             u->kind == GRAFT_VAE_HEAD ? nchw : nhwc);
}

/* Norms of the part before its output. */
static int32_t norms_before(const graft_vae_half *h, const graft_vae_part *p)
{
    int32_t n = 0;
    for (int32_t i = p->first; i < p->end; i++) n += graft_vae_unit_norms(h->unit[i].kind);
    return p->stop >= 0 && p->stop < n ? p->stop : n;
}

static graft_status build(const graft_vae_arch *a, const graft_vae_part *p, int64_t batch,
                          graft_graph **out, graft_err *e)
{
    graft_vae_half half;
    graft_status st = graft_vae_half_of(a, p->decoder, &half, e);
    if (st) return st;
    if (p->first < 0 || p->end > (int32_t)half.n || p->first >= p->end)
        return graft_fail(e, GRAFT_E_ARG, "VAE units %d to %d of %zu", (int)p->first, (int)p->end,
                          half.n);
    half_build v = {
        {graft_graph_create(), p->act_dtype}, a, GRAFT_NO_VALUE, 0, p->stop, GRAFT_NO_VALUE};
    if (!v.b.g) return graft_fail_nomem(e, "VAE graph");
    graft_vid h = input(&v, p, &half.unit[p->first], batch);
    int32_t norms = norms_before(&half, p);
    if (p->given && norms)
        v.moments = graft_graph_input(v.b.g, GRAFT_F32, 3, (int64_t[]){norms, GRAFT_VAE_GROUPS, 2});
    for (int32_t i = p->first; i < p->end && v.stopped_at < 0; i++)
        h = add_unit(&v, p->decoder, &half.unit[i], h);
    graft_graph_output(v.b.g, v.stopped_at >= 0 ? v.stopped_at : h);
    st = graft_graph_status(v.b.g, e);
    if (st)
        graft_graph_destroy(v.b.g);
    else
        *out = v.b.g;
    return st;
}

graft_status graft_vae_part_build(const graft_vae_arch *a, const graft_vae_part *part,
                                  graft_graph **out, graft_err *e)
{
    return build(a, part, 1, out, e);
}

static graft_status build_whole(const graft_vae_arch *a, bool decoder, int64_t batch,
                                int64_t height, int64_t width, graft_dtype act_dtype,
                                graft_graph **out, graft_err *e)
{
    graft_vae_half half;
    graft_status st = graft_vae_half_of(a, decoder, &half, e);
    if (st) return st;
    graft_vae_part all = {height, width, decoder, 0, (int32_t)half.n, -1, 0, act_dtype};
    return build(a, &all, batch, out, e);
}

graft_status graft_vae_decoder_build(const graft_vae_arch *a, int64_t batch, int64_t height,
                                     int64_t width, graft_dtype act_dtype, graft_graph **out,
                                     graft_err *e)
{
    return build_whole(a, true, batch, height, width, act_dtype, out, e);
}

graft_status graft_vae_encoder_build(const graft_vae_arch *a, int64_t batch, int64_t height,
                                     int64_t width, graft_dtype act_dtype, graft_graph **out,
                                     graft_err *e)
{
    return build_whole(a, false, batch, height, width, act_dtype, out, e);
}

#include "engine/models/vae.h"

#include "engine/models/build.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
static const float vae_eps = 1e-6f;

static graft_vid res_block(const graft_build *b, graft_name name, graft_vid x, int32_t channels)
{
    int64_t in_channels = graft_build_dim(b, x, 3);
    graft_vid h = graft_build_group_norm(b, NAME("%s.norm1", name.text), x, vae_eps);
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    h = graft_build_conv3(b, NAME("%s.conv1", name.text), h, channels);
    h = graft_build_group_norm(b, NAME("%s.norm2", name.text), h, vae_eps);
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    h = graft_build_conv3(b, NAME("%s.conv2", name.text), h, channels);
    if (in_channels != channels)
        x = graft_build_conv(b, NAME("%s.nin_shortcut", name.text), x,
                             (graft_conv_spec){channels, 1, 1, {0, 0, 0, 0}});
    return graft_build_add(b, h, x);
}

/* Self-attention over all pixels with a single head. */
static graft_vid attention(const graft_build *b, graft_name name, graft_vid x)
{
    int32_t channels = (int32_t)graft_build_dim(b, x, 3);
    int64_t spatial[4] = {graft_build_dim(b, x, 0), graft_build_dim(b, x, 1),
                          graft_build_dim(b, x, 2), channels};
    int64_t tokens[3] = {spatial[0], spatial[1] * spatial[2], channels};
    graft_vid h = graft_build_group_norm(b, NAME("%s.norm", name.text), x, vae_eps);
    h = graft_graph_reshape(b->g, h, 3, tokens);
    graft_vid q = graft_build_linear(b, NAME("%s.q", name.text), h, channels, true);
    graft_vid k = graft_build_linear(b, NAME("%s.k", name.text), h, channels, true);
    graft_vid v = graft_build_linear(b, NAME("%s.v", name.text), h, channels, true);
    h = graft_build_attention(b, q, k, v, 1, false);
    h = graft_build_linear(b, NAME("%s.proj_out", name.text), h, channels, true);
    h = graft_graph_reshape(b->g, h, 4, spatial);
    return graft_build_add(b, h, x);
}

static graft_vid middle(const graft_build *b, const char *half, graft_vid h)
{
    int32_t channels = (int32_t)graft_build_dim(b, h, 3);
    h = res_block(b, NAME("%s.mid.block_1", half), h, channels);
    h = attention(b, NAME("%s.mid.attn_1", half), h);
    return res_block(b, NAME("%s.mid.block_2", half), h, channels);
}

static graft_vid finish(const graft_build *b, const char *half, graft_vid h, int32_t channels)
{
    h = graft_build_group_norm(b, NAME("%s.norm_out", half), h, vae_eps);
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    return graft_build_conv3(b, NAME("%s.conv_out", half), h, channels);
}

static graft_status end(graft_graph *g, graft_vid h, graft_graph **out, graft_err *e)
{
    graft_graph_output(g, h);
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}

graft_status graft_vae_decoder_build(const graft_vae_arch *a, int64_t batch, int64_t height,
                                     int64_t width, graft_dtype act_dtype, graft_graph **out,
                                     graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "VAE graph");
    graft_build b = {g, act_dtype};
    graft_vid x =
        graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){batch, a->embed_dim, height, width});
    graft_vid h = graft_build_to_nhwc(&b, x, act_dtype);
    if (a->quant_conv)
        h = graft_build_conv(&b, NAME("post_quant_conv"), h,
                             (graft_conv_spec){a->z_channels, 1, 1, {0, 0, 0, 0}});
    h = graft_build_conv3(&b, NAME("decoder.conv_in"), h, a->channels[a->levels - 1]);
    h = middle(&b, "decoder", h);
    for (int i = a->levels - 1; i >= 0; i--) {
        for (int j = 0; j <= a->res_blocks; j++)
            h = res_block(&b, NAME("decoder.up.%d.block.%d", i, j), h, a->channels[i]);
        if (i == 0) break;
        h = graft_build_upsample(&b, h, graft_build_dim(&b, h, 1) * 2,
                                 graft_build_dim(&b, h, 2) * 2);
        h = graft_build_conv3(&b, NAME("decoder.up.%d.upsample.conv", i), h, a->channels[i]);
    }
    h = finish(&b, "decoder", h, a->out_channels);
    return end(g, graft_build_cast(&b, h, GRAFT_F32), out, e);
}

graft_status graft_vae_encoder_build(const graft_vae_arch *a, int64_t batch, int64_t height,
                                     int64_t width, graft_dtype act_dtype, graft_graph **out,
                                     graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "VAE graph");
    graft_build b = {g, act_dtype};
    graft_vid x =
        graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){batch, height, width, a->in_channels});
    graft_vid h = graft_build_cast(&b, x, act_dtype);
    h = graft_build_conv3(&b, NAME("encoder.conv_in"), h, a->channels[0]);
    for (int i = 0; i < a->levels; i++) {
        for (int j = 0; j < a->res_blocks; j++)
            h = res_block(&b, NAME("encoder.down.%d.block.%d", i, j), h, a->channels[i]);
        if (i == a->levels - 1) break;
        h = graft_build_conv(&b, NAME("encoder.down.%d.downsample.conv", i), h,
                             (graft_conv_spec){a->channels[i], 3, 2, {0, 0, 1, 1}});
    }
    h = middle(&b, "encoder", h);
    h = finish(&b, "encoder", h, 2 * a->z_channels);
    if (a->quant_conv)
        h = graft_build_conv(&b, NAME("quant_conv"), h,
                             (graft_conv_spec){2 * a->embed_dim, 1, 1, {0, 0, 0, 0}});
    return end(g, graft_build_to_nchw(&b, h, GRAFT_F32), out, e);
}

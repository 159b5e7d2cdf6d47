#include "engine/models/parts/gligen.h"

#include <math.h>

#define NAME(...)   graft_name_make(__VA_ARGS__)
#define TEMPERATURE 100.0

/* ------------------------------------------------------------------ places */

static bool put(graft_gligen_arch *g, graft_crossing_part part, int32_t block, int32_t depth,
                int32_t channels)
{
    if (depth > GRAFT_CROSSINGS - g->n) return false;
    for (int32_t i = 0; i < depth; i++)
        g->place[g->n++] = (graft_gligen_place){(int32_t)part, block, i, channels};
    return true;
}

bool graft_gligen_places(const graft_unet_arch *a, graft_gligen_arch *out)
{
    bool fits = true;
    out->n = 0;
    for (int32_t i = 0; i < a->n_input; i++)
        fits = fits &&
               put(out, GRAFT_CROSSING_INPUT, i, a->input[i].transformer, a->input[i].channels);
    for (int32_t i = 0; i < a->n_output; i++)
        fits = fits &&
               put(out, GRAFT_CROSSING_OUTPUT, i, a->output[i].transformer, a->output[i].channels);
    return fits && put(out, GRAFT_CROSSING_MIDDLE, 0, a->middle_transformer,
                       a->input[a->n_input - 1].channels);
}

graft_name graft_gligen_block_name(const graft_gligen_place *p)
{
    if (p->part == GRAFT_CROSSING_MIDDLE)
        return NAME("middle_block.1.transformer_blocks.%d.fuser", p->index);
    return NAME("%s_blocks.%d.1.transformer_blocks.%d.fuser",
                p->part == GRAFT_CROSSING_INPUT ? "input" : "output", p->block, p->index);
}

void graft_gligen_waves(const graft_gligen_arch *a, const double box[4], float *out)
{
    const int32_t n = a->waves / 8;
    for (int32_t k = 0; k < n; k++) {
        const double f = pow(TEMPERATURE, (double)k / n);
        for (int i = 0; i < 4; i++) {
            out[8 * k + i] = (float)sin(f * box[i]);
            out[8 * k + 4 + i] = (float)cos(f * box[i]);
        }
    }
}

/* ------------------------------------------------------------------ graphs */

static graft_status finish(graft_graph *g, graft_graph **out, graft_err *e)
{
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}

graft_status graft_gligen_build(const graft_gligen_arch *a, graft_dtype act_dtype,
                                graft_graph **out, graft_err *e)
{
    const int64_t dim[3] = {1, GRAFT_GLIGEN_TOKENS, a->text + a->waves};
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "GLIGEN graph");
    const graft_build b = {g, act_dtype};
    graft_vid x = graft_build_cast(&b, graft_graph_input(g, GRAFT_F32, 3, dim), act_dtype);
    x = graft_build_linear(&b, NAME("position_net.linears.0"), x, a->hidden, true);
    x = graft_build_act(&b, x, GRAFT_ACT_SILU);
    x = graft_build_linear(&b, NAME("position_net.linears.2"), x, a->hidden, true);
    x = graft_build_act(&b, x, GRAFT_ACT_SILU);
    x = graft_build_linear(&b, NAME("position_net.linears.4"), x, a->width, true);
    graft_graph_output(g, graft_build_cast(&b, x, GRAFT_F32));
    return finish(g, out, e);
}

/* x + tanh(alpha) y */
static graft_vid gated(const graft_build *b, graft_name alpha, graft_vid x, graft_vid y)
{
    const int64_t one[3] = {1, 1, 1};
    graft_vid gate = graft_graph_weight(b->g, alpha.text, 3, one);
    return graft_build_add(b, x, graft_build_mul(b, y, graft_build_act(b, gate, GRAFT_ACT_TANH)));
}

/* Of the picture's tokens alone, which see the others beside their own. */
static graft_vid attention(const graft_build *b, graft_name name, graft_vid x, graft_vid more,
                           int32_t heads)
{
    const int32_t width = (int32_t)graft_build_dim(b, x, 2);
    graft_vid own = graft_build_layer_norm(b, NAME("%s.norm1", name.text), x);
    graft_vid all =
        graft_build_join(b, own, graft_build_layer_norm(b, NAME("%s.norm1", name.text), more));
    graft_vid q = graft_build_linear(b, NAME("%s.attn.to_q", name.text), own, width, false);
    graft_vid k = graft_build_linear(b, NAME("%s.attn.to_k", name.text), all, width, false);
    graft_vid v = graft_build_linear(b, NAME("%s.attn.to_v", name.text), all, width, false);
    graft_vid o = graft_build_attention(b, q, k, v, heads, false);
    return graft_build_linear(b, NAME("%s.attn.to_out.0", name.text), o, width, true);
}

graft_vid graft_gligen_build_block(const graft_build *b, graft_name name, graft_vid x,
                                   graft_vid tokens, int32_t heads)
{
    const int32_t width = (int32_t)graft_build_dim(b, x, 2);
    graft_vid more = graft_build_linear(b, NAME("%s.linear", name.text), tokens, width, true);
    x = gated(b, NAME("%s.alpha_attn", name.text), x, attention(b, name, x, more, heads));
    graft_vid h = graft_build_layer_norm(b, NAME("%s.norm2", name.text), x);
    h = graft_build_linear(b, NAME("%s.ff.net.0.proj", name.text), h, width * 8, true);
    if (h >= 0) h = graft_graph_node(b->g, GRAFT_OP_GEGLU, NULL, &h, 1, GRAFT_DTYPE_NONE);
    h = graft_build_linear(b, NAME("%s.ff.net.2", name.text), h, width, true);
    return gated(b, NAME("%s.alpha_dense", name.text), x, h);
}

graft_status graft_gligen_build_all(const graft_gligen_arch *a, graft_graph **out, graft_err *e)
{
    const int64_t dim[3] = {1, GRAFT_GLIGEN_TOKENS, a->width};
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "GLIGEN graph");
    const graft_build b = {g, GRAFT_F32};
    const graft_vid tokens = graft_graph_input(g, GRAFT_F32, 3, dim);
    for (int32_t i = 0; i < a->n; i++) {
        const graft_gligen_place *p = &a->place[i];
        const graft_vid x =
            graft_graph_input(g, GRAFT_F32, 3, (const int64_t[]){1, 1, p->channels});
        graft_graph_output(g,
                           graft_gligen_build_block(&b, graft_gligen_block_name(p), x, tokens, 1));
    }
    return finish(g, out, e);
}

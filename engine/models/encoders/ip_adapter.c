#include "engine/models/encoders/ip_adapter.h"

#include "engine/models/parts/build.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define HEAD      64

const char *graft_ip_adapter_queries(const graft_ip_adapter_arch *a)
{
    return a->kind == GRAFT_IP_ADAPTER_RESAMPLER ? "image_proj.latents" : NULL;
}

static graft_vid input(const graft_build *b, int rank, const int64_t *dim)
{
    return graft_build_cast(b, graft_graph_input(b->g, GRAFT_F32, rank, dim), b->act_dtype);
}

static graft_vid projected(const graft_build *b, const graft_ip_adapter_arch *a)
{
    const int64_t dim[3] = {1, a->tokens, a->width};
    graft_vid x = input(b, 2, (const int64_t[]){1, a->seen});
    x = graft_build_linear(b, NAME("image_proj.proj"), x, a->tokens * a->width, true);
    return graft_build_layer_norm(b, NAME("image_proj.norm"), graft_graph_reshape(b->g, x, 3, dim));
}

/* The queries attend to the picture's tokens and to each other. */
static graft_vid attention(const graft_build *b, const graft_ip_adapter_arch *a, int i, graft_vid x,
                           graft_vid h)
{
    x = graft_build_layer_norm(b, NAME("image_proj.layers.%d.0.norm1", i), x);
    h = graft_build_layer_norm(b, NAME("image_proj.layers.%d.0.norm2", i), h);
    graft_vid q = graft_build_linear(b, NAME("image_proj.layers.%d.0.to_q", i), h, a->inner, false);
    graft_vid kv = graft_build_linear(b, NAME("image_proj.layers.%d.0.to_kv", i),
                                      graft_build_join(b, x, h), 2 * a->inner, false);
    graft_vid o = graft_build_attention(b, q, graft_graph_slice(b->g, kv, 0, a->inner),
                                        graft_graph_slice(b->g, kv, a->inner, a->inner),
                                        a->inner / HEAD, false);
    return graft_build_linear(b, NAME("image_proj.layers.%d.0.to_out", i), o, a->hidden, false);
}

static graft_vid mlp(const graft_build *b, const graft_ip_adapter_arch *a, int i, graft_vid h)
{
    h = graft_build_layer_norm(b, NAME("image_proj.layers.%d.1.0", i), h);
    h = graft_build_linear(b, NAME("image_proj.layers.%d.1.1", i), h, a->mlp, false);
    h = graft_build_act(b, h, GRAFT_ACT_GELU);
    return graft_build_linear(b, NAME("image_proj.layers.%d.1.3", i), h, a->hidden, false);
}

static graft_vid resampled(const graft_build *b, const graft_ip_adapter_arch *a, int64_t tokens)
{
    graft_vid x = input(b, 3, (const int64_t[]){1, tokens, a->seen});
    graft_vid h = input(b, 3, (const int64_t[]){1, a->tokens, a->hidden});
    x = graft_build_linear(b, NAME("image_proj.proj_in"), x, a->hidden, true);
    for (int i = 0; i < a->depth; i++) {
        h = graft_build_add(b, attention(b, a, i, x, h), h);
        h = graft_build_add(b, mlp(b, a, i, h), h);
    }
    h = graft_build_linear(b, NAME("image_proj.proj_out"), h, a->width, true);
    return graft_build_layer_norm(b, NAME("image_proj.norm_out"), h);
}

graft_status graft_ip_adapter_build(const graft_ip_adapter_arch *a, int64_t seen_tokens,
                                    graft_dtype act_dtype, graft_graph **out, graft_err *e)
{
    static const char *const part[2] = {"to_k_ip", "to_v_ip"};
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "IP-Adapter graph");
    const graft_build b = {g, act_dtype};
    graft_vid x =
        a->kind == GRAFT_IP_ADAPTER_RESAMPLER ? resampled(&b, a, seen_tokens) : projected(&b, a);
    /* The self-attentions between them have the even numbers. */
    for (int32_t i = 0; i < a->n_layers; i++)
        for (int k = 0; k < 2; k++) {
            const graft_name name = NAME("ip_adapter.%d.%s", 2 * i + 1, part[k]);
            graft_vid v = graft_build_linear(&b, name, x, a->channels[i], false);
            graft_graph_output(g, graft_build_cast(&b, v, GRAFT_F32));
        }
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}

#include "bench/make_vision.h"

#include <string.h>

#include "engine/models/encoders/ip_adapter.h"
#include "engine/models/encoders/redux.h"

static const graft_vision_arch so400m = {.kind = GRAFT_VISION_SIGLIP,
                                         .layers = 27,
                                         .width = 1152,
                                         .heads = 16,
                                         .intermediate = 4304,
                                         .act = GRAFT_ACT_GELU_TANH,
                                         .size = 384,
                                         .patch = 14,
                                         .grid = 27};
static const graft_vision_arch vit_h = {.layers = 32,
                                        .width = 1280,
                                        .heads = 16,
                                        .intermediate = 5120,
                                        .act = GRAFT_ACT_GELU,
                                        .size = 224,
                                        .patch = 14,
                                        .grid = 16,
                                        .projection = 1024};
static const graft_vision_arch small_siglip = {.kind = GRAFT_VISION_SIGLIP,
                                               .layers = 2,
                                               .width = 64,
                                               .heads = 1,
                                               .intermediate = 96,
                                               .act = GRAFT_ACT_GELU_TANH,
                                               .size = 24,
                                               .patch = 6,
                                               .grid = 4};
static const graft_vision_arch small_clip = {.layers = 2,
                                             .width = 64,
                                             .heads = 1,
                                             .intermediate = 96,
                                             .act = GRAFT_ACT_QUICK_GELU,
                                             .size = 24,
                                             .patch = 6,
                                             .grid = 4,
                                             .projection = 32};

const graft_vision_arch *make_vision_arch(bool small, bool clip)
{
    if (clip) return small ? &small_clip : &vit_h;
    return small ? &small_siglip : &so400m;
}

graft_status make_redux_graph(bool small, int32_t width, graft_graph **out, graft_err *e)
{
    const graft_redux_arch a = {
        .seen = small ? small_siglip.width : so400m.width, .inner = 3 * width, .width = width};
    return graft_redux_build(&a, 1, GRAFT_F32, out, e);
}

/* Heads of 64: 12 of them for Stable Diffusion 1.x, 20 for XL, and the width of all is the
 * resampler's own. */
graft_status make_ip_adapter_graph(bool small, const char *part, const graft_unet_arch *unet,
                                   make_vision_first *first, graft_graph **out, graft_err *e)
{
    const graft_vision_arch *v = make_vision_arch(small, true);
    const int32_t hidden = small ? 64 : unet->context_dim > 768 ? 1280 : 768;
    graft_ip_adapter_arch a = {.kind = GRAFT_IP_ADAPTER_LINEAR,
                               .seen = v->projection,
                               .tokens = 4,
                               .width = unet->context_dim};
    graft_crossings c;
    graft_crossings_of(unet, &c);
    if (!c.n) return graft_fail(e, GRAFT_E_ARG, "this kind has no IP-Adapter");
    a.n_layers = c.n;
    memcpy(a.channels, c.channels, sizeof a.channels);
    if (strcmp(part, "ip-adapter-plus") == 0) {
        a.kind = GRAFT_IP_ADAPTER_RESAMPLER;
        a.seen = v->width;
        a.tokens = small ? 6 : 16;
        a.depth = small ? 1 : 4;
        a.hidden = a.inner = hidden;
        a.mlp = 4 * hidden;
    }
    *first = (make_vision_first){graft_ip_adapter_queries(&a), 3, {1, a.tokens, a.hidden}};
    return graft_ip_adapter_build(&a, graft_vision_tokens(v), GRAFT_F32, out, e);
}

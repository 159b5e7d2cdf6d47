#include "bench/make_vision.h"

#include "engine/models/redux.h"

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

/* What make_model.c writes for pictures as prompts. */
#ifndef GRAFT_BENCH_MAKE_VISION_H
#define GRAFT_BENCH_MAKE_VISION_H
#include "engine/models/encoders/vision.h"
#include "engine/models/parts/attended.h"

/* SigLIP so400m, or a small encoder of its kind; with clip ViT-H, or a small one. */
const graft_vision_arch *make_vision_arch(bool small, bool clip);
/* Redux for SigLIP's tokens, which makes tokens of this width. */
graft_status make_redux_graph(bool small, int32_t width, graft_graph **out, graft_err *e);
/* A tensor that is no weight of the graph. */
typedef struct make_vision_first {
    const char *name; /* NULL: there is none */
    int rank;
    int64_t dim[3];
} make_vision_first;
/* An IP-Adapter for this UNet and what make_vision_arch() gives with clip, as the published ones
 * are; part "ip-adapter-plus": one that resamples. */
graft_status make_ip_adapter_graph(bool small, const char *part, const graft_unet_arch *unet,
                                   make_vision_first *first, graft_graph **out, graft_err *e);
#endif

/* A layer of CLIP's transformers (Radford et al. 2021, arXiv:2103.00020), which text encoders and
 * vision encoders share: norm and attention, norm and MLP, each added to what went in. */
#ifndef GRAFT_MODELS_LAYER_H
#define GRAFT_MODELS_LAYER_H
#include "engine/models/parts/arch.h"
#include "engine/models/parts/build.h"

typedef struct graft_layers {
    graft_text_layout layout;
    const char *part; /* what names begin with: "text_model.", "visual." */
    int32_t width, heads, intermediate;
    graft_act act;
    float eps; /* of norms */
    bool causal;
} graft_layers;

/* Layer i on x (N,T,width). */
graft_vid graft_layer_build(const graft_build *b, const graft_layers *l, int i, graft_vid x);
#endif

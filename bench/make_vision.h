/* What make_model.c writes for pictures as prompts. */
#ifndef GRAFT_BENCH_MAKE_VISION_H
#define GRAFT_BENCH_MAKE_VISION_H
#include "engine/models/vision.h"

/* SigLIP so400m, or a small encoder of its kind; with clip ViT-H, or a small one. */
const graft_vision_arch *make_vision_arch(bool small, bool clip);
/* Redux for SigLIP's tokens, which makes tokens of this width. */
graft_status make_redux_graph(bool small, int32_t width, graft_graph **out, graft_err *e);
#endif

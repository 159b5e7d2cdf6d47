/* Features made smaller or larger within a graph. */
#ifndef GRAFT_MODELS_RESIZE_H
#define GRAFT_MODELS_RESIZE_H
#include "engine/image/resize.h"
#include "engine/models/parts/build.h"

/* x (N,H,W,C) -> (N,height,width,C) by one of the methods whose results are sums of fixed shares of
 * the pixels: all but Lanczos, which is for pictures, and bislerp, which turns vectors. The shares
 * of engine/image/resize.h stand in the graph as two matrices, each axis being a linear layer; an
 * axis that stays as long is left alone. They are float32, so that there is one rounding to x's
 * dtype. A size below 1 or another method fails the graph. */
graft_vid graft_build_resize(const graft_build *b, graft_vid x, int64_t height, int64_t width,
                             graft_resize_method method);
#endif

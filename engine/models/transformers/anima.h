/* Anima's transformer (CircleStone Labs with Comfy Org, 2026) as a graph: that of NVIDIA's
 * Cosmos-Predict2-2B-Text2Image (arXiv:2511.00062; diffusers' code of both is public under
 * Apache-2.0), with an adapter that makes the prompt (anima_adapter.h). A rectified flow whose
 * picture is one stream of tokens; each block attends to the picture, then to the prompt, then has
 * an MLP, and each of the three branches is told the time by two layers of its own, to which what
 * one layer of the whole network makes of it is added. Queries and keys are normed; those of the
 * picture carry its rows and columns as rotations, which were stretched for pictures four times as
 * high and wide as in the first training. */
#ifndef GRAFT_MODELS_ANIMA_H
#define GRAFT_MODELS_ANIMA_H
#include "engine/graph/graph.h"
#include "engine/models/encoders/anima_adapter.h"
#include "engine/models/parts/net_shape.h"

/* Inputs: x (N,channels,h,w), timesteps (N) of 0 to 1000, context (N,tokens,context_dim), y
 * (N,GRAFT_ANIMA_TOLD + 1), whose last number says how many of the tokens are the prompt's own,
 * behind which all are as if they were not there (anima_adapter.h has the others). Output:
 * (N,channels,h,w), of a flow as SD 3's have it. h and w are multiples of the patch. Of the shape
 * batch, height, width, tokens and act_dtype count; all else must be zero, or
 * GRAFT_E_UNSUPPORTED. So is float16, which the stream's values exceed. */
graft_status graft_anima_build(const graft_anima_arch *a, const graft_net_shape *shape,
                               graft_graph **out, graft_err *e);
#endif

/* ControlNets for Qwen-Image that run within the network (DiffSynth-Studio's
 * Qwen-Image-Blockwise-ControlNet-Canny, -Depth and -Inpaint, 2025; the authors' code is public
 * under Apache-2.0: qwen_image_controlnet.py, and its pipeline). Of the hint a linear layer makes
 * tokens y. To the latent's tokens x, as they are behind block i of the network, is added
 *
 *     strength output_proj(GELU(input_proj(x_rms(x) + y_rms(y))))
 *
 * by layers of its own for each block. Of several each sees x as the block left it. They see the
 * network's own tokens, so they are part of its graph, and it takes their weights and hints.
 *
 * The hint is a latent in the network's scale; the one for inpainting has a plane behind it: 1
 * where the picture is to stay, 0 where its mask is white; control_qwen_image.h has its graph.
 * Weights have the authors' names. */
#ifndef GRAFT_MODELS_CONTROL_BLOCKWISE_H
#define GRAFT_MODELS_CONTROL_BLOCKWISE_H
#include "engine/models/parts/control_residuals.h"
#include "engine/models/parts/net_shape.h"

/* All of its blocks, one after the other, into a new graph: for its weights' sake. */
void graft_control_blockwise(const graft_control_arch *a, const graft_control_shape *s,
                             const graft_build *b);

/* What names of the k-th in a network's graph begin with. */
graft_name graft_control_within_called(int k);
/* Those in a graph. */
typedef struct graft_control_within {
    int n;
    graft_vid hint[GRAFT_WITHIN_MOST], strength[GRAFT_WITHIN_MOST];
} graft_control_within;
/* Makes the inputs, of each first its hint's features (rows,hint_rows,columns,hidden), which repeat
 * after so many rows of the batch, then its strength (1) float32. */
void graft_control_within_take(graft_control_within *w, const graft_build *b, int n, int64_t batch,
                               const int64_t features[4]);
/* What all of them add behind block i, whose latent's tokens x (N,tokens,hidden) are; there is at
 * least one. */
graft_vid graft_control_within_block(const graft_control_within *w, const graft_build *b, int i,
                                     graft_vid x);
#endif

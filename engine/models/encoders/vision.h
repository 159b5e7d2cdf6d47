/* Vision transformers (Dosovitskiy et al. 2020, arXiv:2010.11929) as graphs: those of CLIP (Radford
 * et al. 2021, arXiv:2103.00020; OpenCLIP's ViT-H and ViT-bigG), in transformers' names or in
 * OpenCLIP's, and SigLIP's (Zhai et al. 2023, arXiv:2303.15343), in transformers'.
 *
 * A picture's squares are tokens. CLIP has one more before them, of the whole picture, and a norm
 * before its first layer; SigLIP has a bias on the squares instead. What SigLIP pools its tokens
 * with (head.*) is not read: whoever takes SigLIP's output takes its tokens. */
#ifndef GRAFT_MODELS_VISION_H
#define GRAFT_MODELS_VISION_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"

/* Inputs: pixels (1,size,size,3) float32, of CLIP also its first token (1,1,width) float32 from the
 * tensor that graft_vision_first() names. Outputs: the tokens (1,graft_vision_tokens(),width), of
 * CLIP as its last layer leaves them, of SigLIP behind its last norm; of CLIP alone
 * (1,graft_vision_pooled()): the first token, normed and projected. */
graft_status graft_vision_build(const graft_vision_arch *a, graft_dtype act_dtype,
                                graft_graph **out, graft_err *e);
static inline bool graft_vision_is_clip(const graft_vision_arch *a)
{
    return a->kind == GRAFT_VISION_CLIP;
}
/* The name of a tensor (width); NULL of SigLIP. Static. */
const char *graft_vision_first(const graft_vision_arch *a);
static inline int64_t graft_vision_tokens(const graft_vision_arch *a)
{
    return (int64_t)a->grid * a->grid + graft_vision_is_clip(a);
}
/* How many numbers go in. */
static inline int64_t graft_vision_values(const graft_vision_arch *a)
{
    return 3 * (int64_t)a->size * a->size;
}
/* Width of what stands for the whole picture; 0: there is nothing. */
static inline int64_t graft_vision_pooled(const graft_vision_arch *a)
{
    return !graft_vision_is_clip(a) ? 0 : a->projection ? a->projection : a->width;
}
#endif

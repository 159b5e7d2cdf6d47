/* Chroma's approximator (lodestones, 2025; ChromaTransformer2DModel of diffusers, public under
 * Apache-2.0) as part of a graph: a small network that makes of the timestep all vectors by which
 * FLUX.1's blocks are shifted, scaled and gated, and which takes the place of a layer in each of
 * them, of the pooled prompt and of the guidance scale.
 *
 * It sees each vector's number and the time as waves,
 *
 *     v = in_proj(waves(t), waves(0), waves(1000 k));  v += layer(norm(v)), layer by layer
 *
 * for vector k, and out_proj(v) is the vector. Those of the blocks of one stream stand first, three
 * each, then six for the picture's stream of each block of two, then six for the text's, and two of
 * the final layer. One thread at a time per graph; failures stay in the graph (graph.h). */
#ifndef GRAFT_MODELS_CHROMA_H
#define GRAFT_MODELS_CHROMA_H
#include "engine/models/parts/arch.h"
#include "engine/models/parts/build.h"

/* How many vectors a network of this shape has. */
int32_t graft_chroma_vectors(const graft_flux_arch *a);
/* Where those of a block, or of the final layer, begin. */
int32_t graft_chroma_of_single(int block);
int32_t graft_chroma_of_picture(const graft_flux_arch *a, int block);
int32_t graft_chroma_of_text(const graft_flux_arch *a, int block);
int32_t graft_chroma_of_final(const graft_flux_arch *a);
/* All of them, (N,vectors*hidden) float32, from timesteps (N) of 0 to 1000. */
graft_vid graft_chroma_build(const graft_build *b, const graft_flux_arch *a, graft_vid t);
#endif

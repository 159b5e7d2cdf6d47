/* The blocks of Qwen-Image's transformer, which its ControlNets have, too: the prompt's stream and
 * the pictures', each with weights of its own, and one attention (qwen_image.h). One thread at a
 * time per graph; failures stay in the graph (graph.h). */
#ifndef GRAFT_MODELS_QWEN_IMAGE_BLOCKS_H
#define GRAFT_MODELS_QWEN_IMAGE_BLOCKS_H
#include "engine/models/parts/net_shape.h"
#include "engine/models/parts/stream.h"

typedef struct graft_qwen_image_blocks {
    graft_build b;
    const graft_qwen_image_arch *a;
    graft_vid vec;       /* SiLU of what the network is conditioned on, (N,hidden) */
    graft_vid vec_clean; /* of that without noise, behind vec, (2N,hidden); or GRAFT_NO_VALUE */
    int64_t words;       /* tokens of the prompt, those that fill it up among them */
    graft_vid count;     /* how many tokens count: the pictures', then those of the prompt (N) */
    /* The latent's own, of which each layer has as much, then those of the references, in tokens.
     */
    graft_grid of[1 + GRAFT_REFERENCES];
    int n_pictures;
    int32_t layers;    /* of the latent, one behind the other; 0: as 1 */
    graft_grid middle; /* the most rows and columns that any has before its middle */
} graft_qwen_image_blocks;

/* The stream of all pictures' tokens. Where references are told of no noise they have norms and
 * gates of their own: they are `clean`, which else has no h. */
typedef struct graft_qwen_image_pictures {
    graft_stream own, clean;
} graft_qwen_image_pictures;

/* Sets `middle`, once all sizes are known. */
void graft_qwen_image_place(graft_qwen_image_blocks *m);
/* Tokens of a picture, of the latent those of all layers. */
int64_t graft_qwen_image_cells(const graft_qwen_image_blocks *m, int picture);
/* Block i. Behind the last nobody reads prompt and references: the prompt's layers there are named
 * and not computed, and of the pictures the latent's own remains. */
void graft_qwen_image_block(const graft_qwen_image_blocks *m, int i, graft_stream *text,
                            graft_qwen_image_pictures *p);
/* What timesteps (N) of 0 to 1000 make of vec. */
graft_vid graft_qwen_image_conditioned(const graft_qwen_image_blocks *m, graft_vid t);
/* m->count, from y (N,1). */
graft_vid graft_qwen_image_count(const graft_qwen_image_blocks *m, graft_vid y);
/* A prompt (N,words,context_dim) as the stream begins with it. */
graft_vid graft_qwen_image_prompt(const graft_qwen_image_blocks *m, graft_vid context);
#endif

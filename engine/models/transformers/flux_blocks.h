/* What FLUX.1's transformer and its ControlNets are made of (flux.c, control_flux.c). One thread at
 * a time per graph; failures stay in the graph (graph.h). */
#ifndef GRAFT_MODELS_FLUX_BLOCKS_H
#define GRAFT_MODELS_FLUX_BLOCKS_H
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"
#include "engine/models/parts/stream.h"

/* Tokens of a picture: a grid, and its place among others. */
typedef struct graft_flux_picture {
    int32_t rows, columns, frame, top, left;
} graft_flux_picture;

typedef struct graft_flux_blocks {
    graft_build b;
    const graft_flux_arch *a;
    bool untold; /* no guidance scale, though it knows one */
    /* SiLU of what the network is conditioned on, (N,hidden); or all vectors (chroma.h). */
    graft_vid vec;
    /* The latent's own, then those of the references, in one row. */
    graft_flux_picture of[1 + GRAFT_REFERENCES];
    int n_pictures;
    int64_t words; /* of the prompt that have places, ahead of all pictures; 0: none has */
    /* Where the prompt's tokens are counted: how many they are, behind the pictures' so that those
     * which fill it up are the last, and how many of all count (stream.h); else 0. */
    int64_t behind;
    graft_vid count;
} graft_flux_blocks;

static inline int64_t graft_flux_cells(const graft_flux_picture *p)
{
    return (int64_t)p->rows * p->columns;
}

/* m->vec, from timesteps (N) and y (N,pooled_dim and more): the pooled prompt, then the guidance
 * scale where the network is told one, unless m->untold. With an approximator from t alone. */
graft_vid graft_flux_conditioned(const graft_flux_blocks *m, graft_vid t, graft_vid y);
/* `vectors` of the stream's width each: by a layer of this name from m->vec, or from number `first`
 * on those that the approximator gave. */
void graft_flux_modulate(const graft_flux_blocks *m, graft_stream *s, graft_name layer, int first,
                         int vectors);
/* Both streams as one. */
graft_vid graft_flux_joined(const graft_flux_blocks *m, graft_vid text, graft_vid picture);
/* Block i of two streams; of one. */
void graft_flux_double_block(const graft_flux_blocks *m, int i, graft_stream *text,
                             graft_stream *picture);
void graft_flux_single_block(const graft_flux_blocks *m, int i, graft_stream *s);
#endif

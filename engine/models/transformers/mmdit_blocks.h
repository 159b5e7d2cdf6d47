/* What Stable Diffusion 3's transformer and its ControlNets are made of (mmdit.c, control_mmdit.c).
 * One thread at a time per graph; failures stay in the graph (graph.h). */
#ifndef GRAFT_MODELS_MMDIT_BLOCKS_H
#define GRAFT_MODELS_MMDIT_BLOCKS_H
#include "engine/models/parts/arch.h"
#include "engine/models/parts/stream.h"

typedef struct graft_mmdit_blocks {
    graft_build b;
    const graft_mmdit_arch *a;
    graft_vid vec; /* SiLU of what the timestep and the pooled prompt give, (batch,hidden) */
    int64_t batch;
    /* Where the prompt's tokens are counted, which are the last of an attention then, how many of
     * all count (stream.h). */
    bool counts;
    graft_vid count;
} graft_mmdit_blocks;

/* m->vec, from timesteps (N) and y, which begins with the pooled prompt (N,pooled_dim). */
graft_vid graft_mmdit_conditioned(const graft_mmdit_blocks *m, graft_vid t, graft_vid y);
/* Squares of the latent (N,channels,h,w) as tokens, with their places. */
graft_vid graft_mmdit_patches(const graft_mmdit_blocks *m, graft_vid x, int64_t rows,
                              int64_t columns);
/* Block i. last: its text goes nowhere but into its attention. */
void graft_mmdit_block(const graft_mmdit_blocks *m, int i, bool last, graft_stream *text,
                       graft_stream *picture);
/* A block of the picture alone. */
void graft_mmdit_single_block(const graft_mmdit_blocks *m, int i, graft_stream *picture);
#endif

/* What Z-Image's transformer, Lumina-Image's and ControlNets are made of (zimage.c,
 * control_zimage.c). One thread at a time per graph; failures stay in the graph (graph.h). */
#ifndef GRAFT_MODELS_ZIMAGE_BLOCKS_H
#define GRAFT_MODELS_ZIMAGE_BLOCKS_H
#include "engine/models/parts/arch.h"
#include "engine/models/parts/stream.h"

typedef struct graft_zimage_blocks {
    graft_build b;
    const graft_zimage_arch *a;
    graft_vid told;        /* the time, (N,told) */
    graft_vid own;         /* Lumina-Image: how many of the prompt's tokens count (N,1) */
    int64_t words;         /* tokens of the prompt */
    int32_t rows, columns; /* of the picture's tokens */
} graft_zimage_blocks;

/* Tokens of a stream, in this order: the prompt's, the picture's, and those that fill it up. Of
 * Lumina-Image the picture's, then the prompt's from the last to the first, and those that do not
 * count. */
typedef struct graft_zimage_sequence {
    graft_stream s; /* shifts: the gates' tanh stands there, since nothing is shifted */
    bool words, picture, told;
} graft_zimage_sequence;

static inline bool graft_zimage_of_lumina2(const graft_zimage_blocks *m)
{
    return m->a->key_heads > 0;
}
/* The picture's tokens, and those that fill it up. */
int64_t graft_zimage_cells(const graft_zimage_blocks *m);
int64_t graft_zimage_filling(const graft_zimage_blocks *m);
/* m->told, from timesteps (N). */
graft_vid graft_zimage_time(const graft_zimage_blocks *m, graft_vid t);
/* Block i of this list: "layers". */
void graft_zimage_block(const graft_zimage_blocks *m, const char *list, int i,
                        graft_zimage_sequence *q);
/* The prompt's tokens, through their own blocks, from context and y as the network takes them; of
 * Lumina-Image m->own is y. */
void graft_zimage_prompt(const graft_zimage_blocks *m, graft_vid context, graft_vid y,
                         graft_zimage_sequence *q);
/* The latent's tokens and those that fill them up, before any block. `like`: any (N,tokens,hidden)
 * of one block of tokens or more, which lends its shape. */
graft_vid graft_zimage_picture(const graft_zimage_blocks *m, graft_vid x, graft_vid like);
/* (N,cells,hidden) with what fills it up behind it. */
graft_vid graft_zimage_filled(const graft_zimage_blocks *m, graft_vid v, graft_vid like);
#endif

/* Lists of layers, by their names here and in files made with diffusers. Any thread. */
#ifndef GRAFT_MODELS_DIFFUSERS_LAYERS_H
#define GRAFT_MODELS_DIFFUSERS_LAYERS_H
#include "engine/models/parts/build.h"

/* Layers that are one of a transformer's, by its rows from the first on: queries, keys and values
 * are layers of their own there. */
#define GRAFT_DIFFUSERS_PIECES 4
typedef struct graft_diffusers_rows {
    graft_name name[GRAFT_DIFFUSERS_PIECES];
    int32_t rows[GRAFT_DIFFUSERS_PIECES]; /* 0: pieces are of equal size */
    int pieces;
    bool exchanged; /* of the only piece: the halves of its rows stand in the other order */
    int half;       /* of the only piece: 1, 2: the layer is this half of its rows; 0: all */
} graft_diffusers_rows;

typedef struct graft_diffusers_pair {
    const char *ours, *theirs; /* a layer, without ".weight" */
} graft_diffusers_pair;

/* Of a UNet: what is in no block, and in a residual block. End with {NULL, NULL}. */
extern const graft_diffusers_pair graft_diffusers_single[], graft_diffusers_residual[];

/* A layer of a transformer's block, and the layers there whose rows it has, in order; a norm has
 * one vector. Lists end with a NULL. */
typedef struct graft_diffusers_block_layer {
    const char *ours, *theirs[GRAFT_DIFFUSERS_PIECES];
    bool norm;
} graft_diffusers_block_layer;
/* What the layer of this name is made of, where it is in the list; *out is zeroed before. */
bool graft_diffusers_rows_alone(const graft_diffusers_pair *list, const char *name,
                                graft_diffusers_rows *out);
/* Of a block whose layers' names begin with `blocks` and its number there. */
bool graft_diffusers_rows_in_block(const graft_diffusers_block_layer *list, const char *blocks,
                                   int block, const char *layer, graft_diffusers_rows *out);
#endif

/* What a union ControlNet has beside others (xinsir 2024, github.com/xinsir6/ControlNetPlus;
 * ControlNetUnionModel in diffusers): it follows several types of pictures, and is told of which
 * type its hint is by a vector t, with 1 at the type's place and 0 elsewhere.
 *
 *   hint += spatial_ch_projs(transformer_layes(mean(hint) + t task_embedding))
 *   time embedding += control_add_embedding(s(t[0]), s(t[1]), …)
 *
 * The mean is over the pixels of the hint's features, s as timesteps are embedded. One that is not
 * told (t and `told` 0) does without both, and still follows its hint, whatever that shows.
 *
 * The transformer's attention is PyTorch's with the batch in the place of the sequence: the authors
 * have it look from one picture of a batch to the others. All of them have the same hint there, so
 * that it gives each its own value; here each picture sees itself alone in any case, and the
 * queries and keys have no effect. Nor has the second token, the latent's, that the authors put
 * beside the hint's.
 *
 * These parts have the same names in files of either naming. One thread at a time per graph. */
#ifndef GRAFT_MODELS_CONTROL_UNION_H
#define GRAFT_MODELS_CONTROL_UNION_H
#include "engine/models/unets/unet_blocks.h"

#define GRAFT_CONTROL_TYPES 8 /* at most */

/* The type as a graph's input: t (types) and whether it is told (1), both float32. */
typedef struct graft_control_union_type {
    graft_vid t, told;
} graft_control_union_type;
graft_control_union_type graft_control_union_input(const graft_control_arch *a, graft_graph *g);

/* What is added to the hint's features (N,H,W,C), as (N,1,1,C). */
graft_vid graft_control_union_shift(const graft_build *b, const graft_control_arch *a,
                                    graft_control_union_type type, graft_vid hint);
/* What is added to the time embedding, as (1,time_dim). */
graft_vid graft_control_union_embedding(const graft_unet_blocks *u, const graft_control_arch *a,
                                        graft_control_union_type type);
/* Whether a weight of this name, without prefix, belongs to these parts. */
bool graft_control_union_has(const char *name);
#endif

/* The UNet's blocks, for the graphs that are put together from them: the UNet itself and
 * ControlNets, which are copies of its first half. One thread at a time per graph; failures stay in
 * the graph (graph.h). */
#ifndef GRAFT_MODELS_UNET_BLOCKS_H
#define GRAFT_MODELS_UNET_BLOCKS_H
#include "engine/models/parts/arch.h"
#include "engine/models/parts/attended.h"
#include "engine/models/parts/build.h"
#include "engine/models/parts/net_shape.h"

/* Rows of a value. Prompts of one latent have the same x, and up to the first cross-attention
 * nothing tells their rows apart: so many are computed once. The middle block's self-attention is
 * computed a second time, perturbed, for the first `perturbed` rows (the positive prompts' of PAG),
 * and all that follows has both. With 2 prompts on 3 pictures, 3 of these 6 rows perturbed:
 *
 *     up to the first cross-attention     3          the pictures, x of both prompts
 *     from there on                       6 = N      prompt 1: pictures 1 2 3, prompt 2: 1 2 3
 *     from the perturbed attention on     6 + 3      these, then prompt 1's once more, perturbed
 *
 * A fast graph of DeepCache begins behind the middle block: its stored feature has 9 rows, and
 * graft_unet_part() says so before its first block. */
typedef struct graft_unet_blocks {
    graft_build b;
    const graft_unet_arch *a;
    graft_vid emb;     /* (N,time_dim), SiLU applied */
    graft_vid context; /* (N,tokens,context_dim) */
    int64_t batch;     /* N */
    /* The first so many rows that the middle block computes a second time, perturbed; whether it is
     * at that; and whether it has begun: from there on values have those rows, too, after the N. */
    int64_t perturbed;
    bool perturbing, apart;
    /* The rows that self-attention guidance looks at; whether the next attention is the one; then
     * its queries and keys (N or fewer,T,C). */
    struct graft_unet_watched {
        int64_t from, rows;
        bool next;
        graft_vid q, k;
    } watched;
    /* What cross-attentions attend to beside the context; without tokens nothing, as in
     * ControlNets. */
    struct graft_unet_attended {
        graft_vid values; /* the graph's input (attended.h), of act_dtype */
        graft_attended_shape shape;
        graft_crossings crossings;
        int32_t next;    /* cross-attention */
        graft_vid masks; /* where shape.masked says so: the graph's input, of act_dtype */
        int64_t cells[GRAFT_CROSSING_BLOCKS], all_cells; /* of each block's mask those before it */
        graft_vid mask[GRAFT_ATTENDED];                  /* the present block's, (N,h*w,1) */
        int32_t block;                                   /* its number among those that have some */
    } attended;
    graft_vid boxes; /* (N,GRAFT_GLIGEN_TOKENS,width) of act_dtype, or GRAFT_NO_VALUE */
    /* A hypernetwork, whose strength is the graph's input; NULL: none. What it last made of the
     * context, for all that attend to it. */
    struct graft_unet_hyper {
        const graft_hypernetwork_arch *arch;
        graft_vid strength, context, made[GRAFT_HYPER_PARTS];
    } hyper;
    /* Tokens that self-attention sees merged (net_shape.h). */
    struct graft_unet_merging {
        int32_t merged;        /* in millionths; 0, as in ControlNets: none */
        int32_t block;         /* the present one among all, or -1: the middle one */
        int32_t pattern;       /* the present transformer block's */
        int64_t rows, columns; /* of what its attention sees; 0: it merges none */
    } merging;
    /* Of each level, GRAFT_GRIDS of them (net_shape.h); NULL: no tiles. */
    const graft_grid *grid;
    int level; /* that the next block works on; moved by down-sampling and by doubling the size */
} graft_unet_blocks;

/* All rows of a value that has only the first of what repeats, or N where there are more. */
graft_vid graft_unet_wide(const graft_unet_blocks *u, graft_vid v);
/* From here on values have the perturbed rows, too: emb and context among them. */
void graft_unet_part(graft_unet_blocks *u);
/* timesteps (N), y (N,adm) or GRAFT_NO_VALUE, more (1,time_dim) to be added or GRAFT_NO_VALUE ->
 * what u->emb holds. */
graft_vid graft_unet_time_embedding(graft_unet_blocks *u, graft_vid timesteps, graft_vid y,
                                    graft_vid more);
/* The two layers, with a SiLU between them, that every embedding goes through: x (N,any) ->
 * (N,time_dim). */
graft_vid graft_unet_embedding(const graft_unet_blocks *u, graft_name first, graft_name second,
                               graft_vid x);
/* h (rows,H,W,C), rows N or fewer until the first cross-attention. */
graft_vid graft_unet_input_block(graft_unet_blocks *u, int i, graft_vid h);
/* h itself where the model has no middle. */
graft_vid graft_unet_middle_block(graft_unet_blocks *u, graft_vid h);
/* `size_of`: the value whose height and width the block must end with when it doubles its size. */
graft_vid graft_unet_output_block(graft_unet_blocks *u, int i, graft_vid h, graft_vid size_of);
/* How many of the tokens of a grid are merged. */
int32_t graft_unet_merged_of(int64_t rows, int64_t columns, int32_t merged);
#endif

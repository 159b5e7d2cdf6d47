/* What the graph of a denoising network is built for, whichever network it is: sizes, what of it is
 * computed, and what it takes beside the latent. */
#ifndef GRAFT_MODELS_NET_SHAPE_H
#define GRAFT_MODELS_NET_SHAPE_H
#include "engine/graph/graph.h"
#include "engine/models/parts/attended.h"
#include "engine/models/parts/gligen.h"
#include "engine/models/parts/hypernetwork.h"
#include "engine/models/parts/steered.h"

/* DeepCache (Ma et al. 2023, arXiv:2312.00858) cuts the UNet below input block `cut`: what enters
 * the output block that is joined with that block's skip connection is the deep feature. */
typedef enum graft_variant {
    GRAFT_WHOLE = 0,
    GRAFT_STORE = 1, /* the whole UNet, and the feature as a second output */
    GRAFT_FAST = 2   /* input blocks 0 … cut, then the output blocks after the feature */
} graft_variant;

/* HyperTile (hypertile.h): self-attention of a resolution level sees tiles of the picture, rows x
 * columns of them, all of one size. Both 0: the whole picture. */
#define GRAFT_GRIDS 8 /* levels that may have one */
typedef struct graft_grid {
    int32_t rows, columns;
} graft_grid;
/* FreeU (Si et al. 2023, arXiv:2309.11497): before an output block joins the features so far, h,
 * with their skip connection, both are scaled. Where h has 4 * model_channels channels b1 and s1
 * count, where it has 2 * model_channels b2 and s2, elsewhere nothing is done.
 *
 * The first half of h's channels counts b, or in the second version 1 + (b - 1) m, where m is the
 * mean of h's channels at a pixel, stretched to 0..1 over each picture; 0 where it is the same
 * everywhere. Of the skip connection, a ControlNet's residual included, the frequencies 0 and -1
 * along each axis count s. Both are operators' work: MEAN_SCALE and LOW_SCALE in kernels/ops.def,
 * which has the formulas. */
typedef enum graft_freeu_version {
    GRAFT_FREEU_OFF = 0,
    GRAFT_FREEU_V1 = 1,
    GRAFT_FREEU_V2 = 2
} graft_freeu_version;
enum { GRAFT_FREEU_B1, GRAFT_FREEU_B2, GRAFT_FREEU_S1, GRAFT_FREEU_S2, GRAFT_FREEU_FACTORS };

/* Token merging (Bolya and Hoffman 2023, arXiv:2303.17604; the authors' code: dbolya/tomesd): of
 * the tokens that a self-attention of the outermost level is about to see, those that are most like
 * another one are merged with it, and get its result. Which ones is told by what comes out of the
 * norm, for each row by itself: MATCH_TOKENS in kernels/ops.def, which has the rule. Of T tokens
 * floor(T merged / 1000000) are merged, or all that may be, about three quarters; with tiles, of
 * each tile's. Which token of four the others may go to follows from its place and the number of
 * the transformer block, so that it is another one in each. The middle block, which is of that
 * level where there is no other, merges none. */
#define GRAFT_MERGED_UNIT 1000000

/* Deep Shrink (kohya-ss 2023): what comes out of input block `block` is resized to 1000 /
 * thousandths of its height and width, rounded and at least 1, so that the blocks behind it see a
 * smaller picture. Skip connections keep the size that they have; where an output block's
 * features have another one than the skip connection that they are joined with, they are resized to
 * that, and to the latent's at the end. An output block that ends by doubling the size doubles that
 * of its own features. */
typedef struct graft_shrink {
    int32_t block;       /* 1 … n_input - 1; 0: off, and all others 0 */
    int32_t before_skip; /* 1: this block's skip connection is smaller, too */
    int32_t thousandths; /* of the factor */
    int32_t down, up;    /* methods of graft_build_resize() */
} graft_shrink;

/* Pictures that FLUX's, Qwen-Image's and OmniGen2's transformers see as tokens of their own, behind
 * those of the latent (FLUX.1 Kontext: Black Forest Labs 2025, arXiv:2506.15742; FLUX.2;
 * Qwen-Image-Edit). Each is a latent of any size, and stands where graft_placing says
 * (conditioning.h), with FLUX.2, Qwen-Image and OmniGen2 where flux2.h, qwen_image.h and omnigen2.h
 * do. Qwen-Image 2.1 has them among the prompt's
 * tokens.
 *
 * Qwen-Image-Layered makes several pictures at once, which see each other: the layers of one latent
 * (N,C,layers,h,w), which is for all else one that is as many times as high (N,C,layers h,w). */
#define GRAFT_REFERENCES 8
typedef struct graft_references {
    int32_t n, placing; /* graft_placing; 0 without references */
    /* Height and width of each, by which it is placed; those from n on are zeros. In x either is
     * padded to a multiple of the patch. */
    graft_grid of[GRAFT_REFERENCES];
    /* Qwen-Image 2.1's: how many of the prompt's tokens stand before each; else zeros. */
    int32_t within[GRAFT_REFERENCES];
    int32_t layers; /* of the latent that they stand beside, 2 or more; 0: it is no stack */
} graft_references;
#define GRAFT_LAYERS_MOST 256
/* How many these are, where 0 says that a latent is no stack. */
static inline int64_t graft_layers_of(int64_t layers)
{
    return layers > 1 ? layers : 1;
}
static inline int64_t graft_reference_side(int64_t cells, int64_t patch)
{
    return (cells + patch - 1) / patch * patch;
}
static inline int64_t graft_references_cells(const graft_references *r, int64_t patch)
{
    int64_t cells = 0;
    for (int32_t i = 0; i < r->n; i++)
        cells += graft_reference_side(r->of[i].rows, patch) *
                 graft_reference_side(r->of[i].columns, patch);
    return cells;
}

/* Perturbed-attention guidance (Ahn et al. 2024, arXiv:2403.17377): some rows are computed a second
 * time with the self-attention of the middle block replaced by the identity, so that every token
 * gets its own value. Up to there both are the same and computed once.
 *
 * Self-attention guidance (Hong et al. 2022, arXiv:2210.00939) looks at the same place: of some
 * rows the queries and keys of the middle block's first self-attention are outputs. */
typedef struct graft_net_shape {
    int64_t batch, height, width;  /* of the latent, of layers the height of all together */
    int64_t perturbed;             /* the first so many rows once more, after all others; 0: none */
    int64_t watched_from, watched; /* so many rows are looked at, from this one on; 0: none */
    uint64_t skip; /* of a transformer: the blocks, a bit each, that perturbed rows leave out; where
                      there are none of these, all rows */
    int64_t tokens;        /* of the context */
    graft_dtype act_dtype; /* of activations; inputs and output are float32 */
    int32_t variant, cut;  /* cut: 0 with WHOLE */
    int32_t control;       /* 1: takes the residuals of ControlNets */
    graft_steered steered; /* of a transformer with control; else zeros */
    int32_t freeu;         /* a graft_freeu_version */
    /* Of each level, 0 the outermost; rows and columns must divide its height and width. */
    graft_grid grid[GRAFT_GRIDS];
    int32_t merged; /* of the outermost level's tokens, in millionths; 0: none, as with shrink */
    graft_shrink shrink;           /* with WHOLE, without control, adapted and grids */
    graft_references references;   /* of those that see some only; n 0: none; and layers */
    graft_attended_shape attended; /* of pictures beside the prompt; UNets only */
    int32_t boxes; /* of a UNet with GLIGEN's parts (gligen.h): the width of a token; 0: without */
    int32_t adapted; /* takes so many features of T2I-Adapters, all of a whole UNet's; 0: none */
    graft_hypernetwork_arch hyper; /* UNets only */
    int32_t untold; /* 1: those that are told a guidance scale do without, whatever is in y */
    /* Qwen-Image's only: so many ControlNets run within it (control_blockwise.h), at most
     * GRAFT_WITHIN_MOST, whose hints have so many rows, of which the batch is a multiple. */
    int32_t within;
    int64_t within_rows;
} graft_net_shape;
#define GRAFT_WITHIN_MOST 8
#endif

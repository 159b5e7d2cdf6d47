/* The UNet of Stable Diffusion 1.x, 2.x and XL (Rombach et al. 2022, arXiv:2112.10752; Podell et
 * al. 2023, arXiv:2307.01952) as a graph. */
#ifndef GRAFT_MODELS_UNET_H
#define GRAFT_MODELS_UNET_H
#include "engine/graph/graph.h"
#include "engine/models/arch.h"
#include "engine/models/attended.h"
#include "engine/models/hypernetwork.h"
#include "engine/models/steered.h"

/* DeepCache (Ma et al. 2023, arXiv:2312.00858) cuts the UNet below input block `cut`: what enters
 * the output block that is joined with that block's skip connection is the deep feature. */
typedef enum graft_unet_variant {
    GRAFT_UNET_WHOLE = 0,
    GRAFT_UNET_STORE = 1, /* the whole UNet, and the feature as a second output */
    GRAFT_UNET_FAST = 2   /* input blocks 0 … cut, then the output blocks after the feature */
} graft_unet_variant;

/* HyperTile (hypertile.h): self-attention of a resolution level sees tiles of the picture, rows x
 * columns of them, all of one size. Both 0: the whole picture. */
#define GRAFT_UNET_GRIDS 8 /* levels that may have one */
typedef struct graft_unet_grid {
    int32_t rows, columns;
} graft_unet_grid;
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
#define GRAFT_UNET_MERGED_UNIT 1000000

/* Deep Shrink (kohya-ss 2023): what comes out of input block `block` is resized to 1000 /
 * thousandths of its height and width, rounded and at least 1, so that the blocks behind it see a
 * smaller picture. Skip connections keep the size that they have; where an output block's
 * features have another one than the skip connection that they are joined with, they are resized to
 * that, and to the latent's at the end. An output block that ends by doubling the size doubles that
 * of its own features. */
typedef struct graft_unet_shrink {
    int32_t block;       /* 1 … n_input - 1; 0: off, and all others 0 */
    int32_t before_skip; /* 1: this block's skip connection is smaller, too */
    int32_t thousandths; /* of the factor */
    int32_t down, up;    /* methods of graft_build_resize() */
} graft_unet_shrink;

/* Pictures that FLUX's and Qwen-Image's transformers see as tokens of their own, behind those of
 * the latent (FLUX.1 Kontext: Black Forest Labs 2025, arXiv:2506.15742; FLUX.2; Qwen-Image-Edit).
 * Each is a latent of any size, and stands where graft_placing says (conditioning.h), with FLUX.2
 * and Qwen-Image where flux2.h and qwen_image.h do. Qwen-Image 2.1 has them among the prompt's
 * tokens. */
#define GRAFT_REFERENCES 8
typedef struct graft_references {
    int32_t n, placing; /* graft_placing; 0 without references */
    /* Height and width of each, by which it is placed; those from n on are zeros. In x either is
     * padded to a multiple of the patch. */
    graft_unet_grid of[GRAFT_REFERENCES];
    /* Qwen-Image 2.1's: how many of the prompt's tokens stand before each; else zeros. */
    int32_t within[GRAFT_REFERENCES];
} graft_references;
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
typedef struct graft_unet_shape {
    int64_t batch, height, width;  /* of the latent */
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
    graft_unet_grid grid[GRAFT_UNET_GRIDS];
    int32_t merged; /* of the outermost level's tokens, in millionths; 0: none, as with shrink */
    graft_unet_shrink shrink;      /* with WHOLE, without control, adapted and grids */
    graft_references references;   /* FLUX's and both Qwen-Images' only; n 0: none */
    graft_attended_shape attended; /* of pictures beside the prompt; UNets only */
    int32_t adapted; /* takes so many features of T2I-Adapters, all of a whole UNet's; 0: none */
    graft_hypernetwork_arch hyper; /* UNets only */
    int32_t untold; /* 1: those that are told a guidance scale do without, whatever is in y */
    /* Qwen-Image's only: so many ControlNets run within it (control_blockwise.h), at most
     * GRAFT_WITHIN_MOST, whose hints have so many rows, of which the batch is a multiple. */
    int32_t within;
    int64_t within_rows;
} graft_unet_shape;
#define GRAFT_WITHIN_MOST 8

/* Inputs: x (N,in,h,w), timesteps (N), context (N,tokens,context_dim), y (N,adm) if the model takes
 * one, the feature if FAST, the residuals if control, T2I-Adapters' features if adapted, pictures'
 * keys and values where there are any (attended.h: those of all cross-attentions, whatever the
 * variant), and their masks, a hypernetwork's
 * strength (1) as float32 if there is one, FreeU's factors (GRAFT_FREEU_FACTORS, in their order) as
 * float32 if graft_unet_freeu(). Output: (N + perturbed,out,h,w), the feature if STORE, the
 * queries, then the keys of watched rows, (watched, T,C) float32 with heads side by side, T in the
 * picture's order whatever tiles there are. Feature (N + perturbed,H,W,C) and residuals (N,H,W,C)
 * are of act_dtype. Residual i is added to what input block i gives to the output blocks, the last
 * to the middle block's output (controlnet.h); a FAST graph takes those of its own input blocks
 * only. */
graft_status graft_unet_build(const graft_unet_arch *a, const graft_unet_shape *shape,
                              graft_graph **out, graft_err *e);
/* The same where x and timesteps repeat after so many rows, as they do when one latent is denoised
 * with several conditionings: up to the first cross-attention all is computed once for all of them.
 * Only the first `pictures` rows of x are read then. A model with y gets nothing from it: y is each
 * row's own and goes into every block. */
graft_status graft_unet_build_guided(const graft_unet_arch *a, const graft_unet_shape *shape,
                                     int64_t pictures, graft_graph **out, graft_err *e);
/* The feature's shape, its batch included. */
void graft_unet_feature_shape(const graft_unet_arch *a, const graft_unet_shape *shape,
                              int64_t dim[4]);
/* How many residuals a graph of this shape takes: 0 without control, else at most n_input + 1. */
#define GRAFT_UNET_RESIDUALS (GRAFT_MAX_BLOCKS + 1)
int graft_unet_residuals(const graft_unet_arch *a, const graft_unet_shape *shape);
/* Residual i's shape, its batch included. */
void graft_unet_residual_shape(const graft_unet_arch *a, const graft_unet_shape *shape, int i,
                               int64_t dim[4]);
/* Height and width of each block that has cross-attentions, in the order of graft_crossings.
 * Returns how many there are. */
#define GRAFT_UNET_SIDES (2 * GRAFT_MAX_BLOCKS + 1)
int graft_unet_sides(const graft_unet_arch *a, const graft_unet_shape *shape,
                     int64_t side[GRAFT_UNET_SIDES][2]);
/* Where T2I-Adapters' features (t2i_adapter.h) are added, in their order: behind input block
 * place[k], before it goes on and to the output blocks; n_input: behind the middle block, before
 * ControlNets' residual. Each level has a place: the last block that has a transformer, or where
 * the level's last block has none its down-sampling; the middle has the last one, which SD 1.x's
 * adapters leave alone. Returns how many places there are. */
#define GRAFT_UNET_PLACES (GRAFT_MAX_BLOCKS + 1)
int graft_unet_places(const graft_unet_arch *a, int32_t place[GRAFT_UNET_PLACES]);
/* How many features a graph of this shape takes: shape->adapted, or of a FAST one the first of them
 * that are behind its own input blocks. Feature k has the shape (N,H,W,C) of residual place[k], and
 * act_dtype. */
int graft_unet_features(const graft_unet_arch *a, const graft_unet_shape *shape);
/* Whether a graph of this shape does anything for FreeU: one of its output blocks gets features of
 * a width that counts. Only then does it take the factors. */
bool graft_unet_freeu(const graft_unet_arch *a, const graft_unet_shape *shape);
/* `merged` where a graph of this shape, whose own is not looked at, would merge any, else 0. */
int32_t graft_unet_merged(const graft_unet_arch *a, const graft_unet_shape *shape, int32_t merged);
/* How many of the tokens of a grid are merged. */
int32_t graft_unet_merged_of(int64_t rows, int64_t columns, int32_t merged);
/* Whether the middle block has an attention to perturb, or to look at; without one a graph of
 * perturbed or watched rows is GRAFT_E_ARG, as is one of watched rows that is FAST. */
bool graft_unet_perturbs(const graft_unet_arch *a);
/* Height and width, in tokens, that the middle block's transformer sees, and its heads. */
typedef struct graft_unet_middle {
    int64_t height, width;
    int32_t channels, heads;
} graft_unet_middle;
/* False where it has none. */
bool graft_unet_middle_of(const graft_unet_arch *a, const graft_unet_shape *shape,
                          graft_unet_middle *out);
/* The cut for a block of a resolution level, both from 0 and the outermost; a down-sampling block
 * is the last of its level, the first convolution (cut 0) belongs to none. GRAFT_E_ARG states the
 * range. */
graft_status graft_unet_cut(const graft_unet_arch *a, int64_t level, int64_t block, int32_t *cut,
                            graft_err *e);
#endif

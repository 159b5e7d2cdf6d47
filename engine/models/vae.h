/* AutoencoderKL, the VAE of Stable Diffusion (Rombach et al. 2022, arXiv:2112.10752) as graphs, and
 * its small relatives (taesd.h, taehv.h) through the same functions.
 *
 * Each half of it, decoder and encoder, is a row of units with one tensor in and one out. A part is
 * a run of units that is compiled by itself: engine/pictures/strips.h runs parts over strips of a
 * picture that does not fit into memory as a whole. */
#ifndef GRAFT_MODELS_VAE_H
#define GRAFT_MODELS_VAE_H
#include "engine/graph/graph.h"
#include "engine/models/arch.h"

/* TAESD, or TAEHV: pictures of 0..1, and latents that taesd.h's clamp is for. */
static inline bool graft_vae_is_tiny(const graft_vae_arch *a)
{
    return a->kind == GRAFT_VAE_TINY || a->kind == GRAFT_VAE_TAEHV;
}

/* A picture's pixels a side in a cell, which is what the halves see: 2 for each level but one. */
static inline int64_t graft_vae_factor(const graft_vae_arch *a)
{
    return (int64_t)1 << (a->levels - 1);
}

/* Cells a side in a place of the latents that travel between nodes. */
static inline int64_t graft_vae_fold(const graft_vae_arch *a)
{
    return a->fold ? a->fold : 1;
}

/* A picture's pixels a side in such a place, and its planes. */
static inline int64_t graft_vae_scale(const graft_vae_arch *a)
{
    return graft_vae_factor(a) * graft_vae_fold(a);
}
static inline int64_t graft_vae_planes(const graft_vae_arch *a)
{
    return a->embed_dim * graft_vae_fold(a) * graft_vae_fold(a);
}

/* Channels that the encoder gives. */
static inline int64_t graft_vae_moments(const graft_vae_arch *a)
{
    return graft_vae_is_tiny(a) ? a->embed_dim : 2 * (int64_t)a->embed_dim;
}

/* Input: latent (N,z,h,w), already divided by the scale factor. Output: (N,h*f,w*f,out_channels),
 * about -1..1. Of a TAESD what taesd.h says, of a TAEHV what taehv.h says. */
graft_status graft_vae_decoder_build(const graft_vae_arch *a, int64_t batch, int64_t height,
                                     int64_t width, graft_dtype act_dtype, graft_graph **out,
                                     graft_err *e);
/* Input: picture (N,h,w,in_channels), -1..1; h and w multiples of the factor. Output: moments
 * (N,2z,h/f,w/f): means, then log variances. */
graft_status graft_vae_encoder_build(const graft_vae_arch *a, int64_t batch, int64_t height,
                                     int64_t width, graft_dtype act_dtype, graft_graph **out,
                                     graft_err *e);

typedef enum graft_vae_unit_kind {
    GRAFT_VAE_HEAD,   /* decoder: latent to features; attends over all pixels */
    GRAFT_VAE_STEM,   /* encoder: picture to features */
    GRAFT_VAE_RES,    /* two 3x3 convolutions, a group norm before each */
    GRAFT_VAE_UP,     /* doubles height and width, then a 3x3 convolution */
    GRAFT_VAE_DOWN,   /* halves height and width: 3x3, stride 2, padded below and on the right */
    GRAFT_VAE_FINISH, /* decoder: features to picture; a group norm, then a 3x3 convolution */
    GRAFT_VAE_TAIL,   /* encoder: features to moments; attends over all pixels */
    /* Of a TAESD or a TAEHV, whose HEAD and TAIL do not attend, but run in one piece all the same:
     * they lie at the latent, whose channels are apart. Their DOWN is padded on all sides. */
    GRAFT_VAE_BLOCK, /* three 3x3 convolutions */
    GRAFT_VAE_LAST,  /* decoder: features to picture; a 3x3 convolution, of Wan's behind a norm */
    /* Of Wan's: as RES, but a norm sees one pixel, so that strips need no statistics. */
    GRAFT_VAE_RES_PIXEL,
    /* Of Qwen-Image 2.1's: a whole level, with a way around it: residual blocks, then what UP or
     * DOWN does; or the blocks alone. */
    GRAFT_VAE_LEVEL_UP,
    GRAFT_VAE_LEVEL_DOWN,
    GRAFT_VAE_LEVEL
} graft_vae_unit_kind;

typedef struct graft_vae_unit {
    graft_vae_unit_kind kind;
    /* block: of a TAESD or TAEHV the layer's number, of a level how many blocks it has */
    int32_t level, block;
    int32_t in_channels, channels;
} graft_vae_unit;
/* Whether it doubles height and width, or halves them. */
static inline bool graft_vae_unit_doubles(graft_vae_unit_kind k)
{
    return k == GRAFT_VAE_UP || k == GRAFT_VAE_LEVEL_UP;
}
static inline bool graft_vae_unit_halves(graft_vae_unit_kind k)
{
    return k == GRAFT_VAE_DOWN || k == GRAFT_VAE_LEVEL_DOWN;
}

#define GRAFT_VAE_MAX_UNITS 160
#define GRAFT_VAE_GROUPS    32
typedef struct graft_vae_half {
    size_t n;
    graft_vae_unit unit[GRAFT_VAE_MAX_UNITS];
} graft_vae_half;
/* GRAFT_E_LIMIT when there are more than GRAFT_VAE_MAX_UNITS. */
graft_status graft_vae_half_of(const graft_vae_arch *a, bool decoder, graft_vae_half *out,
                               graft_err *e);
/* One more unit; false when there is no room. */
bool graft_vae_half_add(graft_vae_half *h, graft_vae_unit_kind kind, int32_t level, int32_t block,
                        int32_t channels);
/* Group norms of a unit, in the order in which they run. */
static inline int32_t graft_vae_unit_norms(graft_vae_unit_kind k)
{
    return k == GRAFT_VAE_RES ? 2 : k == GRAFT_VAE_FINISH ? 1 : 0;
}

/* Plain data without padding: part of a compiled graph's key. */
typedef struct graft_vae_part {
    int64_t height, width; /* of the part's input, batch 1 */
    int32_t decoder;
    int32_t first, end; /* units first .. end - 1 */
    int32_t stop;       /* -1; or the output is what group norm `stop` of the part reads */
    int32_t given;      /* 1: statistics are an input, not the strip's own */
    graft_dtype act_dtype;
} graft_vae_part;
/* Inputs: 0: what the whole half takes when first is 0, else (1,h,w,channels) of act_dtype. 1, if
 * `given` and norms come before the output: float32 (norms,32,2), mean and variance of each group
 * of each. Output: what the half gives when it ends the half, else (1,h',w',channels) of act_dtype.
 * HEAD and TAIL take no given statistics and no stop. */
graft_status graft_vae_part_build(const graft_vae_arch *a, const graft_vae_part *part,
                                  graft_graph **out, graft_err *e);
#endif

/* What the halves of a VAE are made of, and how large things are there: a half is a row of units
 * with one tensor in and one out. Each kind of VAE says what its units are (vae.c, taesd.h,
 * taehv.h, wan_vae.h). Pure functions, any thread. */
#ifndef GRAFT_MODELS_VAE_UNITS_H
#define GRAFT_MODELS_VAE_UNITS_H
#include "engine/models/parts/arch.h"

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
/* One more unit; false when there is no room. */
bool graft_vae_half_add(graft_vae_half *h, graft_vae_unit_kind kind, int32_t level, int32_t block,
                        int32_t channels);
/* Group norms of a unit, in the order in which they run. */
static inline int32_t graft_vae_unit_norms(graft_vae_unit_kind k)
{
    return k == GRAFT_VAE_RES ? 2 : k == GRAFT_VAE_FINISH ? 1 : 0;
}
#endif

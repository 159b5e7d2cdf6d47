/* What the functions that find out architectures share, and what of them is written apart. */
#ifndef GRAFT_MODELS_DETECT_PARTS_H
#define GRAFT_MODELS_DETECT_PARTS_H
#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"
#include "engine/models/detect/detect.h"

/* The tensor prefix + printf; NULL when it is absent. */
static inline const graft_st_tensor *graft_detect_find(const graft_safetensors *f,
                                                       const char *prefix, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static inline const graft_st_tensor *graft_detect_find(const graft_safetensors *f,
                                                       const char *prefix, const char *fmt, ...)
{
    char name[512];
    int n = snprintf(name, sizeof name, "%s", prefix);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name + n, sizeof name - (size_t)n, fmt, ap);
    va_end(ap);
    return graft_safetensors_find(f, name);
}

static inline graft_status graft_detect_missing(const graft_safetensors *f, const char *prefix,
                                                const char *name, graft_err *e)
{
    const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", name);
    return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor %s%s is missing or has an unexpected shape",
                      graft_safetensors_path(f), t ? "" : prefix, t ? graft_st_called(t) : name);
}

/* A tensor that only another network has, and which one that is. */
typedef struct graft_detect_other {
    const char *tensor, *what;
} graft_detect_other;
/* GRAFT_E_UNSUPPORTED, saying what it is, where the file has one of them. */
graft_status graft_detect_others(const graft_safetensors *f, const char *prefix,
                                 const graft_detect_other *other, size_t n, graft_err *e);

/* Where a file says how wide something is: dimension `at` of this tensor. */
typedef struct graft_detect_width {
    const char *name;
    int32_t *width;
    int at;
} graft_detect_width;
/* All of them; GRAFT_E_FORMAT or GRAFT_E_UNSUPPORTED by the first that the file does not have. */
graft_status graft_detect_widths(const graft_safetensors *f, const char *prefix,
                                 const graft_detect_width *list, size_t n, graft_err *e);
/* Of a transformer of this width its heads, by the norm of their queries, and how many of a head's
 * values turn with the row and as many with the column: rope_dim in the config, else share[0]
 * values of each share[1]. */
graft_status graft_detect_turned_heads(const graft_safetensors *f, const char *prefix,
                                       const char *config, const char *norm, int32_t hidden,
                                       const int32_t share[2], int32_t *heads, int32_t *rope_dim,
                                       graft_err *e);
#define GRAFT_DETECT_BLOCKS_MAX 128
/* How many blocks a list has, LIST.0, LIST.1 and so on. One counts with either of these tensors, so
 * that a file that lacks the other is refused by its name. */
int32_t graft_detect_blocks(const graft_safetensors *f, const char *prefix, const char *list,
                            const char *one, const char *other);
/* Width, and channels of a latent in squares of patch x patch cells, of the layer that embeds it.
 */
graft_status graft_detect_patches(const graft_safetensors *f, const char *prefix, const char *layer,
                                  int32_t patch, int32_t *hidden, int32_t *channels, graft_err *e);

/* Heads of a transformer of this width: of `known` values each, else as num_head_channels or
 * num_heads in the config say, else of `usual` values. GRAFT_E_UNSUPPORTED where they do not fit.
 */
graft_status graft_detect_plain_heads(const graft_safetensors *f, const char *config,
                                      int32_t hidden, int32_t known, int32_t usual, int32_t *heads,
                                      graft_err *e);
/* Rows, and columns, of a table of positions, which has one row for each cell of a square. */
graft_status graft_detect_table(const graft_safetensors *f, const char *prefix, const char *name,
                                int32_t *side, graft_err *e);

static inline int32_t graft_detect_dim(const graft_st_tensor *t, int i)
{
    return t && t->rank > i && t->shape[i] > 0 && t->shape[i] < (1 << 24) ? (int32_t)t->shape[i]
                                                                          : 0;
}

/* input and in_channels, n_input, model_channels. */
graft_status graft_detect_input_blocks(const graft_safetensors *f, const char *prefix,
                                       graft_unet_arch *a, graft_err *e);
/* middle_residual and middle_transformer. The names are those of the first and the second residual
 * block and of the transformer between them, and of a residual block's two convolutions. */
typedef struct graft_detect_middle_names {
    const char *transformer, *residual[2], *conv[2];
} graft_detect_middle_names;
graft_status graft_detect_middle(const graft_safetensors *f, const char *prefix,
                                 const graft_detect_middle_names *names, graft_unet_arch *a,
                                 graft_err *e);
/* Behind that: what a UNet and a ControlNet's copy of its first half have in common, but for the
 * heads. */
graft_status graft_detect_half(const graft_safetensors *f, const char *prefix, graft_unet_arch *a,
                               graft_err *e);
/* The config's part of this name ("unet", "text"), or all of it where it has no such part. *root is
 * the caller's, to be deleted, and *out within it; both are NULL without a config. GRAFT_E_FORMAT
 * for text that is no JSON. */
graft_status graft_detect_config(const graft_safetensors *f, const char *config, const char *part,
                                 cJSON **root, const cJSON **out, graft_err *e);
/* The value of this name in the config, or in its part for UNets; 0 where it is silent. */
graft_status graft_detect_number(const graft_safetensors *f, const char *config, const char *name,
                                 int64_t *out, graft_err *e);
/* How many blocks the transformer of this name has ("input_blocks.1.1"). */
int32_t graft_detect_depth(const graft_safetensors *f, const char *prefix, const char *transformer);
/* context_dim and linear_proj, from its first cross-attention's keys and from its proj_in. */
graft_status graft_detect_context(const graft_safetensors *f, const char *prefix,
                                  const char *transformer, graft_unet_arch *a, graft_err *e);
/* What a transformer's ControlNet has in common with it. *out has its width, hidden, already:
 * FLUX's other widths, blocks and heads, and those of Stable Diffusion 3's but for its context_dim.
 */
graft_status graft_flux_detect_blocks(const graft_safetensors *f, const char *prefix,
                                      const char *config, graft_flux_arch *out, graft_err *e);
/* Blocks of two streams and of one, which FLUX.2 calls alike, from 0 on. Two names of each count,
 * so that a file that lacks one of them is refused by that name. */
void graft_flux_detect_depths(const graft_safetensors *f, const char *prefix, int32_t *depth,
                              int32_t *single_depth);
/* Whether FLUX or FLUX.2 is told a guidance: either of two names tells, as above. */
bool graft_flux_detect_guidance(const graft_safetensors *f, const char *prefix);
graft_status graft_mmdit_detect_blocks(const graft_safetensors *f, const char *prefix,
                                       const char *config, graft_mmdit_arch *out, graft_err *e);
/* hidden, channels and patch, from the convolution of this name, ".weight" included. */
graft_status graft_mmdit_detect_patch(const graft_safetensors *f, const char *prefix,
                                      const char *name, graft_mmdit_arch *out, graft_err *e);
/* graft_control_detect() of transformers' (detect_control_transformer.c); *out is zeroed. */
graft_status graft_control_flux_detect(const graft_safetensors *f, const char *prefix,
                                       const char *config, graft_control_arch *out, graft_err *e);
graft_status graft_control_mmdit_detect(const graft_safetensors *f, const char *prefix,
                                        const char *config, graft_control_arch *out, graft_err *e);
graft_status graft_control_blockwise_detect(const graft_safetensors *f, const char *prefix,
                                            graft_control_arch *out, graft_err *e);
graft_status graft_control_qwen_image_detect(const graft_safetensors *f, const char *prefix,
                                             const char *config, graft_control_arch *out,
                                             graft_err *e);
/* Blocks of a list of Z-Image's ("layers"), by two names of each, so that a file that lacks one of
 * them is refused by that name. */
int32_t graft_zimage_detect_depth(const graft_safetensors *f, const char *prefix, const char *list);
graft_status graft_control_zimage_detect(const graft_safetensors *f, const char *prefix,
                                         graft_control_arch *out, graft_err *e);
/* graft_vae_detect() of a TAESD in diffusers' names; *out is zeroed. */
graft_status graft_taesd_detect(const graft_safetensors *f, const char *prefix, graft_vae_arch *out,
                                graft_err *e);
/* The same of a TAEHV. */
graft_status graft_taehv_detect(const graft_safetensors *f, const char *prefix, graft_vae_arch *out,
                                graft_err *e);
/* The same of Wan 2.1's. */
graft_status graft_wan_vae_detect(const graft_safetensors *f, const char *prefix,
                                  graft_vae_arch *out, graft_err *e);
/* From the config, or as the known families have them. */
graft_status graft_detect_heads(const graft_safetensors *f, const char *config, graft_unet_arch *a,
                                graft_err *e);
#endif

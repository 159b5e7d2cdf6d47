/* Pictures of a latent without a VAE: its channels mapped linearly to colours, pixel by pixel. Any
 * thread. */
#ifndef GRAFT_SAMPLING_PREVIEW_H
#define GRAFT_SAMPLING_PREVIEW_H
#include <stdint.h>

#define GRAFT_PREVIEW_CHANNELS 4  /* of the latents of SD 1.x, 2.x and XL */
#define GRAFT_PREVIEW_MOST     32 /* of a cell of those of FLUX.2 */

/* What each channel, and in the row behind them a latent of zeros, adds to red, green and blue, of
 * which -1 is none and 1 is all. Latents are those that the network sees, shifted and scaled, or
 * those that travel between nodes. */
typedef struct graft_preview_colours {
    int32_t channels; /* 0: there is no preview */
    int32_t fold;   /* 2: a place's planes are the channels of 2 by 2 cells (folding.h); 0: cells */
    int32_t travel; /* 1: they are the latter */
    float row[GRAFT_PREVIEW_MOST + 1][3];
} graft_preview_colours;

/* Least-squares fits that are in common use: of the VAE of SD 1.x and 2.x, of SDXL's, of SD 3's, of
 * FLUX.1's, of FLUX.2's, and of Wan 2.1's, which Qwen-Image, Krea 2 and Anima have. */
extern const graft_preview_colours graft_preview_sd, graft_preview_sdxl, graft_preview_sd3,
    graft_preview_flux, graft_preview_flux2, graft_preview_wan;

/* Cells a side of a place, and planes of it. */
static inline int64_t graft_preview_side(const graft_preview_colours *c)
{
    return c->fold ? c->fold : 1;
}
static inline int64_t graft_preview_planes(const graft_preview_colours *c)
{
    return c->channels * graft_preview_side(c) * graft_preview_side(c);
}

/* latent: (planes,height,width) float32; rgb: a pixel of 3 bytes for each cell, row by row. What is
 * no number is black. */
void graft_preview_draw(const graft_preview_colours *c, const float *latent, int64_t height,
                        int64_t width, uint8_t *rgb);
#endif

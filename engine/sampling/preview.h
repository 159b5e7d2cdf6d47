/* Pictures of a latent without a VAE: its channels mapped linearly to colours, pixel by pixel. Any
 * thread. */
#ifndef GRAFT_SAMPLING_PREVIEW_H
#define GRAFT_SAMPLING_PREVIEW_H
#include <stdint.h>

#define GRAFT_PREVIEW_CHANNELS 4  /* of the latents of SD 1.x, 2.x and XL */
#define GRAFT_PREVIEW_MOST     16 /* of those of SD 3 and FLUX */

/* What each channel, and in the row behind them a latent of zeros, adds to red, green and blue, of
 * which -1 is none and 1 is all. Latents are those that the network sees: shifted and scaled. */
typedef struct graft_preview_colours {
    int32_t channels; /* 0: there is no preview */
    float row[GRAFT_PREVIEW_MOST + 1][3];
} graft_preview_colours;

/* Least-squares fits that are in common use: of the VAE of SD 1.x and 2.x, of SDXL's, of SD 3's,
 * and of FLUX.1's. */
extern const graft_preview_colours graft_preview_sd, graft_preview_sdxl, graft_preview_sd3,
    graft_preview_flux;

/* latent: (channels,area) float32; rgb: area pixels of 3 bytes. What is no number is black. */
void graft_preview_draw(const graft_preview_colours *c, const float *latent, int64_t area,
                        uint8_t *rgb);
#endif

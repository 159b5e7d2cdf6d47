/* Pictures of a latent without a VAE: its channels mapped linearly to colours, pixel by pixel. Any
 * thread. */
#ifndef GRAFT_SAMPLING_PREVIEW_H
#define GRAFT_SAMPLING_PREVIEW_H
#include <stdint.h>

#define GRAFT_PREVIEW_CHANNELS 4 /* of latents that have a preview */

/* What each channel, and in the last row a latent of zeros, adds to red, green and blue, of which
 * -1 is none and 1 is all. Latents are those that the UNet sees: times the scale factor. */
typedef struct graft_preview_colours {
    float row[GRAFT_PREVIEW_CHANNELS + 1][3];
} graft_preview_colours;

/* Least-squares fits that are in common use: of the VAE of SD 1.x and 2.x, and of SDXL's. */
extern const graft_preview_colours graft_preview_sd, graft_preview_sdxl;

/* latent: (4,area) float32; rgb: area pixels of 3 bytes. What is no number is black. */
void graft_preview_draw(const graft_preview_colours *c, const float *latent, int64_t area,
                        uint8_t *rgb);
#endif

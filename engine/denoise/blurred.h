/* Self-attention guidance (Hong et al. 2022, arXiv:2210.00939) in a sampling run: where the middle
 * of the UNet looks at in the negative prompts' prediction x0 of the picture, x0 is blurred, and
 * the network predicts that once more. The result of guidance then moves by
 *
 *     scale (b - D(b + x - x0)),   b = x0 where m is 0, blur(x0) where m is 1
 *
 * where D is the denoised picture of the same prompts, and x - x0 the noise that x has. A cell of
 * the middle block, a key of its first self-attention, has m = 1 where the attention that it gets
 * is above 1: the sum over all queries, of the mean over the heads, of softmax(q k^T / sqrt(d)),
 * whose mean over the cells is 1. Several prompts' sums are averaged. m is enlarged to the latent
 * by repetition: row r is that of r * height / h. blur() is a Gaussian of 9x9 cells, with the
 * standard deviation `blur` in cells of the latent and a picture that is mirrored at its edges; 0:
 * none.
 *
 * Belongs to one run, on one thread. */
#ifndef GRAFT_DENOISE_BLURRED_H
#define GRAFT_DENOISE_BLURRED_H
#include "engine/denoise/guided_config.h"

/* Cells of the blur to either side; latents that are no larger in one direction have nothing to
 * mirror, and no such guidance. */
#define GRAFT_BLURRED_REACH 4

typedef struct graft_blurred graft_blurred;

/* Whether a run on latents of this shape has such guidance. */
bool graft_blurred_wanted(const graft_model *m, const int64_t shape[4]);
/* GRAFT_E_UNSUPPORTED, with the reason, where it is wanted and something else of the run does not
 * go with it: DeepCache, EasyCache, areas of negative prompts, which are n from list on. */
graft_status graft_blurred_check(const graft_model *m, const int64_t shape[4],
                                 const graft_cond_region *list, size_t n, graft_err *e);
/* c is borrowed. *out NULL: not wanted. */
graft_status graft_blurred_create(const graft_guided_config *c, graft_blurred **out, graft_err *e);
void graft_blurred_destroy(graft_blurred *b);

/* A call begins: nothing has been looked at. */
void graft_blurred_begin(graft_blurred *b);
/* Where a network used so puts queries and keys of its watched rows, which are all of the run's
 * pictures for each prompt; until the next graft_blurred_room(). */
graft_status graft_blurred_room(graft_blurred *b, const graft_unet_use *use, float *to[2],
                                graft_err *e);
/* They are there, and join those of this call. */
void graft_blurred_look(graft_blurred *b);
/* b of x0, all pictures (N,C,h,w). False: nothing was looked at, and `out` is as it was. */
bool graft_blurred_degrade(graft_blurred *b, const float *x0, float *out);
/* N*C*h*w values each, for whoever runs the network on it: the negative prediction, b, and the
 * state and the prediction of the second run. */
typedef struct graft_blurred_work {
    float *x0, *degraded, *x, *again;
} graft_blurred_work;
graft_blurred_work *graft_blurred_arrays(graft_blurred *b);
#endif

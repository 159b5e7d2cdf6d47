/* Pictures of what a sampling run is at: the latent's channels as colours, or decoded by a tiny
 * autoencoder where the task has one. They cost the run at most a tenth of its
 * time, the last one and what is compiled for them apart, and never make it fail. One thread, that
 * of the run. */
#ifndef GRAFT_DENOISE_PREVIEWS_H
#define GRAFT_DENOISE_PREVIEWS_H
#include "engine/objects/objects.h"

#define GRAFT_PREVIEWS_SIDE  512 /* pixels that a decoded one has a side at most */
#define GRAFT_PREVIEWS_SHARE 20  /* one part in so many of the time may go into decoding */

typedef struct graft_previews { /* zeros: of no run */
    const graft_model *model;
    const graft_task *task;
    graft_vae *vae;                  /* NULL: colours */
    int64_t channels, height, width; /* of the latent */
    double rest_until;               /* no decoding before */
    bool ready;                      /* the decoder is compiled */
    bool any;                        /* the task takes previews, and the latent has some */
} graft_previews;

/* For latents of this shape. model and task, which may be NULL, outlive it. */
void graft_previews_begin(graft_previews *p, const graft_model *model, const graft_task *task,
                          const int64_t shape[4]);
void graft_previews_end(graft_previews *p);
/* Whether to make one of the step that was just taken. */
bool graft_previews_wanted(const graft_previews *p, bool last);
/* After a yes, of the first latent of the batch, (C,h,w) in the model's own scale, the progress of
 * its step told already. */
void graft_previews_show(graft_previews *p, const float *denoised, bool last);
#endif

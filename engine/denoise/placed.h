/* What a sampling run has on a device: its state, its prompts as a network takes them, masks, and
 * room for what guidance needs between networks. Belongs to one run, on one thread. */
#ifndef GRAFT_DENOISE_PLACED_H
#define GRAFT_DENOISE_PLACED_H
#include "engine/denoise/guided.h"

#define GRAFT_PLACED_ARRAYS 40
#define GRAFT_PLACED_SUMS   (GRAFT_SIDES + 1) /* the perturbed ones are last */
typedef struct graft_placed {
    graft_memory memory; /* the device's */
    const graft_kernels_more *more;
    graft_arrays arrays;              /* of floats there */
    void *owned[GRAFT_PLACED_ARRAYS]; /* all of the following */
    size_t n_owned;
    float *x;          /* the state */
    float *block;      /* for each entry its context, then its y, of all pictures */
    uint64_t *context; /* by slot: bytes from the block's start; one more for the end */
    float *v;          /* what the network gave, where entries need several batches */
    uint8_t *feature;  /* DeepCache's, by slot; or NULL */
    float *freeu;      /* its factors; or NULL */
    float *hyper;      /* a hypernetwork's strength; or NULL */
    struct {           /* a batch as ControlNets see it; or NULL */
        float *x, *timesteps, *context, *y;
    } batch;
    struct { /* inpainting; or NULL */
        float *mask, *latent, *noise, *x;
        float *kept; /* the latent as a flow's state has it; NULL: as it is */
        float *grey; /* differential diffusion's mask of a step, on the host; NULL: as it is */
    } inpaint;
    float *scaled; /* the network's latent, where its x is more or a part of it; or NULL */
    struct {       /* predictions that are kept apart by sides (sides.h); or NULL */
        float *d[GRAFT_SIDES];         /* denoised; negative ones are behind positive ones */
        float *sum[GRAFT_PLACED_SUMS]; /* of prompts for parts, or EasyCache's means; or NULL */
        float *total[GRAFT_SIDES];     /* their weights in one call; or NULL */
        const float **weight;          /* by slot, there; NULL: 1 everywhere */
        double *work;                  /* of guidance by three prompts; or NULL */
    } sides;
    struct { /* guidance away from perturbed rows; or NULL */
        float *v, *d, *positive;
    } perturbed;
    struct { /* RescaleCFG; or NULL */
        float *negative;
        void *work;
    } rescale;
} graft_placed;

/* Whether a backend has memory of its own, and all that sampling there needs. */
bool graft_placed_works(const graft_backend *b);
/* Of an entry's y, of all pictures; 0: the network takes none. */
uint64_t graft_placed_y_bytes(const graft_guided *g, const graft_cond_entry *k);
/* Zeroed by the caller; stays where it is, since arrays point to it. g is borrowed. */
graft_status graft_placed_create(graft_placed *p, const graft_guided *g, graft_backend *backend,
                                 graft_err *e);
/* Rescales the guidance of `out`, D of the positive prompts, which it replaces. */
graft_status graft_placed_rescale(const graft_placed *p, const graft_guided *g, const float *x,
                                  float sigma, const float *negative, float *out);
/* Adds the guidance by perturbed.d, the way from the perturbed predictions, which it changes. */
graft_status graft_placed_go_away(const graft_placed *p, const graft_guided *g, float *out);
/* Waits for work on it. Takes what creating left when it failed. */
void graft_placed_finish(graft_placed *p);
#endif

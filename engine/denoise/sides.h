/* What the prompts of each side predict in a run on a device, where that is kept apart until it is
 * put together: prompts that count in parts of the picture, third prompts, changes of guidance,
 * EasyCache. On the host that is what denoise.c does, with the same bits. */
#ifndef GRAFT_DENOISE_SIDES_H
#define GRAFT_DENOISE_SIDES_H
#include "engine/denoise/placed.h"

/* One call of the denoiser, on the device. */
typedef struct graft_sides_call {
    const float *x; /* what guidance takes for the state */
    float sigma;
    uint64_t entries[GRAFT_SIDES]; /* a bit for each of a side's, in the order of batches */
    size_t n_entries;
    const float *v, *perturbed; /* of all batches; not looked at where prompts have areas, nor
                                 * where EasyCache made the answer */
    bool made;                  /* it did: the means are there */
    size_t n_perturbed;
    float *out, *unconditional; /* the latter may be NULL */
} graft_sides_call;

/* Before the first batch of a call. */
graft_status graft_sides_begin(const graft_placed *p, const graft_guided *g);
/* A batch of active entries has predicted `out`, of parts of the latent. Only where prompts have
 * areas. */
graft_status graft_sides_add(const graft_placed *p, const graft_guided *g, const size_t *which,
                             size_t count, const float *out);
/* All have: the call's results. */
graft_status graft_sides_guide(const graft_placed *p, const graft_guided *g,
                               const graft_sides_call *call, graft_err *e);
/* EasyCache: what the active entries see, scaled, and where their answer goes. */
graft_answer graft_sides_answer(const graft_placed *p, const graft_guided *g);
#endif

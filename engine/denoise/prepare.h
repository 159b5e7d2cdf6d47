/* What a sampling run would compile and pack, without the run. */
#ifndef GRAFT_DENOISE_PREPARE_H
#define GRAFT_DENOISE_PREPARE_H
#include "engine/objects/objects.h"

typedef struct graft_prepare_request {
    const graft_model *model;
    const graft_sigma_table *table;
    const graft_cond *positive, *negative, *third; /* third may be NULL */
    bool guided;         /* the negative conditioning runs too; so it does beside a third one */
    const float *sigmas; /* of the run */
    size_t n_sigmas;
    int64_t shape[4], layers; /* of the latent, as in graft_guided_config */
} graft_prepare_request;

/* Every batch size, prompt length and size of a prompt's area that comes up on the way from the
 * first sigma to the last. With DeepCache any step may be a fast one, where prompts that begin, or
 * whose ControlNets change, are batches of their own. */
graft_status graft_prepare_run(const graft_prepare_request *rq, const graft_task *task,
                               graft_err *e);
#endif

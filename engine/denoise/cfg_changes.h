/* What changes of guidance do to the predictions of one call (engine/cfg.h). */
#ifndef GRAFT_DENOISE_CFG_CHANGES_H
#define GRAFT_DENOISE_CFG_CHANGES_H
#include "engine/denoise/guided_config.h"
#include "engine/exec/memory.h"

/* Of one run: one thread. */
typedef struct graft_cfg_changes graft_cfg_changes;

/* The predictions of a call; all are of config.shape, in the memory that the changes are in.
 * negative: NULL where there is none. */
typedef struct graft_cfg_call {
    float sigma;
    const float *x;
    float *positive, *negative;
} graft_cfg_call;

/* *out is NULL where the model has none. The config is borrowed. */
graft_status graft_cfg_changes_create(const graft_guided_config *c, graft_cfg_changes **out,
                                      graft_err *e);
/* They work in the host's memory alone, and cannot be moved. */
bool graft_cfg_changes_look(const graft_cfg_changes *k);
void graft_cfg_changes_destroy(graft_cfg_changes *k); /* NULL is fine */
/* Before the first call: arrays are in this memory from now on; at first they are in the host's.
 * After GRAFT_E_NOMEM it can be moved elsewhere. */
graft_status graft_cfg_changes_move(graft_cfg_changes *k, graft_memory to, graft_err *e);
/* Of the predictions, before they are put together. Cannot fail in the host's memory. */
graft_status graft_cfg_changes_before(graft_cfg_changes *k, const graft_cfg_call *call);
/* Of the guided one, which is not one of the others. */
graft_status graft_cfg_changes_after(const graft_cfg_changes *k, const graft_cfg_call *call,
                                     float *guided);
#endif

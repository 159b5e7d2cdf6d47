/* The ControlNets and T2I-Adapters of one sampling run: their hints' features, made once, and the
 * residuals of each call. Belongs to one run, on one thread. */
#ifndef GRAFT_DENOISE_CONTROLS_H
#define GRAFT_DENOISE_CONTROLS_H
#include "engine/objects/control.h"
#include "engine/denoise/guided_config.h"
#include "engine/denoise/regions.h"
#include "engine/exec/memory.h"

typedef struct graft_controls graft_controls;

/* c and r are borrowed. *out NULL: no prompt of this run has a ControlNet, nor has the model.
 * GRAFT_E_ARG when one does not fit the model. */
graft_status graft_controls_create(const graft_guided_config *c, const graft_regions *r,
                                   graft_controls **out, graft_err *e);
void graft_controls_destroy(graft_controls *k);
/* Before the first call: its arrays, and those that it is given, are in this memory from now on; at
 * first they are in the host's. In a device's the latent has to be of whole patches. After
 * GRAFT_E_NOMEM it can be moved elsewhere. */
graft_status graft_controls_move(graft_controls *k, graft_memory to, graft_err *e);

/* What slot's prompt is steered by at this sigma; NULL: nothing. `k` may be NULL in both. */
const graft_control *graft_controls_active(const graft_controls *k, size_t slot, float sigma);
/* Where that steers a transformer. */
graft_steered graft_controls_steered(const graft_controls *k, size_t slot, float sigma);
/* The chain whose residuals were kept for this slot; NULL: none. */
const graft_control *graft_controls_kept(const graft_controls *k, size_t slot);

/* The T2I-Adapters' part of what steers a batch, fast or not, where use->adapted. beside: bytes
 * of the packed weights that are bound at the same time. */
graft_status graft_controls_adapt(graft_controls *k, const graft_control *chain, float sigma,
                                  const graft_box *box, const graft_unet_use *use, int64_t beside,
                                  graft_err *e);
/* The residuals of a batch, where use->control, from what the network takes: in[0 … 2], and in[3]
 * where the model has y; x is the latent alone, as it is. All of the batch see the same part of the
 * latent, and the hint is cut to it. graft_controls_append() hands them on. */
graft_status graft_controls_run(graft_controls *k, const graft_control *chain, float sigma,
                                const graft_box *box, const graft_unet_use *use,
                                const void *const *in, graft_err *e);
/* The hints of what runs within the network, where use->within, for this part of the latent.
 * graft_controls_append_within() hands them on, behind residuals and features. */
graft_status graft_controls_see(graft_controls *k, const graft_box *box, const graft_unet_use *use,
                                graft_err *e);
void graft_controls_append_within(const graft_controls *k, const graft_box *box,
                                  const graft_unet_use *use, const void **in, size_t *n);
/* DeepCache: keeps those that a fast step takes, for entry i of the batch, and puts them back as
 * entry i of a fast batch. */
graft_status graft_controls_keep(graft_controls *k, size_t slot, const graft_control *chain,
                                 float sigma, size_t i, graft_err *e);
/* Whether the same ControlNets are active for this slot now as when its residuals were kept; what
 * began or ended since must be seen at once, however rarely DeepCache looks. */
bool graft_controls_alike(const graft_controls *k, size_t slot, float sigma);
graft_status graft_controls_restore(graft_controls *k, size_t slot, size_t i, graft_err *e);
/* Appends residuals and features to the network's inputs, as many as this use of it takes; in has
 * room. */
void graft_controls_append(const graft_controls *k, const graft_unet_use *use, const void **in,
                           size_t *n);
/* Bytes of the packed weights of all that were bound so far, and of the largest arena. */
int64_t graft_controls_bytes(const graft_controls *k);
int64_t graft_controls_arena(const graft_controls *k);
#endif

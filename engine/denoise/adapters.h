/* The T2I-Adapters of one sampling run (models/controls/t2i_adapter.h). What they make of their
 * pictures does not change from step to step: it is computed once, and again only where one before
 * it in its chain begins or ends. Belongs to one run, on one thread. */
#ifndef GRAFT_DENOISE_ADAPTERS_H
#define GRAFT_DENOISE_ADAPTERS_H
#include "engine/denoise/guided_config.h"
#include "engine/denoise/regions.h"
#include "engine/exec/memory.h"
#include "engine/objects/control.h"

typedef struct graft_adapters graft_adapters;

/* chain: of each of graft_guided_slots() prompts, all of which fit the model; dtype: of
 * activations. c is borrowed. *out NULL: no chain has any. */
graft_status graft_adapters_create(const graft_guided_config *c, const graft_control *const *chain,
                                   graft_dtype dtype, graft_adapters **out, graft_err *e);
void graft_adapters_destroy(graft_adapters *k);
/* As graft_controls_move(). */
graft_status graft_adapters_move(graft_adapters *k, graft_memory to, graft_err *e);

/* Makes the features of a batch that this chain steers, all of which sees this part of the latent:
 * zeros where none of its adapters is active. beside: bytes of packed weights that others hold now,
 * which count in limits of memory. */
graft_status graft_adapters_run(graft_adapters *k, const graft_control *chain, float sigma,
                                const graft_box *box, const graft_unet_use *use, int64_t beside,
                                graft_err *e);
/* Appends them to the network's inputs, as many as this use of it takes; in has room. */
void graft_adapters_append(const graft_adapters *k, const graft_unet_use *use, const void **in,
                           size_t *n);

/* The last adapter before k in its chain that is active at this sigma; NULL: none. */
const graft_control *graft_adapters_before(const graft_control *k, const graft_sigma_table *t,
                                           float sigma);
/* For how many of a batch's pictures the chain's adapters are computed: one where all of them see
 * one picture. */
int64_t graft_adapters_rows(const graft_control *chain, int64_t pictures);
#endif

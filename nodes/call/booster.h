/* OneDiff's boosters: bundles of options that travel along a link until a loader or a speed-up node
 * applies them. Immutable and reference-counted; any thread. */
#ifndef GRAFT_NODES_BOOSTER_H
#define GRAFT_NODES_BOOSTER_H
#include "engine/engine.h"

typedef struct graft_booster graft_booster;

/* Each part may be NULL. Texts in them must be constants; `quantize` points to nothing. */
graft_status graft_booster_create(const graft_deepcache_options *deepcache,
                                  const graft_quantize_options *quantize, graft_booster **out,
                                  graft_err *e);
/* What the one has of DeepCache and the other of quantization; either may be NULL. */
graft_status graft_booster_join(const graft_booster *deepcache, const graft_booster *quantize,
                                graft_booster **out, graft_err *e);
void graft_booster_release(graft_booster *b); /* NULL is fine */

/* The model, compiled with the usual options and then with what the booster adds; `b` may be
 * NULL. */
graft_status graft_booster_apply(const graft_booster *b, const graft_model *m,
                                 const graft_task *task, graft_model **out, graft_err *e);
graft_status graft_booster_apply_vae(const graft_vae *v, const graft_task *task, graft_vae **out,
                                     graft_err *e);
#endif

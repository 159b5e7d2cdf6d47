/* What custom sampling is put together from, besides sigmas: a SAMPLER is a method, a NOISE a seed
 * or none, a GUIDER a model and its prompts. Each knows a part of a graft_sampling. Immutable and
 * reference-counted; any thread. */
#ifndef GRAFT_NODES_PART_H
#define GRAFT_NODES_PART_H
#include "engine/engine.h"

typedef struct graft_part graft_part;

/* Keeps what is set in `known`, objects with a reference of its own; `sampler` must be one of
 * graft_sampler_names(), which are constants. */
graft_status graft_part_create(const graft_sampling *known, graft_part **out, graft_err *e);
void graft_part_release(graft_part *p); /* NULL is fine */
/* Lives as long as the part. */
const graft_sampling *graft_part_known(const graft_part *p);
#endif

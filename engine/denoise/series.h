/* The series of runs of one sampling: what its networks compute of the prompts alone is computed in
 * the first step that has them, and kept until the sampling ends (engine/exec/invariants.h). */
#ifndef GRAFT_DENOISE_SERIES_H
#define GRAFT_DENOISE_SERIES_H
#include "engine/denoise/batches.h"
#include "engine/objects/objects.h"
#include "engine/exec/invariants.h"

/* Different batches of prompts and networks that are kept; others compute everything each time. */
#define GRAFT_SERIES_MAX 8

typedef struct graft_series_one {
    const graft_binding *binding;
    graft_hash slots; /* which prompts, in their order */
    graft_invariants *invariants;
} graft_series_one;
/* Of one sampling, on one thread; zeroed at first. */
typedef struct graft_series {
    graft_series_one one[GRAFT_SERIES_MAX];
    size_t n;
} graft_series;

/* What the prompts list[which[0..count)] have there with this network, NULL where nothing is kept:
 * also where memory has a limit, or is short. */
graft_invariants *graft_series_get(graft_series *s, const graft_model *m,
                                   const graft_binding *binding, const active *list,
                                   const size_t *which, size_t count);
/* The binding is let go of. */
void graft_series_forget(graft_series *s, const graft_binding *binding);
void graft_series_finish(graft_series *s);
#endif

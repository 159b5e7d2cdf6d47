/* What two weight sets of which a sum is made must have in common, and its factors. Any thread. */
#ifndef GRAFT_OBJECTS_ALIKE_H
#define GRAFT_OBJECTS_ALIKE_H
#include "engine/engine.h"
#include "engine/weights/weights.h"

/* Fails with GRAFT_E_ARG: `who` is of another architecture, since the first tensor of `own` that
 * `other` lacks or has in another shape, or the first that it has in addition, differs; where the
 * tensors are alike, for the reason `else_why`. */
graft_status graft_alike_fail(const graft_weights *own, const graft_weights *other, const char *who,
                              const char *else_why, graft_err *e);
/* GRAFT_E_ARG, with the name, for a factor that is not finite or above 1e6. */
graft_status graft_alike_factor(const char *name, double v, graft_err *e);
/* The same for each of the four. */
graft_status graft_alike_attention(const graft_attention_factors *f, graft_err *e);
#endif

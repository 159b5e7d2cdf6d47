/* What an IP-Adapter made of pictures for the cross-attentions of a UNet: keys and values, as its
 * graph takes them (models/parts/attended.h) but for one row. Immutable once it is filled; any
 * thread. */
#ifndef GRAFT_OBJECTS_SIGHT_H
#define GRAFT_OBJECTS_SIGHT_H
#include "engine/objects/objects.h"

enum { GRAFT_SIGHT_POSITIVE, GRAFT_SIGHT_OTHERS, GRAFT_SIGHT_SIDES };

typedef struct graft_sight {
    _Atomic int refs;
    int32_t tokens;
    float *data[GRAFT_SIGHT_SIDES]; /* 2 * tokens * channels of all cross-attentions each */
} graft_sight;

/* For a UNet with these cross-attentions; data is not set. */
graft_status graft_sight_create(const graft_crossings *c, int32_t tokens, graft_sight **out,
                                graft_err *e);
graft_sight *graft_sight_retain(graft_sight *s);
void graft_sight_release(graft_sight *s);

/* The model with one more. Takes the caller's reference of what->sight over, also on failure;
 * retains the mask. */
graft_status graft_model_with_sight(const graft_model *m, const struct graft_seen *what,
                                    graft_model **out, graft_err *e);
/* All that a model attends to. */
graft_attended_shape graft_model_attended(const graft_model *m);
/* Those that count at this sigma: a bit for each. */
uint32_t graft_model_sees_at(const graft_model *m, const graft_sigma_table *t, float sigma);
#endif

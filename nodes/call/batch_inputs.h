/* Inputs of nodes that make one batch of up to 50. SLOT(number) is one. */
#ifndef GRAFT_NODES_BATCH_INPUTS_H
#define GRAFT_NODES_BATCH_INPUTS_H
#include "nodes/node.h"

enum { BATCH_INPUTS = 50, BATCH_SLOT_FLAGS = GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_SERIES };

#define BATCH_ONES(slot_, tens_)                                                                   \
    slot_(tens_##0), slot_(tens_##1), slot_(tens_##2), slot_(tens_##3), slot_(tens_##4),           \
        slot_(tens_##5), slot_(tens_##6), slot_(tens_##7), slot_(tens_##8), slot_(tens_##9)
/* All but the first two. */
#define BATCH_SLOTS(slot_)                                                                         \
    slot_(2), slot_(3), slot_(4), slot_(5), slot_(6), slot_(7), slot_(8), slot_(9),                \
        BATCH_ONES(slot_, 1), BATCH_ONES(slot_, 2), BATCH_ONES(slot_, 3), BATCH_ONES(slot_, 4)

/* The pictures or masks that are connected, as one batch. */
static inline graft_status batch_pictures(graft_call *c, graft_image *get(const graft_call *, int),
                                          graft_image **out)
{
    const graft_image *all[BATCH_INPUTS];
    size_t n = 0;
    for (int i = 0; i < BATCH_INPUTS; i++) {
        const graft_image *one = get(c, i);
        if (one) all[n++] = one;
    }
    return graft_image_join(all, n, out, &c->err);
}
#endif

/* What a GLIGEN makes of texts in boxes for a UNet (models/parts/gligen.h). */
#ifndef GRAFT_PROMPTS_GLIGEN_H
#define GRAFT_PROMPTS_GLIGEN_H
#include "engine/objects/boxes.h"

/* The part of a latent that a prompt sees, in its cells. */
typedef struct graft_gligen_view {
    int64_t y, x, height, width;
} graft_gligen_view;
/* The tokens (GRAFT_GLIGEN_TOKENS,arch.width) of these boxes, NULL: of none. Where a box is given
 * in shares they are of the `whole` latent (height, width); in pixels it is brought down to whole
 * cells of 8. Either way the network is told where it is in the view, which it may reach out of.
 * With task->compile_only zeros. */
graft_status graft_gligen_tokens(const graft_gligen *g, const graft_boxes *boxes,
                                 const int64_t whole[2], const graft_gligen_view *view,
                                 const graft_task *task, float *out, graft_err *e);
/* Compiles and packs what makes them. */
graft_status graft_gligen_prepare(const graft_gligen *g, const graft_task *task, graft_err *e);
#endif

/* What the prompts of one side are compared with in their areas.
 *
 * A prompt for an area sees a part of the latent, and the network's prediction for a part is
 * another than the same part of its prediction for all. So the other side needs one for that part,
 * too, or guidance would take that difference for the prompts' (as ComfyUI, which does the same).
 */
#ifndef GRAFT_DENOISE_OPPOSITES_H
#define GRAFT_DENOISE_OPPOSITES_H
#include "engine/objects/objects.h"

typedef struct graft_opposites {
    graft_cond *positive, *negative;
    graft_cond *third; /* NULL: none */
} graft_opposites;

/* Both sides, each with more entries where the other has areas that it lacks: the text of its entry
 * with the smallest area around that, an entry without area being around all; place, strength,
 * range and ControlNets of the area's prompt. Where there is no such entry there is none to add.
 * shape: of the latent. Nothing is added where both sides are one list. */
graft_status graft_opposites_make(const graft_cond *positive, const graft_cond *negative,
                                  const int64_t shape[4], graft_opposites *out, graft_err *e);
/* The same with a third list, once the others are there. */
graft_status graft_opposites_third(graft_opposites *o, const graft_cond *third,
                                   const int64_t shape[4], graft_err *e);
/* Then fills all of them up for the network (graft_cond_fill()). */
graft_status graft_opposites_fill(graft_opposites *o, const graft_net_arch *a, graft_err *e);
/* Takes what is zero. */
void graft_opposites_finish(graft_opposites *o);
#endif

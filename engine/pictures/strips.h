/* Running half a VAE over one picture in strips: less memory, the same picture. */
#ifndef GRAFT_PICTURES_STRIPS_H
#define GRAFT_PICTURES_STRIPS_H
#include "engine/objects/objects.h"

/* Decodes a latent (C,height,width) to (height*f,width*f,C), or encodes a picture (height,width,C)
 * to moments (C,height/f,width/f), within the VAE's memory budget; see strip_plan.h. Differs from
 * the run in one piece by rounding alone. GRAFT_E_LIMIT as graft_strip_plan_make(). */
graft_status graft_strips_run(const graft_vae *v, bool decoder, int64_t height, int64_t width,
                              const float *in, float *out, const graft_task *task, graft_err *e);
/* Compiles what such a run needs. */
graft_status graft_strips_prepare(const graft_vae *v, bool decoder, int64_t height, int64_t width,
                                  const graft_task *task, graft_err *e);
#endif

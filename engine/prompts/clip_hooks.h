/* Text encoders with hooks: how what encodes a prompt is called for each stretch of the schedule
 * with the weights that the encoder has there. */
#ifndef GRAFT_PROMPTS_CLIP_HOOKS_H
#define GRAFT_PROMPTS_CLIP_HOOKS_H
#include "engine/objects/hooks.h"

/* Of one graft_clip alone. */
#define GRAFT_CLIP_SETS 4
typedef struct graft_clip_hooking {
    graft_hooks *hooks;
    bool on_prompts, scheduled;
    pthread_mutex_t lock; /* of what follows */
    struct graft_clip_set {
        graft_hash key;
        graft_clip *clip; /* changed, and without hooks */
    } set[GRAFT_CLIP_SETS];
    size_t n_sets; /* the last one used stands first */
} graft_clip_hooking;
/* Without sets; NULL when out of memory. */
graft_clip_hooking *graft_clip_hooking_create(const graft_hooks *hooks, bool on_prompts,
                                              bool scheduled);
void graft_clip_hooking_destroy(graft_clip_hooking *h); /* may be NULL */

/* A prompt, `what`, by a text encoder without hooks, as n conditionings. */
typedef graft_status graft_clip_encoder_fn(const graft_clip *c, const void *what,
                                           const graft_task *task, graft_cond **out, graft_err *e);
/* The same by c, which has hooks: prompts of all its stretches, one behind the other. Nothing is
 * left in out[] on failure. */
#define GRAFT_CLIP_CONDS 2
graft_status graft_clip_encode_hooked(const graft_clip *c, graft_clip_encoder_fn *encode,
                                      const void *what, size_t n, const graft_task *task,
                                      graft_cond **out, graft_err *e);
#endif

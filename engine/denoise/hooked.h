/* The models that the prompts of a run have: the run's own, and with other weights for prompts with
 * hooks (engine/hooks.h). Of one run, on one thread. */
#ifndef GRAFT_DENOISE_HOOKED_H
#define GRAFT_DENOISE_HOOKED_H
#include "engine/denoise/batches.h"

typedef struct graft_hooked_set {
    graft_hash key;
    graft_model *model;
} graft_hooked_set;
/* Zeros at first. */
typedef struct graft_hooked {
    graft_hooked_set *set;
    size_t n, cap;
} graft_hooked;

/* What the prompt's hooks do to the model's weights at this sigma; zeros: nothing. */
graft_hash graft_hooked_key(const graft_sigma_table *t, const graft_cond_entry *k, float sigma);
static inline bool graft_hooked_any(graft_hash key)
{
    return key.lo || key.hi;
}
/* The model with the weights of that key; m itself for zeros. Borrowed, until it is let go of. */
graft_status graft_hooked_model(graft_hooked *h, const graft_model *m, const graft_sigma_table *t,
                                const graft_cond_entry *k, float sigma, const graft_task *task,
                                const graft_model **out, graft_err *e);
/* Lets go of all sets but those that an active one of the list has. */
void graft_hooked_forget(graft_hooked *h, const active *list, size_t n);
void graft_hooked_finish(graft_hooked *h);
#endif

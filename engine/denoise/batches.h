/* The prompts that are active at one sigma, and which of them run as one batch. */
#ifndef GRAFT_DENOISE_BATCHES_H
#define GRAFT_DENOISE_BATCHES_H
#include "engine/denoise/regions.h"

#define GROUP_MAX 64 /* conditioning entries in one batch */

/* One conditioning entry that is active at the present sigma. */
typedef struct active {
    const graft_cond_entry *entry;
    const graft_box *box; /* what it sees of the latent */
    graft_side side;
    bool fast, done;                     /* of the present call */
    size_t slot;                         /* its place among all prompts (graft_guided_entry()) */
    const struct graft_control *control; /* what steers it in the present call; NULL: nothing */
    graft_steered steered;               /* where, in a transformer */
    bool within;                         /* what runs within the network steers it, too */
    bool alike;                          /* by what steered its last whole step */
    const void *known;                   /* where what stands beside the latent is from (known.h) */
    graft_references references;         /* likewise */
    bool untold;                         /* the network does not hear its guidance */
    bool skips;                          /* it is without some blocks (graft_model_skips_at()) */
    const struct graft_gligen *boxed;    /* it runs with this one's parts (boxed.h); or NULL */
    graft_hash weights;                  /* what hooks make of the model's (hooked.h) */
} active;

/* Whether the entry keeps a guidance from the network that could be told it. */
static inline bool graft_untold(const graft_model *m, const graft_cond_entry *k)
{
    return k->untold && graft_net_told_guidance(&m->arch);
}
/* Whether the entry counts at this sigma. */
bool graft_active_now(const graft_sigma_table *t, const graft_cond_entry *k, float sigma);
/* The next of a list that are not done and run together: equally many tokens, parts of the latent
 * of one size, all fast or all not, references of the same sizes, all told a guidance or all not,
 * all without the same blocks or none, the same weights, the same ControlNets on the same part (and
 * picture beside it). Their places in the list, which has positive ones first, into
 * which[GROUP_MAX]; 0: none is left. */
size_t graft_active_group(active *list, size_t n, size_t *which);
/* How many of these are positive, which are the first. */
size_t graft_active_positive(const active *list, const size_t *which, size_t count);
/* Whether positive ones are computed a second time now; whether negative ones are looked at. */
typedef struct graft_active_more {
    bool perturbs, watches;
} graft_active_more;
/* How a batch of these uses the network, but for its variant; pictures: of the run. */
graft_unet_use graft_active_use(const active *list, const size_t *which, size_t count,
                                int64_t pictures, graft_active_more more);
/* Leaves the negative ones alone in the list, none of them done. Returns how many they are. */
size_t graft_active_keep_negative(active *list, size_t n);
#endif

/* A trial: one operator's kernel variants timed against each other on made-up data. */
#ifndef GRAFT_EXEC_TRIAL_H
#define GRAFT_EXEC_TRIAL_H
#include "engine/engine.h"
#include "engine/exec/backend.h"

#define GRAFT_TRIAL_VARIANTS 16 /* more than these are not looked at */

typedef struct graft_trial {
    int32_t own, count; /* the library's own choice; how many were looked at */
    uint32_t repacks;   /* bit i: variant i wants its weights in another layout */
    /* Best time of one launch; 0: not usable, for a reason that is below. */
    uint64_t ns[GRAFT_TRIAL_VARIANTS];
    /* Bit i: variant i computes something else. Of trials that another process made, neither this
     * nor what follows is known. */
    uint32_t wrong;
    graft_status status[GRAFT_TRIAL_VARIANTS]; /* of making it and of running it */
    /* How far its result is from that of the own choice, as a share of the largest value; of the
     * own choice itself, how far what it computes later is from what it computed first. */
    float off[GRAFT_TRIAL_VARIANTS];
} graft_trial;

typedef struct graft_trial_limits {
    int64_t max_bytes; /* of the backend's memory; a device's has nothing of what is the host's */
    double deadline;   /* of graft_trial_now(); 0: none */
} graft_trial_limits;

/* GRAFT_E_LIMIT when memory or time do not suffice: there is no result then. A variant that cannot
 * be made, fails, computes something else than the library's own choice, computes it only where
 * weights and workspace still hold what was there for its last launch, or has something else
 * standing in for it (GRAFT_E_UNSUPPORTED, also of the own choice) is not usable; with one variant
 * only, nothing is timed. Where the device's cache is known, short launches take turns with copies
 * of the weights that it does not hold together: in a run others come between two uses of the same
 * ones. With a deadline, variants that take long to prepare are not looked at. Any thread, but
 * timings want the machine for themselves. */
graft_status graft_trial_run(const graft_backend *backend, const graft_op_desc *op,
                             const graft_trial_limits *limits, const graft_task *task,
                             graft_trial *out, graft_err *e);
/* The variant to use: the fastest, where it is faster by a margin that noise does not reach, or the
 * library's own choice is not usable; -1 when that is the library's own choice. */
int32_t graft_trial_best(const graft_trial *t);
/* Seconds of a clock that never jumps. */
double graft_trial_now(void);
#endif

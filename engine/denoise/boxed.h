/* The tokens of texts in boxes that the rows of a batch have beside their prompts, as a UNet's
 * graph with GLIGEN's parts takes them: in calls in which some prompt with boxes is active, those
 * without are given what stands for none, as in training and in the authors' guidance. Belongs to
 * one run, on one thread. */
#ifndef GRAFT_DENOISE_BOXED_H
#define GRAFT_DENOISE_BOXED_H
#include "engine/denoise/batches.h"
#include "engine/denoise/guided_config.h"
#include "engine/exec/memory.h"
#include "engine/objects/boxes.h"

typedef struct graft_boxed {
    const graft_gligen *gligen; /* of the run; NULL: no prompt has boxes, and all else is zero */
    const graft_task *task;
    int64_t whole[2];      /* height and width of the latent */
    size_t each, most;     /* values of a row, and of the largest batch */
    float *tokens;         /* of each slot */
    bool *made;            /* whether they are there */
    bool *kept;            /* of each slot, for DeepCache: whether its last whole step had them */
    graft_memory memory;   /* of `there` */
    float *values, *there; /* of a batch; `there` in a device's memory, else NULL */
    size_t count, slot[GROUP_MAX]; /* of which batch they are; count 0: of none */
} graft_boxed;

/* graft_gligen_check() of the run's prompts; runs nothing. */
graft_status graft_boxed_create(const graft_guided_config *c, graft_boxed *out, graft_err *e);
void graft_boxed_finish(graft_boxed *b); /* takes what is zero */
/* As graft_attending_move(). */
graft_status graft_boxed_move(graft_boxed *b, graft_memory to, graft_err *e);
/* Sets which of the active entries run with GLIGEN's parts: all, where one of them has boxes. */
void graft_boxed_settle(const graft_gligen *g, active *list, size_t n);
/* The input for the active entries `which`, of `pictures` rows each. Good until the next call. */
graft_status graft_boxed_fill(graft_boxed *b, const active *list, const size_t *which, size_t count,
                              int64_t pictures, const void **out, graft_err *e);
#endif

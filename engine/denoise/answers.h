/* EasyCache in a sampling run: what the UNet answered last, and answers made of that where another
 * evaluation is not worth its time. Belongs to one run, on one thread, and ends with it, so that no
 * run can see another's.
 *
 * An answer is the mean prediction of the positive prompts, that of the negative ones, of third
 * ones, and that of the perturbed rows, all before guidance. Guidance and its rescaling work on an
 * answer that was made just as on a real one. As the means of x + D of each prompt are x + the mean
 * D, it makes no difference that prompts are not kept apart; those that begin or end, or whose
 * ControlNets do, are answered in full.
 *
 * One decision is made for all of an evaluation, its whole batch of pictures, so that it stays a
 * batch; by the positive prompts' prediction, as the paper's v is the conditional one. Evaluations
 * count, not steps: samplers that evaluate the model twice in a step may have either left out. */
#ifndef GRAFT_DENOISE_ANSWERS_H
#define GRAFT_DENOISE_ANSWERS_H
#include "engine/denoise/batches.h"
#include "engine/denoise/denoise.h"

typedef struct graft_answers graft_answers;

/* What an evaluation sees and gives, n values each. */
typedef struct graft_answer {
    const float *x;                                 /* as the UNet sees it */
    float *positive, *negative, *third, *perturbed; /* NULL: none, but for positive */
} graft_answer;

/* c is borrowed. *out NULL: the model leaves nothing out, or someone looks at its calls, who is to
 * see them all. */
graft_status graft_answers_create(const graft_guided_config *c, graft_answers **out, graft_err *e);
void graft_answers_destroy(graft_answers *a);

/* An evaluation begins, for the active entries; may: it can be left out as far as others care. True
 * when it is, and the answer is filled in. Otherwise it is the caller's turn, and
 * graft_answers_keep() is to follow. */
bool graft_answers_made(graft_answers *a, const active *list, size_t n, float sigma, bool may,
                        const graft_answer *to);
/* The UNet has answered. */
void graft_answers_keep(graft_answers *a, const active *list, size_t n, float sigma,
                        const graft_answer *from);
/* The run is over: says how many evaluations were left out, where that is wanted. */
void graft_answers_tell(const graft_answers *a);
#endif

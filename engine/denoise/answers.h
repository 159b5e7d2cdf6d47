/* EasyCache in a sampling run: what the UNet answered last, and answers made of that where another
 * evaluation is not worth its time. Belongs to one run, on one thread, and ends with it, so that no
 * run can see another's.
 *
 * An answer is the mean prediction of the positive prompts, that of the negative ones, of third
 * ones, and that of the perturbed rows, all before guidance. Guidance and its rescaling work on an
 * answer that was made just as on a real one. As the means of x + D of each prompt are x + the mean
 * D, it makes no difference that prompts are not kept apart; those that begin or end, or whose
 * ControlNets do, or whose hooks change, are answered in full.
 *
 * One decision is made for all of an evaluation, its whole batch of pictures, so that it stays a
 * batch; by the positive prompts' prediction, as the paper's v is the conditional one. Evaluations
 * count, not steps: samplers that evaluate the model twice in a step may have either left out. */
#ifndef GRAFT_DENOISE_ANSWERS_H
#define GRAFT_DENOISE_ANSWERS_H
#include "engine/denoise/batches.h"
#include "engine/denoise/guided_config.h"
#include "engine/exec/memory.h"

typedef struct graft_answers graft_answers;

/* What an evaluation sees and gives, n values each, in the memory that the answers are in. */
typedef struct graft_answer {
    const float *x;                                 /* as the UNet sees it */
    float *positive, *negative, *third, *perturbed; /* NULL: none, but for positive */
} graft_answer;

/* c is borrowed. *out NULL: the model leaves nothing out, or someone looks at its calls, who is to
 * see them all. */
graft_status graft_answers_create(const graft_guided_config *c, graft_answers **out, graft_err *e);
void graft_answers_destroy(graft_answers *a);
/* Before the first evaluation: arrays are in this memory from now on; at first they are in the
 * host's. Of a device's two numbers come to the host where one is measured: those of an evaluation
 * in full when the next begins, those that decide at once. After GRAFT_E_NOMEM it can be moved
 * elsewhere. */
graft_status graft_answers_move(graft_answers *a, graft_memory to, graft_err *e);

/* An evaluation begins, for the active entries; may: it can be left out as far as others care.
 * *made when it is, and the answer is filled in. Otherwise it is the caller's turn, and
 * graft_answers_keep() is to follow. Neither can fail in the host's memory. */
graft_status graft_answers_made(graft_answers *a, const active *list, size_t n, float sigma,
                                bool may, const graft_answer *to, bool *made, graft_err *e);
/* The UNet has answered. */
graft_status graft_answers_keep(graft_answers *a, const active *list, size_t n, float sigma,
                                const graft_answer *from, graft_err *e);
/* The run is over: says how many evaluations were left out, where that is wanted. */
void graft_answers_tell(const graft_answers *a);
#endif

/* Hooks: LoRAs and checkpoints that change weights for some prompts only, and for some of the steps
 * only. The part of engine.h, whose rules hold here, that makes them and gives them to prompts and
 * text encoders.
 *
 * A prompt with hooks is evaluated with the model's weights changed by them, one after the other,
 * as graft_lora_apply() changes them at the same strengths, with the very same bits. Nothing is
 * compiled for it: a set of weights more is bound to what is compiled. Prompts whose changes are
 * the same at a step share their batch there; others are batches of their own.
 *
 * What was changed stays ready for the next step and the next run, GRAFT_HOOK_SETS sets for each
 * `graft_hooks`, the longest unused leaves first; their packed weights are the memory's to give up
 * (docs/cache.md). Where memory has a limit nothing stays that the present evaluation does not
 * need. ControlNets, whatever they are made of, IP-Adapters and calibration see the model without
 * hooks. */
#ifndef GRAFT_ENGINE_HOOKS_H
#define GRAFT_ENGINE_HOOKS_H
#include "engine/types.h"

#define GRAFT_HOOKS_MOST 64
#define GRAFT_HOOK_SETS  8

/* The hooks of `before` (NULL: none), then the LoRA of a file at these strengths. Both 0: only
 * those of `before`. The file is opened and read here; whether it fits a model or a text encoder
 * shows when that is used with it. GRAFT_E_LIMIT above GRAFT_HOOKS_MOST. */
graft_status graft_hooks_lora(const graft_hooks *before, const char *path, double strength_model,
                              double strength_clip, const graft_task *task, graft_hooks **out,
                              graft_err *e);
/* Likewise with the weights of a checkpoint: W + strength (C - W), where W is what the model or the
 * text encoder has in its own file, and C what the checkpoint has; LoRAs and other hooks are added
 * to that. So 1 is the other checkpoint. Of parts with a strength of 0 nothing is read. The
 * architecture must be the same, which shows when it is used. */
graft_status graft_hooks_checkpoint(graft_engine *engine, const graft_hooks *before,
                                    const char *path, double strength_model, double strength_clip,
                                    const graft_task *task, graft_hooks **out, graft_err *e);
/* Those of a, then those of b but for hooks that a has already: one that comes from the same call
 * is the same hook, and counts once, with a's keyframes. Both may be NULL: no hooks. */
graft_status graft_hooks_combine(const graft_hooks *a, const graft_hooks *b, graft_hooks **out,
                                 graft_err *e);
graft_hooks *graft_hooks_retain(graft_hooks *h);
void graft_hooks_release(graft_hooks *h);
size_t graft_hooks_count(const graft_hooks *h);

/* From its start on, a share of the schedule (0: most noise), hooks have their strengths times
 * this. Of several the last one counts whose start has come; before all of them the first. */
typedef struct graft_keyframe {
    double start, strength;
} graft_keyframe;
/* Those of `before` (NULL: none) and these, by their starts; of equal starts the later one counts.
 * GRAFT_E_ARG for starts outside 0..1 and strengths that are not finite, GRAFT_E_LIMIT above
 * GRAFT_KEYFRAMES_MOST. */
#define GRAFT_KEYFRAMES_MOST 1000
graft_status graft_keyframes_add(const graft_keyframes *before, const graft_keyframe *list,
                                 size_t n, graft_keyframes **out, graft_err *e);
graft_keyframes *graft_keyframes_retain(graft_keyframes *k);
void graft_keyframes_release(graft_keyframes *k);
size_t graft_keyframes_count(const graft_keyframes *k);

/* Fills in list[0 … n), from one start and strength to another, both included; one alone is the
 * first. With w the share of the way in even steps, a strength goes along
 *
 *   linear  w      ease_in  w^2      ease_out  1 - (1 - w)^2      ease_in_out  w^2 (3 - 2 w)
 *
 * GRAFT_E_ARG for other words. */
typedef struct graft_keyframe_curve {
    graft_keyframe from, to;
    size_t n;
    const char *interpolation;
} graft_keyframe_curve;
#define GRAFT_INTERPOLATIONS "linear", "ease_in", "ease_out", "ease_in_out"
graft_status graft_keyframes_curve(const graft_keyframe_curve *curve, graft_keyframe *list,
                                   graft_err *e);
/* All hooks with these keyframes, in place of those that they have. Retains them. */
graft_status graft_hooks_schedule(const graft_hooks *h, const graft_keyframes *k, graft_hooks **out,
                                  graft_err *e);

/* The prompts with these hooks behind those that they have (graft_hooks_combine()). Retains them.
 */
graft_status graft_cond_hooks(const graft_cond *c, const graft_hooks *h, graft_cond **out,
                              graft_err *e);
/* c, and `rest` for what c's prompts leave: in each place and step a prompt of `rest` weighs what
 * the weights of the others of its side lack to 1, times its strength; where they lack nothing it
 * is not computed. Areas and masks of its own are not looked at. hooks: of `rest`, or NULL. */
graft_status graft_cond_default(const graft_cond *c, const graft_cond *rest,
                                const graft_hooks *hooks, graft_cond **out, graft_err *e);

/* A text encoder that encodes prompts with these hooks, in place of those that it has. on_prompts:
 * the prompts bring them into sampling, too. scheduled: by their keyframes, as a prompt for each
 * stretch of the schedule in which strengths of the encoder are other ones, which costs as many
 * encodings, and as many evaluations as there are; otherwise keyframes do not change how a prompt
 * is encoded. Saving and merging text encoders leaves hooks aside. */
graft_status graft_clip_hooks(const graft_clip *c, const graft_hooks *h, bool on_prompts,
                              bool scheduled, graft_clip **out, graft_err *e);
#endif

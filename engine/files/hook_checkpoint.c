/* Hooks of checkpoints: what they differ by from a model is added to it. */
#include <string.h>

#include "base/alloc.h"
#include "engine/objects/hooks.h"

typedef struct checkpoint_hook {
    graft_hook hook;
    graft_model *model; /* NULL, as the other: its strength is 0 */
    graft_clip *clip;
} checkpoint_hook;

/* m as its file has it. */
static graft_status plain_model(const graft_model *m, graft_model **out, graft_err *e)
{
    graft_weights *plain = NULL;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    graft_status st = graft_weights_plain(m->weights, &plain, e);
    if (st) {
        graft_model_release(n);
        return st;
    }
    graft_weights_release(n->weights); /* m's, which holds it */
    n->weights = plain;
    *out = n;
    return GRAFT_OK;
}

static graft_status to_model(const graft_hook *h, const graft_model *m, double strength,
                             const graft_task *task, graft_model **out, graft_err *e)
{
    const checkpoint_hook *k = (const checkpoint_hook *)h;
    graft_model *plain = NULL, *difference = NULL;
    (void)task;
    if (!k->model) {
        *out = graft_model_retain((graft_model *)(uintptr_t)m);
        return GRAFT_OK;
    }
    graft_status st = plain_model(m, &plain, e);
    if (!st) st = graft_model_merge_subtract(plain, k->model, -strength, &difference, e);
    if (!st) st = graft_model_merge_add(m, difference, out, e);
    graft_model_release(plain);
    graft_model_release(difference);
    return st;
}

static graft_status plain_clip(const graft_clip *c, graft_clip **out, graft_err *e)
{
    graft_clip *n = graft_clip_copy(c);
    graft_status st = n ? GRAFT_OK : graft_fail_nomem(e, "text encoder");
    for (size_t i = 0; n && i < n->n_encoders && !st; i++) {
        graft_weights *plain = NULL;
        st = graft_weights_plain(c->encoder[i].weights, &plain, e);
        if (st) break;
        graft_weights_release(n->encoder[i].weights); /* c's, which holds it */
        n->encoder[i].weights = plain;
    }
    if (st)
        graft_clip_release(n);
    else
        *out = n;
    return st;
}

static graft_status to_clip(const graft_hook *h, const graft_clip *c, double strength,
                            const graft_task *task, graft_clip **out, graft_err *e)
{
    const checkpoint_hook *k = (const checkpoint_hook *)h;
    graft_clip *plain = NULL, *difference = NULL;
    (void)task;
    if (!k->clip) {
        *out = graft_clip_retain((graft_clip *)(uintptr_t)c);
        return GRAFT_OK;
    }
    graft_status st = plain_clip(c, &plain, e);
    if (!st) st = graft_clip_merge_subtract(plain, k->clip, -strength, &difference, e);
    if (!st) st = graft_clip_merge_add(c, difference, out, e);
    graft_clip_release(plain);
    graft_clip_release(difference);
    return st;
}

static void destroy(graft_hook *h)
{
    checkpoint_hook *k = (checkpoint_hook *)h;
    graft_model_release(k->model);
    graft_clip_release(k->clip);
    graft_free(k);
}

static const graft_hook_kind kind = {to_model, to_clip, destroy};

graft_status graft_hooks_checkpoint(graft_engine *engine, const graft_hooks *before,
                                    const char *path, double strength_model, double strength_clip,
                                    const graft_task *task, graft_hooks **out, graft_err *e)
{
    if (strength_model == 0 && strength_clip == 0) return graft_hooks_combine(before, NULL, out, e);
    checkpoint_hook *k = graft_calloc(1, sizeof *k);
    if (!k) return graft_fail_nomem(e, "a hook");
    graft_hook_init(&k->hook, &kind, path);
    graft_status st =
        graft_checkpoint_load(engine, path, task, strength_model != 0 ? &k->model : NULL,
                              strength_clip != 0 ? &k->clip : NULL, NULL, e);
    if (!st) return graft_hooks_append(before, &k->hook, strength_model, strength_clip, out, e);
    destroy(&k->hook);
    return st;
}

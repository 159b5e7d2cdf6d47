/* Hooks of LoRAs. */
#include "base/alloc.h"
#include "engine/files/lora.h"
#include "engine/objects/hooks.h"

typedef struct lora_hook {
    graft_hook hook;
    graft_lora lora;
    _Atomic bool told[2]; /* a model, a text encoder: which keys match nothing */
} lora_hook;

/* A warning for each strength would be one for each step. */
static graft_status to_model(const graft_hook *h, const graft_model *m, double strength,
                             const graft_task *task, graft_model **out, graft_err *e)
{
    lora_hook *l = (lora_hook *)(uintptr_t)h;
    const graft_lora_use use = {
        .model = m, .strength_model = strength, .silent = atomic_exchange(&l->told[0], true)};
    return graft_lora_put(&l->lora, &use, task, out, NULL, e);
}

static graft_status to_clip(const graft_hook *h, const graft_clip *c, double strength,
                            const graft_task *task, graft_clip **out, graft_err *e)
{
    lora_hook *l = (lora_hook *)(uintptr_t)h;
    const graft_lora_use use = {.clip = c,
                                .strength_clip = strength,
                                .may_lack = true,
                                .silent = atomic_exchange(&l->told[1], true)};
    return graft_lora_put(&l->lora, &use, task, NULL, out, e);
}

static void destroy(graft_hook *h)
{
    lora_hook *l = (lora_hook *)h;
    graft_lora_finish(&l->lora);
    graft_free(l);
}

static const graft_hook_kind kind = {to_model, to_clip, destroy};

graft_status graft_hooks_lora(const graft_hooks *before, const char *path, double strength_model,
                              double strength_clip, const graft_task *task, graft_hooks **out,
                              graft_err *e)
{
    if (strength_model == 0 && strength_clip == 0) return graft_hooks_combine(before, NULL, out, e);
    lora_hook *l = graft_calloc(1, sizeof *l);
    if (!l) return graft_fail_nomem(e, "a hook");
    graft_hook_init(&l->hook, &kind, path);
    graft_status st = graft_lora_open(path, task, &l->lora, e);
    if (!st) return graft_hooks_append(before, &l->hook, strength_model, strength_clip, out, e);
    destroy(&l->hook);
    return st;
}

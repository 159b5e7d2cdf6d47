/* The stand-in engine's hooks and keyframes, which count what they are of. */
#include "tests/nodes/fake_trace.h"

#define COUNTED(T)                                                                                 \
    FAKE_OBJECT(T)                                                                                 \
    size_t graft_##T##_count(const graft_##T *o)                                                   \
    {                                                                                              \
        return o->n;                                                                               \
    }                                                                                              \
    static graft_status counted_##T(size_t n, graft_##T **out, graft_err *e)                       \
    {                                                                                              \
        graft_status st = make_##T(out, e);                                                        \
        if (st == GRAFT_OK) (*out)->n = n;                                                         \
        return st;                                                                                 \
    }
COUNTED(hooks)
COUNTED(keyframes)

static int of(const graft_hooks *h)
{
    return h ? (int)h->n : 0;
}

graft_status graft_hooks_lora(const graft_hooks *before, const char *path, double strength_model,
                              double strength_clip, const graft_task *task, graft_hooks **out,
                              graft_err *e)
{
    (void)task;
    trace("hook lora %s %g %g behind %d\n", base_name(path), strength_model, strength_clip,
          of(before));
    return counted_hooks((size_t)of(before) + 1, out, e);
}

graft_status graft_hooks_checkpoint(graft_engine *engine, const graft_hooks *before,
                                    const char *path, double strength_model, double strength_clip,
                                    const graft_task *task, graft_hooks **out, graft_err *e)
{
    (void)engine, (void)task;
    trace("hook checkpoint %s %g %g behind %d\n", base_name(path), strength_model, strength_clip,
          of(before));
    return counted_hooks((size_t)of(before) + 1, out, e);
}

graft_status graft_hooks_combine(const graft_hooks *a, const graft_hooks *b, graft_hooks **out,
                                 graft_err *e)
{
    trace("hooks %d and %d\n", of(a), of(b));
    return counted_hooks((size_t)(of(a) + of(b)), out, e);
}

graft_status graft_hooks_schedule(const graft_hooks *h, const graft_keyframes *k, graft_hooks **out,
                                  graft_err *e)
{
    trace("schedule %d by %d\n", of(h), (int)k->n);
    return counted_hooks(h->n, out, e);
}

graft_status graft_keyframes_add(const graft_keyframes *before, const graft_keyframe *list,
                                 size_t n, graft_keyframes **out, graft_err *e)
{
    for (size_t i = 0; i < n; i++) trace("keyframe %g %g\n", list[i].start, list[i].strength);
    return counted_keyframes((before ? before->n : 0) + n, out, e);
}

graft_status graft_keyframes_curve(const graft_keyframe_curve *c, graft_keyframe *list,
                                   graft_err *e)
{
    trace("curve %s of %d\n", c->interpolation, (int)c->n);
    for (size_t i = 0; i < c->n; i++) list[i] = i + 1 < c->n ? c->from : c->to;
    return due(e);
}

graft_status graft_cond_hooks(const graft_cond *c, const graft_hooks *h, graft_cond **out,
                              graft_err *e)
{
    (void)c;
    trace("prompt with %d\n", of(h));
    return fake_make_cond(out, e);
}

graft_status graft_cond_default(const graft_cond *c, const graft_cond *rest,
                                const graft_hooks *hooks, graft_cond **out, graft_err *e)
{
    trace("default %d with %d\n", c != rest, of(hooks));
    return fake_make_cond(out, e);
}

graft_status graft_clip_hooks(const graft_clip *c, const graft_hooks *h, bool on_prompts,
                              bool scheduled, graft_clip **out, graft_err *e)
{
    (void)c;
    trace("clip with %d on_prompts=%d scheduled=%d\n", of(h), on_prompts, scheduled);
    return fake_make_clip(out, e);
}

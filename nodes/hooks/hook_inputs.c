#include "nodes/hooks/hook_inputs.h"

#include "base/alloc.h"
#include "nodes/call/state.h"

static double clip_strength(const graft_call *c, const graft_hook_inputs *in)
{
    return in->clip == GRAFT_HOOK_ALONE ? 0.0 : graft_arg_f64(c, in->clip);
}

graft_status graft_hook_inputs_lora(graft_call *c, const graft_hook_inputs *in)
{
    graft_hooks *hooks = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_arg_file(c, in->name, "loras", &path));
    GRAFT_TRY(graft_hooks_lora(graft_arg_hooks(c, in->before), path, graft_arg_f64(c, in->model),
                               clip_strength(c, in), &c->task, &hooks, &c->err));
    st = graft_call_out_hooks(c, 0, hooks);
out:
    graft_free(path);
    return st;
}

graft_status graft_hook_inputs_checkpoint(graft_call *c, const graft_hook_inputs *in)
{
    graft_hooks *hooks = NULL;
    graft_engine *engine;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_arg_file(c, in->name, "checkpoints", &path));
    GRAFT_TRY(graft_hooks_checkpoint(engine, graft_arg_hooks(c, in->before), path,
                                     graft_arg_f64(c, in->model), clip_strength(c, in), &c->task,
                                     &hooks, &c->err));
    st = graft_call_out_hooks(c, 0, hooks);
out:
    graft_free(path);
    return st;
}

graft_status graft_hook_inputs_combine(graft_call *c, int n)
{
    graft_hooks *all = NULL;
    graft_status st = graft_hooks_combine(NULL, NULL, &all, &c->err);
    for (int i = 0; i < n && st == GRAFT_OK; i++) {
        graft_hooks *more = NULL;
        if (!graft_arg_hooks(c, i)) continue;
        st = graft_hooks_combine(all, graft_arg_hooks(c, i), &more, &c->err);
        if (st != GRAFT_OK) break;
        graft_hooks_release(all);
        all = more;
    }
    if (st == GRAFT_OK) return graft_call_out_hooks(c, 0, all);
    graft_hooks_release(all);
    return st;
}

static void tell(graft_call *c, const graft_keyframe *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        graft_log_printf(&c->task.log, GRAFT_LOG_INFO, "keyframe %zu: from %.3f on %.5g", i + 1,
                         list[i].start, list[i].strength);
}

graft_status graft_hook_inputs_curve(graft_call *c, const graft_keyframe_curve *curve,
                                     const float *strength, int before, bool print)
{
    graft_keyframes *k = NULL;
    graft_keyframe *list = graft_malloc_array(curve->n, sizeof *list);
    if (!list) return graft_fail_nomem(&c->err, "keyframes");
    graft_status st = graft_keyframes_curve(curve, list, &c->err);
    for (size_t i = 0; i < curve->n && strength && st == GRAFT_OK; i++)
        list[i].strength = (double)strength[i];
    if (st == GRAFT_OK)
        st = graft_keyframes_add(graft_arg_keyframes(c, before), list, curve->n, &k, &c->err);
    if (st == GRAFT_OK && print) tell(c, list, curve->n);
    graft_free(list);
    return st != GRAFT_OK ? st : graft_call_out_keyframes(c, 0, k);
}

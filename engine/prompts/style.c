/* Style models: what a vision encoder saw, as tokens of a prompt. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/prompts/vision.h"

graft_style *graft_style_retain(graft_style *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void graft_style_release(graft_style *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
    graft_engine_release_weights(s->engine, s->weights);
    graft_free(s);
}

typedef struct style_shape {
    int64_t tokens, act_dtype;
} style_shape;

static graft_status build(const void *arch, const void *shape, graft_graph **out, graft_err *e)
{
    const style_shape *s = shape;
    return graft_redux_build(arch, s->tokens, (graft_dtype)s->act_dtype, out, e);
}

static graft_status bind(const graft_style *s, int64_t tokens, const graft_task *task,
                         graft_binding **out, graft_err *e)
{
    style_shape shape = {tokens, 0};
    graft_dtype dtype;
    graft_compile_job job = {.kind = "style_model",
                             .arch = &s->arch,
                             .arch_bytes = sizeof s->arch,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .build = build};
    graft_status st = graft_options_resolve(s->engine, &s->options, &job.backend, &dtype, e);
    if (st) return st;
    shape.act_dtype = dtype;
    if (dtype == GRAFT_F32 && graft_backend_wants(job.backend, GRAFT_WANTS_NARROW_WEIGHTS))
        job.narrow = graft_weights_narrow(s->weights);
    return graft_engine_bind(s->engine, &s->options, &job, s->weights, task, out, e);
}

static graft_status check(const graft_style *s, const graft_cond *c,
                          const graft_vision_output *seen, double strength, graft_err *e)
{
    if (!isfinite(strength)) return graft_fail(e, GRAFT_E_ARG, "%g is no strength", strength);
    if (seen->width != s->arch.seen)
        return graft_fail(e, GRAFT_E_ARG,
                          "the style model is for a vision encoder of width %d, and this one's is "
                          "%lld (FLUX.1 Redux goes with sigclip_vision_patch14_384)",
                          s->arch.seen, (long long)seen->width);
    for (size_t i = 0; i < c->n; i++)
        if (c->entry[i]->width != s->arch.width)
            return graft_fail(e, GRAFT_E_ARG,
                              "the style model is for prompts of width %d, those of FLUX.1, and "
                              "this one's is %lld",
                              s->arch.width, (long long)c->entry[i]->width);
    return GRAFT_OK;
}

/* The tokens of all pictures, one behind the other. */
static graft_status run(const graft_style *s, const graft_vision_output *seen, float strength,
                        const graft_task *task, float *out, graft_err *e)
{
    const int64_t each = seen->tokens * s->arch.width;
    graft_binding *b = NULL;
    graft_status st = bind(s, seen->tokens, task, &b, e);
    if (st) return st;
    if (task && task->compile_only) {
        memset(out, 0, (size_t)(seen->pictures * each) * sizeof *out);
        goto out;
    }
    graft_task_phase(task, "encode");
    for (int64_t i = 0; i < seen->pictures; i++)
        GRAFT_TRY(graft_exe_run(b, s->engine->arenas,
                                (const void *[]){seen->data + i * seen->tokens * seen->width},
                                (void *[]){out + i * each}, task, NULL, e));
    for (int64_t i = 0; i < seen->pictures * each; i++) out[i] *= strength;
out:
    graft_binding_release(b);
    return st;
}

graft_status graft_style_apply(const graft_style *s, const graft_cond *c,
                               const graft_vision_output *seen, double strength,
                               const graft_task *task, graft_cond **out, graft_err *e)
{
    const int64_t tokens = seen->pictures * seen->tokens;
    graft_cond *pictures = NULL;
    int64_t count;
    *out = NULL;
    graft_status st = check(s, c, seen, strength, e);
    if (st) return st;
    if (!graft_size_product((int64_t[]){tokens, s->arch.width}, 2, &count))
        return graft_fail(e, GRAFT_E_LIMIT, "%lld pictures are too many for a prompt",
                          (long long)seen->pictures);
    float *data = graft_malloc_array((size_t)count, sizeof *data);
    if (!data) return graft_fail_nomem(e, "a style model's tokens");
    st = run(s, seen, (float)strength, task, data, e);
    if (st)
        graft_free(data);
    else
        st = graft_cond_create(tokens, s->arch.width, data, 0, NULL, NULL, &pictures, e);
    if (!st) st = graft_cond_concat(c, pictures, out, e);
    graft_cond_release(pictures);
    return st;
}

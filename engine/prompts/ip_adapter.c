/* IP-Adapters: what a vision encoder saw, as keys and values for a UNet. */
#include "engine/models/encoders/ip_adapter.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/objects/sight.h"
#include "engine/prompts/vision.h"
#include "engine/task.h"

graft_ip_adapter *graft_ip_adapter_retain(graft_ip_adapter *a)
{
    atomic_fetch_add(&a->refs, 1);
    return a;
}

void graft_ip_adapter_release(graft_ip_adapter *a)
{
    if (!a || atomic_fetch_sub(&a->refs, 1) != 1) return;
    graft_engine_release_weights(a->engine, a->weights);
    graft_free(a);
}

/* ------------------------------------------------------------------ whether they fit */

static bool resamples(const graft_ip_adapter *a)
{
    return a->arch.kind == GRAFT_IP_ADAPTER_RESAMPLER;
}

static graft_status check_model(const graft_model *m, const graft_ip_adapter *a, graft_crossings *c,
                                graft_err *e)
{
    const graft_ip_adapter_arch *arch = &a->arch;
    graft_status st = graft_model_needs_unet(m, "An IP-Adapter for Stable Diffusion 1.x or XL", e);
    if (st) return st;
    graft_crossings_of(&m->arch.unet, c);
    if (c->n == arch->n_layers && m->arch.context_dim == arch->width &&
        memcmp(c->channels, arch->channels, (size_t)c->n * sizeof *c->channels) == 0)
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "the IP-Adapter is for a UNet of another kind: it has keys for %d "
                      "cross-attentions of width %d (Stable Diffusion 1.x: 16, 768; XL: 70, 2048), "
                      "the model has %d of width %d",
                      arch->n_layers, arch->width, c->n, m->arch.context_dim);
}

static graft_status check_encoder(const graft_ip_adapter *a, const graft_vision *v, graft_err *e)
{
    const bool clip = graft_vision_is_clip(&v->arch);
    const int64_t width = !clip ? 0 : resamples(a) ? v->arch.width : v->arch.projection;
    if (width == a->arch.seen) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "the IP-Adapter is for a CLIP vision encoder whose %s has %d numbers, and "
                      "this one's has %lld (OpenCLIP's ViT-H: 1024 projected, tokens of 1280; "
                      "ViT-bigG: 1280, tokens of 1664)",
                      resamples(a) ? "token" : "projected vector", a->arch.seen, (long long)width);
}

static int64_t pictures_in(const graft_image *image)
{
    int64_t shape[4];
    graft_image_data(image, shape);
    return shape[0];
}

static graft_status check(const graft_model *m, const graft_ip_adapter *a,
                          const graft_show_options *o, graft_crossings *c, graft_err *e)
{
    const int64_t n = pictures_in(o->image), others = o->negative ? pictures_in(o->negative) : 1;
    if (!(o->weight >= -10 && o->weight <= 10))
        return graft_fail(e, GRAFT_E_ARG, "a weight of %g is not between -10 and 10", o->weight);
    if (!(o->start >= 0 && o->start <= 1 && o->end >= 0 && o->end <= 1))
        return graft_fail(e, GRAFT_E_ARG, "start_at %g and end_at %g must be between 0 and 1",
                          o->start, o->end);
    if (others != 1 && others != n)
        return graft_fail(e, GRAFT_E_ARG, "%lld negative pictures for %lld: one, or as many",
                          (long long)others, (long long)n);
    if (n > INT32_MAX / a->arch.tokens)
        return graft_fail(e, GRAFT_E_LIMIT, "%lld pictures are too many", (long long)n);
    graft_status st = check_model(m, a, c, e);
    return st ? st : check_encoder(a, o->vision, e);
}

/* ------------------------------------------------------------------ one picture */

typedef struct adapter_shape {
    int64_t seen, act_dtype;
} adapter_shape;

static graft_status build(const void *arch, const void *shape, graft_graph **out, graft_err *e)
{
    const adapter_shape *s = shape;
    return graft_ip_adapter_build(arch, s->seen, (graft_dtype)s->act_dtype, out, e);
}

static graft_status bind(const graft_ip_adapter *a, int64_t seen, const graft_task *task,
                         graft_binding **out, graft_err *e)
{
    adapter_shape shape = {.seen = seen};
    graft_dtype dtype;
    graft_compile_job job = {.kind = "ip_adapter",
                             .arch = &a->arch,
                             .arch_bytes = sizeof a->arch,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .build = build};
    graft_status st = graft_options_resolve(a->engine, &a->options, &job.backend, &dtype, e);
    if (st) return st;
    shape.act_dtype = dtype;
    if (dtype == GRAFT_F32 && graft_backend_wants(job.backend, GRAFT_WANTS_NARROW_WEIGHTS))
        job.narrow = graft_weights_narrow(a->weights);
    return graft_engine_bind(a->engine, &a->options, &job, a->weights, task, out, e);
}

/* One call of graft_model_show(). */
typedef struct showing {
    const graft_ip_adapter *adapter;
    const graft_vision *vision;
    const graft_task *task;
    const graft_crossings *crossings;
    graft_binding *binding; /* of the adapter */
    graft_sight *sight;
    int64_t pictures, tokens; /* tokens: of what the encoder gives and a resampler takes */
    float *pixels, *queries;  /* queries: NULL of plain ones */
    float *hidden, *pooled;   /* of one picture; hidden has room for the encoder's tokens */
} showing;

/* What the adapter is given of picture `index`; image NULL: of none. */
static graft_status see(showing *s, const graft_image *image, int64_t index, graft_err *e)
{
    const graft_vision *v = s->vision;
    const bool plus = resamples(s->adapter);
    graft_status st = GRAFT_OK;
    if (!image && !plus) {
        memset(s->pooled, 0, (size_t)s->adapter->arch.seen * sizeof *s->pooled);
        return GRAFT_OK;
    }
    if (image)
        st = graft_vision_pixels(v, image, index, true, s->pixels, e);
    else
        memset(s->pixels, 0, (size_t)graft_vision_values(&v->arch) * sizeof *s->pixels);
    if (st) return st;
    return plus ? graft_vision_run_early(v, s->pixels, s->task, s->hidden, e)
                : graft_vision_run(v, s->pixels, s->task, s->hidden, s->pooled, e);
}

/* From there to keys and values, at picture `index` of this side. */
static graft_status adapt(showing *s, int side, int64_t index, graft_err *e)
{
    const graft_crossings *c = s->crossings;
    const int64_t each = s->adapter->arch.tokens, all = s->sight->tokens;
    const void *in[2] = {resamples(s->adapter) ? s->hidden : s->pooled, s->queries};
    void *out[2 * GRAFT_CROSSINGS];
    float *to = s->sight->data[side];
    for (int32_t i = 0; i < 2 * c->n; i++) {
        const int64_t width = c->channels[i / 2];
        out[i] = to + index * each * width;
        to += all * width;
    }
    if (s->task && s->task->compile_only) {
        for (int32_t i = 0; i < 2 * c->n; i++)
            memset(out[i], 0, (size_t)(each * c->channels[i / 2]) * sizeof *to);
        return GRAFT_OK;
    }
    return graft_exe_run(s->binding, s->adapter->engine->arenas, in, out, s->task, NULL, e);
}

/* ------------------------------------------------------------------ all of them */

static graft_status begin(showing *s, graft_err *e)
{
    const graft_ip_adapter_arch *a = &s->adapter->arch;
    const graft_vision_arch *v = &s->vision->arch;
    const char *queries = graft_ip_adapter_queries(a);
    const int64_t values = (int64_t)a->tokens * a->hidden;
    s->tokens = graft_vision_tokens(v);
    s->pixels = graft_malloc_array((size_t)graft_vision_values(v), sizeof(float));
    s->hidden = graft_malloc_array((size_t)(s->tokens * v->width), sizeof(float));
    s->pooled = graft_malloc_array((size_t)graft_vision_pooled(v), sizeof(float));
    if (queries) s->queries = graft_malloc_array((size_t)values, sizeof(float));
    if (!s->pixels || !s->hidden || !s->pooled || (queries && !s->queries))
        return graft_fail_nomem(e, "pictures beside a prompt");
    graft_status st = GRAFT_OK;
    if (queries) st = graft_weights_values(s->adapter->weights, queries, 0, values, s->queries, e);
    if (!st) st = bind(s->adapter, queries ? s->tokens : 1, s->task, &s->binding, e);
    return st ? st
              : graft_sight_create(s->crossings, (int32_t)(s->pictures * a->tokens), &s->sight, e);
}

/* The pictures of one side; fewer ones are the last one's several times. */
static graft_status run_side(showing *s, int side, const graft_image *image, graft_err *e)
{
    const int64_t given = image ? pictures_in(image) : 1;
    graft_status st = GRAFT_OK;
    for (int64_t i = 0; i < s->pictures && !st; i++) {
        graft_task_progress(s->task, (uint64_t)(side * s->pictures + i),
                            (uint64_t)(GRAFT_SIGHT_SIDES * s->pictures));
        if (i < given) st = see(s, image, i, e);
        if (!st) st = adapt(s, side, i, e);
    }
    return st;
}

static void finish(showing *s)
{
    graft_binding_release(s->binding);
    graft_sight_release(s->sight);
    graft_free(s->pixels);
    graft_free(s->queries);
    graft_free(s->hidden);
    graft_free(s->pooled);
}

graft_status graft_model_show(const graft_model *m, const graft_ip_adapter *adapter,
                              const graft_show_options *o, const graft_task *task,
                              graft_model **out, graft_err *e)
{
    graft_crossings crossings;
    *out = NULL;
    graft_status st = check(m, adapter, o, &crossings, e);
    if (st) return st;
    showing s = {.adapter = adapter,
                 .vision = o->vision,
                 .task = task,
                 .crossings = &crossings,
                 .pictures = pictures_in(o->image)};
    st = begin(&s, e);
    graft_task_phase(task, "encode");
    if (!st) st = run_side(&s, GRAFT_SIGHT_POSITIVE, o->image, e);
    if (!st) st = run_side(&s, GRAFT_SIGHT_OTHERS, o->negative, e);
    if (!st) {
        const struct graft_seen what = {s.sight, o->weight, o->start, o->end,
                                        (graft_image *)(uintptr_t)o->mask};
        s.sight = NULL;
        st = graft_model_with_sight(m, &what, out, e);
    }
    finish(&s);
    return st;
}

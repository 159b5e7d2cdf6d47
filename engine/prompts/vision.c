/* Encoders of pictures: pictures to tokens. */
#include "engine/prompts/vision.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/image/pixels.h"

graft_vision *graft_vision_retain(graft_vision *v)
{
    atomic_fetch_add(&v->refs, 1);
    return v;
}

void graft_vision_release(graft_vision *v)
{
    if (!v || atomic_fetch_sub(&v->refs, 1) != 1) return;
    graft_engine_release_weights(v->engine, v->weights);
    graft_free(v);
}

/* ------------------------------------------------------------------ one picture */

typedef struct vision_shape {
    int64_t act_dtype;
} vision_shape;

static graft_status build(const void *arch, const void *shape, graft_graph **out, graft_err *e)
{
    const vision_shape *s = shape;
    return graft_vision_build(arch, (graft_dtype)s->act_dtype, out, e);
}

static graft_status bind(const graft_vision *v, const graft_task *task, graft_binding **out,
                         graft_err *e)
{
    vision_shape shape = {0};
    graft_dtype dtype;
    graft_compile_job job = {.kind = "vision_encoder",
                             .arch = &v->arch,
                             .arch_bytes = sizeof v->arch,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .offload = true,
                             .build = build};
    graft_status st = graft_options_resolve(v->engine, &v->options, &job.backend, &dtype, e);
    if (st) return st;
    shape.act_dtype = dtype;
    if (dtype == GRAFT_F32 && graft_backend_wants(job.backend, GRAFT_WANTS_NARROW_WEIGHTS))
        job.narrow = graft_weights_narrow(v->weights);
    return graft_engine_bind(v->engine, &v->options, &job, v->weights, task, out, e);
}

graft_status graft_vision_pixels(const graft_vision *v, const graft_image *image, int64_t index,
                                 bool center, float *out, graft_err *e)
{
    static const float mean[3] = GRAFT_PIXELS_CLIP_MEAN;
    static const float deviation[3] = GRAFT_PIXELS_CLIP_DEVIATION;
    const graft_vision_arch *a = &v->arch;
    graft_pixels s = {.height = a->size, .width = a->size, .center = center};
    for (int c = 0; c < 3; c++) {
        s.mean[c] = graft_vision_is_clip(a) ? mean[c] : 0.5f;
        s.deviation[c] = graft_vision_is_clip(a) ? deviation[c] : 0.5f;
    }
    return graft_pixels_of(&s, image, index, out, e);
}

/* The token that CLIP has before those of the picture. */
static graft_status look_up_first(const graft_vision *v, float **out, graft_err *e)
{
    const char *name = graft_vision_first(&v->arch);
    if (!name) return GRAFT_OK;
    *out = graft_malloc_array((size_t)v->arch.width, sizeof **out);
    if (!*out) return graft_fail_nomem(e, "vision encoder");
    return graft_weights_values(v->weights, name, 0, v->arch.width, *out, e);
}

graft_status graft_vision_run(const graft_vision *v, const float *pixels, const graft_task *task,
                              float *tokens, float *pooled, graft_err *e)
{
    const graft_vision_arch *a = &v->arch;
    const size_t width = (size_t)graft_vision_pooled(a);
    graft_binding *b = NULL;
    float *first = NULL;
    graft_status st = GRAFT_OK;
    GRAFT_TRY(look_up_first(v, &first, e));
    GRAFT_TRY(bind(v, task, &b, e));
    if (task && task->compile_only) {
        memset(tokens, 0, (size_t)(graft_vision_tokens(a) * a->width) * sizeof *tokens);
        if (width) memset(pooled, 0, width * sizeof *pooled);
        goto out;
    }
    graft_task_phase(task, "encode");
    GRAFT_TRY(graft_exe_run(b, v->engine->arenas, (const void *[]){pixels, first},
                            (void *[]){tokens, pooled}, task, NULL, e));
out:
    graft_binding_release(b);
    graft_free(first);
    return st;
}

graft_status graft_vision_run_early(const graft_vision *v, const float *pixels,
                                    const graft_task *task, float *tokens, graft_err *e)
{
    graft_vision early = {
        .engine = v->engine, .arch = v->arch, .weights = v->weights, .options = v->options};
    assert(graft_vision_is_clip(&v->arch) && v->arch.layers > 0);
    early.arch.layers--;
    float *pooled = graft_malloc_array((size_t)graft_vision_pooled(&v->arch), sizeof *pooled);
    if (!pooled) return graft_fail_nomem(e, "vision encoder");
    graft_status st = graft_vision_run(&early, pixels, task, tokens, pooled, e);
    graft_free(pooled);
    return st;
}

/* ------------------------------------------------------------------ a batch */

static graft_status create_output(const graft_vision_arch *a, int64_t pictures,
                                  graft_vision_output **out, graft_err *e)
{
    const int64_t tokens = graft_vision_tokens(a), pooled = graft_vision_pooled(a);
    int64_t count, more;
    if (!graft_size_product((int64_t[]){pictures, tokens, a->width}, 3, &count) ||
        !graft_size_product((int64_t[]){pictures, pooled ? pooled : 1}, 2, &more))
        return graft_fail(e, GRAFT_E_LIMIT, "%lld pictures are too many for a vision encoder",
                          (long long)pictures);
    graft_vision_output *o = graft_calloc(1, sizeof *o);
    if (!o) return graft_fail_nomem(e, "a vision encoder's output");
    atomic_init(&o->refs, 1);
    o->pictures = pictures;
    o->tokens = tokens;
    o->width = a->width;
    o->pooled_width = pooled;
    o->data = graft_malloc_array((size_t)count, sizeof *o->data);
    o->pooled = pooled ? graft_malloc_array((size_t)more, sizeof *o->pooled) : NULL;
    *out = o;
    if (o->data && (o->pooled || !pooled)) return GRAFT_OK;
    graft_vision_output_release(o);
    return graft_fail_nomem(e, "a vision encoder's output");
}

graft_status graft_vision_encode(const graft_vision *v, const graft_image *image, bool center,
                                 const graft_task *task, graft_vision_output **out, graft_err *e)
{
    const graft_vision_arch *a = &v->arch;
    int64_t shape[4];
    graft_vision_output *o = NULL;
    *out = NULL;
    graft_image_data(image, shape);
    graft_status st = create_output(a, shape[0], &o, e);
    if (st) return st;
    float *pixels = graft_malloc_array((size_t)graft_vision_values(a), sizeof *pixels);
    if (!pixels) st = graft_fail_nomem(e, "a picture for a vision encoder");
    for (int64_t i = 0; i < shape[0] && !st; i++) {
        graft_task_progress(task, (uint64_t)i, (uint64_t)shape[0]);
        st = graft_vision_pixels(v, image, i, center, pixels, e);
        if (!st)
            st = graft_vision_run(v, pixels, task, o->data + i * o->tokens * o->width,
                                  o->pooled ? o->pooled + i * o->pooled_width : NULL, e);
    }
    graft_free(pixels);
    if (st)
        graft_vision_output_release(o);
    else
        *out = o;
    return st;
}

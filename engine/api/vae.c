/* VAE: latents to pictures and back, whole, in strips or in tiles. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/api/objects.h"
#include "engine/api/strips.h"
#include "engine/api/tiles.h"
#include "engine/image/image.h"
#include "engine/image/latent.h"
#include "engine/image/mask.h"

graft_vae *graft_vae_retain(graft_vae *v)
{
    atomic_fetch_add(&v->refs, 1);
    return v;
}

void graft_vae_release(graft_vae *v)
{
    if (!v || atomic_fetch_sub(&v->refs, 1) != 1) return;
    graft_weights_release(v->weights);
    graft_free(v);
}

graft_vae *graft_vae_copy(const graft_vae *v)
{
    graft_vae *n = graft_malloc(sizeof *n);
    if (!n) return NULL;
    memcpy(n, v, sizeof *n);
    atomic_init(&n->refs, 1);
    graft_weights_retain(n->weights);
    return n;
}

typedef struct vae_shape {
    int64_t batch, height, width;
    graft_dtype act_dtype;
    int32_t zero;
} vae_shape;

static graft_status build_decoder(const void *arch, const void *shape, graft_graph **out,
                                  graft_err *e)
{
    const vae_shape *s = shape;
    return graft_vae_decoder_build(arch, s->batch, s->height, s->width, s->act_dtype, out, e);
}

static graft_status build_encoder(const void *arch, const void *shape, graft_graph **out,
                                  graft_err *e)
{
    const vae_shape *s = shape;
    return graft_vae_encoder_build(arch, s->batch, s->height, s->width, s->act_dtype, out, e);
}

graft_status graft_vae_bind(const graft_vae *v, bool decoder, int64_t height, int64_t width,
                            const graft_task *task, graft_binding **out, graft_err *e)
{
    vae_shape shape = {1, height, width, 0, 0};
    graft_compile_job job = {.kind = decoder ? "vae_decoder" : "vae_encoder",
                             .arch = &v->arch,
                             .arch_bytes = sizeof v->arch,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .build = decoder ? build_decoder : build_encoder};
    graft_status st =
        graft_options_resolve(v->engine, &v->options, &job.backend, &shape.act_dtype, e);
    if (st) return st;
    return graft_engine_bind(v->engine, &v->options, &job, v->weights, task, out, e);
}

graft_status graft_vae_prepare(const graft_vae *v, bool decoder, int64_t height, int64_t width,
                               const graft_task *task, graft_err *e)
{
    graft_binding *b = NULL;
    graft_status st = graft_vae_bind(v, decoder, height, width, task, &b, e);
    graft_binding_release(b);
    if (st == GRAFT_E_LIMIT && v->options.tile)
        st = graft_strips_prepare(v, decoder, height, width, task, e);
    return st;
}

/* One picture: in one piece where that fits, else in strips where CompileVAE allows it, or in the
 * tiles that are asked for. */
static graft_status run_half(const graft_tile_job *j, const float *in, float *out,
                             const graft_task *task, graft_err *e)
{
    const graft_vae *v = j->vae;
    graft_binding *b = NULL;
    if (j->tile) return graft_tiles_run(j, in, out, task, e);
    if (task && task->compile_only)
        return graft_vae_prepare(v, j->decoder, j->in[1], j->in[2], task, e);
    graft_status st = graft_vae_bind(v, j->decoder, j->in[1], j->in[2], task, &b, e);
    if (st == GRAFT_E_LIMIT && v->options.tile)
        return graft_strips_run(v, j->decoder, j->in[1], j->in[2], in, out, task, e);
    graft_task_phase(task, j->decoder ? "decode" : "encode");
    if (!st)
        st = graft_exe_run(b, v->engine->arenas, (const void *[]){in}, (void *[]){out}, task, NULL,
                           e);
    graft_binding_release(b);
    return st;
}

/* Progress of picture `index` as progress of all. */
typedef struct batch_task {
    const graft_task *whole;
    uint64_t index, count;
} batch_task;

static void batch_progress(void *ctx, uint64_t done, uint64_t total)
{
    const batch_task *b = ctx;
    graft_task_progress(b->whole, b->index * total + done, b->count * total);
}

static void batch_phase(void *ctx, const char *name)
{
    graft_task_phase(((const batch_task *)ctx)->whole, name);
}

static bool batch_cancelled(void *ctx)
{
    return graft_task_cancelled(((const batch_task *)ctx)->whole);
}

static graft_task task_of(batch_task *b)
{
    graft_task t = {
        .ctx = b, .progress = batch_progress, .phase = batch_phase, .cancelled = batch_cancelled};
    if (b->whole) {
        t.compile_only = b->whole->compile_only;
        t.log = b->whole->log;
    }
    return t;
}

/* ------------------------------------------------------------------ decode */

static void to_unit_range(float *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float x = p[i] * 0.5f + 0.5f;
        p[i] = x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x; /* NaN passes through */
    }
}

graft_status graft_vae_decode(const graft_vae *v, const graft_latent *l, const graft_tiling *tiling,
                              const graft_task *task, graft_image **out, graft_err *e)
{
    int64_t in[4], f = graft_vae_factor(&v->arch);
    const float *z = graft_latent_data(l, in);
    if (in[1] != v->arch.embed_dim)
        return graft_fail(e, GRAFT_E_ARG, "the latent has %lld channels, this VAE takes %d",
                          (long long)in[1], v->arch.embed_dim);
    int64_t shape[4] = {in[0], in[2] * f, in[3] * f, v->arch.out_channels};
    graft_image *image = NULL;
    graft_status st = graft_image_create(shape, false, &image, e);
    if (st) return st;
    float *p = graft_image_writable(image);
    graft_task_phase(task, "decode");
    graft_tile_job job = {.vae = v,
                          .decoder = true,
                          .in = {in[1], in[2], in[3]},
                          .out = {shape[1], shape[2], shape[3]}};
    if (tiling) {
        job.tile = tiling->tile_size >= f ? tiling->tile_size / f : 1;
        job.overlap = tiling->overlap / f;
    }
    bool idle = task && task->compile_only;
    if (idle) memset(p, 0, (size_t)(in[0] * shape[1] * shape[2] * shape[3]) * sizeof *p);
    for (int64_t i = 0; i < (idle ? 1 : in[0]) && !st; i++) {
        batch_task batch = {task, (uint64_t)i, (uint64_t)in[0]};
        const graft_task one = task_of(&batch);
        graft_task_progress(&one, 0, 1);
        st = run_half(&job, z + i * in[1] * in[2] * in[3], p + i * shape[1] * shape[2] * shape[3],
                      &one, e);
    }
    if (st) {
        graft_image_release(image);
        return st;
    }
    to_unit_range(p, shape[0] * shape[1] * shape[2] * shape[3]);
    *out = image;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ encode */

/* One picture's first channels as -1..1; a missing alpha or grey channel repeats the last. */
static void to_signed(const float *p, int64_t pixels, int64_t from, int64_t to, float *out)
{
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t c = 0; c < to; c++)
            out[i * to + c] = p[i * from + (c < from ? c : from - 1)] * 2.0f - 1.0f;
}

static graft_status encode_cropped(const graft_vae *v, const graft_image *pixels,
                                   const graft_tiling *tiling, const graft_task *task,
                                   graft_latent **out, graft_err *e)
{
    int64_t in[4], f = graft_vae_factor(&v->arch), z = v->arch.embed_dim;
    const float *p = graft_image_data(pixels, in);
    int64_t c = v->arch.in_channels, area = in[1] * in[2];
    int64_t shape[4] = {in[0], z, in[1] / f, in[2] / f};
    int64_t small = shape[2] * shape[3];
    graft_latent *latent = NULL;
    float *x = graft_malloc_array((size_t)area, (size_t)c * sizeof *x);
    float *moments = graft_malloc_array((size_t)small, (size_t)(2 * z) * sizeof *moments);
    graft_status st = GRAFT_OK;
    if (!x || !moments) {
        st = graft_fail_nomem(e, "VAE encoder");
        goto out;
    }
    GRAFT_TRY(graft_latent_create(shape, &latent, e));
    graft_task_phase(task, "encode");
    graft_tile_job job = {
        .vae = v, .decoder = false, .in = {c, in[1], in[2]}, .out = {shape[2], shape[3], 2 * z}};
    if (tiling) {
        job.tile = tiling->tile_size >= f ? tiling->tile_size / f : 1;
        job.overlap = tiling->overlap / f;
    }
    bool idle = task && task->compile_only;
    if (idle) memset(moments, 0, (size_t)small * (size_t)(2 * z) * sizeof *moments);
    for (int64_t i = 0; i < in[0]; i++) {
        to_signed(p + i * area * in[3], area, in[3], c, x);
        batch_task batch = {task, (uint64_t)i, (uint64_t)in[0]};
        const graft_task one = task_of(&batch);
        GRAFT_TRY(run_half(&job, x, moments, &one, e));
        /* The mean of the posterior, as ComfyUI takes it. */
        memcpy(graft_latent_writable(latent) + i * z * small, moments,
               (size_t)(z * small) * sizeof *moments);
    }
    *out = latent;
    latent = NULL;
out:
    graft_latent_release(latent);
    graft_free(x);
    graft_free(moments);
    return st;
}

graft_status graft_vae_encode(const graft_vae *v, const graft_image *pixels,
                              const graft_tiling *tiling, const graft_task *task,
                              graft_latent **out, graft_err *e)
{
    graft_image *cropped = NULL;
    if (!v->arch.encoder) return graft_fail(e, GRAFT_E_UNSUPPORTED, "this VAE has no encoder");
    graft_status st = graft_image_crop_to_multiple(pixels, graft_vae_factor(&v->arch), &cropped, e);
    if (!st) st = encode_cropped(v, cropped, tiling, task, out, e);
    graft_image_release(cropped);
    return st;
}

graft_status graft_vae_encode_inpaint(const graft_vae *v, const graft_image *pixels,
                                      const graft_image *mask, int64_t grow_mask_by,
                                      const graft_task *task, graft_latent **out, graft_err *e)
{
    graft_image *sized = NULL, *picture = NULL, *cut = NULL, *grey = NULL, *grown = NULL;
    graft_latent *latent = NULL;
    graft_status st = GRAFT_OK;
    int64_t shape[4], f = graft_vae_factor(&v->arch);
    graft_image_data(pixels, shape);
    GRAFT_TRY(graft_image_resize_mask(mask, shape[1], shape[2], 0, &sized, e));
    GRAFT_TRY(graft_image_crop_to_multiple(pixels, f, &picture, e));
    GRAFT_TRY(graft_image_crop_to_multiple(sized, f, &cut, e));
    GRAFT_TRY(graft_mask_grow(cut, grow_mask_by, &grown, e));
    GRAFT_TRY(graft_mask_fill_grey(picture, cut, &grey, e));
    GRAFT_TRY(graft_vae_encode(v, grey, NULL, task, &latent, e));
    GRAFT_TRY(graft_latent_set_mask(latent, grown, out, e));
out:
    graft_latent_release(latent);
    graft_image_release(sized);
    graft_image_release(picture);
    graft_image_release(cut);
    graft_image_release(grey);
    graft_image_release(grown);
    return st;
}

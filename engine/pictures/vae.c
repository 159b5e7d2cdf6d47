/* VAE: latents to pictures and back, whole, in strips or in tiles. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/pictures/picture_task.h"
#include "engine/objects/objects.h"
#include "engine/pictures/strips.h"
#include "engine/pictures/tiles.h"
#include "engine/image/image.h"
#include "engine/image/latent.h"
#include "engine/image/mask.h"
#include "engine/models/vaes/taesd.h"

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

graft_status graft_vae_compile(const graft_vae *v, const graft_compile_options *options,
                               const graft_task *task, graft_vae **out, graft_err *e)
{
    graft_vae *n = graft_vae_copy(v);
    if (!n) return graft_fail_nomem(e, "VAE");
    graft_status st = graft_options_from(n->engine, options, &n->options, e);
    if (!st && options->width > 0 && options->height > 0) {
        const int64_t scale = graft_vae_scale(&n->arch), fold = graft_vae_fold(&n->arch);
        st = graft_vae_prepare(n, true, options->height / scale * fold,
                               options->width / scale * fold, task, e);
    }
    if (st)
        graft_vae_release(n);
    else
        *out = n;
    return st;
}

/* Half a VAE at work on one picture after the other. */
typedef struct half_run {
    const graft_vae *vae;
    bool decoder;
    int64_t height, width;      /* of the latent in cells for the decoder, of the picture else */
    const graft_tiling *tiling; /* NULL: whole, or in strips */
} half_run;

#define TILE_MIN 4 /* latent pixels */

static graft_status bind_half(const void *of, int64_t height, int64_t width, const graft_task *task,
                              graft_binding **out, graft_err *e)
{
    const half_run *r = of;
    return graft_vae_bind(r->vae, r->decoder, height, width, task, out, e);
}

static graft_status run_tiles(const half_run *r, const float *in, float *out,
                              const graft_task *task, graft_err *e)
{
    const graft_vae_arch *a = &r->vae->arch;
    int64_t f = graft_vae_factor(a), unit = r->decoder ? 1 : f;
    int64_t tile = r->tiling->tile_size >= f ? r->tiling->tile_size / f : 1;
    const graft_tile_side latent = {r->decoder ? a->embed_dim : graft_vae_moments(a), 1, true};
    const graft_tile_side picture = {r->decoder ? a->out_channels : a->in_channels, f, false};
    const graft_tile_job job = {.engine = r->vae->engine,
                                .phase = r->decoder ? "decode" : "encode",
                                .bind = bind_half,
                                .of = r,
                                .in = r->decoder ? latent : picture,
                                .out = r->decoder ? picture : latent,
                                .height = r->height / unit,
                                .width = r->width / unit,
                                .tile_height = tile,
                                .tile_width = tile,
                                .overlap = r->tiling->overlap / f};
    if (tile < TILE_MIN)
        return graft_fail(e, GRAFT_E_ARG, "tiles below %d latent pixels", TILE_MIN);
    return graft_tiles_run(&job, in, out, task, e);
}

/* One picture: in one piece where that fits, else in strips where CompileVAE allows it, or in the
 * tiles that are asked for. */
static graft_status run_half(const half_run *r, const float *in, float *out, const graft_task *task,
                             graft_err *e)
{
    const graft_vae *v = r->vae;
    graft_binding *b = NULL;
    if (r->tiling) return run_tiles(r, in, out, task, e);
    if (task && task->compile_only)
        return graft_vae_prepare(v, r->decoder, r->height, r->width, task, e);
    graft_status st = graft_vae_bind(v, r->decoder, r->height, r->width, task, &b, e);
    if (st == GRAFT_E_LIMIT && v->options.tile)
        return graft_strips_run(v, r->decoder, r->height, r->width, in, out, task, e);
    graft_task_phase(task, r->decoder ? "decode" : "encode");
    if (!st)
        st = graft_exe_run(b, v->engine->arenas, (const void *[]){in}, (void *[]){out}, task, NULL,
                           e);
    graft_binding_release(b);
    return st;
}

/* ------------------------------------------------------------------ decode */

/* Its pictures are 0..1, others' -1..1. */
static bool is_tiny(const graft_vae *v)
{
    return graft_vae_is_tiny(&v->arch);
}

static void to_unit_range(const graft_vae *v, float *p, int64_t n)
{
    const float scale = is_tiny(v) ? 1.0f : 0.5f, shift = is_tiny(v) ? 0.0f : 0.5f;
    for (int64_t i = 0; i < n; i++) {
        float x = p[i] * scale + shift;
        p[i] = x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x; /* NaN passes through */
    }
}

/* Whether the decoder reads something else than a latent. */
static bool wants_room(const graft_vae *v)
{
    return is_tiny(v) || v->arch.fold;
}

/* n numbers of a latent that a tiny autoencoder's network sees, of those that travel between nodes;
 * and back. A plane has `area` of them. */
static void to_network(const graft_vae *v, const float *z, int64_t n, int64_t area, float *out)
{
    const float scale = (float)v->scale_factor, shift = (float)v->latent_shift;
    const graft_latent_planes *p = v->planes;
    for (int64_t i = 0; i < n; i++)
        out[i] = p ? (z[i] - p->mean[i / area]) / p->deviation[i / area] : (z[i] - shift) * scale;
}

static void from_network(const graft_vae *v, const float *x, int64_t n, int64_t area, float *out)
{
    const float scale = (float)v->scale_factor, shift = (float)v->latent_shift;
    const graft_latent_planes *p = v->planes;
    for (int64_t i = 0; i < n; i++)
        out[i] = p ? x[i] * p->deviation[i / area] + p->mean[i / area] : x[i] / scale + shift;
}

/* One latent of this shape as the decoder reads it; `room` is for as many numbers, where it
 * wants_room(). */
static const float *decoder_input(const graft_vae *v, const float *z, const int64_t shape[4],
                                  float *room)
{
    const int64_t n = shape[1] * shape[2] * shape[3];
    if (v->arch.fold) {
        graft_folding_undo(&v->folding, z, shape[2], shape[3], room);
        z = room;
    }
    if (!is_tiny(v)) return z;
    to_network(v, z, n, n / v->arch.embed_dim, room);
    graft_taesd_clamp(room, (size_t)n);
    return room;
}

static graft_status decode_all(const half_run *run, const float *z, const int64_t in[4], float *p,
                               const graft_task *task, graft_err *e)
{
    const graft_vae *v = run->vae;
    int64_t f = graft_vae_scale(&v->arch), small = in[1] * in[2] * in[3];
    int64_t large = in[2] * in[3] * f * f * v->arch.out_channels;
    bool idle = task && task->compile_only;
    graft_status st = GRAFT_OK;
    float *room = NULL;
    if (wants_room(v) && !(room = graft_malloc_array((size_t)small, sizeof *room)))
        return graft_fail_nomem(e, "a latent");
    if (idle) memset(p, 0, (size_t)(in[0] * large) * sizeof *p);
    for (int64_t i = 0; i < (idle ? 1 : in[0]) && !st; i++) {
        graft_picture_task batch = {task, (uint64_t)i, (uint64_t)in[0]};
        const graft_task one = graft_picture_task_of(&batch);
        graft_task_progress(&one, 0, 1);
        st = run_half(run, decoder_input(v, z + i * small, in, room), p + i * large, &one, e);
    }
    graft_free(room);
    return st;
}

static graft_status decode_single(const graft_vae *v, const graft_latent *l,
                                  const graft_tiling *tiling, const graft_task *task,
                                  graft_image **out, graft_err *e)
{
    int64_t in[4], f = graft_vae_scale(&v->arch), fold = graft_vae_fold(&v->arch);
    const float *z = graft_latent_data(l, in);
    if (in[1] != graft_vae_planes(&v->arch))
        return graft_fail(e, GRAFT_E_ARG, "the latent has %lld channels, this VAE takes %lld",
                          (long long)in[1], (long long)graft_vae_planes(&v->arch));
    int64_t shape[4] = {in[0], in[2] * f, in[3] * f, v->arch.out_channels};
    graft_image *image = NULL;
    graft_status st = graft_image_create(shape, false, &image, e);
    if (st) return st;
    float *p = graft_image_writable(image);
    graft_task_phase(task, "decode");
    const half_run run = {v, true, in[2] * fold, in[3] * fold, tiling};
    st = decode_all(&run, z, in, p, task, e);
    if (st) {
        graft_image_release(image);
        return st;
    }
    to_unit_range(v, p, shape[0] * shape[1] * shape[2] * shape[3]);
    *out = image;
    return GRAFT_OK;
}

graft_status graft_vae_decode(const graft_vae *v, const graft_latent *l, const graft_tiling *tiling,
                              const graft_task *task, graft_image **out, graft_err *e)
{
    graft_latent *apart = NULL;
    if (graft_latent_layers(l) == 1) return decode_single(v, l, tiling, task, out, e);
    graft_status st = graft_latent_cut_to_batch(l, GRAFT_LATENT_LAYERS, 1, &apart, e);
    if (!st) st = decode_single(v, apart, tiling, task, out, e);
    graft_latent_release(apart);
    return st;
}

/* ------------------------------------------------------------------ encode */

/* One picture's first channels as the encoder reads them; a missing grey channel repeats the last,
 * and without an alpha it is opaque. */
static void encoder_input(const graft_vae *v, const float *p, int64_t pixels, int64_t from,
                          float *out)
{
    const float scale = is_tiny(v) ? 1.0f : 2.0f, shift = is_tiny(v) ? 0.0f : -1.0f;
    const int64_t to = v->arch.in_channels;
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t c = 0; c < to; c++) {
            const float x = c < from ? p[i * from + c] : c == 3 ? 1 : p[i * from + from - 1];
            out[i * to + c] = x * scale + shift;
        }
}

/* A latent of this shape, from what the encoder gave: the mean of the posterior, as ComfyUI takes
 * it; a TAESD gives nothing else. */
static void encoder_output(const graft_vae *v, const float *moments, const int64_t shape[4],
                           float *out)
{
    const int64_t area = shape[2] * shape[3], n = shape[1] * area;
    if (v->arch.fold)
        graft_folding_do(&v->folding, moments, shape[2], shape[3], out);
    else if (is_tiny(v))
        from_network(v, moments, n, area, out);
    else
        memcpy(out, moments, (size_t)n * sizeof *out);
    if (v->arch.fold && is_tiny(v)) from_network(v, out, n, n / v->arch.embed_dim, out);
}

static graft_status encode_cropped(const graft_vae *v, const graft_image *pixels,
                                   const graft_tiling *tiling, const graft_task *task,
                                   graft_latent **out, graft_err *e)
{
    int64_t in[4], f = graft_vae_factor(&v->arch), scale = graft_vae_scale(&v->arch);
    const float *p = graft_image_data(pixels, in);
    int64_t c = v->arch.in_channels, area = in[1] * in[2];
    int64_t shape[4] = {in[0], graft_vae_planes(&v->arch), in[1] / scale, in[2] / scale};
    int64_t cells = (in[1] / f) * (in[2] / f), numbers = shape[1] * shape[2] * shape[3];
    graft_latent *latent = NULL;
    float *x = graft_malloc_array((size_t)area, (size_t)c * sizeof *x);
    size_t given = (size_t)graft_vae_moments(&v->arch);
    float *moments = graft_malloc_array((size_t)cells, given * sizeof *moments);
    graft_status st = GRAFT_OK;
    if (!x || !moments) {
        st = graft_fail_nomem(e, "VAE encoder");
        goto out;
    }
    GRAFT_TRY(graft_latent_create(shape, &latent, e));
    graft_task_phase(task, "encode");
    const half_run run = {v, false, in[1], in[2], tiling};
    bool idle = task && task->compile_only;
    if (idle) memset(moments, 0, (size_t)cells * given * sizeof *moments);
    for (int64_t i = 0; i < in[0]; i++) {
        encoder_input(v, p + i * area * in[3], area, in[3], x);
        graft_picture_task batch = {task, (uint64_t)i, (uint64_t)in[0]};
        const graft_task one = graft_picture_task_of(&batch);
        GRAFT_TRY(run_half(&run, x, moments, &one, e));
        encoder_output(v, moments, shape, graft_latent_writable(latent) + i * numbers);
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
    graft_status st = graft_image_crop_to_multiple(pixels, graft_vae_scale(&v->arch), &cropped, e);
    if (!st) st = encode_cropped(v, cropped, tiling, task, out, e);
    graft_image_release(cropped);
    return st;
}

/* A picture and its mask cut to what the encoder takes, and the picture grey where it is masked. */
typedef struct masked {
    graft_image *picture, *mask, *grey;
} masked;

static void masked_finish(masked *m)
{
    graft_image_release(m->picture);
    graft_image_release(m->mask);
    graft_image_release(m->grey);
}

/* *out is to be finished in any case. */
static graft_status make_masked(const graft_vae *v, const graft_image *pixels,
                                const graft_image *mask, masked *out, graft_err *e)
{
    graft_image *sized = NULL;
    int64_t shape[4], f = graft_vae_scale(&v->arch);
    *out = (masked){0};
    graft_image_data(pixels, shape);
    graft_status st = graft_image_resize_mask(mask, shape[1], shape[2], 0, &sized, e);
    if (!st) st = graft_image_crop_to_multiple(pixels, f, &out->picture, e);
    if (!st) st = graft_image_crop_to_multiple(sized, f, &out->mask, e);
    if (!st) st = graft_mask_fill_grey(out->picture, out->mask, &out->grey, e);
    graft_image_release(sized);
    return st;
}

graft_status graft_vae_encode_inpaint(const graft_vae *v, const graft_image *pixels,
                                      const graft_image *mask, int64_t grow_mask_by,
                                      const graft_task *task, graft_latent **out, graft_err *e)
{
    masked m;
    graft_image *grown = NULL;
    graft_latent *latent = NULL;
    graft_status st = make_masked(v, pixels, mask, &m, e);
    if (!st) st = graft_mask_grow(m.mask, grow_mask_by, &grown, e);
    if (!st) st = graft_vae_encode(v, m.grey, NULL, task, &latent, e);
    if (!st) st = graft_latent_set_mask(latent, grown, out, e);
    graft_latent_release(latent);
    graft_image_release(grown);
    masked_finish(&m);
    return st;
}

graft_status graft_vae_encode_known(const graft_vae *v, const graft_image *pixels,
                                    const graft_image *mask, bool noise_mask,
                                    const graft_task *task, graft_latent **whole,
                                    graft_latent **known, graft_err *e)
{
    masked m;
    graft_latent *plain = NULL, *without = NULL;
    graft_status st = make_masked(v, pixels, mask, &m, e);
    *whole = *known = NULL;
    GRAFT_TRY(st);
    GRAFT_TRY(graft_vae_encode(v, m.picture, NULL, task, &plain, e));
    GRAFT_TRY(graft_vae_encode(v, m.grey, NULL, task, &without, e));
    GRAFT_TRY(graft_latent_set_mask(without, m.mask, known, e));
    if (!noise_mask)
        *whole = graft_latent_retain(plain);
    else
        GRAFT_TRY(graft_latent_set_mask(plain, m.mask, whole, e));
out:
    if (st) {
        graft_latent_release(*known);
        *known = NULL;
    }
    graft_latent_release(plain);
    graft_latent_release(without);
    masked_finish(&m);
    return st;
}

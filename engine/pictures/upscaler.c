/* Upscale models: from a file to an object, and pictures through them. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "engine/files/kinds.h"
#include "engine/pictures/picture_task.h"
#include "engine/objects/objects.h"
#include "engine/pictures/tiles.h"
#include "engine/image/image.h"
#include "engine/models/vaes/upscaler.h"
#include "engine/models/detect/detect.h"

graft_upscaler *graft_upscaler_retain(graft_upscaler *u)
{
    atomic_fetch_add(&u->refs, 1);
    return u;
}

void graft_upscaler_release(graft_upscaler *u)
{
    if (!u || atomic_fetch_sub(&u->refs, 1) != 1) return;
    graft_weights_release(u->weights);
    graft_free(u);
}

int64_t graft_upscaler_factor(const graft_upscaler *u)
{
    return graft_upscaler_scale(&u->arch);
}

/* ------------------------------------------------------------------ loading */

/* A tensor that the graph does not read makes the file one of another architecture: what was left
 * out would be missing in the picture. */
static graft_status check_all_read(const graft_weights *w, const graft_graph *g, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(w);
    const char *prefix = graft_weights_prefix(w);
    graft_map used = GRAFT_MAP_INIT;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < g->n_slots && !st; i++)
        if (graft_map_put(&used, g->slot[i].source[0], &used))
            st = graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < graft_safetensors_count(f) && !st; i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
        if (!graft_map_has(&used, name + strlen(prefix)))
            st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                            "%s: an upscale model of an unknown kind: neither RRDBNet nor the "
                            "compact SRVGGNet has a tensor %s",
                            graft_safetensors_path(f), name);
    }
    graft_map_finish(&used);
    return st;
}

static graft_status check_weights(const graft_upscaler *u, graft_err *e)
{
    graft_graph *g = NULL;
    graft_status st = graft_upscaler_build(&u->arch, 8, 8, GRAFT_F32, &g, e);
    if (st && st != GRAFT_E_NOMEM)
        st = graft_err_prefix(e, GRAFT_E_FORMAT, "%s: the tensors do not fit together",
                              graft_safetensors_path(graft_weights_file(u->weights)));
    if (!st) st = graft_weights_check(u->weights, g, e);
    if (!st) st = check_all_read(u->weights, g, e);
    graft_graph_destroy(g);
    return st;
}

static graft_status no_upscaler(const graft_safetensors *f, graft_err *e)
{
    char guess[128];
    return graft_fail(
        e, GRAFT_E_UNSUPPORTED,
        "%s: no upscale model of a known kind in it%s: neither RRDBNet (ESRGAN, tensor "
        "body.0.rdb1.conv1.weight, RRDB_trunk.0.RDB1.conv1.weight or "
        "model.1.sub.0.RDB1.conv1.0.weight) nor the compact SRVGGNet (tensor body.0.weight)",
        graft_safetensors_path(f), graft_kind_guess(f, "UpscaleModelLoader", guess, sizeof guess));
}

static graft_status make_upscaler(graft_engine *engine, graft_weights *file, graft_upscaler **out,
                                  graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    const char *prefix = graft_upscaler_prefix(f);
    graft_status st;
    if (!prefix) return no_upscaler(f, e);
    graft_upscaler *u = graft_calloc(1, sizeof *u);
    if (!u) return graft_fail_nomem(e, "upscale model");
    atomic_init(&u->refs, 1);
    u->engine = engine;
    GRAFT_TRY(graft_upscaler_detect(f, prefix, &u->arch, e));
    GRAFT_TRY(graft_weights_part(file, prefix, &u->weights, e));
    GRAFT_TRY(check_weights(u, e));
    *out = u;
    u = NULL;
out:
    graft_upscaler_release(u);
    return st;
}

graft_status graft_upscaler_load(graft_engine *engine, const char *path, const graft_task *task,
                                 graft_upscaler **out, graft_err *e)
{
    graft_safetensors *f = NULL;
    graft_weights *file = NULL;
    graft_task_phase(task, "load");
    graft_status st = graft_safetensors_open(path, &f, e);
    if (!st) st = graft_weights_create(f, &file, e);
    if (!st) st = make_upscaler(engine, file, out, e);
    graft_weights_release(file);
    return st;
}

/* ------------------------------------------------------------------ tiles */

/* What a tile's features may take where they are largest, counted as float32 so that a picture does
 * not depend on the precision's width. About twice as much is in use at a time. */
#define TILE_BYTES ((int64_t)512 << 20)
#define TILE_MOST  2048 /* units, as below */
#define TILE_LEAST 16
#define OVERLAP    32 /* pixels of the picture */

typedef struct up_shape {
    int64_t height, width;
    int64_t act_dtype;
} up_shape;

static graft_status build(const void *arch, const void *of, graft_graph **out, graft_err *e)
{
    const up_shape *s = of;
    return graft_upscaler_build(arch, s->height, s->width, (graft_dtype)s->act_dtype, out, e);
}

graft_status graft_upscaler_bind(const graft_upscaler *u, int64_t height, int64_t width,
                                 const graft_task *task, graft_binding **out, graft_err *e)
{
    up_shape shape = {height, width, 0};
    graft_dtype dtype;
    graft_compile_job job = {.kind = "upscaler",
                             .arch = &u->arch,
                             .arch_bytes = sizeof u->arch,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .build = build};
    graft_status st = graft_options_resolve(u->engine, &u->options, &job.backend, &dtype, e);
    if (st) return st;
    shape.act_dtype = dtype;
    return graft_engine_bind(u->engine, &u->options, &job, u->weights, task, out, e);
}

static graft_status bind_tile(const void *of, int64_t height, int64_t width, const graft_task *task,
                              graft_binding **out, graft_err *e)
{
    return graft_upscaler_bind(of, height, width, task, out, e);
}

/* Pixels of a unit going in: what becomes one pixel of features. */
static int64_t unit_of(const graft_upscaler_arch *a)
{
    return a->kind == GRAFT_UPSCALER_RRDB ? a->unshuffle : 1;
}

/* The side of the largest tile, in units, from the architecture alone: it decides where seams are,
 * which must not depend on the machine. */
static int64_t first_tile(const graft_upscaler_arch *a)
{
    int64_t bytes = (int64_t)a->features * 4 << 2 * a->doublings;
    int64_t side = (int64_t)sqrt((double)(TILE_BYTES / bytes)) / 8 * 8;
    return side > TILE_MOST ? TILE_MOST : side < TILE_LEAST ? TILE_LEAST : side;
}

/* As many tiles as `most` allows, all as small as that number of them can be. */
static int64_t even_tile(int64_t size, int64_t most, int64_t overlap)
{
    if (size <= most) return size;
    if (overlap > most / 2) overlap = most / 2;
    int64_t n = (size - overlap + most - overlap - 1) / (most - overlap);
    return (size + (n - 1) * overlap + n - 1) / n;
}

/* One picture (height, width, 3), both multiples of a unit. Where memory is limited, tiles become
 * smaller until one fits. */
static graft_status run_picture(const graft_upscaler *u, const float *in, int64_t height,
                                int64_t width, float *out, const graft_task *task, graft_err *e)
{
    int64_t unit = unit_of(&u->arch), tile = first_tile(&u->arch), overlap = OVERLAP / unit;
    graft_tile_job job = {.engine = u->engine,
                          .phase = "upscale",
                          .bind = bind_tile,
                          .of = u,
                          .in = {GRAFT_UPSCALER_CHANNELS, unit, false},
                          .out = {GRAFT_UPSCALER_CHANNELS, unit * graft_upscaler_factor(u), false},
                          .height = height / unit,
                          .width = width / unit,
                          .overlap = overlap};
    int64_t longer = job.height > job.width ? job.height : job.width;
    if (tile > longer) tile = longer;
    for (;;) {
        job.tile_height = even_tile(job.height, tile, overlap);
        job.tile_width = even_tile(job.width, tile, overlap);
        graft_status st = graft_tiles_run(&job, in, out, task, e);
        if (st != GRAFT_E_LIMIT || tile <= TILE_LEAST) return st;
        tile = tile * 3 / 4 > TILE_LEAST ? tile * 3 / 4 : TILE_LEAST;
    }
}

/* ------------------------------------------------------------------ pictures */

/* RGB of a picture (from), with the last row and column repeated up to height x width. */
static void extend(const float *p, const int64_t from[4], int64_t height, int64_t width, float *out)
{
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            int64_t row = y < from[1] ? y : from[1] - 1, column = x < from[2] ? x : from[2] - 1;
            const float *pixel = p + (row * from[2] + column) * from[3];
            for (int64_t c = 0; c < GRAFT_UPSCALER_CHANNELS; c++)
                *out++ = pixel[c < from[3] ? c : from[3] - 1];
        }
}

/* The first rows and columns of a picture as wide as `stride`, cut to 0..1. `out` may be `p`. */
static void finish(const float *p, int64_t stride, const int64_t shape[4], float *out)
{
    for (int64_t y = 0; y < shape[1]; y++)
        for (int64_t i = 0; i < shape[2] * shape[3]; i++) {
            float v = p[y * stride * shape[3] + i];
            *out++ = v < 0.0f ? 0.0f : v > 1.0f ? 1.0f : v; /* NaN passes through */
        }
}

typedef struct upscaling {
    const graft_upscaler *u;
    int64_t from[4], to[4];
    int64_t height, width; /* what goes in: whole units */
    float *in, *out;       /* one picture each; NULL where it can stay where it is */
} upscaling;

static graft_status run_batch(const upscaling *s, const float *p, float *out,
                              const graft_task *task, graft_err *e)
{
    int64_t area = s->from[1] * s->from[2] * s->from[3], large = s->to[1] * s->to[2] * s->to[3];
    bool idle = task && task->compile_only;
    graft_status st = GRAFT_OK;
    for (int64_t i = 0; i < (idle ? 1 : s->from[0]) && !st; i++) {
        graft_picture_task batch = {task, (uint64_t)i, (uint64_t)s->from[0]};
        const graft_task one = graft_picture_task_of(&batch);
        const float *from = s->in ? s->in : p + i * area;
        float *to = s->out ? s->out : out + i * large;
        graft_task_progress(&one, 0, 1);
        if (s->in) extend(p + i * area, s->from, s->height, s->width, s->in);
        st = run_picture(s->u, from, s->height, s->width, to, &one, e);
        if (!st && !idle)
            finish(to, s->width * graft_upscaler_factor(s->u), s->to, out + i * large);
    }
    if (idle) memset(out, 0, (size_t)(s->to[0] * large) * sizeof *out);
    return st;
}

graft_status graft_image_upscale(const graft_upscaler *u, const graft_image *image,
                                 const graft_task *task, graft_image **out, graft_err *e)
{
    upscaling s = {.u = u};
    graft_image *large = NULL;
    graft_status st = GRAFT_OK;
    const float *p = graft_image_data(image, s.from);
    int64_t unit = unit_of(&u->arch), scale = graft_upscaler_factor(u);
    if (s.from[3] != 1 && s.from[3] != GRAFT_UPSCALER_CHANNELS)
        return graft_fail(e, GRAFT_E_ARG,
                          "the picture has %lld channels; upscale models take RGB or grey",
                          (long long)s.from[3]);
    const int64_t to[4] = {s.from[0], s.from[1] * scale, s.from[2] * scale,
                           GRAFT_UPSCALER_CHANNELS};
    memcpy(s.to, to, sizeof to);
    s.height = (s.from[1] + unit - 1) / unit * unit;
    s.width = (s.from[2] + unit - 1) / unit * unit;
    bool extends = s.height != s.from[1] || s.width != s.from[2];
    bool copies = extends || s.from[3] != GRAFT_UPSCALER_CHANNELS;
    size_t pixels = (size_t)(s.height * s.width);
    GRAFT_TRY(graft_image_create(s.to, false, &large, e));
    if (copies) s.in = graft_malloc_array(pixels, sizeof *s.in * GRAFT_UPSCALER_CHANNELS);
    if (extends)
        s.out = graft_malloc_array(pixels * (size_t)(scale * scale),
                                   sizeof *s.out * GRAFT_UPSCALER_CHANNELS);
    if ((copies && !s.in) || (extends && !s.out)) {
        st = graft_fail_nomem(e, "upscaling");
        goto out;
    }
    GRAFT_TRY(run_batch(&s, p, graft_image_writable(large), task, e));
    *out = large;
    large = NULL;
out:
    graft_image_release(large);
    graft_free(s.in);
    graft_free(s.out);
    return st;
}

#include "engine/pictures/tiles.h"

#include <string.h>

#include "base/alloc.h"

/* Everything in units along one axis. */
typedef struct axis {
    int64_t size, tile, step, count;
} axis;

static axis axis_of(int64_t size, int64_t tile, int64_t overlap)
{
    axis a = {size, tile < size ? tile : size, 0, 1};
    if (overlap > a.tile / 2) overlap = a.tile / 2;
    if (overlap < 0) overlap = 0;
    a.step = a.tile - overlap > 0 ? a.tile - overlap : 1;
    if (size > a.tile) a.count = (size - a.tile + a.step - 1) / a.step + 1;
    return a;
}

/* Start of tile i; the last one is pulled back so that it ends with the picture. */
static int64_t start_of(const axis *a, int64_t i)
{
    int64_t at = i * a->step;
    return at + a->tile > a->size ? a->size - a->tile : at;
}

/* What tile i has in common with the one before it; 0 for the first. */
static int64_t shared_before(const axis *a, int64_t i)
{
    return i > 0 && i < a->count ? a->tile - (start_of(a, i) - start_of(a, i - 1)) : 0;
}

/* From 0 to 1 with flat ends: what a tile computes at its very edge, where it lacks surroundings,
 * hardly counts, and no line is to be seen where it begins. */
static float ease(int64_t k, int64_t n)
{
    float t = ((float)k + 0.5f) / (float)n;
    return t * t * (3.0f - 2.0f * t);
}

/* Weight of place k (of n) of a tile, of which `before` and `after` places are shared. */
static float weight_of(int64_t k, int64_t n, int64_t before, int64_t after)
{
    float w = k < before ? ease(k, before) : 1.0f;
    if (n - 1 - k >= after) return w;
    float v = ease(n - 1 - k, after);
    return v < w ? v : w;
}

typedef struct tiler {
    const graft_tile_job *job;
    const float *in;
    float *out, *weight; /* weight: (H,W) of the output */
    float *tile_in, *tile_out;
    axis y, x;
    const graft_task *task;
} tiler;

/* Copies the input of the tile at (y0,x0), in units. */
static void gather(const tiler *t, int64_t y0, int64_t x0)
{
    const graft_tile_side *s = &t->job->in;
    int64_t c = s->planes ? 1 : s->channels, planes = s->planes ? s->channels : 1;
    int64_t h = t->job->height * s->unit, w = t->job->width * s->unit;
    int64_t th = t->y.tile * s->unit, tw = t->x.tile * s->unit;
    y0 *= s->unit;
    x0 *= s->unit;
    for (int64_t k = 0; k < planes; k++)
        for (int64_t y = 0; y < th; y++)
            memcpy(t->tile_in + (k * th + y) * tw * c, t->in + ((k * h + y0 + y) * w + x0) * c,
                   (size_t)(tw * c) * sizeof(float));
}

/* Adds the weighted result of the tile (iy,ix) to the output. */
static void scatter(const tiler *t, int64_t iy, int64_t ix)
{
    const graft_tile_side *s = &t->job->out;
    int64_t u = s->unit, c = s->channels, h = t->job->height * u, w = t->job->width * u;
    int64_t th = t->y.tile * u, tw = t->x.tile * u;
    int64_t y0 = start_of(&t->y, iy) * u, x0 = start_of(&t->x, ix) * u;
    int64_t above = shared_before(&t->y, iy) * u, below = shared_before(&t->y, iy + 1) * u;
    int64_t left = shared_before(&t->x, ix) * u, right = shared_before(&t->x, ix + 1) * u;
    for (int64_t y = 0; y < th; y++) {
        float wy = weight_of(y, th, above, below);
        for (int64_t x = 0; x < tw; x++) {
            float share = wy * weight_of(x, tw, left, right);
            int64_t at = (y0 + y) * w + x0 + x;
            t->weight[at] += share;
            for (int64_t k = 0; k < c; k++) {
                int64_t from = s->planes ? (k * th + y) * tw + x : (y * tw + x) * c + k;
                int64_t to = s->planes ? k * h * w + at : at * c + k;
                t->out[to] += share * t->tile_out[from];
            }
        }
    }
}

static int64_t area_of(const tiler *t)
{
    return t->job->height * t->job->width * t->job->out.unit * t->job->out.unit;
}

static void normalise(const tiler *t)
{
    const graft_tile_side *s = &t->job->out;
    int64_t area = area_of(t), c = s->channels;
    for (int64_t i = 0; i < area; i++)
        for (int64_t k = 0; k < c; k++)
            t->out[s->planes ? k * area + i : i * c + k] /= t->weight[i];
}

static graft_status run_all(const tiler *t, const graft_binding *b, graft_err *e)
{
    const graft_tile_job *j = t->job;
    uint64_t done = 0, total = (uint64_t)(t->y.count * t->x.count);
    memset(t->out, 0, (size_t)(area_of(t) * j->out.channels) * sizeof *t->out);
    memset(t->weight, 0, (size_t)area_of(t) * sizeof *t->weight);
    for (int64_t iy = 0; iy < t->y.count; iy++)
        for (int64_t ix = 0; ix < t->x.count; ix++) {
            gather(t, start_of(&t->y, iy), start_of(&t->x, ix));
            graft_status st = graft_exe_run(b, j->engine->arenas, (const void *[]){t->tile_in},
                                            (void *[]){t->tile_out}, t->task, NULL, e);
            if (st) return st;
            scatter(t, iy, ix);
            graft_task_progress(t->task, ++done, total);
        }
    normalise(t);
    return GRAFT_OK;
}

static graft_status run_tiled(const graft_tile_job *job, const graft_binding *b, const float *in,
                              float *out, const graft_task *task, graft_err *e)
{
    tiler t = {.job = job, .in = in, .out = out, .task = task};
    t.y = axis_of(job->height, job->tile_height, job->overlap);
    t.x = axis_of(job->width, job->tile_width, job->overlap);
    size_t units = (size_t)(t.y.tile * t.x.tile);
    size_t from = (size_t)(job->in.unit * job->in.unit * job->in.channels);
    size_t to = (size_t)(job->out.unit * job->out.unit * job->out.channels);
    graft_status st = GRAFT_OK;
    t.weight = graft_malloc_array((size_t)area_of(&t), sizeof *t.weight);
    t.tile_in = graft_malloc_array(units * from, sizeof(float));
    t.tile_out = graft_malloc_array(units * to, sizeof(float));
    if (!t.weight || !t.tile_in || !t.tile_out)
        st = graft_fail_nomem(e, "tiles");
    else
        st = run_all(&t, b, e);
    graft_free(t.weight);
    graft_free(t.tile_in);
    graft_free(t.tile_out);
    return st;
}

graft_status graft_tiles_run(const graft_tile_job *job, const float *in, float *out,
                             const graft_task *task, graft_err *e)
{
    graft_binding *b = NULL;
    int64_t h = job->tile_height < job->height ? job->tile_height : job->height;
    int64_t w = job->tile_width < job->width ? job->tile_width : job->width;
    graft_status st = job->bind(job->of, h * job->in.unit, w * job->in.unit, task, &b, e);
    if (st) return st;
    if (!task || !task->compile_only) {
        graft_task_phase(task, job->phase);
        st = run_tiled(job, b, in, out, task, e);
    }
    graft_binding_release(b);
    return st;
}

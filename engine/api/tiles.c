#include "engine/api/tiles.h"

#include <string.h>

#include "base/alloc.h"

#define TILE_MIN 4 /* latent pixels */

/* Everything in units of latent pixels along one axis. */
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
    int64_t f;
    axis y, x;
    const graft_task *task;
} tiler;

/* Copies the input of the tile at (y0,x0), in latent pixels. */
static void gather(const tiler *t, int64_t y0, int64_t x0)
{
    const graft_tile_job *j = t->job;
    int64_t c = j->in[0], w = j->in[2];
    if (j->decoder) {
        for (int64_t k = 0; k < c; k++)
            for (int64_t y = 0; y < t->y.tile; y++)
                memcpy(t->tile_in + (k * t->y.tile + y) * t->x.tile,
                       t->in + (k * j->in[1] + y0 + y) * w + x0, (size_t)t->x.tile * sizeof(float));
        return;
    }
    int64_t th = t->y.tile * t->f, tw = t->x.tile * t->f;
    for (int64_t y = 0; y < th; y++)
        memcpy(t->tile_in + y * tw * c, t->in + ((y0 * t->f + y) * w + x0 * t->f) * c,
               (size_t)(tw * c) * sizeof(float));
}

/* Adds the weighted result of the tile (iy,ix) to the output. */
static void scatter(const tiler *t, int64_t iy, int64_t ix)
{
    const graft_tile_job *j = t->job;
    int64_t s = j->decoder ? t->f : 1, c = j->out[2];
    int64_t th = t->y.tile * s, tw = t->x.tile * s;
    int64_t y0 = start_of(&t->y, iy) * s, x0 = start_of(&t->x, ix) * s;
    int64_t above = shared_before(&t->y, iy) * s, below = shared_before(&t->y, iy + 1) * s;
    int64_t left = shared_before(&t->x, ix) * s, right = shared_before(&t->x, ix + 1) * s;
    for (int64_t y = 0; y < th; y++) {
        float wy = weight_of(y, th, above, below);
        for (int64_t x = 0; x < tw; x++) {
            float w = wy * weight_of(x, tw, left, right);
            int64_t at = (y0 + y) * j->out[1] + x0 + x;
            t->weight[at] += w;
            for (int64_t k = 0; k < c; k++) {
                int64_t from = j->decoder ? (y * tw + x) * c + k : (k * th + y) * tw + x;
                int64_t to = j->decoder ? at * c + k : k * j->out[0] * j->out[1] + at;
                t->out[to] += w * t->tile_out[from];
            }
        }
    }
}

static void normalise(const tiler *t)
{
    const graft_tile_job *j = t->job;
    int64_t area = j->out[0] * j->out[1], c = j->out[2];
    for (int64_t i = 0; i < area; i++)
        for (int64_t k = 0; k < c; k++)
            t->out[j->decoder ? i * c + k : k * area + i] /= t->weight[i];
}

static graft_status run_all(const tiler *t, const graft_binding *b, graft_err *e)
{
    const graft_tile_job *j = t->job;
    uint64_t done = 0, total = (uint64_t)(t->y.count * t->x.count);
    memset(t->out, 0, (size_t)(j->out[0] * j->out[1] * j->out[2]) * sizeof *t->out);
    memset(t->weight, 0, (size_t)(j->out[0] * j->out[1]) * sizeof *t->weight);
    for (int64_t iy = 0; iy < t->y.count; iy++)
        for (int64_t ix = 0; ix < t->x.count; ix++) {
            gather(t, start_of(&t->y, iy), start_of(&t->x, ix));
            graft_status st = graft_exe_run(b, j->vae->engine->arenas, (const void *[]){t->tile_in},
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
    tiler t = {
        .job = job, .in = in, .out = out, .f = graft_vae_factor(&job->vae->arch), .task = task};
    int64_t small = job->decoder ? 1 : t.f, large = job->decoder ? t.f : 1;
    t.y = axis_of(job->in[1] / small, job->tile, job->overlap);
    t.x = axis_of(job->in[2] / small, job->tile, job->overlap);
    int64_t pixels = t.y.tile * t.x.tile;
    graft_status st = GRAFT_OK;
    t.weight = graft_malloc_array((size_t)(job->out[0] * job->out[1]), sizeof *t.weight);
    t.tile_in = graft_malloc_array((size_t)(pixels * small * small * job->in[0]), sizeof(float));
    t.tile_out = graft_malloc_array((size_t)(pixels * large * large * job->out[2]), sizeof(float));
    if (!t.weight || !t.tile_in || !t.tile_out)
        st = graft_fail_nomem(e, "VAE tiles");
    else
        st = run_all(&t, b, e);
    graft_free(t.weight);
    graft_free(t.tile_in);
    graft_free(t.tile_out);
    return st;
}

static graft_status bind_tile(const graft_tile_job *job, const graft_task *task,
                              graft_binding **out, graft_err *e)
{
    int64_t f = graft_vae_factor(&job->vae->arch), unit = job->decoder ? 1 : f;
    int64_t h = job->in[1] / unit, w = job->in[2] / unit;
    if (job->tile < TILE_MIN)
        return graft_fail(e, GRAFT_E_ARG, "tiles below %d latent pixels", TILE_MIN);
    if (job->tile < h) h = job->tile;
    if (job->tile < w) w = job->tile;
    return graft_vae_bind(job->vae, job->decoder, h * unit, w * unit, task, out, e);
}

graft_status graft_tiles_run(const graft_tile_job *job, const float *in, float *out,
                             const graft_task *task, graft_err *e)
{
    graft_binding *b = NULL;
    graft_status st = bind_tile(job, task, &b, e);
    if (st) return st;
    if (!task || !task->compile_only) {
        graft_task_phase(task, job->decoder ? "decode" : "encode");
        st = run_tiled(job, b, in, out, task, e);
    }
    graft_binding_release(b);
    return st;
}

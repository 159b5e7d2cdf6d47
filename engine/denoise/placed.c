#include "engine/denoise/placed.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/denoise/change.h"
#include "engine/denoise/told.h"

bool graft_placed_works(const graft_backend *b)
{
    const graft_kernels_more *more = graft_backend_more(b);
    return graft_memory_works(b) && GRAFT_KERNELS_HAS(more, mix) &&
           GRAFT_KERNELS_HAS(more, guide) && GRAFT_KERNELS_HAS(more, fetch) &&
           GRAFT_KERNELS_HAS(more, fetched) && GRAFT_KERNELS_HAS(more, fetch_free) &&
           GRAFT_KERNELS_HAS(more, blend) && GRAFT_KERNELS_HAS(more, rescale) &&
           GRAFT_KERNELS_HAS(more, cut) && GRAFT_KERNELS_HAS(more, weigh) &&
           GRAFT_KERNELS_HAS(more, mean) && GRAFT_KERNELS_HAS(more, change);
}

/* ------------------------------------------------------------------ arrays */

static float *array_alloc(void *ctx, size_t n)
{
    const graft_placed *p = ctx;
    size_t bytes;
    return graft_size_mul(n, sizeof(float), &bytes) ? graft_memory_alloc(&p->memory, bytes) : NULL;
}

static void array_free(void *ctx, float *array)
{
    const graft_placed *p = ctx;
    graft_memory_free(&p->memory, array);
}

static void array_mix(void *ctx, float *out, size_t n, int count, const double *factor,
                      const float *const *in)
{
    const graft_placed *p = ctx;
    (void)p->more->mix(p->memory.backend->device, out, n, (uint32_t)count, factor, in);
}

static graft_status array_put(void *ctx, float *out, const float *from, size_t n, graft_err *e)
{
    const graft_placed *p = ctx;
    return graft_memory_put(&p->memory, out, from, n * sizeof *from, e);
}

/* An array of n values, those of `from` where it is not NULL. */
static graft_status place(graft_placed *p, size_t n, const float *from, float **out, graft_err *e)
{
    assert(p->n_owned < GRAFT_PLACED_ARRAYS);
    *out = array_alloc(p, n);
    if (!*out) return graft_fail_nomem(e, "sampling on the device");
    p->owned[p->n_owned++] = *out;
    return from ? graft_memory_put(&p->memory, *out, from, n * sizeof *from, e) : GRAFT_OK;
}

/* ------------------------------------------------------------------ conditioning */

/* Rows of the entry for all pictures, as they lie in the UNet's input. */
static void spread_rows(float *to, const float *row, size_t n, int64_t pictures)
{
    for (int64_t i = 0; i < pictures; i++) memcpy(to + (size_t)i * n, row, n * sizeof *to);
}

uint64_t graft_placed_y_bytes(const graft_guided *g, const graft_cond_entry *k)
{
    const int64_t told = graft_net_y_width(&g->c.model->arch, k->tokens);
    return (uint64_t)(g->c.shape[0] * told) * sizeof(float);
}

static graft_status place_entry(graft_placed *p, const graft_guided *g, size_t slot, float *host,
                                graft_err *e)
{
    const graft_cond_entry *k = graft_guided_entry(&g->c, slot);
    int64_t pictures = g->c.shape[0];
    size_t told = (size_t)graft_net_y_width(&g->c.model->arch, k->tokens);
    size_t row = (size_t)(k->tokens * k->width);
    float *y = host + (size_t)pictures * row;
    spread_rows(host, k->data, row, pictures);
    for (int64_t i = 0; i < pictures && told; i++)
        graft_guided_fill_y(g, k, slot >= g->c.positive->n, y + (size_t)i * told);
    return graft_memory_put(&p->memory, (char *)p->block + p->context[slot], host,
                            p->context[slot + 1] - p->context[slot], e);
}

static graft_status place_entries(graft_placed *p, const graft_guided *g, graft_err *e)
{
    uint64_t pictures = (uint64_t)g->c.shape[0], largest = 0;
    size_t entries = graft_guided_slots(&g->c);
    p->context = graft_calloc(entries + 1, sizeof *p->context);
    if (!p->context) return graft_fail_nomem(e, "conditioning");
    for (size_t i = 0; i < entries; i++) {
        const graft_cond_entry *k = graft_guided_entry(&g->c, i);
        uint64_t bytes = pictures * (uint64_t)(k->tokens * k->width) * sizeof(float);
        bytes += graft_placed_y_bytes(g, k);
        p->context[i + 1] = p->context[i] + bytes;
        if (bytes > largest) largest = bytes;
    }
    float *host = graft_malloc(largest);
    graft_status st = host ? GRAFT_OK : graft_fail_nomem(e, "conditioning");
    if (!st) st = place(p, p->context[entries] / sizeof *p->block, NULL, &p->block, e);
    for (size_t i = 0; i < entries && !st; i++) st = place_entry(p, g, i, host, e);
    graft_free(host);
    return st;
}

/* ------------------------------------------------------------------ all */

static graft_status place_perturbed(graft_placed *p, const graft_guided *g, graft_err *e)
{
    const size_t n = (size_t)g->n;
    graft_status st = place(p, n, NULL, &p->perturbed.d, e);
    if (!st) st = place(p, n, NULL, &p->perturbed.positive, e);
    if (!st) st = place(p, n * g->c.positive->n, NULL, &p->perturbed.v, e);
    return st;
}

/* The weights of prompts for parts, one behind the other. */
static graft_status place_weights(graft_placed *p, const graft_guided *g, graft_err *e)
{
    const graft_regions *r = &g->regions;
    size_t n = 0, at = 0;
    float *weights;
    for (size_t i = 0; i < r->n; i++) n += graft_regions_weights(r, i);
    p->sides.weight = graft_calloc(r->n, sizeof *p->sides.weight);
    if (!p->sides.weight) return graft_fail_nomem(e, "areas");
    graft_status st = n ? place(p, n, NULL, &weights, e) : GRAFT_OK;
    for (size_t i = 0; i < r->n && n && !st; i++) {
        const size_t count = graft_regions_weights(r, i);
        if (!count) continue;
        st = graft_memory_put(&p->memory, weights + at, r->list[i].weight, count * sizeof *weights,
                              e);
        p->sides.weight[i] = weights + at;
        at += count;
    }
    return st;
}

static graft_status place_sums(graft_placed *p, const graft_guided *g, graft_err *e)
{
    const size_t n = (size_t)g->n, cells = (size_t)(g->c.shape[0] * g->c.shape[2] * g->c.shape[3]);
    graft_status st = GRAFT_OK;
    for (int side = 0; side < GRAFT_SIDES && !st; side++) {
        if (!graft_guided_list(&g->c, side)) continue;
        st = place(p, n, NULL, &p->sides.sum[side], e);
        if (!st && g->regions.any) st = place(p, cells, NULL, &p->sides.total[side], e);
    }
    if (!st && graft_model_perturbs(g->c.model))
        st = place(p, n, NULL, &p->sides.sum[GRAFT_SIDES], e);
    return st;
}

static graft_status place_sides(graft_placed *p, const graft_guided *g, graft_err *e)
{
    const size_t n = (size_t)g->n, lists = g->c.third.prompt ? GRAFT_SIDES : GRAFT_THIRD;
    float *all;
    graft_status st = place(p, lists * n, NULL, &all, e);
    for (size_t side = 0; side < lists && !st; side++) p->sides.d[side] = all + side * n;
    if (!st && g->c.third.prompt) {
        float *work; /* a double is two floats */
        st = place(p, 2 * graft_change_work(g->c.shape[0], 0), NULL, &work, e);
        p->sides.work = (double *)(void *)work;
    }
    if (!st && g->regions.any) st = place_weights(p, g, e);
    if (!st && (g->regions.any || g->answers)) st = place_sums(p, g, e);
    return st;
}

/* Room for the largest batch. */
static graft_status place_batch(graft_placed *p, const graft_guided *g, graft_err *e)
{
    const size_t entries = graft_guided_slots(&g->c), rows = entries * (size_t)g->c.shape[0];
    uint64_t told = 0;
    for (size_t i = 0; i < entries; i++)
        told += graft_placed_y_bytes(g, graft_guided_entry(&g->c, i));
    const size_t context = (size_t)(p->context[entries] - told) / sizeof(float);
    graft_status st = place(p, (size_t)g->n * entries, NULL, &p->batch.x, e);
    if (!st) st = place(p, rows, NULL, &p->batch.timesteps, e);
    if (!st) st = place(p, context, NULL, &p->batch.context, e);
    if (!st && told) st = place(p, (size_t)told / sizeof(float), NULL, &p->batch.y, e);
    return st;
}

static graft_status place_all(graft_placed *p, const graft_guided *g, graft_err *e)
{
    const graft_guided_config *c = &g->c;
    size_t n = (size_t)g->n, pictures = (size_t)c->shape[0], entries = graft_guided_slots(&g->c);
    size_t area = (size_t)(c->shape[2] * c->shape[3]);
    graft_status st = place(p, n, NULL, &p->x, e);
    if (!st) st = place_entries(p, g, e);
    if (!st) st = place(p, n * entries, NULL, &p->v, e);
    if (!st && c->mask) st = place(p, pictures * area, c->mask, &p->inpaint.mask, e);
    if (!st && c->mask) st = place(p, n, c->latent, &p->inpaint.latent, e);
    if (!st && c->mask) st = place(p, n, c->noise, &p->inpaint.noise, e);
    if (!st && c->mask) st = place(p, n, NULL, &p->inpaint.x, e);
    if (!st && c->mask && graft_model_is_flow(c->model))
        st = place(p, n, NULL, &p->inpaint.kept, e);
    if (!st && c->mask && c->model->differential > 0) {
        p->inpaint.grey = graft_malloc_array(pictures, area * sizeof *p->inpaint.grey);
        if (!p->inpaint.grey) st = graft_fail_nomem(e, "mask");
    }
    if (!st && (g->known.joins || g->regions.any || g->answers))
        st = place(p, n, NULL, &p->scaled, e);
    if (!st && graft_guided_apart(g)) st = place_sides(p, g, e);
    if (!st && graft_model_perturbs(c->model)) st = place_perturbed(p, g, e);
    if (!st && c->model->rescale_cfg > 0) st = place(p, n, NULL, &p->rescale.negative, e);
    if (!st && c->model->rescale_cfg > 0) {
        float *work; /* two doubles a picture are four floats */
        st = place(p, 2 * n + 4 * pictures, NULL, &work, e);
        p->rescale.work = work;
    }
    const float strength = c->model->hyper.strength;
    if (!st && c->model->hyper.net) st = place(p, 1, &strength, &p->hyper, e);
    if (!st && g->controls) st = place_batch(p, g, e);
    if (!st && c->model->freeu.version)
        st = place(p, GRAFT_FREEU_FACTORS, c->model->freeu.factor, &p->freeu, e);
    if (!st && g->features) {
        float *feature;
        const size_t bytes = entries * g->feature_bytes;
        st = place(p, (bytes + sizeof *feature - 1) / sizeof *feature, NULL, &feature, e);
        p->feature = (uint8_t *)feature;
    }
    return st;
}

graft_status graft_placed_create(graft_placed *p, const graft_guided *g, graft_backend *backend,
                                 graft_err *e)
{
    p->more = graft_backend_more(backend);
    p->memory = (graft_memory){backend};
    p->arrays = (graft_arrays){p, array_alloc, array_free, array_mix, array_put};
    return place_all(p, g, e);
}

/* ------------------------------------------------------------------ guidance */

graft_status graft_placed_rescale(const graft_placed *p, const graft_guided *g, const float *x,
                                  float sigma, const float *negative, float *out)
{
    const float s2 = sigma * sigma + 1.0f;
    const graft_rescale r = {.x = x,
                             .negative = negative,
                             .positive = out,
                             .work = p->rescale.work,
                             .n = (uint64_t)g->n,
                             .per = (uint64_t)g->per,
                             .s2 = s2,
                             .k = sqrtf(s2) / sigma,
                             .cfg = (float)g->c.cfg,
                             .mix = (float)g->c.model->rescale_cfg};
    return p->more->rescale(p->memory.backend->device, &r);
}

graft_status graft_placed_go_away(const graft_placed *p, const graft_guided *g, float *out)
{
    graft_device *d = p->memory.backend->device;
    float *away = p->perturbed.d;
    const float *const sum[] = {out, away};
    const double scale = (double)(float)g->c.model->perturbed;
    graft_status st = p->more->mix(d, away, (uint64_t)g->n, 1, &scale, sum + 1);
    return st ? st : p->more->mix(d, out, (uint64_t)g->n, 2, (const double[]){1, 1}, sum);
}

void graft_placed_finish(graft_placed *p)
{
    for (size_t i = 0; i < p->n_owned; i++) array_free(p, p->owned[i]);
    graft_free(p->sides.weight);
    graft_free(p->inpaint.grey);
    graft_free(p->context);
}

#include "engine/denoise/regions.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/latent.h"
#include "engine/image/mask.h"
#include "engine/image/resize.h"
#include "engine/image/weight.h"

bool graft_box_same_size(const graft_box *a, const graft_box *b)
{
    return a->height == b->height && a->width == b->width;
}

bool graft_box_equal(const graft_box *a, const graft_box *b)
{
    return a->y == b->y && a->x == b->x && graft_box_same_size(a, b);
}

/* ------------------------------------------------------------------ areas */

typedef struct span {
    int64_t first, count;
} span;

/* Shares have their two ends rounded, so that areas which meet in shares meet in cells; pixels are
 * those of whole cells. At least one cell, before the latent's end cuts it; a share that begins
 * inside is not outside by rounding. */
static span span_of(double first, double size, bool shares, int64_t cells, double scale)
{
    double begin = shares ? round(first * (double)cells) : floor(first / scale);
    if (shares && first < 1 && begin >= (double)cells) begin = (double)(cells - 1);
    double end = shares ? round((first + size) * (double)cells) : begin + floor(size / scale);
    if (end < begin + 1) end = begin + 1;
    if (end > (double)cells) end = (double)cells;
    return begin < end ? (span){(int64_t)begin, (int64_t)(end - begin)} : (span){0, 0};
}

graft_box graft_regions_area(const graft_cond_entry *k, const int64_t shape[4])
{
    const graft_area *a = &k->area;
    if (!k->has_area) return (graft_box){0, 0, shape[2], shape[3]};
    const double scale = (double)graft_latent_scale(shape[1]);
    span y = span_of(a->y, a->height, a->shares, shape[2], scale);
    span x = span_of(a->x, a->width, a->shares, shape[3], scale);
    return (graft_box){y.first, x.first, y.count, x.count};
}

/* Out to a multiple of `step` cells, where the latent has so many. */
static void widen(int64_t *first, int64_t *count, int64_t cells, int64_t step)
{
    const int64_t all = (*count + step - 1) / step * step;
    if (all > cells) return;
    if (*first + all > cells) *first = cells - all;
    *count = all;
}

static graft_box seen_of(graft_box b, const int64_t shape[4], int64_t step)
{
    widen(&b.y, &b.height, shape[2], step);
    widen(&b.x, &b.width, shape[3], step);
    return b;
}

static bool is_empty(const graft_box *b)
{
    return b->height < 1 || b->width < 1;
}

/* ------------------------------------------------------------------ weights */

/* Nothing outside. */
static double ramp(int64_t i, int64_t side, bool first_inside, bool last_inside)
{
    if (i < 0 || i >= side) return 0;
    int64_t n = side / 8 < GRAFT_FEATHER_MAX ? side / 8 : GRAFT_FEATHER_MAX;
    return graft_weight_fade(i, side, first_inside ? n + 1 : 0, last_inside ? n + 1 : 0);
}

/* b: the prompt's own part of the region's box. */
static void fill_feathered(graft_cond_region *r, const graft_box *b, const int64_t shape[4],
                           double strength)
{
    const int64_t top = r->box.y - b->y, left = r->box.x - b->x;
    bool bottom = b->y + b->height < shape[2], right = b->x + b->width < shape[3];
    float *w = r->weight;
    for (int64_t p = 0; p < shape[0]; p++)
        for (int64_t y = top; y < top + r->box.height; y++)
            for (int64_t x = left; x < left + r->box.width; x++)
                *w++ = (float)(strength * ramp(y, b->height, b->y > 0, bottom) *
                               ramp(x, b->width, b->x > 0, right));
}

/* The smallest part of the box that has all of the mask that is in it. */
static graft_box bounds_of(const float *mask, const int64_t shape[4], const graft_box *in)
{
    int64_t top = shape[2], left = shape[3], bottom = -1, right = -1;
    for (int64_t p = 0; p < shape[0]; p++)
        for (int64_t y = in->y; y < in->y + in->height; y++)
            for (int64_t x = in->x; x < in->x + in->width; x++) {
                if (!(mask[(p * shape[2] + y) * shape[3] + x] > 0)) continue;
                if (y < top) top = y;
                if (y > bottom) bottom = y;
                if (x < left) left = x;
                if (x > right) right = x;
            }
    if (bottom < 0) return (graft_box){0, 0, 0, 0};
    return (graft_box){top, left, bottom - top + 1, right - left + 1};
}

static bool allocate_weight(graft_cond_region *r, const int64_t shape[4])
{
    r->weight =
        graft_malloc_array((size_t)(shape[0] * r->box.height * r->box.width), sizeof *r->weight);
    return r->weight != NULL;
}

static float mask_weight(const graft_cond_region *r, const graft_box *in, int64_t i)
{
    const int64_t x = r->box.x + i % r->box.width;
    const int64_t y = r->box.y + i / r->box.width % r->box.height;
    bool inside = y >= in->y && y < in->y + in->height && x >= in->x && x < in->x + in->width;
    return inside ? graft_weight_clip(r->weight[i]) : 0;
}

static graft_status fill_masked(graft_cond_region *r, const graft_cond_entry *k,
                                const int64_t shape[4], int64_t step, double strength, graft_err *e)
{
    graft_image *mask = NULL;
    int64_t sized[4];
    graft_status st = graft_image_resize_mask(k->mask, shape[2], shape[3], shape[0], &mask, e);
    if (st) return st;
    const float *data = graft_image_data(mask, sized);
    const graft_box inside = bounds_of(data, shape, &r->box);
    if (k->mask_bounds || is_empty(&inside)) r->box = inside;
    const graft_box in = r->box;
    if (!is_empty(&in)) r->box = seen_of(in, shape, step);
    const graft_box *b = &r->box;
    size_t n = (size_t)(shape[0] * b->height * b->width);
    if (n && !allocate_weight(r, shape)) {
        st = graft_fail_nomem(e, "a mask");
        goto out;
    }
    const int64_t planes[4] = {shape[0], shape[2], shape[3], 1};
    if (n) graft_resize_cut(data, planes, b->y, b->x, r->weight, b->height, b->width);
    for (size_t i = 0; i < n; i++)
        r->weight[i] = (float)(strength * (double)mask_weight(r, &in, (int64_t)i));
out:
    graft_image_release(mask);
    return st;
}

static graft_status resolve(graft_cond_region *r, const graft_cond_entry *k, const int64_t shape[4],
                            int64_t step, graft_err *e)
{
    double strength = k->strength * k->mask_strength;
    graft_status st = GRAFT_OK;
    r->box = graft_regions_area(k, shape);
    r->rest = k->rest;
    r->strength = (float)strength;
    if (k->rest && strength > 0)
        return allocate_weight(r, shape) ? GRAFT_OK : graft_fail_nomem(e, "an area");
    if (!((float)strength > 0)) r->box = (graft_box){0, 0, 0, 0};
    bool whole = r->box.height == shape[2] && r->box.width == shape[3];
    if (is_empty(&r->box) || (whole && !k->mask && strength == 1)) {
        r->idle = is_empty(&r->box);
        return GRAFT_OK;
    }
    if (k->mask) {
        st = fill_masked(r, k, shape, step, strength, e);
    } else {
        const graft_box in = r->box;
        r->box = seen_of(in, shape, step);
        if (!allocate_weight(r, shape)) return graft_fail_nomem(e, "an area");
        fill_feathered(r, &in, shape, strength);
    }
    r->idle = is_empty(&r->box);
    return st;
}

/* Strength 0 is what someone asked for; the others are likely mistakes. */
static void warn_idle(const graft_task *task, const graft_cond_entry *k)
{
    if (!task || !(k->strength * k->mask_strength > 0)) return;
    graft_log_printf(&task->log, GRAFT_LOG_WARN,
                     "a prompt counts nowhere: its %s outside the picture",
                     k->mask ? "mask is black, or" : "area lies");
}

/* ------------------------------------------------------------------ of a run */

graft_status graft_regions_create(const graft_cond *positive, const graft_cond *negative,
                                  const graft_cond *third, const int64_t shape[4], int64_t step,
                                  const graft_task *task, graft_regions *out, graft_err *e)
{
    const graft_cond *side[GRAFT_SIDES] = {positive, negative, third};
    size_t n = 0, cells = (size_t)(shape[0] * shape[2] * shape[3]), slot = 0;
    graft_status st = GRAFT_OK;
    memset(out, 0, sizeof *out);
    memcpy(out->shape, shape, sizeof out->shape);
    for (int s = 0; s < GRAFT_SIDES; s++) n += side[s] ? side[s]->n : 0;
    out->list = graft_calloc(n, sizeof *out->list);
    if (!out->list) return graft_fail_nomem(e, "sampling");
    out->n = n;
    for (int s = 0; s < GRAFT_SIDES; s++)
        for (size_t i = 0; side[s] && i < side[s]->n && !st; i++) {
            graft_cond_region *r = &out->list[slot++];
            st = resolve(r, side[s]->entry[i], shape, step, e);
            if (!st && r->idle) warn_idle(task, side[s]->entry[i]);
            out->any = out->any || r->idle || r->weight;
            out->rest = out->rest || r->rest;
        }
    if (out->rest && !st && !(out->left = graft_malloc_array(cells, sizeof *out->left)))
        st = graft_fail_nomem(e, "sampling");
    for (int i = 0; i < GRAFT_SIDES && out->any && !st; i++) {
        if (!side[i]) continue;
        out->total[i] = graft_malloc_array(cells, sizeof(float));
        if (!out->total[i]) st = graft_fail_nomem(e, "sampling");
    }
    return st;
}

void graft_regions_finish(graft_regions *r)
{
    for (size_t i = 0; i < r->n; i++) graft_free(r->list[i].weight);
    graft_free(r->list);
    graft_free(r->left);
    for (int i = 0; i < GRAFT_SIDES; i++) graft_free(r->total[i]);
    memset(r, 0, sizeof *r);
}

/* ------------------------------------------------------------------ what others leave */

static size_t cells_of(const graft_regions *r)
{
    return (size_t)(r->shape[0] * r->shape[2] * r->shape[3]);
}

void graft_regions_leave_all(graft_regions *r)
{
    for (size_t i = 0; r->left && i < cells_of(r); i++) r->left[i] = 1.0f;
}

static void take(graft_regions *r, const graft_cond_region *k)
{
    const graft_box *b = &k->box;
    for (int64_t p = 0; p < r->shape[0]; p++)
        for (int64_t y = 0; y < b->height; y++) {
            const float *weight = k->weight ? k->weight + (p * b->height + y) * b->width : NULL;
            float *left = r->left + (p * r->shape[2] + b->y + y) * r->shape[3] + b->x;
            for (int64_t x = 0; x < b->width; x++) left[x] -= weight ? weight[x] : 1.0f;
        }
}

bool graft_regions_begin(graft_regions *r, size_t slot)
{
    graft_cond_region *k = &r->list[slot];
    bool any = false;
    if (k->idle || !r->left) return !k->idle;
    if (!k->rest) {
        take(r, k);
        return true;
    }
    for (size_t i = 0; i < cells_of(r); i++) {
        k->weight[i] = r->left[i] > 0 ? k->strength * r->left[i] : 0;
        any = any || k->weight[i] > 0;
    }
    return any;
}

/* ------------------------------------------------------------------ parts and their weights */

void graft_regions_cut(const graft_regions *r, size_t slot, const float *x, float *out)
{
    const graft_box *b = &r->list[slot].box;
    const int64_t planes[4] = {r->shape[0] * r->shape[1], r->shape[2], r->shape[3], 1};
    graft_resize_cut(x, planes, b->y, b->x, out, b->height, b->width);
}

graft_excerpt graft_regions_part(const graft_regions *r, size_t slot)
{
    const graft_box *b = &r->list[slot].box;
    return (graft_excerpt){.pictures = (uint32_t)r->shape[0],
                           .channels = (uint32_t)r->shape[1],
                           .h = (uint32_t)r->shape[2],
                           .w = (uint32_t)r->shape[3],
                           .y = (uint32_t)b->y,
                           .x = (uint32_t)b->x,
                           .height = (uint32_t)b->height,
                           .width = (uint32_t)b->width};
}

size_t graft_regions_weights(const graft_regions *r, size_t slot)
{
    const graft_cond_region *k = &r->list[slot];
    return k->weight ? (size_t)(r->shape[0] * k->box.height * k->box.width) : 0;
}

void graft_regions_clear(graft_regions *r)
{
    size_t cells = (size_t)(r->shape[0] * r->shape[2] * r->shape[3]);
    for (int i = 0; i < GRAFT_SIDES; i++)
        if (r->total[i]) memset(r->total[i], 0, cells * sizeof *r->total[i]);
}

/* One row: weight NULL is 1. */
static void add_row(const float *weight, const float *v, int64_t n, float *sum)
{
    for (int64_t x = 0; x < n; x++) sum[x] += weight ? weight[x] * v[x] : v[x];
}

void graft_regions_add(const graft_regions *r, size_t slot, const float *prediction, float *sum)
{
    const graft_cond_region *k = &r->list[slot];
    const graft_box *b = &k->box;
    int64_t channels = r->shape[1], h = r->shape[2], w = r->shape[3];
    for (int64_t p = 0; p < r->shape[0]; p++)
        for (int64_t y = 0; y < b->height; y++) {
            const float *weight = k->weight ? k->weight + (p * b->height + y) * b->width : NULL;
            for (int64_t c = 0; c < channels; c++) {
                int64_t plane = p * channels + c;
                add_row(weight, prediction + (plane * b->height + y) * b->width, b->width,
                        sum + (plane * h + b->y + y) * w + b->x);
            }
        }
}

void graft_regions_count(graft_regions *r, size_t slot, graft_side side)
{
    const graft_cond_region *k = &r->list[slot];
    const graft_box *b = &k->box;
    int64_t h = r->shape[2], w = r->shape[3];
    for (int64_t p = 0; p < r->shape[0]; p++)
        for (int64_t y = 0; y < b->height; y++) {
            const float *weight = k->weight ? k->weight + (p * b->height + y) * b->width : NULL;
            float *total = r->total[side] + (p * h + b->y + y) * w + b->x;
            for (int64_t x = 0; x < b->width; x++) total[x] += weight ? weight[x] : 1.0f;
        }
}

#include "engine/denoise/attending.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/image/resize.h"
#include "engine/objects/sight.h"

graft_status graft_attending_create(const graft_guided_config *c, graft_attending *out,
                                    graft_err *e)
{
    const graft_attended_shape shape = graft_model_attended(c->model);
    const size_t slots = graft_guided_slots(c);
    int64_t n;
    size_t bytes;
    *out = (graft_attending){.m = c->model, .height = c->shape[2], .width = c->shape[3]};
    if (!c->model->n_seen) return GRAFT_OK;
    graft_crossings_of(&c->model->arch.unet, &out->crossings);
    const int64_t channels = graft_crossings_before(&out->crossings, out->crossings.n);
    const int64_t all[] = {2, graft_attended_tokens(&shape), channels, c->shape[0], (int64_t)slots};
    if (!graft_size_product(all, 5, &n) || !graft_size_mul((size_t)n, sizeof *out->values, &bytes))
        return graft_fail(e, GRAFT_E_ARG, "the batch is too large");
    out->n_values = (size_t)n;
    out->kept = graft_calloc(slots, sizeof *out->kept);
    return out->kept ? GRAFT_OK : graft_fail_nomem(e, "pictures beside a prompt");
}

static void clear_arrays(graft_attending *a)
{
    for (int i = 0; i < GRAFT_ATTENDING_SETS; i++) {
        graft_memory_free(&a->memory, a->set[i].values);
        a->set[i] = (graft_attending_set){0};
    }
    graft_memory_free(&a->memory, a->masks_there);
    graft_free(a->masks);
    graft_free(a->values);
    a->masks_there = NULL;
    a->masks = a->values = NULL;
    a->n_masks = 0;
    a->masked.count = 0;
}

graft_status graft_attending_move(graft_attending *a, graft_memory to, graft_err *e)
{
    clear_arrays(a);
    a->memory = to;
    if (!to.backend || !a->n_values) return GRAFT_OK;
    a->values = graft_malloc_array(a->n_values, sizeof *a->values);
    a->set[0].values = graft_memory_alloc(&to, a->n_values * sizeof *a->values);
    return a->values && a->set[0].values ? GRAFT_OK
                                         : graft_fail_nomem(e, "pictures beside a prompt");
}

void graft_attending_finish(graft_attending *a)
{
    clear_arrays(a);
    graft_free(a->kept);
}

/* ------------------------------------------------------------------ keys and values */

/* n numbers of each row, times a factor. */
static float *fill(float *to, const struct graft_seen *s, int64_t at, int64_t n, float factor,
                   const active *const *row, size_t count, int64_t pictures)
{
    for (size_t i = 0; i < count; i++) {
        const int side = row[i]->side == GRAFT_POSITIVE ? GRAFT_SIGHT_POSITIVE : GRAFT_SIGHT_OTHERS;
        const float *from = s->sight->data[side] + at;
        for (int64_t p = 0; p < pictures; p++, to += n)
            for (int64_t k = 0; k < n; k++) to[k] = factor * from[k];
    }
    return to;
}

/* Returns what is behind them. */
static float *fill_all(const graft_attending *a, uint32_t now, const active *const *row,
                       size_t count, int64_t pictures, float *to)
{
    for (int i = 0; i < a->m->n_seen; i++) {
        const struct graft_seen *s = &a->m->seen[i];
        const float factor = now >> i & 1 ? (float)s->weight : 0.0f;
        int64_t at = 0;
        for (int32_t l = 0; l < a->crossings.n; l++) {
            const int64_t n = (int64_t)s->sight->tokens * a->crossings.channels[l];
            to = fill(to, s, at, n, 1.0f, row, count, pictures);
            to = fill(to, s, at + n, n, factor, row, count, pictures);
            at += 2 * n;
        }
    }
    return to;
}

static bool is_of(const graft_attending_set *s, uint32_t now, const active *const *row,
                  size_t count)
{
    bool same = count && s->now == now && s->count == count;
    for (size_t i = 0; i < count && same; i++) same = s->slot[i] == row[i]->slot;
    return same;
}

/* What no step has needed for the longest time gives its place up. */
static graft_status make_set(graft_attending *a, uint32_t now, const active *const *row,
                             size_t count, int64_t pictures, graft_attending_set **out,
                             graft_err *e)
{
    graft_attending_set *s = &a->set[a->next];
    *out = s;
    a->next = (a->next + 1) % GRAFT_ATTENDING_SETS;
    s->count = 0;
    if (!s->values) s->values = graft_memory_alloc(&a->memory, a->n_values * sizeof *s->values);
    if (!s->values) return graft_fail_nomem(e, "pictures beside a prompt");
    float *to = a->memory.backend ? a->values : s->values;
    const float *end = fill_all(a, now, row, count, pictures, to);
    if (a->memory.backend) {
        const size_t bytes = (size_t)(end - to) * sizeof *to;
        graft_status st = graft_memory_put(&a->memory, s->values, to, bytes, e);
        if (st) return st;
    }
    s->now = now;
    s->count = count;
    for (size_t i = 0; i < count; i++) s->slot[i] = row[i]->slot;
    return GRAFT_OK;
}

graft_status graft_attending_fill(graft_attending *a, uint32_t now, const active *list,
                                  const size_t *which, size_t count, int64_t pictures,
                                  const void **out, graft_err *e)
{
    const active *row[GROUP_MAX];
    graft_attending_set *s = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    for (size_t i = 0; i < count; i++) row[i] = &list[which[i]];
    for (int i = 0; i < GRAFT_ATTENDING_SETS && !s; i++)
        if (is_of(&a->set[i], now, row, count)) s = &a->set[i];
    if (!s) st = make_set(a, now, row, count, pictures, &s, e);
    if (!st) *out = s->values;
    return st;
}

/* ------------------------------------------------------------------ masks */

/* Where `cells` of the latent's `all` from `first` on are in a mask of `size` places. */
static void part_of(int64_t first, int64_t cells, int64_t all, int64_t size, int64_t *from,
                    int64_t *n)
{
    const int64_t end = ((first + cells) * size + all - 1) / all;
    *from = first * size / all;
    *n = end - *from > 1 ? end - *from : 1;
}

/* The mask of one picture of the batch, in this part of the latent, with h x w places. */
static graft_status resize_mask(const graft_attending *a, const graft_image *mask, int64_t picture,
                                const graft_box *box, float *to, int64_t h, int64_t w, graft_err *e)
{
    int64_t s[4], y, x, part[4] = {1, 0, 0, 1};
    const float *v = graft_image_data(mask, s);
    const int64_t index = picture < s[0] ? picture : s[0] - 1;
    part_of(box->y, box->height, a->height, s[1], &y, &part[1]);
    part_of(box->x, box->width, a->width, s[2], &x, &part[2]);
    float *cut = graft_malloc_array((size_t)(part[1] * part[2]), sizeof *cut);
    if (!cut) return graft_fail_nomem(e, "a mask of pictures");
    graft_resize_cut(v + index * s[1] * s[2], (const int64_t[]){1, s[1], s[2], 1}, y, x, cut,
                     part[1], part[2]);
    graft_status st = graft_resize(GRAFT_RESIZE_BILINEAR, cut, part, to, h, w, false, e);
    graft_free(cut);
    return st;
}

/* Height and width of the blocks, of which it returns the number. */
static int sides_of(const graft_attending *a, const graft_unet_use *use,
                    int64_t side[GRAFT_CROSSING_BLOCKS][2])
{
    graft_net_shape shape = {.height = use->height, .width = use->width};
    if (use->shrink) shape.shrink = a->m->downscale.shrink;
    return graft_unet_sides(&a->m->arch.unet, &shape, side);
}

static graft_status reserve(graft_attending *a, const int64_t side[][2], int blocks, int64_t rows,
                            graft_err *e)
{
    int64_t cells = 0, n;
    for (int i = 0; i < blocks; i++) cells += side[i][0] * side[i][1];
    if (!graft_size_product((const int64_t[]){cells, rows, GRAFT_ATTENDED}, 3, &n))
        return graft_fail(e, GRAFT_E_ARG, "the batch is too large");
    if ((size_t)n <= a->n_masks) return GRAFT_OK;
    graft_free(a->masks);
    graft_memory_free(&a->memory, a->masks_there);
    a->masks_there = NULL;
    a->masks = graft_malloc_array((size_t)n, sizeof *a->masks);
    if (a->masks && a->memory.backend)
        a->masks_there = graft_memory_alloc(&a->memory, (size_t)n * sizeof *a->masks);
    const bool ok = a->masks && (a->masks_there || !a->memory.backend);
    a->n_masks = ok ? (size_t)n : 0;
    return ok ? GRAFT_OK : graft_fail_nomem(e, "masks of pictures");
}

/* Whether the masks are there from the step before; notes what they are of from now on. */
static bool are_there(graft_attending *a, const graft_unet_use *use, const active *list,
                      const size_t *which, size_t count)
{
    bool same = a->masked.count == count && a->masked.height == use->height &&
                a->masked.width == use->width && a->masked.shrink == use->shrink;
    for (size_t r = 0; r < count; r++) {
        same = same && a->masked.box[r] == list[which[r]].box;
        a->masked.box[r] = list[which[r]].box;
    }
    a->masked.count = count;
    a->masked.height = use->height;
    a->masked.width = use->width;
    a->masked.shrink = use->shrink;
    return same;
}

/* One mask for all blocks; *to goes on to what is behind it. */
static graft_status put_mask(const graft_attending *a, const graft_image *mask,
                             const int64_t side[][2], int blocks, const active *list,
                             const size_t *which, size_t count, int64_t pictures, float **to,
                             graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (int i = 0; i < blocks; i++)
        for (size_t r = 0; r < count; r++)
            for (int64_t p = 0; p < pictures && !st; p++) {
                const graft_box *box = list[which[r]].box;
                st = resize_mask(a, mask, p, box, *to, side[i][0], side[i][1], e);
                *to += side[i][0] * side[i][1];
            }
    return st;
}

graft_status graft_attending_masks(graft_attending *a, const graft_unet_use *use,
                                   const active *list, const size_t *which, size_t count,
                                   int64_t pictures, const void **out, graft_err *e)
{
    int64_t side[GRAFT_CROSSING_BLOCKS][2];
    graft_status st = GRAFT_OK;
    *out = NULL;
    if (!graft_model_attended(a->m).masked) return GRAFT_OK;
    if (!are_there(a, use, list, which, count)) {
        const int blocks = sides_of(a, use, side);
        st = reserve(a, side, blocks, (int64_t)count * pictures, e);
        float *to = a->masks;
        for (int k = 0; k < a->m->n_seen && !st; k++)
            if (a->m->seen[k].mask)
                st = put_mask(a, a->m->seen[k].mask, side, blocks, list, which, count, pictures,
                              &to, e);
        if (!st && a->masks_there)
            st = graft_memory_put(&a->memory, a->masks_there, a->masks,
                                  (size_t)(to - a->masks) * sizeof *to, e);
    }
    if (st)
        a->masked.count = 0;
    else
        *out = a->masks_there ? a->masks_there : a->masks;
    return st;
}

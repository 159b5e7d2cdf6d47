/* Parts of latents along one of their axes: columns, rows and layers. */
#include <inttypes.h>
#include <string.h>

#include "engine/image/image.h"
#include "engine/image/latent.h"
#include "engine/image/mask.h"

enum { CHANNELS, LAYERS, ROWS, COLUMNS, AXES }; /* of a sample */

/* `size` of an axis from `at` on of a sample of these dimensions. */
static void take(const float *from, const int64_t dim[AXES], int axis, int64_t at, int64_t size,
                 float *to)
{
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < axis; i++) outer *= dim[i];
    for (int i = axis + 1; i < AXES; i++) inner *= dim[i];
    for (int64_t i = 0; i < outer; i++, to += size * inner)
        memcpy(to, from + (i * dim[axis] + at) * inner, (size_t)(size * inner) * sizeof *to);
}

/* n parts of each of `samples`, `size` long, the first from `at` on, the next so many steps behind
 * it. */
typedef struct parts {
    int64_t samples, n, size, at, step;
    int axis;
} parts;

static int64_t volume(const int64_t dim[AXES])
{
    return dim[CHANNELS] * dim[LAYERS] * dim[ROWS] * dim[COLUMNS];
}

static void take_all(const parts *p, const float *from, const int64_t dim[AXES], float *to)
{
    const int64_t whole = volume(dim), part = whole / dim[p->axis] * p->size;
    for (int64_t i = 0; i < p->samples * p->n; i++, to += part)
        take(from + i / p->n * whole, dim, p->axis, p->at + i % p->n * p->step, p->size, to);
}

/* A mask is the same for all layers. */
static graft_status take_masks(const parts *p, const graft_image *mask, const int64_t dim[AXES],
                               graft_image **out, graft_err *e)
{
    const int64_t plane[AXES] = {1, 1, dim[ROWS], dim[COLUMNS]};
    const bool whole = p->axis == LAYERS;
    const parts own = {p->samples,          p->n,   whole ? 1 : p->size, whole ? 0 : p->at,
                       whole ? 0 : p->step, p->axis};
    int64_t part[AXES];
    graft_image *sized = NULL;
    memcpy(part, plane, sizeof part);
    part[p->axis] = own.size;
    const int64_t shape[4] = {p->samples * p->n, part[ROWS], part[COLUMNS], 1};
    graft_status st = graft_image_resize_mask(mask, dim[ROWS], dim[COLUMNS], p->samples, &sized, e);
    if (!st) st = graft_image_create(shape, true, out, e);
    if (!st) take_all(&own, graft_image_data(sized, NULL), plane, graft_image_writable(*out));
    graft_image_release(sized);
    return st;
}

static void measure(const graft_latent *l, int64_t *samples, int64_t dim[AXES])
{
    int64_t s[4];
    graft_latent_data(l, s);
    const int64_t layers = graft_latent_layers(l);
    const int64_t all[AXES] = {s[1] / layers, layers, s[2], s[3]};
    *samples = s[0];
    memcpy(dim, all, sizeof all);
}

/* Batch indices stay where there is one part of each. */
static graft_status cut(const graft_latent *l, const parts *p, const int64_t dim[AXES],
                        graft_latent **out, graft_err *e)
{
    int64_t now[AXES];
    graft_latent *r = NULL;
    graft_image *mask = NULL;
    graft_status st = GRAFT_OK;
    memcpy(now, dim, sizeof now);
    now[p->axis] = p->size;
    const int64_t shape[4] = {p->samples * p->n, now[CHANNELS] * now[LAYERS], now[ROWS],
                              now[COLUMNS]};
    GRAFT_TRY(graft_latent_create_layers(shape, now[LAYERS], &r, e));
    take_all(p, graft_latent_data(l, NULL), dim, graft_latent_writable(r));
    if (p->n == 1 && graft_latent_batch_index(l))
        GRAFT_TRY(graft_latent_set_index(r, graft_latent_batch_index(l), e));
    if (graft_latent_mask(l)) {
        GRAFT_TRY(take_masks(p, graft_latent_mask(l), dim, &mask, e));
        GRAFT_TRY(graft_latent_set_mask(r, mask, out, e));
    } else {
        *out = r;
        r = NULL;
    }
out:
    graft_image_release(mask);
    graft_latent_release(r);
    return st;
}

graft_status graft_latent_cut(const graft_latent *l, graft_latent_axis axis, int64_t index,
                              int64_t amount, graft_latent **out, graft_err *e)
{
    parts p = {.n = 1, .axis = LAYERS + (int)axis};
    int64_t dim[AXES];
    *out = NULL;
    if (amount < 1)
        return graft_fail(e, GRAFT_E_ARG, "an amount of %" PRId64 " is below 1", amount);
    measure(l, &p.samples, dim);
    const int64_t all = dim[p.axis];
    p.at = index < 0 ? index + all : index;
    if (index < -all || p.at < 0) p.at = 0;
    if (p.at > all - 1) p.at = all - 1;
    p.size = amount > all - p.at ? all - p.at : amount;
    return cut(l, &p, dim, out, e);
}

graft_status graft_latent_cut_to_batch(const graft_latent *l, graft_latent_axis axis, int64_t size,
                                       graft_latent **out, graft_err *e)
{
    parts p = {.axis = LAYERS + (int)axis};
    int64_t dim[AXES];
    *out = NULL;
    if (size < 1)
        return graft_fail(e, GRAFT_E_ARG, "parts of a size of %" PRId64 ", below 1", size);
    measure(l, &p.samples, dim);
    p.size = size < dim[p.axis] ? size : dim[p.axis];
    p.n = dim[p.axis] / p.size;
    p.step = p.size;
    return cut(l, &p, dim, out, e);
}

#include "engine/denoise/opposites.h"

#include "engine/denoise/regions.h"

static bool contains(const graft_box *a, const graft_box *b)
{
    return a->y <= b->y && a->x <= b->x && a->y + a->height >= b->y + b->height &&
           a->x + a->width >= b->x + b->width;
}

static bool is_part(const graft_cond_entry *k, const int64_t shape[4], graft_box *box)
{
    *box = graft_regions_area(k, shape);
    if (k->mask_bounds) return k->mask != NULL;
    return box->height > 0 && box->width > 0 && (box->height < shape[2] || box->width < shape[3]);
}

/* The other side's entry whose words go into the area of `k`; NULL: none is around it, or one is
 * there already. */
static const graft_cond_entry *words_for(const graft_cond_entry *k, const graft_cond *other,
                                         const int64_t shape[4])
{
    const graft_cond_entry *best = NULL;
    graft_box area, least = {0, 0, shape[2], shape[3]}, box;
    if (!is_part(k, shape, &area)) return NULL;
    for (size_t i = 0; i < other->n; i++) {
        const graft_cond_entry *o = other->entry[i];
        bool part = is_part(o, shape, &box);
        bool bounded = k->mask_bounds || o->mask_bounds;
        bool same = bounded ? k->mask == o->mask && k->mask_bounds == o->mask_bounds : part;
        if (same && graft_box_equal(&box, &area)) return NULL;
        if (!contains(&box, &area) ||
            (best && box.height * box.width >= least.height * least.width))
            continue;
        best = o;
        least = box;
    }
    return best;
}

/* The entries of `from` that lack an opposite in `to` get one there. */
static graft_status add(const graft_cond *from, const int64_t shape[4], graft_cond **to,
                        graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < from->n && !st; i++) {
        graft_cond *more = NULL;
        const graft_cond_entry *words = words_for(from->entry[i], *to, shape);
        if (!words) continue;
        st = graft_cond_add_placed(*to, words, from->entry[i], &more, e);
        if (st) break;
        graft_cond_release(*to);
        *to = more;
    }
    return st;
}

graft_status graft_opposites_make(const graft_cond *positive, const graft_cond *negative,
                                  const int64_t shape[4], graft_opposites *out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    out->positive = graft_cond_retain((graft_cond *)(uintptr_t)positive);
    out->negative = graft_cond_retain((graft_cond *)(uintptr_t)negative);
    if (positive == negative) return GRAFT_OK;
    st = add(positive, shape, &out->negative, e);
    if (!st) st = add(negative, shape, &out->positive, e);
    if (st) graft_opposites_finish(out);
    return st;
}

graft_status graft_opposites_third(graft_opposites *o, const graft_cond *third,
                                   const int64_t shape[4], graft_err *e)
{
    o->third = graft_cond_retain((graft_cond *)(uintptr_t)third);
    graft_status st = add(o->positive, shape, &o->third, e);
    if (!st) st = add(o->negative, shape, &o->third, e);
    if (!st) st = add(third, shape, &o->positive, e);
    if (!st) st = add(third, shape, &o->negative, e);
    return st;
}

graft_status graft_opposites_fill(graft_opposites *o, const graft_net_arch *a, graft_err *e)
{
    graft_cond **const side[] = {&o->positive, &o->negative, &o->third};
    const bool one = o->positive == o->negative;
    graft_status st = GRAFT_OK;
    if (graft_net_is_unet(a)) return GRAFT_OK; /* it sees prompts as they are */
    for (int i = 0; i < 3 && !st; i++) {
        graft_cond *full = NULL;
        if (!*side[i]) continue;
        if (i == 1 && one)
            full = graft_cond_retain(o->positive);
        else
            st = graft_cond_fill(*side[i], a, &full, e);
        if (st) break;
        graft_cond_release(*side[i]);
        *side[i] = full;
    }
    return st;
}

void graft_opposites_finish(graft_opposites *o)
{
    graft_cond_release(o->third);
    graft_cond_release(o->positive);
    graft_cond_release(o->negative);
    *o = (graft_opposites){NULL, NULL, NULL};
}

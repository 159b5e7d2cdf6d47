#include "engine/denoise/batches.h"

#include <string.h>

#include "engine/objects/control.h"

/* Stretches follow each other without a sigma that two have. */
static bool in_stretch(const graft_sigma_table *t, const graft_cond_entry *k, float sigma)
{
    return sigma <= graft_percent_to_sigma(t, k->stretch_start) &&
           (k->stretch_end >= 1 || sigma > graft_percent_to_sigma(t, k->stretch_end));
}

bool graft_active_now(const graft_sigma_table *t, const graft_cond_entry *k, float sigma)
{
    if (k->has_stretch && !in_stretch(t, k, sigma)) return false;
    return !k->has_range || graft_sigma_in_range(t, k->start, k->end, sigma);
}

/* A hint's features are those of one part of the picture. */
static bool go_together(const active *a, const active *b)
{
    return a->fast == b->fast && a->entry->tokens == b->entry->tokens && a->control == b->control &&
           a->untold == b->untold && a->skips == b->skips && graft_box_same_size(a->box, b->box) &&
           graft_hash_equal(a->weights, b->weights) &&
           memcmp(&a->references, &b->references, sizeof a->references) == 0 &&
           ((!a->control && !a->within) ||
            (graft_box_equal(a->box, b->box) && a->known == b->known));
}

size_t graft_active_group(active *list, size_t n, size_t *which)
{
    const active *first = NULL;
    size_t count = 0;
    for (size_t k = 0; k < n && count < GROUP_MAX; k++) {
        active *a = &list[k];
        if (a->done) continue;
        if (!first) first = a;
        if (!go_together(a, first)) continue;
        a->done = true;
        which[count++] = k;
    }
    return count;
}

size_t graft_active_keep_negative(active *list, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (list[i].side != GRAFT_NEGATIVE) continue;
        list[kept] = list[i];
        list[kept++].done = false;
    }
    return kept;
}

size_t graft_active_positive(const active *list, const size_t *which, size_t count)
{
    size_t n = 0;
    while (n < count && list[which[n]].side == GRAFT_POSITIVE) n++;
    return n;
}

static bool same_references(const active *a, const active *b)
{
    for (int32_t i = 0; i < a->references.n; i++)
        if (a->entry->reference[i] != b->entry->reference[i]) return false;
    return true;
}

/* How many of them are negative, which are neighbours; *first: the first of these. */
static size_t negative_of(const active *list, const size_t *which, size_t count, size_t *first)
{
    size_t n = 0;
    *first = graft_active_positive(list, which, count);
    while (*first + n < count && list[which[*first + n]].side == GRAFT_NEGATIVE) n++;
    return n;
}

graft_unet_use graft_active_use(const active *list, const size_t *which, size_t count,
                                int64_t pictures, graft_active_more more)
{
    const active *first = &list[which[0]];
    bool same = true;
    for (size_t i = 1; i < count; i++)
        same = same && graft_box_equal(list[which[i]].box, first->box) &&
               list[which[i]].known == first->known && same_references(&list[which[i]], first);
    graft_unet_use use = {.control = graft_control_any_net(first->control),
                          .adapted = graft_control_features(first->control),
                          .steered = first->steered,
                          .within = first->within,
                          .pictures = pictures,
                          .entries = (int64_t)count,
                          .height = first->box->height,
                          .width = first->box->width,
                          .tokens = first->entry->tokens,
                          .references = first->references,
                          .untold = first->untold,
                          .skips = first->skips,
                          .boxed = first->boxed};
    if (more.perturbs)
        use.perturbed = pictures * (int64_t)graft_active_positive(list, which, count);
    size_t negative, n = more.watches ? negative_of(list, which, count, &negative) : 0;
    if (n) {
        use.watched_from = pictures * (int64_t)negative;
        use.watched = pictures * (int64_t)n;
    }
    if (!same) { /* each sees something else, so that their x does not repeat */
        use.pictures *= use.entries;
        use.entries = 1;
    }
    return use;
}

#include "engine/plan/plan.h"

#include <stdlib.h>

#include "base/alloc.h"

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) & ~(to - 1);
}

static int by_size(const void *a, const void *b)
{
    const graft_interval *x = *(graft_interval *const *)a, *y = *(graft_interval *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool alive_together(const graft_interval *a, const graft_interval *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset where `x` fits between those of placed[0..n), which is sorted by offset. */
static int64_t lowest_gap(const graft_interval *x, graft_interval *const *placed, size_t n,
                          int64_t alignment)
{
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const graft_interval *p = placed[i];
        if (!alive_together(x, p)) continue;
        if (p->offset - at >= x->bytes) break;
        int64_t end = round_up(p->offset + p->bytes, alignment);
        if (end > at) at = end;
    }
    return at;
}

graft_status graft_plan_offsets(graft_interval *interval, size_t n, int64_t alignment,
                                int64_t *total, graft_err *e)
{
    graft_interval **order = graft_malloc_array(n, sizeof *order);
    graft_interval **placed = graft_malloc_array(n, sizeof *placed);
    *total = 0;
    if (!order || !placed) {
        graft_free(order);
        graft_free(placed);
        return graft_fail_nomem(e, "memory plan");
    }
    for (size_t i = 0; i < n; i++) order[i] = &interval[i];
    qsort(order, n, sizeof *order, by_size);
    for (size_t i = 0; i < n; i++) {
        graft_interval *x = order[i];
        x->offset = lowest_gap(x, placed, i, alignment);
        size_t at = i;
        while (at > 0 && placed[at - 1]->offset > x->offset) {
            placed[at] = placed[at - 1];
            at--;
        }
        placed[at] = x;
        if (round_up(x->offset + x->bytes, alignment) > *total)
            *total = round_up(x->offset + x->bytes, alignment);
    }
    graft_free(order);
    graft_free(placed);
    return GRAFT_OK;
}

int64_t graft_plan_lower_bound(const graft_interval *interval, size_t n, int64_t alignment)
{
    int64_t most = 0;
    for (size_t i = 0; i < n; i++) { /* the live set is largest at some buffer's first step */
        int64_t sum = 0;
        for (size_t k = 0; k < n; k++)
            if (interval[k].first <= interval[i].first && interval[i].first <= interval[k].last)
                sum += round_up(interval[k].bytes, alignment);
        if (sum > most) most = sum;
    }
    return most;
}

bool graft_plan_valid(const graft_interval *interval, size_t n, int64_t alignment, int64_t total)
{
    for (size_t i = 0; i < n; i++) {
        const graft_interval *a = &interval[i];
        if (a->offset < 0 || a->offset % alignment || a->bytes < 0 ||
            a->bytes > total - a->offset || a->first > a->last)
            return false;
        for (size_t k = i + 1; k < n; k++) {
            const graft_interval *b = &interval[k];
            bool in_time = !(a->last < b->first || b->last < a->first);
            bool in_place =
                !(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
            if (in_time && in_place && a->bytes && b->bytes) return false;
        }
    }
    return true;
}

#include "engine/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define SEARCH_WORK ((size_t)64 << 20) /* comparisons of a repair: about 0.1 s */

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) & ~(to - 1);
}

/* A buffer in the order of placing, and the most that lives at one of its steps. */
typedef struct item {
    graft_interval *v;
    int64_t pressure;
} item;

/* Orders in which buffers are placed. All end with the place in the list, so that a plan depends on
 * its input alone. */
static int by_size(const void *a, const void *b)
{
    const graft_interval *x = ((const item *)a)->v, *y = ((const item *)b)->v;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int by_pressure(const void *a, const void *b)
{
    int64_t x = ((const item *)a)->pressure, y = ((const item *)b)->pressure;
    return x != y ? (x < y ? 1 : -1) : by_size(a, b);
}

static int by_length(const void *a, const void *b)
{
    const graft_interval *x = ((const item *)a)->v, *y = ((const item *)b)->v;
    int32_t p = x->last - x->first, q = y->last - y->first;
    return p != q ? (p < q ? 1 : -1) : by_size(a, b);
}

static int by_first(const void *a, const void *b)
{
    const graft_interval *x = ((const item *)a)->v, *y = ((const item *)b)->v;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : by_size(a, b);
}

static bool alive_together(const graft_interval *a, const graft_interval *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The first step at which two live that are alive together: both are largest then. */
static int32_t meeting(const graft_interval *a, const graft_interval *b)
{
    return a->first > b->first ? a->first : b->first;
}

/* The lowest offset where `x` fits between those of placed[0..n), which is sorted by offset. One
 * that shrinks may lie closely below another, and then not fit any more further up. */
static int64_t lowest_gap(const graft_interval *x, graft_interval *const *placed, size_t n,
                          int64_t alignment)
{
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const graft_interval *p = placed[i];
        if (p->offset - at >= x->bytes) break;
        if (!alive_together(x, p)) continue;
        int32_t step = meeting(x, p);
        if (p->offset - at >= graft_interval_bytes(x, step)) continue;
        int64_t end = round_up(p->offset + graft_interval_bytes(p, step), alignment);
        if (end <= at) continue;
        at = end;
        if (x->shrinks) i = (size_t)-1;
    }
    return at;
}

/* Places all in this order; the size of the arena. `placed` is scratch. */
static int64_t place_all(const item *order, graft_interval **placed, size_t n, int64_t alignment)
{
    int64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        graft_interval *x = order[i].v;
        x->offset = lowest_gap(x, placed, i, alignment);
        size_t at = i;
        while (at > 0 && placed[at - 1]->offset > x->offset) {
            placed[at] = placed[at - 1];
            at--;
        }
        placed[at] = x;
        int64_t end = round_up(x->offset + x->bytes, alignment);
        if (end > total) total = end;
    }
    return total;
}

typedef struct search {
    graft_interval *interval;
    size_t n;
    item *order;
    graft_interval **placed;
    int64_t *best; /* offsets */
    int64_t *live; /* by step */
    int64_t alignment, bound, total;
} search;

/* One more plan; true when no better one is possible. */
static bool attempt(search *s, int64_t *total)
{
    *total = place_all(s->order, s->placed, s->n, s->alignment);
    if (*total < s->total) {
        s->total = *total;
        for (size_t i = 0; i < s->n; i++) s->best[i] = s->interval[i].offset;
    }
    return s->total <= s->bound;
}

/* What reaches the top had too little room left: it comes earlier in the next attempt. */
static bool repair(search *s)
{
    int64_t total = place_all(s->order, s->placed, s->n, s->alignment);
    size_t work = s->n * s->n;
    for (size_t spent = 0; spent < SEARCH_WORK; spent += work + 1) {
        size_t top = 0;
        for (size_t i = 0; i < s->n; i++)
            if (round_up(s->order[i].v->offset + s->order[i].v->bytes, s->alignment) == total)
                top = i;
        if (top == 0) return false;
        item x = s->order[top];
        size_t to = top / 2;
        memmove(s->order + to + 1, s->order + to, (top - to) * sizeof *s->order);
        s->order[to] = x;
        if (attempt(s, &total)) return true;
    }
    return false;
}

static void run_search(search *s)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_pressure, by_length,
                                                                by_first};
    int64_t total;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        qsort(s->order, s->n, sizeof *s->order, orders[i]);
        if (attempt(s, &total)) return;
    }
    for (size_t i = 2; i-- > 0;) {
        qsort(s->order, s->n, sizeof *s->order, orders[i]);
        if (repair(s)) return;
    }
}

static int32_t last_step(const graft_interval *interval, size_t n)
{
    int32_t last = 0;
    for (size_t i = 0; i < n; i++)
        if (interval[i].last > last) last = interval[i].last;
    return last;
}

static void note_pressure(search *s)
{
    for (size_t i = 0; i < s->n; i++)
        for (int32_t t = s->interval[i].first; t <= s->interval[i].last; t++)
            s->live[t] += round_up(graft_interval_bytes(&s->interval[i], t), s->alignment);
    s->bound = 0;
    for (size_t i = 0; i < s->n; i++) {
        item *k = &s->order[i];
        *k = (item){&s->interval[i], 0};
        for (int32_t t = k->v->first; t <= k->v->last; t++)
            if (s->live[t] > k->pressure) k->pressure = s->live[t];
        if (k->pressure > s->bound) s->bound = k->pressure;
    }
}

graft_status graft_plan_offsets(graft_interval *interval, size_t n, int64_t alignment,
                                int64_t *total, graft_err *e)
{
    search s = {.interval = interval, .n = n, .alignment = alignment, .total = INT64_MAX};
    graft_status st = GRAFT_OK;
    *total = 0;
    if (!n) return GRAFT_OK;
    s.order = graft_malloc_array(n, sizeof *s.order);
    s.placed = graft_malloc_array(n, sizeof *s.placed);
    s.best = graft_malloc_array(n, sizeof *s.best);
    s.live = graft_calloc((size_t)last_step(interval, n) + 1, sizeof *s.live);
    if (!s.order || !s.placed || !s.best || !s.live) {
        st = graft_fail_nomem(e, "memory plan");
    } else {
        note_pressure(&s);
        run_search(&s);
        for (size_t i = 0; i < n; i++) interval[i].offset = s.best[i];
        *total = s.total;
    }
    graft_free(s.order);
    graft_free(s.placed);
    graft_free(s.best);
    graft_free(s.live);
    return st;
}

int64_t graft_plan_lower_bound(const graft_interval *interval, size_t n, int64_t alignment)
{
    int64_t most = 0;
    for (size_t i = 0; i < n; i++) { /* the live set is largest at some buffer's first step */
        int64_t sum = 0;
        for (size_t k = 0; k < n; k++)
            if (interval[k].first <= interval[i].first && interval[i].first <= interval[k].last)
                sum += round_up(graft_interval_bytes(&interval[k], interval[i].first), alignment);
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
        if (a->shrinks &&
            (a->shrinks <= a->first || a->shrinks > a->last || a->rest < 0 || a->rest > a->bytes))
            return false;
        for (size_t k = i + 1; k < n; k++) {
            const graft_interval *b = &interval[k];
            if (a->last < b->first || b->last < a->first) continue;
            int32_t step = a->first > b->first ? a->first : b->first;
            int64_t m = graft_interval_bytes(a, step), n_b = graft_interval_bytes(b, step);
            if (m && n_b && a->offset + m > b->offset && b->offset + n_b > a->offset) return false;
        }
    }
    return true;
}

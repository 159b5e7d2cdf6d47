#include "engine/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Of a repair: pairs of buffers that are looked at (less than 0.1 s), and plans for each buffer, as
 * few buffers need few. */
#define SEARCH_WORK  ((size_t)4 << 20)
#define SEARCH_PLANS 16

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

/* The first step at which two live that live together at some: both are largest then. */
static int32_t meeting(const graft_interval *a, const graft_interval *b)
{
    return a->first > b->first ? a->first : b->first;
}

typedef struct search {
    graft_interval *interval;
    size_t n;
    item *order;
    size_t *near, *near_at; /* of interval i, those alive with it: near[near_at[i]..near_at[i+1]) */
    graft_interval **placed; /* some of these, n at most */
    int64_t *best;           /* offsets */
    int64_t *live;           /* by step */
    int64_t alignment, bound, total;
} search;

#define NOWHERE (-1) /* the offset of what is not placed yet */

static int by_offset(const void *a, const void *b)
{
    const graft_interval *x = *(graft_interval *const *)a, *y = *(graft_interval *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void sort_by_offset(graft_interval **list, size_t n)
{
    enum { FEW = 64 };
    if (n > FEW) {
        qsort(list, n, sizeof *list, by_offset);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        graft_interval *x = list[i];
        size_t at = i;
        for (; at > 0 && list[at - 1]->offset > x->offset; at--) list[at] = list[at - 1];
        list[at] = x;
    }
}

/* The lowest offset where `x` fits between placed[0..n), which live with it, sorted by offset. One
 * that shrinks may lie closely below another, and then not fit any more further up. */
static int64_t lowest_gap(const graft_interval *x, graft_interval *const *placed, size_t n,
                          int64_t alignment)
{
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const graft_interval *p = placed[i];
        if (p->offset - at >= x->bytes) break;
        int32_t step = meeting(x, p);
        if (p->offset - at >= graft_interval_bytes(x, step)) continue;
        int64_t end = round_up(p->offset + graft_interval_bytes(p, step), alignment);
        if (end <= at) continue;
        at = end;
        if (x->shrinks) i = (size_t)-1;
    }
    return at;
}

/* Places all in this order; the size of the arena. */
static int64_t place_all(search *s)
{
    int64_t total = 0;
    for (size_t i = 0; i < s->n; i++) s->interval[i].offset = NOWHERE;
    for (size_t i = 0; i < s->n; i++) {
        graft_interval *x = s->order[i].v;
        size_t self = (size_t)(x - s->interval), placed = 0;
        for (size_t k = s->near_at[self]; k < s->near_at[self + 1]; k++) {
            graft_interval *other = &s->interval[s->near[k]];
            if (other->offset != NOWHERE) s->placed[placed++] = other;
        }
        sort_by_offset(s->placed, placed);
        x->offset = lowest_gap(x, s->placed, placed, s->alignment);
        int64_t end = round_up(x->offset + x->bytes, s->alignment);
        if (end > total) total = end;
    }
    return total;
}

/* One more plan; true when no better one is possible. */
static bool attempt(search *s, int64_t *total)
{
    *total = place_all(s);
    if (*total < s->total) {
        s->total = *total;
        for (size_t i = 0; i < s->n; i++) s->best[i] = s->interval[i].offset;
    }
    return s->total <= s->bound;
}

/* What reaches the top had too little room left: it comes earlier in the next attempt. */
static bool repair(search *s)
{
    int64_t total = place_all(s);
    size_t plans = SEARCH_WORK / (s->near_at[s->n] + 1);
    if (plans > SEARCH_PLANS * s->n) plans = SEARCH_PLANS * s->n;
    for (size_t i = 0; i < plans; i++) {
        size_t top = 0;
        for (size_t k = 0; k < s->n; k++)
            if (round_up(s->order[k].v->offset + s->order[k].v->bytes, s->alignment) == total)
                top = k;
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

/* Calls each() for every two that live together at some step; by_start: all, by first step. */
static void each_two(search *s, const item *by_start,
                     void (*each)(search *s, size_t one, size_t other))
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = i + 1; k < s->n && by_start[k].v->first <= by_start[i].v->last; k++)
            each(s, (size_t)(by_start[i].v - s->interval), (size_t)(by_start[k].v - s->interval));
}

static void count_two(search *s, size_t one, size_t other)
{
    s->near_at[one + 1]++;
    s->near_at[other + 1]++;
}

static void note_two(search *s, size_t one, size_t other)
{
    s->near[s->near_at[one + 1]++] = other;
    s->near[s->near_at[other + 1]++] = one;
}

/* Of each the others that live with it. */
static graft_status find_near(search *s, graft_err *e)
{
    qsort(s->order, s->n, sizeof *s->order, by_first);
    each_two(s, s->order, count_two);
    for (size_t i = 0; i < s->n; i++) s->near_at[i + 1] += s->near_at[i];
    size_t all = s->near_at[s->n];
    s->near = graft_malloc_array(all + 1, sizeof *s->near);
    if (!s->near) return graft_fail_nomem(e, "memory plan");
    /* Entry i + 1 is where the list of i goes on while it is filled, and its end behind that. */
    for (size_t i = s->n; i > 0; i--) s->near_at[i] = s->near_at[i - 1];
    each_two(s, s->order, note_two);
    return GRAFT_OK;
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
                                int64_t *total, int64_t *bound, graft_err *e)
{
    search s = {.interval = interval, .n = n, .alignment = alignment, .total = INT64_MAX};
    graft_status st = GRAFT_OK;
    *total = *bound = 0;
    if (!n) return GRAFT_OK;
    s.order = graft_malloc_array(n, sizeof *s.order);
    s.near_at = graft_calloc(n + 1, sizeof *s.near_at);
    s.placed = graft_malloc_array(n, sizeof *s.placed);
    s.best = graft_malloc_array(n, sizeof *s.best);
    s.live = graft_calloc((size_t)last_step(interval, n) + 1, sizeof *s.live);
    if (!s.order || !s.near_at || !s.placed || !s.best || !s.live) {
        st = graft_fail_nomem(e, "memory plan");
        goto out;
    }
    note_pressure(&s);
    GRAFT_TRY(find_near(&s, e));
    run_search(&s);
    for (size_t i = 0; i < n; i++) interval[i].offset = s.best[i];
    *total = s.total;
    *bound = s.bound;
out:
    graft_free(s.order);
    graft_free(s.near_at);
    graft_free(s.near);
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

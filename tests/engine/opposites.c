/* Each area of one side has its like on the other: whose words it has, where, and when there is
 * nothing to add. */
#include <string.h>

#include "engine/denoise/opposites.h"
#include "tests/engine/regions.h"

enum { H = 16, W = 24, SPOKEN = 2, WIDTH = 3 };
static const int64_t shape[4] = {1, 4, H, W};

/* Words of this one number. */
static graft_cond *words(float value)
{
    float *data = graft_malloc_array(SPOKEN * WIDTH, sizeof *data);
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < SPOKEN * WIDTH; i++) data[i] = value;
    CHECK_OK(graft_cond_create(SPOKEN, WIDTH, data, 0, NULL, NULL, &out, &e), &e);
    return out;
}

/* What is added to each side: its first word, its y and its strength, or 0 entries. */
typedef struct added {
    size_t n;
    float value;
    double y, strength;
} added;

static void check(graft_cond *positive, graft_cond *negative, added p, added n)
{
    graft_opposites o = {NULL, NULL, NULL};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_opposites_make(positive, negative, shape, &o, &e), &e);
    const graft_cond *was[2] = {positive, negative}, *is[2] = {o.positive, o.negative};
    const added want[2] = {p, n};
    for (int i = 0; i < 2 && is[i]; i++) {
        CHECK_INT(is[i]->n, was[i]->n + want[i].n);
        for (size_t k = 0; k < was[i]->n; k++) CHECK(is[i]->entry[k] == was[i]->entry[k]);
        if (is[i]->n == was[i]->n) continue;
        const graft_cond_entry *last = is[i]->entry[is[i]->n - 1];
        CHECK(last->data[SPOKEN * WIDTH - 1] == want[i].value && last->has_area);
        CHECK(last->area.y == 8 * want[i].y && last->strength == want[i].strength);
    }
    graft_opposites_finish(&o);
    graft_cond_release(positive);
    graft_cond_release(negative);
}

static const added nothing = {0, 0, 0, 0};

static void areas_get_their_like(void)
{
    check(in_cells(words(1), 2, 4, 8, 8, 0.5), words(2), nothing, (added){1, 2, 2, 0.5});
    check(words(1), in_cells(words(2), 3, 4, 8, 8, 2), (added){1, 1, 3, 2}, nothing);
    check(both(words(1), in_cells(words(3), 2, 4, 8, 8, 1)), both(words(2), words(4)), nothing,
          (added){1, 2, 2, 1});
    check(both(in_cells(words(1), 0, 0, 8, 8, 1), in_cells(words(3), 8, 0, 8, 8, 1)), words(2),
          nothing, (added){2, 2, 8, 1});
}

static void the_smallest_around_speaks(void)
{
    check(in_cells(words(1), 4, 4, 4, 4, 1), both(words(2), in_cells(words(3), 2, 2, 8, 8, 1)),
          nothing, (added){1, 3, 4, 1});
    check(in_cells(words(1), 4, 4, 4, 4, 1), both(in_cells(words(3), 2, 2, 8, 8, 1), words(2)),
          nothing, (added){1, 3, 4, 1});
}

static void nothing_is_added(void)
{
    check(words(1), words(2), nothing, nothing);
    check(in_cells(words(1), 2, 4, 8, 8, 1), both(words(2), in_cells(words(3), 2, 4, 8, 8, 2)),
          nothing, nothing);
    check(in_cells(words(1), 0, 0, H, W, 0.5), words(2), nothing, nothing); /* all of it */
    check(in_cells(words(1), 0, 0, 4, 4, 1), in_cells(words(2), 8, 8, 4, 4, 1), nothing, nothing);
    graft_cond *one = in_cells(words(1), 2, 4, 8, 8, 1);
    check(one, graft_cond_retain(one), nothing, nothing);
}

static void memory_may_end_anywhere(void)
{
    graft_cond *p = in_cells(words(1), 2, 4, 8, 8, 1), *n = words(2);
    graft_alloc_stats before, after;
    graft_status st = GRAFT_E_NOMEM;
    int failed = 0;
    graft_alloc_stats_get(&before);
    for (int i = 1; st && i < 100; i++) {
        graft_opposites o = {NULL, NULL, NULL};
        graft_err e = GRAFT_ERR_INIT;
        graft_alloc_fail_at(i);
        st = graft_opposites_make(p, n, shape, &o, &e);
        graft_alloc_fail_at(0);
        failed += st == GRAFT_E_NOMEM;
        graft_opposites_finish(&o);
    }
    CHECK_INT(st, GRAFT_OK);
    CHECK(failed > 1);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    graft_cond_release(p);
    graft_cond_release(n);
}

int main(void)
{
    RUN(areas_get_their_like);
    RUN(the_smallest_around_speaks);
    RUN(nothing_is_added);
    RUN(memory_may_end_anywhere);
    return test_end();
}

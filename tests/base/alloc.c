#include "base/alloc.h"

#include <stdint.h>

#include "base/size.h"
#include "tests/test.h"

static int64_t live(void)
{
    graft_alloc_stats s;
    graft_alloc_stats_get(&s);
    return s.live_blocks;
}

static void counts_blocks(void)
{
    int64_t before = live();
    void *a = graft_malloc(0), *b = graft_calloc(3, 5), *c = graft_malloc_aligned(64, 100);
    char *d = graft_strdup("text"), *e = graft_strndup("text", 2);
    CHECK(a && b && c && d && e);
    CHECK_INT(live() - before, 5);
    CHECK_INT((uintptr_t)c % 64, 0);
    CHECK_STR(e, "te");
    for (int i = 0; i < 15; i++) CHECK(((char *)b)[i] == 0);
    b = graft_realloc(b, 100, 7);
    CHECK_INT(live() - before, 5);
    graft_free(a), graft_free(b), graft_free(c), graft_free(d), graft_free(e);
    graft_free(NULL);
    CHECK_INT(live(), before);
    void *p = graft_realloc(NULL, 1, 1);
    CHECK_INT(live() - before, 1);
    graft_free(p);
}

static void refuses_overflow(void)
{
    CHECK(!graft_calloc(SIZE_MAX, 2));
    CHECK(!graft_malloc_array(SIZE_MAX / 2, 3));
    CHECK(!graft_realloc(NULL, SIZE_MAX, SIZE_MAX));
    size_t n;
    CHECK(!graft_size_mul(SIZE_MAX, 2, &n) && !graft_size_add(SIZE_MAX, 1, &n));
    CHECK(!graft_size_round_up(SIZE_MAX - 3, 8, &n));
    CHECK(graft_size_round_up(17, 8, &n) && n == 24);
    int64_t product, dim[3] = {INT64_MAX, 2, 1}, negative[2] = {3, -1}, good[3] = {2, 3, 4};
    CHECK(!graft_size_product(dim, 3, &product) && !graft_size_product(negative, 2, &product));
    CHECK(graft_size_product(good, 3, &product) && product == 24);
}

static void fails_when_told(void)
{
    graft_alloc_fail_at(2);
    void *a = graft_malloc(1), *b = graft_malloc(1), *c = graft_malloc(1);
    CHECK(a && !b && c);
    graft_alloc_fail_at(1);
    void *d = graft_realloc(a, 10, 1);
    CHECK(!d);
    graft_alloc_fail_at(1);
    CHECK(!graft_strdup("x"));
    graft_alloc_fail_at(1);
    graft_alloc_fail_at(0);
    d = graft_malloc(1);
    CHECK(d);
    graft_free(a), graft_free(c), graft_free(d);
}

static void grows(void)
{
    int *list = NULL;
    size_t cap = 0;
    for (int i = 0; i < 1000; i++) {
        CHECK(graft_grow(&list, &cap, (size_t)i + 1, sizeof *list) == 0);
        list[i] = i;
    }
    for (int i = 0; i < 1000; i++) CHECK(list[i] == i);
    size_t before = cap;
    CHECK(graft_grow(&list, &cap, SIZE_MAX / 2, sizeof *list) != 0);
    graft_alloc_fail_at(1);
    CHECK(graft_grow(&list, &cap, cap + 1, sizeof *list) != 0);
    CHECK(cap == before && list[999] == 999);
    graft_free(list);
}

int main(void)
{
    RUN(counts_blocks);
    RUN(refuses_overflow);
    RUN(fails_when_told);
    RUN(grows);
    return test_end();
}

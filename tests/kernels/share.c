/* How units of work are shared (kernels/cpu/share.h): each is done once, whoever stops or is slow.
 */
#include "kernels/cpu/share.h"

#include <pthread.h>
#include <stdlib.h>

#include "tests/test.h"

#define THREADS 16
#define UNITS   1000

static graft_cpu_piece piece[THREADS];
static atomic_int done[UNITS];

static void begin(graft_cpu_share *s, int units, int threads, int most, int least)
{
    *s = (graft_cpu_share){.most = most, .least = least};
    for (int i = 0; i < UNITS; i++) atomic_store(&done[i], 0);
    graft_cpu_share_begin(s, piece, units, threads);
}

static int64_t take(graft_cpu_share *s, int thread)
{
    int64_t first, n = graft_cpu_share_take(s, thread, &first);
    for (int64_t i = first; i < first + n; i++) atomic_fetch_add(&done[i], 1);
    return n;
}

static bool each_once(int units)
{
    for (int i = 0; i < UNITS; i++)
        if (atomic_load(&done[i]) != (i < units)) return false;
    return true;
}

/* One thread after the other, as on a crowded machine, and threads that take turns. */
static void every_unit_once(void)
{
    const int sizes[] = {0, 1, 2, 7, 16, 100, UNITS};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (int threads = 1; threads <= THREADS; threads += 5) {
            for (int most = 0; most <= 9; most += 3) {
                graft_cpu_share s;
                begin(&s, sizes[k], threads, most, most / 2);
                for (int i = 0; i < threads; i++)
                    while (take(&s, i)) continue;
                CHECK(each_once(sizes[k]));
                begin(&s, sizes[k], threads, most, most / 2);
                for (int left = 1; left;) {
                    left = 0;
                    for (int i = 0; i < threads; i++) left += take(&s, i) > 0;
                }
                CHECK(each_once(sizes[k]));
            }
        }
    }
}

/* A thread begins with its own neighbours, in their order, and takes more at first than at last. */
static void own_ones_first(void)
{
    graft_cpu_share s;
    int64_t first, last = 250;
    begin(&s, UNITS, 4, 32, 2);
    for (int64_t n, before = 32; last < 500; before = n) {
        CHECK(graft_cpu_share_goes_on(&s, 1));
        n = graft_cpu_share_take(&s, 1, &first);
        CHECK_INT(first, last);
        CHECK(n >= 2 && n <= before);
        last = first + n;
    }
    CHECK_INT(last, 500);
    CHECK(!graft_cpu_share_goes_on(&s, 1));
    CHECK(graft_cpu_share_take(&s, 1, &first) > 0); /* half of another's */
    CHECK_INT(first, 125);
    CHECK(graft_cpu_share_goes_on(&s, 1));
}

/* One takes a few and does not come back for long: the others do the rest, but for what is not
 * worth it. */
static void a_thread_that_stops(void)
{
    graft_cpu_share s;
    begin(&s, UNITS, 3, 8, 4);
    int64_t all = take(&s, 0);
    CHECK_INT(all, 8);
    for (int i = 1; i < 3; i++)
        for (int64_t n = 1; n > 0; all += n) n = take(&s, i);
    CHECK(all > UNITS - 4 && all <= UNITS);
    for (int64_t n = 1; n > 0; all += n) n = take(&s, 0);
    CHECK_INT(all, UNITS);
    CHECK(each_once(UNITS));
}

/* Where one thread needs four times as long as the other for a unit, both end together. */
static void a_slow_thread(void)
{
    graft_cpu_share s;
    begin(&s, 400, 2, 16, 1);
    int64_t clock[2] = {0, 0}, last = 0;
    for (int64_t n = 1; n > 0;) {
        int i = clock[0] <= clock[1] ? 0 : 1;
        n = take(&s, i);
        clock[i] += n * (i ? 4 : 1);
        last = llabs(clock[0] - clock[1]);
    }
    CHECK(each_once(400));
    CHECK(last <= 8);
    CHECK(clock[0] <= 400 * 4 / 5 + 8); /* equal pieces: 800 */
}

static int32_t asked(void *times)
{
    return ++*(int *)times > 1;
}

/* The caller's thread asks before it takes more; after a yes nobody does. */
static void nobody_wants_it(void)
{
    graft_cpu_share s;
    int times = 0;
    const graft_stop ask = {&times, asked};
    graft_cpu_stop stop = {.ask = &ask};
    begin(&s, UNITS, 3, 8, 1);
    s.stop = &stop;
    CHECK(take(&s, 1) > 0 && take(&s, 2) > 0);
    CHECK_INT(times, 0);
    CHECK(take(&s, 0) > 0 && take(&s, 1) > 0);
    CHECK_INT(times, 1);
    CHECK_INT(take(&s, 0), 0);
    CHECK(stop.stopped);
    for (int i = 0; i < 3; i++) CHECK_INT(take(&s, i), 0);
    CHECK_INT(times, 2); /* it is not asked again */
    CHECK(!each_once(UNITS));
}

static graft_cpu_share shared;

static void *run(void *thread)
{
    while (take(&shared, (int)(intptr_t)thread)) continue;
    return NULL;
}

static void real_threads(void)
{
    for (int round = 0; round < 200; round++) {
        pthread_t id[4];
        begin(&shared, UNITS, 4, 1 + round % 5, 1 + round % 3);
        for (intptr_t i = 0; i < 4; i++) CHECK(!pthread_create(&id[i], NULL, run, (void *)i));
        for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
        CHECK(each_once(UNITS));
    }
}

int main(void)
{
    RUN(every_unit_once);
    RUN(own_ones_first);
    RUN(a_thread_that_stops);
    RUN(a_slow_thread);
    RUN(nobody_wants_it);
    RUN(real_threads);
    return test_end();
}

/* EasyCache's decision: the formulas in double, step by step, and what no number can say. */
#include <math.h>
#include <stdint.h>

#include "engine/sampling/easycache.h"
#include "tests/test.h"

static void distances(void)
{
    const float a[] = {1, -2, 3, -4}, b[] = {0.5f, 2, 3, -8}, inf[] = {INFINITY, 0};
    const float tiny[] = {1e-30f, 1e-30f}, big[] = {3e38f, -3e38f};
    CHECK_NEAR(graft_easycache_distance(a, b, 4), (0.5 + 4 + 0 + 4) / 4, 0);
    CHECK_NEAR(graft_easycache_distance(b, a, 4), (0.5 + 4 + 0 + 4) / 4, 0);
    CHECK_NEAR(graft_easycache_distance(a, NULL, 4), 2.5, 0);
    CHECK_NEAR(graft_easycache_distance(a, a, 4), 0, 0);
    CHECK_NEAR(graft_easycache_distance(a, b, 1), 0.5, 0);
    CHECK_NEAR(graft_easycache_distance(tiny, NULL, 2), (double)1e-30f, 1e-45);
    CHECK_NEAR(graft_easycache_distance(big, NULL, 2), (double)3e38f, 0); /* the sum is no float */
    CHECK(isinf(graft_easycache_distance(inf, NULL, 2)));
    CHECK(isnan(graft_easycache_distance(inf, inf, 2)));
}

/* Random distances: after an evaluation in full the estimates k moved / size are added up until
 * they reach the threshold. */
static void sums_up_to_the_threshold(void)
{
    static const double threshold[] = {1e-3, 0.05, 0.2, 1, 3};
    uint64_t random = 7;
    for (int t = 0; t < 5; t++) {
        graft_easycache_state s;
        double rate = NAN, sum = 0;
        int reused = 0, whole = 0;
        graft_easycache_begin(&s);
        for (int i = 0; i < 1000; i++) {
            double v[3];
            for (int k = 0; k < 3; k++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                v[k] = 0.01 + (double)(random >> 40) / 16777216.0;
            }
            double moved = 0.1 * v[0], size = v[1], changed = 0.1 * v[2];
            sum += rate * moved / size;
            bool want = sum < threshold[t];
            CHECK(graft_easycache_enough(&s, threshold[t], moved, size) == want);
            reused += want;
            whole += !want;
            if (want) continue;
            sum = 0;
            rate = i ? changed / moved : NAN;
            graft_easycache_evaluated(&s, i ? changed : NAN, i ? moved : NAN);
        }
        CHECK(whole > 1 && (reused > 10 || threshold[t] < 0.01));
    }
}

static void nothing_before_a_rate_is_known(void)
{
    graft_easycache_state s;
    graft_easycache_begin(&s);
    CHECK(!graft_easycache_enough(&s, 3, 0, 1));
    graft_easycache_evaluated(&s, NAN, NAN); /* the first one has nothing before it */
    CHECK(!graft_easycache_enough(&s, 3, 1e-9, 1));
    graft_easycache_evaluated(&s, 1, 2);
    CHECK(graft_easycache_enough(&s, 3, 1e-9, 1));
    CHECK(graft_easycache_enough(&s, 3, 5.9, 1));
    CHECK(!graft_easycache_enough(&s, 3, 1, 1));
}

/* The threshold itself is too much, and 0 lets nothing through. */
static void borders(void)
{
    graft_easycache_state s;
    graft_easycache_begin(&s);
    graft_easycache_evaluated(&s, 1, 1);
    CHECK(!graft_easycache_enough(&s, 0, 0, 1));
    CHECK(graft_easycache_enough(&s, 0.5, 0.25, 1));
    CHECK(!graft_easycache_enough(&s, 0.5, 0.25, 1));
    graft_easycache_evaluated(&s, 0, 1); /* the model answers the same whatever it sees */
    for (int i = 0; i < 100; i++) CHECK(graft_easycache_enough(&s, 1e-9, 1e9, 1));
}

static void zeros_and_what_is_no_number(void)
{
    static const double bad[] = {NAN, INFINITY};
    graft_easycache_state s;
    graft_easycache_begin(&s);
    graft_easycache_evaluated(&s, 1, 1);
    CHECK(!graft_easycache_enough(&s, 3, 1, 0)); /* nothing to be relative to */
    graft_easycache_evaluated(&s, 1, 1);
    CHECK(!graft_easycache_enough(&s, 3, 0, 0));
    graft_easycache_evaluated(&s, 0.5, 0); /* x did not move: the rate is what it was */
    CHECK(graft_easycache_enough(&s, 3, 2.9, 1));
    CHECK(!graft_easycache_enough(&s, 3, 0.2, 1));
    for (int i = 0; i < 2; i++) {
        graft_easycache_begin(&s);
        graft_easycache_evaluated(&s, 1, 1);
        CHECK(!graft_easycache_enough(&s, 3, bad[i], 1));
        graft_easycache_evaluated(&s, 1, 1);
        CHECK(graft_easycache_enough(&s, 3, 1, 1)); /* forgotten */
        graft_easycache_evaluated(&s, bad[i], 1);
        CHECK(!graft_easycache_enough(&s, 3, 1e-9, 1));
        graft_easycache_evaluated(&s, bad[i], 0);
        CHECK(!graft_easycache_enough(&s, 3, 1e-9, 1));
        graft_easycache_evaluated(&s, 1, NAN);
        CHECK(!graft_easycache_enough(&s, 3, 1e-9, 1));
    }
    graft_easycache_evaluated(&s, 1, 1);
    CHECK(!graft_easycache_enough(&s, 3, 1, NAN));
}

int main(void)
{
    RUN(distances);
    RUN(sums_up_to_the_threshold);
    RUN(nothing_before_a_rate_is_known);
    RUN(borders);
    RUN(zeros_and_what_is_no_number);
    return test_end();
}

#include "base/alloc.h"
#include "engine/sampling/noise.h"
#include "tests/test.h"

#define N 20

static void draw(graft_brownian *b, double from, double to, float *out)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_noise_source s = graft_brownian_source(b);
    CHECK_OK(s.draw(s.ctx, from, to, out, N, &e), &e);
}

static graft_brownian *create(uint64_t seed)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_brownian *b = NULL;
    CHECK_OK(graft_brownian_create(0.0291675f, 14.614642f, seed, N, &b, &e), &e);
    return b;
}

/* The first values of draws from a model of the tree in NumPy and PyTorch. */
static void known_values(void)
{
    static const struct {
        uint64_t seed;
        float from, to, first[3];
    } wanted[] = {
#include "tests/sampling/brownian_values.inc"
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        float v[N];
        graft_brownian *b = create(wanted[i].seed);
        draw(b, wanted[i].from, wanted[i].to, v);
        for (int k = 0; k < 3; k++) CHECK_NEAR(v[k], wanted[i].first[k], 0);
        graft_brownian_destroy(b);
    }
}

static void increments_add_up(void)
{
    float whole[N], part[N], sum[N] = {0};
    const double at[] = {14.614642, 9.1, 3.3333, 0.5, 0.1};
    graft_brownian *b = create(3);
    for (int k = 0; k < 4; k++) {
        draw(b, at[k], at[k + 1], part);
        for (int i = 0; i < N; i++) sum[i] += part[i] * (float)sqrt(at[k] - at[k + 1]);
    }
    draw(b, at[0], at[4], whole);
    for (int i = 0; i < N; i++) CHECK_NEAR(whole[i] * sqrt(at[0] - at[4]), sum[i], 1e-5);
    graft_brownian_destroy(b);
}

static void order_does_not_matter(void)
{
    float a[N], b[N], other[N];
    graft_brownian *p = create(17), *q = create(17);
    draw(p, 5, 4, a);
    draw(q, 10, 1, other);
    draw(q, 0.2, 0.1, other);
    draw(q, 5, 4, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    draw(q, 4, 5, other);
    for (int i = 0; i < N; i++) CHECK_NEAR(other[i], -b[i], 0);
    graft_brownian_destroy(p);
    graft_brownian_destroy(q);
}

static void draws_are_normal(void)
{
    double sum = 0, squares = 0;
    int n = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        float v[N];
        graft_brownian *b = create(seed << 20);
        for (int k = 0; k < 5; k++) {
            draw(b, 10.0 - k, 9.0 - k, v);
            for (int i = 0; i < N; i++, n++) sum += v[i], squares += (double)v[i] * v[i];
        }
        graft_brownian_destroy(b);
    }
    CHECK_NEAR(sum / n, 0, 0.03);
    CHECK_NEAR(squares / n, 1, 0.04);
}

static void edges(void)
{
    float v[N];
    graft_brownian *b = create(1);
    draw(b, 2, 2, v);
    CHECK_NEAR(v[0], 0, 0);
    draw(b, 100, 50, v); /* outside: no increment there */
    CHECK_NEAR(v[0], 0, 0);
    draw(b, 1, 0, v);
    CHECK(isfinite(v[0]));
    graft_noise_source s = graft_brownian_source(b);
    CHECK_INT(s.draw(s.ctx, 2, 1, v, N - 1, NULL), GRAFT_E_ARG);
    CHECK_INT(s.draw(s.ctx, NAN, 1, v, N, NULL), GRAFT_E_ARG);
    graft_brownian_destroy(b);
    CHECK_INT(graft_brownian_create(0, INFINITY, 1, N, &b, NULL), GRAFT_E_ARG);
    CHECK_INT(graft_brownian_create(0, 6e8, 1, N, &b, NULL), GRAFT_E_ARG);
    CHECK_INT(graft_brownian_create(-3e8, 3e8, 1, N, &b, NULL), GRAFT_E_ARG);
    CHECK_OK(graft_brownian_create(0, 5e8, 1, N, &b, NULL), (&(graft_err){0, ""}));
    draw(b, 5e8, 1, v);
    CHECK(isfinite(v[0]));
    graft_brownian_destroy(b);
    CHECK_OK(graft_brownian_create(2, 2, 1, N, &b, NULL), (&(graft_err){0, ""}));
    draw(b, 2, 1, v);
    CHECK_NEAR(v[0], 0, 0);
    graft_brownian_destroy(b);
    graft_brownian_destroy(NULL);
}

static void allocation_failures(void)
{
    for (int k = 1; k <= 2; k++) {
        graft_brownian *b = NULL;
        graft_alloc_fail_at(k);
        CHECK_INT(graft_brownian_create(1, 2, 1, N, &b, NULL), GRAFT_E_NOMEM);
        CHECK(b == NULL);
    }
    graft_alloc_fail_at(0);
    graft_alloc_stats stats;
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
}

int main(void)
{
    RUN(known_values);
    RUN(increments_add_up);
    RUN(order_does_not_matter);
    RUN(draws_are_normal);
    RUN(edges);
    RUN(allocation_failures);
    return test_end();
}

#include "base/alloc.h"
#include "engine/sampling/noise.h"
#include "tests/sampling/golden.h"
#include "tests/test.h"

static void golden(void)
{
    golden_compare(golden_noise, "noise.safetensors");
}

static void few_values_are_drawn_in_double(void)
{
    /* torch.manual_seed(0); torch.randn(4) */
    static const float wanted[] = {1.54099607f, -0.293428898f, -2.17878938f, 0.568431258f};
    float v[4];
    graft_rng r;
    graft_rng_seed(&r, 0);
    graft_rng_randn(&r, v, 4);
    for (int i = 0; i < 4; i++) CHECK_NEAR(v[i], wanted[i], 0);
}

static void odd_draw_keeps_its_second_value(void)
{
    float one[4], four[4];
    graft_rng r;
    graft_rng_seed(&r, 5);
    graft_rng_randn(&r, four, 4);
    graft_rng_seed(&r, 5);
    for (int i = 0; i < 4; i++) graft_rng_randn(&r, one + i, 1);
    CHECK(memcmp(one, four, sizeof one) == 0);
}

static void only_low_seed_bits_count(void)
{
    float a[20], b[20];
    graft_rng r;
    graft_rng_seed(&r, 7);
    graft_rng_randn(&r, a, 20);
    graft_rng_seed(&r, 7 + (1ull << 32));
    graft_rng_randn(&r, b, 20);
    CHECK(memcmp(a, b, sizeof a) == 0);
}

static void moments(void)
{
    enum { N = 100000 };
    static float v[N];
    double sum = 0, squares = 0;
    graft_rng r;
    graft_rng_seed(&r, 11);
    graft_rng_randn(&r, v, N);
    for (int i = 0; i < N; i++) sum += v[i], squares += (double)v[i] * v[i];
    CHECK_NEAR(sum / N, 0, 0.02);
    CHECK_NEAR(squares / N, 1, 0.02);
}

static void batch_index_draws_singly(void)
{
    const int64_t shape[4] = {3, 4, 2, 3}, index[3] = {2, 0, 2};
    float got[72], all[72];
    graft_err e = GRAFT_ERR_INIT;
    graft_rng r;
    graft_rng_seed(&r, 9);
    for (int i = 0; i < 3; i++) graft_rng_randn(&r, all + 24 * i, 24);
    CHECK_OK(graft_noise_latent(9, shape, index, got, &e), &e);
    CHECK(memcmp(got, all + 48, 96) == 0);
    CHECK(memcmp(got + 24, all, 96) == 0);
    CHECK(memcmp(got + 48, all + 48, 96) == 0);
}

static void refusals(void)
{
    const int64_t shape[4] = {1, 4, 2, 2}, below[1] = {-1};
    const int64_t huge[4] = {INT64_MAX, 2, 2, 2}, negative[4] = {1, -4, 2, 2}, zero[1] = {0};
    float v[16];
    graft_err e = GRAFT_ERR_INIT;
    const int64_t above[1] = {GRAFT_NOISE_MOST_INDEX + 1};
    CHECK_INT(graft_noise_latent(1, shape, above, v, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_noise_latent(1, shape, below, v, &e), GRAFT_E_ARG);
    CHECK_INT(graft_noise_latent(1, huge, NULL, v, &e), GRAFT_E_ARG);
    CHECK_INT(graft_noise_latent(1, negative, NULL, v, &e), GRAFT_E_ARG);
    graft_alloc_fail_at(1);
    CHECK_INT(graft_noise_latent(1, shape, zero, v, &e), GRAFT_E_NOMEM);
    graft_alloc_fail_at(0);
}

int main(void)
{
    RUN(golden);
    RUN(few_values_are_drawn_in_double);
    RUN(odd_draw_keeps_its_second_value);
    RUN(only_low_seed_bits_count);
    RUN(moments);
    RUN(batch_index_draws_singly);
    RUN(refusals);
    return test_end();
}

/* PSNR and SSIM against values worked out by hand and by the definition. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/metrics.h"
#include "tests/test.h"

enum { H = 19, W = 23, C = 3, N = H * W * C };

static uint64_t state = 1;
static float random_value(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(state >> 40) / 16777216.0);
}

static double ssim(const float *a, const float *b)
{
    double v = NAN;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_metric_ssim(a, b, H, W, C, 1.0, &v, &e), &e);
    return v;
}

static void psnr(void)
{
    float a[4] = {0, 0.5f, 1, 0.25f}, b[4] = {0.1f, 0.6f, 0.9f, 0.35f};
    CHECK_NEAR(graft_metric_mse(a, b, 4), 0.01, 1e-8);
    CHECK_NEAR(graft_metric_psnr(a, b, 4, 1), 20, 1e-5);
    CHECK_NEAR(graft_metric_psnr(a, b, 4, 255), 20 + 20 * log10(255), 1e-5);
    CHECK(isinf(graft_metric_psnr(a, a, 4, 1)) && graft_metric_mse(a, a, 0) == 0);
    a[2] = NAN;
    CHECK(isnan(graft_metric_psnr(a, b, 4, 1)));
}

/* Flat pictures leave the luminance term alone: (2xy + c) / (x^2 + y^2 + c). */
static void flat(void)
{
    static float a[N], b[N];
    for (int i = 0; i < N; i++) a[i] = 0.2f, b[i] = 0.6f;
    CHECK_NEAR(ssim(a, b), (2 * 0.2 * 0.6 + 1e-4) / (0.04 + 0.36 + 1e-4), 1e-6);
    CHECK_NEAR(ssim(a, a), 1, 1e-12);
}

/* The definition, one window at a time, without separating it. */
static double by_definition(const float *a, const float *b)
{
    double sum = 0;
    int count = 0;
    for (int c = 0; c < C; c++)
        for (int y = 5; y < H - 5; y++)
            for (int x = 5; x < W - 5; x++) {
                double w_sum = 0, ma = 0, mb = 0, va = 0, vb = 0, cov = 0;
                for (int pass = 0; pass < 2; pass++)
                    for (int j = -5; j <= 5; j++)
                        for (int i = -5; i <= 5; i++) {
                            double w = exp(-(i * i + j * j) / 4.5);
                            int at = ((y + j) * W + x + i) * C + c;
                            if (pass == 0) {
                                w_sum += w, ma += w * a[at], mb += w * b[at];
                                continue;
                            }
                            double da = a[at] - ma / w_sum, db = b[at] - mb / w_sum;
                            va += w * da * da, vb += w * db * db, cov += w * da * db;
                        }
                ma /= w_sum, mb /= w_sum, va /= w_sum, vb /= w_sum, cov /= w_sum;
                sum += (2 * ma * mb + 1e-4) * (2 * cov + 9e-4) /
                       ((ma * ma + mb * mb + 1e-4) * (va + vb + 9e-4));
                count++;
            }
    return sum / count;
}

static void random_pictures(void)
{
    static float a[N], b[N], inverse[N];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < N; i++) {
            a[i] = random_value();
            b[i] = a[i] * (1 - 0.3f * (float)round) + 0.3f * (float)round * random_value();
            inverse[i] = 1 - a[i];
        }
        CHECK_NEAR(ssim(a, b), by_definition(a, b), 1e-9);
        CHECK_NEAR(ssim(a, b), ssim(b, a), 1e-12);
        CHECK(ssim(a, inverse) < 0);
        if (round) CHECK(ssim(a, b) < 1);
    }
}

static void refuses(void)
{
    float a[10 * 11 * 1] = {0};
    double v;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_metric_ssim(a, a, 10, 11, 1, 1, &v, &e), GRAFT_E_ARG);
    CHECK_INT(graft_metric_ssim(a, a, 11, 10, 1, 1, &v, &e), GRAFT_E_ARG);
    CHECK_INT(graft_metric_ssim(a, a, 11, 10, 0, 1, &v, &e), GRAFT_E_ARG);
    static float b[N];
    graft_alloc_fail_at(1);
    CHECK_INT(graft_metric_ssim(b, b, H, W, C, 1, &v, &e), GRAFT_E_NOMEM);
    graft_alloc_fail_at(0);
}

int main(void)
{
    RUN(psnr);
    RUN(flat);
    RUN(random_pictures);
    RUN(refuses);
    return test_end();
}

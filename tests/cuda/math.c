/* What device kernels compute in a dozen instructions where results have 16 bits, beside the same
 * in double: every number of either format, and floats between them. */
#include <math.h>

#define GRAFT_CUDA_EMULATOR "tests/cuda/emulator.h"
#include "kernels/cuda/gpu/math.h"
#include "tests/test.h"

static double exact(graft_act act, double x)
{
    switch (act) {
    case GRAFT_ACT_SILU:
        return x / (1 + exp(-x));
    case GRAFT_ACT_GELU:
        return 0.5 * x * erfc(-x / sqrt(2));
    case GRAFT_ACT_QUICK_GELU:
        return x / (1 + exp(-(double)1.702f * x));
    case GRAFT_ACT_LEAKY:
        return x < 0 ? (double)0.2f * x : x;
    case GRAFT_ACT_RELU:
        return x < 0 ? 0 : x;
    case GRAFT_ACT_TANH:
        return tanh(x);
    default:
        return x / (1 + exp(-1.5957691216 * (x + 0.044715 * x * x * x)));
    }
}

/* The largest error, and the largest one beside the result where that is no less than `least`. */
typedef struct worst {
    double off, share, least;
    int wrong;
} worst;

static void look(worst *w, graft_act act, float x)
{
    double want = exact(act, (double)x), got = (double)graft_act_of_16(act, x);
    if (isnan(want) || isinf(want) || isnan(got)) {
        w->wrong += !(isnan(want) ? isnan(got) : got == want);
        return;
    }
    double off = fabs(got - want), share = off / fabs(want);
    if (fabs(want) > 64) off *= 64 / fabs(want);
    if (off > w->off) w->off = off;
    if (fabs(want) >= w->least && share > w->share) w->share = share;
}

/* f16 has 11 bits, of values above 2^-14; bf16 has 8, of all that matter. */
static void acts_are_near(void)
{
    static const graft_act acts[] = {GRAFT_ACT_SILU,  GRAFT_ACT_GELU, GRAFT_ACT_QUICK_GELU,
                                     GRAFT_ACT_LEAKY, GRAFT_ACT_RELU, GRAFT_ACT_GELU_TANH,
                                     GRAFT_ACT_TANH};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        worst w = {.least = 0x1p-14};
        for (uint32_t u = 0; u < 0x10000; u++) {
            look(&w, acts[i], graft_bf16_load((uint16_t)u));
            look(&w, acts[i], graft_f16_load((uint16_t)u));
        }
        for (int k = -1000000; k <= 1000000; k++) look(&w, acts[i], (float)k * 1.2e-5f);
        printf("     act %d: off by at most %.2g, and by %.2g of the result\n", (int)acts[i], w.off,
               w.share);
        CHECK_INT(w.wrong, 0);
        CHECK(w.off < 1e-6 * 8);
        CHECK(w.share < 0x1p-14);
    }
}

static void gelu_is_nearer(void)
{
    worst w = {.least = 1e-4};
    for (int k = -4000000; k <= 4000000; k++) look(&w, GRAFT_ACT_GELU, (float)k * 2e-6f);
    CHECK(w.off < 1e-6);
    CHECK(graft_gelu_16(0) == 0 && graft_gelu_16(3e38f) == 3e38f);
    CHECK(fabsf(graft_gelu_16(-3e38f)) < 1e-8f);
    CHECK(isnan(graft_gelu_16(NAN)) && graft_gelu_16(INFINITY) == INFINITY);
}

/* The host rounds by whole numbers; the device's instruction must be offered the same order. */
static void pairs_are_two_values(void)
{
    CHECK_INT(graft_pair_bf16(1.0f, -2.0f), 0xc0003f80u);
    CHECK_INT(graft_pair_f16(1.0f, -2.0f), 0xc0003c00u);
    CHECK_INT(graft_pair_bf16(0x1.01p0f, 0x1.03p0f), 0x3f823f80u); /* ties to even */
}

int main(void)
{
    RUN(acts_are_near);
    RUN(gelu_is_nearer);
    RUN(pairs_are_two_values);
    return test_end();
}

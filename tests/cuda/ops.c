/* Every operator of the CUDA library against ref, with the very sources of its device kernels run
 * by the emulator: the cases, the poisoned buffers and the limits of tests/kernels/ops.c.
 *
 * Cases of many products are left out here: the emulator does some ten million a second. */
#include <stdlib.h>

#include "tests/cuda/backend.h"
#include "tests/cuda/compare.h"
#include "tests/test.h"

#if defined(__SANITIZE_ADDRESS__)
#define MOST_PRODUCTS 2e5
#define LEAST_RUN     400
#else
#define MOST_PRODUCTS 1e6
#define LEAST_RUN     600
#endif

static double products(const graft_op_desc *d)
{
    double n = (double)element_count(&d->out);
    const int64_t *w = d->in[1].dim;
    if (d->op == GRAFT_OP_CONV2D) return n * (double)(w[1] * w[2] * w[3]);
    if (d->op == GRAFT_OP_LINEAR) return n * (double)w[1];
    if (d->op == GRAFT_OP_ATTENTION) return 2 * n * (double)w[1];
    if (d->op == GRAFT_OP_MATCH_TOKENS)
        return 0.1875 * n * (double)(d->in[0].dim[1] * d->in[0].dim[2]);
    if (d->op == GRAFT_OP_MERGE_TOKENS) return (double)(d->out.dim[0] * d->out.dim[1] * w[1]) + n;
    return n;
}

static void cuda_against_ref(void)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_BF16, GRAFT_F16};
    kernel_lib cuda, ref;
    size_t cases;
    int run = 0, large = 0, unknown = 0;
    CHECK(lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref));
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    if (!cuda.device || !ref.device) return;
    kernel_case *list = kernel_cases(&cases);
    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < cases; i++) {
            const kernel_case *c = &list[i];
            graft_op_desc d = case_desc(c, dtypes[t]);
            if (c->fixed && t > 0) continue;
            if (products(&d) > MOST_PRODUCTS) {
                large++;
            } else if (!cuda.api->supports(cuda.device, &d)) {
                unknown++;
                fprintf(stderr, "  not supported, dtype %d: %s\n", (int)dtypes[t], c->name);
            } else {
                run += compare_variants(&cuda, &ref, c, dtypes[t], i);
            }
        }
    printf("  %s: %d cases and variants run, %d too large to emulate, %d not supported\n",
           cuda.info.name, run, large, unknown);
    CHECK_INT(unknown, 0);
    CHECK_INT(refused, 0);
    CHECK(run > LEAST_RUN);
    free(list);
    lib_close(&cuda);
    lib_close(&ref);
}

/* Sums of squares of values far from zero would cancel: 300 in float32 is no closer than 2e-5 to
 * what it should be, which here is a part of the spread. */
#define FAR_MOST 2e-9

static void norms_far_from_zero(void)
{
    kernel_lib cuda, ref;
    size_t cases;
    int run = 0;
    CHECK(lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref));
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    if (!cuda.device || !ref.device) return;
    kernel_case *list = kernel_cases(&cases);
    for (size_t i = 0; i < cases; i++) {
        const kernel_case *c = &list[i];
        float *val[GRAFT_MAX_INPUTS];
        case_result want, got;
        double error = 0, size = 1e-30;
        if (c->desc.op != GRAFT_OP_GROUP_NORM && c->desc.op != GRAFT_OP_LAYER_NORM) continue;
        if (c->desc.in[GRAFT_NORM_MOMENTS].dtype || products(&c->desc) > MOST_PRODUCTS) continue;
        int64_t n = element_count(&c->desc.in[0]);
        if (n < 100) continue; /* a spread of few values may be small */
        case_values(c, GRAFT_F32, i, val);
        for (int64_t k = 0; k < n; k++) val[0][k] += 300;
        case_want(&ref, c, GRAFT_F32, val, &want);
        case_run(&cuda, c, GRAFT_F32, -1, val, &got);
        for (int64_t k = 0; k < element_count(&c->desc.out); k++) {
            error += pow((double)got.out[k] - (double)want.out[k], 2);
            size += pow((double)want.out[k], 2);
        }
        CHECK(error < FAR_MOST * size);
        if (!(error < FAR_MOST * size)) fprintf(stderr, "  %s: %g\n", c->name, error / size);
        free(got.out);
        free(want.out);
        values_free(val);
        run++;
    }
    CHECK(run > 10);
    free(list);
    lib_close(&cuda);
    lib_close(&ref);
}

/* An input that is float32 beside results of 16 bits is refused where the kernel would take it for
 * 16 bits; a factor of MUL may be, but as a constant of several numbers. */
static void inputs_of_another_dtype(void)
{
    kernel_lib cuda;
    size_t cases, factors = 0;
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    if (!cuda.device) return;
    kernel_case *list = kernel_cases(&cases);
    for (size_t i = 0; i < cases; i++) {
        graft_op_desc d = case_desc(&list[i], GRAFT_BF16);
        if (list[i].fixed || !cuda.api->supports(cuda.device, &d)) continue;
        if (d.op == GRAFT_OP_MATCH_TOKENS) continue; /* its result is whole numbers */
        factors += d.op == GRAFT_OP_MUL && d.in[1].dtype == GRAFT_F32 && !d.in[1].constant;
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
            if (d.in[k].dtype != GRAFT_BF16) continue;
            d.in[k].dtype = GRAFT_F32;
            bool factor = d.op == GRAFT_OP_MUL && k == 1 &&
                          (!d.in[k].constant || element_count(&d.in[k]) == 1);
            bool taken = cuda.api->supports(cuda.device, &d);
            CHECK(taken == factor);
            if (taken != factor) fprintf(stderr, "  %s: input %d\n", list[i].name, k);
            d.in[k].dtype = GRAFT_BF16;
        }
    }
    CHECK(factors >= 3);
    free(list);
    lib_close(&cuda);
}

/* The device's own way of finding a picture's range: as ref has it where there is none, and where
 * one mean is no number. */
static void means_without_range(void)
{
    kernel_lib cuda, ref;
    size_t cases;
    int run = 0;
    CHECK(lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref));
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    if (!cuda.device || !ref.device) return;
    kernel_case *list = kernel_cases(&cases);
    for (size_t i = 0; i < cases; i++) {
        const kernel_case *c = &list[i];
        int64_t n = element_count(&c->desc.out), channels = c->desc.out.dim[3];
        float *val[GRAFT_MAX_INPUTS];
        case_result want, got;
        if (c->desc.op != GRAFT_OP_MEAN_SCALE || n > 10000) continue;
        case_values(c, GRAFT_F32, i, val);
        for (int odd = 0; odd < 2; odd++) {
            for (int64_t k = 0; k < n; k++) val[0][k] = (float)(k % channels) - 2;
            if (odd) val[0][n - 1] = NAN;
            case_want(&ref, c, GRAFT_F32, val, &want);
            case_run(&cuda, c, GRAFT_F32, -1, val, &got);
            for (int64_t k = 0; k < n; k++) {
                bool both = isnan(want.out[k]) && isnan(got.out[k]);
                CHECK(both || got.out[k] == want.out[k]);
                CHECK(odd || want.out[k] == val[0][k]);
            }
            free(got.out);
            free(want.out);
        }
        values_free(val);
        run++;
    }
    CHECK(run > 5);
    free(list);
    lib_close(&cuda);
    lib_close(&ref);
}

/* Convolutions of 3, 4 and 9 channels are asked of cuDNN, too, with weights that are laid out for
 * it; where it refuses to run its plan the own kernel takes them from there. */
static void odd_channels(void)
{
    kernel_lib cuda, ref;
    size_t cases;
    int run = 0;
    CHECK(lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref));
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    if (!cuda.device || !ref.device) return;
    kernel_case *list = kernel_cases(&cases);
    by_library = 0;
    for (size_t i = 0; i < cases; i++) {
        const graft_op_desc *d = &list[i].desc;
        const int64_t *w = d->in[GRAFT_CONV_W].dim;
        if (d->op != GRAFT_OP_CONV2D || (w[0] % 8 == 0 && w[1] % 8 == 0)) continue;
        if (products(d) > MOST_PRODUCTS) continue;
        for (int refuse = 0; refuse < 2; refuse++) {
            fake_driver_state()->refuse_plans = refuse;
            run += compare_variants(&cuda, &ref, &list[i], GRAFT_BF16, i);
        }
        fake_driver_state()->refuse_plans = 0;
    }
    printf("     %d runs, %d of them by cuDNN\n", run, by_library);
    CHECK(by_library > 4);
    CHECK_INT(refused, by_library);
    free(list);
    lib_close(&cuda);
    lib_close(&ref);
}

int main(void)
{
    use_fake_driver();
    RUN(cuda_against_ref);
    RUN(inputs_of_another_dtype);
    RUN(norms_far_from_zero);
    RUN(means_without_range);
    RUN(odd_channels);
    fake_cuda_state *fake = fake_driver_state();
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->live_objects, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}

/* Cases of tests/kernels on the CUDA library, in all variants, against ref. */
#ifndef GRAFT_TESTS_CUDA_COMPARE_H
#define GRAFT_TESTS_CUDA_COMPARE_H
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/harness.h"
#include "tests/kernels/limits.h"
#include "tests/test.h"

static int by_library, refused; /* how many runs were not by own kernels, and were to be */

/* -1 is the library's own choice; the others are asked for by number. */
static inline int32_t compare(const kernel_lib *cuda, const kernel_case *c, graft_dtype dtype,
                              int32_t variant, float *const *val, const case_result *want)
{
    case_result got;
    case_run(cuda, c, dtype, variant, val, &got);
    CHECK_STR(got.fault, "");
    bool replaced = strstr(got.variant, ", refused") != NULL;
    by_library += strncmp(got.variant, "own", 3) != 0 && !replaced;
    refused += replaced;
    if (got.fault[0]) {
        fprintf(stderr, "  [%s] dtype %d: %s\n", got.variant, (int)dtype, c->name);
    } else {
        error_sum sum = {0};
        double nmse, max;
        for (int64_t i = 0; i < element_count(&c->desc.out); i++)
            error_add(&sum, (double)got.out[i], (double)want->out[i]);
        bool ok = error_within(&sum, limit_for(&c->desc, dtype), &nmse, &max);
        CHECK(ok);
        if (!ok)
            fprintf(stderr, "  [%s] quant %d dtype %d: %s: nmse %.3g, max %.3g\n", got.variant,
                    (int)c->desc.attrs.quant, (int)dtype, c->name, nmse, max);
    }
    free(got.out);
    return got.variants;
}

static inline int compare_variants(const kernel_lib *cuda, const kernel_lib *ref,
                                   const kernel_case *c, graft_dtype dtype, uint64_t seed)
{
    float *val[GRAFT_MAX_INPUTS];
    case_result want;
    int run = 1;
    case_values(c, dtype, seed, val);
    case_want(ref, c, GRAFT_F32, val, &want);
    CHECK_STR(want.fault, "");
    int32_t variants = compare(cuda, c, dtype, -1, val, &want);
    for (int32_t v = 0; v < variants && variants > 1; v++, run++)
        compare(cuda, c, dtype, v, val, &want);
    free(want.out);
    values_free(val);
    return run;
}

#endif

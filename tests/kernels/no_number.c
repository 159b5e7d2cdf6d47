/* Values that are no number, and huge ones: whatever library computes, the same results are no
 * numbers as ref's. A picture of NaN is a fault that somebody sees; a NaN that was dropped is not.
 */
#include <glob.h>
#include <math.h>
#include <stdlib.h>

#include "tests/kernels/harness.h"
#include "tests/test.h"

#define REF_PATH GRAFT_LIB_DIR "/graft_kernels_ref.so"

static kernel_lib ref;
static const char *only; /* part of a library's name; NULL: all of them */

/* Every variant of the case with these values. */
static void same_nan(const kernel_lib *lib, const kernel_case *c, graft_dtype dtype, float **val)
{
    case_result want, got;
    int32_t variants = 1;
    case_want(&ref, c, GRAFT_F32, val, &want);
    for (int32_t v = -1; v < variants; v++) {
        int wrong = 0;
        case_run(lib, c, dtype, v, val, &got);
        if (got.variants > variants) variants = got.variants;
        for (int64_t k = 0; k < element_count(&c->desc.out) && want.out && got.out; k++)
            wrong += isnan(want.out[k]) != isnan(got.out[k]);
        CHECK_INT(wrong, 0);
        if (wrong)
            fprintf(stderr, "  %s, dtype %d, %s: %s\n", lib->kernels->name, (int)dtype, c->name,
                    got.variant);
        free(got.out);
        if (variants == 1) break; /* -1 was the only one */
    }
    free(want.out);
}

static bool is_small(const graft_op_desc *d)
{
    int64_t n = element_count(&d->out);
    if (d->op == GRAFT_OP_ATTENTION) n *= d->in[GRAFT_ATTENTION_K].dim[1];
    return n < 200000;
}

/* One value of an input: attention's first key reaches all queries of its head, a norm's first
 * value its group. */
static void no_number(const kernel_lib *lib, const kernel_case *c, graft_dtype dtype, size_t i)
{
    int inputs = c->desc.op == GRAFT_OP_ATTENTION ? 3 : 1;
    for (int input = 0; input < inputs; input++) {
        float *val[GRAFT_MAX_INPUTS];
        case_values(c, dtype, i, val);
        val[input][0] = NAN;
        same_nan(lib, c, dtype, val);
        values_free(val);
    }
}

static void huge(const kernel_lib *lib, const kernel_case *c, graft_dtype dtype, size_t i)
{
    float *val[GRAFT_MAX_INPUTS];
    if (c->desc.op == GRAFT_OP_ATTENTION || dtype == GRAFT_F16) return;
    case_values(c, dtype, i, val);
    for (int64_t k = 0; k < element_count(&c->desc.in[0]); k++) val[0][k] = 1e20f;
    same_nan(lib, c, dtype, val);
    values_free(val);
}

static void look_at(const char *path)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_BF16, GRAFT_F16};
    kernel_lib lib;
    size_t cases;
    int run = 0;
    if (!lib_open(path, &lib)) {
        CHECK(!only); /* asked for by name it has to run */
        return;
    }
    kernel_case *list = kernel_cases(&cases);
    for (size_t i = 0; i < cases; i++) {
        const graft_op op = list[i].desc.op;
        if (op != GRAFT_OP_ATTENTION && op != GRAFT_OP_GROUP_NORM && op != GRAFT_OP_LAYER_NORM)
            continue;
        if (list[i].fixed || list[i].desc.in[GRAFT_NORM_MOMENTS].dtype || !is_small(&list[i].desc))
            continue;
        for (int t = 0; t < 3; t++) {
            graft_op_desc d = case_desc(&list[i], dtypes[t]);
            if (!lib.api->supports(lib.device, &d)) continue;
            no_number(&lib, &list[i], dtypes[t], i);
            huge(&lib, &list[i], dtypes[t], i);
            run++;
        }
    }
    printf("  %s: %d cases\n", lib.info.name, run);
    CHECK(run > 50);
    free(list);
    lib_close(&lib);
}

static void others_like_ref(void)
{
    glob_t found;
    int others = 0;
    if (glob(GRAFT_LIB_DIR "/graft_kernels_*.so", 0, NULL, &found)) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (strcmp(found.gl_pathv[i], REF_PATH) == 0) continue;
        if (only && !strstr(found.gl_pathv[i], only)) continue;
        look_at(found.gl_pathv[i]);
        others++;
    }
    globfree(&found);
    CHECK(others || !only);
    if (!others) printf("skipped: no other kernel library in %s\n", GRAFT_LIB_DIR);
}

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    if (!lib_open(REF_PATH, &ref)) return 1;
    RUN(others_like_ref);
    lib_close(&ref);
    return test_end();
}

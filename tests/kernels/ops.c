/* Every operator of every kernel library: ref against formulas in double, the others against ref.
 *
 * Other libraries may round differently, so each operator has limits for each dtype: NMSE (squared
 * error over squared reference) and the largest error over the largest reference value. */
#include <glob.h>
#include <stdlib.h>

#include "tests/kernels/harness.h"
#include "tests/test.h"

#define REF_PATH GRAFT_LIB_DIR "/graft_kernels_ref.so"

typedef struct limit {
    double nmse, max; /* 0: equal values */
} limit;

/* Rounding of results: float32 2^-24, float16 2^-11, bfloat16 2^-8 of a value, thus an NMSE of
 * about a third of the square; the limits leave room for what is said beside them. */
static const struct {
    graft_op op;
    limit f32, f16, bf16;
} limits[] = {
    /* Sums of up to 12,000 products in another order; fused inputs may be rounded one by one. */
    {GRAFT_OP_CONV2D, {1e-11, 1e-5}, {2e-6, 4e-3}, {2e-5, 2e-2}},
    {GRAFT_OP_LINEAR, {1e-11, 1e-5}, {2e-6, 4e-3}, {2e-5, 2e-2}},
    /* Statistics in float32; the normalized value may be rounded before gamma and act. */
    {GRAFT_OP_GROUP_NORM, {1e-11, 1e-5}, {1e-6, 2e-3}, {2e-5, 1e-2}},
    {GRAFT_OP_LAYER_NORM, {1e-11, 1e-5}, {1e-6, 2e-3}, {2e-5, 1e-2}},
    /* Another order and an approximated exp; probabilities rounded to the dtype. */
    {GRAFT_OP_ATTENTION, {1e-10, 2e-5}, {2e-6, 4e-3}, {5e-5, 2e-2}},
    /* An approximated exp or erf, one rounding of the result. */
    {GRAFT_OP_ACT, {1e-11, 2e-6}, {2e-7, 1e-3}, {1e-5, 5e-3}},
    {GRAFT_OP_GEGLU, {1e-11, 2e-6}, {4e-7, 2e-3}, {2e-5, 1e-2}},
    /* One rounding of the result. */
    {GRAFT_OP_ADD, {1e-14, 2e-7}, {2e-7, 1e-3}, {1e-5, 5e-3}},
    {GRAFT_OP_MUL, {1e-14, 2e-7}, {2e-7, 1e-3}, {1e-5, 5e-3}},
    {GRAFT_OP_SCALE, {1e-13, 5e-7}, {2e-7, 1e-3}, {1e-5, 5e-3}},
    /* Angles up to 1000 in float32 are off by 1e-4. */
    {GRAFT_OP_TIMESTEP, {1e-9, 3e-4}, {4e-7, 1e-3}, {1e-5, 5e-3}},
    /* Values are moved, not computed. */
    {GRAFT_OP_CONCAT, {0, 0}, {0, 0}, {0, 0}},
    {GRAFT_OP_COPY, {0, 0}, {0, 0}, {0, 0}},
    {GRAFT_OP_UPSAMPLE, {0, 0}, {0, 0}, {0, 0}},
    {GRAFT_OP_EMBEDDING, {0, 0}, {0, 0}, {0, 0}},
    {GRAFT_OP_GATHER_ROW, {0, 0}, {0, 0}, {0, 0}},
};
enum { LIMITS = sizeof limits / sizeof *limits };

static limit limit_of(graft_op op, graft_dtype dtype)
{
    for (size_t i = 0; i < LIMITS; i++)
        if (limits[i].op == op)
            return dtype == GRAFT_F32   ? limits[i].f32
                   : dtype == GRAFT_F16 ? limits[i].f16
                                        : limits[i].bf16;
    return (limit){0, 0};
}

typedef struct error_sum {
    double error, reference, worst, top;
} error_sum;

/* A value that is not finite where the other is, or is another one, counts as infinitely wrong. */
static void error_add(error_sum *s, double got, double want)
{
    double off = got == want || (isnan(got) && isnan(want)) ? 0 : fabs(got - want);
    if (isnan(off)) off = INFINITY;
    s->error += off * off;
    s->reference += want * want;
    if (off > s->worst) s->worst = off;
    if (fabs(want) > s->top) s->top = fabs(want);
}

static bool within(const error_sum *s, limit l, double *nmse, double *max)
{
    *nmse = s->error > 0 ? s->error / (s->reference > 0 ? s->reference : 1e-300) : 0;
    *max = s->worst > 0 ? s->worst / (s->top > 0 ? s->top : 1e-300) : 0;
    return *nmse <= l.nmse && *max <= l.max;
}

static void judge(const char *library, const kernel_case *c, const char *variant,
                  const error_sum *s, limit l, double *worst)
{
    double nmse, max;
    bool ok = within(s, l, &nmse, &max);
    CHECK(ok);
    if (!ok)
        fprintf(stderr, "  %s [%s]: %s: nmse %.3g (limit %.3g), max %.3g (limit %.3g)\n", library,
                variant, c->name, nmse, l.nmse, max, l.max);
    if (nmse > *worst) *worst = nmse;
}

static bool unfaulted(const char *library, const kernel_case *c, const case_result *r)
{
    CHECK_STR(r->fault, "");
    if (r->fault[0]) fprintf(stderr, "  %s [%s]: %s\n", library, r->variant, c->name);
    return !r->fault[0];
}

/* All elements of small outputs, random ones of others: about 20 million products a case. */
static void against_truth(const kernel_case *c, float *const *val, const float *out, error_sum *s)
{
    int64_t n = element_count(&c->desc.out), samples = (int64_t)(2e7 / truth_cost(c));
    uint64_t state = 99;
    if (samples < 64) samples = 64;
    bool all = samples >= n;
    for (int64_t i = 0; i < (all ? n : samples); i++) {
        int64_t at[GRAFT_MAX_RANK], pick, rest;
        pick = rest = all ? i : (int64_t)(random_next(&state) % (uint64_t)n);
        for (int d = c->desc.out.rank - 1; d >= 0; d--) {
            at[d] = rest % c->desc.out.dim[d];
            rest /= c->desc.out.dim[d];
        }
        error_add(s, (double)out[pick], truth_at(c, val, at));
    }
}

static const char *op_text(graft_op op)
{
    static const char *const text[] = {
#define GRAFT_OP(number, NAME, string) [number] = string,
#include "kernels/ops.def"
#undef GRAFT_OP
    };
    return text[op];
}

typedef struct op_count {
    int run, skipped;
    double worst; /* NMSE */
} op_count;

static void print_counts(const char *library, const char *dtype, const op_count *count)
{
    for (graft_op op = 1; op < GRAFT_OP_END; op++) {
        if (!count[op].run && !count[op].skipped) continue;
        printf("  %-5s %-5s %-18s %4d run, worst nmse %.2g", library, dtype, op_text(op),
               count[op].run, count[op].worst);
        if (count[op].skipped) printf("; skipped: %d that supports() refuses", count[op].skipped);
        printf("\n");
    }
}

static void ref_against_formulas(void)
{
    kernel_lib ref;
    size_t cases;
    op_count count[GRAFT_OP_END] = {0};
    bool open = lib_open(REF_PATH, &ref);
    CHECK(open);
    if (!open) return;
    kernel_case *list = kernel_cases(&cases);
    for (size_t i = 0; i < cases; i++) {
        const kernel_case *c = &list[i];
        float *val[GRAFT_MAX_INPUTS];
        case_result r;
        error_sum sum = {0};
        case_values(c, GRAFT_F32, i, val);
        CHECK_INT(ref.api->supports(ref.device, &c->desc), 1);
        case_run(&ref, c, GRAFT_F32, -1, val, &r);
        if (unfaulted("ref", c, &r)) {
            against_truth(c, val, r.out, &sum);
            judge("ref", c, r.variant, &sum, limit_of(c->desc.op, GRAFT_F32),
                  &count[c->desc.op].worst);
            count[c->desc.op].run++;
        }
        free(r.out);
        values_free(val);
    }
    print_counts("ref", "f32", count);
    free(list);
    lib_close(&ref);
}

/* All variants of one case against one run of ref. */
static void compare_case(const kernel_lib *lib, const kernel_lib *ref, const kernel_case *c,
                         graft_dtype dtype, uint64_t seed, op_count *count)
{
    const char *name = lib->kernels->name;
    float *val[GRAFT_MAX_INPUTS];
    case_result want, got;
    int64_t n = element_count(&c->desc.out);
    case_values(c, dtype, seed, val);
    case_run(ref, c, GRAFT_F32, -1, val, &want);
    int32_t variants = 1;
    for (int32_t v = -1; v < variants && unfaulted("ref", c, &want); v++) {
        error_sum sum = {0};
        case_run(lib, c, dtype, v, val, &got);
        if (got.variants > variants) variants = got.variants;
        if (unfaulted(name, c, &got)) {
            for (int64_t i = 0; i < n; i++)
                error_add(&sum, (double)got.out[i], (double)want.out[i]);
            judge(name, c, got.variant, &sum, limit_of(c->desc.op, dtype), &count->worst);
        }
        free(got.out);
        if (variants == 1) break; /* -1 was the only one */
    }
    count->run++;
    free(want.out);
    values_free(val);
}

static void compare_library(const char *path, const kernel_lib *ref)
{
    static const struct {
        graft_dtype dtype;
        const char *name;
    } dtypes[] = {{GRAFT_F32, "f32"}, {GRAFT_BF16, "bf16"}, {GRAFT_F16, "f16"}};
    kernel_lib lib;
    size_t cases;
    if (!lib_open(path, &lib)) return;
    printf("  %s: %s\n", lib.kernels->name, lib.info.name);
    kernel_case *list = kernel_cases(&cases);
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++) {
        op_count count[GRAFT_OP_END] = {0};
        for (size_t i = 0; i < cases; i++) {
            graft_op_desc d = case_desc(&list[i], dtypes[t].dtype);
            op_count *at = &count[d.op];
            if (list[i].fixed && t > 0) continue; /* its dtypes are its own: once is enough */
            if (!lib.api->supports(lib.device, &d))
                at->skipped++;
            else
                compare_case(&lib, ref, &list[i], dtypes[t].dtype, i, at);
        }
        print_counts(lib.kernels->name, dtypes[t].name, count);
    }
    free(list);
    lib_close(&lib);
}

static void others_against_ref(void)
{
    kernel_lib ref;
    glob_t found;
    int others = 0;
    if (!lib_open(REF_PATH, &ref)) return;
    if (glob(GRAFT_LIB_DIR "/graft_kernels_*.so", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            if (strcmp(found.gl_pathv[i], REF_PATH) == 0) continue;
            compare_library(found.gl_pathv[i], &ref);
            others++;
        }
        globfree(&found);
    }
    if (!others) printf("skipped: no other kernel library in %s\n", GRAFT_LIB_DIR);
    lib_close(&ref);
}

int main(void)
{
    RUN(ref_against_formulas);
    RUN(others_against_ref);
    return test_end();
}

/* Every operator of every kernel library: ref against formulas in double, the others against ref.
 */
#include <glob.h>
#include <stdlib.h>

#include "tests/kernels/harness.h"
#include "tests/kernels/limits.h"
#include "tests/test.h"

#define REF_PATH GRAFT_LIB_DIR "/graft_kernels_ref.so"

static void judge(const char *library, const kernel_case *c, const char *variant,
                  const error_sum *s, limit l, double *worst)
{
    double nmse, max;
    bool ok = error_within(s, l, &nmse, &max);
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

/* The formulas are not what sanitizers look at, and the values are the same under them. */
#if defined(__SANITIZE_ADDRESS__)
#define PRODUCTS 2e6
#else
#define PRODUCTS 2e7
#endif

/* All elements of small outputs, random ones of others: about so many products a case. */
static void against_truth(const kernel_case *c, float *const *val, const float *out, error_sum *s)
{
    int64_t n = element_count(&c->desc.out), samples = (int64_t)(PRODUCTS / truth_cost(c));
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
            judge("ref", c, r.variant, &sum, limit_for(&c->desc, GRAFT_F32),
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

/* Which variants ran, and how often: what a report must not be silent about. */
typedef struct variant_list {
    struct {
        char name[64];
        int run;
    } at[64];
    int n;
} variant_list;

static void count_variant(variant_list *l, const char *name)
{
    int i = 0;
    while (i < l->n && strcmp(l->at[i].name, name) != 0) i++;
    if (i == (int)(sizeof l->at / sizeof *l->at)) return;
    if (i == l->n) snprintf(l->at[l->n++].name, sizeof l->at[0].name, "%s", name);
    l->at[i].run++;
}

static void print_variants(const char *library, const variant_list *l)
{
    printf("  %-5s variants:", library);
    for (int i = 0; i < l->n; i++) printf("%s %s (%d)", i ? "," : "", l->at[i].name, l->at[i].run);
    printf("\n");
}

static const char *only; /* a part of the name of the library to look at */

/* All variants of one case against one run of ref. */
static void compare_case(const kernel_lib *lib, const kernel_lib *ref, const kernel_case *c,
                         graft_dtype dtype, uint64_t seed, op_count *count, variant_list *ran)
{
    const char *name = lib->kernels->name;
    float *val[GRAFT_MAX_INPUTS];
    case_result want, got;
    int64_t n = element_count(&c->desc.out);
    case_values(c, dtype, seed, val);
    case_want(ref, c, GRAFT_F32, val, &want);
    int32_t variants = 1;
    for (int32_t v = -1; v < variants && unfaulted("ref", c, &want); v++) {
        error_sum sum = {0};
        case_run(lib, c, dtype, v, val, &got);
        if (got.variants > variants) variants = got.variants;
        count_variant(ran, got.variant);
        if (unfaulted(name, c, &got)) {
            for (int64_t i = 0; i < n; i++)
                error_add(&sum, (double)got.out[i], (double)want.out[i]);
            judge(name, c, got.variant, &sum, limit_for(&c->desc, dtype), &count->worst);
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
    variant_list ran = {.n = 0};
    if (!lib_open(path, &lib)) {
        CHECK(!only); /* asked for by name it has to run */
        return;
    }
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
                compare_case(&lib, ref, &list[i], dtypes[t].dtype, i, at, &ran);
        }
        print_counts(lib.kernels->name, dtypes[t].name, count);
    }
    print_variants(lib.kernels->name, &ran);
    CHECK(!only || !lib_warnings()); /* no variant was another one's stand-in */
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
            if (only && !strstr(found.gl_pathv[i], only)) continue;
            compare_library(found.gl_pathv[i], &ref);
            others++;
        }
        globfree(&found);
    }
    CHECK(others || !only);
    if (!others) printf("skipped: no other kernel library in %s\n", GRAFT_LIB_DIR);
    lib_close(&ref);
}

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    if (!only) RUN(ref_against_formulas);
    RUN(others_against_ref);
    return test_end();
}

/* What the tests of kernel libraries share: a list of operator cases, formulas in double to check
 * single output elements, and a runner that watches every byte around the buffers it lends.
 *
 * Values live as dense float arrays, val[input]; the runner places them into buffers with the
 * descriptor's strides and dtypes. One thread. */
#ifndef GRAFT_TESTS_KERNELS_HARNESS_H
#define GRAFT_TESTS_KERNELS_HARNESS_H
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernel_abi.h"

typedef struct kernel_case {
    char name[128];
    graft_op_desc desc; /* activations as float32, unless `fixed` */
    graft_dtype source; /* of the constants that pack() gets */
    const void *blocks; /* what it gets for LINEAR's w: of the dtype that goes with the quant; NULL:
                           values as of others */
    bool fixed;         /* the dtypes are part of the case: COPY */
} kernel_case;

/* cases.c, cases_norm.c: every case, free() after use. Aborts when memory is short. */
kernel_case *kernel_cases(size_t *count);
/* Deterministic 64-bit generator (splitmix64); moves *state. Inline, as every value of a test needs
 * a few, and sanitizers make calls dear. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
/* Of a 3x3 convolution whose result has the size of its picture. */
#define ATTRS_3X3                                                                                  \
    .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1, .pad_top = 1, .pad_left = 1,       \
    .pad_bottom = 1, .pad_right = 1
/* Dense strides for t. */
void make_dense(graft_tensor_desc *t);
static inline int64_t element_count(const graft_tensor_desc *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    return n;
}

/* truth.c: element `at` of the output in double arithmetic, straight from the definitions in
 * ops.def, and about how many multiplications that takes. */
double truth_at(const kernel_case *c, float *const *val, const int64_t at[GRAFT_MAX_RANK]);
double truth_cost(const kernel_case *c);

/* run.c */
typedef struct kernel_lib {
    const graft_kernels *kernels;
    const graft_kernels_api *api;
    graft_device *device;
    graft_device_info info;
    void *handle;
} kernel_lib;

/* Loads a library and creates its device 0; false with a printed reason when it cannot be used. */
bool lib_open(const char *path, kernel_lib *out);
/* The same with another host record, which must outlive it. */
bool lib_open_with(const char *path, const graft_kernels_host *host, kernel_lib *out);
/* Destroys the device; the library stays loaded. */
void lib_close(kernel_lib *lib);
/* The host record that lib_open() lends. What libraries warn of goes to standard error. */
const graft_kernels_host *lib_host(void);
/* How many warnings there were. */
int lib_warnings(void);

/* The case's descriptor with its activations in `dtype`. */
graft_op_desc case_desc(const kernel_case *c, graft_dtype dtype);
/* Fills val[i] (for values_free(); NULL for absent inputs) with values that `dtype` holds exactly.
 */
void case_values(const kernel_case *c, graft_dtype dtype, uint64_t seed,
                 float *val[GRAFT_MAX_INPUTS]);
void values_free(float *val[GRAFT_MAX_INPUTS]);

typedef struct case_result {
    float *out;       /* dense; free() */
    int32_t variants; /* variant_count */
    int placed;       /* 1: also in an input's place; 2: with the same bits there */
    char fault[160];  /* empty: all contracts kept */
    char variant[64]; /* ends with "refused" where something else ran in its place */
} case_result;
/* Packs, launches twice and, where allowed, in place. */
void case_run(const kernel_lib *lib, const kernel_case *c, graft_dtype dtype, int32_t variant,
              float *const *val, case_result *out);

/* What others are held against: launched once and nowhere else, for libraries whose runs of such
 * cases case_run() looks at elsewhere. */
void case_want(const kernel_lib *lib, const kernel_case *c, graft_dtype dtype, float *const *val,
               case_result *out);

/* One element of a buffer. */
double element_get(graft_dtype dtype, const void *p, int64_t i);
void element_put(graft_dtype dtype, void *p, int64_t i, double v);
#endif

/* Inside of the ref library: naive float32 kernels, the oracle that faster libraries are tested
 * against. One file an operator; each defines one graft_ref_op. Clear over fast.
 *
 * Results are the same bits on every machine with IEEE arithmetic and the same libm: sums run in
 * one fixed order and multiply-adds are not contracted. */
#ifndef GRAFT_KERNELS_REF_REF_H
#define GRAFT_KERNELS_REF_REF_H
#include <math.h>
#include <stdbool.h>

#include "base/error.h"
#include "kernels/kernel_abi.h"

/* How one operator is run. All functions: any thread; they keep no state. */
typedef struct graft_ref_op {
    /* Refuses what run() could not do; run() then trusts the descriptor. Constants come in as dense
     * float32, whatever the caller's descriptor said of their dtype and strides. */
    graft_status (*check)(const graft_op_desc *d, graft_err *e);
    /* in[]: first elements or packed bytes; `workspace`: floats as workspace() asked for. */
    void (*run)(const graft_op_desc *d, const void *const *in, void *out, float *workspace);
    /* In floats; NULL: none. */
    uint64_t (*workspace)(const graft_op_desc *d);
    /* Reorders the constant `input`, given as dense float32, into this operator's layout; NULL: no
     * operand of this operator is reordered. Returns false when `input` keeps its order. */
    bool (*reorder)(const graft_op_desc *d, int32_t input, const float *src, float *dst);
    uint32_t inputs;   /* how many inputs there are, optional ones too */
    uint32_t optional; /* bit i: input i may be absent */
    bool inplace;      /* out may be in[0] where both are dense */
} graft_ref_op;

#define GRAFT_OP(number, NAME, text) extern const graft_ref_op graft_ref_op_##NAME;
#include "kernels/ops.def"
#undef GRAFT_OP

/* Another library that wants the checks alone compiles these files with GRAFT_REF_CHECKS_ONLY, and
 * gets operators without code: NULL for all but check(). */
#ifdef GRAFT_REF_CHECKS_ONLY
#define GRAFT_REF_CODE(function) NULL
#else
#define GRAFT_REF_CODE(function) function
#endif

/* check.c: reads a record into *d (constants as dense float32), finds its operator and checks all.
 */
graft_status graft_ref_check(const graft_op_desc *given, graft_op_desc *d, const graft_ref_op **op,
                             graft_err *e);
/* Likewise, and LINEAR on blocks as well, which libraries that ask the former do not know. */
graft_status graft_ref_check_own(const graft_op_desc *given, graft_op_desc *d,
                                 const graft_ref_op **op, graft_err *e);

/* What pack() writes: `packing` numbers of this library. */
enum { GRAFT_REF_PLAIN = 1, GRAFT_REF_REORDERED = 16 /* + operator number */ };

/* desc.c: shapes. */

/* Checks one present tensor by itself: rank, dims at least 1, strides and size in range, and
 * (unless `any_stride`) a last stride of 1 and, for outputs, elements that do not overlap. */
graft_status graft_ref_check_tensor(const graft_tensor_desc *t, const char *name, bool output,
                                    bool any_stride, graft_err *e);
/* `what` says which dimension of which tensor, for the message. */
graft_status graft_ref_check_dim(int64_t have, int64_t want, const char *what, graft_err *e);
graft_status graft_ref_check_rank(const graft_tensor_desc *t, int32_t rank, const char *name,
                                  graft_err *e);
graft_status graft_ref_check_same_shape(const graft_tensor_desc *a, const graft_tensor_desc *b,
                                        const char *names, graft_err *e);
graft_status graft_ref_check_f32(const graft_tensor_desc *t, const char *name, graft_err *e);
graft_status graft_ref_check_ids(const graft_tensor_desc *t, const char *name, graft_err *e);
/* A present vector of n float32; absent is fine. */
graft_status graft_ref_check_vector(const graft_tensor_desc *t, int64_t n, const char *name,
                                    graft_err *e);
/* A float32 (N,1,C), no constant, for x(N,T,C): gamma and beta of adaptive norms, MUL's b. */
graft_status graft_ref_check_row_each(const graft_tensor_desc *t, const graft_tensor_desc *x,
                                      const char *name, graft_err *e);
/* Not negative, and no NaN. */
graft_status graft_ref_check_eps(float eps, graft_err *e);
/* Whether graft_act_is_pointwise(). */
graft_status graft_ref_check_act(graft_act act, graft_err *e);
static inline bool graft_ref_present(const graft_tensor_desc *t)
{
    return t->dtype != GRAFT_DTYPE_NONE;
}
bool graft_ref_is_dense(const graft_tensor_desc *t);
void graft_ref_make_dense(graft_tensor_desc *t);
int64_t graft_ref_elements(const graft_tensor_desc *t);

/* A tensor as rows of its last dimension: how many, how long, and where row i begins. */
int64_t graft_ref_rows(const graft_tensor_desc *t);
static inline int64_t graft_ref_row_len(const graft_tensor_desc *t)
{
    return t->dim[t->rank - 1];
}
int64_t graft_ref_row_at(const graft_tensor_desc *t, int64_t row);
/* `b` seen in the shape of `out`: dimensions of size 1 (or missing in front) get stride 0. Fails
 * when b does not broadcast. *view may be NULL. */
graft_status graft_ref_broadcast(const graft_tensor_desc *b, const graft_tensor_desc *out,
                                 graft_tensor_desc *view, graft_err *e);
/* The check() of a and b with a broadcast b: ADD and MUL. */
graft_status graft_ref_check_binary(const graft_op_desc *d, graft_err *e);
/* The check() of MEAN_SCALE and LOW_SCALE. */
graft_status graft_ref_check_factor(const graft_op_desc *d, graft_err *e);
/* What the check() of MERGE_TOKENS and that of SPREAD_TOKENS have in common: x(N,…,C), a table
 * (N,…) of int32 and out(N,…,C). */
graft_status graft_ref_check_table(const graft_op_desc *d, graft_err *e);
/* Element i of an int32 or int64 tensor. */
int64_t graft_ref_id_at(const graft_tensor_desc *t, const void *data, int64_t i);

/* math.c: arithmetic that several operators share. */

enum { GRAFT_REF_ROW_BLOCK = 8 };
/* acc[r][j] += sum over i < k of x[r][i] * w[i * ldw + j], for r < rows <= GRAFT_REF_ROW_BLOCK and
 * j < n. The terms of a sum are added in the order of i. */
void graft_ref_multiply_add(float *const *acc, const float *const *x, int rows, int64_t k,
                            const float *w, int64_t ldw, int64_t n);
/* dst(cols, rows) = transpose of src(rows, cols) whose rows are `lds` apart. */
void graft_ref_transpose(const float *src, int64_t lds, int64_t rows, int64_t cols, float *dst);
float graft_ref_act(graft_act act, float x);
void graft_ref_act_row(graft_act act, float *x, int64_t n);

/* y(n) = LAYER_NORM of x(n); y may be x. Statistics in double. */
void graft_ref_layer_norm(const float *x, const float *gamma, const float *beta, float eps,
                          float *y, int64_t n);

/* convert.c: dtypes. */

/* n elements of any floating-point dtype as float32; false for other dtypes. */
bool graft_ref_to_f32(graft_dtype dtype, const void *src, float *dst, int64_t n);
#endif

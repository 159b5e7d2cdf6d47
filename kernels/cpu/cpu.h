/* What the files of this library share: the device, a kernel, the shape of one operator's file, and
 * helpers for walking over tensors. */
#ifndef GRAFT_KERNELS_CPU_CPU_H
#define GRAFT_KERNELS_CPU_CPU_H
#include <oneapi/dnnl/dnnl.h>

#include "base/error.h"
#include "kernels/cpu/crowd.h"
#include "kernels/cpu/desc.h"
#include "kernels/cpu/share.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/kernel_abi.h"

#define GRAFT_CPU_ALIGN 64

struct graft_device {
    graft_kernels_host host; /* a copy */
    const graft_cpu_simd *simd;
    dnnl_engine_t engine;
    graft_device_info info;
    graft_cpu_crowd crowd;
};

typedef struct graft_cpu_op graft_cpu_op;
struct graft_kernel {
    graft_device *d;
    const graft_cpu_op *type;
    graft_op_desc op; /* constants as they are after packing: dense, of the packed dtype */
    graft_kernel_info info;
    int64_t usual; /* see crowd.h; init sets INT64_MAX where one thread could not do the work */
    void *state;   /* the operator's own */
    /* Set by init where a weight can be packed row by row, see kernel_abi.h; else NULL. */
    graft_status (*pack_rows)(graft_kernel *k, int32_t input, graft_dtype t, const void *src,
                              void *dst, int64_t first, int64_t rows);
    /* Set by init where a launch can end early (share.h), which it shows in *stop; NULL there: it
     * does not. Else NULL. */
    graft_status (*launch_until)(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 graft_cpu_stop *stop);
};

/* One operator. Only `check` and `launch` are needed. */
struct graft_cpu_op {
    /* [any] Whether the descriptor is sound and can run here. */
    graft_status (*check)(graft_device *d, const graft_op_desc *op, graft_err *e);
    /* After check: sets k->state, k->info and the dtypes that constants are packed to. On failure
     * finish is called. */
    graft_status (*init)(graft_kernel *k, int32_t variant, graft_err *e);
    void (*finish)(graft_kernel *k);
    /* NULL: constants are packed dense to their dtype in k->op. */
    graft_status (*pack)(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst);
    graft_status (*launch)(graft_kernel *k, const void *const *in, void *out, void *workspace);
    int32_t (*inplace)(const graft_kernel *k, int32_t input);
};

extern const graft_cpu_op graft_cpu_op_conv2d, graft_cpu_op_linear, graft_cpu_op_group_norm,
    graft_cpu_op_layer_norm, graft_cpu_op_attention, graft_cpu_op_act, graft_cpu_op_add,
    graft_cpu_op_mul, graft_cpu_op_scale, graft_cpu_op_concat, graft_cpu_op_copy,
    graft_cpu_op_upsample, graft_cpu_op_embedding, graft_cpu_op_timestep, graft_cpu_op_geglu,
    graft_cpu_op_gather_row, graft_cpu_op_prelu, graft_cpu_op_mean_scale, graft_cpu_op_low_scale,
    graft_cpu_op_match_tokens, graft_cpu_op_merge_tokens, graft_cpu_op_spread_tokens,
    graft_cpu_op_rms_norm, graft_cpu_op_join, graft_cpu_op_rope, graft_cpu_op_route,
    graft_cpu_op_linear_int8, graft_cpu_op_conv2d_int8, graft_cpu_op_dequantized;
/* Shapes and dtypes of one operator, as far as they do not depend on how it is computed. */
graft_status graft_cpu_linear_check(const graft_op_desc *op, graft_err *e);
graft_status graft_cpu_conv2d_check(const graft_op_desc *op, graft_err *e);

/* Whether this device may use AMX in our own code (simd.h), which oneDNN's variables restrict, too.
 */
bool graft_cpu_has_tiles(const graft_device *d);

/* Zeroed memory from the host; NULL when short. */
void *graft_cpu_calloc(graft_device *d, size_t bytes);
void graft_cpu_free(graft_device *d, void *p);

/* Runs fn(ctx, i, n) for i in 0 .. n-1 at once on the pool that oneDNN uses too, or one after the
 * other where this thread is to be alone; n at least 1. */
void graft_cpu_parallel(int n, void (*fn)(void *ctx, int i, int n), void *ctx);
/* This thread, and oneDNN on it, does all work alone from now on; returns what restores it. */
int graft_cpu_alone_begin(void);
void graft_cpu_alone_end(int before);
bool graft_cpu_is_alone(void);
/* Threads worth starting for `work` elements that are read and written once. */
int graft_cpu_threads(const graft_device *d, int64_t work);
/* Sets the number of threads that oneDNN sees on this thread; returns the one before. */
int graft_cpu_threads_set(int n);

/* Shapes and strides (check.c). */
graft_status graft_cpu_check_tensor(const graft_tensor_desc *t, const char *what, graft_err *e);
/* Present, of `rank` (0: any) and dtype float32 or bfloat16 (constants: any floating point). */
graft_status graft_cpu_check_float(const graft_tensor_desc *t, int rank, const char *what,
                                   graft_err *e);
/* A vector of n elements; absent is fine when `optional`. Not constant: float32. */
graft_status graft_cpu_check_vector(const graft_tensor_desc *t, int64_t n, int optional,
                                    const char *what, graft_err *e);
/* A row of float32, no constant, for each entry of x's batch: (N,1,C) for x(N,T,C). */
graft_status graft_cpu_check_row_each(const graft_tensor_desc *t, const graft_tensor_desc *x,
                                      const char *what, graft_err *e);
graft_status graft_cpu_check_same(const graft_tensor_desc *a, const graft_tensor_desc *b,
                                  const char *what, graft_err *e);
/* The check() and inplace() of MEAN_SCALE and LOW_SCALE. */
graft_status graft_cpu_check_factor(graft_device *d, const graft_op_desc *op, graft_err *e);
int32_t graft_cpu_inplace_factor(const graft_kernel *k, int32_t input);
/* What the check() of MERGE_TOKENS and that of SPREAD_TOKENS have in common. */
graft_status graft_cpu_check_table(const graft_op_desc *op, const char *name, graft_err *e);
graft_status graft_cpu_check_absent(const graft_op_desc *op, int first, graft_err *e);
/* A walk over up to GRAFT_CPU_WALKS tensors of one (broadcast) shape, with neighbouring dimensions
 * joined where all of them allow it (walk.c). */
#define GRAFT_CPU_WALKS 4
typedef struct graft_cpu_walk {
    int tensors;
    int64_t dim[GRAFT_MAX_RANK];
    int64_t stride[GRAFT_CPU_WALKS][GRAFT_MAX_RANK]; /* elements; 0 where broadcast */
} graft_cpu_walk;
/* shape: the result's; the others have its dimensions, or 1, aligned at the last one. */
void graft_cpu_walk_init(graft_cpu_walk *w, const graft_tensor_desc *shape,
                         const graft_tensor_desc *const *tensor, int tensors);
/* Calls fn on pieces of rows: offset[t] in elements, n elements with the strides of dimension 3.
 * In parallel; each element once. */
void graft_cpu_walk_run(const graft_cpu_walk *w, const graft_device *d,
                        void (*fn)(void *ctx, const int64_t *offset, int64_t n), void *ctx);

/* p + i elements of dtype t. */
static inline const void *graft_cpu_at(const void *p, graft_dtype t, int64_t i)
{
    return (const char *)p + i * (int64_t)graft_dtype_size(t);
}
static inline void *graft_cpu_at_mut(void *p, graft_dtype t, int64_t i)
{
    return (char *)p + i * (int64_t)graft_dtype_size(t);
}

/* How many pieces of `size` cover n. */
static inline int64_t graft_cpu_pieces(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* A place for `bytes` in a workspace of which *at bytes are given away: its offset. */
static inline size_t graft_cpu_reserve(size_t *at, size_t bytes)
{
    size_t here = *at;
    *at += (bytes + GRAFT_CPU_ALIGN - 1) / GRAFT_CPU_ALIGN * GRAFT_CPU_ALIGN;
    return here;
}

/* n elements of any floating-point dtype to float32 (pack.c). */
void graft_cpu_to_f32(graft_dtype t, const void *src, int64_t first, float *dst, int64_t n);
/* Dense source to dense float32 or bfloat16. */
graft_status graft_cpu_pack_dense(const graft_device *d, graft_dtype from, const void *src,
                                  graft_dtype to, void *dst, int64_t n);
/* The number that names a dense layout. */
uint64_t graft_cpu_packing_dense(graft_dtype t);
/* Declares input i packed densely to `to`, if it is a constant. */
void graft_cpu_pack_as(graft_kernel *k, int input, graft_dtype to);
#endif

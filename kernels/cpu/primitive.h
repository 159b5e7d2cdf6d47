/* One oneDNN primitive together with memory objects that launches borrow, so that launching
 * prepares nothing and several launches may run at once. */
#ifndef GRAFT_KERNELS_CPU_PRIMITIVE_H
#define GRAFT_KERNELS_CPU_PRIMITIVE_H
#include <stdatomic.h>

#include <stdbool.h>

#include "kernels/cpu/cpu.h"

#define GRAFT_CPU_ARGS  6
#define GRAFT_CPU_SLOTS 8

typedef struct graft_cpu_slot {
    atomic_flag busy;
    int ready;
    dnnl_stream_t stream;
    dnnl_memory_t memory[GRAFT_CPU_ARGS];
    void *handle[GRAFT_CPU_ARGS];
} graft_cpu_slot;

typedef struct graft_cpu_primitive {
    dnnl_engine_t engine;
    dnnl_primitive_t primitive;
    int args;
    int arg[GRAFT_CPU_ARGS]; /* DNNL_ARG_... */
    dnnl_memory_desc_t md[GRAFT_CPU_ARGS];
    graft_cpu_slot slot[GRAFT_CPU_SLOTS];
} graft_cpu_primitive;

/* Attributes shared by convolution and linear: a user's scratchpad, then `residual` (NULL: none) is
 * added and `act` applied. Destroy with dnnl_primitive_attr_destroy. */
graft_status graft_cpu_attr_create(dnnl_primitive_attr_t *out, const dnnl_memory_desc_t *residual,
                                   graft_act act, graft_err *e);
/* A descriptor of rank n; strides NULL: any format. */
graft_status graft_cpu_md(dnnl_memory_desc_t *out, int n, const int64_t *dim, const int64_t *stride,
                          graft_dtype t, graft_err *e);
/* Compiles `pd`, whose arguments are those named in `arg`; a post-op's too. Zeroed memory in, and
 * finish() is due even after failure. */
graft_status graft_cpu_primitive_init(graft_cpu_primitive *p, dnnl_engine_t engine,
                                      const_dnnl_primitive_desc_t pd, const int *arg, int args,
                                      graft_err *e);
void graft_cpu_primitive_finish(graft_cpu_primitive *p);
/* handle[i] is the data of argument i. [any] Uses as many threads as were set. */
graft_status graft_cpu_primitive_run(graft_cpu_primitive *p, void *const *handle);
graft_status graft_cpu_dnnl_fail(dnnl_status_t st, const char *what, graft_err *e);
/* "brgemm:avx512_core_bf16" */
const char *graft_cpu_primitive_name(const_dnnl_primitive_desc_t pd);

/* Whether oneDNN uses these instructions: the processor has them, and oneDNN's own variables do not
 * restrict it. */
static inline bool graft_cpu_uses(dnnl_cpu_isa_t isa) /* a set of bits */
{
    return ((int)dnnl_get_effective_cpu_isa() & (int)isa) == (int)isa;
}
/* Whether oneDNN's products of int8 are exact. Without VNNI those of LINEAR pass through 16 bits,
 * in which they saturate, and those of CONV2D lose the weights' last bit against that. */
static inline bool graft_cpu_multiplies_bytes(graft_op op)
{
    return graft_cpu_uses(dnnl_cpu_isa_avx512_core_vnni) ||
           (op == GRAFT_OP_CONV2D && graft_cpu_uses(dnnl_cpu_isa_avx2_vnni));
}
/* Whether it multiplies bfloat16. Without the instructions for it oneDNN has no operators in
 * bfloat16, or slow ones; ours compute in float32 then (linear_panels.c, conv2d_winograd.c), and
 * what they do not do becomes float32 beforehand (dequantized.h). */
static inline bool graft_cpu_multiplies_bf16(void)
{
    return graft_cpu_uses(dnnl_cpu_isa_avx512_core_bf16);
}
/* Matrix instructions, which do more than vectors can. */
static inline bool graft_cpu_has_matrix_unit(void)
{
    return graft_cpu_uses(dnnl_cpu_isa_avx512_core_amx);
}

/* Weights in the layout that oneDNN chose. `output_dim` as below: of as many inputs as outputs, a
 * layout tells two packings apart by it alone. */
uint64_t graft_cpu_packing_weights(const dnnl_memory_desc_t *md, int output_dim);
/* Offsets of the values begin … begin + n of one dimension of a blocked layout, times `size`; they
 * repeat at a constant distance after as many values as are returned. */
int64_t graft_cpu_layout_offsets(const dnnl_memory_desc_t *md, int dim, int64_t begin, int64_t n,
                                 int64_t size, int64_t *out);
/* Dense int8 values (O, I...) in the layout `md`, with what oneDNN keeps behind them, as its own
 * reorder does it but faster. False for layouts that are not known here. */
bool graft_cpu_place_int8(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                          const int8_t *level, void *dst, graft_status *st);
/* Dense (O, I...) source of any floating-point dtype to the layout md, in which O is dimension
 * `output_dim` and I the other one of the first two. */
graft_status graft_cpu_pack_weights(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                                    graft_dtype from, const void *src, void *dst);
/* The same for outputs first ... first + rows, the source beginning with the first of them; the
 * rules are those of pack_rows() in kernel_abi.h. */
graft_status graft_cpu_pack_weight_rows(graft_device *d, const dnnl_memory_desc_t *md,
                                        int output_dim, graft_dtype from, const void *src,
                                        void *dst, int64_t first, int64_t rows);
#endif

/* Weights that become floats, in the layout that an operator in floats wants, just ahead of its
 * multiplication: those of 4 bits, of FP8 and blocks (kernels/quant.h) everywhere, integers of 8
 * bits where the processor cannot multiply bytes exactly, bfloat16 where it is to become float32.
 */
#ifndef GRAFT_KERNELS_CPU_DEQUANTIZED_H
#define GRAFT_KERNELS_CPU_DEQUANTIZED_H
#include "kernels/cpu/primitive.h"

/* Whether an operator in bfloat16, quantized or not, has to be computed on float32: nothing here
 * multiplies its weights in bfloat16. */
bool graft_cpu_is_widened(const graft_device *d, const graft_op_desc *op);

/* The layouts of packed weights, but for bfloat16, which is dense. 8 bits: rows of levels, then
 * from the next multiple of 64 bytes a float32 scale for each. Blocks: with the type's number. */
#define GRAFT_CPU_PACKING_4BITS  0x696e7434u
#define GRAFT_CPU_PACKING_8BITS  0x666c7438u
#define GRAFT_CPU_PACKING_FP8    0x66703834u
#define GRAFT_CPU_PACKING_BLOCKS 0x67676d00u

/* `count` rows of a packed weight from `first` on, then rows from `second` on. */
typedef struct graft_cpu_expand_rows {
    graft_quant quant;  /* GRAFT_QUANT_NONE: bfloat16 */
    const void *level;  /* the whole weight */
    int64_t outputs;    /* of that */
    const float *scale; /* NULL where there are none */
    int64_t first, count, second;
    bool narrow; /* of blocks: rounded to bfloat16 first, which is to become float32 */
} graft_cpu_expand_rows;

/* From packed rows to a layout (pack_quantized.c). UNSUPPORTED for layouts that are not known. */
typedef struct graft_cpu_expand graft_cpu_expand;
graft_status graft_cpu_expand_create(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                                     graft_cpu_expand **out);
void graft_cpu_expand_destroy(graft_device *d, graft_cpu_expand *p); /* NULL is fine */
size_t graft_cpu_expand_workspace(const graft_device *d, const graft_cpu_expand *p);
/* [any] Writes all of the layout's outputs; allocates nothing. */
void graft_cpu_expand_run(const graft_device *d, const graft_cpu_expand *p,
                          const graft_cpu_expand_rows *rows, void *dst, void *workspace);
#endif

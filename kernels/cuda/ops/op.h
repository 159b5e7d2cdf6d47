/* Operators on the device: a kernel, and the shape of one operator's part. */
#ifndef GRAFT_KERNELS_CUDA_OP_H
#define GRAFT_KERNELS_CUDA_OP_H
#include "kernels/cuda/device/device.h"
#include "kernels/ref/ref.h"

/* How a constant is packed; rows of 0: the input is no constant. */
typedef struct graft_cuda_layout {
    uint32_t rows, channels, taps, ldw;
    graft_dtype to;
    bool pairs, int4, weight; /* int4: packed as GRAFT_Q4, and `to` is what it is unpacked to */
    bool corners;             /* for conv2d_corners.h: ldw is what a row becomes there */
    int32_t blocks;           /* the type of blocks that it stays in; 0: of none, likewise */
} graft_cuda_layout;

/* Of CONV2D (conv2d_bands.h). */
typedef struct graft_cuda_bands {
    int32_t rows;   /* of the result in one; 0: it is done at once */
    bool in_place;  /* where the result takes x's place, and only there */
    uint64_t bytes; /* of the workspace, for what one reads */
    graft_cuda_dnn_plan *dnn;
} graft_cuda_bands;

typedef struct graft_cuda_op graft_cuda_op;
struct graft_kernel {
    graft_device *d;
    const graft_cuda_op *type;
    graft_op_desc op;
    graft_dtype t; /* that it computes with: the result's */
    graft_kernel_info info;
    graft_cuda_layout layout[GRAFT_MAX_INPUTS];
    graft_cuda_lt_plan *lt;      /* NULL: own kernels */
    graft_cuda_lt_plan *lt_sums; /* of attention as products: the second; lt is the first */
    graft_cuda_dnn_plan *dnn;
    int32_t wgmma; /* 1: Hopper's first kernel, …; 0: none */
    int32_t way;   /* GROUP_NORM's variant (norm.c) */
    bool corners;  /* CONV2D by conv2d_corners.h */
    graft_cuda_bands bands;
    bool refused;  /* the library's plan failed in a launch: own kernels from then on */
    bool apart;    /* the residual is added behind cuBLASLt's product */
    uint64_t part; /* where in the workspace the second half begins */
    /* Of blocks.c: the kernel that does a share of the outputs, how many such there are, and what
     * is done to all of them afterwards. */
    graft_kernel *piece;
    int64_t pieces;
    graft_act after;
    struct { /* likewise, of quantized kernels */
        uint64_t level, scale, most, wide, weight;
    } at;
};

struct graft_cuda_op {
    /* [any] What this library cannot do although the record is sound; may be NULL. */
    graft_status (*check)(const graft_op_desc *op, graft_err *e);
    /* Sets layouts and info of k, a zeroed record with desc and dtype. May be NULL. */
    graft_status (*init)(graft_kernel *k, int32_t variant, graft_err *e);
    graft_status (*launch)(graft_kernel *k, const void *const *in, void *out, char *workspace);
    bool inplace; /* out may be in[0], or MUL's residual, where both are dense */
};

extern const graft_cuda_op graft_cuda_op_conv2d, graft_cuda_op_linear, graft_cuda_op_group_norm,
    graft_cuda_op_layer_norm, graft_cuda_op_attention, graft_cuda_op_act, graft_cuda_op_add,
    graft_cuda_op_mul, graft_cuda_op_scale, graft_cuda_op_concat, graft_cuda_op_copy,
    graft_cuda_op_upsample, graft_cuda_op_embedding, graft_cuda_op_timestep, graft_cuda_op_geglu,
    graft_cuda_op_gather_row, graft_cuda_op_prelu, graft_cuda_op_mean_scale,
    graft_cuda_op_low_scale, graft_cuda_op_rms_norm, graft_cuda_op_join, graft_cuda_op_rope,
    graft_cuda_op_match_tokens, graft_cuda_op_merge_tokens, graft_cuda_op_spread_tokens,
    graft_cuda_op_route, graft_cuda_op_conv2d_int8, graft_cuda_op_linear_int8, graft_cuda_op_int4,
    graft_cuda_op_narrow, graft_cuda_op_blocks;
/* Whether it is graft_cuda_op_narrow's. */
bool graft_cuda_is_narrow(const graft_op_desc *op);

/* ------------------------------------------------------------------ pack.c */

graft_status graft_cuda_pack_weight(graft_kernel *k, int32_t input, graft_dtype from,
                                    const void *src, void *dst);
graft_status graft_cuda_pack_merged(graft_kernel *k, int32_t input, const graft_weight_part *part,
                                    uint32_t n_parts, void *dst);

/* ------------------------------------------------------------------ shape.c */

/* Four dimensions, those missing in front of size 1; dim and stride may be NULL. */
void graft_cuda_shape(const graft_tensor_desc *t, uint32_t *dim, int64_t *stride);
/* The distance of rows where all are equally far apart, else -1. */
int64_t graft_cuda_row_stride(const graft_tensor_desc *t);
/* Strides of b in the shape of `out`, 0 where it is repeated. */
void graft_cuda_broadcast(const graft_tensor_desc *b, const graft_tensor_desc *out,
                          int64_t *stride);
/* Input i is a constant: packed as rows of n values to dtype `to`. */
void graft_cuda_pack_as(graft_kernel *k, int i, graft_cuda_layout layout);
/* Input i, if it is there and constant, packed as it is. */
void graft_cuda_pack_plain(graft_kernel *k, int i, graft_dtype to);
/* Whether a library may read all these: first elements at multiples of 16 bytes. */
static inline bool graft_cuda_aligned(const void *const *in, int n, const void *out)
{
    uintptr_t bits = (uintptr_t)out;
    for (int i = 0; i < n; i++) bits |= (uintptr_t)in[i];
    return bits % 16 == 0;
}

/* ------------------------------------------------------------------ move.c */

/* Launches graft_move; `size` and, where pieces of 16 bytes can be moved, the shape are set here.
 * The lock is held. */
graft_status graft_cuda_move_run(graft_device *d, graft_cuda_move *p);

/* ------------------------------------------------------------------ elementwise.c */

/* out = act(out + b + c), over the shape of the result; b, c may be NULL. */
graft_status graft_cuda_finish(const graft_kernel *k, void *out, graft_act act, int b_input,
                               const void *b, int c_input, const void *c);
/* out = halves of `wide`, which alternate, as a * gelu(b). */
graft_status graft_cuda_fold_pairs(const graft_kernel *k, const void *wide, void *out);
#endif

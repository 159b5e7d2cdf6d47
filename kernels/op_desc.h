/* The description of one operator at one shape: plain data, the same for the graph IR, for kernel
 * libraries and for compiled-graph files. */
#ifndef GRAFT_KERNELS_OP_DESC_H
#define GRAFT_KERNELS_OP_DESC_H
#include <stdint.h>

typedef int32_t graft_op;
enum {
#define GRAFT_OP(number, NAME, text) GRAFT_OP_##NAME = (number),
#include "kernels/ops.def"
#undef GRAFT_OP
    GRAFT_OP_END
};

typedef int32_t graft_dtype; /* numbers are stable: they stand in compiled-graph files */
enum {
    GRAFT_DTYPE_NONE = 0,
    GRAFT_F32 = 1,
    GRAFT_F16 = 2,
    GRAFT_BF16 = 3,
    GRAFT_I8 = 4,
    GRAFT_U8 = 5,
    GRAFT_I32 = 6,
    GRAFT_I64 = 7,
    GRAFT_F64 = 8,
    GRAFT_F8_E4M3 = 9,
    GRAFT_F8_E5M2 = 10,
    GRAFT_BOOL8 = 11,
    /* Weights that are quantized already, see kernels/quant.h; their elements have no bytes of
     * their own. */
    GRAFT_Q8 = 12,
    GRAFT_Q4 = 13,
    GRAFT_QF8 = 14,
    /* Likewise blocks: so much and the number of their type (kernels/blocks.h). */
    GRAFT_BLOCKS = 256
};

/* Bytes of one element; 0 for NONE and unknown numbers. */
static inline uint32_t graft_dtype_size(graft_dtype t)
{
    switch (t) {
    case GRAFT_I64:
    case GRAFT_F64:
        return 8;
    case GRAFT_F32:
    case GRAFT_I32:
        return 4;
    case GRAFT_F16:
    case GRAFT_BF16:
        return 2;
    case GRAFT_I8:
    case GRAFT_U8:
    case GRAFT_F8_E4M3:
    case GRAFT_F8_E5M2:
    case GRAFT_BOOL8:
        return 1;
    default:
        return 0;
    }
}

typedef int32_t graft_act;
enum {
    GRAFT_ACT_NONE = 0,
    GRAFT_ACT_SILU = 1,       /* x * sigmoid(x) */
    GRAFT_ACT_GELU = 2,       /* exact: x * 0.5 * (1 + erf(x / sqrt 2)) */
    GRAFT_ACT_QUICK_GELU = 3, /* x * sigmoid(1.702 x) */
    GRAFT_ACT_GEGLU = 4,      /* LINEAR only, see ops.def */
    GRAFT_ACT_LEAKY = 5,      /* max(x, 0.2 x), as super-resolution networks have it */
    GRAFT_ACT_RELU = 6,       /* max(x, 0) */
    GRAFT_ACT_GELU_TANH = 7,  /* x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) */
    GRAFT_ACT_TANH = 8
};

/* Of one value at a time, so that any operator with an act can end with it. */
static inline int graft_act_is_pointwise(graft_act a)
{
    return (a >= GRAFT_ACT_NONE && a <= GRAFT_ACT_QUICK_GELU) || a == GRAFT_ACT_LEAKY ||
           a == GRAFT_ACT_RELU || a == GRAFT_ACT_GELU_TANH || a == GRAFT_ACT_TANH;
}

typedef int32_t graft_quant; /* CONV2D, LINEAR, ATTENTION: see kernels/quant.h */
enum {
    GRAFT_QUANT_NONE = 0,
    GRAFT_QUANT_INT8 = 1,
    GRAFT_QUANT_INT4 = 2,
    GRAFT_QUANT_FP8 = 3,
    GRAFT_QUANT_BLOCKS = GRAFT_BLOCKS /* and the number of a type: LINEAR only */
};

/* Attributes of all operators; those that an operator does not use are 0. */
typedef struct graft_attrs {
    int32_t kernel_h, kernel_w, stride_h, stride_w;
    int32_t pad_top, pad_left, pad_bottom, pad_right;
    int32_t upsample, up_h, up_w;
    int32_t groups; /* GROUP_NORM */
    int32_t heads, causal;
    graft_act act;
    float eps, scale, shift;
    graft_quant quant;
} graft_attrs;

#define GRAFT_MAX_RANK      4
#define GRAFT_ROPE_HEAD_MAX 512 /* values of one head of ROPE */
typedef struct graft_tensor_desc {
    graft_dtype dtype; /* GRAFT_DTYPE_NONE: absent */
    int32_t rank;
    int64_t dim[GRAFT_MAX_RANK];
    int64_t stride[GRAFT_MAX_RANK]; /* in elements; the last is 1 */
    int32_t constant;               /* 1: a weight, handed to pack() before launch() */
    int32_t zero;
} graft_tensor_desc;

enum { /* the places of inputs, by operator */
       GRAFT_CONV_X = 0,
       GRAFT_CONV_W,
       GRAFT_CONV_BIAS,
       GRAFT_CONV_CHANNEL_ADD,
       GRAFT_CONV_RESIDUAL,
       GRAFT_LINEAR_X = 0,
       GRAFT_LINEAR_W,
       GRAFT_LINEAR_BIAS,
       GRAFT_LINEAR_RESIDUAL,
       GRAFT_LINEAR_GAMMA,
       GRAFT_LINEAR_BETA,
       GRAFT_NORM_X = 0,
       GRAFT_NORM_GAMMA,
       GRAFT_NORM_BETA,
       GRAFT_NORM_MOMENTS,
       GRAFT_NORM_CHANNEL_ADD,
       GRAFT_ATTENTION_Q = 0,
       GRAFT_ATTENTION_K,
       GRAFT_ATTENTION_V,
       GRAFT_ATTENTION_BIAS,
       GRAFT_ATTENTION_COUNT,
       GRAFT_MUL_A = 0,
       GRAFT_MUL_B,
       GRAFT_MUL_RESIDUAL,
       GRAFT_PRELU_X = 0,
       GRAFT_PRELU_SLOPE,
       GRAFT_FACTOR_X = 0, /* MEAN_SCALE and LOW_SCALE */
       GRAFT_FACTOR,
       GRAFT_MAX_INPUTS = 6
};

typedef struct graft_op_desc {
    uint32_t size; /* sizeof(graft_op_desc); grows at the end */
    graft_op op;
    graft_attrs attrs;
    graft_tensor_desc in[GRAFT_MAX_INPUTS];
    graft_tensor_desc out;
} graft_op_desc;

/* Whether a record, of at least this size, has nothing that only a newer engine knows: what lies
 * beyond the fields above must be zero. */
static inline int graft_op_desc_is_known(const graft_op_desc *op)
{
    uint32_t i = (uint32_t)sizeof *op;
    while (i < op->size && !((const unsigned char *)op)[i]) i++;
    return i >= op->size;
}
#endif

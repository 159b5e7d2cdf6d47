/* All device kernels: the parts without a dtype, then the others once for each dtype. */
#include "kernels/cuda/device.h"
#include "kernels/cuda/hopper.h"
#include "kernels/guidance.h"
#include "kernels/cuda/math.h"
#include "kernels/cuda/params.h"
#include "kernels/cuda/reduce.inc"
#include "kernels/cuda/move.inc"
#include "kernels/cuda/merge.inc"
#include "kernels/cuda/sampler.inc"
#include "kernels/cuda/quant_pack.inc"
#include "kernels/cuda/int8_row.inc"
#include "kernels/cuda/norm_join.inc"
#include "kernels/cuda/factor_join.inc"

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

#define NAME(f) PASTE(f, _f32)
#define T       float
#define LOAD    graft_f32_load
#define STORE   graft_f32_store
#define GELU    graft_gelu
#define ACT     graft_act_of
#include "kernels/cuda/take8.inc"
#include "kernels/cuda/elementwise.inc"
#include "kernels/cuda/norm.inc"
#include "kernels/cuda/norm8.inc"
#include "kernels/cuda/rope.inc"
#include "kernels/cuda/group8.inc"
#include "kernels/cuda/factor.inc"
#include "kernels/cuda/gather.inc"
#include "kernels/cuda/matmul_f32.inc"
#include "kernels/cuda/attention.inc"
#include "kernels/cuda/quant.inc"
#include "kernels/cuda/int8_tiles.inc"
#undef NAME
#undef T
#undef LOAD
#undef STORE
#undef GELU
#undef ACT

#define NAME(f) PASTE(f, _f16)
#define LOAD    graft_f16_load
#define STORE   graft_f16_store
#define MMA     graft_mma_f16
#include "kernels/cuda/typed16.inc"
#undef NAME
#undef LOAD
#undef STORE
#undef MMA

#define NAME(f) PASTE(f, _bf16)
#define LOAD    graft_bf16_load
#define STORE   graft_bf16_store
#define MMA     graft_mma_bf16
#include "kernels/cuda/typed16.inc"

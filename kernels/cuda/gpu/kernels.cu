/* All device kernels: the parts without a dtype, then the others once for each dtype. */
#include "kernels/cuda/gpu/device.h"
#include "kernels/cuda/gpu/hopper.h"
#include "kernels/blocks.h"
#include "kernels/changes.h"
#include "kernels/cuda/gpu/math.h"
#include "kernels/cuda/gpu/params.h"
#include "kernels/cuda/gpu/reduce.inc"
#include "kernels/cuda/gpu/turn.inc"
#include "kernels/cuda/gpu/move.inc"
#include "kernels/cuda/gpu/merge.inc"
#include "kernels/cuda/gpu/sampler.inc"
#include "kernels/cuda/gpu/quant_pack.inc"
#include "kernels/cuda/gpu/blocks8.inc"
#include "kernels/cuda/gpu/int8_row.inc"
#include "kernels/cuda/gpu/norm_join.inc"
#include "kernels/cuda/gpu/factor_join.inc"
#include "kernels/cuda/gpu/tokens_table.inc"

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

#define NAME(f) PASTE(f, _f32)
#define T       float
#define LOAD    graft_f32_load
#define STORE   graft_f32_store
#define GELU    graft_gelu
#define ACT     graft_act_of
#include "kernels/cuda/gpu/take8.inc"
#include "kernels/cuda/gpu/elementwise.inc"
#include "kernels/cuda/gpu/norm.inc"
#include "kernels/cuda/gpu/norm8.inc"
#include "kernels/cuda/gpu/rope.inc"
#include "kernels/cuda/gpu/route.inc"
#include "kernels/cuda/gpu/group8.inc"
#include "kernels/cuda/gpu/factor.inc"
#include "kernels/cuda/gpu/gather.inc"
#include "kernels/cuda/gpu/matmul_f32.inc"
#include "kernels/cuda/gpu/tokens.inc"
#include "kernels/cuda/gpu/tokens_f32.inc"
#include "kernels/cuda/gpu/attention.inc"
#include "kernels/cuda/gpu/quant.inc"
#include "kernels/cuda/gpu/blocks.inc"
#include "kernels/cuda/gpu/int8_tiles.inc"
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
#include "kernels/cuda/gpu/typed16.inc"
#undef NAME
#undef LOAD
#undef STORE
#undef MMA

#define NAME(f) PASTE(f, _bf16)
#define LOAD    graft_bf16_load
#define STORE   graft_bf16_store
#define MMA     graft_mma_bf16
#include "kernels/cuda/gpu/typed16.inc"

/* The table of one instruction set. With GRAFT_ISA_BYTES it is AVX2's with AVX-VNNI's product. */
#include "kernels/cpu/simd/attention.h"

#if GRAFT_ISA_BYTES
void graft_cpu_int8_multiply__avx_vnni(const graft_cpu_int8 *job, int64_t first, int64_t panels);
#define TABLE    graft_cpu_table__avx_vnni
#define NAME     "avx_vnni"
#define MULTIPLY graft_cpu_int8_multiply__avx_vnni
#else
#define TEXT2(x) #x
#define TEXT(x)  TEXT2(x)
#define TABLE    SIMD(table)
#define NAME     TEXT(GRAFT_ISA_NAME)
#define MULTIPLY SIMD(int8_multiply)
#endif

const graft_cpu_simd TABLE = {
    .name = NAME,
    .act = SIMD(act),
    .scale = SIMD(scale),
    .add = SIMD(add),
    .mul = SIMD(mul),
    .gate = SIMD(gate),
    .prelu = SIMD(prelu),
    .geglu = SIMD(geglu),
    .epilogue = SIMD(epilogue),
    .layer_norm = SIMD(layer_norm),
    .rms_norm = SIMD(rms_norm),
    .turn = SIMD(turn),
    .sum = SIMD(sum),
    .channel_sums = SIMD(channel_sums),
    .channel_affine = SIMD(channel_affine),
    .wave_sums = SIMD(wave_sums),
    .wave_add = SIMD(wave_add),
    .peak = SIMD(peak),
    .absmax = SIMD(absmax),
    .to_s8 = SIMD(to_s8),
    .hadamard = SIMD(hadamard),
    .blocks = SIMD(blocks),
    .from_s32 = SIMD(from_s32),
#if GRAFT_ISA_LEVEL == 1 || GRAFT_ISA_LEVEL >= 3
    .int8_levels = SIMD(int8_levels),
    .int8_multiply = MULTIPLY,
#endif
#if GRAFT_ISA_LEVEL >= 3
    .product_bf16 = true,
    .attention_int8_group = SIMD(attention_int8_group),
    .attention_int8_scratch = SIMD(attention_int8_scratch),
    .attention_int8 = SIMD(attention_int8),
#endif
#if HAS_PRODUCT
    .product = SIMD(product),
#endif
    .narrow = SIMD(narrow),
    .pair = SIMD(pair),
    .quad = SIMD(quad),
    .sum_s8 = SIMD(sum_s8),
    .lines = SIMD(lines),
    .drain = SIMD(drain),
    .winograd_input = SIMD(winograd_input),
    .winograd_weights = SIMD(winograd_weights),
    .winograd_multiply = SIMD(winograd_multiply),
    .winograd_output = SIMD(winograd_output),
    .attention_panel = QB,
    .attention_group = SIMD(attention_group),
    .attention_scratch = SIMD(attention_scratch),
    .attention = SIMD(attention),
};

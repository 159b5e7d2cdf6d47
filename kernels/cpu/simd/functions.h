/* The functions behind one table, by the names that they have in this instruction set. */
#ifndef GRAFT_KERNELS_CPU_SIMD_FUNCTIONS_H
#define GRAFT_KERNELS_CPU_SIMD_FUNCTIONS_H
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

void SIMD(act)(graft_act act, const void *x, graft_dtype xt, void *y, graft_dtype yt, size_t n);
void SIMD(scale)(const void *x, graft_dtype xt, void *y, graft_dtype yt, size_t n, float scale,
                 float shift);
void SIMD(add)(const void *a, graft_dtype at, const void *b, graft_dtype bt, void *y,
               graft_dtype yt, size_t n);
void SIMD(mul)(const void *a, graft_dtype at, const void *b, graft_dtype bt, void *y,
               graft_dtype yt, size_t n);
void SIMD(gate)(const void *a, graft_dtype at, const float *b, const void *residual, graft_dtype rt,
                void *y, graft_dtype yt, size_t n);
void SIMD(prelu)(const void *x, graft_dtype xt, const float *slope, void *y, graft_dtype yt,
                 size_t n);
void SIMD(geglu)(const void *a, const void *b, graft_dtype xt, void *y, graft_dtype yt, size_t n);
void SIMD(epilogue)(graft_act act, void *y, graft_dtype yt, const float *channel,
                    const void *residual, graft_dtype rt, size_t n);
void SIMD(layer_norm)(const void *x, graft_dtype xt, const float *gamma, const float *beta, void *y,
                      graft_dtype yt, size_t n, float eps);
void SIMD(rms_norm)(const void *x, graft_dtype xt, const float *gamma, void *y, graft_dtype yt,
                    size_t heads, size_t n, float eps);
void SIMD(turn)(const void *x, graft_dtype xt, const float *cosine, const float *sine, void *y,
                graft_dtype yt, size_t heads, size_t still, size_t n, size_t last);
void SIMD(channel_sums)(const void *x, graft_dtype xt, int64_t pixels, int64_t stride,
                        int64_t channels, const float *shift, double *sum, double *square,
                        float *partial);
void SIMD(channel_affine)(graft_act act, const void *x, graft_dtype xt, int64_t x_stride, void *y,
                          graft_dtype yt, int64_t y_stride, int64_t pixels, int64_t channels,
                          const float *mean, const float *factor, const float *beta);
double SIMD(sum)(const void *x, graft_dtype xt, size_t n);
void SIMD(wave_sums)(const void *x, graft_dtype xt, int64_t pixels, int64_t stride,
                     int64_t channels, const float *cosines, const float *sines, float *sum);
void SIMD(wave_add)(const void *x, graft_dtype xt, int64_t x_stride, void *y, graft_dtype yt,
                    int64_t y_stride, int64_t pixels, int64_t channels, const float *cosines,
                    const float *sines, const float *wave);
void SIMD(peak)(const float *x, const float *factor, size_t n, int32_t first, float *best,
                int32_t *at);
float SIMD(absmax)(const void *x, graft_dtype xt, size_t n);
void SIMD(to_s8)(const void *x, graft_dtype xt, float inverse, int8_t *y, size_t n);
void SIMD(hadamard)(const void *x, graft_dtype xt, size_t group, float *y, size_t n);
void SIMD(blocks)(const graft_blocks_weight *w, int64_t row, int64_t first, int64_t n, float *y);
void SIMD(from_s32)(void *row, const float *scale, float factor, const float *bias, size_t n);
void SIMD(product)(const graft_cpu_product *job, int64_t first, int64_t panels);
void SIMD(int8_levels)(const void *x, graft_dtype xt, float inverse, uint8_t *y, size_t n);
void SIMD(int8_multiply)(const graft_cpu_int8 *job, int64_t first, int64_t panels);
void SIMD(drain)(void);
void SIMD(narrow)(const void *x, graft_dtype xt, uint16_t *y, size_t n);
void SIMD(pair)(const uint16_t *x, uint32_t *y, size_t pairs, size_t taps);
void SIMD(quad)(const int8_t *x, uint32_t *y, size_t quads, size_t taps);
int32_t SIMD(sum_s8)(const int8_t *x, size_t n);
void SIMD(lines)(const void *x, size_t stride, size_t rows, bool apart, size_t n, const int64_t *at,
                 void *y);
void SIMD(winograd_input)(const void *const *pixel, graft_dtype t, const graft_cpu_winograd *s,
                          float *v);
void SIMD(winograd_weights)(const void *w, graft_dtype t, const graft_cpu_winograd *s, float *u);
void SIMD(winograd_multiply)(const float *v, const float *u, const graft_cpu_winograd *s,
                             int64_t tiles, bool add, float *m);
void SIMD(winograd_output)(const float *m, const graft_cpu_winograd *s, const float *bias,
                           const graft_cpu_winograd_place *p);
int32_t SIMD(attention_group)(graft_dtype dtype, int32_t head_dim, int64_t keys);
size_t SIMD(attention_scratch)(graft_dtype dtype, int32_t head_dim, int64_t keys, int32_t panels);
void SIMD(attention)(const graft_cpu_attention *a, int64_t queries, int64_t first, int32_t panels,
                     void *scratch);
int32_t SIMD(attention_int8_group)(int32_t head_dim, int64_t keys);
size_t SIMD(attention_int8_scratch)(int32_t head_dim, int64_t keys, int32_t panels);
void SIMD(attention_int8)(const graft_cpu_attention *a, int64_t queries, int64_t first,
                          int32_t panels, void *scratch);

extern const graft_cpu_simd SIMD(table);
#endif

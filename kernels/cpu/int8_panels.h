/* int8 LINEAR with our own products (simd.h, int8_multiply): rows are quantized a block at a time,
 * multiplied while they are in the cache, and results go to memory once, finished. Every result is
 * computed alone, so that it does not depend on how the work is shared. */
#ifndef GRAFT_KERNELS_CPU_INT8_PANELS_H
#define GRAFT_KERNELS_CPU_INT8_PANELS_H
#include "kernels/cpu/cpu.h"

typedef struct graft_cpu_panels {
    bool matrix;                 /* by matrix instructions */
    int64_t rows;                /* of a tile */
    int64_t tiles, blocks, most; /* of rows; most: tiles of the largest block */
    int64_t panels;
    int64_t quads, stride;                                                   /* see simd.h */
    size_t at_threads, at_scale, at_out, at_residual, at_turned, for_thread; /* in the workspace */
} graft_cpu_panels;

bool graft_cpu_panels_can(const graft_device *d);
/* Sets the sizes of workspace and weights in k->info. k->op is a LINEAR that was checked. matrix:
 * by matrix instructions, where graft_cpu_has_tiles(). */
void graft_cpu_panels_init(graft_kernel *k, graft_cpu_panels *p, bool matrix);
graft_status graft_cpu_panels_pack(graft_kernel *k, const graft_cpu_panels *p, graft_dtype from,
                                   const void *src, void *dst);
void graft_cpu_panels_launch(graft_kernel *k, const graft_cpu_panels *p, const void *const *in,
                             void *out, void *workspace);
#endif

/* Products alone, each in its fastest variant: for graft-bench-gpu. */
#ifndef GRAFT_BENCH_GPU_PRODUCTS_H
#define GRAFT_BENCH_GPU_PRODUCTS_H
#include <stdbool.h>

#include "engine/exec/backend.h"

typedef struct gpu_products {
    const graft_backend *device;
    bool small; /* to try the program */
    const void *ctx;
    void (*note)(const void *ctx, const char *name, double value, const char *unit);
} gpu_products;

/* Of one large size, in bf16 and int8. */
void gpu_products_ceilings(const gpu_products *p);
/* A layer of a transformer's size in bf16, and with its weights in each type of ggml's blocks,
 * which are written out as bf16 in each launch: what that adds. */
void gpu_products_blocks(const gpu_products *p);
#endif

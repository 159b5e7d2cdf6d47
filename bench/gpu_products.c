#include "bench/gpu_products.h"

#include <ctype.h>
#include <stdio.h>

#include "engine/exec/trial.h"
#include "kernels/blocks.h"

/* In seconds; 0 when it cannot run. */
static double best_of(const gpu_products *p, const graft_op_desc *d)
{
    graft_trial t;
    graft_err e = GRAFT_ERR_INIT;
    graft_trial_limits limits = {.max_bytes = (int64_t)8 << 30};
    uint64_t best = 0;
    if (graft_trial_run(p->device, d, &limits, NULL, &t, &e)) {
        printf("  skipped: %s\n", e.text);
        return 0;
    }
    for (int i = 0; i < t.count; i++)
        if (t.ns[i] && (!best || t.ns[i] < best)) best = t.ns[i];
    return (double)best * 1e-9;
}

static graft_tensor_desc matrix(int64_t rows, int64_t columns)
{
    return (graft_tensor_desc){
        .dtype = GRAFT_BF16, .rank = 2, .dim = {rows, columns}, .stride = {columns, 1}};
}

static graft_op_desc linear(int64_t rows, int64_t columns, int64_t outputs)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_LINEAR, .out = matrix(rows, outputs)};
    d.in[GRAFT_LINEAR_X] = matrix(rows, columns);
    d.in[GRAFT_LINEAR_W] = matrix(outputs, columns);
    d.in[GRAFT_LINEAR_W].constant = 1;
    return d;
}

void gpu_products_ceilings(const gpu_products *p)
{
    const int64_t n = p->small ? 64 : 8192;
    const double operations = 2.0 * (double)n * (double)n * (double)n;
    graft_op_desc d = linear(n, n, n);
    double t = best_of(p, &d);
    if (t > 0)
        p->note(p->ctx, "gpu_gemm_bf16_tflops", operations / t * 1e-12,
                "TFLOP/s, 8192 x 8192 x 8192");
    d.attrs.quant = GRAFT_QUANT_INT8;
    t = best_of(p, &d);
    if (t > 0)
        p->note(p->ctx, "gpu_gemm_int8_tops", operations / t * 1e-12,
                "TOP/s, the same with x quantized in it");
}

void gpu_products_blocks(const gpu_products *p)
{
    const int64_t rows = p->small ? 8 : 4096, columns = p->small ? 256 : 3072;
    const int64_t outputs = p->small ? 64 : 6144;
    graft_op_desc d = linear(rows, columns, outputs);
    const double floats = best_of(p, &d), bytes = 2 * (double)(columns * outputs);
    if (floats <= 0) return;
    p->note(p->ctx, "gpu_layer_bf16_ms", floats * 1e3, "ms, 4096 rows of 3072 to 6144");
    for (int32_t type = 1; type <= GRAFT_BLOCKS_MOST; type++) {
        char name[64], called[16];
        if (!graft_blocks_values(type)) continue;
        snprintf(called, sizeof called, "%s", graft_blocks_name(type));
        for (char *c = called; *c; c++) *c = (char)tolower((unsigned char)*c);
        snprintf(name, sizeof name, "gpu_layer_%s_ms", called);
        d.attrs.quant = GRAFT_QUANT_BLOCKS + type;
        const double t = best_of(p, &d), more = t - floats;
        if (t <= 0) continue;
        p->note(p->ctx, name, t * 1e3, "ms, the same of blocks");
        if (more > 0)
            printf("  %s: %.1f us more, %.0f GB of bf16 a second\n", graft_blocks_name(type),
                   more * 1e6, bytes / more * 1e-9);
    }
}

/* LINEAR on int8 (kernels/quant.h): by panels of our own where the processor has the instructions,
 * or by oneDNN, a block of rows at a time, so that the sums stay in the cache. Both give the same
 * bits. */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/int8.h"
#include "kernels/cpu/int8_panels.h"
#include "kernels/quant.h"

enum { VARIANT_PANELS, VARIANT_ONEDNN, VARIANT_MATRIX }; /* the last: panels by AMX */

typedef struct state {
    bool by_panels;
    graft_cpu_panels panels;
    graft_cpu_primitive primitive, tail; /* blocks of rows, and the rest of them */
    int64_t rows, block, rest;
    int scratchpad;
    size_t at_scratchpad, at_input, at_scale, at_acc, at_turned; /* in the workspace */
} state;

static graft_status describe(graft_device *d, const graft_op_desc *op, int64_t rows,
                             const dnnl_memory_desc_t *weights, dnnl_primitive_desc_t *pd,
                             graft_err *e)
{
    graft_status st;
    int64_t wide = op->in[GRAFT_LINEAR_W].dim[0], in = op->in[GRAFT_LINEAR_W].dim[1];
    const int64_t x_dim[2] = {rows, in}, w_dim[2] = {in, wide}, y_dim[2] = {rows, wide};
    dnnl_memory_desc_t x_md, w_md, y_md;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_matmul_desc_t mm;
    GRAFT_TRY(graft_cpu_md(&x_md, 2, x_dim, (int64_t[]){in, 1}, GRAFT_I8, e));
    GRAFT_TRY(graft_cpu_md(&w_md, 2, w_dim, NULL, GRAFT_I8, e));
    GRAFT_TRY(graft_cpu_md(&y_md, 2, y_dim, (int64_t[]){wide, 1}, GRAFT_I32, e));
    GRAFT_TRY(graft_cpu_attr_create(&attr, NULL, GRAFT_ACT_NONE, e));
    if (weights) w_md = *weights;
    dnnl_status_t ds = dnnl_matmul_desc_init(&mm, &x_md, &w_md, NULL, &y_md);
    if (!ds) ds = dnnl_primitive_desc_create(pd, &mm, attr, d->engine, NULL);
    st = graft_cpu_dnnl_fail(ds, "int8 linear", e);
out:
    if (attr) dnnl_primitive_attr_destroy(attr);
    return st;
}

static int64_t block_rows(const graft_op_desc *op)
{
    int64_t rows = graft_cpu_rows(&op->in[GRAFT_LINEAR_X]);
    int64_t block = (1 << 20) / (op->in[GRAFT_LINEAR_W].dim[0] * 4) / 64 * 64;
    if (block < 256) block = 256;
    return block < rows ? block : rows;
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    dnnl_primitive_desc_t pd = NULL;
    graft_status st = graft_cpu_linear_check(op, e);
    if (st || graft_cpu_panels_can(d)) return st;
    st = describe(d, op, block_rows(op), NULL, &pd, e);
    if (!st) dnnl_primitive_desc_destroy(pd);
    return st;
}

static size_t scratchpad_bytes(const_dnnl_primitive_desc_t pd)
{
    return dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
}

static graft_status init_onednn(graft_kernel *k, graft_err *e)
{
    graft_status st;
    dnnl_primitive_desc_t pd = NULL, tail = NULL;
    const int64_t *w = k->op.in[GRAFT_LINEAR_W].dim;
    state *s = k->state;
    k->usual = INT64_MAX;
    s->rows = graft_cpu_rows(&k->op.in[GRAFT_LINEAR_X]);
    s->block = block_rows(&k->op);
    s->rest = s->rows % s->block;
    GRAFT_TRY(describe(k->d, &k->op, s->block, NULL, &pd, e));
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    if (s->rest) GRAFT_TRY(describe(k->d, &k->op, s->rest, md, &tail, e));
    size_t scratchpad = scratchpad_bytes(pd), end = 0;
    if (tail && scratchpad_bytes(tail) > scratchpad) scratchpad = scratchpad_bytes(tail);
    int arg[4] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    s->scratchpad = scratchpad > 0;
    s->at_scratchpad = graft_cpu_reserve(&end, (int64_t)scratchpad);
    s->at_input = graft_cpu_reserve(&end, s->block * w[1]);
    s->at_scale = graft_cpu_reserve(&end, s->rows * (int64_t)sizeof(float));
    s->at_acc = graft_cpu_reserve(&end, s->block * w[0] * (int64_t)sizeof(int32_t));
    s->at_turned =
        graft_cpu_reserve(&end, graft_cpu_int8_turned(&k->op) * (size_t)k->d->host.threads);
    k->info.workspace_bytes = end;
    snprintf(k->info.variant, sizeof k->info.variant, "dnnl int8 %s", graft_cpu_primitive_name(pd));
    int args = 3 + s->scratchpad;
    GRAFT_TRY(graft_cpu_primitive_init(&s->primitive, k->d->engine, pd, arg, args, e));
    if (tail) GRAFT_TRY(graft_cpu_primitive_init(&s->tail, k->d->engine, tail, arg, args, e));
    k->info.packed_bytes[GRAFT_LINEAR_W] = graft_cpu_int8_bytes(&s->primitive.md[1], w[0]);
    k->info.packing[GRAFT_LINEAR_W] = graft_cpu_int8_packing(&s->primitive.md[1], 1);
out:
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (tail) dnnl_primitive_desc_destroy(tail);
    return st;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    bool own = graft_cpu_panels_can(k->d);
    state *s = k->state = graft_cpu_calloc(k->d, sizeof *s);
    if (!s) return graft_fail_nomem(e, "a linear operator");
    graft_cpu_pack_as(k, GRAFT_LINEAR_BIAS, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_LINEAR_RESIDUAL, k->op.out.dtype);
    const bool matrix = graft_cpu_has_tiles(k->d);
    const bool both = own && graft_cpu_multiplies_bytes(GRAFT_OP_LINEAR);
    if (!own || (variant < 0 && both && !matrix && graft_cpu_has_matrix_unit()))
        variant = VARIANT_ONEDNN;
    else if (variant < 0)
        variant = matrix ? VARIANT_MATRIX : VARIANT_PANELS;
    k->info.variant_index = both ? variant : 0;
    k->info.variant_count = !both ? 1 : matrix ? 3 : 2;
    s->by_panels = variant != VARIANT_ONEDNN;
    if (!s->by_panels) return init_onednn(k, e);
    graft_cpu_panels_init(k, &s->panels, variant == VARIANT_MATRIX);
    return GRAFT_OK;
}

static void finish(graft_kernel *k)
{
    state *s = k->state;
    if (!s || s->by_panels) return;
    graft_cpu_primitive_finish(&s->primitive);
    graft_cpu_primitive_finish(&s->tail);
}

static graft_status pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst)
{
    const state *s = k->state;
    (void)input;
    if (s->by_panels) return graft_cpu_panels_pack(k, &s->panels, t, src, dst);
    return graft_cpu_int8_pack(k->d, &s->primitive.md[1], 1, t, src, dst);
}

typedef struct rows {
    const graft_kernel *k;
    const void *x;
    int8_t *level;
    float *scale, *turned;
    int64_t first, count;
} rows;

static void quantize_part(void *p, int part, int parts)
{
    const rows *r = p;
    const graft_tensor_desc *x = &r->k->op.in[GRAFT_LINEAR_X];
    const graft_cpu_simd *simd = r->k->d->simd;
    int64_t n = x->dim[x->rank - 1], end = r->count * (part + 1) / parts;
    for (int64_t i = r->count * part / parts; i < end; i++) {
        const void *row = graft_cpu_at(r->x, x->dtype, graft_cpu_row_offset(x, r->first + i));
        graft_cpu_int8_row ready = graft_cpu_int8_row_of(r->k, row, r->turned + part * n);
        float scale = graft_quant_scale(simd->absmax(ready.x, ready.type, (size_t)n), 127.0f);
        r->scale[r->first + i] = scale;
        simd->to_s8(ready.x, ready.type, graft_quant_inverse(scale), r->level + i * n, (size_t)n);
    }
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    state *s = k->state;
    char *ws = workspace;
    const int64_t *w = k->op.in[GRAFT_LINEAR_W].dim;
    graft_status st = GRAFT_OK;
    if (s->by_panels) {
        graft_cpu_panels_launch(k, &s->panels, in, out, workspace);
        return st;
    }
    for (int64_t first = 0; first < s->rows && !st; first += s->block) {
        int64_t count = s->rows - first < s->block ? s->rows - first : s->block;
        rows r = {k,
                  in[GRAFT_LINEAR_X],
                  (int8_t *)ws + s->at_input,
                  (float *)(void *)(ws + s->at_scale),
                  (float *)(void *)(ws + s->at_turned),
                  first,
                  count};
        graft_cpu_parallel(graft_cpu_threads(k->d, count * w[1]), quantize_part, &r);
        const void *arg[GRAFT_CPU_ARGS] = {r.level, in[GRAFT_LINEAR_W], ws + s->at_acc,
                                           ws + s->at_scratchpad};
        void *handle[GRAFT_CPU_ARGS];
        memcpy(handle, arg, sizeof handle); /* oneDNN takes inputs as void* too */
        st = graft_cpu_primitive_run(count == s->block ? &s->primitive : &s->tail, handle);
        graft_cpu_int8_rows done = {
            .k = k,
            .acc = (int32_t *)(void *)(ws + s->at_acc),
            .first = first,
            .count = count,
            .wide = w[0],
            .weight_scale = graft_cpu_int8_scales(&s->primitive.md[1], in[GRAFT_LINEAR_W]),
            .input_scale = r.scale,
            .rows_per_scale = 1,
            .bias = in[GRAFT_LINEAR_BIAS],
            .residual = in[GRAFT_LINEAR_RESIDUAL],
            .residual_desc = &k->op.in[GRAFT_LINEAR_RESIDUAL],
            .out = out};
        if (!st) graft_cpu_int8_finish(&done);
    }
    return st;
}

const graft_cpu_op graft_cpu_op_linear_int8 = {check, init, finish, pack, launch, NULL};

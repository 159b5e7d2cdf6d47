/* float32 LINEAR with our own products (simd.h, product): a block of rows is copied to where no two
 * of its rows share a set of a cache, multiplied by some panels of outputs, and results go to
 * memory once, finished. Blocks of rows by groups of panels are handed out to threads one by one;
 * every result is computed alone, so that it does not depend on their number. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/linear.h"

#define BLOCK        GRAFT_CPU_PRODUCT_BLOCK
#define ROWS         252         /* of a block: enough for weights that are read anew for each */
#define BYTES        (384 << 10) /* or more, as many as leave room for weights in the cache */
#define TILE         12
#define TASKS        8 /* for each thread, where there is enough work */
#define LEAST_PANELS 4 /* of a group */

typedef struct state {
    dnnl_memory_desc_t layout; /* of the weights */
    int64_t rows, block, blocks;
    int64_t panels, groups;
    int64_t stride;                         /* floats from row to row of a block */
    size_t at_out, at_residual, for_thread; /* in the workspace */
} state;

bool graft_cpu_has_panels(const graft_device *d, const graft_op_desc *op)
{
    const graft_tensor_desc *w = &op->in[GRAFT_LINEAR_W];
    int64_t block = op->attrs.act == GRAFT_ACT_GEGLU ? 2 * BLOCK : BLOCK;
    return d->simd->product && op->in[GRAFT_LINEAR_X].dtype == GRAFT_F32 && w->dim[0] % block == 0;
}

const dnnl_memory_desc_t *graft_cpu_panels_layout(const graft_kernel *k)
{
    const state *s = k->state;
    return &s->layout;
}

/* Equal blocks, whole tiles but for the last. */
static void divide(state *s, int64_t threads)
{
    int64_t most = BYTES / (s->stride * 4) / TILE * TILE;
    if (most < ROWS) most = ROWS;
    s->blocks = graft_cpu_pieces(s->rows, most);
    s->block = graft_cpu_pieces(graft_cpu_pieces(s->rows, s->blocks), TILE) * TILE;
    s->blocks = graft_cpu_pieces(s->rows, s->block);
    s->groups = graft_cpu_pieces(TASKS * threads, s->blocks);
    if (s->groups > s->panels / LEAST_PANELS) s->groups = s->panels / LEAST_PANELS;
    if (s->groups < 1) s->groups = 1;
}

static graft_status pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst)
{
    (void)input;
    return graft_cpu_pack_weights(k->d, graft_cpu_panels_layout(k), 0, t, src, dst);
}

static graft_status pack_rows(graft_kernel *k, int32_t input, graft_dtype t, const void *src,
                              void *dst, int64_t first, int64_t rows)
{
    (void)input;
    return graft_cpu_pack_weight_rows(k->d, graft_cpu_panels_layout(k), 0, t, src, dst, first,
                                      rows);
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_LINEAR_X], *w = &k->op.in[GRAFT_LINEAR_W];
    const dnnl_dims_t dims = {w->dim[0], w->dim[1]};
    state *s = k->state = graft_cpu_calloc(k->d, sizeof *s);
    (void)variant; /* linear.c chose it */
    if (!s) return graft_fail_nomem(e, "a linear operator");
    k->pack_rows = pack_rows;
    graft_cpu_pack_as(k, GRAFT_LINEAR_BIAS, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_LINEAR_RESIDUAL, GRAFT_F32);
    graft_status st = graft_cpu_dnnl_fail(
        dnnl_memory_desc_init_by_tag(&s->layout, 2, dims, dnnl_f32, dnnl_AB16b16a), "weights", e);
    if (st) return st;
    s->rows = graft_cpu_rows(x);
    s->panels = k->op.out.dim[k->op.out.rank - 1] / BLOCK;
    /* An odd number of lines. */
    s->stride = (graft_cpu_pieces(w->dim[1], 16) | 1) * 16;
    divide(s, k->d->host.threads);
    size_t end = 0;
    graft_cpu_reserve(&end, (size_t)(s->block * s->stride) * sizeof(float));
    s->at_out = graft_cpu_reserve(&end, (size_t)s->block * sizeof(void *));
    s->at_residual = graft_cpu_reserve(&end, (size_t)s->block * sizeof(void *));
    s->for_thread = end;
    k->info.workspace_bytes = end * (size_t)k->d->host.threads;
    k->info.packed_bytes[GRAFT_LINEAR_W] = dnnl_memory_desc_get_size(&s->layout);
    k->info.packing[GRAFT_LINEAR_W] = graft_cpu_packing_weights(&s->layout);
    snprintf(k->info.variant, sizeof k->info.variant, "panels %s", k->d->simd->name);
    return GRAFT_OK;
}

typedef struct launching {
    const graft_kernel *k;
    const state *s;
    const void *const *in;
    void *out;
    char *workspace;
    atomic_llong next;
} launching;

/* Copies a block's rows, and finds where results go. */
static void begin_block(const launching *l, int64_t block, char *ws, graft_cpu_product *job)
{
    const graft_op_desc *op = &l->k->op;
    const graft_tensor_desc *x = &op->in[GRAFT_LINEAR_X], *y = &op->out;
    const graft_tensor_desc *residual = &op->in[GRAFT_LINEAR_RESIDUAL];
    const state *s = l->s;
    int64_t first = block * s->block, left = s->rows - first;
    float *to = (float *)(void *)ws, **out = (float **)(void *)(ws + s->at_out);
    const void **add = (const void **)(void *)(ws + s->at_residual);
    job->rows = left < s->block ? left : s->block;
    job->x = to;
    job->out = out;
    job->residual = l->in[GRAFT_LINEAR_RESIDUAL] ? add : NULL;
    for (int64_t i = 0; i < job->rows; i++) {
        memcpy(to + i * s->stride,
               graft_cpu_at(l->in[GRAFT_LINEAR_X], x->dtype, graft_cpu_row_offset(x, first + i)),
               (size_t)job->inputs * sizeof(float));
        out[i] = graft_cpu_at_mut(l->out, y->dtype, graft_cpu_row_offset(y, first + i));
        if (job->residual)
            add[i] = graft_cpu_at(l->in[GRAFT_LINEAR_RESIDUAL], residual->dtype,
                                  graft_cpu_row_offset(residual, first + i));
    }
}

static void launch_part(void *ctx, int part, int parts)
{
    launching *l = ctx;
    const state *s = l->s;
    const graft_op_desc *op = &l->k->op;
    char *ws = l->workspace + s->for_thread * (size_t)part;
    int64_t inputs = op->in[GRAFT_LINEAR_W].dim[1], held = -1;
    graft_cpu_product job = {.stride = s->stride,
                             .inputs = inputs,
                             .weight = l->in[GRAFT_LINEAR_W],
                             .block_stride = graft_cpu_pieces(inputs, BLOCK) * BLOCK * BLOCK,
                             .bias = l->in[GRAFT_LINEAR_BIAS],
                             .outputs = op->in[GRAFT_LINEAR_W].dim[0],
                             .act = op->attrs.act,
                             .residual_type = op->in[GRAFT_LINEAR_RESIDUAL].dtype};
    (void)parts;
    for (int64_t task; (task = atomic_fetch_add(&l->next, 1)) < s->blocks * s->groups;) {
        int64_t block = task / s->groups, group = task % s->groups;
        int64_t first = group * s->panels / s->groups, end = (group + 1) * s->panels / s->groups;
        if (block != held) begin_block(l, held = block, ws, &job);
        l->k->d->simd->product(&job, first, end - first);
    }
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const state *s = k->state;
    launching l = {.k = k, .s = s, .in = in, .out = out, .workspace = workspace};
    int64_t work = s->rows * s->panels * k->op.in[GRAFT_LINEAR_W].dim[1];
    atomic_init(&l.next, 0);
    graft_cpu_parallel(graft_cpu_threads(k->d, work), launch_part, &l);
    return GRAFT_OK;
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st = graft_cpu_linear_check(op, e);
    if (!st && !graft_cpu_has_panels(d, op))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "linear: no panels");
    return st;
}

const graft_cpu_op graft_cpu_op_linear_panels = {check, init, NULL, pack, launch, NULL};

/* COPY, CONCAT, JOIN, UPSAMPLE, EMBEDDING, GATHER_ROW, TIMESTEP. */
#include "kernels/cuda/ops/op.h"

static void shape_to_32(const graft_tensor_desc *t, graft_cuda_move *p)
{
    graft_cuda_shape(t, p->dim, NULL);
    p->count = (uint32_t)graft_ref_elements(t);
}

/* Rows of values that are not converted, as rows of pieces of 16 bytes where they allow it. */
static void widen_pieces(graft_cuda_move *p)
{
    int64_t step = 16 / p->size;
    bool fits = ((uintptr_t)p->src | (uintptr_t)p->dst) % 16 == 0 && p->dim[3] % step == 0 &&
                p->ss[3] == 1 && p->sd[3] == 1;
    for (int i = 0; i < 3; i++)
        fits = fits && (p->dim[i] == 1 || (p->ss[i] % step == 0 && p->sd[i] % step == 0));
    if (!fits) return;
    for (int i = 0; i < 3; i++) {
        p->ss[i] /= step;
        p->sd[i] /= step;
    }
    p->dim[3] /= (uint32_t)step;
    p->count /= (uint32_t)step;
    p->size = 16;
}

graft_status graft_cuda_move_run(graft_device *d, graft_cuda_move *p)
{
    p->size = (int32_t)graft_dtype_size(p->to);
    if (p->from == p->to) widen_pieces(p);
    return graft_cuda_launch(d, GRAFT_CUDA_FN_graft_move,
                             graft_cuda_blocks(p->count, GRAFT_CUDA_THREADS), 1, 1, p);
}

static graft_status launch_move(const graft_kernel *k, graft_cuda_move *p)
{
    return graft_cuda_move_run(k->d, p);
}

/* Constants come in the result's dtype. */
static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant, (void)e;
    graft_cuda_pack_plain(k, 0, k->t);
    graft_cuda_pack_plain(k, 1, k->t);
    return GRAFT_OK;
}

static void source(const graft_kernel *k, int i, graft_cuda_move *p)
{
    const graft_tensor_desc *t = &k->op.in[i];
    graft_cuda_shape(t, NULL, p->ss);
    p->from = t->constant ? k->t : t->dtype;
    if (!t->constant) return;
    int64_t below = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        p->ss[GRAFT_MAX_RANK - t->rank + d] = below;
        below *= t->dim[d];
    }
}

static graft_status launch_copy(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    (void)workspace;
    graft_cuda_move p = {.src = in[0], .dst = out, .to = k->op.out.dtype};
    source(k, 0, &p);
    shape_to_32(&k->op.out, &p);
    graft_cuda_shape(&k->op.out, NULL, p.sd);
    return launch_move(k, &p);
}

/* Inputs behind each other along dimension `dim` of the result. */
static graft_status put_together(graft_kernel *k, const void *const *in, void *out, int dim)
{
    graft_status st = GRAFT_OK;
    char *to = out;
    for (int i = 0; i < 2 && !st; i++) {
        graft_cuda_move p = {.src = in[i], .dst = to, .to = k->t};
        source(k, i, &p);
        shape_to_32(&k->op.in[i], &p);
        graft_cuda_shape(&k->op.out, NULL, p.sd);
        st = launch_move(k, &p);
        to += k->op.in[i].dim[dim] * k->op.out.stride[dim] * (int64_t)graft_dtype_size(k->t);
    }
    return st;
}

static graft_status launch_concat(graft_kernel *k, const void *const *in, void *out,
                                  char *workspace)
{
    (void)workspace;
    return put_together(k, in, out, k->op.out.rank - 1);
}

static graft_status launch_join(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    (void)workspace;
    return put_together(k, in, out, 1);
}

static graft_status launch_upsample(graft_kernel *k, const void *const *in, void *out,
                                    char *workspace)
{
    (void)workspace;
    const graft_tensor_desc *x = &k->op.in[0];
    graft_cuda_move p = {.src = in[0],
                         .dst = out,
                         .to = k->t,
                         .in_h = (uint32_t)x->dim[1],
                         .in_w = (uint32_t)x->dim[2]};
    source(k, 0, &p);
    shape_to_32(&k->op.out, &p);
    graft_cuda_shape(&k->op.out, NULL, p.sd);
    return launch_move(k, &p);
}

/* Rows of the table by ids, one for each place of the result but its last dimension. */
static graft_status launch_embedding(graft_kernel *k, const void *const *in, void *out,
                                     char *workspace)
{
    (void)workspace;
    const graft_tensor_desc *ids = &k->op.in[0], *table = &k->op.in[1];
    graft_cuda_rows p = {.src = in[1], .ids = in[0], .dst = out, .limit = table->dim[0]};
    p.srow = table->constant ? table->dim[1] : table->stride[0];
    graft_cuda_shape(&k->op.out, p.dim, p.sd);
    for (int i = 0; i < ids->rank; i++) p.sid[3 - ids->rank + i] = ids->stride[i];
    p.count = (uint32_t)graft_ref_elements(&k->op.out);
    p.wide_ids = ids->dtype == GRAFT_I64;
    p.size = (int32_t)graft_dtype_size(k->t);
    return graft_cuda_launch(k->d, GRAFT_CUDA_FN_graft_rows,
                             graft_cuda_blocks(p.count, GRAFT_CUDA_THREADS), 1, 1, &p);
}

static graft_status launch_gather(graft_kernel *k, const void *const *in, void *out,
                                  char *workspace)
{
    (void)workspace;
    const graft_tensor_desc *x = &k->op.in[0], *row = &k->op.in[1];
    graft_cuda_rows p = {.src = in[0], .ids = in[1], .dst = out, .limit = x->dim[1]};
    p.srow = x->constant ? x->dim[2] : x->stride[1];
    graft_cuda_shape(&k->op.out, p.dim, p.sd);
    p.sid[2] = row->stride[0];
    p.sbatch[2] = x->constant ? x->dim[1] * x->dim[2] : x->stride[0];
    p.count = (uint32_t)graft_ref_elements(&k->op.out);
    p.wide_ids = row->dtype == GRAFT_I64;
    p.size = (int32_t)graft_dtype_size(k->t);
    return graft_cuda_launch(k->d, GRAFT_CUDA_FN_graft_rows,
                             graft_cuda_blocks(p.count, GRAFT_CUDA_THREADS), 1, 1, &p);
}

static graft_status init_timestep(graft_kernel *k, int32_t variant, graft_err *e)
{
    (void)variant, (void)e;
    graft_cuda_pack_plain(k, 0, GRAFT_F32);
    return GRAFT_OK;
}

static graft_status launch_timestep(graft_kernel *k, const void *const *in, void *out,
                                    char *workspace)
{
    (void)workspace;
    graft_cuda_timestep p = {.t = in[0],
                             .out = out,
                             .st = k->op.in[0].constant ? 1 : k->op.in[0].stride[0],
                             .so = k->op.out.stride[0],
                             .batch = (uint32_t)k->op.out.dim[0],
                             .half = (uint32_t)(k->op.out.dim[1] / 2)};
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_timestep, k->t),
                             graft_cuda_blocks((uint64_t)p.batch * p.half, GRAFT_CUDA_THREADS), 1,
                             1, &p);
}

const graft_cuda_op graft_cuda_op_copy = {.init = init, .launch = launch_copy};
const graft_cuda_op graft_cuda_op_concat = {.init = init, .launch = launch_concat};
const graft_cuda_op graft_cuda_op_join = {.init = init, .launch = launch_join};
const graft_cuda_op graft_cuda_op_upsample = {.init = init, .launch = launch_upsample};
const graft_cuda_op graft_cuda_op_embedding = {.init = init, .launch = launch_embedding};
const graft_cuda_op graft_cuda_op_gather_row = {.init = init, .launch = launch_gather};
const graft_cuda_op graft_cuda_op_timestep = {.init = init_timestep, .launch = launch_timestep};

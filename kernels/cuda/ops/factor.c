/* MEAN_SCALE and LOW_SCALE. */
#include "kernels/cuda/ops/op.h"

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *x = &op->in[GRAFT_FACTOR_X];
    if (x->constant) return graft_fail(e, GRAFT_E_UNSUPPORTED, "x is constant");
    if (x->dim[0] > 65535 || x->dim[1] > 65535)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%lld pictures of %lld rows",
                          (long long)x->dim[0], (long long)x->dim[1]);
    return GRAFT_OK;
}

static void strides(const graft_kernel *k, int64_t sx[3], int64_t so[3])
{
    for (int i = 0; i < 3; i++) {
        sx[i] = k->op.in[GRAFT_FACTOR_X].stride[i];
        so[i] = k->op.out.stride[i];
    }
}

/* ------------------------------------------------------------------ MEAN_SCALE */

static graft_status init_mean(graft_kernel *k, int32_t variant, graft_err *e)
{
    const int64_t *dim = k->op.out.dim;
    (void)variant, (void)e;
    graft_cuda_pack_plain(k, GRAFT_FACTOR, GRAFT_F32);
    k->info.workspace_bytes = (uint64_t)(dim[0] * dim[1] * dim[2]) * sizeof(float);
    return GRAFT_OK;
}

static graft_status launch_mean(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    const int64_t *dim = k->op.out.dim;
    graft_cuda_mean p = {.x = in[GRAFT_FACTOR_X],
                         .out = out,
                         .factor = in[GRAFT_FACTOR],
                         .mean = (float *)(void *)workspace,
                         .width = (uint32_t)dim[2],
                         .channels = (uint32_t)dim[3],
                         .pixels = (uint32_t)(dim[1] * dim[2]),
                         .count = (uint32_t)(dim[0] * dim[1] * dim[2])};
    uint64_t wide = p.x == p.out ? p.channels / 2 : p.channels;
    strides(k, p.sx, p.so);
    graft_status st =
        graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_mean_of_pixels, k->t),
                          graft_cuda_blocks(p.count, GRAFT_CUDA_NORM_THREADS / 32), 1, 1, &p);
    if (!st)
        st = graft_cuda_launch(k->d, GRAFT_CUDA_FN_graft_mean_range, (uint32_t)dim[0], 1, 1, &p);
    if (st || !wide) return st;
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_mean_scale, k->t),
                             graft_cuda_blocks(wide * p.count, GRAFT_CUDA_THREADS), 1, 1, &p);
}

/* ------------------------------------------------------------------ LOW_SCALE */

static uint32_t splits_of(const graft_op_desc *op)
{
    int64_t height = op->out.dim[1];
    return height < GRAFT_CUDA_WAVE_SPLITS ? (uint32_t)height : GRAFT_CUDA_WAVE_SPLITS;
}

static graft_status init_low(graft_kernel *k, int32_t variant, graft_err *e)
{
    const int64_t *dim = k->op.out.dim;
    (void)variant, (void)e;
    graft_cuda_pack_plain(k, GRAFT_FACTOR, GRAFT_F32);
    k->part = (uint64_t)(dim[1] + dim[2]) * 2 * sizeof(float);
    k->info.workspace_bytes = k->part + (uint64_t)dim[0] * splits_of(&k->op) * GRAFT_CUDA_WAVES *
                                            (uint64_t)dim[3] * sizeof(float);
    return GRAFT_OK;
}

static graft_status launch_low(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    const int64_t *dim = k->op.out.dim;
    graft_cuda_wave p = {.x = in[GRAFT_FACTOR_X],
                         .out = out,
                         .factor = in[GRAFT_FACTOR],
                         .table = (float *)(void *)workspace,
                         .sums = (float *)(void *)(workspace + k->part),
                         .height = (uint32_t)dim[1],
                         .width = (uint32_t)dim[2],
                         .channels = (uint32_t)dim[3],
                         .splits = splits_of(&k->op)};
    uint32_t wide = graft_cuda_blocks(p.channels, GRAFT_CUDA_THREADS), batch = (uint32_t)dim[0];
    strides(k, p.sx, p.so);
    graft_status st = graft_cuda_launch(
        k->d, GRAFT_CUDA_FN_graft_wave_table,
        graft_cuda_blocks((uint64_t)p.height + p.width, GRAFT_CUDA_THREADS), 1, 1, &p);
    if (!st)
        st = graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_wave_sums, k->t), wide,
                               p.splits, batch, &p);
    if (st) return st;
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_wave_add, k->t), wide,
                             p.height, batch, &p);
}

const graft_cuda_op graft_cuda_op_mean_scale = {
    .check = check, .init = init_mean, .launch = launch_mean, .inplace = true};
const graft_cuda_op graft_cuda_op_low_scale = {
    .check = check, .init = init_low, .launch = launch_low, .inplace = true};

#include "kernels/cuda/ops/conv2d_bands.h"

#include <string.h>

#include "kernels/cuda/libs/dnn.h"
#include "kernels/cuda/ops/matmul.h"
#include "kernels/cuda/ops/quant.h"

/* Sizes from which on memory is worth more launches, in bands. */
enum { DOUBLED = 4, IN_PLACE = 16 };

/* Of one row of x as the taps see it. */
static uint64_t row_bytes(const graft_kernel *k)
{
    return (uint64_t)(graft_cuda_seen_width(&k->op) * k->op.in[GRAFT_CONV_X].dim[3]) *
           graft_dtype_size(k->t);
}

/* Bands of 16 bits a value whose rows begin at multiples of 16 bytes. */
static bool fits(const graft_kernel *k)
{
    const graft_op_desc *op = &k->op;
    const graft_tensor_desc *x = &op->in[GRAFT_CONV_X], *r = &op->in[GRAFT_CONV_RESIDUAL];
    bool eights = op->in[GRAFT_CONV_W].dim[0] % 8 == 0 && x->dim[3] % 8 == 0;
    for (int i = 0; i < 3; i++)
        eights = eights && x->stride[i] % 8 == 0 && op->out.stride[i] % 8 == 0 &&
                 (!graft_cuda_present(r) || r->stride[i] % 8 == 0);
    return k->d->band_bytes && k->t != GRAFT_F32 && !op->attrs.quant && eights &&
           op->attrs.stride_h == 1 && op->attrs.stride_w == 1;
}

/* A row of the result lies no further on than the row of x that it belongs to. */
static bool may_take_place(const graft_op_desc *op)
{
    const graft_tensor_desc *x = &op->in[GRAFT_CONV_X], *y = &op->out;
    return op->attrs.upsample != 2 && x->dim[1] == y->dim[1] && x->dim[2] == y->dim[2] &&
           y->dim[3] < x->dim[3] && graft_ref_is_dense(x) && graft_ref_is_dense(y) &&
           !graft_cuda_present(&op->in[GRAFT_CONV_RESIDUAL]);
}

/* As many rows as a band may have, all bands alike; 0 where that would be few. */
static int32_t rows_of(const graft_kernel *k, uint64_t limit)
{
    int64_t height = k->op.out.dim[1], around = k->op.attrs.kernel_h - 1;
    int64_t most = (int64_t)(limit / row_bytes(k)) - around;
    for (int64_t r = most < height ? most : height; r > 0 && r >= around; r--)
        if (height % r == 0)
            return (uint64_t)(r + around) * row_bytes(k) >= limit / 4 ? (int32_t)r : 0;
    return 0;
}

void graft_cuda_bands_init(graft_kernel *k)
{
    uint64_t limit = k->d->band_bytes, end = 0;
    if (!fits(k)) return;
    uint64_t seen =
        (uint64_t)(k->op.in[GRAFT_CONV_X].dim[0] * graft_cuda_seen_height(&k->op)) * row_bytes(k);
    bool doubled = k->op.attrs.upsample == 2;
    k->bands.in_place = may_take_place(&k->op) && seen >= IN_PLACE * limit;
    if (!k->bands.in_place && !(doubled && seen > DOUBLED * limit)) return;
    k->bands.rows = rows_of(k, doubled ? 2 * limit : limit);
    k->bands.in_place = k->bands.in_place && k->bands.rows;
    if (k->bands.rows)
        graft_cuda_reserve(&end,
                           (uint64_t)(k->bands.rows + k->op.attrs.kernel_h - 1) * row_bytes(k));
    k->bands.bytes = end;
}

/* Rows of one picture, and no distance to a next one: a library may ask for rows without a gap
 * behind the last. */
static void cut(graft_tensor_desc *t, int32_t rows)
{
    t->dim[0] = 1;
    t->dim[1] = rows;
    t->stride[0] = rows * t->stride[1];
}

graft_op_desc graft_cuda_bands_desc(const graft_kernel *k)
{
    graft_op_desc d = k->op;
    graft_tensor_desc *x = &d.in[GRAFT_CONV_X], *r = &d.in[GRAFT_CONV_RESIDUAL];
    memset(&d.in[GRAFT_CONV_CHANNEL_ADD], 0, sizeof d.in[0]);
    d.attrs.act = GRAFT_ACT_NONE;
    d.attrs.upsample = d.attrs.up_h = d.attrs.up_w = 0;
    d.attrs.pad_top = d.attrs.pad_bottom = 0;
    x->dim[0] = 1;
    x->dim[1] = k->bands.rows + d.attrs.kernel_h - 1;
    x->dim[2] = graft_cuda_seen_width(&k->op);
    x->stride[2] = x->dim[3];
    x->stride[1] = x->dim[2] * x->stride[2];
    x->stride[0] = x->dim[1] * x->stride[1];
    cut(&d.out, k->bands.rows);
    if (graft_cuda_present(r)) cut(r, k->bands.rows);
    return d;
}

/* Rows of x as the taps see them, beginning at row `first`; zeros above and below the picture. */
static graft_status write_rows(graft_kernel *k, const void *picture, int64_t first, int64_t rows,
                               void *to)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_CONV_X];
    graft_cuda_unfold p = {.src = picture,
                           .dst = to,
                           .ss = {x->stride[0], x->stride[1], x->stride[2]},
                           .eights = (uint32_t)x->dim[3] / 8,
                           .taps = 1,
                           .kernel_w = 1,
                           .out_h = (uint32_t)rows,
                           .out_w = (uint32_t)graft_cuda_seen_width(&k->op),
                           .in_h = (int32_t)graft_cuda_seen_height(&k->op),
                           .in_w = (int32_t)graft_cuda_seen_width(&k->op),
                           .stride_h = 1,
                           .stride_w = 1,
                           .pad_top = (int32_t)-first,
                           .up = k->op.attrs.upsample == 2};
    p.count = (uint32_t)rows * p.out_w * p.eights;
    return graft_cuda_launch(k->d, GRAFT_CUDA_FN_graft_unfold,
                             graft_cuda_blocks(p.count, GRAFT_CUDA_THREADS), 1, 1, &p);
}

/* The last rows of a band to its beginning, which they do not reach. */
static graft_status hand_on(graft_kernel *k, char *band, int64_t around)
{
    graft_cuda_move p = {.src = band + (uint64_t)k->bands.rows * row_bytes(k),
                         .dst = band,
                         .dim = {1, 1, 1, (uint32_t)(row_bytes(k) * (uint64_t)around / 2)},
                         .from = k->t,
                         .to = k->t};
    p.ss[3] = p.sd[3] = 1;
    p.count = p.dim[3];
    return graft_cuda_move_run(k->d, &p);
}

/* What the band that begins at row `at` reads. Of rows that the band above has read, too, the
 * picture may be written over already: they are still behind those that only it has read. */
static graft_status read_band(graft_kernel *k, const char *picture, int64_t at, char *band)
{
    int64_t rows = k->bands.rows, around = k->op.attrs.kernel_h - 1;
    int64_t first = at - k->op.attrs.pad_top;
    if (at == 0) return write_rows(k, picture, first, rows + around, band);
    graft_status st = around ? hand_on(k, band, around) : GRAFT_OK;
    return st ? st
              : write_rows(k, picture, first + around, rows,
                           band + (uint64_t)around * row_bytes(k));
}

graft_status graft_cuda_bands_run(graft_kernel *k, graft_cuda_dnn_plan *plan, const void *const *in,
                                  void *out, char *workspace)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_CONV_X], *y = &k->op.out;
    const graft_tensor_desc *r = &k->op.in[GRAFT_CONV_RESIDUAL];
    const int64_t size = (int64_t)graft_dtype_size(k->t);
    const int64_t bands = y->dim[1] / k->bands.rows;
    const graft_op_desc one = graft_cuda_bands_desc(k);
    graft_status st = GRAFT_OK;
    for (int64_t i = 0; i < y->dim[0] * bands && !st; i++) {
        int64_t n = i / bands, at = i % bands * k->bands.rows;
        char *to = (char *)out + (n * y->stride[0] + at * y->stride[1]) * size;
        const char *residual = in[GRAFT_CONV_RESIDUAL];
        if (residual) residual += (n * r->stride[0] + at * r->stride[1]) * size;
        const void *const own[GRAFT_MAX_INPUTS] = {[GRAFT_CONV_X] = workspace,
                                                   [GRAFT_CONV_W] = in[GRAFT_CONV_W],
                                                   [GRAFT_CONV_BIAS] = in[GRAFT_CONV_BIAS],
                                                   [GRAFT_CONV_RESIDUAL] = residual};
        const void *const data[] = {workspace, in[GRAFT_CONV_W], to, residual, in[GRAFT_CONV_BIAS]};
        st = read_band(k, (const char *)in[GRAFT_CONV_X] + n * x->stride[0] * size, at, workspace);
        if (st) break;
        st = GRAFT_E_UNSUPPORTED;
        if (plan && !k->refused) {
            st = graft_cuda_dnn_run(k->d, plan, data, 5, workspace + k->bands.bytes);
            k->refused = st == GRAFT_E_UNSUPPORTED;
        }
        if (st == GRAFT_E_UNSUPPORTED && k->bands.in_place)
            st = graft_cuda_matmul_conv_run(k, &one, own, to);
    }
    return st;
}

#include <string.h>

#include "kernels/hadamard.h"
#include "kernels/quant.h"
#include "kernels/ref/ref.h"

/* The norm in front of a layer of 8 bits. */
static graft_status check_norm(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *gamma = &d->in[GRAFT_LINEAR_GAMMA], *beta = &d->in[GRAFT_LINEAR_BETA];
    int64_t columns = d->in[GRAFT_LINEAR_W].dim[1];
    if (!graft_ref_present(gamma) && !graft_ref_present(beta)) return GRAFT_OK;
    if (!graft_ref_present(gamma) || !graft_ref_present(beta) || !gamma->constant ||
        !beta->constant)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "gamma and beta must both be constants");
    if (!graft_quant_is_8(d->attrs.quant))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "a norm before a layer that is not of 8 bits");
    graft_status st = graft_ref_check_vector(gamma, columns, "gamma", e);
    if (!st) st = graft_ref_check_vector(beta, columns, "beta", e);
    return st ? st : graft_ref_check_eps(d->attrs.eps, e);
}

/* Rows that are turned before they are quantized. */
static graft_status check_groups(const graft_op_desc *d, graft_err *e)
{
    if (!d->attrs.groups) return GRAFT_OK;
    if (d->attrs.quant != GRAFT_QUANT_INT8)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "groups in a layer that is not of integers");
    if (!graft_hadamard_is(d->attrs.groups, d->in[GRAFT_LINEAR_W].dim[1]))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "groups of %d", (int)d->attrs.groups);
    return GRAFT_OK;
}

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *x = &d->in[GRAFT_LINEAR_X], *w = &d->in[GRAFT_LINEAR_W];
    const graft_tensor_desc *residual = &d->in[GRAFT_LINEAR_RESIDUAL], *out = &d->out;
    bool geglu = d->attrs.act == GRAFT_ACT_GEGLU;
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_f32(out, "out", e);
    if (!st && !w->constant) st = graft_fail(e, GRAFT_E_UNSUPPORTED, "w is not constant");
    if (!st) st = graft_ref_check_rank(w, 2, "w", e);
    if (!st) st = graft_ref_check_dim(w->dim[1], graft_ref_row_len(x), "w: dimension 1", e);
    if (!st) st = graft_ref_check_rank(out, x->rank, "out", e);
    for (int i = 0; !st && i < x->rank - 1; i++)
        st = graft_ref_check_dim(out->dim[i], x->dim[i], "a leading dimension of out", e);
    if (!st)
        st = graft_ref_check_dim(w->dim[0], graft_ref_row_len(out) * (geglu ? 2 : 1),
                                 "w: dimension 0", e);
    if (!st) st = graft_ref_check_vector(&d->in[GRAFT_LINEAR_BIAS], w->dim[0], "bias", e);
    if (!st && graft_ref_present(residual)) {
        st = graft_ref_check_f32(residual, "residual", e);
        if (!st) st = graft_ref_check_same_shape(residual, out, "residual and out", e);
        if (!st && geglu) st = graft_fail(e, GRAFT_E_UNSUPPORTED, "a residual together with GEGLU");
    }
    if (!st && !geglu) st = graft_ref_check_act(d->attrs.act, e);
    if (!st) st = check_groups(d, e);
    return st ? st : check_norm(d, e);
}

/* w(O,K) to (K,O). */
static bool reorder(const graft_op_desc *d, int32_t input, const float *src, float *dst)
{
    if (input != GRAFT_LINEAR_W) return false;
    const graft_tensor_desc *w = &d->in[GRAFT_LINEAR_W];
    if (src) graft_ref_transpose(src, w->dim[1], w->dim[0], w->dim[1], dst);
    return true;
}

/* Outputs whose weights of 4 bits, or blocks, are unpacked at a time. */
enum { BLOCK = 64 };

static bool unpacks(const graft_op_desc *d)
{
    return d->attrs.quant == GRAFT_QUANT_INT4 || graft_quant_blocks(d->attrs.quant);
}

/* GEGLU's rows before they are halved, then quantized rows of x, or a block of unpacked weights and
 * one row of them. */
static uint64_t workspace_floats(const graft_op_desc *d)
{
    const int64_t *w = d->in[GRAFT_LINEAR_W].dim;
    uint64_t columns = d->attrs.act == GRAFT_ACT_GEGLU ? (uint64_t)w[0] : 0, more = 0;
    if (graft_quant_is_8(d->attrs.quant)) columns += (uint64_t)w[1];
    if (unpacks(d)) more = (uint64_t)(BLOCK * w[1] + graft_quant4_groups(w[1]) * GRAFT_QUANT_GROUP);
    return columns * GRAFT_REF_ROW_BLOCK + more;
}

/* Output o of packed weights, with what fills up its last group. */
static void unpack_row(const graft_op_desc *d, const void *packed, int64_t o, float *row)
{
    const graft_tensor_desc *t = &d->in[GRAFT_LINEAR_W];
    const int32_t type = graft_quant_blocks(d->attrs.quant);
    int64_t k = t->dim[1], groups = graft_quant4_groups(k);
    if (type) {
        const graft_blocks_weight w = {type, packed, t->dim[0], k};
        graft_blocks_to_f32(&w, o, 0, k, row);
        return;
    }
    const uint8_t *level = (const uint8_t *)packed + o * groups * GRAFT_QUANT_GROUP_BYTES;
    const float *scale = graft_quant4_scales(packed, t->dim[0], k) + o * groups;
    for (int64_t g = 0; g < groups; g++)
        graft_quant4_unpack(level + g * GRAFT_QUANT_GROUP_BYTES, scale[g],
                            row + g * GRAFT_QUANT_GROUP);
}

/* Outputs o … o + n of packed weights (O,K) as (K,n). */
static void unpack_block(const graft_op_desc *d, const void *packed, int64_t o, int64_t n, float *w)
{
    int64_t k = d->in[GRAFT_LINEAR_W].dim[1];
    float *row = w + BLOCK * k;
    for (int64_t c = 0; c < n; c++) {
        unpack_row(d, packed, o + c, row);
        for (int64_t i = 0; i < k; i++) w[i * n + c] = row[i];
    }
}

/* acc[r] += x[r] times the weights, for `count` rows. */
static void multiply(const graft_op_desc *d, const void *w, float *const *acc,
                     const float *const *x, int count, float *block)
{
    const graft_tensor_desc *t = &d->in[GRAFT_LINEAR_W];
    int64_t n = t->dim[0], k = t->dim[1];
    if (!unpacks(d)) {
        graft_ref_multiply_add(acc, x, count, k, w, n, n);
        return;
    }
    for (int64_t o = 0; o < n; o += BLOCK) {
        int64_t wide = n - o < BLOCK ? n - o : BLOCK;
        float *to[GRAFT_REF_ROW_BLOCK];
        for (int r = 0; r < count; r++) to[r] = acc[r] + o;
        unpack_block(d, w, o, wide, block);
        graft_ref_multiply_add(to, x, count, k, block, wide, wide);
    }
}

/* A row of x in levels of 8 bits, as floats. */
static void quantize_row(const graft_op_desc *d, const void *const *in, const float *x, float *y)
{
    const float *gamma = in[GRAFT_LINEAR_GAMMA];
    int64_t n = graft_ref_row_len(&d->in[GRAFT_LINEAR_X]);
    if (gamma)
        graft_ref_layer_norm(x, gamma, in[GRAFT_LINEAR_BETA], d->attrs.eps, y, n);
    else
        memcpy(y, x, (size_t)n * sizeof *y);
    if (d->attrs.groups) graft_hadamard(y, n, d->attrs.groups);
    graft_quant8_snap(d->attrs.quant, y, y, n, graft_quant_absmax(y, n));
}

static void finish_row(const graft_op_desc *d, const void *const *in, int64_t row,
                       const float *wide, float *y)
{
    int64_t n = graft_ref_row_len(&d->out);
    if (d->attrs.act == GRAFT_ACT_GEGLU) {
        for (int64_t i = 0; i < n; i++) y[i] = wide[i] * graft_ref_act(GRAFT_ACT_GELU, wide[n + i]);
        return;
    }
    const graft_tensor_desc *residual = &d->in[GRAFT_LINEAR_RESIDUAL];
    if (graft_ref_present(residual)) {
        const float *add =
            (const float *)in[GRAFT_LINEAR_RESIDUAL] + graft_ref_row_at(residual, row);
        for (int64_t i = 0; i < n; i++) y[i] += add[i];
    }
    graft_ref_act_row(d->attrs.act, y, n);
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    const graft_tensor_desc *x = &d->in[GRAFT_LINEAR_X];
    const float *bias = in[GRAFT_LINEAR_BIAS];
    bool geglu = d->attrs.act == GRAFT_ACT_GEGLU;
    int64_t rows = graft_ref_rows(x), k = graft_ref_row_len(x), n = d->in[GRAFT_LINEAR_W].dim[0];
    for (int64_t first = 0; first < rows; first += GRAFT_REF_ROW_BLOCK) {
        int count = (int)(rows - first < GRAFT_REF_ROW_BLOCK ? rows - first : GRAFT_REF_ROW_BLOCK);
        const float *from[GRAFT_REF_ROW_BLOCK];
        float *to[GRAFT_REF_ROW_BLOCK], *acc[GRAFT_REF_ROW_BLOCK];
        for (int r = 0; r < count; r++) {
            from[r] = (const float *)in[GRAFT_LINEAR_X] + graft_ref_row_at(x, first + r);
            if (graft_quant_is_8(d->attrs.quant)) {
                float *y = workspace + (geglu ? n * GRAFT_REF_ROW_BLOCK : 0) + r * k;
                quantize_row(d, in, from[r], y);
                from[r] = y;
            }
            to[r] = (float *)out + graft_ref_row_at(&d->out, first + r);
            acc[r] = geglu ? workspace + r * n : to[r];
            for (int64_t i = 0; i < n; i++) acc[r][i] = bias ? bias[i] : 0;
        }
        multiply(d, in[GRAFT_LINEAR_W], acc, from, count,
                 workspace + (geglu ? n * GRAFT_REF_ROW_BLOCK : 0));
        for (int r = 0; r < count; r++) finish_row(d, in, first + r, acc[r], to[r]);
    }
}

const graft_ref_op graft_ref_op_LINEAR = {
    .check = check,
    .run = GRAFT_REF_CODE(run),
    .workspace = GRAFT_REF_CODE(workspace_floats),
    .reorder = GRAFT_REF_CODE(reorder),
    .inputs = 6,
    .optional = 1u << GRAFT_LINEAR_BIAS | 1u << GRAFT_LINEAR_RESIDUAL | 1u << GRAFT_LINEAR_GAMMA |
                1u << GRAFT_LINEAR_BETA,
};

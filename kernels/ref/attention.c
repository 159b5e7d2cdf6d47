#include <string.h>

#include "kernels/quant.h"
#include "kernels/ref/ref.h"

static graft_status check_bias(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *bias = &d->in[GRAFT_ATTENTION_BIAS];
    if (!(d->attrs.shift >= 0) || (d->attrs.shift > 0 && !graft_ref_present(bias)))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "scores capped at %g without a bias",
                          (double)d->attrs.shift);
    if (!graft_ref_present(bias)) return GRAFT_OK;
    graft_status st = graft_ref_check_f32(bias, "bias", e);
    if (!st) st = graft_ref_check_rank(bias, 3, "bias", e);
    if (!st) st = graft_ref_check_dim(bias->dim[0], d->attrs.heads, "heads of bias", e);
    if (!st) st = graft_ref_check_dim(bias->dim[1], d->out.dim[1], "queries of bias", e);
    if (!st)
        st = graft_ref_check_dim(bias->dim[2], d->in[GRAFT_ATTENTION_K].dim[1], "keys of bias", e);
    if (!st && (d->attrs.causal || bias->constant))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "a bias that is constant or with causal");
    return st;
}

static graft_status check_count(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *count = &d->in[GRAFT_ATTENTION_COUNT];
    if (!graft_ref_present(count)) return GRAFT_OK;
    graft_status st = graft_ref_check_ids(count, "count", e);
    if (!st) st = graft_ref_check_rank(count, 1, "count", e);
    if (!st) st = graft_ref_check_dim(count->dim[0], d->out.dim[0], "batch of count", e);
    if (!st && (count->dtype != GRAFT_I32 || d->attrs.causal ||
                graft_ref_present(&d->in[GRAFT_ATTENTION_BIAS])))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "a count that is no int32, or with causal or bias");
    return st;
}

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *q = &d->in[GRAFT_ATTENTION_Q], *k = &d->in[GRAFT_ATTENTION_K];
    const graft_tensor_desc *v = &d->in[GRAFT_ATTENTION_V], *out = &d->out;
    graft_status st = graft_ref_check_f32(q, "q", e);
    if (!st) st = graft_ref_check_f32(k, "k", e);
    if (!st) st = graft_ref_check_f32(v, "v", e);
    if (!st) st = graft_ref_check_f32(out, "out", e);
    if (!st) st = graft_ref_check_rank(q, 3, "q", e);
    if (!st) st = graft_ref_check_rank(k, 3, "k", e);
    if (!st) st = graft_ref_check_same_shape(q, out, "q and out", e);
    if (!st) st = graft_ref_check_same_shape(k, v, "k and v", e);
    if (!st) st = graft_ref_check_dim(k->dim[0], q->dim[0], "batch of k", e);
    if (!st) st = graft_ref_check_dim(k->dim[2], q->dim[2], "channels of k", e);
    if (!st && (d->attrs.heads < 1 || q->dim[2] % d->attrs.heads))
        st = graft_fail(e, GRAFT_E_ARG, "%d heads do not divide %lld channels", (int)d->attrs.heads,
                        (long long)q->dim[2]);
    if (!st && d->attrs.causal && q->dim[1] != k->dim[1])
        st = graft_fail(e, GRAFT_E_ARG, "causal with %lld queries and %lld keys",
                        (long long)q->dim[1], (long long)k->dim[1]);
    if (!st) st = check_bias(d, e);
    return st ? st : check_count(d, e);
}

/* How many keys entry b of the batch has. */
static int64_t keys_of(const graft_op_desc *d, const void *const *in, int64_t b)
{
    const int64_t all = d->in[GRAFT_ATTENTION_K].dim[1];
    const int32_t *count = in[GRAFT_ATTENTION_COUNT];
    if (!graft_ref_present(&d->in[GRAFT_ATTENTION_COUNT])) return all;
    const int64_t n = count[b];
    return n < 1 ? 1 : n > all ? all : n;
}

/* Attention that is causal or has a bias is computed as it is. */
static bool is_quantized(const graft_op_desc *d)
{
    return d->attrs.quant != GRAFT_QUANT_NONE && !d->attrs.causal &&
           !graft_ref_present(&d->in[GRAFT_ATTENTION_BIAS]);
}

/* The transposed keys of one head, and the scores of a block of queries; quantized: then values, a
 * block of queries, and a row or a column. */
static uint64_t workspace_floats(const graft_op_desc *d)
{
    uint64_t keys = (uint64_t)d->in[GRAFT_ATTENTION_K].dim[1];
    uint64_t head_dim = (uint64_t)(d->out.dim[2] / d->attrs.heads), more = 0;
    if (is_quantized(d))
        more = (keys + GRAFT_REF_ROW_BLOCK) * head_dim + (keys > head_dim ? keys : head_dim);
    return keys * (head_dim + GRAFT_REF_ROW_BLOCK) + more;
}

static void snap(float *x, int64_t n)
{
    graft_quant8_snap(GRAFT_QUANT_INT8, x, x, n, graft_quant_absmax(x, n));
}

/* Keys (head_dim, keys) less their mean, every key to what its integers are worth. */
static void snap_keys(float *transposed, int64_t keys, int64_t head_dim, float *line)
{
    for (int64_t c = 0; c < head_dim; c++) {
        float *x = transposed + c * keys;
        double sum = 0;
        for (int64_t i = 0; i < keys; i++) sum += (double)x[i];
        for (int64_t i = 0; i < keys; i++) x[i] -= (float)(sum / (double)keys);
    }
    for (int64_t i = 0; i < keys; i++) {
        for (int64_t c = 0; c < head_dim; c++) line[c] = transposed[c * keys + i];
        snap(line, head_dim);
        for (int64_t c = 0; c < head_dim; c++) transposed[c * keys + i] = line[c];
    }
}

/* Values, every column to what its integers are worth, into dense rows. */
static void snap_values(const float *v, int64_t stride, int64_t keys, int64_t head_dim, float *line,
                        float *out)
{
    for (int64_t c = 0; c < head_dim; c++) {
        for (int64_t i = 0; i < keys; i++) line[i] = v[i * stride + c];
        snap(line, keys);
        for (int64_t i = 0; i < keys; i++) out[i * head_dim + c] = line[i];
    }
}

/* In place; scores past `n` (the future, when causal) become 0. `bias`: NULL, or what is added to
 * the scores, which approach `cap` before, where it is not 0. `levels`: what weights are rounded to
 * parts of, 0 when they are not. */
static void softmax(float *score, int64_t n, int64_t total, float scale, float cap,
                    const float *bias, float levels)
{
    float top = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        score[i] *= scale;
        if (cap > 0) score[i] = cap * tanhf(score[i] / cap);
        if (bias) score[i] += bias[i];
        if (score[i] > top) top = score[i];
    }
    for (int64_t i = 0; i < n; i++) {
        score[i] = expf(score[i] - top);
        if (levels > 0) score[i] = rintf(score[i] * levels) / levels;
        sum += (double)score[i];
    }
    for (int64_t i = 0; i < n; i++) score[i] = (float)((double)score[i] / sum);
    for (int64_t i = n; i < total; i++) score[i] = 0;
}

/* q, k, v, y, bias (or NULL): first elements of one head of one batch item. */
static void run_head(const graft_op_desc *d, const float *q, const float *k, const float *v,
                     int64_t keys, const float *bias, float *y, float *workspace)
{
    const graft_tensor_desc *dk = &d->in[GRAFT_ATTENTION_K];
    int64_t queries = d->out.dim[1], head_dim = d->out.dim[2] / d->attrs.heads;
    int64_t v_stride = d->in[GRAFT_ATTENTION_V].stride[1];
    bool quantized = is_quantized(d);
    float *transposed = workspace, *scores = workspace + keys * head_dim;
    float *values = scores + GRAFT_REF_ROW_BLOCK * keys, *rows = values + keys * head_dim;
    graft_ref_transpose(k, dk->stride[1], keys, head_dim, transposed);
    if (quantized) {
        float *line = rows + GRAFT_REF_ROW_BLOCK * head_dim;
        snap_keys(transposed, keys, head_dim, line);
        snap_values(v, v_stride, keys, head_dim, line, values);
        v = values;
        v_stride = head_dim;
    }
    for (int64_t first = 0; first < queries; first += GRAFT_REF_ROW_BLOCK) {
        int64_t left = queries - first;
        int count = (int)(left < GRAFT_REF_ROW_BLOCK ? left : GRAFT_REF_ROW_BLOCK);
        const float *from[GRAFT_REF_ROW_BLOCK], *weight[GRAFT_REF_ROW_BLOCK];
        float *score[GRAFT_REF_ROW_BLOCK], *to[GRAFT_REF_ROW_BLOCK];
        for (int r = 0; r < count; r++) {
            from[r] = q + (first + r) * d->in[GRAFT_ATTENTION_Q].stride[1];
            if (quantized) {
                memcpy(rows + r * head_dim, from[r], (size_t)head_dim * sizeof *rows);
                snap(rows + r * head_dim, head_dim);
                from[r] = rows + r * head_dim;
            }
            to[r] = y + (first + r) * d->out.stride[1];
            weight[r] = score[r] = scores + r * keys;
            for (int64_t i = 0; i < keys; i++) score[r][i] = 0;
            for (int64_t i = 0; i < head_dim; i++) to[r][i] = 0;
        }
        graft_ref_multiply_add(score, from, count, head_dim, transposed, keys, keys);
        for (int r = 0; r < count; r++)
            softmax(score[r], d->attrs.causal ? first + r + 1 : keys, keys, d->attrs.scale,
                    d->attrs.shift,
                    bias ? bias + (first + r) * d->in[GRAFT_ATTENTION_BIAS].stride[1] : NULL,
                    quantized ? GRAFT_QUANT_WEIGHT_LEVELS : 0);
        graft_ref_multiply_add(to, weight, count, keys, v, v_stride, head_dim);
    }
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    int64_t head_dim = d->out.dim[2] / d->attrs.heads;
    for (int64_t b = 0; b < d->out.dim[0]; b++)
        for (int64_t h = 0; h < d->attrs.heads; h++) {
            const float *first[3], *bias = in[GRAFT_ATTENTION_BIAS];
            if (bias) bias += h * d->in[GRAFT_ATTENTION_BIAS].stride[0];
            for (int i = 0; i < 3; i++)
                first[i] = (const float *)in[i] + b * d->in[i].stride[0] + h * head_dim;
            run_head(d, first[GRAFT_ATTENTION_Q], first[GRAFT_ATTENTION_K],
                     first[GRAFT_ATTENTION_V], keys_of(d, in, b), bias,
                     (float *)out + b * d->out.stride[0] + h * head_dim, workspace);
        }
}

const graft_ref_op graft_ref_op_ATTENTION = {.check = check,
                                             .run = GRAFT_REF_CODE(run),
                                             .workspace = GRAFT_REF_CODE(workspace_floats),
                                             .inputs = 5,
                                             .optional = 1u << GRAFT_ATTENTION_BIAS |
                                                         1u << GRAFT_ATTENTION_COUNT};

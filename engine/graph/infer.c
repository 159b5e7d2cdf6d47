/* Output shapes. One function an operator; the table at the end finds it. */
#include <string.h>

#include "engine/graph/graph.h"
#include "kernels/hadamard.h"
#include "kernels/rope.h"
#include "kernels/tokens.h"

typedef graft_status infer_fn(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                              int32_t *rank, graft_err *e);

static graft_status bad(graft_err *e, const char *op, const char *why)
{
    return graft_fail(e, GRAFT_E_ARG, "%s: %s", op, why);
}

static graft_status same_as(const graft_gvalue *v, int64_t *dim, int32_t *rank)
{
    *rank = v->rank;
    memcpy(dim, v->dim, sizeof v->dim);
    return GRAFT_OK;
}

static graft_status infer_same(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                               int32_t *rank, graft_err *e)
{
    (void)a;
    (void)e;
    return same_as(in[0], dim, rank);
}

static graft_status infer_conv2d(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                                 int32_t *rank, graft_err *e)
{
    const graft_gvalue *x = in[GRAFT_CONV_X], *w = in[GRAFT_CONV_W];
    if (!w || x->rank != 4 || w->rank != 4) return bad(e, "conv2d", "x and w must have rank 4");
    if (w->dim[1] != x->dim[3] || w->dim[2] != a->kernel_h || w->dim[3] != a->kernel_w)
        return graft_fail(e, GRAFT_E_ARG,
                          "conv2d: weight (%lld,%lld,%lld,%lld) does not fit %lld channels and a "
                          "%dx%d kernel",
                          (long long)w->dim[0], (long long)w->dim[1], (long long)w->dim[2],
                          (long long)w->dim[3], (long long)x->dim[3], a->kernel_h, a->kernel_w);
    if (a->stride_h < 1 || a->stride_w < 1) return bad(e, "conv2d", "stride below 1");
    int64_t h = x->dim[1], wd = x->dim[2];
    if (a->upsample == 2) {
        if (a->up_h > 2 * h || a->up_w > 2 * wd || a->up_h < 1 || a->up_w < 1)
            return bad(e, "conv2d", "upsampled size out of range");
        h = a->up_h;
        wd = a->up_w;
    }
    int64_t oh = h + a->pad_top + a->pad_bottom - a->kernel_h;
    int64_t ow = wd + a->pad_left + a->pad_right - a->kernel_w;
    if (oh < 0 || ow < 0) return bad(e, "conv2d", "the picture is smaller than the kernel");
    *rank = 4;
    dim[0] = x->dim[0];
    dim[1] = oh / a->stride_h + 1;
    dim[2] = ow / a->stride_w + 1;
    dim[3] = w->dim[0];
    return GRAFT_OK;
}

static graft_status infer_linear(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                                 int32_t *rank, graft_err *e)
{
    const graft_gvalue *x = in[GRAFT_LINEAR_X], *w = in[GRAFT_LINEAR_W];
    if (!w || x->rank < 1 || w->rank != 2) return bad(e, "linear", "w must have rank 2");
    if (x->dim[x->rank - 1] != w->dim[1])
        return graft_fail(e, GRAFT_E_ARG, "linear: weight (%lld,%lld) does not fit %lld columns",
                          (long long)w->dim[0], (long long)w->dim[1],
                          (long long)x->dim[x->rank - 1]);
    if (a->groups && (a->quant != GRAFT_QUANT_INT8 || !graft_hadamard_is(a->groups, w->dim[1])))
        return bad(e, "linear", "its rows cannot be turned in such groups");
    for (int i = GRAFT_LINEAR_GAMMA; i <= GRAFT_LINEAR_BETA; i++)
        if (!in[i] != !in[GRAFT_LINEAR_GAMMA] ||
            (in[i] && (in[i]->rank != 1 || in[i]->dim[0] != w->dim[1])))
            return bad(e, "linear", "gamma and beta must be vectors of as many columns");
    same_as(x, dim, rank);
    dim[x->rank - 1] = a->act == GRAFT_ACT_GEGLU ? w->dim[0] / 2 : w->dim[0];
    return GRAFT_OK;
}

static graft_status infer_group_norm(const graft_attrs *a, const graft_gvalue *const *in,
                                     int64_t *dim, int32_t *rank, graft_err *e)
{
    if (in[0]->rank != 4 || a->groups < 1 || in[0]->dim[3] % a->groups)
        return bad(e, "group_norm", "the channels must be a multiple of the groups");
    const graft_gvalue *m = in[GRAFT_NORM_MOMENTS];
    if (m && (m->rank != 3 || m->dim[0] != in[0]->dim[0] || m->dim[1] != a->groups ||
              m->dim[2] != 2 || m->dtype != GRAFT_F32))
        return bad(e, "group_norm", "moments must be float32 (N, groups, 2)");
    const graft_gvalue *add = in[GRAFT_NORM_CHANNEL_ADD];
    if (add && (add->rank != 2 || add->dim[0] != in[0]->dim[0] || add->dim[1] != in[0]->dim[3]))
        return bad(e, "group_norm", "channel_add must be (N, C)");
    return same_as(in[0], dim, rank);
}

static graft_status infer_attention(const graft_attrs *a, const graft_gvalue *const *in,
                                    int64_t *dim, int32_t *rank, graft_err *e)
{
    const graft_gvalue *q = in[0], *k = in[1], *v = in[2];
    if (!k || !v || q->rank != 3 || k->rank != 3 || v->rank != 3)
        return bad(e, "attention", "q, k and v must have rank 3");
    if (a->heads < 1 || q->dim[2] % a->heads || q->dim[2] != k->dim[2] || v->dim[2] != q->dim[2])
        return bad(e, "attention", "widths of q, k and v differ or are no multiple of the heads");
    if (k->dim[0] != q->dim[0] || v->dim[0] != q->dim[0] || k->dim[1] != v->dim[1])
        return bad(e, "attention", "batch or length of q, k and v differ");
    const graft_gvalue *bias = in[GRAFT_ATTENTION_BIAS];
    if (bias && (bias->rank != 3 || bias->dim[0] != a->heads || bias->dim[1] != q->dim[1] ||
                 bias->dim[2] != k->dim[1] || bias->dtype != GRAFT_F32 || a->causal))
        return bad(e, "attention", "bias must be float32 (heads, T, S), without causal");
    if (!(a->shift >= 0) || (a->shift > 0 && !bias))
        return bad(e, "attention", "scores are capped with a bias only, above 0");
    const graft_gvalue *count = in[GRAFT_ATTENTION_COUNT];
    if (count && (count->rank != 1 || count->dim[0] != q->dim[0] || count->dtype != GRAFT_I32 ||
                  a->causal || bias))
        return bad(e, "attention", "count must be int32 (N), without causal and bias");
    return same_as(q, dim, rank);
}

static graft_status infer_pair(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                               int32_t *rank, graft_err *e)
{
    (void)a;
    const graft_gvalue *x = in[0], *y = in[1];
    if (!y || y->rank != x->rank) return bad(e, "add", "ranks differ");
    for (int i = 0; i < x->rank; i++)
        if (y->dim[i] != x->dim[i] && y->dim[i] != 1) return bad(e, "add", "shapes differ");
    return same_as(x, dim, rank);
}

/* A row of float32 for each entry of x's batch. */
static bool is_row_each(const graft_gvalue *v, const graft_gvalue *x)
{
    return v && x->rank == 3 && v->rank == 3 && v->dim[0] == x->dim[0] && v->dim[1] == 1 &&
           v->dim[2] == x->dim[2] && v->dtype == GRAFT_F32;
}

static graft_status infer_mul(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                              int32_t *rank, graft_err *e)
{
    const graft_gvalue *x = in[GRAFT_MUL_A], *residual = in[GRAFT_MUL_RESIDUAL];
    if (!residual) return infer_pair(a, in, dim, rank, e);
    if (!is_row_each(in[GRAFT_MUL_B], x) || residual->rank != 3)
        return bad(e, "mul", "a residual needs a(N,T,C) and a float32 b(N,1,C)");
    for (int i = 0; i < 3; i++)
        if (residual->dim[i] != x->dim[i]) return bad(e, "mul", "the residual has another shape");
    return same_as(x, dim, rank);
}

static graft_status infer_layer_norm(const graft_attrs *a, const graft_gvalue *const *in,
                                     int64_t *dim, int32_t *rank, graft_err *e)
{
    (void)a;
    const graft_gvalue *x = in[GRAFT_NORM_X], *gamma = in[GRAFT_NORM_GAMMA];
    const graft_gvalue *beta = in[GRAFT_NORM_BETA];
    if (!gamma || !beta || gamma->rank != beta->rank)
        return bad(e, "layer_norm", "gamma and beta must be alike");
    if (gamma->rank != 1 && (!is_row_each(gamma, x) || !is_row_each(beta, x)))
        return bad(e, "layer_norm", "gamma and beta are neither (C) nor float32 (N,1,C)");
    return same_as(x, dim, rank);
}

static graft_status infer_rms_norm(const graft_attrs *a, const graft_gvalue *const *in,
                                   int64_t *dim, int32_t *rank, graft_err *e)
{
    const graft_gvalue *x = in[GRAFT_NORM_X], *gamma = in[GRAFT_NORM_GAMMA];
    int64_t parts = a->heads;
    if (!gamma || gamma->rank != 1 || parts < 1 || x->dim[x->rank - 1] % parts ||
        gamma->dim[0] != x->dim[x->rank - 1] / parts)
        return bad(e, "rms_norm", "gamma must have the width of one of the heads");
    return same_as(x, dim, rank);
}

static graft_status infer_join(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                               int32_t *rank, graft_err *e)
{
    (void)a;
    const graft_gvalue *x = in[0], *y = in[1];
    if (!y || x->rank != 3 || y->rank != 3 || x->dim[0] != y->dim[0] || x->dim[2] != y->dim[2])
        return bad(e, "join", "needs (N,T,C) and (N,S,C)");
    same_as(x, dim, rank);
    dim[1] += y->dim[1];
    return GRAFT_OK;
}

static graft_status infer_rope(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                               int32_t *rank, graft_err *e)
{
    const graft_gvalue *x = in[0];
    graft_rope r;
    if (x->rank != 3) return bad(e, "rope", "needs (N,T,C)");
    if (!graft_rope_of(a, x->dim[1], x->dim[2], &r))
        return bad(e, "rope", "its grid or what is turned of a head does not fit");
    return same_as(x, dim, rank);
}

static graft_status infer_concat(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                                 int32_t *rank, graft_err *e)
{
    (void)a;
    const graft_gvalue *x = in[0], *y = in[1];
    if (!y || y->rank != x->rank || x->rank < 1) return bad(e, "concat", "ranks differ or are 0");
    for (int i = 0; i + 1 < x->rank; i++)
        if (y->dim[i] != x->dim[i])
            return graft_fail(e, GRAFT_E_ARG, "concat: dimension %d is %lld and %lld", i,
                              (long long)x->dim[i], (long long)y->dim[i]);
    same_as(x, dim, rank);
    dim[x->rank - 1] += y->dim[x->rank - 1];
    return GRAFT_OK;
}

static graft_status infer_upsample(const graft_attrs *a, const graft_gvalue *const *in,
                                   int64_t *dim, int32_t *rank, graft_err *e)
{
    if (in[0]->rank != 4 || a->up_h < 1 || a->up_w < 1)
        return bad(e, "upsample", "needs rank 4 and a size");
    same_as(in[0], dim, rank);
    dim[1] = a->up_h;
    dim[2] = a->up_w;
    return GRAFT_OK;
}

static graft_status infer_embedding(const graft_attrs *a, const graft_gvalue *const *in,
                                    int64_t *dim, int32_t *rank, graft_err *e)
{
    (void)a;
    if (!in[1] || in[1]->rank != 2 || in[0]->rank >= GRAFT_MAX_RANK || in[0]->dtype != GRAFT_I32)
        return bad(e, "embedding", "needs int32 ids and a table of rank 2");
    same_as(in[0], dim, rank);
    dim[(*rank)++] = in[1]->dim[1];
    return GRAFT_OK;
}

static graft_status infer_timestep(const graft_attrs *a, const graft_gvalue *const *in,
                                   int64_t *dim, int32_t *rank, graft_err *e)
{
    if (in[0]->rank != 1 || a->up_w < 2 || a->up_w % 2)
        return bad(e, "timestep_embedding", "needs (N) and an even width");
    *rank = 2;
    dim[0] = in[0]->dim[0];
    dim[1] = a->up_w;
    return GRAFT_OK;
}

static graft_status infer_geglu(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                                int32_t *rank, graft_err *e)
{
    (void)a;
    same_as(in[0], dim, rank);
    if (in[0]->rank < 1 || dim[*rank - 1] % 2) return bad(e, "geglu", "needs an even width");
    dim[*rank - 1] /= 2;
    return GRAFT_OK;
}

static graft_status infer_gather_row(const graft_attrs *a, const graft_gvalue *const *in,
                                     int64_t *dim, int32_t *rank, graft_err *e)
{
    (void)a;
    if (!in[1] || in[0]->rank != 3 || in[1]->rank != 1 || in[1]->dim[0] != in[0]->dim[0])
        return bad(e, "gather_row", "needs (N,T,C) and (N)");
    *rank = 2;
    dim[0] = in[0]->dim[0];
    dim[1] = in[0]->dim[2];
    return GRAFT_OK;
}

static graft_status infer_prelu(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                                int32_t *rank, graft_err *e)
{
    (void)a;
    const graft_gvalue *x = in[GRAFT_PRELU_X], *slope = in[GRAFT_PRELU_SLOPE];
    if (!slope || x->rank < 1 || slope->rank != 1 || slope->dim[0] != x->dim[x->rank - 1])
        return bad(e, "prelu", "needs a slope for each channel");
    return same_as(x, dim, rank);
}

static graft_status infer_factor(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                                 int32_t *rank, graft_err *e)
{
    (void)a;
    const graft_gvalue *x = in[GRAFT_FACTOR_X], *factor = in[GRAFT_FACTOR];
    if (!factor || x->rank != 4 || factor->rank != 1 || factor->dim[0] != 1 ||
        factor->dtype != GRAFT_F32)
        return bad(e, "a scale of parts", "needs (N,H,W,C) and one float32");
    return same_as(x, dim, rank);
}

static graft_status infer_match(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                                int32_t *rank, graft_err *e)
{
    graft_tokens t;
    if (in[0]->rank != 3 || !graft_tokens_of(a, in[0]->dim[1], &t))
        return bad(e, "match_tokens", "needs (N,T,C), its grid, and how many tokens are left");
    *rank = 2;
    dim[0] = in[0]->dim[0];
    dim[1] = in[0]->dim[1];
    return GRAFT_OK;
}

/* x and a table of numbers for each entry. */
static bool with_table(const graft_gvalue *const *in)
{
    return in[1] && in[0]->rank == 3 && in[1]->rank == 2 && in[1]->dtype == GRAFT_I32 &&
           in[1]->dim[0] == in[0]->dim[0];
}

static graft_status infer_merge(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                                int32_t *rank, graft_err *e)
{
    if (!with_table(in) || in[1]->dim[1] != in[0]->dim[1] || a->groups < 1)
        return bad(e, "merge_tokens", "needs (N,T,C), int32 (N,T), and how many are left");
    same_as(in[0], dim, rank);
    dim[1] = a->groups;
    return GRAFT_OK;
}

static graft_status infer_spread(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                                 int32_t *rank, graft_err *e)
{
    (void)a;
    if (!with_table(in)) return bad(e, "spread_tokens", "needs (N,M,C) and int32 (N,T)");
    same_as(in[0], dim, rank);
    dim[1] = in[1]->dim[1];
    return GRAFT_OK;
}

static graft_status infer_route(const graft_attrs *a, const graft_gvalue *const *in, int64_t *dim,
                                int32_t *rank, graft_err *e)
{
    const graft_gvalue *x = in[0];
    if (x->rank < 1 || a->groups < 1 || a->groups > x->dim[x->rank - 1])
        return bad(e, "route", "needs a choice of as many as there are, or fewer");
    return same_as(x, dim, rank);
}

static infer_fn *find(graft_op op)
{
    switch (op) {
    case GRAFT_OP_CONV2D:
        return infer_conv2d;
    case GRAFT_OP_LINEAR:
        return infer_linear;
    case GRAFT_OP_GROUP_NORM:
        return infer_group_norm;
    case GRAFT_OP_ATTENTION:
        return infer_attention;
    case GRAFT_OP_ADD:
        return infer_pair;
    case GRAFT_OP_MUL:
        return infer_mul;
    case GRAFT_OP_LAYER_NORM:
        return infer_layer_norm;
    case GRAFT_OP_RMS_NORM:
        return infer_rms_norm;
    case GRAFT_OP_JOIN:
        return infer_join;
    case GRAFT_OP_ROPE:
        return infer_rope;
    case GRAFT_OP_CONCAT:
        return infer_concat;
    case GRAFT_OP_UPSAMPLE:
        return infer_upsample;
    case GRAFT_OP_EMBEDDING:
        return infer_embedding;
    case GRAFT_OP_TIMESTEP:
        return infer_timestep;
    case GRAFT_OP_GEGLU:
        return infer_geglu;
    case GRAFT_OP_GATHER_ROW:
        return infer_gather_row;
    case GRAFT_OP_PRELU:
        return infer_prelu;
    case GRAFT_OP_MEAN_SCALE:
    case GRAFT_OP_LOW_SCALE:
        return infer_factor;
    case GRAFT_OP_MATCH_TOKENS:
        return infer_match;
    case GRAFT_OP_MERGE_TOKENS:
        return infer_merge;
    case GRAFT_OP_SPREAD_TOKENS:
        return infer_spread;
    case GRAFT_OP_ROUTE:
        return infer_route;
    case GRAFT_OP_ACT:
    case GRAFT_OP_SCALE:
    case GRAFT_OP_COPY:
        return infer_same;
    default:
        return NULL;
    }
}

graft_status graft_op_infer(graft_op op, const graft_attrs *a, const graft_gvalue *const *in,
                            int64_t out_dim[GRAFT_MAX_RANK], int32_t *out_rank, graft_err *e)
{
    infer_fn *f = find(op);
    if (!f) return graft_fail(e, GRAFT_E_UNSUPPORTED, "operator %d has no shape rule", op);
    if (!in[0]) return graft_fail(e, GRAFT_E_ARG, "%s: no first input", graft_op_name(op));
    memset(out_dim, 0, GRAFT_MAX_RANK * sizeof *out_dim);
    return f(a, in, out_dim, out_rank, e);
}

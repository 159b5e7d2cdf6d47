#include "kernels/ref/ref.h"
#include "kernels/tokens.h"

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *x = &d->in[0], *out = &d->out;
    graft_tokens t;
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_ids(out, "out", e);
    if (!st) st = graft_ref_check_rank(x, 3, "x", e);
    if (!st) st = graft_ref_check_rank(out, 2, "out", e);
    if (!st) st = graft_ref_check_dim(out->dim[0], x->dim[0], "batch of out", e);
    if (!st) st = graft_ref_check_dim(out->dim[1], x->dim[1], "tokens of out", e);
    if (st) return st;
    if (x->constant || out->dtype != GRAFT_I32)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "x is constant, or out no int32");
    if (!graft_tokens_of(&d->attrs, x->dim[1], &t))
        return graft_fail(e, GRAFT_E_ARG, "%d of %lld tokens are left, in a grid of %d x %d",
                          (int)d->attrs.groups, (long long)x->dim[1], (int)d->attrs.up_h,
                          (int)d->attrs.up_w);
    return GRAFT_OK;
}

static double product(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* The largest cosine that token s has with a target, and which one that is; where none is a number
 * the first one. *target is s before. */
static float best_of(const graft_op_desc *d, const graft_tokens *t, const float *x, int64_t s,
                     int64_t *target)
{
    const int64_t n = d->in[0].dim[2], stride = d->in[0].stride[1];
    const double own = product(x + s * stride, x + s * stride, n);
    float best = -INFINITY;
    for (int64_t i = 0; i < d->in[0].dim[1]; i++) {
        if (!graft_tokens_is_target(t, i)) continue;
        const double other = product(x + i * stride, x + i * stride, n);
        const double both = sqrt(own) * sqrt(other);
        const double is = both > 0 ? product(x + s * stride, x + i * stride, n) / both : 0;
        if (*target == s) *target = i;
        if (!((float)is > best)) continue;
        best = (float)is;
        *target = i;
    }
    return best;
}

/* Whether fewer than `merged` sources are ahead of this one. */
static bool is_merged(const float *best, const bool *target, int64_t tokens, int64_t s,
                      int64_t merged)
{
    int64_t ahead = 0;
    for (int64_t i = 0; i < tokens; i++)
        ahead += !target[i] && (best[i] > best[s] || (best[i] == best[s] && i < s));
    return ahead < merged;
}

/* Of each token its best cosine, its target and whether it is one. */
static uint64_t workspace_floats(const graft_op_desc *d)
{
    const uint64_t tokens = (uint64_t)d->in[0].dim[1];
    return tokens * (1 + sizeof(int64_t) / sizeof(float) + 1) + 2;
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    const int64_t tokens = d->in[0].dim[1];
    int64_t *to = (int64_t *)workspace;
    float *best = (float *)(to + tokens);
    bool *target = (bool *)(best + tokens);
    graft_tokens t;
    if (!graft_tokens_of(&d->attrs, tokens, &t)) return;
    for (int64_t b = 0; b < d->out.dim[0]; b++) {
        const float *x = (const float *)in[0] + b * d->in[0].stride[0];
        int32_t *table = (int32_t *)out + b * d->out.stride[0], row = 0;
        for (int64_t i = 0; i < tokens; i++) {
            target[i] = graft_tokens_is_target(&t, i);
            to[i] = i;
            best[i] = target[i] ? 0 : best_of(d, &t, x, i, &to[i]);
        }
        for (int64_t i = 0; i < tokens; i++) {
            if (target[i] || !is_merged(best, target, tokens, i, t.merged)) to[i] = i;
            if (to[i] == i) table[i] = row++;
        }
        for (int64_t i = 0; i < tokens; i++)
            if (to[i] != i) table[i] = table[to[i]];
    }
}

const graft_ref_op graft_ref_op_MATCH_TOKENS = {.check = check,
                                                .run = GRAFT_REF_CODE(run),
                                                .workspace = GRAFT_REF_CODE(workspace_floats),
                                                .inputs = 1};

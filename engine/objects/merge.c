/* Merging models. Nothing is computed here: the weight set notes of which files it is the sum, and
 * a tensor is summed up when a graph is bound to it. */
#include <string.h>

#include "engine/objects/alike.h"
#include "engine/objects/objects.h"

static const graft_merge_ratio whole = {1.0, 1.0, 1.0};

static void by_region(const graft_merge_ratio *r, double out[GRAFT_REGIONS])
{
    out[GRAFT_REGION_FIRST] = r->input;
    out[GRAFT_REGION_MIDDLE] = r->middle;
    out[GRAFT_REGION_LAST] = r->out;
}

static graft_status check_ratio(const graft_merge_ratio *r, graft_err *e)
{
    graft_status st = graft_alike_factor("the ratio of the input blocks", r->input, e);
    if (!st) st = graft_alike_factor("the ratio of the middle block", r->middle, e);
    if (!st) st = graft_alike_factor("the ratio of the output blocks", r->out, e);
    return st;
}

/* a times its factors plus b times its. */
static graft_status sum_models(const graft_model *a, const graft_merge_ratio *of_a,
                               const graft_model *b, const graft_merge_ratio *of_b,
                               graft_model **out, graft_err *e)
{
    double fa[GRAFT_REGIONS], fb[GRAFT_REGIONS];
    graft_weights *sum;
    if (memcmp(&a->arch, &b->arch, sizeof a->arch) != 0)
        return graft_alike_fail(a->weights, b->weights,
                                graft_safetensors_path(graft_weights_file(b->weights)),
                                "its attention has other heads", e);
    by_region(of_a, fa);
    by_region(of_b, fb);
    graft_status st = graft_weights_sum(a->weights, fa, b->weights, fb, &sum, e);
    if (st) return st;
    graft_model *n = graft_model_copy(a);
    if (!n) {
        graft_weights_release(sum);
        return graft_fail_nomem(e, "model");
    }
    graft_weights_release(n->weights); /* the input's, which holds it */
    n->weights = sum;
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_merge(const graft_model *a, const graft_model *b,
                               const graft_merge_ratio *r, graft_model **out, graft_err *e)
{
    graft_status st = check_ratio(r, e);
    if (st) return st;
    const graft_merge_ratio rest = {1.0 - r->input, 1.0 - r->middle, 1.0 - r->out};
    return sum_models(a, r, b, &rest, out, e);
}

graft_status graft_model_merge_add(const graft_model *a, const graft_model *b, graft_model **out,
                                   graft_err *e)
{
    return sum_models(a, &whole, b, &whole, out, e);
}

graft_status graft_model_merge_subtract(const graft_model *a, const graft_model *b,
                                        double multiplier, graft_model **out, graft_err *e)
{
    const graft_merge_ratio plus = {multiplier, multiplier, multiplier};
    const graft_merge_ratio minus = {-multiplier, -multiplier, -multiplier};
    graft_status st = graft_alike_factor("the multiplier", multiplier, e);
    return st ? st : sum_models(a, &plus, b, &minus, out, e);
}

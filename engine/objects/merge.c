/* Merging models and text encoders. Nothing is computed here: the weight set notes of which files
 * it is the sum, and a tensor is summed up when a graph is bound to it. */
#include <math.h>
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

static graft_status check_number(const char *name, double v, graft_err *e)
{
    /* Larger ones would leave float32's range with the first weights. */
    if (isfinite(v) && fabs(v) <= 1e6) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "%s must be a number between -1e6 and 1e6", name);
}

static graft_status check_ratio(const graft_merge_ratio *r, graft_err *e)
{
    graft_status st = check_number("the ratio of the input blocks", r->input, e);
    if (!st) st = check_number("the ratio of the middle block", r->middle, e);
    if (!st) st = check_number("the ratio of the output blocks", r->out, e);
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
    graft_status st = check_number("the multiplier", multiplier, e);
    return st ? st : sum_models(a, &plus, b, &minus, out, e);
}

/* ------------------------------------------------------------------ text encoders */

static graft_status check_encoders(const graft_clip *a, const graft_clip *b, graft_err *e)
{
    graft_status st = graft_clip_there(a, e);
    if (!st) st = graft_clip_there(b, e);
    if (st) return st;
    if (!a->n_encoders || !b->n_encoders)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "text encoders without CLIP cannot be merged");
    if (a->n_encoders != b->n_encoders)
        return graft_fail(
            e, GRAFT_E_ARG, "%s has another architecture: %zu text encoder%s where %zu belong%s",
            graft_safetensors_path(graft_weights_file(b->encoder[0].weights)), b->n_encoders,
            b->n_encoders == 1 ? "" : "s", a->n_encoders, a->n_encoders == 1 ? "s" : "");
    for (size_t i = 0; i < a->n_encoders; i++) {
        const graft_encoder *x = &a->encoder[i], *y = &b->encoder[i];
        if (memcmp(&x->arch, &y->arch, sizeof x->arch) != 0)
            return graft_alike_fail(x->weights, y->weights,
                                    graft_safetensors_path(graft_weights_file(y->weights)),
                                    "it is described otherwise in its file", e);
    }
    return GRAFT_OK;
}

static graft_status sum_clips(const graft_clip *a, double fa, const graft_clip *b, double fb,
                              graft_clip **out, graft_err *e)
{
    const double of_a[GRAFT_REGIONS] = {fa, fa, fa}, of_b[GRAFT_REGIONS] = {fb, fb, fb};
    graft_status st = check_encoders(a, b, e);
    if (st) return st;
    graft_clip *n = graft_clip_copy(a);
    if (!n) return graft_fail_nomem(e, "text encoder");
    for (size_t i = 0; i < n->n_encoders && !st; i++) {
        graft_weights *sum;
        st = graft_weights_sum(a->encoder[i].weights, of_a, b->encoder[i].weights, of_b, &sum, e);
        if (st) break;
        graft_weights_release(n->encoder[i].weights);
        n->encoder[i].weights = sum;
    }
    if (st)
        graft_clip_release(n);
    else
        *out = n;
    return st;
}

graft_status graft_clip_merge(const graft_clip *a, const graft_clip *b, double ratio,
                              graft_clip **out, graft_err *e)
{
    graft_status st = check_number("the ratio", ratio, e);
    return st ? st : sum_clips(a, ratio, b, 1.0 - ratio, out, e);
}

graft_status graft_clip_merge_add(const graft_clip *a, const graft_clip *b, graft_clip **out,
                                  graft_err *e)
{
    return sum_clips(a, 1.0, b, 1.0, out, e);
}

graft_status graft_clip_merge_subtract(const graft_clip *a, const graft_clip *b, double multiplier,
                                       graft_clip **out, graft_err *e)
{
    graft_status st = check_number("the multiplier", multiplier, e);
    return st ? st : sum_clips(a, multiplier, b, -multiplier, out, e);
}

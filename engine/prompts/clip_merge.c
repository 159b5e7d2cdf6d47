/* Merging text encoders, and factors of their attention, as objects/merge.c does models. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/objects/alike.h"
#include "engine/objects/objects.h"

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
    graft_status st = graft_alike_factor("the ratio", ratio, e);
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
    graft_status st = graft_alike_factor("the multiplier", multiplier, e);
    return st ? st : sum_clips(a, multiplier, b, -multiplier, out, e);
}

/* In transformers' names a layer each; in OpenCLIP's queries, keys and values are the thirds of one
 * matrix. */
static void share_of_attention(const void *ctx, const char *name, double share[GRAFT_THIRDS])
{
    const graft_attention_factors *f = ctx;
    const double in[GRAFT_THIRDS] = {f->q, f->k, f->v};
    static const char *const layer[GRAFT_THIRDS] = {"q", "k", "v"};
    double factor = 1.0;
    bool joined =
        graft_str_ends(name, ".attn.in_proj_weight") || graft_str_ends(name, ".attn.in_proj_bias");
    for (int k = 0; k < GRAFT_THIRDS; k++) {
        char weight[48], bias[48];
        snprintf(weight, sizeof weight, ".self_attn.%s_proj.weight", layer[k]);
        snprintf(bias, sizeof bias, ".self_attn.%s_proj.bias", layer[k]);
        if (graft_str_ends(name, weight) || graft_str_ends(name, bias)) factor = in[k];
    }
    if (graft_str_ends(name, "attn.out_proj.weight") || graft_str_ends(name, "attn.out_proj.bias"))
        factor = f->out;
    for (int k = 0; k < GRAFT_THIRDS; k++) share[k] = joined ? in[k] : factor;
}

graft_status graft_clip_multiply_attention(const graft_clip *c,
                                           const graft_attention_factors *factors, graft_clip **out,
                                           graft_err *e)
{
    const graft_shares shares = {share_of_attention, factors};
    graft_status st = graft_clip_there(c, e);
    if (!st) st = graft_alike_attention(factors, e);
    if (!st && !c->n_encoders)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                        "the attention of text encoders other than CLIP cannot be multiplied");
    if (st) return st;
    graft_clip *n = graft_clip_copy(c);
    if (!n) return graft_fail_nomem(e, "text encoder");
    for (size_t i = 0; i < n->n_encoders && !st; i++) {
        graft_weights *weights;
        st = graft_weights_mix(c->encoder[i].weights, &shares, NULL, NULL, &weights, e);
        if (st) break;
        graft_weights_release(n->encoder[i].weights);
        n->encoder[i].weights = weights;
    }
    if (st)
        graft_clip_release(n);
    else
        *out = n;
    return st;
}

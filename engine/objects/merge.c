/* Merging models. Nothing is computed here: the weight set notes of which files it is the sum, and
 * a tensor is summed up when a graph is bound to it. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/objects/alike.h"
#include "engine/objects/objects.h"

static void share_of_all(const void *ctx, const char *name, double share[GRAFT_THIRDS])
{
    (void)name;
    for (int k = 0; k < GRAFT_THIRDS; k++) share[k] = *(const double *)ctx;
}

/* Takes over `weights`. */
static graft_status with_weights(const graft_model *m, graft_weights *weights, graft_model **out,
                                 graft_err *e)
{
    graft_model *n = graft_model_copy(m);
    if (!n) {
        graft_weights_release(weights);
        return graft_fail_nomem(e, "model");
    }
    graft_weights_release(n->weights); /* the input's, which holds it */
    n->weights = weights;
    *out = n;
    return GRAFT_OK;
}

static graft_status mix_models(const graft_model *a, const graft_shares *of_a, const graft_model *b,
                               const graft_shares *of_b, graft_model **out, graft_err *e)
{
    graft_weights *sum;
    if (memcmp(&a->arch, &b->arch, sizeof a->arch) != 0)
        return graft_alike_fail(a->weights, b->weights,
                                graft_safetensors_path(graft_weights_file(b->weights)),
                                "its attention has other heads", e);
    graft_status st = graft_weights_mix(a->weights, of_a, b->weights, of_b, &sum, e);
    return st ? st : with_weights(a, sum, out, e);
}

static graft_status sum_models(const graft_model *a, double fa, const graft_model *b, double fb,
                               graft_model **out, graft_err *e)
{
    return mix_models(a, &(graft_shares){share_of_all, &fa}, b, &(graft_shares){share_of_all, &fb},
                      out, e);
}

/* ------------------------------------------------------------------ by parts */

typedef struct merge_parts {
    const graft_merge_part *part;
    size_t n;
} merge_parts;

static double ratio_of(const merge_parts *p, const char *name)
{
    const graft_merge_part *best = p->part;
    size_t longest = 0;
    for (size_t i = 0; i < p->n; i++) {
        size_t length = strlen(p->part[i].prefix);
        if (length <= longest || !graft_str_starts(name, p->part[i].prefix)) continue;
        best = &p->part[i];
        longest = length;
    }
    return best->ratio;
}

static void share_of_part(const void *ctx, const char *name, double share[GRAFT_THIRDS])
{
    double ratio = ratio_of(ctx, name);
    for (int k = 0; k < GRAFT_THIRDS; k++) share[k] = ratio;
}

static void rest_of_part(const void *ctx, const char *name, double share[GRAFT_THIRDS])
{
    double ratio = ratio_of(ctx, name);
    for (int k = 0; k < GRAFT_THIRDS; k++) share[k] = 1.0 - ratio;
}

graft_status graft_model_merge_parts(const graft_model *a, const graft_model *b,
                                     const graft_merge_part *part, size_t n, graft_model **out,
                                     graft_err *e)
{
    const merge_parts parts = {part, n};
    if (!n) return graft_fail(e, GRAFT_E_ARG, "a merge by parts needs one");
    for (size_t i = 0; i < n; i++) {
        char name[96];
        snprintf(name, sizeof name, "the ratio of %s", part[i].prefix);
        graft_status st = graft_alike_factor(name, part[i].ratio, e);
        if (st) return st;
    }
    return mix_models(a, &(graft_shares){share_of_part, &parts}, b,
                      &(graft_shares){rest_of_part, &parts}, out, e);
}

static graft_status check_ratio(const graft_merge_ratio *r, graft_err *e)
{
    graft_status st = graft_alike_factor("the ratio of the input blocks", r->input, e);
    if (!st) st = graft_alike_factor("the ratio of the middle block", r->middle, e);
    if (!st) st = graft_alike_factor("the ratio of the output blocks", r->out, e);
    return st;
}

graft_status graft_model_merge(const graft_model *a, const graft_model *b,
                               const graft_merge_ratio *r, graft_model **out, graft_err *e)
{
    const graft_merge_part part[] = {
        {"", r->input}, {"middle_block.", r->middle}, {"output_blocks.", r->out}, {"out.", r->out}};
    graft_status st = check_ratio(r, e);
    return st ? st : graft_model_merge_parts(a, b, part, sizeof part / sizeof *part, out, e);
}

/* ------------------------------------------------------------------ all of both */

graft_status graft_model_merge_add(const graft_model *a, const graft_model *b, graft_model **out,
                                   graft_err *e)
{
    return sum_models(a, 1.0, b, 1.0, out, e);
}

graft_status graft_model_merge_subtract(const graft_model *a, const graft_model *b,
                                        double multiplier, graft_model **out, graft_err *e)
{
    graft_status st = graft_alike_factor("the multiplier", multiplier, e);
    return st ? st : sum_models(a, multiplier, b, -multiplier, out, e);
}

/* ------------------------------------------------------------------ attention */

typedef struct multiplied {
    const char *attention; /* "attn1." */
    const graft_attention_factors *factors;
} multiplied;

static void share_of_attention(const void *ctx, const char *name, double share[GRAFT_THIRDS])
{
    const multiplied *m = ctx;
    const graft_attention_factors *f = m->factors;
    const struct {
        const char *layer;
        double factor;
    } known[] = {{"to_q", f->q}, {"to_k", f->k}, {"to_v", f->v}, {"to_out.0", f->out}};
    double factor = 1.0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int bias = 0; bias < 2; bias++) {
            char ending[64];
            snprintf(ending, sizeof ending, ".%s%s.%s", m->attention, known[i].layer,
                     bias ? "bias" : "weight");
            if (graft_str_ends(name, ending)) factor = known[i].factor;
        }
    for (int k = 0; k < GRAFT_THIRDS; k++) share[k] = factor;
}

graft_status graft_model_multiply_attention(const graft_model *m, bool cross,
                                            const graft_attention_factors *factors,
                                            graft_model **out, graft_err *e)
{
    const multiplied of = {cross ? "attn2." : "attn1.", factors};
    graft_weights *weights;
    graft_status st = graft_alike_attention(factors, e);
    if (!st)
        st = graft_weights_mix(m->weights, &(graft_shares){share_of_attention, &of}, NULL, NULL,
                               &weights, e);
    return st ? st : with_weights(m, weights, out, e);
}

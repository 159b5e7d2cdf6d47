#include "engine/objects/alike.h"

#include <math.h>
#include <string.h>

/* The first tensor of `own` that `other` lacks or has in another shape. Parts of tensors say how a
 * file stores them, which makes no other architecture. */
static const graft_st_tensor *first_difference(const graft_weights *own, const graft_weights *other,
                                               const graft_st_tensor **there)
{
    const graft_safetensors *f = graft_weights_file(own);
    const char *prefix = graft_weights_prefix(own);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        if (t->part || strncmp(t->name, prefix, strlen(prefix)) != 0) continue;
        const graft_st_tensor *o = graft_weights_find(other, t->name + strlen(prefix));
        *there = o;
        if (!o || o->rank != t->rank ||
            memcmp(o->shape, t->shape, (size_t)t->rank * sizeof *t->shape) != 0)
            return t;
    }
    return NULL;
}

graft_status graft_alike_fail(const graft_weights *own, const graft_weights *other, const char *who,
                              const char *else_why, graft_err *e)
{
    const graft_st_tensor *o;
    const graft_st_tensor *t = first_difference(own, other, &o);
    if (t && o) {
        char there[160], wanted[160];
        return graft_fail(e, GRAFT_E_ARG,
                          "%s has another architecture: %s has the shape %s where %s belongs", who,
                          graft_st_called(o),
                          graft_safetensors_shape_text(o->shape, o->rank, there, sizeof there),
                          graft_safetensors_shape_text(t->shape, t->rank, wanted, sizeof wanted));
    }
    if (t)
        return graft_fail(e, GRAFT_E_ARG, "%s has another architecture: %s is missing", who,
                          t->name);
    t = first_difference(other, own, &o);
    if (t)
        return graft_fail(e, GRAFT_E_ARG, "%s has another architecture: it has %s in addition", who,
                          graft_st_called(t));
    return graft_fail(e, GRAFT_E_ARG, "%s has another architecture: %s", who, else_why);
}

graft_status graft_alike_factor(const char *name, double v, graft_err *e)
{
    /* Larger ones would leave float32's range with the first weights. */
    if (isfinite(v) && fabs(v) <= 1e6) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "%s must be a number between -1e6 and 1e6", name);
}

graft_status graft_alike_attention(const graft_attention_factors *f, graft_err *e)
{
    graft_status st = graft_alike_factor("the factor of queries", f->q, e);
    if (!st) st = graft_alike_factor("the factor of keys", f->k, e);
    if (!st) st = graft_alike_factor("the factor of values", f->v, e);
    if (!st) st = graft_alike_factor("the factor of what attention gives", f->out, e);
    return st;
}

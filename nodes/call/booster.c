#include "nodes/call/booster.h"

#include <stdatomic.h>

#include "base/alloc.h"

struct graft_booster {
    atomic_size_t refs;
    bool has_deepcache;
    graft_deepcache_options deepcache; /* its texts are constants */
    bool has_quantize;
    graft_quantize_options quantize;
};

graft_status graft_booster_create(const graft_deepcache_options *deepcache,
                                  const graft_quantize_options *quantize, graft_booster **out,
                                  graft_err *e)
{
    graft_booster *b = graft_calloc(1, sizeof *b);
    *out = b;
    if (!b) return graft_fail_nomem(e, "a booster");
    atomic_init(&b->refs, 1);
    b->has_deepcache = deepcache != NULL;
    if (deepcache) b->deepcache = *deepcache;
    b->has_quantize = quantize != NULL;
    if (quantize) b->quantize = *quantize;
    return GRAFT_OK;
}

graft_status graft_booster_join(const graft_booster *deepcache, const graft_booster *quantize,
                                graft_booster **out, graft_err *e)
{
    return graft_booster_create(
        deepcache && deepcache->has_deepcache ? &deepcache->deepcache : NULL,
        quantize && quantize->has_quantize ? &quantize->quantize : NULL, out, e);
}

void graft_booster_release(graft_booster *b)
{
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1) graft_free(b);
}

static graft_compile_options usual_options(void)
{
    return (graft_compile_options){
        .precision = "auto", .tuning = "fast", .device = "auto", .cache = true, .tile = true};
}

graft_status graft_booster_apply(const graft_booster *b, const graft_model *m,
                                 const graft_task *task, graft_model **out, graft_err *e)
{
    const graft_compile_options options = usual_options();
    graft_model *now = NULL, *next = NULL;
    graft_status st = graft_model_compile(m, &options, task, &now, e);
    if (st == GRAFT_OK && b && b->has_quantize) {
        st = graft_model_quantize(now, &b->quantize, task, &next, NULL, e);
        graft_model_release(now);
        now = next;
        next = NULL;
    }
    if (st == GRAFT_OK && b && b->has_deepcache) {
        st = graft_model_deepcache(now, &b->deepcache, &next, e);
        graft_model_release(now);
        now = next;
    }
    *out = now;
    return st;
}

graft_status graft_booster_apply_vae(const graft_vae *v, const graft_task *task, graft_vae **out,
                                     graft_err *e)
{
    const graft_compile_options options = usual_options();
    return graft_vae_compile(v, &options, task, out, e);
}

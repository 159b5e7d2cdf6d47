#include "nodes/call/part.h"

#include <stdatomic.h>

#include "base/alloc.h"

struct graft_part {
    atomic_size_t refs;
    graft_sampling known;
};

/* The engine keeps references in objects that are const to it. */
#define RETAIN(type, object) graft_##type##_retain((graft_##type *)(object))

graft_status graft_part_create(const graft_sampling *known, graft_part **out, graft_err *e)
{
    graft_part *p = graft_calloc(1, sizeof *p);
    *out = p;
    if (!p) return graft_fail_nomem(e, "a part of sampling");
    atomic_init(&p->refs, 1);
    p->known = *known;
    if (known->model) RETAIN(model, known->model);
    if (known->negative_model) RETAIN(model, known->negative_model);
    if (known->positive) RETAIN(cond, known->positive);
    if (known->negative) RETAIN(cond, known->negative);
    if (known->third.prompt) RETAIN(cond, known->third.prompt);
    return GRAFT_OK;
}

void graft_part_release(graft_part *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
    graft_model_release((graft_model *)p->known.model);
    graft_model_release((graft_model *)p->known.negative_model);
    graft_cond_release((graft_cond *)p->known.positive);
    graft_cond_release((graft_cond *)p->known.negative);
    graft_cond_release((graft_cond *)p->known.third.prompt);
    graft_free(p);
}

const graft_sampling *graft_part_known(const graft_part *p)
{
    return &p->known;
}

#include "engine/objects/quantizer.h"

#include "base/alloc.h"

graft_quantizer *graft_quantizer_retain(graft_quantizer *q)
{
    if (q) atomic_fetch_add(&q->refs, 1);
    return q;
}

void graft_quantizer_release(graft_quantizer *q)
{
    if (!q || atomic_fetch_sub(&q->refs, 1) != 1) return;
    graft_quant_plan_destroy(q->plan);
    pthread_mutex_destroy(&q->lock);
    graft_free(q->path);
    graft_free(q);
}

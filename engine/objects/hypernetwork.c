#include "base/alloc.h"
#include "engine/objects/objects.h"

graft_hypernetwork *graft_hypernetwork_retain(graft_hypernetwork *h)
{
    if (h) atomic_fetch_add(&h->refs, 1);
    return h;
}

void graft_hypernetwork_release(graft_hypernetwork *h)
{
    if (!h || atomic_fetch_sub(&h->refs, 1) != 1) return;
    graft_engine_release_weights(h->engine, h->weights);
    graft_free(h);
}

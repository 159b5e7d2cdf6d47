#include "engine/objects/vision_output.h"

#include <stdatomic.h>

#include "base/alloc.h"

graft_vision_output *graft_vision_output_retain(graft_vision_output *o)
{
    atomic_fetch_add(&o->refs, 1);
    return o;
}

void graft_vision_output_release(graft_vision_output *o)
{
    if (!o || atomic_fetch_sub(&o->refs, 1) != 1) return;
    graft_free(o->data);
    graft_free(o->pooled);
    graft_free(o);
}

const float *graft_vision_output_tokens(const graft_vision_output *o, int64_t shape[3])
{
    shape[0] = o->pictures;
    shape[1] = o->tokens;
    shape[2] = o->width;
    return o->data;
}

const float *graft_vision_output_pooled(const graft_vision_output *o, int64_t shape[2])
{
    shape[0] = o->pictures;
    shape[1] = o->pooled_width;
    return o->pooled;
}

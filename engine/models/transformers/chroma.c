#include "engine/models/transformers/chroma.h"

#include "base/alloc.h"
#include "engine/models/parts/stream.h"

#define NAME(...)   graft_name_make(__VA_ARGS__)
#define PART        "distilled_guidance_layer"
#define OF_SINGLE   3
#define OF_STREAM   6
#define OF_FINAL    2
#define NUMBER_STEP 1000.0f /* from one vector's number to the next, as its waves see them */

int32_t graft_chroma_of_single(int block)
{
    return OF_SINGLE * block;
}

int32_t graft_chroma_of_picture(const graft_flux_arch *a, int block)
{
    return OF_SINGLE * a->single_depth + OF_STREAM * block;
}

int32_t graft_chroma_of_text(const graft_flux_arch *a, int block)
{
    return graft_chroma_of_picture(a, a->depth + block);
}

int32_t graft_chroma_of_final(const graft_flux_arch *a)
{
    return graft_chroma_of_picture(a, 2 * a->depth);
}

int32_t graft_chroma_vectors(const graft_flux_arch *a)
{
    return graft_chroma_of_final(a) + OF_FINAL;
}

/* t (N,1) for each of the n vectors, (N,n); `own`: each plus the vector's number. */
static graft_vid repeated(const graft_build *b, graft_vid t, int64_t n, bool own)
{
    const int64_t dim[2] = {graft_build_dim(b, t, 0), n}, all = dim[0] * n;
    float *v = graft_malloc_array((size_t)all, sizeof *v);
    if (!v) return graft_graph_fail(b->g, GRAFT_E_NOMEM, "out of memory: numbers of vectors");
    for (int64_t i = 0; i < all; i++) v[i] = own ? NUMBER_STEP * (float)(i % n) : 0;
    const graft_vid numbers = graft_graph_const(b->g, GRAFT_F32, 2, dim, v);
    graft_free(v);
    return graft_build_add(b, numbers, t);
}

/* (N,vectors) numbers as waves (N,vectors,width). */
static graft_vid waves(const graft_build *b, graft_vid t, int32_t width)
{
    const int64_t rows = graft_build_dim(b, t, 0), n = graft_build_dim(b, t, 1), all = rows * n;
    t = graft_graph_reshape(b->g, t, 1, &all);
    return graft_graph_reshape(b->g, graft_build_waves(b, t, width), 3,
                               (int64_t[]){rows, n, width});
}

/* What the network sees of all vectors, (N,vectors,4*time_dim): it was trained with a guidance
 * scale of 0. */
static graft_vid seen(const graft_build *b, const graft_flux_arch *a, graft_vid t)
{
    const int64_t rows = graft_build_dim(b, t, 0), n = graft_chroma_vectors(a);
    t = graft_graph_reshape(b->g, t, 2, (int64_t[]){rows, 1});
    if (t < 0) return t;
    const graft_vid none = graft_build_scale(b, t, 0, 0);
    const graft_vid of_time = waves(b, repeated(b, t, n, false), a->time_dim);
    const graft_vid of_none = waves(b, repeated(b, none, n, false), a->time_dim);
    const graft_vid own = waves(b, repeated(b, none, n, true), 2 * a->time_dim);
    return graft_build_concat(b, graft_build_concat(b, of_time, of_none), own);
}

static graft_vid normed(const graft_build *b, graft_vid v, int layer)
{
    return graft_build_rms_norm(b, NAME(PART ".norms.%d.scale", layer), v, 1, GRAFT_STREAM_EPS);
}

graft_vid graft_chroma_build(const graft_build *b, const graft_flux_arch *a, graft_vid t)
{
    const int64_t rows = graft_build_dim(b, t, 0), n = graft_chroma_vectors(a);
    const int32_t width = a->approximator;
    graft_vid v = graft_build_cast(b, seen(b, a, t), b->act_dtype);
    v = graft_build_linear(b, NAME(PART ".in_proj"), v, width, true);
    for (int i = 0; i < a->approximator_layers; i++) {
        graft_vid h = normed(b, v, i);
        h = graft_build_linear(b, NAME(PART ".layers.%d.in_layer", i), h, width, true);
        h = graft_build_act(b, h, GRAFT_ACT_SILU);
        h = graft_build_linear(b, NAME(PART ".layers.%d.out_layer", i), h, width, true);
        v = graft_build_add(b, h, v);
    }
    v = graft_build_linear(b, NAME(PART ".out_proj"), v, a->hidden, true);
    v = graft_build_cast(b, v, GRAFT_F32);
    return graft_graph_reshape(b->g, v, 2, (int64_t[]){rows, n * a->hidden});
}

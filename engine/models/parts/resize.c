#include "engine/models/parts/resize.h"

#include "base/alloc.h"
#include "base/size.h"

/* (out,in): what each place along an axis takes of those before it. */
static graft_vid matrix(const graft_build *b, int64_t in, int64_t out, graft_resize_method method)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_vid v = GRAFT_NO_VALUE;
    size_t square, shares;
    float *unit = NULL, *m = NULL;
    if (graft_size_mul((size_t)in, (size_t)in, &square) &&
        graft_size_mul((size_t)in, (size_t)out, &shares)) {
        unit = graft_calloc(square, sizeof *unit);
        m = graft_malloc_array(shares, sizeof *m);
    }
    /* A column of pixels that each have a channel of their own. */
    graft_status st = unit && m ? GRAFT_OK : graft_fail_nomem(&e, "resizing");
    for (int64_t i = 0; i < in && !st; i++) unit[i * in + i] = 1;
    if (!st) st = graft_resize(method, unit, (int64_t[]){1, in, 1, in}, m, out, 1, false, &e);
    if (st)
        graft_graph_fail(b->g, st, "%s", e.text);
    else
        v = graft_graph_const(b->g, GRAFT_F32, 2, (int64_t[]){out, in}, m);
    graft_free(unit);
    graft_free(m);
    return v;
}

/* The last axis. */
static graft_vid resized_last(const graft_build *b, graft_vid x, int64_t out,
                              graft_resize_method method)
{
    if (x < 0) return x;
    graft_vid in[2] = {x, matrix(b, graft_build_dim(b, x, 3), out, method)};
    return in[1] < 0 ? in[1] : graft_graph_node(b->g, GRAFT_OP_LINEAR, NULL, in, 2, GRAFT_F32);
}

graft_vid graft_build_resize(const graft_build *b, graft_vid x, int64_t height, int64_t width,
                             graft_resize_method method)
{
    if (x < 0) return x;
    if (height < 1 || width < 1 || method == GRAFT_RESIZE_LANCZOS || method == GRAFT_RESIZE_BISLERP)
        return graft_graph_fail(b->g, GRAFT_E_ARG, "features cannot be resized to %lldx%lld",
                                (long long)height, (long long)width);
    graft_dtype dtype = b->g->value[x].dtype;
    bool rows = graft_build_dim(b, x, 1) != height;
    if (graft_build_dim(b, x, 2) != width) { /* through (N,H,C,W) */
        x = graft_build_permuted(b, x, (const int32_t[4]){0, 1, 3, 2}, GRAFT_F32);
        x = resized_last(b, x, width, method);
        x = graft_build_permuted(b, x, (const int32_t[4]){0, 1, 3, 2}, rows ? GRAFT_F32 : dtype);
    }
    if (rows) { /* through (N,W,C,H) */
        x = graft_build_permuted(b, x, (const int32_t[4]){0, 2, 3, 1}, GRAFT_F32);
        x = resized_last(b, x, height, method);
        x = graft_build_permuted(b, x, (const int32_t[4]){0, 3, 1, 2}, dtype);
    }
    return x;
}

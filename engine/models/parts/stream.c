#include "engine/models/parts/stream.h"

#include "base/alloc.h"

/* Of shifts (N,width), dense. */
static void modulated(const graft_build *b, graft_stream *s, graft_vid shifts)
{
    const int64_t n = graft_build_dim(b, shifts, 0), width = graft_build_dim(b, shifts, 1);
    s->shifts = graft_graph_reshape(b->g, shifts, 3, (const int64_t[]){n, 1, width});
    s->scales = graft_build_scale(b, s->shifts, 1, 1);
}

static void modulate(const graft_build *b, graft_stream *s, graft_name layer, graft_vid vec,
                     int vectors, bool bias)
{
    const int64_t width = vectors * graft_build_dim(b, s->h, 2);
    graft_vid v = graft_build_linear(b, layer, vec, (int32_t)width, bias);
    modulated(b, s, graft_build_cast(b, v, GRAFT_F32));
}

void graft_stream_modulate(const graft_build *b, graft_stream *s, graft_name layer, graft_vid vec,
                           int vectors)
{
    modulate(b, s, layer, vec, vectors, true);
}

void graft_stream_modulate_unbiased(const graft_build *b, graft_stream *s, graft_name layer,
                                    graft_vid vec, int vectors)
{
    modulate(b, s, layer, vec, vectors, false);
}

void graft_stream_modulate_given(const graft_build *b, graft_stream *s, graft_vid all, int first,
                                 int vectors)
{
    const int64_t hidden = graft_build_dim(b, s->h, 2);
    graft_vid v = graft_graph_slice(b->g, all, first * hidden, vectors * hidden);
    modulated(b, s, graft_build_dense(b, v, GRAFT_DTYPE_NONE));
}

static graft_vid vector(const graft_build *b, const graft_stream *s, graft_vid of, int i)
{
    const int64_t hidden = graft_build_dim(b, s->h, 2);
    return graft_graph_slice(b->g, of, i * hidden, hidden);
}

graft_vid graft_stream_normed(const graft_build *b, const graft_stream *s, int shift)
{
    return graft_stream_normed_of(b, s, shift, GRAFT_STREAM_EPS);
}

graft_vid graft_stream_normed_of(const graft_build *b, const graft_stream *s, int shift, float eps)
{
    graft_vid in[3] = {s->h, vector(b, s, s->scales, shift + 1), vector(b, s, s->shifts, shift)};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    return graft_graph_node(b->g, GRAFT_OP_LAYER_NORM, &(graft_attrs){.eps = eps}, in, 3,
                            GRAFT_DTYPE_NONE);
}

graft_vid graft_stream_gated(const graft_build *b, const graft_stream *s, int gate, graft_vid v)
{
    graft_vid in[3] = {v, vector(b, s, s->shifts, gate), s->h};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    return graft_graph_node(b->g, GRAFT_OP_MUL, NULL, in, 3, GRAFT_DTYPE_NONE);
}

graft_vid graft_stream_head_normed(const graft_build *b, graft_name weight, graft_vid v,
                                   int32_t heads)
{
    return graft_build_rms_norm(b, weight, v, heads, GRAFT_STREAM_EPS);
}

graft_vid graft_stream_heads_shared(const graft_build *b, graft_vid v, int32_t heads,
                                    int32_t key_heads)
{
    const int32_t times = heads / key_heads;
    const int64_t n = graft_build_dim(b, v, 0), tokens = graft_build_dim(b, v, 1);
    const int64_t d = graft_build_dim(b, v, 2) / key_heads;
    if (times == 1) return v;
    v = graft_graph_reshape(b->g, v, 3, (const int64_t[]){n * tokens, key_heads, d});
    graft_vid all = v;
    for (int32_t have = 1; have < times;) {
        const bool doubled = 2 * have <= times;
        all = graft_build_concat(b, all, doubled ? all : v);
        have = doubled ? 2 * have : have + 1;
    }
    return graft_graph_reshape(b->g, all, 3, (const int64_t[]){n, tokens, heads * d});
}

graft_vid graft_stream_tokens(const graft_build *b, graft_vid v, int64_t begin, int64_t count)
{
    v = graft_graph_slice_tokens(b->g, v, begin, count);
    if (v < 0 || graft_gvalue_dense(&b->g->value[v])) return v;
    return graft_build_dense(b, v, GRAFT_DTYPE_NONE);
}

graft_vid graft_stream_reversed(const graft_build *b, graft_vid v, graft_vid y)
{
    const int64_t tokens = graft_build_dim(b, v, 1);
    const int64_t dim[2] = {graft_build_dim(b, v, 0), tokens}, all = dim[0] * tokens;
    float *last = graft_malloc_array((size_t)all, sizeof *last);
    if (!last) return graft_graph_fail(b->g, GRAFT_E_NOMEM, "out of memory: numbers of tokens");
    for (int64_t i = 0; i < all; i++) last[i] = -1.0f - (float)(i % tokens);
    const graft_vid numbers = graft_graph_const(b->g, GRAFT_F32, 2, dim, last);
    graft_free(last);
    const graft_vid table = graft_build_cast(b, graft_build_add(b, numbers, y), GRAFT_I32);
    const graft_vid in[2] = {v, table};
    if (v < 0 || table < 0) return GRAFT_NO_VALUE;
    return graft_graph_node(b->g, GRAFT_OP_SPREAD_TOKENS, NULL, in, 2, GRAFT_DTYPE_NONE);
}

graft_vid graft_stream_count(const graft_build *b, graft_vid y, int64_t before)
{
    const int64_t n = graft_build_dim(b, y, 0);
    y = graft_graph_reshape(b->g, graft_build_dense(b, y, GRAFT_DTYPE_NONE), 1, &n);
    return graft_build_cast(b, graft_build_scale(b, y, 1, (float)before), GRAFT_I32);
}

graft_vid graft_stream_patches(const graft_build *b, graft_vid x, int32_t patch)
{
    const int64_t n = graft_build_dim(b, x, 0), c = graft_build_dim(b, x, 1), p = patch;
    const int64_t rows = graft_build_dim(b, x, 2) / p, columns = graft_build_dim(b, x, 3) / p;
    x = graft_build_to_nhwc(b, x, b->act_dtype);
    x = graft_build_exchanged(b, x, (const int64_t[]){n * rows, p, columns, p * c},
                              GRAFT_DTYPE_NONE);
    return graft_graph_reshape(b->g, x, 3, (const int64_t[]){n, rows * columns, p * p * c});
}

graft_vid graft_stream_unpatched(const graft_build *b, graft_vid x, int64_t rows, int64_t columns,
                                 int32_t patch)
{
    const int64_t n = graft_build_dim(b, x, 0), p = patch, c = graft_build_dim(b, x, 2) / (p * p);
    x = graft_build_exchanged(b, x, (const int64_t[]){n * rows, columns, p, p * c},
                              GRAFT_DTYPE_NONE);
    x = graft_graph_reshape(b->g, x, 4, (const int64_t[]){n, rows * p, columns * p, c});
    return graft_build_to_nchw(b, x, GRAFT_F32);
}

graft_vid graft_stream_plane_patches(const graft_build *b, graft_vid x, int32_t patch)
{
    const int64_t n = graft_build_dim(b, x, 0), c = graft_build_dim(b, x, 1), p = patch;
    const int64_t rows = graft_build_dim(b, x, 2) / p, columns = graft_build_dim(b, x, 3) / p;
    x = graft_build_exchanged(b, x, (const int64_t[]){n * c * rows, p, columns, p}, b->act_dtype);
    x = graft_build_exchanged(b, x, (const int64_t[]){n, c, rows * columns, p * p},
                              GRAFT_DTYPE_NONE);
    return graft_graph_reshape(b->g, x, 3, (const int64_t[]){n, rows * columns, c * p * p});
}

graft_vid graft_stream_plane_unpatched(const graft_build *b, graft_vid x, int64_t rows,
                                       int64_t columns, int32_t patch)
{
    const int64_t n = graft_build_dim(b, x, 0), p = patch, c = graft_build_dim(b, x, 2) / (p * p);
    x = graft_build_exchanged(b, x, (const int64_t[]){n, rows * columns, c, p * p},
                              GRAFT_DTYPE_NONE);
    x = graft_build_exchanged(b, x, (const int64_t[]){n * c * rows, columns, p, p}, GRAFT_F32);
    return graft_graph_reshape(b->g, x, 4, (const int64_t[]){n, c, rows * p, columns * p});
}

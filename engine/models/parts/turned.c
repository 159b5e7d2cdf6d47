#include "engine/models/parts/turned.h"

graft_turns graft_turns_input(const graft_build *b, int64_t tokens, int64_t half)
{
    const int64_t dim[3] = {tokens, 1, half};
    graft_turns t = {.cos = graft_graph_input(b->g, GRAFT_F32, 3, dim)};
    t.sin = graft_graph_input(b->g, GRAFT_F32, 3, dim);
    t.back = graft_build_scale(b, t.sin, -1, 0);
    return t;
}

static graft_vid sum(const graft_build *b, graft_vid x, graft_vid by, graft_vid y, graft_vid with)
{
    return graft_build_add(b, graft_build_mul(b, x, by), graft_build_mul(b, y, with));
}

graft_vid graft_turned(const graft_build *b, const graft_turns *t, graft_vid x, int32_t heads)
{
    const int64_t tokens = graft_build_dim(b, x, 1), width = graft_build_dim(b, x, 2);
    const int64_t d = width / heads, half = d / 2;
    x = graft_build_dense(b, x, GRAFT_F32);
    x = graft_graph_reshape(b->g, x, 3, (const int64_t[]){tokens, heads, d});
    const graft_vid first = graft_graph_slice(b->g, x, 0, half);
    const graft_vid second = graft_graph_slice(b->g, x, half, half);
    x = graft_build_concat(b, sum(b, first, t->cos, second, t->back),
                           sum(b, second, t->cos, first, t->sin));
    x = graft_graph_reshape(b->g, x, 3, (const int64_t[]){1, tokens, width});
    return graft_build_cast(b, x, b->act_dtype);
}

graft_vid graft_turned_on(const graft_build *b, graft_vid x, const graft_rope_grid *grid)
{
    const int64_t n = graft_build_dim(b, x, 0), tokens = graft_build_dim(b, x, 1);
    const int64_t width = graft_build_dim(b, x, 2), heads = grid->heads, d = width / heads;
    x = graft_graph_reshape(b->g, x, 4, (const int64_t[]){n * tokens, heads, 2, d / 2});
    x = graft_build_permuted(b, x, (const int32_t[4]){0, 1, 3, 2}, GRAFT_DTYPE_NONE);
    x = graft_graph_reshape(b->g, x, 3, (const int64_t[]){n, tokens, width});
    return graft_build_rope(b, x, grid);
}

graft_turns_back graft_turns_back_by(const graft_build *b, graft_vid places, int32_t values)
{
    const int64_t n = graft_build_dim(b, places, 0), half = values / 2;
    graft_turns_back t = {.values = values};
    if (!values) return t;
    const graft_vid waves = graft_build_waves(b, places, values);
    for (int i = 0; i < 2; i++) {
        graft_vid v = graft_graph_slice(b->g, waves, i * half, half);
        v = graft_graph_reshape(b->g, graft_build_dense(b, v, GRAFT_DTYPE_NONE), 4,
                                (int64_t[]){1, n, 1, half});
        *(i ? &t.sin : &t.cos) = v;
    }
    return t;
}

graft_vid graft_turned_back(const graft_build *b, const graft_turns_back *t, graft_vid x,
                            int32_t heads)
{
    const int64_t n = graft_build_dim(b, x, 0), tokens = graft_build_dim(b, x, 1);
    const int64_t width = graft_build_dim(b, x, 2), all_heads = tokens * heads;
    const int64_t head = width / heads, values = t->values, half = values / 2;
    const int64_t part[4] = {1, n, all_heads, half}, all = n * all_heads * half;
    if (!values) return x;
    x = graft_graph_reshape(b->g, x, 3, (int64_t[]){n, all_heads, head});
    const graft_vid rest = graft_graph_slice(b->g, x, values, head - values);
    graft_vid v = graft_build_dense(b, graft_graph_slice(b->g, x, 0, values), GRAFT_F32);
    v = graft_graph_reshape(b->g, v, 4, (int64_t[]){n, all_heads, half, 2});
    v = graft_build_permuted(b, v, (const int32_t[4]){3, 0, 1, 2}, GRAFT_DTYPE_NONE);
    graft_vid p = graft_graph_reshape(b->g, graft_graph_slice_rows(b->g, v, 0, 1), 4, part);
    graft_vid q = graft_graph_reshape(b->g, graft_graph_slice_rows(b->g, v, 1, 1), 4, part);
    const graft_vid back = graft_build_scale(b, t->sin, -1, 0);
    const graft_vid re = sum(b, p, t->cos, q, t->sin), im = sum(b, q, t->cos, p, back);
    p = graft_graph_reshape(b->g, re, 3, (int64_t[]){1, 1, all});
    q = graft_graph_reshape(b->g, im, 3, (int64_t[]){1, 1, all});
    v = graft_graph_reshape(b->g, graft_build_join(b, p, q), 4, (int64_t[]){2, n, all_heads, half});
    v = graft_build_permuted(b, v, (const int32_t[4]){1, 2, 3, 0}, GRAFT_DTYPE_NONE);
    v = graft_graph_reshape(b->g, v, 3, (int64_t[]){n, all_heads, values});
    x = graft_build_concat(b, graft_build_cast(b, v, b->act_dtype), rest);
    return graft_graph_reshape(b->g, x, 3, (int64_t[]){n, tokens, width});
}

#include "engine/models/unets/unet_blocks.h"

#include <assert.h>
#include <string.h>

#include "kernels/tokens.h"

#define NAME(...)        graft_name_make(__VA_ARGS__)
#define MERGING_PATTERNS 64 /* of a block */

static graft_vid flat(const graft_build *b, graft_vid v)
{
    if (v < 0) return v;
    return graft_graph_reshape(b->g, v, 2, (int64_t[]){1, graft_gvalue_count(&b->g->value[v])});
}

/* The rows of one value after those of another. */
static graft_vid joined_rows(const graft_build *b, graft_vid v, graft_vid more)
{
    int64_t dim[GRAFT_MAX_RANK];
    if (v < 0 || more < 0) return GRAFT_NO_VALUE;
    int rank = b->g->value[v].rank;
    memcpy(dim, b->g->value[v].dim, sizeof dim);
    dim[0] += graft_build_dim(b, more, 0);
    graft_vid all = graft_build_concat(b, flat(b, v), flat(b, more));
    return all < 0 ? all : graft_graph_reshape(b->g, all, rank, dim);
}

graft_vid graft_unet_wide(const graft_unet_blocks *u, graft_vid v)
{
    const graft_build *b = &u->b;
    int64_t rows = graft_build_dim(b, v, 0), all = u->batch + (u->apart ? u->perturbed : 0);
    if (v < 0 || rows == all) return v;
    graft_vid once = v;
    for (int64_t i = rows; i < u->batch; i += rows) v = joined_rows(b, v, once);
    return u->apart ? joined_rows(b, v, graft_graph_slice_rows(b->g, v, 0, u->perturbed)) : v;
}

void graft_unet_part(graft_unet_blocks *u)
{
    u->apart = true;
    u->emb = graft_unet_wide(u, u->emb);
    u->context = graft_unet_wide(u, u->context);
}

graft_vid graft_unet_embedding(const graft_unet_blocks *u, graft_name first, graft_name second,
                               graft_vid x)
{
    const graft_build *b = &u->b;
    x = graft_build_cast(b, x, b->act_dtype);
    x = graft_build_linear(b, first, x, u->a->time_dim, true);
    x = graft_build_act(b, x, GRAFT_ACT_SILU);
    return graft_build_linear(b, second, x, u->a->time_dim, true);
}

graft_vid graft_unet_time_embedding(graft_unet_blocks *u, graft_vid timesteps, graft_vid y,
                                    graft_vid more)
{
    const graft_build *b = &u->b;
    graft_vid t = graft_build_waves(b, timesteps, u->a->model_channels);
    t = graft_unet_embedding(u, NAME("time_embed.0"), NAME("time_embed.2"), t);
    if (y >= 0)
        t = graft_build_add(
            b, t, graft_unet_embedding(u, NAME("label_emb.0.0"), NAME("label_emb.0.2"), y));
    if (more >= 0) t = graft_build_add(b, t, more);
    return graft_build_act(b, t, GRAFT_ACT_SILU);
}

static graft_vid res_block(graft_unet_blocks *u, graft_name name, graft_vid x, int32_t channels)
{
    const graft_build *b = &u->b;
    graft_vid skip = x;
    if (graft_build_dim(b, x, 3) != channels) /* first, so that x's memory is free for its norm */
        skip = graft_build_conv(b, NAME("%s.skip_connection", name.text), x,
                                (graft_conv_spec){channels, 1, 1, {0, 0, 0, 0}});
    graft_vid h = graft_build_group_norm(b, NAME("%s.in_layers.0", name.text), x, 1e-5f);
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    h = graft_build_conv3(b, NAME("%s.in_layers.2", name.text), h, channels);
    /* Of all rows, needed or not: passes make one product of these layers in all blocks. */
    graft_vid t = graft_build_linear(b, NAME("%s.emb_layers.1", name.text), u->emb, channels, true);
    if (x >= 0 && graft_build_dim(b, x, 0) < u->batch)
        t = graft_graph_slice_rows(b->g, t, 0, graft_build_dim(b, x, 0));
    int64_t pixel[4] = {graft_build_dim(b, t, 0), 1, 1, channels};
    h = graft_build_add(b, h, graft_graph_reshape(b->g, t, 4, pixel));
    h = graft_build_group_norm(b, NAME("%s.out_layers.0", name.text), h, 1e-5f);
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    h = graft_build_conv3(b, NAME("%s.out_layers.3", name.text), h, channels);
    return graft_build_add(b, h, skip);
}

/* (N,T,C) as its tiles (N*tiles,T/tiles,C), each of whose tokens lie together; or back with
 * `whole`. */
static graft_vid tiles_of(const graft_build *b, graft_vid h, int64_t tiles, bool whole)
{
    int64_t n = graft_build_dim(b, h, 0), t = graft_build_dim(b, h, 1);
    if (h < 0 || tiles == 1) return h;
    return graft_graph_reshape(b->g, h, 3,
                               (int64_t[]){whole ? n / tiles : n * tiles,
                                           whole ? t * tiles : t / tiles,
                                           graft_build_dim(b, h, 2)});
}

/* Keys or values (rows,tokens,width) of a picture from place *at on, which moves behind them. */
static graft_vid attended_part(const graft_unet_blocks *u, int64_t *at, int64_t tokens,
                               int64_t width)
{
    const graft_build *b = &u->b;
    const int64_t dim[3] = {u->batch, tokens, width}, count = u->batch * tokens * width;
    graft_vid v = graft_graph_slice(b->g, u->attended.values, *at, count);
    *at += count;
    return graft_unet_wide(u, graft_graph_reshape(b->g, v, 3, dim));
}

/* o and what these queries make of the pictures, in the next cross-attention. */
static graft_vid with_pictures(graft_unet_blocks *u, graft_vid q, graft_vid o, int32_t heads)
{
    const graft_build *b = &u->b;
    const graft_crossings *c = &u->attended.crossings;
    const int32_t *tokens = u->attended.shape.tokens, here = u->attended.next++;
    if (!tokens[0] || q < 0) return o;
    const int64_t all = graft_crossings_before(c, c->n), before = graft_crossings_before(c, here);
    const int64_t width = graft_build_dim(b, q, 2);
    int64_t begin = 0;
    assert(here < c->n && width == c->channels[here]);
    for (int i = 0; i < GRAFT_ATTENDED && tokens[i]; i++) {
        int64_t at = begin + 2 * u->batch * tokens[i] * before;
        graft_vid k = attended_part(u, &at, tokens[i], width);
        graft_vid v = attended_part(u, &at, tokens[i], width);
        graft_vid more = graft_build_attention(b, q, k, v, heads, false);
        if (u->attended.shape.masked >> i & 1)
            more = graft_build_mul(b, more, graft_unet_wide(u, u->attended.mask[i]));
        o = graft_build_add(b, o, more);
        begin += 2 * u->batch * tokens[i] * all;
    }
    return o;
}

/* What keys or values are made of, which is x without a hypernetwork. */
static graft_vid seen_by(graft_unet_blocks *u, int part, graft_vid x)
{
    struct graft_unet_hyper *h = &u->hyper;
    if (!h->arch || x < 0) return x;
    if (x != u->context) return graft_hypernetwork_build(&u->b, h->arch, part, x, h->strength);
    if (x != h->context)
        for (int i = 0; i < GRAFT_HYPER_PARTS; i++)
            h->made[i] = graft_hypernetwork_build(&u->b, h->arch, i, x, h->strength);
    h->context = x;
    return h->made[part];
}

/* These are the queries and keys, of tiles, that someone may want to look at. */
static void watch(graft_unet_blocks *u, graft_vid q, graft_vid k, int64_t tiles)
{
    if (!u->watched.next) return;
    u->watched.next = false;
    u->watched.q = tiles_of(&u->b, q, tiles, true);
    u->watched.k = tiles_of(&u->b, k, tiles, true);
}

/* x and context are tiles of something; what it gives is not. */
static graft_vid attention(graft_unet_blocks *u, graft_name name, graft_vid x, graft_vid context,
                           int32_t heads, int64_t tiles)
{
    const graft_build *b = &u->b;
    int32_t width = (int32_t)graft_build_dim(b, x, 2);
    graft_vid q = graft_build_linear(b, NAME("%s.to_q", name.text), x, width, false);
    graft_vid for_k = seen_by(u, GRAFT_HYPER_KEYS, context);
    graft_vid for_v = seen_by(u, GRAFT_HYPER_VALUES, context);
    graft_vid k = graft_build_linear(b, NAME("%s.to_k", name.text), for_k, width, false);
    graft_vid v = graft_build_linear(b, NAME("%s.to_v", name.text), for_v, width, false);
    watch(u, q, k, tiles);
    graft_vid o = graft_build_attention(b, q, k, v, heads, false);
    if (context == u->context) o = with_pictures(u, q, o, heads);
    o = tiles_of(b, o, tiles, true);
    return graft_build_linear(b, NAME("%s.to_out.0", name.text), o, width, true);
}

/* x: N rows of tiles, or the perturbed ones behind them, too, which the result has in any case:
 * their attention is the identity. */
static graft_vid perturbed_attention(graft_unet_blocks *u, graft_name name, graft_vid x,
                                     int32_t heads, int64_t tiles)
{
    const graft_build *b = &u->b;
    int32_t width = (int32_t)graft_build_dim(b, x, 2);
    int64_t n = u->batch * tiles, from = u->apart ? n : 0;
    graft_vid own = graft_graph_slice_rows(b->g, x, 0, n);
    graft_vid q = graft_build_linear(b, NAME("%s.to_q", name.text), own, width, false);
    graft_vid for_k = seen_by(u, GRAFT_HYPER_KEYS, own);
    graft_vid for_v = seen_by(u, GRAFT_HYPER_VALUES, x);
    graft_vid k = graft_build_linear(b, NAME("%s.to_k", name.text), for_k, width, false);
    graft_vid v = graft_build_linear(b, NAME("%s.to_v", name.text), for_v, width, false);
    watch(u, q, k, tiles);
    graft_vid rest = graft_graph_slice_rows(b->g, v, from, u->perturbed * tiles);
    v = graft_graph_slice_rows(b->g, v, 0, n);
    graft_vid o = joined_rows(b, graft_build_attention(b, q, k, v, heads, false), rest);
    o = tiles_of(b, o, tiles, true);
    return graft_build_linear(b, NAME("%s.to_out.0", name.text), o, width, true);
}

int32_t graft_unet_merged_of(int64_t rows, int64_t columns, int32_t merged)
{
    /* Sizes are looked at before anybody has checked them. */
    if (merged < 1 || rows < 2 || columns < 2 || rows > INT32_MAX / columns) return 0;
    const int64_t tokens = rows * columns, sources = tokens - rows / 2 * (columns / 2);
    const int64_t n = (int64_t)((double)tokens * (double)merged / GRAFT_MERGED_UNIT);
    return (int32_t)(n < sources ? n : sources);
}

/* h: norms of all tokens, or of tiles of them; what it gives is not tiles. */
static graft_vid merged_attention(graft_unet_blocks *u, graft_name name, graft_vid h, int32_t heads,
                                  int64_t tiles)
{
    const graft_build *b = &u->b;
    const struct graft_unet_merging *m = &u->merging;
    const int32_t merged = graft_unet_merged_of(m->rows, m->columns, m->merged);
    if (!merged) return attention(u, name, h, h, heads, tiles);
    const graft_attrs a = graft_tokens_attrs((int32_t)m->rows, (int32_t)m->columns,
                                             (int32_t)(m->rows * m->columns) - merged, m->pattern);
    if (h < 0) return h;
    graft_vid in[2] = {h, graft_graph_node(b->g, GRAFT_OP_MATCH_TOKENS, &a, &h, 1, GRAFT_I32)};
    if (in[1] < 0) return in[1];
    const graft_attrs left = {.groups = a.groups};
    h = graft_graph_node(b->g, GRAFT_OP_MERGE_TOKENS, &left, in, 2, GRAFT_DTYPE_NONE);
    in[0] = attention(u, name, h, h, heads, 1);
    if (in[0] < 0) return in[0];
    h = graft_graph_node(b->g, GRAFT_OP_SPREAD_TOKENS, NULL, in, 2, GRAFT_DTYPE_NONE);
    return tiles_of(b, h, tiles, true);
}

static graft_vid self_attention(graft_unet_blocks *u, graft_name name, graft_vid x, int32_t heads,
                                int64_t tiles)
{
    const graft_build *b = &u->b;
    graft_vid h = graft_build_layer_norm(b, NAME("%s.norm1", name.text), x);
    h = tiles_of(b, h, tiles, false);
    name = NAME("%s.attn1", name.text);
    if (!u->perturbing) return graft_build_add(b, merged_attention(u, name, h, heads, tiles), x);
    h = perturbed_attention(u, name, h, heads, tiles);
    if (!u->apart) graft_unet_part(u);
    return graft_build_add(b, h, graft_unet_wide(u, x));
}

/* The picture's tokens see those of texts in boxes, and each other once more. */
static graft_vid with_boxes(graft_unet_blocks *u, graft_name name, graft_vid x, int32_t heads)
{
    if (u->boxes < 0) return x;
    return graft_gligen_build_block(&u->b, NAME(GRAFT_GLIGEN_CALLED "%s.fuser", name.text),
                                    graft_unet_wide(u, x), graft_unet_wide(u, u->boxes), heads);
}

static graft_vid transformer_block(graft_unet_blocks *u, graft_name name, graft_vid x,
                                   int32_t heads, int64_t tiles)
{
    const graft_build *b = &u->b;
    int32_t width = (int32_t)graft_build_dim(b, x, 2);
    graft_vid h;
    x = self_attention(u, name, x, heads, tiles);
    x = with_boxes(u, name, x, heads);
    x = graft_unet_wide(u, x); /* from here on rows depend on their context */
    h = graft_build_layer_norm(b, NAME("%s.norm2", name.text), x);
    x = graft_build_add(b, attention(u, NAME("%s.attn2", name.text), h, u->context, heads, 1), x);
    h = graft_build_layer_norm(b, NAME("%s.norm3", name.text), x);
    h = graft_build_linear(b, NAME("%s.ff.net.0.proj", name.text), h, width * 8, true);
    if (h >= 0) h = graft_graph_node(b->g, GRAFT_OP_GEGLU, NULL, &h, 1, GRAFT_DTYPE_NONE);
    h = graft_build_linear(b, NAME("%s.ff.net.2", name.text), h, width, true);
    return graft_build_add(b, h, x);
}

/* Puts the tokens (N,H*W,C) of a tile side by side, or back into the picture's order. Nothing else
 * in a transformer looks at more than one token, so that this is done once for all its blocks. */
static graft_vid by_tiles(graft_unet_blocks *u, graft_vid h, const int64_t spatial[4],
                          graft_grid grid, bool back)
{
    const graft_build *b = &u->b;
    if (h < 0 || grid.columns <= 1) return h; /* tiles that span the width lie together as it is */
    int64_t n = graft_build_dim(b, h, 0), tile_h = spatial[1] / grid.rows;
    int64_t tile_w = spatial[2] / grid.columns;
    const int64_t dim[4] = {n * grid.rows, back ? grid.columns : tile_h,
                            back ? tile_h : grid.columns, tile_w * spatial[3]};
    graft_vid v = graft_build_exchanged(b, h, dim, GRAFT_DTYPE_NONE);
    return graft_graph_reshape(b->g, v, 3, (int64_t[]){n, spatial[1] * spatial[2], spatial[3]});
}

/* The grid of the present level: {1, 1} where there is none. */
static graft_grid grid_here(const graft_unet_blocks *u, const int64_t spatial[4])
{
    graft_grid g = {0, 0};
    if (u->grid && u->level >= 0 && u->level < GRAFT_GRIDS) g = u->grid[u->level];
    if (g.rows <= 0 || g.columns <= 0) return (graft_grid){1, 1};
    if (spatial[1] % g.rows || spatial[2] % g.columns)
        graft_graph_fail(u->b.g, GRAFT_E_ARG, "%lldx%lld cells do not split into %dx%d tiles",
                         (long long)spatial[1], (long long)spatial[2], g.rows, g.columns);
    return g;
}

/* Transformer block i of the present block: what of it merges, and how. */
static void take_merging(graft_unet_blocks *u, const int64_t spatial[4], graft_grid grid, int32_t i)
{
    struct graft_unet_merging *m = &u->merging;
    const bool here = u->level == 0 && m->block >= 0 && m->merged > 0;
    m->rows = here ? spatial[1] / grid.rows : 0;
    m->columns = here ? spatial[2] / grid.columns : 0;
    m->pattern = here ? m->block * MERGING_PATTERNS + i % MERGING_PATTERNS : 0;
}

/* The block's masks, in the order of its tokens. */
static void take_masks(graft_unet_blocks *u, const int64_t spatial[4], graft_grid grid)
{
    const graft_build *b = &u->b;
    const int64_t one[4] = {u->batch, spatial[1], spatial[2], 1}, cells = spatial[1] * spatial[2];
    int64_t at = u->batch * u->attended.cells[u->attended.block];
    for (int i = 0; i < GRAFT_ATTENDED; i++) {
        if (!(u->attended.shape.masked >> i & 1)) continue;
        graft_vid v = graft_graph_slice(b->g, u->attended.masks, at, u->batch * cells);
        v = graft_graph_reshape(b->g, v, 3, (const int64_t[]){u->batch, cells, 1});
        u->attended.mask[i] = by_tiles(u, v, one, grid, false);
        at += u->batch * u->attended.all_cells;
    }
}

/* Where cross-attentions of a block find what they attend to, and its number. */
static void begin_block(graft_unet_blocks *u, graft_crossing_part part, int32_t i)
{
    u->merging.block = part == GRAFT_CROSSING_MIDDLE   ? -1
                       : part == GRAFT_CROSSING_OUTPUT ? u->a->n_input + i
                                                       : i;
    u->attended.next = graft_crossings_first(u->a, part, i);
    u->attended.block = graft_crossings_blocks(u->a, part, i);
}

/* The rows that are looked at, in the picture's order. */
static graft_vid watched_rows(graft_unet_blocks *u, graft_vid v, const int64_t spatial[4],
                              graft_grid grid)
{
    const graft_build *b = &u->b;
    const int64_t dim[4] = {graft_build_dim(b, v, 0), spatial[1], spatial[2], spatial[3]};
    v = by_tiles(u, v, dim, grid, true);
    if (v >= 0 && dim[0] < u->batch) v = graft_unet_wide(u, v);
    v = graft_graph_slice_rows(b->g, v, u->watched.from, u->watched.rows);
    return graft_build_dense(b, v, GRAFT_F32);
}

static graft_vid spatial_transformer(graft_unet_blocks *u, graft_name name, graft_vid x,
                                     int32_t depth)
{
    const graft_build *b = &u->b;
    int32_t channels = (int32_t)graft_build_dim(b, x, 3);
    int32_t heads = u->a->num_heads ? u->a->num_heads : channels / u->a->head_dim;
    if (heads < 1 || channels % heads)
        return graft_graph_fail(b->g, GRAFT_E_FORMAT, "%s: %d channels do not split into heads",
                                name.text, channels);
    int64_t spatial[4] = {graft_build_dim(b, x, 0), graft_build_dim(b, x, 1),
                          graft_build_dim(b, x, 2), channels};
    int64_t tokens[3] = {spatial[0], spatial[1] * spatial[2], channels};
    const graft_grid grid = grid_here(u, spatial);
    int64_t tiles = (int64_t)grid.rows * grid.columns;
    const bool looks = u->watched.next;
    take_masks(u, spatial, grid);
    graft_vid h = graft_build_group_norm(b, NAME("%s.norm", name.text), x, 1e-6f);
    h = by_tiles(u, graft_graph_reshape(b->g, h, 3, tokens), spatial, grid, false);
    h = graft_build_linear(b, NAME("%s.proj_in", name.text), h, channels, true);
    for (int32_t i = 0; i < depth; i++) {
        take_merging(u, spatial, grid, i);
        h = transformer_block(u, NAME("%s.transformer_blocks.%d", name.text, i), h, heads, tiles);
    }
    if (looks) {
        u->watched.q = watched_rows(u, u->watched.q, spatial, grid);
        u->watched.k = watched_rows(u, u->watched.k, spatial, grid);
    }
    h = by_tiles(u, h, spatial, grid, true);
    h = graft_build_linear(b, NAME("%s.proj_out", name.text), h, channels, true);
    spatial[0] = graft_build_dim(b, h, 0);
    h = graft_graph_reshape(b->g, h, 4, spatial);
    return graft_build_add(b, h, graft_unet_wide(u, x));
}

graft_vid graft_unet_input_block(graft_unet_blocks *u, int i, graft_vid h)
{
    const graft_unet_block *k = &u->a->input[i];
    const graft_build *b = &u->b;
    begin_block(u, GRAFT_CROSSING_INPUT, i);
    if (i == 0) return graft_build_conv3(b, NAME("input_blocks.0.0"), h, k->channels);
    if (k->down) {
        graft_conv_spec spec = {(int32_t)graft_build_dim(b, h, 3), 3, 2, {1, 1, 1, 1}};
        u->level++;
        return graft_build_conv(b, NAME("input_blocks.%d.0.op", i), h, spec);
    }
    h = res_block(u, NAME("input_blocks.%d.0", i), h, k->channels);
    if (k->transformer) h = spatial_transformer(u, NAME("input_blocks.%d.1", i), h, k->transformer);
    return h;
}

graft_vid graft_unet_output_block(graft_unet_blocks *u, int i, graft_vid h, graft_vid size_of)
{
    const graft_unet_block *k = &u->a->output[i];
    const graft_build *b = &u->b;
    begin_block(u, GRAFT_CROSSING_OUTPUT, i);
    h = res_block(u, NAME("output_blocks.%d.0", i), h, k->channels);
    if (k->transformer)
        h = spatial_transformer(u, NAME("output_blocks.%d.1", i), h, k->transformer);
    if (!k->up) return h;
    u->level--;
    int64_t height = graft_build_dim(b, h, 1) * 2, width = graft_build_dim(b, h, 2) * 2;
    if (size_of >= 0) {
        height = graft_build_dim(b, size_of, 1);
        width = graft_build_dim(b, size_of, 2);
    }
    h = graft_build_upsample(b, h, height, width);
    return graft_build_conv3(b, NAME("output_blocks.%d.%d.conv", i, k->transformer ? 2 : 1), h,
                             k->channels);
}

graft_vid graft_unet_middle_block(graft_unet_blocks *u, graft_vid h)
{
    const int32_t channels = (int32_t)graft_build_dim(&u->b, h, 3),
                  residual = u->a->middle_residual;
    begin_block(u, GRAFT_CROSSING_MIDDLE, 0);
    if (residual > 0) h = res_block(u, NAME("middle_block.0"), h, channels);
    u->perturbing = u->perturbed > 0;
    if (u->perturbing) h = graft_unet_wide(u, h);
    u->watched.next = u->watched.rows > 0;
    if (u->a->middle_transformer)
        h = spatial_transformer(u, NAME("middle_block.1"), h, u->a->middle_transformer);
    u->perturbing = false;
    if (residual < 2) return h;
    return res_block(u, NAME("middle_block.%d", u->a->middle_transformer ? 2 : 1), h, channels);
}

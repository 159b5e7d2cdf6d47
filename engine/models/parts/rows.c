#include "engine/models/parts/rows.h"

graft_vid graft_rows_join(const graft_build *b, graft_vid x, graft_vid y)
{
    if (x < 0 || y < 0) return GRAFT_NO_VALUE;
    const int64_t t = graft_build_dim(b, x, 1), c = graft_build_dim(b, x, 2);
    const int64_t of_x = graft_build_dim(b, x, 0), of_y = graft_build_dim(b, y, 0);
    x = graft_graph_reshape(b->g, x, 3, (const int64_t[]){1, of_x * t, c});
    y = graft_graph_reshape(b->g, y, 3, (const int64_t[]){1, of_y * t, c});
    return graft_graph_reshape(b->g, graft_build_join(b, x, y), 3,
                               (const int64_t[]){of_x + of_y, t, c});
}

graft_vid graft_rows_first(const graft_rows *r, graft_vid v)
{
    return graft_graph_slice_rows(r->b->g, v, 0, r->again);
}

/* (N,C) with its first rows once more behind it. */
static graft_vid repeated(const graft_rows *r, graft_vid v)
{
    const graft_build *b = r->b;
    const int64_t n = graft_build_dim(b, v, 0), c = graft_build_dim(b, v, 1);
    v = graft_graph_reshape(b->g, v, 3, (const int64_t[]){n, 1, c});
    v = graft_rows_join(b, v, graft_rows_first(r, v));
    return graft_graph_reshape(b->g, v, 2, (const int64_t[]){n + r->again, c});
}

void graft_rows_init(graft_rows *r, const graft_build *b, graft_vid vec, int64_t again,
                     graft_stream *first, graft_stream *second)
{
    *r = (graft_rows){.b = b,
                      .stream = {first, second},
                      .n_streams = 2,
                      .waiting = {GRAFT_NO_VALUE, GRAFT_NO_VALUE},
                      .vec = vec,
                      .plain = graft_build_dim(b, vec, 0),
                      .again = again};
    r->vec_again = again ? repeated(r, vec) : vec;
}

static bool together(const graft_rows *r)
{
    return r->parted && r->waiting[0] < 0;
}

/* The plain rows alone go on; the others stay what they are. */
static void part(graft_rows *r)
{
    if (r->waiting[0] >= 0) return;
    for (int i = 0; i < r->n_streams; i++) {
        graft_stream *s = r->stream[i];
        r->waiting[i] = graft_graph_slice_rows(r->b->g, s->h, r->parted ? r->plain : 0, r->again);
        if (r->parted) s->h = graft_graph_slice_rows(r->b->g, s->h, 0, r->plain);
    }
    r->parted = true;
}

void graft_rows_unite(graft_rows *r)
{
    if (r->waiting[0] < 0) return;
    for (int i = 0; i < r->n_streams; i++) {
        r->stream[i]->h = graft_rows_join(r->b, r->stream[i]->h, r->waiting[i]);
        r->waiting[i] = GRAFT_NO_VALUE;
    }
}

void graft_rows_before(graft_rows *r, bool skipped)
{
    if (!r->again) return;
    if (skipped)
        part(r);
    else
        graft_rows_unite(r);
}

graft_vid graft_rows_vec(const graft_rows *r)
{
    return together(r) ? r->vec_again : r->vec;
}

graft_vid graft_rows_each(const graft_rows *r, graft_vid v)
{
    return together(r) ? repeated(r, v) : v;
}

int64_t graft_rows_count(const graft_rows *r)
{
    return r->plain + (together(r) ? r->again : 0);
}

/* Rows of a transformer's batch that are computed a second time without some of its blocks:
 * skip-layer guidance (Stability's for SD 3.5 medium). Up to the first block that is left out both
 * are the same and computed once; from there on the second ones stand behind all others, but where
 * they wait for the others to come out of such a block. One thread at a time per graph; failures
 * stay in the graph (graph.h). */
#ifndef GRAFT_MODELS_ROWS_H
#define GRAFT_MODELS_ROWS_H
#include "engine/models/parts/stream.h"

typedef struct graft_rows {
    const graft_build *b;
    graft_stream *stream[2]; /* the network's; their h has the rows that the next block sees */
    int n_streams;
    graft_vid waiting[2];     /* h of the second rows, apart; GRAFT_NO_VALUE: they are in h */
    graft_vid vec, vec_again; /* (N,hidden), and with the second rows */
    int64_t plain, again;     /* again 0: no rows are computed twice */
    bool parted;
} graft_rows;

/* vec is what N rows are conditioned on; the streams are those that the first blocks have. */
void graft_rows_init(graft_rows *r, const graft_build *b, graft_vid vec, int64_t again,
                     graft_stream *first, graft_stream *second);
/* Before a block: whether the second rows leave it out. */
void graft_rows_before(graft_rows *r, bool skipped);
/* All rows together, as the layers behind the blocks want them, and before streams are joined. */
void graft_rows_unite(graft_rows *r);
/* What the rows in h are conditioned on, and how many they are. */
graft_vid graft_rows_vec(const graft_rows *r);
/* The same of any v (N,C). */
graft_vid graft_rows_each(const graft_rows *r, graft_vid v);
int64_t graft_rows_count(const graft_rows *r);
/* (a,T,C) and (b,T,C) to (a + b,T,C). */
graft_vid graft_rows_join(const graft_build *b, graft_vid x, graft_vid y);
/* The first rows of v, as many as are computed twice. */
graft_vid graft_rows_first(const graft_rows *r, graft_vid v);
#endif

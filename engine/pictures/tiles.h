/* Running a graph that turns a picture into another over overlapping tiles whose seams are blended.
 *
 * Sizes are counted in units: the smallest squares that the graph can cut a picture into, so many
 * pixels wide going in and coming out. */
#ifndef GRAFT_PICTURES_TILES_H
#define GRAFT_PICTURES_TILES_H
#include "engine/objects/objects.h"

typedef struct graft_tile_side {
    int64_t channels;
    int64_t unit; /* pixels of a unit, in each direction */
    bool planes;  /* the picture lies as (C,H,W); else as (H,W,C) */
} graft_tile_side;

typedef struct graft_tile_job {
    graft_engine *engine;
    const char *phase; /* told while it runs */
    /* Compiles and binds the graph for a picture of height x width pixels going in. */
    graft_status (*bind)(const void *of, int64_t height, int64_t width, const graft_task *task,
                         graft_binding **out, graft_err *e);
    const void *of;
    graft_tile_side in, out;
    int64_t height, width;           /* of the picture, in units */
    int64_t tile_height, tile_width; /* in units; the picture's where that is smaller */
    int64_t overlap;                 /* in units; at most half a tile */
} graft_tile_job;

/* Each tile is computed as a picture of its own, so the result differs a little from that of the
 * whole. A task that only compiles leaves `out` alone. */
graft_status graft_tiles_run(const graft_tile_job *job, const float *in, float *out,
                             const graft_task *task, graft_err *e);
#endif

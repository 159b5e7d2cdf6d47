/* HyperTile (tfernd, github.com/tfernd/HyperTile): self-attention of the UNet's outer levels, which
 * is most of the work on large pictures, looks at tiles of the picture only. Tiles have no overlap,
 * so that seams may show; therefore a few grids take turns, one a step. There the grid is drawn at
 * random for each layer of each call. Here it follows from the step's number alone: a seed gives
 * the same picture every time, and all grids can be compiled ahead.
 *
 * Pure functions, any thread. */
#ifndef GRAFT_MODELS_HYPERTILE_H
#define GRAFT_MODELS_HYPERTILE_H
#include "engine/models/parts/net_shape.h"

/* Each turn is one more compiled graph, so that no more take part, whatever `swap` says. */
#define GRAFT_HYPERTILE_TURNS 4

/* Plain data without padding that differs. */
typedef struct graft_hypertile {
    int32_t tile;  /* least height and width of a tile, in cells of the latent; 0: off */
    int32_t swap;  /* how many of the best sizes take turns, at least 1 */
    int32_t depth; /* the last level that is tiled; 0: the outermost alone */
    int32_t scale; /* 1: tiles of level d have at least tile * 2^d cells of that level, else tile */
} graft_hypertile;

/* The sizes of a level's tiles are the divisors of its height, or width, from the least size on; a
 * side that is shorter stays whole. The `swap` smallest of them take turns: turn i has the i-th of
 * the heights and the one after it of the widths, each in rotation, so that not all seams are close
 * together at once. How many turns there are for a latent of this size: 1 when nothing changes. */
int graft_hypertile_turns(const graft_hypertile *t, const graft_unet_arch *a, int64_t height,
                          int64_t width);
/* Sets shape->grid to the grids of that turn. Levels of one tile are 0, and those without attention
 * in such a variant with such a cut: grids that change nothing are no reason for another graph. */
void graft_hypertile_grids(const graft_hypertile *t, const graft_unet_arch *a,
                           graft_net_shape *shape, int turn);
/* Whose turn it is in step s of the sampler, from 0: of n turns (s + s/n + s/n^2) mod n, in whole
 * numbers. Any n steps in a row that begin at a multiple of n have one turn each, and steps that
 * are equally far apart, as the whole ones of DeepCache, do not always have the same. */
int graft_hypertile_turn(size_t step, int turns);
#endif

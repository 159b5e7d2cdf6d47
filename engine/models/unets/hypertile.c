#include "engine/models/unets/hypertile.h"

#include <string.h>

#define TURNS GRAFT_HYPERTILE_TURNS

/* The sizes that take turns, smallest first; returns how many. n: height or width of the level. */
static int sizes(const graft_hypertile *t, int level, int64_t n, int64_t out[TURNS])
{
    int64_t least = (int64_t)t->tile << (t->scale ? level : 0);
    int count = 0, most = t->swap < TURNS ? t->swap : TURNS;
    if (least > n) least = n;
    for (int64_t size = least; size <= n && count < most; size++)
        if (n % size == 0) out[count++] = size;
    return count;
}

/* Which levels have attention in a graph of this variant and cut; returns how many levels the whole
 * UNet has. */
static int attention_levels(const graft_unet_arch *a, int32_t variant, int32_t cut,
                            bool has[GRAFT_MAX_BLOCKS])
{
    bool fast = variant == GRAFT_FAST;
    int level = 0, computed = fast ? cut + 1 : a->n_input;
    memset(has, 0, GRAFT_MAX_BLOCKS * sizeof *has);
    for (int i = 0; i < a->n_input; i++) {
        level += a->input[i].down != 0;
        if (a->input[i].transformer && i < computed) has[level] = true;
    }
    if (a->middle_transformer && !fast) has[level] = true;
    for (int i = 0, at = level; i < a->n_output && at >= 0; i++) {
        if (a->output[i].transformer && i >= a->n_output - computed) has[at] = true;
        at -= a->output[i].up != 0;
    }
    return level + 1;
}

typedef struct level_sizes {
    int64_t height, width; /* of the level; 0: it is not tiled */
    int64_t of_height[TURNS], of_width[TURNS];
    int heights, widths;
} level_sizes;

/* Returns how many turns there are. */
static int collect(const graft_hypertile *t, const graft_unet_arch *a, int64_t height,
                   int64_t width, level_sizes out[GRAFT_GRIDS])
{
    bool has[GRAFT_MAX_BLOCKS];
    int levels = attention_levels(a, GRAFT_WHOLE, 0, has), turns = 1;
    memset(out, 0, GRAFT_GRIDS * sizeof *out);
    for (int i = 0; i < levels && i < GRAFT_GRIDS && i <= t->depth && t->tile > 0; i++) {
        level_sizes *l = &out[i];
        if (has[i] && height > 0 && width > 0) {
            l->height = height;
            l->width = width;
            l->heights = sizes(t, i, height, l->of_height);
            l->widths = sizes(t, i, width, l->of_width);
            if (l->heights > turns) turns = l->heights;
            if (l->widths > turns) turns = l->widths;
        }
        height = (height + 1) / 2; /* as down-sampling does it */
        width = (width + 1) / 2;
    }
    return turns;
}

int graft_hypertile_turns(const graft_hypertile *t, const graft_unet_arch *a, int64_t height,
                          int64_t width)
{
    level_sizes level[GRAFT_GRIDS];
    return collect(t, a, height, width, level);
}

void graft_hypertile_grids(const graft_hypertile *t, const graft_unet_arch *a,
                           graft_net_shape *shape, int turn)
{
    level_sizes level[GRAFT_GRIDS];
    bool has[GRAFT_MAX_BLOCKS];
    collect(t, a, shape->height, shape->width, level);
    attention_levels(a, shape->variant, shape->cut, has);
    memset(shape->grid, 0, sizeof shape->grid);
    for (int i = 0; i < GRAFT_GRIDS; i++) {
        const level_sizes *l = &level[i];
        if (!l->heights || !l->widths || !has[i]) continue;
        int64_t rows = l->height / l->of_height[turn % l->heights];
        int64_t columns = l->width / l->of_width[(turn + 1) % l->widths];
        if (rows > 1 || columns > 1) shape->grid[i] = (graft_grid){(int32_t)rows, (int32_t)columns};
    }
}

int graft_hypertile_turn(size_t step, int turns)
{
    size_t n = turns > 1 ? (size_t)turns : 1;
    return (int)((step % n + step / n % n + step / n / n % n) % n);
}

/* Which blocks of a transformer take which of its ControlNets' residuals. A ControlNet has fewer
 * blocks than the transformer, of which several in a row take the same residual. With several
 * ControlNets, whose residuals are added up, another begins wherever one of them has another.
 *
 * Pure functions, any thread. */
#ifndef GRAFT_MODELS_STEERED_H
#define GRAFT_MODELS_STEERED_H
#include <stdbool.h>
#include <stdint.h>

enum {
    GRAFT_STEERED_PARTS = 2,   /* blocks of two streams, then those of one */
    GRAFT_STEERED_BLOCKS = 64, /* of a part, at most */
    GRAFT_STEERED_MOST = GRAFT_STEERED_PARTS * GRAFT_STEERED_BLOCKS
};
/* A bit for each block of a part at which another residual begins; 0: the part takes none. */
typedef struct graft_steered {
    uint64_t begins[GRAFT_STEERED_PARTS];
} graft_steered;

static inline int graft_steered_count(const graft_steered *s, int part)
{
    return __builtin_popcountll(s->begins[part]);
}

static inline int graft_steered_all(const graft_steered *s)
{
    return graft_steered_count(s, 0) + graft_steered_count(s, 1);
}

/* The residual that a block takes, of those of all parts; -1: none. */
static inline int graft_steered_by(const graft_steered *s, int part, int block)
{
    if (block >= GRAFT_STEERED_BLOCKS || !s->begins[part]) return -1;
    const uint64_t until = s->begins[part] & (((uint64_t)2 << block) - 1);
    return (part ? graft_steered_count(s, 0) : 0) + __builtin_popcountll(until) - 1;
}

/* The block at which residual i of a part begins. */
static inline int graft_steered_begin(const graft_steered *s, int part, int i)
{
    uint64_t left = s->begins[part];
    for (; i > 0; i--) left &= left - 1;
    return __builtin_ctzll(left);
}

/* Whether a network with so many blocks can be steered so, or not at all without control. */
static inline bool graft_steered_fits(const graft_steered *s, bool control,
                                      const int32_t depth[GRAFT_STEERED_PARTS])
{
    for (int part = 0; part < GRAFT_STEERED_PARTS; part++) {
        const uint64_t b = s->begins[part];
        if (b && (!(b & 1) || depth[part] > GRAFT_STEERED_BLOCKS ||
                  (depth[part] < GRAFT_STEERED_BLOCKS && b >> depth[part])))
            return false;
    }
    return control == (graft_steered_all(s) > 0);
}
#endif

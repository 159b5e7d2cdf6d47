/* Merged tokens: MATCH_TOKENS' attributes (ops.def), and which tokens of a grid others are merged
 * into. Pure, any thread. */
#ifndef GRAFT_KERNELS_TOKENS_H
#define GRAFT_KERNELS_TOKENS_H
#include <stdbool.h>

#include "kernels/op_desc.h"

typedef struct graft_tokens {
    int32_t rows, columns; /* of the grid */
    uint32_t pattern;
    int64_t targets, sources; /* their sum: all tokens */
    int64_t left, merged;     /* of the tokens, and of the sources; likewise */
} graft_tokens;

static inline graft_attrs graft_tokens_attrs(int32_t rows, int32_t columns, int32_t left,
                                             int32_t pattern)
{
    return (graft_attrs){.up_h = rows, .up_w = columns, .groups = left, .pad_top = pattern};
}

/* False where the numbers do not go together, or with so many tokens. */
static inline bool graft_tokens_of(const graft_attrs *a, int64_t tokens, graft_tokens *out)
{
    if (a->up_h < 1 || a->up_w < 1 || a->pad_top < 0 || tokens > INT32_MAX ||
        (int64_t)a->up_h * a->up_w != tokens)
        return false;
    out->rows = a->up_h;
    out->columns = a->up_w;
    out->pattern = (uint32_t)a->pad_top;
    out->targets = (int64_t)(a->up_h / 2) * (a->up_w / 2);
    out->sources = tokens - out->targets;
    out->left = a->groups;
    out->merged = tokens - out->left;
    return out->left <= tokens && out->left >= (out->targets > 0 ? out->targets : tokens);
}

/* A number that has no visible order in those that it is made of: rounds of shifts and products as
 * in the end of MurmurHash3 (Appleby, in the public domain). */
static inline uint32_t graft_tokens_mix(uint32_t h)
{
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

/* Which of the four tokens of cell i others are merged into: 0 and 1 the upper ones, 2 and 3 the
 * lower ones, from the left. */
static inline uint32_t graft_tokens_place(uint32_t pattern, uint32_t cell)
{
    return graft_tokens_mix(graft_tokens_mix(pattern + 1) + cell) >> 30;
}

/* Whether others are merged into this token. */
static inline bool graft_tokens_is_target(const graft_tokens *t, int64_t token)
{
    const int32_t row = (int32_t)(token / t->columns), column = (int32_t)(token % t->columns);
    const int32_t down = row / 2, across = column / 2, wide = t->columns / 2;
    if (down >= t->rows / 2 || across >= wide) return false;
    const uint32_t here = (uint32_t)(row % 2 * 2 + column % 2);
    return graft_tokens_place(t->pattern, (uint32_t)(down * wide + across)) == here;
}
#endif

/* The types of ggml's blocks (kernels/ggml_blocks.h) by their numbers, and the names of all types
 * that it has. */
#ifndef GRAFT_WEIGHTS_GGML_BLOCKS_H
#define GRAFT_WEIGHTS_GGML_BLOCKS_H
#include <stddef.h>
#include <stdint.h>

#include "kernels/ggml_blocks.h"

#define GRAFT_GGML_MAX_BLOCK GRAFT_GGML_LARGE /* values */

typedef struct graft_ggml_blocks {
    uint32_t id; /* ggml_type */
    const char *name;
    uint32_t values, bytes; /* of one block */
} graft_ggml_blocks;

/* NULL: no type of blocks, or one that is not read. Any thread. */
const graft_ggml_blocks *graft_ggml_blocks_find(uint32_t id);
/* ggml's name of a type, of those too that are not read; NULL: there is none. */
const char *graft_ggml_type_name(uint32_t id);
/* Values first .. first + n of those that `blocks` hold from `data` on, at any alignment; neither
 * needs to be the edge of a block. */
void graft_ggml_blocks_to_f32(const graft_ggml_blocks *type, const void *data, int64_t first,
                              int64_t n, float *out);
#endif

/* A tensor as a file stores it, whatever the format of the file (safetensors.h, gguf.h), and its
 * values. Any thread. */
#ifndef GRAFT_WEIGHTS_ST_TENSOR_H
#define GRAFT_WEIGHTS_ST_TENSOR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/weights/coded.h"
#include "engine/weights/ggml_blocks.h"
#include "kernels/op_desc.h"

#define GRAFT_SAFETENSORS_MAX_RANK 8

typedef struct graft_st_tensor {
    const char *name;
    graft_dtype dtype; /* GRAFT_DTYPE_NONE where there are `blocks`, or it is `coded` */
    int rank;
    int64_t shape[GRAFT_SAFETENSORS_MAX_RANK];
    const void *data; /* inside the mapping or, joined, in memory; aligned to 1 byte only */
    uint64_t bytes;
    int part; /* 1: a scale or a shape of a quantized tensor (quantized.h, coded.h), which has all
                 of it, or of a scaled one (scaled.h) */
    float scale;        /* its values count times this (scaled.h); 0: as they are */
    const char *called; /* by the file, where it got another name (graft_st_alias); else NULL; of
                           one that is joined the first piece's */
    const graft_ggml_blocks *blocks; /* how its values are packed, a row's end to end; NULL: they
                                        lie as `dtype` says */
    const graft_coded *coded;        /* how other programs quantized them; NULL: they did not */
} graft_st_tensor;

/* One of metadata. */
typedef struct graft_st_pair {
    const char *key, *value;
} graft_st_pair;

/* What the file itself calls it: for messages. */
static inline const char *graft_st_called(const graft_st_tensor *t)
{
    return t->called ? t->called : t->name;
}

/* Whether its values have to be made of what the file stores. */
static inline bool graft_st_packed(const graft_st_tensor *t)
{
    return t->blocks || t->coded;
}

/* How many values it has: the reader has checked that the number exists. */
static inline int64_t graft_st_values(const graft_st_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

/* Whether they can be weights. */
bool graft_st_is_weight(const graft_st_tensor *t);
/* Values first .. first + n of a tensor of floats or blocks, not of a quantized one; its scale is
 * not counted. */
void graft_st_to_f32(const graft_st_tensor *t, int64_t first, int64_t n, float *dst);
/* All of them as float16, freed with graft_free(). GRAFT_E_UNSUPPORTED where it cannot hold one. */
graft_status graft_st_as_f16(const graft_st_tensor *t, uint16_t **out, graft_err *e);

/* Puts them in the order of their data; of those without bytes, and at one place, in that of the
 * text that their names are in. */
void graft_st_sort(graft_st_tensor *tensor, size_t n);
#endif

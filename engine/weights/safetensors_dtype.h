/* Names of element types in safetensors headers. */
#ifndef GRAFT_WEIGHTS_SAFETENSORS_DTYPE_H
#define GRAFT_WEIGHTS_SAFETENSORS_DTYPE_H
#include <stddef.h>

#include "kernels/op_desc.h"

typedef struct graft_st_dtype_name {
    const char *name;
    graft_dtype dtype; /* GRAFT_DTYPE_NONE: part of the format, but nothing here computes with it */
} graft_st_dtype_name;

static const graft_st_dtype_name graft_st_dtype_names[] = {
    {"F32", GRAFT_F32},
    {"F16", GRAFT_F16},
    {"BF16", GRAFT_BF16},
    {"I8", GRAFT_I8},
    {"U8", GRAFT_U8},
    {"F8_E8M0", GRAFT_U8}, /* scales, powers of two: coded.h */
    {"I32", GRAFT_I32},
    {"I64", GRAFT_I64},
    {"F64", GRAFT_F64},
    {"F8_E4M3", GRAFT_F8_E4M3},
    {"F8_E5M2", GRAFT_F8_E5M2},
    {"BOOL", GRAFT_BOOL8},
    {"I16", GRAFT_DTYPE_NONE},
    {"U16", GRAFT_DTYPE_NONE},
    {"U32", GRAFT_DTYPE_NONE},
    {"U64", GRAFT_DTYPE_NONE},
    {"C64", GRAFT_DTYPE_NONE},
    {"F4", GRAFT_DTYPE_NONE},
    {"F6_E2M3", GRAFT_DTYPE_NONE},
    {"F6_E3M2", GRAFT_DTYPE_NONE},
};
enum { GRAFT_ST_DTYPE_COUNT = sizeof graft_st_dtype_names / sizeof graft_st_dtype_names[0] };
#endif

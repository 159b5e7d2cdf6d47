#include "engine/weights/ggml_blocks.h"

static const graft_ggml_blocks types[] = {
#define GRAFT_GGML_TYPE(number, name, function, values, bytes) {number, name, values, bytes},
    GRAFT_GGML_TYPES
#undef GRAFT_GGML_TYPE
};
#define N_TYPES (sizeof types / sizeof *types)

const graft_ggml_blocks *graft_ggml_blocks_find(uint32_t id)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].id == id) return &types[i];
    return NULL;
}

const char *graft_ggml_type_name(uint32_t id)
{
    static const char *const name[] = {
        "F32",     "F16",    "Q4_0",    "Q4_1",  NULL,     NULL,    "Q5_0",  "Q5_1",
        "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
        "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
        "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16",  NULL,
        NULL,      NULL,     "TQ1_0",   "TQ2_0", NULL,     NULL,    NULL,    "MXFP4",
    };
    return id < sizeof name / sizeof *name ? name[id] : NULL;
}

void graft_ggml_blocks_to_f32(const graft_ggml_blocks *type, const void *data, int64_t first,
                              int64_t n, float *out)
{
    graft_ggml_to_f32((int32_t)type->id, data, first, n, out);
}

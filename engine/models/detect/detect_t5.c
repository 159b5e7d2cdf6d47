/* T5's encoder, by the names and shapes of its tensors. */
#include "engine/models/detect/detect_parts.h"
#include "engine/models/encoders/t5.h"

#define MAX_LAYERS  128
#define MAX_BUCKETS 256

#define ATTENTION "encoder.block.0.layer.0.SelfAttention."
#define DENSE     "encoder.block.0.layer.1.DenseReluDense."

static graft_status other_structure(const graft_safetensors *f, const char *prefix, graft_err *e)
{
    static const graft_detect_other others[] = {
        {DENSE "wi.weight", "a T5 of version 1.0, whose layers are not gated"},
    };
    return graft_detect_others(f, prefix, others, sizeof others / sizeof *others, e);
}

/* A layer counts with any of these, so that a file that lacks another is refused by its name. */
static bool has_layer(const graft_safetensors *f, const char *prefix, int i)
{
    return graft_detect_find(f, prefix, "encoder.block.%d.layer.0.SelfAttention.q.weight", i) ||
           graft_detect_find(f, prefix, "encoder.block.%d.layer.0.layer_norm.weight", i) ||
           graft_detect_find(f, prefix, "encoder.block.%d.layer.1.DenseReluDense.wo.weight", i);
}

/* Of a matrix; 0, 0 when it is none. */
static void shape_of(const graft_safetensors *f, const char *prefix, const char *name,
                     int32_t *rows, int32_t *columns)
{
    const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", name);
    const bool matrix = t && t->rank == 2;
    *rows = matrix ? graft_detect_dim(t, 0) : 0;
    *columns = matrix ? graft_detect_dim(t, 1) : 0;
}

graft_status graft_t5_detect(const graft_safetensors *f, const char *prefix, graft_t5_arch *out,
                             graft_err *e)
{
    int32_t inner, columns;
    *out = (graft_t5_arch){.embed_tokens = !graft_detect_find(f, prefix, "shared.weight"),
                           .own_bias = graft_detect_find(f, prefix, GRAFT_UMT5_TENSOR) != NULL};
    graft_status st = other_structure(f, prefix, e);
    if (st) return st;
    shape_of(f, prefix, graft_t5_embeddings_name(out), &out->vocab, &out->width);
    if (!out->vocab || !out->width)
        return graft_detect_missing(f, prefix, graft_t5_embeddings_name(out), e);
    shape_of(f, prefix, GRAFT_T5_TENSOR, &inner, &columns);
    if (!inner || columns != out->width) return graft_detect_missing(f, prefix, GRAFT_T5_TENSOR, e);
    shape_of(f, prefix, graft_t5_bias_name(), &out->buckets, &out->heads);
    if (!out->buckets || !out->heads)
        return graft_detect_missing(f, prefix, graft_t5_bias_name(), e);
    shape_of(f, prefix, DENSE "wi_0.weight", &out->intermediate, &columns);
    if (!out->intermediate || columns != out->width)
        return graft_detect_missing(f, prefix, DENSE "wi_0.weight", e);
    while (out->layers < MAX_LAYERS && has_layer(f, prefix, out->layers)) out->layers++;
    if (inner % out->heads || out->buckets % 4 || out->buckets > MAX_BUCKETS)
        return graft_fail(
            e, GRAFT_E_UNSUPPORTED,
            "%s: a T5 with queries of %d numbers, %d heads, %d buckets makes no sense",
            graft_safetensors_path(f), inner, out->heads, out->buckets);
    out->head_dim = inner / out->heads;
    return GRAFT_OK;
}

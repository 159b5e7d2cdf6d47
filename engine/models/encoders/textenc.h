/* CLIP's text transformer (Radford et al. 2021, arXiv:2103.00020; OpenCLIP's ViT-H and ViT-bigG) as
 * a graph. Token embeddings are looked up by the caller, straight from the mapped table. */
#ifndef GRAFT_MODELS_TEXTENC_H
#define GRAFT_MODELS_TEXTENC_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"

typedef struct graft_textenc_shape {
    int64_t batch, tokens; /* tokens: at most as many as the table of positions has */
    int32_t hidden_layer;  /* hidden state after this many layers, 1 … layers */
    bool hidden_norm;      /* the final layer norm is applied to it */
    bool pooled;           /* also the pooled output */
    bool projected;        /* pooled output times the projection, if the model has one */
    graft_dtype act_dtype;
} graft_textenc_shape;

/* Inputs: embeddings (N,T,width) float32, without positions if graft_textenc_adds_positions(); if
 * pooled, row (N) int32: the place of the first end token. Outputs: hidden (N,T,width); if pooled,
 * (N,width or projection). */
graft_status graft_textenc_build(const graft_text_arch *a, const graft_textenc_shape *shape,
                                 graft_graph **out, graft_err *e);
/* Whether the graph adds those of its tokens' places: where there are as many as the table has. Of
 * fewer the caller has done so. */
static inline bool graft_textenc_adds_positions(const graft_text_arch *a, int64_t tokens)
{
    return tokens == a->positions;
}
/* Full name of the table of positions (positions,width). Static. */
const char *graft_textenc_positions_name(const graft_text_arch *a);
/* Full name of the token embedding table. */
void graft_textenc_table_name(const graft_text_arch *a, char *out, size_t n);
#endif

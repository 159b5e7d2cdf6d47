/* What model builders share: layers by name over the graph IR. Weights have the names of the
 * original single-file checkpoints, without the part's prefix: a weight set knows that
 * ("model.diffusion_model."), so that one graph serves checkpoints and single parts. One thread at
 * a time per graph; failures stay in the graph (graph.h). */
#ifndef GRAFT_MODELS_BUILD_H
#define GRAFT_MODELS_BUILD_H
#include "engine/graph/graph.h"
#include "kernels/rope.h"

typedef struct graft_build {
    graft_graph *g;
    graft_dtype act_dtype; /* of activations: GRAFT_F32, GRAFT_BF16 or GRAFT_F16 */
} graft_build;

/* A name under construction. */
typedef struct graft_name {
    char text[256];
} graft_name;
graft_name graft_name_make(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

typedef struct graft_conv_spec {
    int32_t channels, kernel, stride;
    int32_t pad[4]; /* top, left, bottom, right */
} graft_conv_spec;
/* (N,H,W,C) -> (N,H',W',channels), with bias. 1x1 convolutions become linear layers. */
graft_vid graft_build_conv(const graft_build *b, graft_name name, graft_vid x,
                           graft_conv_spec spec);
/* The same without bias. */
graft_vid graft_build_conv_plain(const graft_build *b, graft_name name, graft_vid x,
                                 graft_conv_spec spec);
/* 3x3, stride 1, same size. */
graft_vid graft_build_conv3(const graft_build *b, graft_name name, graft_vid x, int32_t channels);
/* The same by the last slice of a kernel over so many pictures. */
graft_vid graft_build_conv3_of_last(const graft_build *b, graft_name name, graft_vid x,
                                    int32_t channels, int32_t pictures);
/* The same by given weights, with the bias of this name. */
graft_vid graft_build_conv3_by(const graft_build *b, graft_name name, graft_vid x,
                               graft_vid weights, int32_t channels);
graft_vid graft_build_linear(const graft_build *b, graft_name name, graft_vid x, int32_t width,
                             bool bias);
/* The same by given weights (width,K), and a bias or GRAFT_NO_VALUE. */
graft_vid graft_build_linear_by(const graft_build *b, graft_vid x, graft_vid weights,
                                graft_vid bias);
/* Of 32 groups, or of another number. */
graft_vid graft_build_group_norm(const graft_build *b, graft_name name, graft_vid x, float eps);
graft_vid graft_build_group_norm_of(const graft_build *b, graft_name name, graft_vid x,
                                    int32_t groups, float eps);
/* With the statistics (N,groups,2) of a larger picture in place of x's own. */
graft_vid graft_build_group_norm_given(const graft_build *b, graft_name name, graft_vid x,
                                       graft_vid moments, float eps);
#define GRAFT_LAYER_NORM_EPS 1e-5f
graft_vid graft_build_layer_norm(const graft_build *b, graft_name name, graft_vid x);
/* With an epsilon of its own. */
graft_vid graft_build_layer_norm_of(const graft_build *b, graft_name name, graft_vid x, float eps);
/* An RMS norm of each of the `heads` parts of a row by a weight of their size, whose whole name is
 * given. */
graft_vid graft_build_rms_norm(const graft_build *b, graft_name weight, graft_vid x, int32_t heads,
                               float eps);
/* The same by a weight that is stored less one. */
graft_vid graft_build_rms_norm_more(const graft_build *b, graft_name weight, graft_vid x,
                                    int32_t heads, float eps);
graft_vid graft_build_act(const graft_build *b, graft_vid x, graft_act act);
graft_vid graft_build_add(const graft_build *b, graft_vid x, graft_vid y);
/* y may have size 1 in any dimension; of what type it may be, ops.def says. */
graft_vid graft_build_mul(const graft_build *b, graft_vid x, graft_vid y);
/* x * scale + shift */
graft_vid graft_build_scale(const graft_build *b, graft_vid x, float scale, float shift);
graft_vid graft_build_attention(const graft_build *b, graft_vid q, graft_vid k, graft_vid v,
                                int32_t heads, bool causal);
/* The same of queries, keys and values of which the first `count` (N) int32 keys count. */
graft_vid graft_build_attention_counted(const graft_build *b, const graft_vid qkv[3],
                                        graft_vid count, int32_t heads);
/* A gated feed-forward network (Shazeer 2020, arXiv:2002.05202): down of act(gate x) * up x, `wide`
 * numbers, as wide as x. Layers without biases, called NAME.LAYER. */
typedef struct graft_build_gated_layers {
    const char *gate, *up, *down;
} graft_build_gated_layers;
graft_vid graft_build_gated(const graft_build *b, graft_name name,
                            const graft_build_gated_layers *layers, graft_vid x, int32_t wide,
                            graft_act act);
/* Along the last dimension. */
graft_vid graft_build_concat(const graft_build *b, graft_vid x, graft_vid y);
/* (N,T,C) and (N,S,C) to (N,T+S,C). */
graft_vid graft_build_join(const graft_build *b, graft_vid x, graft_vid y);
/* Numbers (N) as waves (N,width), float32: TIMESTEP. */
graft_vid graft_build_waves(const graft_build *b, graft_vid t, int32_t width);
/* Tokens (N,T,C) with their places on a grid turned into them (kernels/rope.h). */
graft_vid graft_build_rope(const graft_build *b, graft_vid x, const graft_rope_grid *grid);
/* Nearest, to height x width. */
graft_vid graft_build_upsample(const graft_build *b, graft_vid x, int64_t height, int64_t width);
/* A view as a value of its own, dense and of this type; GRAFT_DTYPE_NONE: of the view's. */
graft_vid graft_build_dense(const graft_build *b, graft_vid x, graft_dtype dtype);
/* The same of x (a,b,c,d) with dimension i being x's dimension order[i]. */
graft_vid graft_build_permuted(const graft_build *b, graft_vid x, const int32_t order[4],
                               graft_dtype dtype);
/* The same of x, reshaped to (a,b,c,d), as (a,c,b,d). */
graft_vid graft_build_exchanged(const graft_build *b, graft_vid x, const int64_t dim[4],
                                graft_dtype dtype);
/* Converts, also between (N,C,H,W) and (N,H,W,C). */
graft_vid graft_build_cast(const graft_build *b, graft_vid x, graft_dtype dtype);
graft_vid graft_build_to_nhwc(const graft_build *b, graft_vid x, graft_dtype dtype);
graft_vid graft_build_to_nchw(const graft_build *b, graft_vid x, graft_dtype dtype);
/* Size of a dimension; 1 when building has failed already. */
int64_t graft_build_dim(const graft_build *b, graft_vid x, int i);
#endif

/* What diffusion transformers share: streams of tokens, whose norms and gates follow what the
 * network is conditioned on (adaLN-Zero of Peebles and Xie 2023, arXiv:2212.09748). One thread at a
 * time per graph; failures stay in the graph (graph.h). */
#ifndef GRAFT_MODELS_STREAM_H
#define GRAFT_MODELS_STREAM_H
#include "engine/models/parts/build.h"

#define GRAFT_STREAM_EPS 1e-6f /* of norms, but for AuraFlow's */

typedef struct graft_stream {
    graft_name name;          /* of what its layers are below: "joint_blocks.3.x_block" */
    graft_vid shifts, scales; /* (N,1,vectors*hidden) float32: as they are, and one more */
    graft_vid h;              /* (N,tokens,hidden) */
} graft_stream;

/* Sets shifts and scales: `vectors` of the stream's width each, by a linear layer of this name from
 * vec (N,hidden). */
void graft_stream_modulate(const graft_build *b, graft_stream *s, graft_name layer, graft_vid vec,
                           int vectors);
/* The same by a layer without a bias. */
void graft_stream_modulate_unbiased(const graft_build *b, graft_stream *s, graft_name layer,
                                    graft_vid vec, int vectors);
/* The same from `vectors` vectors of `all` (N,vectors*hidden) float32, from number `first` on. */
void graft_stream_modulate_given(const graft_build *b, graft_stream *s, graft_vid all, int first,
                                 int vectors);
/* The stream, normed, times one more than vector shift + 1, plus vector shift. */
graft_vid graft_stream_normed(const graft_build *b, const graft_stream *s, int shift);
/* The same with an epsilon of its own. */
graft_vid graft_stream_normed_of(const graft_build *b, const graft_stream *s, int shift, float eps);
/* The stream + vector `gate` times v (N,tokens,hidden). */
graft_vid graft_stream_gated(const graft_build *b, const graft_stream *s, int gate, graft_vid v);
/* An RMS norm of each head of v (N,tokens,heads*d) by a weight (d) of this name. */
graft_vid graft_stream_head_normed(const graft_build *b, graft_name weight, graft_vid v,
                                   int32_t heads);
/* Keys or values (N,T,key_heads*d), each head as often as there are heads of queries that read it,
 * side by side: (N,T,heads*d). */
graft_vid graft_stream_heads_shared(const graft_build *b, graft_vid v, int32_t heads,
                                    int32_t key_heads);
/* `count` tokens of all entries, dense. */
graft_vid graft_stream_tokens(const graft_build *b, graft_vid v, int64_t begin, int64_t count);
/* Tokens v (N,T,C), of which the first y (N,1) float32 count: these from the last one to the first,
 * and zeros behind them. */
graft_vid graft_stream_reversed(const graft_build *b, graft_vid v, graft_vid y);
/* How many tokens count where y (N,1) float32 says how many of a prompt's do, which stand behind
 * `before` others: (N) int32. */
graft_vid graft_stream_count(const graft_build *b, graft_vid y, int64_t before);
/* A latent (N,c,h,w) as tokens of act_dtype: squares of patch x patch cells, row by row, each of
 * them (row, column, channel). h and w are multiples of the patch. */
graft_vid graft_stream_patches(const graft_build *b, graft_vid x, int32_t patch);
/* Such tokens as a latent, float32. */
graft_vid graft_stream_unpatched(const graft_build *b, graft_vid x, int64_t rows, int64_t columns,
                                 int32_t patch);
/* The same with (channel, row, column) of each square, as FLUX.1 and Qwen-Image have them. */
graft_vid graft_stream_plane_patches(const graft_build *b, graft_vid x, int32_t patch);
graft_vid graft_stream_plane_unpatched(const graft_build *b, graft_vid x, int64_t rows,
                                       int64_t columns, int32_t patch);
#endif

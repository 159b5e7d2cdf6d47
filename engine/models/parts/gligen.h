/* GLIGEN (Li et al. 2023, arXiv:2301.07093; the authors' code: gligen/GLIGEN, MIT) for texts in
 * boxes: what it adds to a UNet. A text's pooled vector t by CLIP, before any projection, and a box
 * x0, y0, x1, y1 in shares of the picture become a token,
 *
 *     MLP(t, sin(f b), cos(f b) for f = 100^(k/F), k = 0 … F - 1, b = x0, y0, x1, y1)
 *
 * three layers with SiLU between them. There are always GRAFT_GLIGEN_TOKENS of these; a place
 * without a box has learned numbers in place of t and of the waves. Between self- and
 * cross-attention each block then has, with v its own tokens and g the others brought to its width
 * by a layer,
 *
 *     v = v + tanh(alpha_attn) attention(norm1(v), norm1(v and g))
 *     v = v + tanh(alpha_dense) ff(norm2(v))
 *
 * Names in files are position_net.… and those of the UNet's blocks, as in
 * input_blocks.1.1.transformer_blocks.0.fuser.…. Pure functions, any thread. */
#ifndef GRAFT_MODELS_GLIGEN_H
#define GRAFT_MODELS_GLIGEN_H
#include "engine/models/parts/attended.h"
#include "engine/models/parts/build.h"

#define GRAFT_GLIGEN_TOKENS 30
/* What its tensors' names begin with beside a UNet's (graft_weights_beside()). */
#define GRAFT_GLIGEN_CALLED "boxes."

/* Where blocks are in a UNet, in the order of graft_crossings. */
typedef struct graft_gligen_place {
    int32_t part; /* graft_crossing_part */
    int32_t block, index;
    int32_t channels;
} graft_gligen_place;

typedef struct graft_gligen_arch {
    int32_t text, waves; /* numbers of a text, and 8 F of a box */
    int32_t hidden;      /* of the MLP */
    int32_t width;       /* of a token */
    int32_t n;           /* blocks */
    graft_gligen_place place[GRAFT_CROSSINGS];
} graft_gligen_arch;

/* The blocks of a UNet; false where there are more of them than fit. */
bool graft_gligen_places(const graft_unet_arch *a, graft_gligen_arch *out);
/* What a block is called, and the tensors that stand for no text and no box. */
graft_name graft_gligen_block_name(const graft_gligen_place *p);
#define GRAFT_GLIGEN_NO_TEXT "position_net.null_positive_feature"
#define GRAFT_GLIGEN_NO_BOX  "position_net.null_position_feature"
/* The waves of a box; out: `waves` numbers. */
void graft_gligen_waves(const graft_gligen_arch *a, const double box[4], float *out);

/* (1,GRAFT_GLIGEN_TOKENS,text + waves) -> (1,GRAFT_GLIGEN_TOKENS,width), both float32. */
graft_status graft_gligen_build(const graft_gligen_arch *a, graft_dtype act_dtype,
                                graft_graph **out, graft_err *e);
/* x (N,T,C), tokens (N,GRAFT_GLIGEN_TOKENS,width) -> (N,T,C). name: of the block's part, which ends
 * in "fuser". */
graft_vid graft_gligen_build_block(const graft_build *b, graft_name name, graft_vid x,
                                   graft_vid tokens, int32_t heads);
/* A graph of all blocks, for their weights' sake. */
graft_status graft_gligen_build_all(const graft_gligen_arch *a, graft_graph **out, graft_err *e);
#endif

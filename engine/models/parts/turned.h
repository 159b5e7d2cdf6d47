/* Places turned into queries and keys by angles that are given with them, for tokens that stand on
 * no grid of ROPE's (ops.def), or whose angles run on from one axis to the next. Value i of a head
 * is turned against value i of the head's other half (arXiv:2104.09864). One thread at a time per
 * graph; failures stay in the graph (graph.h). */
#ifndef GRAFT_MODELS_TURNED_H
#define GRAFT_MODELS_TURNED_H
#include "engine/models/parts/build.h"

/* Of T tokens (T,1,d/2) float32: cosines and sines of the angles, and the sines with the other
 * sign. */
typedef struct graft_turns {
    graft_vid cos, sin, back;
} graft_turns;
/* Two inputs, cosines and sines. */
graft_turns graft_turns_input(const graft_build *b, int64_t tokens, int64_t half);
/* x (1,T,heads*d) with each head turned, as values of act_dtype. In between they are float32. */
graft_vid graft_turned(const graft_build *b, const graft_turns *t, graft_vid x, int32_t heads);
/* x (N,T,heads*d) with each head turned by its place on a grid of ROPE's, and the two halves of its
 * values interleaved: where queries and keys both are, their products are those of halves that were
 * turned against each other. */
graft_vid graft_turned_on(const graft_build *b, graft_vid x, const graft_rope_grid *grid);

/* How far tokens stand behind others, of which only a run knows: cosines and sines of ROPE's angles
 * for that, (1,N,1,values/2). */
typedef struct graft_turns_back {
    graft_vid cos, sin;
    int32_t values; /* of a head that turn, its first ones */
} graft_turns_back;
/* From `places` (N) float32. */
graft_turns_back graft_turns_back_by(const graft_build *b, graft_vid places, int32_t values);
/* x (N,T,heads*d) with these values of each head, in pairs as ROPE has them, turned back by so many
 * places. In between they are float32. */
graft_vid graft_turned_back(const graft_build *b, const graft_turns_back *t, graft_vid x,
                            int32_t heads);
#endif

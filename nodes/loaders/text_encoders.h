/* What the nodes that load text encoders share: their first inputs are the files. */
#ifndef GRAFT_NODES_TEXT_ENCODERS_H
#define GRAFT_NODES_TEXT_ENCODERS_H
#include "nodes/call/call.h"

extern const graft_input graft_text_encoders_one, graft_text_encoders_two[2],
    graft_text_encoders_three[3], graft_text_encoders_four[4];
/* The "type" of one encoder, and of a pair: all that ComfyUI lists. */
extern const graft_input graft_text_encoders_type_of_one, graft_text_encoders_type_of_two;
extern const graft_output graft_text_encoders_out; /* output 0 */

/* Loads the files that the first n inputs name, at most four, as one encoder of the model family
 * `type`. */
graft_status graft_text_encoders_run(graft_call *c, int n, const char *type);
/* The same with the family that input number `type` names, if it is one that is supported. */
graft_status graft_text_encoders_run_typed(graft_call *c, int n, int type);
#endif

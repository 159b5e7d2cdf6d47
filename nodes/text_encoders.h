/* What the nodes that load text encoders share. */
#ifndef GRAFT_NODES_TEXT_ENCODERS_H
#define GRAFT_NODES_TEXT_ENCODERS_H
#include "nodes/call.h"

/* The "type" of one encoder, and of a pair: all that ComfyUI lists. */
extern const graft_input graft_text_encoders_type_of_one, graft_text_encoders_type_of_two;

/* Loads the n files that inputs `first`, first + 1, … name, at most three, as one encoder of the
 * model family `type`, into output 0. */
graft_status graft_text_encoders_run(graft_call *c, int first, int n, const char *type);
/* The same with the family that input number `type` names, if it is one that is supported. */
graft_status graft_text_encoders_run_typed(graft_call *c, int first, int n, int type);
#endif

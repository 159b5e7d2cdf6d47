/* The check of one node: what its inputs have to be. For validate.c; one thread at a time. */
#ifndef GRAFT_HOST_PROMPT_CHECK_NODE_H
#define GRAFT_HOST_PROMPT_CHECK_NODE_H
#include "host/prompt/check.h"

/* Fills the node's inputs, and notes what is wrong with them. In its JSON literals become what they
 * are converted to. */
graft_status graft_check_node(graft_check *c, size_t node);
#endif

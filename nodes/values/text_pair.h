/* Two texts that a node compares: as they are, or both in lower case. */
#ifndef GRAFT_NODES_TEXT_PAIR_H
#define GRAFT_NODES_TEXT_PAIR_H
#include "nodes/call/call.h"

typedef struct graft_text_pair {
    char *low[2]; /* NULL where large and small letters differ */
    const char *a, *b;
} graft_text_pair;

/* Inputs `a` and `b`; `sensitive`: whether large and small letters differ. */
graft_status graft_text_pair_init(graft_text_pair *p, graft_call *c, int a, int b, int sensitive);
void graft_text_pair_finish(graft_text_pair *p);
#endif

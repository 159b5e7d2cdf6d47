/* A check of a prompt while it is under way: its nodes and the faults found so far. For validate.c;
 * one thread at a time. */
#ifndef GRAFT_HOST_PROMPT_CHECK_H
#define GRAFT_HOST_PROMPT_CHECK_H
#include "base/map.h"
#include "host/prompt/prompt.h"
#include "host/schema/offers.h"

typedef struct graft_check {
    const graft_registry *registry;
    const graft_host *host;
    graft_prompt *p;
    const graft_outer *outer; /* NULL: a whole prompt */
    graft_map index;          /* id -> node number + 1 */
    graft_offers offers;
    int hints;         /* faults that were explained so far, for hint.c */
    cJSON **faults;    /* per node: array of errors, or NULL */
    bool *bad;         /* per node: it, or something it needs, is at fault */
    bool *moved;       /* per node: its faults belong to node_errors by now */
    cJSON **dependent; /* per node: the outputs that its entry there lists; borrowed */
    graft_err *e;
} graft_check;

/* The number of a node that has been looked up, plus 1; 0: there is none. */
size_t graft_check_find(const graft_check *c, const char *id);
/* {type, message, details, extra_info}; takes `extra`. NULL: out of memory, also for extra NULL. */
cJSON *graft_check_error(const char *type, const char *message, const char *details, cJSON *extra);
/* Adds such an error to a node's faults; takes `extra`. */
graft_status graft_check_fault(graft_check *c, size_t node, const char *type, const char *message,
                               const char *details, cJSON *extra);
#endif

/* The editor's graph with its sub-graphs opened up: which node stands behind a link. One thread. */
#ifndef GRAFT_HOST_PROMPT_LITEGRAPH_H
#define GRAFT_HOST_PROMPT_LITEGRAPH_H
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"

enum { GRAFT_LITEGRAPH_NEVER = 2, GRAFT_LITEGRAPH_BYPASS = 4 }; /* graft_litegraph_node.mode */
#define GRAFT_LITEGRAPH_ID 64

/* An id, a number or a text, as a text; false for what is none. */
bool graft_litegraph_id(const cJSON *item, char out[GRAFT_LITEGRAPH_ID]);

typedef struct graft_litegraph_scope graft_litegraph_scope;
typedef struct graft_litegraph_node graft_litegraph_node;

/* What a link brings: an output of a node that runs, a value, or (both NULL) nothing. */
typedef struct graft_litegraph_source {
    const graft_litegraph_node *node;
    int64_t slot;
    const cJSON *value;
} graft_litegraph_source;

struct graft_litegraph_node {
    const cJSON *json;
    char local[GRAFT_LITEGRAPH_ID]; /* id inside its scope */
    char *id;                       /* "outer:inner" */
    const char *type;
    int64_t mode, order;
    graft_litegraph_scope *scope; /* where it lives */
    graft_litegraph_scope *inner; /* of a sub-graph's instance; else NULL */
    bool picks;                   /* of a switch: it was, or is being, looked for what it gives */
    graft_litegraph_source picked;
};

typedef struct graft_litegraph_link {
    char origin[GRAFT_LITEGRAPH_ID], target[GRAFT_LITEGRAPH_ID];
    int64_t slot, target_slot;
} graft_litegraph_link;

/* The graph itself, or one instance of a sub-graph. */
struct graft_litegraph_scope {
    const cJSON *json;
    graft_litegraph_scope *parent;
    graft_litegraph_node *instance; /* in the parent */
    graft_litegraph_node *node;
    graft_litegraph_link *link;
    size_t n_node, n_link;
    graft_map by_id, by_link, by_name; /* -> node, link, node that gives its link a name */
};

typedef struct graft_litegraph {
    const cJSON *json; /* borrowed */
    graft_litegraph_scope *root;
    size_t n_nodes; /* in all scopes */
} graft_litegraph;

graft_status graft_litegraph_init(graft_litegraph *g, const cJSON *json, graft_err *e);
void graft_litegraph_finish(graft_litegraph *g); /* fine on a zeroed one */

graft_litegraph_source graft_litegraph_resolve(const graft_litegraph_scope *scope,
                                               const cJSON *link_id);

/* Notes, reroutes, named links and the like, which exist in the editor only. */
bool graft_litegraph_virtual(const graft_litegraph_node *n);
/* Of a type in virtual.def: whether it gives nothing, or what its first input gets. */
bool graft_litegraph_silent(const char *type);
bool graft_litegraph_passes(const char *type);
/* A value that the instance of the surrounding sub-graph shows for this widget, or one further out
 * for that; NULL without one. */
const cJSON *graft_litegraph_promoted(const graft_litegraph_node *n, const char *widget);
#endif

/* The editor's graph with its sub-graphs opened up: which node stands behind a link. One thread. */
#ifndef GRAFT_HOST_GRAPH_H
#define GRAFT_HOST_GRAPH_H
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"

enum { GRAFT_GRAPH_NEVER = 2, GRAFT_GRAPH_BYPASS = 4 }; /* graft_graph_node.mode */
#define GRAFT_GRAPH_ID 64

typedef struct graft_graph_scope graft_graph_scope;
typedef struct graft_graph_node {
    const cJSON *json;
    char local[GRAFT_GRAPH_ID]; /* id inside its scope */
    char *id;                   /* "outer:inner" */
    const char *type;
    int64_t mode, order;
    graft_graph_scope *scope; /* where it lives */
    graft_graph_scope *inner; /* of a sub-graph's instance; else NULL */
} graft_graph_node;

typedef struct graft_graph_link {
    char origin[GRAFT_GRAPH_ID], target[GRAFT_GRAPH_ID];
    int64_t slot, target_slot;
} graft_graph_link;

/* The graph itself, or one instance of a sub-graph. */
struct graft_graph_scope {
    const cJSON *json;
    graft_graph_scope *parent;
    graft_graph_node *instance; /* in the parent */
    graft_graph_node *node;
    graft_graph_link *link;
    size_t n_node, n_link;
    graft_map by_id, by_link; /* -> node, link */
};

typedef struct graft_graph {
    const cJSON *json; /* borrowed */
    graft_graph_scope *root;
    size_t n_nodes; /* in all scopes */
} graft_graph;

graft_status graft_graph_init(graft_graph *g, const cJSON *json, graft_err *e);
void graft_graph_finish(graft_graph *g); /* fine on a zeroed one */

/* What a link brings: an output of a node that runs, a value, or (both NULL) nothing. */
typedef struct graft_graph_source {
    const graft_graph_node *node;
    int64_t slot;
    const cJSON *value;
} graft_graph_source;
graft_graph_source graft_graph_resolve(const graft_graph_scope *scope, const cJSON *link_id);

/* Notes, reroutes and the like, which exist in the editor only. */
bool graft_graph_virtual(const graft_graph_node *n);
/* A value that the surrounding sub-graph's instance shows for this widget; NULL without one. */
const cJSON *graft_graph_promoted(const graft_graph_node *n, const char *widget);
#endif

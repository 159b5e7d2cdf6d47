/* Common subexpressions: of equal views and equal nodes the first one is kept. */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "engine/passes/passes.h"

/* Open-addressing set of ids, by content. */
typedef struct id_set {
    int32_t *id; /* -1: free */
    size_t cap;
} id_set;

/* The first id with these bytes; adds `id` when there was none. */
static int32_t intern(id_set *s, const void *bytes_of_all, size_t size, int32_t id)
{
    const char *all = bytes_of_all;
    size_t i = (size_t)graft_hash64(all + (size_t)id * size, size) & (s->cap - 1);
    while (s->id[i] >= 0) {
        if (memcmp(all + (size_t)s->id[i] * size, all + (size_t)id * size, size) == 0)
            return s->id[i];
        i = (i + 1) & (s->cap - 1);
    }
    s->id[i] = id;
    return id;
}

static bool set_create(id_set *s, size_t n)
{
    for (s->cap = 16; s->cap < 2 * n; s->cap *= 2) {
    }
    s->id = graft_malloc_array(s->cap, sizeof *s->id);
    for (size_t i = 0; s->id && i < s->cap; i++) s->id[i] = -1;
    return s->id != NULL;
}

/* Equal views of one root become one value. */
static graft_status share_views(graft_graph *g, graft_err *e)
{
    id_set set;
    int32_t *first = graft_malloc_array(g->n_values, sizeof *first);
    if (!first || !set_create(&set, g->n_values)) {
        graft_free(first);
        return graft_fail_nomem(e, "common subexpressions");
    }
    for (size_t i = 0; i < g->n_values; i++)
        first[i] = graft_graph_is_view(g, (graft_vid)i)
                       ? intern(&set, g->value, sizeof *g->value, (int32_t)i)
                       : (int32_t)i;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
            if (g->node[i].in[k] >= 0) g->node[i].in[k] = first[g->node[i].in[k]];
    for (size_t i = 0; i < g->n_outputs; i++) g->output[i] = first[g->output[i]];
    graft_free(first);
    graft_free(set.id);
    return GRAFT_OK;
}

/* One sweep; *changed when a node went. */
static graft_status share_nodes(graft_graph *g, bool *changed, graft_err *e)
{
    id_set set;
    graft_gnode *key = graft_calloc(g->n_nodes, sizeof *key);
    if (!key || !set_create(&set, g->n_nodes)) {
        graft_free(key);
        return graft_fail_nomem(e, "common subexpressions");
    }
    for (size_t i = 0; i < g->n_nodes; i++) {
        if (graft_pass_removed(&g->node[i])) continue;
        key[i] = g->node[i];
        key[i].out = g->value[g->node[i].out].dtype; /* all that the output adds to the inputs */
        size_t same = (size_t)intern(&set, key, sizeof *key, (int32_t)i);
        if (same == i) continue;
        graft_vid from = g->node[i].out, to = g->node[same].out;
        graft_pass_remove_node(g, i);
        graft_pass_replace(g, from, to);
        *changed = true;
    }
    graft_free(key);
    graft_free(set.id);
    return GRAFT_OK;
}

graft_status graft_pass_cse(graft_graph *g, graft_err *e)
{
    graft_status st = GRAFT_OK;
    bool changed = true;
    while (changed && !st) {
        changed = false;
        st = share_views(g, e);
        if (!st) st = share_nodes(g, &changed, e);
    }
    return st;
}

/* Dead code: what no output needs goes; values, slots and literals are numbered without gaps.
 * Inputs stay, needed or not: they are the graph's signature. */
#include <string.h>

#include "base/alloc.h"
#include "engine/passes/passes.h"

typedef struct cleaner {
    graft_graph *g;
    bool *live;                      /* by value */
    int32_t *value, *slot, *literal; /* new numbers, -1: gone */
} cleaner;

static void mark(cleaner *c, graft_vid v)
{
    if (v < 0) return;
    c->live[v] = true;
    c->live[c->g->value[v].root] = true;
}

static void mark_live(cleaner *c)
{
    graft_graph *g = c->g;
    for (size_t i = 0; i < g->n_inputs; i++) mark(c, g->input[i]);
    for (size_t i = 0; i < g->n_outputs; i++) mark(c, g->output[i]);
    for (size_t i = g->n_nodes; i-- > 0;) {
        graft_gnode *n = &g->node[i];
        if (graft_pass_removed(n)) continue;
        if (!c->live[n->out]) {
            graft_pass_remove_node(g, i);
            continue;
        }
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++) mark(c, n->in[k]);
    }
}

static void close_nodes(graft_graph *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (!graft_pass_removed(&g->node[i])) g->node[n++] = g->node[i];
    g->n_nodes = n;
}

/* Numbers the live slots and literals in the order of the values that name them. */
static void number_tables(cleaner *c)
{
    graft_graph *g = c->g;
    for (size_t i = 0; i < g->n_slots; i++) c->slot[i] = -1;
    for (size_t i = 0; i < g->n_literals; i++) c->literal[i] = -1;
    for (size_t i = 0; i < g->n_values; i++) {
        if (!c->live[i]) continue;
        if (g->value[i].kind == GRAFT_VALUE_WEIGHT) c->slot[g->value[i].index] = 0;
        if (g->value[i].kind == GRAFT_VALUE_CONST) c->literal[g->value[i].index] = 0;
    }
    size_t n = 0;
    for (size_t i = 0; i < g->n_slots; i++) {
        graft_gslot *s = &g->slot[i];
        if (c->slot[i] < 0) {
            for (size_t k = 0; k < s->n_sources; k++) graft_free(s->source[k]);
            graft_free(s->source);
            graft_free(s->rows);
            continue;
        }
        c->slot[i] = (int32_t)n;
        g->slot[n++] = *s;
    }
    g->n_slots = n;
    n = 0;
    for (size_t i = 0; i < g->n_literals; i++) {
        if (c->literal[i] < 0) {
            graft_free(g->literal[i].data);
            continue;
        }
        c->literal[i] = (int32_t)n;
        g->literal[n++] = g->literal[i];
    }
    g->n_literals = n;
}

static void number_values(cleaner *c)
{
    graft_graph *g = c->g;
    size_t n = 0;
    for (size_t i = 0; i < g->n_values; i++) c->value[i] = c->live[i] ? (int32_t)n++ : -1;
    for (size_t i = 0; i < g->n_values; i++) {
        if (!c->live[i]) continue;
        graft_gvalue *v = &g->value[c->value[i]];
        *v = g->value[i];
        v->root = c->value[v->root];
        if (v->kind == GRAFT_VALUE_WEIGHT) v->index = c->slot[v->index];
        if (v->kind == GRAFT_VALUE_CONST) v->index = c->literal[v->index];
    }
    g->n_values = n;
    for (size_t i = 0; i < g->n_inputs; i++) g->input[i] = c->value[g->input[i]];
    for (size_t i = 0; i < g->n_outputs; i++) g->output[i] = c->value[g->output[i]];
    for (size_t i = 0; i < g->n_nodes; i++) {
        graft_gnode *node = &g->node[i];
        node->out = c->value[node->out];
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
            if (node->in[k] >= 0) node->in[k] = c->value[node->in[k]];
    }
}

graft_status graft_pass_clean(graft_graph *g, graft_err *e)
{
    cleaner c = {g, graft_calloc(g->n_values, sizeof *c.live),
                 graft_malloc_array(g->n_values, sizeof *c.value),
                 graft_malloc_array(g->n_slots, sizeof *c.slot),
                 graft_malloc_array(g->n_literals, sizeof *c.literal)};
    graft_status st = GRAFT_OK;
    if (c.live && c.value && c.slot && c.literal) {
        mark_live(&c);
        close_nodes(g);
        number_tables(&c);
        number_values(&c);
    } else {
        st = graft_fail_nomem(e, "dead code removal");
    }
    graft_free(c.live);
    graft_free(c.value);
    graft_free(c.slot);
    graft_free(c.literal);
    return st;
}

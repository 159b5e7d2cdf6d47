#include "engine/quant/kept.h"

#include <string.h>

#include "engine/quant/layers.h"
#include "engine/quant/plan.h"
#include "engine/weights/packed.h"
#include "kernels/blocks.h"

/* The type of blocks that a layer's weight can stay in; 0: floats. */
static int32_t type_of(const graft_weights *w, const char *name)
{
    graft_weight_term t;
    int32_t own = 0;
    for (size_t at = 0; graft_weights_next_term(w, name, &at, &t);) {
        own = t.tensor ? graft_packed_as(t.tensor) : 0;
        if (!own) return 0;
    }
    if (!own) return 0;
    return graft_weights_packed(w, name, &t) ? own : GRAFT_GGML_Q8_0;
}

graft_hash graft_kept_hash(const graft_weights *w)
{
    graft_hash sum = {0, 0};
    char name[GRAFT_WEIGHTS_NAME];
    for (size_t at = 0; graft_weights_next_packed(w, &at, name);) {
        const int32_t type = type_of(w, name);
        graft_hash h = graft_hash128(name, strlen(name));
        h = graft_hash_mix(h, &type, sizeof type);
        sum.lo += h.lo;
        sum.hi += h.hi;
    }
    return sum;
}

/* The type that all of the node's weight has; 0: there is none. */
static int32_t type_of_node(const graft_weights *w, const graft_graph *g, size_t node)
{
    const graft_gslot *s = graft_quant_weight(g, node);
    char name[128];
    int32_t type = 0;
    if (!s || s->rank != 2 || !graft_gslot_plain(s)) return 0;
    for (size_t k = 0; k < s->n_sources; k++) {
        if (!graft_quant_node_layer(g, node, k, name) || graft_quant_always_kept(name)) return 0;
        const int32_t own = type_of(w, s->source[k]);
        if (!own || (k && own != type)) return 0;
        type = own;
    }
    return type;
}

void graft_kept_apply(const graft_weights *w, graft_graph *g)
{
    for (size_t i = 0; i < g->n_nodes; i++) {
        if (g->node[i].op != GRAFT_OP_LINEAR || g->node[i].attrs.quant) continue;
        const int32_t type = type_of_node(w, g, i);
        if (type) g->node[i].attrs.quant = GRAFT_QUANT_BLOCKS + type;
    }
}

/* Whether a tensor of this name is a linear layer's weight, as far as can be told without a graph.
 */
static bool is_matrix(const graft_weights *w, const char *name)
{
    const graft_st_tensor *t = graft_weights_find(w, name);
    const size_t length = strlen(name), ending = strlen(".weight");
    char layer[128];
    if (!t || t->rank != 2 || !graft_str_ends(name, ".weight")) return false;
    if (length - ending >= sizeof layer) return false;
    memcpy(layer, name, length - ending);
    layer[length - ending] = '\0';
    return !graft_quant_always_kept(layer);
}

void graft_kept_print(const graft_weights *w, graft_str *out)
{
    bool seen[GRAFT_BLOCKS_MOST + 1] = {false}, any = false;
    char name[GRAFT_WEIGHTS_NAME];
    for (size_t at = 0; graft_weights_next_packed(w, &at, name);)
        if (is_matrix(w, name)) seen[type_of(w, name)] = true;
    for (int32_t type = 1; type <= GRAFT_BLOCKS_MOST; type++) {
        if (!seen[type]) continue;
        graft_str_printf(out, "%s%s", any ? ", " : "", graft_blocks_name(type));
        any = true;
    }
}

#include "engine/quant/layers.h"

#include <string.h>

/* The name without its ending; false where it has another or is too long. */
static bool without(const char *tensor, const char *ending, char out[128])
{
    size_t length = strlen(tensor), suffix = strlen(ending);
    if (length <= suffix || length - suffix >= 128) return false;
    if (strcmp(tensor + length - suffix, ending) != 0) return false;
    memcpy(out, tensor, length - suffix);
    out[length - suffix] = '\0';
    return true;
}

const graft_gslot *graft_quant_weight(const graft_graph *g, size_t node)
{
    const graft_gnode *n = &g->node[node];
    if (n->op != GRAFT_OP_CONV2D && n->op != GRAFT_OP_LINEAR) return NULL;
    const graft_gvalue *w = &g->value[n->in[GRAFT_LINEAR_W]];
    return w->kind == GRAFT_VALUE_WEIGHT ? &g->slot[w->index] : NULL;
}

/* The weight of the linear layer that makes the attention's queries. Where it was merged with those
 * of keys and values it comes first. Queries may be normed, copied and turned on the way, and
 * joined to those of a prompt, which are the first, or the last where an attention counts its keys;
 * or turned by products, of which one is added to the other (ernie_image.c). */
static const graft_gslot *query_weight(const graft_graph *g, size_t node)
{
    graft_vid q = g->value[g->node[node].in[GRAFT_ATTENTION_Q]].root;
    const bool counts = g->node[node].in[GRAFT_ATTENTION_COUNT] >= 0;
    for (size_t i = node; i-- > 0;) {
        const graft_gnode *n = &g->node[i];
        if (g->value[n->out].root != q) continue;
        if (n->op == GRAFT_OP_LINEAR) return graft_quant_weight(g, i);
        if (n->op != GRAFT_OP_JOIN && n->op != GRAFT_OP_RMS_NORM && n->op != GRAFT_OP_LAYER_NORM &&
            n->op != GRAFT_OP_ROPE && n->op != GRAFT_OP_COPY && n->op != GRAFT_OP_MUL)
            return NULL;
        const bool sum = n->op == GRAFT_OP_MUL && n->in[GRAFT_MUL_RESIDUAL] >= 0;
        q = g->value[n->in[sum ? GRAFT_MUL_RESIDUAL : n->op == GRAFT_OP_JOIN && !counts]].root;
    }
    return NULL;
}

size_t graft_quant_node_layers(const graft_graph *g, size_t node)
{
    const graft_gslot *s = graft_quant_weight(g, node);
    if (s) return s->n_sources;
    return g->node[node].op == GRAFT_OP_ATTENTION ? 1 : 0;
}

bool graft_quant_node_layer(const graft_graph *g, size_t node, size_t k, char out[128])
{
    if (g->node[node].op == GRAFT_OP_ATTENTION) {
        const graft_gslot *s = query_weight(g, node);
        return s && (without(s->source[0], ".to_q.weight", out) ||
                     without(s->source[0], ".qkv.weight", out) ||
                     without(s->source[0], ".linear1.weight", out) || /* FLUX's */
                     without(s->source[0], ".wq.weight", out) ||      /* Krea 2's */
                     without(s->source[0], ".w1q.weight", out) ||     /* AuraFlow's */
                     without(s->source[0], ".w2q.weight", out) ||     /* likewise */
                     without(s->source[0], ".to_q_t.weight", out) ||  /* HiDream's words */
                     without(s->source[0], ".q_proj.weight", out));   /* Anima's */
    }
    const graft_gslot *s = graft_quant_weight(g, node);
    return s && graft_gslot_rows(s) && without(s->source[k], ".weight", out);
}

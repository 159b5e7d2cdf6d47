/* What tests of models whose weights stay packed share: the network of SD1, and what its graphs
 * make of its layers. */
#ifndef GRAFT_TESTS_ENGINE_KEPT_H
#define GRAFT_TESTS_ENGINE_KEPT_H
#include "kernels/quant.h"
#include "tests/engine/merge.h"

#define SUMS  2e-5 /* of float32 in another order */
#define BLOCK "input_blocks.1.1.transformer_blocks.0."

static inline made_file *network(void)
{
    graft_safetensors *f = open_file(SD1);
    made_file *m = copy_file(f, UNET);
    graft_safetensors_close(f);
    return m;
}

static inline graft_binding *bound(const graft_model *m)
{
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    if (!b) abort();
    return b;
}

/* The operator that has this tensor among its weights. */
static inline const graft_gnode *layer(const graft_binding *b, const char *name, size_t *sources)
{
    const graft_graph *g = b->exe->graph;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const graft_gslot *s = graft_quant_weight(g, i);
        for (size_t k = 0; s && k < s->n_sources; k++)
            if (strcmp(s->source[k], name) == 0) {
                *sources = s->n_sources;
                return &g->node[i];
            }
    }
    fprintf(stderr, "no layer of %s\n", name);
    abort();
}

static inline void check_layer(const graft_model *m, const char *name, int32_t type, size_t sources)
{
    size_t n = 0;
    graft_binding *b = bound(m);
    CHECK_INT(layer(b, name, &n)->attrs.quant, type ? GRAFT_QUANT_BLOCKS + type : 0);
    CHECK_INT(n, sources);
    graft_binding_release(b);
}

/* Operators on blocks. */
static inline size_t count_kept(const graft_model *m)
{
    graft_binding *b = bound(m);
    const graft_graph *g = b->exe->graph;
    size_t n = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const bool is = graft_quant_blocks(g->node[i].attrs.quant) != 0;
        CHECK(!is || g->node[i].op == GRAFT_OP_LINEAR);
        n += is;
    }
    graft_binding_release(b);
    return n;
}

static inline uint64_t weight_bytes(const graft_model *m)
{
    graft_binding *b = bound(m);
    const uint64_t bytes = graft_binding_bytes(b);
    graft_binding_release(b);
    return bytes;
}

/* Both answer the same but for the order of sums. */
static inline void close_to(const graft_model *a, const graft_model *b, double most)
{
    float one[OUT], two[OUT];
    run_model(a, one);
    run_model(b, two);
    const double d = difference(one, two, OUT);
    if (!(d <= most)) printf("%g, more than %g\n", d, most);
    CHECK(d <= most);
}
#endif

#include "engine/text/formula.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

typedef struct machine {
    graft_formula_node *nodes;
    const graft_formula_name *names;
    size_t n;
    graft_err *e;
} machine;

static graft_status compute(const machine *m, int at, graft_formula_value *out);

static bool is_values(const graft_formula_node *n)
{
    return n->op == GRAFT_FORMULA_NAME && n->n == 6 && memcmp(n->text, "values", 6) == 0;
}

static graft_status look_up(const machine *m, const graft_formula_node *node,
                            graft_formula_value *out)
{
    int shown = node->n > 40 ? 40 : (int)node->n;
    for (size_t i = 0; i < m->n; i++) {
        const char *name = m->names[i].name;
        if (strlen(name) != node->n || memcmp(name, node->text, node->n) != 0) continue;
        *out = m->names[i].value;
        return GRAFT_OK;
    }
    if (is_values(node))
        return graft_fail(m->e, GRAFT_E_ARG, "values stands for several, for example in sum()");
    return graft_fail(m->e, GRAFT_E_ARG, "%.*s has no value", shown, node->text);
}

static graft_status call(const machine *m, const graft_formula_node *node, graft_formula_value *out)
{
    graft_status st = GRAFT_OK;
    size_t most = 0, n = 0;
    for (int i = node->a; i >= 0; i = m->nodes[i].b)
        most += is_values(&m->nodes[m->nodes[i].a]) ? m->n : 1;
    graft_formula_value *args = graft_malloc_array(most + 1, sizeof *args);
    if (!args) return graft_fail_nomem(m->e, "a formula");
    for (int i = node->a; i >= 0 && !st; i = m->nodes[i].b) {
        if (!is_values(&m->nodes[m->nodes[i].a])) {
            st = compute(m, m->nodes[i].a, &args[n++]);
            continue;
        }
        for (size_t k = 0; k < m->n; k++) args[n++] = m->names[k].value;
    }
    if (!st) st = graft_formula_call(node->text, node->n, args, n, out, m->e);
    graft_free(args);
    return st;
}

/* Of what stands beside and, or, if and else only that which counts is computed. */
static graft_status choose(const machine *m, const graft_formula_node *node,
                           graft_formula_value *out)
{
    bool is_if = node->op == GRAFT_FORMULA_IF;
    graft_status st = compute(m, is_if ? node->b : node->a, out);
    if (st) return st;
    bool yes = graft_formula_truth(*out);
    if (is_if) return compute(m, yes ? node->a : node->c, out);
    return yes == (node->op == GRAFT_FORMULA_AND) ? compute(m, node->b, out) : GRAFT_OK;
}

/* Both sides of a chain of comparisons have what stands in its middle: each number is computed
 * once, or chains within chains would take time without end. */
static graft_status compute(const machine *m, int at, graft_formula_value *out)
{
    graft_formula_node *node = &m->nodes[at];
    graft_formula_value a, b;
    graft_status st;
    if (node->known) {
        *out = node->value;
        return GRAFT_OK;
    }
    switch (node->op) {
    case GRAFT_FORMULA_NAME:
        st = look_up(m, node, out);
        break;
    case GRAFT_FORMULA_CALL:
        st = call(m, node, out);
        break;
    case GRAFT_FORMULA_IF:
    case GRAFT_FORMULA_AND:
    case GRAFT_FORMULA_OR:
        st = choose(m, node, out);
        break;
    default:
        st = compute(m, node->a, &a);
        b = a;
        if (!st && node->b >= 0) st = compute(m, node->b, &b);
        if (!st) st = graft_formula_apply(node->op, a, b, out, m->e);
    }
    if (st) return st;
    node->value = *out;
    node->known = true;
    return GRAFT_OK;
}

graft_status graft_formula_compute(const char *text, const graft_formula_name *names, size_t n,
                                   graft_formula_value *out, graft_err *e)
{
    graft_formula_node *nodes;
    int root;
    graft_status st = graft_formula_parse(text, &nodes, &root, e);
    if (st) return st;
    const machine m = {nodes, names, n, e};
    st = compute(&m, root, out);
    graft_free(nodes);
    if (!st && !isfinite(graft_formula_f64(*out)))
        st = graft_fail(e, GRAFT_E_ARG, "the result is not finite");
    return st;
}

graft_status graft_formula_check(const char *text, graft_err *e)
{
    graft_formula_node *nodes;
    int root;
    graft_status st = graft_formula_parse(text, &nodes, &root, e);
    graft_free(nodes);
    return st;
}

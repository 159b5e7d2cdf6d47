#include "engine/exec/invariants.h"

#include "base/alloc.h"

struct graft_invariants {
    graft_arenas *arenas;
    graft_arena *block;
    bool made;
};

/* ------------------------------------------------------------------ finding */

typedef struct finder {
    const graft_graph *g;
    int64_t behind; /* graft_steady's */
    bool *steady;   /* of each root value: it is a weight, a steady input, or made of such */
    bool *needed;   /* of each root value: made of such, and read by what is not */
    int64_t *at;    /* of each root value: where it is kept; -1: nowhere */
    int64_t bytes;  /* in all */
} finder;

/* Whether a view shows nothing but the steady part of the first input's rows. */
static bool in_steady_rows(const finder *f, const graft_gvalue *v)
{
    const graft_gvalue *whole = &f->g->value[v->root];
    if (!f->behind || whole->kind != GRAFT_VALUE_INPUT || whole->index != 0 || whole->rank != 2)
        return false;
    const int64_t row = whole->dim[1], first = v->offset % row;
    int64_t last = first;
    for (int i = 0; i < v->rank; i++)
        if (v->stride[i] != row) last += (v->dim[i] - 1) * v->stride[i];
    return first >= f->behind && last < row;
}

static bool is_steady(const finder *f, graft_vid v)
{
    return f->steady[f->g->value[v].root] || in_steady_rows(f, &f->g->value[v]);
}

static bool reads_steady(const finder *f, const graft_gnode *n)
{
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
        if (n->in[k] >= 0 && !is_steady(f, n->in[k])) return false;
    return true;
}

/* Left in every run: nodes that write into a part of some value, as others may write the rest, and
 * those that make what the run gives, which the caller wants in its place. */
static void find_steady(finder *f, uint32_t inputs)
{
    const graft_graph *g = f->g;
    for (size_t v = 0; v < g->n_values; v++) {
        const graft_gvalue *x = &g->value[v];
        bool constant = x->kind == GRAFT_VALUE_WEIGHT || x->kind == GRAFT_VALUE_CONST;
        f->steady[v] =
            constant || (x->kind == GRAFT_VALUE_INPUT && x->index < 32 && (inputs >> x->index & 1));
    }
    for (size_t i = 0; i < g->n_outputs; i++) f->needed[g->value[g->output[i]].root] = true;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const graft_gnode *n = &g->node[i];
        f->steady[n->out] =
            !graft_graph_is_view(g, n->out) && !f->needed[n->out] && reads_steady(f, n);
    }
    for (size_t i = 0; i < g->n_nodes; i++) {
        const graft_gnode *n = &g->node[i];
        for (int k = 0; k < GRAFT_MAX_INPUTS && !f->steady[n->out]; k++)
            if (n->in[k] >= 0) f->needed[g->value[n->in[k]].root] = true;
    }
}

static graft_status place(finder *f, int64_t align, graft_err *e)
{
    const graft_graph *g = f->g;
    for (size_t v = 0; v < g->n_values; v++) f->at[v] = -1;
    for (size_t i = 0; i < g->n_nodes; i++) {
        graft_vid v = g->node[i].out;
        if (!f->steady[v] || !f->needed[v]) continue;
        const graft_gvalue *x = &g->value[v];
        int64_t bytes = graft_gvalue_count(x) * (int64_t)graft_dtype_size(x->dtype);
        f->at[v] = f->bytes;
        if (__builtin_add_overflow(f->bytes, (bytes + align - 1) / align * align, &f->bytes))
            return graft_fail(e, GRAFT_E_ARG, "what does not change from run to run is too large");
    }
    return GRAFT_OK;
}

static void fill(const finder *f, graft_exe_kept *kept)
{
    const graft_graph *g = f->g;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const graft_gnode *n = &g->node[i];
        kept[i].invariant = f->steady[n->out];
        kept[i].out = f->at[n->out];
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
            kept[i].in[k] = -1;
            if (n->in[k] < 0) continue;
            const graft_gvalue *x = &g->value[n->in[k]];
            if (f->at[x->root] >= 0)
                kept[i].in[k] = f->at[x->root] + x->offset * (int64_t)graft_dtype_size(x->dtype);
        }
    }
}

graft_status graft_exe_find_invariants(graft_exe *x, graft_steady steady, graft_err *e)
{
    const graft_graph *g = x->graph;
    int64_t align = x->backend->info.alignment < 64 ? 64 : x->backend->info.alignment;
    finder f = {.g = g, .behind = steady.behind};
    graft_status st = GRAFT_OK;
    if (!steady.inputs) return GRAFT_OK; /* such runs are no series */
    f.steady = graft_calloc(g->n_values, sizeof *f.steady);
    f.needed = graft_calloc(g->n_values, sizeof *f.needed);
    f.at = graft_malloc_array(g->n_values, sizeof *f.at);
    if (!f.steady || !f.needed || !f.at) {
        st = graft_fail_nomem(e, "executable");
        goto out;
    }
    find_steady(&f, steady.inputs);
    GRAFT_TRY(place(&f, align, e));
    if (!f.bytes) goto out;
    x->kept = graft_calloc(g->n_nodes, sizeof *x->kept);
    if (!x->kept) {
        st = graft_fail_nomem(e, "executable");
        goto out;
    }
    x->kept_bytes = f.bytes;
    fill(&f, x->kept);
out:
    graft_free(f.steady);
    graft_free(f.needed);
    graft_free(f.at);
    return st;
}

/* ------------------------------------------------------------------ a series of runs */

graft_status graft_invariants_create(const graft_exe *x, graft_arenas *arenas,
                                     graft_invariants **out, graft_err *e)
{
    *out = NULL;
    if (!x->kept) return GRAFT_OK;
    graft_invariants *v = graft_calloc(1, sizeof *v);
    if (!v) return graft_fail_nomem(e, "what does not change from run to run");
    v->arenas = arenas;
    v->block = graft_arenas_take(arenas, x->backend, (uint64_t)x->kept_bytes, e);
    if (!v->block) {
        graft_free(v);
        return GRAFT_E_NOMEM;
    }
    *out = v;
    return GRAFT_OK;
}

void graft_invariants_destroy(graft_invariants *v)
{
    if (!v) return;
    const bool large = v->block->bytes > GRAFT_INVARIANTS_SMALL;
    graft_arenas_give(v->arenas, v->block);
    if (large) graft_arenas_trim(v->arenas);
    graft_free(v);
}

uint8_t *graft_invariants_data(const graft_invariants *v)
{
    return v ? v->block->data : NULL;
}

bool graft_invariants_made(const graft_invariants *v)
{
    return v && v->made;
}

void graft_invariants_make(graft_invariants *v)
{
    if (v) v->made = true;
}

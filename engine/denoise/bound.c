#include "engine/denoise/bound.h"

#include "base/size.h"
#include "engine/task.h"

/* What is there besides one UNet. */
static const char *others_name(const graft_model *m, size_t n, bool control)
{
    if (n < 2) return "its ControlNets";
    if (m->downscale.shrink.block) return "the sizes of PatchModelAddDownscale";
    if (m->hypertile.tile)
        return control ? "its ControlNets and the grids of HyperTile" : "the grids of HyperTile";
    return control ? "its ControlNets and the sizes of its prompts' areas"
                   : "the sizes of its prompts' areas";
}

graft_status graft_unets_room(const graft_model *m, graft_binding *const *unet, size_t n,
                              int64_t beside, int64_t arena, graft_err *e)
{
    int64_t limit = m->options.max_bytes, engine = (int64_t)m->engine->max_bytes;
    bool engines = engine && (!limit || engine < limit);
    if (engines) limit = engine;
    if (!limit) return GRAFT_OK;
    for (size_t i = 0; i < n; i++)
        if (graft_binding_arena(unet[i]) > arena) arena = graft_binding_arena(unet[i]);
    int64_t need = arena + (int64_t)graft_bindings_bytes(unet, n) + beside;
    if (need <= limit) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_LIMIT, "%s %lld is too small: with %s the model needs %llu",
                      engines ? "GRAFT_MEMORY_MB" : "max_memory_mb", (long long)(limit >> 20),
                      others_name(m, beside ? n : 2, beside > 0),
                      (unsigned long long)graft_size_mib((uint64_t)need));
}

/* The last one bound is the one that runs now. Runs without areas, hooks, HyperTile and Deep Shrink
 * have few shapes, which share their weights but for rarities. */
static graft_status check_room(const graft_guided *g, graft_err *e)
{
    graft_binding *all[MAX_BINDINGS];
    bool several = g->regions.any || g->hooked.n ||
                   graft_model_alternates(g->c.model, g->c.shape[2], g->c.shape[3]);
    size_t first = several ? 0 : g->n_bound - 1, n = 0;
    int64_t beside = g->controls ? graft_controls_bytes(g->controls) : 0;
    int64_t arena = g->controls ? graft_controls_arena(g->controls) : 0;
    if (!g->controls && !several) return GRAFT_OK;
    for (size_t i = first; i < g->n_bound; i++) all[n++] = g->bound[i].binding;
    return graft_unets_room(g->c.model, all, n, beside, arena, e);
}

static void let_go(graft_guided *g, size_t i)
{
    graft_binding *b = g->bound[i].binding;
    graft_series_forget(&g->series, b);
    graft_binding_release(b);
    g->bound[i] = g->bound[--g->n_bound];
}

void graft_bound_let_go(graft_guided *g)
{
    while (g->n_bound) let_go(g, g->n_bound - 1);
}

/* Whether any had other weights than these. */
static bool let_go_of_others(graft_guided *g, graft_hash weights)
{
    const size_t before = g->n_bound;
    for (size_t i = g->n_bound; i-- > 0;)
        if (!graft_hash_equal(g->bound[i].weights, weights)) let_go(g, i);
    return g->n_bound < before;
}

static bool is_wanted(const graft_guided *g, graft_hash weights)
{
    for (size_t i = 0; i < g->n_active; i++)
        if (graft_hash_equal(g->active[i].weights, weights)) return true;
    return false;
}

void graft_bound_forget(graft_guided *g)
{
    for (size_t i = g->n_bound; i-- > 0;)
        if (!is_wanted(g, g->bound[i].weights)) let_go(g, i);
    graft_hooked_forget(&g->hooked, g->active, g->n_active);
}

static graft_status bind_new(graft_guided *g, const active *a, const graft_unet_use *use,
                             graft_binding **out, graft_err *e)
{
    graft_unet_use all = *use;
    const graft_model *m = g->c.model;
    graft_status st = GRAFT_OK;
    if (graft_hooked_any(a->weights))
        st = graft_hooked_model(&g->hooked, m, g->c.table, a->entry, g->sigma, g->c.task, &m, e);
    if (st) return st;
    all.arena = g->arena;
    if (g->controls) all.beside = graft_controls_bytes(g->controls);
    if (g->controls && graft_controls_arena(g->controls) > all.arena)
        all.arena = graft_controls_arena(g->controls);
    st = graft_model_bind_guided(m, &all, g->c.task, out, e);
    if (!st && (*out)->exe->arena_bytes > g->arena) g->arena = (*out)->exe->arena_bytes;
    return st;
}

/* Where memory is short weights that others of the run have on a device take what this one needs
 * for its activations: whoever has the most is to be the first. */
static graft_status bind_first(graft_guided *g, const active *a, const graft_unet_use *use,
                               graft_binding **out, graft_err *e)
{
    const int64_t before = g->arena;
    graft_status st = bind_new(g, a, use, out, e);
    if (!g->n_bound || (!st && (!(*out)->offload || g->arena == before))) return st;
    if (st && !graft_bound_short_of_memory(st)) return st;
    if (!st) graft_binding_release(*out);
    graft_bound_let_go(g);
    return bind_new(g, a, use, out, e);
}

graft_status graft_guided_bind(graft_guided *g, const active *a, const graft_unet_use *use,
                               graft_binding **out, graft_err *e)
{
    for (size_t i = 0; i < g->n_bound; i++) {
        if (!graft_unet_use_equal(&g->bound[i].use, use) ||
            !graft_hash_equal(g->bound[i].weights, a->weights))
            continue;
        *out = g->bound[i].binding;
        return GRAFT_OK;
    }
    if (g->n_bound == MAX_BINDINGS) let_go(g, g->n_bound - 1);
    graft_status st = bind_first(g, a, use, out, e);
    if (st) return st;
    g->bound[g->n_bound++] = (bound_shape){*use, a->weights, *out};
    st = check_room(g, e);
    if (st == GRAFT_E_LIMIT && let_go_of_others(g, a->weights)) st = check_room(g, e);
    graft_task_phase(g->c.task, "sample");
    return st;
}

int64_t graft_bound_bytes(const graft_guided *g)
{
    graft_binding *all[MAX_BINDINGS];
    for (size_t i = 0; i < g->n_bound; i++) all[i] = g->bound[i].binding;
    return (int64_t)graft_bindings_bytes(all, g->n_bound) + graft_controls_bytes(g->controls);
}

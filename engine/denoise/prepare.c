#include "engine/denoise/prepare.h"

#include "base/alloc.h"
#include "engine/denoise/adapters.h"
#include "engine/denoise/bound.h"
#include "engine/denoise/boxed.h"
#include "engine/denoise/guided_call.h"
#include "engine/denoise/hooked.h"
#include "engine/denoise/known.h"
#include "engine/objects/sight.h"
#include "engine/prompts/gligen.h"

typedef struct need {
    graft_unet_use use;
    const graft_control *control;
    const graft_cond_entry *entry; /* one that has these weights there */
    graft_hash weights;
    float sigma; /* one at which this comes up */
} need;

typedef struct needs {
    graft_regions regions;
    need *list; /* of the whole run */
    size_t n, cap;
    active *now; /* of one sigma */
    size_t n_now;
    graft_binding **held; /* where areas or HyperTile make several graphs: all of the run */
    size_t n_held, cap_held;
    int64_t arena; /* the most that one of them takes for activations */
    graft_hooked hooked;
    const graft_gligen *gligen; /* of the prompts' boxes; or NULL */
} needs;

/* Whether what DeepCache keeps of the prompt at one sigma serves at a later one. */
static bool goes_on(const graft_prepare_request *rq, const graft_cond_entry *k,
                    const graft_control *chain, float before, float sigma)
{
    return graft_active_now(rq->table, k, before) &&
           graft_control_alike(rq->table, chain, before, sigma) &&
           graft_hash_equal(graft_hooked_key(rq->table, k, before),
                            graft_hooked_key(rq->table, k, sigma)) &&
           graft_model_sees_at(rq->model, rq->table, before) ==
               graft_model_sees_at(rq->model, rq->table, sigma);
}

/* before: the sigma of the last step, where prompts that go on are fast; NULL: none is. */
static void collect(const graft_prepare_request *rq, graft_side side, float sigma,
                    const float *before, needs *v)
{
    const graft_cond *const lists[] = {rq->positive, rq->negative, rq->third}, *list = lists[side];
    size_t first = 0;
    for (int i = 0; i < (int)side; i++) first += lists[i]->n;
    graft_regions_leave_all(&v->regions);
    for (size_t n = 0; n < (v->regions.rest ? 2 : 1) * list->n; n++) {
        const size_t i = n % list->n; /* those for what others leave come in the second round */
        const graft_cond_entry *k = list->entry[i];
        if (k->rest != (n >= list->n) || !graft_active_now(rq->table, k, sigma) ||
            !graft_regions_begin(&v->regions, first + i))
            continue;
        const graft_control *chain =
            graft_control_for(rq->model, rq->positive, list, side != GRAFT_POSITIVE, i);
        const graft_control *now = graft_control_any(rq->table, chain, sigma);
        v->now[v->n_now++] = (active){
            .entry = k,
            .box = &v->regions.list[first + i].box,
            .side = side,
            .fast = before && goes_on(rq, k, chain, *before, sigma),
            .control = now,
            .steered = graft_control_steered(rq->model, now),
            .within = rq->model->within != NULL,
            .known = graft_known_source(rq->model, k),
            .references = graft_known_references(rq->model, k, rq->layers),
            .untold = graft_untold(rq->model, k),
            .weights = graft_hooked_key(rq->table, k, sigma),
            .skips = side == GRAFT_NEGATIVE && graft_model_skips_at(rq->model, rq->table, sigma)};
    }
}

/* Whether a prompt with boxes is active. */
static bool boxes_at(const graft_prepare_request *rq, bool negative, float sigma)
{
    const graft_cond *const lists[] = {rq->positive, negative ? rq->negative : NULL, rq->third};
    for (int side = 0; side < GRAFT_SIDES; side++)
        for (size_t i = 0; lists[side] && i < lists[side]->n; i++)
            if (lists[side]->entry[i]->boxes &&
                graft_active_now(rq->table, lists[side]->entry[i], sigma))
                return true;
    return false;
}

/* As settled when sampling. */
static void settle_boxes(const graft_prepare_request *rq, bool negative, const float *before,
                         needs *v)
{
    if (!v->gligen) return;
    graft_boxed_settle(v->gligen, v->now, v->n_now);
    for (size_t i = 0; before && i < v->n_now; i++)
        if (boxes_at(rq, negative, *before) != (v->now[i].boxed != NULL)) v->now[i].fast = false;
}

static bool add(const graft_prepare_request *rq, needs *v, need one)
{
    for (size_t i = 0; i < v->n; i++)
        if (graft_unet_use_equal(&v->list[i].use, &one.use) && v->list[i].control == one.control &&
            graft_hash_equal(v->list[i].weights, one.weights) &&
            graft_control_alike(rq->table, one.control, v->list[i].sigma, one.sigma))
            return true;
    if (graft_grow(&v->list, &v->cap, v->n + 1, sizeof *v->list)) return false;
    v->list[v->n++] = one;
    return true;
}

/* The batches of what is active. */
static bool add_groups(const graft_prepare_request *rq, float sigma, graft_active_more more,
                       needs *v)
{
    size_t which[GROUP_MAX], count;
    bool ok = true;
    while (ok && (count = graft_active_group(v->now, v->n_now, which))) {
        const active *a = &v->now[which[0]];
        need one = {graft_active_use(v->now, which, count, rq->shape[0], more), a->control,
                    a->entry, a->weights, sigma};
        one.use.attends = rq->model->n_seen > 0;
        ok = add(rq, v, one);
    }
    return ok;
}

/* Those of one sigma, and of the second run of self-attention guidance. */
static bool add_all(const graft_prepare_request *rq, float sigma, const float *before, needs *v)
{
    const bool itself = graft_blurred_wanted(rq->model, rq->shape);
    const graft_active_more more = {graft_model_perturbs_at(rq->model, rq->table, sigma), itself};
    v->n_now = 0;
    collect(rq, GRAFT_POSITIVE, sigma, before, v);
    const bool negative = rq->guided || rq->third || itself;
    if (negative) collect(rq, GRAFT_NEGATIVE, sigma, before, v);
    if (rq->third) collect(rq, GRAFT_THIRD, sigma, before, v);
    settle_boxes(rq, negative, before, v);
    if (!add_groups(rq, sigma, more, v)) return false;
    if (!itself) return true;
    v->n_now = graft_active_keep_negative(v->now, v->n_now);
    return add_groups(rq, sigma, (graft_active_more){0}, v);
}

/* Those of step i: of a whole one, and of one where DeepCache parts prompts that begin from those
 * that go on. */
static bool add_step(const graft_prepare_request *rq, size_t i, needs *v)
{
    const float *sigma = &rq->sigmas[i];
    bool parts = rq->model->deepcache.interval > 1 && i > 0;
    return add_all(rq, *sigma, NULL, v) && (!parts || add_all(rq, *sigma, sigma - 1, v));
}

static void let_go(needs *v)
{
    while (v->n_held) graft_binding_release(v->held[--v->n_held]);
}

/* One more. *larger: it takes more for activations than those before, which are let go of, as they
 * may have left too little. */
static graft_status hold_one(const graft_model *m, needs *v, graft_unet_use use,
                             const graft_task *task, bool *larger, graft_err *e)
{
    graft_binding *b = NULL;
    use.arena = v->arena;
    if (graft_grow(&v->held, &v->cap_held, v->n_held + 1, sizeof *v->held))
        return graft_fail_nomem(e, "sampling");
    graft_status st = graft_model_bind_guided(m, &use, task, &b, e);
    if (graft_bound_short_of_memory(st) && v->n_held) {
        let_go(v);
        st = graft_model_bind_guided(m, &use, task, &b, e);
    }
    if (st) return st;
    *larger = b->offload && v->n_held && b->exe->arena_bytes > v->arena;
    if (b->exe->arena_bytes > v->arena) v->arena = b->exe->arena_bytes;
    if (*larger) {
        let_go(v);
        graft_binding_release(b);
    } else {
        v->held[v->n_held++] = b;
    }
    return GRAFT_OK;
}

/* Holds what the run will hold, to see whether it has room together. Networks with other weights
 * need not. */
static graft_status hold(const graft_model *m, needs *v, const graft_unet_use *use,
                         const graft_task *task, graft_err *e)
{
    graft_unet_use all[GRAFT_MODEL_USES];
    int n = graft_model_uses(m, use, all);
    if (v->hooked.n) let_go(v);
    graft_status st = GRAFT_OK;
    bool larger = false;
    for (int i = 0; i < n && !st; i = larger ? 0 : i + 1)
        st = hold_one(m, v, all[i], task, &larger, e);
    return st ? st : graft_unets_room(m, v->held, v->n_held, use->beside, 0, e);
}

/* ------------------------------------------------------------------ ControlNets */

/* Whether a link behind `k` has the same weights and is active as well. */
static bool comes_again(const graft_control *chain, const graft_control *k,
                        const graft_sigma_table *t, float sigma)
{
    for (; chain != k; chain = chain->before)
        if (chain->net->weights == k->net->weights && graft_control_active(t, chain, sigma))
            return true;
    return false;
}

/* The parts that have residuals of those before this link. */
static int parts_before(const graft_model *m, const graft_control *k, const graft_sigma_table *t,
                        float sigma)
{
    int parts = 0;
    if (graft_control_sparse(&k->net->arch)) return (1 << GRAFT_STEERED_PARTS) - 1;
    while ((k = k->before))
        if (graft_control_active(t, k, sigma)) parts |= graft_control_parts(m, k->net);
    return parts;
}

/* What a transformer's runs before its own graphs. */
static graft_status prepare_first(const graft_model *m, const graft_control *k,
                                  const int64_t shape[4], const graft_unet_use *use,
                                  const graft_task *task, graft_err *e)
{
    graft_binding *b = NULL;
    graft_status st = GRAFT_OK;
    if (k->vae)
        st = graft_vae_prepare(k->vae, false, shape[2] * GRAFT_CONTROL_FACTOR,
                               shape[3] * GRAFT_CONTROL_FACTOR, task, e);
    if (!st && graft_control_embeds(k->net)) st = graft_control_bind_embed(m, use, task, &b, e);
    graft_binding_release(b);
    return st;
}

/* One of the chain's T2I-Adapters. Its weights are needed before all others only. */
static graft_status prepare_adapter(const graft_model *m, const graft_control *chain,
                                    const graft_control *k, const graft_sigma_table *t, float sigma,
                                    const graft_unet_use *use, const graft_task *task, graft_err *e)
{
    graft_binding *b = NULL;
    graft_status st = graft_control_bind_adapter(
        m, k->net, graft_adapters_rows(chain, use->pictures), use->height, use->width,
        graft_adapters_before(k, t, sigma) != NULL, 0, task, &b, e);
    graft_binding_release(b);
    return st;
}

/* Where several of Z-Image's are active: the first part of one of them. */
static graft_status prepare_first_part(const graft_model *m, const graft_controlnet *net, int more,
                                       const graft_unet_use *use, const graft_task *task,
                                       graft_err *e)
{
    graft_binding *b = NULL;
    if (net->arch.refining == GRAFT_CONTROL_REFINES_HINT) return GRAFT_OK;
    graft_status st = graft_control_bind(m, net, more, GRAFT_CONTROL_FIRST_PART, use, task, &b, e);
    graft_binding_release(b);
    return st;
}

/* Compiles and packs what of the chain, all of which fits, is active at this sigma; *bytes: of its
 * packed weights. shape: of the latent, of which `use` may see a part. */
static graft_status prepare_controls(const graft_model *m, const graft_control *chain,
                                     const graft_sigma_table *t, float sigma,
                                     const int64_t shape[4], const graft_unet_use *use,
                                     const graft_task *task, int64_t *bytes, graft_err *e)
{
    const bool staged = graft_control_staged(t, chain, sigma);
    graft_status st = GRAFT_OK;
    *bytes = 0;
    for (const graft_control *k = chain; k && !st; k = k->before) {
        graft_binding *b = NULL, *hint = NULL;
        if (!graft_control_active(t, k, sigma)) continue;
        if (graft_control_adapts(k->net)) {
            st = prepare_adapter(m, chain, k, t, sigma, use, task, e);
            continue;
        }
        const int more = parts_before(m, k, t, sigma) & graft_control_parts(m, k->net);
        int64_t rows = graft_control_rows(k, use->pictures);
        st = prepare_first(m, k, shape, use, task, e);
        if (!st) st = graft_control_bind_hint(m, k->net, rows, use, task, &hint, e);
        if (!st && staged) st = prepare_first_part(m, k->net, more, use, task, e);
        if (!st)
            st = graft_control_bind(m, k->net, more,
                                    staged ? GRAFT_CONTROL_SECOND_PART : GRAFT_CONTROL_AT_ONCE, use,
                                    task, &b, e);
        if (!st && !comes_again(chain, k, t, sigma)) *bytes += (int64_t)graft_binding_bytes(b);
        graft_binding_release(hint);
        graft_binding_release(b);
    }
    return st;
}

/* What makes the hints of those that run within the network. */
static graft_status prepare_within(const graft_model *m, const int64_t shape[4],
                                   const graft_unet_use *use, const graft_task *task, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (const graft_control *k = m->within; k && !st; k = k->before) {
        const int64_t rows = graft_control_rows(k, use->pictures);
        graft_binding *b = NULL;
        st = prepare_first(m, k, shape, use, task, e);
        if (!st) st = graft_control_bind_hint(m, k->net, rows, use, task, &b, e);
        graft_binding_release(b);
    }
    return st;
}

/* ------------------------------------------------------------------ batches */

static graft_status prepare(const graft_prepare_request *rq, needs *v, const need *one,
                            const graft_task *task, graft_err *e)
{
    graft_unet_use use = one->use;
    graft_status st = prepare_controls(rq->model, one->control, rq->table, one->sigma, rq->shape,
                                       &use, task, &use.beside, e);
    const graft_model *m = rq->model;
    if (!st && use.within) st = prepare_within(rq->model, rq->shape, &use, task, e);
    if (!st) st = graft_hooked_model(&v->hooked, m, rq->table, one->entry, one->sigma, task, &m, e);
    if (st) return st;
    bool several = v->regions.any || graft_model_alternates(rq->model, use.height, use.width);
    st = several ? hold(m, v, &use, task, e) : graft_model_prepare(m, &use, task, e);
    graft_hooked_forget(&v->hooked, NULL, 0);
    return st;
}

static void finish(needs *v)
{
    let_go(v);
    graft_regions_finish(&v->regions);
    graft_hooked_finish(&v->hooked);
    graft_free(v->held);
    graft_free(v->list);
    graft_free(v->now);
}

graft_status graft_prepare_run(const graft_prepare_request *rq, const graft_task *task,
                               graft_err *e)
{
    needs v = {0};
    const graft_cond *const lists[] = {rq->positive, rq->negative, rq->third};
    graft_status st = graft_model_check_downscale(rq->model, rq->positive, rq->negative, e);
    for (int i = 0; i < GRAFT_SIDES && !st; i++)
        st = graft_control_check_all(rq->model, lists[i], e);
    if (!st) st = graft_gligen_check(rq->model, lists, GRAFT_SIDES, &v.gligen, e);
    if (!st)
        st = graft_regions_create(rq->positive, rq->negative, rq->third, rq->shape,
                                  graft_net_patch(&rq->model->arch), task, &v.regions, e);
    if (!st)
        st = graft_blurred_check(rq->model, rq->shape, v.regions.list + rq->positive->n,
                                 rq->negative->n, e);
    if (!st && !(v.now = graft_malloc_array(v.regions.n, sizeof *v.now)))
        st = graft_fail_nomem(e, "sampling");
    for (size_t i = 0; i + 1 < rq->n_sigmas && !st; i++)
        if (!add_step(rq, i, &v)) st = graft_fail_nomem(e, "sampling");
    if (!st && v.gligen) st = graft_gligen_prepare(v.gligen, task, e);
    for (size_t i = 0; i < v.n && !st; i++) st = prepare(rq, &v, &v.list[i], task, e);
    finish(&v);
    return st;
}

#include "engine/api/prepare.h"

#include "base/alloc.h"
#include "engine/api/guided.h"

typedef struct need {
    int64_t entries, tokens;
    const graft_control *control;
    float sigma; /* one at which this comes up */
} need;

typedef struct needs {
    need *list; /* of the whole run */
    size_t n, cap;
    need *now; /* of one sigma: entries for each prompt length */
    size_t n_now;
} needs;

static void collect(const graft_prepare_request *rq, bool negative, float sigma, needs *v)
{
    const graft_cond *list = negative ? rq->negative : rq->positive;
    for (size_t i = 0; i < list->n; i++) {
        const graft_cond_entry *k = list->entry[i];
        size_t at = 0;
        if (!graft_guided_active(rq->table, k, sigma)) continue;
        const graft_control *c = graft_control_any(
            rq->table, graft_control_of(rq->positive, rq->negative, negative, i), sigma);
        while (at < v->n_now && (v->now[at].tokens != k->tokens || v->now[at].control != c)) at++;
        if (at == v->n_now) v->now[v->n_now++] = (need){0, k->tokens, c, sigma};
        v->now[at].entries++;
    }
}

static bool add(const graft_prepare_request *rq, needs *v, need one)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->list[i].entries == one.entries && v->list[i].tokens == one.tokens &&
            v->list[i].control == one.control &&
            graft_control_alike(rq->table, one.control, v->list[i].sigma, one.sigma))
            return true;
    if (graft_grow(&v->list, &v->cap, v->n + 1, sizeof *v->list)) return false;
    v->list[v->n++] = one;
    return true;
}

static bool add_all(const graft_prepare_request *rq, needs *v)
{
    bool ok = true;
    for (size_t i = 0; i < v->n_now && ok; i++) {
        need one = v->now[i];
        int64_t full = one.entries / GROUP_MAX, rest = one.entries % GROUP_MAX;
        one.entries = GROUP_MAX;
        if (full) ok = add(rq, v, one);
        one.entries = rest;
        if (rest && ok) ok = add(rq, v, one);
    }
    return ok;
}

static graft_status prepare(const graft_prepare_request *rq, const need *one,
                            const graft_task *task, graft_err *e)
{
    graft_unet_use use = {.control = one->control != NULL,
                          .pictures = rq->shape[0],
                          .entries = one->entries,
                          .height = rq->shape[2],
                          .width = rq->shape[3],
                          .tokens = one->tokens};
    graft_status st = graft_control_prepare(rq->model, one->control, rq->table, one->sigma, &use,
                                            task, &use.beside, e);
    return st ? st : graft_model_prepare(rq->model, &use, task, e);
}

graft_status graft_prepare_run(const graft_prepare_request *rq, const graft_task *task,
                               graft_err *e)
{
    needs v = {0};
    graft_status st = GRAFT_OK;
    v.now = graft_malloc_array(rq->positive->n + rq->negative->n, sizeof *v.now);
    if (!v.now) return graft_fail_nomem(e, "sampling");
    for (size_t i = 0; i + 1 < rq->n_sigmas && !st; i++) {
        v.n_now = 0;
        collect(rq, false, rq->sigmas[i], &v);
        if (rq->guided) collect(rq, true, rq->sigmas[i], &v);
        if (!add_all(rq, &v)) st = graft_fail_nomem(e, "sampling");
    }
    for (size_t i = 0; i < v.n && !st; i++) st = prepare(rq, &v.list[i], task, e);
    graft_free(v.list);
    graft_free(v.now);
    return st;
}

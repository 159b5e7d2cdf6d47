#include "engine/api/prepare.h"

#include "base/alloc.h"
#include "engine/api/guided.h"

typedef struct need {
    int64_t entries, tokens;
} need;

typedef struct needs {
    need *list; /* of the whole run */
    size_t n, cap;
    need *now; /* of one sigma: entries for each prompt length */
    size_t n_now;
} needs;

static void collect(const graft_prepare_request *rq, const graft_cond *list, float sigma, needs *v)
{
    for (size_t i = 0; i < list->n; i++) {
        const graft_cond_entry *k = list->entry[i];
        size_t at = 0;
        if (!graft_guided_active(rq->table, k, sigma)) continue;
        while (at < v->n_now && v->now[at].tokens != k->tokens) at++;
        if (at == v->n_now) v->now[v->n_now++] = (need){0, k->tokens};
        v->now[at].entries++;
    }
}

static bool add(needs *v, int64_t entries, int64_t tokens)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->list[i].entries == entries && v->list[i].tokens == tokens) return true;
    if (graft_grow(&v->list, &v->cap, v->n + 1, sizeof *v->list)) return false;
    v->list[v->n++] = (need){entries, tokens};
    return true;
}

static bool add_all(needs *v)
{
    bool ok = true;
    for (size_t i = 0; i < v->n_now && ok; i++) {
        int64_t full = v->now[i].entries / GROUP_MAX, rest = v->now[i].entries % GROUP_MAX;
        if (full) ok = add(v, GROUP_MAX, v->now[i].tokens);
        if (rest && ok) ok = add(v, rest, v->now[i].tokens);
    }
    return ok;
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
        collect(rq, rq->positive, rq->sigmas[i], &v);
        if (rq->guided) collect(rq, rq->negative, rq->sigmas[i], &v);
        if (!add_all(&v)) st = graft_fail_nomem(e, "sampling");
    }
    for (size_t i = 0; i < v.n && !st; i++)
        st = graft_model_prepare(rq->model, rq->shape[0], v.list[i].entries, rq->shape[2],
                                 rq->shape[3], v.list[i].tokens, task, e);
    graft_free(v.list);
    graft_free(v.now);
    return st;
}

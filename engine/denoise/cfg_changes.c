#include "engine/denoise/cfg_changes.h"

#include "base/alloc.h"
#include "engine/denoise/change.h"
#include "engine/image/latent_operation.h"

/* Numbers of engine/cfg.h and kernels/changes.h are one. */
_Static_assert(GRAFT_CHANGE_PROJECTED == (int)GRAFT_CFG_PROJECTED &&
                   GRAFT_CHANGE_TANGENTIAL == (int)GRAFT_CFG_TANGENTIAL &&
                   GRAFT_CHANGE_RENORMED == (int)GRAFT_CFG_RENORMED &&
                   GRAFT_CHANGE_ZERO_STAR == (int)GRAFT_CFG_ZERO_STAR &&
                   GRAFT_CHANGE_NORMED == (int)GRAFT_CFG_NORMED &&
                   GRAFT_CHANGE_SIMILAR == (int)GRAFT_CFG_SIMILAR,
               "kinds");

struct graft_cfg_changes {
    const graft_guided_config *c;
    graft_memory memory;
    size_t n, per, area;               /* values in all, of a picture, of one of its channels */
    float sigma;                       /* of the call before */
    float *average[GRAFT_CFG_CHANGES]; /* of a change with momentum; or NULL */
    bool begun[GRAFT_CFG_CHANGES];
    double *work;
    double *operating; /* of operations, in the host's memory; or NULL */
};

static void forget(graft_cfg_changes *k)
{
    for (int i = 0; i < GRAFT_CFG_CHANGES; i++) {
        graft_memory_free(&k->memory, k->average[i]);
        k->average[i] = NULL;
    }
    graft_memory_free(&k->memory, k->work);
    k->work = NULL;
}

graft_status graft_cfg_changes_move(graft_cfg_changes *k, graft_memory to, graft_err *e)
{
    const graft_model *m = k->c->model;
    const size_t work = graft_change_work(k->c->shape[0], (int64_t)k->area);
    forget(k);
    k->memory = to;
    k->work = graft_memory_alloc(&to, work * sizeof *k->work);
    bool ok = k->work;
    for (int i = 0; i < m->n_cfg_changes; i++) {
        if (m->cfg_change[i].momentum == 0) continue;
        k->average[i] = graft_memory_alloc(&to, k->n * sizeof *k->average[i]);
        ok = ok && k->average[i];
    }
    return ok ? GRAFT_OK : graft_fail_nomem(e, "guidance");
}

/* For operations. */
static graft_status make_room(graft_cfg_changes *k, graft_err *e)
{
    const graft_model *m = k->c->model;
    size_t most = 0;
    for (int i = 0; i < m->n_cfg_changes; i++) {
        if (m->cfg_change[i].kind != GRAFT_CFG_OPERATED) continue;
        size_t count;
        const graft_status st =
            graft_latent_operation_fit(&m->cfg_operation[i].what, k->c->shape, &count, e);
        if (st) return st;
        if (count > most) most = count;
    }
    if (!most) return GRAFT_OK;
    k->operating = graft_malloc_array(most, sizeof *k->operating);
    return k->operating ? GRAFT_OK : graft_fail_nomem(e, "guidance");
}

bool graft_cfg_changes_look(const graft_cfg_changes *k)
{
    return k->operating != NULL;
}

graft_status graft_cfg_changes_create(const graft_guided_config *c, graft_cfg_changes **out,
                                      graft_err *e)
{
    *out = NULL;
    if (!c->model->n_cfg_changes) return GRAFT_OK;
    graft_cfg_changes *k = graft_calloc(1, sizeof *k);
    if (!k) return graft_fail_nomem(e, "guidance");
    k->c = c;
    k->area = (size_t)(c->shape[2] * c->shape[3]);
    k->per = (size_t)c->shape[1] * k->area;
    k->n = (size_t)c->shape[0] * k->per;
    graft_status st = make_room(k, e);
    if (!st) st = graft_cfg_changes_move(k, (graft_memory){NULL}, e);
    if (st)
        graft_cfg_changes_destroy(k);
    else
        *out = k;
    return st;
}

void graft_cfg_changes_destroy(graft_cfg_changes *k)
{
    if (!k) return;
    forget(k);
    graft_free(k->operating);
    graft_free(k);
}

/* ------------------------------------------------------------------ a call */

static graft_change change_of(const graft_cfg_changes *k, int i, const graft_cfg_call *call,
                              float *guided)
{
    const graft_cfg_change *o = &k->c->model->cfg_change[i];
    return (graft_change){.x = call->x,
                          .positive = call->positive,
                          .negative = call->negative,
                          .out = guided,
                          .average = k->average[i],
                          .work = k->work,
                          .n = k->n,
                          .per = k->per,
                          .area = k->area,
                          .cfg = k->c->cfg,
                          .strength = o->strength,
                          .limit = o->limit,
                          .momentum = o->momentum,
                          .kind = (int32_t)o->kind,
                          .begun = k->begun[i]};
}

static bool is_before(graft_cfg_kind kind)
{
    return kind == GRAFT_CFG_PROJECTED || kind == GRAFT_CFG_TANGENTIAL ||
           kind == GRAFT_CFG_OPERATED;
}

static void operate(const graft_cfg_changes *k, int i, const graft_cfg_call *call)
{
    const struct graft_cfg_operation *o = &k->c->model->cfg_operation[i];
    float *p = call->positive;
    const float *n = call->negative;
    if ((o->start > 0 || o->end < 1) &&
        !graft_sigma_in_range(k->c->table, o->start, o->end, call->sigma))
        return;
    for (size_t v = 0; n && v < k->n; v++) p[v] -= n[v];
    graft_latent_operation_run(&o->what, p, k->c->shape, k->operating);
    for (size_t v = 0; n && v < k->n; v++) p[v] += n[v];
}

graft_status graft_cfg_changes_before(graft_cfg_changes *k, const graft_cfg_call *call)
{
    const graft_model *m = k->c->model;
    const bool guided = call->negative && k->c->cfg != 1.0;
    graft_status st = GRAFT_OK;
    /* Noisier than the call before: another run of a sampler, or a step back. */
    for (int i = 0; i < m->n_cfg_changes && call->sigma > k->sigma; i++) k->begun[i] = false;
    k->sigma = call->sigma;
    for (int i = 0; i < m->n_cfg_changes && !st; i++) {
        const graft_change c = change_of(k, i, call, NULL);
        if (m->cfg_change[i].kind == GRAFT_CFG_OPERATED) operate(k, i, call);
        if (!is_before(m->cfg_change[i].kind) || m->cfg_change[i].kind == GRAFT_CFG_OPERATED ||
            !guided)
            continue;
        /* With a cfg of 0 D is N, whatever P is. */
        if (c.kind == GRAFT_CHANGE_TANGENTIAL || c.cfg != 0)
            st = graft_change_run(&k->memory, &c, NULL);
        k->begun[i] = true;
    }
    return st;
}

graft_status graft_cfg_changes_after(const graft_cfg_changes *k, const graft_cfg_call *call,
                                     float *guided)
{
    const graft_model *m = k->c->model;
    const bool two = call->negative && k->c->cfg != 1.0;
    graft_status st = GRAFT_OK;
    for (int i = 0; i < m->n_cfg_changes && !st; i++) {
        const graft_change c = change_of(k, i, call, guided);
        if (is_before(m->cfg_change[i].kind)) continue;
        if (!two && c.kind != GRAFT_CHANGE_NORMED) continue;
        if (c.kind == GRAFT_CHANGE_RENORMED && !((double)call->sigma < c.limit))
            st = graft_memory_copy(&k->memory, guided, call->positive, k->n * sizeof *guided, NULL);
        else
            st = graft_change_run(&k->memory, &c, NULL);
    }
    return st;
}

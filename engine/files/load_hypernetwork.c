/* Hypernetworks: a file of them on a model. */
#include "base/alloc.h"
#include "engine/files/kinds.h"
#include "engine/files/load.h"

static graft_status check(const graft_model *m, double strength, graft_err *e)
{
    if (!(strength >= -100 && strength <= 100))
        return graft_fail(e, GRAFT_E_ARG, "a strength of %g is not between -100 and 100", strength);
    if (m->hyper.net)
        return graft_fail(e, GRAFT_E_LIMIT,
                          "a model takes one hypernetwork, and this one has one already");
    return graft_model_needs_unet(m, "A hypernetwork", e);
}

static graft_status make(graft_engine *engine, graft_weights *file, graft_hypernetwork **out,
                         graft_err *e)
{
    graft_graph *g = NULL;
    graft_hypernetwork *h = graft_calloc(1, sizeof *h);
    if (!h) return graft_fail_nomem(e, "hypernetwork");
    atomic_init(&h->refs, 1);
    h->engine = engine;
    h->weights = graft_weights_retain(file);
    graft_status st = graft_hypernetwork_detect(graft_weights_file(file), &h->arch, e);
    if (!st) st = graft_hypernetwork_build_all(&h->arch, &g, e);
    if (!st) st = graft_weights_check(h->weights, g, e);
    graft_graph_destroy(g);
    if (st)
        graft_hypernetwork_release(h);
    else
        *out = h;
    return st;
}

graft_status graft_model_hypernetwork(const graft_model *m, const char *path, double strength,
                                      const graft_task *task, graft_model **out, graft_err *e)
{
    graft_weights *file = NULL;
    graft_hypernetwork *h = NULL;
    graft_status st = check(m, strength, e);
    if (!st) st = graft_load_open(path, NULL, task, &file, e);
    if (!st) st = make(m->engine, file, &h, e);
    graft_weights_release(file);
    if (st) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) {
        graft_hypernetwork_release(h);
        return graft_fail_nomem(e, "model");
    }
    n->hyper = (struct graft_hyper){h, (float)strength};
    *out = n;
    return GRAFT_OK;
}

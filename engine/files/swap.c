/* SwapWeights: a model with the weights of another file. */
#include <string.h>

#include "engine/objects/alike.h"
#include "engine/objects/objects.h"

static bool same_arch(const graft_net_arch *a, const graft_net_arch *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Lets go of what only the old weights need. A run that still uses them keeps them until its end.
 */
static graft_status drop_old(const graft_model *old, const graft_model *other, graft_err *e)
{
    graft_exe **list;
    size_t n;
    graft_hash arch = graft_compiled_arch(&old->arch, sizeof old->arch);
    graft_status st = graft_compiled_list(old->engine->compiled, &list, &n, e);
    if (st) return st;
    for (size_t i = 0; i < n && !st; i++)
        if (graft_is_net_kind(list[i]->kind) && graft_hash_equal(list[i]->arch, arch)) {
            graft_engine *g = old->engine;
            st = graft_exe_drop_packs(list[i], old->weights, other->weights, g->packs, e);
            if (!st)
                st = graft_exe_drop_packs(list[i], old->weights, other->weights, g->offloaded, e);
        }
    graft_compiled_list_free(list, n);
    return st;
}

graft_status graft_model_swap(const graft_model *m, const char *path, bool keep,
                              const graft_task *task, graft_model **out, graft_err *e)
{
    graft_model *other = NULL, *n = NULL;
    graft_status st = graft_model_load(m->engine, path, task, &other, e);
    if (st) return st;
    if (!same_arch(&m->arch, &other->arch)) {
        st = graft_alike_fail(m->weights, other->weights, path, "its attention has other heads", e);
        goto out;
    }
    n = graft_model_copy(m);
    if (!n) {
        st = graft_fail_nomem(e, "model");
        goto out;
    }
    graft_weights_release(n->weights);
    n->weights = NULL;
    GRAFT_TRY(graft_weights_rebase(other->weights, m->weights, &n->weights, e)); /* LoRAs stay */
    n->scale_factor = other->scale_factor;
    n->latent_shift = other->latent_shift;
    n->planes = other->planes;
    n->promptless = other->promptless;
    n->preview = other->preview;
    if (!n->sampling_given) {
        n->prediction = other->prediction;
        n->flow_shift = other->flow_shift;
        n->flow_steps = other->flow_steps;
        n->zsnr = other->zsnr;
    }
    n->beta_start = other->beta_start;
    n->beta_end = other->beta_end;
    if (!keep) GRAFT_TRY(drop_old(m, n, e));
    *out = n;
    n = NULL;
out:
    graft_model_release(n);
    graft_model_release(other);
    return st;
}

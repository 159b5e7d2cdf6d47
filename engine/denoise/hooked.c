#include "engine/denoise/hooked.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/objects/hooks.h"

typedef struct moment {
    const graft_sigma_table *table;
    float sigma;
} moment;

static bool begun(const void *ctx, double start)
{
    const moment *m = ctx;
    return m->sigma <= graft_percent_to_sigma(m->table, start);
}

graft_hash graft_hooked_key(const graft_sigma_table *t, const graft_cond_entry *k, float sigma)
{
    const moment at = {t, sigma};
    const graft_hook_moment now = {begun, &at};
    return graft_hooks_key(k->hooks, &now, false);
}

/* Sets stay ready where nobody counts their memory. */
static bool may_keep(const graft_model *m)
{
    return !m->options.max_bytes && !m->engine->max_bytes;
}

graft_status graft_hooked_model(graft_hooked *h, const graft_model *m, const graft_sigma_table *t,
                                const graft_cond_entry *k, float sigma, const graft_task *task,
                                const graft_model **out, graft_err *e)
{
    const moment at = {t, sigma};
    const graft_hook_moment now = {begun, &at};
    const graft_hash key = graft_hooks_key(k->hooks, &now, false);
    *out = m;
    if (!graft_hooked_any(key)) return GRAFT_OK;
    for (size_t i = 0; i < h->n; i++) {
        if (!graft_hash_equal(h->set[i].key, key)) continue;
        *out = h->set[i].model;
        return GRAFT_OK;
    }
    graft_model *made = NULL;
    if (graft_grow(&h->set, &h->cap, h->n + 1, sizeof *h->set))
        return graft_fail_nomem(e, "sampling with hooks");
    graft_status st = graft_hooks_model(k->hooks, m, &now, key, may_keep(m), task, &made, e);
    if (st) return st;
    h->set[h->n++] = (graft_hooked_set){key, made};
    *out = made;
    return GRAFT_OK;
}

static bool wanted(graft_hash key, const active *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (graft_hash_equal(list[i].weights, key)) return true;
    return false;
}

void graft_hooked_forget(graft_hooked *h, const active *list, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < h->n; i++) {
        if (wanted(h->set[i].key, list, n))
            h->set[kept++] = h->set[i];
        else
            graft_model_release(h->set[i].model);
    }
    h->n = kept;
}

void graft_hooked_finish(graft_hooked *h)
{
    graft_hooked_forget(h, NULL, 0);
    graft_free(h->set);
    memset(h, 0, sizeof *h);
}

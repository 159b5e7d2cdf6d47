#include "engine/denoise/series.h"

#include "engine/objects/room.h"

static graft_hash slots_of(const active *list, const size_t *which, size_t count)
{
    size_t slot[GROUP_MAX];
    const graft_hash none = {0, 0};
    for (size_t i = 0; i < count; i++) slot[i] = list[which[i]].slot;
    return graft_hash_mix(none, slot, count * sizeof *slot);
}

graft_invariants *graft_series_get(graft_series *s, const graft_model *m,
                                   const graft_binding *binding, const active *list,
                                   const size_t *which, size_t count)
{
    const graft_hash slots = slots_of(list, which, count);
    for (size_t i = 0; i < s->n; i++)
        if (s->one[i].binding == binding && graft_hash_equal(s->one[i].slots, slots))
            return s->one[i].invariants;
    if (s->n == GRAFT_SERIES_MAX || m->options.max_bytes || m->engine->max_bytes) return NULL;
    /* Where nothing is kept that is remembered, too: a device is not asked in every step. */
    graft_invariants *made = NULL;
    if (graft_engine_may_keep(binding->exe->backend, (uint64_t)binding->exe->kept_bytes) &&
        graft_invariants_create(binding->exe, m->engine->kept, &made, NULL))
        made = NULL;
    s->one[s->n++] = (graft_series_one){binding, slots, made};
    return made;
}

void graft_series_forget(graft_series *s, const graft_binding *binding)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->one[i].binding == binding)
            graft_invariants_destroy(s->one[i].invariants);
        else
            s->one[kept++] = s->one[i];
    s->n = kept;
}

void graft_series_finish(graft_series *s)
{
    for (size_t i = 0; i < s->n; i++) graft_invariants_destroy(s->one[i].invariants);
    s->n = 0;
}

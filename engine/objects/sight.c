#include "engine/objects/sight.h"

#include "base/alloc.h"
#include "base/size.h"

graft_status graft_sight_create(const graft_crossings *c, int32_t tokens, graft_sight **out,
                                graft_err *e)
{
    int64_t count;
    *out = NULL;
    if (!graft_size_product((int64_t[]){2, tokens, graft_crossings_before(c, c->n)}, 3, &count))
        return graft_fail(e, GRAFT_E_LIMIT, "%d tokens of pictures are too many", tokens);
    graft_sight *s = graft_calloc(1, sizeof *s);
    if (!s) return graft_fail_nomem(e, "pictures beside a prompt");
    atomic_init(&s->refs, 1);
    s->tokens = tokens;
    for (int i = 0; i < GRAFT_SIGHT_SIDES; i++)
        s->data[i] = graft_malloc_array((size_t)count, sizeof *s->data[i]);
    if (s->data[0] && s->data[1]) {
        *out = s;
        return GRAFT_OK;
    }
    graft_sight_release(s);
    return graft_fail_nomem(e, "pictures beside a prompt");
}

graft_sight *graft_sight_retain(graft_sight *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void graft_sight_release(graft_sight *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
    for (int i = 0; i < GRAFT_SIGHT_SIDES; i++) graft_free(s->data[i]);
    graft_free(s);
}

graft_status graft_model_with_sight(const graft_model *m, const struct graft_seen *what,
                                    graft_model **out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    graft_model *n = NULL;
    if (m->n_seen == GRAFT_ATTENDED)
        st = graft_fail(e, GRAFT_E_LIMIT, "a model is shown pictures at most %d times",
                        GRAFT_ATTENDED);
    else if (!(n = graft_model_copy(m)))
        st = graft_fail_nomem(e, "model");
    if (st) {
        graft_sight_release(what->sight);
        return st;
    }
    if (what->mask) graft_image_retain(what->mask);
    n->seen[n->n_seen++] = *what;
    *out = n;
    return GRAFT_OK;
}

graft_attended_shape graft_model_attended(const graft_model *m)
{
    graft_attended_shape s = {{0}, 0};
    for (int i = 0; i < m->n_seen; i++) {
        s.tokens[i] = m->seen[i].sight->tokens;
        if (m->seen[i].mask) s.masked |= 1u << i;
    }
    return s;
}

uint32_t graft_model_sees_at(const graft_model *m, const graft_sigma_table *t, float sigma)
{
    uint32_t bits = 0;
    for (int i = 0; i < m->n_seen; i++) {
        const struct graft_seen *s = &m->seen[i];
        if (s->weight != 0 && graft_sigma_in_range(t, s->start, s->end, sigma)) bits |= 1u << i;
    }
    return bits;
}

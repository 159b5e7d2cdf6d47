#include "engine/denoise/attending.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/objects/sight.h"

graft_status graft_attending_create(const graft_guided_config *c, graft_attending *out,
                                    graft_err *e)
{
    const graft_attended_shape shape = graft_model_attended(c->model);
    const size_t slots = graft_guided_slots(c);
    int64_t count;
    *out = (graft_attending){.m = c->model};
    if (!c->model->n_seen) return GRAFT_OK;
    graft_crossings_of(&c->model->arch.unet, &out->crossings);
    const int64_t channels = graft_crossings_before(&out->crossings, out->crossings.n);
    const int64_t all[] = {2, graft_attended_tokens(&shape), channels, c->shape[0], (int64_t)slots};
    if (!graft_size_product(all, 5, &count))
        return graft_fail(e, GRAFT_E_ARG, "the batch is too large");
    out->values = graft_malloc_array((size_t)count, sizeof *out->values);
    out->kept = graft_calloc(slots, sizeof *out->kept);
    return out->values && out->kept ? GRAFT_OK : graft_fail_nomem(e, "pictures beside a prompt");
}

void graft_attending_finish(graft_attending *a)
{
    graft_free(a->values);
    graft_free(a->kept);
}

/* n numbers of each row, times a factor. */
static float *fill(float *to, const struct graft_seen *s, int64_t at, int64_t n, float factor,
                   const active *const *row, size_t count, int64_t pictures)
{
    for (size_t i = 0; i < count; i++) {
        const int side = row[i]->side == GRAFT_POSITIVE ? GRAFT_SIGHT_POSITIVE : GRAFT_SIGHT_OTHERS;
        const float *from = s->sight->data[side] + at;
        for (int64_t p = 0; p < pictures; p++, to += n)
            for (int64_t k = 0; k < n; k++) to[k] = factor * from[k];
    }
    return to;
}

const float *graft_attending_fill(graft_attending *a, uint32_t now, const active *list,
                                  const size_t *which, size_t count, int64_t pictures)
{
    const active *row[GROUP_MAX];
    float *to = a->values;
    for (size_t i = 0; i < count; i++) row[i] = &list[which[i]];
    for (int i = 0; i < a->m->n_seen; i++) {
        const struct graft_seen *s = &a->m->seen[i];
        const float factor = now >> i & 1 ? (float)s->weight : 0.0f;
        int64_t at = 0;
        for (int32_t l = 0; l < a->crossings.n; l++) {
            const int64_t n = (int64_t)s->sight->tokens * a->crossings.channels[l];
            to = fill(to, s, at, n, 1.0f, row, count, pictures);
            to = fill(to, s, at + n, n, factor, row, count, pictures);
            at += 2 * n;
        }
    }
    return a->values;
}

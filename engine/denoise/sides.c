#include "engine/denoise/sides.h"

#include "engine/denoise/guided_call.h"
#include "engine/denoise/third.h"

/* ------------------------------------------------------------------ prompts of parts */

graft_status graft_sides_begin(const graft_placed *p, const graft_guided *g)
{
    const uint64_t cells = (uint64_t)(g->c.shape[0] * g->c.shape[2] * g->c.shape[3]);
    graft_device *d = p->memory.backend->device;
    graft_status st = GRAFT_OK;
    for (int i = 0; i < GRAFT_PLACED_SUMS && !st; i++)
        if (p->sides.sum[i]) st = p->more->fill(d, p->sides.sum[i], (uint64_t)g->n, 0);
    for (int i = 0; i < GRAFT_SIDES && !st; i++)
        if (p->sides.total[i]) st = p->more->fill(d, p->sides.total[i], cells, 0);
    return st;
}

static graft_status weigh(const graft_placed *p, const graft_guided *g, size_t slot,
                          const float *part, float *sum, float *total)
{
    graft_excerpt r = graft_regions_part(&g->regions, slot);
    r.part = (float *)part; /* read only */
    r.whole = sum;
    r.weight = p->sides.weight[slot];
    r.total = total;
    return p->more->weigh(p->memory.backend->device, &r);
}

graft_status graft_sides_add(const graft_placed *p, const graft_guided *g, const size_t *which,
                             size_t count, const float *out)
{
    const size_t again = g->perturbs ? graft_active_positive(g->active, which, count) : 0;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < count && !st; i++) {
        const active *a = &g->active[which[i]];
        const size_t n = graft_guided_values(g, a->box);
        st = weigh(p, g, a->slot, out + i * n, p->sides.sum[a->side], p->sides.total[a->side]);
        if (!st && i < again)
            st = weigh(p, g, a->slot, out + (count + i) * n, p->sides.sum[GRAFT_SIDES], NULL);
    }
    return st;
}

/* ------------------------------------------------------------------ denoised latents */

/* Entries of n predictions, and how these are meant. */
typedef struct some {
    const float *v;
    size_t n;
    uint64_t entries;
    graft_guidance_terms terms;
} some;

/* Their mean as a denoised latent; 0 where there are none. */
static graft_status mean_of(const graft_placed *p, const graft_guided *g,
                            const graft_sides_call *call, const some *s, float *out)
{
    const graft_guidance of = {.x = call->x,
                               .v = s->v,
                               .out = out,
                               .n = (uint64_t)g->n,
                               .negative = ~s->entries,
                               .entries = (uint32_t)s->n,
                               .terms = s->terms};
    return p->more->guide(p->memory.backend->device, &of);
}

static graft_status weighed_of(const graft_placed *p, const graft_guided *g,
                               const graft_sides_call *call, int sum, float *out)
{
    const graft_weighed of = {.x = call->x,
                              .sum = p->sides.sum[sum],
                              .total = p->sides.total[sum == GRAFT_SIDES ? GRAFT_POSITIVE : sum],
                              .out = out,
                              .n = (uint64_t)g->n,
                              .per = (uint64_t)g->per,
                              .area = (uint64_t)(g->c.shape[2] * g->c.shape[3]),
                              .terms = graft_guided_terms(g, call->sigma)};
    return p->more->mean(p->memory.backend->device, &of);
}

/* What a side predicted, or the perturbed rows, which come last. */
static some some_of(const graft_sides_call *call, int sum)
{
    if (sum == GRAFT_SIDES)
        return (some){.v = call->perturbed, .n = call->n_perturbed, .entries = UINT64_MAX};
    return (some){.v = call->v, .n = call->n_entries, .entries = call->entries[sum]};
}

graft_answer graft_sides_answer(const graft_placed *p, const graft_guided *g)
{
    float *const *sum = p->sides.sum;
    bool there[GRAFT_SIDES] = {false};
    for (size_t i = 0; i < g->n_active; i++) there[g->active[i].side] = true;
    return (graft_answer){.x = p->scaled,
                          .positive = sum[GRAFT_POSITIVE],
                          .negative = there[GRAFT_NEGATIVE] ? sum[GRAFT_NEGATIVE] : NULL,
                          .third = there[GRAFT_THIRD] ? sum[GRAFT_THIRD] : NULL,
                          .perturbed = g->perturbs ? sum[GRAFT_SIDES] : NULL};
}

/* Mean predictions, which EasyCache keeps. */
static graft_status answer(const graft_placed *p, const graft_guided *g,
                           const graft_sides_call *call, graft_err *e)
{
    const graft_answer now = graft_sides_answer(p, g);
    graft_status st = GRAFT_OK;
    for (int i = 0; i < GRAFT_PLACED_SUMS && !st; i++) {
        some s = some_of(call, i);
        s.terms.kind = GRAFT_GUIDE_X0;
        if (p->sides.sum[i]) st = mean_of(p, g, call, &s, p->sides.sum[i]);
    }
    if (st) return graft_memory_check(&p->memory, st, e);
    return graft_answers_keep(g->answers, g->active, g->n_active, call->sigma, &now, e);
}

static graft_status denoise_one(const graft_placed *p, const graft_guided *g,
                                const graft_sides_call *call, int sum, float *out)
{
    some s = some_of(call, sum);
    if (g->regions.any) return weighed_of(p, g, call, sum, out);
    if (g->answers) s = (some){.v = p->sides.sum[sum], .n = s.entries != 0, .entries = UINT64_MAX};
    s.terms = graft_guided_terms(g, call->sigma);
    return mean_of(p, g, call, &s, out);
}

/* Of all sides, and what the perturbed ones are away from the positive ones. */
static graft_status denoise(const graft_placed *p, const graft_guided *g,
                            const graft_sides_call *call)
{
    const float *const both[] = {p->sides.d[GRAFT_POSITIVE], p->perturbed.d};
    graft_status st = GRAFT_OK;
    for (int side = 0; side < GRAFT_SIDES && !st; side++)
        if (p->sides.d[side]) st = denoise_one(p, g, call, side, p->sides.d[side]);
    if (st || !call->n_perturbed) return st;
    st = denoise_one(p, g, call, GRAFT_SIDES, p->perturbed.d);
    return st ? st
              : p->more->mix(p->memory.backend->device, p->perturbed.d, (uint64_t)g->n, 2,
                             (const double[]){1, -1}, both);
}

/* ------------------------------------------------------------------ guidance */

static graft_status guide_by_three(const graft_placed *p, const graft_guided *g, float *out)
{
    graft_change c = graft_third_change(&g->c.third, g->c.cfg, p->sides.d, out);
    c.work = p->sides.work;
    c.n = (uint64_t)g->n;
    c.per = (uint64_t)g->per;
    c.area = (uint64_t)(g->c.shape[2] * g->c.shape[3]);
    return graft_change_run(&p->memory, &c, NULL);
}

/* The positive and the negative prediction, as they are. */
static graft_status combine(const graft_placed *p, const graft_guided *g,
                            const graft_sides_call *call)
{
    graft_device *d = p->memory.backend->device;
    const uint64_t bytes = (uint64_t)g->n * sizeof(float);
    const bool negative = call->entries[GRAFT_NEGATIVE] != 0;
    const float *pos = p->sides.d[GRAFT_POSITIVE], *neg = p->sides.d[GRAFT_NEGATIVE];
    if (negative && call->entries[GRAFT_POSITIVE] && g->c.model->rescale_cfg > 0) {
        const graft_status st = p->more->copy(d, call->out, pos, bytes);
        return st ? st : graft_placed_rescale(p, g, call->x, call->sigma, neg, call->out);
    }
    if (!negative && g->c.cfg == 1.0) return p->more->copy(d, call->out, pos, bytes);
    /* Both are denoised, and neighbours. */
    const graft_guidance of = {.x = call->x,
                               .v = pos,
                               .out = call->out,
                               .n = (uint64_t)g->n,
                               .negative = 2,
                               .entries = 2,
                               .guided = 1,
                               .cfg = (float)g->c.cfg,
                               .terms = {.kind = GRAFT_GUIDE_X0}};
    return p->more->guide(d, &of);
}

graft_status graft_sides_guide(const graft_placed *p, const graft_guided *g,
                               const graft_sides_call *call, graft_err *e)
{
    graft_device *d = p->memory.backend->device;
    const bool negative = call->entries[GRAFT_NEGATIVE] != 0;
    const graft_cfg_call changed = {.sigma = call->sigma,
                                    .x = call->x,
                                    .positive = p->sides.d[GRAFT_POSITIVE],
                                    .negative = negative ? p->sides.d[GRAFT_NEGATIVE] : NULL};
    graft_status st = g->answers && !call->made ? answer(p, g, call, e) : GRAFT_OK;
    if (!st) st = denoise(p, g, call);
    if (!st && g->changes) st = graft_cfg_changes_before(g->changes, &changed);
    if (!st) st = g->c.third.prompt ? guide_by_three(p, g, call->out) : combine(p, g, call);
    if (!st && g->changes) st = graft_cfg_changes_after(g->changes, &changed, call->out);
    if (!st && call->n_perturbed) st = graft_placed_go_away(p, g, call->out);
    if (st || !call->unconditional) return st;
    return p->more->copy(d, call->unconditional, p->sides.d[GRAFT_NEGATIVE],
                         (uint64_t)g->n * sizeof(float));
}

#include "engine/denoise/resident.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/denoise/bound.h"
#include "engine/denoise/guided_call.h"
#include "engine/denoise/masked.h"
#include "engine/denoise/sides.h"
#include "engine/task.h"

struct graft_resident {
    graft_guided *g;
    graft_placed p;
    struct { /* the call that goes on */
        const float *x;
        float *out, *unconditional; /* the latter may be NULL */
        float sigma;
        size_t which[GROUP_MAX], count;        /* the batch */
        const graft_exe *exe;                  /* what it runs on */
        const void *more[GRAFT_GUIDED_INPUTS]; /* inputs behind y and DeepCache's feature */
        size_t n_more;
        size_t done;                   /* entries of batches before it */
        size_t perturbed;              /* perturbed ones so far */
        uint64_t entries[GRAFT_SIDES]; /* a bit for each of a side's, in the order of batches */
        bool made;                     /* by EasyCache, of earlier ones */
    } call;
    graft_fetch *fetch; /* of the last step; NULL: none */
    size_t fetch_step, fetch_total;
    bool fetch_wanted;
};

/* ------------------------------------------------------------------ whether */

/* Nobody looks into the arrays of a run: no sampler, no onlooker, no limit of DeepCache's error, no
 * EasyCache with prompts for parts of it, no self-attention guidance, no spread that skipped blocks
 * are to have, no operations on predictions, no patches that are filled up, no prompts for what
 * others leave, whose weights change. */
static bool is_blind(const graft_guided *g, const char *sampler)
{
    const graft_task *t = g->c.task;
    const graft_model *m = g->c.model;
    const size_t n = graft_guided_slots(&g->c);
    const bool perturbs = graft_model_perturbs(m);
    return !g->c.tap && !(t && t->latent) && !(g->answers && g->regions.any) && !g->blurred &&
           !g->regions.rest && !graft_known_fills(&g->c) &&
           !(g->changes && graft_cfg_changes_look(g->changes)) &&
           !(perturbs && (g->features || m->skip.rescale > 0)) &&
           !(g->features && m->deepcache.max_error > 0) && n && n <= GRAFT_GUIDE_ENTRIES &&
           graft_sampler_anywhere(sampler);
}

/* What steers the prompts and what they see beside them, into this memory. */
static graft_status move(graft_guided *g, graft_memory to, graft_err *e)
{
    graft_status st = g->controls ? graft_controls_move(g->controls, to, e) : GRAFT_OK;
    if (!st) st = graft_known_move(&g->known, to, e);
    if (!st && g->changes) st = graft_cfg_changes_move(g->changes, to, e);
    if (!st && g->answers) st = graft_answers_move(g->answers, to, e);
    if (!st) st = graft_attending_move(&g->attending, to, e);
    return st ? st : graft_boxed_move(&g->boxed, to, e);
}

graft_status graft_resident_create(graft_guided *g, const char *sampler, graft_resident **out,
                                   graft_err *e)
{
    graft_backend *backend;
    graft_dtype dtype;
    *out = NULL;
    graft_status st =
        graft_options_resolve(g->c.model->engine, &g->c.model->options, &backend, &dtype, e);
    if (st) return st;
    if (!graft_placed_works(backend) || !is_blind(g, sampler)) return GRAFT_OK;
    graft_resident *r = graft_calloc(1, sizeof *r);
    if (!r) return graft_fail_nomem(e, "sampling");
    r->g = g;
    st = graft_placed_create(&r->p, g, backend, e);
    if (!st) st = move(g, r->p.memory, e);
    if (st)
        graft_resident_destroy(r);
    else
        *out = r;
    /* The host's way needs less there. */
    return st == GRAFT_E_NOMEM ? move(g, (graft_memory){NULL}, e) : st;
}

void graft_resident_destroy(graft_resident *r)
{
    if (!r) return;
    if (r->fetch) r->p.more->fetch_free(r->fetch);
    graft_placed_finish(&r->p);
    graft_free(r);
}

const graft_arrays *graft_resident_arrays(graft_resident *r)
{
    return &r->p.arrays;
}

graft_status graft_resident_begin(graft_resident *r, const float *x, float **state, graft_err *e)
{
    uint64_t bytes = (uint64_t)r->g->n * sizeof *x;
    graft_status st =
        r->p.memory.backend->api->upload(r->p.memory.backend->device, r->p.x, x, bytes);
    *state = r->p.x;
    return graft_memory_check(&r->p.memory, st, e);
}

graft_status graft_resident_end(graft_resident *r, float *x, graft_err *e)
{
    uint64_t bytes = (uint64_t)r->g->n * sizeof *x;
    graft_status st =
        r->p.memory.backend->api->download(r->p.memory.backend->device, x, r->p.x, bytes);
    return graft_memory_check(&r->p.memory, st, e);
}

/* ------------------------------------------------------------------ the denoiser */

/* An input of a batch, `bytes` for each of its entries: from `offset` on in what its slot has,
 * which begins at at[slot]. */
static graft_status gather(const graft_resident *r, void *in, const void *base, const uint64_t *at,
                           uint64_t offset, uint64_t bytes)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < r->call.count && !st; i++) {
        size_t slot = r->g->active[r->call.which[i]].slot;
        st = r->p.more->copy(r->p.memory.backend->device, (char *)in + i * bytes,
                             (const char *)base + at[slot] + offset, bytes);
    }
    return st;
}

static graft_status scale_latent(const graft_resident *r, float *to)
{
    const double scale = (double)graft_guided_scale(r->g, r->call.sigma);
    return r->p.more->mix(r->p.memory.backend->device, to, (size_t)r->g->n, 1, &scale, &r->call.x);
}

/* What each entry of a batch sees of the scaled latent. */
static graft_status write_parts(const graft_resident *r, float *x)
{
    const graft_guided *g = r->g;
    graft_status st = scale_latent(r, r->p.scaled);
    for (size_t i = 0; i < r->call.count && !st; i++) {
        const active *a = &g->active[r->call.which[i]];
        graft_excerpt part = graft_regions_part(&g->regions, a->slot);
        part.part = x + i * graft_guided_values(g, a->box);
        part.whole = r->p.scaled;
        st = r->p.more->cut(r->p.memory.backend->device, &part);
    }
    return st;
}

/* The scaled latent for each entry of a batch. */
static graft_status write_latents(const graft_resident *r, float *x)
{
    const graft_guided *g = r->g;
    const size_t n = (size_t)g->n;
    if (g->regions.any) return write_parts(r, x);
    graft_status st = scale_latent(r, x);
    for (size_t i = 1; i < r->call.count && !st; i++)
        st = r->p.more->copy(r->p.memory.backend->device, x + i * n, x, n * sizeof *x);
    return st;
}

/* The same with what is known beside it. */
static graft_status write_joined(const graft_resident *r, float *x)
{
    const graft_guided *g = r->g;
    graft_status st = scale_latent(r, r->p.scaled);
    for (size_t i = 0; i < r->call.count && !st; i++) {
        const active *a = &g->active[r->call.which[i]];
        st = graft_known_join_there(&g->known, &g->c, a->slot, a->box, r->p.scaled, x, NULL);
        x += g->c.shape[0] * graft_known_x_values(&g->known, &g->c, a->slot, a->box);
    }
    return st;
}

/* What every network takes of a batch behind x: timesteps, contexts and y. */
static graft_status write_prompts(const graft_resident *r, void *const *in)
{
    const graft_guided *g = r->g;
    const active *first = &g->active[r->call.which[0]];
    const size_t rows = (size_t)g->c.shape[0] * r->call.count;
    const uint64_t told = graft_placed_y_bytes(g, first->entry);
    const uint64_t bytes = r->p.context[first->slot + 1] - r->p.context[first->slot] - told;
    const float timestep = graft_sigma_to_timestep(g->c.table, r->call.sigma);
    graft_status st = r->p.more->fill(r->p.memory.backend->device, in[1], rows, timestep);
    if (!st) st = gather(r, in[2], r->p.block, r->p.context, 0, bytes);
    if (!st && told) st = gather(r, in[3], r->p.block, r->p.context, bytes, told);
    return st;
}

/* The UNet's inputs: of a batch, DeepCache's features, what steers it, and FreeU's factors. */
static graft_status write_inputs(void *ctx, void *const *in)
{
    const graft_resident *r = ctx;
    const graft_guided *g = r->g;
    const graft_kernels_more *m = r->p.more;
    graft_device *d = r->p.memory.backend->device;
    const active *first = &g->active[r->call.which[0]];
    const bool fast = first->fast;
    const size_t bytes = g->features ? graft_guided_feature_bytes(g, first->box) : 0;
    size_t next = graft_placed_y_bytes(g, first->entry) ? 4 : 3;
    graft_status st = g->known.joins ? write_joined(r, in[0]) : write_latents(r, in[0]);
    if (!st) st = write_prompts(r, in);
    for (size_t i = 0; i < r->call.count && fast && !st; i++)
        st = m->copy(d, (char *)in[next] + i * bytes,
                     r->p.feature + g->active[r->call.which[i]].slot * g->feature_bytes, bytes);
    next += fast;
    for (size_t i = 0; i < r->call.n_more && !st; i++, next++)
        st = m->copy(d, in[next], r->call.more[i], (uint64_t)r->call.exe->input[next].bytes);
    return st;
}

/* Adds the guidance away from the perturbed predictions, n_perturbed of them; p: of the call. */
static graft_status perturb(const graft_resident *r, graft_guidance p, const float *perturbed,
                            size_t n_perturbed)
{
    const graft_kernels_more *m = r->p.more;
    graft_device *d = r->p.memory.backend->device;
    float *away = r->p.perturbed.d;
    const float *const both[] = {r->p.perturbed.positive, away};
    p.guided = 0;
    p.out = r->p.perturbed.positive;
    graft_status st = m->guide(d, &p);
    p.v = perturbed;
    p.entries = (uint32_t)n_perturbed;
    p.negative = 0;
    p.out = away;
    if (!st) st = m->guide(d, &p);
    if (!st) st = m->mix(d, away, p.n, 2, (const double[]){1, -1}, both);
    return st ? st : graft_placed_go_away(&r->p, r->g, r->call.out);
}

static graft_status guide_sides(const graft_resident *r, const float *v, const float *perturbed)
{
    graft_sides_call call = {.x = r->call.x,
                             .sigma = r->call.sigma,
                             .n_entries = r->g->n_active,
                             .v = v,
                             .perturbed = perturbed,
                             .n_perturbed = r->call.perturbed,
                             .made = r->call.made,
                             .out = r->call.out,
                             .unconditional = r->call.unconditional};
    memcpy(call.entries, r->call.entries, sizeof call.entries);
    return graft_sides_guide(&r->p, r->g, &call, NULL);
}

/* From the UNet's outputs of all batches to the call's result. */
static graft_status guide(const graft_resident *r, const float *v, const float *perturbed)
{
    const graft_guided *g = r->g;
    graft_device *d = r->p.memory.backend->device;
    size_t n = g->n_active;
    uint64_t all = n < 64 ? ((uint64_t)1 << n) - 1 : UINT64_MAX;
    uint64_t negative = r->call.entries[GRAFT_NEGATIVE];
    if (graft_guided_apart(g)) return guide_sides(r, v, perturbed);
    graft_guidance p = {.x = r->call.x,
                        .v = v,
                        .out = r->call.out,
                        .n = (uint64_t)g->n,
                        .negative = negative,
                        .entries = (uint32_t)n,
                        .cfg = (float)g->c.cfg,
                        .terms = graft_guided_terms(g, r->call.sigma)};
    bool rescaled = g->c.model->rescale_cfg > 0 && negative && negative != all;
    p.guided = !rescaled && (negative || g->c.cfg != 1.0);
    const graft_guidance call = p;
    graft_status st = r->p.more->guide(d, &p);
    /* The negative prediction alone is the positive one of entries with their signs exchanged. */
    p.negative = all & ~negative;
    p.guided = 0;
    p.out = r->p.rescale.negative;
    if (!st && rescaled) st = r->p.more->guide(d, &p);
    if (!st && rescaled)
        st = graft_placed_rescale(&r->p, g, r->call.x, r->call.sigma, p.out, r->call.out);
    p.out = r->call.unconditional;
    if (!st && p.out) st = r->p.more->guide(d, &p);
    if (st || !r->call.perturbed) return st;
    return perturb(r, call, perturbed, r->call.perturbed);
}

static graft_status read_outputs(void *ctx, void *const *out)
{
    graft_resident *r = ctx;
    graft_guided *g = r->g;
    const graft_kernels_more *m = r->p.more;
    graft_device *d = r->p.memory.backend->device;
    size_t n = (size_t)g->n;
    const graft_box *box = g->active[r->call.which[0]].box;
    const size_t bytes = g->features ? graft_guided_feature_bytes(g, box) : 0;
    bool stores = graft_guided_variant(g, g->active[r->call.which[0]].fast) == GRAFT_STORE;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < r->call.count && stores && !st; i++) {
        size_t slot = g->active[r->call.which[i]].slot;
        st = m->copy(d, r->p.feature + slot * g->feature_bytes, (const char *)out[1] + i * bytes,
                     bytes);
        if (!st) graft_features_made(g->features, slot);
    }
    if (!st && stores) st = graft_guided_keep(g, r->call.which, r->call.count, r->call.sigma, NULL);
    if (st) return st;
    const float *behind = (const float *)out[0] + r->call.count * n;
    const size_t before = r->call.perturbed;
    if (g->perturbs)
        r->call.perturbed += graft_active_positive(g->active, r->call.which, r->call.count);
    const bool last = r->call.done + r->call.count == g->n_active;
    if (g->regions.any) {
        st = graft_sides_add(&r->p, g, r->call.which, r->call.count, out[0]);
        return st || !last ? st : guide(r, NULL, NULL);
    }
    if (r->call.count == g->n_active) return guide(r, out[0], behind);
    st = m->copy(d, r->p.v + r->call.done * n, out[0], r->call.count * n * sizeof *r->p.v);
    if (!st && r->call.perturbed > before)
        st = m->copy(d, r->p.perturbed.v + before * n, behind,
                     (r->call.perturbed - before) * n * sizeof *r->p.v);
    return st || !last ? st : guide(r, r->p.v, r->p.perturbed.v);
}

/* Between x and what is kept, with noise where that is not NULL, by the mask. */
static graft_status blend(graft_resident *r, const float *x, const float *kept, const float *noise,
                          float *out, graft_err *e)
{
    const graft_guided *g = r->g;
    const graft_blend p = {.x = x,
                           .kept = kept,
                           .noise = noise,
                           .mask = r->p.inpaint.mask,
                           .out = out,
                           .n = (uint64_t)g->n,
                           .per = (uint64_t)g->per,
                           .area = (uint64_t)(g->c.shape[2] * g->c.shape[3]),
                           .sigma = r->call.sigma};
    graft_status st = r->p.more->blend(r->p.memory.backend->device, &p);
    return graft_memory_check(&r->p.memory, st, e);
}

/* The state as the network is to see it. A mask that changes from step to step is made here: its
 * places are few beside the latent's values. */
static graft_status mask_input(graft_resident *r, const float *x, graft_err *e)
{
    const graft_guided_config *c = &r->g->c;
    const size_t places = (size_t)(c->shape[0] * c->shape[2] * c->shape[3]);
    const float threshold = graft_masked_threshold(c, r->call.sigma);
    const double share = (double)graft_masked_kept(c, r->call.sigma);
    float *grey = r->p.inpaint.grey;
    const float *kept = r->p.inpaint.latent;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; grey && i < places; i++)
        grey[i] = graft_masked_share(c, (int64_t)i, threshold);
    if (grey) st = r->p.arrays.put(&r->p, r->p.inpaint.mask, grey, places, e);
    if (!st && r->p.inpaint.kept) {
        r->p.arrays.mix(&r->p, r->p.inpaint.kept, (size_t)r->g->n, 1, &share, &kept);
        kept = r->p.inpaint.kept;
    }
    return st ? st : blend(r, x, kept, r->p.inpaint.noise, r->p.inpaint.x, e);
}

/* Has what steers the batch made, and lists what the UNet takes of that. */
static graft_status steer(graft_resident *r, const graft_unet_use *use, graft_err *e)
{
    graft_guided *g = r->g;
    const active *first = &g->active[r->call.which[0]];
    void *const in[] = {r->p.batch.x, r->p.batch.timesteps, r->p.batch.context, r->p.batch.y};
    const void *const seen[] = {in[0], in[1], in[2], in[3]};
    graft_status st = GRAFT_OK;
    if (first->control && !first->fast) st = write_latents(r, r->p.batch.x);
    if (first->control && !first->fast && !st) st = write_prompts(r, in);
    if (st) return graft_memory_check(&r->p.memory, st, e);
    return graft_guided_steer(g, r->call.which, r->call.count, use, r->call.sigma, seen, e);
}

static graft_status run_batch(graft_resident *r, graft_err *e)
{
    graft_guided *g = r->g;
    const graft_unet_use use = graft_guided_use(g, r->call.which, r->call.count);
    graft_binding *b;
    r->call.n_more = 0;
    graft_status st = steer(r, &use, e);
    if (!st) st = graft_guided_bind(g, &g->active[r->call.which[0]], &use, &b, e);
    if (!st)
        st = graft_guided_append(g, r->call.which, r->call.count, &use, r->call.more,
                                 &r->call.n_more, e);
    if (st) return st;
    if (r->p.hyper) r->call.more[r->call.n_more++] = r->p.hyper;
    if (graft_model_freeu_factors(g->c.model, use.variant))
        r->call.more[r->call.n_more++] = r->p.freeu;
    r->call.exe = b->exe;
    return graft_exe_run_there(
        b, g->c.model->engine->arenas,
        graft_series_get(&g->series, g->c.model, b, g->active, r->call.which, r->call.count),
        write_inputs, read_outputs, r, g->c.task, NULL, e);
}

/* The active entries, batch by batch. */
static graft_status run_batches(graft_resident *r, graft_err *e)
{
    graft_guided *g = r->g;
    graft_status st = GRAFT_OK;
    while (!st && (r->call.count = graft_guided_group(g, r->call.which))) {
        for (size_t i = 0; i < r->call.count; i++)
            r->call.entries[g->active[r->call.which[i]].side] |= (uint64_t)1 << (r->call.done + i);
        st = run_batch(r, e);
        r->call.done += r->call.count;
    }
    return st;
}

/* Whether EasyCache leaves the call out, whose means are there then. */
static graft_status leave_out(graft_resident *r, graft_err *e)
{
    graft_guided *g = r->g;
    const graft_answer answer = graft_sides_answer(&r->p, g);
    const bool may = !g->features || graft_features_spare(g->features);
    graft_status st = graft_memory_check(&r->p.memory, scale_latent(r, r->p.scaled), e);
    if (!st)
        st = graft_answers_made(g->answers, g->active, g->n_active, r->call.sigma, may, &answer,
                                &r->call.made, e);
    for (size_t i = 0; i < g->n_active && r->call.made; i++) {
        r->call.entries[g->active[i].side] |= (uint64_t)1 << i;
        r->call.perturbed += g->perturbs && g->active[i].side == GRAFT_POSITIVE;
    }
    if (!st && r->call.made && graft_task_cancelled(g->c.task))
        st = graft_fail(e, GRAFT_E_CANCEL, "cancelled");
    return st;
}

static graft_status denoise_any(graft_resident *r, const float *x, float sigma, float *out,
                                float *unconditional, graft_err *e)
{
    graft_guided *g = r->g;
    graft_status st = GRAFT_OK;
    r->call.sigma = sigma;
    r->call.x = r->p.inpaint.mask ? r->p.inpaint.x : x;
    r->call.out = out;
    r->call.unconditional = unconditional;
    r->call.done = 0;
    r->call.perturbed = 0;
    r->call.made = false;
    memset(r->call.entries, 0, sizeof r->call.entries);
    if (r->p.inpaint.mask) st = mask_input(r, x, e);
    if (st) return st;
    graft_guided_collect(g, sigma, unconditional != NULL);
    if (g->regions.any) st = graft_memory_check(&r->p.memory, graft_sides_begin(&r->p, g), e);
    graft_guided_settle(g, NULL);
    if (!st && g->answers) st = leave_out(r, e);
    if (st) return st;
    if (g->n_active && !r->call.made) {
        st = run_batches(r, e);
    } else {
        st = guide(r, r->call.x, NULL);
        graft_memory_check(&r->p.memory, st, e);
    }
    return st || !r->p.inpaint.mask ? st : blend(r, out, r->p.inpaint.latent, NULL, out, e);
}

static graft_status denoise(void *ctx, const float *x, float sigma, float *out, graft_err *e)
{
    return denoise_any(ctx, x, sigma, out, NULL, e);
}

static graft_status denoise_pair(void *ctx, const float *x, float sigma, float *out,
                                 float *unconditional, graft_err *e)
{
    return denoise_any(ctx, x, sigma, out, unconditional, e);
}

graft_denoiser graft_resident_denoiser(graft_resident *r)
{
    return (graft_denoiser){r, denoise, denoise_pair};
}

/* ------------------------------------------------------------------ steps */

void graft_resident_last(graft_resident *r, graft_resident_done *done, void *ctx)
{
    const void *data = NULL;
    if (!r->fetch) return;
    if (!r->p.more->fetched(r->fetch, &data))
        done(ctx, r->fetch_step, r->fetch_total, r->fetch_wanted ? data : NULL);
    r->p.more->fetch_free(r->fetch);
    r->fetch = NULL;
}

void graft_resident_step(graft_resident *r, size_t step, size_t total, const float *denoised,
                         bool wanted, graft_resident_done *done, void *ctx)
{
    uint64_t bytes = wanted ? (uint64_t)r->g->n * sizeof *denoised : 0;
    graft_fetch *now = NULL;
    /* A preview is not worth a failure; a device that is lost says so in the next call. */
    if (r->p.more->fetch(r->p.memory.backend->device, denoised, bytes, &now)) now = NULL;
    graft_resident_last(r, done, ctx);
    r->fetch = now;
    r->fetch_step = step;
    r->fetch_total = total;
    r->fetch_wanted = wanted;
    if (!now) done(ctx, step, total, NULL);
}

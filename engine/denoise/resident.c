#include "engine/denoise/resident.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/denoise/features.h"
#include "engine/denoise/flow_form.h"
#include "engine/denoise/guided.h"
#include "engine/denoise/masked.h"

struct graft_resident {
    graft_guided *g;
    graft_backend *backend;
    const graft_kernels_more *more;
    graft_memory memory;
    graft_arrays arrays;
    float *x;
    float *block;      /* for each entry its context, then its y, of all pictures */
    uint64_t *context; /* by slot: bytes from the block's start; one more for the end */
    uint64_t y_bytes;  /* of one entry */
    float *v;          /* what the network gave, where entries need several batches */
    uint8_t *feature;  /* DeepCache's, by slot; or NULL */
    float *freeu;      /* its factors; or NULL */
    float *hyper;      /* a hypernetwork's strength; or NULL */
    struct {           /* a batch as ControlNets see it; or NULL */
        float *x, *timesteps, *context, *y;
    } batch;
    struct { /* inpainting; or NULL */
        float *mask, *latent, *noise, *x;
        float *kept; /* the latent as a flow's state has it; NULL: as it is */
        float *grey; /* differential diffusion's mask of a step, on the host; NULL: as it is */
    } inpaint;
    float *scaled; /* the network's latent, where its x is more; or NULL */
    struct {       /* guidance away from perturbed rows; or NULL */
        float *v, *d, *positive;
    } perturbed;
    struct { /* RescaleCFG; or NULL */
        float *negative;
        void *work;
    } rescale;
    struct { /* the call that goes on */
        const float *x;
        float *out, *unconditional; /* the latter may be NULL */
        float sigma;
        size_t which[GROUP_MAX], count;        /* the batch */
        const graft_exe *exe;                  /* what it runs on */
        const void *more[GRAFT_GUIDED_INPUTS]; /* inputs behind y and DeepCache's feature */
        size_t n_more;
        size_t done;       /* entries of batches before it */
        size_t perturbed;  /* perturbed ones so far */
        uint64_t negative; /* a bit for each, in the order of batches */
    } call;
    graft_fetch *fetch; /* of the last step; NULL: none */
    size_t fetch_step, fetch_total;
    bool fetch_wanted;
};

/* ------------------------------------------------------------------ whether */

static bool has_all(const graft_backend *b)
{
    const graft_kernels_more *more = graft_backend_more(b);
    return graft_memory_works(b) && GRAFT_KERNELS_HAS(more, mix) &&
           GRAFT_KERNELS_HAS(more, guide) && GRAFT_KERNELS_HAS(more, fetch) &&
           GRAFT_KERNELS_HAS(more, fetched) && GRAFT_KERNELS_HAS(more, fetch_free) &&
           GRAFT_KERNELS_HAS(more, blend) && GRAFT_KERNELS_HAS(more, rescale);
}

/* Nobody looks into the arrays of a run: no sampler, no onlooker, no area or mask of a prompt, no
 * limit of DeepCache's error, no EasyCache, no self-attention guidance, no third prompt, no change
 * of guidance, no spread that skipped blocks are to have, no patches that are filled up. */
static bool is_blind(const graft_guided *g, const char *sampler)
{
    const graft_task *t = g->c.task;
    const graft_model *m = g->c.model;
    const size_t n = graft_guided_slots(&g->c);
    const bool perturbs = graft_model_perturbs(m);
    return !g->c.tap && !(t && t->latent) && !g->answers && !g->changes && !g->blurred &&
           !g->regions.any && !g->c.third.prompt && !graft_known_fills(m, g->c.shape) &&
           !(perturbs && (g->features || m->skip.rescale > 0)) &&
           !(g->features && m->deepcache.max_error > 0) && n && n <= GRAFT_GUIDE_ENTRIES &&
           graft_sampler_anywhere(sampler);
}

/* ------------------------------------------------------------------ arrays */

static float *array_alloc(void *ctx, size_t n)
{
    const graft_resident *r = ctx;
    size_t bytes;
    if (!graft_size_mul(n, sizeof(float), &bytes)) return NULL;
    return r->backend->api->alloc(r->backend->device, bytes ? bytes : 1);
}

static void array_free(void *ctx, float *p)
{
    const graft_resident *r = ctx;
    if (p) r->backend->api->free(r->backend->device, p);
}

static void array_mix(void *ctx, float *out, size_t n, int count, const double *factor,
                      const float *const *in)
{
    const graft_resident *r = ctx;
    (void)r->more->mix(r->backend->device, out, n, (uint32_t)count, factor, in);
}

static graft_status device_failed(const graft_resident *r, graft_status st, graft_err *e)
{
    char text[512] = "";
    r->backend->api->wait(r->backend->device, text, sizeof text);
    return graft_fail(e, st, "backend %s: %s", r->backend->name,
                      text[0] ? text : graft_status_text(st));
}

static graft_status array_put(void *ctx, float *out, const float *from, size_t n, graft_err *e)
{
    const graft_resident *r = ctx;
    graft_status st = r->more->send(r->backend->device, out, from, (uint64_t)n * sizeof *from);
    return st ? device_failed(r, st, e) : GRAFT_OK;
}

const graft_arrays *graft_resident_arrays(graft_resident *r)
{
    return &r->arrays;
}

/* ------------------------------------------------------------------ conditioning */

/* Rows of the entry for all pictures, as they lie in the UNet's input. */
static void spread_rows(float *to, const float *row, size_t n, int64_t pictures)
{
    for (int64_t p = 0; p < pictures; p++) memcpy(to + (size_t)p * n, row, n * sizeof *to);
}

static graft_status place_entry(graft_resident *r, size_t i, float *host, graft_err *e)
{
    const graft_guided *g = r->g;
    const graft_cond_entry *k = graft_guided_entry(&g->c, i);
    int64_t pictures = g->c.shape[0];
    size_t adm = (size_t)g->c.model->arch.adm_channels, row = (size_t)(k->tokens * k->width);
    float *y = host + (size_t)pictures * row;
    spread_rows(host, k->data, row, pictures);
    for (int64_t p = 0; p < pictures && adm; p++)
        graft_guided_fill_y(g, k, i >= g->c.positive->n, y + (size_t)p * adm);
    graft_status st = r->backend->api->upload(r->backend->device, (char *)r->block + r->context[i],
                                              host, r->context[i + 1] - r->context[i]);
    return st ? device_failed(r, st, e) : GRAFT_OK;
}

static graft_status place_entries(graft_resident *r, graft_err *e)
{
    const graft_guided *g = r->g;
    uint64_t pictures = (uint64_t)g->c.shape[0], largest = 0;
    size_t entries = graft_guided_slots(&g->c);
    r->y_bytes = pictures * (uint64_t)g->c.model->arch.adm_channels * sizeof(float);
    r->context = graft_calloc(entries + 1, sizeof *r->context);
    if (!r->context) return graft_fail_nomem(e, "conditioning");
    for (size_t i = 0; i < entries; i++) {
        const graft_cond_entry *k = graft_guided_entry(&g->c, i);
        uint64_t bytes = pictures * (uint64_t)(k->tokens * k->width) * sizeof(float) + r->y_bytes;
        r->context[i + 1] = r->context[i] + bytes;
        if (bytes > largest) largest = bytes;
    }
    float *host = graft_malloc(largest);
    graft_status st = host ? GRAFT_OK : graft_fail_nomem(e, "conditioning");
    if (!st) r->block = array_alloc(r, r->context[entries] / sizeof *r->block);
    if (!st && !r->block) st = graft_fail_nomem(e, "conditioning on the device");
    for (size_t i = 0; i < entries && !st; i++) st = place_entry(r, i, host, e);
    graft_free(host);
    return st;
}

/* ------------------------------------------------------------------ life */

/* An array of n values, those of `from` where it is not NULL. */
static graft_status place(graft_resident *r, size_t n, const float *from, float **out, graft_err *e)
{
    *out = array_alloc(r, n);
    if (!*out) return graft_fail_nomem(e, "sampling on the device");
    graft_status st =
        from ? r->backend->api->upload(r->backend->device, *out, from, n * sizeof *from) : GRAFT_OK;
    return st ? device_failed(r, st, e) : GRAFT_OK;
}

static graft_status place_perturbed(graft_resident *r, graft_err *e)
{
    const graft_guided *g = r->g;
    const size_t n = (size_t)g->n;
    graft_status st = place(r, n, NULL, &r->perturbed.d, e);
    if (!st) st = place(r, n, NULL, &r->perturbed.positive, e);
    if (!st) st = place(r, n * g->c.positive->n, NULL, &r->perturbed.v, e);
    return st;
}

/* Room for the largest batch. */
static graft_status place_batch(graft_resident *r, graft_err *e)
{
    const graft_guided *g = r->g;
    const size_t entries = graft_guided_slots(&g->c), rows = entries * (size_t)g->c.shape[0];
    const size_t context = (size_t)(r->context[entries] - entries * r->y_bytes) / sizeof(float);
    graft_status st = place(r, (size_t)g->n * entries, NULL, &r->batch.x, e);
    if (!st) st = place(r, rows, NULL, &r->batch.timesteps, e);
    if (!st) st = place(r, context, NULL, &r->batch.context, e);
    if (!st && r->y_bytes)
        st = place(r, entries * (size_t)(r->y_bytes / sizeof(float)), NULL, &r->batch.y, e);
    return st;
}

static graft_status place_all(graft_resident *r, graft_err *e)
{
    const graft_guided *g = r->g;
    const graft_guided_config *c = &g->c;
    size_t n = (size_t)g->n, pictures = (size_t)c->shape[0], entries = graft_guided_slots(&g->c);
    size_t area = (size_t)(c->shape[2] * c->shape[3]);
    graft_status st = place(r, n, NULL, &r->x, e);
    if (!st) st = place_entries(r, e);
    if (!st) st = place(r, n * entries, NULL, &r->v, e);
    if (!st && c->mask) st = place(r, pictures * area, c->mask, &r->inpaint.mask, e);
    if (!st && c->mask) st = place(r, n, c->latent, &r->inpaint.latent, e);
    if (!st && c->mask) st = place(r, n, c->noise, &r->inpaint.noise, e);
    if (!st && c->mask) st = place(r, n, NULL, &r->inpaint.x, e);
    if (!st && c->mask && graft_model_is_flow(c->model))
        st = place(r, n, NULL, &r->inpaint.kept, e);
    if (!st && c->mask && c->model->differential > 0) {
        r->inpaint.grey = graft_malloc_array(pictures, area * sizeof *r->inpaint.grey);
        if (!r->inpaint.grey) st = graft_fail_nomem(e, "mask");
    }
    if (!st && g->known.joins) st = place(r, n, NULL, &r->scaled, e);
    if (!st && graft_model_perturbs(c->model)) st = place_perturbed(r, e);
    if (!st && c->model->rescale_cfg > 0) st = place(r, n, NULL, &r->rescale.negative, e);
    if (!st && c->model->rescale_cfg > 0) {
        float *work; /* two doubles a picture are four floats */
        st = place(r, 2 * n + 4 * pictures, NULL, &work, e);
        r->rescale.work = work;
    }
    const float strength = c->model->hyper.strength;
    if (!st && c->model->hyper.net) st = place(r, 1, &strength, &r->hyper, e);
    if (!st && g->controls) st = place_batch(r, e);
    if (!st && c->model->freeu.version)
        st = place(r, GRAFT_FREEU_FACTORS, c->model->freeu.factor, &r->freeu, e);
    if (!st && g->features) {
        r->feature = r->backend->api->alloc(r->backend->device, entries * g->feature_bytes);
        if (!r->feature) st = graft_fail_nomem(e, "DeepCache on the device");
    }
    return st;
}

/* What steers the prompts and what they see beside them, into this memory. */
static graft_status move(graft_guided *g, graft_memory to, graft_err *e)
{
    graft_status st = g->controls ? graft_controls_move(g->controls, to, e) : GRAFT_OK;
    if (!st) st = graft_known_move(&g->known, to, e);
    return st ? st : graft_attending_move(&g->attending, to, e);
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
    if (!has_all(backend) || !is_blind(g, sampler)) return GRAFT_OK;
    graft_resident *r = graft_calloc(1, sizeof *r);
    if (!r) return graft_fail_nomem(e, "sampling");
    r->g = g;
    r->backend = backend;
    r->more = graft_backend_more(backend);
    r->memory = (graft_memory){backend};
    r->arrays = (graft_arrays){r, array_alloc, array_free, array_mix, array_put};
    st = place_all(r, e);
    if (!st) st = move(g, r->memory, e);
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
    r->more->fetch_free(r->fetch);
    array_free(r, r->x);
    array_free(r, r->block);
    array_free(r, r->v);
    array_free(r, r->inpaint.mask);
    array_free(r, r->inpaint.latent);
    array_free(r, r->inpaint.noise);
    array_free(r, r->inpaint.x);
    array_free(r, r->inpaint.kept);
    graft_free(r->inpaint.grey);
    array_free(r, r->scaled);
    array_free(r, r->perturbed.v);
    array_free(r, r->perturbed.d);
    array_free(r, r->perturbed.positive);
    array_free(r, r->rescale.negative);
    array_free(r, r->rescale.work);
    array_free(r, r->freeu);
    array_free(r, r->hyper);
    array_free(r, r->batch.x);
    array_free(r, r->batch.timesteps);
    array_free(r, r->batch.context);
    array_free(r, r->batch.y);
    if (r->feature) r->backend->api->free(r->backend->device, r->feature);
    graft_free(r->context);
    graft_free(r);
}

graft_status graft_resident_begin(graft_resident *r, const float *x, float **state, graft_err *e)
{
    uint64_t bytes = (uint64_t)r->g->n * sizeof *x;
    graft_status st = r->backend->api->upload(r->backend->device, r->x, x, bytes);
    *state = r->x;
    return st ? device_failed(r, st, e) : GRAFT_OK;
}

graft_status graft_resident_end(graft_resident *r, float *x, graft_err *e)
{
    uint64_t bytes = (uint64_t)r->g->n * sizeof *x;
    graft_status st = r->backend->api->download(r->backend->device, x, r->x, bytes);
    return st ? device_failed(r, st, e) : GRAFT_OK;
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
        st = r->more->copy(r->backend->device, (char *)in + i * bytes,
                           (const char *)base + at[slot] + offset, bytes);
    }
    return st;
}

/* The scaled latent for each entry of a batch. */
static graft_status write_latents(const graft_resident *r, float *x)
{
    const graft_guided *g = r->g;
    const size_t n = (size_t)g->n;
    const double scale = (double)graft_guided_scale(g, r->call.sigma);
    graft_status st = r->more->mix(r->backend->device, x, n, 1, &scale, &r->call.x);
    for (size_t i = 1; i < r->call.count && !st; i++)
        st = r->more->copy(r->backend->device, x + i * n, x, n * sizeof *x);
    return st;
}

/* The same with what is known beside it. */
static graft_status write_joined(const graft_resident *r, float *x)
{
    const graft_guided *g = r->g;
    const graft_box whole = {.height = g->c.shape[2], .width = g->c.shape[3]};
    const double scale = (double)graft_guided_scale(g, r->call.sigma);
    graft_status st =
        r->more->mix(r->backend->device, r->scaled, (size_t)g->n, 1, &scale, &r->call.x);
    for (size_t i = 0; i < r->call.count && !st; i++) {
        const size_t slot = g->active[r->call.which[i]].slot;
        st = graft_known_join_there(&g->known, &g->c, slot, r->scaled, x, NULL);
        x += g->c.shape[0] * graft_known_x_values(&g->known, &g->c, slot, &whole);
    }
    return st;
}

/* What every network takes of a batch behind x: timesteps, contexts and y. */
static graft_status write_prompts(const graft_resident *r, void *const *in)
{
    const graft_guided *g = r->g;
    const active *first = &g->active[r->call.which[0]];
    const size_t rows = (size_t)g->c.shape[0] * r->call.count;
    const uint64_t bytes = r->context[first->slot + 1] - r->context[first->slot] - r->y_bytes;
    const float timestep = graft_sigma_to_timestep(g->c.table, r->call.sigma);
    graft_status st = r->more->fill(r->backend->device, in[1], rows, timestep);
    if (!st) st = gather(r, in[2], r->block, r->context, 0, bytes);
    if (!st && r->y_bytes) st = gather(r, in[3], r->block, r->context, bytes, r->y_bytes);
    return st;
}

/* The UNet's inputs: of a batch, DeepCache's features, what steers it, and FreeU's factors. */
static graft_status write_inputs(void *ctx, void *const *in)
{
    const graft_resident *r = ctx;
    const graft_guided *g = r->g;
    const graft_kernels_more *m = r->more;
    graft_device *d = r->backend->device;
    const bool fast = g->active[r->call.which[0]].fast;
    size_t next = r->y_bytes ? 4 : 3;
    graft_status st = g->known.joins ? write_joined(r, in[0]) : write_latents(r, in[0]);
    if (!st) st = write_prompts(r, in);
    for (size_t i = 0; i < r->call.count && fast && !st; i++)
        st = m->copy(d, (char *)in[next] + i * g->feature_bytes,
                     r->feature + g->active[r->call.which[i]].slot * g->feature_bytes,
                     g->feature_bytes);
    next += fast;
    for (size_t i = 0; i < r->call.n_more && !st; i++, next++)
        st = m->copy(d, in[next], r->call.more[i], (uint64_t)r->call.exe->input[next].bytes);
    return st;
}

static graft_status rescale(const graft_resident *r)
{
    const graft_guided *g = r->g;
    float sigma = r->call.sigma, s2 = sigma * sigma + 1.0f;
    const graft_rescale p = {.x = r->call.x,
                             .negative = r->rescale.negative,
                             .positive = r->call.out,
                             .work = r->rescale.work,
                             .n = (uint64_t)g->n,
                             .per = (uint64_t)g->per,
                             .s2 = s2,
                             .k = sqrtf(s2) / sigma,
                             .cfg = (float)g->c.cfg,
                             .mix = (float)g->c.model->rescale_cfg};
    return r->more->rescale(r->backend->device, &p);
}

/* Adds the guidance away from the perturbed predictions, n_perturbed of them; p: of the call. */
static graft_status perturb(const graft_resident *r, graft_guidance p, const float *perturbed,
                            size_t n_perturbed)
{
    const graft_kernels_more *m = r->more;
    graft_device *d = r->backend->device;
    float *away = r->perturbed.d;
    const float *const both[] = {r->perturbed.positive, away}, *const sum[] = {r->call.out, away};
    const double scale = (double)(float)r->g->c.model->perturbed;
    const size_t n = (size_t)p.n;
    p.guided = 0;
    p.out = r->perturbed.positive;
    graft_status st = m->guide(d, &p);
    p.v = perturbed;
    p.entries = (uint32_t)n_perturbed;
    p.negative = 0;
    p.out = away;
    if (!st) st = m->guide(d, &p);
    if (!st) st = m->mix(d, away, n, 2, (const double[]){1, -1}, both);
    if (!st) st = m->mix(d, away, n, 1, &scale, sum + 1);
    return st ? st : m->mix(d, r->call.out, n, 2, (const double[]){1, 1}, sum);
}

/* From the UNet's outputs of all batches to the call's result. */
static graft_status guide(const graft_resident *r, const float *v, const float *perturbed)
{
    const graft_guided *g = r->g;
    graft_device *d = r->backend->device;
    size_t n = g->n_active;
    uint64_t all = n < 64 ? ((uint64_t)1 << n) - 1 : UINT64_MAX, negative = r->call.negative;
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
    graft_status st = r->more->guide(d, &p);
    /* The negative prediction alone is the positive one of entries with their signs exchanged. */
    p.negative = all & ~negative;
    p.guided = 0;
    p.out = r->rescale.negative;
    if (!st && rescaled) st = r->more->guide(d, &p);
    if (!st && rescaled) st = rescale(r);
    p.out = r->call.unconditional;
    if (!st && p.out) st = r->more->guide(d, &p);
    if (st || !r->call.perturbed) return st;
    return perturb(r, call, perturbed, r->call.perturbed);
}

static graft_status read_outputs(void *ctx, void *const *out)
{
    graft_resident *r = ctx;
    graft_guided *g = r->g;
    const graft_kernels_more *m = r->more;
    graft_device *d = r->backend->device;
    size_t n = (size_t)g->n;
    bool stores = graft_guided_variant(g, g->active[r->call.which[0]].fast) == GRAFT_UNET_STORE;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < r->call.count && stores && !st; i++) {
        size_t slot = g->active[r->call.which[i]].slot;
        st = m->copy(d, r->feature + slot * g->feature_bytes,
                     (const char *)out[1] + i * g->feature_bytes, g->feature_bytes);
        if (!st) graft_features_made(g->features, slot);
    }
    if (!st && stores) st = graft_guided_keep(g, r->call.which, r->call.count, r->call.sigma, NULL);
    if (st) return st;
    const float *behind = (const float *)out[0] + r->call.count * n;
    const size_t before = r->call.perturbed;
    if (g->perturbs)
        r->call.perturbed += graft_active_positive(g->active, r->call.which, r->call.count);
    if (r->call.count == g->n_active) return guide(r, out[0], behind);
    st = m->copy(d, r->v + r->call.done * n, out[0], r->call.count * n * sizeof *r->v);
    if (!st && r->call.perturbed > before)
        st = m->copy(d, r->perturbed.v + before * n, behind,
                     (r->call.perturbed - before) * n * sizeof *r->v);
    return st || r->call.done + r->call.count < g->n_active ? st : guide(r, r->v, r->perturbed.v);
}

/* Between x and what is kept, with noise where that is not NULL, by the mask. */
static graft_status blend(graft_resident *r, const float *x, const float *kept, const float *noise,
                          float *out, graft_err *e)
{
    const graft_guided *g = r->g;
    const graft_blend p = {.x = x,
                           .kept = kept,
                           .noise = noise,
                           .mask = r->inpaint.mask,
                           .out = out,
                           .n = (uint64_t)g->n,
                           .per = (uint64_t)g->per,
                           .area = (uint64_t)(g->c.shape[2] * g->c.shape[3]),
                           .sigma = r->call.sigma};
    graft_status st = r->more->blend(r->backend->device, &p);
    return st ? device_failed(r, st, e) : GRAFT_OK;
}

/* The state as the network is to see it. A mask that changes from step to step is made here: its
 * places are few beside the latent's values. */
static graft_status mask_input(graft_resident *r, const float *x, graft_err *e)
{
    const graft_guided_config *c = &r->g->c;
    const size_t places = (size_t)(c->shape[0] * c->shape[2] * c->shape[3]);
    const float threshold = graft_masked_threshold(c, r->call.sigma);
    const double share = (double)graft_masked_kept(c, r->call.sigma);
    float *grey = r->inpaint.grey;
    const float *kept = r->inpaint.latent;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; grey && i < places; i++)
        grey[i] = graft_masked_share(c, (int64_t)i, threshold);
    if (grey) st = array_put(r, r->inpaint.mask, grey, places, e);
    if (!st && r->inpaint.kept) {
        array_mix(r, r->inpaint.kept, (size_t)r->g->n, 1, &share, &kept);
        kept = r->inpaint.kept;
    }
    return st ? st : blend(r, x, kept, r->inpaint.noise, r->inpaint.x, e);
}

/* Has what steers the batch made, and lists what the UNet takes of that. */
static graft_status steer(graft_resident *r, const graft_unet_use *use, graft_err *e)
{
    graft_guided *g = r->g;
    const active *first = &g->active[r->call.which[0]];
    void *const in[] = {r->batch.x, r->batch.timesteps, r->batch.context, r->batch.y};
    const void *const seen[] = {in[0], in[1], in[2], in[3]};
    graft_status st = GRAFT_OK;
    if (first->control && !first->fast) st = write_latents(r, r->batch.x);
    if (first->control && !first->fast && !st) st = write_prompts(r, in);
    if (st) return device_failed(r, st, e);
    return graft_guided_steer(g, r->call.which, r->call.count, use, r->call.sigma, seen, e);
}

static graft_status run_batch(graft_resident *r, graft_err *e)
{
    graft_guided *g = r->g;
    const graft_unet_use use = graft_guided_use(g, r->call.which, r->call.count);
    graft_binding *b;
    r->call.n_more = 0;
    graft_status st = steer(r, &use, e);
    if (!st) st = graft_guided_bind(g, &use, &b, e);
    if (!st)
        st = graft_guided_append(g, r->call.which, r->call.count, &use, r->call.more,
                                 &r->call.n_more, e);
    if (st) return st;
    if (r->hyper) r->call.more[r->call.n_more++] = r->hyper;
    if (graft_model_freeu_factors(g->c.model, use.variant))
        r->call.more[r->call.n_more++] = r->freeu;
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
    graft_guided_settle(g, NULL);
    while (!st && (r->call.count = graft_guided_group(g, r->call.which))) {
        for (size_t i = 0; i < r->call.count; i++)
            r->call.negative |= (uint64_t)(g->active[r->call.which[i]].side != GRAFT_POSITIVE)
                                << (r->call.done + i);
        st = run_batch(r, e);
        r->call.done += r->call.count;
    }
    return st;
}

static graft_status denoise_any(graft_resident *r, const float *x, float sigma, float *out,
                                float *unconditional, graft_err *e)
{
    graft_guided *g = r->g;
    graft_status st = GRAFT_OK;
    r->call.sigma = sigma;
    r->call.x = r->inpaint.mask ? r->inpaint.x : x;
    r->call.out = out;
    r->call.unconditional = unconditional;
    r->call.done = 0;
    r->call.perturbed = 0;
    r->call.negative = 0;
    if (r->inpaint.mask) st = mask_input(r, x, e);
    if (st) return st;
    graft_guided_collect(g, sigma, unconditional != NULL);
    if (g->n_active) {
        st = run_batches(r, e);
    } else {
        st = guide(r, r->call.x, NULL);
        if (st) device_failed(r, st, e);
    }
    return st || !r->inpaint.mask ? st : blend(r, out, r->inpaint.latent, NULL, out, e);
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
    if (!r->more->fetched(r->fetch, &data))
        done(ctx, r->fetch_step, r->fetch_total, r->fetch_wanted ? data : NULL);
    r->more->fetch_free(r->fetch);
    r->fetch = NULL;
}

void graft_resident_step(graft_resident *r, size_t step, size_t total, const float *denoised,
                         bool wanted, graft_resident_done *done, void *ctx)
{
    uint64_t bytes = wanted ? (uint64_t)r->g->n * sizeof *denoised : 0;
    graft_fetch *now = NULL;
    /* A preview is not worth a failure; a device that is lost says so in the next call. */
    if (r->more->fetch(r->backend->device, denoised, bytes, &now)) now = NULL;
    graft_resident_last(r, done, ctx);
    r->fetch = now;
    r->fetch_step = step;
    r->fetch_total = total;
    r->fetch_wanted = wanted;
    if (!now) done(ctx, step, total, NULL);
}

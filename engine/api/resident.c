#include "engine/api/resident.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/api/guided.h"

struct graft_resident {
    graft_guided *g;
    graft_backend *backend;
    const graft_kernels_more *more;
    graft_arrays arrays;
    float *x;
    float *block;                    /* for each entry its context, then its y, of all pictures */
    uint64_t context_bytes, y_bytes; /* of one entry; equal for all */
    struct {                         /* the call that goes on */
        const float *x;
        float *out;
        float sigma;
    } call;
    graft_fetch *fetch; /* of the last step; NULL: none */
    size_t fetch_step, fetch_total;
    bool fetch_wanted;
};

/* ------------------------------------------------------------------ whether */

static bool has_all(const graft_kernels_more *more)
{
    return GRAFT_KERNELS_HAS(more, copy) && GRAFT_KERNELS_HAS(more, fill) &&
           GRAFT_KERNELS_HAS(more, mix) && GRAFT_KERNELS_HAS(more, guide) &&
           GRAFT_KERNELS_HAS(more, fetch) && GRAFT_KERNELS_HAS(more, fetched) &&
           GRAFT_KERNELS_HAS(more, fetch_free);
}

static size_t entries_of(const graft_guided *g)
{
    return g->c.positive->n + g->c.negative->n;
}

static const graft_cond_entry *entry_at(const graft_guided *g, size_t i)
{
    size_t n = g->c.positive->n;
    return i < n ? g->c.positive->entry[i] : g->c.negative->entry[i - n];
}

/* One batch must do for every call. */
static bool is_plain(const graft_guided *g, const char *sampler)
{
    const graft_task *t = g->c.task;
    size_t n = entries_of(g);
    if (g->c.mask || g->features || g->c.tap || g->c.model->rescale_cfg > 0 || (t && t->latent) ||
        !n || n > GRAFT_GUIDE_ENTRIES || !graft_sampler_anywhere(sampler))
        return false;
    for (size_t i = 1; i < n; i++)
        if (entry_at(g, i)->tokens != entry_at(g, 0)->tokens ||
            entry_at(g, i)->width != entry_at(g, 0)->width)
            return false;
    return true;
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

const graft_arrays *graft_resident_arrays(graft_resident *r)
{
    return &r->arrays;
}

static graft_status device_failed(const graft_resident *r, graft_status st, graft_err *e)
{
    char text[512] = "";
    r->backend->api->wait(r->backend->device, text, sizeof text);
    return graft_fail(e, st, "backend %s: %s", r->backend->name,
                      text[0] ? text : graft_status_text(st));
}

/* ------------------------------------------------------------------ conditioning */

/* Rows of the entry for all pictures, as they lie in the UNet's input. */
static void spread_rows(float *to, const float *row, size_t n, int64_t pictures)
{
    for (int64_t p = 0; p < pictures; p++) memcpy(to + (size_t)p * n, row, n * sizeof *to);
}

static graft_status place_entries(graft_resident *r, graft_err *e)
{
    const graft_guided *g = r->g;
    const graft_cond_entry *first = entry_at(g, 0);
    int64_t pictures = g->c.shape[0];
    size_t adm = (size_t)g->c.model->arch.adm_channels, entries = entries_of(g);
    size_t context = (size_t)(first->tokens * first->width);
    size_t each = (size_t)pictures * (context + adm);
    r->context_bytes = (size_t)pictures * context * sizeof(float);
    r->y_bytes = (size_t)pictures * adm * sizeof(float);
    float *host = graft_malloc_array(each, sizeof *host);
    float *row = graft_malloc_array(adm, sizeof *row);
    graft_status st = host && row ? GRAFT_OK : graft_fail_nomem(e, "conditioning");
    if (!st) r->block = array_alloc(r, each * entries);
    if (!st && !r->block) st = graft_fail_nomem(e, "conditioning on the device");
    for (size_t i = 0; i < entries && !st; i++) {
        const graft_cond_entry *k = entry_at(g, i);
        spread_rows(host, k->data, context, pictures);
        if (adm) {
            graft_guided_fill_y(g, k, row);
            spread_rows(host + (size_t)pictures * context, row, adm, pictures);
        }
        st = r->backend->api->upload(r->backend->device, r->block + i * each, host,
                                     each * sizeof *host);
        if (st) device_failed(r, st, e);
    }
    graft_free(host);
    graft_free(row);
    return st;
}

/* ------------------------------------------------------------------ life */

graft_status graft_resident_create(graft_guided *g, const char *sampler, graft_resident **out,
                                   graft_err *e)
{
    graft_backend *backend;
    graft_dtype dtype;
    *out = NULL;
    graft_status st =
        graft_options_resolve(g->c.model->engine, &g->c.model->options, &backend, &dtype, e);
    if (st) return st;
    const graft_kernels_more *more = graft_backend_more(backend);
    if (backend->info.host_memory || !has_all(more) || !is_plain(g, sampler)) return GRAFT_OK;
    graft_resident *r = graft_calloc(1, sizeof *r);
    if (!r) return graft_fail_nomem(e, "sampling");
    r->g = g;
    r->backend = backend;
    r->more = more;
    r->arrays = (graft_arrays){r, array_alloc, array_free, array_mix};
    r->x = array_alloc(r, (size_t)g->n);
    st = r->x ? place_entries(r, e) : graft_fail_nomem(e, "a latent on the device");
    if (st)
        graft_resident_destroy(r);
    else
        *out = r;
    return st == GRAFT_E_NOMEM ? GRAFT_OK : st; /* the host's way needs less there */
}

void graft_resident_destroy(graft_resident *r)
{
    if (!r) return;
    r->more->fetch_free(r->fetch);
    array_free(r, r->x);
    array_free(r, r->block);
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

/* The UNet's inputs: scaled latents, timesteps, contexts and y of the active entries. */
static graft_status write_inputs(void *ctx, void *const *in)
{
    const graft_resident *r = ctx;
    const graft_guided *g = r->g;
    const graft_kernels_more *m = r->more;
    graft_device *d = r->backend->device;
    float sigma = r->call.sigma, scale = 1.0f / sqrtf(sigma * sigma + 1.0f);
    size_t n = (size_t)g->n, rows = (size_t)g->c.shape[0] * g->n_active;
    float *x = in[0];
    char *context = in[2], *y = in[3];
    graft_status st =
        m->mix(d, x, n, 1, (const double[]){(double)scale}, (const float *const[]){r->call.x});
    for (size_t i = 1; i < g->n_active && !st; i++) st = m->copy(d, x + i * n, x, n * sizeof *x);
    if (!st) st = m->fill(d, in[1], rows, graft_sigma_to_timestep(g->c.table, sigma));
    for (size_t i = 0; i < g->n_active && !st; i++) {
        const char *from = (const char *)r->block;
        from += g->active[i].slot * (r->context_bytes + r->y_bytes);
        st = m->copy(d, context + i * r->context_bytes, from, r->context_bytes);
        if (!st && r->y_bytes)
            st = m->copy(d, y + i * r->y_bytes, from + r->context_bytes, r->y_bytes);
    }
    return st;
}

static graft_status guide(const graft_resident *r, const float *v)
{
    const graft_guided *g = r->g;
    graft_guidance p = {.x = r->call.x,
                        .v = v,
                        .out = r->call.out,
                        .n = (uint64_t)g->n,
                        .entries = (uint32_t)g->n_active,
                        .cfg = (float)g->c.cfg,
                        .terms = graft_guided_terms(g, r->call.sigma)};
    for (size_t i = 0; i < g->n_active; i++) p.negative |= (uint64_t)g->active[i].negative << i;
    p.guided = p.negative || g->c.cfg != 1.0;
    return r->more->guide(r->backend->device, &p);
}

static graft_status read_outputs(void *ctx, void *const *out)
{
    return guide(ctx, out[0]);
}

static graft_status denoise(void *ctx, const float *x, float sigma, float *out, graft_err *e)
{
    graft_resident *r = ctx;
    graft_guided *g = r->g;
    graft_binding *b;
    r->call.x = x;
    r->call.out = out;
    r->call.sigma = sigma;
    graft_guided_collect(g, sigma, false);
    if (!g->n_active) {
        graft_status st = guide(r, x);
        return st ? device_failed(r, st, e) : GRAFT_OK;
    }
    graft_status st = graft_guided_bind(g, GRAFT_UNET_WHOLE, (int64_t)g->n_active,
                                        g->active[0].entry->tokens, &b, e);
    return st ? st
              : graft_exe_run_there(b, g->c.model->engine->arenas, write_inputs, read_outputs, r,
                                    g->c.task, e);
}

graft_denoiser graft_resident_denoiser(graft_resident *r)
{
    return (graft_denoiser){r, denoise, NULL};
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

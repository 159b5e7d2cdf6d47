#include "engine/denoise/flow_form.h"

#include <math.h>

#include "base/alloc.h"

#define OFFSET 1e-4 /* of the schedule, where sigma is not 1 any more */

struct graft_flow_form {
    graft_denoiser inner;
    const graft_arrays *arrays; /* NULL: the host's */
    size_t n;
    float *x;
};

bool graft_flow_form_wanted(const graft_model *m, const char *sampler, double eta)
{
    return graft_model_is_flow(m) && graft_sampler_assumes_scale(sampler, eta);
}

float graft_flow_form_level(const graft_sigma_table *t, float sigma)
{
    double s = fminf(sigma, graft_percent_to_sigma(t, OFFSET));
    return (float)(s / (1 - s));
}

float graft_flow_form_sigma(float level)
{
    return (float)((double)level / (1 + (double)level));
}

graft_status graft_flow_form_create(const graft_denoiser *inner, const graft_arrays *arrays,
                                    size_t n, graft_flow_form **out, graft_err *e)
{
    graft_flow_form *f = graft_calloc(1, sizeof *f);
    if (f) f->x = arrays ? arrays->alloc(arrays->ctx, n) : graft_malloc_array(n, sizeof *f->x);
    if (!f || !f->x) {
        graft_free(f);
        return graft_fail_nomem(e, "sampling a flow");
    }
    f->inner = *inner;
    f->arrays = arrays;
    f->n = n;
    *out = f;
    return GRAFT_OK;
}

void graft_flow_form_destroy(graft_flow_form *f)
{
    if (!f) return;
    if (f->arrays)
        f->arrays->free(f->arrays->ctx, f->x);
    else
        graft_free(f->x);
    graft_free(f);
}

/* x of the state y, and its sigma. */
static float take_state(graft_flow_form *f, const float *y, float level)
{
    const graft_arrays *a = f->arrays;
    const float share = (float)(1 / (1 + (double)level));
    if (a) a->mix(a->ctx, f->x, f->n, 1, (const double[]){(double)share}, &y);
    for (size_t i = 0; !a && i < f->n; i++) f->x[i] = y[i] * share;
    return graft_flow_form_sigma(level);
}

static graft_status denoise(void *ctx, const float *y, float level, float *out, graft_err *e)
{
    graft_flow_form *f = ctx;
    float sigma = take_state(f, y, level);
    return f->inner.denoise(f->inner.ctx, f->x, sigma, out, e);
}

static graft_status denoise_pair(void *ctx, const float *y, float level, float *out,
                                 float *unconditional, graft_err *e)
{
    graft_flow_form *f = ctx;
    float sigma = take_state(f, y, level);
    return f->inner.denoise_pair(f->inner.ctx, f->x, sigma, out, unconditional, e);
}

graft_denoiser graft_flow_form_denoiser(graft_flow_form *f)
{
    return (graft_denoiser){f, denoise, denoise_pair};
}

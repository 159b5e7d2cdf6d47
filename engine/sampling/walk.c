#include "engine/sampling/walk.h"

#include <math.h>
#include <string.h>

graft_status graft_walk_denoise(const graft_walk *w, const float *x, double sigma, float *out,
                                graft_err *e)
{
    const graft_denoiser *d = w->run->denoiser;
    return d->denoise(d->ctx, x, (float)sigma, out, e);
}

graft_status graft_walk_denoise_pair(const graft_walk *w, const float *x, double sigma, float *out,
                                     float *unconditional, graft_err *e)
{
    const graft_denoiser *d = w->run->denoiser;
    return d->denoise_pair(d->ctx, x, (float)sigma, out, unconditional, e);
}

graft_status graft_walk_noise(const graft_walk *w, double sigma, double sigma_next, float *out,
                              graft_err *e)
{
    const graft_noise_source *source = w->run->noise;
    if (!source) return graft_fail(e, GRAFT_E_ARG, "this sampler needs a source of noise");
    return source->draw(source->ctx, sigma, sigma_next, out, w->n, e);
}

graft_status graft_walk_add_noise(const graft_walk *w, double sigma, double sigma_next,
                                  double amount, float *scratch, graft_err *e)
{
    GRAFT_WALK(graft_walk_noise(w, sigma, sigma_next, scratch, e));
    graft_mix2(w->n, w->x, 1, w->x, amount, scratch);
    return GRAFT_OK;
}

void graft_walk_report(const graft_walk *w, size_t step, const float *denoised)
{
    const graft_sampler_run *run = w->run;
    size_t total = step < w->steps ? w->steps : step + 1;
    if (run->step) run->step(run->step_ctx, step, total, w->x, denoised);
}

void graft_walk_land(const graft_walk *w, const float *from)
{
    memcpy(w->x, from, w->n * sizeof *from);
}

void graft_mix2(size_t n, float *out, double a, const float *x, double b, const float *y)
{
    for (size_t i = 0; i < n; i++) out[i] = (float)(a * x[i] + b * y[i]);
}

void graft_mix3(size_t n, float *out, double a, const float *x, double b, const float *y, double c,
                const float *z)
{
    for (size_t i = 0; i < n; i++) out[i] = (float)(a * x[i] + b * y[i] + c * z[i]);
}

void graft_mix4(size_t n, float *out, double a, const float *x, double b, const float *y, double c,
                const float *z, double d, const float *v)
{
    for (size_t i = 0; i < n; i++) out[i] = (float)(a * x[i] + b * y[i] + c * z[i] + d * v[i]);
}

void graft_ancestral_step(double from, double to, double *down, double *up)
{
    /* In float32, as ComfyUI: where `up` is nearly `to`, its rounding is most of `down`. */
    float a = (float)from, b = (float)to;
    float added = sqrtf(fmaxf(b * b * (a * a - b * b) / (a * a), 0));
    float amount = fminf(b, added);
    *up = amount;
    *down = sqrtf(fmaxf(b * b - amount * amount, 0));
}

void graft_swap(float **a, float **b)
{
    float *t = *a;
    *a = *b;
    *b = t;
}

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
    const graft_arrays *arrays = w->run->arrays;
    if (!source) return graft_fail(e, GRAFT_E_ARG, "this sampler needs a source of noise");
    if (!arrays) return source->draw(source->ctx, sigma, sigma_next, out, w->n, e);
    /* Meanwhile the device computes what it was given before. */
    GRAFT_WALK(source->draw(source->ctx, sigma, sigma_next, w->drawn, w->n, e));
    return arrays->put(arrays->ctx, out, w->drawn, w->n, e);
}

graft_status graft_walk_add_noise(const graft_walk *w, double sigma, double sigma_next,
                                  double amount, float *scratch, graft_err *e)
{
    GRAFT_WALK(graft_walk_noise(w, sigma, sigma_next, scratch, e));
    graft_mix2(w, w->x, 1, w->x, amount, scratch);
    return GRAFT_OK;
}

void graft_walk_report(const graft_walk *w, size_t step, const float *denoised)
{
    const graft_sampler_run *run = w->run;
    size_t total = step < w->steps ? w->steps : step + 1;
    if (run->step) run->step(run->step_ctx, step, total, w->x, denoised);
}

/* The run's arrays may be where only their keeper can compute. */
static bool elsewhere(const graft_walk *w, float *out, int count, const double *factor,
                      const float *const *in)
{
    const graft_arrays *a = w->run->arrays;
    if (a) a->mix(a->ctx, out, w->n, count, factor, in);
    return a != NULL;
}

void graft_walk_copy(const graft_walk *w, float *out, const float *from)
{
    if (elsewhere(w, out, 1, (double[]){1}, (const float *[]){from})) return;
    memcpy(out, from, w->n * sizeof *from);
}

void graft_walk_land(const graft_walk *w, const float *from)
{
    graft_walk_copy(w, w->x, from);
}

void graft_mix1(const graft_walk *w, float *out, double a, const float *x)
{
    if (elsewhere(w, out, 1, (double[]){a}, (const float *[]){x})) return;
    for (size_t i = 0; i < w->n; i++) out[i] = (float)(a * x[i]);
}

void graft_mix2(const graft_walk *w, float *out, double a, const float *x, double b, const float *y)
{
    if (elsewhere(w, out, 2, (double[]){a, b}, (const float *[]){x, y})) return;
    for (size_t i = 0; i < w->n; i++) out[i] = (float)(a * x[i] + b * y[i]);
}

void graft_mix3(const graft_walk *w, float *out, double a, const float *x, double b, const float *y,
                double c, const float *z)
{
    if (elsewhere(w, out, 3, (double[]){a, b, c}, (const float *[]){x, y, z})) return;
    for (size_t i = 0; i < w->n; i++) out[i] = (float)(a * x[i] + b * y[i] + c * z[i]);
}

void graft_mix4(const graft_walk *w, float *out, double a, const float *x, double b, const float *y,
                double c, const float *z, double d, const float *v)
{
    if (elsewhere(w, out, 4, (double[]){a, b, c, d}, (const float *[]){x, y, z, v})) return;
    for (size_t i = 0; i < w->n; i++) out[i] = (float)(a * x[i] + b * y[i] + c * z[i] + d * v[i]);
}

void graft_ancestral_step(double from, double to, double *down, double *up)
{
    graft_ancestral_step_of(from, to, 1, down, up);
}

void graft_ancestral_step_of(double from, double to, double eta, double *down, double *up)
{
    /* In float32, as ComfyUI: where `up` is nearly `to`, its rounding is most of `down`. */
    float a = (float)from, b = (float)to;
    float added = sqrtf(fmaxf(b * b * (a * a - b * b) / (a * a), 0));
    float amount = fminf(b, (float)eta * added);
    *up = amount;
    *down = sqrtf(fmaxf(b * b - amount * amount, 0));
}

void graft_walk_ancestral_step(const graft_walk *w, double from, double to, double eta,
                               double *down, double *up)
{
    if (!w->run->flow) {
        graft_ancestral_step_of(from, to, eta, down, up);
        return;
    }
    double s = from / (1 + from), t = to / (1 + to), low = t * (1 + (t / s - 1) * eta);
    *down = low > 0 ? low / (1 - low) : 0;
    *up = sqrt(fmax(to * to - *down * *down, 0));
}

void graft_swap(float **a, float **b)
{
    float *t = *a;
    *a = *b;
    *b = t;
}

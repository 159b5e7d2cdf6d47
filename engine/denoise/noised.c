/* Latents with noise, outside of sampling. */
#include <math.h>

#include "base/alloc.h"
#include "engine/objects/objects.h"
#include "engine/image/latent.h"
#include "engine/sampling/noise.h"

/* In the model's space: v holds the noise, and the sum afterwards; latent NULL: zeros. */
static graft_status add(const graft_model *m, const float *latent, size_t n, int64_t area,
                        float sigma, float *v, graft_err *e)
{
    float share = graft_model_is_flow(m) ? 1.0f - sigma : 1.0f;
    float *scaled = graft_calloc(n, sizeof *scaled);
    if (!scaled) return graft_fail_nomem(e, "a latent");
    if (latent) graft_model_scale_latent(m, latent, n, area, scaled);
    for (size_t i = 0; i < n; i++) {
        float sum = share * scaled[i] + sigma * v[i];
        v[i] = isfinite(sum) ? sum : 0.0f;
    }
    graft_free(scaled);
    return GRAFT_OK;
}

graft_status graft_latent_noised(const graft_model *m, const graft_latent *latent,
                                 const graft_sigmas *sigmas, bool add_noise, uint64_t seed,
                                 graft_latent **out, graft_err *e)
{
    int64_t s[4];
    size_t count, n;
    const float *sigma = graft_sigmas_data(sigmas, &count);
    float *noise = NULL;
    graft_latent *r = NULL;
    *out = NULL;
    if (!count) {
        *out = graft_latent_retain((graft_latent *)latent);
        return GRAFT_OK;
    }
    graft_status st = graft_latent_shape_for(latent, m->arch.latent_channels, s, e);
    if (st) return st;
    n = (size_t)(s[0] * s[1] * s[2] * s[3]);
    float much = count > 1 ? fabsf(sigma[0] - sigma[count - 1]) : sigma[0];
    st = graft_latent_create_sampled(latent, s, &r, e);
    if (!st && !(noise = graft_calloc(n, sizeof *noise))) st = graft_fail_nomem(e, "noise");
    if (!st && add_noise)
        st = graft_noise_latent(seed, s, graft_latent_batch_index(latent), noise, e);
    const float *data = graft_latent_is_empty(latent) ? NULL : graft_latent_data(latent, NULL);
    if (!st) st = add(m, data, n, s[2] * s[3], much, noise, e);
    if (!st) {
        graft_model_unscale_latent(m, noise, n, s[2] * s[3], graft_latent_writable(r));
        *out = r;
        r = NULL;
    }
    graft_latent_release(r);
    graft_free(noise);
    return st;
}

#include "engine/denoise/masked.h"

#include "kernels/guidance.h"

float graft_masked_threshold(const graft_guided_config *c, float sigma)
{
    const graft_sigma_table *t = c->table;
    if (!c->mask || !(c->model->differential > 0)) return 0.0f;
    const float end = c->last > t->sigma[0] ? c->last : t->sigma[0];
    const float last = graft_sigma_to_timestep(t, end);
    const float first = graft_sigma_to_timestep(t, c->first);
    return first > last ? (graft_sigma_to_timestep(t, sigma) - last) / (first - last) : 0.0f;
}

float graft_masked_share(const graft_guided_config *c, int64_t place, float threshold)
{
    const float m = c->mask[place], share = (float)c->model->differential;
    return share > 0 ? share * (float)(m >= threshold) + (1 - share) * m : m;
}

float graft_masked_kept(const graft_guided_config *c, float sigma)
{
    return graft_model_is_flow(c->model) ? 1.0f - sigma : 1.0f;
}

/* Where value i of the latent is in the mask. */
static int64_t place_of(const graft_guided_config *c, int64_t i)
{
    const int64_t area = c->shape[2] * c->shape[3];
    return i / (c->shape[1] * area) * area + i % area;
}

static int64_t values_of(const graft_guided_config *c)
{
    return c->shape[0] * c->shape[1] * c->shape[2] * c->shape[3];
}

void graft_masked_input(const graft_guided_config *c, float sigma, float threshold, float *x)
{
    const float share = graft_masked_kept(c, sigma);
    const int64_t n = values_of(c);
    for (int64_t i = 0; i < n; i++) {
        const float m = graft_masked_share(c, place_of(c, i), threshold);
        const float kept = graft_blend_noised(share * c->latent[i], c->noise[i], sigma);
        x[i] = graft_blend_value(m, x[i], kept);
    }
}

void graft_masked_output(const graft_guided_config *c, float threshold, float *out)
{
    const int64_t n = values_of(c);
    for (int64_t i = 0; i < n; i++) {
        const float m = graft_masked_share(c, place_of(c, i), threshold);
        out[i] = graft_blend_value(m, out[i], c->latent[i]);
    }
}

/* Flows under samplers that are written for states latent + sigma * noise.
 *
 * A flow's state is x = (1 - sigma) latent + sigma noise (engine/sampling/schedule.h). Then y = x /
 * (1 - sigma) = latent + s noise with s = sigma / (1 - sigma), so a sampler that adds noise runs on
 * y and s, and its denoiser asks for D(x, sigma). Where the run begins at sigma = 1, s would be
 * infinite: it begins at the sigma of a ten-thousandth of the schedule. */
#ifndef GRAFT_DENOISE_FLOW_FORM_H
#define GRAFT_DENOISE_FLOW_FORM_H
#include "engine/objects/objects.h"
#include "engine/sampling/sampler.h"

/* Whether this sampler needs it with this model; eta: see graft_sampler_assumes_scale(). */
bool graft_flow_form_wanted(const graft_model *m, const char *sampler, double eta);

/* sigma as the form's s, at most that of a ten-thousandth of the schedule; and back. Any thread. */
float graft_flow_form_level(const graft_sigma_table *t, float sigma);
float graft_flow_form_sigma(float level);

/* A denoiser of y and s over one of x and sigma, for states of n values; for one run. `inner` is
 * copied, its context borrowed, as are `arrays`: how states are kept, NULL where they are in the
 * host's memory. */
typedef struct graft_flow_form graft_flow_form;
graft_status graft_flow_form_create(const graft_denoiser *inner, const graft_arrays *arrays,
                                    size_t n, graft_flow_form **out, graft_err *e);
void graft_flow_form_destroy(graft_flow_form *f); /* NULL is fine */
graft_denoiser graft_flow_form_denoiser(graft_flow_form *f);
#endif

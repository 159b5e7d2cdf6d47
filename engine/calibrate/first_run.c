/* Sampling runs: the first one of a model that waits for its plan of quantization calibrates. */
#include "engine/calibrate/quantize.h"
#include "engine/denoise/sample.h"

graft_status graft_sample(const graft_model *m, const graft_sample_params *p,
                          const graft_cond *positive, const graft_cond *negative,
                          const graft_latent *latent, const graft_task *task, graft_latent **out,
                          graft_err *e)
{
    graft_sigmas *sigmas = NULL;
    graft_status st = graft_sigmas_for_ksampler(m, p, &sigmas, e);
    const graft_sampling s = {.model = m,
                              .positive = positive,
                              .negative = negative,
                              .cfg = p->cfg,
                              .sampler = p->sampler,
                              .sigmas = sigmas,
                              .add_noise = p->add_noise,
                              .seed = p->seed};
    if (!st) st = graft_sample_custom(&s, latent, task, out, NULL, e);
    graft_sigmas_release(sigmas);
    return st;
}

/* Each of two models is calibrated alone, on its own prompts. */
static graft_status settle(const graft_sampling *of, const graft_model *model,
                           const graft_cond *prompts, const graft_latent *latent,
                           const graft_task *task, graft_model **now, graft_err *e)
{
    graft_sampling alone = *of;
    alone.model = model;
    alone.negative_model = NULL;
    alone.positive = alone.negative = prompts;
    alone.cfg = 1.0;
    return graft_quantizer_settle(&alone, latent, task, now, e);
}

static graft_status sample_two(const graft_sampling *sampling, const graft_latent *latent,
                               const graft_task *task, graft_latent **out, graft_latent **denoised,
                               graft_err *e)
{
    graft_sampling s = *sampling;
    graft_model *now[2] = {NULL, NULL};
    graft_cond *zeros = NULL;
    graft_status st = GRAFT_OK;
    if (!s.negative) {
        GRAFT_TRY(graft_cond_zero_out(s.positive, &zeros, e));
        s.negative = zeros;
    }
    GRAFT_TRY(settle(&s, s.model, s.positive, latent, task, &now[0], e));
    GRAFT_TRY(settle(&s, s.negative_model, s.negative, latent, task, &now[1], e));
    if (now[0]) s.model = now[0];
    if (now[1]) s.negative_model = now[1];
    GRAFT_TRY(graft_sample_tapped(&s, latent, task, NULL, out, denoised, e));
out:
    graft_cond_release(zeros);
    for (int i = 0; i < 2; i++) graft_model_release(now[i]);
    return st;
}

graft_status graft_sample_custom(const graft_sampling *sampling, const graft_latent *latent,
                                 const graft_task *task, graft_latent **out,
                                 graft_latent **denoised, graft_err *e)
{
    graft_sampling s = *sampling;
    graft_model *now = NULL;
    if (s.negative_model == s.model) s.negative_model = NULL;
    if (s.negative_model) return sample_two(&s, latent, task, out, denoised, e);
    if (!s.negative) {
        /* Guidance of 1 leaves the negative prediction out; samplers that ask for it all the same
         * get that of the same prompt. */
        s.negative = s.positive;
        s.cfg = 1.0;
    } else if (!s.third.prompt) {
        s.third = s.model->third;
    }
    graft_status st = graft_quantizer_settle(&s, latent, task, &now, e);
    if (now) s.model = now;
    if (!st) st = graft_sample_tapped(&s, latent, task, NULL, out, denoised, e);
    graft_model_release(now);
    return st;
}

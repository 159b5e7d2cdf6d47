/* The stand-in's sampling and VAEs. */
#include "base/alloc.h"
#include "tests/nodes/fake_trace.h"

const char *const *graft_sampler_names(void)
{
    static const char *const names[] = {"euler", "heun", NULL};
    return names;
}

const char *const *graft_scheduler_names(void)
{
    static const char *const names[] = {"normal", "karras", NULL};
    return names;
}

graft_status graft_model_sampling(const graft_model *m, const char *kind, bool zsnr,
                                  graft_model **out, graft_err *e)
{
    (void)m;
    trace("sampling %s %d\n", kind, zsnr);
    return fake_make_model(out, e);
}

graft_status graft_model_sampling_continuous(const graft_model *m,
                                             const graft_continuous_options *o, graft_model **out,
                                             graft_err *e)
{
    (void)m;
    trace("sampling continuous %s%s %g %g\n", o->kind, o->angle ? " angle" : "", o->sigma_max,
          o->sigma_min);
    return fake_make_model(out, e);
}

graft_status graft_model_sampling_flow(const graft_model *m, double shift, bool fine,
                                       graft_model **out, graft_err *e)
{
    (void)m;
    trace("sampling flow %g%s\n", shift, fine ? " fine" : "");
    return fake_make_model(out, e);
}

graft_status graft_model_skip_layers(const graft_model *m, const char *layers, double scale,
                                     double start, double end, graft_model **out, graft_err *e)
{
    (void)m;
    trace("skip '%s' %g %g %g\n", layers, scale, start, end);
    return fake_make_model(out, e);
}

graft_status graft_model_skip_blocks(const graft_model *m, const graft_skip_options *o,
                                     graft_model **out, graft_err *e)
{
    (void)m;
    trace("skip '%s' '%s' %g %g %g %g\n", o->layers, o->single_layers, o->scale, o->start, o->end,
          o->rescale);
    return fake_make_model(out, e);
}

graft_status graft_model_skip_negative(const graft_model *m, const graft_skip_options *o,
                                       graft_model **out, graft_err *e)
{
    (void)m;
    trace("skip negative '%s' '%s' %g %g\n", o->layers, o->single_layers, o->start, o->end);
    return fake_make_model(out, e);
}

graft_status graft_sample(const graft_model *m, const graft_sample_params *p,
                          const graft_cond *positive, const graft_cond *negative,
                          const graft_latent *latent, const graft_task *task, graft_latent **out,
                          graft_err *e)
{
    static const uint8_t rgb[2 * 3 * 3] = {10, 20, 30};
    static const float values[4] = {2.5f};
    static const int64_t shape[4] = {1, 4, 1, 1};
    trace("sample seed=%llu noise=%d steps=%lld cfg=%g %s %s denoise=%g %lld-%lld full=%d two=%d\n",
          (unsigned long long)p->seed, p->add_noise, (long long)p->steps, p->cfg, p->sampler,
          p->scheduler, p->denoise, (long long)p->start_at_step, (long long)p->end_at_step,
          p->force_full_denoise, positive != negative);
    graft_vae *decoder = task->preview_vae ? task->preview_vae(task->ctx, m) : NULL;
    if (decoder) trace("previews are decoded\n");
    graft_vae_release(decoder);
    task->progress(task->ctx, 1, 2);
    if (task->preview && (!task->preview_wanted || task->preview_wanted(task->ctx)))
        task->preview(task->ctx, rgb, 3, 2);
    if (task->latent) task->latent(task->ctx, values, shape);
    graft_log_printf(&task->log, GRAFT_LOG_INFO, "half way");
    while (fake_wait_for_cancel)
        if (task->cancelled(task->ctx)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
    task->progress(task->ctx, 2, 2);
    graft_status st = due(e);
    return st != GRAFT_OK ? st : graft_latent_repeat(latent, 1, out, e);
}

graft_status graft_sigmas_from_model(const graft_model *m, const char *scheduler, int64_t steps,
                                     double denoise, graft_sigmas **out, graft_err *e)
{
    static const float values[] = {2, 1, 0};
    (void)m;
    trace("schedule %s steps=%lld denoise=%g\n", scheduler, (long long)steps, denoise);
    graft_status st = due(e);
    return st != GRAFT_OK ? st : graft_sigmas_from_data(values, 3, out, e);
}

graft_status graft_sigmas_turbo(const graft_model *m, int64_t steps, double denoise,
                                graft_sigmas **out, graft_err *e)
{
    return graft_sigmas_from_model(m, "turbo", steps, denoise, out, e);
}

graft_status graft_sigmas_beta(const graft_model *m, int64_t steps, double alpha, double beta,
                               graft_sigmas **out, graft_err *e)
{
    trace("alpha=%g beta=%g ", alpha, beta);
    return graft_sigmas_from_model(m, "beta", steps, 1, out, e);
}

graft_status graft_sigmas_at_percent(const graft_model *m, double percent, bool actual, double *out,
                                     graft_err *e)
{
    trace("sigma at %g actual=%d model=%d\n", percent, actual, m != NULL);
    *out = 2.5 - percent;
    return due(e);
}

graft_status graft_latent_noised(const graft_model *m, const graft_latent *latent,
                                 const graft_sigmas *sigmas, bool add_noise, uint64_t seed,
                                 graft_latent **out, graft_err *e)
{
    size_t n;
    graft_sigmas_data(sigmas, &n);
    trace("noised model=%d sigmas=%zu noise=%d seed=%llu\n", m != NULL, n, add_noise,
          (unsigned long long)seed);
    graft_status st = due(e);
    return st != GRAFT_OK ? st : graft_latent_repeat(latent, 1, out, e);
}

graft_status graft_sample_custom(const graft_sampling *s, const graft_latent *latent,
                                 const graft_task *task, graft_latent **out,
                                 graft_latent **denoised, graft_err *e)
{
    size_t n;
    const float *sigma = graft_sigmas_data(s->sigmas, &n);
    trace("custom model=%d seed=%llu noise=%d cfg=%g %s two=%d sigmas=%zu:", s->model != NULL,
          (unsigned long long)s->seed, s->add_noise, s->cfg, s->sampler,
          s->negative && s->positive != s->negative, n);
    for (size_t i = 0; i < n; i++) trace(" %g", (double)sigma[i]);
    const graft_sampler_options *o = &s->options;
    if (o->given)
        trace(" eta=%g s_noise=%g r=%g order=%lld", o->eta, o->s_noise, o->r, (long long)o->order);
    if (o->given && o->reverse) trace(" reverse");
    const graft_adaptive_options *a = &o->adaptive;
    if (o->given && a->h_init > 0)
        trace(" rtol=%g atol=%g h_init=%g pid=%g,%g,%g safety=%g", a->rtol, a->atol, a->h_init,
              a->pcoeff, a->icoeff, a->dcoeff, a->accept_safety);
    const graft_sa_options *sa = &o->sa;
    if (o->given && sa->predictor)
        trace(" noise=%g,%g orders=%d,%d pece=%d simple=%d", sa->noise_from, sa->noise_to,
              sa->predictor, sa->corrector, sa->pece, sa->simple);
    if (s->third.prompt)
        trace(" third=%d way=%d scale=%g", s->third.prompt != s->negative, s->third.way,
              s->third.scale);
    if (s->negative_model) trace(" of another=%d", s->negative_model != s->model);
    trace("\n");
    task->progress(task->ctx, 2, 2);
    graft_status st = due(e);
    if (st == GRAFT_OK) st = graft_latent_repeat(latent, 1, out, e);
    if (st != GRAFT_OK) return st;
    st = graft_latent_repeat(latent, 2, denoised, e);
    if (st != GRAFT_OK) graft_latent_release(*out);
    return st;
}

static void trace_tiling(const char *what, const graft_tiling *t)
{
    if (t)
        trace("%s tiles=%lld,%lld\n", what, (long long)t->tile_size, (long long)t->overlap);
    else
        trace("%s\n", what);
}

graft_status graft_vae_decode(const graft_vae *v, const graft_latent *l, const graft_tiling *tiling,
                              const graft_task *task, graft_image **out, graft_err *e)
{
    (void)v, (void)task;
    int64_t s[4];
    graft_latent_data(l, s);
    trace_tiling("decode", tiling);
    graft_status st = due(e);
    return st != GRAFT_OK ? st : graft_image_empty(s[3] * 8, s[2] * 8, s[0], 0x808080, out, e);
}

graft_status graft_image_upscale(const graft_upscaler *u, const graft_image *image,
                                 const graft_task *task, graft_image **out, graft_err *e)
{
    int64_t s[4];
    (void)u, (void)task;
    graft_image_data(image, s);
    trace("upscale %lldx%lld\n", (long long)s[2], (long long)s[1]);
    graft_status st = due(e);
    return st != GRAFT_OK ? st : graft_image_empty(s[2] * 4, s[1] * 4, s[0], 0x808080, out, e);
}

graft_status graft_vae_encode(const graft_vae *v, const graft_image *pixels,
                              const graft_tiling *tiling, const graft_task *task,
                              graft_latent **out, graft_err *e)
{
    (void)v, (void)task;
    int64_t s[4];
    graft_image_data(pixels, s);
    trace_tiling("vae encode", tiling);
    graft_status st = due(e);
    return st != GRAFT_OK ? st : graft_latent_empty(4, s[2], s[1], s[0], out, e);
}

graft_status graft_vae_encode_inpaint(const graft_vae *v, const graft_image *pixels,
                                      const graft_image *mask, int64_t grow_mask_by,
                                      const graft_task *task, graft_latent **out, graft_err *e)
{
    (void)v, (void)task;
    int64_t s[4];
    graft_image_data(pixels, s);
    trace("vae inpaint grow=%lld mask=%d\n", (long long)grow_mask_by, graft_image_is_mask(mask));
    graft_status st = due(e);
    return st != GRAFT_OK ? st : graft_latent_empty(4, s[2], s[1], s[0], out, e);
}

graft_status graft_vae_encode_known(const graft_vae *v, const graft_image *pixels,
                                    const graft_image *mask, bool noise_mask,
                                    const graft_task *task, graft_latent **whole,
                                    graft_latent **known, graft_err *e)
{
    (void)v, (void)task;
    int64_t s[4];
    graft_image_data(pixels, s);
    trace("vae known mask=%d noise_mask=%d\n", graft_image_is_mask(mask), noise_mask);
    graft_status st = due(e);
    if (st == GRAFT_OK) st = graft_latent_empty(4, s[2], s[1], s[0], whole, e);
    if (st != GRAFT_OK) return st;
    st = graft_latent_empty(4, s[2], s[1], s[0], known, e);
    if (st != GRAFT_OK) {
        graft_latent_release(*whole);
        *whole = NULL;
    }
    return st;
}

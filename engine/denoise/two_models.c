#include "engine/denoise/two_models.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/denoise/bound.h"
#include "engine/denoise/denoise.h"
#include "engine/denoise/model_sigmas.h"

struct graft_two_models {
    const graft_model *model; /* of the positive prompts: it may say another cfg */
    const graft_sigma_table *table;
    double cfg;
    graft_sigma_table other; /* of the model of the negative prompts */
    graft_guided *side[2];   /* positive, negative */
    int64_t n;               /* values of the latent */
    float *negative;         /* (n) */
};

/* ------------------------------------------------------------------ what goes together */

/* What one model has that takes both predictions from it; NULL: nothing. */
static const char *needs_both(const graft_model *m)
{
    if (m->rescale_cfg > 0) return "RescaleCFG";
    if (m->n_cfg_changes) return "what changes guidance (APG, CFGNorm, CFGZeroStar and the like)";
    if (graft_model_guides_itself(m)) return "SelfAttentionGuidance";
    if (m->skip_negative.blocks) return "SkipLayerGuidanceDiTSimple";
    return m->third.prompt ? "PerpNeg" : NULL;
}

graft_status graft_two_models_check(const graft_sampling *s, graft_err *e)
{
    const graft_model *a = s->model, *b = s->negative_model;
    const char *what = needs_both(a);
    if (!what) what = needs_both(b);
    if (!graft_hash_equal(graft_net_hash(&a->arch), graft_net_hash(&b->arch)) ||
        graft_model_is_flow(a) != graft_model_is_flow(b) || a->planes != b->planes ||
        a->scale_factor != b->scale_factor || a->latent_shift != b->latent_shift)
        return graft_fail(e, GRAFT_E_ARG,
                          "the model of the negative prompts is of another architecture than the "
                          "model, or has other latents");
    if (what || s->third.prompt)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s goes with one model, not with one of the negative prompts beside it",
                          what ? what : "guidance by three prompts");
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ the denoiser */

/* Of one side. Where memory is short the weights of the other go. */
static graft_status predict(graft_two_models *t, int side, const float *x, float sigma, float *out,
                            graft_err *e)
{
    const graft_denoiser d = graft_guided_denoiser(t->side[side]);
    graft_status st = d.denoise(d.ctx, x, sigma, out, e);
    if (!graft_bound_short_of_memory(st) || !t->side[!side]->n_bound) return st;
    graft_bound_let_go(t->side[!side]);
    return d.denoise(d.ctx, x, sigma, out, e);
}

/* unconditional: as graft_denoiser's; NULL: it is not asked for. */
static graft_status denoise_any(graft_two_models *t, const float *x, float sigma, float *out,
                                float *unconditional, graft_err *e)
{
    const double cfg = graft_model_cfg_at(t->model, t->table, sigma, t->cfg);
    const bool guided = fabs(cfg - 1.0) > 1e-9;
    float *negative = unconditional ? unconditional : t->negative;
    graft_status st = predict(t, 0, x, sigma, out, e);
    if (st || (!guided && !unconditional)) return st;
    st = predict(t, 1, x, sigma, negative, e);
    for (int64_t i = 0; i < t->n && !st && guided; i++)
        out[i] = graft_guidance_combined(negative[i], out[i], (float)cfg);
    return st;
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

graft_denoiser graft_two_models_denoiser(graft_two_models *t)
{
    return (graft_denoiser){t, denoise, denoise_pair};
}

/* ------------------------------------------------------------------ making */

graft_status graft_two_models_create(const graft_guided_config *config, const graft_model *other,
                                     graft_two_models **out, graft_err *e)
{
    graft_guided_config c = *config;
    graft_two_models *t = graft_calloc(1, sizeof *t);
    graft_status st;
    if (!t) return graft_fail_nomem(e, "sampling");
    t->model = config->model;
    t->table = config->table;
    t->cfg = config->cfg;
    t->n = config->shape[0] * config->shape[1] * config->shape[2] * config->shape[3];
    t->negative = graft_malloc_array((size_t)t->n, sizeof *t->negative);
    if (!t->negative) {
        st = graft_fail_nomem(e, "sampling buffers");
        goto out;
    }
    graft_model_sigma_table(other, &t->other);
    c.cfg = 1;
    c.negative = c.positive;
    GRAFT_TRY(graft_guided_create(&c, &t->side[0], e));
    c.model = other;
    c.table = &t->other;
    c.positive = c.negative = config->negative;
    c.tap = NULL; /* which looks at the model */
    GRAFT_TRY(graft_guided_create(&c, &t->side[1], e));
    *out = t;
    t = NULL;
out:
    graft_two_models_destroy(t);
    return st;
}

void graft_two_models_destroy(graft_two_models *t)
{
    if (!t) return;
    for (int i = 0; i < 2; i++) graft_guided_destroy(t->side[i]);
    graft_free(t->negative);
    graft_free(t);
}

void graft_two_models_step(graft_two_models *t, size_t step)
{
    for (int i = 0; i < 2; i++) graft_guided_step(t->side[i], step);
}

void graft_two_models_tell(const graft_two_models *t)
{
    for (int i = 0; i < 2; i++) graft_guided_tell(t->side[i]);
}

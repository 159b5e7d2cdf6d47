#include "engine/denoise/unclip.h"

#include <math.h>
#include <string.h>

#include "engine/denoise/waves.h"
#include "engine/objects/vision_output.h"
#include "engine/sampling/noise.h"
#include "engine/weights/quantized.h"

#define MEAN      "noise_augmentor.data_mean"
#define DEVIATION "noise_augmentor.data_std"

static bool takes(const graft_model *m)
{
    return graft_net_is_unet(&m->arch) && m->arch.unet.unclip;
}

static const graft_st_tensor *find(const graft_model *m, const char *name)
{
    return graft_safetensors_find(graft_weights_file(m->weights), name);
}

static graft_status check_numbers(const graft_model *m, const char *name, int64_t width,
                                  graft_err *e)
{
    const graft_st_tensor *t = find(m, name);
    int64_t count = 1;
    for (int i = 0; t && i < t->rank; i++) count *= t->shape[i];
    const bool good = t && graft_st_is_weight(t) && !graft_is_quantized(t->dtype);
    if (!t || (good && count == width)) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor %s has not %lld numbers",
                      graft_safetensors_path(graft_weights_file(m->weights)), name,
                      (long long)width);
}

graft_status graft_unclip_check(const graft_model *m, const graft_cond *c, graft_err *e)
{
    const int64_t width = m->arch.adm_channels / 2;
    bool any = false;
    if (!c || !takes(m)) return GRAFT_OK;
    for (size_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < c->entry[i]->n_shown; k++) {
            const graft_vision_output *seen = c->entry[i]->shown[k].seen;
            any = true;
            if (seen->pooled_width != width)
                return graft_fail(e, GRAFT_E_ARG,
                                  "this unCLIP model is for pictures as an encoder sees them that "
                                  "gives %lld numbers, and this one gives %lld",
                                  (long long)width, (long long)seen->pooled_width);
        }
    if (any && width > GRAFT_UNCLIP_WIDTH)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "an unCLIP model for pictures of %lld numbers",
                          (long long)width);
    graft_status st = any ? check_numbers(m, MEAN, width, e) : GRAFT_OK;
    return st || !any ? st : check_numbers(m, DEVIATION, width, e);
}

/* ------------------------------------------------------------------ numbers */

static double signal_until(double share)
{
    const double c = cos((share + 0.008) / 1.008 * M_PI / 2);
    return c * c;
}

static int level_of(double noise)
{
    return (int)nearbyint((GRAFT_UNCLIP_LEVELS - 1) * noise);
}

/* The share of signal at a level. */
static double signal_at(int level)
{
    double a = 1;
    for (int i = 0; i <= level; i++) {
        const double before = signal_until((double)i / GRAFT_UNCLIP_LEVELS);
        const double after = signal_until((double)(i + 1) / GRAFT_UNCLIP_LEVELS);
        a *= 1 - fmin(1 - after / before, 0.999);
    }
    return a;
}

static void numbers(const graft_model *m, const char *name, float otherwise, int64_t width,
                    float *out)
{
    const graft_st_tensor *t = find(m, name);
    for (int64_t i = 0; i < width && !t; i++) out[i] = otherwise;
    if (t) graft_st_to_f32(t, 0, width, out);
}

typedef struct statistics {
    float mean[GRAFT_UNCLIP_WIDTH], deviation[GRAFT_UNCLIP_WIDTH];
    int64_t width;
    uint64_t seed; /* of the noise */
} statistics;

/* v with noise of a level; out may be v. */
static void add_noise(const statistics *s, int level, const float *v, float *out)
{
    float more[GRAFT_UNCLIP_WIDTH];
    const double a = signal_at(level);
    const float keep = (float)sqrt(a), add = (float)sqrt(1 - a);
    graft_rng rng;
    graft_rng_seed(&rng, s->seed);
    graft_rng_randn(&rng, more, (size_t)s->width);
    for (int64_t c = 0; c < s->width; c++)
        out[c] = s->mean[c] + keep * (v[c] - s->mean[c]) + add * s->deviation[c] * more[c];
}

void graft_unclip_fill(const graft_model *m, const graft_cond_entry *k, uint64_t seed, float *y)
{
    const int64_t width = m->arch.adm_channels / 2;
    float one[2 * GRAFT_UNCLIP_WIDTH];
    statistics s = {.width = width, .seed = seed - GRAFT_UNCLIP_SEED};
    int64_t pictures = 0;
    memset(y, 0, (size_t)m->arch.adm_channels * sizeof *y);
    if (!k->n_shown) return;
    numbers(m, MEAN, 0, width, s.mean);
    numbers(m, DEVIATION, 1, width, s.deviation);
    for (int32_t i = 0; i < k->n_shown; i++) {
        const graft_shown *p = &k->shown[i];
        const int level = level_of(p->noise);
        for (int64_t n = 0; n < p->seen->pictures; n++, pictures++) {
            add_noise(&s, level, p->seen->pooled + n * width, one);
            graft_waves(level, width, one + width);
            for (int64_t c = 0; c < 2 * width; c++) y[c] += (float)p->strength * one[c];
        }
    }
    if (pictures < 2) return;
    add_noise(&s, level_of(GRAFT_UNCLIP_MERGED), y, y);
    graft_waves(level_of(GRAFT_UNCLIP_MERGED), width, y + width);
}

/* What the tests of QuantizeModel share: a model with what to calibrate it on. */
#ifndef GRAFT_TESTS_ENGINE_CALIBRATE_H
#define GRAFT_TESTS_ENGINE_CALIBRATE_H
#include "engine/calibrate/quantize.h"
#include "tests/engine/sample.h"

static graft_engine *engine;
static bool on_ref; /* which quantizes attention, where others need not */
enum { CALIBRATION_STEPS = 4, LATENT = 4 * 8 * 8 };

typedef struct scene {
    graft_model *model;
    graft_cond *cond;
    graft_latent *latent;
} scene;

static inline scene open_scene(const char *path)
{
    scene s = {.model = load_model(engine, path)};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(sample_cond(s.model, &s.cond, &e), &e);
    CHECK_OK(graft_latent_empty(4, 64, 64, 1, &s.latent, &e), &e);
    return s;
}

static inline void close_scene(scene *s)
{
    graft_latent_release(s->latent);
    graft_cond_release(s->cond);
    graft_model_release(s->model);
}

static inline graft_quantize_options options(const scene *s)
{
    return (graft_quantize_options){.bits = 8,
                                    .conv = true,
                                    .linear = true,
                                    .conv_mse_threshold = 0.1,
                                    .linear_mse_threshold = 0.1,
                                    .attention = true,
                                    .attention_mse_threshold = 0.1,
                                    .positive = s->cond,
                                    .negative = s->cond,
                                    .latent = s->latent,
                                    .steps = CALIBRATION_STEPS,
                                    .cfg = 4};
}

static inline graft_model *quantize(const graft_model *m, const graft_quantize_options *o)
{
    graft_model *q = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_quantize(m, o, NULL, &q, NULL, &e), &e);
    return q;
}

static inline void sampled(const graft_model *m, const scene *s, float out[LATENT])
{
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4];
    memset(out, 0, LATENT * sizeof *out);
    CHECK_OK(sample_latent(m, s->cond, s->latent, "euler", 6, NULL, &l, &e), &e);
    if (l) memcpy(out, graft_latent_data(l, shape), LATENT * sizeof *out);
    graft_latent_release(l);
}

static inline bool same_latent(const float *a, const float *b)
{
    return memcmp(a, b, LATENT * sizeof *a) == 0;
}

static inline bool report_has(const graft_model *m, const char *words)
{
    graft_str s = GRAFT_STR_INIT;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_quantizer_report(m, &s, &e), &e);
    bool has = s.data && strstr(s.data, words);
    if (!has) fprintf(stderr, "no \"%s\" in:\n%s\n", words, s.data ? s.data : "");
    graft_str_finish(&s);
    return has;
}

static inline void refused(const scene *s, const graft_quantize_options *o, const char *words)
{
    graft_model *q = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_status st = graft_model_quantize(s->model, o, NULL, &q, NULL, &e);
    CHECK(st == GRAFT_E_ARG || st == GRAFT_E_FORMAT);
    CHECK(!q && strstr(e.text, words));
    if (!strstr(e.text, words)) fprintf(stderr, "no \"%s\" in: %s\n", words, e.text);
}
#endif

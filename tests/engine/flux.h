/* The small transformer of FLUX's kind: one run of it. */
#ifndef GRAFT_TESTS_ENGINE_FLUX_H
#define GRAFT_TESTS_ENGINE_FLUX_H
#include "tests/engine/network_files.h"

#define FLUX_DEV     GRAFT_SOURCE_DIR "/golden/small/flux_dev.safetensors"
#define FLUX_SCHNELL GRAFT_SOURCE_DIR "/golden/small/flux_schnell.safetensors"

enum { FLUX_OUT = 16 * SIDE * SIDE, FLUX_WORDS = 5 };

static inline void run_flux(const graft_model *m, float guidance, float out[FLUX_OUT])
{
    graft_binding *b = NULL;
    float x[FLUX_OUT], context[FLUX_WORDS * 64], y[64], t = 400.0f;
    const int32_t adm = m->arch.adm_channels;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(m->arch.context_dim <= 64 && adm <= 64);
    for (size_t i = 0; i < FLUX_OUT; i++) x[i] = fixed_value(i);
    for (size_t i = 0; i < FLUX_WORDS * 64; i++) context[i] = fixed_value(20000 + i);
    for (size_t i = 0; i < 64; i++) y[i] = fixed_value(40000 + i);
    if (m->arch.flux.guidance) y[adm - 1] = guidance;
    if (m->arch.flux.approximator) y[0] = FLUX_WORDS;
    memset(out, 0, FLUX_OUT * sizeof *out);
    graft_status st = graft_model_bind(m, 1, SIDE, SIDE, FLUX_WORDS, NULL, &b, &e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, y},
                           (void *[]){out}, NULL, NULL, &e);
    CHECK_OK(st, &e);
    graft_binding_release(b);
}

/* With every other linear layer in 8 bits that can be, measured or not. */
static inline graft_model *half_quantized(const graft_model *m)
{
    const graft_quant_limits linear = {{false, true, false}, {1, 1, 1}, 0};
    graft_net_shape shape = {.batch = 1,
                             .height = SIDE,
                             .width = SIDE,
                             .tokens = graft_net_tokens(&m->arch, FLUX_WORDS),
                             .act_dtype = GRAFT_F32};
    graft_quant_plan *p = NULL;
    graft_model *q = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_quant_plan_create(&m->arch, &shape, &p, &e), &e);
    graft_quant_plan_select(p, &linear);
    for (size_t i = 0; i < p->n; i += 2)
        if (p->layer[i].reason == GRAFT_QUANT_CHOSEN) p->layer[i].reason = GRAFT_QUANT_KEPT;
    CHECK_OK(graft_model_with_plan(m, p, &q, &e), &e);
    graft_quant_plan_destroy(p);
    return q;
}

static inline bool same_flux_bits(const float *a, const float *b)
{
    float sum = 0;
    for (int i = 0; i < FLUX_OUT; i++) sum += a[i] * a[i];
    return sum > 0 && memcmp(a, b, FLUX_OUT * sizeof *a) == 0;
}
#endif

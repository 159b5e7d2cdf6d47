/* A UNet without FreeU and with either version. */
#include <stdio.h>

#include "base/alloc.h"
#include "tests/golden/golden.h"

enum { X, TIMESTEPS, CONTEXT, FACTORS, TENSORS };

static graft_status run(golden *g, const graft_model *m, const graft_safetensors *f, int k,
                        const char *output, float *const *in, graft_err *e)
{
    const graft_st_tensor *x = golden_case(f, k, "x"), *context = golden_case(f, k, "context");
    const graft_st_tensor *want = golden_case(f, k, output);
    if (!want) return graft_fail(e, GRAFT_E_FORMAT, "case %d has no %s", k, output);
    float *expected = golden_copy(want), *out = golden_copy(want);
    graft_binding *b = NULL;
    graft_status st = expected && out ? GRAFT_OK : graft_fail_nomem(e, "outputs");
    if (!st)
        st = graft_model_bind(m, x->shape[0], x->shape[2], x->shape[3], context->shape[1], NULL, &b,
                              e);
    const void *all[] = {in[X], in[TIMESTEPS], in[CONTEXT],
                         graft_model_freeu_factors(m, GRAFT_WHOLE)};
    if (!st) st = graft_exe_run(b, g->engine->arenas, all, (void *[]){out}, NULL, NULL, e);
    char what[64];
    snprintf(what, sizeof what, "freeu case%d %s", k, output);
    if (!st) golden_note_model(g, what, golden_error(out, expected, golden_count(want)));
    graft_binding_release(b);
    graft_free(expected);
    graft_free(out);
    return st;
}

static graft_status run_case(golden *g, const graft_model *m, const graft_safetensors *f, int k,
                             graft_err *e)
{
    static const char *const names[TENSORS] = {"x", "timesteps", "context", "factors"};
    static const char *const outputs[] = {"output", "output_v1", "output_v2"};
    float *in[TENSORS] = {0};
    graft_status st = GRAFT_OK;
    for (int i = 0; i < TENSORS; i++) {
        const graft_st_tensor *t = golden_case(f, k, names[i]);
        in[i] = t ? golden_copy(t) : NULL;
        if (in[i]) continue;
        st = graft_fail(e, GRAFT_E_FORMAT, "case %d has no %s", k, names[i]);
        goto out;
    }
    for (int version = 0; version <= 2; version++) {
        const float *v = in[FACTORS];
        graft_model *changed = NULL;
        const graft_freeu_options o = {version, (double)v[0], (double)v[1], (double)v[2],
                                       (double)v[3]};
        if (version) GRAFT_TRY(graft_model_freeu(m, &o, &changed, e));
        st = run(g, version ? changed : m, f, k, outputs[version], in, e);
        graft_model_release(changed);
        if (st) break;
    }
out:
    for (int i = 0; i < TENSORS; i++) graft_free(in[i]);
    return st;
}

graft_status golden_freeu(golden *g, graft_safetensors *f, graft_err *e)
{
    graft_model m = {.engine = g->engine, .refs = 1};
    graft_weights *file = NULL;
    graft_status st = graft_weights_create(f, &file, e);
    if (st) return st;
    golden_options(g, &m.options);
    GRAFT_TRY(graft_net_detect(f, "model.diffusion_model.", graft_safetensors_metadata(f, "config"),
                               &m.arch, e));
    GRAFT_TRY(graft_weights_part(file, "model.diffusion_model.", &m.weights, e));
    for (int k = 0; golden_case(f, k, "x"); k++) GRAFT_TRY(run_case(g, &m, f, k, e));
out:
    graft_weights_release(m.weights);
    graft_weights_release(file);
    return st;
}

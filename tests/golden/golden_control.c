#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/models/detect/detect.h"
#include "engine/objects/control.h"
#include "engine/weights/values.h"
#include "tests/golden/golden.h"

/* What one case needs; arrays are float32, residuals as the graphs have them. */
typedef struct control_case {
    golden *g;
    const graft_model *m;
    const graft_controlnet *n;
    const graft_safetensors *f;
    int k;
    graft_unet_use use;
    graft_dtype dtype; /* of residuals */
    float *in[4], *hint[2];
    void *features[2];
    float type[2][GRAFT_CONTROL_TYPES], told[2]; /* of the hints, for a union ControlNet */
    int n_residuals;
    void *residual[GRAFT_UNET_RESIDUALS];
    int64_t dim[GRAFT_UNET_RESIDUALS][4]; /* (N,H,W,C) */
} control_case;

static size_t bytes_of(const control_case *c, const int64_t dim[4])
{
    return (size_t)(dim[0] * dim[1] * dim[2] * dim[3]) * graft_dtype_size(c->dtype);
}

static void finish(control_case *c)
{
    for (int i = 0; i < 4; i++) graft_free(c->in[i]);
    for (int i = 0; i < 2; i++) {
        graft_free(c->hint[i]);
        graft_free(c->features[i]);
    }
    for (int i = 0; i < c->n_residuals; i++) graft_free(c->residual[i]);
}

/* The hint's picture, channels last. */
static float *take_hint(const control_case *c, const char *name)
{
    const graft_st_tensor *t = golden_case(c->f, c->k, name);
    float *planes = t ? golden_copy(t) : NULL, *out = t ? golden_copy(t) : NULL;
    if (planes && out) golden_move_channels(planes, out, t->shape, true);
    graft_free(planes);
    return out;
}

/* caseK.types: the place of each hint's type. */
static graft_status take_types(control_case *c, graft_err *e)
{
    const graft_st_tensor *t = golden_case(c->f, c->k, "types");
    int32_t place[2];
    if (!c->n->arch.types) return GRAFT_OK;
    if (!t || t->dtype != GRAFT_I32 || golden_count(t) != 2)
        return graft_fail(e, GRAFT_E_FORMAT, "case %d has no types", c->k);
    memcpy(place, t->data, sizeof place);
    for (int i = 0; i < 2; i++) {
        if (place[i] < 0 || place[i] >= c->n->arch.types)
            return graft_fail(e, GRAFT_E_FORMAT, "case %d has type %d", c->k, place[i]);
        c->type[i][place[i]] = c->told[i] = 1;
    }
    return GRAFT_OK;
}

static graft_status take_case(control_case *c, graft_err *e)
{
    static const char *const names[4] = {"x", "timesteps", "context", "y"};
    const graft_st_tensor *x = golden_case(c->f, c->k, "x");
    const graft_st_tensor *context = golden_case(c->f, c->k, "context");
    graft_backend *backend;
    for (int i = 0; i < 4; i++) {
        const graft_st_tensor *t = golden_case(c->f, c->k, names[i]);
        if (t) c->in[i] = golden_copy(t);
    }
    c->hint[0] = take_hint(c, "hint");
    c->hint[1] = take_hint(c, "hint2");
    if (!x || !context || !c->hint[0] || !c->hint[1])
        return graft_fail(e, GRAFT_E_FORMAT, "case %d is not complete", c->k);
    c->use = (graft_unet_use){.pictures = x->shape[0],
                              .entries = 1,
                              .height = x->shape[2],
                              .width = x->shape[3],
                              .tokens = context->shape[1]};
    graft_status st = graft_options_resolve(c->g->engine, &c->m->options, &backend, &c->dtype, e);
    if (!st) st = take_types(c, e);
    if (st) return st;
    const graft_net_shape shape = {
        .batch = x->shape[0], .height = x->shape[2], .width = x->shape[3], .control = 1};
    c->n_residuals = graft_unet_residuals(&c->m->arch.unet, &shape);
    for (int i = 0; i < c->n_residuals; i++) {
        graft_unet_residual_shape(&c->m->arch.unet, &shape, i, c->dim[i]);
        c->residual[i] = graft_malloc(bytes_of(c, c->dim[i]));
        if (!c->residual[i]) return graft_fail_nomem(e, "residuals");
    }
    for (int i = 0; i < 2; i++) {
        c->features[i] = graft_malloc(bytes_of(c, c->dim[0]));
        if (!c->features[i]) return graft_fail_nomem(e, "features");
    }
    return GRAFT_OK;
}

static graft_status run_hints(control_case *c, graft_err *e)
{
    graft_binding *b = NULL;
    graft_status st = graft_control_bind_hint(c->m, c->n, c->use.pictures, &c->use, NULL, &b, e);
    for (int i = 0; i < 2 && !st; i++)
        st = graft_exe_run(b, c->g->engine->arenas,
                           (const void *[]){c->hint[i], c->type[i], &c->told[i]},
                           (void *[]){c->features[i]}, NULL, NULL, e);
    graft_binding_release(b);
    return st;
}

/* Hint `which` at this strength, alone or on top of what is there. */
static graft_status run_net(control_case *c, int which, float strength, bool more, graft_err *e)
{
    const void *in[8 + GRAFT_UNET_RESIDUALS];
    graft_binding *b = NULL;
    size_t n = 0;
    for (int i = 0; i < 4; i++)
        if (c->in[i]) in[n++] = c->in[i];
    in[n++] = c->features[which];
    in[n++] = &strength;
    if (c->n->arch.types) {
        in[n++] = c->type[which];
        in[n++] = &c->told[which];
    }
    for (int i = 0; i < c->n_residuals && more; i++) in[n++] = c->residual[i];
    graft_status st =
        graft_control_bind(c->m, c->n, more, GRAFT_CONTROL_AT_ONCE, &c->use, NULL, &b, e);
    if (!st) st = graft_exe_run(b, c->g->engine->arenas, in, c->residual, NULL, NULL, e);
    graft_binding_release(b);
    return st;
}

static graft_status check_residuals(const control_case *c, graft_err *e)
{
    for (int i = 0; i < c->n_residuals; i++) {
        char name[64];
        const int64_t *d = c->dim[i], nchw[4] = {d[0], d[3], d[1], d[2]};
        size_t n = (size_t)(d[0] * d[1] * d[2] * d[3]), given = 0;
        snprintf(name, sizeof name, "case%d.residual.%d", c->k, i);
        if (i + 1 == c->n_residuals) snprintf(name, sizeof name, "case%d.residual.middle", c->k);
        float *want = golden_read(c->f, name, &given), *last = graft_malloc_array(n, sizeof *last);
        float *got = graft_malloc_array(n, sizeof *got);
        if (!want || !last || !got || given != n) {
            graft_free(want);
            graft_free(last);
            graft_free(got);
            return graft_fail(e, GRAFT_E_FORMAT, "%s is missing or has another size", name);
        }
        graft_to_f32(c->dtype, c->residual[i], last, n);
        golden_move_channels(last, got, nchw, false);
        golden_note_model(c->g, name, golden_error(got, want, n));
        graft_free(want);
        graft_free(last);
        graft_free(got);
    }
    return GRAFT_OK;
}

static graft_status check_output(control_case *c, const char *name, bool control, graft_err *e)
{
    const void *in[5 + GRAFT_UNET_RESIDUALS];
    graft_binding *b = NULL;
    size_t n = 0;
    for (int i = 0; i < 4; i++)
        if (c->in[i]) in[n++] = c->in[i];
    for (int i = 0; i < c->n_residuals && control; i++) in[n++] = c->residual[i];
    c->use.control = control;
    graft_status st = graft_model_bind_guided(c->m, &c->use, NULL, &b, e);
    if (!st) st = golden_check_run(c->g, c->f, c->k, name, b, in, e);
    graft_binding_release(b);
    return st;
}

static graft_status run_case(control_case *c, graft_err *e)
{
    graft_status st;
    GRAFT_TRY(take_case(c, e));
    GRAFT_TRY(run_hints(c, e));
    GRAFT_TRY(run_net(c, 0, 1.0f, false, e));
    GRAFT_TRY(check_residuals(c, e));
    GRAFT_TRY(check_output(c, "output", false, e));
    GRAFT_TRY(check_output(c, "output_1.0", true, e));
    GRAFT_TRY(run_net(c, 1, 0.6f, true, e));
    GRAFT_TRY(check_output(c, "output_two", true, e));
    GRAFT_TRY(run_net(c, 0, 0.6f, false, e));
    GRAFT_TRY(check_output(c, "output_0.6", true, e));
    if (!c->n->arch.types) goto out;
    memset(c->type, 0, sizeof c->type);
    memset(c->told, 0, sizeof c->told);
    GRAFT_TRY(run_hints(c, e));
    GRAFT_TRY(run_net(c, 0, 1.0f, false, e));
    GRAFT_TRY(check_output(c, "output_auto", true, e));
out:
    finish(c);
    return st;
}

graft_status golden_control(golden *g, graft_safetensors *f, graft_err *e)
{
    graft_model m = {.engine = g->engine};
    graft_controlnet n = {.engine = g->engine};
    graft_weights *file = NULL;
    const char *config = graft_safetensors_metadata(f, "config");
    graft_status st = graft_weights_create(f, &file, e);
    if (st) return st;
    golden_options(g, &m.options);
    GRAFT_TRY(graft_net_detect(f, "model.diffusion_model.", config, &m.arch, e));
    GRAFT_TRY(graft_control_detect(f, "control_model.", config, &n.arch, e));
    GRAFT_TRY(graft_weights_part(file, "model.diffusion_model.", &m.weights, e));
    GRAFT_TRY(graft_weights_part(file, "control_model.", &n.weights, e));
    for (int k = 0; golden_case(f, k, "x"); k++) {
        control_case c = {.g = g, .m = &m, .n = &n, .f = f, .k = k};
        GRAFT_TRY(run_case(&c, e));
    }
out:
    graft_weights_release(m.weights);
    graft_weights_release(n.weights);
    graft_weights_release(file);
    return st;
}

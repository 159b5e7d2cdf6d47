/* ControlNets for transformers, each in a file of its own that metadata name. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/objects/control.h"
#include "engine/weights/values.h"
#include "tests/golden/golden.h"

typedef struct steered_case {
    golden *g;
    const graft_model *m;
    graft_controlnet *n; /* its type is set before each hint */
    const graft_safetensors *f;
    int k;
    int64_t all; /* tokens that the networks are given; 0: those of the prompt */
    graft_unet_use use;
    graft_dtype dtype; /* of residuals */
    float *in[4], *hint[2];
    size_t n_in;     /* of `in`, which else lacks y */
    int32_t mode[2]; /* of a union ControlNet */
    void *features[2], *embedded;
    int count;
    void *residual[GRAFT_NET_RESIDUALS];
    size_t values[GRAFT_NET_RESIDUALS]; /* of each of these */
    bool sparse;                        /* each adds to what is there, which is zeros at first */
} steered_case;

static void finish(steered_case *c)
{
    for (int i = 0; i < 4; i++) graft_free(c->in[i]);
    for (int i = 0; i < 2; i++) {
        graft_free(c->hint[i]);
        graft_free(c->features[i]);
    }
    for (int i = 0; i < c->count; i++) graft_free(c->residual[i]);
    graft_free(c->embedded);
}

static graft_status allocate(steered_case *c, const graft_st_tensor *x, graft_err *e)
{
    graft_backend *backend;
    int64_t dim[4];
    graft_status st = graft_options_resolve(c->g->engine, &c->m->options, &backend, &c->dtype, e);
    if (st) return st;
    const graft_net_shape shape = {.batch = x->shape[0],
                                   .height = x->shape[2],
                                   .width = x->shape[3],
                                   .tokens = c->use.tokens,
                                   .control = 1,
                                   .steered = c->use.steered};
    const int count = graft_net_residuals(&c->m->arch, &shape);
    for (; c->count < count; c->count++) {
        graft_net_residual_shape(&c->m->arch, &shape, c->count, dim);
        c->values[c->count] = (size_t)(dim[0] * dim[1] * dim[2] * dim[3]);
        c->residual[c->count] = graft_calloc(c->values[c->count], graft_dtype_size(c->dtype));
        if (!c->residual[c->count]) return graft_fail_nomem(e, "residuals");
    }
    graft_net_features_shape(&c->m->arch, &shape, dim);
    const size_t bytes = (size_t)(dim[0] * dim[1] * dim[2] * dim[3]) * graft_dtype_size(c->dtype);
    for (int i = 0; i < 2; i++) c->features[i] = graft_malloc(bytes);
    c->embedded = graft_malloc(bytes);
    return c->features[0] && c->features[1] && c->embedded ? GRAFT_OK
                                                           : graft_fail_nomem(e, "features");
}

static graft_status take_case(steered_case *c, graft_err *e)
{
    static const char *const names[6] = {"x", "timesteps", "context", "y", "hint", "hint2"};
    const graft_st_tensor *x = golden_case(c->f, c->k, "x");
    const graft_st_tensor *context = golden_case(c->f, c->k, "context");
    const graft_st_tensor *hint = golden_case(c->f, c->k, "hint");
    const graft_st_tensor *types = golden_case(c->f, c->k, "types");
    const graft_control link = {.net = c->n};
    for (int i = 0; i < 6; i++) {
        const graft_st_tensor *t = golden_case(c->f, c->k, names[i]);
        float *v = t ? golden_copy(t) : NULL;
        if (i == 3 && !c->m->arch.adm_channels) {
            graft_free(v);
            continue;
        }
        if (!v) return graft_fail(e, GRAFT_E_FORMAT, "case %d has no %s", c->k, names[i]);
        *(i < 4 ? &c->in[i] : &c->hint[i - 4]) = v;
    }
    if (c->all && !golden_count_tokens(&c->m->arch, context, c->all, c->in))
        return graft_fail_nomem(e, "a case");
    c->n_in = c->in[3] ? 4 : 3;
    if (c->n->arch.types && (!types || types->dtype != GRAFT_I32 || golden_count(types) != 2))
        return graft_fail(e, GRAFT_E_FORMAT, "case %d has no types", c->k);
    if (c->n->arch.types) memcpy(c->mode, types->data, sizeof c->mode);
    c->use = (graft_unet_use){.control = true,
                              .steered = graft_control_steered(c->m, &link),
                              .pictures = hint->shape[0],
                              .entries = x->shape[0] / hint->shape[0],
                              .height = x->shape[2],
                              .width = x->shape[3],
                              .tokens = c->all ? c->all : context->shape[1]};
    c->sparse = graft_control_sparse(&c->n->arch);
    return allocate(c, x, e);
}

static graft_status run_hints(steered_case *c, graft_err *e)
{
    graft_binding *b = NULL;
    graft_status st = graft_control_bind_hint(c->m, c->n, c->use.pictures, &c->use, NULL, &b, e);
    for (int i = 0; i < 2 && !st; i++)
        st = graft_exe_run(b, c->g->engine->arenas, (const void *[]){c->hint[i]},
                           (void *[]){c->features[i]}, NULL, NULL, e);
    graft_binding_release(b);
    if (st || !graft_control_embeds(c->n)) return st;
    b = NULL;
    st = graft_control_bind_embed(c->m, &c->use, NULL, &b, e);
    if (!st)
        st = graft_exe_run(b, c->g->engine->arenas, (const void *[]){c->in[0]},
                           (void *[]){c->embedded}, NULL, NULL, e);
    graft_binding_release(b);
    return st;
}

static size_t bytes_of(const steered_case *c, int i)
{
    return c->values[i] * graft_dtype_size(c->dtype);
}

/* Residuals on their way in and out, in the order of control_zimage.h where it is sparse. */
static void take_residuals(const steered_case *c, bool more, graft_control_stage stage,
                           const void **in, size_t *n_in, void **out)
{
    const int first = graft_steered_count(&c->use.steered, 0);
    const bool second = stage == GRAFT_CONTROL_SECOND_PART;
    const int end = stage == GRAFT_CONTROL_FIRST_PART ? first : c->count;
    size_t n = 0;
    for (int i = 0; i < end; i++) {
        if (more || c->sparse) in[(*n_in)++] = c->residual[i];
        if (!second || i >= first) out[n++] = c->residual[i];
    }
}

/* Hint `which` at this strength, alone or on top of what is there, of its type or told none. */
static graft_status run_net(steered_case *c, int which, float strength, bool more, bool told,
                            graft_control_stage stage, graft_err *e)
{
    const void *in[8 + GRAFT_NET_RESIDUALS];
    void *out[GRAFT_NET_RESIDUALS];
    const int parts = graft_control_parts(c->m, c->n);
    graft_binding *b = NULL;
    size_t n = c->n_in;
    memset(c->n->type, 0, sizeof c->n->type);
    c->n->told = c->n->arch.types && told;
    if (c->n->told != 0) c->n->type[c->mode[which] % c->n->arch.types] = 1;
    memcpy(in, c->in, sizeof c->in);
    if (graft_control_embeds(c->n)) in[0] = c->embedded;
    in[n++] = c->features[which];
    in[n++] = &strength;
    if (c->n->told != 0) in[n++] = c->n->type;
    for (int i = 0; i < c->count && c->sparse && !more; i++)
        memset(c->residual[i], 0, bytes_of(c, i));
    take_residuals(c, more, stage, in, &n, out);
    graft_status st =
        graft_control_bind(c->m, c->n, more || c->sparse ? parts : 0, stage, &c->use, NULL, &b, e);
    if (!st) st = graft_exe_run(b, c->g->engine->arenas, in, out, NULL, NULL, e);
    graft_binding_release(b);
    return st;
}

/* Both hints at these strengths. */
static graft_status run_two(steered_case *c, float first, float second, graft_err *e)
{
    const bool staged = c->n->arch.refining != GRAFT_CONTROL_REFINES_HINT;
    const graft_control_stage stage = staged ? GRAFT_CONTROL_FIRST_PART : GRAFT_CONTROL_AT_ONCE;
    graft_status st = run_net(c, 0, first, false, true, stage, e);
    if (!st) st = run_net(c, 1, second, true, true, stage, e);
    if (!st && staged) st = run_net(c, 0, first, true, true, GRAFT_CONTROL_SECOND_PART, e);
    if (!st && staged) st = run_net(c, 1, second, true, true, GRAFT_CONTROL_SECOND_PART, e);
    return st;
}

static graft_status check_residuals(steered_case *c, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (int i = 0; i < c->count && !st; i++) {
        char name[64];
        size_t given = 0;
        snprintf(name, sizeof name, "case%d.residual.%d", c->k, i);
        float *want = golden_read(c->f, name, &given);
        float *got = graft_malloc_array(c->values[i], sizeof *got);
        if (!want || !got || given != c->values[i]) {
            st = graft_fail(e, GRAFT_E_FORMAT, "%s is missing or has another size", name);
        } else {
            graft_to_f32(c->dtype, c->residual[i], got, given);
            golden_note_model(c->g, name, golden_error(got, want, given));
        }
        graft_free(want);
        graft_free(got);
    }
    return st;
}

static graft_status check_output(const steered_case *c, const char *name, bool control,
                                 graft_err *e)
{
    const void *in[4 + GRAFT_NET_RESIDUALS];
    graft_unet_use use = c->use;
    graft_binding *b = NULL;
    size_t n = c->n_in;
    memcpy(in, c->in, sizeof c->in);
    for (int i = 0; i < c->count && control; i++) in[n++] = c->residual[i];
    if (!control) use.control = false, use.steered = (graft_steered){{0}};
    graft_status st = graft_model_bind_guided(c->m, &use, NULL, &b, e);
    if (!st) st = golden_check_run(c->g, c->f, c->k, name, b, in, e);
    graft_binding_release(b);
    return st;
}

static graft_status run_case(steered_case *c, graft_err *e)
{
    graft_status st;
    GRAFT_TRY(take_case(c, e));
    GRAFT_TRY(run_hints(c, e));
    GRAFT_TRY(run_net(c, 0, 1.0f, false, true, GRAFT_CONTROL_AT_ONCE, e));
    GRAFT_TRY(check_residuals(c, e));
    GRAFT_TRY(check_output(c, "output", false, e));
    GRAFT_TRY(check_output(c, "output_1.0", true, e));
    GRAFT_TRY(run_two(c, 1.0f, 0.6f, e));
    GRAFT_TRY(check_output(c, "output_two", true, e));
    GRAFT_TRY(run_net(c, 0, 0.6f, false, true, GRAFT_CONTROL_AT_ONCE, e));
    GRAFT_TRY(check_output(c, "output_0.6", true, e));
    if (!c->n->arch.types) goto out;
    GRAFT_TRY(run_net(c, 0, 1.0f, false, false, GRAFT_CONTROL_AT_ONCE, e));
    GRAFT_TRY(check_output(c, "output_auto", true, e));
out:
    finish(c);
    return st;
}

graft_status golden_control_transformer(golden *g, const char *path, graft_safetensors *f,
                                        graft_err *e)
{
    const char *config = graft_safetensors_metadata(f, "config"), *slash = strrchr(path, '/');
    graft_model m = {.engine = g->engine};
    graft_weights *file = NULL;
    graft_controlnet *n = NULL;
    char net[1024];
    snprintf(net, sizeof net, "%.*s/%s", slash ? (int)(slash - path) : 1, slash ? path : ".",
             graft_safetensors_metadata(f, "control"));
    graft_status st = graft_weights_create(f, &file, e);
    if (st) return st;
    golden_options(g, &m.options);
    GRAFT_TRY(graft_net_detect(f, "model.diffusion_model.", config, &m.arch, e));
    GRAFT_TRY(graft_weights_part(file, "model.diffusion_model.", &m.weights, e));
    GRAFT_TRY(m.arch.kind == GRAFT_NET_ZIMAGE ? graft_model_patch_load(g->engine, net, NULL, &n, e)
                                              : graft_controlnet_load(g->engine, net, NULL, &n, e));
    for (int k = 0; golden_case(f, k, "x"); k++) {
        steered_case c = {.g = g, .m = &m, .n = n, .f = f, .k = k};
        steered_case counted = {.g = g, .m = &m, .n = n, .f = f, .k = k, .all = GOLDEN_MANY};
        if (!graft_net_counts_tokens(&m.arch, 1)) GRAFT_TRY(run_case(&c, e));
        if (graft_net_counts_tokens(&m.arch, GOLDEN_MANY)) GRAFT_TRY(run_case(&counted, e));
    }
out:
    graft_controlnet_release(n);
    graft_weights_release(m.weights);
    graft_weights_release(file);
    return st;
}

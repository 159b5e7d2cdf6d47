/* ControlNets that run within Qwen-Image's network, each in a file of its own that metadata name.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/objects/control.h"
#include "tests/golden/golden.h"

enum { NETS = 2 };

typedef struct within_case {
    golden *g;
    graft_model *m; /* has what a run is with */
    graft_controlnet *net[NETS];
    const graft_safetensors *f;
    int k;
    graft_unet_use use;
    float *in[4];
    void *features[NETS];
} within_case;

static const struct run {
    const char *name;
    int nets; /* a bit for each */
    float strength[NETS];
} runs[] = {{"output", 0, {0}},
            {"output_1.0", 1, {1.0f}},
            {"output_0.6", 1, {0.6f}},
            {"output_inpaint", 2, {0, 1.0f}},
            {"output_two", 3, {1.0f, 0.6f}}};

static graft_status take_case(within_case *c, graft_err *e)
{
    static const char *const names[4] = {"x", "timesteps", "context", NULL};
    const graft_st_tensor *x = golden_case(c->f, c->k, "x");
    const graft_st_tensor *context = golden_case(c->f, c->k, "context");
    const graft_st_tensor *hint = golden_case(c->f, c->k, "hint");
    if (!context || !hint) return graft_fail(e, GRAFT_E_FORMAT, "case %d lacks something", c->k);
    c->use = (graft_unet_use){.pictures = hint->shape[0],
                              .entries = x->shape[0] / hint->shape[0],
                              .height = x->shape[2],
                              .width = x->shape[3],
                              .tokens = GOLDEN_MANY};
    c->in[0] = golden_x(c->f, c->k, &c->use);
    for (int i = 1; names[i]; i++) c->in[i] = golden_copy(golden_case(c->f, c->k, names[i]));
    const bool ok = c->in[0] && c->in[1] && c->in[2] &&
                    golden_count_tokens(&c->m->arch, context, GOLDEN_MANY, c->in);
    return ok ? GRAFT_OK : graft_fail_nomem(e, "a case");
}

static graft_status see_hint(within_case *c, int i, graft_err *e)
{
    const graft_st_tensor *t = golden_case(c->f, c->k, i ? "hint2" : "hint");
    float *values = t ? golden_copy(t) : NULL;
    graft_binding *b = NULL;
    graft_status st = values ? GRAFT_OK : graft_fail(e, GRAFT_E_FORMAT, "a hint is missing");
    if (!st) st = graft_control_bind_hint(c->m, c->net[i], c->use.pictures, &c->use, NULL, &b, e);
    if (!st && !(c->features[i] = graft_malloc((size_t)b->exe->output[0].bytes)))
        st = graft_fail_nomem(e, "features");
    if (!st)
        st = graft_exe_run(b, c->g->engine->arenas, (const void *[]){values},
                           (void *[]){c->features[i]}, NULL, NULL, e);
    graft_binding_release(b);
    graft_free(values);
    return st;
}

static graft_status check(within_case *c, const struct run *r, graft_err *e)
{
    graft_control link[NETS] = {{0}};
    const void *in[4 + 2 * NETS] = {c->in[0], c->in[1], c->in[2], c->in[3]};
    graft_binding *b = NULL;
    size_t n = 4;
    c->m->within = NULL;
    for (int i = 0; i < NETS; i++) {
        if (!(r->nets >> i & 1)) continue;
        link[i] = (graft_control){.before = c->m->within, .net = c->net[i]};
        c->m->within = &link[i];
        in[n++] = c->features[i];
        in[n++] = &r->strength[i];
    }
    c->use.within = r->nets != 0;
    graft_status st = graft_model_bind_guided(c->m, &c->use, NULL, &b, e);
    if (!st) st = golden_check_run(c->g, c->f, c->k, r->name, b, in, e);
    graft_binding_release(b);
    c->m->within = NULL;
    return st;
}

static graft_status run_case(within_case *c, graft_err *e)
{
    graft_status st = take_case(c, e);
    for (int i = 0; i < NETS && !st; i++) st = see_hint(c, i, e);
    for (size_t i = 0; i < sizeof runs / sizeof *runs && !st; i++) st = check(c, &runs[i], e);
    for (int i = 0; i < NETS; i++) graft_free(c->features[i]);
    for (int i = 0; i < 4; i++) graft_free(c->in[i]);
    return st;
}

static graft_status load_net(const golden *g, const char *path, const char *name,
                             graft_controlnet **out, graft_err *e)
{
    const char *slash = strrchr(path, '/');
    char net[1024];
    if (!name) return graft_fail(e, GRAFT_E_FORMAT, "metadata name no ControlNet");
    snprintf(net, sizeof net, "%.*s/%s", slash ? (int)(slash - path) : 1, slash ? path : ".", name);
    return graft_model_patch_load(g->engine, net, NULL, out, e);
}

graft_status golden_control_within(golden *g, const char *path, graft_safetensors *f, graft_err *e)
{
    static const char *const names[NETS] = {"within", "within_inpaint"};
    const char *config = graft_safetensors_metadata(f, "config");
    graft_model m = {.engine = g->engine};
    graft_weights *file = NULL;
    graft_controlnet *net[NETS] = {NULL, NULL};
    graft_status st = graft_weights_create(f, &file, e);
    if (st) return st;
    golden_options(g, &m.options);
    GRAFT_TRY(graft_net_detect(f, "model.diffusion_model.", config, &m.arch, e));
    GRAFT_TRY(graft_weights_part(file, "model.diffusion_model.", &m.weights, e));
    for (int i = 0; i < NETS; i++)
        GRAFT_TRY(load_net(g, path, graft_safetensors_metadata(f, names[i]), &net[i], e));
    for (int k = 0; golden_case(f, k, "x"); k++) {
        within_case c = {.g = g, .m = &m, .net = {net[0], net[1]}, .f = f, .k = k};
        GRAFT_TRY(run_case(&c, e));
    }
out:
    for (int i = 0; i < NETS; i++) graft_controlnet_release(net[i]);
    graft_weights_release(m.weights);
    graft_weights_release(file);
    return st;
}

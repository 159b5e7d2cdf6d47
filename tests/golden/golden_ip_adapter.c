/* UNets whose cross-attentions attend to pictures by an IP-Adapter, from the pictures on. */
#include <stdio.h>

#include "base/alloc.h"
#include "engine/models/detect/detect.h"
#include "engine/objects/sight.h"
#include "engine/prompts/vision.h"
#include "tests/golden/golden.h"

typedef struct nets {
    graft_weights *file;
    graft_model model;
    graft_vision vision;
    graft_ip_adapter adapter;
} nets;

static graft_status read_nets(const golden *g, graft_safetensors *f, nets *n, graft_err *e)
{
    *n = (nets){.model = {.engine = g->engine, .refs = 1},
                .vision = {.engine = g->engine},
                .adapter = {.engine = g->engine}};
    graft_status st = graft_weights_create(f, &n->file, e);
    if (st) return st;
    n->vision.weights = n->adapter.weights = n->file;
    golden_options(g, &n->model.options);
    golden_options(g, &n->vision.options);
    golden_options(g, &n->adapter.options);
    /* Whatever the model's is, as loaders have it. */
    snprintf(n->vision.options.precision, sizeof n->vision.options.precision, "f32");
    snprintf(n->adapter.options.precision, sizeof n->adapter.options.precision, "f32");
    st = graft_net_detect(f, "model.diffusion_model.", graft_safetensors_metadata(f, "config"),
                          &n->model.arch, e);
    if (!st) st = graft_weights_part(n->file, "model.diffusion_model.", &n->model.weights, e);
    if (!st) st = graft_vision_detect(f, "", &n->vision.arch, e);
    return st ? st : graft_ip_adapter_detect(f, &n->adapter.arch, e);
}

/* A batch of pictures; *out NULL where the case has none. */
static graft_status read_image(const graft_safetensors *f, int k, const char *name,
                               graft_image **out, graft_err *e)
{
    const graft_st_tensor *t = golden_case(f, k, name);
    *out = NULL;
    if (!t) return GRAFT_OK;
    float *v = golden_copy(t);
    if (!v) return graft_fail_nomem(e, "pictures");
    graft_status st = graft_image_from_data(v, t->shape, false, out, e);
    graft_free(v);
    return st;
}

static graft_status show(const nets *n, const graft_safetensors *f, int k, graft_model **out,
                         graft_err *e)
{
    graft_show_options o = {.vision = &n->vision, .end = 1};
    graft_image *image = NULL, *negative = NULL;
    graft_status st = GRAFT_OK;
    size_t count;
    char name[32];
    snprintf(name, sizeof name, "case%d.weight", k);
    float *weight = golden_read(f, name, &count);
    GRAFT_TRY(read_image(f, k, "image", &image, e));
    GRAFT_TRY(read_image(f, k, "negative", &negative, e));
    if (!image || !weight) {
        st = graft_fail(e, GRAFT_E_FORMAT, "case %d has no image or weight", k);
        goto out;
    }
    o.image = image;
    o.negative = negative;
    o.weight = (double)*weight;
    st = graft_model_show(&n->model, &n->adapter, &o, NULL, out, e);
out:
    graft_image_release(image);
    graft_image_release(negative);
    graft_free(weight);
    return st;
}

/* The graph's input as attended.h has it, of rows the first `positive` of which see the pictures;
 * (graft_free), or NULL. */
static float *attended(const graft_model *m, int64_t rows, int64_t positive)
{
    const graft_sight *s = m->seen[0].sight;
    graft_crossings c;
    graft_crossings_of(&m->arch.unet, &c);
    const int64_t all = 2 * s->tokens * graft_crossings_before(&c, c.n);
    float *v = graft_malloc_array((size_t)(all * rows), sizeof *v), *to = v;
    for (int64_t i = 0, at = 0; v && i < 2 * c.n; i++) {
        const int64_t n = s->tokens * c.channels[i / 2];
        for (int64_t r = 0; r < rows; r++)
            for (int64_t q = 0; q < n; q++)
                *to++ = s->data[r >= positive][at + q] * (i % 2 ? (float)m->seen[0].weight : 1.0f);
        at += n;
    }
    return v;
}

static graft_status run(golden *g, const graft_model *m, const graft_safetensors *f, int k,
                        graft_err *e)
{
    static const char *const names[4] = {"x", "timesteps", "context", "y"};
    const graft_st_tensor *x = golden_case(f, k, "x"), *words = golden_case(f, k, "context");
    const graft_st_tensor *count = golden_case(f, k, "positive");
    const void *in[5];
    float *own[5] = {0};
    graft_binding *b = NULL;
    graft_status st = GRAFT_OK;
    size_t n = 0;
    if (!words || !count || !golden_case(f, k, "timesteps"))
        return graft_fail(e, GRAFT_E_FORMAT, "case %d is not whole", k);
    const graft_unet_use use = {.pictures = x->shape[0],
                                .entries = 1,
                                .height = x->shape[2],
                                .width = x->shape[3],
                                .tokens = words->shape[1],
                                .attends = true};
    int32_t *positive = golden_tokens(count);
    for (int i = 0; i < 4; i++)
        if (golden_case(f, k, names[i])) {
            in[n] = own[n] = golden_copy(golden_case(f, k, names[i]));
            n++;
        }
    if (positive) own[n] = attended(m, x->shape[0], *positive);
    in[n] = own[n];
    st = graft_model_bind_guided(m, &use, NULL, &b, e);
    if (!st) st = golden_check_run(g, f, k, "output", b, in, e);
    graft_binding_release(b);
    for (size_t i = 0; i <= n; i++) graft_free(own[i]);
    graft_free(positive);
    return st;
}

graft_status golden_ip_adapter(golden *g, graft_safetensors *f, graft_err *e)
{
    nets n;
    graft_status st = read_nets(g, f, &n, e);
    for (int k = 0; golden_case(f, k, "x") && !st; k++) {
        graft_model *m = NULL;
        st = show(&n, f, k, &m, e);
        if (!st) st = run(g, m, f, k, e);
        graft_model_release(m);
    }
    graft_weights_release(n.model.weights);
    graft_weights_release(n.file);
    return st;
}

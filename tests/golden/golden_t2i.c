/* T2I-Adapters, from the picture on, as a run of sampling has their features. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/denoise/adapters.h"
#include "engine/models/detect/detect.h"
#include "engine/weights/values.h"
#include "tests/golden/golden.h"

enum { PICTURES = 2 }; /* of a case, each with an adapter of its own in the chain */
static const double strengths[PICTURES] = {1.0, 0.5};

/* A run's configuration, as far as adapters look at it. */
typedef struct t2i_case {
    golden *g;
    const graft_safetensors *f;
    int k;
    graft_model m;
    graft_sigma_table table;
    graft_controlnet net;
    graft_control chain[PICTURES];
    graft_cond *prompts; /* one */
    graft_guided_config c;
} t2i_case;

/* A UNet with places for the adapter's features: a level of two blocks for each, or of XL's the
 * first one half as wide and without a transformer, and the middle for the last one. */
static graft_unet_arch unet_for(const graft_t2i_arch *a)
{
    graft_unet_arch u = {.in_channels = 4, .model_channels = a->channels[0]};
    const bool xl = a->factor == 16;
    u.input[u.n_input++].channels = a->channels[0];
    for (int k = 0; k < a->n - xl; k++) {
        const graft_unet_block block = {.channels = a->channels[k], .transformer = k > 0 || !xl};
        if (k > 0) u.input[u.n_input++].down = 1;
        u.input[u.n_input++] = block;
        u.input[u.n_input++] = block;
    }
    return u;
}

static graft_status take_picture(t2i_case *c, int i, graft_err *e)
{
    const graft_st_tensor *t = golden_case(c->f, c->k, i ? "image2" : "image");
    graft_control *l = &c->chain[i];
    if (!t || t->rank != 4) return i ? GRAFT_OK : graft_fail(e, GRAFT_E_FORMAT, "no image");
    float *v = golden_copy(t);
    if (!v) return graft_fail_nomem(e, "image");
    *l = (graft_control){
        .before = i ? l - 1 : NULL, .net = &c->net, .strength = strengths[i], .start = 0, .end = 1};
    graft_status st = graft_image_from_data(v, t->shape, false, &l->hint, e);
    graft_free(v);
    if (st || i) return st;
    const int64_t shape[4] = {t->shape[0], 4, t->shape[1] / 8, t->shape[2] / 8};
    for (int k = 0; k < 4; k++) c->c.shape[k] = shape[k];
    return GRAFT_OK;
}

static graft_status check(t2i_case *c, int i, const void *data, const int64_t dim[4], graft_err *e)
{
    char name[64];
    const int64_t nchw[4] = {dim[0], dim[3], dim[1], dim[2]};
    const size_t n = (size_t)(dim[0] * dim[1] * dim[2] * dim[3]);
    graft_dtype dtype;
    graft_backend *backend;
    size_t given = 0;
    graft_status st = graft_options_resolve(c->g->engine, &c->m.options, &backend, &dtype, e);
    if (st) return st;
    snprintf(name, sizeof name, "case%d.%s.%d", c->k, c->chain[1].net ? "both" : "feature", i);
    float *want = golden_read(c->f, name, &given), *last = graft_malloc_array(n, sizeof *last);
    float *got = graft_malloc_array(n, sizeof *got);
    if (!want || !last || !got || given != n) {
        st = graft_fail(e, GRAFT_E_FORMAT, "%s is missing or has another size", name);
    } else {
        const size_t bytes = n * graft_dtype_size(dtype);
        graft_to_f32(dtype, data, last, n);
        if (memcmp(data, (const char *)data + bytes, bytes) != 0)
            st = graft_fail(e, GRAFT_E_INTERNAL, "%s: prompts have different features", name);
        golden_move_channels(last, got, nchw, false);
        golden_note_model(c->g, name, golden_error(got, want, n));
    }
    graft_free(want);
    graft_free(last);
    graft_free(got);
    return st;
}

/* As the first of two prompts has it; the second has the same. */
static graft_status compare(t2i_case *c, const graft_adapters *k, const graft_unet_use *use,
                            graft_err *e)
{
    const void *in[GRAFT_T2I_FEATURES];
    int32_t place[GRAFT_UNET_PLACES];
    size_t n = 0;
    graft_status st = GRAFT_OK;
    graft_unet_places(&c->m.arch.unet, place);
    graft_adapters_append(k, use, in, &n);
    if (n != (size_t)c->net.arch.t2i.n)
        return graft_fail(e, GRAFT_E_INTERNAL, "%zu features in place of %d", n, c->net.arch.t2i.n);
    for (size_t i = 0; i < n && !st; i++) {
        const graft_net_shape shape = {.batch = use->pictures,
                                       .height = use->height,
                                       .width = use->width,
                                       .adapted = use->adapted};
        int64_t dim[4];
        graft_unet_residual_shape(&c->m.arch.unet, &shape, place[i], dim);
        st = check(c, (int)i, in[i], dim, e);
    }
    return st;
}

static graft_status run_case(t2i_case *c, graft_err *e)
{
    graft_adapters *k = NULL;
    graft_status st;
    GRAFT_TRY(take_picture(c, 0, e));
    GRAFT_TRY(take_picture(c, 1, e));
    const graft_control *last = &c->chain[c->chain[1].net != NULL], *chains[2] = {last, last};
    const int64_t *s = c->c.shape;
    const graft_box whole = {.height = s[2], .width = s[3]};
    const graft_unet_use use = {.adapted = graft_control_features(last),
                                .pictures = s[0],
                                .entries = 2,
                                .height = s[2],
                                .width = s[3]};
    graft_backend *backend;
    graft_dtype dtype;
    GRAFT_TRY(graft_options_resolve(c->g->engine, &c->m.options, &backend, &dtype, e));
    GRAFT_TRY(graft_adapters_create(&c->c, chains, dtype, &k, e));
    GRAFT_TRY(graft_adapters_run(k, last, c->table.sigma[500], &whole, &use, 0, e));
    GRAFT_TRY(compare(c, k, &use, e));
out:
    graft_adapters_destroy(k);
    for (int i = 0; i < PICTURES; i++) {
        graft_image_release(c->chain[i].hint);
        c->chain[i] = (graft_control){0};
    }
    return st;
}

graft_status golden_t2i(golden *g, graft_safetensors *f, graft_err *e)
{
    t2i_case *c = graft_calloc(1, sizeof *c);
    graft_weights *file = NULL;
    graft_status st = graft_weights_create(f, &file, e);
    if (!st && !c) st = graft_fail_nomem(e, "T2I-Adapter case");
    if (st) goto out;
    c->g = g;
    c->f = f;
    c->m.engine = c->net.engine = g->engine;
    golden_options(g, &c->m.options);
    graft_sigma_table_init(&c->table, 0.00085, 0.012, false, false);
    GRAFT_TRY(graft_t2i_detect(f, graft_t2i_prefix(f), &c->net.arch.t2i, e));
    GRAFT_TRY(graft_weights_part(file, graft_t2i_prefix(f), &c->net.weights, e));
    c->m.weights = c->net.weights; /* the model's own are not asked for */
    const graft_unet_arch unet = unet_for(&c->net.arch.t2i);
    graft_net_of_unet(&unet, &c->m.arch);
    GRAFT_TRY(graft_control_check(&c->m, &c->net, e));
    GRAFT_TRY(
        graft_cond_create(1, 1, graft_calloc(1, sizeof(float)), 0, NULL, NULL, &c->prompts, e));
    c->c.model = &c->m;
    c->c.table = &c->table;
    c->c.positive = c->c.negative = c->prompts;
    for (c->k = 0; golden_case(f, c->k, "image"); c->k++) GRAFT_TRY(run_case(c, e));
out:
    if (c) {
        graft_cond_release(c->prompts);
        graft_weights_release(c->net.weights);
    }
    graft_weights_release(file);
    graft_free(c);
    return st;
}

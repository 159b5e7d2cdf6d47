/* The graph of one latent under several conditionings gives what the plain graph gives for rows
 * that repeat, and reads the latent once. */
#include <math.h>

#include "engine/models/unets/unet.h"
#include "tests/engine/fixture.h"

enum { H = 8, W = 8 };

static graft_engine *engine;
static uint32_t seed = 1;
static float tolerance; /* of the backend: a product of fewer rows may be summed in another order */

static float *random_floats(size_t n)
{
    float *v = calloc(n + 1, sizeof *v);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)(seed >> 8) * (2.0f / 16777216.0f) - 1.0f;
    }
    return v;
}

static graft_model *with_cache(const graft_model *m, bool outermost)
{
    const graft_deepcache_options o = {3, 0, 0, 0, 1000, "uniform", 0, outermost};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_deepcache(m, &o, &out, &e), &e);
    return out;
}

/* bound: the largest difference over the largest value. */
static void near(const float *a, const float *b, size_t n, float bound)
{
    float most = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmaxf(most, fabsf(a[i]));
        worst = a[i] == b[i] ? worst : fmaxf(worst, isnan(b[i]) ? INFINITY : fabsf(a[i] - b[i]));
    }
    CHECK(worst <= bound * most);
}

static size_t attention_rows(const graft_graph *g)
{
    size_t rows = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->node[i].op == GRAFT_OP_ATTENTION) rows += (size_t)g->value[g->node[i].out].dim[0];
    return rows;
}

/* Both graphs of `entries` conditionings of `pictures` latents on the same inputs. */
static void check(const graft_model *m, graft_variant variant, int64_t pictures, int64_t entries,
                  bool shares)
{
    graft_binding *b[2];
    graft_err e = GRAFT_ERR_INIT;
    int64_t rows = pictures * entries;
    size_t one = (size_t)(pictures * m->arch.in_channels * H * W), features = 0;
    size_t width = (size_t)m->arch.context_dim, adm = (size_t)m->arch.adm_channels;
    CHECK_OK(graft_model_bind_variant(m, variant, rows, H, W, TOKENS, NULL, &b[0], &e), &e);
    CHECK_OK(graft_model_bind_guided(m,
                                     &(graft_unet_use){.variant = variant,
                                                       .pictures = pictures,
                                                       .entries = entries,
                                                       .height = H,
                                                       .width = W,
                                                       .tokens = TOKENS},
                                     NULL, &b[1], &e),
             &e);
    const graft_graph *g = b[0]->exe->graph, *shared = b[1]->exe->graph;
    CHECK_INT(attention_rows(g) - attention_rows(shared), shares ? rows - pictures : 0);
    float *x = random_floats(one * (size_t)entries), *t = random_floats((size_t)rows);
    float *context = random_floats((size_t)rows * TOKENS * width);
    float *y = random_floats((size_t)rows * adm), *feature[2], *out[2];
    if (variant == GRAFT_FAST)
        features = (size_t)graft_gvalue_count(&g->value[g->input[g->n_inputs - 1]]);
    else if (variant == GRAFT_STORE)
        features = (size_t)graft_gvalue_count(&g->value[g->output[1]]);
    for (int64_t i = 1; i < entries; i++) memcpy(x + (size_t)i * one, x, one * sizeof *x);
    for (int64_t i = 0; i < rows; i++) t[i] = (float)(100 + 300 * (i % pictures));
    feature[0] = random_floats(features);
    feature[1] = calloc(features + 1, sizeof(float));
    memcpy(feature[1], feature[0], features * sizeof(float));
    for (int i = 0; i < 2; i++) {
        const void *in[5] = {x, t, context, adm ? y : feature[i], feature[i]};
        out[i] = random_floats(one * (size_t)entries);
        if (i && shares) /* none of the repeated ones is looked at */
            for (size_t k = one; k < one * (size_t)entries; k++) x[k] = NAN;
        CHECK_OK(
            graft_exe_run(b[i], engine->arenas, in, (void *[]){out[i], feature[i]}, NULL, NULL, &e),
            &e);
    }
    near(out[0], out[1], one * (size_t)entries, tolerance);
    near(feature[0], feature[1], features, tolerance);
    CHECK(out[0][0] == out[0][0] && out[0][0] != out[0][one]);
    float *all[] = {x, t, context, y, feature[0], feature[1], out[0], out[1]};
    for (int i = 0; i < 8; i++) free(all[i]);
    graft_binding_release(b[0]);
    graft_binding_release(b[1]);
}

static void equals_the_plain_graph(void)
{
    graft_model *m = load_model(engine, SD1), *c = with_cache(m, false), *o = with_cache(m, true);
    check(m, GRAFT_WHOLE, 1, 2, true);
    check(m, GRAFT_WHOLE, 2, 3, true);
    check(c, GRAFT_STORE, 1, 2, true);
    check(c, GRAFT_STORE, 3, 2, true);
    check(c, GRAFT_FAST, 1, 2, true);
    check(c, GRAFT_FAST, 2, 3, true);
    check(o, GRAFT_STORE, 2, 2, true);
    check(o, GRAFT_FAST, 2, 3, false); /* only the first convolution is shared */
    graft_model_release(o);
    graft_model_release(c);
    graft_model_release(m);
}

/* Rows that differ in y share nothing; one conditioning is the plain graph. */
static void nothing_to_share(void)
{
    graft_model *sd = load_model(engine, SD1), *xl = load_model(engine, SDXL);
    graft_err e = GRAFT_ERR_INIT;
    graft_binding *a, *b;
    check(xl, GRAFT_WHOLE, 1, 2, false);
    CHECK_OK(graft_model_bind(sd, 2, H, W, TOKENS, NULL, &a, &e), &e);
    CHECK_OK(graft_model_bind_guided(sd,
                                     &(graft_unet_use){.variant = GRAFT_WHOLE,
                                                       .pictures = 2,
                                                       .entries = 1,
                                                       .height = H,
                                                       .width = W,
                                                       .tokens = TOKENS},
                                     NULL, &b, &e),
             &e);
    CHECK(a->exe == b->exe);
    graft_binding_release(a);
    graft_binding_release(b);
    graft_model_release(sd);
    graft_model_release(xl);
}

int main(void)
{
    engine = make_engine("ref");
    RUN(equals_the_plain_graph);
    RUN(nothing_to_share);
    graft_engine_destroy(engine);
    engine = make_engine("cpu");
    tolerance = 1e-5f;
    RUN(equals_the_plain_graph);
    graft_engine_destroy(engine);
    return test_end();
}

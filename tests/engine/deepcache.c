/* DeepCache: where it cuts, when it refreshes, and that no run sees another's features. */
#include <pthread.h>

#include "base/alloc.h"
#include "engine/denoise/denoise.h"
#include "engine/denoise/features.h"
#include "engine/passes/passes.h"
#include "tests/engine/fixture.h"

static graft_engine *engine;
static graft_cond *positive, *negative;

/* ------------------------------------------------------------------ schedule */

static void plan_is(graft_deepcache d, size_t total, const char *want)
{
    uint8_t step[64];
    char text[65] = "";
    graft_deepcache_plan(&d, total, step);
    for (size_t i = 0; i < total; i++) text[i] = ".RF"[step[i]], text[i + 1] = 0;
    CHECK_STR(text, want);
}

static void uniform_steps(void)
{
    graft_deepcache d = {.interval = 3, .end = 1000};
    plan_is(d, 10, "R..R..R..R");
    plan_is(d, 1, "R");
    d.start = 4;
    plan_is(d, 10, "FFFFR..R..");
    d.end = 7;
    plan_is(d, 10, "FFFFR..FFF");
    d.end = 4;
    plan_is(d, 10, "FFFFFFFFFF");
    d.end = 2;
    plan_is(d, 10, "FFFFFFFFFF");
    d.start = 20, d.end = 30;
    plan_is(d, 10, "FFFFFFFFFF");
    d.start = 9;
    plan_is(d, 10, "FFFFFFFFFR");
    d = (graft_deepcache){.interval = 1, .end = 1000};
    plan_is(d, 4, "FFFF");
    d.interval = 1000;
    plan_is(d, 6, "R.....");
    d.interval = INT64_MAX;
    for (d.quadratic = 0; d.quadratic < 2; d.quadratic++) plan_is(d, 6, "R.....");
}

/* As many refreshes as uniform, the first step among them, densest before the middle. */
/* Adaptive samplers take more steps than the schedule has; the window holds for those, too. */
static void steps_beyond_the_schedule(void)
{
    const graft_deepcache d = {.interval = 3, .start = 6, .end = 11};
    const float x = 1;
    graft_features *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_features_create(&d, 4, 1, 1, &f, &e), &e);
    for (size_t i = 0; f && i < 14; i++) {
        graft_features_step(f, i);
        graft_features_call(f, &x);
        bool fast = i == 7 || i == 8 || i == 10;
        CHECK_INT(graft_features_fast(f, 0), fast);
        if (!fast) CHECK_OK(graft_features_store(f, 0, GRAFT_F32, &x, sizeof x, &e), &e);
    }
    graft_features_destroy(f);
}

static void quadratic_steps(void)
{
    for (int64_t interval = 2; interval <= 12; interval++)
        for (size_t total = 1; total <= 60; total++)
            for (int64_t start = 0; start < (int64_t)total; start += 7) {
                uint8_t step[64];
                graft_deepcache d = {interval, start, 1000, 2, 1, 0};
                graft_deepcache_plan(&d, total, step);
                int64_t n = 0, length = (int64_t)total - start;
                for (size_t i = (size_t)start; i < total; i++) n += step[i] == GRAFT_STEP_REFRESH;
                CHECK_INT(n, (length + interval - 1) / interval);
                CHECK_INT(step[start], GRAFT_STEP_REFRESH);
            }
    uint8_t step[50];
    graft_deepcache d = {5, 0, 1000, 2, 1, 0};
    graft_deepcache_plan(&d, 50, step);
    int64_t near = 0, far = 0;
    for (int i = 10; i < 20; i++) near += step[i] == GRAFT_STEP_REFRESH;
    for (int i = 40; i < 50; i++) far += step[i] == GRAFT_STEP_REFRESH;
    CHECK(near > far);
    CHECK(far >= 1);
}

/* ------------------------------------------------------------------ the cut */

enum { OUTERMOST = -1 }; /* in the place of a level */

/* The plain UNet cut without any help of unet.c: what enters its concat number k as an output, or
 * replaced by an input. */
static graft_graph *cut_plain(const graft_unet_arch *a, int64_t batch, int64_t h, int64_t w, int k,
                              bool fast)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_graph *g = NULL;
    graft_net_shape shape = {
        .batch = batch, .height = h, .width = w, .tokens = TOKENS, .act_dtype = GRAFT_F32};
    CHECK_OK(graft_unet_build(a, &shape, &g, &e), &e);
    for (size_t i = 0; i < g->n_nodes; i++) {
        if (g->node[i].op != GRAFT_OP_CONCAT || k--) continue;
        graft_vid feature = g->node[i].in[0];
        if (fast) {
            const graft_gvalue v = g->value[feature];
            g->node[i].in[0] = graft_graph_input(g, GRAFT_F32, v.rank, v.dim);
        } else {
            graft_graph_output(g, feature);
        }
        break;
    }
    CHECK_OK(graft_passes_run(g, &e), &e);
    return g;
}

typedef struct unet_io {
    float *x, *t, *context, *y, *feature, *out;
    size_t n_out, n_feature;
} unet_io;

static float *random_floats(size_t n)
{
    float *v = calloc(n + 1, sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = random_value();
    return v;
}

static size_t value_count(const graft_graph *g, graft_vid v)
{
    return (size_t)graft_gvalue_count(&g->value[v]);
}

static void run_graph(const graft_binding *b, unet_io *io, bool fast, const graft_unet_arch *a)
{
    graft_err e = GRAFT_ERR_INIT;
    const void *in[5] = {io->x, io->t, io->context, a->adm_channels ? io->y : io->feature,
                         io->feature};
    void *out[2] = {io->out, io->feature};
    CHECK_INT(b->exe->graph->n_inputs, 3 + (a->adm_channels > 0) + fast);
    CHECK_OK(graft_exe_run(b, engine->arenas, in, out, NULL, NULL, &e), &e);
}

static graft_model *cached(const graft_model *m, graft_deepcache_options o)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    if (!o.schedule) o.schedule = "uniform";
    CHECK_OK(graft_model_deepcache(m, &o, &out, &e), &e);
    return out;
}

/* Both variants of this cut equal the plain UNet cut before its concat k. Level OUTERMOST: the cut
 * that no ids have; then they are not looked at. */
static void check_cut(const char *path, int64_t level, int64_t block, int k, int64_t h, int64_t w)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *plain = load_model(engine, path);
    graft_model *m = cached(
        plain, (graft_deepcache_options){3, level, block, 0, 1000, NULL, 0, level == OUTERMOST});
    const graft_unet_arch *a = &m->arch.unet;
    size_t side = (size_t)(h * w) * 4;
    unet_io io = {random_floats(2 * side),
                  random_floats(2),
                  random_floats(2 * TOKENS * (size_t)a->context_dim),
                  random_floats(2 * (size_t)a->adm_channels),
                  NULL,
                  NULL,
                  2 * side,
                  0};
    io.t[0] = 500, io.t[1] = 20;
    unet_io other = io;
    for (int fast = 0; fast < 2; fast++) {
        graft_binding *own = NULL, *b = NULL;
        graft_exe *x = NULL;
        graft_variant variant = fast ? GRAFT_FAST : GRAFT_STORE;
        CHECK_OK(graft_model_bind_variant(m, variant, 2, h, w, TOKENS, NULL, &own, &e), &e);
        graft_graph *g = cut_plain(a, 2, h, w, k, fast);
        CHECK_OK(graft_exe_create(g, own->exe->backend, NULL, NULL, &x, &e), &e);
        CHECK_OK(graft_binding_create(x, m->weights, engine->packs, NULL, NULL, &b, &e), &e);
        size_t n = fast ? value_count(g, g->input[g->n_inputs - 1]) : value_count(g, g->output[1]);
        if (!fast) {
            io.n_feature = n;
            io.feature = random_floats(n), other.feature = random_floats(n);
            io.out = random_floats(io.n_out), other.out = random_floats(io.n_out);
        }
        const graft_graph *og = own->exe->graph;
        graft_vid feature = fast ? og->input[og->n_inputs - 1] : og->output[1];
        CHECK_INT(value_count(og, feature), n);
        CHECK_INT(n, io.n_feature);
        if (fast) /* any feature will do, and not only the one that fits this state */
            for (size_t i = 0; i < n; i++) io.feature[i] = other.feature[i] = random_value();
        run_graph(own, &io, fast, a);
        run_graph(b, &other, fast, a);
        CHECK(memcmp(io.out, other.out, io.n_out * sizeof(float)) == 0);
        CHECK(memcmp(io.feature, other.feature, n * sizeof(float)) == 0);
        CHECK(io.out[0] == io.out[0] && io.out[0] != 0);
        graft_binding_release(own);
        graft_binding_release(b);
        graft_exe_release(x);
    }
    float *all[] = {io.x, io.t, io.context, io.y, io.feature, io.out, other.feature, other.out};
    for (int i = 0; i < 8; i++) free(all[i]);
    graft_model_release(m);
    graft_model_release(plain);
}

/* The demo model: 0 conv, 1 and down 2 (level 0), 3 and down 4 (level 1), 5 (level 2). The last
 * concat is what the first convolution enters. */
static void cuts_where_it_says(void)
{
    static const struct {
        int64_t level, block;
        int concat;
    } cuts[] = {{OUTERMOST, 99, 5}, {0, 0, 4}, {0, 1, 3}, {1, 0, 2}, {1, 1, 1}, {2, 0, 0}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        check_cut(DEMO, cuts[i].level, cuts[i].block, cuts[i].concat, 8, 8);
    check_cut(DEMO, 0, 1, 3, 10, 6); /* an odd size below */
    check_cut(DEMO, 1, 1, 1, 6, 10);
    check_cut(DEMO, OUTERMOST, 0, 5, 10, 6);
    check_cut(SD1, OUTERMOST, 0, 3, 8, 8);
    check_cut(SDXL, OUTERMOST, 0, 3, 8, 8);
    check_cut(SD1, 0, 0, 2, 8, 8);
    check_cut(SD1, 0, 1, 1, 8, 8);
    check_cut(SD1, 1, 0, 0, 8, 8);
    check_cut(SDXL, 0, 0, 2, 8, 8);
    check_cut(PRUNED_ONE, OUTERMOST, 0, 5, 8, 8);
    check_cut(PRUNED_ONE, 1, 1, 0, 8, 8);
    check_cut(PRUNED_NONE, OUTERMOST, 0, 3, 8, 8);
    check_cut(PRUNED_NONE, 1, 0, 0, 8, 8);
}

static void cut_of_known_models(void)
{
    graft_unet_arch a = {.n_input = 12, .n_output = 12};
    a.input[3].down = a.input[6].down = a.input[9].down = 1; /* SD 1.5 */
    int32_t cut = -1;
    graft_err e = GRAFT_ERR_INIT;
    static const int want[4][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, -1}};
    for (int level = 0; level < 4; level++)
        for (int block = 0; block < 3; block++) {
            if (want[level][block] < 0) continue;
            CHECK_OK(graft_unet_cut(&a, level, block, &cut, &e), &e);
            CHECK_INT(cut, want[level][block]);
        }
    CHECK_INT(graft_unet_cut(&a, 3, 2, &cut, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "cache_block_id 2") && strstr(e.text, "0 to 1"));
    CHECK_INT(graft_unet_cut(&a, 4, 0, &cut, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "cache_layer_id 4") && strstr(e.text, "0 to 3"));
    CHECK_INT(graft_unet_cut(&a, -1, 0, &cut, &e), GRAFT_E_ARG);
    CHECK_INT(graft_unet_cut(&a, 0, -1, &cut, &e), GRAFT_E_ARG);
    CHECK_INT(graft_unet_cut(&a, INT64_MAX, INT64_MAX, &cut, &e), GRAFT_E_ARG);
}

static void bad_options(void)
{
    graft_model *m = load_model(engine, DEMO);
    const graft_deepcache_options good = {3, 0, 1, 0, 1000, "uniform", 0, false};
    graft_deepcache_options bad[8];
    for (int i = 0; i < 8; i++) bad[i] = good;
    bad[0].cache_interval = 0;
    bad[1].cache_layer_id = 3;
    bad[2].cache_block_id = 2;
    bad[3].start_step = -1;
    bad[4].end_step = -1;
    bad[5].schedule = "cubic";
    bad[6].max_error = NAN;
    bad[7].max_error = 1.5;
    for (int i = 0; i < 8; i++) {
        graft_model *out = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(graft_model_deepcache(m, &bad[i], &out, &e), GRAFT_E_ARG);
        CHECK(!out && e.text[0]);
        graft_model_release(out);
    }
    graft_model_release(m);
}

/* ------------------------------------------------------------------ sampling */

enum { W = 6, H = 8, N = 4 * W * H };

typedef struct watch { /* counts model calls by the operators that they run */
    int cancel_at, steps;
} watch;

static void count_step(void *ctx, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    ((watch *)ctx)->steps++;
}
static bool stop(void *ctx)
{
    watch *w = ctx;
    return w->cancel_at && w->steps >= w->cancel_at;
}

static graft_cond *make_cond(int64_t tokens, int64_t width)
{
    graft_cond *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float *data = graft_malloc_array((size_t)(tokens * width), sizeof *data);
    for (int64_t i = 0; i < tokens * width; i++) data[i] = random_value();
    CHECK_OK(graft_cond_create(tokens, width, data, 0, NULL, NULL, &c, &e), &e);
    return c;
}

static graft_latent *start_latent(int64_t batch)
{
    static float data[4 * N];
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    uint64_t saved = random_state;
    random_state = 5;
    for (int64_t i = 0; i < batch * N; i++) data[i] = random_value();
    random_state = saved;
    CHECK_OK(graft_latent_from_data(data, (int64_t[]){batch, 4, H, W}, &l, &e), &e);
    return l;
}

typedef struct sampling {
    const char *sampler;
    int64_t steps;
    double denoise;
    const graft_cond *positive, *negative;
    int64_t batch;
} sampling;

/* The samples, batch*N values (free); NULL when it failed with `want`. */
static float *sample_watched(const graft_model *m, sampling s, watch *w, graft_status want)
{
    graft_latent *l = start_latent(s.batch ? s.batch : 1), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_task task = {
        .ctx = w, .progress = count_step, .cancelled = stop, .log = {NULL, keep_line}};
    graft_sample_params p = {.seed = 7,
                             .add_noise = true,
                             .steps = s.steps,
                             .cfg = 3,
                             .sampler = s.sampler ? s.sampler : "euler",
                             .scheduler = "normal",
                             .denoise = s.denoise > 0 ? s.denoise : 1,
                             .end_at_step = 10000};
    graft_status st =
        graft_sample(m, &p, s.positive ? s.positive : positive, s.negative ? s.negative : negative,
                     l, w ? &task : NULL, &out, &e);
    if (st != want) CHECK_OK(st, &e);
    float *copy = NULL;
    if (!st) {
        int64_t shape[4];
        const float *data = graft_latent_data(out, shape);
        size_t n = (size_t)(shape[0] * N);
        copy = malloc(n * sizeof *copy);
        memcpy(copy, data, n * sizeof *copy);
    }
    graft_latent_release(out);
    graft_latent_release(l);
    return copy;
}

static float *sample(const graft_model *m, sampling s)
{
    return sample_watched(m, s, NULL, GRAFT_OK);
}

/* Runs of whole (or storing) and of fast graphs since the last call. */
static void count_calls(uint64_t *full, uint64_t *fast)
{
    static uint64_t full_before, fast_before;
    graft_exe **list = NULL;
    size_t n = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_compiled_list(engine->compiled, &list, &n, &e), &e);
    uint64_t all[2] = {0, 0};
    for (size_t i = 0; i < n; i++) {
        bool is_fast = list[i]->graph->n_inputs == 4; /* the demo model has no y */
        all[is_fast] += atomic_load(&list[i]->times.runs);
    }
    graft_compiled_list_free(list, n);
    *full = all[0] - full_before;
    *fast = all[1] - fast_before;
    full_before = all[0];
    fast_before = all[1];
}

static bool equal(float *a, float *b)
{
    bool same = a && b && memcmp(a, b, N * sizeof *a) == 0;
    return same;
}

typedef struct expected {
    const char *sampler;
    graft_deepcache_options o;
    int64_t steps;
    uint64_t full, fast; /* model calls */
    bool as_plain;
} expected;

static void window_and_interval(void)
{
    static const expected cases[] = {
        {"euler", {1, 0, 1, 0, 1000, NULL, 0, false}, 6, 6, 0, true},
        {"euler", {3, 0, 1, 0, 1000, NULL, 0, false}, 7, 3, 4, false},
        {"euler", {3, 0, 1, 4, 1000, NULL, 0, false}, 8, 6, 2, false},
        {"euler", {2, 0, 1, 0, 4, NULL, 0, false}, 8, 6, 2, false},
        {"euler", {3, 0, 1, 6, 1000, NULL, 0, false}, 6, 6, 0, true},
        {"euler", {3, 0, 1, 3, 3, NULL, 0, false}, 6, 6, 0, true},
        {"euler", {1000, 0, 1, 0, 1000, NULL, 0, false}, 6, 1, 5, false},
        {"euler", {3, 0, 1, 0, 1000, "quadratic", 0, false}, 9, 3, 6, false},
        {"euler", {3, 0, 1, 0, 1000, NULL, 1e-9, false}, 6, 6, 0, true},
        {"euler", {3, 1, 0, 0, 1000, NULL, 0, false}, 6, 2, 4, false},
        {"euler", {3, 9, 9, 0, 1000, NULL, 0, true}, 7, 3, 4, false},
        {"euler", {3, 0, 0, 1, 5, "quadratic", 0, true}, 6, 4, 2, false},
        /* Steps, not calls, are counted: 2 of 5 steps refresh, each of their second calls is fast;
         * the last step of heun has one call. */
        {"heun", {3, 0, 1, 0, 1000, NULL, 0, false}, 5, 2, 7, false},
        {"heun", {1, 0, 1, 0, 1000, NULL, 0, false}, 5, 9, 0, true},
        {"heun", {3, 0, 1, 2, 4, NULL, 0, false}, 5, 2 * 2 + 1 + 1, 3, false},
        {"dpm_2", {3, 0, 1, 0, 1000, NULL, 0, false}, 5, 2, 7, false},
        {"dpmpp_2m", {3, 0, 1, 0, 1000, NULL, 0, false}, 6, 2, 4, false},
    };
    graft_model *m = load_model(engine, DEMO);
    uint64_t full, fast;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const expected *k = &cases[i];
        graft_model *c = cached(m, k->o);
        sampling s = {.sampler = k->sampler, .steps = k->steps};
        float *plain = sample(m, s);
        count_calls(&full, &fast);
        float *own = sample(c, s);
        count_calls(&full, &fast);
        if (full != k->full || fast != k->fast) printf("case %zu:\n", i);
        CHECK_INT(full, k->full);
        CHECK_INT(fast, k->fast);
        CHECK(equal(plain, own) == k->as_plain);
        /* One refresh in all is no good picture, but never nonsense. */
        CHECK(difference(own, plain, N) < (k->o.cache_interval < 10 ? 1.0 : 3.0));
        free(plain);
        free(own);
        graft_model_release(c);
    }
    graft_model_release(m);
}

static void window_without_steps_is_said(void)
{
    static const struct {
        int64_t interval, start, end, steps;
        const char *said;
    } cases[] = {
        {3, 3, 3, 4,
         "DeepCache reuses nothing in these 4 steps: its start_step is 3, its end_step 3"},
        {3, 3, 9, 4,
         "DeepCache reuses nothing in these 4 steps: its start_step is 3, its end_step 9"},
        {3, 2, 9, 4, ""},
        {3, 0, 9, 1, ""},
        {1, 3, 3, 4, ""}, /* turned off by who asked for it */
    };
    graft_model *m = load_model(engine, DEMO);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graft_model *c = cached(m, (graft_deepcache_options){.cache_interval = cases[i].interval,
                                                             .cache_block_id = 1,
                                                             .start_step = cases[i].start,
                                                             .end_step = cases[i].end});
        watch w = {0};
        last_log[0] = '\0';
        free(sample_watched(c, (sampling){.steps = cases[i].steps}, &w, GRAFT_OK));
        CHECK_STR(last_log, cases[i].said);
        graft_model_release(c);
    }
    graft_model_release(m);
}

/* A larger max_error lets more steps be fast, and never more than the schedule. */
static void drift_limit(void)
{
    static const double limits[] = {1e-9, 0.05, 0.1, 0.2, 0.4, 1};
    graft_model *m = load_model(engine, DEMO);
    uint64_t full, fast, last = 0, first = 99;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        graft_model *c =
            cached(m, (graft_deepcache_options){5, 0, 1, 0, 1000, NULL, limits[i], false});
        count_calls(&full, &fast);
        free(sample(c, (sampling){.steps = 15}));
        count_calls(&full, &fast);
        CHECK_INT(full + fast, 15);
        CHECK(fast >= last && full >= 3);
        if (i == 0) first = fast;
        last = fast;
        graft_model_release(c);
    }
    CHECK(first == 0 && last > 0);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ isolation */

/* A prompt twice over is the same to attention, which weighs each of its tokens half; but its
 * length keeps it out of the others' batch. So prompt and negative prompt run as one batch or as
 * two, and a feature that is given to the wrong one of them shows in the first case alone. */
static void prompts_keep_their_features(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_model *c = cached(m, (graft_deepcache_options){3, 0, 1, 0, 1000, NULL, 0, false});
    graft_cond *twice = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_concat(positive, positive, &twice, &e), &e);
    CHECK_INT(twice->entry[0]->tokens, 2 * TOKENS);
    float *batched = sample(c, (sampling){.steps = 6});
    float *split = sample(c, (sampling){.steps = 6, .positive = twice});
    float *other = sample(c, (sampling){.steps = 6, .positive = negative, .negative = positive});
    CHECK(difference(batched, split, N) < 1e-4);
    CHECK(difference(batched, other, N) > 1e-2);
    free(batched);
    free(split);
    free(other);
    graft_cond_release(twice);
    graft_model_release(c);
    graft_model_release(m);
}

/* What the engine makes of conditionings must not hang on the batches that they come to lie in. */
static void split_equals_batched(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_model *c = cached(m, (graft_deepcache_options){3, 0, 1, 1, 1000, NULL, 0, false});
    graft_cond *both = NULL, *long_one = make_cond(2 * TOKENS, m->arch.context_dim);
    graft_cond *three = NULL, *swapped = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_combine(positive, negative, &both, &e), &e);
    CHECK_OK(graft_cond_combine(both, long_one, &three, &e), &e);
    CHECK_OK(graft_cond_combine(long_one, both, &swapped, &e), &e);
    /* The order decides the batches: (a b)(c) and, with c first, (c)(a b). */
    float *one = sample(c, (sampling){.steps = 6, .positive = three});
    float *two = sample(c, (sampling){.steps = 6, .positive = swapped});
    CHECK(difference(one, two, N) < 1e-5);
    free(one);
    free(two);
    /* Two pictures in one batch are what each is alone. */
    float *pair = sample(c, (sampling){.steps = 6, .batch = 2});
    float *single = sample(c, (sampling){.steps = 6, .batch = 1});
    CHECK(equal(pair, single));
    free(pair);
    free(single);
    graft_cond_release(both);
    graft_cond_release(three);
    graft_cond_release(swapped);
    graft_cond_release(long_one);
    graft_model_release(c);
    graft_model_release(m);
}

/* D for each conditioning alone, in batches of one. */
static void denoise_alone(const graft_model *m, const graft_cond *cond, const float *x, float sigma,
                          float timestep, bool fast, float *feature, float *out)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_binding *b = NULL;
    float scaled[N], eps[N], scale = 1.0f / sqrtf(sigma * sigma + 1.0f);
    for (int i = 0; i < N; i++) scaled[i] = x[i] * scale;
    CHECK_OK(graft_model_bind_variant(m, fast ? GRAFT_FAST : GRAFT_STORE, 1, H, W,
                                      cond->entry[0]->tokens, NULL, &b, &e),
             &e);
    const void *in[4] = {scaled, &timestep, cond->entry[0]->data, feature};
    CHECK_OK(graft_exe_run(b, engine->arenas, in, (void *[]){eps, feature}, NULL, NULL, &e), &e);
    for (int i = 0; i < N; i++) out[i] = x[i] - eps[i] * sigma;
    graft_binding_release(b);
}

/* The whole run by hand, features kept apart by hand. */
static void run_by_hand(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_model *c = cached(m, (graft_deepcache_options){3, 0, 1, 1, 6, NULL, 0, false});
    const char *plan = "FR..R.FF";
    enum { STEPS = 8 };
    graft_sigma_table table;
    graft_err e = GRAFT_ERR_INIT;
    float sigmas[32], x[N], noise[N], d[2][N], *feature[2];
    size_t n_sigmas;
    feature[0] = calloc(1 << 16, sizeof(float));
    feature[1] = calloc(1 << 16, sizeof(float));
    graft_sigma_table_init(&table, c->beta_start, c->beta_end, false, false);
    CHECK_OK(graft_schedule_make(&table, "normal", STEPS, sigmas, 32, &n_sigmas, &e), &e);
    graft_latent *l = start_latent(1);
    int64_t shape[4];
    const float *data = graft_latent_data(l, shape);
    CHECK_OK(graft_noise_latent(7, shape, NULL, noise, &e), &e);
    float latent[N];
    for (int i = 0; i < N; i++) latent[i] = data[i] * (float)c->scale_factor;
    memcpy(x, noise, sizeof x);
    graft_guided_config config = {.model = c, .table = &table, .shape = {1, 4, H, W}};
    graft_guided_start(&config, sigmas[0], latent, x);
    for (int i = 0; i < STEPS; i++) {
        float s = sigmas[i], t = graft_sigma_to_timestep(&table, s);
        denoise_alone(c, positive, x, s, t, plan[i] == '.', feature[0], d[0]);
        denoise_alone(c, negative, x, s, t, plan[i] == '.', feature[1], d[1]);
        for (int k = 0; k < N; k++) {
            float den = d[1][k] + 3 * (d[0][k] - d[1][k]);
            x[k] += (x[k] - den) / s * (sigmas[i + 1] - s);
        }
    }
    for (int k = 0; k < N; k++) x[k] /= (float)c->scale_factor;
    float *own = sample(c, (sampling){.steps = STEPS});
    CHECK(difference(own, x, N) < 1e-5);
    free(own);
    free(feature[0]);
    free(feature[1]);
    graft_latent_release(l);
    graft_model_release(c);
    graft_model_release(m);
}

static void interrupted_then_other(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_model *c = cached(m, (graft_deepcache_options){3, 0, 1, 0, 1000, NULL, 0, false});
    sampling low = {.steps = 6, .denoise = 0.3};
    float *fresh = sample(c, low);
    watch w = {2, 0};
    CHECK(!sample_watched(c, (sampling){.steps = 8}, &w, GRAFT_E_CANCEL));
    CHECK(w.steps == 2);
    float *after = sample(c, low);
    CHECK(equal(fresh, after));
    free(fresh);
    free(after);
    graft_model_release(c);
    graft_model_release(m);
}

typedef struct job {
    const graft_model *m;
    sampling s;
    float *out;
} job;

static void *run_job(void *ctx)
{
    job *j = ctx;
    j->out = sample(j->m, j->s);
    return NULL;
}

static void two_queues(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_model *c = cached(m, (graft_deepcache_options){3, 0, 1, 0, 1000, NULL, 0.3, false});
    sampling a = {.steps = 8}, b = {.sampler = "heun", .steps = 5, .denoise = 0.6};
    float *alone[2] = {sample(c, a), sample(c, b)};
    job jobs[2] = {{c, a, NULL}, {c, b, NULL}};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) CHECK_INT(pthread_create(&thread[i], NULL, run_job, &jobs[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) {
        CHECK(equal(alone[i], jobs[i].out));
        free(alone[i]);
        free(jobs[i].out);
    }
    graft_model_release(c);
    graft_model_release(m);
}

/* A prompt whose time begins while steps are fast has no feature: it runs whole, the other does
 * not. */
static void late_prompt(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_model *c = cached(m, (graft_deepcache_options){1000, 0, 1, 0, 1000, NULL, 0, false});
    graft_cond *late = NULL, *both = NULL;
    graft_err e = GRAFT_ERR_INIT;
    uint64_t full, fast;
    CHECK_OK(graft_cond_timestep_range(negative, 0.5, 1, &late, &e), &e);
    CHECK_OK(graft_cond_combine(positive, late, &both, &e), &e);
    count_calls(&full, &fast);
    float *x = sample(c, (sampling){.steps = 8, .positive = both});
    count_calls(&full, &fast);
    CHECK_INT(full, 2);
    CHECK_INT(fast, 7);
    CHECK(x && x[0] == x[0]);
    free(x);
    graft_cond_release(late);
    graft_cond_release(both);
    graft_model_release(c);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ together with the rest */

static void shares_packs_and_order(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_packs_stats before, after;
    graft_model *m = load_model(engine, DEMO), *compiled = NULL, *after_it = NULL;
    graft_compile_options o = {"f32", "off", "auto", 0, false, false, W * 8, H * 8, 1};
    const graft_deepcache_options d = {3, 0, 1, 0, 1000, "uniform", 0, false};
    free(sample(m, (sampling){.steps = 2}));
    graft_packs_stats_get(engine->packs, &before);
    graft_model *c = cached(m, d);
    CHECK_OK(graft_model_compile(c, &o, NULL, &compiled, &e), &e);
    graft_packs_stats_get(engine->packs, &after);
    CHECK_INT(after.bytes, before.bytes);
    graft_compiled_stats built, then;
    graft_compiled_stats_get(engine->compiled, &built);
    float *one = sample(compiled, (sampling){.steps = 5});
    graft_compiled_stats_get(engine->compiled, &then);
    CHECK_INT(then.built, built.built); /* compiling made both graphs */
    graft_model_release(compiled);
    CHECK_OK(graft_model_compile(m, &o, NULL, &compiled, &e), &e);
    after_it = cached(compiled, d);
    float *two = sample(after_it, (sampling){.steps = 5});
    CHECK(equal(one, two));
    free(one);
    free(two);
    graft_model_release(after_it);
    graft_model_release(compiled);
    graft_model_release(c);
    graft_model_release(m);
}

static void allocation_failures(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_model *c = cached(m, (graft_deepcache_options){2, 0, 1, 0, 1000, NULL, 0.9, false});
    float *good = sample(c, (sampling){.steps = 3});
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    for (int64_t at = 1; at < 4000; at++) {
        graft_latent *l = start_latent(1), *out = NULL;
        graft_err e = GRAFT_ERR_INIT;
        graft_sample_params p = {7, true, 3, 3, "euler", "normal", 1, 0, 10000, false};
        graft_alloc_fail_at(at);
        graft_status st = graft_sample(c, &p, positive, negative, l, NULL, &out, &e);
        graft_alloc_stats_get(&after);
        graft_alloc_fail_at(0);
        bool done = st == GRAFT_OK;
        if (!done) CHECK_INT(st, GRAFT_E_NOMEM);
        int64_t shape[4];
        if (done) CHECK(memcmp(graft_latent_data(out, shape), good, N * sizeof *good) == 0);
        graft_latent_release(out);
        graft_latent_release(l);
        graft_alloc_stats_get(&after);
        CHECK_INT(after.live_blocks, before.live_blocks);
        if (done && at > 60) break; /* failures that cost nothing end in success, too */
    }
    free(good);
    graft_model_release(c);
    graft_model_release(m);
}

int main(void)
{
    RUN(uniform_steps);
    RUN(steps_beyond_the_schedule);
    RUN(quadratic_steps);
    RUN(cut_of_known_models);
    engine = make_engine("ref");
    if (!engine) return test_end();
    graft_model *m = load_model(engine, DEMO);
    positive = make_cond(TOKENS, m->arch.context_dim);
    negative = make_cond(TOKENS, m->arch.context_dim);
    graft_model_release(m);
    RUN(cuts_where_it_says);
    RUN(bad_options);
    RUN(window_and_interval);
    RUN(window_without_steps_is_said);
    RUN(drift_limit);
    RUN(prompts_keep_their_features);
    RUN(split_equals_batched);
    RUN(run_by_hand);
    RUN(interrupted_then_other);
    RUN(two_queues);
    RUN(late_prompt);
    RUN(shares_packs_and_order);
    RUN(allocation_failures);
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_engine_destroy(engine);
    return test_end();
}

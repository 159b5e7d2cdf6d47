/* PatchModelAddDownscale in sampling: in which steps it counts, what is compiled for it, and what
 * it goes with. What the UNet computes is held against PyTorch in tests/golden. */
#include "engine/models/parts/resize.h"
#include "tests/engine/control.h"
#include "tests/engine/regions.h"

enum { H = 12, W = 10, N = 4 * H * W };

static graft_engine *engine;

static graft_downscale_options options_of(double factor, double start, double end)
{
    return (graft_downscale_options){2, factor, start, end, true, "bicubic", "bicubic"};
}

static graft_model *downscaled(const graft_model *m, const graft_downscale_options *o)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_downscale(m, o, &out, &e), &e);
    return out;
}

static one_call call_of(const graft_model *m, const graft_cond *positive,
                        const graft_cond *negative)
{
    return (one_call){m, positive, negative, 4.0, {1, 4, H, W}, NULL, NULL, 0};
}

static void at(const one_call *c, float sigma, float *out)
{
    float x[N];
    graft_err e = GRAFT_ERR_INIT;
    noise_of(c, x);
    CHECK_OK(try_denoise_at(c, x, sigma, out, &e), &e);
}

/* The steps between start and end see a smaller picture, all others are the plain model's. */
static void in_its_range(void)
{
    static const char *const files[] = {SD1, SD2, SDXL};
    for (int f = 0; f < 3; f++) {
        graft_model *m = load_model(engine, files[f]);
        const graft_downscale_options o = options_of(2, 0.2, 0.6);
        graft_model *d = downscaled(m, &o);
        graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
        one_call plain = call_of(m, p, n), with = call_of(d, p, n);
        graft_sigma_table t;
        int counts[2] = {0, 0};
        graft_model_sigma_table(m, &t);
        for (float sigma = 14; sigma > 0.05f; sigma *= 0.5f) {
            float a[N], b[N];
            bool in = graft_sigma_in_range(&t, 0.2, 0.6, sigma);
            at(&plain, sigma, a);
            at(&with, sigma, b);
            CHECK((memcmp(a, b, sizeof a) == 0) == !in);
            for (int i = 0; i < N; i++) CHECK(isfinite(b[i]));
            counts[in]++;
        }
        CHECK(counts[0] > 2 && counts[1] > 1);
        graft_cond_release(p);
        graft_cond_release(n);
        graft_model_release(d);
        graft_model_release(m);
    }
}

/* A factor of 1 is none; the last node counts. */
static void the_last_one_counts(void)
{
    graft_model *m = load_model(engine, SD1);
    const graft_downscale_options half = options_of(2, 0, 1), none = options_of(1, 0, 1),
                                  third = options_of(3, 0, 1);
    graft_model *a = downscaled(m, &half), *b = downscaled(a, &none), *c = downscaled(a, &third),
                *d = downscaled(m, &third);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    const graft_model *const models[] = {m, a, b, c, d};
    float out[5][N];
    for (int i = 0; i < 5; i++) {
        one_call k = call_of(models[i], p, n);
        denoise(&k, out[i]);
    }
    CHECK(memcmp(out[0], out[2], sizeof out[0]) == 0);
    CHECK(memcmp(out[3], out[4], sizeof out[0]) == 0);
    CHECK(difference(out[1], out[0], N) > 1e-3 && difference(out[3], out[1], N) > 1e-3);
    graft_model *const all[] = {a, b, c, d, m};
    for (int i = 0; i < 5; i++) graft_model_release(all[i]);
    graft_cond_release(p);
    graft_cond_release(n);
}

/* Blocks, places of the skip connection and methods all matter; whatever the sizes are. */
static void every_number_matters(void)
{
    graft_model *m = load_model(engine, SD1);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    const graft_downscale_options o[] = {
        {1, 2, 0, 1, true, "bicubic", "bicubic"},       {2, 2, 0, 1, true, "bicubic", "bicubic"},
        {2, 2, 0, 1, false, "bicubic", "bicubic"},      {2, 2, 0, 1, true, "area", "bicubic"},
        {2, 2, 0, 1, true, "bicubic", "nearest-exact"}, {2, 1.7, 0, 1, true, "bicubic", "bicubic"},
        {2, 0.6, 0, 1, true, "bicubic", "bilinear"},    {3, 9, 0, 1, false, "bilinear", "area"}};
    enum { WAYS = sizeof o / sizeof *o };
    static float out[WAYS][N];
    for (int i = 0; i < WAYS; i++) {
        graft_model *d = downscaled(m, &o[i]);
        one_call k = call_of(d, p, n);
        denoise(&k, out[i]);
        for (int j = 0; j < i; j++) CHECK(difference(out[i], out[j], N) > 1e-4);
        graft_model_release(d);
    }
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ compiled ahead */

static void compiled_ahead(void)
{
    graft_model *m = load_model(engine, SD2);
    const graft_downscale_options o = options_of(2.5, 0, 0.5);
    graft_model *d = downscaled(m, &o);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    const graft_unet_use use = {
        .pictures = 1, .entries = 2, .height = H, .width = W, .tokens = TOKENS};
    graft_err e = GRAFT_ERR_INIT;
    float out[N];
    uint64_t before = graphs_built(engine);
    CHECK_OK(graft_model_prepare(d, &use, NULL, &e), &e);
    uint64_t both_there = graphs_built(engine);
    CHECK_INT(both_there, before + 1); /* the plain one is there */
    one_call k = call_of(d, p, n);
    at(&k, 14, out);
    at(&k, 0.1f, out);
    CHECK_INT(graphs_built(engine), both_there);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model_release(d);
    graft_model_release(m);
}

static graft_status sample(const graft_model *m, const graft_cond *p, const graft_cond *n,
                           bool ahead, graft_err *e)
{
    graft_latent *from = NULL, *to = NULL;
    const graft_task task = {.compile_only = ahead};
    const graft_sample_params k = {.seed = 1,
                                   .add_noise = true,
                                   .steps = 4,
                                   .cfg = 4,
                                   .sampler = "euler",
                                   .scheduler = "normal",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    CHECK_OK(graft_latent_empty(4, 88, 112, 1, &from, e), e); /* a size that no other test has */
    graft_status st = graft_sample(m, &k, p, n, from, &task, &to, e);
    graft_latent_release(from);
    if (!st) graft_latent_release(to);
    return st;
}

static void compiled_for_a_run(void)
{
    graft_model *m = load_model(engine, SD1);
    const graft_downscale_options o = options_of(2, 0, 0.5);
    graft_model *d = downscaled(m, &o);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, 2 * TOKENS);
    graft_err e = GRAFT_ERR_INIT;
    uint64_t before = graphs_built(engine);
    CHECK_OK(sample(d, p, n, true, &e), &e);
    uint64_t there = graphs_built(engine);
    CHECK_INT(there, before + 4); /* two lengths of prompts */
    CHECK_OK(sample(d, p, n, false, &e), &e);
    CHECK_INT(graphs_built(engine), there);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model_release(d);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ beside all else */

/* Inside of the range HyperTile's grids do not count, outside they do. */
static void with_hypertile(void)
{
    graft_model *m = load_model(engine, SD1), *tiled = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_hypertile_options tiles = {32, 1, 1, false};
    const graft_downscale_options o = options_of(2, 0, 0.5);
    CHECK_OK(graft_model_hypertile(m, &tiles, &tiled, &e), &e);
    graft_model *d = downscaled(m, &o), *tiled_d = downscaled(tiled, &o);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    const graft_model *const models[] = {m, tiled, d, tiled_d};
    float in[4][N], out[4][N];
    for (int i = 0; i < 4; i++) {
        one_call k = call_of(models[i], p, n);
        at(&k, 14, in[i]);
        at(&k, 0.1f, out[i]);
    }
    CHECK(memcmp(in[2], in[3], sizeof in[0]) == 0 && memcmp(in[0], in[1], sizeof in[0]) != 0);
    CHECK(memcmp(out[1], out[3], sizeof in[0]) == 0 && memcmp(out[0], out[2], sizeof in[0]) == 0);
    graft_model *const all[] = {m, tiled, d, tiled_d};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
    graft_cond_release(p);
    graft_cond_release(n);
}

/* The guidance by perturbed attention is linear in its scale, FreeU or not; an area of the whole
 * latent is no area; a batch has the pictures' own results. */
static void with_the_rest(void)
{
    graft_model *m = load_model(engine, SD1), *freed = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_freeu_options freeu = {2, 1.3, 1.4, 0.9, 0.2};
    const graft_downscale_options o = options_of(2, 0, 1);
    CHECK_OK(graft_model_freeu(m, &freeu, &freed, &e), &e);
    graft_model *d = downscaled(freed, &o);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    graft_cond *all = in_cells(graft_cond_retain(p), 0, 0, H, W, 2);
    graft_cond *part = in_cells(graft_cond_retain(p), 2, 1, 6, 7, 1);
    float v[3][N], whole[N], now[N];
    for (int i = 0; i < 3; i++) {
        graft_model *pag = NULL;
        CHECK_OK(graft_model_perturbed_attention(d, i, &pag, &e), &e);
        one_call k = call_of(pag, p, n);
        denoise(&k, v[i]);
        graft_model_release(pag);
    }
    CHECK(difference(v[1], v[0], N) > 1e-4);
    for (int i = 0; i < N; i++) v[1][i] = 2 * v[1][i] - v[0][i];
    CHECK(difference(v[2], v[1], N) < 2e-5);
    one_call k = call_of(d, p, n);
    denoise(&k, whole);
    k.positive = all;
    denoise(&k, now);
    CHECK(difference(now, whole, N) < 1e-5);
    k.positive = part;
    denoise(&k, now);
    CHECK(difference(now, whole, N) > 1e-3);
    graft_cond *const conds[] = {p, n, all, part};
    for (int i = 0; i < 4; i++) graft_cond_release(conds[i]);
    graft_model_release(d);
    graft_model_release(freed);
    graft_model_release(m);
}

/* EasyCache does not make an answer of the small picture's where the large one begins. */
static void with_easycache(void)
{
    graft_model *m = load_model(engine, SD1), *easy = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_easycache_options always = {3, 0, 1, false};
    const graft_downscale_options o = options_of(2, 0, 0.5);
    graft_model *d = downscaled(m, &o);
    CHECK_OK(graft_model_easycache(d, &always, &easy, &e), &e);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    graft_sigma_table t;
    graft_model_sigma_table(m, &t);
    graft_guided_config c = {.model = easy,
                             .table = &t,
                             .positive = p,
                             .negative = n,
                             .cfg = 4,
                             .shape = {1, 4, H, W},
                             .steps = 12};
    graft_guided *g = NULL;
    CHECK_OK(graft_guided_create(&c, &g, &e), &e);
    graft_denoiser den = graft_guided_denoiser(g);
    one_call plain = call_of(d, p, n);
    float x[N], out[N], want[N], sigma = 14;
    int same = 0, changes = 0;
    noise_of(&plain, x);
    for (int i = 0; i < 12; i++, sigma *= 0.7f) {
        bool change = i && graft_sigma_in_range(&t, 0, 0.5, sigma) !=
                               graft_sigma_in_range(&t, 0, 0.5, sigma / 0.7f);
        graft_guided_step(g, (size_t)i);
        CHECK_OK(den.denoise(den.ctx, x, sigma, out, &e), &e);
        CHECK_OK(try_denoise_at(&plain, x, sigma, want, &e), &e);
        bool whole = memcmp(out, want, sizeof out) == 0;
        CHECK(whole || !change);
        changes += change;
        same += whole;
        for (int k = 0; k < N; k++) x[k] = out[k] + (x[k] - out[k]) * 0.7f;
    }
    CHECK(changes == 1 && same < 12);
    graft_guided_destroy(g);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model *const all[] = {easy, d, m};
    for (int i = 0; i < 3; i++) graft_model_release(all[i]);
}

/* ------------------------------------------------------------------ refusals */

static void not_with_deepcache(void)
{
    graft_model *m = load_model(engine, SD1);
    const graft_downscale_options o = options_of(2, 0, 0.5);
    graft_model *d = downscaled(m, &o), *a = with_deepcache(d, 3, 0, 0), *c,
                *b = with_deepcache(m, 3, 0, 0);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    graft_err e = GRAFT_ERR_INIT;
    c = downscaled(b, &o);
    for (int ahead = 0; ahead < 2; ahead++) {
        CHECK_INT(sample(a, p, n, ahead, &e), GRAFT_E_UNSUPPORTED);
        CHECK(strstr(e.text, "does not work with DeepCache") != NULL);
        CHECK_INT(sample(c, p, n, ahead, &e), GRAFT_E_UNSUPPORTED);
    }
    graft_model *const all[] = {a, b, c, d, m};
    for (int i = 0; i < 5; i++) graft_model_release(all[i]);
    graft_cond_release(p);
    graft_cond_release(n);
}

static void not_with_controlnets(void)
{
    graft_model *m = load_model(engine, SD1);
    const graft_downscale_options o = options_of(2, 0, 0.5);
    graft_model *d = downscaled(m, &o);
    graft_err e = GRAFT_ERR_INIT;
    steered_prompts s =
        steered_by(m, place_prompt(m, 1, TOKENS), place_prompt(m, 2, TOKENS), H, 0, 1);
    for (int ahead = 0; ahead < 2; ahead++) {
        CHECK_INT(sample(d, s.with_p, s.n, ahead, &e), GRAFT_E_UNSUPPORTED);
        CHECK_INT(sample(d, s.p, s.with_n, ahead, &e), GRAFT_E_UNSUPPORTED);
        CHECK(strstr(e.text, "does not work with ControlNets") != NULL);
    }
    steered_release(&s);
    graft_model_release(d);
    graft_model_release(m);
}

static void bad_numbers(void)
{
    static const graft_downscale_options bad[] = {
        {0, 2, 0, 1, true, "bicubic", "area"},      {-1, 2, 0, 1, true, "bicubic", "area"},
        {2, 0.09, 0, 1, true, "bicubic", "area"},   {2, 9.1, 0, 1, true, "bicubic", "area"},
        {2, NAN, 0, 1, true, "bicubic", "area"},    {2, 2, -1, 1, true, "bicubic", "area"},
        {2, 2, 0, NAN, true, "bicubic", "area"},    {2, 2, 0, 1, true, "lanczos", "area"},
        {2, 2, 0, 1, true, "bicubic", "something"}, {99, 2, 0, 1, true, "bicubic", "area"}};
    graft_model *m = load_model(engine, SD1), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(graft_model_downscale(m, &bad[i], &out, &e), GRAFT_E_ARG);
    char want[64];
    snprintf(want, sizeof want, "input blocks 1 to %d", m->arch.unet.n_input - 1);
    CHECK(strstr(e.text, want) != NULL);
    graft_downscale_options o = options_of(2, 0, 1);
    o.block_number = m->arch.unet.n_input - 1;
    graft_model *last = downscaled(m, &o);
    o.up_method = "bislerp";
    CHECK_INT(graft_model_downscale(m, &o, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!out && strstr(e.text, "bislerp") != NULL);
    graft_model_release(last);
    graft_model_release(m);
}

/* Graphs of shapes that no model asks for. */
static void bad_shapes(void)
{
    graft_model *m = load_model(engine, SD1);
    const graft_net_shape shape = {.batch = 1,
                                   .height = H,
                                   .width = W,
                                   .tokens = TOKENS,
                                   .act_dtype = GRAFT_F32,
                                   .shrink = {.block = 2, .thousandths = 2000}};
    graft_net_shape wrong[4] = {shape, shape, shape, shape};
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    wrong[0].shrink.block = m->arch.unet.n_input;
    wrong[1].shrink.thousandths = 0;
    wrong[2].control = 1;
    wrong[3].shrink.up = GRAFT_RESIZE_BISLERP;
    for (int i = 0; i < 4; i++)
        CHECK_INT(graft_unet_build(&m->arch.unet, &wrong[i], &g, &e), GRAFT_E_ARG);
    CHECK(!g);
    graft_model_release(m);
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return test_end();
    RUN(in_its_range);
    RUN(the_last_one_counts);
    RUN(every_number_matters);
    RUN(compiled_ahead);
    RUN(compiled_for_a_run);
    RUN(with_hypertile);
    RUN(with_the_rest);
    RUN(with_easycache);
    RUN(not_with_deepcache);
    RUN(not_with_controlnets);
    RUN(bad_numbers);
    RUN(bad_shapes);
    graft_engine_destroy(engine);
    return test_end();
}

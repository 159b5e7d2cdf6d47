/* Perturbed-attention guidance: what it adds to a prediction, that nothing else of the call
 * changes, and that it goes with all else that a model and its prompts can have. What the UNet
 * computes for perturbed rows is held against PyTorch in tests/golden. */
#include "tests/engine/control.h"
#include "tests/engine/regions.h"

enum { H = 8, W = 12, N = 4 * H * W };

static graft_engine *engine;

static graft_model *perturbed(const graft_model *m, double scale)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_perturbed_attention(m, scale, &out, &e), &e);
    return out;
}

static one_call call_of(const graft_model *m, const graft_cond *positive,
                        const graft_cond *negative)
{
    return (one_call){m, positive, negative, 4.0, {1, 4, H, W}, NULL, NULL, 0};
}

/* ------------------------------------------------------------------ the definition */

/* eps of the noise of call_of() for these rows of prompts, the perturbed ones behind; `rows` of x
 * and timesteps are the same. */
static void predictions(const graft_model *m, graft_cond *const *prompt, int64_t rows,
                        int64_t again, float *out)
{
    const graft_unet_use use = {.pictures = 1,
                                .entries = rows,
                                .height = H,
                                .width = W,
                                .tokens = TOKENS,
                                .perturbed = again};
    static float x[4 * N], context[4 * TOKENS * 64];
    float timesteps[4];
    size_t words = TOKENS * (size_t)m->arch.context_dim;
    graft_sigma_table table;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const one_call c = call_of(m, prompt[0], prompt[0]);
    CHECK(rows <= 4 && words <= TOKENS * 64 && !m->arch.adm_channels);
    graft_model_sigma_table(m, &table);
    for (int64_t r = 0; r < rows; r++) {
        noise_of(&c, x + r * N);
        for (int i = 0; i < N; i++) x[r * N + i] *= 1 / sqrtf(SIGMA * SIGMA + 1);
        timesteps[r] = graft_sigma_to_timestep(&table, SIGMA);
        memcpy(context + (size_t)r * words, prompt[r]->entry[0]->data, words * sizeof *context);
    }
    CHECK_OK(graft_model_bind_guided(m, &use, NULL, &b, &e), &e);
    CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){x, timesteps, context},
                           (void *[]){out}, NULL, NULL, &e),
             &e);
    graft_binding_release(b);
}

/* Two positive prompts and a negative one: guidance as ever, and the scale times the mean of how
 * far the perturbed predictions are. With any cfg, and whether guidance is rescaled or not. */
static void by_the_definition(void)
{
    static const double cfg[] = {4, 1, 0.5};
    graft_model *m = load_model(engine, SD1), *rescaled = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *p = place_prompt(m, 1, TOKENS), *q = place_prompt(m, 2, TOKENS);
    graft_cond *two = both(graft_cond_retain(p), graft_cond_retain(q));
    graft_cond *none = place_prompt(m, 3, TOKENS);
    float eps[5 * N], plain[N], with[N];
    predictions(m, (graft_cond *[]){p, q, none}, 3, 2, eps);
    CHECK_OK(graft_model_rescale_cfg(m, 0.7, &rescaled, &e), &e);
    for (int way = 0; way < 6; way++) {
        const graft_model *base = way < 3 ? m : rescaled;
        graft_model *pag = perturbed(base, 2.5);
        one_call c = call_of(base, two, none);
        double worst = 0, most = 0;
        c.cfg = cfg[way % 3];
        denoise(&c, plain);
        c.model = pag;
        denoise(&c, with);
        for (int i = 0; i < N; i++) {
            double mean = 0.5 * (eps[i] + eps[N + i]),
                   far = 0.5 * (eps[3 * N + i] + eps[4 * N + i]);
            worst = fmax(worst, fabs(with[i] - (plain[i] - 2.5 * SIGMA * (mean - far))));
            most = fmax(most, fabs(with[i] - plain[i]));
        }
        CHECK(most > 0.1 && worst < 1e-4 * most);
        graft_model_release(pag);
    }
    graft_cond *const all[] = {p, q, two, none};
    for (int i = 0; i < 4; i++) graft_cond_release(all[i]);
    graft_model_release(rescaled);
    graft_model_release(m);
}

/* Rows that are not perturbed are what they are without the others; those that are do not depend
 * on how many others there are. */
static void rows_are_their_own(void)
{
    graft_model *m = load_model(engine, SD2);
    graft_cond *prompt[4];
    float all[8 * N], some[8 * N];
    for (int i = 0; i < 4; i++) prompt[i] = place_prompt(m, 10 + (uint64_t)i, TOKENS);
    predictions(m, prompt, 4, 4, all);
    CHECK(difference(all, all + 4 * N, N) > 1e-2);
    for (int64_t rows = 1; rows <= 4; rows++)
        for (int64_t again = 0; again <= rows; again++) {
            predictions(m, prompt, rows, again, some);
            CHECK(difference(some, all, (size_t)rows * N) < 2e-5);
            if (again) CHECK(difference(some + rows * N, all + 4 * N, (size_t)again * N) < 2e-5);
        }
    for (int i = 0; i < 4; i++) graft_cond_release(prompt[i]);
    graft_model_release(m);
}

static void scale_is_no_part_of_the_graph(void)
{
    graft_model *m = load_model(engine, SD1), *off = perturbed(m, 0), *a = perturbed(m, 1),
                *b = perturbed(a, 2);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    float plain[N], once[N], twice[N], now[N];
    one_call c = call_of(m, p, n);
    denoise(&c, plain);
    uint64_t before = graphs_built(engine);
    c.model = off;
    denoise(&c, now);
    CHECK(memcmp(plain, now, sizeof now) == 0);
    CHECK_INT(graphs_built(engine), before);
    c.model = a;
    denoise(&c, once);
    CHECK_INT(graphs_built(engine), before + 1);
    c.model = b; /* the last scale counts */
    denoise(&c, twice);
    CHECK_INT(graphs_built(engine), before + 1);
    for (int i = 0; i < N; i++) now[i] = 2 * once[i] - plain[i];
    CHECK(difference(twice, now, N) < 1e-5);
    graft_model *const all[] = {off, a, b, m};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
    graft_cond_release(p);
    graft_cond_release(n);
}

/* ------------------------------------------------------------------ beside all else */

/* A second call at the same place, which takes stored features, gives the same: the perturbed rows
 * have their own. */
static void in_fast_steps(void)
{
    static const int64_t cuts[][2] = {{-1, 0}, {0, 0}, {0, 1}, {1, 0}};
    static const char *const files[] = {SD1, SD2, SDXL};
    for (int f = 0; f < 3; f++) {
        graft_model *m = load_model(engine, files[f]), *pag = perturbed(m, 2);
        graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
        float whole[N], fast[N];
        one_call c = call_of(pag, p, n);
        denoise(&c, whole);
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            graft_model *d = with_deepcache(pag, 3, cuts[i][0], cuts[i][1]);
            graft_model *first = with_deepcache(m, 3, cuts[i][0], cuts[i][1]),
                        *other = perturbed(first, 2);
            c.model = d;
            c.calls = 1;
            denoise(&c, fast);
            CHECK(difference(fast, whole, N) < 2e-5);
            c.calls = 2;
            denoise(&c, fast);
            CHECK(difference(fast, whole, N) < 2e-5);
            c.model = other;
            denoise(&c, whole);
            CHECK(memcmp(fast, whole, sizeof fast) == 0); /* the order of the two does not matter */
            graft_model *const done[] = {d, first, other};
            for (int k = 0; k < 3; k++) graft_model_release(done[k]);
        }
        graft_cond_release(p);
        graft_cond_release(n);
        graft_model_release(pag);
        graft_model_release(m);
    }
}

/* Twice the scale moves the result twice as far from that without. */
static void check_linear(const graft_model *m, const graft_cond *positive,
                         const graft_cond *negative)
{
    float v[3][N];
    for (int i = 0; i < 3; i++) {
        graft_model *pag = perturbed(m, i);
        one_call c = call_of(pag, positive, negative);
        denoise(&c, v[i]);
        graft_model_release(pag);
    }
    double most = 0;
    for (int i = 0; i < N; i++) {
        most = fmax(most, fabs(v[1][i] - v[0][i]));
        v[1][i] = 2 * v[1][i] - v[0][i];
    }
    CHECK(most > 1e-2);
    CHECK(difference(v[2], v[1], N) < 2e-5);
}

static void in_areas(void)
{
    graft_model *m = load_model(engine, SD1), *pag = perturbed(m, 3);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    graft_cond *all = in_cells(graft_cond_retain(p), 0, 0, H, W, 2);
    graft_cond *parts = both(in_cells(place_prompt(m, 3, TOKENS), 1, 2, 6, 7, 1),
                             in_cells(place_prompt(m, 4, 2 * TOKENS), 0, 4, 8, 8, 0.5));
    float plain[N], now[N];
    one_call c = call_of(pag, p, n);
    denoise(&c, plain);
    c.positive = all; /* one prompt alone, whatever its strength */
    denoise(&c, now);
    CHECK(difference(plain, now, N) < 1e-5);
    check_linear(m, parts, n);
    /* Where no prompt counts nothing is added: cells of the first column. */
    c.positive = parts;
    denoise(&c, now);
    c.model = m;
    denoise(&c, plain);
    for (int y = 0; y < H; y++) CHECK(now[y * W] == plain[y * W]);
    CHECK(now[3 * W + 5] != plain[3 * W + 5]);
    graft_cond *const conds[] = {p, n, all, parts};
    for (int i = 0; i < 4; i++) graft_cond_release(conds[i]);
    graft_model_release(pag);
    graft_model_release(m);
}

static void with_freeu_and_hypertile(void)
{
    graft_model *m = load_model(engine, SD1), *tiled = NULL, *both_of = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    const graft_hypertile_options tiles = {32, 1, 1, false};
    const graft_freeu_options freeu = {2, 1.3, 1.4, 0.9, 0.2};
    CHECK_OK(graft_model_hypertile(m, &tiles, &tiled, &e), &e);
    CHECK_OK(graft_model_freeu(tiled, &freeu, &both_of, &e), &e);
    check_linear(both_of, p, n);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model_release(tiled);
    graft_model_release(both_of);
    graft_model_release(m);
}

static void with_a_controlnet(void)
{
    graft_model *m = load_model(engine, SD1);
    steered_prompts s =
        steered_by(m, place_prompt(m, 1, TOKENS), place_prompt(m, 2, TOKENS), H, 0, 1);
    check_linear(m, s.with_p, s.with_n);
    steered_release(&s);
    graft_model_release(m);
}

/* What CompileModel makes ahead is what one prompt against another needs, in fast steps, too. */
static void compiled_ahead(void)
{
    graft_model *m = load_model(engine, SD2), *pag = perturbed(m, 2),
                *d = with_deepcache(pag, 3, 0, 0);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    const graft_unet_use use = {
        .pictures = 1, .entries = 2, .height = H, .width = W, .tokens = TOKENS, .perturbed = 1};
    graft_err e = GRAFT_ERR_INIT;
    float out[N];
    CHECK_OK(graft_model_prepare(d, &use, NULL, &e), &e);
    uint64_t before = graphs_built(engine);
    one_call c = call_of(d, p, n);
    c.calls = 2;
    denoise(&c, out);
    CHECK_INT(graphs_built(engine), before);
    graft_model *const all[] = {d, pag, m};
    for (int i = 0; i < 3; i++) graft_model_release(all[i]);
    graft_cond_release(p);
    graft_cond_release(n);
}

/* compile_only makes what the run then needs, with prompts of two lengths: one batch has perturbed
 * rows, the other has none. */
static void compiled_for_a_run(void)
{
    graft_model *m = load_model(engine, SD1), *pag = perturbed(m, 2);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, 2 * TOKENS);
    graft_latent *from = NULL, *to = NULL;
    graft_task ahead = {.compile_only = true};
    graft_err e = GRAFT_ERR_INIT;
    const graft_sample_params k = {.seed = 1,
                                   .add_noise = true,
                                   .steps = 2,
                                   .cfg = 4,
                                   .sampler = "euler",
                                   .scheduler = "normal",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    uint64_t first = graphs_built(engine), before = first;
    CHECK_OK(graft_latent_empty(4, 96, 128, 1, &from, &e), &e); /* a size that no other test has */
    for (int i = 0; i < 2; i++) {
        CHECK_OK(graft_sample(pag, &k, p, n, from, i ? NULL : &ahead, &to, &e), &e);
        graft_latent_release(to);
        if (i == 0) before = graphs_built(engine);
    }
    CHECK(before > first);
    CHECK_INT(graphs_built(engine), before);
    graft_latent_release(from);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model_release(pag);
    graft_model_release(m);
}

static void bad_numbers(void)
{
    static const double bad[] = {-1, -1e-300, 1001, INFINITY, -INFINITY, NAN};
    graft_model *m = load_model(engine, SD1), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_net_shape shape = {
        .batch = 2, .height = H, .width = W, .tokens = TOKENS, .perturbed = 1};
    graft_unet_arch arch = m->arch.unet;
    graft_graph *g = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(graft_model_perturbed_attention(m, bad[i], &out, &e), GRAFT_E_ARG);
    CHECK(!out && graft_unet_perturbs(&arch));
    for (int64_t rows = -1; rows <= 3; rows += 4) {
        graft_net_shape wrong = shape;
        wrong.perturbed = rows;
        CHECK_INT(graft_unet_build(&arch, &wrong, &g, &e), GRAFT_E_ARG);
    }
    arch.middle_transformer = 0;
    CHECK(!graft_unet_perturbs(&arch));
    CHECK_INT(graft_unet_build(&arch, &shape, &g, &e), GRAFT_E_ARG);
    CHECK(!g);
    graft_model_release(m);
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) return test_end();
        printf("backend %s\n", backends[i]);
        RUN(by_the_definition);
        RUN(rows_are_their_own);
        RUN(scale_is_no_part_of_the_graph);
        RUN(in_fast_steps);
        RUN(in_areas);
        RUN(with_freeu_and_hypertile);
        RUN(with_a_controlnet);
        RUN(compiled_ahead);
        RUN(compiled_for_a_run);
        RUN(bad_numbers);
        graft_engine_destroy(engine);
    }
    return test_end();
}

/* Self-attention guidance: denoised pictures against PyTorch's by the paper's formulas, and that it
 * goes with all else that a model and its prompts can have, or says why not. */
#include "engine/denoise/blurred.h"
#include "tests/engine/control.h"
#include "tests/engine/regions.h"

#define GOLDEN GRAFT_SOURCE_DIR "/golden/guidance/self_attention.safetensors"

enum { H = 8, W = 12, N = 4 * H * W };

static graft_engine *engine;

static graft_model *itself(const graft_model *m, double scale, double blur)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_self_attention(m, scale, blur, &out, &e), &e);
    return out;
}

static one_call call_of(const graft_model *m, const graft_cond *positive,
                        const graft_cond *negative)
{
    return (one_call){m, positive, negative, 4.0, {1, 4, H, W}, NULL, NULL, 0};
}

/* ------------------------------------------------------------------ the definition */

static const graft_st_tensor *part_of_case(const graft_safetensors *f, int k, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "case%d.%s", k, name);
    return graft_safetensors_find(f, full);
}

static graft_cond *prompt_of_case(const graft_safetensors *f, int k, const char *name)
{
    const graft_st_tensor *t = part_of_case(f, k, name);
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    if (!t) return NULL;
    const size_t bytes = (size_t)shape_count(t->shape, 2) * sizeof(float);
    float *own = graft_malloc(bytes), *v = values_of(t);
    memcpy(own, v, bytes);
    free(v);
    CHECK_OK(graft_cond_create(t->shape[0], t->shape[1], own, 0, NULL, NULL, &out, &e), &e);
    return out;
}

/* The model as the case wants it, without the guidance. */
static graft_model *model_of_case(const graft_model *m, const graft_safetensors *f, int k)
{
    const graft_st_tensor *t = part_of_case(f, k, "hypertile");
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    if (!t) return graft_model_copy(m);
    float *v = values_of(t);
    const graft_hypertile_options o = {(int64_t)v[0], (int64_t)v[1], (int64_t)v[2], v[3] != 0};
    CHECK_OK(graft_model_hypertile(m, &o, &out, &e), &e);
    free(v);
    return out;
}

static void run_case(const graft_model *m, const graft_safetensors *f, int k)
{
    const graft_st_tensor *t = part_of_case(f, k, "x");
    const size_t n = (size_t)shape_count(t->shape, t->rank);
    float *x = values_of(t), *want = values_of(part_of_case(f, k, "output"));
    float *numbers = values_of(part_of_case(f, k, "numbers")), *got = graft_malloc_array(n, 4);
    graft_model *plain = model_of_case(m, f, k),
                *guided = itself(plain, (double)numbers[2], (double)numbers[3]);
    graft_cond *positive = prompt_of_case(f, k, "positive");
    graft_cond *negative = prompt_of_case(f, k, "negative0");
    graft_cond *more = prompt_of_case(f, k, "negative1");
    graft_err e = GRAFT_ERR_INIT;
    if (more) negative = both(negative, more);
    one_call c = {guided, positive, negative, (double)numbers[1], {0}, NULL, NULL, 0};
    memcpy(c.shape, t->shape, sizeof c.shape);
    CHECK_OK(try_denoise_at(&c, x, numbers[0], got, &e), &e);
    CHECK(difference(got, want, n) < 2e-4);
    c.model = plain;
    CHECK_OK(try_denoise_at(&c, x, numbers[0], got, &e), &e);
    CHECK(difference(got, want, n) > 0.1);
    free(x), free(want), free(numbers), graft_free(got);
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_model_release(guided);
    graft_model_release(plain);
}

static void is_that_of_the_paper(void)
{
    graft_safetensors *f = open_file(GOLDEN);
    graft_model *m = load_model(engine, GOLDEN);
    int k = 0;
    for (; part_of_case(f, k, "x"); k++) run_case(m, f, k);
    CHECK_INT(k, 3);
    graft_model_release(m);
    graft_safetensors_close(f);
}

/* A blur of 0 changes nothing but last bits, as does a scale of 0, which does not even run. */
static void without_effect(void)
{
    graft_model *m = load_model(engine, SD1), *off = itself(m, 0, 2), *sharp = itself(m, 1, 0);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    float plain[N], now[N];
    one_call c = call_of(m, p, n);
    denoise(&c, plain);
    uint64_t before = graphs_built(engine);
    c.model = off;
    denoise(&c, now);
    CHECK(memcmp(plain, now, sizeof now) == 0);
    CHECK_INT(graphs_built(engine), before);
    c.model = sharp;
    denoise(&c, now);
    CHECK(difference(now, plain, N) < 1e-4);
    CHECK_INT(graphs_built(engine), before + 2); /* that which is looked at, and the second run's */
    graft_model *const all[] = {off, sharp, m};
    for (int i = 0; i < 3; i++) graft_model_release(all[i]);
    graft_cond_release(p);
    graft_cond_release(n);
}

/* Nothing can be mirrored there. */
static void small_latents_stay(void)
{
    graft_model *m = load_model(engine, SD1), *guided = itself(m, 2, 2);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    float plain[N], now[N];
    for (int64_t side = 4; side <= 6; side += 2) {
        one_call c = call_of(m, p, n);
        c.shape[2] = side;
        c.shape[3] = 8;
        denoise(&c, plain);
        c.model = guided;
        denoise(&c, now);
        const bool same = memcmp(plain, now, call_values(&c) * sizeof *now) == 0;
        CHECK(same == (side == 4));
    }
    graft_model_release(guided);
    graft_model_release(m);
    graft_cond_release(p);
    graft_cond_release(n);
}

/* ------------------------------------------------------------------ beside all else */

/* Twice the scale moves the result twice as far, and by the same graphs. */
static void check_linear(const graft_model *m, const graft_cond *positive,
                         const graft_cond *negative)
{
    float v[3][N];
    uint64_t before = 0;
    for (int i = 0; i < 3; i++) {
        graft_model *guided = itself(m, i, 1.5);
        one_call c = call_of(guided, positive, negative);
        if (i == 2) before = graphs_built(engine);
        denoise(&c, v[i]);
        graft_model_release(guided);
    }
    CHECK_INT(graphs_built(engine), before);
    double most = 0;
    for (int i = 0; i < N; i++) {
        most = fmax(most, fabs(v[1][i] - v[0][i]));
        v[1][i] = 2 * v[1][i] - v[0][i];
    }
    CHECK(most > 1e-2);
    CHECK(difference(v[2], v[1], N) < 2e-5);
}

static void with_all_networks(void)
{
    static const char *const files[] = {SD1, SD2, SDXL};
    for (int i = 0; i < 3; i++) {
        graft_model *m = load_model(engine, files[i]);
        graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
        check_linear(m, p, n);
        graft_cond_release(p);
        graft_cond_release(n);
        graft_model_release(m);
    }
}

/* A negative prompt of another length is a batch of its own, and gives the same as beside others.
 */
static void in_several_batches(void)
{
    graft_model *m = load_model(engine, SD1), *guided = itself(m, 1, 2);
    graft_cond *p = place_prompt(m, 1, TOKENS), *longer = place_prompt(m, 1, 2 * TOKENS);
    graft_cond *n = place_prompt(m, 2, TOKENS);
    float apart[N], plain[N], together[N], without[N];
    one_call c = call_of(guided, longer, n);
    denoise(&c, apart);
    c.model = m;
    denoise(&c, plain);
    c.positive = p;
    denoise(&c, without);
    c.model = guided;
    denoise(&c, together);
    for (int i = 0; i < N; i++) {
        apart[i] -= plain[i]; /* what is added does not depend on the positive prompt */
        together[i] -= without[i];
    }
    CHECK(difference(apart, together, N) < 1e-4);
    graft_cond *const all[] = {p, longer, n};
    for (int i = 0; i < 3; i++) graft_cond_release(all[i]);
    graft_model_release(guided);
    graft_model_release(m);
}

static void beside_other_changes(void)
{
    graft_model *m = load_model(engine, SD1), *a = NULL, *b = NULL, *c = NULL, *d = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    const graft_hypertile_options tiles = {32, 1, 1, false};
    const graft_freeu_options freeu = {2, 1.3, 1.4, 0.9, 0.2};
    const graft_cfg_change tangential = {.kind = GRAFT_CFG_TANGENTIAL};
    CHECK_OK(graft_model_perturbed_attention(m, 2, &a, &e), &e);
    CHECK_OK(graft_model_hypertile(a, &tiles, &b, &e), &e);
    CHECK_OK(graft_model_freeu(b, &freeu, &c, &e), &e);
    CHECK_OK(graft_model_change_cfg(c, &tangential, &d, &e), &e);
    check_linear(d, p, n);
    graft_cond *parts = both(in_cells(place_prompt(m, 3, TOKENS), 1, 2, 6, 7, 1),
                             in_cells(place_prompt(m, 4, TOKENS), 0, 4, 8, 8, 0.5));
    check_linear(a, parts, n);
    graft_model *const all[] = {a, b, c, d, m};
    for (int i = 0; i < 5; i++) graft_model_release(all[i]);
    graft_cond *const conds[] = {p, n, parts};
    for (int i = 0; i < 3; i++) graft_cond_release(conds[i]);
}

static void beside_deep_shrink(void)
{
    const graft_downscale_options o = {.block_number = 1,
                                       .factor = 2,
                                       .start = 0,
                                       .end = 1,
                                       .after_skip = true,
                                       .down_method = "bicubic",
                                       .up_method = "bicubic"};
    graft_model *m = load_model(engine, SD1), *small = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    CHECK_OK(graft_model_downscale(m, &o, &small, &e), &e);
    check_linear(small, p, n);
    graft_model_release(small);
    graft_model_release(m);
    graft_cond_release(p);
    graft_cond_release(n);
}

static void beside_a_controlnet(void)
{
    graft_model *m = load_model(engine, SD1);
    steered_prompts s =
        steered_by(m, place_prompt(m, 1, TOKENS), place_prompt(m, 2, TOKENS), H, 0, 1);
    check_linear(m, s.with_p, s.with_n);
    steered_release(&s);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ compiling ahead */

static void compiled_ahead(void)
{
    graft_model *m = load_model(engine, SD2), *guided = itself(m, 1, 2), *ready = NULL;
    graft_cond *p = place_prompt(m, 1, GRAFT_TEXT_CHUNK), *n = place_prompt(m, 2, GRAFT_TEXT_CHUNK);
    const graft_compile_options o = {.precision = "auto",
                                     .device = "auto",
                                     .tuning = "off",
                                     .width = 8 * H, /* which no other test has */
                                     .height = 8 * H,
                                     .batch_size = 1};
    graft_err e = GRAFT_ERR_INIT;
    float out[N];
    uint64_t first = graphs_built(engine);
    CHECK_OK(graft_model_compile(guided, &o, NULL, &ready, &e), &e);
    uint64_t before = graphs_built(engine);
    CHECK_INT(before, first + 2);
    one_call c = call_of(ready, p, n);
    c.shape[3] = H;
    denoise(&c, out);
    CHECK_INT(graphs_built(engine), before);
    graft_model *const all[] = {ready, guided, m};
    for (int i = 0; i < 3; i++) graft_model_release(all[i]);
    graft_cond_release(p);
    graft_cond_release(n);
}

/* compile_only makes what the run then needs; a cfg of 1 needs negative prompts as well. */
static void compiled_for_a_run(void)
{
    graft_model *m = load_model(engine, SD1), *guided = itself(m, 1, 2);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, 2 * TOKENS);
    graft_latent *from = NULL, *to = NULL;
    graft_task ahead = {.compile_only = true};
    graft_err e = GRAFT_ERR_INIT;
    const graft_sample_params k = {.seed = 1,
                                   .add_noise = true,
                                   .steps = 2,
                                   .cfg = 1,
                                   .sampler = "euler",
                                   .scheduler = "normal",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    uint64_t first = graphs_built(engine), before = first;
    CHECK_OK(graft_latent_empty(4, 96, 128, 1, &from, &e), &e); /* a size that no other test has */
    for (int i = 0; i < 2; i++) {
        CHECK_OK(graft_sample(guided, &k, p, n, from, i ? NULL : &ahead, &to, &e), &e);
        graft_latent_release(to);
        if (i == 0) before = graphs_built(engine);
    }
    CHECK_INT(before, first + 3);
    CHECK_INT(graphs_built(engine), before);
    graft_latent_release(from);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model_release(guided);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ what is refused */

static void check_run_refused(const graft_model *m, const graft_cond *p, const graft_cond *n,
                              const char *says)
{
    graft_err e = GRAFT_ERR_INIT;
    float x[N], out[N];
    one_call c = call_of(m, p, n);
    noise_of(&c, x);
    CHECK_INT(try_denoise(&c, x, out, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, says) != NULL);
}

static void not_with_everything(void)
{
    graft_model *m = load_model(engine, SD1), *guided = itself(m, 1, 2);
    graft_model *deep = with_deepcache(guided, 3, 0, 0), *easy = NULL, *off = itself(deep, 0, 2);
    const graft_easycache_options always = {3, 0, 1, false};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_easycache(guided, &always, &easy, &e), &e);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    graft_cond *part = in_cells(place_prompt(m, 3, TOKENS), 1, 2, 6, 7, 1);
    float out[N];
    check_run_refused(deep, p, n, "DeepCache");
    check_run_refused(easy, p, n, "EasyCache");
    check_run_refused(guided, p, part, "areas of negative prompts");
    one_call c = call_of(off, p, part);
    denoise(&c, out);
    graft_model *const all[] = {deep, easy, off, guided, m};
    for (int i = 0; i < 5; i++) graft_model_release(all[i]);
    graft_cond *const conds[] = {p, n, part};
    for (int i = 0; i < 3; i++) graft_cond_release(conds[i]);
}

static void bad_numbers(void)
{
    static const double bad[][2] = {{101, 2}, {-101, 2}, {NAN, 2}, {1, -1}, {1, 1001}, {1, NAN}};
    static const int64_t rows[][2] = {{0, 3}, {-1, 1}, {1, 2}, {1, 0}, {0, -1}, {INT64_MAX, 1}};
    graft_model *m = load_model(engine, SD1), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_graph *g = NULL;
    graft_unet_arch arch = m->arch.unet;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(graft_model_self_attention(m, bad[i][0], bad[i][1], &out, &e), GRAFT_E_ARG);
    graft_net_shape shape = {.batch = 2, .height = H, .width = W, .tokens = TOKENS};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shape.watched_from = rows[i][0];
        shape.watched = rows[i][1];
        CHECK_INT(graft_unet_build(&arch, &shape, &g, &e), GRAFT_E_ARG);
    }
    shape.watched_from = shape.watched = 1;
    shape.variant = GRAFT_FAST;
    CHECK_INT(graft_unet_build(&arch, &shape, &g, &e), GRAFT_E_ARG);
    shape.variant = GRAFT_WHOLE;
    arch.middle_transformer = 0;
    CHECK_INT(graft_unet_build(&arch, &shape, &g, &e), GRAFT_E_ARG);
    CHECK(!g && !out);
    graft_model_release(m);
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) return test_end();
        printf("backend %s\n", backends[i]);
        RUN(is_that_of_the_paper);
        RUN(without_effect);
        RUN(small_latents_stay);
        RUN(with_all_networks);
        RUN(in_several_batches);
        RUN(beside_other_changes);
        RUN(beside_deep_shrink);
        RUN(beside_a_controlnet);
        RUN(compiled_ahead);
        RUN(compiled_for_a_run);
        RUN(not_with_everything);
        RUN(bad_numbers);
        graft_engine_destroy(engine);
    }
    return test_end();
}

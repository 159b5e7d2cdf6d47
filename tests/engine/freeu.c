/* FreeU: what is compiled for it and when, what it does to what, and that it goes with all else
 * that a model can have. What it computes is held against PyTorch in tests/golden. */
#include <math.h>

#include "tests/engine/calibrate.h"

#define FREEU GRAFT_SOURCE_DIR "/golden/small/freeu.safetensors"
/* A model whose features are all as wide as model_channels. */
#define NARROW GRAFT_SOURCE_DIR "/golden/small/controlnet_sdxl.safetensors"

static const graft_freeu_options usual = {2, 1.3, 1.4, 0.9, 0.2};

static graft_model *freeu(const graft_model *m, graft_freeu_options o)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_freeu(m, &o, &out, &e), &e);
    return out;
}

/* Whether sampling with either gives the same bits. */
static bool same_samples(const graft_model *a, const graft_model *b, const scene *s)
{
    float x[LATENT], y[LATENT];
    sampled(a, s, x);
    sampled(b, s, y);
    return same_latent(x, y);
}

/* ------------------------------------------------------------------ factors */

static void factors_are_inputs(void)
{
    scene s = open_scene(FREEU);
    float plain[LATENT], first[LATENT], other[LATENT];
    sampled(s.model, &s, plain);
    for (int version = 1; version <= 2; version++) {
        graft_freeu_options o = usual;
        o.version = version;
        uint64_t before = graphs_built(engine);
        graft_model *m = freeu(s.model, o);
        sampled(m, &s, first);
        CHECK_INT(graphs_built(engine), before + 1);
        CHECK(!same_latent(first, plain));
        graft_model_release(m);
        double *const each[] = {&o.b1, &o.b2, &o.s1, &o.s2};
        for (int i = 0; i < 4; i++) {
            *each[i] += 0.05;
            m = freeu(s.model, o);
            sampled(m, &s, other);
            CHECK(!same_latent(first, other)); /* each of them counts */
            *each[i] -= 0.05;
            graft_model_release(m);
        }
        CHECK_INT(graphs_built(engine), before + 1);
    }
    close_scene(&s);
}

static void ones_change_nothing(void)
{
    scene s = open_scene(FREEU);
    for (int version = 1; version <= 2; version++) {
        float with[LATENT], without[LATENT];
        graft_model *m = freeu(s.model, (graft_freeu_options){version, 1, 1, 1, 1});
        sampled(m, &s, with);
        sampled(s.model, &s, without);
        CHECK(difference(with, without, LATENT) < 1e-5);
        graft_model_release(m);
    }
    close_scene(&s);
}

static void the_last_one_counts(void)
{
    scene s = open_scene(FREEU);
    graft_model *first = freeu(s.model, (graft_freeu_options){1, 2, 2, 0, 0});
    graft_model *both = freeu(first, usual), *last = freeu(s.model, usual);
    CHECK(same_samples(both, last, &s));
    CHECK(!same_samples(both, first, &s));
    graft_model_release(first);
    graft_model_release(both);
    graft_model_release(last);
    close_scene(&s);
}

static void bad_numbers(void)
{
    static const struct {
        graft_freeu_options o;
        const char *words;
    } bad[] = {{{0, 1, 1, 1, 1}, "version 0"},    {{3, 1, 1, 1, 1}, "version 3"},
               {{1, NAN, 1, 1, 1}, "b1"},         {{1, 1, INFINITY, 1, 1}, "b2"},
               {{2, 1, 1, -INFINITY, 1}, "s1"},   {{2, 1, 1, 1, -1e-9}, "s2 -1e-09"},
               {{2, 10.01, 1, 1, 1}, "b1 10.01"}, {{1, 1, 1, 1, NAN}, "s2"}};
    graft_model *m = load_model(engine, FREEU);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        graft_model *out = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(graft_model_freeu(m, &bad[i].o, &out, &e), GRAFT_E_ARG);
        CHECK(!out && strstr(e.text, bad[i].words));
    }
    graft_model *least = freeu(m, (graft_freeu_options){1, 0, 0, 0, 0});
    graft_model *most = freeu(m, (graft_freeu_options){2, 10, 10, 10, 10});
    graft_model_release(least);
    graft_model_release(most);
    graft_model_release(m);
}

/* Where no features have the widths in question the graph is the one without FreeU. */
static void models_without_such_widths(void)
{
    graft_model *plain = load_model(engine, NARROW), *m = freeu(plain, usual);
    float with[OUT], without[OUT];
    char *text = NULL;
    graft_err e = GRAFT_ERR_INIT;
    run_model(plain, without);
    uint64_t before = graphs_built(engine);
    CHECK(graft_model_freeu_factors(m, GRAFT_WHOLE) == NULL);
    run_model(m, with);
    CHECK_INT(graphs_built(engine), before);
    CHECK(same_bits(with, without));
    CHECK_OK(graft_model_report(m, NULL, NULL, &text, NULL, &e), &e);
    CHECK(text && strstr(text, "FreeU        version 2") && strstr(text, "nothing in this model"));
    graft_text_free(text);
    graft_model_release(m);
    graft_model_release(plain);
}

static void the_report_says_so(void)
{
    graft_model *plain = load_model(engine, FREEU), *m = freeu(plain, usual);
    char *text = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_report(m, NULL, NULL, &text, NULL, &e), &e);
    CHECK(text && strstr(text, "FreeU        version 2, b1 1.3, b2 1.4, s1 0.9, s2 0.2\n"));
    graft_text_free(text);
    CHECK_OK(graft_model_report(plain, NULL, NULL, &text, NULL, &e), &e);
    CHECK(text && !strstr(text, "FreeU"));
    graft_text_free(text);
    graft_model_release(m);
    graft_model_release(plain);
}

/* ------------------------------------------------------------------ one run of the UNet */

/* Inputs of one run, but for what comes after context; residuals of zeros. */
typedef struct unet_io {
    float x[OUT], t, *context, *residual[GRAFT_UNET_RESIDUALS];
    int n_residuals;
    size_t count[GRAFT_UNET_RESIDUALS];
} unet_io;

static unet_io *make_io(const graft_model *m)
{
    const graft_net_shape shape = {.batch = 1, .height = SIDE, .width = SIDE, .control = 1};
    size_t words = TOKENS * (size_t)m->arch.context_dim;
    unet_io *io = calloc(1, sizeof *io);
    io->t = 300;
    io->context = calloc(words, sizeof *io->context);
    for (size_t i = 0; i < OUT; i++) io->x[i] = fixed_value(i);
    for (size_t i = 0; i < words; i++) io->context[i] = fixed_value(OUT + i);
    io->n_residuals = graft_unet_residuals(&m->arch.unet, &shape);
    for (int i = 0; i < io->n_residuals; i++) {
        int64_t dim[4];
        graft_unet_residual_shape(&m->arch.unet, &shape, i, dim);
        io->count[i] = (size_t)(dim[0] * dim[1] * dim[2] * dim[3]);
        io->residual[i] = calloc(io->count[i], sizeof *io->residual[i]);
    }
    return io;
}

static void free_io(unet_io *io)
{
    for (int i = 0; i < io->n_residuals; i++) free(io->residual[i]);
    free(io->context);
    free(io);
}

/* feature: of DeepCache, read or written; or NULL. */
static void run_unet(const graft_model *m, graft_variant variant, bool control, const unet_io *io,
                     float *feature, float *out)
{
    const graft_unet_use use = {.variant = variant,
                                .control = control,
                                .pictures = 1,
                                .entries = 1,
                                .height = SIDE,
                                .width = SIDE,
                                .tokens = TOKENS};
    const graft_net_shape shape = {
        .variant = (int32_t)variant, .cut = m->deepcache.cut, .control = control};
    const void *in[GRAFT_UNET_RESIDUALS + 6] = {io->x, &io->t, io->context};
    const float *factors = graft_model_freeu_factors(m, variant);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 3;
    CHECK_OK(graft_model_bind_guided(m, &use, NULL, &b, &e), &e);
    if (!b) return;
    if (variant == GRAFT_FAST) in[n++] = feature;
    for (int i = 0; i < graft_unet_residuals(&m->arch.unet, &shape); i++) in[n++] = io->residual[i];
    if (factors) in[n++] = factors;
    CHECK_INT(b->exe->graph->n_inputs, n);
    CHECK_OK(graft_exe_run(b, engine->arenas, in, (void *[]){out, feature}, NULL, NULL, &e), &e);
    graft_binding_release(b);
}

/* A fast step with the feature of the same state gives what the whole UNet gives, wherever it is
 * cut: what is stored is not scaled yet. The outermost cut leaves nothing that FreeU scales. */
static void in_fast_steps(void)
{
    static const int64_t cuts[][2] = {{-1, 0}, {0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}};
    static float feature[128 * SIDE * SIDE];
    graft_model *plain = load_model(engine, FREEU);
    unet_io *io = make_io(plain);
    for (int version = 1; version <= 2; version++) {
        graft_freeu_options o = usual;
        o.version = version;
        graft_model *m = freeu(plain, o);
        float whole[OUT], stored[OUT], fast[OUT];
        run_unet(m, GRAFT_WHOLE, false, io, NULL, whole);
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            graft_model *c = with_deepcache(m, 3, cuts[i][0], cuts[i][1]);
            graft_model *after = with_deepcache(plain, 3, cuts[i][0], cuts[i][1]),
                        *other = freeu(after, o);
            bool scales = graft_model_freeu_factors(c, GRAFT_FAST) != NULL;
            CHECK_INT(scales, cuts[i][0] >= 0);
            run_unet(c, GRAFT_STORE, false, io, feature, stored);
            run_unet(c, GRAFT_FAST, false, io, feature, fast);
            CHECK(difference(stored, whole, OUT) < 1e-5);
            CHECK(difference(fast, whole, OUT) < 1e-5);
            run_unet(other, GRAFT_FAST, false, io, feature, stored);
            CHECK(same_bits(fast, stored)); /* the order of the two does not matter */
            graft_model_release(c);
            graft_model_release(other);
            graft_model_release(after);
        }
        graft_model_release(m);
    }
    free_io(io);
    graft_model_release(plain);
}

/* One value a channel, all over the picture, for input blocks from `first` on; else zeros. */
static void fill_residuals(const graft_model *m, unet_io *io, int first)
{
    const graft_net_shape shape = {.batch = 1, .height = SIDE, .width = SIDE, .control = 1};
    for (int i = 0; i < io->n_residuals; i++) {
        int64_t dim[4];
        graft_unet_residual_shape(&m->arch.unet, &shape, i, dim);
        bool some = i >= first && i < m->arch.unet.n_input;
        for (size_t k = 0; k < io->count[i]; k++)
            io->residual[i][k] = some ? 3 * fixed_value(k % (size_t)dim[3]) : 0;
    }
}

/* A ControlNet's residual is in the skip connection before its frequencies are scaled: one that is
 * the same all over the picture has the frequency 0 alone, and with s of 0 is gone; but where FreeU
 * does nothing, in the outermost one, and without FreeU it counts. */
static void behind_controlnets(void)
{
    graft_model *plain = load_model(engine, FREEU);
    unet_io *io = make_io(plain);
    for (int version = 0; version <= 2; version++) {
        const graft_freeu_options o = {version, 1.2, 1.3, 0, 0};
        graft_model *m = version ? freeu(plain, o) : graft_model_retain(plain);
        float alone[OUT], zeros[OUT], inner[OUT], all[OUT];
        run_unet(m, GRAFT_WHOLE, false, io, NULL, alone);
        fill_residuals(m, io, m->arch.unet.n_input);
        run_unet(m, GRAFT_WHOLE, true, io, NULL, zeros);
        fill_residuals(m, io, 1);
        run_unet(m, GRAFT_WHOLE, true, io, NULL, inner);
        fill_residuals(m, io, 0);
        run_unet(m, GRAFT_WHOLE, true, io, NULL, all);
        CHECK(difference(zeros, alone, OUT) < 1e-5);
        CHECK(version ? difference(inner, zeros, OUT) < 1e-4 : difference(inner, zeros, OUT) > 0.1);
        CHECK(difference(all, inner, OUT) > 0.1);
        graft_model_release(m);
    }
    free_io(io);
    graft_model_release(plain);
}

/* ------------------------------------------------------------------ beside other options */

static graft_model *with_lora(const graft_model *m)
{
    static const char stem[] = "lora_unet_middle_block_0_in_layers_2";
    const char *path = temp_path("freeu-lora.safetensors");
    made_file *f = calloc(1, sizeof *f);
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char name[128];
    random_state = 9;
    snprintf(name, sizeof name, "%s.lora_up.weight", stem);
    add_tensor(f, name, 4, (int64_t[]){128, 2, 1, 1}, NULL, 0.1f);
    snprintf(name, sizeof name, "%s.lora_down.weight", stem);
    add_tensor(f, name, 4, (int64_t[]){2, 128, 3, 3}, NULL, 0.1f);
    write_file(f, path, NULL);
    CHECK_OK(graft_lora_apply(m, NULL, path, 0.8, 0, NULL, &out, NULL, &e), &e);
    unlink(path);
    return out;
}

static graft_model *with_swap(const graft_model *m)
{
    return swap_weights(m, FREEU, true);
}

static graft_model *with_merge(const graft_model *m)
{
    const graft_merge_ratio ratio = {0.5, 0.25, 0.75};
    graft_model *other = load_model(m->engine, FREEU), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_merge(m, other, &ratio, &out, &e), &e);
    graft_model_release(other);
    return out;
}

static graft_model *with_options(const graft_model *m)
{
    const graft_compile_options o = {.precision = "f32",
                                     .tuning = "off",
                                     .device = "auto",
                                     .max_memory_mb = 200,
                                     .width = 64,
                                     .height = 64,
                                     .batch_size = 1};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_compile(m, &o, NULL, &out, &e), &e);
    return out;
}

static graft_model *with_rescaling(const graft_model *m)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_rescale_cfg(m, 0.7, &out, &e), &e);
    return out;
}

static graft_model *with_caching(const graft_model *m)
{
    return with_deepcache(m, 3, 1, 0);
}

/* In either order, and each with an effect of its own. */
static void in_any_order(void)
{
    static const struct {
        graft_model *(*with)(const graft_model *m);
        bool counts; /* changes the latent by itself */
    } others[] = {{with_lora, true},     {with_swap, false},     {with_merge, false},
                  {with_options, false}, {with_rescaling, true}, {with_caching, true}};
    scene s = open_scene(FREEU);
    graft_model *m = freeu(s.model, usual);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        graft_model *first = others[i].with(s.model), *then = freeu(first, usual);
        graft_model *last = others[i].with(m);
        int failures = test_failures;
        CHECK(same_samples(then, last, &s));
        CHECK(!same_samples(first, last, &s));
        CHECK(same_samples(m, last, &s) == !others[i].counts);
        if (test_failures != failures) fprintf(stderr, "  with option %zu\n", i);
        graft_model_release(first);
        graft_model_release(then);
        graft_model_release(last);
    }
    graft_model_release(m);
    close_scene(&s);
}

/* What CompileModel compiles ahead is what sampling runs, with DeepCache's variants. */
static void compiled_ahead(void)
{
    scene s = open_scene(FREEU);
    float out[LATENT];
    for (int version = 1; version <= 2; version++) {
        graft_freeu_options o = usual;
        o.version = version;
        graft_model *m = freeu(s.model, o), *c = with_deepcache(m, 3, 0, 1),
                    *ahead = with_options(c);
        uint64_t before = graphs_built(engine);
        sampled(ahead, &s, out);
        CHECK_INT(graphs_built(engine), before);
        graft_model_release(m);
        graft_model_release(c);
        graft_model_release(ahead);
    }
    close_scene(&s);
}

/* Calibrated with FreeU, and quantized before or after it comes. */
static void with_quantized_layers(void)
{
    scene s = open_scene(FREEU);
    graft_quantize_options o = options(&s);
    graft_model *m = freeu(s.model, usual), *q = quantize(m, &o), *plain = quantize(s.model, &o);
    graft_model *later = freeu(plain, usual);
    float exact[LATENT], quantized[LATENT], last[LATENT];
    sampled(m, &s, exact);
    sampled(q, &s, quantized);
    sampled(later, &s, last);
    CHECK(!same_latent(exact, quantized));
    CHECK(difference(quantized, exact, LATENT) < 0.3);
    CHECK(difference(last, exact, LATENT) < 0.3);
    CHECK(report_has(q, "joint error   MSE"));
    graft_model_release(m);
    graft_model_release(q);
    graft_model_release(plain);
    graft_model_release(later);
    close_scene(&s);
}

/* Prompts for areas run the UNet at other sizes. */
static void with_areas(void)
{
    scene s = open_scene(FREEU);
    const graft_area area = {.x = 0, .y = 0, .width = 32, .height = 64};
    graft_model *m = freeu(s.model, usual);
    graft_cond *part = NULL, *both = NULL;
    graft_latent *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_area(s.cond, &area, 1.0, &part, &e), &e);
    CHECK_OK(graft_cond_combine(part, s.cond, &both, &e), &e);
    CHECK_OK(sample_latent(m, both, s.latent, "euler", 3, NULL, &out, &e), &e);
    graft_latent_release(out);
    graft_cond_release(part);
    graft_cond_release(both);
    graft_model_release(m);
    close_scene(&s);
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) return test_end();
        printf("backend %s\n", backends[i]);
        on_ref = i == 0;
        RUN(factors_are_inputs);
        RUN(ones_change_nothing);
        RUN(the_last_one_counts);
        RUN(bad_numbers);
        RUN(models_without_such_widths);
        RUN(the_report_says_so);
        RUN(in_fast_steps);
        RUN(behind_controlnets);
        RUN(in_any_order);
        RUN(compiled_ahead);
        RUN(with_quantized_layers);
        RUN(with_areas);
        graft_engine_destroy(engine);
    }
    graft_alloc_stats stats;
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}

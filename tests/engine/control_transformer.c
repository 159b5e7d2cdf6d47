/* ControlNets for FLUX.1 and Stable Diffusion 3: what they add and when, several at once, that
 * nothing is compiled again, and which files and models are refused. What their values are is for
 * the golden tests. */
#include "tests/engine/control.h"
#include "tests/engine/flux.h"
#include "tests/engine/sample.h"

#define FLUX   GRAFT_SOURCE_DIR "/golden/small/control_flux_union.safetensors"
#define SD3    GRAFT_SOURCE_DIR "/golden/small/control_mmdit.safetensors"
#define LARGE  GRAFT_SOURCE_DIR "/golden/small/control_mmdit_large.safetensors"
#define NET(x) GRAFT_SOURCE_DIR "/golden/small/control/" x ".safetensors"
#define VAE_16 GRAFT_SOURCE_DIR "/golden/small/taesd_sd3.safetensors"
#define VAE_4  GRAFT_SOURCE_DIR "/golden/small/taesd_layers.safetensors"

enum { HIGH = 6, WIDE = 8, PIXELS = 8, ONE = 16 * HIGH * WIDE };

typedef struct pair {
    graft_cond *positive, *negative;
} pair;

/* A model with its ControlNets, and what it makes without them. */
typedef struct bench {
    graft_model *m;
    graft_controlnet *net, *other; /* other: NULL where there is one */
    pair plain;
    float bare[ONE], steered[ONE];
} bench;

static graft_engine *engine;
static graft_vae *vae;
static graft_image *hint;
static bench flux, sd3, large;

/* ------------------------------------------------------------------ sampling */

static graft_cond *words(const graft_model *m, uint64_t seed)
{
    const int64_t n = 5 * m->arch.context_dim;
    const int64_t pooled = m->arch.adm_channels - m->arch.flux.guidance;
    float *data = graft_malloc_array((size_t)n, sizeof *data);
    float *y = graft_malloc_array((size_t)pooled, sizeof *y);
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < n; i++) data[i] = fixed_value(seed * 1000003 + (uint64_t)i);
    for (int64_t i = 0; i < pooled; i++) y[i] = fixed_value(seed * 2000003 + (uint64_t)i);
    CHECK_OK(graft_cond_create(5, m->arch.context_dim, data, pooled, y, NULL, &out, &e), &e);
    return out;
}

static graft_control_options options(const graft_controlnet *net, double strength)
{
    return (graft_control_options){
        .net = net, .hint = hint, .vae = vae, .strength = strength, .end = 1};
}

static pair steer(pair p, graft_control_options o)
{
    pair out = {NULL, NULL};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_control(p.positive, p.negative, &o, &out.positive, &out.negative, &e), &e);
    return out;
}

static void drop(pair p)
{
    graft_cond_release(p.positive);
    graft_cond_release(p.negative);
}

static graft_status try_sizes(const graft_model *m, pair p, int64_t n, int64_t high, int64_t wide,
                              const graft_task *task, float *out, graft_err *e)
{
    const graft_sample_params params = {.seed = 5,
                                        .add_noise = true,
                                        .steps = 4,
                                        .cfg = 3.0,
                                        .sampler = "euler",
                                        .scheduler = "simple",
                                        .denoise = 1.0,
                                        .end_at_step = 10000};
    graft_latent *from = NULL, *to = NULL;
    int64_t shape[4];
    graft_status st = graft_latent_empty(16, wide * PIXELS, high * PIXELS, n, &from, e);
    if (!st) st = graft_sample(m, &params, p.positive, p.negative, from, task, &to, e);
    if (!st) {
        const float *data = graft_latent_data(to, shape);
        memcpy(out, data, (size_t)(n * 16 * high * wide) * sizeof *out);
    }
    graft_latent_release(from);
    graft_latent_release(to);
    return st;
}

static void sample(const graft_model *m, pair p, float *out)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_sizes(m, p, 1, HIGH, WIDE, NULL, out, &e), &e);
}

static void steer_and_sample(const bench *b, graft_control_options o, float *out)
{
    pair p = steer(b->plain, o);
    sample(b->m, p, out);
    drop(p);
}

static void begin(bench *b, const char *model, const char *net, const char *other)
{
    b->m = load_model(engine, model);
    b->net = load_control(engine, net);
    if (other) b->other = load_control(engine, other);
    b->plain = (pair){words(b->m, 1), words(b->m, 2)};
    sample(b->m, b->plain, b->bare);
    steer_and_sample(b, options(b->net, 1), b->steered);
}

static void end(bench *b)
{
    drop(b->plain);
    graft_controlnet_release(b->net);
    graft_controlnet_release(b->other);
    graft_model_release(b->m);
}

/* ------------------------------------------------------------------ what they add */

static void strengths(const bench *b)
{
    float now[ONE];
    graft_image *another = control_hint(1, 64, 9);
    graft_control_options none = options(b->net, 0), other = options(b->net, 1);
    pair p = steer(b->plain, none);
    CHECK(p.positive == b->plain.positive && p.negative == b->plain.negative);
    drop(p);
    CHECK(difference(b->steered, b->bare, ONE) > 0.01);
    steer_and_sample(b, options(b->net, 1), now);
    CHECK(memcmp(now, b->steered, sizeof now) == 0);
    p = steer(b->plain, options(b->net, 0.5));
    pair twice = steer(p, options(b->net, 0.5));
    sample(b->m, twice, now);
    CHECK(difference(now, b->steered, ONE) < 1e-4);
    drop(twice);
    twice = steer(p, options(b->net, -0.5));
    sample(b->m, twice, now);
    CHECK(difference(now, b->bare, ONE) < 1e-4);
    drop(twice);
    drop(p);
    other.hint = another;
    steer_and_sample(b, other, now);
    CHECK(difference(now, b->steered, ONE) > 1e-3);
    graft_image_release(another);
}

static void ranges(const bench *b)
{
    float first[ONE], now[ONE];
    graft_control_options early = options(b->net, 1), late = options(b->net, 1);
    early.end = 0.5, late.start = 0.5001;
    steer_and_sample(b, early, first);
    CHECK(difference(first, b->bare, ONE) > 1e-3);
    CHECK(difference(first, b->steered, ONE) > 1e-4);
    pair p = steer(b->plain, early), q = steer(p, late);
    sample(b->m, q, now);
    CHECK(difference(now, b->steered, ONE) < 1e-4);
    drop(p);
    drop(q);
    early.start = 0.7, early.end = 0.2;
    steer_and_sample(b, early, now);
    CHECK(memcmp(now, b->bare, sizeof now) == 0);
}

static void all_of_them(void)
{
    const bench *const all[] = {&flux, &sd3, &large};
    for (int i = 0; i < 3; i++) {
        strengths(all[i]);
        ranges(all[i]);
    }
}

/* Of two with other numbers of blocks, one of which steers no blocks of one stream. */
static void two_of_a_kind(void)
{
    float a[ONE], b[ONE], alone[ONE];
    pair p = steer(flux.plain, options(flux.net, 1)), q = steer(p, options(flux.other, 0.7));
    sample(flux.m, q, a);
    drop(p);
    drop(q);
    p = steer(flux.plain, options(flux.other, 0.7)), q = steer(p, options(flux.net, 1));
    sample(flux.m, q, b);
    CHECK(difference(a, b, ONE) < 1e-4);
    CHECK(difference(a, flux.steered, ONE) > 1e-3);
    drop(q);
    /* The one with blocks of one stream is there and never active. */
    graft_control_options never = options(flux.net, 1);
    never.start = 0.7, never.end = 0.2;
    sample(flux.m, p, alone);
    q = steer(p, never);
    sample(flux.m, q, a);
    CHECK(difference(a, alone, ONE) < 1e-4);
    CHECK(difference(alone, flux.bare, ONE) > 1e-3);
    drop(p);
    drop(q);
}

static void types(void)
{
    static const char *const known[] = {"openpose", "depth", "canny/lineart/anime_lineart/mlsd",
                                        "tile"};
    float now[ONE], last[ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *n = NULL;
    memcpy(last, flux.steered, sizeof last); /* told none */
    for (int i = 0; i < 4; i++) {
        CHECK_OK(graft_controlnet_with_type(flux.net, known[i], NULL, &n, &e), &e);
        steer_and_sample(&flux, options(n, 1), now);
        CHECK(difference(now, last, ONE) > 1e-4);
        memcpy(last, now, sizeof now);
        graft_controlnet_release(n);
    }
    CHECK_OK(graft_controlnet_with_type(flux.net, "auto", NULL, &n, &e), &e);
    steer_and_sample(&flux, options(n, 1), now);
    CHECK(memcmp(now, flux.steered, sizeof now) == 0);
    graft_controlnet_release(n);
    CHECK_INT(graft_controlnet_with_type(flux.net, "normal", NULL, &n, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "FLUX.1") != NULL);
}

/* ------------------------------------------------------------------ the run */

static void nothing_is_compiled_again(void)
{
    float now[ONE];
    graft_image *other = control_hint(1, 48, 77);
    const bench *const all[] = {&flux, &sd3, &large};
    for (int k = 0; k < 3; k++) {
        const uint64_t before = graphs_built(engine);
        for (int i = 1; i < 5; i++) {
            graft_control_options o = options(all[k]->net, 0.3 * i);
            o.start = 0.1 * i;
            if (i % 2) o.hint = other;
            steer_and_sample(all[k], o, now);
        }
        CHECK_INT(graphs_built(engine), before);
    }
    graft_image_release(other);
}

/* compile_only compiles all that the run then needs. */
static void ahead_of_time(void)
{
    static const char *const files[][2] = {{FLUX, NET("flux_union")}, {LARGE, NET("mmdit_large")}};
    float now[ONE];
    graft_task task = {.compile_only = true};
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 2; i++) {
        graft_engine *fresh = make_engine("cpu");
        graft_model *m = load_model(fresh, files[i][0]);
        graft_controlnet *n = load_control(fresh, files[i][1]);
        graft_vae *v = NULL;
        CHECK_OK(graft_vae_load(fresh, VAE_16, NULL, &v, &e), &e);
        graft_control_options o = options(n, 1), half = options(n, 1);
        o.vae = half.vae = v;
        half.end = 0.5;
        pair plain = {words(m, 1), words(m, 2)}, p = steer(plain, o), q = steer(p, half);
        CHECK_OK(try_sizes(m, q, 1, HIGH, WIDE, &task, now, &e), &e);
        const uint64_t before = graphs_built(fresh);
        CHECK_OK(try_sizes(m, q, 1, HIGH, WIDE, NULL, now, &e), &e);
        CHECK_INT(graphs_built(fresh), before);
        drop(plain);
        drop(p);
        drop(q);
        graft_vae_release(v);
        graft_controlnet_release(n);
        graft_model_release(m);
        graft_engine_destroy(fresh);
    }
}

/* Pictures of a hint repeat over a batch; a latent of odd sides is filled up. */
static void batches_and_sizes(void)
{
    static float all[3 * ONE], first[3 * ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_image *two = control_hint(2, 64, 1);
    const bench *const each[] = {&flux, &large};
    for (int i = 0; i < 2; i++) {
        graft_control_options o = options(each[i]->net, 1);
        pair p = steer(each[i]->plain, o);
        CHECK_OK(try_sizes(each[i]->m, p, 3, HIGH, WIDE, NULL, first, &e), &e);
        drop(p);
        o.hint = two;
        p = steer(each[i]->plain, o);
        CHECK_OK(try_sizes(each[i]->m, p, 3, HIGH, WIDE, NULL, all, &e), &e);
        CHECK(difference(all, first, ONE) < 1e-4);
        CHECK(difference(all + ONE, first + ONE, ONE) > 1e-4);
        CHECK(difference(all + 2 * ONE, first + 2 * ONE, ONE) < 1e-4);
        CHECK_OK(try_sizes(each[i]->m, p, 1, 5, 7, NULL, all, &e), &e);
        CHECK_OK(try_sizes(each[i]->m, each[i]->plain, 1, 5, 7, NULL, first, &e), &e);
        CHECK(difference(all, first, (size_t)16 * 5 * 7) > 1e-3);
        drop(p);
    }
    graft_image_release(two);
}

/* Pictures that Kontext sees stand behind the latent's tokens, which alone are steered. */
static void references(void)
{
    float now[ONE], bare[ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *shown = NULL;
    pair p = {NULL, NULL};
    CHECK_OK(graft_latent_empty(16, 32, 48, 1, &shown, &e), &e);
    CHECK_OK(graft_cond_reference(flux.plain.positive, shown, &p.positive, &e), &e);
    p.negative = graft_cond_retain(flux.plain.negative);
    pair q = steer(p, options(flux.net, 1));
    sample(flux.m, p, bare);
    sample(flux.m, q, now);
    CHECK(difference(now, bare, ONE) > 1e-3);
    CHECK(difference(bare, flux.bare, ONE) > 1e-4);
    drop(p);
    drop(q);
    graft_latent_release(shown);
}

static void quantized_and_swapped(void)
{
    float now[ONE], bare[ONE];
    graft_model *q = half_quantized(flux.m);
    pair p = steer(flux.plain, options(flux.net, 1));
    sample(q, p, now);
    sample(q, flux.plain, bare);
    CHECK(memcmp(now, flux.steered, sizeof now) != 0);
    CHECK(difference(now, flux.steered, ONE) < 0.5);
    CHECK(difference(now, bare, ONE) > 1e-3);
    graft_model_release(q);
    const uint64_t before = graphs_built(engine);
    graft_model *s = swap_weights(flux.m, FLUX, false);
    sample(s, p, now);
    CHECK(memcmp(now, flux.steered, sizeof now) == 0);
    CHECK_INT(graphs_built(engine), before);
    graft_model_release(s);
    drop(p);
}

/* ------------------------------------------------------------------ what is refused */

static void expect_misfit(const bench *b, graft_control_options o, const char *text)
{
    float now[ONE];
    graft_err e = GRAFT_ERR_INIT;
    pair p = steer(b->plain, o);
    CHECK_INT(try_sizes(b->m, p, 1, HIGH, WIDE, NULL, now, &e), GRAFT_E_ARG);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    drop(p);
}

static void other_models(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *four = NULL;
    bench dev = {.m = load_model(engine, FLUX_DEV)};
    dev.plain = (pair){words(dev.m, 1), words(dev.m, 2)};
    expect_misfit(&dev, options(flux.net, 1), "its blocks are 32 wide, the model's 48");
    expect_misfit(&sd3, options(flux.net, 1), "it is for FLUX.1, the model is Stable Diffusion 3");
    expect_misfit(&flux, options(sd3.net, 1), "it is for Stable Diffusion 3");
    CHECK_OK(graft_vae_load(engine, VAE_4, NULL, &four, &e), &e);
    graft_control_options o = options(flux.net, 1);
    o.vae = four;
    expect_misfit(&flux, o, "latents of 4 channels, 8x6, and the ControlNet sees 16, 8x6");
    o.vae = NULL;
    graft_cond *p = NULL, *n = NULL;
    CHECK_INT(graft_cond_control(flux.plain.positive, flux.plain.negative, &o, &p, &n, &e),
              GRAFT_E_ARG);
    CHECK(strstr(e.text, "no VAE is given") != NULL);
    graft_vae_release(four);
    drop(dev.plain);
    graft_model_release(dev.m);
}

static made_file *net_file(const char *path)
{
    graft_safetensors *f = open_file(path);
    made_file *m = copy_file(f, "");
    graft_safetensors_close(f);
    return m;
}

static void refused(made_file *f, graft_status want, const char *text)
{
    const char *path = temp_path("broken.safetensors");
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(f, path, "{\"rope_dim\": 6, \"num_heads\": 2, \"num_head_channels\": 16}");
    CHECK_INT(graft_controlnet_load(engine, path, NULL, &n, &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    graft_controlnet_release(n);
    unlink(path);
}

static void without(const char *path, const char *name)
{
    made_file *f = net_file(path);
    graft_st_tensor *t = made_find(f, name), gone = *t;
    *t = f->tensor[--f->n];
    free((char *)gone.name);
    free((void *)gone.data);
    refused(f, GRAFT_E_FORMAT, name);
}

/* With this tensor of another width. */
static void widened(const char *path, const char *name, int dim, int64_t size, graft_status want,
                    const char *text)
{
    made_file *f = net_file(path);
    graft_st_tensor *t = made_find(f, name), old = *t;
    int64_t shape[GRAFT_MAX_RANK];
    memcpy(shape, t->shape, sizeof shape);
    shape[dim] = size;
    add_tensor(f, name, old.rank, shape, NULL, 0.1f);
    *made_find(f, name) = f->tensor[--f->n];
    free((char *)old.name);
    free((void *)old.data);
    refused(f, want, text);
}

static void broken_files(void)
{
    without(NET("flux"), "controlnet_x_embedder.bias");
    without(NET("flux"), "controlnet_blocks.1.weight");
    without(NET("flux"), "transformer_blocks.0.attn.add_k_proj.bias");
    without(NET("flux_union"), "controlnet_single_blocks.2.bias");
    without(NET("flux_union"), "single_transformer_blocks.1.attn.to_v.weight");
    without(NET("mmdit"), "pos_embed_input.proj.bias");
    without(NET("mmdit"), "transformer_blocks.2.ff_context.net.2.weight");
    without(NET("mmdit_large"), "transformer_blocks.1.mlp.fc2.bias");
    widened(NET("flux"), "controlnet_x_embedder.weight", 1, 68, GRAFT_E_UNSUPPORTED, "a mask");
    widened(NET("flux"), "controlnet_x_embedder.weight", 1, 128, GRAFT_E_UNSUPPORTED, "32 planes");
    widened(NET("flux"), "controlnet_blocks.0.weight", 1, 16, GRAFT_E_FORMAT,
            "controlnet_blocks.0");
    widened(NET("flux_union"), "controlnet_mode_embedder.weight", 1, 16, GRAFT_E_FORMAT,
            "controlnet_mode_embedder");
    widened(NET("flux_union"), "controlnet_mode_embedder.weight", 0, 33, GRAFT_E_UNSUPPORTED, "33");
    widened(NET("mmdit"), "pos_embed_input.proj.weight", 1, 17, GRAFT_E_UNSUPPORTED, "a mask");
    made_file *f = net_file(NET("flux"));
    add_tensor(f, "proj_out.weight", 1, (int64_t[]){4}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "a ControlNet for FLUX has no tensor proj_out.weight");
    f = calloc(1, sizeof *f);
    add_tensor(f, "input_hint_block.0.weight", 4, (int64_t[]){16, 3, 3, 3}, NULL, 1);
    add_tensor(f, GRAFT_FLUX_TENSOR, 2, (int64_t[]){96, 32}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "XLabs");
}

/* Stability's mark for outlines changes what the VAE is given, and other marks do not. */
static void marked_for_outlines(void)
{
    float now[ONE];
    for (int32_t type = 0; type < 3; type++) {
        made_file *f = net_file(NET("mmdit_large"));
        const char *path = temp_path("marked.safetensors");
        add_tensor(f, "control_type", 1, (int64_t[]){1}, NULL, 1);
        memcpy((void *)f->tensor[f->n - 1].data, &type, sizeof type);
        f->tensor[f->n - 1].dtype = GRAFT_I32;
        write_file(f, path, "{\"num_heads\": 2, \"num_head_channels\": 16}");
        graft_controlnet *n = load_control(engine, path);
        unlink(path);
        steer_and_sample(&large, options(n, 1), now);
        const double d = difference(now, large.steered, ONE);
        CHECK(type == 1 ? d > 1e-3 : d < 1e-6);
        graft_controlnet_release(n);
    }
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    engine = make_engine("cpu");
    hint = control_hint(1, 64, 1);
    CHECK_OK(graft_vae_load(engine, VAE_16, NULL, &vae, &e), &e);
    begin(&flux, FLUX, NET("flux_union"), NET("flux"));
    begin(&sd3, SD3, NET("mmdit"), NULL);
    begin(&large, LARGE, NET("mmdit_large"), NULL);
    RUN(all_of_them);
    RUN(two_of_a_kind);
    RUN(types);
    RUN(nothing_is_compiled_again);
    RUN(ahead_of_time);
    RUN(batches_and_sizes);
    RUN(references);
    RUN(quantized_and_swapped);
    RUN(other_models);
    RUN(broken_files);
    RUN(marked_for_outlines);
    end(&flux);
    end(&sd3);
    end(&large);
    graft_vae_release(vae);
    graft_image_release(hint);
    graft_engine_destroy(engine);
    return test_end();
}

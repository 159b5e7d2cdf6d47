/* ControlNets for Z-Image, which are put on models: what they add and when, several at once, masks,
 * that nothing is compiled again, and what is refused. What their values are is for the golden
 * tests. */
#include "engine/denoise/hint_latents.h"
#include "tests/engine/control_transformer.h"
#include "tests/engine/regions.h"

#define MODEL(x) GRAFT_SOURCE_DIR "/golden/small/control_zimage_" x ".safetensors"
#define PATCH(x) NET("zimage_" x)

enum { VERSION_1, VERSION_2, VERSION_21, VERSIONS };

static graft_model *z; /* that of version 1's file, which all of them fit */
static graft_controlnet *nets[VERSIONS];
static pair prompts;
static float plain[ONE], followed[VERSIONS][ONE];

static graft_controlnet *load_patch(graft_engine *g, const char *path)
{
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_patch_load(g, path, NULL, &n, &e), &e);
    return n;
}

static graft_cond *said(const graft_model *m, uint64_t seed, int64_t tokens)
{
    const int64_t n = tokens * m->arch.context_dim;
    float *data = graft_malloc_array((size_t)n, sizeof *data);
    graft_cond *own = NULL, *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < n; i++) data[i] = fixed_value(seed * 1000003 + (uint64_t)i);
    CHECK_OK(graft_cond_create(tokens, m->arch.context_dim, data, 0, NULL, NULL, &own, &e), &e);
    CHECK_OK(graft_cond_fill(own, &m->arch, &out, &e), &e); /* as sampling does it */
    graft_cond_release(own);
    return out;
}

static graft_model_control_options patch(const graft_controlnet *n, double strength)
{
    return (graft_model_control_options){.net = n, .vae = vae, .hint = hint, .strength = strength};
}

static graft_model *put(const graft_model *m, graft_model_control_options o)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_control(m, &o, &out, &e), &e);
    return out;
}

static void put_and_sample(const graft_model *m, graft_model_control_options o, float *out)
{
    graft_model *with = put(m, o);
    sample(with, prompts, out);
    graft_model_release(with);
}

/* With this one behind that one. */
static void sample_two(graft_model_control_options first, graft_model_control_options second,
                       float *out)
{
    graft_model *m = put(z, first);
    put_and_sample(m, second, out);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ what they add */

static void versions(void)
{
    static const int32_t planes[] = {16, 33, 33}, depth[] = {3, 2, 3};
    for (int i = 0; i < VERSIONS; i++) {
        const graft_control_arch *a = &nets[i]->arch;
        CHECK_INT(a->refining, i); /* in the order of the versions */
        CHECK_INT(a->hint_channels, planes[i]);
        CHECK(a->zimage.depth == depth[i] && a->zimage.noise_depth == 2);
        CHECK(a->zimage.hidden == 32 && a->zimage.heads == 2 && a->zimage.mlp == 56);
    }
}

static void strengths(void)
{
    for (int i = 0; i < VERSIONS; i++) {
        float now[ONE];
        graft_image *another = control_hint(1, 64, 9);
        graft_model_control_options o = patch(nets[i], 1);
        graft_model *none = put(z, patch(nets[i], 0));
        CHECK(none == z);
        graft_model_release(none);
        CHECK(difference(followed[i], plain, ONE) > 0.01);
        put_and_sample(z, o, now);
        CHECK(memcmp(now, followed[i], sizeof now) == 0);
        sample_two(patch(nets[i], 0.5), patch(nets[i], 0.5), now);
        CHECK(difference(now, followed[i], ONE) < 1e-4);
        sample_two(patch(nets[i], 0.7), patch(nets[i], -0.7), now);
        CHECK(difference(now, plain, ONE) < 1e-4);
        o.hint = another;
        put_and_sample(z, o, now);
        CHECK(difference(now, followed[i], ONE) > 1e-3);
        graft_image_release(another);
    }
    CHECK(difference(followed[VERSION_1], followed[VERSION_21], ONE) > 1e-3);
}

/* Of several versions, which steer other blocks, in whichever order. */
static void together(void)
{
    for (int i = 0; i < VERSIONS; i++)
        for (int k = 0; k < i; k++) {
            float a[ONE], b[ONE];
            sample_two(patch(nets[i], 0.8), patch(nets[k], 0.6), a);
            sample_two(patch(nets[k], 0.6), patch(nets[i], 0.8), b);
            CHECK(difference(a, b, ONE) < 1e-4);
            CHECK(difference(a, followed[i], ONE) > 1e-3 && difference(a, plain, ONE) > 1e-3);
        }
}

static uint64_t every(int step, int n)
{
    uint64_t bits = 0;
    for (int i = 0; i < n; i++) bits |= (uint64_t)1 << i * step;
    return bits;
}

/* Of the files that there are. */
static void where_they_steer(void)
{
    static const struct {
        int32_t depth, step, refining;
    } known[] = {{6, 5, GRAFT_CONTROL_REFINES_HINT},
                 {15, 2, GRAFT_CONTROL_REFINES_TWICE},
                 {15, 2, GRAFT_CONTROL_REFINES_BOTH},
                 {3, 10, GRAFT_CONTROL_REFINES_BOTH}}; /* lite */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const graft_control_arch c = {.kind = GRAFT_NET_ZIMAGE,
                                      .zimage = {.depth = known[i].depth, .noise_depth = 2},
                                      .refining = known[i].refining};
        const graft_net_arch m = {.kind = GRAFT_NET_ZIMAGE,
                                  .zimage = {.depth = 30, .noise_depth = 2}};
        const graft_steered s = graft_control_steers(&c, &m);
        CHECK_INT(s.begins[0], known[i].refining == GRAFT_CONTROL_REFINES_HINT ? 0 : 3);
        CHECK_INT(s.begins[1], every(known[i].step, known[i].depth));
    }
}

/* All prompts have it, whatever their length: those of one length share a batch, others do not. */
static void all_prompts(void)
{
    for (int i = 0; i < VERSIONS; i++) {
        float x[ONE], with[ONE], bare[ONE], each[2][ONE];
        graft_err e = GRAFT_ERR_INIT;
        graft_model *m = put(z, patch(nets[i], 1));
        for (int longer = 0; longer < 2; longer++) {
            graft_cond *other = said(z, 7, longer ? 40 : 9);
            one_call c = {m, prompts.positive, other, 3.0, {1, 16, HIGH, WIDE}, NULL, NULL, 0};
            noise_of(&c, x);
            CHECK_OK(try_denoise_at(&c, x, 0.6f, with, &e), &e);
            c.model = z;
            CHECK_OK(try_denoise_at(&c, x, 0.6f, bare, &e), &e);
            c = (one_call){m, prompts.positive, other, 1.0, {1, 16, HIGH, WIDE}, NULL, NULL, 0};
            CHECK_OK(try_denoise_at(&c, x, 0.6f, each[0], &e), &e);
            c.positive = other;
            CHECK_OK(try_denoise_at(&c, x, 0.6f, each[1], &e), &e);
            for (int k = 0; k < ONE; k++) each[0][k] = each[1][k] + 3 * (each[0][k] - each[1][k]);
            CHECK(difference(with, each[0], ONE) < 1e-4);
            CHECK(difference(with, bare, ONE) > 1e-3);
            graft_cond_release(other);
        }
        graft_model_release(m);
    }
}

/* ------------------------------------------------------------------ pictures */

/* Black, but white from row `from` on. */
static graft_image *half_mask(int64_t from)
{
    float v[64 * 64];
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 64 * 64; i++) v[i] = i / 64 >= from;
    CHECK_OK(graft_image_from_data(v, (int64_t[]){1, 64, 64, 1}, true, &out, &e), &e);
    return out;
}

/* What the VAE makes of the picture, grey from row `from` on, as the network sees it. */
static void seen_by_vae(const graft_image *picture, int64_t from, float out[ONE])
{
    int64_t s[4];
    const float *p = graft_image_data(picture, s);
    float v[HIGH * PIXELS * WIDE * PIXELS * 3];
    graft_image *in = NULL;
    graft_latent *latent = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(s[1] == 64 && s[2] == 64 && HIGH * PIXELS == 48);
    for (int64_t y = 0; y < 48; y++) /* what is cut off: eight rows above, eight below */
        for (int64_t k = 0; k < 64 * 3; k++)
            v[y * 64 * 3 + k] = y + 8 >= from ? 0.5f : p[(y + 8) * 64 * 3 + k];
    CHECK_OK(graft_image_from_data(v, (int64_t[]){1, 48, 64, 3}, false, &in, &e), &e);
    CHECK_OK(graft_vae_encode(vae, in, NULL, NULL, &latent, &e), &e);
    const float *data = graft_latent_data(latent, s);
    for (int i = 0; i < ONE; i++) out[i] = (data[i] - 0.1159f) * 0.3611f;
    graft_latent_release(latent);
    graft_image_release(in);
}

/* The planes of version 2's hint, of which any may be missing. */
static void planes_of_a_hint(void)
{
    enum { CELLS = HIGH * WIDE, ALL = (2 * 16 + 1) * CELLS };
    graft_image *picture = control_hint(1, 64, 5), *mask = half_mask(32);
    float want[ALL];
    for (int given = 1; given < 8; given++) {
        if ((given & 2) && !(given & 4)) continue;
        graft_err e = GRAFT_ERR_INIT;
        graft_hint_latents h = {0};
        const graft_control l = {.net = nets[VERSION_21],
                                 .vae = vae,
                                 .hint = given & 1 ? hint : NULL,
                                 .inpaint = given & 2 ? picture : NULL,
                                 .mask = given & 4 ? mask : NULL};
        const graft_guided_config c = {.model = z, .shape = {1, 16, HIGH, WIDE}};
        const graft_box box = {.height = HIGH, .width = WIDE};
        float *got = NULL;
        memset(want, 0, sizeof want);
        if (given & 1) seen_by_vae(hint, 64, want);
        /* Half of the picture's 64 rows: three of the latent's six, after the cut. */
        for (int i = 0; given & 4 && i < CELLS; i++) want[ONE + i] = i < CELLS / 2;
        if (given & 2) seen_by_vae(picture, 32, want + ONE + CELLS);
        CHECK_OK(graft_hint_latents_take(&h, &c, &l, &box, 1, &got, &e), &e);
        CHECK(got && difference(got, want, ALL) < 1e-5);
        CHECK(got && memcmp(got + ONE, want + ONE, CELLS * sizeof *got) == 0);
        graft_free(got);
        graft_hint_latents_finish(&h);
    }
    graft_image_release(picture);
    graft_image_release(mask);
}

static void masks(void)
{
    for (int i = VERSION_2; i < VERSIONS; i++) {
        float now[ONE], last[ONE];
        graft_image *picture = control_hint(1, 64, 5), *mask = half_mask(32);
        graft_model_control_options o = patch(nets[i], 1);
        o.mask = mask;
        put_and_sample(z, o, now);
        CHECK(difference(now, followed[i], ONE) > 1e-4);
        o.inpaint = picture;
        put_and_sample(z, o, last);
        CHECK(difference(now, last, ONE) > 1e-4);
        o.hint = NULL;
        put_and_sample(z, o, now);
        CHECK(difference(now, last, ONE) > 1e-4);
        graft_image_release(picture);
        graft_image_release(mask);
    }
}

/* Pictures repeat over a batch; a latent of odd sides is filled up. */
static void batches_and_sizes(void)
{
    static float all[3 * ONE], first[3 * ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_image *two = control_hint(2, 64, 1);
    for (int i = 0; i < VERSIONS; i++) {
        graft_model_control_options o = patch(nets[i], 1);
        graft_model *m = put(z, o);
        CHECK_OK(try_sizes(m, prompts, 3, HIGH, WIDE, NULL, first, &e), &e);
        graft_model_release(m);
        o.hint = two;
        m = put(z, o);
        CHECK_OK(try_sizes(m, prompts, 3, HIGH, WIDE, NULL, all, &e), &e);
        CHECK(difference(all, first, ONE) < 1e-4);
        CHECK(difference(all + ONE, first + ONE, ONE) > 1e-4);
        CHECK(difference(all + 2 * ONE, first + 2 * ONE, ONE) < 1e-4);
        CHECK_OK(try_sizes(m, prompts, 1, 5, 7, NULL, all, &e), &e);
        CHECK_OK(try_sizes(z, prompts, 1, 5, 7, NULL, first, &e), &e);
        CHECK(difference(all, first, (size_t)16 * 5 * 7) > 1e-3);
        graft_model_release(m);
    }
    graft_image_release(two);
}

/* ------------------------------------------------------------------ the run */

static void nothing_is_compiled_again(void)
{
    float now[ONE];
    graft_image *other = control_hint(1, 48, 77);
    const uint64_t before = graphs_built(engine);
    for (int i = 0; i < VERSIONS; i++)
        for (int k = 1; k < 4; k++) {
            graft_model_control_options o = patch(nets[i], 0.3 * k);
            if (k % 2) o.hint = other;
            put_and_sample(z, o, now);
        }
    CHECK_INT(graphs_built(engine), before);
    graft_image_release(other);
}

/* compile_only compiles all that the run then needs, of one and of several; CompileModel the
 * network as it will be steered. */
static void ahead_of_time(void)
{
    static const int chains[][2] = {{VERSION_1, -1}, {VERSION_21, -1}, {VERSION_2, VERSION_1}};
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        float now[ONE];
        const graft_task task = {.compile_only = true};
        graft_err e = GRAFT_ERR_INIT;
        graft_engine *fresh = make_engine("cpu");
        graft_model *m = load_model(fresh, MODEL("one")), *with;
        graft_vae *v = NULL;
        graft_controlnet *n[VERSIONS] = {load_patch(fresh, PATCH("one")),
                                         load_patch(fresh, PATCH("two")),
                                         load_patch(fresh, PATCH("three"))};
        CHECK_OK(graft_vae_load(fresh, VAE_16, NULL, &v, &e), &e);
        for (int k = 0; k < 2 && chains[i][k] >= 0; k++) {
            graft_model_control_options o = patch(n[chains[i][k]], 1);
            o.vae = v;
            with = put(m, o);
            graft_model_release(m);
            m = with;
        }
        CHECK_OK(try_sizes(m, prompts, 1, HIGH, WIDE, &task, now, &e), &e);
        const uint64_t before = graphs_built(fresh);
        CHECK_OK(try_sizes(m, prompts, 1, HIGH, WIDE, NULL, now, &e), &e);
        CHECK_INT(graphs_built(fresh), before);
        graft_model_release(m);
        for (int k = 0; k < VERSIONS; k++) graft_controlnet_release(n[k]);
        graft_vae_release(v);
        graft_engine_destroy(fresh);
    }
}

/* The model with other weights in all that the ControlNet begins with. */
static const char *another_model(void)
{
    const char *path = temp_path("another.safetensors");
    made_file *f = net_file(MODEL("one"));
    for (size_t i = 0; i < f->n; i++) {
        const graft_st_tensor *t = &f->tensor[i];
        float *v = (float *)(uintptr_t)t->data;
        if (strstr(t->name, "diffusion_model.") && t->rank == 2)
            for (int64_t k = 0; k < shape_count(t->shape, 2); k++) v[k] *= 0.7f;
    }
    write_file(f, path, "{\"rope_dim\": 6}");
    return path;
}

/* Its own first blocks are those of the model that it is on: also of one that is swapped in, and of
 * one with integers. */
static void other_weights(void)
{
    for (int i = 0; i < VERSIONS; i++) {
        float now[ONE], want[ONE], bare[ONE];
        const char *path = another_model();
        graft_model *with = put(z, patch(nets[i], 1)), *other = load_model(engine, path);
        put_and_sample(other, patch(nets[i], 1), want);
        const uint64_t before = graphs_built(engine);
        graft_model *s = swap_weights(with, path, false);
        sample(s, prompts, now);
        CHECK(memcmp(now, want, sizeof now) == 0);
        CHECK(difference(now, followed[i], ONE) > 1e-3);
        CHECK_INT(graphs_built(engine), before);
        sample(with, prompts, now);
        CHECK(memcmp(now, followed[i], sizeof now) == 0);
        graft_model *q = half_quantized(z);
        put_and_sample(q, patch(nets[i], 1), now);
        sample(q, prompts, bare);
        CHECK(memcmp(now, followed[i], sizeof now) != 0);
        CHECK(difference(now, followed[i], ONE) < 0.5 && difference(now, bare, ONE) > 1e-3);
        graft_model_release(q);
        graft_model_release(s);
        graft_model_release(with);
        graft_model_release(other);
        unlink(path);
    }
}

/* Behind it QuantizeModel measures what the steered network sees. */
static void calibrated(void)
{
    float now[ONE];
    char *text = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_model *with = put(z, patch(nets[VERSION_21], 1)), *q = NULL;
    graft_latent *from = NULL;
    CHECK_OK(graft_latent_empty(16, WIDE * PIXELS, HIGH * PIXELS, 1, &from, &e), &e);
    const graft_quantize_options o = {.bits = 8,
                                      .conv = true,
                                      .linear = true,
                                      .conv_mse_threshold = 1,
                                      .linear_mse_threshold = 1,
                                      .positive = prompts.positive,
                                      .negative = prompts.negative,
                                      .latent = from,
                                      .steps = 2,
                                      .cfg = 3,
                                      .seed = 5};
    CHECK_OK(graft_model_quantize(with, &o, NULL, &q, NULL, &e), &e);
    sample(q, prompts, now);
    CHECK(memcmp(now, followed[VERSION_21], sizeof now) != 0);
    CHECK(difference(now, followed[VERSION_21], ONE) < 0.5);
    CHECK(difference(now, plain, ONE) > 1e-3);
    CHECK_OK(graft_model_report(q, NULL, NULL, &text, NULL, &e), &e);
    CHECK(text && strstr(text, "zimage_three.safetensors, strength 1\n") != NULL);
    graft_text_free(text);
    graft_latent_release(from);
    graft_model_release(q);
    graft_model_release(with);
}

/* ------------------------------------------------------------------ what is refused */

static void refused(const graft_model *m, graft_model_control_options o, graft_status want,
                    const char *text)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_model_control(m, &o, &out, &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    CHECK(!out);
}

static void what_is_missing(void)
{
    graft_err e = GRAFT_ERR_INIT;
    float now[ONE];
    graft_vae *four = NULL;
    graft_image *mask = half_mask(32);
    graft_model_control_options o = patch(nets[VERSION_1], 1);
    refused(flux.m, o, GRAFT_E_ARG, "it is for Z-Image, the model is FLUX.1");
    o.mask = mask;
    refused(z, o, GRAFT_E_ARG, "sees a picture to follow and nothing else");
    o = patch(nets[VERSION_21], 1);
    o.vae = NULL;
    refused(z, o, GRAFT_E_ARG, "no VAE is given");
    o = patch(nets[VERSION_21], 1);
    o.inpaint = hint;
    refused(z, o, GRAFT_E_ARG, "no mask");
    o.inpaint = o.hint = NULL;
    refused(z, o, GRAFT_E_ARG, "no picture is given");
    o = patch(nets[VERSION_21], NAN);
    refused(z, o, GRAFT_E_ARG, "strength");
    graft_model *wide = load_model(engine, GRAFT_SOURCE_DIR "/golden/small/zimage_two.safetensors");
    refused(wide, patch(nets[VERSION_1], 1), GRAFT_E_ARG, "its blocks are 32 wide");
    graft_model *shallow =
        load_model(engine, GRAFT_SOURCE_DIR "/golden/small/zimage_one.safetensors");
    refused(shallow, patch(nets[VERSION_1], 1), GRAFT_E_ARG, "belongs to another model");
    CHECK_OK(graft_vae_load(engine, VAE_4, NULL, &four, &e), &e);
    o = patch(nets[VERSION_21], 1);
    o.vae = four;
    graft_model *m = put(z, o);
    CHECK_INT(try_sizes(m, prompts, 1, HIGH, WIDE, NULL, now, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "latents of 4 channels, 8x6, and the ControlNet sees 16, 8x6") != NULL);
    graft_model_release(m);
    graft_model_release(wide);
    graft_model_release(shallow);
    graft_vae_release(four);
    graft_image_release(mask);
}

/* Neither loader takes the other's files, and says whose they are. */
static void other_files(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *n = NULL;
    CHECK_INT(graft_controlnet_load(engine, PATCH("one"), NULL, &n, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "a ControlNet for Z-Image, which ModelPatchLoader opens") != NULL);
    CHECK_INT(graft_model_patch_load(engine, NET("flux"), NULL, &n, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "a ControlNet, which ControlNetLoader opens") != NULL);
    CHECK(!n);
}

static void broken(const char *name)
{
    const char *path = temp_path("broken.safetensors");
    made_file *f = net_file(PATCH("three"));
    graft_st_tensor *t = made_find(f, name), gone = *t;
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    *t = f->tensor[--f->n];
    free((char *)(uintptr_t)gone.name);
    free((void *)(uintptr_t)gone.data);
    write_file(f, path, NULL);
    CHECK_INT(graft_model_patch_load(engine, path, NULL, &n, &e), GRAFT_E_FORMAT);
    if (!strstr(e.text, name)) CHECK_STR(e.text, name);
    unlink(path);
}

static void broken_files(void)
{
    broken("control_all_x_embedder.2-1.bias");
    broken("control_layers.0.before_proj.weight");
    broken("control_layers.2.after_proj.weight");
    broken("control_layers.1.attention.to_k.weight");
    broken("control_noise_refiner.1.after_proj.bias");
    broken("control_noise_refiner.0.ffn_norm2.weight");
}

/* ------------------------------------------------------------------ without memory */

static graft_status load_and_sample_two(float *out, graft_err *e)
{
    graft_controlnet *n = NULL;
    graft_model *m = NULL, *both = NULL;
    graft_status st = graft_model_patch_load(engine, PATCH("three"), NULL, &n, e);
    graft_model_control_options first = patch(n, 0.5), second = patch(nets[VERSION_2], 0.5);
    if (!st) st = graft_model_control(z, &first, &m, e);
    if (!st) st = graft_model_control(m, &second, &both, e);
    if (!st) st = try_sizes(both, prompts, 1, HIGH - 1, WIDE, NULL, out, e);
    graft_model_release(both);
    graft_model_release(m);
    graft_controlnet_release(n);
    return st;
}

/* Memory ends anywhere: an error, and nothing is lost. */
static void short_of_memory(void)
{
    float want[ONE], now[ONE];
    int64_t n = 0, failed = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(load_and_sample_two(want, &e), &e);
    CHECK_OK(load_and_sample_two(want, &e), &e);
    const int64_t live = live_blocks();
    for (bool done = false; !done && n < 1000000; n += n / 30) {
        graft_alloc_fail_at(++n);
        const graft_status st = load_and_sample_two(now, &e);
        done = graft_alloc_fail_at(0) > 0;
        CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !done));
        CHECK(st || memcmp(now, want, (HIGH - 1) * WIDE * 16 * sizeof *now) == 0);
        CHECK(live_blocks() <= live);
        failed += st != GRAFT_OK;
    }
    CHECK(n < 1000000 && failed > 20);
}

int main(void)
{
    begin_all();
    z = load_model(engine, MODEL("one"));
    nets[VERSION_1] = load_patch(engine, PATCH("one"));
    nets[VERSION_2] = load_patch(engine, PATCH("two"));
    nets[VERSION_21] = load_patch(engine, PATCH("three"));
    prompts = (pair){said(z, 1, 5), said(z, 2, 5)};
    sample(z, prompts, plain);
    for (int i = 0; i < VERSIONS; i++) put_and_sample(z, patch(nets[i], 1), followed[i]);
    RUN(versions);
    RUN(strengths);
    RUN(together);
    RUN(where_they_steer);
    RUN(all_prompts);
    RUN(planes_of_a_hint);
    RUN(masks);
    RUN(batches_and_sizes);
    RUN(nothing_is_compiled_again);
    RUN(ahead_of_time);
    RUN(other_weights);
    RUN(calibrated);
    RUN(what_is_missing);
    RUN(other_files);
    RUN(broken_files);
    RUN(short_of_memory);
    drop(prompts);
    for (int i = 0; i < VERSIONS; i++) graft_controlnet_release(nets[i]);
    graft_model_release(z);
    end_all();
    return test_end();
}

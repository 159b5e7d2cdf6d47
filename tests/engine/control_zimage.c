/* ControlNets for Z-Image, which are put on models: what they add and when, several at once, masks,
 * that nothing is compiled again, and what is refused. What their values are is for the golden
 * tests. */
#include "engine/denoise/hint_latents.h"
#include "tests/engine/model_patch.h"

#define MODEL(x) GRAFT_SOURCE_DIR "/golden/small/control_zimage_" x ".safetensors"
#define PATCH(x) NET("zimage_" x)

enum { VERSION_1, VERSION_2, VERSION_21, VERSIONS };

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
    for (int i = 0; i < VERSIONS; i++)
        for (int longer = 0; longer < 2; longer++) {
            graft_cond *other = said(base, 7, longer ? 40 : 9);
            steers_both(prompts.positive, other, i);
            graft_cond_release(other);
        }
}

/* ------------------------------------------------------------------ pictures */

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
    graft_image *picture = control_hint(1, 64, 5);
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
        const graft_guided_config c = {.model = base, .shape = {1, 16, HIGH, WIDE}};
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
}

static void masks(void)
{
    for (int i = VERSION_2; i < VERSIONS; i++) {
        float now[ONE], last[ONE];
        graft_image *picture = control_hint(1, 64, 5);
        graft_model_control_options o = patch(nets[i], 1);
        o.mask = mask;
        put_and_sample(base, o, now);
        CHECK(difference(now, steered[i], ONE) > 1e-4);
        o.inpaint = picture;
        put_and_sample(base, o, last);
        CHECK(difference(now, last, ONE) > 1e-4);
        o.hint = NULL;
        put_and_sample(base, o, now);
        CHECK(difference(now, last, ONE) > 1e-4);
        graft_image_release(picture);
    }
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

/* Its own first blocks are those of the model that it is on: also of one that is swapped in, and of
 * one with integers. */
static void other_weights(void)
{
    for (int i = 0; i < VERSIONS; i++) steers_other_weights(MODEL("one"), i);
}

static void calibrated(void)
{
    char *text = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_model *q = measured_with(VERSION_21);
    CHECK_OK(graft_model_report(q, NULL, NULL, &text, NULL, &e), &e);
    CHECK(text && strstr(text, "zimage_three.safetensors, strength 1\n") != NULL);
    graft_text_free(text);
    graft_model_release(q);
}

static void what_is_missing(void)
{
    graft_err e = GRAFT_ERR_INIT;
    float now[ONE];
    graft_vae *four = NULL;
    graft_model_control_options o = patch(nets[VERSION_1], 1);
    refused(flux.m, o, GRAFT_E_ARG, "it is for Z-Image, the model is FLUX.1");
    o.mask = mask;
    refused(base, o, GRAFT_E_ARG, "sees a picture to follow and nothing else");
    o = patch(nets[VERSION_21], 1);
    o.vae = NULL;
    refused(base, o, GRAFT_E_ARG, "no VAE is given");
    o = patch(nets[VERSION_21], 1);
    o.inpaint = hint;
    refused(base, o, GRAFT_E_ARG, "no mask");
    o.inpaint = o.hint = NULL;
    refused(base, o, GRAFT_E_ARG, "no picture is given");
    o = patch(nets[VERSION_21], NAN);
    refused(base, o, GRAFT_E_ARG, "strength");
    graft_model *wide = load_model(engine, GRAFT_SOURCE_DIR "/golden/small/zimage_two.safetensors");
    refused(wide, patch(nets[VERSION_1], 1), GRAFT_E_ARG, "its blocks are 32 wide");
    graft_model *shallow =
        load_model(engine, GRAFT_SOURCE_DIR "/golden/small/zimage_one.safetensors");
    refused(shallow, patch(nets[VERSION_1], 1), GRAFT_E_ARG, "belongs to another model");
    CHECK_OK(graft_vae_load(engine, VAE_4, NULL, &four, &e), &e);
    o = patch(nets[VERSION_21], 1);
    o.vae = four;
    graft_model *m = put(base, o);
    CHECK_INT(try_sizes(m, prompts, 1, HIGH, WIDE, NULL, now, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "latents of 4 channels, 8x6, and the ControlNet sees 16, 8x6") != NULL);
    graft_model_release(m);
    graft_model_release(wide);
    graft_model_release(shallow);
    graft_vae_release(four);
}

static void files_of_others(void)
{
    other_files(PATCH("one"), "a ControlNet for Z-Image", NET("flux"));
}

static void broken_files(void)
{
    broken(PATCH("three"), "control_all_x_embedder.2-1.bias");
    broken(PATCH("three"), "control_layers.0.before_proj.weight");
    broken(PATCH("three"), "control_layers.2.after_proj.weight");
    broken(PATCH("three"), "control_layers.1.attention.to_k.weight");
    broken(PATCH("three"), "control_noise_refiner.1.after_proj.bias");
    broken(PATCH("three"), "control_noise_refiner.0.ffn_norm2.weight");
}

static void short_of_memory(void)
{
    runs_short_of_memory(PATCH("three"), VERSION_2);
}

int main(void)
{
    begin_all();
    base = load_model(engine, MODEL("one"));
    nets[VERSION_1] = load_patch(engine, PATCH("one"));
    nets[VERSION_2] = load_patch(engine, PATCH("two"));
    nets[VERSION_21] = load_patch(engine, PATCH("three"));
    prompts = (pair){said(base, 1, 5), said(base, 2, 5)};
    mask = half_mask(32);
    begin_patches(VERSIONS);
    RUN(versions);
    RUN(strengths);
    RUN(together);
    RUN(with_easycache);
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
    RUN(files_of_others);
    RUN(broken_files);
    RUN(short_of_memory);
    end_patches();
    end_all();
    return test_end();
}

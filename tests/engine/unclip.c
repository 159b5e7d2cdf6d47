/* unCLIP models: what they are told of pictures, and what does not go together. The numbers are
 * held against golden/small/unclip. */
#include <math.h>

#include "engine/denoise/unclip.h"
#include "engine/models/detect/detect.h"
#include "engine/prompts/vision.h"
#include "tests/engine/sample.h"

#define UNCLIP MODELS "/tiny-unclip.safetensors"
#define SIGLIP GRAFT_SOURCE_DIR "/golden/small/vision_siglip.safetensors"
#define CLIP   GRAFT_SOURCE_DIR "/golden/small/vision_clip.safetensors"

static graft_engine *engine;
static char path[256];

/* What the encoder of a file sees in pictures of one colour each. */
static graft_vision_output *see(const char *from, int64_t n, uint32_t colour)
{
    graft_vision *v = NULL;
    graft_vision_output *o = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vision_load(engine, from, NULL, &v, &e), &e);
    CHECK_OK(graft_image_empty(20, 30, n, colour, &image, &e), &e);
    CHECK_OK(graft_vision_encode(v, image, true, NULL, &o, &e), &e);
    graft_image_release(image);
    graft_vision_release(v);
    return o;
}

static graft_cond *show(const graft_cond *c, const graft_vision_output *seen, double strength,
                        double noise)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_show(c, seen, strength, noise, &out, &e), &e);
    return out;
}

static graft_status sample(const graft_model *m, const graft_cond *positive,
                           const graft_cond *plain, uint64_t seed, graft_latent **out, graft_err *e)
{
    graft_latent *empty = NULL;
    const graft_sample_params p = {.seed = seed,
                                   .steps = 1,
                                   .cfg = 4.0,
                                   .sampler = "euler",
                                   .scheduler = "normal",
                                   .denoise = 1.0,
                                   .end_at_step = 10000};
    graft_status st = graft_latent_empty(4, 64, 64, 1, &empty, e);
    if (!st) st = graft_sample(m, &p, positive, plain, empty, NULL, out, e);
    graft_latent_release(empty);
    return st;
}

/* Without noise of its own, so that the seed is that of the pictures' noise alone. */
static void sampled(const graft_model *m, const graft_cond *positive, const graft_cond *plain,
                    uint64_t seed, float out[OUT])
{
    graft_latent *latent = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4];
    memset(out, 0, OUT * sizeof *out);
    CHECK_OK(sample(m, positive, plain, seed, &latent, &e), &e);
    if (latent) memcpy(out, graft_latent_data(latent, shape), OUT * sizeof *out);
    graft_latent_release(latent);
}

static void checkpoints_are_told(void)
{
    graft_model *m = load_model(engine, UNCLIP);
    CHECK(m->arch.unet.unclip == 1 && m->arch.adm_channels == 64);
    CHECK(m->prediction == GRAFT_PREDICT_V && m->scale_factor == 0.18215);
    CHECK_INT(graft_unet_family(&m->arch.unet), GRAFT_FAMILY_SD2);
    graft_model_release(m);
}

/* Stable Diffusion 2.1's UNets alone, by their widths; others of these widths are SDXL's kin. */
static void published_widths_are_told(void)
{
    static const int32_t widths[][3] = {
        {1024, 1536, 1}, {1024, 2048, 1}, {1024, 2816, 0}, {2048, 2048, 0}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        graft_safetensors *f = open_file(UNCLIP);
        made_file *m = copy_file(f, "model.diffusion_model."), *w = calloc(1, sizeof *w);
        graft_unet_arch a;
        graft_err e = GRAFT_ERR_INIT;
        graft_safetensors_close(f);
        for (size_t k = 0; k < m->n; k++) {
            const graft_st_tensor *t = &m->tensor[k];
            const bool context = strstr(t->name, "attn2.to_k") || strstr(t->name, "attn2.to_v");
            int64_t shape[4];
            memcpy(shape, t->shape, sizeof shape);
            if (context) shape[1] = widths[i][0];
            if (strstr(t->name, "label_emb.0.0.weight")) shape[1] = widths[i][1];
            add_tensor(w, t->name, t->rank, shape, NULL, 0.1f);
        }
        finish_file(m);
        write_file(w, path, NULL);
        f = open_file(path);
        CHECK_OK(graft_unet_detect(f, "model.diffusion_model.", NULL, &a, &e), &e);
        CHECK_INT(a.unclip, widths[i][2]);
        graft_safetensors_close(f);
        unlink(path);
    }
}

static void pictures_change_what_is_drawn(void)
{
    graft_model *m = load_model(engine, UNCLIP);
    graft_vision_output *red = see(UNCLIP, 1, 0xff0000), *blue = see(UNCLIP, 1, 0x0000ff);
    graft_cond *plain = NULL, *c[6];
    graft_err e = GRAFT_ERR_INIT;
    float got[8][OUT];
    CHECK_OK(sample_cond(m, &plain, &e), &e);
    c[0] = show(plain, red, 1, 0);
    c[1] = show(plain, blue, 1, 0);
    c[2] = show(plain, red, 1, 0.5);
    c[3] = show(c[0], red, -1, 0); /* a sum of several, which are noise again */
    c[4] = show(plain, red, 0, 0);
    c[5] = show(c[4], blue, 1, 0);
    for (int i = 0; i < 6; i++) sampled(m, c[i], plain, 3, got[i]);
    sampled(m, plain, plain, 3, got[6]);
    sampled(m, c[2], plain, 4, got[7]);
    CHECK(difference(got[0], got[6], OUT) > 1e-3);
    CHECK(difference(got[0], got[1], OUT) > 1e-4);
    CHECK(difference(got[0], got[2], OUT) > 1e-4);
    CHECK(difference(got[2], got[7], OUT) > 1e-5); /* another seed, other noise */
    CHECK(difference(got[3], got[0], OUT) > 1e-4);
    CHECK(same_bits(got[4], got[6]));
    sampled(m, c[0], plain, 3, got[7]);
    CHECK(same_bits(got[0], got[7]));
    for (int i = 0; i < 6; i++) graft_cond_release(c[i]);
    graft_cond_release(plain);
    graft_vision_output_release(red);
    graft_vision_output_release(blue);
    graft_model_release(m);
}

/* As a batch, or one after the other; of the sum only the level of its own noise is told. */
static void pictures_add_up(void)
{
    graft_model *m = load_model(engine, UNCLIP);
    graft_vision_output *two = see(UNCLIP, 2, 0x00ff00), *one = see(UNCLIP, 1, 0x00ff00);
    graft_cond *plain = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float a[64], b[64], none[64];
    CHECK_OK(sample_cond(m, &plain, &e), &e);
    graft_cond *batch = show(plain, two, 0.75, 0.25), *first = show(plain, one, 0.75, 0.25);
    graft_cond *both = show(first, one, 0.75, 0.25);
    graft_unclip_fill(m, batch->entry[0], 9, a);
    graft_unclip_fill(m, both->entry[0], 9, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    float waves[2] = {0};
    for (int i = 0; i < 16; i++) waves[0] += a[32 + i] * a[32 + i] + a[48 + i] * a[48 + i];
    CHECK(fabsf(waves[0] - 16) < 1e-3f); /* 16 waves' cos^2 + sin^2, whatever the strengths */
    CHECK(fabsf(a[32] - cosf(50)) < 1e-5f);
    graft_unclip_fill(m, plain->entry[0], 9, none);
    for (int i = 0; i < 64; i++) CHECK(none[i] == 0);
    graft_cond_release(both);
    graft_cond_release(first);
    graft_cond_release(batch);
    graft_cond_release(plain);
    graft_vision_output_release(one);
    graft_vision_output_release(two);
    graft_model_release(m);
}

static void what_does_not_fit_is_refused(void)
{
    graft_model *m = load_model(engine, UNCLIP), *other = load_model(engine, SD1);
    graft_vision_output *siglip = see(SIGLIP, 1, 0), *wide = see(CLIP, 1, 0);
    graft_cond *plain = NULL, *shown, *more, *out = NULL;
    graft_latent *latent = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float a[OUT], b[OUT];
    CHECK_OK(sample_cond(m, &plain, &e), &e);
    CHECK_INT(graft_cond_show(plain, siglip, 1, 0, &out, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "no vector for the whole picture") != NULL);
    CHECK_INT(graft_cond_show(plain, wide, NAN, 0, &out, &e), GRAFT_E_ARG);
    CHECK_INT(graft_cond_show(plain, wide, 11, 0, &out, &e), GRAFT_E_ARG);
    CHECK_INT(graft_cond_show(plain, wide, 1, 1.5, &out, &e), GRAFT_E_ARG);
    CHECK_INT(graft_cond_show(plain, wide, 1, NAN, &out, &e), GRAFT_E_ARG);
    shown = show(plain, wide, 1, 0);
    CHECK_INT(sample(m, shown, plain, 1, &latent, &e), GRAFT_E_ARG);
    CHECK(!latent && strstr(e.text, "gives 32 numbers, and this one gives 24") != NULL);
    for (int i = 1; i < GRAFT_SHOWN; i++) {
        more = show(shown, wide, 1, 0);
        graft_cond_release(shown);
        shown = more;
    }
    CHECK_INT(graft_cond_show(shown, wide, 1, 0, &out, &e), GRAFT_E_LIMIT);
    CHECK(!out);
    graft_cond_release(plain);
    graft_cond_release(shown);
    /* Others do not look at them. */
    CHECK_OK(sample_cond(other, &plain, &e), &e);
    shown = show(plain, wide, 1, 0);
    sampled(other, shown, plain, 1, a);
    sampled(other, plain, plain, 1, b);
    CHECK(same_bits(a, b));
    graft_cond_release(plain);
    graft_cond_release(shown);
    graft_vision_output_release(siglip);
    graft_vision_output_release(wide);
    graft_model_release(other);
    graft_model_release(m);
}

static void damaged_statistics_are_refused(void)
{
    static const char name[] = "noise_augmentor.data_std";
    graft_safetensors *f = open_file(UNCLIP);
    made_file *d = copy_file(f, "model.");
    graft_cond *plain = NULL, *shown;
    graft_latent *latent = NULL;
    graft_vision_output *seen = see(UNCLIP, 1, 0);
    graft_err e = GRAFT_ERR_INIT;
    add_tensor(d, "noise_augmentor.data_mean", 2, (int64_t[]){1, 32}, NULL, 1);
    add_tensor(d, name, 2, (int64_t[]){1, 31}, NULL, 1);
    write_file(d, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    graft_model *m = load_model(engine, path);
    CHECK_OK(sample_cond(m, &plain, &e), &e);
    shown = show(plain, seen, 1, 0);
    CHECK_INT(sample(m, shown, plain, 1, &latent, &e), GRAFT_E_FORMAT);
    CHECK(!latent && strstr(e.text, name) != NULL);
    graft_cond_release(shown);
    graft_cond_release(plain);
    graft_vision_output_release(seen);
    graft_model_release(m);
    unlink(path);
}

static void saving_would_lose_something(void)
{
    graft_model *m = load_model(engine, UNCLIP);
    const graft_checkpoint c = {.model = m};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_checkpoint_save(&c, path, NULL, NULL, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "unCLIP") != NULL);
    graft_model_release(m);
}

int main(void)
{
    snprintf(path, sizeof path, "%s", temp_path("unclip.safetensors"));
    engine = make_engine("ref");
    RUN(checkpoints_are_told);
    RUN(published_widths_are_told);
    RUN(pictures_change_what_is_drawn);
    RUN(pictures_add_up);
    RUN(what_does_not_fit_is_refused);
    RUN(damaged_statistics_are_refused);
    RUN(saving_would_lose_something);
    graft_engine_destroy(engine);
    return test_end();
}

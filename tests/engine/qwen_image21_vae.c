/* Qwen-Image 2.1's VAE through the engine's own functions, with golden/small/qwen_image21_vae: what
 * it decodes and encodes, transparency included, in tiles and in strips; its other names; and what
 * is wrong with files. */
#include "engine/models/vaes/wan_vae.h"
#include "tests/engine/vae_files.h"

#define SMALL GRAFT_SOURCE_DIR "/golden/small/qwen_image21_vae.safetensors"
#define TINY  MODELS "/../vae/tiny-qwen-image21-vae.safetensors"

/* ------------------------------------------------------------------ what it is */

static void detected(void)
{
    graft_vae *v = load_vae(SMALL);
    const graft_vae_arch *a = &v->arch;
    static const int32_t times[] = {1, 2, 4, 8, 8}, timed[] = {0, 1, 1, 1, 0};
    CHECK(a->kind == GRAFT_VAE_WAN && a->residual && a->encoder && a->decoder && !a->fold);
    CHECK(a->z_channels == 6 && a->embed_dim == 6 && a->in_channels == 4 && a->out_channels == 4);
    CHECK(a->levels == 5 && a->res_blocks == 2 && graft_vae_scale(a) == 16);
    for (int i = 0; i < 5; i++)
        CHECK(a->channels[i] == 4 * times[i] && a->decoder_channels[i] == 6 * times[i] &&
              a->temporal[i] == timed[i]);
    graft_vae_release(v);
    v = load_vae(TINY);
    CHECK(v->arch.levels == 5 && v->arch.residual && graft_vae_planes(&v->arch) == 64);
    CHECK(graft_vae_scale(&v->arch) == 16 && graft_latent_scale(64) == 16);
    CHECK(!v->arch.temporal[0] && v->arch.temporal[1] && v->arch.temporal[3]);
    graft_vae_release(v);
}

/* Mean and deviation of each plane, as its config has them: some of them written down once more. */
static void planes(void)
{
    const graft_latent_planes *p = &graft_qwen_image21_planes;
    double mean = 0, deviation = 0;
    for (int i = 0; i < p->n; i++) mean += (double)p->mean[i], deviation += (double)p->deviation[i];
    CHECK(p->n == 64 && p->mean[0] == 0.5126f && p->mean[52] == -5.0179f && p->mean[63] == 0.0304f);
    CHECK(p->deviation[0] == 3.2001f && p->deviation[52] == 5.5614f && p->deviation[63] == 3.8161f);
    CHECK_NEAR(mean, 7.7210, 1e-4);
    CHECK_NEAR(deviation, 240.5952, 1e-4);
}

static void golden(void)
{
    golden_batch(SMALL);
}

static float least_alpha(const graft_image *i)
{
    int64_t s[4];
    float least = 2;
    const float *x = graft_image_data(i, s);
    CHECK(s[3] == 4);
    for (int64_t k = 3; k < shape_count(s, 4); k += 4) least = fminf(least, x[k]);
    return least;
}

/* A picture without transparency is opaque, and what is decoded has it. */
static void transparency(void)
{
    graft_vae *v = load_vae(SMALL);
    graft_image *p = picture_of(1, 16, 32), *opaque = NULL, *clear = NULL;
    const graft_image *const plain[] = {p};
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4], t[4] = {1, 16, 32, 4};
    const float *x = graft_image_data(p, s);
    float *y = malloc((size_t)shape_count(t, 4) * sizeof *y);
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < 16 * 32; i++)
            for (int c = 0; c < 4; c++) y[4 * i + c] = c < 3 ? x[3 * i + c] : k ? 0.25f : 1;
        CHECK_OK(graft_image_from_data(y, t, false, k ? &clear : &opaque, &e), &e);
    }
    graft_latent *a = encoded(v, plain[0], NULL), *b = encoded(v, opaque, NULL);
    graft_latent *c = encoded(v, clear, NULL);
    graft_image *seen = decoded(v, a, NULL);
    CHECK(latents_apart(a, b) == 0 && latents_apart(a, c) > 1e-3);
    CHECK(least_alpha(seen) < 1);
    free(y);
    graft_image_release(p), graft_image_release(opaque), graft_image_release(clear);
    graft_image_release(seen);
    graft_latent_release(a), graft_latent_release(b), graft_latent_release(c);
    graft_vae_release(v);
}

/* ------------------------------------------------------------------ in parts */

static void tiles(void)
{
    in_tiles(SMALL, 6);
}

/* A level is one unit, and the way around it goes with its strips. */
static void strips(void)
{
    const strips_case c = {TINY,       .mb = 12,      .planes = 64, .scale = 16,
                           .rows = 40, .columns = 12, .below = 3,   .beside = 7};
    in_strips(&c);
}

/* ------------------------------------------------------------------ other files */

static const renaming names[] = {
#include "tests/engine/wan_vae_names.def"
    {"encoder.downsamples.", {"encoder.down_blocks."}},
    {"decoder.upsamples.", {"decoder.up_blocks."}},
    {".downsamples.2.", {".downsampler."}},
    {".upsamples.3.", {".upsampler."}},
    {".downsamples.", {".resnets."}},
    {".upsamples.", {".resnets."}},
    {NULL}};

static void diffusers_names(void)
{
    const char *path = temp_path("vae.safetensors");
    same_vae_in(renamed_tensors(golden_file(SMALL), names, ""), SMALL);
    write_file(renamed_tensors(golden_file(SMALL), names, ""), path, NULL);
    adopt_short_of_memory(path, graft_diffusers_adopt_vae);
    unlink(path);
}

/* Kernels over one picture of a video, and without what changes a video's length. */
static void other_kernels(void)
{
    made_file *f = golden_file(SMALL);
    size_t kernels = 0;
    for (size_t i = f->n; i-- > 0;) {
        graft_st_tensor *t = &f->tensor[i];
        if (strstr(t->name, "time_conv")) {
            drop_tensor(f, t->name);
        } else if (t->rank == 4 && t->shape[3] == 3) {
            t->rank = 5;
            t->shape[4] = 3;
            t->shape[2] = 1;
            kernels++;
        }
    }
    CHECK(kernels > 40);
    same_vae_in(f, SMALL);
}

static void saved(void)
{
    saved_vae(SMALL);
    decoder_alone(SMALL);
}

static void damaged(void)
{
    static const char *const gone[] = {"decoder.conv1.weight",
                                       "decoder.head.2.weight",
                                       "decoder.head.0.gamma",
                                       "decoder.upsamples.3.upsamples.1.residual.6.weight",
                                       "decoder.upsamples.1.upsamples.0.residual.0.gamma",
                                       "decoder.upsamples.2.upsamples.3.resample.1.bias",
                                       "decoder.middle.1.to_qkv.weight",
                                       "encoder.downsamples.1.downsamples.0.shortcut.weight",
                                       "encoder.middle.2.residual.3.gamma",
                                       "conv1.weight",
                                       "conv2.bias"};
    static const char first[] = "decoder.upsamples.2.upsamples.0.residual.2.weight";
    static const damage list[] = {
        {NULL,
         {0},
         GRAFT_E_UNSUPPORTED,
         "makes no sense",
         {"encoder.downsamples.4.downsamples.1.residual.2.weight"}},
        {NULL,
         {0},
         GRAFT_E_UNSUPPORTED,
         "makes no sense",
         {"decoder.upsamples.2.upsamples.2.residual.2.weight"}},
        {first, {24, 48, 2, 3}, GRAFT_E_FORMAT},
        /* A way around a level that would halve what it keeps, as of two pictures one is missing.
         */
        {"encoder.downsamples.0.downsamples.2.time_conv.weight",
         {2},
         GRAFT_E_UNSUPPORTED,
         "makes no sense",
         .added = true},
        /* Wan 2.2's, whose kernels see three pictures, and whose pictures have 12 channels. */
        {"decoder.conv1.weight", {48, 6, 3, 3, 3}, GRAFT_E_UNSUPPORTED, "Wan 2.2's VAE"},
        {"decoder.head.2.weight", {12, 6, 3, 3}, GRAFT_E_UNSUPPORTED, "Wan 2.2's VAE"},
        TOO_MUCH("decoder.up_blocks.0.attentions.0.weight",
                 "VAE has no tensor decoder.up_blocks.0.attentions"),
        TOO_MUCH("encoder.down_blocks.70000.resnets.0.conv1.weight",
                 "VAE has no tensor encoder.down_blocks.70000"),
        {NULL}};
    vae_lacks(SMALL, gone, sizeof gone / sizeof *gone);
    vaes_refused(SMALL, names, list);
    /* Or that would make of three channels one. */
    made_file *f = golden_file(SMALL);
    for (int i = 0; i < 3; i++) {
        char name[80];
        snprintf(name, sizeof name, "decoder.upsamples.2.upsamples.%d.residual.2.weight", i);
        drop_tensor(f, name);
        add_tensor(f, name, 4, (int64_t[]){16, i ? 16 : 48, 3, 3}, NULL, 0.1f);
    }
    vae_refused(f, GRAFT_E_UNSUPPORTED, "makes no sense");
}

static void short_of_memory(void)
{
    runs_short_of_memory(SMALL);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(detected);
    RUN(planes);
    RUN(golden);
    RUN(transparency);
    RUN(tiles);
    RUN(strips);
    RUN(diffusers_names);
    RUN(other_kernels);
    RUN(saved);
    RUN(damaged);
    RUN(short_of_memory);
    graft_engine_destroy(engine);
    return test_end();
}

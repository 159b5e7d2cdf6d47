/* Wan 2.1's VAE, which Qwen-Image has, through the engine's own functions, with
 * golden/small/wan_vae: what it decodes and encodes, in tiles and in strips; of its kernels over
 * time the last third; its other names; and what is wrong with files. With golden/small/
 * wan_vae_alpha the same with an alpha channel, which Qwen-Image-Layered has. */
#include "engine/models/vaes/wan_vae.h"
#include "tests/engine/vae_files.h"

#define SMALL       GRAFT_SOURCE_DIR "/golden/small/wan_vae.safetensors"
#define ALPHA       GRAFT_SOURCE_DIR "/golden/small/wan_vae_alpha.safetensors"
#define FOUR_LEVELS MODELS "/../vae/tiny-qwen-image-vae.safetensors"
#define COUNT(a)    (sizeof(a) / sizeof *(a))

/* ------------------------------------------------------------------ what it is */

static void detected(void)
{
    graft_vae *v = load_vae(SMALL);
    const graft_vae_arch *a = &v->arch;
    CHECK(a->kind == GRAFT_VAE_WAN && a->encoder && a->decoder && !a->fold);
    CHECK(a->z_channels == 4 && a->embed_dim == 4 && a->in_channels == 3 && a->out_channels == 3);
    CHECK(a->levels == 3 && a->res_blocks == 1);
    CHECK(a->channels[0] == 8 && a->channels[1] == 16 && a->channels[2] == 16);
    CHECK(graft_vae_scale(a) == 4 && graft_vae_planes(a) == 4);
    graft_vae_release(v);
    v = load_vae(FOUR_LEVELS);
    CHECK(v->arch.levels == 4 && graft_vae_scale(&v->arch) == 8 &&
          graft_vae_planes(&v->arch) == 16);
    graft_vae_release(v);
}

/* The numbers of the authors' file of the published size, written down here once more. */
static void layers_have_numbers(void)
{
    const graft_vae_arch a = {.levels = 4, .res_blocks = 2};
    CHECK_INT(graft_wan_vae_number(&a, false, 0, 0), 0);
    CHECK_INT(graft_wan_vae_number(&a, false, 0, 2), 2);  /* downsample2d */
    CHECK_INT(graft_wan_vae_number(&a, false, 2, 2), 8);  /* downsample3d */
    CHECK_INT(graft_wan_vae_number(&a, false, 3, 1), 10); /* the last */
    CHECK_INT(graft_wan_vae_number(&a, true, 3, 0), 0);
    CHECK_INT(graft_wan_vae_number(&a, true, 3, 3), 3); /* upsample3d */
    CHECK_INT(graft_wan_vae_number(&a, true, 1, 3), 11);
    CHECK_INT(graft_wan_vae_number(&a, true, 0, 2), 14); /* the last */
}

static void golden(void)
{
    golden_batch(SMALL);
}

/* Of kernels over time only the last slice counts, in every type that files have. */
static void earlier_slices(void)
{
    static const graft_dtype types[] = {GRAFT_F32, GRAFT_F16, GRAFT_BF16};
    graft_vae *v = load_vae(SMALL);
    graft_latent *l = latent_of((int64_t[]){1, 4, 4, 5});
    graft_image *want = decoded(v, l, NULL);
    for (size_t t = 0; t < COUNT(types); t++)
        for (int last = 0; last < 2; last++) {
            const char *path = temp_path("slices.safetensors");
            made_file *f = golden_file(SMALL);
            size_t kernels = 0;
            for (size_t i = 0; i < f->n; i++) {
                graft_st_tensor *k = &f->tensor[i];
                float *x = (float *)(uintptr_t)k->data;
                if (k->rank == 5 && k->shape[2] == 3 && k->shape[3] == 3) {
                    kernels++;
                    for (int64_t n = 0; n < shape_count(k->shape, 5); n++)
                        if ((n / 9 % 3 == 2) == last) x[n] += 0.5f;
                }
                if (types[t] != GRAFT_F32) store_as(k, types[t]);
            }
            CHECK(kernels > 20);
            write_file(f, path, NULL);
            graft_vae *w = load_vae(path);
            graft_image *got = decoded(w, l, NULL);
            if (last)
                CHECK(images_apart(got, want) > 0.05);
            else
                CHECK(images_apart(got, want) < (types[t] == GRAFT_BF16 ? 0.1 : 1e-6));
            graft_image_release(got);
            graft_vae_release(w);
            unlink(path);
        }
    graft_image_release(want);
    graft_latent_release(l);
    graft_vae_release(v);
}

/* Levels of the small one have two residual blocks in the decoder. */
static const renaming names[] = {
#include "tests/engine/wan_vae_names.def"
    {".downsamples.", {".down_blocks."}},
    {".upsamples.0.", {".up_blocks.0.resnets.0."}},
    {".upsamples.1.", {".up_blocks.0.resnets.1."}},
    {".upsamples.2.", {".up_blocks.0.upsamplers.0."}},
    {".upsamples.3.", {".up_blocks.1.resnets.0."}},
    {".upsamples.4.", {".up_blocks.1.resnets.1."}},
    {".upsamples.5.", {".up_blocks.1.upsamplers.0."}},
    {".upsamples.6.", {".up_blocks.2.resnets.0."}},
    {".upsamples.7.", {".up_blocks.2.resnets.1."}},
    {NULL}};

/* ------------------------------------------------------------------ with transparency */

static void alpha(void)
{
    graft_vae *v = load_vae(ALPHA);
    graft_image *rgb = picture_of(2, 16, 12), *rgba = NULL, *white = NULL, *back = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK(v->arch.in_channels == 4 && v->arch.out_channels == 4 && !v->arch.residual);
    golden_batch(ALPHA);
    /* A picture without an alpha channel is opaque. */
    CHECK_OK(graft_mask_solid(12, 16, 0, &white, &e), &e);
    CHECK_OK(graft_image_join_alpha(rgb, white, &rgba, &e), &e);
    graft_latent *a = encoded(v, rgb, NULL), *b = encoded(v, rgba, NULL);
    CHECK(latents_apart(a, b) < 1e-6);
    back = decoded(v, a, NULL);
    graft_image_data(back, s);
    CHECK(s[0] == 2 && s[1] == 16 && s[2] == 12 && s[3] == 4);
    graft_latent_release(a);
    graft_latent_release(b);
    graft_image_release(rgb);
    graft_image_release(rgba);
    graft_image_release(white);
    graft_image_release(back);
    graft_vae_release(v);
    same_vae_in(renamed_tensors(golden_file(ALPHA), names, ""), ALPHA);
    saved_vae(ALPHA);
}

/* Those of a sample become pictures, one behind the other. */
static void layers(void)
{
    const int64_t shape[4] = {2, 4 * 3, 3, 4};
    graft_vae *v = load_vae(ALPHA);
    graft_latent *l = NULL, *apart = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(graft_latent_create_layers(shape, 3, &l, &e), &e);
    for (int64_t i = 0; i < shape_count(shape, 4); i++)
        graft_latent_writable(l)[i] = fixed_value((uint64_t)i);
    CHECK_OK(graft_latent_cut_to_batch(l, GRAFT_LATENT_LAYERS, 1, &apart, &e), &e);
    graft_image *got = decoded(v, l, NULL), *want = decoded(v, apart, NULL);
    graft_image_data(got, s);
    CHECK(s[0] == 6 && s[3] == 4 && images_apart(got, want) == 0);
    graft_latent_release(l);
    graft_latent_release(apart);
    graft_image_release(got);
    graft_image_release(want);
    graft_vae_release(v);
}

/* ------------------------------------------------------------------ in parts */

static void tiles(void)
{
    in_tiles(SMALL, 4);
}

/* Norms see one pixel, so strips take no statistics. */
static void strips(void)
{
    const strips_case c = {FOUR_LEVELS, .mb = 6,       .planes = 16, .scale = 8,
                           .rows = 48,  .columns = 24, .below = 3,   .beside = 7};
    in_strips(&c);
}

/* ------------------------------------------------------------------ other files */

static void diffusers_names(void)
{
    const char *path = temp_path("wan-vae.safetensors");
    same_vae_in(renamed_tensors(golden_file(SMALL), names, ""), SMALL);
    write_file(renamed_tensors(golden_file(SMALL), names, ""), path, NULL);
    adopt_short_of_memory(path, graft_diffusers_adopt_vae);
    unlink(path);
}

static void saved(void)
{
    saved_vae(SMALL);
    decoder_alone(SMALL);
}

static void damaged(void)
{
    static const char kernel[] = "decoder.upsamples.0.residual.2.weight";
    static const char *const gone[] = {"decoder.conv1.weight",
                                       "decoder.head.2.weight",
                                       "decoder.head.0.gamma",
                                       "decoder.upsamples.3.residual.6.weight",
                                       "decoder.upsamples.1.residual.0.gamma",
                                       "decoder.upsamples.5.resample.1.bias",
                                       "decoder.middle.1.to_qkv.weight",
                                       "encoder.downsamples.2.shortcut.weight",
                                       "encoder.middle.2.residual.3.gamma",
                                       "conv1.weight",
                                       "conv2.bias"};
    static const damage list[] = {
        /* Kernels of single pictures, and over two. */
        {kernel, {16, 16, 3, 3}, GRAFT_E_FORMAT},
        {kernel, {16, 16, 2, 3, 3}, GRAFT_E_FORMAT, "where (16,16,3,3,3) belongs"},
        {kernel, {0}, GRAFT_E_UNSUPPORTED, "makes no sense"},
        {"decoder.upsamples.0.upsamples.0.residual.2.weight",
         {4},
         GRAFT_E_UNSUPPORTED,
         "Wan 2.2's VAE",
         .added = true},
        TOO_MUCH("decoder.up_blocks.0.attentions.0.weight",
                 "Wan 2.1's VAE has no tensor decoder.up_blocks.0.attentions"),
        TOO_MUCH("decoder.up_blocks.70000.resnets.0.conv1.weight",
                 "Wan 2.1's VAE has no tensor decoder.up_blocks.70000"),
        {NULL}};
    vae_lacks(SMALL, gone, COUNT(gone));
    vaes_refused(SMALL, names, list);
}

static void short_of_memory(void)
{
    runs_short_of_memory(SMALL);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(detected);
    RUN(layers_have_numbers);
    RUN(golden);
    RUN(earlier_slices);
    RUN(alpha);
    RUN(layers);
    RUN(tiles);
    RUN(strips);
    RUN(diffusers_names);
    RUN(saved);
    RUN(damaged);
    RUN(short_of_memory);
    graft_engine_destroy(engine);
    return test_end();
}

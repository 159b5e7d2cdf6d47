/* Qwen-Image 2.1's VAE through the engine's own functions, with golden/small/qwen_image21_vae: what
 * it decodes and encodes, transparency included, in tiles and in strips; its other names; and what
 * is wrong with files. */
#include "engine/models/wan_vae.h"
#include "tests/engine/diffusers.h"
#include "tests/engine/vae_run.h"

#define SMALL    GRAFT_SOURCE_DIR "/golden/small/qwen_image21_vae.safetensors"
#define TINY     MODELS "/../vae/tiny-qwen-image21-vae.safetensors"
#define SCALE    16 /* its pixels in a place */
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ------------------------------------------------------------------ what it is */

static void detected(void)
{
    graft_vae *v = load_vae(SMALL);
    const graft_vae_arch *a = &v->arch;
    static const int32_t times[] = {1, 2, 4, 8, 8}, timed[] = {0, 1, 1, 1, 0};
    CHECK(a->kind == GRAFT_VAE_WAN && a->residual && a->encoder && a->decoder && !a->fold);
    CHECK(a->z_channels == 6 && a->embed_dim == 6 && a->in_channels == 4 && a->out_channels == 4);
    CHECK(a->levels == 5 && a->res_blocks == 2 && graft_vae_scale(a) == SCALE);
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

/* Without the file's cases. */
static made_file *alone(void)
{
    made_file *f = part_of_file(SMALL, "");
    for (size_t i = f->n; i-- > 0;)
        if (strncmp(f->tensor[i].name, "case", 4) == 0) drop_tensor(f, f->tensor[i].name);
    return f;
}

/* What diffusers calls the layers, written down here once more. */
static const char *theirs(const char *ours)
{
    static const char *const renamed[][2] = {{"encoder.conv1.", "encoder.conv_in."},
                                             {"decoder.conv1.", "decoder.conv_in."},
                                             {"encoder.head.0.", "encoder.norm_out."},
                                             {"encoder.head.2.", "encoder.conv_out."},
                                             {"decoder.head.0.", "decoder.norm_out."},
                                             {"decoder.head.2.", "decoder.conv_out."},
                                             {"coder.middle.0.", "coder.mid_block.resnets.0."},
                                             {"coder.middle.1.", "coder.mid_block.attentions.0."},
                                             {"coder.middle.2.", "coder.mid_block.resnets.1."},
                                             {".residual.0.", ".norm1."},
                                             {".residual.2.", ".conv1."},
                                             {".residual.3.", ".norm2."},
                                             {".residual.6.", ".conv2."},
                                             {".shortcut.", ".conv_shortcut."},
                                             {"encoder.downsamples.", "encoder.down_blocks."},
                                             {"decoder.upsamples.", "decoder.up_blocks."},
                                             {".downsamples.2.", ".downsampler."},
                                             {".upsamples.3.", ".upsampler."},
                                             {".downsamples.", ".resnets."},
                                             {".upsamples.", ".resnets."}};
    static char text[256], other[256];
    snprintf(text, sizeof text, "%s",
             strcmp(ours, "conv1.weight") == 0   ? "quant_conv.weight"
             : strcmp(ours, "conv1.bias") == 0   ? "quant_conv.bias"
             : strcmp(ours, "conv2.weight") == 0 ? "post_quant_conv.weight"
             : strcmp(ours, "conv2.bias") == 0   ? "post_quant_conv.bias"
                                                 : ours);
    for (size_t i = 0; i < COUNT(renamed); i++) {
        const char *at = strstr(text, renamed[i][0]);
        if (!at) continue;
        snprintf(other, sizeof other, "%.*s%s%s", (int)(at - text), text, renamed[i][1],
                 at + strlen(renamed[i][0]));
        memcpy(text, other, sizeof text);
    }
    return text;
}

static made_file *in_diffusers_names(void)
{
    made_file *f = alone();
    for (size_t i = 0; i < f->n; i++) call_tensor(&f->tensor[i], theirs(f->tensor[i].name));
    return f;
}

static void same(const graft_vae *a, const graft_vae *b)
{
    graft_latent *l = latent_of((int64_t[]){1, 6, 3, 4});
    graft_image *p = picture_of(1, 24, 32), *x = decoded(a, l, NULL), *y = decoded(b, l, NULL);
    graft_latent *z = encoded(a, p, NULL), *w = encoded(b, p, NULL);
    CHECK(memcmp(&a->arch, &b->arch, sizeof a->arch) == 0);
    CHECK(images_apart(x, y) == 0 && latents_apart(z, w) == 0);
    graft_image_release(p), graft_image_release(x), graft_image_release(y);
    graft_latent_release(l), graft_latent_release(z), graft_latent_release(w);
}

/* The file, which is used up, is the same VAE. */
static void same_in(made_file *f)
{
    const char *path = temp_path("vae.safetensors");
    graft_vae *a = load_vae(SMALL), *b;
    write_file(f, path, NULL);
    b = load_vae(path);
    same(a, b);
    graft_vae_release(a);
    graft_vae_release(b);
    unlink(path);
}

static void diffusers_names(void)
{
    const char *path = temp_path("vae.safetensors");
    same_in(in_diffusers_names());
    write_file(in_diffusers_names(), path, NULL);
    adopt_short_of_memory(path, graft_diffusers_adopt_vae);
    unlink(path);
}

/* Kernels over one picture of a video, and without what changes a video's length. */
static void other_kernels(void)
{
    made_file *f = alone();
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
    same_in(f);
}

/* What VAESave writes is the same VAE; alone, a decoder is one. */
static void saved(void)
{
    const char *path = temp_path("saved.safetensors");
    graft_vae *a = load_vae(SMALL), *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.vae = a}, path, NULL, NULL, &e), &e);
    b = load_vae(path);
    same(a, b);
    graft_vae_release(a);
    graft_vae_release(b);
    made_file *f = alone();
    for (size_t i = f->n; i-- > 0;)
        if (strncmp(f->tensor[i].name, "encoder.", 8) == 0) drop_tensor(f, f->tensor[i].name);
    write_file(f, path, NULL);
    b = load_vae(path);
    CHECK(!b->arch.encoder && b->arch.residual && b->arch.in_channels == 4);
    graft_vae_release(b);
    unlink(path);
}

static void refused(made_file *f, graft_status status, const char *words)
{
    const char *path = temp_path("damaged.safetensors");
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(f, path, NULL);
    CHECK_INT(graft_vae_load(engine, path, NULL, &v, &e), status);
    CHECK(!v && strstr(e.text, words) && strstr(e.text, "damaged.safetensors"));
    if (!strstr(e.text, words)) fprintf(stderr, "no \"%s\" in: %s\n", words, e.text);
    unlink(path);
}

static void other_shape(const char *name, int rank, const int64_t *shape, graft_status status,
                        const char *words)
{
    made_file *f = alone();
    drop_tensor(f, name);
    add_tensor(f, name, rank, shape, NULL, 0.1f);
    refused(f, status, words);
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
    static const char last[] = "encoder.downsamples.4.downsamples.1.residual.2.weight";
    static const char first[] = "decoder.upsamples.2.upsamples.0.residual.2.weight";
    for (size_t i = 0; i < COUNT(gone); i++) {
        made_file *f = alone();
        drop_tensor(f, gone[i]);
        refused(f, GRAFT_E_FORMAT, gone[i]);
    }
    made_file *f = alone();
    drop_tensor(f, last);
    refused(f, GRAFT_E_UNSUPPORTED, "makes no sense");
    f = alone();
    drop_tensor(f, "decoder.upsamples.2.upsamples.2.residual.2.weight");
    refused(f, GRAFT_E_UNSUPPORTED, "makes no sense");
    other_shape(first, 4, (int64_t[]){24, 48, 2, 3}, GRAFT_E_FORMAT, first);
    /* A way around a level that would make of three channels one. */
    f = alone();
    for (int i = 0; i < 3; i++) {
        char name[80];
        snprintf(name, sizeof name, "decoder.upsamples.2.upsamples.%d.residual.2.weight", i);
        drop_tensor(f, name);
        add_tensor(f, name, 4, (int64_t[]){16, i ? 16 : 48, 3, 3}, NULL, 0.1f);
    }
    refused(f, GRAFT_E_UNSUPPORTED, "makes no sense");
    /* Or that would halve what it keeps, as of two pictures one is missing. */
    f = alone();
    add_tensor(f, "encoder.downsamples.0.downsamples.2.time_conv.weight", 1, (int64_t[]){2}, NULL,
               1);
    refused(f, GRAFT_E_UNSUPPORTED, "makes no sense");
    /* Wan 2.2's, whose kernels see three pictures, and whose pictures have 12 channels. */
    other_shape("decoder.conv1.weight", 5, (int64_t[]){48, 6, 3, 3, 3}, GRAFT_E_UNSUPPORTED,
                "Wan 2.2's VAE");
    other_shape("decoder.head.2.weight", 4, (int64_t[]){12, 6, 3, 3}, GRAFT_E_UNSUPPORTED,
                "Wan 2.2's VAE");
    f = in_diffusers_names();
    add_tensor(f, "decoder.up_blocks.0.attentions.0.weight", 1, (int64_t[]){4}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "VAE has no tensor decoder.up_blocks.0.attentions");
    f = in_diffusers_names();
    add_tensor(f, "encoder.down_blocks.70000.resnets.0.conv1.weight", 1, (int64_t[]){4}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "VAE has no tensor encoder.down_blocks.70000");
}

/* Whichever allocation fails: an error, nothing lost, and the same when none does. */
static void short_of_memory(void)
{
    graft_vae *v = load_vae(SMALL);
    graft_latent *l = latent_of((int64_t[]){1, 6, 3, 4});
    graft_image *want = decoded(v, l, NULL);
    const int64_t live = live_blocks();
    int failed = 0;
    for (int n = 1; n < 2000; n++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_image *image = NULL;
        graft_alloc_fail_at(n);
        graft_status st = graft_vae_decode(v, l, NULL, NULL, &image, &e);
        graft_alloc_fail_at(0);
        if (!st) {
            CHECK(images_apart(image, want) == 0);
            n = 2000;
        } else {
            CHECK_INT(st, GRAFT_E_NOMEM);
            failed++;
        }
        graft_image_release(image);
    }
    CHECK(failed > 1);
    CHECK_INT(live_blocks(), live);
    graft_latent_release(l);
    graft_image_release(want);
    graft_vae_release(v);
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

/* Wan 2.1's VAE, which Qwen-Image has, through the engine's own functions, with
 * golden/small/wan_vae: what it decodes and encodes, in tiles and in strips; of its kernels over
 * time the last third; its other names; and what is wrong with files. */
#include "engine/models/wan_vae.h"
#include "tests/engine/diffusers.h"
#include "tests/engine/vae_run.h"

#define SMALL       GRAFT_SOURCE_DIR "/golden/small/wan_vae.safetensors"
#define FOUR_LEVELS MODELS "/../vae/tiny-qwen-image-vae.safetensors"
#define SCALE       4 /* its pixels in a place: it has three levels, real ones have four */
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
    CHECK(graft_vae_scale(a) == SCALE && graft_vae_planes(a) == 4);
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

/* Without the file's cases. */
static made_file *alone(void)
{
    made_file *f = part_of_file(SMALL, "");
    for (size_t i = f->n; i-- > 0;)
        if (strncmp(f->tensor[i].name, "case", 4) == 0) drop_tensor(f, f->tensor[i].name);
    return f;
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
            made_file *f = alone();
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

/* What diffusers calls the layers, written down here once more; levels of the small one have two
 * residual blocks in the decoder. */
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
                                             {".downsamples.", ".down_blocks."},
                                             {".upsamples.0.", ".up_blocks.0.resnets.0."},
                                             {".upsamples.1.", ".up_blocks.0.resnets.1."},
                                             {".upsamples.2.", ".up_blocks.0.upsamplers.0."},
                                             {".upsamples.3.", ".up_blocks.1.resnets.0."},
                                             {".upsamples.4.", ".up_blocks.1.resnets.1."},
                                             {".upsamples.5.", ".up_blocks.1.upsamplers.0."},
                                             {".upsamples.6.", ".up_blocks.2.resnets.0."},
                                             {".upsamples.7.", ".up_blocks.2.resnets.1."}};
    static char text[256], other[256];
    snprintf(text, sizeof text, "%s%s",
             strncmp(ours, "conv1.", 6) == 0   ? "quant_"
             : strncmp(ours, "conv2.", 6) == 0 ? "post_quant_"
                                               : "",
             ours);
    if (ours[0] == 'c') { /* without the number */
        char *number = strstr(text, "conv") + 4;
        memmove(number, number + 1, strlen(number));
    }
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
    graft_latent *l = latent_of((int64_t[]){1, 4, 3, 4});
    graft_image *p = picture_of(1, 12, 16), *x = decoded(a, l, NULL), *y = decoded(b, l, NULL);
    graft_latent *z = encoded(a, p, NULL), *w = encoded(b, p, NULL);
    CHECK(memcmp(&a->arch, &b->arch, sizeof a->arch) == 0);
    CHECK(images_apart(x, y) == 0 && latents_apart(z, w) == 0);
    graft_image_release(p), graft_image_release(x), graft_image_release(y);
    graft_latent_release(l), graft_latent_release(z), graft_latent_release(w);
}

static void diffusers_names(void)
{
    const char *path = temp_path("wan-vae.safetensors");
    graft_vae *a = load_vae(SMALL);
    write_file(in_diffusers_names(), path, NULL);
    graft_vae *b = load_vae(path);
    same(a, b);
    adopt_short_of_memory(path, graft_diffusers_adopt_vae);
    graft_vae_release(a);
    graft_vae_release(b);
    unlink(path);
}

/* What VAESave writes is the same VAE, also below a checkpoint's prefix; alone, a decoder is one.
 */
static void saved(void)
{
    const char *path = temp_path("saved.safetensors");
    graft_vae *a = load_vae(SMALL), *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_checkpoint_save(&(graft_checkpoint){.vae = a}, path, NULL, NULL, &e), &e);
    b = load_vae(path);
    same(a, b);
    graft_vae_release(b);
    made_file *f = part_of_file(path, "");
    char name[300];
    for (size_t i = 0; i < f->n; i++) {
        snprintf(name, sizeof name, "vae.%s", f->tensor[i].name);
        call_tensor(&f->tensor[i], name);
    }
    write_file(f, path, NULL);
    b = load_vae(path);
    same(a, b);
    graft_vae_release(a);
    graft_vae_release(b);
    f = alone();
    for (size_t i = f->n; i-- > 0;)
        if (strncmp(f->tensor[i].name, "encoder.", 8) == 0) drop_tensor(f, f->tensor[i].name);
    write_file(f, path, NULL);
    b = load_vae(path);
    CHECK(!b->arch.encoder);
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
                                       "decoder.upsamples.3.residual.6.weight",
                                       "decoder.upsamples.1.residual.0.gamma",
                                       "decoder.upsamples.5.resample.1.bias",
                                       "decoder.middle.1.to_qkv.weight",
                                       "encoder.downsamples.2.shortcut.weight",
                                       "encoder.middle.2.residual.3.gamma",
                                       "conv1.weight",
                                       "conv2.bias"};
    for (size_t i = 0; i < COUNT(gone); i++) {
        made_file *f = alone();
        drop_tensor(f, gone[i]);
        refused(f, GRAFT_E_FORMAT, gone[i]);
    }
    /* Kernels of single pictures, and over two. */
    other_shape("decoder.upsamples.0.residual.2.weight", 4, (int64_t[]){16, 16, 3, 3},
                GRAFT_E_FORMAT, "decoder.upsamples.0.residual.2.weight");
    other_shape("decoder.upsamples.0.residual.2.weight", 5, (int64_t[]){16, 16, 2, 3, 3},
                GRAFT_E_FORMAT, "where (16,16,3,3,3) belongs");
    other_shape("decoder.upsamples.0.residual.2.weight", 1, (int64_t[]){0}, GRAFT_E_UNSUPPORTED,
                "makes no sense");
    made_file *f = alone();
    add_tensor(f, "decoder.upsamples.0.upsamples.0.residual.2.weight", 1, (int64_t[]){4}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "Wan 2.2's VAE");
    f = in_diffusers_names();
    add_tensor(f, "decoder.up_blocks.0.attentions.0.weight", 1, (int64_t[]){4}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "Wan 2.1's VAE has no tensor decoder.up_blocks.0.attentions");
    f = in_diffusers_names();
    add_tensor(f, "decoder.up_blocks.70000.resnets.0.conv1.weight", 1, (int64_t[]){4}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "Wan 2.1's VAE has no tensor decoder.up_blocks.70000");
}

/* Whichever allocation fails: an error, nothing lost, and the same when none does. */
static void short_of_memory(void)
{
    graft_vae *v = load_vae(SMALL);
    graft_latent *l = latent_of((int64_t[]){1, 4, 3, 4});
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
    RUN(layers_have_numbers);
    RUN(golden);
    RUN(earlier_slices);
    RUN(tiles);
    RUN(strips);
    RUN(diffusers_names);
    RUN(saved);
    RUN(damaged);
    RUN(short_of_memory);
    graft_engine_destroy(engine);
    return test_end();
}

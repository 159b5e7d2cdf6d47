/* Tiny autoencoders: what a file is taken for and whose latents it takes, files that are none, and
 * that they do what a VAE does. What the networks compute is held against golden/small/taesd_*. */
#include "tests/engine/taesd.h"

#include <math.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/image/latent.h"

static graft_engine *engine;
static taesd_files pair; /* of SD's latents */

static graft_vae *load(const char *path)
{
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_load(engine, path, NULL, &v, &e), &e);
    return v;
}

/* ------------------------------------------------------------------ files */

static void files_are_told_apart(void)
{
    graft_vae *v = load(TAESD("layers"));
    CHECK(v->arch.kind == GRAFT_VAE_TINY && v->arch.names == GRAFT_TINY_LAYERS);
    CHECK(v->arch.levels == 4 && v->arch.encoder && v->arch.decoder);
    CHECK(v->arch.half[0].width == 12 && v->arch.half[1].width == 12);
    CHECK(v->arch.half[0].blocks[0] == 1 && v->arch.half[0].blocks[3] == 3);
    CHECK(v->arch.half[1].blocks[0] == 3 && v->arch.half[1].blocks[3] == 1);
    graft_vae_release(v);
    v = load(TAESD("levels"));
    CHECK(v->arch.levels == 3 && v->arch.half[0].width == 20 && v->arch.half[1].width == 8);
    CHECK(v->arch.half[1].blocks[0] == 0 && v->arch.half[1].blocks[1] == 2);
    graft_vae_release(v);
    v = taesd_load_pair(engine, pair.encoder, pair.decoder);
    CHECK(v->arch.kind == GRAFT_VAE_TINY && v->arch.names == GRAFT_TINY_NUMBERS);
    CHECK(v->arch.levels == 4 && v->arch.half[0].width == 16 && v->arch.half[1].width == 16);
    graft_vae_release(v);
}

/* Of an author's files the decoder alone decodes; the encoder alone is of no use. */
static void one_half(void)
{
    static const char *const ways[] = {"the file", "a pair without an encoder"};
    graft_image *image = NULL;
    graft_latent *latent = NULL, *back = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_empty(4, 64, 32, 1, &latent, &e), &e);
    for (int i = 0; i < 2; i++) {
        int64_t shape[4] = {0};
        graft_vae *v = i ? taesd_load_pair(engine, NULL, pair.decoder) : load(pair.decoder);
        CHECK_OK(graft_vae_decode(v, latent, NULL, NULL, &image, &e), &e);
        graft_image_data(image, shape);
        CHECK(shape[1] == 32 && shape[2] == 64 && shape[3] == 3);
        CHECK_INT(graft_vae_encode(v, image, NULL, NULL, &back, &e), GRAFT_E_UNSUPPORTED);
        if (!strstr(e.text, "no encoder")) CHECK_STR(e.text, ways[i]);
        CHECK_INT(graft_vae_encode_inpaint(v, image, image, 0, NULL, &back, &e) != GRAFT_OK, 1);
        graft_image_release(image);
        graft_vae_release(v);
    }
    graft_vae *v = NULL;
    CHECK_INT(graft_vae_load(engine, pair.encoder, NULL, &v, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "without its decoder") != NULL);
    graft_latent_release(latent);
}

static bool fits(const graft_vae *v, const char *model)
{
    graft_model *m = load_model(engine, model);
    bool yes = graft_vae_is_for(v, m);
    graft_model_release(m);
    return yes;
}

/* FLUX.2's has blocks at the latent that see all of it, and a place of four cells. */
static void one_for_flux2(void)
{
    graft_vae *v = load(TAESD("flux2"));
    CHECK(v->arch.kind == GRAFT_VAE_TINY && v->arch.names == GRAFT_TINY_LAYERS);
    CHECK(v->arch.z_channels == 32 && v->arch.fold == 2 && graft_vae_planes(&v->arch) == 128);
    CHECK(graft_vae_scale(&v->arch) == 16);
    CHECK(v->arch.half[0].pooled && v->arch.half[1].pooled);
    CHECK(v->arch.half[0].blocks[3] == 3 && v->arch.half[1].blocks[0] == 3);
    CHECK(v->scale_factor == 1 && v->latent_shift == 0 && !v->planes);
    graft_model *m = load_model(engine, FLUX2);
    m->arch.latent_channels = 128; /* those of the small one are fewer */
    CHECK(graft_vae_is_for(v, m));
    CHECK(!fits(v, FLUX) && !fits(v, MMDIT) && !fits(v, SD1));
    graft_vae *other = load(TAESD("sd3"));
    CHECK(!graft_vae_is_for(other, m) && !other->arch.half[0].pooled);
    graft_vae_release(other);
    taesd_files p = taesd_write_halves(TAESD("flux2"), "vae_approx", "taef2", NULL);
    graft_vae *two = taesd_load_pair(engine, p.encoder, p.decoder), *half = load(p.decoder);
    CHECK(two->arch.names == GRAFT_TINY_NUMBERS && two->arch.fold == 2 && half->arch.fold == 2);
    CHECK(memcmp(two->arch.half, v->arch.half, sizeof v->arch.half) == 0);
    CHECK(graft_vae_is_for(two, m) && graft_vae_is_for(half, m) && !half->arch.encoder);
    graft_vae_release(half);
    graft_vae_release(two);
    taesd_remove(&p);
    graft_model_release(m);
    graft_vae_release(v);
}

static void whose_latents(void)
{
    static const char other[] = "{\"scale_factor\":0.5,\"latent_rgb\":"
                                "[[1,0,0],[0,1,0],[0,0,1],[1,1,1],[0,0,0]]}";
    const struct {
        const char *folder, *name, *config;
        double scale;
        bool sd, xl;
    } files[] = {{"vae_approx", "taesd", NULL, TAESD_SCALE, true, false},
                 {"vae_approx", "taesdxl", NULL, TAESDXL_SCALE, false, true},
                 {"vae_approx", "TAESDXL", NULL, TAESDXL_SCALE, false, true},
                 {"SDXL-tiny", "diffusion_pytorch_model", NULL, TAESDXL_SCALE, false, true},
                 {"vae_approx", "taesdxl", "{\"scale_factor\":0.18215}", TAESD_SCALE, false, false},
                 {"vae_approx", "emoji", other, 0.5, false, false}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        taesd_files p = taesd_write(files[i].folder, files[i].name, files[i].config);
        graft_vae *v = taesd_load_pair(engine, p.encoder, p.decoder), *half = load(p.decoder);
        CHECK(v->scale_factor == files[i].scale);
        CHECK(half->scale_factor == files[i].scale);
        CHECK_INT(fits(v, SD1), files[i].sd);
        CHECK_INT(fits(v, SD2), files[i].sd);
        CHECK_INT(fits(v, SDXL), files[i].xl);
        CHECK(!fits(v, DEMO)); /* latents of its own */
        graft_vae_release(half);
        graft_vae_release(v);
        taesd_remove(&p);
    }
    graft_vae *demo = load(DEMO);
    CHECK(!fits(demo, DEMO)); /* no tiny one */
    graft_vae_release(demo);
}

/* 16 channels are Stable Diffusion 3's, whatever the file is called, but for FLUX's names. */
static void latents_of_flows(void)
{
    static const char own[] = "{\"scale_factor\":0.5}";
    const struct {
        const char *name, *config;
        double scale, shift;
    } files[] = {{"taesd3", NULL, TAESD3_SCALE, TAESD3_SHIFT},
                 {"diffusion_pytorch_model", NULL, TAESD3_SCALE, TAESD3_SHIFT},
                 {"taesdxl", NULL, TAESD3_SCALE, TAESD3_SHIFT},
                 {"taef1", NULL, 0.3611, 0.1159},
                 {"TAEF1", NULL, 0.3611, 0.1159},
                 {"flux-tiny", NULL, 0.3611, 0.1159},
                 {"taef1", own, 0.5, 0}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        taesd_files p = taesd3_write("vae_approx", files[i].name, files[i].config);
        graft_vae *v = taesd_load_pair(engine, p.encoder, p.decoder), *half = load(p.decoder);
        CHECK(v->arch.z_channels == 16 && v->arch.embed_dim == 16 && v->arch.levels == 4);
        CHECK(v->scale_factor == files[i].scale && v->latent_shift == files[i].shift);
        CHECK(half->scale_factor == files[i].scale && half->latent_shift == files[i].shift);
        CHECK_INT(fits(v, MMDIT), i < 3);
        CHECK_INT(fits(v, FLUX), i >= 3 && i < 6);
        CHECK(!fits(v, SD1) && !fits(v, SDXL));
        graft_vae_release(half);
        graft_vae_release(v);
        taesd_remove(&p);
    }
    graft_vae *v = load(TAESD("sd3")), *four = load(TAESD("layers"));
    CHECK(fits(v, MMDIT) && !fits(v, SD1) && !fits(four, MMDIT));
    graft_vae_release(four);
    graft_vae_release(v);
}

static void latents_of_two_models(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *v = NULL;
    taesd_files p = taesd3_write("vae_approx", "taesd3", NULL);
    CHECK_INT(graft_vae_load_pair(engine, pair.encoder, p.decoder, NULL, &v, &e), GRAFT_E_FORMAT);
    CHECK(!v && strstr(e.text, "latents have 4 channels and the decoder's 16"));
    taesd_remove(&p);
}

/* A decoder that doubles the size so often; each layer has one channel. */
static made_file *doubling(int times)
{
    made_file *f = calloc(1, sizeof *f);
    char name[64];
    int at = 2;
    add_tensor(f, "decoder.layers.0.weight", 4, (int64_t[]){1, 4, 3, 3}, NULL, 1);
    add_tensor(f, "decoder.layers.0.bias", 1, (int64_t[]){1}, NULL, 1);
    for (int i = 0; i < times; i++, at += 2) {
        snprintf(name, sizeof name, "decoder.layers.%d.weight", at + 1);
        add_tensor(f, name, 4, (int64_t[]){1, 1, 3, 3}, NULL, 1);
    }
    snprintf(name, sizeof name, "decoder.layers.%d.weight", at);
    add_tensor(f, name, 4, (int64_t[]){3, 1, 3, 3}, NULL, 1);
    snprintf(name, sizeof name, "decoder.layers.%d.bias", at);
    add_tensor(f, name, 1, (int64_t[]){3}, NULL, 1);
    return f;
}

/* Previews by one that enlarges 128 times would take gigabytes. */
static void larger_pictures(void)
{
    const char *path = temp_path("doubling.safetensors");
    for (int times = 2; times <= 7; times++) {
        write_file(doubling(times), path, NULL);
        graft_vae *v = load(path);
        CHECK_INT(v->arch.levels, times + 1);
        CHECK_INT(fits(v, SD1), times <= 3);
        graft_vae_release(v);
        unlink(path);
    }
}

/* The pair with one file in the place of the decoder or, with `encoder`, of the encoder. */
static void refused(made_file *f, bool encoder, graft_status want, const char *text)
{
    const char *path = temp_path("taesd-bad.safetensors");
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(f, path, NULL);
    graft_status st = graft_vae_load_pair(engine, encoder ? path : pair.encoder,
                                          encoder ? pair.decoder : path, NULL, &v, &e);
    CHECK_INT(st, want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    CHECK(strstr(e.text, "taesd-bad.safetensors") != NULL);
    graft_vae_release(v);
    unlink(path);
}

static void refused_single(made_file *f, graft_status want, const char *text)
{
    const char *path = temp_path("taesd-one.safetensors");
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    write_file(f, path, NULL);
    CHECK_INT(graft_vae_load(engine, path, NULL, &v, &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    graft_vae_release(v);
    unlink(path);
}

/* Fewer values than the file had, in another shape. */
static void reshape(made_file *f, const char *name, int64_t dim0, int64_t dim1)
{
    graft_st_tensor *t = made_find(f, name);
    t->shape[0] = dim0;
    if (t->rank > 1) t->shape[1] = dim1;
    t->bytes = (uint64_t)shape_count(t->shape, t->rank) * sizeof(float);
}

#define DECODER taesd_copy(TAESD("pair_decoder"))
#define ENCODER taesd_copy(TAESD("pair_encoder"))
#define LAYERS  taesd_copy(TAESD("layers"))

static void damaged_files(void)
{
    made_file *f = DECODER;
    taesd_drop(f, "4.conv.2.weight");
    refused(f, false, GRAFT_E_FORMAT, "4.conv.2.weight");
    f = DECODER;
    taesd_drop(f, "1.bias");
    refused(f, false, GRAFT_E_FORMAT, "1.bias");
    f = DECODER;
    taesd_drop(f, "19.weight");
    refused(f, false, GRAFT_E_FORMAT, "weight");
    f = DECODER;
    reshape(f, "3.conv.0.weight", 16, 15);
    refused(f, false, GRAFT_E_FORMAT, "3.conv.0.weight");
    f = DECODER;
    reshape(f, "1.weight", 16, 3);
    refused(f, false, GRAFT_E_UNSUPPORTED, "3 channels of latents");
    f = DECODER;
    add_tensor(f, "3.skip.weight", 4, (int64_t[]){16, 16, 1, 1}, NULL, 1);
    refused(f, false, GRAFT_E_UNSUPPORTED, "a TAESD has no tensor 3.skip.weight");
    f = ENCODER;
    reshape(f, "0.weight", 16, 1);
    refused(f, true, GRAFT_E_UNSUPPORTED, "1 channels of pictures");
    f = ENCODER;
    taesd_drop(f, "1.conv.0.bias");
    refused(f, true, GRAFT_E_FORMAT, "1.conv.0.bias");
    refused(DECODER, true, GRAFT_E_UNSUPPORTED, "no encoder of a TAESD");
    refused(ENCODER, false, GRAFT_E_UNSUPPORTED, "no decoder of a TAESD");
    f = LAYERS;
    taesd_drop(f, "decoder.layers.2.conv.4.bias");
    refused_single(f, GRAFT_E_FORMAT, "decoder.layers.2.conv.4.bias");
    f = LAYERS;
    taesd_drop(f, "encoder.layers.1.conv.4.weight");
    refused_single(f, GRAFT_E_FORMAT, "encoder.layers.1.conv.4.weight");
    f = LAYERS; /* not taken for a decoder alone */
    taesd_drop(f, "encoder.layers.0.weight");
    refused_single(f, GRAFT_E_FORMAT, "encoder.layers.0.weight");
    f = LAYERS;
    add_tensor(f, "encoder.layers.99.weight", 1, (int64_t[]){3}, NULL, 1);
    refused_single(f, GRAFT_E_UNSUPPORTED, "encoder.layers.99.weight");
    f = taesd_copy(TAESD("flux2"));
    taesd_drop(f, "decoder.layers.3.pool.3.weight");
    refused_single(f, GRAFT_E_FORMAT, "decoder.layers.3.pool.3.weight");
    f = taesd_copy(TAESD("flux2"));
    taesd_drop(f, "decoder.layers.2.pool.0.weight"); /* taken for one without */
    refused_single(f, GRAFT_E_UNSUPPORTED, "a TAESD has no tensor decoder.layers.");
    f = taesd_copy(TAESD("flux2"));
    add_tensor(f, "encoder.layers.3.pool.0.weight", 4, (int64_t[]){64, 16, 1, 1}, NULL, 1);
    refused_single(f, GRAFT_E_UNSUPPORTED, "a TAESD has no tensor encoder.layers.3.pool.0.weight");
}

/* Sizes that would cost much before anyone noticed that the tensors do not fit. */
static void hostile_files(void)
{
    char name[64];
    made_file *f = calloc(1, sizeof *f);
    add_tensor(f, "1.weight", 4, (int64_t[]){4096, 4, 3, 3}, NULL, 1);
    add_tensor(f, "3.conv.0.weight", 4, (int64_t[]){8, 8, 3, 3}, NULL, 1);
    refused(f, false, GRAFT_E_UNSUPPORTED, "4096 channels");
    f = calloc(1, sizeof *f);
    add_tensor(f, "1.weight", 4, (int64_t[]){8, 4, 3, 3}, NULL, 1);
    for (int i = 3; i < 90; i++) {
        snprintf(name, sizeof name, "%d.conv.0.weight", i);
        add_tensor(f, name, 4, (int64_t[]){8, 8, 3, 3}, NULL, 1);
    }
    refused(f, false, GRAFT_E_UNSUPPORTED, "blocks");
    f = calloc(1, sizeof *f);
    add_tensor(f, "1.weight", 4, (int64_t[]){8, 4, 3, 3}, NULL, 1);
    add_tensor(f, "3.conv.0.weight", 4, (int64_t[]){8, 8, 3, 3}, NULL, 1);
    for (int i = 5; i < 90; i += 2) {
        snprintf(name, sizeof name, "%d.weight", i);
        add_tensor(f, name, 4, (int64_t[]){8, 8, 3, 3}, NULL, 1);
    }
    refused(f, false, GRAFT_E_UNSUPPORTED, "levels");
    f = calloc(1, sizeof *f);
    add_tensor(f, "1.weight", 1, (int64_t[]){8}, NULL, 1);
    add_tensor(f, "3.conv.0.weight", 2, (int64_t[]){8, 8}, NULL, 1);
    refused(f, false, GRAFT_E_UNSUPPORTED, "no decoder");
}

static void cut_files(void)
{
    const char *path = temp_path("cut.safetensors");
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char *bytes = NULL;
    size_t n = 0;
    CHECK_OK(graft_file_read(pair.decoder, SIZE_MAX, &bytes, &n, &e), &e);
    for (size_t cut = 0; cut < n; cut += n / 7 + 1) {
        CHECK_OK(graft_file_write(path, bytes, cut, &e), &e);
        CHECK(graft_vae_load_pair(engine, pair.encoder, path, NULL, &v, &e) != GRAFT_OK);
        CHECK(strstr(e.text, "cut.safetensors") != NULL);
    }
    CHECK_INT(graft_vae_load_pair(engine, "/nowhere", pair.decoder, NULL, &v, &e),
              GRAFT_E_NOTFOUND);
    graft_free(bytes);
    unlink(path);
}

/* Two halves that do not belong together. */
static void unlike_halves(void)
{
    made_file *f = calloc(1, sizeof *f);
    const char *path = temp_path("short_encoder.safetensors");
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    add_tensor(f, "0.weight", 4, (int64_t[]){8, 3, 3, 3}, NULL, 1);
    add_tensor(f, "1.conv.0.weight", 4, (int64_t[]){8, 8, 3, 3}, NULL, 1);
    add_tensor(f, "2.weight", 4, (int64_t[]){4, 8, 3, 3}, NULL, 1);
    add_tensor(f, "2.bias", 1, (int64_t[]){4}, NULL, 1);
    write_file(f, path, NULL);
    CHECK_INT(graft_vae_load_pair(engine, path, pair.decoder, NULL, &v, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "changes the size 0 times and the decoder 3 times") != NULL);
    unlink(path);
}

/* ------------------------------------------------------------------ numbers */

/* Latents that travel between nodes are those of the golden files, which the network would see,
 * divided by the scale factor, plus the shift, and pictures are theirs as they are, within 0..1. */
static void units_of(graft_vae *v, const char *golden, double scale, double shift)
{
    graft_safetensors *f = open_file(golden);
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *latent = NULL;
    graft_image *image = NULL;
    int64_t shape[4];
    const graft_st_tensor *t = graft_safetensors_find(f, "case1.latent");
    float *z = values_of(t), *want = values_of(graft_safetensors_find(f, "case1.decoded"));
    int64_t n = shape_count(t->shape, 4);
    for (int64_t i = 0; i < n; i++) z[i] = (float)((double)z[i] / scale + shift);
    CHECK_OK(graft_latent_from_data(z, t->shape, &latent, &e), &e);
    CHECK_OK(graft_vae_decode(v, latent, NULL, NULL, &image, &e), &e);
    const float *got = graft_image_data(image, shape);
    double most = 0;
    for (int64_t k = 0; k < shape[0]; k++)
        for (int64_t p = 0; p < shape[1] * shape[2] * 3; p++) {
            double x = (double)want[(k * 3 + p % 3) * shape[1] * shape[2] + p / 3];
            x = x < 0 ? 0 : x > 1 ? 1 : x;
            double d = fabs(x - (double)got[k * shape[1] * shape[2] * 3 + p]);
            if (!(d <= most)) most = d;
        }
    CHECK(shape[0] == 2 && shape[1] == 40 && shape[2] == 56 && most < 1e-4);
    graft_image_release(image);
    graft_latent_release(latent);
    free(z);
    free(want);
    t = graft_safetensors_find(f, "case1.image");
    float *planes = values_of(t), *x = calloc((size_t)shape_count(t->shape, 4), sizeof *x);
    want = values_of(graft_safetensors_find(f, "case1.moments"));
    int64_t area = t->shape[2] * t->shape[3];
    for (int64_t i = 0; i < 2 * area * 3; i++)
        x[i] = planes[(i / area / 3 * 3 + i % 3) * area + i / 3 % area];
    CHECK_OK(
        graft_image_from_data(x, (int64_t[]){2, t->shape[2], t->shape[3], 3}, false, &image, &e),
        &e);
    CHECK_OK(graft_vae_encode(v, image, NULL, NULL, &latent, &e), &e);
    const float *back = graft_latent_data(latent, shape);
    n = shape_count(shape, 4);
    for (int64_t i = 0; i < n; i++) want[i] = (float)((double)want[i] / scale + shift);
    CHECK(shape[1] == v->arch.z_channels && difference(back, want, (size_t)n) < 1e-4);
    graft_image_release(image);
    graft_latent_release(latent);
    free(planes);
    free(x);
    free(want);
    graft_vae_release(v);
    graft_safetensors_close(f);
}

/* Cells (32,4,4) of a golden file as the places (128,2,2) that travel between nodes. */
static void fold_cells(const float *cells, float *places)
{
    for (int c = 0; c < 32; c++)
        for (int y = 0; y < 4; y++)
            for (int x = 0; x < 4; x++)
                places[((c * 4 + y % 2 * 2 + x % 2) * 2 + y / 2) * 2 + x / 2] =
                    cells[(c * 4 + y) * 4 + x];
}

/* No statistics move FLUX.2's latents before this decoder sees them, nor behind the encoder. */
static void units_of_cells(graft_vae *v)
{
    graft_safetensors *f = open_file(TAESD("flux2"));
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *latent = NULL, *back = NULL;
    graft_image *image = NULL, *seen = NULL;
    float places[128 * 4], *cells = values_of(graft_safetensors_find(f, "case0.latent"));
    float *want = values_of(graft_safetensors_find(f, "case0.decoded"));
    int64_t s[4];
    fold_cells(cells, places);
    CHECK_OK(graft_latent_from_data(places, (int64_t[]){1, 128, 2, 2}, &latent, &e), &e);
    CHECK_OK(graft_vae_decode(v, latent, NULL, NULL, &image, &e), &e);
    const float *got = graft_image_data(image, s);
    CHECK(s[0] == 1 && s[1] == 32 && s[2] == 32 && s[3] == 3);
    double most = 0;
    for (int i = 0; i < 32 * 32 * 3; i++) {
        const double x = (double)want[i % 3 * 1024 + i / 3];
        most = fmax(most, fabs((x < 0 ? 0 : x > 1 ? 1 : x) - (double)got[i]));
    }
    CHECK(most < 1e-4);
    float *planes = values_of(graft_safetensors_find(f, "case0.image")), pixels[32 * 32 * 3];
    float *moments = values_of(graft_safetensors_find(f, "case0.moments"));
    for (int i = 0; i < 32 * 32 * 3; i++) pixels[i] = planes[i % 3 * 1024 + i / 3];
    CHECK_OK(graft_image_from_data(pixels, (int64_t[]){1, 32, 32, 3}, false, &seen, &e), &e);
    CHECK_OK(graft_vae_encode(v, seen, NULL, NULL, &back, &e), &e);
    fold_cells(moments, places);
    const float *z = graft_latent_data(back, s);
    CHECK(s[1] == 128 && s[2] == 2 && s[3] == 2 && difference(z, places, 128 * 4) < 1e-4);
    graft_latent_release(latent);
    graft_latent_release(back);
    graft_image_release(image);
    graft_image_release(seen);
    free(cells);
    free(want);
    free(planes);
    free(moments);
    graft_vae_release(v);
    graft_safetensors_close(f);
}

static void units_of_places(void)
{
    taesd_files p = taesd_write_halves(TAESD("flux2"), "vae_approx", "taef2", NULL);
    units_of_cells(load(TAESD("flux2")));
    units_of_cells(taesd_load_pair(engine, p.encoder, p.decoder));
    taesd_remove(&p);
}

static void units(void)
{
    taesd_files p = taesd3_write("vae_approx", "taesd3", NULL);
    units_of(load(TAESD("layers")), TAESD("layers"), TAESD_SCALE, 0);
    units_of(load(TAESD("sd3")), TAESD("sd3"), TAESD3_SCALE, TAESD3_SHIFT);
    units_of(taesd_load_pair(engine, p.encoder, p.decoder), TAESD("sd3"), TAESD3_SCALE,
             TAESD3_SHIFT);
    taesd_remove(&p);
}

int main(void)
{
    static const char *const backends[] = {"cpu", "ref"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) break;
        pair = taesd_write("approx", "taesd", NULL);
        if (i == 0) {
            RUN(files_are_told_apart);
            RUN(one_half);
            RUN(one_for_flux2);
            RUN(whose_latents);
            RUN(latents_of_flows);
            RUN(latents_of_two_models);
            RUN(larger_pictures);
            RUN(damaged_files);
            RUN(hostile_files);
            RUN(cut_files);
            RUN(unlike_halves);
        }
        RUN(units);
        RUN(units_of_places);
        taesd_remove(&pair);
        graft_engine_destroy(engine);
    }
    return test_end();
}

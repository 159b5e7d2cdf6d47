/* FLUX.2's VAE through the engine's own functions, with golden/small/flux2_vae: what it decodes and
 * encodes, in tiles, in strips and in other names; latents of places of 16 pixels; and what is
 * wrong with files. */
#include <math.h>

#include "engine/denoise/regions.h"
#include "engine/models/parts/folding.h"
#include "tests/engine/vae_files.h"

#define SMALL       GRAFT_SOURCE_DIR "/golden/small/flux2_vae.safetensors"
#define FOUR_LEVELS MODELS "/../vae/tiny-flux2-vae.safetensors"
#define SCALE       4 /* its pixels in a place: it has two levels, real ones have four */

/* ------------------------------------------------------------------ what it is */

static void detected(void)
{
    graft_vae *v = load_vae(SMALL);
    CHECK(v->arch.kind == GRAFT_VAE_KL && v->arch.fold == 2 && v->arch.embed_dim == 32);
    CHECK_INT(v->arch.quant_conv, GRAFT_QUANT_CONV_WITHIN);
    CHECK(graft_vae_planes(&v->arch) == 128 && graft_vae_scale(&v->arch) == SCALE);
    CHECK(graft_vae_factor(&v->arch) == 2 && v->arch.encoder);
    graft_vae_release(v);
    v = load_vae(GRAFT_SOURCE_DIR "/golden/small/vae.safetensors");
    CHECK(!v->arch.fold && graft_vae_scale(&v->arch) == graft_vae_factor(&v->arch));
    CHECK_INT(graft_vae_planes(&v->arch), 4);
    graft_vae_release(v);
}

static void golden(void)
{
    golden_batch(SMALL);
}

/* ------------------------------------------------------------------ in parts */

static void tiles(void)
{
    in_tiles(SMALL, 128);
}

/* With as many levels as real ones have. */
static void strips(void)
{
    const strips_case c = {FOUR_LEVELS, .mb = 10,      .planes = 128, .scale = 16,
                           .rows = 24,  .columns = 12, .below = 3,    .beside = 15};
    in_strips(&c);
}

/* ------------------------------------------------------------------ other files */

/* Statistics beside the halves, and the two convolutions where diffusers has them. */
static made_file *in_diffusers_names(const graft_vae *v)
{
    static const char *const moved[][2] = {
        {"encoder.quant_conv.weight", "quant_conv.weight"},
        {"encoder.quant_conv.bias", "quant_conv.bias"},
        {"decoder.post_quant_conv.weight", "post_quant_conv.weight"},
        {"decoder.post_quant_conv.bias", "post_quant_conv.bias"}};
    made_file *f = diffusers_vae(v, (vae_naming){false, true});
    drop_tensors(f, "case");
    for (size_t i = 0; i < 4; i++) call_tensor(made_find(f, moved[i][0]), moved[i][1]);
    add_tensor(f, "bn.num_batches_tracked", 1, (int64_t[]){1}, NULL, 0);
    return f;
}

static void diffusers_names(void)
{
    const char *path = temp_path("flux2-vae.safetensors");
    graft_vae *a = load_vae(SMALL);
    write_file(in_diffusers_names(a), path, NULL);
    graft_vae *b = load_vae(path);
    CHECK_INT(b->arch.quant_conv, GRAFT_QUANT_CONV_BESIDE);
    same_pictures(a, b);
    graft_vae_release(a);
    graft_vae_release(b);
    adopt_short_of_memory(path, graft_diffusers_adopt_vae);
    unlink(path);
}

static void saved(void)
{
    saved_vae(SMALL);
}

static void damaged(void)
{
    static const struct {
        int at;
        float value;
    } bad[] = {{0, -0.5f}, {127, INFINITY}, {64, NAN}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        made_file *f = part_of_file(SMALL, "");
        float v[128];
        for (int k = 0; k < 128; k++) v[k] = 1;
        v[bad[i].at] = bad[i].value;
        drop_tensor(f, GRAFT_VAE_VARIANCE);
        add_tensor(f, GRAFT_VAE_VARIANCE, 1, (int64_t[]){128}, v, 0);
        vae_refused(f, GRAFT_E_FORMAT, "make no sense");
    }
    static const damage list[] = {
        {NULL, {0}, GRAFT_E_FORMAT, "tensor bn.running_mean is missing", {GRAFT_VAE_MEAN}},
        {NULL, {0}, GRAFT_E_FORMAT, "tensor bn.running_var is missing", {GRAFT_VAE_VARIANCE}},
        {GRAFT_VAE_MEAN,
         {64},
         GRAFT_E_UNSUPPORTED,
         "FLUX.2's has 128 numbers there and 32 channels"},
        {NULL, {0}, GRAFT_E_FORMAT, "encoder.quant_conv.weight", {"encoder.quant_conv.weight"}},
        {NULL}};
    vaes_refused(SMALL, NULL, list);
}

/* ------------------------------------------------------------------ sizes */

/* Pictures are cut to whole places, their masks with them; other latents are none of it. */
static void sizes(void)
{
    graft_vae *v = load_vae(SMALL);
    graft_image *p = picture_of(2, 23, 18), *mask = NULL, *none = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    graft_latent *l = encoded(v, p, NULL), *inpaint = NULL, *other;
    graft_latent_data(l, s);
    CHECK(s[0] == 2 && s[1] == 128 && s[2] == 5 && s[3] == 4);
    CHECK_OK(graft_mask_solid(18, 23, 1, &mask, &e), &e);
    CHECK_OK(graft_vae_encode_inpaint(v, p, mask, 0, NULL, &inpaint, &e), &e);
    graft_latent_data(inpaint, s);
    CHECK(s[0] == 2 && s[1] == 128 && s[2] == 5 && s[3] == 4);
    graft_image_data(graft_latent_mask(inpaint), s);
    CHECK(s[1] == 20 && s[2] == 16);
    other = latent_of((int64_t[]){1, 32, 4, 4});
    CHECK_INT(graft_vae_decode(v, other, NULL, NULL, &none, &e), GRAFT_E_ARG);
    CHECK(!none && strstr(e.text, "32 channels, this VAE takes 128"));
    graft_latent_release(l), graft_latent_release(inpaint), graft_latent_release(other);
    graft_image_release(p), graft_image_release(mask);
    graft_vae_release(v);
}

/* Compiling for a size is of that size's graphs: running it builds no others. */
static void compiled(void)
{
    graft_vae *v = load_vae(SMALL), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_compile_options o = {
        .precision = "f32", .tuning = "off", .width = 24, .height = 16, .tile = true};
    CHECK_OK(graft_vae_compile(v, &o, NULL, &out, &e), &e);
    graft_latent *l = latent_of((int64_t[]){1, 128, 4, 6});
    const uint64_t built = graphs_built(engine);
    graft_image *p = decoded(out, l, NULL);
    CHECK_INT(graphs_built(engine), built);
    graft_image_release(p);
    graft_latent_release(l);
    graft_vae_release(v);
    graft_vae_release(out);
}

/* Areas of prompts, which are pixels, have as many places. */
static void areas(void)
{
    const graft_cond_entry k = {.has_area = true,
                                .area = {.x = 32, .y = 16, .width = 64, .height = 40}};
    graft_box b = graft_regions_area(&k, (int64_t[]){1, 128, 8, 8});
    CHECK(b.y == 1 && b.x == 2 && b.height == 2 && b.width == 4);
    b = graft_regions_area(&k, (int64_t[]){1, 16, 16, 16});
    CHECK(b.y == 2 && b.x == 4 && b.height == 5 && b.width == 8);
}

static void short_of_memory(void)
{
    runs_short_of_memory(SMALL);
}

static void folding(void)
{
    static graft_folding f;
    static float places[128 * 2 * 3], cells[32 * 4 * 6], back[128 * 2 * 3];
    for (int i = 0; i < 128; i++) f.mean[i] = (float)i, f.deviation[i] = 1 + (float)(i % 4);
    for (int i = 0; i < 128 * 6; i++) places[i] = fixed_value((uint64_t)i);
    graft_folding_undo(&f, places, 2, 3, cells);
    /* Channel 5's cell in row 1 of the square and column 0: plane 22, here of the last place. */
    CHECK(cells[(5 * 4 + 3) * 6 + 4] == places[22 * 6 + 5] * 3 + 22);
    CHECK(cells[0] == places[0] && cells[1] == places[6] * 2 + 1);
    graft_folding_do(&f, cells, 2, 3, back);
    CHECK(difference(places, back, 128 * 6) < 1e-4);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(detected);
    RUN(golden);
    RUN(tiles);
    RUN(strips);
    RUN(diffusers_names);
    RUN(saved);
    RUN(damaged);
    RUN(sizes);
    RUN(compiled);
    RUN(areas);
    RUN(folding);
    RUN(short_of_memory);
    graft_engine_destroy(engine);
    return test_end();
}

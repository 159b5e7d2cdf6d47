/* What networks see beside the latent: FLUX's Fill, Canny and Depth, InstructPix2Pix's UNets, and
 * the references of Kontext; against runs of the network on x put together here. Inpainting UNets:
 * inpaint.c. What the networks compute of it: golden/small/flux_*. */
#include "engine/calibrate/quantize.h"
#include "engine/image/latent.h"
#include "engine/image/mask.h"
#include "engine/image/resize.h"
#include "tests/engine/merge.h"
#include "tests/engine/regions.h"

#define GOLDEN(name) (GRAFT_SOURCE_DIR "/golden/small/" name ".safetensors")

static graft_engine *engine;

enum { H = 6, W = 4, AREA = H * W, CHANNELS = 16, VALUES = CHANNELS * AREA, PLANES = 96 };
#define AT 0.6f /* sigma, of a flow */

static graft_latent *latent_of(int64_t n, int64_t channels, int64_t h, int64_t w, uint64_t seed)
{
    float v[2 * CHANNELS * 12 * 12];
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(n * channels * h * w <= (int64_t)(sizeof v / sizeof *v));
    for (int64_t i = 0; i < n * channels * h * w; i++) v[i] = 2 * fixed_value(seed + (uint64_t)i);
    CHECK_OK(graft_latent_from_data(v, (int64_t[]){n, channels, h, w}, &l, &e), &e);
    return l;
}

/* Each lets go of its prompt. */
typedef graft_status joining(const graft_cond *c, const graft_latent *l, graft_cond **out,
                             graft_err *e);
static graft_cond *joined(joining *join, graft_cond *c, const graft_latent *l)
{
    graft_cond *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(join(c, l, &r, &e), &e);
    graft_cond_release(c);
    return r;
}

static graft_cond *shown(graft_cond *c, const graft_latent *picture)
{
    return joined(graft_cond_picture, c, picture);
}

static graft_cond *inpainted(graft_cond *c, const graft_latent *known)
{
    return joined(graft_cond_inpaint, c, known);
}

static graft_cond *referring(graft_cond *c, const graft_latent *picture)
{
    return joined(graft_cond_reference, c, picture);
}

static graft_cond *placed(graft_cond *c, graft_placing how)
{
    graft_cond *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_place_references(c, how, &r, &e), &e);
    graft_cond_release(c);
    return r;
}

/* D of one row for a prompt without a pooled part: x is the latent (n values) and what is behind.
 */
static void by_hand(const graft_model *m, const graft_cond *c, const float *x, int64_t h, int64_t w,
                    const graft_references *r, float *out)
{
    const graft_unet_use use = {.pictures = 1,
                                .entries = 1,
                                .height = h,
                                .width = w,
                                .tokens = c->entry[0]->tokens,
                                .references = *r};
    const int64_t n = m->arch.latent_channels * h * w;
    float v[VALUES], y[64] = {0}, t;
    graft_sigma_table table;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(m->arch.adm_channels <= 64);
    if (m->arch.flux.guidance) y[m->arch.adm_channels - 1] = 3.5f;
    if (graft_net_counts_tokens(&m->arch, use.tokens)) y[m->arch.adm_channels] = (float)use.tokens;
    graft_model_sigma_table(m, &table);
    t = graft_sigma_to_timestep(&table, AT);
    CHECK_OK(graft_model_bind_guided(m, &use, NULL, &b, &e), &e);
    CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){x, &t, c->entry[0]->data, y},
                           (void *[]){v}, NULL, NULL, &e),
             &e);
    graft_binding_release(b);
    for (int64_t i = 0; i < n; i++) out[i] = x[i] - AT * v[i];
}

static void denoise_at(const one_call *c, const float *x, float *out)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_denoise_at(c, x, AT, out, &e), &e);
}

/* As the network sees it. */
static void scaled(const graft_model *m, const float *from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (from[i] - (float)m->latent_shift) * (float)m->scale_factor;
}

static const graft_references none;

/* ------------------------------------------------------------------ planes */

static void kinds(void)
{
    static const struct {
        const char *name;
        int kind, in;
    } of[] = {{"flux_fill", GRAFT_BESIDE_FILL, 96},
              {"flux_depth", GRAFT_BESIDE_PICTURE, 32},
              {"flux_kontext", GRAFT_BESIDE_NOTHING, 16},
              {"unet_sd1", GRAFT_BESIDE_NOTHING, 4}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/golden/small/%s.safetensors", GRAFT_SOURCE_DIR, of[i].name);
        graft_model *m = load_model(engine, path);
        CHECK_INT(m->arch.beside, of[i].kind);
        CHECK_INT(m->arch.in_channels, of[i].in);
        CHECK_INT(m->arch.latent_channels, i < 3 ? 16 : 4);
        graft_model_release(m);
    }
}

/* A mask of (8h,8w) as the planes of its cells' pixels. */
static void unfolded(const float *mask, float *planes)
{
    for (int y = 0; y < 8 * H; y++)
        for (int x = 0; x < 8 * W; x++)
            planes[((y % 8) * 8 + x % 8) * AREA + y / 8 * W + x / 8] = mask[y * 8 * W + x];
}

/* The picture without what is masked, and each pixel of the mask, greys too. */
static void fill_sees_pixels(void)
{
    graft_model *m = load_model(engine, GOLDEN("flux_fill"));
    graft_latent *picture = latent_of(1, CHANNELS, H, W, 7), *known = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float mask[64 * AREA], x[PLANES * AREA], got[VALUES], want[VALUES], other[VALUES];
    for (int i = 0; i < 64 * AREA; i++) mask[i] = (float)(i * 7 % 23) / 22;
    graft_image *image = mask_of(mask, 1, 8 * H, 8 * W);
    CHECK_OK(graft_latent_set_mask(picture, image, &known, &e), &e);
    graft_cond *c = inpainted(place_prompt(m, 3, 5), known);
    one_call call = {m, c, c, 1, {1, CHANNELS, H, W}, NULL, NULL, 0};
    noise_of(&call, x);
    denoise_at(&call, x, got);
    scaled(m, graft_latent_data(known, NULL), VALUES, x + VALUES);
    unfolded(mask, x + 2 * VALUES);
    by_hand(m, c, x, H, W, &none, want);
    CHECK(difference(got, want, VALUES) < 1e-6);
    x[2 * VALUES + 5] += 0.25f; /* each of them counts */
    by_hand(m, c, x, H, W, &none, other);
    CHECK(difference(got, other, VALUES) > 1e-4);
    graft_cond_release(c);
    graft_latent_release(known);
    graft_latent_release(picture);
    graft_image_release(image);
    graft_model_release(m);
}

/* Prompts without a picture: all is to be painted, beside an empty latent. */
static void fill_without_a_picture(void)
{
    graft_model *m = load_model(engine, GOLDEN("flux_fill"));
    graft_cond *c = place_prompt(m, 3, 5);
    const float zeros[VALUES] = {0};
    float x[PLANES * AREA], got[VALUES], want[VALUES];
    one_call call = {m, c, c, 1, {1, CHANNELS, H, W}, NULL, NULL, 0};
    noise_of(&call, x);
    denoise_at(&call, x, got);
    scaled(m, zeros, VALUES, x + VALUES);
    for (int i = 0; i < 64 * AREA; i++) x[2 * VALUES + i] = 1;
    by_hand(m, c, x, H, W, &none, want);
    CHECK(difference(got, want, VALUES) < 1e-6);
    graft_cond_release(c);
    graft_model_release(m);
}

/* D of a run with a mask (H,W), of this latent and noise. */
static void masked_run(const graft_model *m, const graft_cond *c, const graft_image *mask,
                       const float *latent, const float *noise, const float *x, float *out)
{
    graft_sigma_table table;
    graft_guided *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_model_sigma_table(m, &table);
    graft_guided_config k = {.model = m,
                             .table = &table,
                             .positive = c,
                             .negative = c,
                             .cfg = 1,
                             .shape = {1, CHANNELS, H, W},
                             .steps = 1,
                             .mask = graft_image_data(mask, NULL),
                             .latent = latent,
                             .noise = noise};
    CHECK_OK(graft_guided_create(&k, &g, &e), &e);
    graft_denoiser d = graft_guided_denoiser(g);
    CHECK_OK(d.denoise(d.ctx, x, AT, out, &e), &e);
    graft_guided_destroy(g);
}

/* Where neither the prompt nor its picture has a mask, the run's says what is to be painted. */
static void fill_takes_the_runs_mask(void)
{
    graft_model *m = load_model(engine, GOLDEN("flux_fill"));
    graft_cond *c = place_prompt(m, 3, 5);
    graft_image *mask = columns(H, W, 1, 3), *wide = NULL;
    graft_latent *picture = latent_of(1, CHANNELS, H, W, 70);
    graft_err e = GRAFT_ERR_INIT;
    const float zeros[VALUES] = {0}, *kept = graft_image_data(mask, NULL);
    float x[PLANES * AREA], got[VALUES], want[VALUES], latent[VALUES], noise[VALUES];
    CHECK_OK(graft_image_resize_mask(mask, 8 * H, 8 * W, 1, &wide, &e), &e);
    for (int i = 0; i < VALUES; i++) latent[i] = fixed_value(500 + (uint64_t)i);
    for (int i = 0; i < VALUES; i++) noise[i] = fixed_value(9000 + (uint64_t)i);
    for (int with = 0; with < 2; with++) {
        one_call call = {m, c, c, 1, {1, CHANNELS, H, W}, NULL, NULL, 0};
        noise_of(&call, x);
        if (with) c = shown(c, picture);
        masked_run(m, c, mask, latent, noise, x, got);
        for (int i = 0; i < VALUES; i++)
            if (kept[i % AREA] == 0) x[i] = (1 - AT) * latent[i] + AT * noise[i];
        scaled(m, with ? graft_latent_data(picture, NULL) : zeros, VALUES, x + VALUES);
        unfolded(graft_image_data(wide, NULL), x + 2 * VALUES);
        by_hand(m, c, x, H, W, &none, want);
        for (int i = 0; i < VALUES; i++)
            if (kept[i % AREA] == 0) want[i] = latent[i];
        CHECK(difference(got, want, VALUES) < 1e-6);
    }
    graft_image_release(mask);
    graft_image_release(wide);
    graft_latent_release(picture);
    graft_cond_release(c);
    graft_model_release(m);
}

/* Of the latent's size and of twice that; for the first picture of two; and for a prompt without.
 */
static void depth_sees_a_picture(void)
{
    graft_model *m = load_model(engine, GOLDEN("flux_depth"));
    graft_latent *one = latent_of(1, CHANNELS, H, W, 70), *sized = NULL;
    graft_latent *large = latent_of(1, CHANNELS, 2 * H, 2 * W, 90);
    graft_cond *p = shown(place_prompt(m, 3, 4), one), *n = place_prompt(m, 5, 4);
    graft_cond *q = shown(shown(place_prompt(m, 3, 4), one), large); /* the later one counts */
    graft_err e = GRAFT_ERR_INIT;
    const float zeros[VALUES] = {0};
    float x[2 * VALUES], row[2 * VALUES], got[2 * VALUES], a[VALUES], b[VALUES];
    one_call call = {m, p, n, 3, {2, CHANNELS, H, W}, NULL, NULL, 0};
    noise_of(&call, x);
    denoise_at(&call, x, got);
    for (int k = 0; k < 2; k++) {
        memcpy(row, x + k * VALUES, VALUES * sizeof *row);
        scaled(m, graft_latent_data(one, NULL), VALUES, row + VALUES);
        by_hand(m, p, row, H, W, &none, a);
        scaled(m, zeros, VALUES, row + VALUES);
        by_hand(m, n, row, H, W, &none, b);
        for (int i = 0; i < VALUES; i++) a[i] = b[i] + 3 * (a[i] - b[i]);
        CHECK(difference(got + k * VALUES, a, VALUES) < 1e-5);
    }
    CHECK_OK(graft_latent_upscale_by(large, "bilinear", 0.5, &sized, &e), &e);
    call = (one_call){m, q, q, 1, {1, CHANNELS, H, W}, NULL, NULL, 0};
    denoise_at(&call, x, got);
    memcpy(row, x, VALUES * sizeof *row);
    scaled(m, graft_latent_data(sized, NULL), VALUES, row + VALUES);
    by_hand(m, q, row, H, W, &none, a);
    CHECK(difference(got, a, VALUES) < 1e-5);
    graft_latent *const latents[] = {one, large, sized};
    for (int i = 0; i < 3; i++) graft_latent_release(latents[i]);
    graft_cond *const conds[] = {p, n, q};
    for (int i = 0; i < 3; i++) graft_cond_release(conds[i]);
    graft_model_release(m);
}

/* Of another aspect than the latent only the middle is seen, of the mask too. */
static void other_aspects_are_cut(void)
{
    enum { BY = 2, WIDE = W + 2 * BY };
    graft_model *m = load_model(engine, GOLDEN("flux_fill"));
    graft_latent *wide = latent_of(1, CHANNELS, H, WIDE, 7), *known[2] = {NULL}, *middle = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float mask[64 * H * WIDE], part[64 * AREA], x[VALUES], got[2][VALUES];
    for (int i = 0; i < 64 * H * WIDE; i++) mask[i] = (float)(i * 7 % 23) / 22;
    for (int i = 0; i < 64 * AREA; i++)
        part[i] = mask[i / (8 * W) * 8 * WIDE + 8 * BY + i % (8 * W)];
    graft_image *image[] = {mask_of(mask, 1, 8 * H, 8 * WIDE), mask_of(part, 1, 8 * H, 8 * W)};
    CHECK_OK(graft_latent_crop(wide, 8 * BY, 0, 8 * W, 8 * H, &middle, &e), &e);
    CHECK_OK(graft_latent_set_mask(wide, image[0], &known[0], &e), &e);
    CHECK_OK(graft_latent_set_mask(middle, image[1], &known[1], &e), &e);
    for (int i = 0; i < 2; i++) {
        graft_cond *c = inpainted(place_prompt(m, 3, 5), known[i]);
        one_call call = {m, c, c, 1, {1, CHANNELS, H, W}, NULL, NULL, 0};
        noise_of(&call, x);
        denoise_at(&call, x, got[i]);
        graft_cond_release(c);
        graft_latent_release(known[i]);
        graft_image_release(image[i]);
    }
    CHECK(memcmp(got[0], got[1], sizeof got[0]) == 0);
    graft_latent_release(wide);
    graft_latent_release(middle);
    graft_model_release(m);
}

/* InstructPix2Pix's UNet sees what the encoder gave, unscaled; nothing is zeros. */
static void pix2pix_sees_it_unscaled(void)
{
    enum { L = 4, N = L * 8 * 8 };
    graft_safetensors *f = open_file(SD1);
    const char *path = temp_path("pix2pix");
    write_file(widened_file(copy_file(f, ""), 4, 0.5f), path,
               graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    graft_model *m = load_model(engine, path);
    unlink(path);
    CHECK_INT(m->arch.beside, GRAFT_BESIDE_PICTURE);
    CHECK_INT(m->arch.in_channels, 8);
    graft_latent *picture = latent_of(1, L, 8, 8, 33);
    graft_cond *plain = place_prompt(m, 3, TOKENS), *c = shown(graft_cond_retain(plain), picture);
    float x[N], row[2 * N], got[N], v[N], t, scale = 1 / sqrtf(SIGMA * SIGMA + 1);
    graft_sigma_table table;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    one_call call = {m, c, c, 1, {1, L, 8, 8}, NULL, NULL, 0};
    noise_of(&call, x);
    graft_model_sigma_table(m, &table);
    t = graft_sigma_to_timestep(&table, SIGMA);
    CHECK_OK(graft_model_bind(m, 1, 8, 8, TOKENS, NULL, &b, &e), &e);
    for (int with = 0; with < 2; with++) {
        call.positive = with ? c : plain;
        denoise(&call, got);
        for (int i = 0; i < N; i++) row[i] = x[i] * scale;
        for (int i = 0; i < N; i++) row[N + i] = with ? graft_latent_data(picture, NULL)[i] : 0;
        CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){row, &t, c->entry[0]->data},
                               (void *[]){v}, NULL, NULL, &e),
                 &e);
        for (int i = 0; i < N; i++) v[i] = x[i] - SIGMA * v[i];
        CHECK(difference(got, v, N) < 1e-5);
    }
    graft_binding_release(b);
    graft_cond_release(plain);
    graft_cond_release(c);
    graft_latent_release(picture);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ references */

/* A picture's row of x behind the latent, and its size for the network. */
static int64_t refer(const graft_model *m, const graft_latent *l, int64_t p, graft_grid *size,
                     float *to)
{
    int64_t s[4];
    const float *v = graft_latent_data(l, s);
    v += p % s[0] * s[1] * s[2] * s[3];
    const int64_t rows = s[2] + s[2] % 2, columns = s[3] + s[3] % 2;
    *size = (graft_grid){(int32_t)s[2], (int32_t)s[3]};
    for (int64_t c = 0; c < s[1]; c++)
        for (int64_t y = 0; y < rows; y++)
            for (int64_t x = 0; x < columns; x++)
                scaled(m, v + (c * s[2] + y % s[2]) * s[3] + x % s[3], 1,
                       to + (c * rows + y) * columns + x);
    return s[1] * rows * columns;
}

/* D of picture p of x for a prompt with these references. */
static void with_references(const graft_model *m, const graft_cond *c, const float *x, int64_t p,
                            graft_latent *const *l, int n, graft_placing how, float *out)
{
    float row[VALUES + 3 * CHANNELS * 12 * 12];
    graft_references r = {.n = n, .placing = (int32_t)how};
    int64_t at = VALUES;
    memcpy(row, x + p * VALUES, VALUES * sizeof *row);
    for (int i = 0; i < n; i++) at += refer(m, l[i], p, &r.of[i], row + at);
    by_hand(m, c, row, H, W, &r, out);
}

/* ------------------------------------------------------------------ odd latents */

enum { ODD_H = H - 1, ODD_W = W - 1, ODD = ODD_H * ODD_W };

/* Planes of an odd height and width go on with their first row and column. */
static void filled_up(const float *from, int64_t planes, float *to)
{
    for (int64_t i = 0; i < planes * AREA; i++)
        to[i] = from[i / AREA * ODD + i % AREA / W % ODD_H * ODD_W + i % W % ODD_W];
}

/* Each of two pictures is what the network makes of it filled up, without what it adds; beside the
 * latent likewise, and before a reference. */
static void odd_latents_are_filled_up(void)
{
    static const char *const of[] = {GOLDEN("flux_depth"), GOLDEN("flux_kontext"),
                                     GOLDEN("mmdit_sd3")};
    for (size_t k = 0; k < 3; k++) {
        graft_model *m = load_model(engine, of[k]);
        graft_latent *l = latent_of(1, CHANNELS, ODD_H, ODD_W, 40);
        graft_cond *c = place_prompt(m, 3, 5);
        float x[2 * CHANNELS * ODD], got[2 * CHANNELS * ODD], row[3 * VALUES], want[VALUES];
        float planes[CHANNELS * ODD];
        if (k < 2) c = k ? referring(c, l) : shown(c, l);
        one_call call = {m, c, c, 1, {2, CHANNELS, ODD_H, ODD_W}, NULL, NULL, 0};
        noise_of(&call, x);
        denoise_at(&call, x, got);
        for (int p = 0; p < 2; p++) {
            graft_references r = {.n = k == 1};
            filled_up(x + p * CHANNELS * ODD, CHANNELS, row);
            scaled(m, graft_latent_data(l, NULL), CHANNELS * ODD, planes);
            if (k == 0) filled_up(planes, CHANNELS, row + VALUES);
            if (k == 1) refer(m, l, 0, &r.of[0], row + VALUES);
            by_hand(m, c, row, H, W, &r, want);
            for (int i = 0; i < CHANNELS * ODD; i++)
                want[i] = want[i / ODD * AREA + i % ODD / ODD_W * W + i % ODD_W];
            CHECK(difference(got + p * CHANNELS * ODD, want, CHANNELS * ODD) < 1e-5);
        }
        graft_latent_release(l);
        graft_cond_release(c);
        graft_model_release(m);
    }
}

/* An area at an odd latent's edge is odd itself: the same as a whole latent of that size. */
static void odd_areas_too(void)
{
    graft_model *m = load_model(engine, GOLDEN("flux_kontext"));
    graft_cond *whole = place_prompt(m, 3, 5);
    graft_cond *c = in_cells(graft_cond_retain(whole), 0, 0, ODD_H, 2, 1);
    float x[CHANNELS * ODD], part[CHANNELS * ODD_H * 2], got[CHANNELS * ODD], want[VALUES];
    one_call call = {m, c, c, 1, {1, CHANNELS, ODD_H, ODD_W}, NULL, NULL, 0};
    noise_of(&call, x);
    denoise_at(&call, x, got);
    part_of(&call, x, 0, 0, ODD_H, 2, part);
    call.positive = call.negative = whole;
    call.shape[3] = 2;
    denoise_at(&call, part, want);
    call.shape[3] = ODD_W;
    part_of(&call, got, 0, 0, ODD_H, 2, part);
    CHECK(difference(part, want, CHANNELS * ODD_H * 2) < 1e-6);
    graft_cond_release(whole);
    graft_cond_release(c);
    graft_model_release(m);
}

/* Such a latent's plan is of what the network sees of it. */
static void odd_latents_calibrate(void)
{
    graft_model *m = load_model(engine, GOLDEN("flux_depth")), *q = NULL;
    graft_latent *l = latent_of(1, CHANNELS, ODD_H, ODD_W, 40);
    graft_cond *c = shown(place_prompt(m, 3, 5), l);
    graft_err e = GRAFT_ERR_INIT;
    const graft_quantize_options o = {.bits = 8,
                                      .linear = true,
                                      .linear_mse_threshold = 1,
                                      .positive = c,
                                      .negative = c,
                                      .latent = l,
                                      .steps = 2,
                                      .cfg = 1};
    CHECK_OK(graft_model_quantize(m, &o, NULL, &q, NULL, &e), &e);
    if (q) {
        const graft_quant_plan *p = q->quantizer->plan;
        CHECK(p->height == H && p->width == W && p->joint_mse > 0);
    }
    graft_latent_release(l);
    graft_cond_release(c);
    graft_model_release(m);
    graft_model_release(q);
}

/* Two pictures stand for two latents each of four; of two latents each sees one of two. */
static void pictures_are_spread(void)
{
    static const int64_t want[][7] = {{2, 4, 0, 0, 1, 1}, {4, 2, 0, 3},       {3, 5, 0, 0, 1, 2, 2},
                                      {1, 3, 0, 0, 0},    {5, 3, 0, 2, 4},    {6, 1, 0},
                                      {3, 3, 0, 1, 2},    {8, 4, 0, 2, 5, 7}, {2, 2, 0, 1}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        for (int64_t k = 0; k < want[i][1]; k++)
            CHECK_INT(graft_batch_spread(k, want[i][0], want[i][1]), want[i][2 + k]);
    graft_model *m = load_model(engine, GOLDEN("flux_depth"));
    graft_latent *l = latent_of(2, CHANNELS, 2, 2, 70);
    graft_cond *c = shown(place_prompt(m, 3, 4), l);
    float x[4 * CHANNELS * 4], row[2 * CHANNELS * 4], got[4 * CHANNELS * 4], by[CHANNELS * 4];
    one_call call = {m, c, c, 1, {4, CHANNELS, 2, 2}, NULL, NULL, 0};
    noise_of(&call, x);
    denoise_at(&call, x, got);
    for (int p = 0; p < 4; p++) {
        memcpy(row, x + p * CHANNELS * 4, sizeof by);
        scaled(m, graft_latent_data(l, NULL) + p / 2 * CHANNELS * 4, CHANNELS * 4,
               row + CHANNELS * 4);
        by_hand(m, c, row, 2, 2, &none, by);
        CHECK(difference(got + p * CHANNELS * 4, by, CHANNELS * 4) < 1e-5);
    }
    graft_latent_release(l);
    graft_cond_release(c);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ references in runs */

/* Several of any size, an odd one and a batch; side by side and apart; each counts. */
static void kontext_sees_references(void)
{
    graft_model *m = load_model(engine, GOLDEN("flux_kontext"));
    graft_latent *l[3] = {latent_of(1, CHANNELS, 4, 8, 11), latent_of(2, CHANNELS, 5, 3, 12),
                          latent_of(1, CHANNELS, 2, 2, 13)};
    float x[2 * VALUES], got[2 * VALUES], want[VALUES], before[VALUES];
    graft_cond *c = place_prompt(m, 3, 5);
    one_call call = {m, c, c, 1, {2, CHANNELS, H, W}, NULL, NULL, 0};
    noise_of(&call, x);
    denoise_at(&call, x, got);
    for (int n = 1; n <= 5; n++) {
        const graft_placing how = n == 4   ? GRAFT_PLACE_BEHIND
                                  : n == 5 ? GRAFT_PLACE_DIAGONAL
                                           : GRAFT_PLACE_BESIDE;
        memcpy(before, got, sizeof before);
        c = how ? placed(c, how) : referring(c, l[n - 1]);
        call.positive = call.negative = c;
        denoise_at(&call, x, got);
        CHECK(difference(got, before, VALUES) > 1e-4);
        for (int p = 0; p < 2; p++) {
            with_references(m, c, x, p, l, n < 3 ? n : 3, how, want);
            CHECK(difference(got + p * VALUES, want, VALUES) < 1e-5);
        }
    }
    for (int i = 0; i < 3; i++) graft_latent_release(l[i]);
    graft_cond_release(c);
    graft_model_release(m);
}

/* The grids that a network's references turn by are these, in any order of blocks. */
static void check_places(const graft_model *m, const graft_references *r, int i, int frame, int top,
                         int left)
{
    const graft_net_shape shape = {
        .batch = 1, .height = H, .width = W, .tokens = 3, .act_dtype = GRAFT_F32, .references = *r};
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int32_t behind = 0;
    int turned = 0;
    CHECK_OK(graft_net_build(&m->arch, &shape, 1, &g, &e), &e);
    for (int k = r->n - 1; k > i; k--)
        behind += (r->of[k].rows + 1) / 2 * ((r->of[k].columns + 1) / 2);
    for (size_t k = 0; g && k < g->n_nodes; k++) {
        const graft_attrs *a = &g->node[k].attrs;
        if (g->node[k].op != GRAFT_OP_ROPE || a->pad_bottom != behind) continue;
        CHECK(a->groups == frame && a->pad_top == top && a->pad_left == left);
        turned++;
    }
    CHECK(turned > 0);
    graft_graph_destroy(g);
}

/* In tokens, of two cells a side: beside each other, behind each other, and along the diagonal of
 * the picture's own layer. */
static void references_have_their_places(void)
{
    graft_model *m = load_model(engine, GOLDEN("flux_kontext"));
    graft_references r = {.n = 2, .of = {{4, 8}, {6, 2}}};
    check_places(m, &r, 0, 1, 0, 0);
    check_places(m, &r, 1, 1, 2, 0);
    r.placing = GRAFT_PLACE_BEHIND;
    check_places(m, &r, 0, 1, 0, 0);
    check_places(m, &r, 1, 2, 0, 0);
    r.placing = GRAFT_PLACE_DIAGONAL;
    check_places(m, &r, 0, 0, H / 2, W / 2);
    check_places(m, &r, 1, 0, H / 2 + 2, W / 2 + 4);
    graft_model_release(m);
}

/* Odd sizes count as they are where the next reference is placed: beside 4 x 3, not below, as it
 * would be of 4 x 4. */
static void odd_references_are_placed_as_they_are(void)
{
    graft_model *m = load_model(engine, GOLDEN("flux_kontext"));
    const graft_references r = {.n = 2, .of = {{4, 3}, {2, 2}}};
    check_places(m, &r, 1, 1, 0, 2);
    graft_model_release(m);
}

/* Prompts with equal references are one batch; of other sizes, or without, they are others. An area
 * sees all of its reference. */
static void prompts_have_their_own(void)
{
    graft_model *m = load_model(engine, GOLDEN("flux_kontext"));
    graft_latent *l[2] = {latent_of(1, CHANNELS, 4, 6, 21), latent_of(1, CHANNELS, 6, 4, 22)};
    float x[VALUES], got[VALUES], a[VALUES], b[VALUES];
    graft_cond *plain = place_prompt(m, 4, 5), *p = referring(place_prompt(m, 3, 5), l[0]);
    graft_cond *negative[3] = {referring(place_prompt(m, 4, 5), l[0]),
                               referring(place_prompt(m, 4, 5), l[1]), graft_cond_retain(plain)};
    one_call call = {m, p, NULL, 3, {1, CHANNELS, H, W}, NULL, NULL, 0};
    noise_of(&call, x);
    with_references(m, p, x, 0, &l[0], 1, GRAFT_PLACE_BESIDE, a);
    for (int k = 0; k < 3; k++) {
        call.negative = negative[k];
        denoise_at(&call, x, got);
        with_references(m, plain, x, 0, &l[k % 2], k < 2, GRAFT_PLACE_BESIDE, b);
        for (int i = 0; i < VALUES; i++) b[i] += 3 * (a[i] - b[i]);
        CHECK(difference(got, b, VALUES) < 1e-5);
        graft_cond_release(negative[k]);
    }
    enum { SH = 4, SW = 4, PART = CHANNELS * SH * SW };
    float row[PART + CHANNELS * 24], have[PART];
    graft_references r = {.n = 1};
    graft_cond *small = in_cells(graft_cond_retain(p), 2, 0, SH, SW, 1);
    call = (one_call){m, small, small, 1, {1, CHANNELS, H, W}, NULL, NULL, 0};
    denoise_at(&call, x, got);
    part_of(&call, x, 2, 0, SH, SW, row);
    refer(m, l[0], 0, &r.of[0], row + PART);
    by_hand(m, p, row, SH, SW, &r, a);
    part_of(&call, got, 2, 0, SH, SW, have);
    CHECK(difference(have, a, PART) < 1e-5);
    graft_cond *const conds[] = {plain, p, small};
    for (int i = 0; i < 3; i++) graft_cond_release(conds[i]);
    for (int i = 0; i < 2; i++) graft_latent_release(l[i]);
    graft_model_release(m);
}

/* Networks that take none do not look at them. */
static void others_ignore_references(void)
{
    static const char *const of[] = {"flux_depth", "unet_sd1", "mmdit_sd3"};
    graft_latent *l = latent_of(1, CHANNELS, 4, 6, 21);
    for (int i = 0; i < 3; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/golden/small/%s.safetensors", GRAFT_SOURCE_DIR, of[i]);
        graft_model *m = load_model(engine, path);
        graft_cond *c = place_prompt(m, 3, 5), *r = referring(graft_cond_retain(c), l);
        const int64_t n = m->arch.latent_channels * 8 * 8;
        float x[16 * 8 * 8], a[16 * 8 * 8], b[16 * 8 * 8];
        one_call call = {m, c, c, 1, {1, m->arch.latent_channels, 8, 8}, NULL, NULL, 0};
        noise_of(&call, x);
        denoise_at(&call, x, a);
        call.positive = r;
        denoise_at(&call, x, b);
        CHECK(memcmp(a, b, (size_t)n * sizeof *a) == 0);
        graft_cond_release(c);
        graft_cond_release(r);
        graft_model_release(m);
    }
    graft_latent_release(l);
}

static void wrong_pictures(void)
{
    graft_model *m = load_model(engine, GOLDEN("flux_kontext"));
    graft_model *depth = load_model(engine, GOLDEN("flux_depth"));
    graft_latent *small = latent_of(1, 4, 4, 6, 1), *fits = latent_of(1, CHANNELS, 2, 2, 1);
    graft_cond *c = referring(place_prompt(m, 3, 5), small),
               *d = shown(place_prompt(depth, 3, 5), small);
    graft_cond *many = place_prompt(m, 3, 5), *more = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float x[VALUES] = {0}, out[VALUES];
    one_call call = {m, c, c, 1, {1, CHANNELS, H, W}, NULL, NULL, 0};
    CHECK_INT(try_denoise_at(&call, x, AT, out, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "another kind of VAE"));
    call = (one_call){depth, d, d, 1, {1, CHANNELS, H, W}, NULL, NULL, 0};
    CHECK_INT(try_denoise_at(&call, x, AT, out, &e), GRAFT_E_ARG);
    for (int i = 0; i < GRAFT_REFERENCES; i++) many = referring(many, fits);
    CHECK_INT(graft_cond_reference(many, fits, &more, &e), GRAFT_E_LIMIT);
    CHECK(!more);
    graft_cond *const conds[] = {c, d, many};
    for (int i = 0; i < 3; i++) graft_cond_release(conds[i]);
    graft_latent_release(small);
    graft_latent_release(fits);
    RELEASE_ALL(m, depth);
}

/* ------------------------------------------------------------------ whole runs */

static graft_status sampled(const graft_model *m, const graft_cond *c, const graft_task *task,
                            float *out, graft_err *e)
{
    const graft_sample_params p = {.steps = 3,
                                   .seed = 4,
                                   .add_noise = true,
                                   .cfg = 1,
                                   .sampler = "euler",
                                   .scheduler = "simple",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    graft_latent *in = NULL, *l = NULL;
    graft_status st = graft_latent_empty(CHANNELS, 8 * W, 8 * H, 1, &in, e);
    if (!st) st = graft_sample(m, &p, c, c, in, task, &l, e);
    if (!st) memcpy(out, graft_latent_data(l, NULL), VALUES * sizeof *out);
    graft_latent_release(in);
    graft_latent_release(l);
    return st;
}

/* Compiled ahead, nothing is left to compile; calibrated on its own sampling, the layers that are
 * chosen see the references, too. */
static void whole_runs(void)
{
    graft_model *m = load_model(engine, GOLDEN("flux_kontext")), *q = NULL;
    graft_latent *l = latent_of(1, CHANNELS, 4, 6, 21);
    graft_cond *c = referring(place_prompt(m, 3, 5), l), *plain = place_prompt(m, 3, 5);
    const graft_task ahead = {.compile_only = true};
    graft_err e = GRAFT_ERR_INIT;
    float out[VALUES], quantized[VALUES], without[VALUES];
    CHECK_OK(sampled(m, c, &ahead, out, &e), &e);
    const uint64_t built = graphs_built(engine);
    CHECK_OK(sampled(m, c, NULL, out, &e), &e);
    CHECK_INT(graphs_built(engine), built);
    const graft_quantize_options o = {.bits = 8,
                                      .conv = true,
                                      .linear = true,
                                      .attention = true,
                                      .conv_mse_threshold = 1,
                                      .linear_mse_threshold = 1,
                                      .attention_mse_threshold = 1};
    CHECK_OK(graft_model_quantize(m, &o, NULL, &q, NULL, &e), &e);
    CHECK_OK(sampled(q, c, NULL, quantized, &e), &e);
    CHECK_OK(sampled(q, plain, NULL, without, &e), &e);
    CHECK(difference(quantized, out, VALUES) > 1e-5);
    CHECK(difference(quantized, out, VALUES) < difference(quantized, without, VALUES) / 2);
    graft_cond_release(c);
    graft_cond_release(plain);
    graft_latent_release(l);
    RELEASE_ALL(m, q);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    RUN(fill_sees_pixels);
    RUN(fill_without_a_picture);
    RUN(fill_takes_the_runs_mask);
    RUN(depth_sees_a_picture);
    RUN(other_aspects_are_cut);
    RUN(pix2pix_sees_it_unscaled);
    RUN(odd_latents_are_filled_up);
    RUN(odd_areas_too);
    RUN(odd_latents_calibrate);
    RUN(pictures_are_spread);
    RUN(kontext_sees_references);
    RUN(references_have_their_places);
    RUN(odd_references_are_placed_as_they_are);
    RUN(prompts_have_their_own);
    RUN(others_ignore_references);
    RUN(wrong_pictures);
    RUN(whole_runs);
    graft_engine_destroy(engine);
    return test_end();
}

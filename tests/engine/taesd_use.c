/* Tiny autoencoders where a VAE is: strips and tiles, batches and all sizes, compiled and in
 * bfloat16, around masks, in reports, and saved. */
#include <math.h>

#include "base/alloc.h"
#include "engine/image/latent.h"
#include "tests/engine/taesd.h"

#define EMOJI(half) GRAFT_SOURCE_DIR "/models/vae_approx/emoji_" half ".safetensors"

static graft_engine *engine;
static taesd_files pair;
static graft_vae *vae;

static graft_image *picture(int64_t n, int64_t h, int64_t w)
{
    const int64_t shape[4] = {n, h, w, 3};
    float *p = calloc((size_t)(n * h * w * 3), sizeof *p), *at = p;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < n; i++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++)
                for (int64_t c = 0; c < 3; c++)
                    *at++ = (float)(0.5 + 0.25 * sin(0.05 * (double)(x * (c + 1) + i * 40)) +
                                    0.25 * sin(0.07 * (double)(y * (3 - c))));
    CHECK_OK(graft_image_from_data(p, shape, false, &image, &e), &e);
    free(p);
    return image;
}

static graft_vae *within(const char *precision, int64_t mb)
{
    graft_vae *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_compile_options o = {
        .precision = precision, .tuning = "off", .max_memory_mb = mb, .tile = true};
    CHECK_OK(graft_vae_compile(vae, &o, NULL, &out, &e), &e);
    return out;
}

typedef struct both {
    graft_latent *latent;
    graft_image *image;
} both;

static both run_both(const graft_vae *v, const graft_image *in, const graft_tiling *tiling)
{
    both b = {NULL, NULL};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_encode(v, in, tiling, NULL, &b.latent, &e), &e);
    if (b.latent) CHECK_OK(graft_vae_decode(v, b.latent, tiling, NULL, &b.image, &e), &e);
    return b;
}

static void both_release(both *b)
{
    graft_latent_release(b->latent);
    graft_image_release(b->image);
}

/* How far apart latents and pictures are, as shares of their ranges; 9: of other shapes. */
static void apart(const both *a, const both *b, double out[2])
{
    int64_t s[4] = {0}, t[4] = {0};
    out[0] = out[1] = 9;
    if (!a->image || !b->image) return;
    const float *x = graft_latent_data(a->latent, s), *y = graft_latent_data(b->latent, t);
    if (memcmp(s, t, sizeof s) == 0) out[0] = difference(x, y, (size_t)shape_count(s, 4));
    x = graft_image_data(a->image, s);
    y = graft_image_data(b->image, t);
    if (memcmp(s, t, sizeof s) == 0) out[1] = difference(x, y, (size_t)shape_count(s, 4));
}

static uint64_t bytes_of(graft_engine *g)
{
    return graft_arenas_bytes(g->arenas) + packs_of(g).bytes;
}

/* ------------------------------------------------------------------ strips and tiles */

static void strips_are_the_whole(void)
{
    const int64_t sides[][2] = {{400, 320}, {328, 520}};
    for (int i = 0; i < (UNDER_SANITIZER ? 1 : 2); i++) {
        graft_image *in = picture(1, sides[i][0], sides[i][1]);
        both whole = run_both(vae, in, NULL);
        for (int64_t mb = 15; mb >= 6; mb -= 3) {
            graft_vae *tight = within("f32", mb);
            double off[2];
            graft_packs_trim(engine->packs, 0);
            graft_arenas_trim(engine->arenas);
            both b = run_both(tight, in, NULL);
            apart(&b, &whole, off);
            printf("     %lld MB: latent off by %.2g, picture by %.2g\n", (long long)mb, off[0],
                   off[1]);
            CHECK(off[0] < 1e-5 && off[1] < 1e-5);
            CHECK(bytes_of(engine) <= (uint64_t)mb << 20);
            both_release(&b);
            graft_vae_release(tight);
        }
        both_release(&whole);
        graft_image_release(in);
    }
}

static void too_little_memory(void)
{
    graft_image *in = picture(1, 1024, 1024);
    graft_latent *latent = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *tight = within("f32", 1);
    tight->options.max_bytes = 1 << 16;
    CHECK_INT(graft_vae_encode(tight, in, NULL, NULL, &latent, &e), GRAFT_E_LIMIT);
    CHECK(strstr(e.text, "would do is") != NULL);
    graft_vae_release(tight);
    graft_image_release(in);
}

/* Tiles are blended where they overlap. What a pixel depends on ends some 150 pixels away, and
 * random weights make the most of it; tests/engine/taesd_demo.c looks at trained ones. */
static void tiles_do_not_show(void)
{
    static const struct {
        graft_tiling tiling;
        double most;
    } tiles[] = {{{512, 320}, 0.03}, {{256, 64}, 0.3}};
    graft_image *in = picture(1, 520, 776);
    both whole = run_both(vae, in, NULL);
    for (int i = 0; i < 2; i++) {
        double off[2];
        both b = run_both(vae, in, &tiles[i].tiling);
        apart(&b, &whole, off);
        printf("     tiles of %lld: latent off by %.2g, picture by %.2g\n",
               (long long)tiles[i].tiling.tile_size, off[0], off[1]);
        CHECK(off[0] < tiles[i].most && off[1] < tiles[i].most);
        both_release(&b);
    }
    both_release(&whole);
    graft_image_release(in);
}

/* ------------------------------------------------------------------ sizes */

static void batches_and_odd_sizes(void)
{
    static const int64_t sides[][2] = {{8, 8}, {8, 24}, {45, 19}, {72, 56}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        int64_t h = sides[i][0], w = sides[i][1], shape[4] = {0}, one[4] = {0};
        graft_image *in = picture(3, h, w), *alone = NULL;
        graft_err e = GRAFT_ERR_INIT;
        both all = run_both(vae, in, NULL);
        if (!all.image) break;
        const float *p = graft_image_data(all.image, shape), *q = graft_image_data(in, one);
        CHECK(shape[0] == 3 && shape[1] == h / 8 * 8 && shape[2] == w / 8 * 8 && shape[3] == 3);
        CHECK_OK(
            graft_image_from_data(q + 2 * h * w * 3, (int64_t[]){1, h, w, 3}, false, &alone, &e),
            &e);
        both last = run_both(vae, alone, NULL);
        int64_t n = shape[1] * shape[2] * 3;
        CHECK(last.image &&
              memcmp(p + 2 * n, graft_image_data(last.image, one), (size_t)n * sizeof *p) == 0);
        both_release(&last);
        both_release(&all);
        graft_image_release(alone);
        graft_image_release(in);
    }
}

static void around_masks(void)
{
    graft_image *in = picture(1, 64, 64), *mask = NULL;
    graft_latent *plain = NULL, *holed = NULL, *whole = NULL, *known = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float m[64 * 64] = {0};
    int64_t shape[4];
    for (int i = 0; i < 64 * 64; i++) m[i] = i % 64 > 48 && i / 64 > 48;
    CHECK_OK(graft_image_from_data(m, (int64_t[]){1, 64, 64, 1}, true, &mask, &e), &e);
    CHECK_OK(graft_vae_encode(vae, in, NULL, NULL, &plain, &e), &e);
    CHECK_OK(graft_vae_encode_inpaint(vae, in, mask, 0, NULL, &holed, &e), &e);
    CHECK_OK(graft_vae_encode_known(vae, in, mask, true, NULL, &whole, &known, &e), &e);
    const float *a = graft_latent_data(plain, shape), *b = graft_latent_data(holed, shape),
                *c = graft_latent_data(whole, shape), *d = graft_latent_data(known, shape);
    CHECK(memcmp(a, c, 256 * sizeof *a) == 0 && memcmp(b, d, 256 * sizeof *b) == 0);
    CHECK(a[63] != b[63] && graft_latent_mask(holed) && graft_latent_mask(whole));
    graft_latent_release(plain);
    graft_latent_release(holed);
    graft_latent_release(whole);
    graft_latent_release(known);
    graft_image_release(mask);
    graft_image_release(in);
}

/* ------------------------------------------------------------------ compiled */

static void compiled_ahead(void)
{
    const graft_task idle = {.compile_only = true};
    graft_image *in = picture(1, 176, 200);
    graft_compiled_stats ahead, after;
    graft_err e = GRAFT_ERR_INIT;
    both b = {NULL, NULL};
    for (int64_t mb = 0; mb < 5; mb += 4) {
        graft_vae *v = within("f32", mb);
        CHECK_OK(graft_vae_encode(v, in, NULL, &idle, &b.latent, &e), &e);
        CHECK_OK(graft_vae_decode(v, b.latent, NULL, &idle, &b.image, &e), &e);
        both_release(&b);
        graft_compiled_stats_get(engine->compiled, &ahead);
        b = run_both(v, in, NULL);
        graft_compiled_stats_get(engine->compiled, &after);
        CHECK_INT(after.built, ahead.built);
        both_release(&b);
        graft_vae_release(v);
    }
    graft_image_release(in);
}

static void narrow_numbers(void)
{
    graft_image *in = picture(1, 88, 104);
    graft_vae *narrow = within("bf16", 0);
    both whole = run_both(vae, in, NULL), b = run_both(narrow, in, NULL);
    double off[2];
    apart(&b, &whole, off);
    printf("     bf16: latent off by %.2g, picture by %.2g\n", off[0], off[1]);
    CHECK(off[0] > 0 && off[0] < 5e-2 && off[1] < 5e-2);
    both_release(&b);
    both_release(&whole);
    graft_vae_release(narrow);
    graft_image_release(in);
}

/* Both files count. */
static void reports(void)
{
    graft_model *m = load_model(engine, SD1);
    graft_image *in = picture(1, 64, 64), *drawn = NULL;
    graft_err e = GRAFT_ERR_INIT;
    char *text = NULL, stored[64];
    both b = run_both(vae, in, NULL);
    CHECK_OK(graft_model_report(m, vae, NULL, &text, &drawn, &e), &e);
    uint64_t bytes =
        graft_weights_stored_bytes(vae->weights) + graft_weights_stored_bytes(vae->encoder_weights);
    snprintf(stored, sizeof stored, "%.1f kB", (double)bytes / 1e3);
    if (bytes >= 1000000) snprintf(stored, sizeof stored, "%.1f MB", (double)bytes / 1e6);
    CHECK(text && strstr(text, "VAE") && strstr(text, stored));
    graft_text_free(text);
    graft_image_release(drawn);
    both_release(&b);
    graft_image_release(in);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ saved */

static void same_pictures(const graft_vae *a, const graft_vae *b)
{
    graft_image *in = picture(1, 40, 48);
    both x = run_both(a, in, NULL), y = run_both(b, in, NULL);
    double off[2];
    apart(&x, &y, off);
    CHECK(off[0] == 0 && off[1] == 0);
    both_release(&x);
    both_release(&y);
    graft_image_release(in);
}

static graft_vae *saved(const graft_checkpoint *what, graft_status want, const char *why)
{
    const char *path = temp_path("taesd-saved.safetensors");
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    unlink(path);
    CHECK_INT(graft_checkpoint_save(what, path, NULL, NULL, &e), want);
    if (want == GRAFT_OK) CHECK_OK(graft_vae_load(engine, path, NULL, &v, &e), &e);
    if (want != GRAFT_OK && !strstr(e.text, why)) CHECK_STR(e.text, why);
    unlink(path);
    return v;
}

/* A saved file says itself whose latents it takes, which the name of the first one said. */
static void saved_and_loaded(void)
{
    graft_err e = GRAFT_ERR_INIT;
    for (int xl = 0; xl < 2; xl++) {
        taesd_files p = taesd_write("saved", xl ? "taesdxl" : "taesd", NULL);
        graft_vae *v = taesd_load_pair(engine, p.encoder, p.decoder);
        graft_vae *w = saved(&(graft_checkpoint){.vae = v}, GRAFT_OK, "");
        CHECK(w && w->arch.names == GRAFT_TINY_LAYERS && w->scale_factor == v->scale_factor);
        CHECK(w && memcmp(&w->colours, &v->colours, sizeof v->colours) == 0);
        if (w) same_pictures(v, w);
        graft_vae *again = w ? saved(&(graft_checkpoint){.vae = w}, GRAFT_OK, "") : NULL;
        CHECK(again && again->scale_factor == v->scale_factor);
        graft_vae_release(again);
        graft_vae_release(w);
        graft_model *m = load_model(engine, xl ? SDXL : SD1), *other = load_model(engine, DEMO);
        w = saved(&(graft_checkpoint){.model = m, .vae = v}, GRAFT_OK, "");
        CHECK(w && w->scale_factor == v->scale_factor && graft_vae_is_for(w, m));
        if (w) same_pictures(v, w);
        graft_vae_release(w);
        saved(&(graft_checkpoint){.model = other, .vae = v}, GRAFT_E_ARG, "other latents");
        graft_model_release(m);
        graft_model_release(other);
        graft_vae_release(v);
        taesd_remove(&p);
    }
    graft_vae *half = NULL;
    CHECK_OK(graft_vae_load(engine, pair.decoder, NULL, &half, &e), &e);
    graft_vae *w = saved(&(graft_checkpoint){.vae = half}, GRAFT_OK, "");
    CHECK(w && !w->arch.encoder && w->arch.decoder);
    graft_vae_release(w);
    graft_vae_release(half);
}

/* Of Stable Diffusion 3's the channels say it, in a file of its own and in a checkpoint. */
static void saved_for_sd3(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *v = NULL;
    graft_model *m = load_model(engine, MMDIT), *other = load_model(engine, SD1);
    CHECK_OK(graft_vae_load(engine, TAESD("sd3"), NULL, &v, &e), &e);
    for (int i = 0; i < 2; i++) {
        graft_vae *w = saved(&(graft_checkpoint){.model = i ? m : NULL, .vae = v}, GRAFT_OK, "");
        CHECK(w && w->scale_factor == TAESD3_SCALE && w->latent_shift == TAESD3_SHIFT);
        CHECK(w && graft_vae_is_for(w, m));
        if (w) same_pictures(v, w);
        graft_vae_release(w);
    }
    saved(&(graft_checkpoint){.model = other, .vae = v}, GRAFT_E_ARG, "other latents");
    graft_vae_release(v);
    graft_model_release(m);
    graft_model_release(other);
}

/* ------------------------------------------------------------------ memory */

static graft_status load_and_decode(const graft_latent *latent, const char *save)
{
    graft_vae *v = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_status st = graft_vae_load_pair(engine, pair.encoder, pair.decoder, NULL, &v, &e);
    if (!st) st = graft_vae_decode(v, latent, NULL, NULL, &image, &e);
    if (!st) st = graft_checkpoint_save(&(graft_checkpoint){.vae = v}, save, NULL, NULL, &e);
    if (st) CHECK(st == GRAFT_E_NOMEM && e.text[0]);
    graft_image_release(image);
    graft_vae_release(v);
    return st;
}

/* Each allocation fails in turn, of loading, decoding and saving: a status, and nothing is lost. */
static void memory_may_end_anywhere(void)
{
    const char *path = temp_path("taesd-nomem.safetensors");
    graft_latent *latent = NULL;
    graft_alloc_stats before, after;
    graft_status st = GRAFT_E_NOMEM;
    graft_err e = GRAFT_ERR_INIT;
    int failed = 0;
    CHECK_OK(graft_latent_empty(4, 24, 16, 1, &latent, &e), &e);
    CHECK_INT(load_and_decode(latent, path), GRAFT_OK); /* what is kept is there */
    unlink(path);
    graft_alloc_stats_get(&before);
    for (int i = 1; st != GRAFT_OK && i < 20000; i += UNDER_SANITIZER ? 7 : 1) {
        graft_alloc_fail_at(i);
        st = load_and_decode(latent, path);
        graft_alloc_fail_at(0);
        failed += st != GRAFT_OK;
    }
    graft_alloc_stats_get(&after);
    CHECK_INT(st, GRAFT_OK);
    CHECK(failed > 20);
    CHECK_INT(after.live_blocks, before.live_blocks);
    printf("     %d allocations failed\n", failed);
    unlink(path);
    graft_latent_release(latent);
}

/* ------------------------------------------------------------------ the demo's */

static double psnr(const graft_image *a, const graft_image *b)
{
    int64_t s[4] = {0}, t[4] = {0};
    const float *x = graft_image_data(a, s), *y = graft_image_data(b, t);
    double sum = 0;
    CHECK(memcmp(s, t, sizeof s) == 0);
    for (int64_t i = 0; i < shape_count(s, 4); i++) {
        double d = (double)x[i] - (double)y[i];
        sum += d * d;
    }
    return -10 * log10(sum / (double)shape_count(s, 4) + 1e-12);
}

/* What one VAE encodes the other decodes: both speak of the same latents. */
static void the_demos_pair(void)
{
    graft_vae *tiny = taesd_load_pair(engine, EMOJI("encoder"), EMOJI("decoder")), *full = NULL;
    graft_model *m = load_model(engine, DEMO);
    graft_image *apple = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_load(engine, DEMO, NULL, &full, &e), &e);
    CHECK_OK(graft_image_load(GRAFT_SOURCE_DIR "/input/apple.png", &apple, NULL, &e), &e);
    if (tiny && full && apple) {
        both by_full = run_both(full, apple, NULL), by_tiny = run_both(tiny, apple, NULL);
        graft_image *decoded = NULL, *encoded = NULL;
        CHECK(graft_vae_is_for(tiny, m));
        CHECK_OK(graft_vae_decode(tiny, by_full.latent, NULL, NULL, &decoded, &e), &e);
        CHECK_OK(graft_vae_decode(full, by_tiny.latent, NULL, NULL, &encoded, &e), &e);
        double a = psnr(decoded, by_full.image), b = psnr(encoded, by_full.image);
        printf("     decoder %.1f dB, encoder %.1f dB beside the VAE's\n", a, b);
        CHECK(a > 20 && b > 20);
        graft_image_release(decoded);
        graft_image_release(encoded);
        both_release(&by_full);
        both_release(&by_tiny);
    }
    graft_image_release(apple);
    graft_vae_release(full);
    graft_vae_release(tiny);
    graft_model_release(m);
}

static void trained_tiles_do_not_show(void)
{
    graft_vae *tiny = taesd_load_pair(engine, EMOJI("encoder"), EMOJI("decoder"));
    const graft_tiling tiling = {256, 64};
    graft_image *in = picture(1, 520, 520);
    if (tiny) {
        both whole = run_both(tiny, in, NULL), b = run_both(tiny, in, &tiling);
        double alike = psnr(whole.image, b.image);
        printf("     tiles of 256: %.1f dB\n", alike);
        CHECK(alike > 35);
        both_release(&whole);
        both_release(&b);
    }
    graft_image_release(in);
    graft_vae_release(tiny);
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return test_end();
    pair = taesd_write("approx-use", "taesd", NULL);
    vae = taesd_load_pair(engine, pair.encoder, pair.decoder);
    if (vae) {
        RUN(strips_are_the_whole);
        RUN(too_little_memory);
        RUN(tiles_do_not_show);
        RUN(batches_and_odd_sizes);
        RUN(around_masks);
        RUN(compiled_ahead);
        RUN(narrow_numbers);
        RUN(reports);
        RUN(saved_and_loaded);
        RUN(saved_for_sd3);
        RUN(memory_may_end_anywhere);
        RUN(the_demos_pair);
        RUN(trained_tiles_do_not_show);
    }
    graft_vae_release(vae);
    taesd_remove(&pair);
    graft_engine_destroy(engine);
    return test_end();
}

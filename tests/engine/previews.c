/* Previews of a sampling run: colours or decoded, how many and how large, and that nothing about
 * them changes the run or ends it. */
#include <math.h>

#include "base/clock.h"
#include "engine/denoise/previews.h"
#include "engine/image/latent.h"
#include "tests/engine/sample.h"
#include "tests/engine/taesd.h"

#define SMALL(name) GRAFT_SOURCE_DIR "/golden/small/" name ".safetensors"

static graft_engine *engine;
static graft_model *model;
static graft_cond *cond;
static graft_vae *vae;

typedef struct watch {
    int asked, shown, width, height, progress, vaes;
    uint8_t last[GRAFT_PREVIEWS_SIDE * GRAFT_PREVIEWS_SIDE * 3];
    graft_vae *give;
    int refuse_from; /* questions that are answered with no, from this one on; 0: none */
    int cancel_in;   /* cancelled once so many were shown; 0: never */
    bool sampling;   /* other phases have progress of their own */
    char log[512];
} watch;

static void on_preview(void *ctx, const uint8_t *rgb, int width, int height)
{
    watch *w = ctx;
    w->shown++;
    w->width = width;
    w->height = height;
    if ((size_t)(width * height * 3) <= sizeof w->last)
        memcpy(w->last, rgb, (size_t)(width * height * 3));
}

static bool on_wanted(void *ctx)
{
    watch *w = ctx;
    w->asked++;
    return !w->refuse_from || w->asked < w->refuse_from;
}

static graft_vae *on_vae(void *ctx, const graft_model *m)
{
    watch *w = ctx;
    CHECK(m != NULL);
    w->vaes++;
    return w->give ? graft_vae_retain(w->give) : NULL;
}

static void on_phase(void *ctx, const char *name)
{
    watch *w = ctx;
    w->sampling = strcmp(name, "sample") == 0;
}

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    watch *w = ctx;
    if (!w->sampling) return;
    CHECK((int)done == w->progress + 1 && total == 6);
    w->progress = (int)done;
}

static void on_line(void *ctx, int32_t level, const char *text)
{
    watch *w = ctx;
    if (level >= GRAFT_LOG_WARN) snprintf(w->log, sizeof w->log, "%s", text);
}

static bool on_cancelled(void *ctx)
{
    const watch *w = ctx;
    return w->cancel_in && w->shown >= w->cancel_in;
}

static graft_task task_of(watch *w)
{
    return (graft_task){.ctx = w,
                        .phase = on_phase,
                        .progress = on_progress,
                        .cancelled = on_cancelled,
                        .preview = on_preview,
                        .preview_wanted = on_wanted,
                        .preview_vae = on_vae,
                        .log = {w, on_line}};
}

/* Six steps of a latent of this size; the result's values (free). */
static float *sample(int64_t h, int64_t w, const graft_task *task, graft_status want)
{
    graft_latent *from = NULL, *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4];
    float *copy = NULL;
    CHECK_OK(graft_latent_empty(4, w * 8, h * 8, 2, &from, &e), &e);
    CHECK_INT(sample_latent(model, cond, from, "euler", 6, task, &out, &e), want);
    if (out) {
        const float *x = graft_latent_data(out, shape);
        size_t n = (size_t)shape_count(shape, 4);
        copy = calloc(n, sizeof *copy);
        memcpy(copy, x, n * sizeof *copy);
    }
    graft_latent_release(out);
    graft_latent_release(from);
    return copy;
}

/* The last one is of the result: its first latent, decoded, as bytes. */
static void is_of_the_result(const watch *seen, const float *result, int64_t h, int64_t w)
{
    graft_latent *l = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4];
    CHECK_OK(graft_latent_from_data(result, (int64_t[]){1, 4, h, w}, &l, &e), &e);
    CHECK_OK(graft_vae_decode(vae, l, NULL, NULL, &image, &e), &e);
    const float *p = graft_image_data(image, shape);
    CHECK(seen->height == shape[1] && seen->width == shape[2]);
    int most = 0;
    for (int64_t i = 0; i < shape[1] * shape[2] * 3; i++) {
        int d = abs((int)seen->last[i] - (int)(p[i] * 255.0f + 0.5f));
        most = d > most ? d : most;
    }
    CHECK(most <= 1);
    graft_image_release(image);
    graft_latent_release(l);
}

static void decoded_or_colours(void)
{
    static watch none, colours, decoded;
    float *plain = sample(6, 5, NULL, GRAFT_OK);
    graft_task t = task_of(&none);
    t.preview = NULL;
    free(sample(6, 5, &t, GRAFT_OK));
    CHECK(!none.shown && !none.asked && !none.vaes);
    t = task_of(&colours);
    float *a = sample(6, 5, &t, GRAFT_OK);
    CHECK(colours.shown == 6 && colours.asked == 6 && colours.vaes == 1);
    CHECK(colours.width == 5 && colours.height == 6 && !colours.log[0]);
    t = task_of(&decoded);
    decoded.give = vae;
    float *b = sample(6, 5, &t, GRAFT_OK);
    CHECK(decoded.shown >= 2 && decoded.shown <= 6 && decoded.vaes == 1 && !decoded.log[0]);
    CHECK_INT(decoded.progress, 6);
    if (plain && a && b) {
        CHECK(memcmp(plain, a, 240 * sizeof *a) == 0 && memcmp(plain, b, 240 * sizeof *b) == 0);
        is_of_the_result(&decoded, b, 6, 5);
    }
    free(plain);
    free(a);
    free(b);
}

static void shown_where_wanted(void)
{
    static watch seen;
    graft_task t = task_of(&seen);
    seen.give = vae;
    seen.refuse_from = 1;
    free(sample(4, 4, &t, GRAFT_OK));
    CHECK(seen.shown == 0 && seen.asked == 6);
    memset(&seen, 0, sizeof seen);
    seen.refuse_from = 2;
    seen.give = vae;
    free(sample(4, 4, &t, GRAFT_OK));
    CHECK_INT(seen.shown, 1);
}

/* What has more than 512 pixels a side is made smaller: each pixel the mean of a square. */
static void large_ones_are_small(void)
{
    static watch seen;
    const int64_t shape[4] = {1, 4, 70, 3};
    graft_task t = task_of(&seen);
    graft_previews p;
    float *x = calloc(4 * 70 * 3, sizeof *x);
    for (int i = 0; i < 4 * 70 * 3; i++) x[i] = fixed_value((uint64_t)i);
    seen.give = vae;
    graft_previews_begin(&p, model, &t, shape);
    CHECK(graft_previews_wanted(&p, false));
    graft_previews_show(&p, x, false);
    CHECK(seen.shown == 1 && seen.width == 12 && seen.height == 280);
    graft_latent *l = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    for (int i = 0; i < 4 * 70 * 3; i++) x[i] /= (float)model->scale_factor;
    CHECK_OK(graft_latent_from_data(x, shape, &l, &e), &e);
    CHECK_OK(graft_vae_decode(vae, l, NULL, NULL, &image, &e), &e);
    const float *q = graft_image_data(image, s);
    int most = 0;
    for (int64_t i = 0; i < 280 * 12 * 3; i++) {
        const float *at = q + (i / 36 * 2 * 24 + i / 3 % 12 * 2) * 3 + i % 3;
        int d = abs((int)seen.last[i] - (int)((at[0] + at[3] + at[72] + at[75]) * 63.75f + 0.5f));
        most = d > most ? d : most;
    }
    CHECK(most <= 1);
    graft_previews_end(&p);
    graft_previews_end(&p); /* once more is fine */
    graft_image_release(image);
    graft_latent_release(l);
    free(x);
}

/* Decoding takes its share of the time; the last one is made whatever it takes. */
static void a_share_of_the_time(void)
{
    static watch seen;
    const int64_t shape[4] = {1, 4, 8, 8};
    graft_task t = task_of(&seen);
    graft_previews p;
    float x[256] = {0};
    seen.give = vae;
    graft_previews_begin(&p, model, &t, shape);
    CHECK(p.vae == vae);
    graft_previews_show(&p, x, false); /* the first also makes it ready */
    CHECK_INT(seen.shown, 1);
    /* The clock is read here a little before and after it is there, or much where other programs
     * have the processor: then once more. */
    double rested = 0;
    for (int i = 0; i < 20 && rested < 0.9 * GRAFT_PREVIEWS_SHARE; i++) {
        double before = graft_clock_now();
        graft_previews_show(&p, x, false);
        double took = graft_clock_now() - before;
        rested = (p.rest_until - before) / took;
        CHECK(rested <= GRAFT_PREVIEWS_SHARE);
    }
    CHECK(rested >= 0.9 * GRAFT_PREVIEWS_SHARE);
    seen.shown = 1;
    p.rest_until = graft_clock_now() + 100;
    CHECK(!graft_previews_wanted(&p, false) && graft_previews_wanted(&p, true));
    graft_previews_show(&p, x, true);
    CHECK_INT(seen.shown, 2);
    p.rest_until = 0;
    CHECK(graft_previews_wanted(&p, false));
    graft_previews_end(&p);
}

/* What is shown of x, of this shape: in colours, and by the decoder, which is given what travels of
 * it (z), in pixels for each place. */
static void shown_of(graft_model *m, graft_vae *own, const int64_t shape[4], const float *x,
                     const float *z, int cells, int pixels)
{
    static watch seen;
    graft_task t = task_of(&seen);
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *l = NULL;
    graft_image *image = NULL;
    graft_previews p;
    const int h = (int)shape[2], w = (int)shape[3];
    int64_t s[4];
    int most = 0;
    memset(&seen, 0, sizeof seen);
    graft_previews_begin(&p, m, &t, shape);
    CHECK(graft_previews_wanted(&p, true));
    graft_previews_show(&p, x, true);
    CHECK(seen.shown == 1 && seen.width == cells * w && seen.height == cells * h);
    uint8_t *colours = malloc((size_t)(cells * cells * h * w * 3));
    graft_preview_draw(&m->preview, x, h, w, colours);
    CHECK(memcmp(colours, seen.last, (size_t)(cells * cells * h * w * 3)) == 0);
    free(colours);
    CHECK(graft_vae_is_for(own, m));
    seen.give = own;
    graft_previews_begin(&p, m, &t, shape);
    graft_previews_show(&p, x, false);
    CHECK(seen.shown == 2 && seen.width == pixels * w && seen.height == pixels * h && !seen.log[0]);
    graft_previews_end(&p);
    CHECK_OK(graft_latent_from_data(z, shape, &l, &e), &e);
    CHECK_OK(graft_vae_decode(own, l, NULL, NULL, &image, &e), &e);
    const float *q = graft_image_data(image, s);
    for (int i = 0; i < pixels * pixels * h * w * 3; i++) {
        int d = abs((int)seen.last[i] - (int)(q[i] * 255.0f + 0.5f));
        most = d > most ? d : most;
    }
    CHECK(most <= 1);
    graft_image_release(image);
    graft_latent_release(l);
    graft_vae_release(own);
    graft_model_release(m);
}

/* Wan 2.1's latents are normalized plane by plane where the network sees them. */
static void normalized_planes(void)
{
    enum { H = 4, W = 6, N = 16 * H * W };
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *own = NULL;
    float x[N], z[N];
    CHECK_OK(graft_vae_load(engine, SMALL("taew"), NULL, &own, &e), &e);
    for (int i = 0; i < N; i++) {
        x[i] = 2 * fixed_value((uint64_t)i);
        z[i] = x[i] * graft_wan_planes.deviation[i / (H * W)] + graft_wan_planes.mean[i / (H * W)];
    }
    shown_of(load_model(engine, SMALL("qwen_image_two")), own, (int64_t[]){1, 16, H, W}, x, z, 1,
             8);
}

/* A place of FLUX.2's is four cells. */
static void places_of_cells(void)
{
    enum { H = 3, W = 2, N = 128 * H * W };
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *own = NULL;
    graft_model *m = load_model(engine, FLUX2);
    float x[N];
    m->arch.latent_channels = 128; /* those of the small one are fewer */
    CHECK_OK(graft_vae_load(engine, TAESD("flux2"), NULL, &own, &e), &e);
    for (int i = 0; i < N; i++) x[i] = 2 * fixed_value((uint64_t)i);
    shown_of(m, own, (int64_t[]){1, 128, H, W}, x, x, 2, 16);
}

/* A decoder that fails: one warning, then colours to the end of the run. */
static void failures_end_nothing(void)
{
    static watch seen;
    graft_task t = task_of(&seen);
    graft_vae *broken = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_compile_options o = {.precision = "f32", .tuning = "off", .max_memory_mb = 1};
    CHECK_OK(graft_vae_compile(vae, &o, NULL, &broken, &e), &e);
    seen.give = broken; /* not in strips, so there is no way to stay below 1 MB */
    float *a = sample(24, 24, &t, GRAFT_OK), *b = sample(24, 24, NULL, GRAFT_OK);
    CHECK(a && b && memcmp(a, b, 2 * 4 * 24 * 24 * sizeof *a) == 0);
    CHECK(seen.shown == 6 && seen.width == 24);
    CHECK(strstr(seen.log, "previews are not decoded: ") && strstr(seen.log, "would do"));
    free(a);
    free(b);
    graft_vae_release(broken);
    memset(&seen, 0, sizeof seen);
    seen.give = vae;
    seen.cancel_in = 1;
    float *c = sample(6, 6, &t, GRAFT_E_CANCEL);
    CHECK(!c && seen.shown == 1 && !seen.log[0]);
}

/* Cancelled while it is decoded: that is the run's to tell. */
static void cancelled_meanwhile(void)
{
    static watch seen = {.shown = 1, .cancel_in = 1};
    const int64_t shape[4] = {1, 4, 8, 8};
    graft_task t = task_of(&seen);
    graft_previews p;
    float x[256] = {0};
    seen.give = vae;
    graft_previews_begin(&p, model, &t, shape);
    graft_previews_show(&p, x, false);
    CHECK(p.vae == vae && seen.shown == 1 && !seen.log[0]);
    graft_previews_end(&p);
}

static void not_within_a_limit(void)
{
    static watch seen;
    const int64_t shape[4] = {1, 4, 8, 8};
    graft_task t = task_of(&seen);
    graft_previews p;
    uint64_t before = engine->max_bytes;
    engine->max_bytes = (uint64_t)1 << 30;
    seen.give = vae;
    graft_previews_begin(&p, model, &t, shape);
    CHECK(!p.vae && p.any && strstr(seen.log, "GRAFT_MEMORY_MB"));
    engine->max_bytes = before;
    graft_previews_end(&p);
}

/* Stable Diffusion 3's latents have no colours: they are decoded, or not shown. */
static void sixteen_channels(void)
{
    enum { H = 4, W = 6, N = 16 * H * W };
    static watch seen;
    const int64_t shape[4] = {1, 16, H, W};
    graft_err e = GRAFT_ERR_INIT;
    graft_model *sd3 = load_model(engine, MMDIT);
    graft_vae *own = NULL;
    graft_task t = task_of(&seen);
    graft_latent *l = NULL;
    graft_image *image = NULL;
    graft_previews p;
    float x[N], z[N];
    int64_t s[4];
    int most = 0;
    CHECK_OK(graft_vae_load(engine, TAESD("sd3"), NULL, &own, &e), &e);
    for (int i = 0; i < N; i++) x[i] = 2 * fixed_value((uint64_t)i);
    graft_previews_begin(&p, sd3, &t, shape); /* nobody has a decoder: colours */
    CHECK(graft_previews_wanted(&p, true));
    graft_previews_show(&p, x, true);
    CHECK(seen.vaes == 1 && seen.shown == 1 && seen.width == W && seen.height == H);
    seen.shown = 0;
    seen.give = own;
    graft_previews_begin(&p, sd3, &t, shape);
    CHECK(graft_previews_wanted(&p, false));
    graft_previews_show(&p, x, false);
    CHECK(seen.shown == 1 && seen.width == 8 * W && seen.height == 8 * H && !seen.log[0]);
    graft_previews_end(&p);
    for (int i = 0; i < N; i++) z[i] = (float)((double)x[i] / TAESD3_SCALE + TAESD3_SHIFT);
    CHECK_OK(graft_latent_from_data(z, shape, &l, &e), &e);
    CHECK_OK(graft_vae_decode(own, l, NULL, NULL, &image, &e), &e);
    const float *q = graft_image_data(image, s);
    for (int64_t i = 0; i < 64 * H * W * 3; i++) {
        int d = abs((int)seen.last[i] - (int)(q[i] * 255.0f + 0.5f));
        most = d > most ? d : most;
    }
    CHECK(most <= 1);
    graft_image_release(image);
    graft_latent_release(l);
    graft_vae_release(own);
    graft_model_release(sd3);
}

/* A decoder that fails: one warning, and colours in the place of what it would show. */
static void sixteen_channels_fail(void)
{
    static watch seen;
    const int64_t shape[4] = {1, 16, 24, 24};
    const graft_compile_options o = {.precision = "f32", .tuning = "off", .max_memory_mb = 1};
    graft_err e = GRAFT_ERR_INIT;
    graft_model *sd3 = load_model(engine, MMDIT);
    graft_vae *own = NULL, *broken = NULL;
    graft_task t = task_of(&seen);
    graft_previews p;
    float *x = calloc(16 * 24 * 24, sizeof *x);
    CHECK_OK(graft_vae_load(engine, TAESD("sd3"), NULL, &own, &e), &e);
    CHECK_OK(graft_vae_compile(own, &o, NULL, &broken, &e), &e);
    seen.give = broken;
    graft_previews_begin(&p, sd3, &t, shape);
    graft_previews_show(&p, x, false);
    CHECK(seen.shown == 1 && seen.width == 24 && strstr(seen.log, "previews are not decoded: "));
    CHECK(!p.vae && graft_previews_wanted(&p, true));
    graft_previews_end(&p);
    free(x);
    graft_vae_release(broken);
    graft_vae_release(own);
    graft_model_release(sd3);
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    engine = make_engine("cpu");
    if (!engine) return test_end();
    taesd_files pair = taesd_write("approx-previews", "taesd", NULL);
    vae = taesd_load_pair(engine, pair.encoder, pair.decoder);
    model = load_model(engine, SD1);
    CHECK_OK(sample_cond(model, &cond, &e), &e);
    if (vae && model && cond) {
        RUN(decoded_or_colours);
        RUN(shown_where_wanted);
        RUN(large_ones_are_small);
        RUN(a_share_of_the_time);
        RUN(failures_end_nothing);
        RUN(cancelled_meanwhile);
        RUN(not_within_a_limit);
        RUN(sixteen_channels);
        RUN(sixteen_channels_fail);
        RUN(normalized_planes);
        RUN(places_of_cells);
    }
    graft_cond_release(cond);
    graft_model_release(model);
    CHECK(!vae || atomic_load(&vae->refs) == 1);
    graft_vae_release(vae);
    taesd_remove(&pair);
    graft_engine_destroy(engine);
    return test_end();
}

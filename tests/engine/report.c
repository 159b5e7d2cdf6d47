/* ModelReport: the text says what happened, the picture is drawn. */
#include "base/alloc.h"
#include "base/file.h"
#include "engine/image/draw.h"
#include "engine/objects/sight.h"
#include "tests/engine/fixture.h"

static graft_engine *engine;

static char *report(const graft_model *m, const graft_vae *v, const graft_clip *c,
                    graft_image **picture)
{
    char *text = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_report(m, v, c, &text, picture, &e), &e);
    return text ? text : graft_strdup("");
}

static bool says(const char *text, const char *part)
{
    if (strstr(text, part)) return true;
    fprintf(stderr, "\"%s\" is not in:\n%s", part, text);
    return false;
}

static void before_anything_ran(void)
{
    graft_image *picture = NULL;
    graft_model *m = load_model(engine, SD1);
    char *text = report(m, NULL, NULL, &picture);
    CHECK(says(text, "unet_sd1.safetensors"));
    CHECK(says(text, "Nothing has run yet"));
    CHECK(says(text, "compiled     0 graphs"));
    CHECK(picture != NULL);
    graft_image_release(picture);
    graft_text_free(text);
    graft_model_release(m);
}

/* What was done to a model stands there. */
static void what_sampling_will_do(void)
{
    graft_model *m = load_model(engine, SD1), *tiled = NULL, *guided = NULL, *all = NULL,
                *many = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_easycache_options easy = {0.2, 0.15, 0.95, true};
    const graft_downscale_options small = {2, 1.5, 0, 0.35, true, "bicubic", "area"};
    const graft_hypertile_options tiles = {256, 2, 1, false}, more = {32, 128, 0, false};
    char *text = report(m, NULL, NULL, NULL);
    CHECK(!strstr(text, "HyperTile") && !strstr(text, "perturbed") && !strstr(text, "EasyCache") &&
          !strstr(text, "Deep Shrink"));
    graft_text_free(text);
    CHECK_OK(graft_model_hypertile(m, &tiles, &tiled, &e), &e);
    CHECK_OK(graft_model_perturbed_attention(tiled, 2.5, &guided, &e), &e);
    CHECK_OK(graft_model_self_attention(guided, -0.5, 2, &many, &e), &e);
    text = report(many, NULL, NULL, NULL);
    CHECK(says(
        text, "guidance     by its own attention, scale -0.5, blurred by 2 cells of the latent\n"));
    graft_text_free(text);
    graft_model_release(many);
    many = NULL;
    CHECK_OK(graft_model_easycache(guided, &easy, &all, &e), &e);
    text = report(all, NULL, NULL, NULL);
    CHECK(
        says(text, "HyperTile    tiles of 256 pixels and more, 2 sizes by turns, levels 0 to 1\n"));
    CHECK(says(text, "guidance     away from perturbed attention, scale 2.5\n"));
    CHECK(says(text, "EasyCache    leaves evaluations out while they are thought to change by less "
                     "than 0.2, from 15 % to 95 % of the schedule\n"));
    graft_text_free(text);
    graft_model_release(all);
    CHECK_OK(graft_model_downscale(guided, &small, &all, &e), &e);
    text = report(all, NULL, NULL, NULL);
    CHECK(says(text, "Deep Shrink  input block 2 by 1.5, from 0 % to 35 % of the schedule\n"));
    CHECK(!strstr(text, "tokens of self-attention"));
    graft_text_free(text);
    CHECK_OK(graft_model_merge_tokens(m, 0.35, &many, &e), &e);
    text = report(many, NULL, NULL, NULL);
    CHECK(says(text, "merged       35 % of the tokens of self-attention, level 0\n"));
    graft_text_free(text);
    graft_model_release(many);
    many = NULL;
    CHECK_OK(graft_model_hypertile(m, &more, &many, &e), &e);
    text = report(many, NULL, NULL, NULL);
    CHECK(says(text, "HyperTile    tiles of 32 pixels and more, 4 sizes by turns, level 0\n"));
    graft_text_free(text);
    graft_model_release(many);
    graft_model_release(all);
    graft_model_release(guided);
    graft_model_release(tiled);
    struct graft_seen seen = {.weight = 0.6, .start = 0.1, .end = 0.9};
    graft_crossings crossings;
    graft_crossings_of(&m->arch.unet, &crossings);
    CHECK_OK(graft_sight_create(&crossings, 8, &seen.sight, &e), &e);
    CHECK_OK(graft_model_with_sight(m, &seen, &all, &e), &e);
    text = report(all, NULL, NULL, NULL);
    CHECK(says(text,
               "pictures     8 tokens beside the prompt, weight 0.6, from 10 % to 90 % of the "
               "schedule\n"));
    graft_text_free(text);
    graft_model_release(all);
    graft_model_release(m);
}

static void after_two_runs(void)
{
    float out[OUT];
    graft_image *picture = NULL;
    graft_model *m = load_model(engine, SD1), *other = load_model(engine, SD2);
    run_model(m, out);
    char *text = report(m, NULL, NULL, NULL);
    CHECK(says(text, "1 run of"));
    CHECK(says(text, "  compiled     1 graph in memory; 1 built"));
    graft_text_free(text);
    run_model(m, out);
    text = report(m, NULL, NULL, &picture);
    CHECK(says(text, "compiled     1 graph\n"));
    CHECK(says(text, "2 runs of"));
    CHECK(says(text, "conv2d"));
    CHECK(says(text, "attention"));
    CHECK(says(text, "unet of (1,4,8,8) (1) (1,77,48)"));
    CHECK(!strstr(text, "LoRA"));
    graft_text_free(text);
    graft_image_release(picture);
    /* Another architecture's report does not count these runs. */
    text = report(other, NULL, NULL, NULL);
    CHECK(says(text, "compiled     0 graphs"));
    CHECK(says(text, "Nothing has run yet"));
    CHECK(says(text, "resident     0.0 kB"));
    graft_text_free(text);
    graft_model_release(m);
    graft_model_release(other);
}

/* A budget is told in the unit of its field, and in that of the other sizes. */
static void limits(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, SD1), *limited = NULL;
    const graft_compile_options o = {.tuning = "off", .max_memory_mb = 100};
    CHECK_OK(graft_model_compile(m, &o, NULL, &limited, &e), &e);
    char *text = report(limited, NULL, NULL, NULL);
    CHECK(says(text, "limit        104.9 MB (max_memory_mb is 100)\n"));
    graft_text_free(text);
    graft_model_release(limited);
    graft_model_release(m);
}

static graft_status run_within(const char *mb, graft_err *e)
{
    graft_binding *b = NULL;
    setenv("GRAFT_MEMORY_MB", mb, 1);
    graft_engine *g = make_engine("cpu");
    graft_model *m = load_model(g, SDXL);
    graft_status st = graft_model_bind(m, 1, 64, 64, TOKENS, NULL, &b, e);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
    unsetenv("GRAFT_MEMORY_MB");
    return st;
}

/* What the message says may be typed back, and nothing smaller. */
static void smallest_that_would_do(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char mb[32];
    CHECK_INT(run_within("1", &e), GRAFT_E_LIMIT);
    const char *at = strstr(e.text, "the smallest GRAFT_MEMORY_MB that would do is ");
    CHECK(at && strstr(e.text, "more than the 1 MiB of GRAFT_MEMORY_MB"));
    long n = at ? strtol(strstr(at, " is ") + 4, NULL, 10) : 0;
    CHECK(n > 1);
    snprintf(mb, sizeof mb, "%ld", n);
    CHECK_OK(run_within(mb, &e), &e);
    snprintf(mb, sizeof mb, "%ld", n - 1);
    CHECK_INT(run_within(mb, &e), GRAFT_E_LIMIT);
}

/* The whole pipeline, where the demo is there; GRAFT_REPORT_PNG names a file to look at. */
static void demo(void)
{
    graft_model *m = NULL;
    graft_vae *v = NULL;
    graft_clip *c = NULL;
    graft_cond *p = NULL;
    graft_latent *empty = NULL, *l = NULL;
    graft_image *i = NULL, *picture = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const char *png = getenv("GRAFT_REPORT_PNG");
    if (!graft_file_exists(DEMO)) {
        printf("skipped: %s is not there\n", DEMO);
        return;
    }
    graft_sample_params s = {.seed = 1,
                             .add_noise = true,
                             .steps = 4,
                             .cfg = 4,
                             .sampler = "euler",
                             .scheduler = "normal",
                             .denoise = 1,
                             .end_at_step = 10000,
                             .force_full_denoise = true};
    CHECK_OK(graft_checkpoint_load(engine, DEMO, NULL, &m, &c, &v, &e), &e);
    CHECK_OK(graft_clip_encode(c, "cat face", NULL, &p, &e), &e);
    CHECK_OK(graft_latent_empty(4, 64, 64, 1, &empty, &e), &e);
    CHECK_OK(graft_sample(m, &s, p, p, empty, NULL, &l, &e), &e);
    CHECK_OK(graft_vae_decode(v, l, NULL, NULL, &i, &e), &e);
    char *text = report(m, v, c, &picture);
    CHECK(says(text, "VAE\n"));
    CHECK(says(text, "Text encoder\n"));
    CHECK(says(text, "4 runs of"));
    if (png) {
        uint8_t *bytes = NULL;
        size_t size = 0;
        CHECK_OK(graft_image_to_png(picture, 0, 6, NULL, &bytes, &size, &e), &e);
        CHECK_OK(graft_file_write(png, bytes, size, &e), &e);
        graft_bytes_free(bytes);
        printf("%s", text);
    }
    graft_text_free(text);
    graft_image_release(i);
    graft_image_release(picture);
    graft_latent_release(l);
    graft_latent_release(empty);
    graft_cond_release(p);
    graft_model_release(m);
    graft_clip_release(c);
    graft_vae_release(v);
}

/* A VAE in strips has one line for all its parts, and the picture is of one of those that ran. */
static void vae_in_strips(void)
{
    const graft_compile_options o = {
        .precision = "f32", .tuning = "off", .max_memory_mb = 20, .tile = true};
    graft_vae *v = NULL, *tight = NULL;
    graft_latent *l = NULL;
    graft_image *i = NULL, *picture = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, SD1);
    CHECK_OK(graft_vae_load(engine, DEMO, NULL, &v, &e), &e);
    CHECK_OK(graft_vae_compile(v, &o, NULL, &tight, &e), &e);
    CHECK_OK(graft_latent_empty(4, 256, 192, 1, &l, &e), &e);
    CHECK_OK(graft_vae_decode(tight, l, NULL, NULL, &i, &e), &e);
    char *text = report(m, tight, NULL, &picture);
    CHECK(says(text, "    in strips, to keep the limit: "));
    CHECK(!strstr(text, "vae_part"));
    graft_text_free(text);
    graft_image_release(picture);
    graft_image_release(i);
    graft_latent_release(l);
    graft_vae_release(tight);
    graft_vae_release(v);
    graft_model_release(m);
}

static void short_of_memory(void)
{
    graft_alloc_stats before, after;
    graft_model *m = load_model(engine, SD1);
    float out[OUT];
    run_model(m, out);
    graft_alloc_stats_get(&before);
    int64_t n = 0;
    for (bool done = false; !done && n < 10000;) {
        char *text = NULL;
        graft_image *picture = NULL;
        graft_err e = GRAFT_ERR_INIT;
        graft_alloc_fail_at(++n);
        graft_status st = graft_model_report(m, NULL, NULL, &text, &picture, &e);
        graft_alloc_fail_at(0);
        done = st == GRAFT_OK;
        if (!done && (st != GRAFT_E_NOMEM || text || picture)) {
            CHECK_INT(st, GRAFT_E_NOMEM);
            break;
        }
        graft_text_free(text);
        graft_image_release(picture);
    }
    CHECK(n > 4 && n < 10000);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ drawing */

static void text_and_boxes(void)
{
    enum { W = 40, H = 12 };
    float rgb[H * W * 3];
    graft_canvas c = {rgb, W, H};
    graft_draw_box(&c, -5, -5, 100, 100, 0xffffff);
    int64_t end = graft_draw_text(&c, 1, 1, 1, 0x000000, "I");
    CHECK_INT(end, 7);
    /* An I has bars above and below and a stem between. */
    static const char *const want[7] = {" ### ", "  #  ", "  #  ", "  #  ",
                                        "  #  ", "  #  ", " ### "};
    for (int y = 0; y < 7; y++)
        for (int x = 0; x < 5; x++)
            CHECK((rgb[((y + 1) * W + x + 1) * 3] == 0.0f) == (want[y][x] == '#'));
    CHECK_INT(graft_draw_text_width(1, "abc"), 17);
    CHECK_INT(graft_draw_text_width(3, "abc"), 51);
    CHECK_INT(graft_draw_text_width(2, ""), 0);
    CHECK_INT(graft_draw_text_width(1, "\xc3\xa4"), 5); /* one character of two bytes */
    /* Every byte, partly outside: nothing may be written past the edge. */
    for (int b = 1; b < 256; b++) {
        char one[2] = {(char)b, 0};
        graft_draw_text(&c, W - 3, H - 4, 2, 0x123456, one);
        graft_draw_text(&c, -3, -4, 2, 0x123456, one);
    }
}

int main(void)
{
    RUN(text_and_boxes);
    engine = make_engine("cpu");
    if (engine) {
        RUN(before_anything_ran);
        RUN(what_sampling_will_do);
        RUN(after_two_runs);
        RUN(limits);
        RUN(smallest_that_would_do);
        RUN(demo);
        RUN(vae_in_strips);
        RUN(short_of_memory);
        graft_engine_destroy(engine);
    }
    return test_end();
}

/* UNets for inpainting: their x is the latent, the mask and the known picture, whatever prompts,
 * areas, batches and ControlNets there are; against runs of the UNet on x put together here. */
#include "engine/image/latent.h"
#include "tests/engine/control.h"
#include "tests/engine/regions.h"

static graft_engine *engine;
static graft_model *plain, *model; /* of the same weights, but for the first convolution */
static graft_cond *positive, *negative;

enum { H = 8, W = 12, L = 4, AREA = H * W, VALUES = L * AREA };

/* The small SD 1.x UNet with five more channels going in. */
static graft_model *widened(float scale)
{
    graft_safetensors *f = open_file(SD1);
    const char *path = temp_path("inpaint");
    write_file(widened_file(copy_file(f, ""), 5, scale), path,
               graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    graft_model *out = load_model(engine, path);
    unlink(path);
    return out;
}

static graft_latent *latent_of(int64_t n, int64_t h, int64_t w, uint64_t seed)
{
    float v[2 * VALUES * 4];
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < n * L * h * w; i++) v[i] = fixed_value(seed + (uint64_t)i);
    CHECK_OK(graft_latent_from_data(v, (int64_t[]){n, L, h, w}, &l, &e), &e);
    return l;
}

/* Both are let go of. */
static graft_latent *with_mask(graft_latent *l, graft_image *mask)
{
    graft_latent *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_set_mask(l, mask, &r, &e), &e);
    graft_latent_release(l);
    graft_image_release(mask);
    return r;
}

static graft_cond *inpainted(const graft_cond *c, const graft_latent *known)
{
    graft_cond *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_inpaint(c, known, &r, &e), &e);
    return r;
}

/* What the UNet says to one row of x: (5 or 4 more channels, H, W) behind the latent. */
static void unet(const graft_model *m, const float *latent, const float *more, const graft_cond *c,
                 int64_t h, int64_t w, float *out)
{
    float x[9 * AREA], scale = 1 / sqrtf(SIGMA * SIGMA + 1);
    graft_sigma_table t;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t n = L * h * w;
    graft_model_sigma_table(m, &t);
    float step = graft_sigma_to_timestep(&t, SIGMA);
    for (int64_t i = 0; i < n; i++) x[i] = latent[i] * scale;
    if (more) memcpy(x + n, more, (size_t)(5 * h * w) * sizeof *x);
    CHECK_OK(graft_model_bind(m, 1, h, w, TOKENS, NULL, &b, &e), &e);
    CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){x, &step, c->entry[0]->data},
                           (void *[]){out}, NULL, NULL, &e),
             &e);
    graft_binding_release(b);
}

/* D by guidance `cfg` of two such runs. */
static void wanted(const float *x, const float *more, const float *more_negative, double cfg,
                   float *out)
{
    float a[VALUES], b[VALUES];
    unet(model, x, more, positive, H, W, a);
    unet(model, x, more_negative, negative, H, W, b);
    for (int i = 0; i < VALUES; i++) {
        double p = x[i] - SIGMA * a[i], n = x[i] - SIGMA * b[i];
        out[i] = (float)(n + cfg * (p - n));
    }
}

static void check_near(const float *a, const float *b, int n)
{
    double most = 0, worst = 0;
    for (int i = 0; i < n; i++) {
        most = fmax(most, fabs(b[i]));
        worst = fmax(worst, isnan(a[i]) ? INFINITY : fabs((double)a[i] - b[i]));
    }
    if (!(worst <= 2e-5 * most)) fprintf(stderr, "%g of %g\n", worst, most);
    CHECK(worst <= 2e-5 * most);
}

/* The mask and the scaled latent of sample p of `known`, which has the run's size. */
static void more_of(const graft_latent *known, int64_t p, float *more)
{
    int64_t s[4], m[4];
    const float *v = graft_latent_data(known, s);
    const float *mask = graft_image_data(graft_latent_mask(known), m);
    for (int64_t i = 0; i < AREA; i++) more[i] = mask[p % m[0] * AREA + i] > 0.5f;
    for (int64_t i = 0; i < VALUES; i++)
        more[AREA + i] = v[p % s[0] * VALUES + i] * (float)model->scale_factor;
}

static void loads_as_what_it_is(void)
{
    CHECK_INT(model->arch.in_channels, 9);
    CHECK_INT(graft_unet_latent_channels(&model->arch.unet), 4);
    CHECK_INT(graft_unet_known_channels(&model->arch.unet), 5);
    CHECK_INT(graft_unet_known_channels(&plain->arch.unet), 0);
    CHECK_INT(graft_unet_family(&model->arch.unet), graft_unet_family(&plain->arch.unet));
}

/* One picture for both prompts, one for each, and none for one of them. */
static void prompts_bring_it(void)
{
    float x[VALUES], got[VALUES], want[VALUES], more[5 * AREA], other[5 * AREA];
    graft_latent *known = with_mask(latent_of(1, H, W, 10), columns(H, W, 3, 7));
    graft_latent *second = with_mask(latent_of(1, H, W, 20), columns(H, W, 0, 2));
    graft_cond *p = inpainted(positive, known), *n = inpainted(negative, known);
    graft_cond *q = inpainted(n, second);
    one_call c = {model, p, n, 4, {1, L, H, W}, NULL, NULL, 0};
    noise_of(&c, x);
    denoise(&c, got);
    more_of(known, 0, more);
    wanted(x, more, more, 4, want);
    check_near(got, want, VALUES);
    c.negative = q; /* the later one counts */
    denoise(&c, got);
    more_of(second, 0, other);
    wanted(x, more, other, 4, want);
    check_near(got, want, VALUES);
    float halves[AREA]; /* which stay */
    for (int i = 0; i < AREA; i++) halves[i] = i % 2 ? 0.5f : 0.51f;
    graft_latent *half = with_mask(latent_of(1, H, W, 20), mask_of(halves, 1, H, W));
    graft_cond *r = inpainted(n, half);
    c.negative = r;
    denoise(&c, got);
    more_of(half, 0, other);
    CHECK(other[0] == 1 && other[1] == 0);
    wanted(x, more, other, 4, want);
    check_near(got, want, VALUES);
    graft_cond_release(r);
    graft_latent_release(half);
    c.negative = negative; /* all to be painted, and grey */
    denoise(&c, got);
    static const float grey[1 + L] = {1, 0.8223f, -0.6876f, 0.6364f, 0.1380f};
    for (int i = 0; i < 5 * AREA; i++) other[i] = grey[i / AREA];
    wanted(x, more, other, 4, want);
    check_near(got, want, VALUES);
    graft_latent *bare = latent_of(1, H, W, 10); /* and where a picture comes without a mask */
    graft_cond *shown = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_picture(negative, bare, &shown, &e), &e);
    c.negative = shown;
    denoise(&c, got);
    check_near(got, want, VALUES);
    graft_latent_release(bare);
    graft_cond *const conds[] = {p, n, q, shown};
    for (int i = 0; i < 4; i++) graft_cond_release(conds[i]);
    graft_latent_release(known);
    graft_latent_release(second);
}

/* Where prompts have none: the mask of what is sampled, and that latent; one step of euler. */
static void the_latent_brings_it(void)
{
    float want[VALUES], more[5 * AREA], x[VALUES], scale = (float)model->scale_factor;
    graft_latent *from = with_mask(latent_of(1, H, W, 30), columns(H, W, 4, 9)), *out = NULL;
    graft_sigmas *sigmas = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(graft_sigmas_from_data((const float[]){SIGMA, 0}, 2, &sigmas, &e), &e);
    const graft_sampling run = {.model = model,
                                .positive = positive,
                                .negative = negative,
                                .cfg = 3,
                                .sampler = "euler",
                                .sigmas = sigmas};
    CHECK_OK(graft_sample_custom(&run, from, NULL, &out, NULL, &e), &e);
    const float *got = graft_latent_data(out, s), *start = graft_latent_data(from, NULL);
    for (int i = 0; i < VALUES; i++) x[i] = start[i] * scale; /* no noise was added */
    more_of(from, 0, more);
    wanted(x, more, more, 3, want);
    for (int i = 0; i < VALUES; i++)
        if (!more[i % AREA]) want[i] = x[i];
    for (int i = 0; i < VALUES; i++) want[i] /= scale;
    check_near(got, want, VALUES);
    graft_latent_release(from);
    graft_latent_release(out);
    graft_sigmas_release(sigmas);
}

/* Two pictures and one or two known ones; one of another size. */
static void batches_and_sizes(void)
{
    float x[2 * VALUES], got[2 * VALUES], want[VALUES], more[5 * AREA];
    graft_err e = GRAFT_ERR_INIT;
    for (int of = 1; of <= 2; of++) {
        graft_latent *known = with_mask(latent_of(of, H, W, 40), columns(H, W, 5, 6));
        graft_cond *p = inpainted(positive, known), *n = inpainted(negative, known);
        one_call c = {model, p, n, 2, {2, L, H, W}, NULL, NULL, 0};
        noise_of(&c, x);
        denoise(&c, got);
        for (int i = 0; i < 2; i++) {
            more_of(known, i, more);
            wanted(x + i * VALUES, more, more, 2, want);
            check_near(got + i * VALUES, want, VALUES);
        }
        graft_cond_release(p);
        graft_cond_release(n);
        graft_latent_release(known);
    }
    graft_latent *large = with_mask(latent_of(1, 2 * H, 2 * W, 50), columns(H, W, 2, 4));
    graft_latent *sized = NULL;
    graft_cond *p = inpainted(positive, large);
    CHECK_OK(graft_latent_upscale_by(large, "bilinear", 0.5, &sized, &e), &e);
    one_call c = {model, p, p, 1, {1, L, H, W}, NULL, NULL, 0};
    noise_of(&c, x);
    denoise(&c, got);
    more_of(sized, 0, more);
    wanted(x, more, more, 1, want);
    check_near(got, want, VALUES);
    graft_cond_release(p);
    graft_latent_release(large);
    graft_latent_release(sized);
}

/* A prompt that sees a part sees that part of the picture. */
static void areas_cut_it(void)
{
    enum { Y = 2, X = 4, SH = 4, SW = 6, PART = SH * SW };
    float x[VALUES], got[VALUES], part[L * PART], more[5 * AREA], cut[5 * PART], out[L * PART];
    graft_latent *known = with_mask(latent_of(1, H, W, 60), columns(H, W, 5, 8));
    graft_cond *small = in_cells(inpainted(positive, known), Y, X, SH, SW, 1);
    one_call c = {model, small, negative, 1, {1, L, H, W}, NULL, NULL, 0};
    noise_of(&c, x);
    denoise(&c, got);
    more_of(known, 0, more);
    part_of(&c, x, Y, X, SH, SW, part);
    const one_call of_more = {.shape = {1, 5, H, W}};
    part_of(&of_more, more, Y, X, SH, SW, cut);
    unet(model, part, cut, positive, SH, SW, out);
    float want[L * PART], have[L * PART];
    for (int i = 0; i < L * PART; i++) want[i] = part[i] - SIGMA * out[i];
    part_of(&c, got, Y, X, SH, SW, have);
    check_near(have, want, L * PART);
    graft_cond_release(small);
    graft_latent_release(known);
}

/* A UNet that ignores it is the plain one; a plain one ignores it. */
static void others_ignore_it(void)
{
    float got[VALUES], want[VALUES];
    graft_model *deaf = widened(0);
    graft_latent *known = with_mask(latent_of(1, H, W, 70), columns(H, W, 5, 8));
    graft_cond *p = inpainted(positive, known);
    one_call c = {plain, positive, negative, 4, {1, L, H, W}, NULL, NULL, 0};
    denoise(&c, want);
    c.positive = p;
    denoise(&c, got);
    CHECK(memcmp(got, want, sizeof got) == 0);
    c.model = deaf;
    denoise(&c, got);
    check_near(got, want, VALUES);
    graft_model_release(deaf);
    graft_cond_release(p);
    graft_latent_release(known);
}

/* A ControlNet of the plain model steers it, and sees the latent alone: it computes what it does
 * beside the plain UNet, so residuals of zero change no bit and others do. */
static void controlnets_go_with_it(void)
{
    float without[VALUES], got[VALUES], strong[VALUES];
    const float grey[3] = {0.2f, 0.5f, 0.9f};
    graft_latent *known = with_mask(latent_of(1, H, W, 80), columns(H, W, 5, 8));
    graft_cond *p = inpainted(positive, known), *n = inpainted(negative, known);
    graft_image *hint = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_from_data(grey, (int64_t[]){1, 1, 1, 3}, false, &hint, &e), &e);
    one_call c = {model, p, n, 4, {1, L, H, W}, NULL, NULL, 0};
    denoise(&c, without);
    for (int k = 0; k < 2; k++) {
        graft_controlnet *net = NULL;
        const char *path = temp_path("control");
        write_file(make_control(plain, k ? 1.0f : 0), path, control_config(plain));
        CHECK_OK(graft_controlnet_load(engine, path, NULL, &net, &e), &e);
        const graft_control_options o = {.net = net, .hint = hint, .strength = 1, .end = 1};
        graft_cond *sp = NULL, *sn = NULL;
        CHECK_OK(graft_cond_control(p, n, &o, &sp, &sn, &e), &e);
        c.positive = sp;
        c.negative = sn;
        denoise(&c, k ? strong : got);
        graft_cond_release(sp);
        graft_cond_release(sn);
        graft_controlnet_release(net);
        unlink(path);
    }
    check_near(got, without, VALUES);
    double most = 0;
    for (int i = 0; i < VALUES; i++) most = fmax(most, fabs((double)strong[i] - without[i]));
    CHECK(most > 1e-3);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_latent_release(known);
    graft_image_release(hint);
}

static graft_status run(const graft_model *m, const graft_task *task, const graft_latent *from,
                        const graft_cond *p, float *out, graft_err *e)
{
    const graft_sample_params params = {.seed = 5,
                                        .add_noise = true,
                                        .steps = 4,
                                        .cfg = 4,
                                        .sampler = "euler",
                                        .scheduler = "normal",
                                        .denoise = 1,
                                        .end_at_step = 10000};
    graft_latent *to = NULL;
    graft_status st = graft_sample(m, &params, p, p, from, task, &to, e);
    if (!st) memcpy(out, graft_latent_data(to, NULL), VALUES * sizeof *out);
    graft_latent_release(to);
    return st;
}

/* Whole runs: compiled ahead nothing is left to compile; DeepCache of interval 1 changes no bit, of
 * another it is finite; memory may end anywhere. */
static void whole_runs(void)
{
    float now[VALUES], cached[VALUES];
    graft_latent *known = with_mask(latent_of(1, H, W, 90), columns(H, W, 5, 8));
    graft_latent *empty = NULL;
    graft_cond *p = inpainted(positive, known);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_empty(4, 8 * W, 8 * H, 1, &empty, &e), &e);
    graft_model *fresh = widened(0.2f), *every = NULL, *third = NULL;
    graft_task ahead = {.compile_only = true};
    CHECK_OK(run(fresh, &ahead, known, p, now, &e), &e);
    graft_compiled_stats before, after;
    graft_compiled_stats_get(engine->compiled, &before);
    CHECK_OK(run(fresh, NULL, known, p, now, &e), &e);
    graft_compiled_stats_get(engine->compiled, &after);
    CHECK_INT(after.built, before.built);
    for (int i = 0; i < VALUES; i++) CHECK(isfinite(now[i]));
    graft_deepcache_options o = {1, 0, 0, 0, 1000, "uniform", 0, false};
    CHECK_OK(graft_model_deepcache(fresh, &o, &every, &e), &e);
    CHECK_OK(run(every, NULL, known, p, cached, &e), &e);
    CHECK(memcmp(now, cached, sizeof now) == 0);
    o.cache_interval = 3;
    CHECK_OK(graft_model_deepcache(fresh, &o, &third, &e), &e);
    CHECK_OK(run(third, NULL, empty, p, cached, &e), &e);
    for (int i = 0; i < VALUES; i++) CHECK(isfinite(cached[i]));
    graft_status st = GRAFT_E_NOMEM;
    for (int n = 1; st != GRAFT_OK && n < 4000; n += n / 8 + 1) {
        graft_alloc_stats a, b;
        graft_alloc_stats_get(&a);
        graft_alloc_fail_at(n);
        st = run(fresh, NULL, known, p, cached, &e);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK || st == GRAFT_E_NOMEM);
        graft_alloc_stats_get(&b);
        if (st) CHECK(b.live_blocks <= a.live_blocks + 64); /* caches may keep what they made */
    }
    CHECK_INT(st, GRAFT_OK);
    graft_model_release(fresh);
    graft_model_release(every);
    graft_model_release(third);
    graft_cond_release(p);
    graft_latent_release(known);
    graft_latent_release(empty);
}

/* The picture, and the picture with grey where the mask is white, cut to whole cells. */
static void pictures_are_encoded(void)
{
    enum { PH = 67, PW = 70, CH = 64, CW = 64, TOP = 1, LEFT = 3 };
    static float rgb[PH * PW * 3], grey[CH * CW * 3], mask[PH * PW];
    graft_vae *vae = NULL;
    graft_image *picture = NULL, *painted = NULL, *where = NULL;
    graft_latent *whole = NULL, *known = NULL, *want[2] = {NULL, NULL};
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < PH * PW * 3; i++) rgb[i] = 0.5f + 0.5f * fixed_value((uint64_t)i);
    for (int i = 0; i < PH * PW; i++) mask[i] = i % PW > 30 && i / PW > 20 ? 0.9f : 0.2f;
    for (int i = 0; i < CH * CW * 3; i++) {
        int y = i / 3 / CW + TOP, x = i / 3 % CW + LEFT;
        grey[i] = mask[y * PW + x] > 0.5f ? 0.5f : rgb[(y * PW + x) * 3 + i % 3];
    }
    CHECK_OK(graft_vae_load(engine, DEMO, NULL, &vae, &e), &e);
    CHECK_OK(graft_image_from_data(rgb, (int64_t[]){1, PH, PW, 3}, false, &picture, &e), &e);
    CHECK_OK(graft_image_from_data(grey, (int64_t[]){1, CH, CW, 3}, false, &painted, &e), &e);
    where = mask_of(mask, 1, PH, PW);
    CHECK_OK(graft_vae_encode_known(vae, picture, where, true, NULL, &whole, &known, &e), &e);
    CHECK_OK(graft_vae_encode(vae, picture, NULL, NULL, &want[0], &e), &e);
    CHECK_OK(graft_vae_encode(vae, painted, NULL, NULL, &want[1], &e), &e);
    size_t bytes = 4 * (CH / 8) * (CW / 8) * sizeof(float);
    CHECK(memcmp(graft_latent_data(whole, NULL), graft_latent_data(want[0], NULL), bytes) == 0);
    CHECK(memcmp(graft_latent_data(known, NULL), graft_latent_data(want[1], NULL), bytes) == 0);
    CHECK(memcmp(graft_latent_data(whole, NULL), graft_latent_data(known, NULL), bytes) != 0);
    int64_t s[4];
    const float *m = graft_image_data(graft_latent_mask(known), s);
    CHECK(s[1] == CH && s[2] == CW && graft_latent_mask(whole) == graft_latent_mask(known));
    CHECK(m[(20 * CW) + 29] == mask[(20 + TOP) * PW + 29 + LEFT]);
    graft_latent_release(whole);
    graft_latent_release(known);
    CHECK_OK(graft_vae_encode_known(vae, picture, where, false, NULL, &whole, &known, &e), &e);
    CHECK(!graft_latent_mask(whole) && graft_latent_mask(known));
    graft_latent_release(whole);
    graft_latent_release(known);
    CHECK_INT(graft_vae_encode_known(vae, picture, picture, true, NULL, &whole, &known, &e),
              GRAFT_E_ARG);
    CHECK(!whole && !known);
    graft_latent_release(want[0]);
    graft_latent_release(want[1]);
    graft_image *const images[] = {picture, painted, where};
    for (int i = 0; i < 3; i++) graft_image_release(images[i]);
    graft_vae_release(vae);
}

static void what_is_wrong_is_refused(void)
{
    float v[8 * AREA] = {0}, got[VALUES];
    graft_latent *bare = latent_of(1, H, W, 1), *eight = NULL, *nine = NULL;
    graft_cond *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_cond_inpaint(positive, bare, &c, &e), GRAFT_E_ARG);
    CHECK_OK(graft_latent_from_data(v, (int64_t[]){1, 8, H, W}, &eight, &e), &e);
    eight = with_mask(eight, columns(H, W, 0, 2));
    c = inpainted(positive, eight);
    CHECK_INT(run(model, NULL, bare, c, got, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "8 latent channels") != NULL);
    /* The latent that is sampled has 4 channels, not 9. */
    float w[9 * AREA];
    for (int i = 0; i < 9 * AREA; i++) w[i] = 1;
    CHECK_OK(graft_latent_from_data(w, (int64_t[]){1, 9, H, W}, &nine, &e), &e);
    CHECK_INT(run(model, NULL, nine, positive, got, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "9 channels, this model takes 4") != NULL);
    graft_cond_release(c);
    graft_latent *const all[] = {bare, eight, nine};
    for (int i = 0; i < 3; i++) graft_latent_release(all[i]);
}

static void every_backend(const char *backend)
{
    engine = make_engine(backend);
    plain = load_model(engine, SD1);
    model = widened(0.2f);
    positive = place_prompt(plain, 1, TOKENS);
    negative = place_prompt(plain, 2, TOKENS);
    RUN(loads_as_what_it_is);
    RUN(prompts_bring_it);
    RUN(the_latent_brings_it);
    RUN(batches_and_sizes);
    RUN(areas_cut_it);
    RUN(others_ignore_it);
    RUN(controlnets_go_with_it);
    RUN(whole_runs);
    RUN(pictures_are_encoded);
    RUN(what_is_wrong_is_refused);
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_model_release(model);
    graft_model_release(plain);
    graft_engine_destroy(engine);
}

int main(void)
{
    graft_alloc_stats stats;
    every_backend("ref");
    every_backend("cpu");
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}

/* T2I-Adapters: where their features are added, to whom and when, and that they go with batches,
 * areas, ControlNets, DeepCache and quantizing. What the features are is for the golden tests. */
#include "engine/denoise/adapters.h"
#include "tests/engine/t2i_adapter.h"

static graft_controlnet *adapter;

static graft_control_options with_adapter(double strength)
{
    graft_control_options o = options(strength);
    o.net = adapter;
    return o;
}

/* ------------------------------------------------------------------ where */

static float *bias_of(made_file *f, const adapter_form *a, const char *layer)
{
    char name[200];
    snprintf(name, sizeof name, "%s%s.bias", a->diffusers ? "adapter." : "", layer);
    return (float *)(uintptr_t)made_find(f, name)->data;
}

/* The features of an adapter without weights, which are sums of biases. */
static void constants_of(made_file *f, const adapter_form *a, float out[4][64])
{
    const float *x = bias_of(f, a, "conv_in");
    int before = a->channels[0];
    for (int k = 0; k < a->n; k++) {
        char name[100], block[64];
        block_called(block, a, k, 0);
        snprintf(name, sizeof name, "body.%d.in_conv", k);
        if (!a->diffusers) snprintf(name, sizeof name, "%s.in_conv", block);
        if (a->channels[k] != before) x = bias_of(f, a, name);
        memcpy(out[k], x, (size_t)a->channels[k] * sizeof *x);
        for (int i = 0; i < a->blocks; i++) {
            block_called(block, a, k, i);
            snprintf(name, sizeof name, "%s.block2", block);
            const float *more = bias_of(f, a, name);
            for (int c = 0; c < a->channels[k]; c++) out[k][c] += more[c];
        }
        before = a->channels[k];
        x = out[k];
    }
}

/* Such features are what the layers' biases could be in the model: the last layers of the blocks
 * behind which the paper, and for XL diffusers, adds them. */
static made_file *with_biases(made_file *m, const adapter_form *a, const char *const *layers,
                              float features[4][64], float strength)
{
    for (int k = 0; k < a->n; k++) {
        char name[200];
        snprintf(name, sizeof name, "model.diffusion_model.%s.bias", layers[k]);
        float *bias = (float *)(uintptr_t)made_find(m, name)->data;
        for (int c = 0; c < a->channels[k]; c++) bias[c] += strength * features[k][c];
    }
    return m;
}

/* m, which is let go, with an adapter of such features, is the model with these biases; so it is
 * with DeepCache, whichever blocks its fast steps have. */
static void constants_are_biases(made_file *m, const char *config, const adapter_form *form,
                                 const char *const *layers)
{
    adapter_form a = *form;
    float features[4][64], want[SMALL], got[SMALL], bare[SMALL];
    a.spread = 0;
    made_file *f = make_adapter(&a);
    constants_of(f, &a, features);
    graft_controlnet *n = load_adapter(f);
    const char *path = temp_path("plain.safetensors");
    write_again(m, path, config);
    graft_model *plainly = load_model(engine, path);
    unlink(path);
    graft_model *biased = load_made_model(with_biases(m, &a, layers, features, 0.7f), config);
    graft_control_options o = options(0.7);
    o.net = n;
    pair p = {prompt(plainly, 1), prompt(plainly, 2)}, q = steer(p, &o);
    for (int cache = 0; cache < 3; cache++) {
        sampling s = usual;
        s.steps = 6;
        graft_model *x = with_deepcache(plainly, cache ? 3 : 1, cache - 2, 0);
        graft_model *y = with_deepcache(biased, cache ? 3 : 1, cache - 2, 0);
        sample(x, p, &s, bare);
        sample(x, q, &s, got);
        sample(y, p, &s, want);
        CHECK(difference(got, bare, SMALL) > 0.01);
        CHECK(difference(got, want, SMALL) < 2e-4);
        graft_model_release(x);
        graft_model_release(y);
    }
    drop(p);
    drop(q);
    graft_controlnet_release(n);
    graft_model_release(plainly);
    graft_model_release(biased);
}

static void places_of_sd1(void)
{
    static const char *const layers[] = {"input_blocks.1.1.proj_out", "input_blocks.3.1.proj_out"};
    graft_safetensors *f = open_file(SD1);
    constants_are_biases(copy_file(f, "model.diffusion_model."), control_config(model), &form_sd1,
                         layers);
    graft_safetensors_close(f);
}

static void places_of_xl(void)
{
    static const char *const layers[] = {"input_blocks.2.0.op", "input_blocks.3.1.proj_out",
                                         "input_blocks.5.1.proj_out",
                                         "middle_block.2.out_layers.3"};
    constants_are_biases(make_xl(), config_xl, &form_xl, layers);
}

/* The real models' places. */
static void places(void)
{
    int32_t place[GRAFT_UNET_PLACES];
    graft_unet_arch sd = {.n_input = 12}, xl = {.n_input = 9};
    for (int i = 1; i < 12; i++) {
        sd.input[i] = (graft_unet_block){.transformer = i < 9 && i % 3 != 0, .down = i % 3 == 0};
        if (i < 9)
            xl.input[i] = (graft_unet_block){.transformer = i > 3 && i != 6, .down = i % 3 == 0};
    }
    CHECK_INT(graft_unet_places(&sd, place), 5);
    CHECK(place[0] == 2 && place[1] == 5 && place[2] == 8 && place[3] == 11 && place[4] == 12);
    CHECK_INT(graft_unet_places(&xl, place), 4);
    CHECK(place[0] == 3 && place[1] == 5 && place[2] == 8 && place[3] == 9);
}

/* ------------------------------------------------------------------ to whom and when */

/* Features count times strength and add up, also those of different ones; without any nothing is
 * different. */
static void chains_add_up(void)
{
    float whole[SMALL], now[SMALL], both[SMALL];
    graft_controlnet *other = made_adapter(&form_light);
    graft_control_options one = with_adapter(1), half = with_adapter(0.5), second = one;
    graft_control_options less = with_adapter(-1);
    second.net = other;
    steer_and_run(&one, whole);
    CHECK(difference(whole, plain, SMALL) > 0.01);
    pair a = steered(&half), b = steer(a, &half);
    run(b, now);
    CHECK(difference(now, whole, SMALL) < 1e-5);
    run(a, now);
    CHECK(difference(now, whole, SMALL) > 1e-3);
    drop(a);
    drop(b);
    a = steered(&one), b = steer(a, &second);
    run(b, both);
    CHECK(difference(both, whole, SMALL) > 1e-3);
    pair c = steer(b, &less), d = steered(&second);
    float alone[SMALL];
    run(c, now);
    run(d, alone);
    CHECK(difference(now, alone, SMALL) < 1e-4);
    drop(a);
    drop(b);
    drop(c);
    drop(d);
    graft_controlnet_release(other);
}

/* ControlNets beside them, on either side of the chain; each is what it is without the other. */
static void beside_controlnets(void)
{
    float now[SMALL], first[SMALL], alone[SMALL];
    graft_control_options a = with_adapter(1), n = options(1), none = options(1);
    none.net = silent;
    pair p = steered(&a), q = steer(p, &n), r = steered(&n), s = steer(r, &a), t = steer(p, &none);
    run(p, alone);
    run(q, first);
    run(s, now);
    CHECK(memcmp(now, first, sizeof now) == 0);
    CHECK(difference(now, with, SMALL) > 1e-3);
    CHECK(difference(now, alone, SMALL) > 1e-3);
    run(t, now);
    CHECK(memcmp(now, alone, sizeof now) == 0);
    graft_control_options off = a;
    off.start = 0.9, off.end = 0.1; /* no step is in it */
    pair u = steer(r, &off);
    run(u, now);
    CHECK(memcmp(now, with, sizeof now) == 0);
    pair all[] = {p, q, r, s, t, u};
    for (int i = 0; i < 6; i++) drop(all[i]);
}

static void ranges(void)
{
    float whole[SMALL], now[SMALL], early[SMALL], late[SMALL];
    graft_control_options o = with_adapter(1), first = o, second = o;
    first.end = 0.5, second.start = 0.5001;
    steer_and_run(&o, whole);
    steer_and_run(&first, early);
    steer_and_run(&second, late);
    CHECK(difference(early, whole, SMALL) > 1e-4 && difference(early, plain, SMALL) > 1e-4);
    CHECK(difference(late, whole, SMALL) > 1e-4 && difference(late, plain, SMALL) > 1e-4);
    pair a = steered(&first), b = steer(a, &second);
    run(b, now);
    CHECK(difference(now, whole, SMALL) < 1e-5);
    drop(a);
    drop(b);
    /* One that ends before another, in either order: both, then that one. */
    graft_control_options half = with_adapter(0.5), always = half;
    half.end = 0.5;
    float other[SMALL];
    a = steered(&half), b = steer(a, &always);
    run(b, now);
    drop(a);
    drop(b);
    a = steered(&always), b = steer(a, &half);
    run(b, other);
    CHECK(difference(now, other, SMALL) < 1e-5);
    CHECK(difference(now, whole, SMALL) > 1e-4);
    drop(a);
    drop(b);
}

static void prompts_apart(void)
{
    float now[SMALL], both[SMALL], one[SMALL];
    graft_control_options o = with_adapter(1);
    pair p = steered(&o), again = steered(&o);
    run(p, both);
    run((pair){p.positive, again.negative}, now);
    CHECK(difference(now, both, SMALL) < 1e-5);
    run((pair){p.positive, negative}, one);
    CHECK(difference(one, both, SMALL) > 1e-4);
    graft_cond *old = NULL;
    graft_err e = GRAFT_ERR_INIT;
    o.everywhere = true;
    CHECK_OK(graft_cond_control(positive, NULL, &o, &old, NULL, &e), &e);
    run((pair){old, negative}, now);
    CHECK(memcmp(now, both, sizeof now) == 0);
    graft_cond_release(old);
    drop(p);
    drop(again);
}

/* ------------------------------------------------------------------ the run */

static void nothing_is_compiled_again(void)
{
    float now[SMALL];
    graft_image *other = control_hint(1, 64, 77);
    graft_control_options o = with_adapter(1);
    steer_and_run(&o, now);
    const uint64_t before = graphs_built(engine);
    for (int i = 1; i < 6; i++) {
        o = with_adapter(0.3 * i);
        o.start = 0.1 * i;
        if (i % 2) o.hint = other;
        steer_and_run(&o, now);
    }
    CHECK_INT(graphs_built(engine), before);
    graft_image_release(other);
}

/* compile_only compiles all that the run then needs: the adapter alone, and on top of another; the
 * UNet with and without, as both end before the run does. */
static void ahead_of_time(void)
{
    graft_task task = {.compile_only = true};
    graft_engine *mine = engine;
    float now[SMALL];
    engine = make_engine("cpu");
    graft_model *m = load_model(engine, SD1);
    graft_controlnet *n = made_adapter(&form_sd1);
    graft_control_options o = options(1);
    o.net = n, o.end = 0.6;
    pair p = steered(&o), q = steer(p, &o);
    sampling s = usual;
    s.task = &task;
    sample(m, q, &s, now);
    const uint64_t before = graphs_built(engine);
    s.task = NULL;
    sample(m, q, &s, now);
    CHECK_INT(before, 4);
    CHECK_INT(graphs_built(engine), before);
    drop(p);
    drop(q);
    graft_controlnet_release(n);
    graft_model_release(m);
    graft_engine_destroy(engine);
    engine = mine;
}

/* Pictures repeat over a batch: the third latent of two pictures has the first one. */
static void batches(void)
{
    static float all[3 * SMALL], first[3 * SMALL], sum[3 * SMALL];
    graft_image *two = control_hint(2, 64, 1);
    graft_control_options o = with_adapter(1), half = with_adapter(0.5);
    sampling s = usual;
    s.batch = 3;
    pair p = steered(&o), q;
    sample(model, p, &s, first); /* everywhere the one picture, which is the first of `two` */
    drop(p);
    o.hint = two;
    p = steered(&o);
    sample(model, p, &s, all);
    CHECK(difference(all, first, SMALL) < 1e-5);
    CHECK(difference(all + SMALL, first + SMALL, SMALL) > 1e-4);
    CHECK(difference(all + 2 * SMALL, first + 2 * SMALL, SMALL) < 1e-5);
    drop(p);
    /* One picture for all, and one for each: where they are the same they are one of strength 1. */
    p = steered(&half);
    half.hint = two;
    q = steer(p, &half);
    sample(model, q, &s, sum);
    CHECK(difference(sum, first, SMALL) < 1e-5);
    CHECK(difference(sum + SMALL, first + SMALL, SMALL) > 1e-4);
    CHECK(difference(sum + 2 * SMALL, first + 2 * SMALL, SMALL) < 1e-5);
    drop(p);
    drop(q);
    graft_image_release(two);
}

/* Colours behind the third are left out, brightness counts for all three; one that sees brightness
 * gets the mean. */
static void colours(void)
{
    adapter_form grey = form_sd1;
    int64_t shape[4];
    float now[SMALL], want[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    static float four[64 * 64 * 4], one[64 * 64];
    const float *v = graft_image_data(hint, shape);
    graft_image *alpha = NULL, *mean = NULL;
    grey.colours = 1;
    graft_controlnet *n = made_adapter(&grey);
    for (size_t i = 0; i < 64 * 64; i++) {
        memcpy(four + 4 * i, v + 3 * i, 3 * sizeof *v);
        four[4 * i + 3] = 0.25f;
        one[i] = (v[3 * i] + v[3 * i + 1] + v[3 * i + 2]) / 3;
    }
    CHECK_OK(graft_image_from_data(four, (int64_t[]){1, 64, 64, 4}, false, &alpha, &e), &e);
    CHECK_OK(graft_image_from_data(one, (int64_t[]){1, 64, 64, 1}, false, &mean, &e), &e);
    graft_control_options o = with_adapter(1);
    steer_and_run(&o, want);
    o.hint = alpha;
    steer_and_run(&o, now);
    CHECK(memcmp(now, want, sizeof now) == 0);
    o.hint = mean;
    steer_and_run(&o, now);
    CHECK(difference(now, want, SMALL) > 1e-4);
    o = options(1), o.net = n;
    steer_and_run(&o, want);
    o.hint = mean;
    steer_and_run(&o, now);
    CHECK(difference(now, want, SMALL) < 1e-5);
    CHECK(difference(now, plain, SMALL) > 1e-3);
    graft_image_release(alpha);
    graft_image_release(mean);
    graft_controlnet_release(n);
}

/* However rarely DeepCache computes everything: what begins is seen, and what ends is over. */
static void deepcache_ranges(void)
{
    float now[SMALL], other[SMALL];
    graft_model *once = with_deepcache(model, 1000, -1, 0);
    graft_control_options early = with_adapter(1), late = early, always = early;
    early.end = 0.4, late.start = 0.6;
    sampling s = usual;
    s.steps = 6;
    pair p = steered(&late), q = steered(&early), r = steered(&always);
    sample(once, (pair){positive, negative}, &s, other);
    sample(once, p, &s, now);
    CHECK(difference(now, other, SMALL) > 1e-4);
    sample(once, r, &s, other);
    sample(once, q, &s, now);
    CHECK(difference(now, other, SMALL) > 1e-4);
    /* With a ControlNet beside it, of which fast steps need residuals. */
    graft_control_options n = options(1);
    graft_model *third = with_deepcache(model, 3, 0, 0);
    pair t = steer(r, &n);
    sample(third, t, &s, now);
    sample(third, r, &s, other);
    CHECK(difference(now, other, SMALL) > 1e-3);
    graft_model_release(third);
    graft_model_release(once);
    pair all[] = {p, q, r, t};
    for (int i = 0; i < 4; i++) drop(all[i]);
}

/* Calibrated on steered prompts; what it gives is steered. */
static void quantized(void)
{
    float want[SMALL], now[SMALL], bare[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_control_options o = with_adapter(1);
    pair p = steered(&o), q = {positive, negative};
    graft_latent *latent = NULL;
    graft_model *m = NULL;
    CHECK_OK(graft_latent_empty(4, 64, 64, 1, &latent, &e), &e);
    const graft_quantize_options quantize = quantizing(p, latent);
    CHECK_OK(graft_model_quantize(model, &quantize, NULL, &m, NULL, &e), &e);
    if (!m) return;
    run(p, want);
    sample(m, p, &usual, now);
    sample(m, q, &usual, bare);
    CHECK(memcmp(now, want, sizeof now) != 0);
    CHECK(difference(now, want, SMALL) < 0.5);
    CHECK(difference(now, bare, SMALL) > 1e-3);
    graft_model_release(m);
    graft_latent_release(latent);
    drop(p);
}

/* ------------------------------------------------------------------ parts of the picture */

typedef struct part_run {
    graft_controlnet *n;
    const graft_model *m;
    graft_image *picture;
    int64_t height, width; /* of the latent */
} part_run;

/* The features of a part, behind each other; returns how many values. */
static size_t features_of(const part_run *r, const graft_box *box, float *out)
{
    static graft_sigma_table table;
    graft_control link = {.net = r->n, .hint = r->picture, .strength = 1, .start = 0, .end = 1};
    const graft_control *chains[2] = {&link, &link};
    const graft_guided_config c = {.model = r->m,
                                   .table = &table,
                                   .positive = positive,
                                   .negative = negative,
                                   .shape = {1, 4, r->height, r->width}};
    const graft_unet_use use = {.adapted = graft_control_features(&link),
                                .pictures = 1,
                                .entries = 1,
                                .height = box->height,
                                .width = box->width};
    graft_adapters *k = NULL;
    const void *in[GRAFT_T2I_FEATURES];
    int32_t place[GRAFT_UNET_PLACES];
    size_t n = 0, count = 0;
    graft_err e = GRAFT_ERR_INIT;
    graft_sigma_table_init(&table, 0.00085, 0.012, false, false);
    CHECK_OK(graft_adapters_create(&c, chains, GRAFT_F32, &k, &e), &e);
    CHECK_OK(graft_adapters_run(k, &link, table.sigma[500], box, &use, 0, &e), &e);
    graft_adapters_append(k, &use, in, &n);
    graft_unet_places(&r->m->arch.unet, place);
    for (size_t i = 0; i < n; i++) {
        const graft_net_shape s = {.batch = 1, .height = box->height, .width = box->width};
        int64_t dim[4];
        graft_unet_residual_shape(&r->m->arch.unet, &s, place[i], dim);
        const size_t values = (size_t)(dim[1] * dim[2] * dim[3]);
        memcpy(out + count, in[i], values * sizeof *out);
        count += values;
    }
    graft_adapters_destroy(k);
    return count;
}

static graft_image *cut(const graft_image *from, int64_t y, int64_t x, int64_t h, int64_t w)
{
    int64_t s[4];
    const float *v = graft_image_data(from, s);
    float *out = calloc((size_t)(h * w * 3), sizeof *out);
    graft_image *to = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < h; i++)
        for (int64_t k = 0; k < w; k++) {
            int64_t row = y + i < s[1] ? y + i : s[1] - 1, column = x + k < s[2] ? x + k : s[2] - 1;
            memcpy(out + (i * w + k) * 3, v + (row * s[2] + column) * 3, 3 * sizeof *out);
        }
    CHECK_OK(graft_image_from_data(out, (int64_t[]){1, h, w, 3}, false, &to, &e), &e);
    free(out);
    return to;
}

/* An area has the features of its part of the picture: what is behind its end where a place of an
 * XL adapter is half of it, and behind the picture's end its last pixels. */
static void parts(void)
{
    static float whole[64 * 1024], part[64 * 1024];
    static const graft_box boxes[] = {{2, 1, 4, 6}, {1, 3, 3, 5}, {5, 5, 3, 3}};
    made_file *f = make_xl();
    graft_model *xl = load_made_model(f, config_xl);
    for (int i = 0; i < 2; i++) {
        part_run r = {made_adapter(i ? &form_xl : &form_sd1), i ? xl : model, hint, 8, 8};
        const graft_box all = {0, 0, 8, 8};
        features_of(&r, &all, whole);
        for (size_t k = 0; k < sizeof boxes / sizeof *boxes; k++) {
            const graft_box *b = &boxes[k], alone = {0, 0, b->height, b->width};
            const int64_t h = i ? (b->height + 1) / 2 * 16 : b->height * 8;
            const int64_t w = i ? (b->width + 1) / 2 * 16 : b->width * 8;
            const size_t n = features_of(&r, b, part);
            part_run apart = r;
            apart.picture = cut(hint, b->y * 8, b->x * 8, h, w);
            apart.height = b->height, apart.width = b->width;
            CHECK_INT(features_of(&apart, &alone, whole), n);
            CHECK(memcmp(whole, part, n * sizeof *part) == 0);
            graft_image_release(apart.picture);
        }
        graft_controlnet_release(r.n);
    }
    graft_model_release(xl);
}

/* A prompt with an area is steered within it. */
static void areas(void)
{
    float now[SMALL], bare[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_control_options o = with_adapter(1);
    const graft_area area = {.y = 16, .x = 8, .height = 32, .width = 40};
    graft_cond *there = NULL, *all = NULL;
    CHECK_OK(graft_cond_area(positive, &area, 1, &there, &e), &e);
    CHECK_OK(graft_cond_combine(there, positive, &all, &e), &e);
    pair p = {all, negative}, q = steer(p, &o);
    run(p, bare);
    run(q, now);
    CHECK(difference(now, bare, SMALL) > 1e-3);
    drop(q);
    graft_cond_release(there);
    graft_cond_release(all);
}

int main(void)
{
    control_begin();
    adapter = made_adapter(&form_sd1);
    RUN(places);
    RUN(places_of_sd1);
    RUN(places_of_xl);
    RUN(chains_add_up);
    RUN(beside_controlnets);
    RUN(ranges);
    RUN(prompts_apart);
    RUN(nothing_is_compiled_again);
    RUN(ahead_of_time);
    RUN(batches);
    RUN(colours);
    RUN(deepcache_ranges);
    RUN(quantized);
    RUN(parts);
    RUN(areas);
    graft_controlnet_release(adapter);
    control_end();
    return test_end();
}

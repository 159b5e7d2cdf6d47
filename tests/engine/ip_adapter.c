/* IP-Adapters at work: whom they show pictures to and when, that pictures, weights and adapters are
 * a run's, and that all of it goes with what else a model can have. What networks compute is held
 * against golden/small/ip_*. */
#include <math.h>

#include "tests/engine/control.h"
#include "tests/engine/ip_adapter.h"
#include "tests/engine/regions.h"
#include "tests/engine/sample.h"

enum { H = 8, W = 12, N = 4 * H * W };

static graft_image *picture(int64_t n, int seed)
{
    const int64_t shape[4] = {n, 15, 18, 3}, count = shape_count(shape, 4);
    float *p = calloc((size_t)count, sizeof *p);
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < count; i++)
        p[i] = 0.5f + 0.5f * fixed_value((uint64_t)(i + 1000 * seed));
    CHECK_OK(graft_image_from_data(p, shape, false, &image, &e), &e);
    free(p);
    return image;
}

/* ------------------------------------------------------------------ a model and its pictures */

static graft_model *model;
static graft_ip_adapter *adapter;
static graft_vision *eyes;
static graft_cond *positive, *negative;
static graft_image *first, *second;
static graft_image *mask; /* of whatever is shown; NULL: none */
static float plain[N];

static graft_model *show_range(const graft_model *m, const graft_image *image,
                               const graft_image *against, double weight, double start, double end)
{
    const graft_show_options o = {eyes, image, against, weight, start, end, mask};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_show(m, adapter, &o, NULL, &out, &e), &e);
    return out;
}

static graft_model *show(const graft_model *m, const graft_image *image, double weight)
{
    return show_range(m, image, NULL, weight, 0, 1);
}

static one_call call_of(const graft_model *m)
{
    return (one_call){m, positive, negative, 4.0, {1, 4, H, W}, NULL, NULL, 0};
}

/* Lets go of m. */
static void run(graft_model *m, float *out)
{
    const one_call c = call_of(m);
    denoise(&c, out);
    graft_model_release(m);
}

static void open_all(const char *from)
{
    model = load_model(engine, from);
    adapter = load(from);
    eyes = load_eyes(from);
    positive = place_prompt(model, 1, TOKENS);
    negative = place_prompt(model, 2, TOKENS);
    first = picture(1, 1);
    second = picture(1, 2);
    run(graft_model_retain(model), plain);
}

static void close_all(void)
{
    graft_image_release(first);
    graft_image_release(second);
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_vision_release(eyes);
    graft_ip_adapter_release(adapter);
    graft_model_release(model);
}

/* Positive prompts see the picture, negative ones what is against it: guidance of a model that
 * shows both is that of one that shows the first, and one that shows the second. */
static void sides(void)
{
    float both_of[N], up[N], down[N], none[N];
    graft_model *m = show_range(model, first, second, 0.8, 0, 1);
    one_call c = call_of(m);
    denoise(&c, both_of);
    graft_model *a = show(model, first, 0.8), *b = show(model, second, 0.8);
    c = call_of(a);
    c.cfg = 1;
    denoise(&c, up);
    c.model = b;
    c.positive = negative;
    denoise(&c, down);
    for (int i = 0; i < N; i++) down[i] += 4 * (up[i] - down[i]);
    CHECK(difference(both_of, down, N) < 1e-5);
    CHECK(difference(both_of, plain, N) > 1e-3);
    run(graft_model_retain(a), none); /* against none */
    CHECK(difference(none, both_of, N) > 1e-4);
    graft_model *const all[] = {m, a, b};
    for (int i = 0; i < 3; i++) graft_model_release(all[i]);
}

static void nothing_is_nothing(void)
{
    static const double ranges[][2] = {{0.9, 1}, {0, 0}, {0.5, 0.2}};
    float now[N];
    run(show(model, first, 0), now);
    CHECK(memcmp(now, plain, sizeof now) == 0);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        run(show_range(model, first, NULL, 1, ranges[i][0], ranges[i][1]), now);
        CHECK(memcmp(now, plain, sizeof now) == 0);
    }
    run(show(model, first, 1), now);
    CHECK(difference(now, plain, N) > 1e-3);
}

static void several_add_up(void)
{
    float whole[N], now[N], halves[N];
    run(show(model, first, 0.7), whole);
    graft_model *m = show(model, first, 0.35);
    run(show(m, first, 0.35), halves);
    CHECK(difference(halves, whole, N) < 1e-5);
    run(show(m, first, -0.35), now);
    CHECK(difference(now, plain, N) < 1e-5);
    run(show(m, second, 0.35), now);
    CHECK(difference(now, whole, N) > 1e-4);
    graft_model_release(m);
    /* Each has its own range. */
    m = show_range(model, first, NULL, 0.7, 0, 1);
    run(show_range(m, second, NULL, 0.7, 0.9, 1), now);
    CHECK(difference(now, whole, N) < 1e-6);
    graft_model_release(m);
}

/* Pictures of a batch are tokens of one list, in any order; each counts. */
static void batches_are_one_list(void)
{
    graft_image *both_of = NULL, *turned = NULL, *same = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float a[N], b[N], one[N], twice[N];
    CHECK_OK(graft_image_batch(first, second, &both_of, &e), &e);
    CHECK_OK(graft_image_batch(second, first, &turned, &e), &e);
    CHECK_OK(graft_image_batch(first, first, &same, &e), &e);
    run(show(model, both_of, 1), a);
    run(show(model, turned, 1), b);
    run(show(model, first, 1), one);
    run(show(model, same, 1), twice);
    CHECK(difference(a, b, N) < 1e-5);
    CHECK(difference(twice, one, N) < 1e-5);
    CHECK(difference(a, one, N) > 1e-4);
    run(show_range(model, both_of, both_of, 1, 0, 1), a);
    run(show_range(model, both_of, turned, 1, 0, 1), b);
    CHECK(difference(a, b, N) < 1e-5);
    graft_image_release(both_of);
    graft_image_release(turned);
    graft_image_release(same);
}

/* The same layout with other numbers. */
static void write_other(const char *from)
{
    made_file *f = part_of_file(from, false);
    for (size_t i = 0; i < f->n; i++) {
        float *v = (float *)(uintptr_t)f->tensor[i].data;
        const int64_t n = shape_count(f->tensor[i].shape, f->tensor[i].rank);
        for (int64_t k = 0; k < n; k++) v[k] = v[n - 1 - k] * 0.7f;
    }
    write_file(f, path, NULL);
}

static void nothing_is_compiled_again(const char *from)
{
    float once[N], now[N], other[N];
    run(show(model, first, 1), once);
    const uint64_t before = graphs_built(engine);
    run(show(model, second, 1), now);
    CHECK(difference(now, once, N) > 1e-4);
    run(show(model, first, 0.3), now);
    CHECK(difference(now, once, N) > 1e-4);
    run(show_range(model, first, second, 1, 0.9, 1), now);
    write_other(from);
    graft_ip_adapter *own = adapter;
    adapter = load(path);
    run(show(model, first, 1), other);
    CHECK(difference(other, once, N) > 1e-4);
    graft_ip_adapter_release(adapter);
    adapter = own;
    run(show(model, first, 1), now);
    CHECK(memcmp(now, once, sizeof now) == 0);
    CHECK_INT(graphs_built(engine), before);
    unlink(path);
}

/* ------------------------------------------------------------------ beside all else */

/* What changes weights may come before or after the pictures, and what they show stays. */
static void loras_and_swaps(void)
{
    static const char layer[] = "middle_block.1.transformer_blocks.0.attn2.to_k";
    float a[N], b[N], shown[N], lora[N];
    char name[300];
    made_file *f = calloc(1, sizeof *f);
    snprintf(name, sizeof name, "diffusion_model.%s", layer);
    add_lora_pair(f, name, model->arch.unet.input[model->arch.unet.n_input - 1].channels,
                  model->arch.context_dim);
    write_file(f, path, NULL);
    graft_model *m = show(model, first, 1), *l = NULL, *both_of = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_lora_apply(model, NULL, path, 8, 0, NULL, &l, NULL, &e), &e);
    CHECK_OK(graft_lora_apply(m, NULL, path, 8, 0, NULL, &both_of, NULL, &e), &e);
    run(graft_model_retain(m), shown);
    const uint64_t before = graphs_built(engine);
    run(graft_model_retain(both_of), a);
    run(show(l, first, 1), b);
    run(graft_model_retain(l), lora);
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK(difference(a, shown, N) > 1e-4 && difference(a, lora, N) > 1e-4);
    unlink(path);
    /* The model's own file with other numbers in one layer. */
    graft_safetensors *own = open_file(graft_safetensors_path(graft_weights_file(model->weights)));
    f = copy_file(own, "model.diffusion_model.");
    graft_st_tensor *t = made_find(f, "model.diffusion_model.out.2.weight");
    for (int64_t i = 0; i < shape_count(t->shape, t->rank); i++)
        ((float *)(uintptr_t)t->data)[i] *= 0.5f;
    write_file(f, path, graft_safetensors_metadata(own, "config"));
    graft_safetensors_close(own);
    graft_model *swapped = swap_weights(m, path, true), *loaded = load_model(engine, path);
    run(swapped, a);
    run(show(loaded, first, 1), b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK(difference(a, shown, N) > 1e-3);
    CHECK_INT(graphs_built(engine), before);
    unlink(path);
    graft_model *const all[] = {m, l, both_of, loaded};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
}

/* A second call at the same place takes stored features, and gives the same. */
static void in_fast_steps(void)
{
    float whole[N], fast[N];
    run(show(model, first, 1), whole);
    for (int level = -1; level < 2; level++) {
        graft_model *d = with_deepcache(model, 3, level, 0), *m = show(d, first, 1);
        one_call c = call_of(m);
        c.calls = 2;
        denoise(&c, fast);
        CHECK(difference(fast, whole, N) < 2e-5);
        graft_model_release(m);
        graft_model_release(d);
    }
}

/* A step in which a picture begins or ends to count is whole, whatever DeepCache and EasyCache
 * would do. */
static void beginnings_are_seen_at_once(void)
{
    const graft_easycache_options lazy = {3, 0, 1, false};
    graft_model *base[2] = {with_deepcache(model, 4, -1, 0), NULL};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_easycache(model, &lazy, &base[1], &e), &e);
    for (int i = 0; i < 2; i++) {
        graft_model *m = show_range(base[i], first, NULL, 1, 0, 0.3);
        graft_model *always = show(model, first, 1);
        graft_sigma_table table;
        graft_guided *g = NULL;
        float x[N], out[N], want[N];
        graft_model_sigma_table(m, &table);
        const graft_guided_config k = {.model = m,
                                       .table = &table,
                                       .positive = positive,
                                       .negative = negative,
                                       .cfg = 4,
                                       .steps = 8,
                                       .shape = {1, 4, H, W}};
        one_call c = call_of(always);
        noise_of(&c, x);
        CHECK_OK(graft_guided_create(&k, &g, &e), &e);
        graft_denoiser d = graft_guided_denoiser(g);
        /* Those before the last are enough for EasyCache to leave evaluations out. */
        const float sigma[4] = {12, 11.5f, 11, SIGMA};
        CHECK(graft_model_sees_at(m, &table, sigma[2]) == 1);
        CHECK(graft_model_sees_at(m, &table, sigma[3]) == 0);
        for (size_t s = 0; s < 4; s++) {
            graft_guided_step(g, s);
            CHECK_OK(d.denoise(d.ctx, x, sigma[s], out, &e), &e);
            c.model = s < 3 ? always : model;
            CHECK_OK(try_denoise_at(&c, x, sigma[s], want, &e), &e);
            const double far = difference(out, want, N);
            if (s == 2) CHECK(far > 1e-5);
            if (s == 0 || s == 3) CHECK(far < 1e-5);
        }
        graft_guided_destroy(g);
        graft_model_release(always);
        graft_model_release(m);
        graft_model_release(base[i]);
    }
}

/* Twice the scale of perturbed attention moves the result twice as far. */
static void with_perturbed_attention(const graft_model *m)
{
    float v[3][N];
    for (int i = 0; i < 3; i++) {
        graft_model *pag = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_model_perturbed_attention(m, i, &pag, &e), &e);
        run(show(pag, first, 1), v[i]);
        graft_model_release(pag);
    }
    CHECK(difference(v[1], v[0], N) > 1e-3);
    for (int i = 0; i < N; i++) v[1][i] = 2 * v[1][i] - v[0][i];
    CHECK(difference(v[2], v[1], N) < 2e-5);
}

static void with_other_options(void)
{
    const graft_hypertile_options tiles = {32, 1, 1, false};
    const graft_freeu_options freeu = {2, 1.3, 1.4, 0.9, 0.2};
    const graft_downscale_options shrink = {.block_number = 1,
                                            .factor = 2,
                                            .start = 0,
                                            .end = 1,
                                            .down_method = "bicubic",
                                            .up_method = "bicubic"};
    graft_model *m = NULL, *two = NULL, *small = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float with[N], without[N];
    CHECK_OK(graft_model_hypertile(model, &tiles, &m, &e), &e);
    CHECK_OK(graft_model_freeu(m, &freeu, &two, &e), &e);
    CHECK_OK(graft_model_downscale(model, &shrink, &small, &e), &e);
    with_perturbed_attention(model);
    with_perturbed_attention(two);
    graft_model *const bases[] = {m, two, small};
    for (int i = 0; i < 3; i++) {
        run(graft_model_retain(bases[i]), without);
        run(show(bases[i], first, 0), with);
        CHECK(memcmp(with, without, sizeof with) == 0);
        run(show(bases[i], first, 1), with);
        CHECK(difference(with, without, N) > 1e-3);
        graft_model_release(bases[i]);
    }
}

static void with_a_controlnet(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *net = made_control(model, 0.5f);
    graft_image *hint = control_hint(1, 8 * H, 5);
    const graft_control_options o = {.net = net, .hint = hint, .strength = 0.8, .end = 1};
    graft_cond *p = NULL, *n = NULL, *own[2] = {positive, negative};
    float both_of[N], alone[N], steered[N], none[N];
    CHECK_OK(graft_cond_control(positive, negative, &o, &p, &n, &e), &e);
    run(show(model, first, 1), alone);
    positive = p, negative = n;
    run(show(model, first, 1), both_of);
    run(show(model, first, 0), none);
    run(graft_model_retain(model), steered);
    positive = own[0], negative = own[1];
    CHECK(difference(both_of, alone, N) > 1e-3 && difference(both_of, steered, N) > 1e-3);
    CHECK(memcmp(none, steered, sizeof none) == 0);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_image_release(hint);
    graft_controlnet_release(net);
}

/* Prompts of several lengths in areas: two batches, of other sizes, with a picture each. */
static void in_areas(void)
{
    graft_cond *own = positive;
    float now[N], all[N], with[N];
    positive = in_cells(graft_cond_retain(own), 0, 0, H, W, 2);
    run(show(model, first, 1), all);
    graft_cond_release(positive);
    positive = own;
    run(show(model, first, 1), with);
    CHECK(difference(all, with, N) < 1e-5);
    positive = both(in_cells(place_prompt(model, 3, TOKENS), 0, 0, 8, 8, 1),
                    in_cells(place_prompt(model, 4, 2 * TOKENS), 0, 4, 8, 8, 0.5));
    run(graft_model_retain(model), all);
    run(show(model, first, 0), now);
    CHECK(memcmp(now, all, sizeof now) == 0);
    run(show(model, first, 1), now);
    CHECK(difference(now, all, N) > 1e-3);
    graft_cond_release(positive);
    positive = own;
}

/* All layers in 8 bits, which moves the result, but not far. */
static void quantized(void)
{
    const graft_quant_limits limits = {{true, true, true}, {1, 1, 1}, 0};
    const graft_net_shape shape = {
        .batch = 2, .height = H, .width = W, .tokens = TOKENS, .act_dtype = GRAFT_F32};
    graft_quant_plan *p = NULL;
    graft_model *q = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float exact[N], rough[N], none[N], want[N];
    CHECK_OK(graft_quant_plan_create(&model->arch, &shape, &p, &e), &e);
    graft_quant_plan_select(p, &limits);
    CHECK_OK(graft_model_with_plan(model, p, &q, &e), &e);
    run(show(model, first, 1), exact);
    run(show(q, first, 1), rough);
    run(show(q, first, 0), none);
    run(graft_model_retain(q), want);
    const double far = difference(rough, exact, N);
    CHECK(far > 1e-5 && far < 0.2);
    CHECK(memcmp(none, want, sizeof none) == 0);
    CHECK(difference(rough, want, N) > 1e-2);
    graft_quant_plan_destroy(p);
    graft_model_release(q);
}

/* ------------------------------------------------------------------ masks */

/* A mask of 3 x 4 places: `left` in its left half, `right` in the other. */
static graft_image *halves(float left, float right)
{
    const int64_t shape[4] = {1, 3, 4, 1};
    float v[12];
    graft_image *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 12; i++) v[i] = i % 4 < 2 ? left : right;
    CHECK_OK(graft_image_from_data(v, shape, false, &m, &e), &e);
    return m;
}

/* Lets go of the mask and of m. */
static void run_masked(graft_model *m, graft_image *with, double weight, float *out)
{
    mask = with;
    run(show(m, first, weight), out);
    mask = NULL;
    graft_image_release(with);
    graft_model_release(m);
}

static void masks(graft_model *m)
{
    float bare[N], all[N], none[N], half[N], other[N], want[N];
    run(graft_model_retain(m), bare);
    run(show(m, first, 1), want);
    run_masked(graft_model_retain(m), halves(1, 1), 1, all);
    const uint64_t before = graphs_built(engine);
    run_masked(graft_model_retain(m), halves(0, 0), 1, none);
    run_masked(graft_model_retain(m), halves(1, 0), 1, half);
    run_masked(graft_model_retain(m), halves(0, 1), 1, other);
    CHECK(difference(all, want, N) < 1e-5);
    CHECK(memcmp(none, bare, sizeof none) == 0);
    CHECK(difference(half, want, N) > 1e-3 && difference(half, bare, N) > 1e-3);
    CHECK(difference(other, half, N) > 1e-3);
    run_masked(graft_model_retain(m), halves(0.5f, 0.5f), 1, half);
    CHECK_INT(graphs_built(engine), before);
    run(show(m, first, 0.5), want);
    CHECK(difference(half, want, N) < 1e-5);
}

static void masks_beside_all_else(void)
{
    const graft_hypertile_options tiles = {32, 1, 1, false};
    const graft_downscale_options shrink = {.block_number = 1,
                                            .factor = 1.7,
                                            .start = 0,
                                            .end = 1,
                                            .down_method = "bicubic",
                                            .up_method = "bicubic"};
    graft_model *tiled = NULL, *small = NULL, *pag = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_hypertile(model, &tiles, &tiled, &e), &e);
    CHECK_OK(graft_model_downscale(model, &shrink, &small, &e), &e);
    CHECK_OK(graft_model_perturbed_attention(tiled, 2, &pag, &e), &e);
    masks(model);
    masks(small);
    masks(pag);
    graft_model_release(tiled);
    graft_model_release(small);
    graft_model_release(pag);
}

/* Tiles turn the order of tokens, and of a mask with them. Where attention of the picture to itself
 * gives nothing, they change nothing. */
static void masks_in_tiles(void)
{
    const graft_hypertile_options tiles = {32, 1, 1, false};
    float want[N], got[N];
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *own = open_file(graft_safetensors_path(graft_weights_file(model->weights)));
    made_file *f = copy_file(own, "model.diffusion_model.");
    for (size_t i = 0; i < f->n; i++) {
        graft_st_tensor *t = &f->tensor[i];
        if (strstr(t->name, ".attn1.to_out."))
            memset((void *)(uintptr_t)t->data, 0,
                   (size_t)shape_count(t->shape, t->rank) * sizeof(float));
    }
    write_file(f, path, graft_safetensors_metadata(own, "config"));
    graft_safetensors_close(own);
    graft_model *m = load_model(engine, path), *tiled = NULL;
    CHECK_OK(graft_model_hypertile(m, &tiles, &tiled, &e), &e);
    CHECK(graft_model_turns(tiled, H, W) >= 1);
    for (int i = 0; i < 2; i++) {
        run_masked(graft_model_retain(m), halves((float)i, (float)!i), 1, want);
        run_masked(graft_model_retain(tiled), halves((float)i, (float)!i), 1, got);
        CHECK(difference(got, want, N) < 1e-5);
    }
    graft_model_release(m);
    graft_model_release(tiled);
    unlink(path);
}

/* A prompt that sees a part of the picture has that part of the mask, and each picture of a batch
 * its own mask, the last one those that have none. */
static void masks_of_parts(void)
{
    graft_cond *own = positive;
    float none[N], all[N], here[N], there[N];
    const int64_t shape[4] = {2, 1, 2, 1};
    const float v[4] = {1, 0, 0, 1};
    graft_image *two = NULL;
    graft_err e = GRAFT_ERR_INIT;
    positive = in_cells(graft_cond_retain(own), 0, 0, H, W / 2, 1);
    one_call c = call_of(model);
    c.cfg = 1;
    denoise(&c, none);
    for (int i = 0; i < 3; i++) {
        mask = halves(i != 1, i != 0);
        graft_model *m = show(model, first, 1);
        c.model = m;
        denoise(&c, i == 0 ? here : i == 1 ? there : all);
        graft_model_release(m);
        graft_image_release(mask);
        mask = NULL;
    }
    CHECK(memcmp(there, none, sizeof none) == 0); /* the white half is not seen */
    CHECK(difference(here, none, N) > 1e-3);
    CHECK(difference(here, all, N) < 1e-6);
    graft_cond_release(positive);
    positive = own;
    CHECK_OK(graft_image_from_data(v, shape, false, &two, &e), &e);
    mask = two;
    graft_model *m = show(model, first, 1);
    float x[3 * N], out[3 * N], one[3 * N];
    one_call batch = {m, positive, negative, 4, {3, 4, H, W}, NULL, NULL, 0};
    noise_of(&batch, x);
    CHECK_OK(try_denoise_at(&batch, x, SIGMA, out, &e), &e);
    for (int i = 0; i < 2; i++) {
        const int64_t small[4] = {1, 1, 2, 1};
        CHECK_OK(graft_image_from_data(v + 2 * i, small, false, &mask, &e), &e);
        graft_model *single = show(model, first, 1);
        batch.model = single;
        CHECK_OK(try_denoise_at(&batch, x, SIGMA, one, &e), &e);
        for (int p = i; p < (i ? 3 : 1); p++) CHECK(difference(out + p * N, one + p * N, N) < 1e-6);
        CHECK(difference(out + !i * N, one + !i * N, N) > 1e-3);
        graft_model_release(single);
        graft_image_release(mask);
    }
    mask = NULL;
    graft_image_release(two);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ ahead of a run */

static void compiled_for_a_run(void)
{
    graft_model *d = with_deepcache(model, 3, 0, 0), *m = show_range(d, first, NULL, 1, 0, 0.5);
    graft_latent *from = NULL, *to = NULL;
    graft_task ahead = {.compile_only = true};
    graft_err e = GRAFT_ERR_INIT;
    const graft_sample_params k = {.seed = 1,
                                   .add_noise = true,
                                   .steps = 4,
                                   .cfg = 4,
                                   .sampler = "euler",
                                   .scheduler = "normal",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    const uint64_t start = graphs_built(engine);
    uint64_t before = start;
    CHECK_OK(graft_latent_empty(4, 96, 128, 1, &from, &e), &e); /* a size that no other test has */
    for (int i = 0; i < 2; i++) {
        CHECK_OK(graft_sample(m, &k, positive, negative, from, i ? NULL : &ahead, &to, &e), &e);
        graft_latent_release(to);
        if (i == 0) before = graphs_built(engine);
    }
    CHECK(before > start);
    CHECK_INT(graphs_built(engine), before);
    /* What CompileModel makes of it serves a run, too. */
    const graft_compile_options o = {.precision = "f32",
                                     .tuning = "off",
                                     .device = "auto",
                                     .width = 64,
                                     .height = 32,
                                     .batch_size = 1};
    graft_model *shown = show(model, first, 1), *made = NULL;
    CHECK_OK(graft_model_compile(shown, &o, NULL, &made, &e), &e);
    before = graphs_built(engine);
    graft_latent_release(from);
    CHECK_OK(graft_latent_empty(4, 64, 32, 1, &from, &e), &e);
    CHECK_OK(graft_sample(made, &k, positive, negative, from, NULL, &to, &e), &e);
    CHECK_INT(graphs_built(engine), before);
    graft_latent_release(to);
    graft_latent_release(from);
    graft_model *const all[] = {d, m, shown, made};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
}

/* Only compiled, a model is shown nothing, and the same graphs serve what it then is shown. */
static void shown_ahead(void)
{
    const graft_show_options o = {eyes, first, NULL, 1, 0, 1, NULL};
    const graft_task ahead = {.compile_only = true};
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_show(model, adapter, &o, &ahead, &m, &e), &e);
    const uint64_t before = graphs_built(engine);
    graft_model_release(m);
    CHECK_OK(graft_model_show(model, adapter, &o, NULL, &m, &e), &e);
    CHECK_INT(graphs_built(engine), before);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ what does not fit */

static void not_shown(const graft_model *m, const graft_show_options *o, graft_status want,
                      const char *text)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_model_show(m, adapter, o, NULL, &out, &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    CHECK(!out);
}

static void what_does_not_fit(void)
{
    static const double bad[] = {-10.5, 11, INFINITY, NAN};
    static const char *const others[] = {SD1, SDXL, GOLDEN("ip_sdxl_plus"), GOLDEN("ip_sd1")};
    const graft_show_options good = {eyes, first, NULL, 1, 0, 1, NULL};
    graft_show_options o = good;
    graft_model *flux = load_model(engine, GOLDEN("flux_dev"));
    graft_vision *siglip = load_eyes(GOLDEN("vision_siglip"));
    graft_vision *other = load_eyes(GOLDEN("vision_clip"));
    graft_image *three = picture(3, 4), *two = picture(2, 5);
    not_shown(flux, &o, GRAFT_E_UNSUPPORTED, "this model is a transformer");
    for (int i = 0; i < 4; i++) {
        graft_model *m = load_model(engine, others[i]);
        if (m->arch.context_dim != model->arch.context_dim ||
            m->arch.unet.input[4].channels != model->arch.unet.input[4].channels)
            not_shown(m, &o, GRAFT_E_ARG, "for a UNet of another kind");
        graft_model_release(m);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o.weight = bad[i];
        not_shown(model, &o, GRAFT_E_ARG, "weight");
        o = good, o.start = i ? bad[i] : -0.1;
        not_shown(model, &o, GRAFT_E_ARG, "between 0 and 1");
        o = good, o.end = i ? bad[i] : 1.1;
        not_shown(model, &o, GRAFT_E_ARG, "between 0 and 1");
        o = good;
    }
    o.vision = siglip;
    not_shown(model, &o, GRAFT_E_ARG, "CLIP vision encoder");
    if (adapter->arch.kind == GRAFT_IP_ADAPTER_RESAMPLER) { /* its tokens are 128 wide */
        o.vision = other;
        not_shown(model, &o, GRAFT_E_ARG, "token has 64 numbers, and this one's has 128");
    }
    o = good, o.image = three, o.negative = two;
    not_shown(model, &o, GRAFT_E_ARG, "2 negative pictures for 3");
    graft_model *m = graft_model_retain(model);
    for (int i = 0; i < GRAFT_ATTENDED; i++) {
        graft_model *more = show(m, first, 0.1);
        graft_model_release(m);
        m = more;
    }
    o = good;
    not_shown(m, &o, GRAFT_E_LIMIT, "at most 4 times");
    run(m, plain);
    run(graft_model_retain(model), plain);
    graft_image_release(three);
    graft_image_release(two);
    graft_vision_release(siglip);
    graft_vision_release(other);
    graft_model_release(flux);
}

/* ------------------------------------------------------------------ faults */

/* All of it, from files to a step of a sampling, on an engine of its own. */
static graft_status all_of_it(const char *from, float *out, graft_err *e)
{
    const graft_engine_config c = {.kernel_dir = GRAFT_LIB_DIR, .backend = "ref", .threads = 1};
    graft_engine *own = NULL;
    graft_vision *v = NULL;
    graft_ip_adapter *a = NULL;
    graft_model *m = NULL, *shown = NULL;
    float x[N];
    graft_status st = graft_engine_create(&c, &own, e);
    if (!st) st = graft_model_load(own, from, NULL, &m, e);
    if (!st) st = graft_vision_load(own, from, NULL, &v, e);
    if (!st) st = graft_ip_adapter_load(own, from, NULL, &a, e);
    const graft_show_options o = {v, first, NULL, 1, 0, 1, mask};
    if (!st) st = graft_model_show(m, a, &o, NULL, &shown, e);
    one_call call = call_of(shown);
    noise_of(&call, x);
    if (!st) st = try_denoise(&call, x, out, e);
    graft_model_release(shown);
    graft_model_release(m);
    graft_vision_release(v);
    graft_ip_adapter_release(a);
    graft_engine_destroy(own);
    return st;
}

static int64_t blocks(bool live)
{
    graft_alloc_stats s;
    graft_alloc_stats_get(&s);
    return live ? s.live_blocks : s.total_blocks;
}

static void every_allocation_may_fail(const char *from)
{
    float want[N], got[N];
    graft_err e = GRAFT_ERR_INIT;
    const int64_t before = blocks(false);
    CHECK_OK(all_of_it(from, want, &e), &e);
    const int64_t all = blocks(false) - before, live = blocks(true);
    int refusals = 0;
    for (int64_t n = 1; n <= all; n += 1 + n % 13 + n / 50) {
        graft_alloc_fail_at(n);
        graft_status st = all_of_it(from, got, &e);
        graft_alloc_fail_at(0);
        refusals += st != GRAFT_OK;
        CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && e.text[0]));
        CHECK(st || memcmp(got, want, sizeof got) == 0);
        CHECK_INT(blocks(true), live);
    }
    CHECK(refusals > 50);
}

static const char *file;
static void no_graphs(void)
{
    nothing_is_compiled_again(file);
}
static void allocations(void)
{
    mask = halves(1, 0.5f);
    every_allocation_may_fail(file);
    graft_image_release(mask);
    mask = NULL;
}

int main(void)
{
    static const char *const files[] = {PLAIN_SD1, PLUS_SD1, PLAIN_XL, PLUS_XL};
    static const char *const backends[] = {"ref", "cpu"};
    snprintf(path, sizeof path, "%s", temp_path("ip.safetensors"));
    for (int b = 0; b < 2; b++) {
        engine = make_engine(backends[b]);
        if (!engine) return test_end();
        for (int i = 0; i < 4; i += b ? 3 : 1) {
            file = files[i];
            printf("backend %s, %s\n", backends[b], strrchr(file, '/') + 1);
            open_all(file);
            RUN(sides);
            RUN(nothing_is_nothing);
            RUN(several_add_up);
            RUN(batches_are_one_list);
            RUN(no_graphs);
            RUN(loras_and_swaps);
            RUN(in_fast_steps);
            RUN(beginnings_are_seen_at_once);
            RUN(with_other_options);
            RUN(with_a_controlnet);
            RUN(in_areas);
            RUN(quantized);
            RUN(masks_beside_all_else);
            RUN(masks_in_tiles);
            RUN(masks_of_parts);
            RUN(compiled_for_a_run);
            RUN(shown_ahead);
            RUN(what_does_not_fit);
            if (b == 0 && i % 3 == 0) RUN(allocations);
            close_all();
        }
        graft_engine_destroy(engine);
    }
    return test_end();
}

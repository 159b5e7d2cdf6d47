/* ControlNets that run within Qwen-Image's network: what they add and when, several at once, beside
 * ControlNets of prompts, that nothing is compiled again, and what is refused. What their values
 * are is for the golden tests. */
#include "engine/objects/control.h"
#include "engine/quant/layers.h"
#include "kernels/quant.h"
#include "tests/engine/control_transformer.h"
#include "tests/engine/regions.h"

#define MODEL GRAFT_SOURCE_DIR "/golden/small/control_blockwise.safetensors"

enum { FOLLOWS, COMPLETES, NETS };

static graft_model *m;
static graft_controlnet *nets[NETS];
static graft_image *mask; /* its lower half is white */
static pair prompts;
static float plain[ONE], steered[NETS][ONE];

static graft_controlnet *load_patch(graft_engine *g, const char *path)
{
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_patch_load(g, path, NULL, &n, &e), &e);
    return n;
}

static graft_model_control_options patch(int net, double strength)
{
    return (graft_model_control_options){.net = nets[net],
                                         .vae = vae,
                                         .hint = hint,
                                         .mask = net == COMPLETES ? mask : NULL,
                                         .strength = strength};
}

static graft_model *put(const graft_model *on, graft_model_control_options o)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_control(on, &o, &out, &e), &e);
    return out;
}

static void put_and_sample(const graft_model *on, graft_model_control_options o, float *out)
{
    graft_model *with = put(on, o);
    sample(with, prompts, out);
    graft_model_release(with);
}

/* With this one behind that one. */
static void sample_two(graft_model_control_options first, graft_model_control_options second,
                       float *out)
{
    graft_model *with = put(m, first);
    put_and_sample(with, second, out);
    graft_model_release(with);
}

/* ------------------------------------------------------------------ what they add */

static void files(void)
{
    for (int i = 0; i < NETS; i++) {
        const graft_control_arch *a = &nets[i]->arch;
        CHECK(a->within && a->kind == GRAFT_NET_QWEN_IMAGE);
        CHECK_INT(a->hint_channels, 16 + i);
        CHECK(a->qwen_image.channels == 16 && a->qwen_image.depth == 3);
        CHECK_INT(a->qwen_image.hidden, 32);
        CHECK_INT(graft_control_sees_mask(a), i == COMPLETES);
    }
}

static void strengths(void)
{
    for (int i = 0; i < NETS; i++) {
        float now[ONE];
        graft_image *another = control_hint(1, 64, 9);
        graft_model_control_options o = patch(i, 1);
        graft_model *none = put(m, patch(i, 0));
        CHECK(none == m);
        graft_model_release(none);
        CHECK(difference(steered[i], plain, ONE) > 0.01);
        put_and_sample(m, o, now);
        CHECK(memcmp(now, steered[i], sizeof now) == 0);
        /* All of a chain see the same tokens. */
        sample_two(patch(i, 0.5), patch(i, 0.5), now);
        CHECK(difference(now, steered[i], ONE) < 1e-4);
        sample_two(patch(i, 0.7), patch(i, -0.7), now);
        CHECK(difference(now, plain, ONE) < 1e-4);
        o.hint = another;
        put_and_sample(m, o, now);
        CHECK(difference(now, steered[i], ONE) > 1e-3);
        graft_image_release(another);
    }
    CHECK(difference(steered[FOLLOWS], steered[COMPLETES], ONE) > 1e-3);
}

/* Of two files, whose tensors have the same names, in either order. */
static void together(void)
{
    float a[ONE], b[ONE];
    sample_two(patch(FOLLOWS, 0.8), patch(COMPLETES, 0.6), a);
    sample_two(patch(COMPLETES, 0.6), patch(FOLLOWS, 0.8), b);
    CHECK(difference(a, b, ONE) < 1e-4);
    for (int i = 0; i < NETS; i++) CHECK(difference(a, steered[i], ONE) > 1e-3);
}

static void masks(void)
{
    float now[ONE], v[64 * 64] = {0};
    graft_err e = GRAFT_ERR_INIT;
    graft_image *black = NULL;
    graft_model_control_options o = patch(COMPLETES, 1);
    CHECK_OK(graft_image_from_data(v, (int64_t[]){1, 64, 64, 1}, true, &black, &e), &e);
    o.mask = black;
    put_and_sample(m, o, now);
    CHECK(difference(now, steered[COMPLETES], ONE) > 1e-4);
    graft_image_release(black);
}

/* All prompts have it: those of one length share a batch, others do not. */
static void all_prompts(void)
{
    float x[ONE], with[ONE], bare[ONE], each[2][ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *on = put(m, patch(FOLLOWS, 1));
    one_call c = {on, prompts.positive, prompts.negative, 3.0, {1, 16, HIGH, WIDE}, NULL, NULL, 0};
    noise_of(&c, x);
    CHECK_OK(try_denoise_at(&c, x, 0.6f, with, &e), &e);
    c.model = m;
    CHECK_OK(try_denoise_at(&c, x, 0.6f, bare, &e), &e);
    c.model = on, c.cfg = 1;
    CHECK_OK(try_denoise_at(&c, x, 0.6f, each[0], &e), &e);
    c.positive = prompts.negative;
    CHECK_OK(try_denoise_at(&c, x, 0.6f, each[1], &e), &e);
    for (int k = 0; k < ONE; k++) each[0][k] = each[1][k] + 3 * (each[0][k] - each[1][k]);
    CHECK(difference(with, each[0], ONE) < 1e-4);
    CHECK(difference(with, bare, ONE) > 1e-3);
    graft_model_release(on);
}

/* ControlNets of prompts go on steering, with what runs within the network and without. */
static void beside_those_of_prompts(void)
{
    float beside[ONE], both[ONE], now[ONE];
    pair p = steer(prompts, options(qwen.net, 1));
    graft_model *one = put(m, patch(FOLLOWS, 0.7)), *none = put(one, patch(FOLLOWS, -0.7));
    sample(m, p, beside);
    CHECK(difference(beside, plain, ONE) > 1e-3);
    sample(one, p, both);
    CHECK(difference(both, beside, ONE) > 1e-3);
    sample(one, prompts, now);
    CHECK(difference(both, now, ONE) > 1e-3);
    sample(none, p, now);
    CHECK(difference(now, beside, ONE) < 1e-4);
    graft_model_release(one);
    graft_model_release(none);
    drop(p);
}

/* ------------------------------------------------------------------ sizes and parts */

/* Pictures repeat over a batch; a latent of odd sides is filled up. */
static void batches_and_sizes(void)
{
    static float all[3 * ONE], first[3 * ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_image *two = control_hint(2, 64, 1);
    for (int i = 0; i < NETS; i++) {
        graft_model_control_options o = patch(i, 1);
        graft_model *on = put(m, o);
        CHECK_OK(try_sizes(on, prompts, 3, HIGH, WIDE, NULL, first, &e), &e);
        graft_model_release(on);
        o.hint = two;
        on = put(m, o);
        CHECK_OK(try_sizes(on, prompts, 3, HIGH, WIDE, NULL, all, &e), &e);
        CHECK(difference(all, first, ONE) < 1e-4);
        CHECK(difference(all + ONE, first + ONE, ONE) > 1e-4);
        CHECK(difference(all + 2 * ONE, first + 2 * ONE, ONE) < 1e-4);
        CHECK_OK(try_sizes(on, prompts, 1, 5, 7, NULL, all, &e), &e);
        CHECK_OK(try_sizes(m, prompts, 1, 5, 7, NULL, first, &e), &e);
        CHECK(difference(all, first, (size_t)16 * 5 * 7) > 1e-3);
        graft_model_release(on);
    }
    graft_image_release(two);
}

enum { ALL = 8, SOME = 4, CELLS = 16 * SOME * SOME };

/* What is made of this part of x where nothing else is there. */
static void part_alone(const graft_vae *local, const one_call *c, const float *x, int64_t top,
                       int64_t left, float want[CELLS])
{
    float in[CELLS];
    graft_err e = GRAFT_ERR_INIT;
    graft_model_control_options o = patch(FOLLOWS, 1);
    graft_image *own = cut(hint, top * PIXELS, left * PIXELS, SOME * PIXELS);
    o.vae = local;
    o.hint = own;
    graft_model *on = put(m, o);
    one_call alone = {on, prompts.positive, prompts.negative, 1.0, {1, 16, SOME, SOME}, NULL, NULL,
                      0};
    part_of(c, x, (int)top, (int)left, SOME, SOME, in);
    CHECK_OK(try_denoise_at(&alone, in, 0.6f, want, &e), &e);
    graft_model_release(on);
    graft_image_release(own);
}

/* In areas it sees its part of the picture, as if that were a picture, also where two of them have
 * one size. */
static void areas(void)
{
    static const int at[2][2] = {{0, 0}, {2, 4}};
    float x[16 * ALL * ALL], whole[16 * ALL * ALL], got[CELLS], want[CELLS];
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *local = local_vae();
    graft_model_control_options o = patch(FOLLOWS, 1);
    o.vae = local;
    graft_model *on = put(m, o);
    graft_cond *part[2];
    for (int i = 0; i < 2; i++)
        part[i] = in_cells(graft_cond_retain(prompts.positive), at[i][0], at[i][1], SOME, SOME, 1);
    graft_cond *placed = both(part[0], part[1]);
    one_call c = {on, placed, prompts.negative, 1.0, {1, 16, ALL, ALL}, NULL, NULL, 0};
    noise_of(&c, x);
    CHECK_OK(try_denoise_at(&c, x, 0.6f, whole, &e), &e);
    for (int i = 0; i < 2; i++) {
        part_of(&c, whole, at[i][0], at[i][1], SOME, SOME, got);
        part_alone(local, &c, x, at[i][0], at[i][1], want);
        CHECK(difference(got, want, CELLS) < 1e-4);
    }
    graft_cond_release(placed);
    graft_model_release(on);
    graft_vae_release(local);
}

/* ------------------------------------------------------------------ the run */

static void nothing_is_compiled_again(void)
{
    float now[ONE];
    graft_image *other = control_hint(1, 48, 77);
    const uint64_t before = graphs_built(engine);
    for (int i = 0; i < NETS; i++)
        for (int k = 1; k < 4; k++) {
            graft_model_control_options o = patch(i, 0.3 * k);
            if (k % 2) o.hint = other;
            put_and_sample(m, o, now);
        }
    CHECK_INT(graphs_built(engine), before);
    graft_image_release(other);
}

/* compile_only compiles all that the run then needs, CompileModel the network as it is steered. */
static void ahead_of_time(void)
{
    float now[ONE];
    char *text = NULL;
    const graft_task task = {.compile_only = true};
    graft_err e = GRAFT_ERR_INIT;
    graft_engine *fresh = make_engine("cpu");
    graft_model *base = load_model(fresh, MODEL), *with, *compiled = NULL;
    graft_controlnet *n = load_patch(fresh, NET("blockwise"));
    graft_vae *v = NULL;
    CHECK_OK(graft_vae_load(fresh, VAE_16, NULL, &v, &e), &e);
    graft_model_control_options o = patch(FOLLOWS, 1);
    o.net = n;
    o.vae = v;
    with = put(base, o);
    CHECK_OK(try_sizes(with, prompts, 1, HIGH, WIDE, &task, now, &e), &e);
    uint64_t before = graphs_built(fresh);
    CHECK_OK(try_sizes(with, prompts, 1, HIGH, WIDE, NULL, now, &e), &e);
    CHECK_INT(graphs_built(fresh), before);
    const graft_compile_options c = {.width = WIDE * PIXELS, .height = HIGH * PIXELS};
    CHECK_OK(graft_model_compile(with, &c, NULL, &compiled, &e), &e);
    before = graphs_built(fresh);
    CHECK_OK(try_sizes(compiled, prompts, 1, HIGH, WIDE, NULL, now, &e), &e);
    CHECK_INT(graphs_built(fresh), before + 1); /* the hint's */
    CHECK_OK(graft_model_report(compiled, NULL, NULL, &text, NULL, &e), &e);
    CHECK(text && strstr(text, "blockwise.safetensors, strength 1\n") != NULL);
    graft_text_free(text);
    graft_model_release(compiled);
    graft_model_release(with);
    graft_model_release(base);
    graft_controlnet_release(n);
    graft_vae_release(v);
    graft_engine_destroy(fresh);
}

/* The model with other weights. */
static const char *another_model(void)
{
    const char *path = temp_path("another.safetensors");
    made_file *f = net_file(MODEL);
    for (size_t i = 0; i < f->n; i++) {
        const graft_st_tensor *t = &f->tensor[i];
        float *v = (float *)(uintptr_t)t->data;
        if (strstr(t->name, "diffusion_model.") && t->rank == 2)
            for (int64_t k = 0; k < shape_count(t->shape, 2); k++) v[k] *= 0.7f;
    }
    write_file(f, path, "{\"rope_dim\": 6}");
    return path;
}

/* Also on a model that is swapped in, merged, or of integers. */
static void other_weights(void)
{
    float now[ONE], want[ONE], bare[ONE];
    graft_err e = GRAFT_ERR_INIT;
    const graft_merge_ratio none = {0, 0, 0};
    const char *path = another_model();
    graft_model *with = put(m, patch(FOLLOWS, 1)), *other = load_model(engine, path), *merged;
    put_and_sample(other, patch(FOLLOWS, 1), want);
    const uint64_t before = graphs_built(engine);
    graft_model *s = swap_weights(with, path, false);
    sample(s, prompts, now);
    CHECK(memcmp(now, want, sizeof now) == 0);
    CHECK(difference(now, steered[FOLLOWS], ONE) > 1e-3);
    CHECK_OK(graft_model_merge(with, other, &none, &merged, &e), &e);
    sample(merged, prompts, now);
    CHECK(difference(now, want, ONE) < 1e-4);
    CHECK_INT(graphs_built(engine), before);
    graft_model *q = half_quantized(m);
    put_and_sample(q, patch(FOLLOWS, 1), now);
    sample(q, prompts, bare);
    CHECK(memcmp(now, steered[FOLLOWS], sizeof now) != 0);
    CHECK(difference(now, steered[FOLLOWS], ONE) < 0.5 && difference(now, bare, ONE) > 1e-3);
    graft_model_release(q);
    graft_model_release(s);
    graft_model_release(merged);
    graft_model_release(with);
    graft_model_release(other);
    unlink(path);
}

/* Behind it QuantizeModel measures the network, and leaves what runs within it as it is. */
static void calibrated(void)
{
    float now[ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *with = put(m, patch(FOLLOWS, 1)), *q = NULL;
    graft_latent *from = NULL;
    CHECK_OK(graft_latent_empty(16, WIDE * PIXELS, HIGH * PIXELS, 1, &from, &e), &e);
    const graft_quantize_options o = {.bits = 8,
                                      .conv = true,
                                      .linear = true,
                                      .conv_mse_threshold = 1,
                                      .linear_mse_threshold = 1,
                                      .positive = prompts.positive,
                                      .negative = prompts.negative,
                                      .latent = from,
                                      .steps = 2,
                                      .cfg = 3,
                                      .seed = 5};
    CHECK_OK(graft_model_quantize(with, &o, NULL, &q, NULL, &e), &e);
    sample(q, prompts, now);
    CHECK(memcmp(now, steered[FOLLOWS], sizeof now) != 0);
    CHECK(difference(now, steered[FOLLOWS], ONE) < 0.5);
    CHECK(difference(now, plain, ONE) > 1e-3);
    graft_latent_release(from);
    graft_model_release(q);
    graft_model_release(with);
}

/* ------------------------------------------------------------------ packed files */

/* The ControlNet's file with matrices of FP8, or of the same values as floats. */
static graft_controlnet *in_eight_bits(bool packed)
{
    const char *path = temp_path("eight.safetensors");
    made_file *f = net_file(NET("blockwise"));
    for (size_t i = 0; i < f->n; i++) {
        graft_st_tensor *t = &f->tensor[i];
        const int64_t n = shape_count(t->shape, t->rank);
        float *v = (float *)(uintptr_t)t->data;
        uint8_t *level = malloc((size_t)n);
        if (t->rank != 2 || !level) {
            free(level);
            continue;
        }
        for (int64_t k = 0; k < n; k++) level[k] = (uint8_t)(v[k] < 0 ? 0x80 : 0) + (k * 7) % 0x28;
        graft_to_f32(GRAFT_F8_E4M3, level, v, (size_t)n);
        if (!packed) {
            free(level);
            continue;
        }
        free(v);
        t->data = level;
        t->dtype = GRAFT_F8_E4M3;
        t->bytes = (uint64_t)n;
    }
    write_file(f, path, NULL);
    graft_controlnet *n = load_patch(engine, path);
    unlink(path);
    return n;
}

static size_t kept_within(const graft_model *with)
{
    const graft_unet_use use = {.pictures = 1,
                                .entries = 2,
                                .height = HIGH,
                                .width = WIDE,
                                .tokens = graft_net_tokens(&with->arch, 5),
                                .within = true};
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0;
    CHECK_OK(graft_model_bind_guided(with, &use, NULL, &b, &e), &e);
    for (size_t i = 0; b && i < b->exe->graph->n_nodes; i++)
        n += graft_quant_blocks(b->exe->graph->node[i].attrs.quant) != 0;
    graft_binding_release(b);
    return n;
}

/* Linear layers of FP8 stay so, each file its own way. */
static void packed(void)
{
    float now[ONE], want[ONE], each[2][ONE];
    graft_controlnet *const own[2] = {nets[FOLLOWS], in_eight_bits(true)},
                            *floats = in_eight_bits(false);
    graft_model_control_options o = patch(FOLLOWS, 1);
    const uint64_t most = engine->floats_most;
    engine->floats_most = 0; /* as if all of it were too much in floats */
    for (int i = 0; i < 2; i++) {
        o.net = own[i];
        graft_model *with = put(m, o);
        CHECK_INT(kept_within(with), i ? 2 * 3 : 0);
        sample(with, prompts, i ? now : want);
        if (!i) CHECK(memcmp(want, steered[FOLLOWS], sizeof want) == 0);
        graft_model_release(with);
    }
    /* Which of two is packed is part of what is compiled. */
    for (int i = 0; i < 2; i++) {
        graft_model_control_options second = o;
        o.net = own[i];
        second.net = own[1 - i];
        graft_model *one = put(m, o), *two = put(one, second);
        CHECK_INT(kept_within(two), 2 * 3);
        graft_model_release(one);
        graft_model_release(two);
        sample_two(o, second, each[i]);
    }
    CHECK(difference(each[0], each[1], ONE) < 1e-4);
    engine->floats_most = most;
    o.net = floats;
    put_and_sample(m, o, want);
    CHECK(difference(now, want, ONE) < 1e-4);
    CHECK(difference(now, steered[FOLLOWS], ONE) > 1e-3);
    graft_controlnet_release(own[1]);
    graft_controlnet_release(floats);
}

/* ------------------------------------------------------------------ what is refused */

static void refused(const graft_model *on, graft_model_control_options o, graft_status want,
                    const char *text)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_model_control(on, &o, &out, &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    CHECK(!out);
}

static void other_models(void)
{
    graft_model_control_options o = patch(FOLLOWS, 1);
    graft_model *wide =
        load_model(engine, GRAFT_SOURCE_DIR "/golden/small/qwen_image_two.safetensors");
    graft_controlnet *zimage = load_patch(engine, NET("zimage_three"));
    refused(flux.m, o, GRAFT_E_ARG, "it is for Qwen-Image, the model is FLUX.1");
    refused(qwen.m, o, GRAFT_E_ARG, "it has layers for 3 blocks, the model has 5");
    refused(wide, o, GRAFT_E_ARG, "its blocks are 32 wide, the model's 48");
    o.net = zimage;
    refused(m, o, GRAFT_E_ARG, "it is for Z-Image, the model is Qwen-Image");
    graft_controlnet_release(zimage);
    graft_model_release(wide);
}

static void what_is_missing(void)
{
    graft_model_control_options o = patch(FOLLOWS, 1);
    o.mask = mask;
    refused(m, o, GRAFT_E_ARG, "a picture to follow and no mask");
    o.mask = NULL, o.vae = NULL;
    refused(m, o, GRAFT_E_ARG, "no VAE is given");
    o = patch(FOLLOWS, 1);
    o.hint = NULL;
    refused(m, o, GRAFT_E_ARG, "no picture is given");
    o = patch(COMPLETES, 1);
    o.mask = NULL;
    refused(m, o, GRAFT_E_ARG, "no mask of what is to be drawn anew is given");
    o = patch(COMPLETES, 1);
    o.inpaint = hint;
    refused(m, o, GRAFT_E_ARG, "no inpaint_image");
    refused(m, patch(FOLLOWS, NAN), GRAFT_E_ARG, "strength");
    graft_model *all = put(m, patch(FOLLOWS, 1));
    for (int i = 1; i < GRAFT_WITHIN_MOST; i++) {
        graft_model *more = put(all, patch(FOLLOWS, 1));
        graft_model_release(all);
        all = more;
    }
    refused(all, patch(FOLLOWS, 1), GRAFT_E_LIMIT, "at most 8");
    graft_model_release(all);
}

static void other_files(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *n = NULL;
    CHECK_INT(graft_controlnet_load(engine, NET("blockwise"), NULL, &n, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "of DiffSynth's for Qwen-Image, which ModelPatchLoader opens") != NULL);
    CHECK_INT(graft_model_patch_load(engine, NET("qwen_image"), NULL, &n, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "a ControlNet, which ControlNetLoader opens") != NULL);
    CHECK(!n);
}

static void broken(const char *name)
{
    const char *path = temp_path("broken.safetensors");
    made_file *f = net_file(NET("blockwise"));
    graft_st_tensor *t = made_find(f, name), gone = *t;
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    *t = f->tensor[--f->n];
    free((char *)(uintptr_t)gone.name);
    free((void *)(uintptr_t)gone.data);
    write_file(f, path, NULL);
    CHECK_INT(graft_model_patch_load(engine, path, NULL, &n, &e), GRAFT_E_FORMAT);
    if (!strstr(e.text, name)) CHECK_STR(e.text, name);
    unlink(path);
}

static void broken_files(void)
{
    broken("img_in.weight");
    broken("img_in.bias");
    broken("controlnet_blocks.0.x_rms.weight");
    broken("controlnet_blocks.1.y_rms.weight");
    broken("controlnet_blocks.1.input_proj.bias");
    broken("controlnet_blocks.2.output_proj.weight");
}

/* ------------------------------------------------------------------ without memory */

static graft_status load_and_sample_two(float *out, graft_err *e)
{
    graft_controlnet *n = NULL;
    graft_model *one = NULL, *two = NULL;
    graft_status st = graft_model_patch_load(engine, NET("blockwise"), NULL, &n, e);
    graft_model_control_options first = patch(FOLLOWS, 0.5), second = patch(COMPLETES, 0.5);
    first.net = n;
    if (!st) st = graft_model_control(m, &first, &one, e);
    if (!st) st = graft_model_control(one, &second, &two, e);
    if (!st) st = try_sizes(two, prompts, 1, HIGH - 1, WIDE, NULL, out, e);
    graft_model_release(two);
    graft_model_release(one);
    graft_controlnet_release(n);
    return st;
}

/* Memory ends anywhere: an error, and nothing is lost. */
static void short_of_memory(void)
{
    float want[ONE], now[ONE];
    int64_t n = 0, failed = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(load_and_sample_two(want, &e), &e);
    CHECK_OK(load_and_sample_two(want, &e), &e);
    const int64_t live = live_blocks();
    for (bool done = false; !done && n < 1000000; n += n / 30) {
        graft_alloc_fail_at(++n);
        const graft_status st = load_and_sample_two(now, &e);
        done = graft_alloc_fail_at(0) > 0;
        CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !done));
        CHECK(st || memcmp(now, want, (HIGH - 1) * WIDE * 16 * sizeof *now) == 0);
        CHECK(live_blocks() <= live);
        failed += st != GRAFT_OK;
    }
    CHECK(n < 1000000 && failed > 20);
}

static graft_image *lower_half(void)
{
    float v[64 * 64];
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 64 * 64; i++) v[i] = i >= 32 * 64;
    CHECK_OK(graft_image_from_data(v, (int64_t[]){1, 64, 64, 1}, true, &out, &e), &e);
    return out;
}

int main(void)
{
    begin_all();
    m = load_model(engine, MODEL);
    nets[FOLLOWS] = load_patch(engine, NET("blockwise"));
    nets[COMPLETES] = load_patch(engine, NET("blockwise_inpaint"));
    mask = lower_half();
    prompts = (pair){words(m, 1), words(m, 2)};
    sample(m, prompts, plain);
    for (int i = 0; i < NETS; i++) put_and_sample(m, patch(i, 1), steered[i]);
    RUN(files);
    RUN(strengths);
    RUN(together);
    RUN(masks);
    RUN(all_prompts);
    RUN(beside_those_of_prompts);
    RUN(batches_and_sizes);
    RUN(areas);
    RUN(nothing_is_compiled_again);
    RUN(ahead_of_time);
    RUN(other_weights);
    RUN(calibrated);
    RUN(packed);
    RUN(other_models);
    RUN(what_is_missing);
    RUN(other_files);
    RUN(broken_files);
    RUN(short_of_memory);
    drop(prompts);
    for (int i = 0; i < NETS; i++) graft_controlnet_release(nets[i]);
    graft_image_release(mask);
    graft_model_release(m);
    end_all();
    return test_end();
}

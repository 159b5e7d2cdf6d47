/* ControlNets that run within Qwen-Image's network: what they add and when, several at once, beside
 * ControlNets of prompts, that nothing is compiled again, and what is refused. What their values
 * are is for the golden tests. */
#include "engine/quant/layers.h"
#include "kernels/quant.h"
#include "tests/engine/model_patch.h"

#define MODEL GRAFT_SOURCE_DIR "/golden/small/control_blockwise.safetensors"

enum { FOLLOWS, COMPLETES, NETS };

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

static void masks(void)
{
    float now[ONE];
    graft_image *black = half_mask(64);
    graft_model_control_options o = patch(nets[COMPLETES], 1);
    o.mask = black;
    put_and_sample(base, o, now);
    CHECK(difference(now, steered[COMPLETES], ONE) > 1e-4);
    graft_image_release(black);
}

/* All prompts have it: those of one length share a batch, others do not. */
static void all_prompts(void)
{
    steers_both(prompts.positive, prompts.negative, FOLLOWS);
}

/* ControlNets of prompts go on steering, with what runs within the network and without. */
static void beside_those_of_prompts(void)
{
    float beside[ONE], both[ONE], now[ONE];
    pair p = steer(prompts, options(qwen.net, 1));
    graft_model *one = put(base, patch(nets[FOLLOWS], 0.7)),
                *none = put(one, patch(nets[FOLLOWS], -0.7));
    sample(base, p, beside);
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

enum { ALL = 8, SOME = 4, CELLS = 16 * SOME * SOME };

/* What is made of this part of x where nothing else is there. */
static void part_alone(const graft_vae *local, const one_call *c, const float *x, int64_t top,
                       int64_t left, float want[CELLS])
{
    float in[CELLS];
    graft_err e = GRAFT_ERR_INIT;
    graft_model_control_options o = patch(nets[FOLLOWS], 1);
    graft_image *own = cut(hint, top * PIXELS, left * PIXELS, SOME * PIXELS);
    o.vae = local;
    o.hint = own;
    graft_model *on = put(base, o);
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
    graft_model_control_options o = patch(nets[FOLLOWS], 1);
    o.vae = local;
    graft_model *on = put(base, o);
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

/* compile_only compiles all that the run then needs, CompileModel the network as it is steered. */
static void ahead_of_time(void)
{
    float now[ONE];
    char *text = NULL;
    const graft_task task = {.compile_only = true};
    graft_err e = GRAFT_ERR_INIT;
    graft_engine *fresh = make_engine("cpu");
    graft_model *own = load_model(fresh, MODEL), *with, *compiled = NULL;
    graft_controlnet *n = load_patch(fresh, NET("blockwise"));
    graft_vae *v = NULL;
    CHECK_OK(graft_vae_load(fresh, VAE_16, NULL, &v, &e), &e);
    graft_model_control_options o = patch(nets[FOLLOWS], 1);
    o.net = n;
    o.vae = v;
    with = put(own, o);
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
    graft_model_release(own);
    graft_controlnet_release(n);
    graft_vae_release(v);
    graft_engine_destroy(fresh);
}

static void other_weights(void)
{
    steers_other_weights(MODEL, FOLLOWS);
}

/* A LoRA of the model, put on before or behind, changes what they see, and compiles nothing. */
static void with_a_lora(void)
{
    float alone[ONE], before[ONE], behind[ONE];
    const char *path = temp_path("lora.safetensors");
    made_file *f = calloc(1, sizeof *f);
    if (!f) abort();
    add_lora_pair(f, "transformer.transformer_blocks.1.attn.to_q", 32, 32);
    add_lora_pair(f, "transformer.transformer_blocks.0.attn.to_out.0", 32, 32);
    write_file(f, path, NULL);
    graft_model *with = put(base, patch(nets[FOLLOWS], 1)), *lora = with_lora(base, path, 20),
                *both = with_lora(with, path, 20);
    const uint64_t built = graphs_built(engine);
    sample(lora, prompts, alone);
    put_and_sample(lora, patch(nets[FOLLOWS], 1), before);
    sample(both, prompts, behind);
    CHECK(memcmp(before, behind, sizeof before) == 0);
    CHECK(difference(before, alone, ONE) > 1e-3);
    CHECK(difference(before, steered[FOLLOWS], ONE) > 1e-3);
    CHECK_INT(graphs_built(engine), built);
    graft_model_release(both);
    graft_model_release(lora);
    graft_model_release(with);
    unlink(path);
}

static void in_a_merge(void)
{
    float now[ONE], want[ONE];
    graft_err e = GRAFT_ERR_INIT;
    const graft_merge_ratio none = {0, 0, 0};
    const char *path = another_model(MODEL);
    graft_model *with = put(base, patch(nets[FOLLOWS], 1)), *other = load_model(engine, path), *sum;
    put_and_sample(other, patch(nets[FOLLOWS], 1), want);
    const uint64_t before = graphs_built(engine);
    CHECK_OK(graft_model_merge(with, other, &none, &sum, &e), &e);
    sample(sum, prompts, now);
    CHECK(difference(now, want, ONE) < 1e-4);
    CHECK_INT(graphs_built(engine), before);
    graft_model_release(sum);
    graft_model_release(with);
    graft_model_release(other);
    unlink(path);
}

/* What runs within the network is left as it is. */
static void calibrated(void)
{
    graft_model_release(measured_with(FOLLOWS));
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
    graft_model_control_options o = patch(nets[FOLLOWS], 1);
    const uint64_t most = engine->floats_most;
    engine->floats_most = 0; /* as if all of it were too much in floats */
    for (int i = 0; i < 2; i++) {
        o.net = own[i];
        graft_model *with = put(base, o);
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
        graft_model *one = put(base, o), *two = put(one, second);
        CHECK_INT(kept_within(two), 2 * 3);
        graft_model_release(one);
        graft_model_release(two);
        sample_two(o, second, each[i]);
    }
    CHECK(difference(each[0], each[1], ONE) < 1e-4);
    engine->floats_most = most;
    o.net = floats;
    put_and_sample(base, o, want);
    CHECK(difference(now, want, ONE) < 1e-4);
    CHECK(difference(now, steered[FOLLOWS], ONE) > 1e-3);
    graft_controlnet_release(own[1]);
    graft_controlnet_release(floats);
}

static void other_models(void)
{
    graft_model_control_options o = patch(nets[FOLLOWS], 1);
    graft_model *wide =
        load_model(engine, GRAFT_SOURCE_DIR "/golden/small/qwen_image_two.safetensors");
    graft_controlnet *zimage = load_patch(engine, NET("zimage_three"));
    refused(flux.m, o, GRAFT_E_ARG, "it is for Qwen-Image, the model is FLUX.1");
    refused(qwen.m, o, GRAFT_E_ARG, "it has layers for 3 blocks, the model has 5");
    refused(wide, o, GRAFT_E_ARG, "its blocks are 32 wide, the model's 48");
    o.net = zimage;
    refused(base, o, GRAFT_E_ARG, "it is for Z-Image, the model is Qwen-Image");
    graft_controlnet_release(zimage);
    graft_model_release(wide);
}

static void what_is_missing(void)
{
    graft_model_control_options o = patch(nets[FOLLOWS], 1);
    o.mask = mask;
    refused(base, o, GRAFT_E_ARG, "a picture to follow and no mask");
    o.mask = NULL, o.vae = NULL;
    refused(base, o, GRAFT_E_ARG, "no VAE is given");
    o = patch(nets[FOLLOWS], 1);
    o.hint = NULL;
    refused(base, o, GRAFT_E_ARG, "no picture is given");
    o = patch(nets[COMPLETES], 1);
    o.mask = NULL;
    refused(base, o, GRAFT_E_ARG, "no mask of what is to be drawn anew is given");
    o = patch(nets[COMPLETES], 1);
    o.inpaint = hint;
    refused(base, o, GRAFT_E_ARG, "no inpaint_image");
    refused(base, patch(nets[FOLLOWS], NAN), GRAFT_E_ARG, "strength");
    graft_model *all = put(base, patch(nets[FOLLOWS], 1));
    for (int i = 1; i < GRAFT_WITHIN_MOST; i++) {
        graft_model *more = put(all, patch(nets[FOLLOWS], 1));
        graft_model_release(all);
        all = more;
    }
    refused(all, patch(nets[FOLLOWS], 1), GRAFT_E_LIMIT, "at most 8");
    graft_model_release(all);
}

static void files_of_others(void)
{
    other_files(NET("blockwise"), "of DiffSynth's for Qwen-Image", NET("qwen_image"));
}

static void broken_files(void)
{
    broken(NET("blockwise"), "img_in.weight");
    broken(NET("blockwise"), "img_in.bias");
    broken(NET("blockwise"), "controlnet_blocks.0.x_rms.weight");
    broken(NET("blockwise"), "controlnet_blocks.1.y_rms.weight");
    broken(NET("blockwise"), "controlnet_blocks.1.input_proj.bias");
    broken(NET("blockwise"), "controlnet_blocks.2.output_proj.weight");
}

static void short_of_memory(void)
{
    runs_short_of_memory(NET("blockwise"), COMPLETES);
}

int main(void)
{
    begin_all();
    base = load_model(engine, MODEL);
    nets[FOLLOWS] = load_patch(engine, NET("blockwise"));
    nets[COMPLETES] = load_patch(engine, NET("blockwise_inpaint"));
    mask = half_mask(32);
    prompts = (pair){words(base, 1), words(base, 2)};
    begin_patches(NETS);
    RUN(files);
    RUN(strengths);
    RUN(together);
    RUN(with_easycache);
    RUN(masks);
    RUN(all_prompts);
    RUN(beside_those_of_prompts);
    RUN(batches_and_sizes);
    RUN(areas);
    RUN(nothing_is_compiled_again);
    RUN(ahead_of_time);
    RUN(other_weights);
    RUN(with_a_lora);
    RUN(in_a_merge);
    RUN(calibrated);
    RUN(packed);
    RUN(other_models);
    RUN(what_is_missing);
    RUN(files_of_others);
    RUN(broken_files);
    RUN(short_of_memory);
    end_patches();
    end_all();
    return test_end();
}

/* OmniGen2: which files it is found in, prompts of any length, the pictures that they show it, and
 * what does not go with it. What the network computes is held against golden/small/omnigen2_*; its
 * prompts are in qwen25.c. */
#include "engine/models/controls/controlnet.h"
#include "engine/models/parts/tensors.h"
#include "engine/models/transformers/omnigen2.h"
#include "tests/engine/family.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/omnigen2_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/omnigen2_one.safetensors"

#define CAPTION "time_caption_embed.caption_embedder.1.weight"
#define INDEX   "image_index_embedding"

enum { PLANES = 16, VALUES = PLANES * SIDE * SIDE, SHOWN = PLANES * 64, WORDS = 6 };

static const graft_references one_shown = {.n = 1, .of = {{4, 6}}};

static const damage damaged[] = {
    {"layers.0.attn.to_q.weight", {71, 72}, GRAFT_E_UNSUPPORTED, "71 rows of queries"},
    /* Neither so many rows are whole heads, nor do so many heads share the queries'. */
    {"layers.0.attn.to_k.weight", {30, 72}, GRAFT_E_UNSUPPORTED, "and 30 of keys"},
    {"layers.0.attn.to_k.weight", {48, 72}, GRAFT_E_UNSUPPORTED, "and 48 of keys"},
    {"layers.0.attn.to_k.weight", {6, 72}, GRAFT_E_UNSUPPORTED, "and 6 of keys"},
    {"layers.0.attn.to_k.weight", {12, 72}, GRAFT_E_FORMAT, ".attn.to_"},
    {"layers.1.attn.to_v.weight", {12, 72}, GRAFT_E_FORMAT},
    {"layers.0.attn.norm_q.weight", {15}, GRAFT_E_UNSUPPORTED, "heads of 15"},
    {"layers.0.attn.norm_q.weight", {0}, GRAFT_E_FORMAT},
    {"layers.0.feed_forward.linear_1.weight", {90, 72}, GRAFT_E_FORMAT, ".feed_forward.linear_"},
    {"x_embedder.weight", {72, 63}, GRAFT_E_FORMAT},
    {"x_embedder.weight", {72}, GRAFT_E_FORMAT},
    {"ref_image_patch_embedder.weight", {72, 63}, GRAFT_E_FORMAT},
    {"norm_out.linear_2.weight", {128, 72}, GRAFT_E_FORMAT},
    {CAPTION, {71, 24}, GRAFT_E_FORMAT},
    {"time_caption_embed.timestep_embedder.linear_2.weight", {21, 20}, GRAFT_E_FORMAT},
    {"layers.1.norm1.linear.weight", {288, 21}, GRAFT_E_FORMAT},
    {"ref_image_refiner.1.norm1.linear.weight", {288, 21}, GRAFT_E_FORMAT},
    {INDEX, {5, 71}, GRAFT_E_FORMAT},
    {INDEX, {0}, GRAFT_E_FORMAT},
    TURNING(10),
    TURNING(5),
    {NULL}};

/* Its own names are diffusers'. Without a config a third of a head turns with the row. Networks are
 * compared while they are shown a picture, as some of their weights are read of that alone. */
static const family tested = {
    .name = "omnigen2",
    .title = "OmniGen2",
    .two = TWO,
    .one = ONE,
    .plain = TWO,
    .gguf = "omnigen2",
    .packed = ONE,
    .scale = 0.3611,
    .shift = 0.1159,
    .shown = &one_shown,
    .error = 1e-4,
    .prompts = prompts_by_64,
    .attended = 6,
    .attended_once = 2,
    .tensors = 6 * 15 + 2 * 13 + 16,
    .losses = {{GRAFT_OMNIGEN2_TENSOR, GRAFT_E_UNSUPPORTED,
                "Lumina-Image 2.0's transformer has no tensor"}},
    .damaged = damaged,
    .takes_references = true,
    .unbuilt = {{{.adapted = 1}, GRAFT_E_UNSUPPORTED},
                {{.control = 1}, GRAFT_E_UNSUPPORTED},
                {{.references = {.n = 6, .of = {{2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}}}},
                 GRAFT_E_UNSUPPORTED},
                {{.references = {.n = 1, .placing = GRAFT_PLACE_CLEAN, .of = {{2, 2}}}},
                 GRAFT_E_UNSUPPORTED},
                {{.references = {.n = 1, .placing = GRAFT_PLACE_DIAGONAL, .of = {{2, 2}}}},
                 GRAFT_E_UNSUPPORTED},
                {{.references = {.n = 1, .of = {{0, 4}}}}, GRAFT_E_ARG},
                {{.references = {.n = 1, .of = {{4, 1 << 20}}}}, GRAFT_E_ARG}},
    .loras = 2 * (3 * (8 + 1) + 7 + 7),
    .lora_error = 5e-5,
    .untried = {".0.attn.", ".0.feed_forward.", INDEX},
    .lora_names = {{"transformer.layers.1.attn.to_out.0", PEFT, 72, 72},
                   {"layers.1.attn.to_out.0", PEFT_DEFAULT},
                   {"diffusion_model.layers.1.attn.to_out.0", PEFT},
                   {"diffusion_model.layers.1.attn.to_out.0", KOHYA},
                   {"lora_unet_layers_1_attn_to_out_0", KOHYA},
                   {"transformer.ref_image_refiner.1.feed_forward.linear_1", PEFT, 96, 72},
                   {"lora_unet_ref_image_refiner_1_feed_forward_linear_1", KOHYA}},
    .kept = {"x_embedder", "ref_image_patch_embedder", "time_caption_embed.timestep", "norm_out"},
    .attentions = 8,
    .linears = 6 * 8 + 2 * 7 + 7,
};

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_omnigen2_arch *a = &two->arch.omnigen2, *b = &one->arch.omnigen2;
    CHECK(a->depth == 2 && a->noise_depth == 2 && a->context_depth == 2 && a->picture_depth == 2);
    CHECK(a->hidden == 72 && a->heads == 6 && a->key_heads == 2 && a->mlp == 96);
    CHECK(a->rope_dim == 4 && a->told == 20 && a->time_dim == 256 && a->context_dim == 24);
    CHECK(a->pictures == 5 && b->pictures == 3 && b->rope_dim == 8 && b->key_heads == 1);
    CHECK(b->depth == 1 && b->noise_depth == 1 && b->context_depth == 1 && b->picture_depth == 1);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_OMNIGEN2 && m->arch.adm_channels == 0);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->arch.latent_channels == PLANES);
        CHECK(m->flow_shift == 2.6 && m->flow_steps == 1000);
        CHECK(m->scale_factor == 0.3611 && m->latent_shift == 0.1159);
        CHECK(memcmp(&m->preview, &graft_preview_flux, sizeof m->preview) == 0);
        CHECK_STR(graft_net_kind_name(&m->arch), "omnigen2");
    }
    RELEASE_ALL(two, one);
}

/* The prompt's order counts. */
static void order(void)
{
    CHECK(turned_around(TWO) > 1e-3);
    CHECK(turned_around(ONE) > 1e-3);
}

/* All of a head may be for rows and columns: then pictures stand behind no prompt. */
static void places_on_two_axes(void)
{
    const char *path = temp_path("rows.safetensors");
    float out[2][ANSWER];
    write_file(part_of_file(TWO, UNET), path, "{\"rope_dim\": 6}");
    graft_model *m = load_model(engine, path), *own = load_model(engine, TWO);
    run_some(m, out[0]);
    run_some(own, out[1]);
    CHECK(difference(out[0], out[1], VALUES) > 1e-3);
    RELEASE_ALL(m, own);
    unlink(path);
}

/* ------------------------------------------------------------------ pictures */

/* A reference of any size, as the VAE would give it, behind those of the prompt, which is used up;
 * the same as the network is to see it. Returns how many values that are. */
static int64_t refer(graft_cond **c, int number, graft_grid of, float *seen)
{
    const int64_t rows = of.rows + of.rows % 2, columns = of.columns + of.columns % 2;
    const int64_t shape[4] = {1, PLANES, of.rows, of.columns};
    float given[SHOWN];
    graft_cond *more = NULL;
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(PLANES * rows * columns <= SHOWN);
    for (int64_t i = 0; i < PLANES * of.rows * of.columns; i++)
        given[i] = 2 * fixed_value((uint64_t)(91 * number + i));
    CHECK_OK(graft_latent_from_data(given, shape, &l, &e), &e);
    CHECK_OK(graft_cond_reference(*c, l, &more, &e), &e);
    graft_latent_release(l);
    graft_cond_release(*c);
    *c = more;
    for (int64_t p = 0; p < PLANES; p++)
        for (int64_t y = 0; y < rows; y++) /* circular, as the latent's own sides */
            for (int64_t x = 0; x < columns; x++)
                seen[(p * rows + y) * columns + x] =
                    (given[(p * of.rows + y % of.rows) * of.columns + x % of.columns] - 0.1159f) *
                    0.3611f;
    return PLANES * rows * columns;
}

/* ReferenceLatent: each picture counts, in its order, of any size, and beside a negative prompt
 * that has them, too. */
static void references(void)
{
    static const graft_grid size[] = {{4, 6}, {3, 5}, {8, 2}};
    static float seen[3 * SHOWN];
    float got[ANSWER], want[ANSWER], before[ANSWER] = {0};
    graft_model *m = load_model(engine, TWO);
    graft_cond *c = prompt_of(m, 20000, WORDS), *no = prompt_of(m, 60000, 2 * WORDS);
    graft_references r = {.n = 0};
    int64_t at = 0;
    for (size_t i = 0; i < COUNT(size); i++) {
        refer(&no, (int)i, size[i], seen + at);
        at += refer(&c, (int)i, size[i], seen + at);
        r.of[r.n++] = size[i];
        for (int guided = 0; guided < 2; guided++) {
            const asked a = {
                .words = {WORDS, 2 * WORDS}, .cfg = guided ? 3 : 1, .shown = &r, .seen = seen};
            sampled(m, c, no, a.cfg, got);
            by_hand(m, &a, want);
            CHECK(difference(got, want, VALUES) < 2e-4);
            CHECK(difference(got, before, VALUES) > 1e-2);
            memcpy(before, got, sizeof got);
        }
    }
    graft_cond_release(c);
    graft_cond_release(no);
    graft_model_release(m);
}

/* What guides by pictures: a negative prompt that has none, in a graph of its own. One step. */
static void guided_by_pictures(void)
{
    static float x[ANSWER + SEEN];
    const asked with = {.words = {WORDS, WORDS}, .shown = &one_shown};
    const asked without = {.words = {WORDS, WORDS}};
    float got[ANSWER], want[ANSWER], v[ANSWER], w[ANSWER];
    graft_model *m = load_model(engine, TWO);
    graft_cond *c = prompt_of(m, 20000, WORDS), *no = prompt_of(m, 60000, WORDS);
    refer(&c, 0, one_shown.of[0], x + VALUES);
    evaluate(m, &with, 0, x, 1000, v);
    evaluate(m, &without, 1, x, 1000, w);
    for (int i = 0; i < VALUES; i++) want[i] = -(w[i] + 5 * (v[i] - w[i]));
    unscaled(m, want, want);
    sampled_in(1, m, c, no, 5, 1, got);
    CHECK(difference(got, want, VALUES) < 1e-4);
    graft_cond_release(c);
    graft_cond_release(no);
    graft_model_release(m);
}

/* DualCFGGuider: both prompts with the picture, and what leads away from the one without it, as its
 * authors guide. One step, from zeros. */
static void guided_by_both(void)
{
    static float x[ANSWER + SEEN];
    const float from_to[2] = {1, 0};
    const int64_t shape[4] = {1, PLANES, SIDE, SIDE};
    const asked with = {.words = {WORDS, WORDS}, .shown = &one_shown};
    const asked without = {.words = {WORDS, WORDS}};
    float want[ANSWER], v[ANSWER], u[ANSWER], w[ANSWER];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_cond *c = prompt_of(m, 20000, WORDS), *no = prompt_of(m, 60000, WORDS);
    graft_cond *alone = graft_cond_retain(no);
    graft_latent *in = NULL, *out = NULL;
    graft_sigmas *sigmas = NULL;
    refer(&c, 0, one_shown.of[0], x + VALUES);
    refer(&alone, 0, one_shown.of[0], x + VALUES);
    evaluate(m, &with, 0, x, 1000, v);
    evaluate(m, &with, 1, x, 1000, u);
    evaluate(m, &without, 1, x, 1000, w);
    for (int i = 0; i < VALUES; i++) want[i] = -(w[i] + 2 * (u[i] - w[i]) + 5 * (v[i] - u[i]));
    unscaled(m, want, want);
    CHECK_OK(graft_sigmas_from_data(from_to, 2, &sigmas, &e), &e);
    CHECK_OK(graft_latent_create(shape, &in, &e), &e);
    if (in) memset(graft_latent_writable(in), 0, VALUES * sizeof(float));
    const graft_sampling s = {.model = m,
                              .positive = c,
                              .negative = no,
                              .third = {alone, GRAFT_THIRD_DUAL, 2},
                              .cfg = 5,
                              .sampler = "euler",
                              .sigmas = sigmas};
    CHECK_OK(graft_sample_custom(&s, in, NULL, &out, NULL, &e), &e);
    int64_t got_shape[4];
    if (out) CHECK(difference(graft_latent_data(out, got_shape), want, VALUES) < 1e-4);
    graft_latent_release(in);
    graft_latent_release(out);
    graft_sigmas_release(sigmas);
    graft_cond_release(c);
    graft_cond_release(no);
    graft_cond_release(alone);
    graft_model_release(m);
}

/* More than it has numbers for are refused, by how many that are. */
static void too_many(void)
{
    float seen[SHOWN];
    graft_model *m = load_model(engine, ONE);
    graft_cond *c = prompt_of(m, 20000, WORDS);
    graft_latent *in = NULL, *out = NULL;
    const int64_t shape[4] = {1, PLANES, SIDE, SIDE};
    const graft_sample_params p = {.steps = 1,
                                   .cfg = 1,
                                   .sampler = "euler",
                                   .scheduler = "simple",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_create(shape, &in, &e), &e);
    if (in) memset(graft_latent_writable(in), 0, VALUES * sizeof(float));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(graft_sample(m, &p, c, c, in, NULL, &out, &e), &e);
        graft_latent_release(out);
        out = NULL;
        refer(&c, i, (graft_grid){2, 2}, seen);
    }
    CHECK_INT(graft_sample(m, &p, c, c, in, NULL, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!out && strstr(e.text, "at most 3 pictures, and there are 4"));
    graft_latent_release(in);
    graft_cond_release(c);
    graft_model_release(m);
}

/* A plan that was made of prompts without pictures names the layers that these go through, too, and
 * one of prompts with pictures is for both. */
static void plans_of_both(void)
{
    const graft_quant_limits everything = {{true, true, true}, {1, 1, 1}, 0};
    float plain[ANSWER], got[ANSWER];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    run_some(m, plain);
    for (int shown = 0; shown < 2; shown++) {
        graft_net_shape shape = {
            .batch = 1, .height = SIDE, .width = SIDE, .tokens = 64, .act_dtype = GRAFT_F32};
        graft_quant_plan *p = NULL;
        graft_model *q = NULL;
        if (shown) shape.references = one_shown;
        CHECK_OK(graft_quant_plan_create(&m->arch, &shape, &p, &e), &e);
        graft_quant_plan_select(p, &everything);
        CHECK_INT(p->n, tested.linears + tested.attentions);
        CHECK_OK(graft_model_with_plan(m, p, &q, &e), &e);
        run_some(q, got);
        CHECK(!same_answers(m, plain, got) && difference(got, plain, VALUES) < 0.2);
        graft_quant_plan_destroy(p);
        graft_model_release(q);
    }
    graft_model_release(m);
}

static bool quantizes(const graft_model *m, const char *layer)
{
    graft_quant_plan *all = NULL;
    graft_err e = GRAFT_ERR_INIT;
    bool chosen = false;
    CHECK_OK(graft_quant_layers(&m->arch, &all, &e), &e);
    for (size_t i = 0; all && i < all->n; i++)
        if (strcmp(all->layer[i].name, layer) == 0) chosen = m->quant.set[i / 8] >> i % 8 & 1;
    graft_quant_plan_destroy(all);
    return chosen;
}

/* QuantizeModel on prompts of which one has a picture, whose own layers are measured then, too. */
static void measured_with_pictures(void)
{
    static const char own[] = "ref_image_refiner.1.feed_forward.linear_1";
    static const char all[] = "layers.1.feed_forward.linear_1";
    static float x[ANSWER + SEEN];
    float plain[ANSWER], got[ANSWER];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO), *q = NULL, *blind = NULL;
    graft_cond *c = prompt_of(m, 20000, WORDS), *no = prompt_of(m, 60000, WORDS);
    graft_latent *in = NULL;
    const int64_t shape[4] = {1, PLANES, SIDE, SIDE};
    refer(&c, 0, one_shown.of[0], x + VALUES);
    CHECK_OK(graft_latent_create(shape, &in, &e), &e);
    if (in) memset(graft_latent_writable(in), 0, VALUES * sizeof(float));
    graft_quantize_options o = {.bits = 8,
                                .linear = true,
                                .linear_mse_threshold = 0.5,
                                .positive = c,
                                .negative = no,
                                .latent = in,
                                .steps = 2,
                                .cfg = 4};
    CHECK_OK(graft_model_quantize(m, &o, NULL, &q, NULL, &e), &e);
    CHECK(quantizes(q, own) && quantizes(q, all));
    sampled(m, c, no, 4, plain);
    sampled(q, c, no, 4, got);
    CHECK(difference(got, plain, VALUES) > 0 && difference(got, plain, VALUES) < 0.4);
    o.positive = no;
    CHECK_OK(graft_model_quantize(m, &o, NULL, &blind, NULL, &e), &e);
    CHECK(!quantizes(blind, own) && quantizes(blind, all));
    graft_latent_release(in);
    graft_cond_release(c);
    graft_cond_release(no);
    RELEASE_ALL(m, q, blind);
}

/* Z-Image's ControlNets are for Z-Image. */
static void no_controlnets(void)
{
    graft_model *m = load_model(engine, TWO);
    const graft_control_arch a = {.kind = GRAFT_NET_ZIMAGE};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_control_fits(&a, &m->arch, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "it is for Z-Image, the model is OmniGen2"));
    graft_model_release(m);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    run_family();
    RUN(order);
    RUN(places_on_two_axes);
    RUN(references);
    RUN(guided_by_pictures);
    RUN(guided_by_both);
    RUN(too_many);
    RUN(plans_of_both);
    RUN(measured_with_pictures);
    RUN(no_controlnets);
    graft_engine_destroy(engine);
    return test_end();
}

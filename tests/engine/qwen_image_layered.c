/* Qwen-Image-Layered: which files it is found in, latents of several layers of any size in whole
 * samplings, with the picture that they are of and without, and what does not go with it. What the
 * network computes is held against golden/small/qwen_image_layered. */
#include "engine/calibrate/quantize.h"
#include "engine/denoise/sample.h"
#include "engine/models/controls/controlnet.h"
#include "engine/models/parts/tensors.h"
#include "engine/models/transformers/qwen_image.h"
#include "tests/engine/family.h"
#include "tests/engine/wan_planes.h"

#define LAYERED GRAFT_SOURCE_DIR "/golden/small/qwen_image_layered.safetensors"
#define PLAIN   GRAFT_SOURCE_DIR "/golden/small/qwen_image_edit.safetensors"
#define TOLD    "time_text_embed.addition_t_embedding.weight"

enum { PLANES = 16, WORDS_HERE = 6, LAYERS_MAX = 4, ROOM = PLANES * LAYERS_MAX * SIDE * SIDE };

static const damage damaged[] = {{TOLD, {3, 32}, GRAFT_E_FORMAT},
                                 {TOLD, {2, 31}, GRAFT_E_FORMAT},
                                 {TOLD, {32}, GRAFT_E_FORMAT},
                                 {"img_in.weight", {32, 63}, GRAFT_E_FORMAT},
                                 TURNING(10),
                                 {NULL}};

/* Of one layer and without a picture it is a network as Qwen-Image's. */
static const family tested = {
    .name = "qwen_image_layered",
    .title = "Qwen-Image",
    .two = LAYERED,
    .one = LAYERED,
    .gguf = "qwen_image",
    .packed = LAYERED,
    .mean = wan_mean,
    .deviation = wan_deviation,
    .error = 2e-4,
    .prompts = prompts_by_64,
    .tensors = 78,
    .losses = {{GRAFT_QWEN_IMAGE_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"},
               {TOLD, GRAFT_OK}},
    .damaged = damaged,
    .takes_references = true,
    .unbuilt = {{{.control = 1}, GRAFT_E_UNSUPPORTED},
                {{.within = 1, .within_rows = 1}, GRAFT_E_UNSUPPORTED},
                {{.references = {.layers = 3}}, GRAFT_E_ARG},
                {{.references = {.layers = -1}}, GRAFT_E_ARG},
                {{.references = {.layers = 300}, .height = 600}, GRAFT_E_ARG},
                {{.references = {.n = 2, .of = {{4, 4}, {4, 4}}}}, GRAFT_E_UNSUPPORTED}},
    .loras = 2 * (2 * 14 - 3 + 6),
    .lora_error = 5e-5,
    .untried = {"_blocks.0.img_m", "addition_t_embedding"},
    .unread = {"blocks.1.txt_mlp", "blocks.1.attn.to_add_out", "blocks.1.attn.add_q_proj"},
    .lora_names = {{"transformer.transformer_blocks.1.attn.add_k_proj", PEFT, 32, 32},
                   {"transformer_blocks.1.attn.add_k_proj", KOHYA},
                   {"lora_unet_transformer_blocks_1_attn_add_k_proj", KOHYA}},
    .kept = {"img_in", "time_text_embed", "norm_out", "proj_out"},
    .attentions = 2,
    .linears = 2 * 14 - 3 + 6,
};

static void kinds(void)
{
    graft_model *m = load_model(engine, LAYERED), *plain = load_model(engine, PLAIN);
    const graft_qwen_image_arch *a = &m->arch.qwen_image;
    CHECK(a->layered && a->depth == 2 && a->heads == 2 && a->hidden == 32 && a->rope_dim == 6);
    CHECK(graft_net_makes_layers(&m->arch) && !graft_net_makes_layers(&plain->arch));
    CHECK(m->arch.kind == GRAFT_NET_QWEN_IMAGE && m->planes == &graft_wan_planes);
    CHECK(graft_net_hash(&m->arch).lo != graft_net_hash(&plain->arch).lo);
    CHECK_INT(graft_net_stacked(&m->arch, 9, 3), 12);
    CHECK_INT(graft_net_stacked(&m->arch, 9, 0), 10);
    RELEASE_ALL(m, plain);
}

/* ------------------------------------------------------------------ sampling */

/* A latent of so many layers of this size; the picture that it is of, where `of` has one. */
typedef struct stack {
    int64_t layers, h, w;
    graft_grid of;
} stack;

static int64_t whole(int64_t cells)
{
    return cells + cells % 2;
}

static int64_t stack_values(const stack *s)
{
    return PLANES * s->layers * s->h * s->w;
}

/* `planes` planes of h x w, each of which goes on with its first row and column. */
static void fill(const float *from, int64_t planes, int64_t h, int64_t w, float *to)
{
    for (int64_t p = 0; p < planes; p++)
        for (int64_t y = 0; y < whole(h); y++)
            for (int64_t x = 0; x < whole(w); x++) *to++ = from[(p * h + y % h) * w + x % w];
}

/* As the VAE would give it; and as the network is to see it. */
static void picture_of(const stack *s, float *given, float *seen)
{
    const int64_t area = whole(s->of.rows) * whole(s->of.columns);
    for (int64_t i = 0; i < PLANES * s->of.rows * s->of.columns; i++)
        given[i] = 2 * fixed_value((uint64_t)(500 + i));
    fill(given, PLANES, s->of.rows, s->of.columns, seen);
    for (int64_t i = 0; i < PLANES * area; i++)
        seen[i] = (seen[i] - (float)wan_mean[i / area]) / (float)wan_deviation[i / area];
}

/* v of a state (16,layers,h,w). */
static void velocity(const graft_model *m, const stack *s, int words, float t, const float *x,
                     float *v)
{
    static float in[2 * ROOM], out[ROOM], given[ROOM], context[WORDS_MAX * 64];
    const int64_t h = whole(s->h), w = whole(s->w), width = m->arch.context_dim;
    const float y = (float)words;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_unet_use use = {.pictures = 1,
                          .entries = 1,
                          .height = s->layers * s->h,
                          .width = s->w,
                          .tokens = words,
                          .references = {.layers = s->layers > 1 ? (int32_t)s->layers : 0}};
    CHECK(PLANES * s->layers * h * w <= ROOM && words * width <= WORDS_MAX * 64);
    for (int64_t i = 0; i < words * width; i++) context[i] = fixed_value(20000 + (uint64_t)i);
    fill(x, PLANES * s->layers, s->h, s->w, in);
    if (s->of.rows) {
        use.references.n = 1;
        use.references.of[0] = s->of;
        picture_of(s, given, in + PLANES * s->layers * h * w);
    }
    graft_status st = graft_model_bind_guided(m, &use, NULL, &b, &e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){in, &t, context, &y},
                           (void *[]){out}, NULL, NULL, &e);
    CHECK_OK(st, &e);
    for (int64_t i = 0; i < stack_values(s); i++) {
        const int64_t column = i % s->w, row = i / s->w % s->h, plane = i / (s->w * s->h);
        v[i] = out[(plane * h + row) * w + column];
    }
    graft_binding_release(b);
}

static void steps_by_hand(const graft_model *m, const stack *s, float *out)
{
    static float v[ROOM];
    double sigma[STEPS + 1] = {0};
    memset(out, 0, (size_t)stack_values(s) * sizeof *out);
    for (int i = 0; i < STEPS; i++) {
        double share = 1 - (double)(int)(i * (double)m->flow_steps / STEPS) / m->flow_steps;
        sigma[i] = m->flow_shift * share / (1 + (m->flow_shift - 1) * share);
    }
    for (int i = 0; i < STEPS; i++) {
        velocity(m, s, WORDS_HERE, (float)(1000 * sigma[i]), out, v);
        for (int64_t k = 0; k < stack_values(s); k++)
            out[k] += (float)(sigma[i + 1] - sigma[i]) * v[k];
    }
    for (int64_t k = 0; k < stack_values(s); k++) {
        const int64_t plane = k / (s->layers * s->h * s->w);
        out[k] = out[k] * (float)wan_deviation[plane] + (float)wan_mean[plane];
    }
}

static graft_latent *empty_of(const stack *s, int64_t batch)
{
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_empty_layers(PLANES, 8 * s->w, 8 * s->h, s->layers, batch, &l, &e), &e);
    return l;
}

/* A prompt that is shown the stack's picture, where it has one. */
static graft_cond *prompt_for(const graft_model *m, const stack *s)
{
    static float given[ROOM], seen[ROOM];
    const int64_t shape[4] = {1, PLANES, s->of.rows, s->of.columns};
    graft_cond *c = prompt_of(m, 20000, WORDS_HERE), *more = NULL;
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    if (!s->of.rows) return c;
    picture_of(s, given, seen);
    CHECK_OK(graft_latent_from_data(given, shape, &l, &e), &e);
    CHECK_OK(graft_cond_reference(c, l, &more, &e), &e);
    graft_latent_release(l);
    graft_cond_release(c);
    return more;
}

static const graft_sample_params euler = {.steps = STEPS,
                                          .cfg = 1,
                                          .sampler = "euler",
                                          .scheduler = "simple",
                                          .denoise = 1,
                                          .end_at_step = 10000};

static graft_status sample(const graft_model *m, const graft_sample_params *p, const graft_cond *c,
                           const graft_latent *from, graft_latent **out, graft_err *e)
{
    return graft_sample(m, p, c, c, from, NULL, out, e);
}

/* Layers of even and odd sizes, with the picture and without; those of a batch of two are all the
 * same. Nothing is compiled in the run that compiling ahead has not. */
static void layers(void)
{
    static const stack stacks[] = {{3, 8, 6, {8, 6}},
                                   {2, 5, 7, {5, 7}},
                                   {4, 4, 4, {0, 0}},
                                   {1, 6, 8, {6, 8}},
                                   {4, 3, 2, {4, 6}}};
    static float want[ROOM];
    graft_model *m = load_model(engine, LAYERED);
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < COUNT(stacks); i++) {
        const stack *s = &stacks[i];
        const int64_t n = stack_values(s);
        const graft_task ahead = {.compile_only = true};
        graft_cond *c = prompt_for(m, s);
        graft_latent *from = empty_of(s, 2), *to = NULL, *same = NULL;
        int64_t shape[4];
        CHECK_OK(graft_sample(m, &euler, c, c, from, &ahead, &same, &e), &e);
        const uint64_t built = graphs_built(engine);
        CHECK_OK(sample(m, &euler, c, from, &to, &e), &e);
        CHECK_INT(graphs_built(engine), built);
        const float *got = to ? graft_latent_data(to, shape) : want;
        CHECK(to && shape[0] == 2 && shape[1] == PLANES * s->layers && shape[2] == s->h);
        CHECK(to && graft_latent_layers(to) == s->layers && shape[3] == s->w);
        steps_by_hand(m, s, want);
        CHECK(difference(got, want, (size_t)n) < 2e-4);
        CHECK(difference(got + n, want, (size_t)n) < 2e-4);
        for (int64_t l = 1; l < s->layers; l++) /* by their places alone they differ */
            CHECK(difference(got + l * s->h * s->w, got, (size_t)(s->h * s->w)) > 1e-3);
        graft_latent_release(from);
        graft_latent_release(to);
        graft_latent_release(same);
        graft_cond_release(c);
    }
    graft_model_release(m);
}

/* The picture counts, and how many layers there are does for each of them. */
static void they_see_each_other(void)
{
    static const stack with = {3, 6, 6, {6, 6}}, without = {3, 6, 6, {0, 0}},
                       fewer = {2, 6, 6, {6, 6}};
    static float a[ROOM], b[ROOM], c[ROOM];
    graft_model *m = load_model(engine, LAYERED);
    steps_by_hand(m, &with, a);
    steps_by_hand(m, &without, b);
    steps_by_hand(m, &fewer, c);
    CHECK(difference(a, b, (size_t)stack_values(&with)) > 1e-2);
    CHECK(difference(a, c, 2 * 36) > 1e-3); /* of the first plane both layers that either has */
    graft_model_release(m);
}

/* As in ComfyUI it is drawn for (N,C,layers,h,w) at once. */
static void noise(void)
{
    static const stack s = {3, 5, 4, {0, 0}};
    static float drawn[2 * ROOM];
    const int64_t shape[4] = {2, PLANES * 3, 5, 4}, n = 2 * stack_values(&s);
    graft_model *m = load_model(engine, LAYERED);
    graft_latent *from = empty_of(&s, 2), *to = NULL;
    graft_sigmas *sigmas = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_noise_latent(77, shape, NULL, drawn, &e), &e);
    CHECK_OK(graft_sigmas_from_data((const float[]){1.0f}, 1, &sigmas, &e), &e);
    CHECK_OK(graft_latent_noised(m, from, sigmas, true, 77, &to, &e), &e);
    CHECK(to && graft_latent_layers(to) == 3);
    for (int64_t i = 0; to && i < n; i++) {
        const int64_t plane = i % (n / 2) / (3 * 5 * 4);
        CHECK_NEAR(graft_latent_data(to, NULL)[i],
                   drawn[i] * wan_deviation[plane] + wan_mean[plane], 1e-4);
    }
    graft_latent_release(from);
    graft_latent_release(to);
    graft_sigmas_release(sigmas);
    graft_model_release(m);
}

/* A mask is that of one picture, and every layer's. */
static void masks(void)
{
    static const stack s = {3, 4, 4, {0, 0}};
    float half[16], *values;
    const int64_t shape[4] = {1, PLANES * 3, 4, 4};
    graft_sample_params p = euler;
    graft_model *m = load_model(engine, LAYERED);
    graft_cond *c = prompt_for(m, &s);
    graft_latent *from = NULL, *masked = NULL, *to = NULL;
    graft_image *mask = NULL;
    graft_err e = GRAFT_ERR_INIT;
    p.add_noise = true;
    for (int i = 0; i < 16; i++) half[i] = i % 4 < 2;
    CHECK_OK(graft_latent_create_layers(shape, 3, &from, &e), &e);
    values = graft_latent_writable(from);
    for (int64_t i = 0; i < stack_values(&s); i++) values[i] = fixed_value((uint64_t)i);
    CHECK_OK(graft_image_from_data(half, (const int64_t[]){1, 4, 4, 1}, true, &mask, &e), &e);
    CHECK_OK(graft_latent_set_mask(from, mask, &masked, &e), &e);
    CHECK_INT(graft_latent_layers(masked), 3);
    CHECK_OK(sample(m, &p, c, masked, &to, &e), &e);
    for (int64_t i = 0; to && i < stack_values(&s); i++) {
        const double moved = fabs(graft_latent_data(to, NULL)[i] - values[i]);
        CHECK(i % 4 < 2 ? moved > 1e-6 : moved < 1e-4);
    }
    graft_latent_release(from);
    graft_latent_release(masked);
    graft_latent_release(to);
    graft_image_release(mask);
    graft_cond_release(c);
    graft_model_release(m);
}

static void note_preview(void *ctx, const uint8_t *rgb, int width, int height)
{
    int *seen = ctx;
    (void)rgb;
    seen[0]++;
    seen[1] = width;
    seen[2] = height;
}

/* They show the layers one below the other. */
static void previews(void)
{
    static const stack s = {3, 4, 6, {0, 0}};
    int seen[3] = {0};
    const graft_task task = {.ctx = seen, .preview = note_preview};
    graft_model *m = load_model(engine, LAYERED);
    graft_cond *c = prompt_for(m, &s);
    graft_latent *from = empty_of(&s, 1), *to = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_sample(m, &euler, c, c, from, &task, &to, &e), &e);
    CHECK(seen[0] > 0 && seen[1] == 6 && seen[2] == 3 * 4);
    graft_latent_release(from);
    graft_latent_release(to);
    graft_cond_release(c);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ what goes with it */

/* QuantizeModel on a stack, also on one that is so high that it looks at the middle of each layer.
 */
static void measured_on_stack(const stack *s)
{
    graft_model *m = load_model(engine, LAYERED), *q = NULL;
    graft_cond *c = prompt_for(m, s);
    graft_latent *from = empty_of(s, 1), *a = NULL, *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_quantize_options o = {.bits = 8,
                                      .linear = true,
                                      .linear_mse_threshold = 0.1,
                                      .positive = c,
                                      .negative = c,
                                      .latent = from,
                                      .steps = 2,
                                      .cfg = 4};
    CHECK_OK(graft_model_quantize(m, &o, NULL, &q, NULL, &e), &e);
    CHECK_OK(sample(m, &euler, c, from, &a, &e), &e);
    if (q) CHECK_OK(sample(q, &euler, c, from, &b, &e), &e);
    if (a && b) {
        const double d = difference(graft_latent_data(a, NULL), graft_latent_data(b, NULL),
                                    (size_t)stack_values(s));
        CHECK(d > 0 && d < 0.3);
    }
    graft_latent_release(from);
    graft_latent_release(a);
    graft_latent_release(b);
    graft_cond_release(c);
    RELEASE_ALL(m, q);
}

static void measured_in_layers(void)
{
    measured_on_stack(&(stack){3, 6, 4, {6, 4}});
    measured_on_stack(&(stack){3, 66, 2, {6, 4}});
}

static void check_refusal(const graft_model *m, const graft_cond *c, const graft_latent *from,
                          graft_status status, const char *words)
{
    graft_latent *to = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(sample(m, &euler, c, from, &to, &e), status);
    CHECK(!to && strstr(e.text, words));
}

static void no_such_layers(void)
{
    static const stack s = {3, 4, 4, {0, 0}}, shown = {3, 4, 4, {4, 4}}, many = {257, 2, 2, {0, 0}};
    graft_model *m = load_model(engine, LAYERED), *plain = load_model(engine, PLAIN);
    graft_cond *c = prompt_for(m, &s), *one = prompt_for(m, &shown), *two = NULL, *area = NULL;
    graft_latent *from = empty_of(&s, 1), *too_many = empty_of(&many, 1);
    graft_err e = GRAFT_ERR_INIT;
    check_refusal(plain, c, from, GRAFT_E_ARG, "3 layers, and this model makes single pictures");
    check_refusal(m, c, too_many, GRAFT_E_LIMIT, "257 layers");
    CHECK_INT(graft_cond_reference(c, from, &two, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!two && strstr(e.text, "LatentCutToBatch"));
    CHECK_OK(graft_cond_reference(one, one->entry[0]->reference[0], &two, &e), &e);
    check_refusal(m, two, from, GRAFT_E_UNSUPPORTED, "takes one picture apart, and 2 are shown");
    const graft_area corner = {.width = 16, .height = 16};
    graft_model *operated = NULL;
    const graft_latent_operation tone = {.kind = GRAFT_OPERATION_TONEMAP, .multiplier = 1};
    CHECK_OK(graft_model_operate_cfg(m, &tone, 0, 1, &operated, &e), &e);
    check_refusal(operated, c, from, GRAFT_E_UNSUPPORTED, "LatentApplyOperationCFG");
    CHECK_OK(graft_cond_area(c, &corner, 1, &area, &e), &e);
    check_refusal(m, area, from, GRAFT_E_UNSUPPORTED, "area or mask");
    graft_latent_release(from);
    graft_latent_release(too_many);
    graft_cond_release(c);
    graft_cond_release(one);
    graft_cond_release(two);
    graft_cond_release(area);
    RELEASE_ALL(m, plain, operated);
}

/* Those for Qwen-Image are not for it, though they have its sizes. */
static void no_controls(void)
{
    graft_model *m = load_model(engine, LAYERED), *plain = load_model(engine, PLAIN);
    graft_control_arch a = {.kind = GRAFT_NET_QWEN_IMAGE, .qwen_image = plain->arch.qwen_image};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_control_fits(&a, &plain->arch, &e), &e);
    CHECK_INT(graft_control_fits(&a, &m->arch, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "not for the layered one"));
    RELEASE_ALL(m, plain);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    run_family();
    RUN(layers);
    RUN(they_see_each_other);
    RUN(noise);
    RUN(masks);
    RUN(previews);
    RUN(measured_in_layers);
    RUN(no_such_layers);
    RUN(no_controls);
    graft_engine_destroy(engine);
    return test_end();
}

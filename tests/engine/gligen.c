/* GLIGEN: texts in boxes give what PyTorch gives; texts, boxes and how many there are are no part
 * of the graph; beside LoRAs, hypernetworks, IP-Adapters' kin, DeepCache, quantization, other
 * weights, areas and ranges of steps; files; what is refused. */
#include "engine/objects/boxes.h"
#include "engine/prompts/gligen.h"
#include "tests/engine/golden_unet.h"

#define FOLDER GRAFT_SOURCE_DIR "/golden/gligen/"
#define GOLDEN FOLDER "unet.safetensors"
#define PARTS  FOLDER "boxes.safetensors"
#define FUSER  "input_blocks.1.1.transformer_blocks.0.fuser."

static graft_gligen *gligen;

static graft_gligen *load(const char *path)
{
    graft_gligen *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_gligen_load(engine, path, NULL, &g, &e), &e);
    return g;
}

/* c, which it lets go of, with one more box, in pixels; text: which of the golden file's. */
static graft_cond *boxed(graft_cond *c, graft_gligen *g, int text, graft_area a)
{
    float *texts = golden_values("texts", NULL);
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_with_box(c, g, &a, texts + text * g->arch.text, &out, &e), &e);
    free(texts);
    graft_cond_release(c);
    return out;
}

/* The positive prompt with the boxes of a case of the golden file. */
static graft_cond *boxes_of(const char *name)
{
    size_t n;
    char key[64];
    snprintf(key, sizeof key, "boxes.%s", name);
    float *b = golden_values(key, &n);
    graft_cond *c = graft_cond_retain(positive);
    for (int i = 0; i < (int)n / 4; i++)
        c = boxed(c, gligen, i,
                  (graft_area){(double)b[4 * i], (double)b[4 * i + 1], (double)b[4 * i + 2],
                               (double)b[4 * i + 3], false});
    free(b);
    return c;
}

static void run(const graft_model *m, const graft_cond *p, int calls, float out[N])
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_golden(m, p, negative, calls, out, &e), &e);
}

static bool same(const float a[N], const float b[N])
{
    return memcmp(a, b, N * sizeof *a) == 0;
}

/* ------------------------------------------------------------------ what it computes */

static void is_that_of_pytorch(void)
{
    static const char *const names[] = {"one", "three", "full"};
    float got[N];
    float *plain = golden_values("plain", NULL);
    run(model, positive, 0, got);
    CHECK(difference(got, plain, N) < 5e-5);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char key[64];
        snprintf(key, sizeof key, "out.%s", names[i]);
        float *want = golden_values(key, NULL);
        graft_cond *c = boxes_of(names[i]);
        run(model, c, 0, got);
        CHECK(difference(got, want, N) < 5e-5);
        CHECK(difference(got, plain, N) > 0.05);
        graft_cond_release(c);
        free(want);
    }
    free(plain);
}

static void in_bf16(void)
{
    const graft_compile_options o = {.precision = "bf16", .tuning = "off"};
    graft_model *m = NULL;
    graft_cond *c = boxes_of("three");
    graft_err e = GRAFT_ERR_INIT;
    float got[N], *want = golden_values("out.three", NULL);
    graft_status st = graft_model_compile(model, &o, NULL, &m, &e);
    if (!st) {
        run(m, c, 0, got);
        CHECK(difference(got, want, N) < 0.1 && difference(got, want, N) > 1e-5);
    }
    graft_model_release(m);
    graft_cond_release(c);
    free(want);
}

static void boxes_are_no_part_of_the_graph(void)
{
    graft_cond *a = boxes_of("one"), *b = boxes_of("three"), *c = boxes_of("full");
    float one[N], more[N], again[N];
    run(model, a, 0, one);
    const uint64_t before = graphs_built(engine);
    run(model, b, 0, more);
    CHECK(!same(one, more));
    run(model, c, 0, more);
    CHECK(!same(one, more));
    run(model, a, 0, again);
    CHECK(same(one, again));
    CHECK_INT(graphs_built(engine), before);
    graft_cond *const all[] = {a, b, c};
    for (int i = 0; i < 3; i++) graft_cond_release(all[i]);
}

/* In pixels a box is brought down to cells; in shares it is what it says. */
static void units_of_boxes(void)
{
    const graft_area cells = {8, 16, 40, 32, false}, more = {15, 23, 47, 39, false},
                     shares = {1 / 12.0, 2 / 8.0, 5 / 12.0, 4 / 8.0, true},
                     other = {16, 16, 40, 32, false};
    const graft_area *const boxes[] = {&cells, &more, &shares, &other};
    float got[4][N];
    for (int i = 0; i < 4; i++) {
        graft_cond *c = boxed(graft_cond_retain(positive), gligen, 0, *boxes[i]);
        run(model, c, 0, got[i]);
        graft_cond_release(c);
    }
    CHECK(same(got[0], got[1]));
    CHECK(difference(got[2], got[0], N) < 1e-5);
    CHECK(difference(got[3], got[0], N) > 1e-4);
}

/* ------------------------------------------------------------------ which prompts, and when */

/* The prompt without boxes beside one with them has what stands for none, and no row sees another
 * row's boxes. */
static void beside_prompts_without(void)
{
    graft_cond *a = boxes_of("one"), *two = NULL, *turned = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float with[N], first[N], second[N], plain[N];
    CHECK_OK(graft_cond_combine(a, positive, &two, &e), &e);
    CHECK_OK(graft_cond_combine(positive, a, &turned, &e), &e);
    run(model, a, 0, with);
    run(model, positive, 0, plain);
    run(model, two, 0, first);
    run(model, turned, 0, second);
    CHECK(difference(first, second, N) < 1e-5);
    CHECK(difference(first, with, N) > 1e-3 && difference(first, plain, N) > 1e-3);
    graft_cond *const all[] = {a, two, turned};
    for (int i = 0; i < 3; i++) graft_cond_release(all[i]);
}

/* A negative prompt for the area of a positive one says what it says, without that one's boxes. */
static void opposites_have_none(void)
{
    graft_cond *c = boxes_of("one"), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_add_placed(negative, negative->entry[0], c->entry[0], &out, &e), &e);
    CHECK(out && out->n == 2 && !out->entry[1]->boxes && c->entry[0]->boxes);
    graft_cond_release(out);
    CHECK_OK(graft_cond_add_placed(negative, c->entry[0], negative->entry[0], &out, &e), &e);
    CHECK(out && out->entry[1]->boxes == c->entry[0]->boxes);
    graft_cond_release(out);
    graft_cond_release(c);
}

/* Prompts of other lengths are batches of their own, each with its own boxes. */
static void in_several_batches(void)
{
    graft_cond *c[3] = {
        boxes_of("one"),
        boxed(place_prompt(model, 5, 2 * TOKENS), gligen, 7, (graft_area){40, 0, 48, 48, false}),
        NULL};
    graft_err e = GRAFT_ERR_INIT;
    float *x = golden_values("x", NULL), got[3][N], mean[N];
    CHECK_OK(graft_cond_combine(c[0], c[1], &c[2], &e), &e);
    for (int i = 0; i < 3; i++) {
        const one_call call = {model, c[i], c[i], 1, {2, 4, 8, 12}, NULL, NULL, 0};
        CHECK_OK(try_denoise(&call, x, got[i], &e), &e);
    }
    for (int i = 0; i < N; i++) mean[i] = (got[0][i] + got[1][i]) / 2;
    CHECK(difference(got[2], mean, N) < 1e-5 && difference(got[0], got[1], N) > 1e-2);
    for (int i = 0; i < 3; i++) graft_cond_release(c[i]);
    free(x);
}

/* Where no prompt with boxes is active the UNet is that without. */
static void outside_of_their_range(void)
{
    graft_cond *a = boxes_of("three"), *early = NULL, *late = NULL, *rest = NULL, *both_of = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float with[N], plain[N], got[N];
    CHECK_OK(graft_cond_timestep_range(a, 0, 0.9, &early, &e), &e); /* which has this sigma */
    CHECK_OK(graft_cond_timestep_range(a, 0.9, 1, &late, &e), &e);
    CHECK_OK(graft_cond_timestep_range(positive, 0, 0.9, &rest, &e), &e);
    CHECK_OK(graft_cond_combine(late, rest, &both_of, &e), &e);
    run(model, a, 0, with);
    run(model, positive, 0, plain);
    run(model, early, 0, got);
    CHECK(same(got, with));
    run(model, both_of, 0, got);
    CHECK(same(got, plain));
    graft_cond *const all[] = {a, early, late, rest, both_of};
    for (int i = 0; i < 5; i++) graft_cond_release(all[i]);
}

/* A prompt for a part of the picture sees its box from there: as a latent of that size would. */
static void in_an_area(void)
{
    graft_cond *c =
        in_cells(boxed(graft_cond_retain(positive), gligen, 0, (graft_area){32, 16, 32, 24, false}),
                 0, 4, 8, 8, 1);
    graft_cond *alone =
        boxed(graft_cond_retain(positive), gligen, 0, (graft_area){0, 16, 32, 24, false});
    graft_cond *plain = in_cells(graft_cond_retain(positive), 0, 4, 8, 8, 1);
    float whole[MOST], part[MOST], want[MOST], none[MOST], x[MOST], small[MOST];
    const one_call all = {model, c, c, 1, {1, 4, 8, 12}, NULL, NULL, 0};
    const one_call no = {model, plain, plain, 1, {1, 4, 8, 12}, NULL, NULL, 0};
    const one_call one = {model, alone, alone, 1, {1, 4, 8, 8}, NULL, NULL, 0};
    graft_err e = GRAFT_ERR_INIT;
    noise_of(&all, x);
    part_of(&all, x, 0, 4, 8, 8, small);
    CHECK_OK(try_denoise(&all, x, whole, &e), &e);
    CHECK_OK(try_denoise(&no, x, none, &e), &e);
    CHECK_OK(try_denoise(&one, small, want, &e), &e);
    part_of(&all, whole, 0, 4, 8, 8, part);
    CHECK(difference(part, want, 4 * 8 * 8) < 1e-5);
    part_of(&all, none, 0, 4, 8, 8, part);
    CHECK(difference(part, want, 4 * 8 * 8) > 1e-3);
    graft_cond *const lists[] = {c, alone, plain};
    for (int i = 0; i < 3; i++) graft_cond_release(lists[i]);
}

/* ------------------------------------------------------------------ beside all else */

static void beside_loras(void)
{
    static const char layer[] = "diffusion_model.middle_block.1.transformer_blocks.0.attn1.to_k";
    made_file *f = calloc(1, sizeof *f);
    graft_cond *c = boxes_of("one");
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float with[N], both_of[N], lora[N];
    char path[512];
    add_lora_pair(f, layer, 32, 32);
    snprintf(path, sizeof path, "%s", temp_path("lora.safetensors"));
    write_file(f, path, NULL);
    CHECK_OK(graft_lora_apply(model, NULL, path, 8, 0, NULL, &m, NULL, &e), &e);
    run(model, c, 0, with);
    run(m, c, 0, both_of);
    run(m, positive, 0, lora);
    CHECK(difference(both_of, with, N) > 1e-3 && difference(both_of, lora, N) > 1e-2);
    graft_model_release(m);
    graft_cond_release(c);
}

/* Both stand beside the network's weights. At strength 0 nothing but rounding is another's. */
static void beside_a_hypernetwork(void)
{
    static const int64_t shape[][2] = {{48, 24}, {24, 48}};
    made_file *f = calloc(1, sizeof *f);
    const char *metadata[] = {"activation_func", "relu", NULL};
    graft_cond *c = boxes_of("three");
    graft_model *none = NULL, *full = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float want[N], got[N], more[N], *net;
    char path[512], name[64];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "24.%d.linear.%d.weight", i / 2, 2 * (i % 2));
        net = add_tensor(f, name, 2, shape[i % 2], NULL, 0);
        for (int64_t k = 0; k < 48 * 24; k++) net[k] = 0.1f * fixed_value((uint64_t)(i * 5000 + k));
    }
    snprintf(path, sizeof path, "%s", temp_path("hyper.safetensors"));
    CHECK_OK(graft_safetensors_write(path, f->tensor, f->n, metadata, 1, &e), &e);
    finish_file(f);
    CHECK_OK(graft_model_hypernetwork(model, path, 0, NULL, &none, &e), &e);
    CHECK_OK(graft_model_hypernetwork(model, path, 1, NULL, &full, &e), &e);
    run(model, c, 0, want);
    run(none, c, 0, got);
    run(full, c, 0, more);
    CHECK(difference(got, want, N) < 2e-5 && difference(more, want, N) > 1e-3);
    graft_model_release(none);
    graft_model_release(full);
    graft_cond_release(c);
}

/* Fast steps take the same input, and begin anew where boxes begin; so does a model of other
 * weights, here the same ones again. */
static void beside_deepcache_and_other_weights(void)
{
    graft_cond *c = boxes_of("full");
    graft_model *d = with_deepcache(model, 3, 0, 0);
    graft_model *swapped = swap_weights(model, GOLDEN, false);
    float whole[N], fast[N], again[N];
    run(model, c, 0, whole);
    run(d, c, 2, fast);
    CHECK(difference(fast, whole, N) < 2e-5);
    run(swapped, c, 0, again);
    CHECK(same(again, whole));
    graft_model_release(d);
    graft_model_release(swapped);
    graft_cond_release(c);
}

/* Two steps of DeepCache between which boxes end, and which therefore are both whole. */
static void boxes_that_end_between_steps(void)
{
    graft_cond *a = boxes_of("three"), *early = NULL, *all = NULL;
    graft_model *d = with_deepcache(model, 3, 0, 0);
    graft_sigma_table table;
    graft_guided *g = NULL, *plain = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float *x = golden_values("x", NULL), *numbers = golden_values("numbers", NULL);
    float first[N], second[N], want[N];
    graft_model_sigma_table(model, &table);
    CHECK_OK(graft_cond_timestep_range(a, 0, 0.9, &early, &e), &e);
    CHECK_OK(graft_cond_combine(early, positive, &all, &e), &e);
    graft_guided_config k = {.model = d,
                             .table = &table,
                             .positive = all,
                             .negative = negative,
                             .cfg = 3,
                             .shape = {2, 4, 8, 12},
                             .steps = 2};
    const float end = graft_percent_to_sigma(&table, 0.95);
    CHECK_OK(graft_guided_create(&k, &g, &e), &e);
    k.model = model;
    k.positive = positive;
    CHECK_OK(graft_guided_create(&k, &plain, &e), &e);
    graft_denoiser one = graft_guided_denoiser(g), other = graft_guided_denoiser(plain);
    graft_guided_step(g, 0);
    CHECK_OK(one.denoise(one.ctx, x, numbers[0], first, &e), &e);
    graft_guided_step(g, 1);
    CHECK_OK(one.denoise(one.ctx, x, end, second, &e), &e);
    CHECK_OK(other.denoise(other.ctx, x, end, want, &e), &e);
    CHECK(difference(second, want, N) < 2e-5);
    graft_guided_destroy(g);
    graft_guided_destroy(plain);
    graft_model_release(d);
    graft_cond *const lists[] = {a, early, all};
    for (int i = 0; i < 3; i++) graft_cond_release(lists[i]);
    free(x);
    free(numbers);
}

static void beside_perturbed_attention_and_tiles(void)
{
    const graft_hypertile_options tiles = {32, 2, 1, false};
    graft_cond *c = boxes_of("three");
    graft_model *p = NULL, *t = NULL, *both_of = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float whole[N], got[N], more[N];
    CHECK_OK(graft_model_perturbed_attention(model, 3, &p, &e), &e);
    CHECK_OK(graft_model_hypertile(model, &tiles, &t, &e), &e);
    CHECK_OK(graft_model_hypertile(p, &tiles, &both_of, &e), &e);
    run(model, c, 0, whole);
    run(p, c, 0, got);
    CHECK(difference(got, whole, N) > 1e-3);
    run(t, c, 0, more);
    CHECK(difference(more, whole, N) < 0.5);
    run(both_of, c, 0, more);
    CHECK(difference(more, got, N) < 0.5);
    graft_model *const all[] = {p, t, both_of};
    for (int i = 0; i < 3; i++) graft_model_release(all[i]);
    graft_cond_release(c);
}

/* Quantized layers stay near, and GLIGEN's are none of them. */
static void beside_quantization(void)
{
    graft_model *q = graft_model_copy(model);
    graft_cond *c = boxes_of("three");
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_unet_use use = {
        .pictures = 2, .entries = 1, .height = 8, .width = 12, .tokens = TOKENS, .boxed = gligen};
    float whole[N], got[N];
    size_t quantized = 0, own = 0;
    q->quant.bits = 8;
    memset(q->quant.set, 0xff, sizeof q->quant.set);
    run(model, c, 0, whole);
    run(q, c, 0, got);
    CHECK(difference(got, whole, N) < 0.1 && difference(got, whole, N) > 1e-4);
    CHECK_OK(graft_model_bind_guided(q, &use, NULL, &b, &e), &e);
    for (size_t i = 0; b && i < b->exe->graph->n_nodes; i++) {
        const graft_gnode *n = &b->exe->graph->node[i];
        const graft_vid w = n->op == GRAFT_OP_LINEAR ? n->in[GRAFT_LINEAR_W] : GRAFT_NO_VALUE;
        if (w < 0) continue;
        const graft_gvalue *v = &b->exe->graph->value[w];
        const bool fuser = strstr(b->exe->graph->slot[v->index].source[0], ".fuser.") != NULL;
        quantized += n->attrs.quant != GRAFT_QUANT_NONE;
        own += fuser;
        CHECK(!fuser || n->attrs.quant == GRAFT_QUANT_NONE);
    }
    CHECK(quantized > 10 && own > 10);
    graft_binding_release(b);
    graft_model_release(q);
    graft_cond_release(c);
}

/* What is compiled ahead is what sampling runs. */
static void compiled_ahead(void)
{
    graft_cond *c = boxes_of("one");
    graft_latent *empty = NULL, *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_task task = {.compile_only = true};
    const graft_sample_params o = {.add_noise = true,
                                   .steps = 2,
                                   .cfg = 3,
                                   .sampler = "euler",
                                   .scheduler = "normal",
                                   .denoise = 1,
                                   .end_at_step = 2};
    CHECK_OK(graft_latent_empty(4, 8 * 20, 8 * 16, 1, &empty, &e), &e);
    CHECK_OK(graft_sample(model, &o, c, negative, empty, &task, &out, &e), &e);
    graft_latent_release(out);
    out = NULL;
    const uint64_t before = graphs_built(engine);
    CHECK_OK(graft_sample(model, &o, c, negative, empty, NULL, &out, &e), &e);
    CHECK_INT(graphs_built(engine), before);
    graft_latent_release(out);
    graft_latent_release(empty);
    graft_cond_release(c);
}

/* ------------------------------------------------------------------ files */

static graft_status try_load(made_file *f, graft_err *e)
{
    graft_gligen *g = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s", temp_path("gligen.safetensors"));
    write_file(f, path, NULL);
    graft_status st = graft_gligen_load(engine, path, NULL, &g, e);
    graft_gligen_release(g);
    return st;
}

static made_file *parts(void)
{
    graft_safetensors *f = open_file(PARTS);
    made_file *m = copy_file(f, "");
    graft_safetensors_close(f);
    return m;
}

/* Renames, or with NULL takes away. */
static void change(made_file *f, const char *name, const char *to)
{
    graft_st_tensor *t = made_find(f, name);
    CHECK(t != NULL);
    free((char *)t->name);
    if (to) {
        t->name = strdup(to);
        return;
    }
    free((void *)t->data);
    *t = f->tensor[--f->n];
}

static void files(void)
{
    static const struct {
        const char *name, *to;
        graft_status status;
        const char *words;
    } cases[] = {
        {"position_net.linears.2.bias", NULL, GRAFT_E_FORMAT, "position_net.linears.2.bias"},
        {"position_net.null_positive_feature", NULL, GRAFT_E_FORMAT, "null_positive_feature"},
        {"position_net.null_position_feature", NULL, GRAFT_E_FORMAT, "null_position_feature"},
        {FUSER "alpha_attn", NULL, GRAFT_E_FORMAT, FUSER "alpha_attn"},
        {FUSER "attn.to_q.weight", NULL, GRAFT_E_FORMAT, FUSER "attn.to_q.weight"},
        {"position_net.linears.0.weight", "position_net.linears_text.0.weight", GRAFT_E_UNSUPPORTED,
         "texts and pictures"},
        {"position_net.linears.0.weight", "position_net.person_embeddings", GRAFT_E_UNSUPPORTED,
         "keypoints"},
        {"position_net.linears.0.weight", "position_net.convnext_tiny_backbone.weight",
         GRAFT_E_UNSUPPORTED, "maps"},
    };
    graft_gligen *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(gligen->arch.n, 5);
    CHECK_INT(gligen->arch.text, 24);
    CHECK_INT(gligen->arch.waves, 64);
    CHECK_INT(gligen->arch.width, 18);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made_file *f = parts();
        change(f, cases[i].name, cases[i].to);
        CHECK_INT(try_load(f, &e), cases[i].status);
        CHECK(strstr(e.text, cases[i].words) != NULL);
        if (!strstr(e.text, cases[i].words)) fprintf(stderr, "in: %s\n", e.text);
    }
    CHECK_INT(graft_gligen_load(engine, GOLDEN, NULL, &g, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!g && strstr(e.text, "no GLIGEN in it") != NULL);
}

/* The authors' files have the whole UNet beside the parts, which is not looked at, and both below
 * "model.". */
static void a_whole_file(void)
{
    static const int64_t shape[] = {32, 32};
    static const char own[] = "middle_block.1.transformer_blocks.0.attn1.to_q.weight";
    made_file *f = parts();
    graft_cond *c = boxes_of("one"), *d;
    char path[512];
    float want[N], got[N];
    add_tensor(f, own, 2, shape, NULL, 3.0f);
    for (size_t i = 0; i < f->n; i++) {
        char name[200];
        snprintf(name, sizeof name, "model.%s", f->tensor[i].name);
        free((char *)f->tensor[i].name);
        f->tensor[i].name = strdup(name);
    }
    snprintf(path, sizeof path, "%s", temp_path("whole.safetensors"));
    write_file(f, path, NULL);
    graft_gligen *g = load(path);
    d = boxed(graft_cond_retain(positive), g, 0, (graft_area){8, 16, 40, 32, false});
    run(model, c, 0, want);
    run(model, d, 0, got);
    CHECK(same(want, got));
    graft_gligen_release(g);
    graft_cond_release(c);
    graft_cond_release(d);
}

/* Opens the file, puts a text into a box and predicts once. */
static graft_status all_of_it(const float text[24], const float *x, float out[N], graft_err *e)
{
    const graft_area area = {8, 16, 40, 32, false};
    graft_gligen *g = NULL;
    graft_cond *c = NULL;
    graft_status st = graft_gligen_load(engine, PARTS, NULL, &g, e);
    if (!st) st = graft_cond_with_box(positive, g, &area, text, &c, e);
    const one_call call = {model, c, negative, 3, {2, 4, 8, 12}, NULL, NULL, 0};
    if (!st) st = try_denoise(&call, x, out, e);
    graft_cond_release(c);
    graft_gligen_release(g);
    return st;
}

static void memory_may_end_anywhere(void)
{
    const float text[24] = {1};
    float want[N], got[N], *x = golden_values("x", NULL);
    graft_alloc_stats before, after;
    graft_err e = GRAFT_ERR_INIT;
    int n = 0;
    CHECK_OK(all_of_it(text, x, want, &e), &e);
    graft_alloc_stats_get(&before);
    for (graft_status st = GRAFT_E_NOMEM; st && n < 20000;) {
        graft_alloc_fail_at(++n);
        st = all_of_it(text, x, got, &e);
        graft_alloc_fail_at(0);
        CHECK(!st || st == GRAFT_E_NOMEM);
        if (st && st != GRAFT_E_NOMEM) fprintf(stderr, "allocation %d: %s\n", n, e.text);
    }
    CHECK(n > 50 && n < 20000);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    CHECK_OK(all_of_it(text, x, got, &e), &e);
    CHECK(same(got, want));
    free(x);
}

/* ------------------------------------------------------------------ what is refused */

static void refused_boxes(void)
{
    const graft_area good = {0, 0, 8, 8, false}, bad = {-8, 0, 8, 8, false},
                     none = {0, 0, (double)NAN, 8, false};
    float text[24] = {0};
    graft_cond *full = boxes_of("full"), *c = boxes_of("one"), *out = NULL;
    made_file *f = parts();
    char path[512];
    graft_err e = GRAFT_ERR_INIT;
    snprintf(path, sizeof path, "%s", temp_path("other.safetensors"));
    write_file(f, path, NULL);
    graft_gligen *other = load(path), *again = load(PARTS);
    CHECK_INT(graft_cond_with_box(full, gligen, &good, text, &out, &e), GRAFT_E_LIMIT);
    CHECK(strstr(e.text, "at most 30") != NULL);
    CHECK_INT(graft_cond_with_box(c, gligen, &bad, text, &out, &e), GRAFT_E_ARG);
    CHECK_INT(graft_cond_with_box(c, gligen, &none, text, &out, &e), GRAFT_E_ARG);
    CHECK_INT(graft_cond_with_box(c, other, &good, text, &out, &e), GRAFT_E_ARG);
    CHECK(!out && strstr(e.text, "another GLIGEN") != NULL);
    CHECK_OK(graft_cond_with_box(c, again, &good, text, &out, &e), &e);
    graft_cond_release(out);
    graft_gligen_release(other);
    graft_gligen_release(again);
    graft_cond_release(full);
    graft_cond_release(c);
}

static void refused_models(void)
{
    graft_model *flow = load_model(engine, MMDIT), *narrow = NULL;
    graft_cond *c = boxes_of("one"), *d, *mixed = NULL;
    made_file *f = parts();
    graft_err e = GRAFT_ERR_INIT;
    char path[512];
    float got[N];
    const graft_gligen *found = NULL;
    CHECK_INT(graft_gligen_check(flow, (const graft_cond *const[]){c}, 1, &found, &e),
              GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "GLIGEN") != NULL);
    narrow = graft_model_copy(model);
    narrow->arch.unet.middle_transformer = 1;
    CHECK_INT(try_golden(narrow, c, negative, 0, got, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "another kind") != NULL);
    snprintf(path, sizeof path, "%s", temp_path("other.safetensors"));
    write_file(f, path, NULL);
    graft_gligen *other = load(path);
    d = boxed(graft_cond_retain(positive), other, 0, (graft_area){0, 0, 8, 8, false});
    CHECK_OK(graft_cond_combine(c, d, &mixed, &e), &e);
    CHECK_INT(try_golden(model, mixed, negative, 0, got, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "different GLIGENs") != NULL);
    CHECK_INT(try_golden(model, c, d, 0, got, &e), GRAFT_E_ARG);
    graft_gligen_release(other);
    graft_cond *const all[] = {c, d, mixed};
    for (int i = 0; i < 3; i++) graft_cond_release(all[i]);
    graft_model_release(narrow);
    graft_model_release(flow);
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    graft_safetensors *f = open_file(GOLDEN);
    golden = f;
    for (int i = 0; i < 2; i++) {
        if (!begin_golden(backends[i], GOLDEN)) return test_end();
        gligen = load(PARTS);
        RUN(is_that_of_pytorch);
        RUN(in_bf16);
        RUN(boxes_are_no_part_of_the_graph);
        RUN(units_of_boxes);
        RUN(beside_prompts_without);
        RUN(opposites_have_none);
        RUN(in_several_batches);
        RUN(outside_of_their_range);
        RUN(in_an_area);
        RUN(beside_loras);
        RUN(beside_a_hypernetwork);
        RUN(beside_deepcache_and_other_weights);
        RUN(boxes_that_end_between_steps);
        RUN(beside_perturbed_attention_and_tiles);
        RUN(beside_quantization);
        RUN(compiled_ahead);
        RUN(files);
        RUN(a_whole_file);
        RUN(memory_may_end_anywhere);
        RUN(refused_boxes);
        RUN(refused_models);
        graft_gligen_release(gligen);
        end_golden();
    }
    graft_safetensors_close(f);
    return test_end();
}

/* Quantized models: plans, what they choose, and how they go with everything else. */
#include "base/alloc.h"
#include "tests/engine/fixture.h"
#include "tests/locale.h"

static graft_engine *engine;

static graft_quant_plan *plan_of(const graft_model *m)
{
    graft_quant_plan *p = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_net_shape shape = {
        .batch = 2, .height = 8, .width = 8, .tokens = TOKENS, .act_dtype = GRAFT_F32};
    CHECK_OK(graft_quant_plan_create(&m->arch, &shape, &p, &e), &e);
    return p;
}

static const graft_quant_layer *find(const graft_quant_plan *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->layer[i].name, name) == 0) return &p->layer[i];
    fprintf(stderr, "no layer %s\n", name);
    abort();
}

static const graft_quant_limits everything = {{true, true, true}, {1, 1, 1}, 0};

static graft_model *quantized(const graft_model *m, graft_quant quant, graft_quant_limits limits)
{
    graft_quant_plan *p = plan_of(m);
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    p->bits = quant == GRAFT_QUANT_INT4 ? 4 : 8;
    p->format = quant == GRAFT_QUANT_FP8 ? GRAFT_FORMAT_FP8 : GRAFT_FORMAT_INT;
    graft_quant_plan_select(p, &limits);
    CHECK_OK(graft_model_with_plan(m, p, &out, &e), &e);
    graft_quant_plan_destroy(p);
    return out;
}

/* ------------------------------------------------------------------ plans */

static void density_by_hand(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_quant_plan *p = plan_of(m);
    /* Batch 2, 8x8 latent, 64 channels: 128 rows of 64 into 64, and a 3x3 convolution. */
    const graft_quant_layer *l = find(p, "input_blocks.1.1.transformer_blocks.0.attn1.to_q");
    double rows = 128, k = 64, n = 64;
    CHECK_INT(l->kind, GRAFT_LAYER_LINEAR);
    CHECK_NEAR(l->density, 2 * rows * k * n / (2 * (rows * k + k * n + rows * n)), 1e-9);
    CHECK_NEAR(l->flops, 2 * rows * k * n, 1e-9);
    const graft_quant_layer *c = find(p, "input_blocks.1.0.in_layers.2");
    CHECK_INT(c->kind, GRAFT_LAYER_CONV);
    CHECK_NEAR(c->flops, 2.0 * 128 * 64 * 64 * 9, 1e-6);
    CHECK_NEAR(c->density, c->flops / (2 * (128 * 64 + 64 * 64 * 9 + 128 * 64)), 1e-9);
    /* 64 queries on as many keys, or on those of the context. */
    const graft_quant_layer *t = find(p, "input_blocks.1.1.transformer_blocks.0.attn1");
    CHECK(t->kind == GRAFT_LAYER_ATTENTION && t->dim[0] * t->dim[1] == 64);
    CHECK(t->dim[2] == 64 && t->dim[3] == 64);
    CHECK_NEAR(t->flops, 4.0 * 2 * 64 * 64 * 64, 1e-6);
    CHECK_NEAR(t->density, 64.0 * 64 / (64 + 64), 1e-9);
    t = find(p, "input_blocks.1.1.transformer_blocks.0.attn2");
    CHECK(t->dim[2] == 64 && t->dim[3] == TOKENS && t->reason == GRAFT_QUANT_UNKNOWN);
    CHECK_NEAR(t->density, 64.0 * TOKENS / (64 + TOKENS), 1e-9);
    CHECK_NEAR(p->other_flops, 0, 1e-9);
    CHECK_INT(find(p, "input_blocks.0.0")->reason, GRAFT_QUANT_KEPT);
    CHECK_INT(find(p, "out.2")->reason, GRAFT_QUANT_KEPT);
    CHECK_INT(find(p, "time_embed.0")->reason, GRAFT_QUANT_KEPT);
    CHECK_INT(c->reason, GRAFT_QUANT_UNKNOWN);
    graft_quant_plan_destroy(p);
    graft_model_release(m);
}

static void thresholds(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_quant_plan *p = plan_of(m);
    size_t kept = 0, convs = 0, attentions = 0;
    for (size_t i = 0; i < p->n; i++) kept += p->layer[i].reason == GRAFT_QUANT_KEPT;
    for (size_t i = 0; i < p->n; i++) {
        p->layer[i].mse = (double)i / (double)p->n;
        attentions += p->layer[i].kind == GRAFT_LAYER_ATTENTION;
        convs += p->layer[i].kind == GRAFT_LAYER_CONV && p->layer[i].reason != GRAFT_QUANT_KEPT;
    }
    CHECK_INT(graft_quant_plan_select(p, &everything), p->n - kept);
    graft_quant_limits k = everything;
    for (int i = 0; i < GRAFT_LAYER_KINDS; i++) k.mse[i] = 0;
    p->layer[p->n / 2].mse = 0; /* not even what costs nothing */
    CHECK_INT(graft_quant_plan_select(p, &k), 0);
    CHECK_INT(p->layer[p->n / 2].reason, GRAFT_QUANT_ERROR);
    p->layer[p->n / 2].mse = 0.5;
    k.mse[GRAFT_LAYER_CONV] = 1;
    CHECK_INT(graft_quant_plan_select(p, &k), convs);
    k.on[GRAFT_LAYER_CONV] = false;
    CHECK_INT(graft_quant_plan_select(p, &k), 0);
    k = everything;
    for (int i = 0; i < 2; i++) { /* what attention cannot be quantized to */
        p->bits = i ? 8 : 4;
        p->format = i ? GRAFT_FORMAT_FP8 : GRAFT_FORMAT_INT;
        CHECK_INT(graft_quant_plan_select(p, &k), p->n - kept - attentions);
        CHECK_INT(graft_quant_plan_count(p, GRAFT_QUANT_KIND), attentions);
    }
    p->format = GRAFT_FORMAT_INT;
    k.on[GRAFT_LAYER_CONV] = k.on[GRAFT_LAYER_LINEAR] = false;
    CHECK_INT(graft_quant_plan_select(p, &k), attentions);
    k = everything;
    k.density = 1e9;
    CHECK_INT(graft_quant_plan_select(p, &k), 0);
    k.density = 30;
    graft_quant_plan_select(p, &k);
    for (size_t i = 0; i < p->n; i++)
        if (p->layer[i].reason != GRAFT_QUANT_KEPT)
            CHECK((p->layer[i].reason == GRAFT_QUANT_CHOSEN) == (p->layer[i].density >= 30));
    k = everything;
    for (int i = 0; i < GRAFT_LAYER_KINDS; i++) k.mse[i] = 0.5;
    p->layer[p->n / 4].mse = NAN;
    graft_quant_plan_select(p, &k);
    for (size_t i = 0; i < p->n; i++) {
        if (p->layer[i].reason == GRAFT_QUANT_KEPT) continue;
        CHECK((p->layer[i].reason == GRAFT_QUANT_CHOSEN) == (p->layer[i].mse <= 0.5));
    }
    graft_quant_plan_destroy(p);
    graft_model_release(m);
}

/* What a few layers showed is a floor, not a ratio that holds for many. */
static void joint_errors_that_were_not_sampled(void)
{
    graft_quant_plan p = {.understated = 1};
    CHECK(graft_quant_plan_predict(&p, 0.3) == 0.3 && graft_quant_plan_budget(&p, 0.3) == 0.3);
    CHECK(!graft_quant_plan_measured(&p));
    p.understated = 1e6; /* 1e-3, of layers whose estimates add up to 1e-9 */
    p.excess = 1e-3;
    CHECK(fabs(graft_quant_plan_predict(&p, 0.09) - 0.091) < 1e-12);
    CHECK(fabs(graft_quant_plan_budget(&p, 0.1) - 0.099) < 1e-12);
    CHECK(fabs(graft_quant_plan_predict(&p, 1e-10) - 1e-4) < 1e-12);
    CHECK(fabs(graft_quant_plan_budget(&p, 1e-4) - 1e-10) < 1e-18);
    p.excess = INFINITY; /* plans of earlier releases */
    CHECK(fabs(graft_quant_plan_budget(&p, 0.1) - 1e-7) < 1e-15);
    CHECK(fabs(graft_quant_plan_predict(&p, 1e-7) - 0.1) < 1e-9);
    graft_quant_limits k = {{false, true, true}, {1, 0.2, 0.5}, 0};
    CHECK(graft_quant_limits_joint(&k) ==
          0.2); /* of the kinds that are on; attention adds nothing */
    k.on[GRAFT_LAYER_CONV] = true;
    CHECK(graft_quant_limits_joint(&k) == 1);
    k.on[GRAFT_LAYER_CONV] = false;
    k.mse[GRAFT_LAYER_LINEAR] = 0;
    CHECK(graft_quant_limits_joint(&k) == 0.5); /* unless it is alone */
}

/* A host may have any locale; a plan's file is the same in all. */
static void json_in_another_locale(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_quant_plan *p = plan_of(m), *q = NULL;
    graft_str here = GRAFT_STR_INIT, there = GRAFT_STR_INIT;
    graft_err e = GRAFT_ERR_INIT;
    p->joint_mse = 0.5;
    CHECK_OK(graft_quant_plan_write(p, &here, &e), &e);
    if (locale_begin()) {
        CHECK_OK(graft_quant_plan_write(p, &there, &e), &e);
        CHECK_STR(there.data, here.data);
        CHECK_OK(graft_quant_plan_read(here.data, here.len, "plan", &q, &e), &e);
        CHECK(q && q->joint_mse == 0.5);
    }
    locale_end();
    graft_str_finish(&here);
    graft_str_finish(&there);
    graft_quant_plan_destroy(q);
    graft_quant_plan_destroy(p);
    graft_model_release(m);
}

static void json_there_and_back(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_quant_plan *p = plan_of(m), *q = NULL;
    graft_str a = GRAFT_STR_INIT, b = GRAFT_STR_INIT;
    graft_err e = GRAFT_ERR_INIT;
    graft_quant_plan_select(p, &everything);
    p->layer[3].mse = 1.25e-7;
    p->joint_mse = 0.5;
    p->understated = 3;
    p->excess = 0.25;
    p->weights = (graft_hash){0x0123456789abcdefu, 0xfedcba9876543210u};
    CHECK_OK(graft_quant_plan_write(p, &a, &e), &e);
    CHECK_OK(graft_quant_plan_read(a.data, a.len, "plan", &q, &e), &e);
    CHECK_OK(graft_quant_plan_write(q, &b, &e), &e);
    CHECK_STR(b.data, a.data);
    CHECK(!strstr(a.data, "values") && q->format == GRAFT_FORMAT_INT);
    CHECK(graft_hash_equal(p->weights, q->weights) && graft_hash_equal(p->arch, q->arch));
    CHECK(q->understated == 3 && q->excess == 0.25);
    CHECK(p->n == q->n && q->layer[3].mse == 1.25e-7 && isnan(q->layer[4].mse));
    graft_quant_plan_destroy(q);
    p->format = GRAFT_FORMAT_FP8;
    graft_quant_plan_select(p, &everything);
    graft_str_finish(&a);
    CHECK_OK(graft_quant_plan_write(p, &a, &e), &e);
    CHECK_OK(graft_quant_plan_read(a.data, a.len, "plan", &q, &e), &e);
    CHECK(strstr(a.data, "\"values\": \"fp8_e4m3fn\"") && q->format == GRAFT_FORMAT_FP8);
    graft_quant_plan_destroy(q);
    /* Cut anywhere, or with one byte changed: an error or a plan, never more. */
    for (size_t n = 0; n < a.len - 2; n += 97) {
        q = NULL;
        CHECK(graft_quant_plan_read(a.data, n, "plan", &q, &e) == GRAFT_E_FORMAT && !q);
    }
    for (size_t at = 0; at < a.len; at += 31) {
        char was = a.data[at];
        a.data[at] = (char)('0' + at % 70);
        q = NULL;
        graft_status st = graft_quant_plan_read(a.data, a.len, "plan", &q, &e);
        CHECK(st == GRAFT_OK ? q != NULL : st == GRAFT_E_FORMAT && !q);
        graft_quant_plan_destroy(q);
        a.data[at] = was;
    }
    for (int64_t at = 1; at < 40; at++) {
        q = NULL;
        graft_alloc_fail_at(at);
        graft_status st = graft_quant_plan_read(a.data, a.len, "plan", &q, &e);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK || st == GRAFT_E_NOMEM);
        graft_quant_plan_destroy(q);
    }
    graft_str_finish(&a);
    graft_str_finish(&b);
    graft_quant_plan_destroy(p);
    graft_model_release(m);
}

static void hostile_json(void)
{
    static const char *const texts[] = {
        "",
        "[]",
        "null",
        "{}",
        "{\"format\": \"graft-quantization-plan\"}",
        "{\"format\": \"graft-quantization-plan\", \"version\": 2}",
        "{\"format\": \"graft-quantization-plan\", \"version\": 1e300, \"bits\": 8}",
        "{\"format\": \"graft-quantization-plan\", \"version\": 1, \"bits\": 5}",
        "{\"format\": \"graft-quantization-plan\", \"version\": 1, \"bits\": 8, \"layers\": 7}",
        "{\"format\": \"graft-quantization-plan\", \"version\": 1, \"bits\": 8, \"values\": "
        "\"fp9\"}",
        "{\"format\": \"graft-quantization-plan\", \"version\": 1, \"bits\": 4, "
        "\"values\": \"fp8_e4m3fn\"}",
        "{\"format\": 3, \"version\": 1, \"bits\": 8}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        graft_quant_plan *p = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(graft_quant_plan_read(texts[i], strlen(texts[i]), "plan", &p, &e),
                  GRAFT_E_FORMAT);
        CHECK(!p && e.text[0]);
    }
    static const struct {
        const char *version, *want;
    } versions[] = {{"", "plan does not say which version of the plan format it has; this program "
                         "reads version 1"},
                    {", \"version\": \"one\"", "does not say which version"},
                    {", \"version\": 2", "plan has version 2 of the plan format"},
                    {", \"version\": -1", "plan has version -1 of the plan format"}};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        char text[120];
        graft_quant_plan *p = NULL;
        graft_err e = GRAFT_ERR_INIT;
        snprintf(text, sizeof text, "{\"format\": \"graft-quantization-plan\"%s}",
                 versions[i].version);
        CHECK_INT(graft_quant_plan_read(text, strlen(text), "plan", &p, &e), GRAFT_E_FORMAT);
        CHECK(!p && strstr(e.text, versions[i].want));
    }
    enum { DEEP = 100000 };
    char *deep = malloc(DEEP);
    memset(deep, '[', DEEP);
    graft_quant_plan *p = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_quant_plan_read(deep, DEEP, "plan", &p, &e), GRAFT_E_FORMAT);
    free(deep);
}

/* Where `from` stands first behind the layer's name comes `to`: the plan makes no sense then. */
static void senseless(const graft_str *text, const char *layer, const char *from, const char *to)
{
    graft_str s = GRAFT_STR_INIT;
    graft_quant_plan *p = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const char *at = strstr(text->data, layer);
    if (at) at = strstr(at, from);
    CHECK(at);
    if (!at) return;
    graft_str_printf(&s, "%.*s%s%s", (int)(at - text->data), text->data, to, at + strlen(from));
    CHECK_INT(graft_quant_plan_read(s.data, s.len, "plan", &p, &e), GRAFT_E_FORMAT);
    CHECK(!p && strstr(e.text, " damaged"));
    graft_str_finish(&s);
}

static void plans_that_contradict_themselves(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_quant_plan *p = plan_of(m);
    graft_str s = GRAFT_STR_INIT;
    graft_err e = GRAFT_ERR_INIT;
    const char *kept = "\"chosen\": false, \"reason\": \"kept\"";
    const char *chosen = "\"chosen\": true, \"reason\": \"chosen\"";
    graft_quant_plan_select(p, &everything);
    CHECK_OK(graft_quant_plan_write(p, &s, &e), &e);
    senseless(&s, "\"time_embed.0\"", kept, chosen);
    senseless(&s, "\"input_blocks.0.0\"", kept, chosen);
    senseless(&s, "\"out.2\"", kept, chosen);
    senseless(&s, "\"input_blocks.1.0.in_layers.2\"", "true", "false");
    senseless(&s, "\"input_blocks.1.0.in_layers.2\"", "\"chosen\"}", "\"error\"}");
    senseless(&s, "\"out.2\"", "\"flops\": ", "\"flops\": 1e300, \"was\": "); /* sums overflow */
    senseless(&s, "\"out.2\"", "\"density\": ", "\"density\": 1e19, \"was\": ");
    senseless(&s, "\"shape\"", "\"height\": ", "\"height\": 2147483647, \"was\": ");
    senseless(&s, "\"joint\"", "\"excess\": ", "\"excess\": -1, \"was\": ");
    senseless(&s, "\"time\"", "\"step\": ", "\"step\": 1e19, \"was\": ");
    senseless(&s, "\"limits\"", "\"attention\": true", "\"attention\": 1");
    senseless(&s, "\"limits\"", "\"attention_mse\": 1, ", "");
    senseless(&s, "blocks.0.attn1\"", "\"kind\": \"attention\"", "\"kind\": \"linear\"");
    senseless(&s, "\"bits\"", "8", "4"); /* in which no attention is chosen */
    graft_str_finish(&s);
    graft_quant_plan_destroy(p);
    graft_model_release(m);
}

static void other_architecture(void)
{
    graft_model *demo = load_model(engine, DEMO), *sd1 = load_model(engine, SD1), *out = NULL;
    graft_quant_plan *p = plan_of(demo);
    graft_err e = GRAFT_ERR_INIT;
    graft_quant_plan_select(p, &everything);
    CHECK_INT(graft_model_with_plan(sd1, p, &out, &e), GRAFT_E_ARG);
    CHECK(!out);
    graft_quant_plan_destroy(p);
    graft_model_release(sd1);
    graft_model_release(demo);
}

/* ------------------------------------------------------------------ models */

/* Layers with weights. */
static size_t count_quantized(const graft_model *m, graft_variant variant, graft_quant quant)
{
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0;
    CHECK_OK(graft_model_bind_variant(m, variant, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    for (size_t i = 0; b && i < b->exe->graph->n_nodes; i++)
        n += b->exe->graph->node[i].attrs.quant == quant &&
             b->exe->graph->node[i].op != GRAFT_OP_ATTENTION;
    graft_binding_release(b);
    return n;
}

static void results(const char *path)
{
    graft_model *m = load_model(engine, path);
    graft_quant_limits nothing = everything;
    for (int i = 0; i < GRAFT_LAYER_KINDS; i++) nothing.mse[i] = 0;
    graft_model *q8 = quantized(m, GRAFT_QUANT_INT8, everything);
    graft_model *q4 = quantized(m, GRAFT_QUANT_INT4, everything);
    graft_model *f8 = quantized(m, GRAFT_QUANT_FP8, everything);
    graft_model *q0 = quantized(m, GRAFT_QUANT_INT8, nothing);
    float plain[OUT], with8[OUT], with4[OUT], with_floats[OUT], with0[OUT];
    run_model(m, plain);
    run_model(q8, with8);
    run_model(q4, with4);
    run_model(f8, with_floats);
    run_model(q0, with0);
    CHECK(same_bits(plain, with0));
    double d8 = difference(with8, plain, OUT), d4 = difference(with4, plain, OUT);
    double df = difference(with_floats, plain, OUT);
    printf("%s: largest difference int8 %.4f, fp8 %.4f, int4 %.4f\n", strrchr(path, '/') + 1, d8,
           df, d4);
    CHECK(d8 > 0 && d8 < 0.1);
    CHECK(d4 > 0 && d4 < 0.6);
    CHECK(df > 0 && df < 0.3);
    CHECK(count_quantized(q8, GRAFT_WHOLE, GRAFT_QUANT_INT8) > 20);
    CHECK(count_quantized(q4, GRAFT_WHOLE, GRAFT_QUANT_INT4) > 20);
    CHECK_INT(count_quantized(f8, GRAFT_WHOLE, GRAFT_QUANT_FP8),
              count_quantized(q8, GRAFT_WHOLE, GRAFT_QUANT_INT8));
    CHECK_INT(count_quantized(q0, GRAFT_WHOLE, GRAFT_QUANT_INT8), 0);
    graft_model *all[] = {m, q8, q4, q0, f8};
    for (int i = 0; i < 5; i++) graft_model_release(all[i]);
}

static void against_plain(void)
{
    results(DEMO);
    results(SD1);
    results(SDXL);
}

/* CompileModel, DeepCache and SwapWeights before or after: the same bits. */
static void any_order_of(graft_quant quant)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_compile_options o = {"f32", "off", "auto", 0, false, false, 0, 0, 0};
    const graft_deepcache_options d = {3, 0, 1, 0, 1000, "uniform", 0, false};
    graft_model *m = load_model(engine, DEMO), *a1 = NULL, *a2 = NULL, *b1 = NULL, *b2 = NULL;
    float one[OUT], two[OUT];
    CHECK_OK(graft_model_compile(m, &o, NULL, &a1, &e), &e);
    graft_model *a = quantized(a1, quant, everything), *b = quantized(m, quant, everything);
    CHECK_OK(graft_model_compile(b, &o, NULL, &b1, &e), &e);
    run_model(a, one);
    run_model(b1, two);
    CHECK(same_bits(one, two));
    CHECK_OK(graft_model_deepcache(a, &d, &a2, &e), &e);
    CHECK(count_quantized(a2, GRAFT_FAST, quant) > 3);
    CHECK_OK(graft_model_swap(a, DEMO, true, NULL, &b2, &e), &e);
    run_model(b2, two);
    CHECK(same_bits(one, two));
    graft_model *all[] = {m, a1, a2, b1, b2, a, b};
    for (int i = 0; i < 7; i++) graft_model_release(all[i]);
}

static void any_order(void)
{
    for (graft_quant q = GRAFT_QUANT_INT8; q <= GRAFT_QUANT_FP8; q++) any_order_of(q);
}

/* What layers weigh in memory, all but those that are never quantized. */
static void memory(void)
{
    graft_model *m = load_model(engine, DEMO);
    graft_compile_options o = {"f32", "off", "auto", 0, false, false, 0, 0, 0};
    graft_model *plain = NULL;
    graft_err e = GRAFT_ERR_INIT;
    uint64_t bytes[4];
    CHECK_OK(graft_model_compile(m, &o, NULL, &plain, &e), &e);
    graft_model *all[] = {plain, quantized(plain, GRAFT_QUANT_INT8, everything),
                          quantized(plain, GRAFT_QUANT_INT4, everything),
                          quantized(plain, GRAFT_QUANT_FP8, everything)};
    for (int i = 0; i < 4; i++) {
        graft_binding *b = NULL;
        CHECK_OK(graft_model_bind(all[i], 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
        bytes[i] = b ? b->exe->weight_bytes : 0;
        graft_binding_release(b);
        graft_model_release(all[i]);
    }
    printf("weights: %.1f MB, int4 %.1f MB\n", 1e-6 * (double)bytes[0], 1e-6 * (double)bytes[2]);
    CHECK((double)bytes[2] < 0.2 * (double)bytes[0]);
    CHECK(bytes[2] < bytes[1]);
    CHECK(bytes[1] == bytes[0] ? bytes[3] == bytes[0] : bytes[3] < bytes[0] / 3);
    graft_model_release(m);
}

/* Other weights are quantized anew with the same choice of layers. */
static void swap_requantizes_to(graft_quant quant)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *f = open_file(SD1);
    made_file *made = copy_file(f, "model.diffusion_model.");
    for (size_t i = 0; i < made->n; i++) {
        int64_t n = shape_count(made->tensor[i].shape, made->tensor[i].rank);
        float *v = (float *)made->tensor[i].data;
        for (int64_t k = 0; k < n && made->tensor[i].rank > 1; k++)
            v[k] *= 1.0f + 0.5f * random_value();
    }
    char path[256];
    snprintf(path, sizeof path, "%s", temp_path("quant-swap"));
    write_file(made, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    graft_model *m = load_model(engine, SD1), *other = load_model(engine, path), *swapped = NULL;
    graft_model *q = quantized(m, quant, everything), *direct = quantized(other, quant, everything);
    float first[OUT], one[OUT], two[OUT], again[OUT];
    run_model(q, first);
    CHECK_OK(graft_model_swap(q, path, false, NULL, &swapped, &e), &e);
    run_model(swapped, one);
    run_model(direct, two);
    CHECK(same_bits(one, two));
    CHECK(!same_bits(one, first));
    run_model(q, again);
    CHECK(same_bits(first, again));
    graft_model *all[] = {m, other, swapped, q, direct};
    for (int i = 0; i < 5; i++) graft_model_release(all[i]);
    unlink(path);
}

static void swap_requantizes(void)
{
    for (graft_quant q = GRAFT_QUANT_INT8; q <= GRAFT_QUANT_FP8; q++) swap_requantizes_to(q);
}

/* ------------------------------------------------------------------ quantized files */

static uint64_t weight_bytes(const graft_model *m)
{
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    uint64_t n = b ? b->exe->weight_bytes : 0;
    graft_binding_release(b);
    return n;
}

/* A low-rank change of one attention weight, as a file. */
static const char *make_lora(const graft_model *m)
{
    static const char layer[] = "lora_unet_mid_block_attentions_0_transformer_blocks_0_attn1_to_q";
    const graft_st_tensor *t =
        graft_weights_find(m->weights, "middle_block.1.transformer_blocks.0.attn1.to_q.weight");
    char name[128];
    made_file *f = calloc(1, sizeof *f);
    CHECK(f && t);
    snprintf(name, sizeof name, "%s.lora_up.weight", layer);
    add_tensor(f, name, 2, (const int64_t[]){t->shape[0], 2}, NULL, 1.0f);
    snprintf(name, sizeof name, "%s.lora_down.weight", layer);
    add_tensor(f, name, 2, (const int64_t[]){2, t->shape[1]}, NULL, 1.0f);
    const char *path = temp_path("quant-lora");
    write_file(f, path, NULL);
    return path;
}

/* What was saved computes the same bits, and is as small in memory. */
static void saved_and_loaded(const char *from, graft_quant quant)
{
    graft_err e = GRAFT_ERR_INIT;
    static const double most[] = {
        [GRAFT_QUANT_INT8] = 0.1, [GRAFT_QUANT_INT4] = 0.6, [GRAFT_QUANT_FP8] = 0.3};
    char path[256];
    snprintf(path, sizeof path, "%s", temp_path("quantized"));
    graft_model *m = load_model(engine, from), *q = quantized(m, quant, everything);
    CHECK_INT(graft_model_save_quantized(m, path, NULL, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "nothing to save"));
    CHECK_OK(graft_model_save_quantized(q, path, NULL, &e), &e);
    CHECK_INT(graft_model_save_quantized(q, path, NULL, &e), GRAFT_E_ARG); /* nothing is replaced */
    CHECK(strstr(e.text, "exists"));
    graft_model *loaded = load_model(engine, path), *swapped = NULL, *patched = NULL, *back = NULL;
    CHECK_INT(graft_quant_of(loaded->quant.bits, loaded->quant.format), quant);
    CHECK(memcmp(&loaded->quant, &q->quant, sizeof q->quant) == 0);
    CHECK_INT(weight_bytes(loaded), weight_bytes(q));
    double share = (double)graft_weights_stored_bytes(loaded->weights) /
                   (double)graft_weights_stored_bytes(m->weights);
    CHECK(share < (quant == GRAFT_QUANT_INT4 ? 0.4 : 0.6));
    float one[OUT], two[OUT], plain[OUT];
    run_model(m, plain);
    run_model(q, one);
    run_model(loaded, two);
    CHECK(same_bits(one, two));
    CHECK_INT(graft_model_save_quantized(loaded, path, NULL, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "quantized file already"));
    /* Weights of such a file under a plain model become floats; those of a plain file under a
     * quantized one are quantized. */
    CHECK_OK(graft_model_swap(m, path, false, NULL, &swapped, &e), &e);
    run_model(swapped, two);
    CHECK(!same_bits(plain, two) && difference(plain, two, OUT) < most[quant]);
    CHECK_OK(graft_model_swap(loaded, from, false, NULL, &back, &e), &e);
    run_model(back, two);
    CHECK(same_bits(one, two));
    if (strcmp(from, SD1) == 0) { /* the demo model has other names */
        graft_clip *none = NULL;
        const char *lora = make_lora(m);
        CHECK_OK(graft_lora_apply(loaded, NULL, lora, 1, 0, NULL, &patched, &none, &e), &e);
        run_model(patched, two);
        CHECK(!same_bits(one, two) && isfinite(difference(one, two, OUT)));
        CHECK_INT(graft_model_save_quantized(patched, path, NULL, &e), GRAFT_E_ARG);
        CHECK(strstr(e.text, "LoRAs"));
        unlink(lora);
    }
    graft_model *all[] = {m, q, loaded, swapped, patched, back};
    for (int i = 0; i < 6; i++) graft_model_release(all[i]);
    unlink(path);
}

static void quantized_files(void)
{
    for (graft_quant q = GRAFT_QUANT_INT8; q <= GRAFT_QUANT_FP8; q++) {
        saved_and_loaded(DEMO, q);
        saved_and_loaded(SD1, q);
        saved_and_loaded(SDXL, q);
    }
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) return test_end();
        if (i == 0) {
            RUN(density_by_hand);
            RUN(thresholds);
            RUN(joint_errors_that_were_not_sampled);
            RUN(json_there_and_back);
            RUN(json_in_another_locale);
            RUN(hostile_json);
            RUN(plans_that_contradict_themselves);
            RUN(other_architecture);
        }
        printf("backend %s\n", backends[i]);
        RUN(against_plain);
        RUN(any_order);
        RUN(memory);
        RUN(swap_requantizes);
        RUN(quantized_files);
        graft_engine_destroy(engine);
    }
    return test_end();
}

/* Plans of QuantizeModel that are kept in files, and what is chosen from them later. */
#include "base/file.h"
#include "tests/engine/calibrate.h"
#include "tests/engine/diffusers.h"
#include "tests/engine/merge.h"

typedef struct seen {
    int phases;
    uint64_t last;
    bool fell, cancel;
} seen;

static void on_phase(void *ctx, const char *name)
{
    ((seen *)ctx)->phases += strcmp(name, "calibrate") == 0;
}
static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    seen *s = ctx;
    if (total == 1000 && done < s->last) s->fell = true;
    if (total == 1000) s->last = done;
}
static bool on_cancelled(void *ctx)
{
    seen *s = ctx;
    return s->cancel && s->last > 400;
}

static graft_status with_plan(const scene *s, const graft_quantize_options *o, seen *watch,
                              graft_model **out, graft_err *e)
{
    const graft_task task = {
        .ctx = watch, .phase = on_phase, .progress = on_progress, .cancelled = on_cancelled};
    *watch = (seen){.cancel = watch->cancel};
    return graft_model_quantize(s->model, o, &task, out, NULL, e);
}

static void plans_are_kept(void)
{
    scene s = open_scene(SD1);
    graft_quantize_options o = options(&s);
    graft_model *first = NULL, *second = NULL, *third = NULL;
    graft_err e = GRAFT_ERR_INIT;
    seen watch = {0};
    float one[LATENT], two[LATENT], plain[LATENT];
    o.plan_path = temp_path("plan.json");
    unlink(o.plan_path);
    CHECK_OK(with_plan(&s, &o, &watch, &first, &e), &e);
    CHECK(watch.phases == 1 && watch.last == 1000 && !watch.fell);
    CHECK(graft_file_exists(o.plan_path));
    CHECK_OK(with_plan(&s, &o, &watch, &second, &e), &e);
    CHECK_INT(watch.phases, 0);
    sampled(first, &s, one);
    sampled(second, &s, two);
    CHECK(same_latent(one, two));
    CHECK(report_has(second, "of the sampled latent"));
    graft_model_release(second);
    /* Other thresholds choose anew from what was measured; without conditioning, too. */
    o.conv_mse_threshold = o.linear_mse_threshold = o.attention_mse_threshold = 0;
    o.positive = o.negative = NULL;
    CHECK_OK(with_plan(&s, &o, &watch, &third, &e), &e);
    CHECK_INT(watch.phases, 0);
    sampled(third, &s, two);
    sampled(s.model, &s, plain);
    CHECK(same_latent(plain, two));
    graft_model_release(third);
    graft_model_release(first);
    o.positive = o.negative = s.cond;
    o.recalibrate = true;
    CHECK_OK(with_plan(&s, &o, &watch, &first, &e), &e);
    CHECK_INT(watch.phases, 1);
    graft_model_release(first);
    unlink(o.plan_path);
    close_scene(&s);
}

/* A plan that measured nothing, as no layer reached its density, is no ground for a lower one. */
static void plans_without_measurements(void)
{
    scene s = open_scene(SD1);
    graft_quantize_options o = options(&s);
    graft_model *q = NULL;
    graft_err e = GRAFT_ERR_INIT;
    seen watch = {0};
    o.plan_path = temp_path("empty.json");
    unlink(o.plan_path);
    o.compute_density_threshold = 100000;
    for (int i = 0; i < 2; i++) { /* as long as none is asked for, the plan will do */
        CHECK_OK(with_plan(&s, &o, &watch, &q, &e), &e);
        CHECK(watch.phases == !i && !q->quant.bits);
        graft_model_release(q);
    }
    o.compute_density_threshold = 0;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(with_plan(&s, &o, &watch, &q, &e), &e);
        CHECK(watch.phases == !i && q->quant.bits == 8);
        CHECK(report_has(q, "joint error   MSE"));
        graft_model_release(q);
    }
    unlink(o.plan_path);
    close_scene(&s);
}

/* Thresholds that were so strict that rounding alone exceeded them leave a plan from which looser
 * ones choose as if they had been the first. */
static void strict_plans_serve_loose_thresholds(void)
{
    scene s = open_scene(DEMO);
    graft_quantize_options o = options(&s);
    graft_str text = GRAFT_STR_INIT;
    graft_err e = GRAFT_ERR_INIT;
    graft_model *first = quantize(s.model, &o);
    graft_quant_plan *p = first->quantizer->plan;
    size_t chosen = graft_quant_plan_count(p, GRAFT_QUANT_CHOSEN);
    for (int i = 0; i < GRAFT_LAYER_KINDS; i++) p->limits.mse[i] = 1e-6;
    graft_quant_plan_select(p, &p->limits);
    p->understated = 1e6;
    p->excess = 1e-3;
    CHECK_OK(graft_quant_plan_write(p, &text, &e), &e);
    o.plan_path = temp_path("loose.json");
    CHECK_OK(graft_file_write(o.plan_path, text.data, text.len, &e), &e);
    graft_model *loose = quantize(s.model, &o);
    CHECK_INT(graft_quant_plan_count(loose->quantizer->plan, GRAFT_QUANT_CHOSEN), chosen);
    /* The threshold of a kind that is off is none. */
    o.conv = false;
    o.conv_mse_threshold = 1;
    o.linear_mse_threshold = 2e-3;
    graft_model *linear = quantize(s.model, &o);
    p = linear->quantizer->plan;
    CHECK(graft_quant_plan_predict(p, graft_quant_plan_estimate(p)) <= 2e-3);
    graft_str_finish(&text);
    unlink(o.plan_path);
    graft_model *all[] = {first, loose, linear};
    for (int i = 0; i < 3; i++) graft_model_release(all[i]);
    close_scene(&s);
}

/* SD1 with one weight doubled. */
static const char *other_weights(void)
{
    graft_safetensors *f = open_file(SD1);
    made_file *made = copy_file(f, "model.diffusion_model.");
    float *v =
        (float *)made_find(made, "model.diffusion_model.input_blocks.1.0.in_layers.2.weight")->data;
    v[0] *= 2;
    const char *path = temp_path("other");
    write_file(made, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    return path;
}

static void other_weights_are_refused(void)
{
    scene s = open_scene(SD1);
    graft_quantize_options o = options(&s);
    graft_err e = GRAFT_ERR_INIT;
    graft_model *q = NULL, *swapped = NULL, *never = NULL;
    o.plan_path = temp_path("weights.json");
    unlink(o.plan_path);
    q = quantize(s.model, &o);
    const char *path = other_weights();
    graft_model *other = load_model(engine, path);
    CHECK_INT(graft_model_quantize(other, &o, NULL, &never, NULL, &e), GRAFT_E_ARG);
    CHECK(!never && strstr(e.text, "other weights"));
    o.bits = 4;
    CHECK_INT(graft_model_quantize(s.model, &o, NULL, &never, NULL, &e), GRAFT_E_ARG);
    CHECK(!never && strstr(e.text, "8 bits, not 4"));
    o.bits = 8;
    o.format = "fp8_e4m3fn";
    CHECK_INT(graft_model_quantize(s.model, &o, NULL, &never, NULL, &e), GRAFT_E_ARG);
    CHECK(!never && strstr(e.text, "a plan for 8 bits, not fp8_e4m3fn"));
    o.format = "int";
    scene demo = open_scene(DEMO);
    CHECK_INT(graft_model_quantize(demo.model, &o, NULL, &never, NULL, &e), GRAFT_E_ARG);
    CHECK(!never && strstr(e.text, "architecture"));
    close_scene(&demo);
    /* Swapping keeps the choice and says what happened. */
    CHECK_OK(graft_model_swap(q, path, true, NULL, &swapped, &e), &e);
    CHECK(swapped->quant.bits == 8 && report_has(swapped, "requantized, same layers"));
    o.recalibrate = true;
    CHECK_OK(graft_model_quantize(other, &o, NULL, &never, NULL, &e), &e);
    graft_model *all[] = {q, swapped, never, other};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
    unlink(path);
    unlink(o.plan_path);
    close_scene(&s);
}

static void bad_plan_files(void)
{
    static const char *const texts[] = {
        "", "{", "[]", "{\"format\": \"graft-quantization-plan\", \"version\": 2}",
        "{\"format\": \"graft-quantization-plan\", \"version\": 1, \"bits\": 8}"};
    scene s = open_scene(SD1);
    graft_quantize_options o = options(&s);
    o.plan_path = temp_path("bad.json");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CHECK(graft_file_write(o.plan_path, texts[i], strlen(texts[i]), NULL) == GRAFT_OK);
        refused(&s, &o, "bad.json");
    }
    unlink(o.plan_path);
    close_scene(&s);
}

/* The same weights in diffusers' names: measured already. */
static void names_do_not_matter(void)
{
    const char *path = temp_path("unet.safetensors");
    scene s = open_scene(SD1);
    made_file *f = diffusers_unet(s.model);
    for (size_t i = 0; i < f->n; i++) store_as(&f->tensor[i], GRAFT_F16); /* as they were */
    write_file(f, path, unet_config(s.model));
    scene d = open_scene(path);
    graft_quantize_options o = options(&s), of_d = options(&d);
    graft_model *first = NULL, *second = NULL;
    graft_err e = GRAFT_ERR_INIT;
    seen watch = {0};
    float one[LATENT], two[LATENT];
    o.plan_path = of_d.plan_path = temp_path("names.json");
    CHECK_OK(with_plan(&s, &o, &watch, &first, &e), &e);
    CHECK_INT(watch.phases, 1);
    CHECK_OK(with_plan(&d, &of_d, &watch, &second, &e), &e);
    CHECK_INT(watch.phases, 0);
    sampled(first, &s, one);
    sampled(second, &d, two);
    CHECK(same_latent(one, two));
    graft_model_release(first);
    graft_model_release(second);
    unlink(o.plan_path);
    unlink(path);
    close_scene(&s);
    close_scene(&d);
}

static void cancelled_in_the_middle(void)
{
    scene s = open_scene(SD1);
    graft_quantize_options o = options(&s);
    graft_model *q = NULL;
    graft_err e = GRAFT_ERR_INIT;
    seen watch = {.cancel = true};
    o.plan_path = temp_path("cancelled.json");
    CHECK_INT(with_plan(&s, &o, &watch, &q, &e), GRAFT_E_CANCEL);
    CHECK(!q && !graft_file_exists(o.plan_path));
    close_scene(&s);
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        on_ref = i == 0;
        if (!engine) return test_end();
        printf("backend %s\n", backends[i]);
        if (i == 1)
            RUN(strict_plans_serve_loose_thresholds);
        else
            RUN(bad_plan_files);
        if (i == 1) RUN(names_do_not_matter);
        RUN(plans_are_kept);
        RUN(plans_without_measurements);
        RUN(other_weights_are_refused);
        RUN(cancelled_in_the_middle);
        graft_engine_destroy(engine);
    }
    return test_end();
}

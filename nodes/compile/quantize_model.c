/* QuantizeModel: which layers compute in integers. */
#include "base/alloc.h"
#include "base/str.h"
#include "nodes/call/files.h"
#include "nodes/call/output.h"
#include "nodes/call/pictures.h"
#include "nodes/node.h"

enum {
    MODEL,
    BITS,
    QUANTIZE_CONV,
    QUANTIZE_LINEAR,
    CONV_MSE,
    LINEAR_MSE,
    DENSITY,
    POSITIVE,
    NEGATIVE,
    LATENT,
    STEPS,
    CFG,
    SEED,
    PLAN_NAME,
    RECALIBRATE,
    FORMAT,
    QUANTIZE_ATTENTION,
    ATTENTION_MSE
};
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to quantize."),
    [BITS] = IN_INT("bits", 8, 4, 8, 4,
                    "8: weights and activations in 8-bit integers, which is faster. 4: weights "
                    "only, 4.5 bits each in memory: smaller, not faster, and further from the "
                    "original."),
    [QUANTIZE_CONV] = IN_CHOICE("quantize_conv", CHOICES("enable", "disable"),
                                "Whether convolutions may be quantized. Disable it when the report "
                                "says that they gain nothing."),
    [QUANTIZE_LINEAR] = IN_CHOICE("quantize_linear", CHOICES("enable", "disable"),
                                  "Whether linear layers may be quantized. Disable it when the "
                                  "report says that they gain nothing."),
    [CONV_MSE] = IN_FLOAT("conv_mse_threshold", 0.1, 0, 1, 0.01,
                          "Largest error that a quantized convolution may cause alone, as mean "
                          "squared error of the sampled latent. Higher is faster; 0 quantizes "
                          "none, 1 all."),
    [LINEAR_MSE] = IN_FLOAT("linear_mse_threshold", 0.1, 0, 1, 0.01,
                            "The same for linear layers. The error of all layers together is held "
                            "below the larger of the two."),
    [DENSITY] =
        IN_INT("compute_density_threshold", 100, 0, 100000, 1,
               "Layers with less arithmetic than this, in FLOP per byte, stay as they are. Lower "
               "it for more speed and less memory; small pictures need lower values."),
    [POSITIVE] = IN_OBJECT("positive", "CONDITIONING",
                           "A typical prompt to calibrate on. Without it the first sampling run "
                           "calibrates.",
                           .flags = GRAFT_INPUT_OPTIONAL),
    [NEGATIVE] = IN_OBJECT("negative", "CONDITIONING", "The negative prompt to calibrate on.",
                           .flags = GRAFT_INPUT_OPTIONAL),
    [LATENT] = IN_OBJECT("latent_image", "LATENT",
                         "A latent of the size to calibrate for: densities depend on it.",
                         .flags = GRAFT_INPUT_OPTIONAL),
    [STEPS] = IN_INT("steps", 20, 0, 10000, 0,
                     "Steps of the calibration's samplings. Fewer calibrate faster; as many as "
                     "will be used measure the error that will be seen. 0 measures nothing and "
                     "takes all layers, with both thresholds at 1: for models that do not fit into "
                     "memory as they are.",
                     .flags = GRAFT_INPUT_OPTIONAL),
    [CFG] = IN_FLOAT("cfg", 8, 0, 100, 0.1,
                     "Guidance while calibrating. Strong guidance enlarges errors: use the value "
                     "of your sampler.",
                     .flags = GRAFT_INPUT_OPTIONAL, .round = 0.01),
    [SEED] = IN_INT("seed", 0, 0, 18446744073709551616.0, 0, "Noise to calibrate on.",
                    .flags = GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_U64),
    [PLAN_NAME] = IN_TEXT("plan_name", "",
                          "Keeps the plan as quantization/NAME.json in the output folder, and "
                          "uses it when it is there: thresholds then move without calibrating.",
                          .flags = GRAFT_INPUT_OPTIONAL),
    [RECALIBRATE] = IN_CHOICE("recalibrate", CHOICES("disable", "enable"),
                              "Calibrates even if there is a plan of that name, and replaces it. "
                              "Needed once for other weights.",
                              .flags = GRAFT_INPUT_OPTIONAL),
    [FORMAT] = IN_CHOICE("format", CHOICES("int", "fp8_e4m3fn"),
                         "What 8 bits are. int: integers. fp8_e4m3fn: floats of 8 bits, "
                         "for NVIDIA cards that multiply them; processors only save memory "
                         "with them.",
                         .flags = GRAFT_INPUT_OPTIONAL),
    [QUANTIZE_ATTENTION] =
        IN_CHOICE("quantize_attention", CHOICES("enable", "disable"),
                  "Whether the products of attention may be computed in 8-bit integers; other bits "
                  "and formats leave them as they are. Disable it when the report says that they "
                  "gain nothing.",
                  .flags = GRAFT_INPUT_OPTIONAL),
    [ATTENTION_MSE] = IN_FLOAT("attention_mse_threshold", 0.1, 0, 1, 0.01,
                               "Largest error that quantized attention may cause alone in one "
                               "place, like the other thresholds.",
                               .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model, with the chosen layers quantized."),
    OUT("report", "STRING", "What was chosen and why, what it costs and brings."), NULL};

/* Plans lie in their own folder of the output. The name below that without its ending; false: it is
 * no name for a file. */
static bool plan_stem(const char *name, graft_str *out)
{
    size_t n = strlen(name) - (graft_str_ends(name, ".json") ? strlen(".json") : 0);
    if (strchr(name, '%') || strspn(name, ". ") >= n || n > 200 || strchr(name, '/')) return false;
    graft_str_puts(out, "quantization/");
    graft_str_append(out, name, n);
    return true;
}

/* The path for the plan: beside the numbered name that the host would reserve, which checks the
 * name and makes the folder. NULL without a name. */
static graft_status plan_path(graft_call *c, char **path)
{
    const char *name = graft_arg_text(c, PLAN_NAME);
    graft_output_file file = {NULL, NULL, NULL};
    graft_str stem = GRAFT_STR_INIT, s = GRAFT_STR_INIT;
    graft_status st;
    if (!*name) return GRAFT_OK;
    if (!plan_stem(name, &stem))
        return graft_call_fail(c, PLAN_NAME, GRAFT_E_ARG,
                               "plan_name %s cannot be the name of a file", name);
    if (stem.failed) {
        st = graft_fail_nomem(&c->err, "a file's name");
        goto out;
    }
    graft_call_blame(c, PLAN_NAME);
    GRAFT_TRY(graft_output_reserve(c, "output", stem.data, ".json", 0, 0, &file));
    graft_call_blame(c, -1);
    graft_str_append(&s, file.path, strlen(file.path) - strlen(file.name));
    graft_str_puts(&s, strchr(stem.data, '/') + 1);
    graft_str_puts(&s, ".json");
    *path = graft_str_take(&s);
    if (!*path) st = graft_fail_nomem(&c->err, "a file's name");
out:
    graft_output_finish(c, &file);
    graft_str_finish(&stem);
    graft_str_finish(&s);
    return st;
}

static graft_quantize_options options_of(const graft_call *c, const char *path)
{
    return (graft_quantize_options){.bits = graft_arg_i64(c, BITS),
                                    .format = graft_arg_text(c, FORMAT),
                                    .conv = graft_arg_is(c, QUANTIZE_CONV, "enable"),
                                    .linear = graft_arg_is(c, QUANTIZE_LINEAR, "enable"),
                                    .conv_mse_threshold = graft_arg_f64(c, CONV_MSE),
                                    .linear_mse_threshold = graft_arg_f64(c, LINEAR_MSE),
                                    .compute_density_threshold = graft_arg_i64(c, DENSITY),
                                    .positive = graft_arg_cond(c, POSITIVE),
                                    .negative = graft_arg_cond(c, NEGATIVE),
                                    .latent = graft_arg_latent(c, LATENT),
                                    .steps = graft_arg_i64(c, STEPS),
                                    .unmeasured = graft_arg_i64(c, STEPS) == 0,
                                    .cfg = graft_arg_f64(c, CFG),
                                    .seed = graft_arg_u64(c, SEED),
                                    .plan_path = path,
                                    .recalibrate = graft_arg_is(c, RECALIBRATE, "enable"),
                                    .attention = graft_arg_is(c, QUANTIZE_ATTENTION, "enable"),
                                    .attention_mse_threshold = graft_arg_f64(c, ATTENTION_MSE)};
}

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_image *picture = NULL;
    char *path = NULL, *report = NULL, *plan = NULL;
    graft_status st;
    GRAFT_TRY(plan_path(c, &path));
    const graft_quantize_options options = options_of(c, path);
    GRAFT_TRY(graft_model_quantize(graft_arg_model(c, MODEL), &options, &c->task, &model, &report,
                                   &c->err));
    GRAFT_TRY(graft_model_quantization(model, &plan, &picture, &c->err));
    GRAFT_TRY(graft_output_show_text(c, report));
    if (plan && c->self->ui) c->self->ui->add(c->job, "plan", plan);
    if (picture) GRAFT_TRY(graft_pictures_save(c, picture, "temp", c->self->temp_prefix, 1, 8));
    GRAFT_TRY(graft_call_out_text(c, 1, report));
    GRAFT_TRY(graft_call_out_model(c, 0, graft_model_retain(model)));
out:
    graft_model_release(model);
    graft_image_release(picture);
    graft_text_free(report);
    graft_text_free(plan);
    graft_free(path);
    return st;
}

/* Another plan file is another result. Who calibrates anyway reads none, and would be made to do so
 * again by what it wrote itself. */
static graft_status fingerprint(const graft_host *h, const graft_arg *in, char *text, uint64_t n)
{
    bool named = in[PLAN_NAME].kind == GRAFT_STRING && *in[PLAN_NAME].u.s;
    bool reads = in[RECALIBRATE].kind != GRAFT_CHOICE || strcmp(in[RECALIBRATE].u.s, "enable") != 0;
    graft_str file = GRAFT_STR_INIT;
    graft_status st = GRAFT_OK;
    if (n) *text = 0;
    if (named && reads && plan_stem(in[PLAN_NAME].u.s, &file)) {
        graft_str_puts(&file, ".json");
        const graft_arg name = {.kind = GRAFT_STRING, .u.s = file.data};
        st = file.failed ? GRAFT_E_NOMEM : graft_files_fingerprint(h, "output", &name, text, n);
        if (st == GRAFT_E_NOTFOUND) st = GRAFT_OK; /* it is still to be written */
    }
    graft_str_finish(&file);
    return st;
}

static const void *query(const char *id)
{
    static const graft_fingerprint_api fingerprints = {fingerprint};
    return strcmp(id, GRAFT_FINGERPRINT_ID) == 0 ? &fingerprints : NULL;
}

GRAFT_NODE(
    quantize_model, .id = "QuantizeModel", .title = "Quantize Model", .category = "graft",
    .description =
        "Computes the layers that tolerate it in 8 bits, which is faster. Calibration measures "
        "every layer in two or three samplings; LoRAs, other weights and DeepCache go on working.",
    .query = query);

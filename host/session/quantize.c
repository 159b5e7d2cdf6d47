#include "host/session/quantize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "host/prompt/literal.h"
#include "host/schema/near.h"
#include "host/prompt/workflow.h"

enum { PROMPTS_MAX = 64, PROMPTS_BYTES = 1 << 20 };

/* Options that are inputs of a node. */
static const struct {
    const char *option, *node, *type, *input;
} table[GRAFT_QUANTIZE_OPTIONS] = {
#define QUANTIZE(option, input)                                                                    \
    {                                                                                              \
        option, GRAFT_QUANTIZE_NODE, "QuantizeModel", input                                        \
    }
    QUANTIZE("--bits", "bits"),
    QUANTIZE("--format", "format"),
    QUANTIZE("--conv-mse", "conv_mse_threshold"),
    QUANTIZE("--linear-mse", "linear_mse_threshold"),
    QUANTIZE("--attention-mse", "attention_mse_threshold"),
    QUANTIZE("--density", "compute_density_threshold"),
    QUANTIZE("--steps", "steps"),
    QUANTIZE("--cfg", "cfg"),
    QUANTIZE("--seed", "seed"),
    QUANTIZE("--plan", "plan_name"),
#undef QUANTIZE
    {"--negative", "negative", "CLIPTextEncode", "text"},
    {"--width", "latent", "EmptyLatentImage", "width"},
    {"--height", "latent", "EmptyLatentImage", "height"}};

static bool is(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && (!arg[n] || arg[n] == '=');
}

graft_status graft_options__quantize(int argc, char **argv, int *i, graft_quantize_cli *o,
                                     graft_err *e)
{
    const char *arg = argv[*i], **where = is(arg, "--prompts") ? &o->prompts : NULL;
    if (is(arg, "--save-model")) where = &o->save_model;
    if (strcmp(arg, "--recalibrate") == 0) {
        o->recalibrate = true;
        return GRAFT_OK;
    }
    for (size_t k = 0; k < GRAFT_QUANTIZE_OPTIONS; k++)
        if (is(arg, table[k].option)) where = &o->value[k];
    if (!where) return GRAFT_E_NOTFOUND;
    const char *equals = strchr(arg, '=');
    if (!equals && *i + 1 >= argc) return graft_fail(e, GRAFT_E_ARG, "%s needs a value", arg);
    *where = equals ? equals + 1 : argv[++*i];
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ values */

/* "a whole number from 1 to 10000" */
static void put_allowed(const graft_input *in, graft_str *s)
{
    if (graft_schema_combo(in)) {
        for (const char *const *c = in->choices; c && *c; c++)
            graft_str_printf(s, "%s%s", c == in->choices ? "" : c[1] ? ", " : " or ", *c);
    } else if (in->kind == GRAFT_INT && in->step > 1 && in->max - in->min == in->step) {
        graft_str_printf(s, "%.0f or %.0f", in->min, in->max);
    } else if (in->kind == GRAFT_INT && in->step > 1) {
        graft_str_printf(s, "a multiple of %.0f from %.0f to %.0f", in->step, in->min, in->max);
    } else if (in->kind == GRAFT_INT) {
        long double min, max;
        graft_literal_int_range(in, &min, &max);
        graft_str_printf(s, "a whole number from %.0Lf to %.0Lf", min, max);
    } else {
        graft_str_printf(s, "a number from %g to %g", in->min, in->max);
    }
}

static bool is_allowed(const graft_input *in, const cJSON *item)
{
    uint64_t u;
    int64_t i;
    double f;
    if (graft_schema_combo(in)) {
        for (const char *const *c = in->choices; c && *c; c++)
            if (strcmp(*c, item->valuestring) == 0) return true;
        return !in->choices;
    }
    if (in->kind == GRAFT_FLOAT)
        return !cJSON_IsString(item) && graft_json_f64(item, &f) && f >= in->min && f <= in->max;
    if (in->kind != GRAFT_INT) return true;
    if (in->flags & GRAFT_INPUT_U64) return graft_json_u64(item, &u);
    bool whole = !cJSON_IsString(item) && graft_json_i64(item, &i);
    return whole && (double)i >= in->min && (double)i <= in->max &&
           (in->step < 2 || i % (int64_t)in->step == 0);
}

/* Sampling takes minutes: what cannot be is told before, in the words of the command line. */
static graft_status check_value(const graft_registry *r, size_t k, const char *text, graft_err *e)
{
    const graft_registry_node *entry = graft_registry_find(r, table[k].type);
    const graft_input *in = NULL;
    for (size_t i = 0; entry && i < graft_schema_inputs(entry->node); i++)
        if (strcmp(entry->node->inputs[i]->name, table[k].input) == 0) in = entry->node->inputs[i];
    if (!in) return GRAFT_OK;
    cJSON *item = graft_literal_from_text(in, text);
    if (!item) return graft_fail_nomem(e, "an option");
    graft_status st = GRAFT_OK;
    if (!is_allowed(in, item)) {
        graft_str s = GRAFT_STR_INIT;
        put_allowed(in, &s);
        st = graft_fail(e, GRAFT_E_ARG, "%s must be %s, not \"%.80s\"", table[k].option,
                        s.data ? s.data : "another value", text);
        graft_str_finish(&s);
    }
    cJSON_Delete(item);
    return st;
}

static const char *given(const graft_options *o, const char *option)
{
    for (size_t k = 0; k < GRAFT_QUANTIZE_OPTIONS; k++)
        if (strcmp(table[k].option, option) == 0)
            return o->quantize.value[k] ? o->quantize.value[k] : "";
    return "";
}

static bool is_number(const graft_options *o, const char *option, double value)
{
    const char *text = given(o, option);
    return *text && strtod(text, NULL) == value;
}

graft_status graft_quantize_check(const graft_options *o, const graft_registry *r, graft_err *e)
{
    const char *plan = given(o, "--plan");
    for (size_t k = 0; k < GRAFT_QUANTIZE_OPTIONS; k++) {
        const char *text = o->quantize.value[k];
        graft_status st = text ? check_value(r, k, text, e) : GRAFT_OK;
        if (st) return st;
    }
    if (strcmp(given(o, "--format"), "fp8_e4m3fn") == 0 && strcmp(given(o, "--bits"), "4") == 0)
        return graft_fail(e, GRAFT_E_ARG, "--format fp8_e4m3fn has 8 bits, not 4");
    if (is_number(o, "--steps", 0) &&
        !(is_number(o, "--conv-mse", 1) && is_number(o, "--linear-mse", 1)))
        return graft_fail(e, GRAFT_E_ARG,
                          "--steps 0 measures no error: it needs --conv-mse 1 and --linear-mse 1, "
                          "which take all layers");
    if (strpbrk(plan, "/%") || (*plan && !plan[strspn(plan, ". ")]))
        return graft_fail(e, GRAFT_E_ARG, "--plan must be a name without a folder, not \"%.80s\"",
                          plan);
    return GRAFT_OK;
}

static graft_status no_checkpoint(const graft_folders *f, const char *file, graft_err *e)
{
    char **names, text[GRAFT_NEAR_TEXT];
    graft_near near;
    graft_status st = graft_folders_list(f, "checkpoints", &names, e);
    if (st) return st;
    graft_near_init(&near, file);
    for (size_t i = 0; names[i]; i++) graft_near_add(&near, names[i]);
    st = graft_fail(e, GRAFT_E_NOTFOUND, "there is no checkpoint %s in %s/checkpoints%s", file,
                    f->models, graft_near_text(&near, text));
    graft_folders_free_names(names);
    return st;
}

/* The name by which loaders find the checkpoint. */
static graft_status name_of(const graft_options *o, const graft_folders *f, char **name,
                            graft_err *e)
{
    char *path = NULL;
    const char *slash = strrchr(o->file, '/');
    graft_status st = GRAFT_OK;
    *name = NULL;
    bool found = !graft_folders_resolve(f, "checkpoints", o->file, &path, NULL);
    graft_free(path);
    if (!found) st = graft_folders_name_of(f, "checkpoints", o->file, name, e);
    if (st || *name) return st;
    if (!found && graft_file_exists(o->file))
        return graft_fail(e, GRAFT_E_ARG,
                          "%s is not in a folder of models: put or link it into %s/checkpoints, "
                          "and give its name there, %s",
                          o->file, f->models, slash ? slash + 1 : o->file);
    if (!found) return no_checkpoint(f, o->file, e);
    *name = graft_strdup(o->file);
    return *name ? GRAFT_OK : graft_fail_nomem(e, "a name");
}

/* ------------------------------------------------------------------ the workflow */

/* Adds a node to the workflow's text; `inputs` is what stands between the braces. */
static void put_node(graft_str *s, const char *id, const char *type, const char *inputs)
{
    graft_str_printf(s, "%s\"%s\":{\"class_type\":\"%s\",\"inputs\":{%s}}", s->len > 1 ? "," : "",
                     id, type, inputs);
}

static void put_prompt(graft_str *s, const char *id, const char *text)
{
    graft_str_printf(s,
                     "%s\"%s\":{\"class_type\":\"CLIPTextEncode\",\"inputs\":{\"clip\":"
                     "[\"checkpoint\",1],\"text\":",
                     s->len > 1 ? "," : "", id);
    graft_str_json(s, text);
    graft_str_puts(s, "}}");
}

/* Prompt nodes p0, p1, … and what joins them; `last` is the node that has all. */
static void put_prompts(graft_str *s, const char *const *prompt, size_t n, char last[32])
{
    char id[32], inputs[120];
    snprintf(last, 32, "p0");
    for (size_t i = 0; i < n; i++) {
        snprintf(id, sizeof id, "p%zu", i);
        put_prompt(s, id, prompt[i]);
        if (!i) continue;
        snprintf(inputs, sizeof inputs,
                 "\"conditioning_1\":[\"%s\",0],\"conditioning_2\":[\"%s\",0]", last, id);
        snprintf(last, 32, "c%zu", i);
        put_node(s, last, "ConditioningCombine", inputs);
    }
}

/* The checkpoint's name without folder and suffix: the plan's. */
static void plan_name(const char *checkpoint, char out[160])
{
    const char *slash = strrchr(checkpoint, '/');
    snprintf(out, 160, "%s", slash ? slash + 1 : checkpoint);
    char *dot = strrchr(out, '.');
    if (dot && dot != out) *dot = 0;
}

static void put_save(const char *prefix, graft_str *s)
{
    graft_str inputs = GRAFT_STR_INIT;
    graft_str_puts(&inputs, "\"model\":[\"" GRAFT_QUANTIZE_NODE "\",0],\"filename_prefix\":");
    graft_str_json(&inputs, prefix);
    put_node(s, "save", "SaveQuantizedModel", inputs.data ? inputs.data : "");
    s->failed = s->failed || inputs.failed;
    graft_str_finish(&inputs);
}

static void put_all(const graft_options *o, const char *checkpoint, const char *const *prompt,
                    size_t n, graft_str *s)
{
    char last[32], inputs[256], plan[160];
    graft_str name = GRAFT_STR_INIT;
    plan_name(checkpoint, plan);
    graft_str_puts(s, "{");
    graft_str_puts(&name, "\"ckpt_name\":");
    graft_str_json(&name, checkpoint);
    put_node(s, "checkpoint", "CheckpointLoaderSimple", name.data ? name.data : "");
    s->failed = s->failed || name.failed;
    put_prompts(s, prompt, n, last);
    put_prompt(s, "negative", "");
    put_node(s, "latent", "EmptyLatentImage", "\"width\":512,\"height\":512,\"batch_size\":1");
    snprintf(inputs, sizeof inputs,
             "\"model\":[\"checkpoint\",0],\"positive\":[\"%s\",0],\"negative\":[\"negative\",0],"
             "\"latent_image\":[\"latent\",0],\"recalibrate\":\"%s\"",
             last, o->quantize.recalibrate ? "enable" : "disable");
    graft_str_finish(&name);
    graft_str_puts(&name, inputs);
    graft_str_puts(&name, ",\"bits\":8,\"quantize_conv\":\"enable\",\"quantize_linear\":\"enable\","
                          "\"conv_mse_threshold\":0.1,\"linear_mse_threshold\":0.1,"
                          "\"compute_density_threshold\":100,\"plan_name\":");
    graft_str_json(&name, plan);
    put_node(s, GRAFT_QUANTIZE_NODE, "QuantizeModel", name.data ? name.data : "");
    s->failed = s->failed || name.failed;
    graft_str_finish(&name);
    if (o->quantize.save_model) put_save(o->quantize.save_model, s);
    put_node(s, GRAFT_QUANTIZE_REPORT, "ModelReport", "\"model\":[\"" GRAFT_QUANTIZE_NODE "\",0]");
    graft_str_puts(s, "}");
}

static graft_status check_text(const char *path, const char *text, size_t size, graft_err *e)
{
    size_t line = 1, n;
    for (const char *at = text, *end = text + size; at < end; at += n) {
        n = graft_str_utf8(at, end);
        if (!n || !*at)
            return graft_fail(e, GRAFT_E_FORMAT, "%s: line %zu is not UTF-8 text", path, line);
        line += *at == '\n';
    }
    return GRAFT_OK;
}

/* Lines of the file that are not empty; they point into *text. */
static graft_status read_prompts(const char *path, char **text, const char *prompt[PROMPTS_MAX],
                                 size_t *n, graft_err *e)
{
    size_t size;
    graft_status st = graft_file_read(path, PROMPTS_BYTES, text, &size, e);
    if (!st) st = check_text(path, *text, size, e);
    if (st) return st;
    *n = 0;
    for (char *at = *text, *end; *at; at = end) {
        end = at + strcspn(at, "\r\n");
        if (*end) *end++ = 0;
        if (at[strspn(at, " \t")] == 0) continue;
        if (*n == PROMPTS_MAX)
            return graft_fail(e, GRAFT_E_ARG, "%s: more than %d prompts", path, PROMPTS_MAX);
        prompt[(*n)++] = at;
    }
    return *n ? GRAFT_OK : graft_fail(e, GRAFT_E_ARG, "%s: no prompt in it", path);
}

graft_status graft_quantize_workflow(const graft_options *o, const graft_folders *folders,
                                     const graft_registry *r, cJSON **out, graft_err *e)
{
    const char *prompt[PROMPTS_MAX] = {"a photograph of a landscape"};
    size_t n = 1;
    char *text = NULL, *checkpoint = NULL;
    graft_str s = GRAFT_STR_INIT;
    cJSON *json = NULL;
    graft_status st;
    GRAFT_TRY(name_of(o, folders, &checkpoint, e));
    if (o->quantize.prompts) GRAFT_TRY(read_prompts(o->quantize.prompts, &text, prompt, &n, e));
    put_all(o, checkpoint, prompt, n, &s);
    if (s.failed) {
        st = graft_fail_nomem(e, "a workflow");
        goto out;
    }
    GRAFT_TRY(graft_json_parse(s.data, s.len, "quantize", &json, e));
    for (size_t k = 0; k < GRAFT_QUANTIZE_OPTIONS; k++) {
        if (!o->quantize.value[k]) continue;
        st = graft_workflow_set(json, r, table[k].node, table[k].input, o->quantize.value[k], e);
        if (st) {
            graft_err_prefix(e, st, "%s", table[k].option);
            goto out;
        }
    }
    *out = json;
    json = NULL;
out:
    cJSON_Delete(json);
    graft_str_finish(&s);
    graft_free(checkpoint);
    graft_free(text);
    return st;
}

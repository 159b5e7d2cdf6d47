/* Plans as JSON text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "engine/quant/plan.h"

#define FORMAT  "graft-quantization-plan"
#define VERSION 1

static const char *const reason_text[] = {"chosen", "kept",    "kind off",  "density",
                                          "error",  "unknown", "backed off"};
#define REASONS (sizeof reason_text / sizeof *reason_text)

/* NaN, which JSON lacks, is null. */
static void put_number(graft_str *s, const char *name, double v)
{
    graft_str_printf(s, "\"%s\": ", name);
    if (isfinite(v))
        graft_str_printf(s, "%.9g", v);
    else
        graft_str_puts(s, "null");
}

static void put_hash(graft_str *s, const char *name, graft_hash h)
{
    char hex[33];
    graft_hash_hex(h, hex);
    graft_str_printf(s, "  \"%s\": \"%s\",\n", name, hex);
}

static double weights_of(const graft_quant_layer *l)
{
    double n = l->kind != GRAFT_LAYER_ATTENTION;
    for (int i = 0; i < graft_layer_kind_rank(l->kind); i++) n *= (double)l->dim[i];
    return n;
}

/* How much faster layers of one kind are, for whoever predicts other choices. */
static void put_gain(graft_str *s, const graft_quant_plan *p, graft_layer_kind kind)
{
    double before = 0, after = 0;
    for (size_t i = 0; i < p->n; i++) {
        const graft_quant_layer *l = &p->layer[i];
        if (l->kind != kind || isnan(l->seconds) || isnan(l->seconds_quantized)) continue;
        before += l->seconds;
        after += l->seconds_quantized;
    }
    put_number(s, graft_layer_kind_name(kind), after > 0 ? before / after : NAN);
}

static void put_limits(graft_str *s, const graft_quant_limits *k)
{
    char name[32];
    graft_str_puts(s, "  \"limits\": {");
    for (graft_layer_kind i = 0; i < GRAFT_LAYER_KINDS; i++)
        graft_str_printf(s, "\"%s\": %s, ", graft_layer_kind_name(i), k->on[i] ? "true" : "false");
    for (graft_layer_kind i = 0; i < GRAFT_LAYER_KINDS; i++) {
        snprintf(name, sizeof name, "%s_mse", graft_layer_kind_name(i));
        put_number(s, name, k->mse[i]);
        graft_str_puts(s, ", ");
    }
    put_number(s, "density", k->density);
    graft_str_puts(s, "}");
}

/* What the layers were chosen by, and what the choice costs and brings. */
static void put_result(graft_str *s, const graft_quant_plan *p)
{
    put_limits(s, &p->limits);
    graft_str_puts(s, ",\n  \"joint\": {");
    put_number(s, "mse", p->joint_mse);
    graft_str_puts(s, ", ");
    put_number(s, "psnr", p->joint_psnr);
    graft_str_puts(s, ", ");
    put_number(s, "ssim", p->joint_ssim);
    graft_str_puts(s, ", ");
    put_number(s, "understated", p->understated);
    graft_str_puts(s, ", ");
    put_number(s, "excess", p->excess);
    graft_str_puts(s, "},\n  \"time\": {");
    put_number(s, "step", p->seconds);
    graft_str_puts(s, ", ");
    put_number(s, "sampled", p->sampled);
    graft_str_puts(s, ", ");
    put_number(s, "sampled_quantized", p->sampled_quantized);
    graft_str_puts(s, "},\n  \"gain\": {");
    for (graft_layer_kind i = 0; i < GRAFT_LAYER_KINDS; i++) {
        if (i) graft_str_puts(s, ", ");
        put_gain(s, p, i);
    }
    graft_str_puts(s, "},\n  ");
    put_number(s, "other_flops", p->other_flops);
    graft_str_puts(s, ",\n  \"layers\": [\n");
}

static void put_layer(graft_str *s, const graft_quant_layer *l)
{
    graft_str_puts(s, "    {\"name\": ");
    graft_str_json(s, l->name);
    graft_str_printf(s, ", \"kind\": \"%s\", \"shape\": [", graft_layer_kind_name(l->kind));
    for (int i = 0; i < graft_layer_kind_rank(l->kind); i++)
        graft_str_printf(s, "%s%lld", i ? ", " : "", (long long)l->dim[i]);
    graft_str_puts(s, "], ");
    put_number(s, "flops", l->flops);
    graft_str_puts(s, ", ");
    put_number(s, "density", l->density);
    graft_str_puts(s, ", ");
    put_number(s, "mse", l->mse);
    graft_str_puts(s, ", ");
    put_number(s, "seconds", l->seconds);
    graft_str_puts(s, ", ");
    put_number(s, "seconds_quantized", l->seconds_quantized);
    graft_str_printf(s, ", \"weights\": %.0f", weights_of(l));
    graft_str_printf(s, ", \"chosen\": %s, \"reason\": \"%s\"}",
                     l->reason == GRAFT_QUANT_CHOSEN ? "true" : "false", reason_text[l->reason]);
}

graft_status graft_quant_plan_write(const graft_quant_plan *p, graft_str *s, graft_err *e)
{
    graft_str_printf(s, "{\n  \"format\": \"" FORMAT "\",\n  \"version\": %d,\n", VERSION);
    graft_str_printf(s, "  \"bits\": %d,\n", p->bits);
    if (p->format) /* plans of integers never said so */
        graft_str_printf(s, "  \"values\": \"%s\",\n", graft_quant_format_name(p->format));
    graft_str_printf(s,
                     "  \"shape\": {\"batch\": %lld, \"height\": %lld, \"width\": %lld, "
                     "\"tokens\": %lld},\n",
                     (long long)p->batch, (long long)p->height, (long long)p->width,
                     (long long)p->tokens);
    put_hash(s, "architecture", p->arch);
    put_hash(s, "weights", p->weights);
    put_result(s, p);
    for (size_t i = 0; i < p->n; i++) {
        put_layer(s, &p->layer[i]);
        graft_str_puts(s, i + 1 < p->n ? ",\n" : "\n");
    }
    graft_str_puts(s, "  ]\n}\n");
    return s->failed ? graft_fail_nomem(e, "quantization plan") : GRAFT_OK;
}

/* ------------------------------------------------------------------ reading */

static const cJSON *member(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

/* What no plan of a model that fits into a computer exceeds; sums of it stay finite. */
#define MOST      1e18
#define MOST_SIDE 65536 /* of a latent; also tokens and pictures */

/* A number from `least` to MOST; null gives NaN where `open` allows it. */
static bool read_number(const cJSON *o, const char *name, double least, bool open, double *out)
{
    const cJSON *item = member(o, name);
    *out = NAN;
    if (cJSON_IsNull(item)) return open;
    return graft_json_f64(item, out) && *out >= least && *out <= MOST;
}

static bool read_size(const cJSON *o, const char *name, int64_t *out)
{
    return graft_json_i64(member(o, name), out) && *out >= 1 && *out <= MOST_SIDE;
}

static bool read_half(const char *hex, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < 16; i++) {
        const char *digits = "0123456789abcdef", *at = hex[i] ? strchr(digits, hex[i]) : NULL;
        if (!at) return false;
        *out = *out << 4 | (uint64_t)(at - digits);
    }
    return true;
}

/* The inverse of graft_hash_hex(). */
static bool read_hash(const cJSON *o, const char *name, graft_hash *out)
{
    const char *hex = graft_json_str(o, name, "");
    return strlen(hex) == 32 && read_half(hex, &out->hi) && read_half(hex + 16, &out->lo);
}

static bool read_kind(const cJSON *o, graft_layer_kind *out)
{
    const char *kind = graft_json_str(o, "kind", "");
    graft_layer_kind i = 0;
    while (i < GRAFT_LAYER_KINDS && strcmp(kind, graft_layer_kind_name(i)) != 0) i++;
    *out = i;
    return i < GRAFT_LAYER_KINDS;
}

/* Of a plan whose bits and format are known. */
static bool read_layer(const cJSON *o, const graft_quant_plan *p, graft_quant_layer *l)
{
    const char *name = graft_json_str(o, "name", ""), *reason = graft_json_str(o, "reason", "");
    const cJSON *shape = member(o, "shape");
    size_t length = strlen(name), r = 0;
    if (!read_kind(o, &l->kind)) return false;
    int rank = graft_layer_kind_rank(l->kind);
    if (length < 1 || length >= sizeof l->name || !cJSON_IsArray(shape) ||
        cJSON_GetArraySize(shape) != rank)
        return false;
    memcpy(l->name, name, length + 1);
    for (int i = 0; i < rank; i++)
        if (!graft_json_i64(cJSON_GetArrayItem(shape, i), &l->dim[i]) || l->dim[i] < 1)
            return false;
    while (r < REASONS && strcmp(reason, reason_text[r]) != 0) r++;
    if (r == REASONS) return false;
    l->reason = (graft_quant_reason)r;
    bool chosen = l->reason == GRAFT_QUANT_CHOSEN;
    if (cJSON_IsTrue(member(o, "chosen")) != chosen) return false;
    if (chosen &&
        (graft_quant_always_kept(l->name) || !graft_layer_kind_takes(l->kind, p->bits, p->format)))
        return false;
    return read_number(o, "flops", 0, false, &l->flops) &&
           read_number(o, "density", 0, false, &l->density) &&
           read_number(o, "mse", 0, true, &l->mse) &&
           read_number(o, "seconds", 0, true, &l->seconds) &&
           read_number(o, "seconds_quantized", 0, true, &l->seconds_quantized);
}

static bool read_limits(const cJSON *o, graft_quant_limits *k)
{
    char name[32];
    for (graft_layer_kind i = 0; i < GRAFT_LAYER_KINDS; i++) {
        const cJSON *on = member(o, graft_layer_kind_name(i));
        snprintf(name, sizeof name, "%s_mse", graft_layer_kind_name(i));
        if (i == GRAFT_LAYER_ATTENTION && !on && !member(o, name))
            continue; /* of earlier releases */
        k->on[i] = cJSON_IsTrue(on);
        if (!cJSON_IsBool(on) || !read_number(o, name, 0, false, &k->mse[i])) return false;
    }
    return read_number(o, "density", 0, false, &k->density);
}

static graft_status read_layers(const cJSON *list, const char *what, graft_quant_plan *p,
                                graft_err *e)
{
    const cJSON *item;
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : -1;
    if (count < 0 || count > GRAFT_QUANT_LAYERS)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: layers must be a list of at most %d", what,
                          GRAFT_QUANT_LAYERS);
    p->layer = graft_calloc((size_t)count, sizeof *p->layer);
    if (!p->layer) return graft_fail_nomem(e, "quantization plan");
    cJSON_ArrayForEach(item, list)
    {
        if (!read_layer(item, p, &p->layer[p->n]))
            return graft_fail(e, GRAFT_E_FORMAT, "%s: layer %zu is damaged", what, p->n);
        p->n++;
    }
    return GRAFT_OK;
}

/* Plans of earlier releases do not say. */
static bool read_understated(const cJSON *joint, graft_quant_plan *p)
{
    p->understated = 1;
    p->excess = INFINITY;
    if (member(joint, "understated") &&
        !read_number(joint, "understated", 1, false, &p->understated))
        return false;
    if (!member(joint, "excess") || cJSON_IsNull(member(joint, "excess"))) return true;
    return read_number(joint, "excess", 0, false, &p->excess);
}

static graft_status read_plan(const cJSON *o, const char *what, graft_quant_plan *p, graft_err *e)
{
    const cJSON *shape = member(o, "shape"), *joint = member(o, "joint"), *time = member(o, "time");
    int64_t bits = graft_json_int(o, "bits", 0), version = graft_json_int(o, "version", INT64_MIN);
    if (strcmp(graft_json_str(o, "format", ""), FORMAT) != 0)
        return graft_fail(e, GRAFT_E_FORMAT, "%s is not a quantization plan", what);
    if (version == INT64_MIN)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s does not say which version of the plan format it has; this program "
                          "reads version %d",
                          what, VERSION);
    if (version != VERSION)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s has version %lld of the plan format; this program reads version %d",
                          what, (long long)version, VERSION);
    if (bits != 4 && bits != 8)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: bits must be 4 or 8", what);
    p->bits = (int32_t)bits;
    const char *values = member(o, "values") ? graft_json_str(o, "values", "") : "int";
    if (!graft_quant_format_read(values, &p->format) || (bits == 4 && p->format))
        return graft_fail(e, GRAFT_E_FORMAT, "%s: %.40s of %d bits are not known", what, values,
                          p->bits);
    bool ok = read_size(shape, "batch", &p->batch) && read_size(shape, "height", &p->height) &&
              read_size(shape, "width", &p->width) && read_size(shape, "tokens", &p->tokens) &&
              read_hash(o, "architecture", &p->arch) && read_hash(o, "weights", &p->weights) &&
              read_number(joint, "mse", 0, true, &p->joint_mse) &&
              read_number(joint, "psnr", -1e9, true, &p->joint_psnr) &&
              read_number(joint, "ssim", -1, true, &p->joint_ssim) && read_understated(joint, p) &&
              read_number(time, "step", 0, true, &p->seconds) &&
              read_number(time, "sampled", 0, true, &p->sampled) &&
              read_number(time, "sampled_quantized", 0, true, &p->sampled_quantized) &&
              read_number(o, "other_flops", 0, false, &p->other_flops) &&
              read_limits(member(o, "limits"), &p->limits);
    if (!ok)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: shape, hashes, limits or results are damaged",
                          what);
    return read_layers(member(o, "layers"), what, p, e);
}

graft_status graft_quant_plan_read(const char *text, size_t n, const char *what,
                                   graft_quant_plan **out, graft_err *e)
{
    cJSON *o = NULL;
    *out = NULL;
    graft_status st = graft_json_parse(text, n, what, &o, e);
    if (st) return st;
    graft_quant_plan *p = graft_calloc(1, sizeof *p);
    st = p ? read_plan(o, what, p, e) : graft_fail_nomem(e, "quantization plan");
    cJSON_Delete(o);
    if (st)
        graft_quant_plan_destroy(p);
    else
        *out = p;
    return st;
}

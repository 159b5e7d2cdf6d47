/* QuantizeModel: plans found, loaded and kept, and the models that follow them. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "engine/image/latent.h"
#include "engine/calibrate/quantize.h"
#include "engine/denoise/sample.h"

#define PLAN_BYTES ((size_t)16 << 20) /* of a file; 2048 layers are below one megabyte */

static graft_status quantizer_create(const graft_quantize_options *o, graft_quantizer **out,
                                     graft_err *e)
{
    graft_quantizer *q = graft_calloc(1, sizeof *q);
    if (!q) return graft_fail_nomem(e, "quantization");
    atomic_init(&q->refs, 1);
    pthread_mutex_init(&q->lock, NULL);
    q->bits = (int32_t)o->bits;
    if (o->format) graft_quant_format_read(o->format, &q->format); /* was checked */
    q->limits = (graft_quant_limits){
        {o->conv, o->linear,
         o->attention && graft_layer_kind_takes(GRAFT_LAYER_ATTENTION, q->bits, q->format)},
        {o->conv_mse_threshold, o->linear_mse_threshold, o->attention_mse_threshold},
        (double)o->compute_density_threshold};
    q->unmeasured = o->unmeasured;
    if (o->plan_path && *o->plan_path) {
        q->path = graft_strdup(o->plan_path);
        if (!q->path) {
            graft_quantizer_release(q);
            return graft_fail_nomem(e, "quantization");
        }
    }
    *out = q;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ options */

static graft_status check_threshold(const char *name, double v, graft_err *e)
{
    if (v >= 0 && v <= 1) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "%s %g is not between 0 and 1", name, v);
}

static graft_status check_options(const graft_quantize_options *o, graft_err *e)
{
    graft_status st = GRAFT_OK;
    graft_quant_format format = GRAFT_FORMAT_INT;
    if (o->bits != 4 && o->bits != 8)
        return graft_fail(e, GRAFT_E_ARG, "bits must be 4 or 8, not %lld", (long long)o->bits);
    if (o->format && !graft_quant_format_read(o->format, &format))
        return graft_fail(e, GRAFT_E_ARG, "format must be int or fp8_e4m3fn, not %.40s", o->format);
    if (format == GRAFT_FORMAT_FP8 && o->bits != 8)
        return graft_fail(e, GRAFT_E_ARG, "format fp8_e4m3fn has 8 bits, not %lld",
                          (long long)o->bits);
    GRAFT_TRY(check_threshold("conv_mse_threshold", o->conv_mse_threshold, e));
    GRAFT_TRY(check_threshold("linear_mse_threshold", o->linear_mse_threshold, e));
    GRAFT_TRY(check_threshold("attention_mse_threshold", o->attention_mse_threshold, e));
    if (o->plan_path && graft_dir_exists(o->plan_path))
        return graft_fail(e, GRAFT_E_ARG, "%s is a folder: the plan needs another name",
                          o->plan_path);
    if (o->compute_density_threshold < 0)
        return graft_fail(e, GRAFT_E_ARG, "compute_density_threshold %lld is negative",
                          (long long)o->compute_density_threshold);
    if (o->unmeasured &&
        ((o->conv && o->conv_mse_threshold < 1) || (o->linear && o->linear_mse_threshold < 1)))
        return graft_fail(e, GRAFT_E_ARG,
                          "without steps no error is measured: conv_mse_threshold and "
                          "linear_mse_threshold must be 1, which takes all layers");
    if (!o->positive) return GRAFT_OK;
    if (!o->negative || !o->latent)
        return graft_fail(e, GRAFT_E_ARG,
                          "calibration needs positive, negative and latent_image together: %s is "
                          "missing",
                          o->negative ? "latent_image" : "negative");
    if (o->steps < 1 && !o->unmeasured)
        return graft_fail(e, GRAFT_E_ARG, "steps must be at least 1");
    if (!isfinite(o->cfg)) return graft_fail(e, GRAFT_E_ARG, "cfg is not a number");
out:
    return st;
}

/* ------------------------------------------------------------------ plan files */

/* Fits a plan that was read to this model and these limits. */
static graft_status adopt(const graft_model *m, graft_quantizer *q, graft_quant_plan *p,
                          graft_err *e)
{
    graft_hash weights;
    if (!graft_hash_equal(p->arch, graft_net_hash(&m->arch)))
        return graft_fail(e, GRAFT_E_ARG, "%s is a plan for another architecture", q->path);
    if (p->bits != q->bits || p->format != q->format)
        return graft_fail(
            e, GRAFT_E_ARG,
            "%s is a plan for %s, not %s: recalibrate makes it anew, another plan name keeps it",
            q->path, graft_quant_levels_name(p->bits, p->format),
            graft_quant_levels_name(q->bits, q->format));
    graft_status st = graft_quant_weights_hash(&m->arch, m->weights, &weights, e);
    if (st) return st;
    if (!graft_hash_equal(weights, p->weights))
        return graft_fail(
            e, GRAFT_E_ARG,
            "%s was made for other weights: recalibrate makes it anew, another plan name keeps it",
            q->path);
    st = graft_quant_plan_complete(p, &m->arch, e);
    if (st) return graft_err_prefix(e, st, "%s", q->path);
    graft_quant_plan_adopt(p, &q->limits);
    return GRAFT_OK;
}

/* Whether these limits could choose layers of a plan that measured none, as one does that was made
 * with a density that no layer reaches: it has to be made anew. Not so for attention that was tried
 * and is computed as it is, which would end the same way every time. */
static bool too_little(const graft_quant_plan *p)
{
    if (graft_quant_plan_measured(p)) return false;
    for (size_t i = 0; i < p->n; i++) {
        const graft_quant_layer *l = &p->layer[i];
        bool tried = l->kind == GRAFT_LAYER_ATTENTION && !isnan(p->seconds);
        if (!tried && (l->reason == GRAFT_QUANT_UNKNOWN || l->reason == GRAFT_QUANT_CHOSEN))
            return true;
    }
    return false;
}

/* Leaves *out alone when there is no such file, or too little in it. */
static graft_status load_plan(const graft_model *m, graft_quantizer *q, graft_quant_plan **out,
                              graft_err *e)
{
    char *text = NULL;
    size_t n = 0;
    graft_quant_plan *p = NULL;
    if (!q->path || !graft_file_exists(q->path)) return GRAFT_OK;
    graft_status st = graft_file_read(q->path, PLAN_BYTES, &text, &n, e);
    if (!st) st = graft_quant_plan_read(text, n, q->path, &p, e);
    if (!st) st = adopt(m, q, p, e);
    graft_free(text);
    if (st || too_little(p))
        graft_quant_plan_destroy(p);
    else
        *out = p;
    return st;
}

static graft_status save_plan(const graft_quantizer *q, const graft_quant_plan *p, graft_err *e)
{
    graft_str s = GRAFT_STR_INIT;
    if (!q->path) return GRAFT_OK;
    graft_status st = graft_quant_plan_write(p, &s, e);
    if (!st) st = graft_file_write(q->path, s.data, s.len, e);
    graft_str_finish(&s);
    return st;
}

/* ------------------------------------------------------------------ models */

static graft_status take_plan(const graft_model *m, graft_quantizer *q, graft_quant_plan *p,
                              graft_err *e)
{
    graft_status st = graft_quant_choice_make(p, &m->arch, &q->choice, e);
    if (st)
        graft_quant_plan_destroy(p);
    else
        q->plan = p;
    return st;
}

static graft_status calibrate(graft_quantizer *q, const graft_sampling *s,
                              const graft_latent *latent, const graft_task *task, graft_err *e)
{
    const graft_calibration c = {s, latent, q->bits, q->format, q->limits, q->unmeasured};
    graft_quant_plan *p = NULL;
    graft_status st = graft_calibrate(&c, task, &p, e);
    if (!st) st = save_plan(q, p, e);
    if (!st) return take_plan(s->model, q, p, e);
    graft_quant_plan_destroy(p);
    return st;
}

/* On what the node that quantizes was given. */
static graft_status calibrate_given(const graft_model *m, const graft_quantize_options *o,
                                    graft_quantizer *q, const graft_task *task, graft_err *e)
{
    const graft_sample_params params = {.steps = o->steps > 0 ? o->steps : 1,
                                        .sampler = "euler",
                                        .scheduler = "normal",
                                        .denoise = 1.0,
                                        .end_at_step = INT64_MAX};
    graft_sigmas *sigmas = NULL;
    graft_status st = graft_sigmas_for_ksampler(m, &params, &sigmas, e);
    const graft_sampling s = {.model = m,
                              .positive = o->positive,
                              .negative = o->negative,
                              .cfg = o->cfg,
                              .sampler = params.sampler,
                              .sigmas = sigmas,
                              .add_noise = true,
                              .seed = o->seed};
    if (!st) st = calibrate(q, &s, o->latent, task, e);
    graft_sigmas_release(sigmas);
    return st;
}

/* Densities and times are those of the size that the plan was made at. */
static void note_size(const graft_quantizer *q, const graft_net_arch *a, const graft_quant_plan *p,
                      const graft_latent *l, const graft_task *task)
{
    int64_t shape[4];
    graft_err none = GRAFT_ERR_INIT; /* the run will say so */
    const long long scale = graft_net_cell(a);
    if (!l || !task || graft_latent_shape_for(l, a->latent_channels, shape, &none)) return;
    if (graft_net_stacked(a, shape[2], graft_latent_layers(l)) == p->height &&
        graft_net_side(a, shape[3]) == p->width)
        return;
    graft_log_printf(&task->log, GRAFT_LOG_WARN,
                     "%s was calibrated at %lldx%lld pixels, this picture has %lldx%lld: densities "
                     "and times are of the former; recalibrate to renew them",
                     q->path, (long long)p->width * scale, (long long)p->height * scale,
                     (long long)shape[3] * scale, (long long)shape[2] * scale);
}

/* A plan for the quantizer, from its file or from the conditioning that was given; none where it
 * has to wait for a sampling run. */
static graft_status find_plan(const graft_model *m, const graft_quantize_options *o,
                              graft_quantizer *q, const graft_task *task, graft_err *e)
{
    graft_quant_plan *p = NULL;
    graft_status st = o->recalibrate ? GRAFT_OK : load_plan(m, q, &p, e);
    if (st) return st;
    if (p) {
        note_size(q, &m->arch, p, o->latent, task);
        st = take_plan(m, q, p, e);
        return st == GRAFT_E_ARG ? graft_err_prefix(e, st, "%s", q->path) : st;
    }
    if (!o->positive || (task && task->compile_only)) return GRAFT_OK;
    return calibrate_given(m, o, q, task, e);
}

graft_status graft_model_quantize(const graft_model *m, const graft_quantize_options *o,
                                  const graft_task *task, graft_model **out, char **report,
                                  graft_err *e)
{
    graft_model *n = NULL;
    graft_quantizer *q = NULL;
    graft_str text = GRAFT_STR_INIT;
    graft_status st;
    GRAFT_TRY(check_options(o, e));
    GRAFT_TRY(quantizer_create(o, &q, e));
    GRAFT_TRY(find_plan(m, o, q, task, e));
    n = graft_model_copy(m);
    if (!n) {
        st = graft_fail_nomem(e, "model");
        goto out;
    }
    graft_quantizer_release(n->quantizer);
    n->quantizer = graft_quantizer_retain(q);
    memcpy(&n->quant, &q->choice, sizeof n->quant);
    GRAFT_TRY(graft_quantizer_report(n, &text, e));
    if (report) *report = graft_str_take(&text);
    if (report && !*report) {
        st = graft_fail_nomem(e, "report");
        goto out;
    }
    *out = n;
    n = NULL;
out:
    graft_str_finish(&text);
    graft_model_release(n);
    graft_quantizer_release(q);
    return st;
}

/* Whether the run has a step to calibrate on. */
static bool samples(const graft_sampling *s)
{
    size_t n;
    graft_sigmas_data(s->sigmas, &n);
    return n >= 2;
}

graft_status graft_quantizer_settle(const graft_sampling *s, const graft_latent *latent,
                                    const graft_task *task, graft_model **out, graft_err *e)
{
    const graft_model *m = s->model;
    graft_quantizer *q = m->quantizer;
    graft_status st = GRAFT_OK;
    if (!q || m->quant.bits || !samples(s) || (task && task->compile_only)) return GRAFT_OK;
    pthread_mutex_lock(&q->lock);
    if (!q->plan) st = calibrate(q, s, latent, task, e);
    graft_quant_choice choice = q->choice;
    pthread_mutex_unlock(&q->lock);
    if (st || !choice.bits) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    memcpy(&n->quant, &choice, sizeof choice);
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_quantization(const graft_model *m, char **json, graft_image **picture,
                                      graft_err *e)
{
    graft_quantizer *q = m->quantizer;
    graft_str s = GRAFT_STR_INIT;
    graft_image *drawn = NULL;
    graft_status st = GRAFT_OK;
    if (json) *json = NULL;
    if (picture) *picture = NULL;
    if (!q) return GRAFT_OK;
    pthread_mutex_lock(&q->lock);
    const graft_quant_plan *p = q->plan;
    if (p && picture) st = graft_quant_plan_draw(p, &drawn, e);
    if (p && json && !st) st = graft_quant_plan_write(p, &s, e);
    pthread_mutex_unlock(&q->lock);
    if (!st && p && json) {
        *json = graft_str_take(&s);
        if (!*json) st = graft_fail_nomem(e, "quantization plan");
    }
    graft_str_finish(&s);
    if (st || !picture)
        graft_image_release(drawn);
    else
        *picture = drawn;
    return st;
}

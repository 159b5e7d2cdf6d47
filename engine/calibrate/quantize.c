/* Calibration: which layers of a model may be computed in integers. */
#include "engine/calibrate/quantize.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "engine/denoise/sample.h"
#include "engine/image/latent.h"
#include "engine/quant/measure.h"

enum {
    RECORD_SIDE = 64, /* of the recorded latent: what is larger is cut to its middle */
    TRIES = 3,        /* further samplings for a joint error that does not hold */
    AT_MEASURE = 300, /* progress, in thousandths */
    AT_JOINT = 600,
    AT_BACK_OFF = 900,
    AT_END = 1000
};
#define RECORD_AT 0.4  /* share of the run where the step is recorded */
#define BRIEF     0.02 /* seconds of a call: all of a sampling may meet other programs' work */
enum { TURNS = 8 };

typedef struct calibration {
    const graft_calibration *c;
    graft_model *base; /* the model as it is, with default options */
    graft_quant_plan *plan;
    double *error; /* of each layer, on the recorded step's output */
    graft_latent *reference;
    /* The recorded call. */
    float *x, *timesteps, *context, *y, weight[2];
    int64_t rows, height, width, tokens;
    graft_references shown;
    size_t calls, record_call;
    double seconds; /* of the shortest call of one sampling */
    /* Progress of the part that runs. */
    const graft_task *outer;
    graft_task task;
    uint64_t begin, end;
    bool sampling; /* not compiling for it, which counts something else */
} calibration;

/* ------------------------------------------------------------------ progress */

static void forward(const calibration *k, uint64_t done, uint64_t total)
{
    if (total && done <= total)
        graft_task_progress(k->outer, k->begin + (k->end - k->begin) * done / total, AT_END);
}

static void on_phase(void *ctx, const char *name)
{
    ((calibration *)ctx)->sampling = strcmp(name, "sample") == 0;
}

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    const calibration *k = ctx;
    if (k->sampling) forward(k, done, total);
}

static bool on_cancelled(void *ctx)
{
    return graft_task_cancelled(((const calibration *)ctx)->outer);
}

static void on_share(void *ctx, double share)
{
    forward(ctx, (uint64_t)(share * 1000), 1000);
}

static void begin_part(calibration *k, uint64_t begin, uint64_t end)
{
    k->begin = begin;
    k->end = end;
    k->calls = 0;
    k->seconds = 0;
    k->sampling = false;
    graft_task_progress(k->outer, begin, AT_END);
}

/* ------------------------------------------------------------------ recording */

/* The middle of a plane that has the call's height and width, or of each of its layers. */
static void cut(const calibration *k, const graft_guided_call *call, const float *from, float *to)
{
    const int64_t layers = graft_layers_of(k->shown.layers), all = call->height / layers;
    const int64_t rows = k->height / layers;
    int64_t top = (all - rows) / 2, left = (call->width - k->width) / 2;
    for (int64_t r = 0; r < k->height; r++)
        memcpy(to + r * k->width, from + (r / rows * all + top + r % rows) * call->width + left,
               (size_t)k->width * sizeof *to);
}

/* Row `from` of the call becomes row `to` of the record. */
static void take_row(calibration *k, const graft_guided_call *call, int64_t from, int64_t to)
{
    const graft_net_arch *a = &k->base->arch;
    const float *t = call->in[1], *context = call->in[2], *y = call->in[3];
    int64_t area = call->height * call->width, words = k->tokens * a->context_dim;
    int64_t shown = graft_net_x_values(a, 0, 0, &k->shown);
    const float *x = (const float *)call->in[0] + from * (a->in_channels * area + shown);
    float *kept = k->x + to * graft_net_x_values(a, k->height, k->width, &k->shown);
    for (int64_t c = 0; c < a->in_channels; c++, kept += k->height * k->width)
        cut(k, call, x + c * area, kept);
    memcpy(kept, x + a->in_channels * area, (size_t)shown * sizeof *kept);
    k->timesteps[to] = t[from];
    memcpy(k->context + to * words, context + from * words, (size_t)words * sizeof(float));
    const int64_t told = graft_net_y_width(a, k->tokens);
    if (told) memcpy(k->y + to * told, y + from * told, (size_t)told * sizeof(float));
}

static void forget_record(calibration *k)
{
    graft_free(k->x);
    graft_free(k->timesteps);
    graft_free(k->context);
    graft_free(k->y);
    k->x = k->timesteps = k->context = k->y = NULL;
}

/* Keeps the first picture of the first entry of either sign. */
static graft_status record(calibration *k, const graft_guided_call *call, graft_err *e)
{
    const graft_net_arch *a = &k->base->arch;
    int64_t row[2];
    size_t n = 0;
    for (int sign = 0; sign < 2; sign++)
        for (size_t i = 0; i < call->entries; i++)
            if (call->negative[i] == (sign == 1)) {
                row[n] = (int64_t)i * call->pictures;
                k->weight[n++] = (float)(sign ? 1.0 - k->c->sampling->cfg : k->c->sampling->cfg);
                break;
            }
    if (n == 1) k->weight[0] = 1.0f;
    k->rows = (int64_t)n;
    const int64_t side = RECORD_SIDE * graft_layers_of(call->references->layers);
    k->height = call->height < side ? call->height : side;
    k->width = call->width < RECORD_SIDE ? call->width : RECORD_SIDE;
    k->tokens = call->tokens;
    k->shown = *call->references;
    forget_record(k);
    int64_t values = graft_net_x_values(a, k->height, k->width, &k->shown);
    k->x = graft_malloc_array(n, (size_t)values * sizeof(float));
    k->timesteps = graft_malloc_array(n, sizeof(float));
    k->context = graft_malloc_array(n, (size_t)(k->tokens * a->context_dim) * sizeof(float));
    k->y = graft_malloc_array(n, (size_t)(a->adm_channels + 1) * sizeof(float));
    if (!k->x || !k->timesteps || !k->context || !k->y) return graft_fail_nomem(e, "calibration");
    for (size_t i = 0; i < n; i++) take_row(k, call, row[i], (int64_t)i);
    return GRAFT_OK;
}

static graft_status on_call(void *ctx, const graft_guided_call *call, graft_err *e)
{
    calibration *k = ctx;
    const graft_net_arch *a = &k->base->arch;
    size_t number = k->calls++;
    if (!number || call->seconds < k->seconds) k->seconds = call->seconds;
    /* Later calls replace earlier ones: runs of a part of the schedule may be short. But a prompt's
     * small area says less than the whole picture, and one without references less than with. */
    bool smaller = k->x && (call->height * call->width < k->height * k->width ||
                            graft_net_x_values(a, 0, 0, call->references) <
                                graft_net_x_values(a, 0, 0, &k->shown));
    return !k->reference && number <= k->record_call && !smaller ? record(k, call, e) : GRAFT_OK;
}

/* ------------------------------------------------------------------ samplings */

static graft_status sample(calibration *k, const graft_model *m, graft_latent **out, graft_err *e)
{
    const graft_guided_tap tap = {k, on_call};
    graft_sampling s = *k->c->sampling;
    s.model = m;
    return graft_sample_tapped(&s, k->c->latent, &k->task, &tap, out, NULL, e);
}

static double mean_ssim(const float *a, const float *b, const int64_t shape[4], double range)
{
    double sum = 0, one = 0;
    int64_t planes = shape[0] * shape[1], area = shape[2] * shape[3];
    for (int64_t i = 0; i < planes; i++) {
        if (graft_metric_ssim(a + i * area, b + i * area, shape[2], shape[3], 1, range, &one, NULL))
            return NAN;
        sum += one;
    }
    return planes ? sum / (double)planes : NAN;
}

/* Samples with the plan's choice and notes how far the latent is from the reference. */
static graft_status sample_chosen(calibration *k, graft_err *e)
{
    graft_quant_plan *p = k->plan;
    graft_model *m = NULL;
    graft_latent *l = NULL;
    int64_t shape[4], n;
    graft_status st;
    GRAFT_TRY(graft_model_with_plan(k->base, p, &m, e));
    GRAFT_TRY(sample(k, m, &l, e));
    const float *a = graft_latent_data(k->reference, shape), *b = graft_latent_data(l, shape);
    n = shape[0] * shape[1] * shape[2] * shape[3];
    float low = a[0], high = a[0];
    for (int64_t i = 0; i < n; i++) {
        if (a[i] < low) low = a[i];
        if (a[i] > high) high = a[i];
    }
    double scale = graft_model_latent_gain(k->base), range = (double)high - (double)low;
    p->joint_mse = graft_metric_mse(a, b, (size_t)n) * scale * scale;
    p->joint_psnr = graft_metric_psnr(a, b, (size_t)n, range);
    p->joint_ssim = mean_ssim(a, b, shape, range);
    p->sampled_quantized = k->calls ? k->seconds : NAN;
    if (!isfinite(p->joint_mse))
        st = graft_fail(e, GRAFT_E_FORMAT,
                        "calibration: the sampled latent holds values that are not finite");
out:
    graft_latent_release(l);
    graft_model_release(m);
    return st;
}

/* ------------------------------------------------------------------ the choice */

static double chosen_error(const calibration *k, const double *error)
{
    double sum = 0;
    for (size_t i = 0; i < k->plan->n; i++)
        if (k->plan->layer[i].reason == GRAFT_QUANT_CHOSEN && isfinite(error[i])) sum += error[i];
    return sum;
}

/* The joint error of all candidates says what a unit of error on the recorded step's output means
 * in the latent: errors of different layers hardly correlate, so they add up. Where no candidate
 * was sampled, nothing says so. */
static void scale_errors(calibration *k)
{
    if (isnan(k->plan->joint_mse)) return;
    double sum = chosen_error(k, k->error);
    double factor = sum > 0 ? k->plan->joint_mse / sum : 0;
    for (size_t i = 0; i < k->plan->n; i++) k->plan->layer[i].mse = k->error[i] * factor;
}

/* What sampling the chosen layers says of their estimates. */
static void judge_estimates(graft_quant_plan *p)
{
    double sum = graft_quant_plan_estimate(p);
    if (!(sum > 0)) return;
    p->understated = fmax(p->understated, p->joint_mse / sum);
    p->excess = fmax(p->excess, p->joint_mse - sum);
}

/* Takes the choice that the limits ask for and gives layers back until the joint error holds. */
static graft_status settle(calibration *k, size_t candidates, graft_err *e)
{
    graft_quant_plan *p = k->plan;
    double limit = graft_quant_limits_joint(&k->c->limits);
    size_t chosen = graft_quant_plan_select(p, &k->c->limits);
    if (limit < 1) chosen -= graft_quant_plan_back_off(p, limit);
    for (int i = 0; chosen; i++) {
        if (isnan(p->joint_mse)) {
            begin_part(k, AT_BACK_OFF, AT_END);
            graft_status st = sample_chosen(k, e);
            if (st) return st;
        }
        judge_estimates(p);
        if (limit >= 1 || p->joint_mse <= limit) break;
        /* Somewhat below what the measured sum asks for, so that the next try holds. */
        double budget = i < TRIES ? 0.8 * limit / p->joint_mse * graft_quant_plan_estimate(p) : -1;
        size_t gone = graft_quant_plan_back_off(p, budget);
        if (!gone) break;
        chosen -= gone;
    }
    if (chosen == candidates) graft_task_progress(k->outer, AT_END, AT_END);
    return GRAFT_OK;
}

static graft_status bind(calibration *k, const graft_model *m, graft_binding **out, graft_err *e)
{
    const graft_unet_use use = {.pictures = k->rows,
                                .entries = 1,
                                .height = k->height,
                                .width = k->width,
                                .tokens = k->tokens,
                                .references = k->shown};
    return graft_model_bind_guided(m, &use, &k->task, out, e);
}

/* Binds the model with every layer quantized, so that other thresholds can choose from all. */
static graft_status bind_quantized(calibration *k, graft_binding **out, graft_err *e)
{
    static const graft_quant_limits every = {{true, true, true}, {1, 1, 1}, 0};
    graft_quant_limits own = k->plan->limits;
    graft_model *m = NULL;
    graft_quant_plan_select(k->plan, &every);
    graft_status st = graft_model_with_plan(k->base, k->plan, &m, e);
    graft_quant_plan_select(k->plan, &own);
    if (!st) st = bind(k, m, out, e);
    graft_model_release(m);
    return st;
}

/* The recorded call, as the network takes it. */
static void inputs(const calibration *k, const void *in[5])
{
    memcpy(in, (const void *[]){k->x, k->timesteps, k->context, k->y, NULL}, 5 * sizeof *in);
    in[graft_net_y_width(&k->base->arch, k->tokens) ? 4 : 3] =
        graft_model_freeu_factors(k->base, GRAFT_WHOLE); /* NULL: one input less */
}

static graft_status measure(calibration *k, graft_err *e)
{
    graft_binding *b = NULL, *quantized = NULL;
    graft_status st = bind(k, k->base, &b, e);
    if (!st) st = bind_quantized(k, &quantized, e);
    const void *in[5];
    inputs(k, in);
    const graft_quant_record rec = {b, quantized, in, k->weight};
    if (!st) st = graft_quant_measure(k->plan, &rec, &k->task, on_share, k, k->error, e);
    graft_binding_release(quantized);
    graft_binding_release(b);
    return st;
}

/* Two short samplings lie apart: where other programs computed during one of them, calls with and
 * without the chosen layers are timed anew in turns, so that both meet the same. */
static graft_status time_in_turns(calibration *k, graft_err *e)
{
    graft_quant_plan *p = k->plan;
    bool whole = k->rows == p->batch && k->height == p->height && k->width == p->width;
    if (!whole || !graft_quant_plan_disturbed(p) || fmin(p->sampled, p->sampled_quantized) > BRIEF)
        return GRAFT_OK;
    graft_model *chosen = NULL;
    graft_binding *b[2] = {NULL, NULL};
    double shortest[2] = {INFINITY, INFINITY};
    const void *in[5];
    graft_status st;
    size_t values = (size_t)(k->rows * k->base->arch.latent_channels * k->height * k->width);
    float *out = graft_malloc_array(values, sizeof *out);
    if (!out) return graft_fail_nomem(e, "calibration");
    inputs(k, in);
    GRAFT_TRY(graft_model_with_plan(k->base, p, &chosen, e));
    GRAFT_TRY(bind(k, k->base, &b[0], e));
    GRAFT_TRY(bind(k, chosen, &b[1], e));
    for (int i = 0; i < 2 * TURNS; i++) {
        double start = graft_clock_now();
        GRAFT_TRY(graft_exe_run(b[i % 2], k->base->engine->arenas, in, (void *[]){out}, &k->task,
                                NULL, e));
        shortest[i % 2] = fmin(shortest[i % 2], graft_clock_now() - start);
    }
    p->sampled = shortest[0];
    p->sampled_quantized = shortest[1];
out:
    graft_free(out);
    graft_binding_release(b[0]);
    graft_binding_release(b[1]);
    graft_model_release(chosen);
    return st;
}

/* Attention that this library does not quantize is no candidate. Returns how many there were. */
static size_t leave_as_it_is(calibration *k)
{
    size_t left = 0;
    for (size_t i = 0; i < k->plan->n; i++) {
        graft_quant_layer *l = &k->plan->layer[i];
        if (l->kind != GRAFT_LAYER_ATTENTION || l->reason != GRAFT_QUANT_CHOSEN ||
            isfinite(k->error[i]))
            continue;
        l->reason = GRAFT_QUANT_UNKNOWN;
        left++;
    }
    return left;
}

static graft_status run(calibration *k, graft_err *e)
{
    graft_quant_limits all = k->c->limits;
    for (int i = 0; i < GRAFT_LAYER_KINDS; i++) all.mse[i] = 1;
    size_t candidates = graft_quant_plan_select(k->plan, &all);
    if (!candidates || k->c->unmeasured) {
        graft_quant_plan_select(k->plan, &k->c->limits);
        return GRAFT_OK;
    }
    graft_status st;
    begin_part(k, 0, AT_MEASURE);
    GRAFT_TRY(sample(k, k->base, &k->reference, e));
    k->plan->sampled = k->calls ? k->seconds : NAN;
    if (!k->x) {
        st = graft_fail(e, GRAFT_E_ARG, "calibration: there was no step to measure on");
        goto out;
    }
    begin_part(k, AT_MEASURE, AT_JOINT);
    GRAFT_TRY(measure(k, e));
    candidates -= leave_as_it_is(k);
    begin_part(k, AT_JOINT, AT_BACK_OFF);
    if (candidates) GRAFT_TRY(sample_chosen(k, e));
    scale_errors(k);
    GRAFT_TRY(settle(k, candidates, e));
    begin_part(k, AT_END, AT_END);
    GRAFT_TRY(time_in_turns(k, e));
    graft_task_progress(k->outer, AT_END, AT_END);
out:
    return st;
}

/* ------------------------------------------------------------------ set-up */

static graft_status make_base(calibration *k, graft_err *e)
{
    graft_model *b = graft_model_copy(k->c->sampling->model);
    if (!b) return graft_fail_nomem(e, "calibration");
    k->base = b;
    memset(&b->quant, 0, sizeof b->quant);
    b->as_floats = true;
    memset(&b->deepcache, 0, sizeof b->deepcache);
    graft_hypernetwork_release(b->hyper.net); /* has no layers in the plan */
    b->hyper = (struct graft_hyper){0};
    graft_quantizer_release(b->quantizer);
    b->quantizer = NULL;
    snprintf(b->options.precision, sizeof b->options.precision, "auto");
    snprintf(b->options.device, sizeof b->options.device, "auto");
    b->options.tuning = GRAFT_TUNING_OFF;
    return GRAFT_OK;
}

static graft_status make_plan(calibration *k, graft_err *e)
{
    const graft_calibration *c = k->c;
    const graft_sampling *s = c->sampling;
    graft_net_shape shape;
    int64_t dim[4];
    if (!s->positive->n) return graft_fail(e, GRAFT_E_ARG, "the positive conditioning is empty");
    graft_status st = graft_latent_shape_for(c->latent, k->base->arch.latent_channels, dim, e);
    if (st) return st;
    memset(&shape, 0, sizeof shape);
    shape.batch = dim[0] * (fabs(s->cfg - 1.0) > 1e-9 ? 2 : 1);
    shape.height = graft_net_stacked(&k->base->arch, dim[2], graft_latent_layers(c->latent));
    shape.width = graft_net_side(&k->base->arch, dim[3]);
    shape.tokens = graft_net_tokens(&k->base->arch, s->positive->entry[0]->tokens);
    shape.act_dtype = GRAFT_F32;
    graft_hypertile_grids(&k->base->hypertile, &k->base->arch.unet, &shape, 0);
    shape.merged = graft_unet_merged(&k->base->arch.unet, &shape, k->base->merged);
    st = graft_quant_plan_create(&k->base->arch, &shape, &k->plan, e);
    if (st) return st;
    k->plan->bits = c->bits;
    k->plan->format = c->format;
    k->error = graft_malloc_array(k->plan->n, sizeof *k->error);
    if (!k->error) return graft_fail_nomem(e, "calibration");
    return graft_quant_weights_hash(&k->base->arch, k->base->weights, &k->plan->weights, e);
}

graft_status graft_calibrate(const graft_calibration *c, const graft_task *task,
                             graft_quant_plan **out, graft_err *e)
{
    graft_status st;
    size_t sigmas;
    calibration *k = graft_calloc(1, sizeof *k);
    if (!k) return graft_fail_nomem(e, "calibration");
    k->c = c;
    k->outer = task;
    k->task = (graft_task){
        .ctx = k, .phase = on_phase, .progress = on_progress, .cancelled = on_cancelled};
    if (task) k->task.log = task->log;
    graft_sigmas_data(c->sampling->sigmas, &sigmas);
    k->record_call = sigmas > 1 ? (size_t)(RECORD_AT * (double)(sigmas - 1)) : 0;
    graft_task_phase(task, "calibrate");
    GRAFT_TRY(make_base(k, e));
    GRAFT_TRY(make_plan(k, e));
    GRAFT_TRY(run(k, e));
    *out = k->plan;
    k->plan = NULL;
out:
    graft_quant_plan_destroy(k->plan);
    graft_latent_release(k->reference);
    graft_model_release(k->base);
    graft_free(k->error);
    forget_record(k);
    graft_free(k);
    return st;
}

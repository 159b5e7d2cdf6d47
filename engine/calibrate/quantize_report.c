/* What quantization did to a model, in words. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "base/alloc.h"
#include "engine/calibrate/quantize.h"
#include "kernels/quant.h"

enum { WORST = 6 }; /* layers that are named */

typedef struct kind_sum {
    size_t layers, chosen;
    double flops, chosen_flops;
    double seconds;                          /* of all, as they are */
    double chosen_seconds;                   /* of the chosen ones, as they are */
    double quantized;                        /* of the chosen ones, quantized */
    double every_quantized;                  /* of all that were timed, quantized */
    double lost[GRAFT_QUANT_BACKED_OFF + 1]; /* work left as it is, by reason */
} kind_sum;

static void add(kind_sum *k, const graft_quant_layer *l)
{
    bool timed = isfinite(l->seconds) && isfinite(l->seconds_quantized);
    bool chosen = l->reason == GRAFT_QUANT_CHOSEN;
    k->layers++;
    k->chosen += chosen;
    k->flops += l->flops;
    k->lost[l->reason] += l->flops;
    if (chosen) k->chosen_flops += l->flops;
    if (!timed) return;
    k->seconds += l->seconds;
    k->every_quantized += l->seconds_quantized;
    if (!chosen) return;
    k->chosen_seconds += l->seconds;
    k->quantized += l->seconds_quantized;
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100.0 * part / whole : 0;
}

static void print_kind(graft_str *s, const graft_quant_plan *p, const char *name, const kind_sum *k)
{
    char before[16], after[16];
    graft_str_printf(s, "  %-13s %4zu of %-4zu", name, k->chosen, k->layers);
    if (k->chosen && !(k->chosen_seconds > 0)) {
        graft_str_puts(s, "   not measured");
    } else if (p->seconds > 0 && k->chosen) {
        graft_seconds_text(k->chosen_seconds, before);
        graft_seconds_text(k->quantized, after);
        graft_str_printf(s, " %3.0f %% of a step, %s become %s: %.2f times as fast",
                         percent(k->chosen_seconds, p->seconds), before, after,
                         k->quantized > 0 ? k->chosen_seconds / k->quantized : 1.0);
    }
    graft_str_puts(s, "\n");
}

static void print_speed(graft_str *s, const graft_quant_plan *p)
{
    char before[16], after[16];
    if (p->seconds > 0)
        graft_str_printf(s, "  speed         predicted %.2f times as fast",
                         graft_quant_plan_gain(p));
    if (p->sampled > 0 && p->sampled_quantized > 0) {
        graft_seconds_text(p->sampled, before);
        graft_seconds_text(p->sampled_quantized, after);
        graft_str_printf(s, ", measured %.2f (%s per step instead of %s)",
                         p->sampled / p->sampled_quantized, after, before);
    }
    if (p->seconds > 0) graft_str_puts(s, "\n");
    if (graft_quant_plan_disturbed(p))
        graft_str_puts(s, "                these two do not agree: something else kept the "
                          "processor busy, do not trust them\n");
}

static void print_joint(graft_str *s, const graft_quant_plan *p)
{
    if (isfinite(p->joint_mse)) {
        graft_str_printf(s, "  joint error   MSE %.3g of the sampled latent, PSNR %.1f dB",
                         p->joint_mse, p->joint_psnr);
        if (isfinite(p->joint_ssim)) graft_str_printf(s, ", SSIM %.3f", p->joint_ssim);
        graft_str_puts(s, "\n");
        return;
    }
    double sum = graft_quant_plan_predict(p, graft_quant_plan_estimate(p));
    if (sum > 0)
        graft_str_printf(s, "  joint error   MSE %.3g, estimated: this choice was not sampled\n",
                         sum);
}

/* What the chosen layers' weights take, as kernels/quant.h stores them. */
static graft_status print_memory(graft_str *s, const graft_model *m, const graft_quant_plan *p,
                                 graft_err *e)
{
    graft_backend *b;
    graft_dtype dtype;
    char before[16], after[16];
    uint64_t plain = 0, packed = 0;
    graft_status st = graft_options_resolve(m->engine, &m->options, &b, &dtype, e);
    if (st) return st;
    for (size_t i = 0; i < p->n; i++) {
        const graft_quant_layer *l = &p->layer[i];
        if (l->reason != GRAFT_QUANT_CHOSEN || l->kind == GRAFT_LAYER_ATTENTION) continue;
        int64_t n = l->dim[1] * (l->kind == GRAFT_LAYER_CONV ? l->dim[2] * l->dim[3] : 1);
        plain += (uint64_t)(l->dim[0] * n) * graft_dtype_size(dtype);
        packed += p->bits == 4 ? graft_quant4_bytes(l->dim[0], n)
                               : (uint64_t)l->dim[0] * ((uint64_t)n + sizeof(float));
    }
    /* Libraries for devices of their own may keep 4 bits as floats. */
    if (p->bits == 4 && !b->info.host_memory) packed = plain;
    if (!plain) return GRAFT_OK; /* attention has none */
    graft_bytes_text(plain, before);
    graft_bytes_text(packed, after);
    graft_str_printf(s, "  memory        their weights take %s instead of %s\n", after, before);
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ advice */

static void print_left(graft_str *s, const graft_quant_plan *p, const kind_sum *all)
{
    static const struct {
        graft_quant_reason reason;
        const char *why;
    } why[] = {{GRAFT_QUANT_DENSITY, "below compute_density_threshold"},
               {GRAFT_QUANT_ERROR, "above their error threshold"},
               {GRAFT_QUANT_BACKED_OFF, "given back so that the joint error holds"},
               {GRAFT_QUANT_KIND, "of a kind that is turned off"},
               {GRAFT_QUANT_KEPT, "never quantized (first, last, embeddings)"},
               {GRAFT_QUANT_UNKNOWN, "not measured"}};
    for (size_t i = 0; i < sizeof why / sizeof *why; i++) {
        size_t n = graft_quant_plan_count(p, why[i].reason);
        if (n)
            graft_str_printf(s, "  left          %4zu %s: %.0f %% of the work\n", n, why[i].why,
                             percent(all->lost[why[i].reason], all->flops + p->other_flops));
    }
}

/* Whether layers of this kind had better stay as they are. 4 bits are there for their size. */
static bool unwanted(const graft_quant_plan *p, const kind_sum *k)
{
    return p->bits == 8 && k->chosen && k->quantized > k->chosen_seconds;
}

/* The threshold that graft_quant_limits_joint() gives. */
static const char *joint_threshold(const graft_quant_limits *k)
{
    graft_quant_limits others = *k;
    others.on[GRAFT_LAYER_ATTENTION] = false;
    return graft_quant_limits_joint(&others) > 0
               ? "larger threshold of convolutions and linear layers"
               : "threshold of attention";
}

/* The threshold that holds back most of the work, and what moving it would bring at best. A kind
 * that is slower quantized gets no advice to quantize more of it. */
static void print_advice(graft_str *s, const graft_quant_plan *p,
                         const kind_sum kind[GRAFT_LAYER_KINDS])
{
    double work = p->other_flops, density = 0, back = 0, error = 0;
    const char *gain = p->bits == 4 ? "less memory" : "more speed";
    for (graft_layer_kind i = 0; i < GRAFT_LAYER_KINDS; i++) {
        work += kind[i].flops;
        if (!unwanted(p, &kind[i])) {
            density += kind[i].lost[GRAFT_QUANT_DENSITY];
            back += kind[i].lost[GRAFT_QUANT_BACKED_OFF];
            error = fmax(error, kind[i].lost[GRAFT_QUANT_ERROR]);
        } else {
            graft_str_printf(s,
                             "  more speed    these layers are slower in %s here: set "
                             "quantize_%s to disable\n",
                             p->format ? graft_quant_format_name(p->format) : "integers",
                             graft_layer_kind_name(i));
        }
    }
    if (density > 0.05 * work && density >= back && density >= error) {
        double most = 0;
        for (size_t i = 0; i < p->n; i++)
            if (p->layer[i].reason == GRAFT_QUANT_DENSITY &&
                !unwanted(p, &kind[p->layer[i].kind]) && p->layer[i].density > most)
                most = p->layer[i].density;
        graft_str_printf(s,
                         "  %-13s lower compute_density_threshold: the densest layer below it "
                         "has %.0f\n",
                         gain, most);
        return;
    }
    bool advised = false;
    for (graft_layer_kind i = 0; i < GRAFT_LAYER_KINDS; i++)
        if (!unwanted(p, &kind[i]) && kind[i].lost[GRAFT_QUANT_ERROR] > 0.05 * work) {
            graft_str_printf(s, "  %-13s raise %s_mse_threshold\n", gain, graft_layer_kind_name(i));
            advised = true;
        }
    if (!advised && back > 0.05 * work)
        graft_str_printf(s, "  %-13s raise the %s, which limits all layers together\n", gain,
                         joint_threshold(&p->limits));
}

static int by_error(const void *a, const void *b)
{
    const graft_quant_layer *x = *(const graft_quant_layer *const *)a,
                            *y = *(const graft_quant_layer *const *)b;
    double p = isfinite(x->mse) ? x->mse : -1, q = isfinite(y->mse) ? y->mse : -1;
    return (p < q) - (p > q);
}

static graft_status print_worst(graft_str *s, const graft_quant_plan *p, graft_err *e)
{
    const graft_quant_layer **list = graft_malloc_array(p->n, sizeof *list);
    if (!list) return graft_fail_nomem(e, "report");
    for (size_t i = 0; i < p->n; i++) list[i] = &p->layer[i];
    qsort(list, p->n, sizeof *list, by_error);
    for (size_t i = 0; i < p->n && i < WORST && isfinite(list[i]->mse); i++)
        graft_str_printf(s, "  %s %-8.3g  density %4.0f, %s: %s\n",
                         i ? "              " : "largest errors", list[i]->mse, list[i]->density,
                         list[i]->reason == GRAFT_QUANT_CHOSEN ? "chosen" : "left", list[i]->name);
    graft_free(list);
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ DeepCache */

/* Time of the chosen layers that a fast step of DeepCache still runs, as it is and quantized, and
 * the share of all work that such a step does. */
static graft_status fast_step(const graft_model *m, const graft_quant_plan *p, double *before,
                              double *after, double *share, graft_err *e)
{
    graft_graph *g = NULL;
    const graft_net_shape shape = {.batch = p->batch,
                                   .height = p->height,
                                   .width = p->width,
                                   .tokens = p->tokens,
                                   .act_dtype = GRAFT_F32,
                                   .variant = GRAFT_FAST,
                                   .cut = m->deepcache.cut};
    graft_status st = graft_unet_build(&m->arch.unet, &shape, &g, e);
    if (st) return st;
    double work = p->other_flops, fast = 0;
    for (size_t i = 0; i < p->n; i++) work += p->layer[i].flops;
    *before = *after = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        char name[128];
        if (!graft_quant_node_layer(g, i, 0, name)) continue;
        size_t k = graft_quant_plan_find(p, name);
        if (k == p->n) continue;
        const graft_quant_layer *l = &p->layer[k];
        fast += l->flops;
        if (l->reason != GRAFT_QUANT_CHOSEN || !isfinite(l->seconds)) continue;
        *before += l->seconds;
        *after += l->seconds_quantized;
    }
    graft_graph_destroy(g);
    *share = work > 0 ? fast / work : 0;
    return GRAFT_OK;
}

static graft_status print_deepcache(graft_str *s, const graft_model *m, const graft_quant_plan *p,
                                    graft_err *e)
{
    double before, after, share, n = (double)m->deepcache.interval;
    if (m->deepcache.interval <= 1 || !(p->seconds > 0)) return GRAFT_OK;
    graft_status st = fast_step(m, p, &before, &after, &share, e);
    if (st) return st;
    double fast = share * p->seconds, whole = p->seconds / graft_quant_plan_gain(p);
    double plain = (p->seconds + (n - 1) * fast) / n;
    double both = (whole + (n - 1) * (fast - before + after)) / n;
    graft_str_printf(s,
                     "  DeepCache     %lld of %lld steps run %.0f %% of the work; that leaves "
                     "%.2f times to quantization instead of %.2f\n",
                     (long long)(m->deepcache.interval - 1), (long long)m->deepcache.interval,
                     100 * share, both > 0 ? plain / both : 1.0, graft_quant_plan_gain(p));
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ all */

static void print_nothing(graft_str *s, const graft_quant_plan *p)
{
    double most = 0;
    size_t dense = 0;
    for (size_t i = 0; i < p->n; i++) {
        const graft_quant_layer *l = &p->layer[i];
        if (l->reason == GRAFT_QUANT_KEPT || !p->limits.on[l->kind]) continue;
        if (l->density > most) most = l->density;
        dense += l->density >= p->limits.density;
    }
    if (!p->limits.on[GRAFT_LAYER_CONV] && !p->limits.on[GRAFT_LAYER_LINEAR] &&
        !p->limits.on[GRAFT_LAYER_ATTENTION])
        graft_str_puts(s, "  nothing is quantized: all kinds are turned off\n");
    else if (!dense)
        graft_str_printf(s,
                         "  nothing is quantized: no layer reaches the density %.0f at this size; "
                         "the densest has %.0f\n",
                         p->limits.density, most);
    else if (graft_quant_plan_count(p, GRAFT_QUANT_BACKED_OFF))
        graft_str_puts(s, "  nothing is quantized: layers are below their thresholds alone, but "
                          "even a few of them together are above the larger one; raise it, or "
                          "calibrate with more steps or less guidance\n");
    else if (!graft_quant_plan_count(p, GRAFT_QUANT_ERROR))
        graft_str_puts(s, "  nothing is quantized: the layers that could be were not measured. "
                          "Recalibrate; devices may compute attention as it is\n");
    else
        graft_str_printf(
            s, "  nothing is quantized: every layer's error is above its threshold%s\n",
            graft_quant_plan_count(p, GRAFT_QUANT_UNKNOWN) ? ", and some were not measured" : "");
}

static graft_status print_plan(graft_str *s, const graft_model *m, const graft_quant_plan *p,
                               graft_err *e)
{
    kind_sum kind[GRAFT_LAYER_KINDS] = {{0}}, all = {0};
    graft_hash weights;
    size_t chosen = graft_quant_plan_count(p, GRAFT_QUANT_CHOSEN), patches, tensors;
    const long long scale = graft_net_cell(&m->arch);
    for (size_t i = 0; i < p->n; i++) {
        add(&kind[p->layer[i].kind], &p->layer[i]);
        add(&all, &p->layer[i]);
    }
    graft_str_printf(s, "  layers        %zu of %zu, %.0f %% of the work, to %s\n", chosen, p->n,
                     percent(all.chosen_flops, all.flops + p->other_flops),
                     graft_quant_levels_name(p->bits, p->format));
    graft_str_printf(
        s, "  thresholds    convolutions %g, linear layers %g, attention %g, density %g\n",
        p->limits.mse[GRAFT_LAYER_CONV], p->limits.mse[GRAFT_LAYER_LINEAR],
        p->limits.mse[GRAFT_LAYER_ATTENTION], p->limits.density);
    graft_str_printf(s, "  calibrated    %s %lldx%lld pixels, batch %lld\n",
                     m->quantizer->unmeasured ? "not: chosen unmeasured for" : "at",
                     (long long)p->width * scale, (long long)p->height * scale,
                     (long long)p->batch);
    if (m->quantizer->path) graft_str_printf(s, "  plan          %s\n", m->quantizer->path);
    graft_status st = graft_quant_weights_hash(&m->arch, m->weights, &weights, e);
    if (st) return st;
    graft_weights_patch_count(m->weights, &tensors, &patches);
    if (!graft_hash_equal(weights, p->weights))
        graft_str_puts(s, "  weights       others than the plan's: requantized, same layers\n");
    else if (patches)
        graft_str_puts(s, "  weights       changed by LoRAs: requantized, same layers\n");
    if (!chosen) {
        print_nothing(s, p);
        return GRAFT_OK;
    }
    st = print_memory(s, m, p, e);
    if (st) return st;
    print_joint(s, p);
    print_speed(s, p);
    print_kind(s, p, "convolutions", &kind[GRAFT_LAYER_CONV]);
    print_kind(s, p, "linear layers", &kind[GRAFT_LAYER_LINEAR]);
    print_kind(s, p, "attention", &kind[GRAFT_LAYER_ATTENTION]);
    st = print_deepcache(s, m, p, e);
    print_left(s, p, &all);
    if (!graft_quant_plan_disturbed(p)) print_advice(s, p, kind);
    return st ? st : print_worst(s, p, e);
}

graft_status graft_quantizer_report(const graft_model *m, graft_str *s, graft_err *e)
{
    graft_quantizer *q = m->quantizer;
    graft_status st = GRAFT_OK;
    if (!q) return GRAFT_OK;
    graft_str_puts(s, "Quantization\n");
    pthread_mutex_lock(&q->lock);
    if (q->plan)
        st = print_plan(s, m, q->plan, e);
    else
        graft_str_printf(s, "  %s the first sampling run of this model\n",
                         q->unmeasured ? "layers are chosen at" : "is calibrated on");
    pthread_mutex_unlock(&q->lock);
    return st;
}

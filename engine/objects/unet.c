/* A model's network, compiled for a shape and bound to its weights. */
#include <assert.h>
#include <string.h>

#include "engine/objects/boxes.h"
#include "engine/objects/control.h"
#include "engine/objects/sight.h"

/* What a compiled UNet depends on besides the architecture; the whole is a key. */
typedef struct unet_job {
    graft_net_shape shape;
    int64_t pictures; /* rows after which x and timesteps repeat */
    graft_quant_choice quant;
} unet_job;

#define UNET "unet"

/* By graft_net_kind. */
static const char *const kinds[] = {[GRAFT_NET_UNET] = UNET,
                                    [GRAFT_NET_MMDIT] = "mmdit",
                                    [GRAFT_NET_FLUX] = "flux",
                                    [GRAFT_NET_ZIMAGE] = "zimage",
                                    [GRAFT_NET_FLUX2] = "flux2",
                                    [GRAFT_NET_QWEN_IMAGE] = "qwen_image",
                                    [GRAFT_NET_KREA2] = "krea2",
                                    [GRAFT_NET_ANIMA] = "anima",
                                    [GRAFT_NET_QWEN_IMAGE21] = "qwen_image21",
                                    [GRAFT_NET_IDEOGRAM4] = "ideogram4",
                                    [GRAFT_NET_ERNIE_IMAGE] = "ernie_image",
                                    [GRAFT_NET_AURAFLOW] = "auraflow",
                                    [GRAFT_NET_OMNIGEN2] = "omnigen2",
                                    [GRAFT_NET_HIDREAM] = "hidream"};
static_assert(sizeof kinds / sizeof *kinds == GRAFT_NET_KINDS, "every network has a name");

const char *graft_net_kind_name(const graft_net_arch *a)
{
    return kinds[a->kind];
}

bool graft_is_net_kind(const char *kind)
{
    bool is = strncmp(kind, UNET, strlen(UNET)) == 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        is = is || strcmp(kind, kinds[i]) == 0;
    return is;
}

static graft_status build_graph(const void *arch, const void *of, graft_graph **out, graft_err *e)
{
    const unet_job *job = of;
    graft_status st = graft_net_build(arch, &job->shape, job->pictures, out, e);
    if (st) return st;
    st = graft_quant_choice_apply(&job->quant, arch, *out, e);
    if (st) {
        graft_graph_destroy(*out);
        *out = NULL;
    }
    return st;
}

const float *graft_model_freeu_factors(const graft_model *m, graft_variant variant)
{
    const graft_net_shape shape = {.variant = (int32_t)variant,
                                   .cut = variant == GRAFT_WHOLE ? 0 : m->deepcache.cut,
                                   .freeu = (int32_t)m->freeu.version};
    return graft_unet_freeu(&m->arch.unet, &shape) ? m->freeu.factor : NULL;
}

/* *w becomes these and beside them a's. */
static graft_status put_beside(graft_weights *a, const char *called, graft_weights **w,
                               graft_err *e)
{
    graft_weights *both = NULL;
    graft_status st = graft_weights_beside(a, called, *w, &both, e);
    graft_weights_release(*w);
    *w = both;
    return st;
}

/* What such a use of it reads: the tensors of a hypernetwork, of a GLIGEN, or of ControlNets within
 * it, stand beside the network's. */
static graft_status weights_of(const graft_model *m, const graft_unet_use *use, graft_weights **out,
                               graft_err *e)
{
    graft_status st = GRAFT_OK;
    *out = graft_weights_retain(m->weights);
    if (m->hyper.net) st = put_beside(m->hyper.net->weights, GRAFT_HYPER_CALLED, out, e);
    if (!st && use->boxed) st = put_beside(use->boxed->weights, GRAFT_GLIGEN_CALLED, out, e);
    return st || !use->within ? st : graft_control_within_weights(m, out, e);
}

bool graft_model_keeps(const graft_model *m, const graft_backend *b, graft_dtype act_dtype,
                       const graft_weights *w)
{
    return !m->quant.bits && !m->as_floats &&
           graft_engine_keeps(m->engine, &m->options, b, act_dtype, w);
}

graft_status graft_model_bind_guided(const graft_model *m, const graft_unet_use *use,
                                     const graft_task *task, graft_binding **out, graft_err *e)
{
    unet_job unet;
    memset(&unet, 0, sizeof unet);
    graft_compile_job job = {.kind = graft_net_kind_name(&m->arch),
                             .arch = &m->arch,
                             .arch_bytes = sizeof m->arch,
                             .shape = &unet,
                             .shape_bytes = sizeof unet,
                             .build = build_graph};
    graft_status st = graft_unet_use_batch(use, &unet.shape.batch, e);
    if (st) return st;
    /* As unet.c has it; a transformer computes all rows. */
    const bool shares = graft_net_is_unet(&m->arch) && !m->arch.adm_channels;
    unet.pictures = shares ? use->pictures : unet.shape.batch;
    unet.shape.height = graft_net_stacked(&m->arch, use->height, use->references.layers);
    unet.shape.width = graft_net_side(&m->arch, use->width);
    unet.shape.tokens = use->tokens;
    unet.shape.references = use->references;
    if (use->boxed) unet.shape.boxes = use->boxed->arch.width;
    if (use->attends) unet.shape.attended = graft_model_attended(m);
    unet.shape.untold = use->untold;
    unet.shape.perturbed = use->perturbed;
    unet.shape.watched_from = use->watched_from;
    unet.shape.watched = use->watched;
    if (use->perturbed) unet.shape.skip = m->skip.blocks;
    if (use->skips) unet.shape.skip = m->skip_negative.blocks;
    unet.shape.variant = (int32_t)use->variant;
    unet.shape.cut = use->variant == GRAFT_WHOLE ? 0 : m->deepcache.cut;
    unet.shape.control = use->control;
    unet.shape.adapted = use->adapted;
    unet.shape.steered = use->steered;
    if (use->within) unet.shape.within = graft_control_links(m->within);
    if (use->within) unet.shape.within_rows = use->pictures;
    if (use->shrink)
        unet.shape.shrink = m->downscale.shrink;
    else
        graft_hypertile_grids(&m->hypertile, &m->arch.unet, &unet.shape, use->turn);
    unet.shape.merged = graft_unet_merged(&m->arch.unet, &unet.shape, m->merged);
    /* Without effect it is no reason for another graph. */
    if (graft_model_freeu_factors(m, use->variant)) unet.shape.freeu = (int32_t)m->freeu.version;
    if (m->hyper.net) memcpy(&unet.shape.hyper, &m->hyper.net->arch, sizeof unet.shape.hyper);
    memcpy(&unet.quant, &m->quant, sizeof unet.quant);
    /* The context, and y where there is one; what pictures show it, behind the latents. */
    job.steady.inputs = graft_net_y_width(&m->arch, use->tokens) ? 0xc : 0x4;
    if (use->references.n)
        job.steady.behind = graft_net_x_values(&m->arch, unet.shape.height, unet.shape.width,
                                               &(graft_references){.n = 0});
    job.beside_bytes = use->beside;
    job.arena_bytes = use->arena;
    job.offload = true;
    st = graft_options_resolve(m->engine, &m->options, &job.backend, &unet.shape.act_dtype, e);
    if (st) return st;
    graft_weights *weights = NULL;
    st = weights_of(m, use, &weights, e);
    if (!st && graft_model_keeps(m, job.backend, unet.shape.act_dtype, weights))
        job.packed = weights;
    if (!st) st = graft_engine_bind(m->engine, &m->options, &job, weights, task, out, e);
    graft_weights_release(weights);
    return st;
}

bool graft_unet_use_equal(const graft_unet_use *a, const graft_unet_use *b)
{
    return a->variant == b->variant && a->control == b->control && a->adapted == b->adapted &&
           a->pictures == b->pictures && a->entries == b->entries && a->height == b->height &&
           a->width == b->width && a->tokens == b->tokens && a->perturbed == b->perturbed &&
           a->watched_from == b->watched_from && a->watched == b->watched && a->turn == b->turn &&
           a->untold == b->untold && a->skips == b->skips && a->shrink == b->shrink &&
           a->attends == b->attends && a->boxed == b->boxed && a->within == b->within &&
           memcmp(&a->steered, &b->steered, sizeof a->steered) == 0 &&
           memcmp(&a->references, &b->references, sizeof a->references) == 0;
}

graft_status graft_unet_use_batch(const graft_unet_use *use, int64_t *batch, graft_err *e)
{
    if (use->pictures < 1 || use->entries < 1 ||
        __builtin_mul_overflow(use->pictures, use->entries, batch))
        return graft_fail(e, GRAFT_E_ARG, "a batch of %lld times %lld pictures is out of range",
                          (long long)use->pictures, (long long)use->entries);
    return GRAFT_OK;
}

graft_status graft_model_bind_variant(const graft_model *m, graft_variant variant, int64_t batch,
                                      int64_t height, int64_t width, int64_t tokens,
                                      const graft_task *task, graft_binding **out, graft_err *e)
{
    const graft_unet_use use = {.variant = variant,
                                .pictures = batch,
                                .entries = 1,
                                .height = height,
                                .width = width,
                                .tokens = tokens};
    return graft_model_bind_guided(m, &use, task, out, e);
}

graft_status graft_model_bind(const graft_model *m, int64_t batch, int64_t height, int64_t width,
                              int64_t tokens, const graft_task *task, graft_binding **out,
                              graft_err *e)
{
    return graft_model_bind_variant(m, GRAFT_WHOLE, batch, height, width, tokens, task, out, e);
}

bool graft_model_perturbs(const graft_model *m)
{
    return m->perturbed > 0 && (m->skip.blocks || graft_unet_perturbs(&m->arch.unet));
}

bool graft_model_guides_itself(const graft_model *m)
{
    return m->self.scale != 0 && graft_unet_perturbs(&m->arch.unet);
}

bool graft_model_perturbs_at(const graft_model *m, const graft_sigma_table *t, float sigma)
{
    return graft_model_perturbs(m) &&
           (!m->skip.blocks || graft_sigma_in_range(t, m->skip.start, m->skip.end, sigma));
}

double graft_model_cfg_at(const graft_model *m, const graft_sigma_table *t, float sigma, double cfg)
{
    for (int i = m->n_cfg_overrides; i-- > 0;) {
        const graft_cfg_override *o = &m->cfg_override[i];
        if (graft_sigma_in_range(t, o->start, o->end, sigma)) return o->cfg;
    }
    return cfg;
}

bool graft_model_skips_at(const graft_model *m, const graft_sigma_table *t, float sigma)
{
    return m->skip_negative.blocks &&
           graft_sigma_in_range(t, m->skip_negative.start, m->skip_negative.end, sigma);
}

int graft_model_turns(const graft_model *m, int64_t height, int64_t width)
{
    return graft_hypertile_turns(&m->hypertile, &m->arch.unet, height, width);
}

bool graft_model_alternates(const graft_model *m, int64_t height, int64_t width)
{
    return m->downscale.shrink.block || graft_model_turns(m, height, width) > 1;
}

int graft_model_uses(const graft_model *m, const graft_unet_use *use,
                     graft_unet_use out[GRAFT_MODEL_USES])
{
    bool two = m->deepcache.interval > 1;
    int n = 0, turns = graft_model_turns(m, use->height, use->width);
    for (int i = 0; i < turns; i++)
        for (int fast = 0; fast <= two; fast++) {
            out[n] = *use;
            out[n].shrink = false;
            out[n].turn = i;
            out[n++].variant = fast ? GRAFT_FAST : two ? GRAFT_STORE : GRAFT_WHOLE;
        }
    if (m->downscale.shrink.block) {
        out[n] = *use;
        out[n].turn = 0;
        out[n].variant = GRAFT_WHOLE;
        out[n++].shrink = true;
    }
    return n;
}

bool graft_model_shrinks(const graft_model *m, const graft_sigma_table *t, float sigma)
{
    return m->downscale.shrink.block &&
           graft_sigma_in_range(t, m->downscale.start, m->downscale.end, sigma);
}

graft_status graft_model_check_self(const graft_model *m, graft_err *e)
{
    if (!graft_model_guides_itself(m)) return GRAFT_OK;
    if (m->deepcache.interval > 1)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "SelfAttentionGuidance does not work with DeepCache, whose fast steps "
                          "leave out the attention that it looks at");
    if (m->easycache.threshold > 0)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "SelfAttentionGuidance does not work with EasyCache, which leaves out "
                          "evaluations whose attention it looks at");
    return GRAFT_OK;
}

static bool any_control(const graft_cond *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->entry[i]->control) return true;
    return false;
}

graft_status graft_model_check_downscale(const graft_model *m, const graft_cond *positive,
                                         const graft_cond *negative, graft_err *e)
{
    if (!m->downscale.shrink.block) return GRAFT_OK;
    if (m->deepcache.interval > 1)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "PatchModelAddDownscale does not work with DeepCache, whose features "
                          "have another size in the steps that are downscaled");
    if (any_control(positive) || any_control(negative))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "PatchModelAddDownscale does not work with ControlNets and T2I-Adapters, "
                          "which steer blocks of the size that they have without it");
    return GRAFT_OK;
}

graft_status graft_model_prepare(const graft_model *m, const graft_unet_use *use,
                                 const graft_task *task, graft_err *e)
{
    graft_unet_use all[GRAFT_MODEL_USES];
    int n = graft_model_uses(m, use, all);
    graft_status st = GRAFT_OK;
    for (int i = 0; i < n && !st; i++) {
        graft_binding *b = NULL;
        st = graft_model_bind_guided(m, &all[i], task, &b, e);
        graft_binding_release(b);
    }
    return st;
}

#include "engine/objects/control.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/models/controls/t2i_adapter.h"
#include "engine/models/transformers/control_blockwise.h"
#include "engine/models/transformers/mmdit.h"

graft_controlnet *graft_controlnet_retain(graft_controlnet *n)
{
    atomic_fetch_add(&n->refs, 1);
    return n;
}

void graft_controlnet_release(graft_controlnet *n)
{
    if (!n || atomic_fetch_sub(&n->refs, 1) != 1) return;
    graft_control_lora_destroy(n->engine, n->lora);
    graft_engine_release_weights(n->engine, n->weights);
    graft_free(n);
}

graft_control *graft_control_retain(graft_control *k)
{
    if (k) atomic_fetch_add(&k->refs, 1);
    return k;
}

void graft_control_release(graft_control *k)
{
    while (k && atomic_fetch_sub(&k->refs, 1) == 1) {
        graft_control *before = k->before;
        graft_controlnet_release(k->net);
        graft_image_release(k->hint);
        graft_image_release(k->inpaint);
        graft_image_release(k->mask);
        graft_vae_release(k->vae);
        graft_free(k);
        k = before;
    }
}

/* ------------------------------------------------------------------ on conditionings */

/* What one call of graft_cond_control() makes: a link behind each chain that it finds. */
typedef struct links {
    const graft_control_options *o;
    graft_control **made; /* one for each different chain, NULL among them */
    size_t n;
} links;

static graft_control *make_link(const graft_control_options *o, graft_control *before)
{
    graft_control *k = graft_calloc(1, sizeof *k);
    if (!k) return NULL;
    atomic_init(&k->refs, 1);
    k->before = graft_control_retain(before);
    k->net = graft_controlnet_retain((graft_controlnet *)o->net);
    if (o->hint) k->hint = graft_image_retain((graft_image *)o->hint);
    if (graft_control_sees_latent(&o->net->arch)) k->vae = graft_vae_retain((graft_vae *)o->vae);
    if (o->mask && graft_control_sees_mask(&o->net->arch))
        k->mask = graft_image_retain((graft_image *)o->mask);
    k->strength = o->strength;
    k->start = o->start;
    k->end = o->end;
    k->everywhere = o->everywhere;
    return k;
}

static graft_control *link_behind(links *l, graft_control *before)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->made[i]->before == before) return l->made[i];
    graft_control *k = make_link(l->o, before);
    if (k) l->made[l->n++] = k;
    return k;
}

static graft_status link_all(links *l, const graft_cond *c, graft_cond **out, graft_err *e)
{
    graft_control **chain = graft_malloc_array(c->n ? c->n : 1, sizeof *chain);
    graft_status st = chain ? GRAFT_OK : graft_fail_nomem(e, "conditioning");
    for (size_t i = 0; i < c->n && !st; i++) {
        chain[i] = link_behind(l, c->entry[i]->control);
        if (!chain[i]) st = graft_fail_nomem(e, "conditioning");
    }
    if (!st) st = graft_cond_with_controls(c, chain, out, e);
    graft_free(chain);
    return st;
}

static graft_status check_vae(const graft_controlnet *net, const graft_vae *vae, const char *where,
                              graft_err *e)
{
    const char *path = graft_safetensors_path(graft_weights_file(net->weights));
    if (!vae)
        return graft_fail(
            e, GRAFT_E_ARG,
            "%s: this ControlNet sees its picture as a latent, and no VAE is given to "
            "make that: %s",
            path, where);
    if (!vae->arch.encoder)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: this ControlNet sees its picture as a latent, and this VAE has no "
                          "encoder to make that",
                          path);
    return GRAFT_OK;
}

static graft_status check_mask(const graft_controlnet *net, const graft_image *mask,
                               const char *where, graft_err *e)
{
    if (mask || !graft_control_sees_mask(&net->arch)) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "%s: this ControlNet completes a picture, and no mask of what is to be drawn "
                      "anew is given: %s",
                      graft_safetensors_path(graft_weights_file(net->weights)), where);
}

graft_status graft_cond_control(const graft_cond *positive, const graft_cond *negative,
                                const graft_control_options *o, graft_cond **out_positive,
                                graft_cond **out_negative, graft_err *e)
{
    size_t n = positive->n + (negative ? negative->n : 0);
    graft_cond *p = NULL, *m = NULL;
    graft_status st;
    if (!isfinite(o->strength) || !isfinite(o->start) || !isfinite(o->end))
        return graft_fail(e, GRAFT_E_ARG, "strength, start and end must be numbers");
    if (o->strength == 0) { /* no work for nothing */
        *out_positive = graft_cond_retain((graft_cond *)positive);
        if (negative) *out_negative = graft_cond_retain((graft_cond *)negative);
        return GRAFT_OK;
    }
    st = graft_control_sees_latent(&o->net->arch)
             ? check_vae(o->net, o->vae, "ControlNetApplyAdvanced and ControlNetApplySD3 take one",
                         e)
             : GRAFT_OK;
    if (!st) st = check_mask(o->net, o->mask, "ControlNetInpaintingAliMamaApply takes one", e);
    if (st) return st;
    links l = {o, graft_malloc_array(n ? n : 1, sizeof *l.made), 0};
    if (!l.made) return graft_fail_nomem(e, "conditioning");
    GRAFT_TRY(link_all(&l, positive, &p, e));
    if (negative) GRAFT_TRY(link_all(&l, negative, &m, e));
    *out_positive = p;
    if (negative) *out_negative = m;
    p = NULL;
    m = NULL;
out:
    graft_cond_release(p);
    graft_cond_release(m);
    for (size_t i = 0; i < l.n; i++) graft_control_release(l.made[i]);
    graft_free(l.made);
    return st;
}

const graft_control *graft_control_of(const graft_cond *positive, const graft_cond *negative,
                                      bool is_negative, size_t i)
{
    if (!is_negative) return positive->entry[i]->control;
    for (size_t k = 0; k < negative->n; k++)
        if (negative->entry[k]->control) return negative->entry[i]->control;
    for (size_t k = 0, shared = 0; k < positive->n; k++) {
        const graft_control *c = positive->entry[k]->control;
        if (c && c->everywhere && shared++ == i) return c;
    }
    return NULL;
}

const graft_control *graft_control_for(const graft_model *m, const graft_cond *positive,
                                       const graft_cond *negative, bool is_negative, size_t i)
{
    return m->control ? m->control : graft_control_of(positive, negative, is_negative, i);
}

/* ------------------------------------------------------------------ on models */

/* Those for Qwen-Image. */
static graft_status check_within(const graft_model_control_options *o, const char *path,
                                 graft_err *e)
{
    if (!o->hint || o->inpaint)
        return graft_fail(e, GRAFT_E_ARG,
                          "%s: this ControlNet sees one picture, the input image, and no "
                          "inpaint_image; of the one for inpainting the image is completed",
                          path);
    if (o->mask && !graft_control_sees_mask(&o->net->arch))
        return graft_fail(e, GRAFT_E_ARG,
                          "%s: this ControlNet sees a picture to follow and no mask; the one for "
                          "inpainting does",
                          path);
    return check_mask(o->net, o->mask, "QwenImageDiffsynthControlnet takes one", e);
}

static graft_status check_pictures(const graft_model_control_options *o, graft_err *e)
{
    const graft_control_arch *a = &o->net->arch;
    const char *path = graft_safetensors_path(graft_weights_file(o->net->weights));
    if (!o->hint && !o->inpaint && !o->mask)
        return graft_fail(e, GRAFT_E_ARG, "%s: no picture is given for this ControlNet to follow",
                          path);
    if (a->within) return check_within(o, path, e);
    if (a->hint_channels == a->zimage.channels && (!o->hint || o->inpaint || o->mask))
        return graft_fail(
            e, GRAFT_E_ARG,
            "%s: this ControlNet sees a picture to follow and nothing else; those from "
            "version 2.0 on see a mask and a picture to stay",
            path);
    if (o->inpaint && !o->mask)
        return graft_fail(e, GRAFT_E_ARG,
                          "%s: a picture that is to stay in part, and no mask of what is not",
                          path);
    return GRAFT_OK;
}

static graft_image *retained(const graft_image *i)
{
    return i ? graft_image_retain((graft_image *)(uintptr_t)i) : NULL;
}

graft_status graft_model_control(const graft_model *m, const graft_model_control_options *o,
                                 graft_model **out, graft_err *e)
{
    const graft_control_options link = {
        .net = o->net, .hint = o->hint, .vae = o->vae, .strength = o->strength, .end = 1};
    if (!isfinite(o->strength)) return graft_fail(e, GRAFT_E_ARG, "strength must be a number");
    graft_status st = graft_control_check(m, o->net, e);
    if (!st) st = check_vae(o->net, o->vae, "it is the model's own", e);
    if (!st) st = check_pictures(o, e);
    if (st) return st;
    if (o->strength == 0) { /* no work for nothing */
        *out = graft_model_retain((graft_model *)(uintptr_t)m);
        return GRAFT_OK;
    }
    if (o->net->arch.within && graft_control_links(m->within) == GRAFT_WITHIN_MOST)
        return graft_fail(e, GRAFT_E_LIMIT, "at most %d ControlNets run within a model",
                          GRAFT_WITHIN_MOST);
    graft_model *n = graft_model_copy(m);
    graft_control **chain = !n ? NULL : o->net->arch.within ? &n->within : &n->control;
    graft_control *k = n ? make_link(&link, *chain) : NULL;
    if (!k) {
        graft_model_release(n);
        return graft_fail_nomem(e, "model");
    }
    k->inpaint = retained(o->inpaint);
    if (!k->mask) k->mask = retained(o->mask);
    graft_control_release(*chain);
    *chain = k;
    *out = n;
    return GRAFT_OK;
}

int graft_control_links(const graft_control *chain)
{
    int n = 0;
    for (; chain; chain = chain->before) n++;
    return n;
}

graft_status graft_control_within_weights(const graft_model *m, graft_weights **w, graft_err *e)
{
    int k = graft_control_links(m->within);
    graft_status st = GRAFT_OK;
    for (const graft_control *l = m->within; l && !st; l = l->before) {
        graft_weights *all = NULL;
        const graft_name called = graft_control_within_called(--k);
        st = graft_weights_beside(l->net->weights, called.text, *w, &all, e);
        graft_weights_release(*w);
        *w = all;
    }
    return st;
}

/* ------------------------------------------------------------------ when */

bool graft_control_active(const graft_sigma_table *t, const graft_control *k, float sigma)
{
    return graft_sigma_in_range(t, k->start, k->end, sigma);
}

bool graft_control_alike(const graft_sigma_table *t, const graft_control *chain, float a, float b)
{
    for (const graft_control *k = chain; k; k = k->before)
        if (graft_control_active(t, k, a) != graft_control_active(t, k, b)) return false;
    return true;
}

const graft_control *graft_control_any(const graft_sigma_table *t, const graft_control *chain,
                                       float sigma)
{
    for (const graft_control *k = chain; k; k = k->before)
        if (graft_control_active(t, k, sigma)) return chain;
    return NULL;
}

/* ------------------------------------------------------------------ compiling */

typedef struct hint_shape {
    int64_t rows, height, width;
    int64_t act_dtype;
} hint_shape;

static graft_status build_hint(const void *arch, const void *of, graft_graph **out, graft_err *e)
{
    const hint_shape *s = of;
    return graft_control_hint_build(arch, s->rows, s->height, s->width, (graft_dtype)s->act_dtype,
                                    out, e);
}

static graft_status build_net(const void *arch, const void *of, graft_graph **out, graft_err *e)
{
    return graft_control_build(arch, of, out, e);
}

graft_status graft_control_check(const graft_model *m, const graft_controlnet *net, graft_err *e)
{
    graft_status st = graft_control_fits(&net->arch, &m->arch, e);
    if (!st) return st;
    return graft_err_prefix(e, st, "%s", graft_safetensors_path(graft_weights_file(net->weights)));
}

graft_status graft_control_check_all(const graft_model *m, const graft_cond *c, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (const graft_control *k = m->control; k && !st; k = k->before)
        st = graft_control_check(m, k->net, e);
    for (const graft_control *k = m->within; k && !st; k = k->before)
        st = graft_control_check(m, k->net, e);
    for (size_t i = 0; c && i < c->n; i++)
        for (const graft_control *k = c->entry[i]->control; k && !st; k = k->before)
            st = graft_control_check(m, k->net, e);
    return st;
}

static graft_status bind(const graft_model *m, const graft_controlnet *net, graft_compile_job *job,
                         const graft_task *task, graft_binding **out, graft_err *e)
{
    graft_control_arch arch;
    graft_weights *weights = NULL;
    graft_status st = graft_control_made(m, net, &arch, &weights, e);
    if (st) return st;
    job->arch = &arch;
    job->arch_bytes = sizeof arch;
    job->offload = true;
    job->behind_bytes = graft_weights_stored_bytes(m->weights);
    st = graft_engine_bind(m->engine, &m->options, job, weights, task, out, e);
    graft_weights_release(weights);
    if (st != GRAFT_E_ARG) return st;
    return graft_err_prefix(e, st, "%s", graft_safetensors_path(graft_weights_file(net->weights)));
}

graft_steered graft_control_steered(const graft_model *m, const graft_control *chain)
{
    graft_steered all = {{0}};
    for (; chain; chain = chain->before) {
        const graft_steered one = graft_control_steers(&chain->net->arch, &m->arch);
        for (int part = 0; part < GRAFT_STEERED_PARTS; part++) all.begins[part] |= one.begins[part];
    }
    return all;
}

bool graft_control_adapts(const graft_controlnet *net)
{
    return net->arch.t2i.n > 0;
}

bool graft_control_any_net(const graft_control *chain)
{
    while (chain && graft_control_adapts(chain->net)) chain = chain->before;
    return chain != NULL;
}

int graft_control_features(const graft_control *chain)
{
    int n = 0;
    for (; chain; chain = chain->before)
        if (n < chain->net->arch.t2i.n) n = chain->net->arch.t2i.n;
    return n;
}

int graft_control_parts(const graft_model *m, const graft_controlnet *net)
{
    const graft_steered own = graft_control_steers(&net->arch, &m->arch);
    int parts = 0;
    if (graft_control_adapts(net)) return 0;
    if (net->arch.kind == GRAFT_NET_UNET) return 1;
    for (int part = 0; part < GRAFT_STEERED_PARTS; part++)
        if (own.begins[part]) parts |= 1 << part;
    return parts;
}

bool graft_control_gives(const graft_model *m, const graft_controlnet *net, int part, int block)
{
    const graft_steered own = graft_control_steers(&net->arch, &m->arch);
    if (!graft_control_sparse(&net->arch)) return graft_control_parts(m, net) >> part & 1;
    return block < GRAFT_STEERED_BLOCKS && own.begins[part] >> block & 1;
}

bool graft_control_staged(const graft_sigma_table *t, const graft_control *chain, float sigma)
{
    int active = 0;
    bool refines = false;
    for (; chain; chain = chain->before) {
        if (!graft_control_active(t, chain, sigma)) continue;
        active++;
        refines |= chain->net->arch.refining != GRAFT_CONTROL_REFINES_HINT;
    }
    return active > 1 && refines;
}

static graft_status shape_of(const graft_model *m, const graft_controlnet *net, int more,
                             graft_control_stage stage, const graft_unet_use *use,
                             graft_control_shape *out, graft_err *e)
{
    graft_status st = graft_control_check(m, net, e);
    if (!st) st = graft_unet_use_batch(use, &out->batch, e);
    out->height = graft_net_side(&m->arch, use->height);
    out->width = graft_net_side(&m->arch, use->width);
    out->tokens = use->tokens;
    out->pictures = use->pictures;
    out->more = more;
    if (net->arch.kind == GRAFT_NET_UNET) return st;
    out->y_width = (int32_t)graft_net_y_width(&m->arch, use->tokens);
    out->counts = graft_net_counts_tokens(&m->arch, use->tokens);
    out->context_dim = m->arch.context_dim;
    out->told = net->told != 0;
    out->stage = (int32_t)stage;
    out->steered = use->steered;
    out->own = graft_control_steers(&net->arch, &m->arch);
    return st;
}

graft_status graft_control_bind(const graft_model *m, const graft_controlnet *net, int more,
                                graft_control_stage stage, const graft_unet_use *use,
                                const graft_task *task, graft_binding **out, graft_err *e)
{
    graft_control_shape shape;
    graft_compile_job job = {.kind = "controlnet",
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .build = build_net,
                             .part = true};
    memset(&shape, 0, sizeof shape);
    graft_status st = shape_of(m, net, more, stage, use, &shape, e);
    if (!st) st = graft_options_resolve(m->engine, &m->options, &job.backend, &shape.act_dtype, e);
    return st ? st : bind(m, net, &job, task, out, e);
}

graft_status graft_control_bind_hint(const graft_model *m, const graft_controlnet *net,
                                     int64_t rows, const graft_unet_use *use,
                                     const graft_task *task, graft_binding **out, graft_err *e)
{
    hint_shape shape = {rows, graft_net_side(&m->arch, use->height),
                        graft_net_side(&m->arch, use->width), 0};
    graft_dtype dtype;
    graft_compile_job job = {.kind = "control_hint",
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .build = build_hint,
                             .part = true};
    graft_status st = graft_options_resolve(m->engine, &m->options, &job.backend, &dtype, e);
    if (st) return st;
    shape.act_dtype = dtype;
    return bind(m, net, &job, task, out, e);
}

static graft_status build_adapter(const void *arch, const void *of, graft_graph **out, graft_err *e)
{
    const graft_control_arch *a = arch;
    return graft_t2i_build(&a->t2i, of, out, e);
}

graft_status graft_control_bind_adapter(const graft_model *m, const graft_controlnet *net,
                                        int64_t rows, int64_t height, int64_t width, bool more,
                                        int64_t beside, const graft_task *task, graft_binding **out,
                                        graft_err *e)
{
    graft_t2i_shape shape;
    graft_compile_job job = {.kind = "t2i_adapter",
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .build = build_adapter,
                             .part = true,
                             .beside_bytes = beside};
    memset(&shape, 0, sizeof shape);
    graft_status st =
        graft_options_resolve(m->engine, &m->options, &job.backend, &shape.act_dtype, e);
    if (st) return st;
    shape.rows = rows;
    shape.height = graft_t2i_side(&net->arch.t2i, height);
    shape.width = graft_t2i_side(&net->arch.t2i, width);
    shape.more = more;
    return bind(m, net, &job, task, out, e);
}

bool graft_control_embeds(const graft_controlnet *net)
{
    return net->arch.kind == GRAFT_NET_MMDIT && !net->arch.mmdit.table;
}

static graft_status build_embed(const void *arch, const void *of, graft_graph **out, graft_err *e)
{
    const graft_net_arch *a = arch;
    return graft_mmdit_embed_build(&a->mmdit, of, out, e);
}

graft_status graft_control_bind_embed(const graft_model *m, const graft_unet_use *use,
                                      const graft_task *task, graft_binding **out, graft_err *e)
{
    graft_net_shape shape;
    graft_compile_job job = {.kind = "control_embed",
                             .arch = &m->arch,
                             .arch_bytes = sizeof m->arch,
                             .shape = &shape,
                             .shape_bytes = sizeof shape,
                             .build = build_embed,
                             .part = true};
    memset(&shape, 0, sizeof shape);
    graft_status st = graft_unet_use_batch(use, &shape.batch, e);
    if (!st) st = graft_options_resolve(m->engine, &m->options, &job.backend, &shape.act_dtype, e);
    if (st) return st;
    shape.height = graft_net_side(&m->arch, use->height);
    shape.width = graft_net_side(&m->arch, use->width);
    return graft_engine_bind(m->engine, &m->options, &job, m->weights, task, out, e);
}

int64_t graft_control_rows(const graft_control *k, int64_t pictures)
{
    const graft_image *const all[] = {k->hint, k->inpaint, k->mask};
    int64_t most = 1, shape[4];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i]) continue;
        graft_image_data(all[i], shape);
        if (most < shape[0]) most = shape[0];
    }
    return most < pictures ? most : pictures;
}

#include "engine/denoise/controls.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

#define INPUTS_MAX (GRAFT_UNET_RESIDUALS + 8)

/* A link whose hint, or this part of it, has gone through its convolutions. */
typedef struct seen_hint {
    const graft_control *link;
    graft_box box;
    uint8_t *features; /* of all pictures */
} seen_hint;

typedef struct bound_net {
    const graft_weights *weights; /* of the ControlNet; its type is an input */
    bool more;
    int64_t entries, tokens, height, width;
    graft_binding *binding;
} bound_net;

typedef struct kept {
    const graft_control *chain; /* NULL: nothing is kept */
    float sigma;                /* of the whole step */
    uint8_t *data;
} kept;

struct graft_controls {
    const graft_guided_config *c;
    const graft_regions *regions;
    size_t slots;
    const graft_control **chain; /* of each slot */
    int n_residuals;
    graft_dtype dtype;
    uint8_t *residual[GRAFT_UNET_RESIDUALS]; /* of one batch */
    seen_hint *hint;
    size_t n_hints, cap_hints;
    bound_net *bound; /* all of the run: what is let go of would be counted again */
    size_t n_bound, cap_bound;
    int64_t weight_bytes, arena_bytes; /* of the ControlNets that were bound */
    kept *kept;                        /* of each slot */
};

/* ------------------------------------------------------------------ making */

static graft_status find_chains(graft_controls *k, graft_err *e)
{
    const graft_guided_config *c = k->c;
    for (size_t i = 0; i < k->slots; i++) {
        size_t first;
        graft_side side = graft_guided_side(c, i, &first);
        const graft_cond *list = graft_guided_list(c, side);
        k->chain[i] = graft_control_of(c->positive, list, side != GRAFT_POSITIVE, i - first);
        for (const graft_control *l = k->chain[i]; l; l = l->before) {
            graft_status st = graft_control_check(k->c->model, l->net, e);
            if (st) return st;
        }
    }
    return GRAFT_OK;
}

static graft_status allocate(graft_controls *k, graft_err *e)
{
    const graft_guided_config *c = k->c;
    const graft_unet_arch *a = &c->model->arch.unet;
    graft_backend *backend;
    graft_unet_shape shape = {.batch = c->shape[0],
                              .height = c->shape[2],
                              .width = c->shape[3],
                              .variant = GRAFT_UNET_WHOLE,
                              .control = 1};
    graft_status st =
        graft_options_resolve(c->model->engine, &c->model->options, &backend, &shape.act_dtype, e);
    if (st) return st;
    k->dtype = shape.act_dtype;
    k->n_residuals = graft_unet_residuals(a, &shape);
    for (int i = 0; i < k->n_residuals; i++) {
        int64_t dim[4], values;
        size_t bytes;
        graft_unet_residual_shape(a, &shape, i, dim);
        if (!graft_size_product(dim, 4, &values) ||
            !graft_size_mul((size_t)values, graft_dtype_size(k->dtype), &bytes))
            return graft_fail(e, GRAFT_E_ARG, "the latent is too large");
        k->residual[i] = graft_malloc_array(k->slots, bytes);
        if (!k->residual[i]) return graft_fail_nomem(e, "ControlNet");
    }
    return GRAFT_OK;
}

/* Bytes of residual i for one entry with this part of the latent, all pictures: never more than
 * those of the whole. */
static size_t bytes_of(const graft_controls *k, int i, const graft_box *box)
{
    const graft_unet_shape shape = {
        .batch = k->c->shape[0], .height = box->height, .width = box->width, .control = 1};
    int64_t dim[4];
    graft_unet_residual_shape(&k->c->model->arch.unet, &shape, i, dim);
    return (size_t)(dim[0] * dim[1] * dim[2] * dim[3]) * graft_dtype_size(k->dtype);
}

static bool any_of(const graft_cond *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->entry[i]->control) return true;
    return false;
}

graft_status graft_controls_create(const graft_guided_config *c, const graft_regions *r,
                                   graft_controls **out, graft_err *e)
{
    size_t n = graft_guided_slots(c);
    *out = NULL;
    if (!any_of(c->positive) && !any_of(c->negative) &&
        !(c->third.prompt && any_of(c->third.prompt)))
        return GRAFT_OK;
    graft_controls *k = graft_calloc(1, sizeof *k);
    if (!k) return graft_fail_nomem(e, "ControlNet");
    k->c = c;
    k->regions = r;
    k->slots = n;
    k->chain = graft_calloc(n, sizeof *k->chain);
    k->kept = graft_calloc(n, sizeof *k->kept);
    graft_status st = k->chain && k->kept ? GRAFT_OK : graft_fail_nomem(e, "ControlNet");
    if (!st) st = find_chains(k, e);
    if (!st) st = allocate(k, e);
    if (st)
        graft_controls_destroy(k);
    else
        *out = k;
    return st;
}

void graft_controls_destroy(graft_controls *k)
{
    if (!k) return;
    for (size_t i = 0; i < k->n_bound; i++) graft_binding_release(k->bound[i].binding);
    for (size_t i = 0; i < k->n_hints; i++) graft_free(k->hint[i].features);
    for (size_t i = 0; k->kept && i < k->slots; i++) graft_free(k->kept[i].data);
    for (int i = 0; i < k->n_residuals; i++) graft_free(k->residual[i]);
    graft_free(k->bound);
    graft_free(k->hint);
    graft_free(k->kept);
    graft_free(k->chain);
    graft_free(k);
}

const graft_control *graft_controls_active(const graft_controls *k, size_t slot, float sigma)
{
    return k ? graft_control_any(k->c->table, k->chain[slot], sigma) : NULL;
}

/* ------------------------------------------------------------------ hints */

/* The part of the pictures that belongs to this part of the latent. Brightness alone counts for all
 * three colours; what is behind them is left out. */
static void take_colours(const float *from, const int64_t shape[4], int64_t rows,
                         const graft_box *box, float *to)
{
    const int64_t f = GRAFT_CONTROL_FACTOR, channels = shape[3], h = box->height * f;
    for (int64_t y = 0; y < rows * h; y++) {
        int64_t line = y / h * shape[1] + box->y * f + y % h;
        const float *in = from + (line * shape[2] + box->x * f) * channels;
        for (int64_t x = 0; x < box->width * f; x++, in += channels)
            for (int64_t c = 0; c < 3; c++) *to++ = in[channels >= 3 ? c : 0];
    }
}

static graft_status run_hint(graft_controls *k, const graft_control *l, const graft_box *box,
                             const graft_unet_use *use, int64_t rows, uint8_t *features,
                             graft_err *e)
{
    const graft_guided_config *c = k->c;
    int64_t height = c->shape[2] * GRAFT_CONTROL_FACTOR, width = c->shape[3] * GRAFT_CONTROL_FACTOR;
    int64_t shape[4], pixels = rows * box->height * box->width;
    graft_image *scaled = NULL;
    graft_binding *b = NULL;
    float *rgb = NULL;
    graft_status st;
    GRAFT_TRY(graft_image_scale(l->hint, "nearest-exact", width, height, true, &scaled, e));
    const float *data = graft_image_data(scaled, shape);
    rgb = graft_malloc_array((size_t)pixels,
                             3 * GRAFT_CONTROL_FACTOR * GRAFT_CONTROL_FACTOR * sizeof *rgb);
    if (!rgb) {
        st = graft_fail_nomem(e, "ControlNet's picture");
        goto out;
    }
    take_colours(data, shape, rows, box, rgb);
    GRAFT_TRY(graft_control_bind_hint(c->model, l->net, rows, use, c->task, &b, e));
    graft_task_phase(c->task, "sample");
    const void *in[3] = {rgb, l->net->type, &l->net->told}; /* only union ControlNets take all */
    st = graft_exe_run(b, c->model->engine->arenas, in, (void *[]){features}, c->task, NULL, e);
out:
    graft_binding_release(b);
    graft_image_release(scaled);
    graft_free(rgb);
    return st;
}

/* Pictures of a hint repeat in turn, surplus ones are left out. */
static graft_status features_of(graft_controls *k, const graft_control *l, const graft_box *box,
                                const graft_unet_use *use, const uint8_t **out, graft_err *e)
{
    int64_t pictures = use->pictures, rows = graft_control_rows(l, pictures);
    size_t bytes = bytes_of(k, 0, box) / (size_t)pictures; /* as the first block's output */
    for (size_t i = 0; i < k->n_hints; i++)
        if (k->hint[i].link == l && graft_box_equal(&k->hint[i].box, box)) {
            *out = k->hint[i].features;
            return GRAFT_OK;
        }
    if (graft_grow(&k->hint, &k->cap_hints, k->n_hints + 1, sizeof *k->hint))
        return graft_fail_nomem(e, "ControlNet");
    uint8_t *features = graft_malloc_array((size_t)pictures, bytes);
    if (!features) return graft_fail_nomem(e, "ControlNet");
    graft_status st = run_hint(k, l, box, use, rows, features, e);
    if (st) {
        graft_free(features);
        return st;
    }
    for (int64_t i = rows; i < pictures; i++)
        memcpy(features + (size_t)i * bytes, features + (size_t)(i % rows) * bytes, bytes);
    k->hint[k->n_hints++] = (seen_hint){l, *box, features};
    *out = features;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ residuals */

static void count(graft_controls *k, const graft_controlnet *net, const graft_exe *x)
{
    if (x->arena_bytes > k->arena_bytes) k->arena_bytes = x->arena_bytes;
    for (size_t i = 0; i < k->n_bound; i++)
        if (k->bound[i].weights == net->weights) return;
    k->weight_bytes += (int64_t)x->weight_bytes;
}

static graft_status bind_net(graft_controls *k, const graft_controlnet *net, bool more,
                             const graft_unet_use *use, graft_binding **out, graft_err *e)
{
    for (size_t i = 0; i < k->n_bound; i++) {
        const bound_net *b = &k->bound[i];
        if (b->weights != net->weights || b->more != more || b->entries != use->entries ||
            b->tokens != use->tokens || b->height != use->height || b->width != use->width)
            continue;
        *out = b->binding;
        return GRAFT_OK;
    }
    if (graft_grow(&k->bound, &k->cap_bound, k->n_bound + 1, sizeof *k->bound))
        return graft_fail_nomem(e, "ControlNet");
    graft_status st = graft_control_bind(k->c->model, net, more, use, k->c->task, out, e);
    if (st) return st;
    count(k, net, (*out)->exe);
    k->bound[k->n_bound++] =
        (bound_net){net->weights, more, use->entries, use->tokens, use->height, use->width, *out};
    graft_task_phase(k->c->task, "sample");
    return GRAFT_OK;
}

/* What all links of a chain run on. */
typedef struct call {
    const graft_box *box;
    const graft_unet_use *use;
    const void *const *in;
} call;

static graft_status run_link(graft_controls *k, const graft_control *l, bool more, const call *c,
                             graft_err *e)
{
    const void *all[INPUTS_MAX];
    void *out[GRAFT_UNET_RESIDUALS];
    const uint8_t *features = NULL;
    graft_binding *b = NULL;
    float strength = (float)l->strength;
    size_t n = k->c->model->arch.adm_channels ? 4 : 3;
    graft_status st = features_of(k, l, c->box, c->use, &features, e);
    if (!st) st = bind_net(k, l->net, more, c->use, &b, e);
    if (st) return st;
    memcpy(all, c->in, n * sizeof *all);
    all[n++] = features;
    all[n++] = &strength;
    if (l->net->arch.types) {
        all[n++] = l->net->type;
        all[n++] = &l->net->told;
    }
    for (int i = 0; i < k->n_residuals; i++) {
        out[i] = k->residual[i];
        if (more) all[n++] = k->residual[i];
    }
    return graft_exe_run(b, k->c->model->engine->arenas, all, out, k->c->task, NULL, e);
}

/* Those that were put on first come first. */
static graft_status run_chain(graft_controls *k, const graft_control *l, float sigma, bool *any,
                              const call *c, graft_err *e)
{
    if (!l) return GRAFT_OK;
    graft_status st = run_chain(k, l->before, sigma, any, c, e);
    if (st || !graft_control_active(k->c->table, l, sigma)) return st;
    st = run_link(k, l, *any, c, e);
    *any = true;
    return st;
}

graft_status graft_controls_run(graft_controls *k, const graft_control *chain, float sigma,
                                const graft_box *box, const graft_unet_use *use,
                                const void *const *in, graft_err *e)
{
    const call c = {box, use, in};
    bool any = false;
    return run_chain(k, chain, sigma, &any, &c, e);
}

/* How many of them this variant of the UNet takes. */
static int residuals_of(const graft_controls *k, graft_unet_variant variant)
{
    const graft_unet_shape shape = {
        .variant = (int32_t)variant, .cut = k->c->model->deepcache.cut, .control = 1};
    return graft_unet_residuals(&k->c->model->arch.unet, &shape);
}

void graft_controls_append(const graft_controls *k, graft_unet_variant variant, const void **in,
                           size_t *n)
{
    int count = residuals_of(k, variant);
    for (int i = 0; i < count; i++) in[(*n)++] = k->residual[i];
}

int64_t graft_controls_bytes(const graft_controls *k)
{
    return k->weight_bytes;
}

int64_t graft_controls_arena(const graft_controls *k)
{
    return k->arena_bytes;
}

/* ------------------------------------------------------------------ DeepCache */

bool graft_controls_alike(const graft_controls *k, size_t slot, float sigma)
{
    return !k || graft_control_alike(k->c->table, k->chain[slot], k->kept[slot].sigma, sigma);
}

graft_status graft_controls_keep(graft_controls *k, size_t slot, const graft_control *chain,
                                 float sigma, size_t i, graft_err *e)
{
    kept *s = &k->kept[slot];
    const graft_box *box = &k->regions->list[slot].box;
    size_t at = 0;
    int n = residuals_of(k, GRAFT_UNET_FAST);
    s->chain = NULL;
    s->sigma = sigma;
    if (!chain) return GRAFT_OK;
    for (int r = 0; r < n; r++) at += bytes_of(k, r, box);
    if (!s->data) s->data = graft_malloc(at);
    if (!s->data) return graft_fail_nomem(e, "ControlNet");
    at = 0;
    for (int r = 0; r < n; r++) {
        size_t bytes = bytes_of(k, r, box);
        memcpy(s->data + at, k->residual[r] + i * bytes, bytes);
        at += bytes;
    }
    s->chain = chain;
    return GRAFT_OK;
}

const graft_control *graft_controls_kept(const graft_controls *k, size_t slot)
{
    return k ? k->kept[slot].chain : NULL;
}

void graft_controls_restore(graft_controls *k, size_t slot, size_t i)
{
    size_t at = 0;
    int n = residuals_of(k, GRAFT_UNET_FAST);
    for (int r = 0; r < n; r++) {
        size_t bytes = bytes_of(k, r, &k->regions->list[slot].box);
        memcpy(k->residual[r] + i * bytes, k->kept[slot].data + at, bytes);
        at += bytes;
    }
}

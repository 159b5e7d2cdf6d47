#include "engine/denoise/controls.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/denoise/adapters.h"
#include "engine/denoise/hint_latents.h"
#include "engine/denoise/known.h"
#include "engine/exec/memory.h"

#define INPUTS_MAX (GRAFT_NET_RESIDUALS + 8)

/* A link's numbers, as its graphs take them. */
typedef struct numbers {
    float strength, told, type[GRAFT_CONTROL_MODES];
} numbers;

/* A link, and what its convolutions make of its hint or this part of it. */
typedef struct seen_hint {
    const graft_control *link;
    graft_box box;
    int64_t pictures;
    uint8_t *features; /* of all pictures */
    numbers *numbers;
    bool made; /* the features are there */
} seen_hint;

typedef struct bound_net {
    const graft_weights *weights; /* of the ControlNet; its type is an input */
    bool told;
    int more;
    graft_control_stage stage;
    graft_unet_use use;
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
    int n_residuals;             /* the most that any chain gives */
    int64_t tokens;              /* of the longest prompt */
    graft_dtype dtype;
    graft_memory memory;                    /* of the arrays from here to kept[].data */
    uint8_t *residual[GRAFT_NET_RESIDUALS]; /* of one batch */
    float *x;                               /* of one batch, in whole patches; NULL: it is so */
    uint8_t *embedded;                      /* as the network embeds it; NULL: nobody asks */
    graft_hint_latents latents;
    seen_hint *hint;
    size_t n_hints, cap_hints;
    bound_net *bound; /* all of the run: what is let go of would be counted again */
    size_t n_bound, cap_bound;
    struct {
        graft_unet_use use;
        graft_binding *binding; /* NULL: none yet */
    } embed;                    /* the network's first step, of the last batch that asked for it */
    int64_t weight_bytes, arena_bytes; /* of the ControlNets that were bound */
    kept *kept;                        /* of each slot */
    graft_adapters *adapters;          /* NULL without */
};

/* ------------------------------------------------------------------ making */

static graft_status find_chains(graft_controls *k, graft_err *e)
{
    const graft_guided_config *c = k->c;
    graft_status st = GRAFT_OK;
    for (int side = 0; side < GRAFT_SIDES && !st; side++)
        st = graft_control_check_all(c->model, graft_guided_list(c, side), e);
    for (size_t i = 0; i < k->slots; i++) {
        size_t first;
        graft_side side = graft_guided_side(c, i, &first);
        const graft_cond *list = graft_guided_list(c, side);
        k->chain[i] =
            graft_control_for(c->model, c->positive, list, side != GRAFT_POSITIVE, i - first);
        if (k->tokens < list->entry[i - first]->tokens) k->tokens = list->entry[i - first]->tokens;
    }
    return st;
}

/* The shape of residuals, and of a transformer's how many. */
static graft_net_shape shape_of(const graft_controls *k, const graft_box *box,
                                graft_steered steered)
{
    return (graft_net_shape){.batch = k->c->shape[0],
                             .height = box->height,
                             .width = box->width,
                             .tokens = k->tokens,
                             .act_dtype = k->dtype,
                             .variant = GRAFT_WHOLE,
                             .control = 1,
                             .steered = steered};
}

static int most_residuals(const graft_controls *k, const graft_box *whole)
{
    int most = 0;
    for (size_t i = 0; i < k->slots; i++) {
        if (!graft_control_any_net(k->chain[i])) continue;
        const graft_steered steered = graft_control_steered(k->c->model, k->chain[i]);
        const graft_net_shape shape = shape_of(k, whole, steered);
        const int n = graft_net_residuals(&k->c->model->arch, &shape);
        if (most < n) most = n;
    }
    return most;
}

static graft_status bytes_for(const int64_t dim[4], graft_dtype t, size_t *bytes, graft_err *e)
{
    int64_t values;
    *bytes = 0;
    if (graft_size_product(dim, 4, &values) &&
        graft_size_mul((size_t)values, graft_dtype_size(t), bytes))
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "the latent is too large");
}

static bool pads(const graft_net_arch *a, int64_t height, int64_t width)
{
    return graft_net_side(a, height) != height || graft_net_side(a, width) != width;
}

static bool embeds(const graft_controls *k)
{
    for (size_t i = 0; i < k->slots; i++)
        for (const graft_control *l = k->chain[i]; l; l = l->before)
            if (graft_control_embeds(l->net)) return true;
    return false;
}

/* Room for every slot. */
static void *for_all(const graft_controls *k, size_t bytes)
{
    size_t all;
    return graft_size_mul(k->slots, bytes, &all) ? graft_memory_alloc(&k->memory, all) : NULL;
}

/* What is between the latent and a ControlNet of a transformer, where anything is. */
static graft_status allocate_x(graft_controls *k, const graft_net_shape *whole, graft_err *e)
{
    const graft_guided_config *c = k->c;
    const graft_net_arch *a = &c->model->arch;
    const int64_t x[4] = {c->shape[0], c->shape[1], graft_net_side(a, c->shape[2]),
                          graft_net_side(a, c->shape[3])};
    int64_t dim[4];
    size_t bytes;
    graft_status st = GRAFT_OK;
    if (pads(a, c->shape[2], c->shape[3])) {
        if ((st = bytes_for(x, GRAFT_F32, &bytes, e))) return st;
        k->x = for_all(k, bytes);
        if (!k->x) return graft_fail_nomem(e, "ControlNet");
    }
    if (embeds(k)) {
        graft_net_residual_shape(a, whole, 0, dim);
        if ((st = bytes_for(dim, k->dtype, &bytes, e))) return st;
        k->embedded = for_all(k, bytes);
        if (!k->embedded) return graft_fail_nomem(e, "ControlNet");
    }
    return st;
}

static graft_status allocate(graft_controls *k, graft_err *e)
{
    const graft_guided_config *c = k->c;
    const graft_net_arch *a = &c->model->arch;
    const graft_box whole = {.height = c->shape[2], .width = c->shape[3]};
    graft_backend *backend;
    graft_status st =
        graft_options_resolve(c->model->engine, &c->model->options, &backend, &k->dtype, e);
    if (st) return st;
    const graft_net_shape shape = shape_of(k, &whole, (graft_steered){{0}});
    k->n_residuals = most_residuals(k, &whole);
    for (int i = 0; i < k->n_residuals; i++) {
        int64_t dim[4];
        size_t bytes;
        graft_net_residual_shape(a, &shape, i, dim);
        if ((st = bytes_for(dim, k->dtype, &bytes, e))) return st;
        k->residual[i] = for_all(k, bytes);
        if (!k->residual[i]) return graft_fail_nomem(e, "ControlNet");
    }
    return allocate_x(k, &shape, e);
}

/* Bytes of residual i for one entry with this part of the latent, all pictures: never more than
 * those of the whole. */
static size_t bytes_of(const graft_controls *k, int i, const graft_box *box)
{
    const graft_net_shape shape = shape_of(k, box, (graft_steered){{0}});
    int64_t dim[4];
    graft_net_residual_shape(&k->c->model->arch, &shape, i, dim);
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
    if (!c->model->control && !c->model->within && !any_of(c->positive) && !any_of(c->negative) &&
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
    if (!st) st = graft_adapters_create(c, k->chain, k->dtype, &k->adapters, e);
    if (st)
        graft_controls_destroy(k);
    else
        *out = k;
    return st;
}

/* Gives all that is in k->memory back. */
static void clear_arrays(graft_controls *k)
{
    for (size_t i = 0; i < k->n_hints; i++) {
        graft_memory_free(&k->memory, k->hint[i].features);
        graft_memory_free(&k->memory, k->hint[i].numbers);
    }
    k->n_hints = 0;
    for (size_t i = 0; k->kept && i < k->slots; i++) {
        graft_memory_free(&k->memory, k->kept[i].data);
        k->kept[i].data = NULL;
    }
    for (int i = 0; i < k->n_residuals; i++) {
        graft_memory_free(&k->memory, k->residual[i]);
        k->residual[i] = NULL;
    }
    graft_memory_free(&k->memory, k->x);
    graft_memory_free(&k->memory, k->embedded);
    k->x = NULL;
    k->embedded = NULL;
}

/* Of a hint's features for one picture. */
static size_t feature_bytes(const graft_controls *k, const graft_box *box)
{
    const graft_net_shape shape = shape_of(k, box, (graft_steered){{0}});
    int64_t dim[4];
    graft_net_features_shape(&k->c->model->arch, &shape, dim);
    return (size_t)(dim[1] * dim[2] * dim[3]) * graft_dtype_size(k->dtype);
}

static bool is_of(const seen_hint *h, const graft_control *l, const graft_box *box,
                  int64_t pictures)
{
    return h->link == l && h->pictures == pictures && graft_box_equal(&h->box, box);
}

/* Its place in the list, which is behind the last where it is not there. */
static size_t find_hint(const graft_controls *k, const graft_control *l, const graft_box *box,
                        int64_t pictures)
{
    size_t i = 0;
    while (i < k->n_hints && !is_of(&k->hint[i], l, box, pictures)) i++;
    return i;
}

/* Room for a hint's features, the last of the list. */
static graft_status reserve_hint(graft_controls *k, const graft_control *l, const graft_box *box,
                                 int64_t pictures, graft_err *e)
{
    numbers n = {.strength = (float)l->strength, .told = l->net->told};
    void *there;
    if (graft_grow(&k->hint, &k->cap_hints, k->n_hints + 1, sizeof *k->hint))
        return graft_fail_nomem(e, "ControlNet");
    seen_hint *h = &k->hint[k->n_hints++];
    *h = (seen_hint){.link = l, .box = *box, .pictures = pictures};
    memcpy(n.type, l->net->type, sizeof n.type);
    graft_status st = graft_memory_place(&k->memory, &n, sizeof n, "ControlNet", &there, e);
    h->numbers = there;
    if (!st) h->features = graft_memory_alloc(&k->memory, (size_t)pictures * feature_bytes(k, box));
    if (!st && h->features) return GRAFT_OK;
    graft_memory_free(&k->memory, h->numbers);
    k->n_hints--;
    return st ? st : graft_fail_nomem(e, "ControlNet");
}

/* Of a chain, for the whole latent. */
static graft_status reserve_chain(graft_controls *k, const graft_control *chain, graft_err *e)
{
    const int64_t *shape = k->c->shape;
    const graft_box whole = {.height = shape[2], .width = shape[3]};
    graft_status st = GRAFT_OK;
    for (const graft_control *l = chain; l && !st; l = l->before) {
        if (graft_control_adapts(l->net)) continue;
        if (find_hint(k, l, &whole, shape[0]) == k->n_hints)
            st = reserve_hint(k, l, &whole, shape[0], e);
    }
    return st;
}

/* Of all links: a device has room for the run, or is left alone. */
static graft_status reserve_hints(graft_controls *k, graft_err *e)
{
    graft_status st = reserve_chain(k, k->c->model->within, e);
    for (size_t slot = 0; slot < k->slots && !st; slot++) st = reserve_chain(k, k->chain[slot], e);
    return st;
}

graft_status graft_controls_move(graft_controls *k, graft_memory to, graft_err *e)
{
    clear_arrays(k);
    k->memory = to;
    graft_status st = allocate(k, e);
    if (!st && to.backend) st = reserve_hints(k, e);
    return st || !k->adapters ? st : graft_adapters_move(k->adapters, to, e);
}

void graft_controls_destroy(graft_controls *k)
{
    if (!k) return;
    for (size_t i = 0; i < k->n_bound; i++) graft_binding_release(k->bound[i].binding);
    graft_binding_release(k->embed.binding);
    graft_hint_latents_finish(&k->latents);
    clear_arrays(k);
    graft_adapters_destroy(k->adapters);
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

graft_steered graft_controls_steered(const graft_controls *k, size_t slot, float sigma)
{
    return graft_control_steered(k ? k->c->model : NULL, graft_controls_active(k, slot, sigma));
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

/* The hint's pictures for a UNet's, as colours. */
static graft_status hint_colours(const graft_controls *k, const graft_control *l,
                                 const graft_box *box, int64_t rows, float **out, graft_err *e)
{
    const int64_t width = k->c->shape[3] * GRAFT_CONTROL_FACTOR;
    const int64_t height = k->c->shape[2] * GRAFT_CONTROL_FACTOR;
    int64_t shape[4], pixels = rows * box->height * box->width;
    graft_image *scaled = NULL;
    graft_status st =
        graft_image_scale(l->hint, GRAFT_HINT_SCALING, width, height, true, &scaled, e);
    if (st) return st;
    const float *data = graft_image_data(scaled, shape);
    *out = graft_malloc_array((size_t)pixels,
                              3 * GRAFT_CONTROL_FACTOR * GRAFT_CONTROL_FACTOR * sizeof **out);
    if (*out)
        take_colours(data, shape, rows, box, *out);
    else
        st = graft_fail_nomem(e, "ControlNet's picture");
    graft_image_release(scaled);
    return st;
}

/* What all links of a chain run on. */
typedef struct call {
    const graft_box *box;
    const graft_unet_use *use;
    const void *const *in;
    graft_control_stage stage;
} call;

/* Of `rows` pictures, into h->features. */
static graft_status run_hint(graft_controls *k, const seen_hint *h, const graft_unet_use *use,
                             int64_t rows, graft_err *e)
{
    const graft_guided_config *c = k->c;
    const graft_control *l = h->link;
    graft_binding *b = NULL;
    float *values = NULL;
    void *there = NULL;
    graft_status st;
    GRAFT_TRY(l->vae ? graft_hint_latents_take(&k->latents, c, l, &h->box, rows, &values, e)
                     : hint_colours(k, l, &h->box, rows, &values, e));
    GRAFT_TRY(graft_control_bind_hint(c->model, l->net, rows, use, c->task, &b, e));
    graft_task_phase(c->task, "sample");
    GRAFT_TRY(graft_memory_place(&k->memory, values, (size_t)b->exe->input[0].bytes,
                                 "ControlNet's picture", &there, e));
    const void *in[3] = {there, h->numbers->type, &h->numbers->told}; /* a UNet's union takes all */
    st = graft_memory_run(&k->memory, b, c->model->engine->arenas, in, (void *[]){h->features},
                          c->task, e);
out:
    graft_memory_free(&k->memory, there);
    graft_binding_release(b);
    graft_free(values);
    return st;
}

/* Pictures of a hint repeat in turn, surplus ones are left out. */
static graft_status make_hint(graft_controls *k, const graft_unet_use *use, seen_hint *h,
                              graft_err *e)
{
    const int64_t n_run = k->c->shape[0], rows = graft_control_rows(h->link, n_run);
    const size_t bytes = feature_bytes(k, &h->box);
    graft_status st = run_hint(k, h, use, rows, e);
    for (int64_t i = rows; i < h->pictures && !st; i++)
        st = graft_memory_copy(&k->memory, h->features + (size_t)i * bytes,
                               h->features + (size_t)(i % n_run % rows) * bytes, bytes, e);
    h->made = !st;
    return st;
}

/* What is known of the link's hint in this part of the latent. */
static graft_status hint_of(graft_controls *k, const graft_control *l, const call *c,
                            seen_hint *out, graft_err *e)
{
    const size_t i = find_hint(k, l, c->box, c->use->pictures);
    graft_status st = GRAFT_OK;
    if (i == k->n_hints) st = reserve_hint(k, l, c->box, c->use->pictures, e);
    if (!st && !k->hint[i].made) st = make_hint(k, c->use, &k->hint[i], e);
    if (!st) *out = k->hint[i];
    return st;
}

graft_status graft_controls_see(graft_controls *k, const graft_box *box, const graft_unet_use *use,
                                graft_err *e)
{
    const call c = {.box = box, .use = use};
    graft_status st = GRAFT_OK;
    for (const graft_control *l = k->c->model->within; l && !st; l = l->before) {
        seen_hint hint;
        st = hint_of(k, l, &c, &hint, e);
    }
    return st;
}

/* Those that were put on first come first. */
static void append_links(const graft_controls *k, const graft_control *l, const graft_box *box,
                         int64_t pictures, const void **in, size_t *n)
{
    if (!l) return;
    append_links(k, l->before, box, pictures, in, n);
    const size_t i = find_hint(k, l, box, pictures);
    assert(i < k->n_hints);
    const seen_hint *h = &k->hint[i];
    in[(*n)++] = h->features;
    in[(*n)++] = &h->numbers->strength;
}

void graft_controls_append_within(const graft_controls *k, const graft_box *box,
                                  const graft_unet_use *use, const void **in, size_t *n)
{
    append_links(k, k->c->model->within, box, use->pictures, in, n);
}

/* ------------------------------------------------------------------ residuals */

static void count(graft_controls *k, const graft_controlnet *net, const graft_binding *b)
{
    if (graft_binding_arena(b) > k->arena_bytes) k->arena_bytes = graft_binding_arena(b);
    for (size_t i = 0; i < k->n_bound; i++)
        if (k->bound[i].weights == net->weights) return;
    k->weight_bytes += (int64_t)graft_binding_bytes(b);
}

static graft_status bind_net(graft_controls *k, const graft_controlnet *net, int more,
                             graft_control_stage stage, const graft_unet_use *use,
                             graft_binding **out, graft_err *e)
{
    const bool told = graft_control_sees_latent(&net->arch) && net->told != 0;
    for (size_t i = 0; i < k->n_bound; i++) {
        const bound_net *b = &k->bound[i];
        if (b->weights != net->weights || b->more != more || b->told != told || b->stage != stage ||
            !graft_unet_use_equal(&b->use, use))
            continue;
        *out = b->binding;
        return GRAFT_OK;
    }
    if (graft_grow(&k->bound, &k->cap_bound, k->n_bound + 1, sizeof *k->bound))
        return graft_fail_nomem(e, "ControlNet");
    graft_status st = graft_control_bind(k->c->model, net, more, stage, use, k->c->task, out, e);
    if (st) return st;
    count(k, net, *out);
    k->bound[k->n_bound++] = (bound_net){net->weights, told, more, stage, *use, *out};
    graft_task_phase(k->c->task, "sample");
    return GRAFT_OK;
}

/* The latent as a transformer's ControlNet takes it. */
static graft_status embed(graft_controls *k, const call *c, graft_err *e)
{
    const graft_model *m = k->c->model;
    if (k->embed.binding && !graft_unet_use_equal(&k->embed.use, c->use)) {
        graft_binding_release(k->embed.binding);
        k->embed.binding = NULL;
    }
    if (!k->embed.binding) {
        graft_status st = graft_control_bind_embed(m, c->use, k->c->task, &k->embed.binding, e);
        if (st) return st;
        k->embed.use = *c->use;
    }
    return graft_memory_run(&k->memory, k->embed.binding, m->engine->arenas,
                            (const void *[]){c->in[0]}, (void *[]){k->embedded}, k->c->task, e);
}

/* Residuals of a part: first the first one's place among all, then how many. */
static int of_part(const graft_controls *k, const graft_unet_use *use, int part, int *first)
{
    *first = part ? graft_steered_count(&use->steered, 0) : 0;
    if (graft_net_is_unet(&k->c->model->arch)) return part ? 0 : k->n_residuals;
    return graft_steered_count(&use->steered, part);
}

/* What the ControlNet takes behind all else of what is there already, and what it gives. */
static void add_residuals(const graft_controls *k, const graft_controlnet *net, int parts,
                          const call *c, const void **in, size_t *n_in, void **out)
{
    const graft_model *m = k->c->model;
    size_t n_out = 0;
    for (int part = 0; part < GRAFT_STEERED_PARTS; part++) {
        int first, count = of_part(k, c->use, part, &first);
        const bool given = !part && c->stage == GRAFT_CONTROL_SECOND_PART;
        const bool later = part && c->stage == GRAFT_CONTROL_FIRST_PART;
        for (int i = 0; i < count; i++) {
            const bool unet = graft_net_is_unet(&m->arch);
            const int block = unet ? 0 : graft_steered_begin(&c->use->steered, part, i);
            const bool own = !later && graft_control_gives(m, net, part, block);
            if (given || (own && parts >> part & 1)) in[(*n_in)++] = k->residual[first + i];
            if (own && !given) out[n_out++] = k->residual[first + i];
        }
    }
}

/* parts: those that have residuals already. */
static graft_status run_link(graft_controls *k, const graft_control *l, int parts, const call *c,
                             graft_err *e)
{
    const graft_controlnet *net = l->net;
    const int own = graft_control_parts(k->c->model, net);
    const bool union_of_unet = net->arch.types && !graft_control_sees_latent(&net->arch);
    const void *all[INPUTS_MAX];
    void *out[GRAFT_NET_RESIDUALS];
    seen_hint hint;
    graft_binding *b = NULL;
    size_t n = graft_net_y_width(&k->c->model->arch, c->use->tokens) ? 4 : 3;
    graft_status st = hint_of(k, l, c, &hint, e);
    if (!st) st = bind_net(k, net, parts & own, c->stage, c->use, &b, e);
    if (!st && graft_control_embeds(net)) st = embed(k, c, e);
    if (st) return st;
    memcpy(all, c->in, n * sizeof *all);
    if (graft_control_embeds(net)) all[0] = k->embedded;
    all[n++] = hint.features;
    all[n++] = &hint.numbers->strength;
    if (union_of_unet || (net->arch.types && net->told != 0)) all[n++] = hint.numbers->type;
    if (union_of_unet) all[n++] = &hint.numbers->told;
    add_residuals(k, net, parts, c, all, &n, out);
    return graft_memory_run(&k->memory, b, k->c->model->engine->arenas, all, out, k->c->task, e);
}

/* Those that were put on first come first. */
static graft_status run_chain(graft_controls *k, const graft_control *l, float sigma, int *parts,
                              const call *c, graft_err *e)
{
    if (!l) return GRAFT_OK;
    graft_status st = run_chain(k, l->before, sigma, parts, c, e);
    if (st || graft_control_adapts(l->net) || !graft_control_active(k->c->table, l, sigma))
        return st;
    if (c->stage == GRAFT_CONTROL_FIRST_PART && l->net->arch.refining == GRAFT_CONTROL_REFINES_HINT)
        return st;
    st = run_link(k, l, *parts, c, e);
    *parts |= graft_control_parts(k->c->model, l->net);
    return st;
}

/* The batch's latents, filled up to whole patches where the network sees those. */
static const float *whole_x(graft_controls *k, const call *c)
{
    const graft_net_arch *a = &k->c->model->arch;
    const graft_box at_0 = {.height = c->box->height, .width = c->box->width};
    const int64_t shape[3] = {c->use->pictures * c->use->entries * k->c->shape[1], at_0.height,
                              at_0.width};
    if (!pads(a, at_0.height, at_0.width)) return c->in[0];
    assert(!k->memory.backend);
    graft_known_fill(k->c->model, c->in[0], shape, &at_0, k->x);
    return k->x;
}

graft_status graft_controls_adapt(graft_controls *k, const graft_control *chain, float sigma,
                                  const graft_box *box, const graft_unet_use *use, int64_t beside,
                                  graft_err *e)
{
    return use->adapted ? graft_adapters_run(k->adapters, chain, sigma, box, use, beside, e)
                        : GRAFT_OK;
}

/* Those of the parts that have none yet. */
static graft_status clear_residuals(graft_controls *k, int parts, const graft_unet_use *use,
                                    const graft_box *box, size_t entries, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (int part = 0; part < GRAFT_STEERED_PARTS && !st; part++) {
        int first, count = of_part(k, use, part, &first);
        for (int i = first; !(parts >> part & 1) && i < first + count && !st; i++)
            st = graft_memory_clear(&k->memory, k->residual[i], bytes_of(k, i, box) * entries, e);
    }
    return st;
}

/* Whether each adds to what is there: all are of one kind. */
static bool sparse_chain(const graft_control *chain)
{
    return chain && graft_control_sparse(&chain->net->arch);
}

graft_status graft_controls_run(graft_controls *k, const graft_control *chain, float sigma,
                                const graft_box *box, const graft_unet_use *use,
                                const void *const *in, graft_err *e)
{
    call c = {box, use, in, GRAFT_CONTROL_AT_ONCE};
    const void *all[4] = {whole_x(k, &c), in[1], in[2],
                          graft_net_y_width(&k->c->model->arch, use->tokens) ? in[3] : NULL};
    const size_t entries = (size_t)(use->pictures / k->c->shape[0] * use->entries);
    int parts = 0;
    c.in = all;
    if (!use->control) return GRAFT_OK;
    const bool sparse = sparse_chain(chain);
    graft_status st = sparse ? clear_residuals(k, 0, use, box, entries, e) : GRAFT_OK;
    if (sparse) parts = (1 << GRAFT_STEERED_PARTS) - 1;
    if (!st && graft_control_staged(k->c->table, chain, sigma)) {
        c.stage = GRAFT_CONTROL_FIRST_PART;
        st = run_chain(k, chain, sigma, &parts, &c, e);
        c.stage = GRAFT_CONTROL_SECOND_PART;
    }
    if (!st) st = run_chain(k, chain, sigma, &parts, &c, e);
    if (!st) st = clear_residuals(k, parts, use, box, entries, e);
    return st;
}

void graft_controls_append(const graft_controls *k, const graft_unet_use *use, const void **in,
                           size_t *n)
{
    const graft_net_shape shape = {.variant = (int32_t)use->variant,
                                   .cut = k->c->model->deepcache.cut,
                                   .control = use->control,
                                   .steered = use->steered};
    const int count = graft_net_residuals(&k->c->model->arch, &shape);
    for (int i = 0; i < count; i++) in[(*n)++] = k->residual[i];
    if (use->adapted) graft_adapters_append(k->adapters, use, in, n);
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

/* How many of this chain's a fast step of the UNet takes. */
static int fast_residuals(const graft_controls *k, const graft_control *chain)
{
    const graft_net_shape shape = {
        .variant = GRAFT_FAST, .cut = k->c->model->deepcache.cut, .control = 1};
    if (!graft_control_any_net(chain)) return 0;
    return graft_net_residuals(&k->c->model->arch, &shape);
}

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
    const int n = fast_residuals(k, chain);
    graft_status st = GRAFT_OK;
    s->chain = NULL;
    s->sigma = sigma;
    if (!chain) return GRAFT_OK;
    for (int r = 0; r < n; r++) at += bytes_of(k, r, box);
    if (n && !s->data) s->data = graft_memory_alloc(&k->memory, at);
    if (n && !s->data) return graft_fail_nomem(e, "ControlNet");
    at = 0;
    for (int r = 0; r < n && !st; r++) {
        size_t bytes = bytes_of(k, r, box);
        st = graft_memory_copy(&k->memory, s->data + at, k->residual[r] + i * bytes, bytes, e);
        at += bytes;
    }
    if (!st) s->chain = chain;
    return st;
}

const graft_control *graft_controls_kept(const graft_controls *k, size_t slot)
{
    return k ? k->kept[slot].chain : NULL;
}

graft_status graft_controls_restore(graft_controls *k, size_t slot, size_t i, graft_err *e)
{
    size_t at = 0;
    const int n = fast_residuals(k, k->kept[slot].chain);
    graft_status st = GRAFT_OK;
    for (int r = 0; r < n && !st; r++) {
        size_t bytes = bytes_of(k, r, &k->regions->list[slot].box);
        st = graft_memory_copy(&k->memory, k->residual[r] + i * bytes, k->kept[slot].data + at,
                               bytes, e);
        at += bytes;
    }
    return st;
}

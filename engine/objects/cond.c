#include <string.h>

#include "base/alloc.h"
#include "engine/objects/boxes.h"
#include "engine/objects/control.h"
#include "engine/objects/hooks.h"
#include "engine/image/image.h"
#include "engine/image/latent.h"

static void entry_release(graft_cond_entry *k)
{
    if (!k || atomic_fetch_sub(&k->refs, 1) != 1) return;
    graft_free(k->data);
    graft_free(k->pooled);
    graft_control_release(k->control);
    graft_image_release(k->mask);
    graft_latent_release(k->beside);
    for (int32_t i = 0; i < k->n_references; i++) graft_latent_release(k->reference[i]);
    for (int32_t i = 0; i < k->n_shown; i++) graft_vision_output_release(k->shown[i].seen);
    graft_hooks_release(k->hooks);
    graft_boxes_release(k->boxes);
    graft_free(k);
}

graft_cond *graft_cond_retain(graft_cond *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}

void graft_cond_release(graft_cond *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) != 1) return;
    for (size_t i = 0; i < c->n; i++) entry_release(c->entry[i]);
    graft_free(c);
}

static graft_cond *list_create(size_t n)
{
    graft_cond *c = graft_calloc(1, sizeof *c + n * sizeof c->entry[0]);
    if (c) atomic_init(&c->refs, 1);
    return c;
}

graft_status graft_cond_create(int64_t tokens, int64_t width, float *data, int64_t pooled_width,
                               float *pooled, const graft_sdxl_size *size, graft_cond **out,
                               graft_err *e)
{
    graft_cond *c = list_create(1);
    graft_cond_entry *k = graft_calloc(1, sizeof *k);
    if (!c || !k) {
        graft_free(c);
        graft_free(k);
        graft_free(data);
        graft_free(pooled);
        return graft_fail_nomem(e, "conditioning");
    }
    atomic_init(&k->refs, 1);
    k->tokens = tokens;
    k->width = width;
    k->data = data;
    k->pooled_width = pooled_width;
    k->pooled = pooled;
    k->end = 1.0;
    k->strength = k->mask_strength = 1.0;
    k->has_size = size != NULL;
    if (size) k->size = *size;
    c->entry[c->n++] = k;
    *out = c;
    return GRAFT_OK;
}

graft_status graft_cond_combine(const graft_cond *a, const graft_cond *b, graft_cond **out,
                                graft_err *e)
{
    graft_cond *c = list_create(a->n + b->n);
    if (!c) return graft_fail_nomem(e, "conditioning");
    for (size_t i = 0; i < a->n + b->n; i++) {
        graft_cond_entry *k = i < a->n ? a->entry[i] : b->entry[i - a->n];
        atomic_fetch_add(&k->refs, 1);
        c->entry[c->n++] = k;
    }
    *out = c;
    return GRAFT_OK;
}

/* A copy of an entry with room for `tokens` tokens; the first ones are those of `from`, the rest
 * zero. NULL when out of memory. */
static graft_cond_entry *entry_copy(const graft_cond_entry *from, int64_t tokens)
{
    graft_cond_entry *k = graft_malloc(sizeof *k);
    if (!k) return NULL;
    memcpy(k, from, sizeof *k);
    atomic_init(&k->refs, 1);
    graft_control_retain(k->control);
    if (k->mask) graft_image_retain(k->mask);
    graft_latent_retain(k->beside);
    for (int32_t i = 0; i < k->n_references; i++) graft_latent_retain(k->reference[i]);
    for (int32_t i = 0; i < k->n_shown; i++) graft_vision_output_retain(k->shown[i].seen);
    graft_hooks_retain(k->hooks);
    graft_boxes_retain(k->boxes);
    size_t row = (size_t)from->width * sizeof *k->data;
    int64_t same = from->tokens < tokens ? from->tokens : tokens;
    k->tokens = tokens;
    k->data = graft_calloc((size_t)tokens, row);
    k->pooled = NULL;
    if (from->pooled) k->pooled = graft_malloc_array((size_t)k->pooled_width, sizeof *k->pooled);
    if (!k->data || (from->pooled && !k->pooled)) {
        entry_release(k);
        return NULL;
    }
    memcpy(k->data, from->data, (size_t)same * row);
    if (k->pooled) memcpy(k->pooled, from->pooled, (size_t)k->pooled_width * sizeof *k->pooled);
    return k;
}

/* The last of the first `own` tokens once more in place of those behind it. */
static void repeat_last(graft_cond_entry *k, int64_t own)
{
    const size_t width = (size_t)k->width;
    for (int64_t i = own > 0 ? own : k->tokens; i < k->tokens; i++)
        memcpy(k->data + (size_t)i * width, k->data + (size_t)(own - 1) * width,
               width * sizeof *k->data);
}

/* Whether the network is to see no prompt in it. */
static bool is_wordless(const graft_net_arch *a, const graft_cond_entry *k)
{
    const int64_t n = k->tokens * k->width;
    if (a->kind != GRAFT_NET_IDEOGRAM4 || !k->zeroed) return false;
    for (int64_t i = 0; i < n; i++)
        if (k->data[i] != 0) return false;
    return true;
}

/* The entry as the network is given it, with a reference; NULL when out of memory. */
static graft_cond_entry *entry_filled(graft_cond_entry *from, const graft_net_arch *a)
{
    const bool wordless = is_wordless(a, from);
    const int64_t own = wordless ? 0 : from->tokens, all = graft_net_tokens(a, own);
    if (all == own) {
        atomic_fetch_add(&from->refs, 1);
        return from;
    }
    graft_cond_entry *k = entry_copy(from, all);
    if (!k) return NULL;
    k->filled = all - own;
    if (!wordless && graft_net_counts_tokens(a, all)) repeat_last(k, own);
    return k;
}

graft_status graft_cond_fill(const graft_cond *c, const graft_net_arch *a, graft_cond **out,
                             graft_err *e)
{
    graft_cond *n = list_create(c->n);
    if (!n) return graft_fail_nomem(e, "conditioning");
    for (; n->n < c->n; n->n++) {
        graft_cond_entry *k = entry_filled(c->entry[n->n], a);
        if (!k) {
            graft_cond_release(n);
            return graft_fail_nomem(e, "conditioning");
        }
        n->entry[n->n] = k;
    }
    *out = n;
    return GRAFT_OK;
}

/* A copy of `words` that counts where `place` does. */
static graft_cond_entry *entry_placed(const graft_cond_entry *words, const graft_cond_entry *place)
{
    graft_cond_entry *k = entry_copy(words, words->tokens);
    if (!k) return NULL;
    graft_control_release(k->control);
    graft_image_release(k->mask);
    graft_hooks_release(k->hooks);
    k->control = graft_control_retain(place->control);
    k->mask = place->mask ? graft_image_retain(place->mask) : NULL;
    k->hooks = graft_hooks_retain(place->hooks);
    k->rest = false;
    k->start = place->start;
    k->end = place->end;
    k->has_range = place->has_range;
    k->has_area = place->has_area;
    k->area = place->area;
    k->mask_bounds = place->mask_bounds;
    k->strength = place->strength;
    k->mask_strength = place->mask_strength;
    return k;
}

graft_status graft_cond_add_placed(const graft_cond *c, const graft_cond_entry *words,
                                   const graft_cond_entry *place, graft_cond **out, graft_err *e)
{
    graft_cond *more = list_create(c->n + 1);
    graft_cond_entry *k = more ? entry_placed(words, place) : NULL;
    if (!k) {
        graft_cond_release(more);
        return graft_fail_nomem(e, "conditioning");
    }
    for (size_t i = 0; i < c->n; i++) {
        atomic_fetch_add(&c->entry[i]->refs, 1);
        more->entry[more->n++] = c->entry[i];
    }
    more->entry[more->n++] = k;
    *out = more;
    return GRAFT_OK;
}

/* How one entry of a list becomes a new one; NULL when out of memory. */
typedef graft_cond_entry *change_fn(const graft_cond_entry *from, const void *ctx);

static graft_status change_all(const graft_cond *c, change_fn *change, const void *ctx,
                               graft_cond **out, graft_err *e)
{
    graft_cond *n = list_create(c->n);
    if (!n) return graft_fail_nomem(e, "conditioning");
    for (size_t i = 0; i < c->n; i++) {
        n->entry[i] = change(c->entry[i], ctx);
        if (!n->entry[i]) {
            graft_cond_release(n);
            return graft_fail_nomem(e, "conditioning");
        }
        n->n++;
    }
    *out = n;
    return GRAFT_OK;
}

static graft_cond_entry *same_entry(const graft_cond_entry *from, const void *ctx)
{
    (void)ctx;
    return entry_copy(from, from->tokens);
}

graft_status graft_cond_copy(const graft_cond *c, graft_cond **out, graft_err *e)
{
    return change_all(c, same_entry, NULL, out, e);
}

static graft_status first_of(const graft_cond *to, const graft_cond *from,
                             const graft_cond_entry **out, graft_err *e)
{
    if (!from->n) return graft_fail(e, GRAFT_E_ARG, "the second conditioning is empty");
    for (size_t i = 0; i < to->n; i++)
        if (to->entry[i]->width != from->entry[0]->width)
            return graft_fail(e, GRAFT_E_ARG,
                              "conditionings of width %lld and %lld do not go together (they come "
                              "from different text encoders)",
                              (long long)to->entry[i]->width, (long long)from->entry[0]->width);
    *out = from->entry[0];
    return GRAFT_OK;
}

static graft_cond_entry *concat_entry(const graft_cond_entry *to, const void *ctx)
{
    const graft_cond_entry *from = ctx;
    graft_cond_entry *k = entry_copy(to, to->tokens + from->tokens);
    if (k)
        memcpy(k->data + to->tokens * to->width, from->data,
               (size_t)(from->tokens * from->width) * sizeof *k->data);
    return k;
}

graft_status graft_cond_concat(const graft_cond *to, const graft_cond *from, graft_cond **out,
                               graft_err *e)
{
    const graft_cond_entry *first = NULL;
    graft_status st = first_of(to, from, &first, e);
    return st ? st : change_all(to, concat_entry, first, out, e);
}

typedef struct average {
    const graft_cond_entry *from;
    float strength;
} average;

static void blend(float *to, const float *from, int64_t n, int64_t n_from, float strength)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = to[i] * strength + (i < n_from ? from[i] : 0.0f) * (1.0f - strength);
}

static graft_cond_entry *average_entry(const graft_cond_entry *to, const void *ctx)
{
    const average *a = ctx;
    graft_cond_entry *k = entry_copy(to, to->tokens);
    if (!k) return NULL;
    blend(k->data, a->from->data, k->tokens * k->width, a->from->tokens * a->from->width,
          a->strength);
    if (k->pooled && !k->worded && a->from->pooled && a->from->pooled_width == k->pooled_width)
        blend(k->pooled, a->from->pooled, k->pooled_width, k->pooled_width, a->strength);
    return k;
}

graft_status graft_cond_average(const graft_cond *to, const graft_cond *from, double strength,
                                graft_cond **out, graft_err *e)
{
    average a = {NULL, (float)strength};
    graft_status st = first_of(to, from, &a.from, e);
    return st ? st : change_all(to, average_entry, &a, out, e);
}

static graft_cond_entry *range_entry(const graft_cond_entry *from, const void *ctx)
{
    const double *range = ctx;
    graft_cond_entry *k = entry_copy(from, from->tokens);
    if (!k) return NULL;
    k->has_range = true;
    k->start = range[0];
    k->end = range[1];
    return k;
}

graft_status graft_cond_timestep_range(const graft_cond *c, double start, double end,
                                       graft_cond **out, graft_err *e)
{
    double range[2] = {start, end};
    return change_all(c, range_entry, range, out, e);
}

static graft_cond_entry *guidance_entry(const graft_cond_entry *from, const void *ctx)
{
    const double *guidance = ctx;
    graft_cond_entry *k = entry_copy(from, from->tokens);
    if (!k) return NULL;
    k->untold = false;
    k->has_guidance = true;
    k->guidance = *guidance;
    return k;
}

static graft_cond_entry *untold_entry(const graft_cond_entry *from, const void *ctx)
{
    (void)ctx;
    graft_cond_entry *k = entry_copy(from, from->tokens);
    if (!k) return NULL;
    k->untold = true;
    return k;
}

graft_status graft_cond_guidance(const graft_cond *c, double guidance, graft_cond **out,
                                 graft_err *e)
{
    if (!(guidance >= 0 && guidance <= 100))
        return graft_fail(e, GRAFT_E_ARG, "guidance %g is not between 0 and 100", guidance);
    return change_all(c, guidance_entry, &guidance, out, e);
}

graft_status graft_cond_untold(const graft_cond *c, graft_cond **out, graft_err *e)
{
    return change_all(c, untold_entry, NULL, out, e);
}

static graft_cond_entry *zero_entry(const graft_cond_entry *from, const void *ctx)
{
    (void)ctx;
    graft_cond_entry *k = entry_copy(from, from->tokens);
    if (!k) return NULL;
    memset(k->data, 0, (size_t)(k->tokens * k->width) * sizeof *k->data);
    k->zeroed = true;
    if (k->pooled && !k->worded) memset(k->pooled, 0, (size_t)k->pooled_width * sizeof *k->pooled);
    return k;
}

graft_status graft_cond_zero_out(const graft_cond *c, graft_cond **out, graft_err *e)
{
    return change_all(c, zero_entry, NULL, out, e);
}

/* ------------------------------------------------------------------ regions */

/* Far more than a picture has pixels, and nothing that a number of cells cannot hold. */
static bool is_length(double v)
{
    return v >= 0 && v <= 1e9;
}

static graft_status check_strength(double strength, graft_err *e)
{
    return is_length(strength)
               ? GRAFT_OK
               : graft_fail(e, GRAFT_E_ARG, "strength %g must be a number from 0 up", strength);
}

typedef struct placing {
    const graft_area *area; /* NULL: as it was */
    double strength;
    const graft_image *mask;
    bool bounds;
} placing;

static graft_cond_entry *strength_entry(const graft_cond_entry *from, const void *ctx)
{
    const placing *p = ctx;
    graft_cond_entry *k = entry_copy(from, from->tokens);
    if (!k) return NULL;
    k->strength = p->strength;
    if (p->area) {
        k->has_area = true;
        k->area = *p->area;
    }
    return k;
}

graft_status graft_cond_area(const graft_cond *c, const graft_area *a, double strength,
                             graft_cond **out, graft_err *e)
{
    const placing p = {.area = a, .strength = strength};
    graft_status st = check_strength(strength, e);
    if (!st && !(is_length(a->x) && is_length(a->y) && is_length(a->width) && is_length(a->height)))
        st = graft_fail(e, GRAFT_E_ARG, "an area of %g x %g at %g, %g is not possible", a->width,
                        a->height, a->x, a->y);
    return st ? st : change_all(c, strength_entry, &p, out, e);
}

graft_status graft_cond_strength(const graft_cond *c, double strength, graft_cond **out,
                                 graft_err *e)
{
    const placing p = {.strength = strength};
    graft_status st = check_strength(strength, e);
    return st ? st : change_all(c, strength_entry, &p, out, e);
}

static graft_cond_entry *mask_entry(const graft_cond_entry *from, const void *ctx)
{
    const placing *p = ctx;
    graft_cond_entry *k = entry_copy(from, from->tokens);
    if (!k) return NULL;
    graft_image_release(k->mask);
    k->mask = graft_image_retain((graft_image *)p->mask);
    k->mask_strength = p->strength;
    k->mask_bounds = p->bounds;
    return k;
}

graft_status graft_cond_mask(const graft_cond *c, const graft_image *mask, double strength,
                             bool bounds, graft_cond **out, graft_err *e)
{
    const placing p = {.strength = strength, .mask = mask, .bounds = bounds};
    graft_status st = check_strength(strength, e);
    if (!st) st = graft_image_want_mask(mask, e);
    return st ? st : change_all(c, mask_entry, &p, out, e);
}

static graft_cond_entry *beside_entry(const graft_cond_entry *from, const void *ctx)
{
    const graft_latent *known = ctx;
    graft_cond_entry *k = entry_copy(from, from->tokens);
    if (!k) return NULL;
    graft_latent_release(k->beside);
    k->beside = graft_latent_retain((graft_latent *)known);
    return k;
}

graft_status graft_cond_picture(const graft_cond *c, const graft_latent *picture, graft_cond **out,
                                graft_err *e)
{
    return change_all(c, beside_entry, picture, out, e);
}

graft_status graft_cond_inpaint(const graft_cond *c, const graft_latent *known, graft_cond **out,
                                graft_err *e)
{
    if (!graft_latent_mask(known))
        return graft_fail(
            e, GRAFT_E_ARG,
            "nothing says which part of the picture to paint: the latent has no mask");
    return change_all(c, beside_entry, known, out, e);
}

static graft_cond_entry *reference_entry(const graft_cond_entry *from, const void *ctx)
{
    const graft_latent *picture = ctx;
    graft_cond_entry *k = entry_copy(from, from->tokens);
    if (k) k->reference[k->n_references++] = graft_latent_retain((graft_latent *)picture);
    return k;
}

graft_status graft_cond_reference(const graft_cond *c, const graft_latent *picture,
                                  graft_cond **out, graft_err *e)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->entry[i]->n_references == GRAFT_REFERENCES)
            return graft_fail(e, GRAFT_E_LIMIT, "a prompt has at most %d reference pictures",
                              GRAFT_REFERENCES);
    graft_status st = graft_latent_want_single(picture, "a reference", e);
    if (st) return st;
    return change_all(c, reference_entry, picture, out, e);
}

typedef struct within {
    const graft_latent *picture;
    int32_t tokens;
} within;

static graft_cond_entry *within_entry(const graft_cond_entry *from, const void *ctx)
{
    const within *w = ctx;
    graft_cond_entry *k = reference_entry(from, w->picture);
    if (k) k->within[k->n_within++] = w->tokens;
    return k;
}

graft_status graft_cond_reference_within(const graft_cond *c, const graft_latent *picture,
                                         int64_t tokens, graft_cond **out, graft_err *e)
{
    for (size_t i = 0; i < c->n; i++) {
        const graft_cond_entry *k = c->entry[i];
        const int32_t n = k->n_within;
        if (n == GRAFT_REFERENCES)
            return graft_fail(e, GRAFT_E_LIMIT, "a prompt has at most %d reference pictures",
                              GRAFT_REFERENCES);
        if (n != k->n_references || tokens < (n ? k->within[n - 1] : 0) || tokens >= k->tokens)
            return graft_fail(e, GRAFT_E_ARG, "a reference picture behind %lld of %lld tokens",
                              (long long)tokens, (long long)k->tokens);
    }
    return change_all(c, within_entry, &(within){picture, (int32_t)tokens}, out, e);
}

static graft_cond_entry *shown_entry(const graft_cond_entry *from, const void *ctx)
{
    const graft_shown *shown = ctx;
    graft_cond_entry *k = entry_copy(from, from->tokens);
    if (!k) return NULL;
    k->shown[k->n_shown++] = *shown;
    graft_vision_output_retain(shown->seen);
    return k;
}

graft_status graft_cond_show(const graft_cond *c, const graft_vision_output *seen, double strength,
                             double noise, graft_cond **out, graft_err *e)
{
    const graft_shown shown = {(graft_vision_output *)seen, strength, noise};
    int64_t shape[2];
    if (!(strength >= -10 && strength <= 10))
        return graft_fail(e, GRAFT_E_ARG, "strength %g is not between -10 and 10", strength);
    if (!(noise >= 0 && noise <= 1))
        return graft_fail(e, GRAFT_E_ARG, "noise of %g is not between 0 and 1", noise);
    if (!graft_vision_output_pooled(seen, shape))
        return graft_fail(e, GRAFT_E_ARG,
                          "this encoder of pictures gives no vector for the whole picture: unCLIP "
                          "models are for CLIP's, not for SigLIP's");
    for (size_t i = 0; i < c->n; i++)
        if (c->entry[i]->n_shown == GRAFT_SHOWN)
            return graft_fail(e, GRAFT_E_LIMIT, "a prompt tells of at most %d batches of pictures",
                              GRAFT_SHOWN);
    return change_all(c, shown_entry, &shown, out, e);
}

static graft_cond_entry *placed_entry(const graft_cond_entry *from, const void *ctx)
{
    graft_cond_entry *k = entry_copy(from, from->tokens);
    if (k) k->placing = *(const graft_placing *)ctx;
    return k;
}

graft_status graft_cond_place_references(const graft_cond *c, graft_placing how, graft_cond **out,
                                         graft_err *e)
{
    return change_all(c, placed_entry, &how, out, e);
}

graft_status graft_cond_with_controls(const graft_cond *c, graft_control *const *chain,
                                      graft_cond **out, graft_err *e)
{
    graft_cond *n = list_create(c->n);
    if (!n) return graft_fail_nomem(e, "conditioning");
    for (; n->n < c->n; n->n++) {
        graft_cond_entry *k = entry_copy(c->entry[n->n], c->entry[n->n]->tokens);
        if (!k) {
            graft_cond_release(n);
            return graft_fail_nomem(e, "conditioning");
        }
        graft_control_release(k->control);
        k->control = graft_control_retain(chain[n->n]);
        n->entry[n->n] = k;
    }
    *out = n;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ hooks */

graft_status graft_cond_hooks(const graft_cond *c, const graft_hooks *h, graft_cond **out,
                              graft_err *e)
{
    graft_cond *n = list_create(c->n);
    graft_status st = n ? GRAFT_OK : graft_fail_nomem(e, "conditioning");
    for (size_t i = 0; i < c->n && !st; i++) {
        graft_cond_entry *k = entry_copy(c->entry[i], c->entry[i]->tokens);
        if (!k) {
            st = graft_fail_nomem(e, "conditioning");
            break;
        }
        graft_hooks *const before = k->hooks;
        n->entry[n->n++] = k;
        if (!before) {
            k->hooks = graft_hooks_retain((graft_hooks *)(uintptr_t)h);
            continue;
        }
        k->hooks = NULL;
        st = graft_hooks_combine(before, h, &k->hooks, e);
        graft_hooks_release(before);
    }
    if (st)
        graft_cond_release(n);
    else
        *out = n;
    return st;
}

static graft_cond_entry *rest_entry(const graft_cond_entry *from, const void *ctx)
{
    (void)ctx;
    graft_cond_entry *k = entry_copy(from, from->tokens);
    if (!k) return NULL;
    k->rest = true;
    k->has_area = k->mask_bounds = false;
    graft_image_release(k->mask);
    k->mask = NULL;
    k->mask_strength = 1.0;
    return k;
}

graft_status graft_cond_default(const graft_cond *c, const graft_cond *rest,
                                const graft_hooks *hooks, graft_cond **out, graft_err *e)
{
    graft_cond *hooked = NULL, *placed = NULL;
    graft_status st = GRAFT_OK;
    if (hooks)
        st = graft_cond_hooks(rest, hooks, &hooked, e);
    else
        hooked = graft_cond_retain((graft_cond *)(uintptr_t)rest);
    if (!st) st = change_all(hooked, rest_entry, NULL, &placed, e);
    if (!st) st = graft_cond_combine(c, placed, out, e);
    graft_cond_release(hooked);
    graft_cond_release(placed);
    return st;
}

#include "engine/denoise/known.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "engine/image/latent.h"
#include "engine/image/mask.h"
#include "engine/image/resize.h"
#include "engine/pictures.h"

const void *graft_known_source(const graft_model *m, const graft_cond_entry *k)
{
    return m->arch.beside ? k->beside : NULL;
}

graft_references graft_known_references(const graft_model *m, const graft_cond_entry *k,
                                        int64_t layers)
{
    graft_references r = {.layers = layers > 1 ? (int32_t)layers : 0};
    if (!graft_net_takes_references(&m->arch)) return r;
    const bool within = m->arch.kind == GRAFT_NET_QWEN_IMAGE21;
    r.n = within ? k->n_within : k->n_references;
    r.placing = r.n && !within ? (int32_t)k->placing : 0;
    for (int32_t i = 0; i < r.n; i++) {
        int64_t s[4];
        graft_latent_data(k->reference[i], s);
        r.of[i] = (graft_grid){(int32_t)s[2], (int32_t)s[3]};
        if (within) r.within[i] = k->within[i];
    }
    return r;
}

/* ------------------------------------------------------------------ planes */

/* Where they are in what is behind a picture's latent. */
typedef struct places {
    int64_t mask, picture; /* the first plane of each */
} places;

static places places_of(const graft_guided_config *c)
{
    return (places){c->model->arch.beside == GRAFT_BESIDE_FILL ? c->shape[1] : 0,
                    c->model->arch.beside == GRAFT_BESIDE_MASKED};
}

/* A mask (h,w), or for Fill (8h,8w). */
static void put_mask(const graft_guided_config *c, const float *mask, float *to)
{
    const int64_t h = c->shape[2], w = c->shape[3], area = h * w;
    const bool pixels = c->model->arch.beside == GRAFT_BESIDE_FILL;
    if (c->model->arch.beside == GRAFT_BESIDE_PICTURE) return;
    to += places_of(c).mask * area;
    for (int64_t i = 0; i < area && !pixels; i++) to[i] = mask ? rintf(mask[i]) : 1;
    for (int64_t p = 0; p < GRAFT_CELL_PIXELS && pixels; p++)
        for (int64_t i = 0; i < area; i++, to++)
            *to = mask ? mask[((i / w * 8 + p / 8) * w + i % w) * 8 + p % 8] : 1;
}

static void put_latent(const graft_guided_config *c, const float *latent, float *to)
{
    const size_t n = (size_t)(c->shape[1] * c->shape[2] * c->shape[3]);
    to += places_of(c).picture * c->shape[2] * c->shape[3];
    if (c->model->arch.beside == GRAFT_BESIDE_PICTURE && graft_net_is_unet(&c->model->arch))
        memcpy(to, latent, n * sizeof *to);
    else
        graft_model_scale_latent(c->model, latent, n, c->shape[2] * c->shape[3], to);
}

/* Where nothing is known the picture is grey, as in training: its latent in the UNet's space.
 * ComfyUI's numbers, of the VAE of SD 1.x, for all models. */
static const float grey[] = {0.8223f, -0.6876f, 0.6364f, 0.1380f};
enum { GREY_CHANNELS = sizeof grey / sizeof *grey };

static void put_grey(int64_t channels, int64_t area, float *to)
{
    for (int64_t i = 0; i < channels * area; i++)
        to[i] = i / area < GREY_CHANNELS ? grey[i / area] : 0;
}

/* The masks (N,h,w) or (N,8h,8w) that the network sees, where `mask` is NULL those of the run; *out
 * NULL where there is none. */
static graft_status sized_mask(const graft_guided_config *c, const graft_image *mask,
                               graft_image **out, graft_err *e)
{
    const int64_t n = c->shape[0], h = c->shape[2], w = c->shape[3];
    const int64_t by = c->model->arch.beside == GRAFT_BESIDE_FILL ? GRAFT_LATENT_SCALE : 1;
    graft_image *of_run = NULL;
    graft_status st = GRAFT_OK;
    if (c->model->arch.beside == GRAFT_BESIDE_PICTURE || (!mask && !c->mask)) return GRAFT_OK;
    if (!mask) st = graft_image_from_data(c->mask, (const int64_t[]){n, h, w, 1}, true, &of_run, e);
    if (!st) st = graft_image_fit_mask(mask ? mask : of_run, by * h, by * w, n, out, e);
    graft_image_release(of_run);
    return st;
}

/* An inpainting UNet's, whose mask has the latent's size. */
static void from_masked_run(const graft_guided_config *c, float *to)
{
    const int64_t area = c->shape[2] * c->shape[3], values = c->shape[1] * area;
    for (int64_t p = 0; p < c->shape[0]; p++, to += area + values) {
        put_mask(c, c->mask ? c->mask + p * area : NULL, to);
        if (c->mask)
            memcpy(to + area, c->latent + p * values, (size_t)values * sizeof *to);
        else
            put_grey(c->shape[1], area, to + area);
    }
}

static graft_status from_run(const graft_guided_config *c, int64_t channels, float *to,
                             graft_err *e)
{
    const int64_t h = c->shape[2], w = c->shape[3];
    graft_image *mask = NULL;
    float *empty = NULL;
    graft_status st = GRAFT_OK;
    if (c->model->arch.beside == GRAFT_BESIDE_MASKED) {
        from_masked_run(c, to);
        return GRAFT_OK;
    }
    GRAFT_TRY(sized_mask(c, NULL, &mask, e));
    empty = graft_calloc((size_t)(h * w), (size_t)c->shape[1] * sizeof *empty);
    if (!empty) GRAFT_TRY(graft_fail_nomem(e, "the picture beside the latent"));
    for (int64_t p = 0; p < c->shape[0]; p++, to += channels * h * w) {
        const int64_t pixels = GRAFT_CELL_PIXELS * h * w;
        put_mask(c, mask ? graft_image_data(mask, NULL) + p * pixels : NULL, to);
        put_latent(c, empty, to);
    }
out:
    graft_image_release(mask);
    graft_free(empty);
    return st;
}

static graft_status check_channels(const graft_guided_config *c, int64_t channels, const char *what,
                                   graft_err *e)
{
    if (channels == c->shape[1]) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "%s has %lld latent channels, this model %lld: it comes from another kind of "
                      "VAE",
                      what, (long long)channels, (long long)c->shape[1]);
}

static graft_status from_prompt(const graft_guided_config *c, const graft_latent *l,
                                int64_t channels, float *to, graft_err *e)
{
    int64_t s[4], m[4], area = c->shape[2] * c->shape[3], values = c->shape[1] * area;
    const float *data = graft_latent_data(l, s);
    graft_image *mask = NULL;
    graft_status st = check_channels(c, s[1], "the picture beside the latent", e);
    if (st) return st;
    const int64_t planes[4] = {s[0] * s[1], s[2], s[3], 1};
    float *sized = graft_malloc_array((size_t)s[0], (size_t)values * sizeof *sized);
    st = sized ? GRAFT_OK : graft_fail_nomem(e, "the picture beside the latent");
    GRAFT_TRY(st);
    GRAFT_TRY(graft_resize(GRAFT_RESIZE_BILINEAR, data, planes, sized, c->shape[2], c->shape[3],
                           true, e));
    GRAFT_TRY(sized_mask(c, graft_latent_mask(l), &mask, e));
    const float *of_mask = mask ? graft_image_data(mask, m) : NULL;
    for (int64_t p = 0; p < c->shape[0]; p++, to += channels * area) {
        put_mask(c, mask ? of_mask + p * m[1] * m[2] : NULL, to);
        if (c->model->arch.beside == GRAFT_BESIDE_MASKED && !mask)
            put_grey(c->shape[1], area, to + area);
        else
            put_latent(c, sized + graft_batch_spread(p, s[0], c->shape[0]) * values, to);
    }
out:
    graft_image_release(mask);
    graft_free(sized);
    return st;
}

/* n values for each picture of the run, kept until the end. */
static float *keep(graft_known *k, const graft_guided_config *c, int64_t n, graft_err *e)
{
    float *made = graft_malloc_array((size_t)c->shape[0], (size_t)n * sizeof *made);
    if (!made)
        (void)graft_fail_nomem(e, "the pictures beside the latent");
    else
        k->made[k->n_made++] =
            (struct graft_known_made){made, NULL, (size_t)(c->shape[0] * n) * sizeof *made};
    return made;
}

static graft_status make_planes(graft_known *k, const graft_guided_config *c, size_t slot,
                                graft_err *e)
{
    const void *source = graft_known_source(c->model, graft_guided_entry(c, slot));
    for (size_t i = 0; i < slot; i++)
        if (graft_known_source(c->model, graft_guided_entry(c, i)) == source) {
            k->slot[slot].planes = k->slot[i].planes;
            return GRAFT_OK;
        }
    float *made = keep(k, c, k->channels * c->shape[2] * c->shape[3], e);
    if (!made) return GRAFT_E_NOMEM;
    k->slot[slot].planes = made;
    return source ? from_prompt(c, source, k->channels, made, e)
                  : from_run(c, k->channels, made, e);
}

float *graft_known_fill(const graft_model *m, const float *from, const int64_t shape[3],
                        const graft_box *box, float *to)
{
    const int64_t rows = graft_net_side(&m->arch, box->height),
                  columns = graft_net_side(&m->arch, box->width);
    for (int64_t i = 0; i < shape[0] * rows; i++) {
        const int64_t y = box->y + i % rows % box->height;
        const float *row = from + (i / rows * shape[1] + y) * shape[2] + box->x;
        memcpy(to, row, (size_t)box->width * sizeof *to);
        for (int64_t x = box->width; x < columns; x++) to[x] = row[x % box->width];
        to += columns;
    }
    return to;
}

/* ------------------------------------------------------------------ references */

/* Picture p of a reference, as the network sees it; returns what is behind it. */
static float *put_reference(const graft_model *m, const graft_latent *l, int64_t p, float *to)
{
    int64_t s[4];
    const float *from = graft_latent_data(l, s);
    from += p % s[0] * s[1] * s[2] * s[3];
    const graft_box whole = {.height = s[2], .width = s[3]};
    float *end = graft_known_fill(m, from, s + 1, &whole, to);
    graft_model_scale_latent(m, to, (size_t)(end - to), (end - to) / s[1], to);
    return end;
}

static graft_status make_references(graft_known *k, const graft_guided_config *c, size_t slot,
                                    graft_err *e)
{
    const graft_cond_entry *entry = graft_guided_entry(c, slot);
    const graft_references r = graft_known_references(c->model, entry, c->layers);
    if (!r.n) return GRAFT_OK;
    for (int32_t i = 0; i < r.n; i++) {
        int64_t s[4];
        graft_latent_data(entry->reference[i], s);
        graft_status st = check_channels(c, s[1], "a reference picture", e);
        if (st) return st;
    }
    const int64_t n = graft_net_x_values(&c->model->arch, 0, 0, &r);
    float *made = keep(k, c, n, e);
    if (!made) return GRAFT_E_NOMEM;
    k->slot[slot].references = made;
    k->slot[slot].reference_values = n;
    for (int64_t p = 0; p < c->shape[0]; p++)
        for (int32_t i = 0; i < r.n; i++)
            made = put_reference(c->model, entry->reference[i], p, made);
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ all */

graft_status graft_known_create(const graft_guided_config *c, graft_known *out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    memset(out, 0, sizeof *out);
    out->slots = graft_guided_slots(c);
    out->channels = c->model->arch.in_channels - c->model->arch.latent_channels;
    out->joins = out->channels > 0 || graft_known_fills(c);
    for (size_t i = 0; i < out->slots; i++)
        if (graft_known_references(c->model, graft_guided_entry(c, i), c->layers).n)
            out->joins = true;
    if (!out->joins) return GRAFT_OK;
    out->slot = graft_calloc(out->slots, sizeof *out->slot);
    out->made = graft_calloc(2 * out->slots, sizeof *out->made);
    if (!out->slot || !out->made) st = graft_fail_nomem(e, "the pictures beside the latent");
    for (size_t i = 0; i < out->slots && !st; i++) {
        if (out->channels) st = make_planes(out, c, i, e);
        if (!st) st = make_references(out, c, i, e);
    }
    return st;
}

static void clear_there(graft_known *k)
{
    for (size_t i = 0; i < k->n_made; i++) {
        graft_memory_free(&k->memory, k->made[i].there);
        k->made[i].there = NULL;
    }
}

void graft_known_finish(graft_known *k)
{
    clear_there(k);
    for (size_t i = 0; i < k->n_made; i++) graft_free(k->made[i].values);
    graft_free(k->made);
    graft_free(k->slot);
    memset(k, 0, sizeof *k);
}

int64_t graft_known_x_values(const graft_known *k, const graft_guided_config *c, size_t slot,
                             const graft_box *box)
{
    const int64_t planes = (c->shape[1] + k->channels) *
                           graft_net_stacked(&c->model->arch, box->height, c->layers) *
                           graft_net_side(&c->model->arch, box->width);
    return planes + (k->joins ? k->slot[slot].reference_values : 0);
}

/* What the box is of each layer; of several it is all of the latent. */
static graft_box of_layer(const graft_guided_config *c, const graft_box *box, int64_t *layers)
{
    *layers = graft_layers_of(c->layers);
    return (graft_box){.height = box->height / *layers, .width = box->width};
}

void graft_known_join(const graft_known *k, const graft_guided_config *c, size_t slot,
                      const graft_box *box, const float *latent, float *x)
{
    const graft_known_slot *s = &k->slot[slot];
    int64_t layers;
    const graft_box cut = of_layer(c, box, &layers);
    const int64_t of_latent[3] = {c->shape[1] * layers, cut.height, cut.width};
    const int64_t of_planes[3] = {k->channels, c->shape[2], c->shape[3]};
    for (int64_t p = 0; p < c->shape[0]; p++) {
        x = graft_known_fill(c->model, latent, of_latent, &cut, x);
        latent += c->shape[1] * box->height * box->width;
        if (s->planes)
            x = graft_known_fill(c->model, s->planes + p * k->channels * c->shape[2] * c->shape[3],
                                 of_planes, box, x);
        if (s->references)
            memcpy(x, s->references + p * s->reference_values,
                   (size_t)s->reference_values * sizeof *x);
        x += s->reference_values;
    }
}

/* ------------------------------------------------------------------ on a device */

graft_status graft_known_move(graft_known *k, graft_memory to, graft_err *e)
{
    graft_status st = GRAFT_OK;
    clear_there(k);
    k->memory = to;
    for (size_t i = 0; i < k->n_made && to.backend && !st; i++) {
        void *there;
        st = graft_memory_place(&to, k->made[i].values, k->made[i].bytes,
                                "the pictures beside the latent", &there, e);
        k->made[i].there = there;
    }
    return st;
}

static const float *there_of(const graft_known *k, const float *values)
{
    for (size_t i = 0; i < k->n_made; i++)
        if (k->made[i].values == values) return k->made[i].there;
    return NULL;
}

/* Part of so many planes of the latent's size; returns what is behind it. */
static float *cut_there(const graft_known *k, const graft_guided_config *c, const graft_box *box,
                        const float *from, int64_t planes, float *to, graft_status *st,
                        graft_err *e)
{
    const graft_backend *b = k->memory.backend;
    const graft_excerpt r = {.part = to,
                             .whole = (float *)from, /* read only */
                             .pictures = 1,
                             .channels = (uint32_t)planes,
                             .h = (uint32_t)c->shape[2],
                             .w = (uint32_t)c->shape[3],
                             .y = (uint32_t)box->y,
                             .x = (uint32_t)box->x,
                             .height = (uint32_t)box->height,
                             .width = (uint32_t)box->width};
    if (!*st) *st = graft_memory_check(&k->memory, graft_backend_more(b)->cut(b->device, &r), e);
    return to + planes * box->height * box->width;
}

graft_status graft_known_join_there(const graft_known *k, const graft_guided_config *c, size_t slot,
                                    const graft_box *box, const float *latent, float *x,
                                    graft_err *e)
{
    const graft_known_slot *s = &k->slot[slot];
    const int64_t area = c->shape[2] * c->shape[3], n = s->reference_values;
    const float *planes = there_of(k, s->planes), *references = there_of(k, s->references);
    graft_status st = GRAFT_OK;
    for (int64_t p = 0; p < c->shape[0] && !st; p++) {
        x = cut_there(k, c, box, latent + p * c->shape[1] * area, c->shape[1], x, &st, e);
        if (s->planes)
            x = cut_there(k, c, box, planes + p * k->channels * area, k->channels, x, &st, e);
        if (s->references && !st)
            st = graft_memory_copy(&k->memory, x, references + p * n, (size_t)n * sizeof *x, e);
        x += n;
    }
    return st;
}

bool graft_known_fills(const graft_guided_config *c)
{
    const graft_net_arch *a = &c->model->arch;
    return graft_net_stacked(a, c->shape[2], c->layers) != c->shape[2] ||
           graft_net_side(a, c->shape[3]) != c->shape[3];
}

void graft_known_cut(const graft_guided_config *c, const graft_box *box, int64_t planes, float *out)
{
    int64_t layers;
    const graft_box cut = of_layer(c, box, &layers);
    const int64_t height = graft_net_side(&c->model->arch, cut.height);
    const int64_t width = graft_net_side(&c->model->arch, cut.width);
    float *to = out;
    if (cut.height == height && cut.width == width) return;
    for (int64_t i = 0; i < planes * layers; i++)
        for (int64_t y = 0; y < cut.height; y++, to += cut.width)
            memmove(to, out + (i * height + y) * width, (size_t)cut.width * sizeof *to);
}

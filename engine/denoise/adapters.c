#include "engine/denoise/adapters.h"

#include "base/alloc.h"
#include "base/size.h"
#include "engine/models/controls/controlnet.h"
#include "engine/models/controls/t2i_adapter.h"

#define SCALING "nearest-exact" /* of pictures, as ComfyUI scales them */

/* What a link and those before it give of this part of the picture. */
typedef struct summed {
    const graft_control *link;
    graft_box box;
    float sigma; /* one at which they were active so */
    int64_t rows;
    uint64_t made;   /* how often it was computed */
    float *strength; /* its link's */
    uint8_t *data[GRAFT_T2I_FEATURES];
} summed;

struct graft_adapters {
    const graft_guided_config *c;
    graft_dtype dtype;
    int n; /* features */
    int32_t place[GRAFT_UNET_PLACES];
    summed **sum; /* each stays where it is */
    size_t n_sums, cap_sums;
    graft_memory memory; /* of the arrays of sums and batches */
    uint8_t *batch[GRAFT_T2I_FEATURES];
    struct {
        const summed *sum; /* NULL: zeros */
        uint64_t made;
        int64_t height, width, pictures, rows; /* rows 0: of nothing yet */
    } held;                                    /* what `batch` is of, which steps seldom change */
    int64_t beside;                            /* of the present call */
};

/* ------------------------------------------------------------------ making */

/* Bytes of a feature of so many rows, for a part of the latent of this size. */
static graft_status bytes_of(const graft_adapters *k, int feature, int64_t rows, int64_t height,
                             int64_t width, size_t *bytes, graft_err *e)
{
    const graft_net_shape shape = {.batch = rows, .height = height, .width = width, .control = 1};
    int64_t dim[4], values;
    graft_unet_residual_shape(&k->c->model->arch.unet, &shape, k->place[feature], dim);
    if (graft_size_product(dim, 4, &values) &&
        graft_size_mul((size_t)values, graft_dtype_size(k->dtype), bytes))
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "the latent is too large");
}

static graft_status allocate(graft_adapters *k, graft_err *e)
{
    const int64_t *shape = k->c->shape;
    const size_t slots = graft_guided_slots(k->c);
    for (int i = 0; i < k->n; i++) {
        size_t one = 0, bytes = 0;
        graft_status st = bytes_of(k, i, shape[0], shape[2], shape[3], &one, e);
        if (st) return st;
        if (graft_size_mul(slots, one, &bytes)) k->batch[i] = graft_memory_alloc(&k->memory, bytes);
        if (!k->batch[i]) return graft_fail_nomem(e, "T2I-Adapter");
    }
    return GRAFT_OK;
}

graft_status graft_adapters_create(const graft_guided_config *c, const graft_control *const *chain,
                                   graft_dtype dtype, graft_adapters **out, graft_err *e)
{
    int n = 0;
    *out = NULL;
    for (size_t i = 0; i < graft_guided_slots(c); i++)
        if (n < graft_control_features(chain[i])) n = graft_control_features(chain[i]);
    if (!n) return GRAFT_OK;
    graft_adapters *k = graft_calloc(1, sizeof *k);
    if (!k) return graft_fail_nomem(e, "T2I-Adapter");
    k->c = c;
    k->dtype = dtype;
    k->n = n;
    graft_unet_places(&c->model->arch.unet, k->place);
    graft_status st = allocate(k, e);
    if (st)
        graft_adapters_destroy(k);
    else
        *out = k;
    return st;
}

static void drop(const graft_adapters *k, summed *s)
{
    if (!s) return;
    for (int i = 0; i < GRAFT_T2I_FEATURES; i++) graft_memory_free(&k->memory, s->data[i]);
    graft_memory_free(&k->memory, s->strength);
    graft_free(s);
}

/* Gives all that is in k->memory back. */
static void clear_arrays(graft_adapters *k)
{
    for (size_t i = 0; i < k->n_sums; i++) drop(k, k->sum[i]);
    k->n_sums = 0;
    k->held.rows = 0;
    for (int i = 0; i < k->n; i++) {
        graft_memory_free(&k->memory, k->batch[i]);
        k->batch[i] = NULL;
    }
}

graft_status graft_adapters_move(graft_adapters *k, graft_memory to, graft_err *e)
{
    clear_arrays(k);
    k->memory = to;
    return allocate(k, e);
}

void graft_adapters_destroy(graft_adapters *k)
{
    if (!k) return;
    clear_arrays(k);
    graft_free(k->sum);
    graft_free(k);
}

/* ------------------------------------------------------------------ pictures */

/* A pixel's values as an adapter sees them. */
static void colours_of(const float *pixel, int64_t channels, int32_t colours, float out[3])
{
    for (int c = 0; c < 3; c++) out[c] = pixel[channels >= 3 ? c : 0];
    if (colours == 1) out[0] = (out[0] + out[1] + out[2]) / 3;
}

/* The part of the picture `from` (shape) that belongs to this part of the latent, as places; behind
 * the picture's end its last pixels again. */
static void take_places(const float *from, const int64_t shape[4], const graft_t2i_arch *a,
                        const graft_box *box, float *to)
{
    const int64_t f = a->factor, high = graft_t2i_side(a, box->height) * f;
    const int64_t wide = graft_t2i_side(a, box->width) * f, each = a->colours * f * f;
    for (int64_t y = 0; y < high; y++)
        for (int64_t x = 0; x < wide; x++) {
            float v[3];
            int64_t row = box->y * GRAFT_CONTROL_FACTOR + y,
                    column = box->x * GRAFT_CONTROL_FACTOR + x;
            if (row >= shape[1]) row = shape[1] - 1;
            if (column >= shape[2]) column = shape[2] - 1;
            colours_of(from + (row * shape[2] + column) * shape[3], shape[3], a->colours, v);
            float *place = to + (y / f * (wide / f) + x / f) * each;
            for (int32_t c = 0; c < a->colours; c++) place[(c * f + y % f) * f + x % f] = v[c];
        }
}

static graft_status picture_of(const graft_adapters *k, const graft_control *l,
                               const graft_box *box, int64_t rows, float **out, graft_err *e)
{
    const graft_t2i_arch *a = &l->net->arch.t2i;
    const int64_t *latent = k->c->shape, seen = graft_control_rows(l, rows);
    const int64_t dim[3] = {graft_t2i_side(a, box->height), graft_t2i_side(a, box->width),
                            (int64_t)a->colours * a->factor * a->factor};
    const int64_t each = dim[0] * dim[1] * dim[2];
    int64_t shape[4];
    graft_image *some = NULL, *scaled = NULL;
    graft_status st;
    GRAFT_TRY(graft_image_from_batch(l->hint, 0, seen, &some, e));
    GRAFT_TRY(graft_image_scale(some, SCALING, graft_t2i_side(a, latent[3]) * a->factor,
                                graft_t2i_side(a, latent[2]) * a->factor, true, &scaled, e));
    const float *data = graft_image_data(scaled, shape);
    *out = graft_malloc_array((size_t)rows, (size_t)each * sizeof **out);
    if (!*out) {
        st = graft_fail_nomem(e, "T2I-Adapter's picture");
        goto out;
    }
    for (int64_t i = 0; i < rows; i++)
        take_places(data + i % seen * shape[1] * shape[2] * shape[3], shape, a, box,
                    *out + i * each);
out:
    graft_image_release(some);
    graft_image_release(scaled);
    return st;
}

/* ------------------------------------------------------------------ features */

const graft_control *graft_adapters_before(const graft_control *k, const graft_sigma_table *t,
                                           float sigma)
{
    while ((k = k->before))
        if (graft_control_adapts(k->net) && graft_control_active(t, k, sigma)) return k;
    return NULL;
}

int64_t graft_adapters_rows(const graft_control *chain, int64_t pictures)
{
    for (; chain; chain = chain->before)
        if (graft_control_adapts(chain->net) && graft_control_rows(chain, pictures) > 1)
            return pictures;
    return 1;
}

/* Whether the same of them are active at both sigmas, from this link on. */
static bool alike(const graft_sigma_table *t, const graft_control *l, float a, float b)
{
    for (; l; l = l->before)
        if (graft_control_adapts(l->net) &&
            graft_control_active(t, l, a) != graft_control_active(t, l, b))
            return false;
    return true;
}

/* Computes s of its link's picture and what those before it give, which may be NULL. */
static graft_status compute(const graft_adapters *k, const summed *s, const summed *before,
                            graft_err *e)
{
    const graft_guided_config *c = k->c;
    const void *in[2 + GRAFT_T2I_FEATURES];
    void *out[GRAFT_T2I_FEATURES];
    graft_binding *b = NULL;
    float *picture = NULL;
    void *there = NULL;
    graft_status st;
    GRAFT_TRY(picture_of(k, s->link, &s->box, s->rows, &picture, e));
    GRAFT_TRY(graft_control_bind_adapter(c->model, s->link->net, s->rows, s->box.height,
                                         s->box.width, before != NULL, k->beside, c->task, &b, e));
    graft_task_phase(c->task, "sample");
    GRAFT_TRY(graft_memory_place(&k->memory, picture, (size_t)b->exe->input[0].bytes,
                                 "T2I-Adapter's picture", &there, e));
    in[0] = there;
    in[1] = s->strength;
    for (int i = 0; i < k->n; i++) {
        out[i] = s->data[i];
        if (before) in[2 + i] = before->data[i];
    }
    st = graft_memory_run(&k->memory, b, c->model->engine->arenas, in, out, c->task, e);
out:
    graft_memory_free(&k->memory, there);
    graft_binding_release(b);
    graft_free(picture);
    return st;
}

/* An array for each feature, and the strength. */
static graft_status reserve(const graft_adapters *k, summed *s, graft_err *e)
{
    const float strength = (float)s->link->strength;
    void *there;
    graft_status st =
        graft_memory_place(&k->memory, &strength, sizeof strength, "T2I-Adapter", &there, e);
    s->strength = there;
    for (int i = 0; i < k->n && !st; i++) {
        size_t bytes = 0;
        st = bytes_of(k, i, s->rows, s->box.height, s->box.width, &bytes, e);
        if (!st && !(s->data[i] = graft_memory_alloc(&k->memory, bytes)))
            st = graft_fail_nomem(e, "T2I-Adapter");
    }
    return st;
}

/* A place for what this link gives of this part, which may be there from another sigma. */
static graft_status place_for(graft_adapters *k, const graft_control *l, const graft_box *box,
                              int64_t rows, summed **out, bool *made, graft_err *e)
{
    *made = false;
    for (size_t i = 0; i < k->n_sums; i++)
        if (k->sum[i]->link == l && k->sum[i]->rows == rows &&
            graft_box_equal(&k->sum[i]->box, box)) {
            *out = k->sum[i];
            return GRAFT_OK;
        }
    if (graft_grow(&k->sum, &k->cap_sums, k->n_sums + 1, sizeof *k->sum))
        return graft_fail_nomem(e, "T2I-Adapter");
    summed *s = graft_calloc(1, sizeof *s);
    if (!s) return graft_fail_nomem(e, "T2I-Adapter");
    *s = (summed){.link = l, .box = *box, .rows = rows};
    graft_status st = reserve(k, s, e);
    if (st) {
        drop(k, s);
        return st;
    }
    k->sum[k->n_sums++] = s;
    *out = s;
    *made = true;
    return GRAFT_OK;
}

/* What an active link and the active ones before it give. */
static graft_status sum_of(graft_adapters *k, const graft_control *l, float sigma,
                           const graft_box *box, int64_t rows, const summed **out, graft_err *e)
{
    const graft_sigma_table *t = k->c->table;
    const graft_control *next = graft_adapters_before(l, t, sigma);
    const summed *before = NULL;
    summed *s = NULL;
    bool made;
    graft_status st = place_for(k, l, box, rows, &s, &made, e);
    if (st) return st;
    *out = s;
    if (!made && alike(t, l, s->sigma, sigma)) return GRAFT_OK;
    if (next) st = sum_of(k, next, sigma, box, rows, &before, e);
    if (!st) st = compute(k, s, before, e);
    s->made++;
    s->sigma = sigma;
    return st;
}

/* The rows of a batch, which see the pictures in turn, from s; NULL: zeros. */
static graft_status fill_batch(graft_adapters *k, const summed *s, const graft_box *box,
                               int64_t pictures, int64_t rows, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (int i = 0; i < k->n && !st; i++) {
        size_t bytes = 0;
        st = bytes_of(k, i, 1, box->height, box->width, &bytes, e);
        for (int64_t r = 0; r < rows && s && !st; r++)
            st = graft_memory_copy(&k->memory, k->batch[i] + (size_t)r * bytes,
                                   s->data[i] + (size_t)(r % pictures % s->rows) * bytes, bytes, e);
        if (!s && !st) st = graft_memory_clear(&k->memory, k->batch[i], (size_t)rows * bytes, e);
    }
    return st;
}

static bool is_held(const graft_adapters *k, const summed *s, const graft_box *box,
                    int64_t pictures, int64_t rows)
{
    return k->held.rows == rows && k->held.pictures == pictures && k->held.height == box->height &&
           k->held.width == box->width && k->held.sum == s && (!s || k->held.made == s->made);
}

graft_status graft_adapters_run(graft_adapters *k, const graft_control *chain, float sigma,
                                const graft_box *box, const graft_unet_use *use, int64_t beside,
                                graft_err *e)
{
    const graft_sigma_table *t = k->c->table;
    const int64_t pictures = use->pictures, rows = pictures * use->entries;
    const bool first = graft_control_adapts(chain->net) && graft_control_active(t, chain, sigma);
    const graft_control *last = first ? chain : graft_adapters_before(chain, t, sigma);
    const summed *s = NULL;
    graft_status st = GRAFT_OK;
    k->beside = beside;
    if (last) st = sum_of(k, last, sigma, box, graft_adapters_rows(chain, pictures), &s, e);
    if (st || is_held(k, s, box, pictures, rows)) return st;
    k->held.rows = 0;
    st = fill_batch(k, s, box, pictures, rows, e);
    if (st) return st;
    k->held.sum = s;
    k->held.made = s ? s->made : 0;
    k->held.height = box->height;
    k->held.width = box->width;
    k->held.pictures = pictures;
    k->held.rows = rows;
    return GRAFT_OK;
}

void graft_adapters_append(const graft_adapters *k, const graft_unet_use *use, const void **in,
                           size_t *n)
{
    const graft_net_shape shape = {.variant = (int32_t)use->variant,
                                   .cut = k->c->model->deepcache.cut,
                                   .adapted = use->adapted};
    const int count = graft_unet_features(&k->c->model->arch.unet, &shape);
    for (int i = 0; i < count; i++) in[(*n)++] = k->batch[i];
}

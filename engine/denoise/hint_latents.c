#include "engine/denoise/hint_latents.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/denoise/known.h"

#define MIDDLE 0.5f /* grey, which the VAE sees as 0, and the threshold of masks */
#define BLACK  0.0f

/* What a VAE made of a picture, whole and not yet in the network's scale. */
struct graft_hint_latent {
    const graft_image *picture, *mask; /* mask: of what it was shown without, or NULL */
    const graft_vae *vae;
    bool glaring;
    graft_latent *latent;
};

void graft_hint_latents_finish(graft_hint_latents *h)
{
    for (size_t i = 0; i < h->n; i++) graft_latent_release(h->seen[i].latent);
    graft_free(h->seen);
    *h = (graft_hint_latents){0};
}

/* ------------------------------------------------------------------ what the VAE sees */

/* Pictures of which the VAE sees 127.5 v + 0.5 in place of 2 v - 1, as Stability's code has it. */
static graft_status glaring(graft_image **image, graft_err *e)
{
    int64_t s[4];
    const float *data = graft_image_data(*image, s);
    const int64_t n = s[0] * s[1] * s[2] * s[3];
    graft_image *out = NULL;
    float *v = graft_malloc_array((size_t)n, sizeof *v);
    if (!v) return graft_fail_nomem(e, "ControlNet's picture");
    for (int64_t i = 0; i < n; i++) v[i] = (127.5f * data[i] + 1.5f) / 2;
    graft_status st = graft_image_from_data(v, s, false, &out, e);
    graft_free(v);
    if (st) return st;
    graft_image_release(*image);
    *image = out;
    return GRAFT_OK;
}

/* As many of the pictures as there are rows at most, in the size of the latent's. */
static graft_status in_size(const graft_image *from, const graft_guided_config *c,
                            graft_image **out, graft_err *e)
{
    const int64_t *shape = c->shape;
    graft_image *some = NULL;
    int64_t s[4];
    graft_image_data(from, s);
    graft_status st = graft_image_from_batch(from, 0, s[0] < shape[0] ? s[0] : shape[0], &some, e);
    if (!st)
        st = graft_image_scale(some, GRAFT_HINT_SCALING, shape[3] * GRAFT_CONTROL_FACTOR,
                               shape[2] * GRAFT_CONTROL_FACTOR, true, out, e);
    graft_image_release(some);
    return st;
}

/* The pictures, covered where the mask is: as many as there are of either. Both are of one size.
 * completes: as the ControlNets are that graft_control_sees_mask() is of, black where it is above a
 * half; else grey from a half on. */
static graft_status cover(graft_image **image, const graft_image *mask, bool completes,
                          graft_err *e)
{
    int64_t s[4], of_mask[4];
    const float *data = graft_image_data(*image, s), *m = graft_image_data(mask, of_mask);
    const int64_t pictures = s[0], pixels = s[1] * s[2], channels = s[3];
    graft_image *out = NULL;
    s[0] = pictures > of_mask[0] ? pictures : of_mask[0];
    float *v = graft_malloc_array((size_t)(s[0] * pixels * channels), sizeof *v);
    if (!v) return graft_fail_nomem(e, "ControlNet's picture");
    for (int64_t i = 0; i < s[0] * pixels; i++) {
        const int64_t p = i / pixels, at = i % pixels;
        const float *from = data + (p % pictures * pixels + at) * channels;
        const float there = m[p % of_mask[0] * pixels + at];
        const bool covered = completes ? there > MIDDLE : !(there < MIDDLE);
        for (int64_t k = 0; k < channels; k++)
            v[i * channels + k] = !covered ? from[k] : completes ? BLACK : MIDDLE;
    }
    graft_status st = graft_image_from_data(v, s, false, &out, e);
    graft_free(v);
    if (st) return st;
    graft_image_release(*image);
    *image = out;
    return GRAFT_OK;
}

/* wanted: what the ControlNet needs, but for how many pictures: (.,channels,h,w). */
static graft_status check_latent(const graft_latent *latent, const int64_t wanted[4], graft_err *e)
{
    int64_t s[4];
    graft_latent_data(latent, s);
    if (memcmp(s + 1, wanted + 1, 3 * sizeof *s) == 0) return GRAFT_OK;
    return graft_fail(
        e, GRAFT_E_ARG,
        "the VAE of a ControlNet's picture makes latents of %lld channels, %lldx%lld, "
        "and the ControlNet sees %lld, %lldx%lld: it comes from another kind of model",
        (long long)s[1], (long long)s[3], (long long)s[2], (long long)wanted[1],
        (long long)wanted[3], (long long)wanted[2]);
}

static graft_status encode(const graft_guided_config *c, const graft_controlnet *net,
                           struct graft_hint_latent *seen, graft_err *e)
{
    graft_task task = c->task ? *c->task : (graft_task){0};
    const int64_t wanted[4] = {0, graft_control_channels(&net->arch), c->shape[2], c->shape[3]};
    graft_image *scaled = NULL, *mask = NULL;
    graft_status st;
    task.progress = NULL; /* it is the steps' */
    GRAFT_TRY(in_size(seen->picture, c, &scaled, e));
    if (seen->glaring) GRAFT_TRY(glaring(&scaled, e));
    if (seen->mask) GRAFT_TRY(in_size(seen->mask, c, &mask, e));
    if (mask) GRAFT_TRY(cover(&scaled, mask, graft_control_sees_mask(&net->arch), e));
    GRAFT_TRY(graft_vae_encode(seen->vae, scaled, NULL, &task, &seen->latent, e));
    graft_task_phase(c->task, "sample");
    st = check_latent(seen->latent, wanted, e);
    if (!st) goto out;
    graft_latent_release(seen->latent);
    seen->latent = NULL;
out:
    graft_image_release(scaled);
    graft_image_release(mask);
    return st;
}

static graft_status latent_of(graft_hint_latents *h, const graft_guided_config *c,
                              const graft_control *l, const graft_image *picture,
                              const graft_image *mask, const graft_latent **out, graft_err *e)
{
    const bool glares = l->net->arch.canny != 0;
    for (size_t i = 0; i < h->n; i++) {
        const struct graft_hint_latent *s = &h->seen[i];
        if (s->picture != picture || s->mask != mask || s->vae != l->vae || s->glaring != glares)
            continue;
        *out = s->latent;
        return GRAFT_OK;
    }
    if (graft_grow(&h->seen, &h->cap, h->n + 1, sizeof *h->seen))
        return graft_fail_nomem(e, "ControlNet");
    struct graft_hint_latent *made = &h->seen[h->n];
    *made = (struct graft_hint_latent){picture, mask, l->vae, glares, NULL};
    graft_status st = encode(c, l->net, made, e);
    if (st) return st;
    h->n++;
    *out = made->latent;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ what the network sees */

/* A row of numbers, in the scale that the network sees. Those for Stable Diffusion 3 that embed the
 * latent themselves were trained without its shift, but for the one that completes pictures.
 * Returns its end. */
static float *take_latent(const graft_model *m, const graft_controlnet *net,
                          const graft_latent *latent, int64_t row, const graft_box *box, float *to)
{
    const bool shifts = net->arch.kind != GRAFT_NET_MMDIT || graft_control_embeds(net) ||
                        graft_control_sees_mask(&net->arch);
    int64_t s[4];
    const float *from = graft_latent_data(latent, s);
    float *end = graft_known_fill(m, from + row % s[0] * s[1] * s[2] * s[3], s + 1, box, to);
    if (shifts)
        graft_model_scale_latent(m, to, (size_t)(end - to), (end - to) / s[1], to);
    else
        for (; to < end; to++) *to *= (float)m->scale_factor;
    return end;
}

/* 1 where the picture is to stay, by the mask's first pixel of a cell; completes: a mask's grey
 * stays what it is. */
static graft_status cells_of(const graft_image *mask, const graft_guided_config *c, bool completes,
                             float **out, int64_t *rows, graft_err *e)
{
    const int64_t f = GRAFT_CONTROL_FACTOR, h = c->shape[2], w = c->shape[3];
    graft_image *scaled = NULL;
    int64_t s[4];
    graft_status st = in_size(mask, c, &scaled, e);
    if (st) return st;
    const float *data = graft_image_data(scaled, s);
    float *v = graft_malloc_array((size_t)(s[0] * h * w), sizeof *v);
    for (int64_t i = 0; v && i < s[0] * h * w; i++) {
        const int64_t p = i / (h * w), y = i / w % h, x = i % w;
        const float there = data[(p * s[1] + y * f) * s[2] + x * f];
        v[i] = completes ? 1 - there : there < MIDDLE;
    }
    *rows = s[0];
    *out = v;
    graft_image_release(scaled);
    return v ? GRAFT_OK : graft_fail_nomem(e, "ControlNet's picture");
}

/* Numbers of all that one row has. */
typedef struct row_parts {
    const graft_latent *hint, *inpaint; /* NULL: zeros */
    float *cells;                       /* NULL: zeros */
    int64_t n_cells;                    /* rows of these */
} row_parts;

static void take_rows(const graft_guided_config *c, const graft_control *l, const row_parts *parts,
                      const graft_box *box, int64_t rows, float *to)
{
    const graft_model *m = c->model;
    const int64_t h = c->shape[2], w = c->shape[3];
    const int64_t channels = graft_control_channels(&l->net->arch);
    const int64_t plane =
        graft_net_side(&m->arch, box->height) * graft_net_side(&m->arch, box->width);
    const bool masked = l->net->arch.hint_channels > channels;
    const bool more = l->net->arch.hint_channels > channels + 1;
    for (int64_t p = 0; p < rows; p++) {
        if (parts->hint) take_latent(m, l->net, parts->hint, p, box, to);
        to += channels * plane;
        if (masked && parts->cells)
            graft_known_fill(m, parts->cells + p % parts->n_cells * h * w, (int64_t[]){1, h, w},
                             box, to);
        to += masked ? plane : 0;
        if (!more) continue;
        if (parts->inpaint) take_latent(m, l->net, parts->inpaint, p, box, to);
        to += channels * plane;
    }
}

graft_status graft_hint_latents_take(graft_hint_latents *h, const graft_guided_config *c,
                                     const graft_control *l, const graft_box *box, int64_t rows,
                                     float **out, graft_err *e)
{
    const graft_net_arch *a = &c->model->arch;
    const int64_t dim[4] = {rows, l->net->arch.hint_channels, graft_net_side(a, box->height),
                            graft_net_side(a, box->width)};
    const bool completes = graft_control_sees_mask(&l->net->arch);
    row_parts parts = {0};
    int64_t values;
    graft_status st = GRAFT_OK;
    if (!graft_size_product(dim, 4, &values))
        return graft_fail(e, GRAFT_E_ARG, "the latent is too large");
    if (l->hint) GRAFT_TRY(latent_of(h, c, l, l->hint, completes ? l->mask : NULL, &parts.hint, e));
    if (l->inpaint) GRAFT_TRY(latent_of(h, c, l, l->inpaint, l->mask, &parts.inpaint, e));
    if (l->mask) GRAFT_TRY(cells_of(l->mask, c, completes, &parts.cells, &parts.n_cells, e));
    *out = graft_calloc((size_t)values, sizeof **out);
    if (*out)
        take_rows(c, l, &parts, box, rows, *out);
    else
        st = graft_fail_nomem(e, "ControlNet's picture");
out:
    graft_free(parts.cells);
    return st;
}

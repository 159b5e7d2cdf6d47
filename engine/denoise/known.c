#include "engine/denoise/known.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "engine/image/latent.h"
#include "engine/image/mask.h"
#include "engine/image/resize.h"

const void *graft_known_source(const graft_model *m, const graft_cond_entry *k)
{
    return graft_unet_known_channels(&m->arch.unet) ? k->inpaint : NULL;
}

/* One picture's mask as 0 and 1, a half as 0. */
static void put_mask(const float *mask, int64_t area, float *to)
{
    for (int64_t i = 0; i < area; i++) to[i] = rintf(mask[i]);
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

static void from_run(const graft_guided_config *c, float *to)
{
    int64_t area = c->shape[2] * c->shape[3], values = c->shape[1] * area;
    for (int64_t p = 0; p < c->shape[0]; p++, to += area + values) {
        for (int64_t i = 0; i < area && !c->mask; i++) to[i] = 1;
        if (c->mask) put_mask(c->mask + p * area, area, to);
        if (c->mask)
            memcpy(to + area, c->latent + p * values, (size_t)values * sizeof *to);
        else
            put_grey(c->shape[1], area, to + area);
    }
}

static graft_status from_prompt(const graft_guided_config *c, const graft_latent *l, float *to,
                                graft_err *e)
{
    int64_t s[4], area = c->shape[2] * c->shape[3], values = c->shape[1] * area;
    const float *data = graft_latent_data(l, s);
    graft_image *mask = NULL;
    if (s[1] != c->shape[1])
        return graft_fail(e, GRAFT_E_ARG,
                          "the picture to inpaint has %lld latent channels, this model %lld: it "
                          "comes from another kind of VAE",
                          (long long)s[1], (long long)c->shape[1]);
    const int64_t planes[4] = {s[0] * s[1], s[2], s[3], 1};
    float *sized = graft_malloc_array((size_t)s[0], (size_t)values * sizeof *sized);
    graft_status st = sized ? GRAFT_OK : graft_fail_nomem(e, "the picture to inpaint");
    GRAFT_TRY(st);
    GRAFT_TRY(graft_resize(GRAFT_RESIZE_BILINEAR, data, planes, sized, c->shape[2], c->shape[3],
                           false, e));
    GRAFT_TRY(graft_image_resize_mask(graft_latent_mask(l), c->shape[2], c->shape[3], c->shape[0],
                                      &mask, e));
    for (int64_t p = 0; p < c->shape[0]; p++, to += area + values) {
        put_mask(graft_image_data(mask, NULL) + p * area, area, to);
        const float *from = sized + p % s[0] * values;
        graft_model_scale_latent(c->model, from, (size_t)values, to + area);
    }
out:
    graft_image_release(mask);
    graft_free(sized);
    return st;
}

static graft_status make(graft_known *k, const graft_guided_config *c, size_t slot, graft_err *e)
{
    const void *source = graft_known_source(c->model, graft_guided_entry(c, slot));
    size_t n = (size_t)(c->shape[0] * c->shape[2] * c->shape[3]);
    for (size_t i = 0; i < slot; i++)
        if (graft_known_source(c->model, graft_guided_entry(c, i)) == source) {
            k->slot[slot] = k->slot[i];
            return GRAFT_OK;
        }
    float *made = graft_malloc_array(n, (size_t)k->channels * sizeof *made);
    if (!made) return graft_fail_nomem(e, "the picture to inpaint");
    k->made[k->n_made++] = made;
    k->slot[slot] = made;
    if (source) return from_prompt(c, source, made, e);
    from_run(c, made);
    return GRAFT_OK;
}

graft_status graft_known_create(const graft_guided_config *c, graft_known *out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    memset(out, 0, sizeof *out);
    out->channels = graft_unet_known_channels(&c->model->arch.unet);
    if (!out->channels) return GRAFT_OK;
    out->slots = graft_guided_slots(c);
    out->slot = graft_calloc(out->slots, sizeof *out->slot);
    out->made = graft_calloc(out->slots, sizeof *out->made);
    if (!out->slot || !out->made) st = graft_fail_nomem(e, "the picture to inpaint");
    for (size_t i = 0; i < out->slots && !st; i++) st = make(out, c, i, e);
    return st;
}

void graft_known_finish(graft_known *k)
{
    for (size_t i = 0; i < k->n_made; i++) graft_free(k->made[i]);
    graft_free(k->made);
    graft_free(k->slot);
    memset(k, 0, sizeof *k);
}

void graft_known_join(const graft_known *k, const graft_guided_config *c, size_t slot,
                      const graft_box *box, const float *latent, float *x)
{
    int64_t area = box->height * box->width, whole = c->shape[2] * c->shape[3];
    const int64_t planes[4] = {k->channels, c->shape[2], c->shape[3], 1};
    for (int64_t p = 0; p < c->shape[0]; p++) {
        memcpy(x, latent, (size_t)(c->shape[1] * area) * sizeof *x);
        latent += c->shape[1] * area;
        x += c->shape[1] * area;
        graft_resize_cut(k->slot[slot] + p * k->channels * whole, planes, box->y, box->x, x,
                         box->height, box->width);
        x += k->channels * area;
    }
}

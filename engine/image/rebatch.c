/* Batches of other sizes, for nodes. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "engine/image/latent.h"
#include "engine/image/resize.h"

/* A new batch: `count` samples from sample `first` of batch `from` on. */
typedef struct span {
    size_t from;
    int64_t first, count;
} span;

typedef struct plan {
    int64_t (*shape)[4]; /* of the n batches that there are */
    size_t n;
    span *span; /* what is made of them */
    size_t spans, room;
} plan;

static void plan_finish(plan *p)
{
    graft_free(p->span);
    graft_free(p->shape);
}

static bool alike(const int64_t a[4], const int64_t b[4])
{
    return memcmp(a + 1, b + 1, 3 * sizeof *a) == 0;
}

/* Divides the batches that there are. */
static graft_status plan_make(plan *p, int64_t size, graft_err *e)
{
    if (size < 1) return graft_fail(e, GRAFT_E_ARG, "batches of %" PRId64 ": at least 1", size);
    for (size_t k = 0; k < p->n; k++)
        for (int64_t done = 0, take; done < p->shape[k][0]; done += take) {
            span *last = p->spans ? &p->span[p->spans - 1] : NULL;
            if (!last || last->count == size || !alike(p->shape[last->from], p->shape[k])) {
                if (graft_grow(&p->span, &p->room, p->spans + 1, sizeof *p->span))
                    return graft_fail_nomem(e, "a list of batches");
                last = &p->span[p->spans++];
                *last = (span){k, done, 0};
            }
            take = p->shape[k][0] - done;
            if (take > size - last->count) take = size - last->count;
            last->count += take;
        }
    return GRAFT_OK;
}

/* Goes through a span: sample `first` of batch `from`, and so on. */
static void step(const plan *p, span *at)
{
    at->count--;
    if (++at->first < p->shape[at->from][0]) return;
    at->from++;
    at->first = 0;
}

/* ------------------------------------------------------------------ pictures */

static graft_status join_images(const graft_image *const *images, const plan *p, span s,
                                graft_image **out, graft_err *e)
{
    const int64_t *one = p->shape[s.from], shape[4] = {s.count, one[1], one[2], one[3]};
    const size_t n = (size_t)(one[1] * one[2] * one[3]);
    graft_status st = graft_image_create(shape, graft_image_is_mask(images[s.from]), out, e);
    if (st) return st;
    for (float *dst = graft_image_writable(*out); s.count; dst += n, step(p, &s))
        memcpy(dst, graft_image_data(images[s.from], NULL) + (size_t)s.first * n, n * sizeof *dst);
    return GRAFT_OK;
}

graft_status graft_image_rebatch(const graft_image *const *images, size_t n, int64_t size,
                                 graft_image ***out, size_t *count, graft_err *e)
{
    plan p = {.n = n};
    graft_status st = GRAFT_OK;
    *out = NULL;
    *count = 0;
    p.shape = graft_malloc_array(n, sizeof *p.shape);
    if (!p.shape) return graft_fail_nomem(e, "a list of batches");
    for (size_t k = 0; k < n; k++) graft_image_data(images[k], p.shape[k]);
    GRAFT_TRY(plan_make(&p, size, e));
    if (!p.spans) goto out;
    *out = graft_malloc_array(p.spans, sizeof **out);
    if (!*out) {
        st = graft_fail_nomem(e, "a list of batches");
        goto out;
    }
    for (; *count < p.spans; ++*count)
        GRAFT_TRY(join_images(images, &p, p.span[*count], &(*out)[*count], e));
out:
    plan_finish(&p);
    if (st && *out) {
        while (*count) graft_image_release((*out)[--*count]);
        graft_free(*out);
        *out = NULL;
    }
    return st;
}

/* ------------------------------------------------------------------ latents */

/* The size of a span's masks: theirs where they are alike, else the pictures'. False: it has none.
 */
static bool mask_size(const graft_latent *const *latents, const plan *p, span s, int64_t size[2])
{
    const int64_t *one = p->shape[s.from];
    bool any = false;
    for (; s.count; step(p, &s)) {
        const graft_image *mask = graft_latent_mask(latents[s.from]);
        int64_t m[4];
        if (!mask) continue;
        graft_image_data(mask, m);
        if (any && (m[1] != size[0] || m[2] != size[1])) {
            size[0] = one[2] * graft_latent_cell(latents[s.from]);
            size[1] = one[3] * graft_latent_cell(latents[s.from]);
            return true;
        }
        any = true;
        size[0] = m[1];
        size[1] = m[2];
    }
    return any;
}

/* The mask of one sample, h x w. */
static graft_status copy_mask(const graft_image *mask, int64_t sample, float *dst, int64_t h,
                              int64_t w, graft_err *e)
{
    int64_t m[4] = {1, h, w, 1};
    if (!mask) {
        for (int64_t i = 0; i < h * w; i++) dst[i] = 1;
        return GRAFT_OK;
    }
    const float *src = graft_image_data(mask, m);
    src += sample % m[0] * m[1] * m[2];
    m[0] = 1;
    if (m[1] != h || m[2] != w)
        return graft_resize(GRAFT_RESIZE_BILINEAR, src, m, dst, h, w, false, e);
    memcpy(dst, src, (size_t)(h * w) * sizeof *dst);
    return GRAFT_OK;
}

/* *out NULL: nothing but white. */
static graft_status join_masks(const graft_latent *const *latents, const plan *p, span s,
                               graft_image **out, graft_err *e)
{
    int64_t size[2];
    bool white = true;
    *out = NULL;
    if (!mask_size(latents, p, s, size)) return GRAFT_OK;
    const int64_t shape[4] = {s.count, size[0], size[1], 1}, plane = size[0] * size[1];
    graft_status st = graft_image_create(shape, true, out, e);
    if (st) return st;
    float *dst = graft_image_writable(*out);
    for (; s.count && !st; dst += plane, step(p, &s)) {
        st = copy_mask(graft_latent_mask(latents[s.from]), s.first, dst, size[0], size[1], e);
        for (int64_t i = 0; i < plane && white && !st; i++) white = dst[i] == 1;
    }
    if (white || st) {
        graft_image_release(*out);
        *out = NULL;
    }
    return st;
}

/* The number among all samples of the first of batch `k`. */
static int64_t number_of(const plan *p, size_t k)
{
    int64_t n = 0;
    while (k--) n += p->shape[k][0];
    return n;
}

static graft_status join_numbers(const graft_latent *const *latents, const plan *p, span s,
                                 graft_latent *r, graft_err *e)
{
    int64_t *all = graft_malloc_array((size_t)s.count, sizeof *all), before = number_of(p, s.from);
    size_t from = s.from;
    if (!all) return graft_fail_nomem(e, "the batch indices of a latent");
    for (int64_t i = 0; s.count; i++, step(p, &s)) {
        if (s.from != from) before += p->shape[from++][0];
        const int64_t *index = graft_latent_batch_index(latents[s.from]);
        all[i] = index ? index[s.first] : before + s.first;
    }
    graft_status st = graft_latent_set_index(r, all, e);
    graft_free(all);
    return st;
}

static graft_status join_latents(const graft_latent *const *latents, const plan *p, span s,
                                 graft_latent **out, graft_err *e)
{
    const int64_t *one = p->shape[s.from], shape[4] = {s.count, one[1], one[2], one[3]};
    const size_t n = (size_t)(one[1] * one[2] * one[3]);
    graft_latent *r = NULL;
    graft_image *mask = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    GRAFT_TRY(graft_latent_create_layers(shape, graft_latent_layers(latents[s.from]), &r, e));
    float *dst = graft_latent_writable(r);
    for (span at = s; at.count; dst += n, step(p, &at))
        memcpy(dst, graft_latent_data(latents[at.from], NULL) + (size_t)at.first * n,
               n * sizeof *dst);
    GRAFT_TRY(join_numbers(latents, p, s, r, e));
    GRAFT_TRY(join_masks(latents, p, s, &mask, e));
    if (mask) {
        GRAFT_TRY(graft_latent_set_mask(r, mask, out, e));
    } else {
        *out = r;
        r = NULL;
    }
out:
    graft_image_release(mask);
    graft_latent_release(r);
    return st;
}

graft_status graft_latent_rebatch(const graft_latent *const *latents, size_t n, int64_t size,
                                  graft_latent ***out, size_t *count, graft_err *e)
{
    plan p = {.n = n};
    graft_status st = GRAFT_OK;
    *out = NULL;
    *count = 0;
    p.shape = graft_malloc_array(n, sizeof *p.shape);
    if (!p.shape) return graft_fail_nomem(e, "a list of batches");
    for (size_t k = 0; k < n; k++) {
        graft_latent_data(latents[k], p.shape[k]);
        if (k && p.shape[k][1] == p.shape[k - 1][1])
            GRAFT_TRY(graft_latent_want_alike(latents[k - 1], latents[k], e));
    }
    GRAFT_TRY(plan_make(&p, size, e));
    if (!p.spans) goto out;
    *out = graft_malloc_array(p.spans, sizeof **out);
    if (!*out) {
        st = graft_fail_nomem(e, "a list of batches");
        goto out;
    }
    for (; *count < p.spans; ++*count)
        GRAFT_TRY(join_latents(latents, &p, p.span[*count], &(*out)[*count], e));
out:
    plan_finish(&p);
    if (st && *out) {
        while (*count) graft_latent_release((*out)[--*count]);
        graft_free(*out);
        *out = NULL;
    }
    return st;
}

#include "engine/objects/boxes.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

graft_gligen *graft_gligen_retain(graft_gligen *g)
{
    atomic_fetch_add(&g->refs, 1);
    return g;
}

void graft_gligen_release(graft_gligen *g)
{
    if (!g || atomic_fetch_sub(&g->refs, 1) != 1) return;
    graft_engine_release_weights(g->engine, g->weights);
    graft_free(g);
}

graft_boxes *graft_boxes_retain(graft_boxes *b)
{
    if (b) atomic_fetch_add(&b->refs, 1);
    return b;
}

void graft_boxes_release(graft_boxes *b)
{
    while (b && atomic_fetch_sub(&b->refs, 1) == 1) {
        graft_boxes *before = b->before;
        graft_gligen_release(b->gligen);
        graft_free(b->text);
        graft_free(b);
        b = before;
    }
}

static_assert(GRAFT_BOXES == GRAFT_GLIGEN_TOKENS, "a token for each box");

bool graft_gligen_same(const graft_gligen *a, const graft_gligen *b)
{
    return a == b || strcmp(graft_safetensors_path(graft_weights_file(a->weights)),
                            graft_safetensors_path(graft_weights_file(b->weights))) == 0;
}

/* ------------------------------------------------------------------ whether they fit */

static graft_status check_model(const graft_model *m, const graft_gligen *g, graft_err *e)
{
    graft_gligen_arch own = {0};
    graft_status st = graft_model_needs_unet(m, "A GLIGEN for Stable Diffusion 1.x", e);
    if (st) return st;
    const bool fits = graft_gligen_places(&m->arch.unet, &own);
    if (fits && own.n == g->arch.n &&
        memcmp(own.place, g->arch.place, (size_t)own.n * sizeof *own.place) == 0)
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "the GLIGEN is for a UNet of another kind: it has parts of %d blocks "
                      "(Stable Diffusion 1.x: 16), the model has %d, and they are as wide as it "
                      "says where these are",
                      g->arch.n, own.n);
}

graft_status graft_gligen_check(const graft_model *m, const graft_cond *const list[], size_t n,
                                const graft_gligen **out, graft_err *e)
{
    const graft_gligen *first = NULL;
    *out = NULL;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; list[k] && i < list[k]->n; i++) {
            const graft_boxes *b = list[k]->entry[i]->boxes;
            if (!b) continue;
            if (first && !graft_gligen_same(first, b->gligen))
                return graft_fail(e, GRAFT_E_ARG,
                                  "prompts with boxes of different GLIGENs: one model takes all "
                                  "boxes of a sampling");
            if (!first) first = b->gligen;
        }
    *out = first;
    return first ? check_model(m, first, e) : GRAFT_OK;
}

/* ------------------------------------------------------------------ one more */

static bool is_place(double v)
{
    return v >= 0 && v <= 1e9;
}

static graft_status check_box(const graft_cond *c, const graft_gligen *g, const graft_area *a,
                              graft_err *e)
{
    if (!(is_place(a->x) && is_place(a->y) && is_place(a->width) && is_place(a->height)))
        return graft_fail(e, GRAFT_E_ARG, "a box of %g x %g at %g, %g is not possible", a->width,
                          a->height, a->x, a->y);
    for (size_t i = 0; i < c->n; i++) {
        const graft_boxes *b = c->entry[i]->boxes;
        if (b && b->n == GRAFT_GLIGEN_TOKENS)
            return graft_fail(e, GRAFT_E_LIMIT, "a prompt has at most %d boxes",
                              GRAFT_GLIGEN_TOKENS);
        if (b && !graft_gligen_same(b->gligen, g))
            return graft_fail(e, GRAFT_E_ARG, "the prompt has boxes of another GLIGEN already");
    }
    return GRAFT_OK;
}

/* Behind those of `before`, which may be NULL. */
static graft_boxes *box_create(graft_boxes *before, graft_gligen *g, const graft_area *area,
                               const float *text)
{
    graft_boxes *b = graft_calloc(1, sizeof *b);
    float *own = graft_malloc_array((size_t)g->arch.text, sizeof *own);
    if (!b || !own) {
        graft_free(b);
        graft_free(own);
        return NULL;
    }
    memcpy(own, text, (size_t)g->arch.text * sizeof *own);
    atomic_init(&b->refs, 1);
    b->n = before ? before->n + 1 : 1;
    b->before = graft_boxes_retain(before);
    b->gligen = graft_gligen_retain(g);
    b->area = *area;
    b->text = own;
    return b;
}

graft_status graft_cond_with_box(const graft_cond *c, graft_gligen *gligen, const graft_area *area,
                                 const float *text, graft_cond **out, graft_err *e)
{
    graft_cond *n = NULL;
    graft_status st = check_box(c, gligen, area, e);
    if (!st) st = graft_cond_copy(c, &n, e);
    for (size_t i = 0; !st && i < n->n; i++) {
        graft_boxes *before = n->entry[i]->boxes;
        graft_boxes *b = box_create(before, gligen, area, text);
        if (!b) {
            st = graft_fail_nomem(e, "a text in a box");
            continue;
        }
        n->entry[i]->boxes = b;
        graft_boxes_release(before);
    }
    if (st)
        graft_cond_release(n);
    else
        *out = n;
    return st;
}

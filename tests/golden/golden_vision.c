/* Encoders of pictures, from the picture on, and Redux. */
#include <stdio.h>

#include "base/alloc.h"
#include "engine/denoise/unclip.h"
#include "engine/models/detect/detect.h"
#include "engine/prompts/vision.h"
#include "tests/golden/golden.h"

typedef struct vision_case {
    const graft_st_tensor *image, *crop, *pixels, *hidden, *pooled; /* pooled: or NULL */
    int64_t n;
    size_t values; /* of one picture's pixels */
    float *given, *seen, *moved, *tokens, *vectors;
    graft_image *picture;
} vision_case;

static graft_status prepare(const graft_safetensors *f, const graft_vision_arch *a, int k,
                            vision_case *c, graft_err *e)
{
    c->image = golden_case(f, k, "image");
    c->crop = golden_case(f, k, "crop");
    c->pixels = golden_case(f, k, "pixels");
    c->hidden = golden_case(f, k, "hidden");
    c->pooled = golden_case(f, k, "pooled");
    c->n = c->image->shape[0];
    c->values = (size_t)graft_vision_values(a);
    const size_t tokens = (size_t)(c->n * graft_vision_tokens(a) * a->width);
    const size_t pooled = (size_t)(c->n * graft_vision_pooled(a));
    if (!c->crop || !c->pixels || !c->hidden || golden_count(c->hidden) != tokens ||
        golden_count(c->pixels) != c->values * (size_t)c->n ||
        (c->pooled ? golden_count(c->pooled) : 0) != pooled)
        return graft_fail(e, GRAFT_E_FORMAT, "case %d is not of this encoder", k);
    c->given = golden_copy(c->image);
    c->moved = graft_malloc_array(c->values * (size_t)c->n, sizeof *c->moved);
    c->seen = graft_malloc_array(c->values * (size_t)c->n, sizeof *c->seen);
    c->tokens = graft_malloc_array(tokens, sizeof *c->tokens);
    c->vectors = graft_malloc_array(pooled + 1, sizeof *c->vectors);
    if (!c->given || !c->moved || !c->seen || !c->tokens || !c->vectors)
        return graft_fail_nomem(e, "vision case");
    return graft_image_from_data(c->given, c->image->shape, false, &c->picture, e);
}

static graft_status compare(golden *g, int k, const char *what, const float *got,
                            const graft_st_tensor *want, double tolerance, graft_err *e)
{
    char name[64];
    float *expected = golden_copy(want);
    if (!expected) return graft_fail_nomem(e, "vision case");
    snprintf(name, sizeof name, "vision case%d %s", k, what);
    const double error = golden_error(got, expected, golden_count(want));
    if (tolerance > 0)
        golden_note(g, name, error, tolerance);
    else
        golden_note_model(g, name, error);
    graft_free(expected);
    return GRAFT_OK;
}

static graft_status run_case(golden *g, const graft_vision *v, const graft_safetensors *f, int k,
                             graft_err *e)
{
    const graft_vision_arch *a = &v->arch;
    vision_case c = {0};
    graft_status st = GRAFT_OK;
    GRAFT_TRY(prepare(f, a, k, &c, e));
    int32_t *center = golden_tokens(c.crop);
    for (int64_t i = 0; i < c.n && !st; i++) {
        float *pixels = c.seen + (size_t)i * c.values;
        st = center ? graft_vision_pixels(v, c.picture, i, *center, pixels, e)
                    : graft_fail_nomem(e, "vision case");
        if (st) break;
        st = graft_vision_run(v, pixels, NULL, c.tokens + i * graft_vision_tokens(a) * a->width,
                              c.vectors + i * graft_vision_pooled(a), e);
    }
    graft_free(center);
    golden_move_channels(c.seen, c.moved, c.pixels->shape, false);
    if (!st) st = compare(g, k, "pixels", c.moved, c.pixels, 1e-6, e);
    if (!st) st = compare(g, k, "hidden", c.tokens, c.hidden, 0, e);
    if (!st && c.pooled) st = compare(g, k, "pooled", c.vectors, c.pooled, 0, e);
out:
    graft_image_release(c.picture);
    graft_free(c.given);
    graft_free(c.moved);
    graft_free(c.seen);
    graft_free(c.tokens);
    graft_free(c.vectors);
    return st;
}

graft_status golden_vision(golden *g, graft_safetensors *f, graft_err *e)
{
    graft_vision v = {.engine = g->engine};
    graft_status st = graft_weights_create(f, &v.weights, e);
    if (st) return st;
    golden_options(g, &v.options);
    GRAFT_TRY(graft_vision_detect(f, "", &v.arch, e));
    for (int k = 0; golden_case(f, k, "image"); k++) GRAFT_TRY(run_case(g, &v, f, k, e));
out:
    graft_weights_release(v.weights);
    return st;
}

/* ------------------------------------------------------------------ Redux */

static graft_status redux_case(golden *g, const graft_style *s, const graft_safetensors *f, int k,
                               graft_err *e)
{
    const graft_st_tensor *seen = golden_case(f, k, "seen"), *want = golden_case(f, k, "output");
    const int64_t words = 2, width = s->arch.width; /* of a prompt before the pictures */
    graft_vision_output o = {.pictures = seen->shape[0],
                             .tokens = seen->shape[1],
                             .width = seen->shape[2],
                             .data = golden_copy(seen)};
    float *prompt = graft_calloc((size_t)(words * width), sizeof *prompt);
    graft_cond *c = NULL, *with = NULL;
    graft_status st = o.data && prompt ? GRAFT_OK : graft_fail_nomem(e, "Redux's case");
    if (st) {
        graft_free(prompt);
        goto out;
    }
    GRAFT_TRY(graft_cond_create(words, width, prompt, 0, NULL, NULL, &c, e));
    GRAFT_TRY(graft_style_apply(s, c, &o, 1, NULL, &with, e));
    const graft_cond_entry *k0 = with->entry[0];
    if ((size_t)((k0->tokens - words) * width) != golden_count(want))
        st = graft_fail(e, GRAFT_E_FORMAT, "case %d has other tokens", k);
    else
        st = compare(g, k, "redux", k0->data + words * width, want, 0, e);
out:
    graft_cond_release(c);
    graft_cond_release(with);
    graft_free(o.data);
    return st;
}

graft_status golden_redux(golden *g, graft_safetensors *f, graft_err *e)
{
    graft_style s = {.engine = g->engine};
    graft_status st = graft_weights_create(f, &s.weights, e);
    if (st) return st;
    golden_options(g, &s.options);
    GRAFT_TRY(graft_redux_detect(f, &s.arch, e));
    for (int k = 0; golden_case(f, k, "seen"); k++) GRAFT_TRY(redux_case(g, &s, f, k, e));
out:
    graft_weights_release(s.weights);
    return st;
}

/* ------------------------------------------------------------------ unCLIP */

/* Each vector as a picture of its own. */
static graft_status unclip_case(golden *g, const graft_model *m, const graft_safetensors *f, int k,
                                graft_err *e)
{
    const graft_st_tensor *vectors = golden_case(f, k, "vectors"), *want = golden_case(f, k, "y");
    const graft_st_tensor *strengths = golden_case(f, k, "strengths"), *seed;
    const graft_st_tensor *noise = golden_case(f, k, "noise");
    const int64_t width = m->arch.adm_channels / 2;
    graft_vision_output seen[GRAFT_SHOWN];
    graft_cond_entry entry = {0};
    seed = golden_case(f, k, "seed");
    if (!want || !strengths || !noise || !seed || vectors->shape[0] > GRAFT_SHOWN ||
        vectors->shape[1] != width || golden_count(want) != 2 * (size_t)width)
        return graft_fail(e, GRAFT_E_FORMAT, "case %d is not of this model", k);
    float *v = golden_copy(vectors), *s = golden_copy(strengths), *n = golden_copy(noise);
    float *y = graft_calloc(2 * (size_t)width, sizeof *y);
    int32_t *number = golden_tokens(seed);
    graft_status st = v && s && n && y && number ? GRAFT_OK : graft_fail_nomem(e, "unCLIP case");
    for (int32_t i = 0; i < vectors->shape[0] && !st; i++) {
        seen[i] =
            (graft_vision_output){.pictures = 1, .pooled_width = width, .pooled = v + i * width};
        entry.shown[entry.n_shown++] = (graft_shown){&seen[i], (double)s[i], (double)n[i]};
    }
    if (!st) {
        graft_unclip_fill(m, &entry, (uint64_t)number[0], y);
        st = compare(g, k, "told", y, want, 1e-5, e);
    }
    graft_free(v);
    graft_free(s);
    graft_free(n);
    graft_free(y);
    graft_free(number);
    return st;
}

graft_status golden_unclip(golden *g, graft_safetensors *f, graft_err *e)
{
    graft_model m = {.engine = g->engine};
    const graft_st_tensor *one = golden_case(f, 0, "vectors");
    graft_status st = graft_weights_create(f, &m.weights, e);
    if (st) return st;
    m.arch.adm_channels = one && one->rank == 2 ? (int32_t)(2 * one->shape[1]) : 0;
    for (int k = 0; golden_case(f, k, "vectors") && !st; k++) st = unclip_case(g, &m, f, k, e);
    graft_weights_release(m.weights);
    return st;
}

/* Sums of weight sets. All that may be done to weights here is linear: what a file stores times a
 * factor, and patches times a strength. So any tree of merges is one list of files with a factor
 * each, and one list of patches a tensor. Only DoRA's patches are not linear in the weights that
 * they change; they are no part of sums. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/weights/patch.h"
#include "engine/weights/quantized.h"
#include "engine/weights/set.h"
#include "engine/weights/values.h"

#define PIECE 2048 /* values that are added while they are in the nearest cache */

graft_region graft_region_of(const char *name)
{
    if (graft_str_starts(name, "middle_block.")) return GRAFT_REGION_MIDDLE;
    if (graft_str_starts(name, "output_blocks.") || graft_str_starts(name, "out."))
        return GRAFT_REGION_LAST;
    return GRAFT_REGION_FIRST;
}

/* ------------------------------------------------------------------ making one */

/* What is left where two products cancel out but for their rounding is nothing. */
static double add(double x, double y)
{
    double sum = x + y;
    return fabs(sum) <= 1e-12 * (fabs(x) + fabs(y)) ? 0.0 : sum;
}

static bool same_place(const graft_set_place *a, const graft_set_place *b)
{
    return strcmp(a->prefix, b->prefix) == 0 &&
           (a->file == b->file || graft_safetensors_same(a->file->file, b->file->file));
}

static void add_term(graft_weights *w, const graft_set_place *place, const double own[],
                     const double factor[], bool partly)
{
    size_t i = 0;
    while (i < w->n_terms && !same_place(&w->term[i].place, place)) i++;
    if (i == w->n_terms) {
        w->term[w->n_terms++] = (graft_set_term){.place = *place, .partly = partly};
        atomic_fetch_add(&place->file->refs, 1);
    }
    for (int r = 0; r < GRAFT_REGIONS; r++)
        w->term[i].factor[r] = add(w->term[i].factor[r], own[r] * factor[r]);
}

static const double one[GRAFT_REGIONS] = {1.0, 1.0, 1.0};

static void add_terms(graft_weights *w, const graft_weights *of, const double factor[], bool partly)
{
    if (!of->term) add_term(w, &of->place, one, factor, partly);
    for (size_t i = 0; i < of->n_terms; i++) {
        const graft_set_term *t = &of->term[i];
        add_term(w, &t->place, t->factor, factor, partly || t->partly);
    }
}

static bool is_nothing(const graft_set_term *t)
{
    for (int r = 0; r < GRAFT_REGIONS; r++)
        if ((float)t->factor[r] != 0.0f) return false;
    return true;
}

/* Leaves out what is nothing; a sum that is its first file's tensors is none. */
static void tidy(graft_weights *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_terms; i++) {
        if (is_nothing(&w->term[i]))
            graft_set_file_release(w->term[i].place.file);
        else
            w->term[n++] = w->term[i];
    }
    w->n_terms = n;
    if (n != 1 || !same_place(&w->term[0].place, &w->place)) return;
    for (int r = 0; r < GRAFT_REGIONS; r++)
        if ((float)w->term[0].factor[r] != 1.0f) return;
    graft_set_file_release(w->term[0].place.file);
    graft_free(w->term);
    w->term = NULL;
    w->n_terms = 0;
}

/* A patch of the same content that the tensor has already becomes stronger. */
static graft_status add_patch(graft_weights *w, const char *name, const graft_patch *patch,
                              float strength, graft_err *e)
{
    const graft_set_patches *list = graft_map_get(&w->patches, name);
    graft_patch p = *patch;
    for (size_t i = 0; list && i < list->n; i++) {
        graft_patch *own = &list->patch[i];
        if (!graft_hash_equal(own->hash, p.hash)) continue;
        own->strength = (float)add(own->strength, strength);
        return GRAFT_OK;
    }
    p.strength = strength;
    if (strength == 0.0f) return GRAFT_OK;
    if (p.magnitude)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s is of a DoRA, which changes weights by their length: what it is "
                          "applied to cannot be merged before it is saved",
                          p.magnitude->name);
    return graft_set_add_patch(w, name, &p, e);
}

static graft_status add_patches(graft_weights *w, const graft_weights *of, const double factor[],
                                graft_err *e)
{
    const graft_map_entry *entry;
    for (size_t pos = 0; (entry = graft_map_next(&of->patches, &pos));) {
        const graft_set_patches *list = entry->value;
        double f = factor[graft_region_of(entry->key)];
        for (size_t i = 0; i < list->n; i++) {
            graft_status st =
                add_patch(w, entry->key, &list->patch[i], (float)(f * list->patch[i].strength), e);
            if (st) return st;
        }
    }
    return GRAFT_OK;
}

/* The owner that stands for the set's file in reports. A file that was opened twice is one LoRA,
 * but patches point into the mapping that they were made from: each is kept, later ones at strength
 * 0. */
static graft_set_owner *owner_for(graft_weights *w, graft_weights *set)
{
    graft_set_owner *same = NULL;
    bool held = false;
    for (size_t i = 0; i < w->n_owners; i++) {
        graft_set_owner *o = &w->owners[i];
        held = held || o->set->place.file == set->place.file;
        if (!same && same_place(&o->set->place, &set->place)) same = o;
    }
    if (held) return same;
    graft_set_owner *o = &w->owners[w->n_owners++];
    *o = (graft_set_owner){.set = graft_weights_retain(set)};
    return same ? same : o;
}

static void add_owners(graft_weights *w, const graft_weights *of, const double factor[])
{
    for (size_t i = 0; i < of->n_owners; i++) {
        const graft_set_owner *o = &of->owners[i];
        graft_set_owner *to = owner_for(w, o->set);
        for (int r = 0; r < GRAFT_REGIONS; r++)
            to->strength[r] = (float)add(to->strength[r], factor[r] * o->strength[r]);
    }
}

static size_t term_count(const graft_weights *w)
{
    return w->term ? w->n_terms : 1;
}

/* `partly`: b has only some of a's tensors. */
static graft_status sum(graft_weights *a, const double fa[], graft_weights *b, const double fb[],
                        bool partly, graft_weights **out, graft_err *e)
{
    graft_weights *w = graft_set_create(&a->place);
    graft_status st;
    if (!w) return graft_fail_nomem(e, "weight set");
    w->term = graft_malloc_array(term_count(a) + term_count(b), sizeof *w->term);
    w->owners = graft_malloc_array(a->n_owners + b->n_owners, sizeof *w->owners);
    if (!w->term || !w->owners) {
        st = graft_fail_nomem(e, "weight set");
        goto out;
    }
    add_terms(w, a, fa, false);
    add_terms(w, b, fb, partly);
    tidy(w);
    add_owners(w, a, fa);
    add_owners(w, b, fb);
    GRAFT_TRY(add_patches(w, a, fa, e));
    GRAFT_TRY(add_patches(w, b, fb, e));
    *out = w;
    return GRAFT_OK;
out:
    graft_weights_release(w);
    return st;
}

graft_status graft_weights_sum(graft_weights *a, const double fa[GRAFT_REGIONS], graft_weights *b,
                               const double fb[GRAFT_REGIONS], graft_weights **out, graft_err *e)
{
    return sum(a, fa, b, fb, false, out, e);
}

graft_status graft_weights_add(graft_weights *a, graft_weights *b, graft_weights **out,
                               graft_err *e)
{
    return sum(a, one, b, one, true, out, e);
}

static graft_status copy_patches(graft_weights *w, const graft_weights *of, bool covered,
                                 graft_err *e)
{
    const graft_map_entry *entry;
    graft_status st = GRAFT_OK;
    for (size_t pos = 0; !st && (entry = graft_map_next(&of->patches, &pos));) {
        const graft_set_patches *list = entry->value;
        if (covered && graft_set_find(&w->place, entry->key)) continue;
        for (size_t i = 0; i < list->n && !st; i++)
            st = graft_set_add_patch(w, entry->key, &list->patch[i], e);
    }
    return st;
}

graft_status graft_weights_over(graft_weights *a, graft_weights *b, graft_weights **out,
                                graft_err *e)
{
    graft_weights *w = graft_set_create(&a->place);
    graft_status st = GRAFT_OK;
    assert(!a->term && !b->over);
    if (!w) return graft_fail_nomem(e, "weight set");
    w->over = true;
    w->term = graft_malloc_array(term_count(b) + 1, sizeof *w->term);
    w->owners = graft_malloc_array(a->n_owners + b->n_owners + 1, sizeof *w->owners);
    if (!w->term || !w->owners) st = graft_fail_nomem(e, "weight set");
    if (!st) {
        add_terms(w, b, one, false);
        add_owners(w, b, one);
        add_owners(w, a, one);
        st = copy_patches(w, b, true, e);
    }
    if (!st) st = copy_patches(w, a, false, e);
    if (st)
        graft_weights_release(w);
    else
        *out = w;
    return st;
}

graft_status graft_weights_plain(const graft_weights *from, graft_weights **out, graft_err *e)
{
    graft_weights *w = graft_set_create(&from->place);
    if (w && from->term) w->term = graft_malloc_array(from->n_terms, sizeof *w->term);
    if (!w || (from->term && !w->term)) {
        graft_weights_release(w);
        return graft_fail_nomem(e, "weight set");
    }
    w->over = from->over;
    for (size_t i = 0; i < from->n_terms; i++) {
        w->term[w->n_terms++] = from->term[i];
        atomic_fetch_add(&from->term[i].place.file->refs, 1);
    }
    *out = w;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ what it is made of */

bool graft_weights_is_sum(const graft_weights *w)
{
    return w->term != NULL;
}

const graft_safetensors *graft_weights_summand(const graft_weights *w, size_t i,
                                               double factor[GRAFT_REGIONS])
{
    if (i >= w->n_terms) return NULL;
    memcpy(factor, w->term[i].factor, sizeof w->term[i].factor);
    return w->term[i].place.file->file;
}

static graft_weight_term term_at(const graft_set_place *p, const graft_st_tensor *t, float factor)
{
    graft_weight_term x = {
        .tensor = t, .file = p->file->file, .prefix = p->prefix, .factor = factor};
    if (t) x.state = &p->file->state[t - graft_safetensors_at(p->file->file, 0)];
    if (t && t->scale != 0) x.factor *= t->scale;
    return x;
}

bool graft_weights_next_term(const graft_weights *w, const char *name, size_t *at,
                             graft_weight_term *out)
{
    graft_region region = graft_region_of(name);
    const graft_st_tensor *own = w->over && !*at ? graft_set_find(&w->place, name) : NULL;
    if (own) {
        *out = term_at(&w->place, own, 1);
        *at = term_count(w) + 1; /* nothing behind it */
        return true;
    }
    for (size_t n = term_count(w); *at < n;) {
        const graft_set_term *term = w->term ? &w->term[*at] : NULL;
        const graft_set_place *p = term ? &term->place : &w->place;
        float factor = term ? (float)term->factor[region] : 1.0f;
        const graft_st_tensor *t = factor != 0.0f ? graft_set_find(p, name) : NULL;
        ++*at;
        if (factor == 0.0f || (!t && term && term->partly)) continue;
        *out = term_at(p, t, factor);
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------ values */

typedef float lane8 __attribute__((vector_size(32), aligned(4), may_alias));

static void scale(float *x, size_t n, float f)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) *(lane8 *)(x + i) *= f;
    for (; i < n; i++) x[i] *= f;
}

static void add_scaled(float *dst, const float *src, size_t n, float f)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) *(lane8 *)(dst + i) += f * *(const lane8 *)(src + i);
    for (; i < n; i++) dst[i] += f * src[i];
}

static void read_values(const graft_st_tensor *t, int64_t first, int64_t n, float *out)
{
    if (graft_is_quantized(t->dtype)) {
        graft_quantized_to_f32(t->dtype, t->data, t->shape[0], n / t->shape[0], out);
        return;
    }
    graft_st_to_f32(t, first, n, out);
}

static graft_status add_values(const graft_weight_term *t, int64_t first, int64_t n, float *out,
                               graft_err *e)
{
    float piece[PIECE];
    if (graft_is_quantized(t->tensor->dtype)) { /* its scales lie behind all of its values */
        float *all = graft_malloc_array((size_t)n, sizeof *all);
        if (!all) return graft_fail_nomem(e, "merging weights");
        read_values(t->tensor, 0, n, all);
        add_scaled(out, all, (size_t)n, t->factor);
        graft_free(all);
        return GRAFT_OK;
    }
    for (int64_t i = 0, m; i < n; i += m) {
        m = n - i < PIECE ? n - i : PIECE;
        read_values(t->tensor, first + i, m, piece);
        add_scaled(out + i, piece, (size_t)m, t->factor);
    }
    return GRAFT_OK;
}

graft_status graft_weights_values(const graft_weights *w, const char *name, int64_t first,
                                  int64_t n, float *out, graft_err *e)
{
    graft_weight_term t;
    size_t at = 0;
    if (!graft_weights_next_term(w, name, &at, &t)) {
        memset(out, 0, (size_t)n * sizeof *out);
        return GRAFT_OK;
    }
    read_values(t.tensor, first, n, out);
    if (t.factor != 1.0f) scale(out, (size_t)n, t.factor);
    while (graft_weights_next_term(w, name, &at, &t)) {
        graft_status st = add_values(&t, first, n, out, e);
        if (st) return st;
    }
    return GRAFT_OK;
}

static bool needs_base(const graft_set_patches *list)
{
    for (size_t i = 0; list && i < list->n; i++)
        if (list->patch[i].strength != 0.0f && list->patch[i].magnitude) return true;
    return false;
}

graft_status graft_weights_patched_values(const graft_weights *w, const char *name,
                                          const graft_st_tensor *target, int64_t n, float *out,
                                          graft_err *e)
{
    const graft_set_patches *list = graft_map_get(&w->patches, name);
    float *base = NULL;
    graft_status st = graft_weights_values(w, name, 0, n, out, e);
    if (!st && needs_base(list)) {
        base = graft_malloc_array((size_t)n, sizeof *base);
        if (!base) return graft_fail_nomem(e, "LoRA");
        memcpy(base, out, (size_t)n * sizeof *base);
    }
    for (size_t i = 0; list && i < list->n && !st; i++)
        if (list->patch[i].strength != 0.0f)
            st = graft_patch_apply(&list->patch[i], target, base, out, e);
    graft_free(base);
    return st;
}

/* Sums of weight sets. All that may be done to weights here is linear: what a file stores times a
 * factor, and patches times a strength. So any tree of merges is one list of files with a factor
 * each, and one list of patches a tensor. Only DoRA's patches are not linear in the weights that
 * they change; they are no part of sums. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/weights/patch.h"
#include "engine/weights/quantized.h"
#include "engine/weights/weights_inside.h"

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

/* The name, without the prefix, of tensor i of the set's file; NULL: it is none of the set's. */
static const char *own_name(const graft_weights *w, size_t i)
{
    const graft_st_tensor *t = graft_safetensors_at(w->place.file->file, i);
    const char *prefix = w->place.prefix;
    return !t->part && graft_str_starts(t->name, prefix) ? t->name + strlen(prefix) : NULL;
}

static size_t name_count(const graft_weights *w)
{
    return graft_safetensors_count(w->place.file->file);
}

/* Where the shares of the tensor stand in a term of w; `once` where the set has no such name. */
static const double *share_in(const graft_weights *w, const graft_set_term *term, const char *name)
{
    static const double once[GRAFT_THIRDS] = {1.0, 1.0, 1.0};
    const graft_st_tensor *t = term ? graft_set_find(&w->place, name) : NULL;
    return t ? term->share[t - graft_safetensors_at(w->place.file->file, 0)] : once;
}

void graft_set_term_finish(graft_set_term *t)
{
    graft_set_file_release(t->place.file);
    graft_free(t->share);
}

static graft_set_term *new_term(graft_weights *w, const graft_set_place *place, bool partly)
{
    size_t n = name_count(w);
    double(*share)[GRAFT_THIRDS] = graft_calloc(n ? n : 1, sizeof *share);
    if (!share) return NULL;
    graft_set_term *t = &w->term[w->n_terms++];
    *t = (graft_set_term){*place, share, partly};
    atomic_fetch_add(&place->file->refs, 1);
    return t;
}

/* Adds so much of what `of` has of one of its terms; without one it is its place's tensors. */
static graft_status add_term(graft_weights *w, const graft_weights *of, const graft_set_term *term,
                             const graft_shares *shares, bool partly, graft_err *e)
{
    const graft_set_place *place = term ? &term->place : &of->place;
    size_t i = 0;
    while (i < w->n_terms && !same_place(&w->term[i].place, place)) i++;
    graft_set_term *to = i < w->n_terms ? &w->term[i] : new_term(w, place, partly);
    if (!to) return graft_fail_nomem(e, "weight set");
    for (size_t k = 0; k < name_count(w); k++) {
        const char *name = own_name(w, k);
        double share[GRAFT_THIRDS];
        if (!name) continue;
        const double *own = share_in(of, term, name);
        shares->of(shares->ctx, name, share);
        for (int r = 0; r < GRAFT_THIRDS; r++)
            to->share[k][r] = add(to->share[k][r], own[r] * share[r]);
    }
    return GRAFT_OK;
}

static graft_status add_terms(graft_weights *w, const graft_weights *of, const graft_shares *shares,
                              bool partly, graft_err *e)
{
    graft_status st = GRAFT_OK;
    if (!of->term) return add_term(w, of, NULL, shares, partly, e);
    for (size_t i = 0; i < of->n_terms && !st; i++)
        st = add_term(w, of, &of->term[i], shares, partly || of->term[i].partly, e);
    return st;
}

/* Whether all of it counts so many times. */
static bool counts(const graft_weights *w, const graft_set_term *t, float times)
{
    for (size_t i = 0; i < name_count(w); i++)
        for (int r = 0; r < GRAFT_THIRDS && own_name(w, i); r++)
            if ((float)t->share[i][r] != times) return false;
    return true;
}

/* Leaves out what is nothing; a sum that is its first file's tensors is none. */
static void tidy(graft_weights *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_terms; i++) {
        if (counts(w, &w->term[i], 0.0f))
            graft_set_term_finish(&w->term[i]);
        else
            w->term[n++] = w->term[i];
    }
    w->n_terms = n;
    if (n != 1 || !same_place(&w->term[0].place, &w->place) || !counts(w, &w->term[0], 1.0f))
        return;
    graft_set_term_finish(&w->term[0]);
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

static bool alike(const double share[GRAFT_THIRDS])
{
    return share[0] == share[1] && share[1] == share[2];
}

/* `alone`: nothing else is added. */
static graft_status add_share(graft_weights *w, const char *name, const graft_patch *patch,
                              const double share[GRAFT_THIRDS], bool alone, graft_err *e)
{
    const graft_st_tensor *t = graft_set_find(&w->place, name);
    int64_t rows = t && t->rank ? t->shape[0] : 0;
    graft_status st = GRAFT_OK;
    if (alone && alike(share) && share[0] == 1.0) return graft_set_add_patch(w, name, patch, e);
    if (alike(share) || patch->magnitude)
        return add_patch(w, name, patch, (float)(share[0] * patch->strength), e);
    for (int k = 0; k < GRAFT_THIRDS && !st; k++) {
        graft_patch p = *patch;
        if (graft_patch_cut(&p, rows * k / GRAFT_THIRDS, rows * (k + 1) / GRAFT_THIRDS, rows))
            st = add_patch(w, name, &p, (float)(share[k] * patch->strength), e);
    }
    return st;
}

static graft_status add_patches(graft_weights *w, const graft_weights *of,
                                const graft_shares *shares, bool alone, graft_err *e)
{
    const graft_map_entry *entry;
    for (size_t pos = 0; (entry = graft_map_next(&of->patches, &pos));) {
        const graft_set_patches *list = entry->value;
        double share[GRAFT_THIRDS];
        shares->of(shares->ctx, entry->key, share);
        for (size_t i = 0; i < list->n; i++) {
            graft_status st = add_share(w, entry->key, &list->patch[i], share, alone, e);
            if (st) return st;
        }
    }
    return GRAFT_OK;
}

/* Patches point into the mapping that they were made from, so each is kept, also of a file that was
 * opened twice. */
static void add_owners(graft_weights *w, const graft_weights *of)
{
    for (size_t i = 0; i < of->n_owners; i++) {
        size_t k = 0;
        while (k < w->n_owners && w->owners[k]->place.file != of->owners[i]->place.file) k++;
        if (k == w->n_owners) w->owners[w->n_owners++] = graft_weights_retain(of->owners[i]);
    }
}

static size_t term_count(const graft_weights *w)
{
    return w->term ? w->n_terms : 1;
}

/* `partly`: b has only some of a's tensors. */
static graft_status sum(graft_weights *a, const graft_shares *of_a, graft_weights *b,
                        const graft_shares *of_b, bool partly, graft_weights **out, graft_err *e)
{
    graft_weights *w = graft_set_create(&a->place);
    graft_status st;
    if (!w) return graft_fail_nomem(e, "weight set");
    w->term = graft_malloc_array(term_count(a) + (b ? term_count(b) : 0), sizeof *w->term);
    w->owners = graft_malloc_array(a->n_owners + (b ? b->n_owners : 0), sizeof *w->owners);
    if (!w->term || !w->owners) {
        st = graft_fail_nomem(e, "weight set");
        goto out;
    }
    GRAFT_TRY(add_terms(w, a, of_a, false, e));
    if (b) GRAFT_TRY(add_terms(w, b, of_b, partly, e));
    tidy(w);
    add_owners(w, a);
    if (b) add_owners(w, b);
    GRAFT_TRY(add_patches(w, a, of_a, !b, e));
    if (b) GRAFT_TRY(add_patches(w, b, of_b, false, e));
    *out = w;
    return GRAFT_OK;
out:
    graft_weights_release(w);
    return st;
}

static void share_of_region(const void *ctx, const char *name, double share[GRAFT_THIRDS])
{
    const double *of = ctx;
    for (int k = 0; k < GRAFT_THIRDS; k++) share[k] = of[graft_region_of(name)];
}

graft_status graft_weights_sum(graft_weights *a, const double fa[GRAFT_REGIONS], graft_weights *b,
                               const double fb[GRAFT_REGIONS], graft_weights **out, graft_err *e)
{
    return sum(a, &(graft_shares){share_of_region, fa}, b, &(graft_shares){share_of_region, fb},
               false, out, e);
}

graft_status graft_weights_mix(graft_weights *a, const graft_shares *of_a, graft_weights *b,
                               const graft_shares *of_b, graft_weights **out, graft_err *e)
{
    return sum(a, of_a, b, of_b, false, out, e);
}

graft_status graft_weights_add(graft_weights *a, graft_weights *b, graft_weights **out,
                               graft_err *e)
{
    static const double one[GRAFT_REGIONS] = {1.0, 1.0, 1.0};
    const graft_shares once = {share_of_region, one};
    return sum(a, &once, b, &once, true, out, e);
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

/* `called`: what a's names begin with. */
static graft_status stand_over(graft_weights *a, const char *called, graft_weights *b,
                               graft_weights **out, graft_err *e)
{
    graft_weights *w = graft_set_create(&a->place);
    graft_status st = GRAFT_OK;
    if (!w) return graft_fail_nomem(e, "weight set");
    snprintf(w->place.called, sizeof w->place.called, "%s", called);
    w->below = graft_weights_retain(b);
    w->owners = graft_malloc_array(a->n_owners + b->n_owners + 1, sizeof *w->owners);
    if (!w->owners) st = graft_fail_nomem(e, "weight set");
    if (!st) {
        add_owners(w, b);
        add_owners(w, a);
        st = copy_patches(w, b, true, e);
    }
    if (!st) st = copy_patches(w, a, false, e);
    if (st)
        graft_weights_release(w);
    else
        *out = w;
    return st;
}

graft_status graft_weights_over(graft_weights *a, graft_weights *b, graft_weights **out,
                                graft_err *e)
{
    assert(!a->term && !a->below && !b->below);
    return stand_over(a, "", b, out, e);
}

graft_status graft_weights_beside(graft_weights *a, const char *called, graft_weights *b,
                                  graft_weights **out, graft_err *e)
{
    assert(!a->term && !a->below && !a->n_owners && strlen(called) < GRAFT_WEIGHTS_CALLED);
    assert(called[0] && (!b->below || b->place.called[0]));
    return stand_over(a, called, b, out, e);
}

graft_status graft_weights_plain(const graft_weights *from, graft_weights **out, graft_err *e)
{
    graft_weights *w = graft_set_create(&from->place);
    if (w && from->below) w->below = graft_weights_retain(from->below);
    if (w && from->term) w->term = graft_malloc_array(from->n_terms, sizeof *w->term);
    bool room = w && (w->term || !from->term);
    for (size_t i = 0; room && i < from->n_terms; i++) {
        const graft_set_term *t = &from->term[i];
        graft_set_term *to = new_term(w, &t->place, t->partly);
        room = to != NULL;
        if (to) memcpy(to->share, t->share, name_count(w) * sizeof *t->share);
    }
    if (room) {
        *out = w;
        return GRAFT_OK;
    }
    graft_weights_release(w);
    return graft_fail_nomem(e, "weight set");
}

/* ------------------------------------------------------------------ what it is made of */

bool graft_weights_is_sum(const graft_weights *w)
{
    return w->term || w->below;
}

/* Spans that nothing was added to have least > most. */
static void begin_spans(graft_span span[GRAFT_REGIONS])
{
    for (int r = 0; r < GRAFT_REGIONS; r++) span[r] = (graft_span){INFINITY, -INFINITY};
}

static void widen(graft_span *span, double v)
{
    if (v < span->least) span->least = v;
    if (v > span->most) span->most = v;
}

static void end_spans(graft_span span[GRAFT_REGIONS])
{
    graft_span any = {0, 0};
    for (int r = GRAFT_REGIONS - 1; r >= 0; r--)
        if (span[r].least <= span[r].most) any = span[r];
    for (int r = 0; r < GRAFT_REGIONS; r++)
        if (span[r].least > span[r].most) span[r] = any;
}

static bool points_into(const graft_patch *p, const graft_safetensors *f)
{
    const graft_st_tensor *t = p->part[0].whole ? p->part[0].whole : p->part[0].a;
    size_t n = graft_safetensors_count(f);
    uintptr_t first = n ? (uintptr_t)graft_safetensors_at(f, 0) : 0;
    return (uintptr_t)t >= first && (uintptr_t)t < first + n * sizeof *t;
}

const graft_weights *graft_weights_owner(const graft_weights *w, size_t i,
                                         graft_span strength[GRAFT_REGIONS])
{
    const graft_map_entry *entry;
    if (i >= w->n_owners) return NULL;
    begin_spans(strength);
    for (size_t pos = 0; (entry = graft_map_next(&w->patches, &pos));) {
        const graft_set_patches *list = entry->value;
        for (size_t k = 0; k < list->n; k++)
            if (points_into(&list->patch[k], graft_weights_file(w->owners[i])))
                widen(&strength[graft_region_of(entry->key)], list->patch[k].strength);
    }
    end_spans(strength);
    return w->owners[i];
}

const graft_safetensors *graft_weights_summand(const graft_weights *w, size_t i,
                                               graft_span factor[GRAFT_REGIONS])
{
    if (i >= w->n_terms) return NULL;
    begin_spans(factor);
    for (size_t k = 0; k < name_count(w); k++) {
        const char *name = own_name(w, k);
        for (int r = 0; r < GRAFT_THIRDS && name; r++)
            widen(&factor[graft_region_of(name)], w->term[i].share[k][r]);
    }
    end_spans(factor);
    return w->term[i].place.file->file;
}

/* What one term has of the tensor; false: nothing that counts. */
static bool take_term(const graft_set_place *p, const char *name, const double share[GRAFT_THIRDS],
                      bool partly, graft_weight_term *out)
{
    bool any = false;
    *out = (graft_weight_term){.file = p->file->file, .prefix = p->prefix};
    for (int k = 0; k < GRAFT_THIRDS; k++) {
        out->factor[k] = (float)share[k];
        any |= out->factor[k] != 0.0f;
    }
    const graft_st_tensor *t = any ? graft_set_find(p, name) : NULL;
    if (!any || (!t && partly)) return false;
    out->tensor = t;
    if (t) out->state = &p->file->state[t - graft_safetensors_at(p->file->file, 0)];
    for (int k = 0; t && t->scale != 0 && k < GRAFT_THIRDS; k++) out->factor[k] *= t->scale;
    return true;
}

bool graft_weights_next_term(const graft_weights *w, const char *name, size_t *at,
                             graft_weight_term *out)
{
    static const double once[GRAFT_THIRDS] = {1.0, 1.0, 1.0};
    const bool own = w->below && graft_set_find(&w->place, name);
    if (w->below && !own) return graft_weights_next_term(w->below, name, at, out);
    if (!w->term) return (*at)++ == 0 && take_term(&w->place, name, once, false, out);
    while (*at < w->n_terms) {
        const graft_set_term *term = &w->term[(*at)++];
        if (take_term(&term->place, name, share_in(w, term, name), term->partly, out)) return true;
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

/* The values from `first` on, n, that belong to third k of its rows; returns how many, of which the
 * first is number *from of these. */
static int64_t third(const graft_st_tensor *t, int k, int64_t first, int64_t n, int64_t *from)
{
    int64_t all = graft_st_values(t), low = all * k / GRAFT_THIRDS - first,
            end = all * (k + 1) / GRAFT_THIRDS - first;
    *from = low > 0 ? low : 0;
    if (end > n) end = n;
    return end > *from ? end - *from : 0;
}

static void scale_thirds(const graft_weight_term *t, int64_t first, int64_t n, float *out)
{
    for (int k = 0; k < GRAFT_THIRDS; k++) {
        int64_t from, m = third(t->tensor, k, first, n, &from);
        if (m && t->factor[k] != 1.0f) scale(out + from, (size_t)m, t->factor[k]);
    }
}

static void add_thirds(const graft_weight_term *t, int64_t first, int64_t n, const float *values,
                       float *out)
{
    for (int k = 0; k < GRAFT_THIRDS; k++) {
        int64_t from, m = third(t->tensor, k, first, n, &from);
        if (m) add_scaled(out + from, values + from, (size_t)m, t->factor[k]);
    }
}

static graft_status add_values(const graft_weight_term *t, int64_t first, int64_t n, float *out,
                               graft_err *e)
{
    float piece[PIECE];
    if (graft_is_quantized(t->tensor->dtype)) { /* its scales lie behind all of its values */
        float *all = graft_malloc_array((size_t)n, sizeof *all);
        if (!all) return graft_fail_nomem(e, "merging weights");
        read_values(t->tensor, 0, n, all);
        add_thirds(t, 0, n, all, out);
        graft_free(all);
        return GRAFT_OK;
    }
    for (int64_t i = 0, m; i < n; i += m) {
        m = n - i < PIECE ? n - i : PIECE;
        read_values(t->tensor, first + i, m, piece);
        add_thirds(t, first + i, m, piece, out + i);
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
    scale_thirds(&t, first, n, out);
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

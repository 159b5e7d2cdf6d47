#include "engine/weights/weights.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/str.h"
#include "engine/weights/packed.h"
#include "engine/weights/quantized.h"
#include "engine/weights/weights_inside.h"

void graft_set_file_release(graft_set_file *f)
{
    if (atomic_fetch_sub(&f->refs, 1) != 1) return;
    graft_safetensors_close(f->file);
    graft_free(f->state);
    graft_free(f);
}

graft_status graft_weights_create(graft_safetensors *file, graft_weights **out, graft_err *e)
{
    graft_weights *w = graft_calloc(1, sizeof *w);
    graft_set_file *f = graft_calloc(1, sizeof *f);
    graft_tensor_state *state = graft_calloc(graft_safetensors_count(file), sizeof *state);
    if (!w || !f || !state) {
        graft_free(w);
        graft_free(f);
        graft_free(state);
        graft_safetensors_close(file);
        return graft_fail_nomem(e, "weight set");
    }
    atomic_init(&f->refs, 1);
    f->file = file;
    f->state = state;
    atomic_init(&w->refs, 1);
    w->place.file = f;
    *out = w;
    return GRAFT_OK;
}

graft_weights *graft_set_create(const graft_set_place *place)
{
    graft_weights *w = graft_calloc(1, sizeof *w);
    if (!w) return NULL;
    atomic_init(&w->refs, 1);
    w->place = *place;
    atomic_fetch_add(&w->place.file->refs, 1);
    return w;
}

graft_status graft_weights_part(graft_weights *base, const char *prefix, graft_weights **out,
                                graft_err *e)
{
    if (strlen(prefix) >= sizeof base->place.prefix)
        return graft_fail(e, GRAFT_E_ARG, "prefix %s is too long", prefix);
    graft_weights *w = graft_set_create(&base->place);
    if (!w) return graft_fail_nomem(e, "weight set");
    snprintf(w->place.prefix, sizeof w->place.prefix, "%s", prefix);
    *out = w;
    return GRAFT_OK;
}

const char *graft_weights_prefix(const graft_weights *w)
{
    return w->place.prefix;
}

graft_weights *graft_weights_retain(graft_weights *w)
{
    atomic_fetch_add(&w->refs, 1);
    return w;
}

void graft_weights_release(graft_weights *w)
{
    if (!w || atomic_fetch_sub(&w->refs, 1) != 1) return;
    const graft_map_entry *entry;
    for (size_t pos = 0; (entry = graft_map_next(&w->patches, &pos));) {
        graft_free(((graft_set_patches *)entry->value)->patch);
        graft_free(entry->value);
    }
    graft_map_finish(&w->patches);
    for (size_t i = 0; i < w->n_owners; i++) graft_weights_release(w->owners[i]);
    graft_free(w->owners);
    for (size_t i = 0; i < w->n_terms; i++) graft_set_term_finish(&w->term[i]);
    graft_free(w->term);
    graft_weights_release(w->below);
    graft_set_file_release(w->place.file);
    graft_free(w);
}

const graft_safetensors *graft_weights_file(const graft_weights *w)
{
    return w->place.file->file;
}

graft_status graft_set_add_patch(graft_weights *w, const char *name, const graft_patch *patch,
                                 graft_err *e)
{
    graft_set_patches *list = graft_map_get(&w->patches, name);
    if (!list) {
        list = graft_calloc(1, sizeof *list);
        if (!list || graft_map_put(&w->patches, name, list)) {
            graft_free(list);
            return graft_fail_nomem(e, "patch list");
        }
    }
    graft_patch *grown = graft_realloc(list->patch, list->n + 1, sizeof *grown);
    if (!grown) return graft_fail_nomem(e, "patch list");
    list->patch = grown;
    list->patch[list->n++] = *patch;
    return GRAFT_OK;
}

static graft_status copy_patches(const graft_weights *from, graft_weights *to, graft_err *e)
{
    const graft_map_entry *entry;
    for (size_t pos = 0; (entry = graft_map_next(&from->patches, &pos));) {
        const graft_set_patches *list = entry->value;
        for (size_t i = 0; i < list->n; i++) {
            graft_status st = graft_set_add_patch(to, entry->key, &list->patch[i], e);
            if (st) return st;
        }
    }
    return GRAFT_OK;
}

/* What `base` is without patches, with the patches and owners of `from`, and room for one owner
 * more. */
static graft_status derive(const graft_weights *base, const graft_weights *from,
                           graft_weights **out, graft_err *e)
{
    graft_weights *w;
    graft_status st = graft_weights_plain(base, &w, e);
    if (st) return st;
    w->owners = graft_malloc_array(from->n_owners + 1, sizeof *w->owners);
    for (size_t i = 0; w->owners && i < from->n_owners; i++)
        w->owners[w->n_owners++] = graft_weights_retain(from->owners[i]);
    st = w->owners ? copy_patches(from, w, e) : graft_fail_nomem(e, "weight set");
    if (st)
        graft_weights_release(w);
    else
        *out = w;
    return st;
}

graft_status graft_weights_patch(graft_weights *base, const char *const *name,
                                 const graft_patch *patch, size_t n, graft_weights *owner,
                                 graft_weights **out, graft_err *e)
{
    graft_weights *w;
    graft_status st = derive(base, base, &w, e);
    if (st) return st;
    w->owners[w->n_owners++] = graft_weights_retain(owner);
    for (size_t i = 0; i < n && !st; i++) st = graft_set_add_patch(w, name[i], &patch[i], e);
    if (st)
        graft_weights_release(w);
    else
        *out = w;
    return st;
}

graft_status graft_weights_rebase(graft_weights *base, const graft_weights *from,
                                  graft_weights **out, graft_err *e)
{
    return derive(base, from, out, e);
}

const graft_st_tensor *graft_set_find(const graft_set_place *p, const char *name)
{
    char full[sizeof p->prefix + 512];
    if (!graft_str_starts(name, p->called)) return NULL;
    name += strlen(p->called);
    if (!p->prefix[0]) return graft_safetensors_find(p->file->file, name);
    int n = snprintf(full, sizeof full, "%s%s", p->prefix, name);
    return n < (int)sizeof full ? graft_safetensors_find(p->file->file, full) : NULL;
}

const graft_st_tensor *graft_weights_find(const graft_weights *w, const char *name)
{
    return graft_set_find(&w->place, name);
}

#define SOURCE_RANK (GRAFT_MAX_RANK + 1)

/* The shape that source k of the slot must have; returns its rank. */
static int source_shape(const graft_gslot *s, size_t k, int64_t dim[SOURCE_RANK])
{
    memcpy(dim, s->dim, sizeof s->dim);
    if (s->kind == GRAFT_SLOT_ROWS) dim[0] = s->rows[k];
    if (s->kind == GRAFT_SLOT_TRANSPOSE) {
        dim[0] = s->dim[1];
        dim[1] = s->dim[0];
    }
    if (graft_gslot_crop(s)) {
        dim[0] = s->rows[0] * s->rows[0];
        dim[1] = s->dim[3];
        return 2;
    }
    if (graft_gslot_part(s)) graft_gslot_part_shape(s, dim);
    if (s->kind == GRAFT_SLOT_LAST) {
        dim[2] = s->rows[0];
        dim[3] = s->dim[2];
        dim[4] = s->dim[3];
        return 5;
    }
    return s->rank;
}

/* Whether t, of convolutions over time, rows and columns, has a row of the matrix for each. */
static bool fits_rows(const int64_t dim[2], const graft_st_tensor *t)
{
    int64_t values;
    return t->shape[0] == dim[0] && graft_size_product(t->shape + 1, t->rank - 1, &values) &&
           values == dim[1];
}

/* Whether t has the shape of source k. Dimensions of 1 do not count: a 1x1 convolution and a linear
 * layer are written with either rank. A kernel that is as large as what it sees is a matrix, and
 * what lies in one row may be written as several. */
static bool fits(const graft_gslot *s, size_t k, const graft_st_tensor *t)
{
    int64_t dim[SOURCE_RANK];
    int rank = source_shape(s, k, dim), i = 0, j = 0;
    if (s->kind == GRAFT_SLOT_PLAIN && rank == 2 && t->rank == 5) return fits_rows(dim, t);
    if (s->kind == GRAFT_SLOT_PLAIN && rank == 2 && dim[0] == 1 && t->rank == 2)
        return t->shape[0] > 0 && dim[1] / t->shape[0] == t->shape[1] && dim[1] % t->shape[0] == 0;
    for (;;) {
        while (i < rank && dim[i] == 1) i++;
        while (j < t->rank && t->shape[j] == 1) j++;
        if (i == rank || j == t->rank) return i == rank && j == t->rank;
        if (dim[i++] != t->shape[j++]) return false;
    }
}

/* Scales lie behind the values, one for each row as the file counts them: there may be no other
 * dimension before it. */
static bool has_rows(const graft_gslot *s, size_t k, const graft_st_tensor *t)
{
    int64_t dim[SOURCE_RANK];
    source_shape(s, k, dim);
    return !graft_is_quantized(t->dtype) || (t->rank > 0 && t->shape[0] == dim[0]);
}

static const char *source_text(const graft_gslot *s, size_t k, char *out, size_t size)
{
    int64_t dim[SOURCE_RANK];
    return graft_safetensors_shape_text(dim, source_shape(s, k, dim), out, size);
}

/* Whether source k may be this tensor of a file. */
static graft_status check_source(const graft_gslot *s, size_t k, const graft_safetensors *f,
                                 const char *prefix, const graft_st_tensor *t, graft_err *e)
{
    const char *path = graft_safetensors_path(f);
    if (!t)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor %s%s is missing", path, prefix,
                          s->source[k]);
    if (!fits(s, k, t) || !has_rows(s, k, t)) {
        char there[160], wanted[160];
        return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor %s has the shape %s where %s belongs",
                          path, graft_st_called(t),
                          graft_safetensors_shape_text(t->shape, t->rank, there, sizeof there),
                          source_text(s, k, wanted, sizeof wanted));
    }
    if (!graft_st_is_weight(t))
        return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor %s holds no floating-point numbers", path,
                          graft_st_called(t));
    return GRAFT_OK;
}

static bool counts(const graft_weight_term *t, float times)
{
    for (int k = 0; k < GRAFT_THIRDS; k++)
        if (t->factor[k] != times) return false;
    return true;
}

/* Whether the term's values are those of its tensor, as they lie in the file. */
static bool as_they_lie(const graft_weight_term *t)
{
    return counts(t, 1.0f) && !(t->tensor && graft_st_packed(t->tensor));
}

/* All terms of a source, checked; *t: the first, or where all cancel out that which has the shape.
 * `sum`: it is not stored as it is. */
static graft_status find_source(const graft_weights *w, const graft_gslot *s, size_t k,
                                graft_weight_term *t, bool *sum, graft_err *e)
{
    graft_weight_term next;
    size_t n = 0;
    for (size_t at = 0; graft_weights_next_term(w, s->source[k], &at, &next); n++) {
        graft_status st = check_source(s, k, next.file, next.prefix, next.tensor, e);
        if (st) return st;
        if (!n) *t = next;
    }
    *sum = n != 1 || !as_they_lie(t);
    if (n) return GRAFT_OK;
    *t = (graft_weight_term){.tensor = graft_weights_find(w, s->source[k]),
                             .file = graft_weights_file(w),
                             .prefix = w->place.prefix};
    return check_source(s, k, t->file, t->prefix, t->tensor, e);
}

graft_status graft_weights_check(const graft_weights *w, const graft_graph *g, graft_err *e)
{
    for (size_t i = 0; i < g->n_slots; i++)
        for (size_t k = 0; k < g->slot[i].n_sources; k++) {
            graft_weight_term t;
            bool sum;
            graft_status st = find_source(w, &g->slot[i], k, &t, &sum, e);
            if (st) return st;
        }
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ content */

typedef graft_hash tensor_name(graft_tensor_state *, const graft_st_tensor *);

/* Mixes in what source k is a sum of; a stored tensor alone is its own name, so that a sum which
 * comes to one is the same to everything that asks. */
static graft_status mix_terms(graft_hash *h, const graft_weights *w, const graft_gslot *slot,
                              size_t k, tensor_name *part, graft_err *e)
{
    static const char word[] = "sum";
    graft_weight_term t;
    bool sum;
    graft_hash content;
    graft_status st = find_source(w, slot, k, &t, &sum, e);
    if (st) return st;
    if (!sum) {
        content = part(t.state, t.tensor);
        *h = graft_hash_mix(*h, &content, sizeof content);
        return GRAFT_OK;
    }
    for (size_t at = 0; graft_weights_next_term(w, slot->source[k], &at, &t);) {
        content = part(t.state, t.tensor);
        *h = graft_hash_mix(*h, &content, sizeof content);
        *h = graft_hash_mix(*h, t.factor, sizeof t.factor);
    }
    *h = graft_hash_mix(*h, word, sizeof word);
    return GRAFT_OK;
}

/* The slot's name, by what `part` says of its tensors. */
static graft_status slot_name(const graft_weights *w, const graft_gslot *slot, tensor_name *part,
                              graft_hash *out, graft_err *e)
{
    graft_hash h = {(uint64_t)slot->kind, 0};
    h = graft_hash_mix(h, slot->dim, (size_t)slot->rank * sizeof *slot->dim);
    if (slot->hadamard) h = graft_hash_mix(h, &slot->hadamard, sizeof slot->hadamard);
    for (size_t k = 0; k < slot->n_sources; k++) {
        graft_status st = mix_terms(&h, w, slot, k, part, e);
        if (st) return st;
        const graft_set_patches *list = graft_map_get(&w->patches, slot->source[k]);
        for (size_t i = 0; list && i < list->n; i++) {
            if (list->patch[i].strength == 0.0f) continue;
            h = graft_hash_mix(h, &list->patch[i].hash, sizeof list->patch[i].hash);
            h = graft_hash_mix(h, &list->patch[i].strength, sizeof list->patch[i].strength);
        }
    }
    *out = h;
    return GRAFT_OK;
}

graft_status graft_weights_slot_hash(const graft_weights *w, const graft_gslot *slot,
                                     graft_hash *out, graft_err *e)
{
    return slot_name(w, slot, graft_tensor_hash, out, e);
}

graft_status graft_weights_slot_sample(const graft_weights *w, const graft_gslot *slot,
                                       graft_hash *out, graft_err *e)
{
    return slot_name(w, slot, graft_tensor_sample, out, e);
}

graft_status graft_weights_source(const graft_weights *w, const graft_gslot *slot, size_t k,
                                  bool content, graft_slot_source *out, graft_err *e)
{
    const graft_set_patches *list = graft_map_get(&w->patches, slot->source[k]);
    graft_weight_term t;
    *out = (graft_slot_source){.rows = slot->rank ? slot->dim[0] : 1};
    graft_status st = find_source(w, slot, k, &t, &out->sum, e);
    if (st) return st;
    out->tensor = t.tensor;
    if (slot->kind == GRAFT_SLOT_ROWS) out->rows = slot->rows[k];
    out->patch = list ? list->patch : NULL;
    out->n_patches = list ? list->n : 0;
    if (out->sum) return GRAFT_OK;
    out->state = t.state;
    out->sample = graft_tensor_sample(out->state, out->tensor);
    if (content) out->content = graft_tensor_hash(out->state, out->tensor);
    return GRAFT_OK;
}

bool graft_weights_slot_hashed(const graft_weights *w, const graft_gslot *slot)
{
    graft_weight_term t;
    for (size_t k = 0; k < slot->n_sources; k++)
        for (size_t at = 0; graft_weights_next_term(w, slot->source[k], &at, &t);)
            if (!t.tensor || !graft_tensor_known(t.state)) return false;
    return true;
}

static bool patched(const graft_weights *w, const char *name)
{
    const graft_set_patches *list = graft_map_get(&w->patches, name);
    for (size_t i = 0; list && i < list->n; i++)
        if (list->patch[i].strength != 0.0f) return true;
    return false;
}

bool graft_weights_slot_patched(const graft_weights *w, const graft_gslot *slot)
{
    for (size_t k = 0; k < slot->n_sources; k++)
        if (patched(w, slot->source[k])) return true;
    return false;
}

bool graft_weights_slot_derived(const graft_weights *w, const graft_gslot *slot)
{
    graft_weight_term t;
    for (size_t k = 0; k < slot->n_sources; k++)
        if (!graft_weights_stored(w, slot->source[k], &t)) return true;
    return false;
}

/* Whether the tensor is one of a file, without patches; *out is its only term then. */
static bool is_single(const graft_weights *w, const char *name, graft_weight_term *out)
{
    graft_weight_term more;
    size_t at = 0;
    return graft_weights_next_term(w, name, &at, out) &&
           !graft_weights_next_term(w, name, &at, &more) && !patched(w, name);
}

bool graft_weights_only(const graft_weights *w, const char *name, graft_weight_term *out)
{
    return is_single(w, name, out) && out->tensor &&
           counts(out, out->tensor->scale != 0 ? out->tensor->scale : 1);
}

bool graft_weights_packed(const graft_weights *w, const char *name, graft_weight_term *out)
{
    return graft_weights_only(w, name, out) && graft_packed_type(out->tensor);
}

/* Tensor `at` of the set's own file, where it is among the set's and can stay packed; else NULL. */
static const graft_st_tensor *packed_at(const graft_weights *w, size_t at)
{
    const graft_st_tensor *t = graft_safetensors_at(w->place.file->file, at);
    return graft_packed_as(t) && graft_str_starts(t->name, w->place.prefix) ? t : NULL;
}

bool graft_weights_next_packed(const graft_weights *w, size_t *at, char name[GRAFT_WEIGHTS_NAME])
{
    const size_t own = graft_safetensors_count(w->place.file->file);
    while (*at < own) {
        const graft_st_tensor *t = packed_at(w, (*at)++);
        const int n = t ? snprintf(name, GRAFT_WEIGHTS_NAME, "%s%s", w->place.called,
                                   t->name + strlen(w->place.prefix))
                        : 0;
        if (n > 0 && n < GRAFT_WEIGHTS_NAME) return true;
    }
    if (!w->below) return false;
    size_t rest = *at - own;
    const bool any = graft_weights_next_packed(w->below, &rest, name);
    *at = own + rest;
    return any;
}

uint64_t graft_weights_packed_values(const graft_weights *w)
{
    uint64_t values = w->below ? graft_weights_packed_values(w->below) : 0;
    for (size_t i = 0; i < graft_safetensors_count(w->place.file->file); i++) {
        const graft_st_tensor *t = packed_at(w, i);
        if (t) values += (uint64_t)graft_st_values(t);
    }
    return values;
}

bool graft_weights_slot_mixed(const graft_weights *w, const graft_gslot *slot)
{
    graft_weight_term t;
    for (size_t k = 0; k < slot->n_sources; k++)
        if (!graft_weights_only(w, slot->source[k], &t)) return true;
    return false;
}

bool graft_weights_stored(const graft_weights *w, const char *name, graft_weight_term *out)
{
    return is_single(w, name, out) && as_they_lie(out);
}

bool graft_weights_shared(const graft_weights *w)
{
    return atomic_load(&w->refs) > 1;
}

static uint64_t bytes_at(const graft_set_place *p)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < graft_safetensors_count(p->file->file); i++) {
        const graft_st_tensor *t = graft_safetensors_at(p->file->file, i);
        if (!t->part && strncmp(t->name, p->prefix, strlen(p->prefix)) == 0) bytes += t->bytes;
    }
    return bytes;
}

uint64_t graft_weights_stored_bytes(const graft_weights *w)
{
    uint64_t bytes = w->term ? 0 : bytes_at(&w->place);
    if (w->below) bytes += graft_weights_stored_bytes(w->below);
    for (size_t i = 0; i < w->n_terms; i++) bytes += bytes_at(&w->term[i].place);
    return bytes;
}

/* Positions that some files count, and flags. */
static bool is_integer(graft_dtype t)
{
    return t == GRAFT_I64 || t == GRAFT_I32 || t == GRAFT_BOOL8;
}

graft_dtype graft_weights_narrow(const graft_weights *w)
{
    const graft_safetensors *f = w->place.file->file;
    size_t tensors, patches;
    graft_dtype all = GRAFT_DTYPE_NONE;
    graft_weights_patch_count(w, &tensors, &patches);
    if (patches || graft_weights_is_sum(w)) return GRAFT_DTYPE_NONE;
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        if (t->rank < 2 || strncmp(t->name, w->place.prefix, strlen(w->place.prefix)) != 0 ||
            is_integer(t->dtype))
            continue;
        if (t->scale != 0 || graft_st_packed(t) || (all && t->dtype != all))
            return GRAFT_DTYPE_NONE;
        all = t->dtype;
    }
    return all == GRAFT_F16 || all == GRAFT_BF16 ? all : GRAFT_DTYPE_NONE;
}

void graft_weights_patch_count(const graft_weights *w, size_t *tensors, size_t *patches)
{
    const graft_map_entry *entry;
    *tensors = *patches = 0;
    for (size_t pos = 0; (entry = graft_map_next(&w->patches, &pos));) {
        const graft_set_patches *list = entry->value;
        size_t before = *patches;
        for (size_t i = 0; i < list->n; i++) *patches += list->patch[i].strength != 0.0f;
        *tensors += *patches > before;
    }
}

void graft_weights_report(const graft_weights *w, const graft_gslot *slot, const graft_log *log)
{
    graft_weight_term t;
    for (size_t k = 0; k < slot->n_sources; k++)
        for (size_t at = 0; graft_weights_next_term(w, slot->source[k], &at, &t);) {
            int none = 0;
            if (!t.tensor || !graft_tensor_known(t.state) || !t.state->non_finite ||
                !atomic_compare_exchange_strong(&t.state->warned, &none, 1))
                continue;
            graft_log_printf(log, GRAFT_LOG_WARN, "%s: tensor %s holds values that are not finite",
                             graft_safetensors_path(t.file), graft_st_called(t.tensor));
        }
}

graft_status graft_weights_unchanged(const graft_weights *w, graft_err *e)
{
    graft_status st = graft_safetensors_check(w->place.file->file, e);
    if (!st && w->below) st = graft_weights_unchanged(w->below, e);
    for (size_t i = 0; i < w->n_terms && !st; i++)
        st = graft_safetensors_check(w->term[i].place.file->file, e);
    for (size_t i = 0; i < w->n_owners && !st; i++) st = graft_weights_unchanged(w->owners[i], e);
    return st;
}

void graft_weights_forget(const graft_weights *w, const graft_gslot *slot)
{
    graft_weight_term t;
    for (size_t k = 0; k < slot->n_sources; k++)
        for (size_t at = 0; graft_weights_next_term(w, slot->source[k], &at, &t);)
            if (t.tensor) graft_safetensors_forget(t.file, t.tensor);
}

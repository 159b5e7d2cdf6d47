#include "engine/weights/weights.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "engine/weights/quantized.h"

/* The file and what was learned of it: shared by a set and all sets patched from it. */
typedef struct weights_file {
    _Atomic int refs;
    graft_safetensors *file;
    graft_tensor_state *state; /* of each tensor, as in graft_safetensors_at() */
} weights_file;

typedef struct patch_list {
    graft_patch *patch;
    size_t n;
} patch_list;

typedef struct patch_owner {
    graft_weights *set;
    float strength; /* of all its patches */
} patch_owner;

struct graft_weights {
    _Atomic int refs;
    weights_file *file;
    char prefix[128];
    graft_map patches; /* tensor name without prefix -> patch_list */
    patch_owner *owners;
    size_t n_owners;
};

static void file_release(weights_file *f)
{
    if (atomic_fetch_sub(&f->refs, 1) != 1) return;
    graft_safetensors_close(f->file);
    graft_free(f->state);
    graft_free(f);
}

graft_status graft_weights_create(graft_safetensors *file, graft_weights **out, graft_err *e)
{
    graft_weights *w = graft_calloc(1, sizeof *w);
    weights_file *f = graft_calloc(1, sizeof *f);
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
    w->file = f;
    *out = w;
    return GRAFT_OK;
}

/* A set on the same file with the same prefix, no patches and no owners. */
static graft_weights *share_file(const graft_weights *base)
{
    graft_weights *w = graft_calloc(1, sizeof *w);
    if (!w) return NULL;
    atomic_init(&w->refs, 1);
    w->file = base->file;
    atomic_fetch_add(&w->file->refs, 1);
    memcpy(w->prefix, base->prefix, sizeof w->prefix);
    return w;
}

graft_status graft_weights_part(graft_weights *base, const char *prefix, graft_weights **out,
                                graft_err *e)
{
    if (strlen(prefix) >= sizeof base->prefix)
        return graft_fail(e, GRAFT_E_ARG, "prefix %s is too long", prefix);
    graft_weights *w = share_file(base);
    if (!w) return graft_fail_nomem(e, "weight set");
    snprintf(w->prefix, sizeof w->prefix, "%s", prefix);
    *out = w;
    return GRAFT_OK;
}

const char *graft_weights_prefix(const graft_weights *w)
{
    return w->prefix;
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
        graft_free(((patch_list *)entry->value)->patch);
        graft_free(entry->value);
    }
    graft_map_finish(&w->patches);
    for (size_t i = 0; i < w->n_owners; i++) graft_weights_release(w->owners[i].set);
    graft_free(w->owners);
    file_release(w->file);
    graft_free(w);
}

const graft_safetensors *graft_weights_file(const graft_weights *w)
{
    return w->file->file;
}

static graft_status add_patch(graft_weights *w, const char *name, const graft_patch *patch,
                              graft_err *e)
{
    patch_list *list = graft_map_get(&w->patches, name);
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
        const patch_list *list = entry->value;
        for (size_t i = 0; i < list->n; i++) {
            graft_status st = add_patch(to, entry->key, &list->patch[i], e);
            if (st) return st;
        }
    }
    return GRAFT_OK;
}

/* A set on base's file with the patches and owners of `from`, and room for one owner more. */
static graft_status derive(const graft_weights *base, const graft_weights *from,
                           graft_weights **out, graft_err *e)
{
    graft_weights *w = share_file(base);
    if (!w) return graft_fail_nomem(e, "weight set");
    w->owners = graft_malloc_array(from->n_owners + 1, sizeof *w->owners);
    for (size_t i = 0; w->owners && i < from->n_owners; i++)
        w->owners[w->n_owners++] =
            (patch_owner){graft_weights_retain(from->owners[i].set), from->owners[i].strength};
    graft_status st = w->owners ? copy_patches(from, w, e) : graft_fail_nomem(e, "weight set");
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
    w->owners[w->n_owners++] = (patch_owner){graft_weights_retain(owner), patch[0].strength};
    for (size_t i = 0; i < n && !st; i++) st = add_patch(w, name[i], &patch[i], e);
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

const graft_st_tensor *graft_weights_find(const graft_weights *w, const char *name)
{
    char full[sizeof w->prefix + 512];
    if (!w->prefix[0]) return graft_safetensors_find(w->file->file, name);
    int n = snprintf(full, sizeof full, "%s%s", w->prefix, name);
    return n < (int)sizeof full ? graft_safetensors_find(w->file->file, full) : NULL;
}

static graft_tensor_state *state_of(const graft_weights *w, const graft_st_tensor *t)
{
    return &w->file->state[t - graft_safetensors_at(w->file->file, 0)];
}

/* The shape that source k of the slot must have; returns its rank. */
static int source_shape(const graft_gslot *s, size_t k, int64_t dim[GRAFT_MAX_RANK])
{
    memcpy(dim, s->dim, sizeof s->dim);
    if (s->kind == GRAFT_SLOT_ROWS) dim[0] = s->rows[k];
    if (s->kind == GRAFT_SLOT_TRANSPOSE) {
        dim[0] = s->dim[1];
        dim[1] = s->dim[0];
    }
    return s->rank;
}

/* Whether t has the shape of source k. Dimensions of 1 do not count: a 1x1 convolution and a linear
 * layer are written with either rank. */
static bool fits(const graft_gslot *s, size_t k, const graft_st_tensor *t)
{
    int64_t dim[GRAFT_MAX_RANK];
    int rank = source_shape(s, k, dim), i = 0, j = 0;
    for (;;) {
        while (i < rank && dim[i] == 1) i++;
        while (j < t->rank && t->shape[j] == 1) j++;
        if (i == rank || j == t->rank) return i == rank && j == t->rank;
        if (dim[i++] != t->shape[j++]) return false;
    }
}

static const char *source_text(const graft_gslot *s, size_t k, char *out, size_t size)
{
    int64_t dim[GRAFT_MAX_RANK];
    return graft_safetensors_shape_text(dim, source_shape(s, k, dim), out, size);
}

static graft_status find_source(const graft_weights *w, const graft_gslot *s, size_t k,
                                const graft_st_tensor **out, graft_err *e)
{
    const char *path = graft_safetensors_path(w->file->file);
    const graft_st_tensor *t = graft_weights_find(w, s->source[k]);
    if (!t)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor %s%s is missing", path, w->prefix,
                          s->source[k]);
    if (!fits(s, k, t)) {
        char there[160], wanted[160];
        return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor %s%s has the shape %s where %s belongs",
                          path, w->prefix, s->source[k],
                          graft_safetensors_shape_text(t->shape, t->rank, there, sizeof there),
                          source_text(s, k, wanted, sizeof wanted));
    }
    if (t->dtype != GRAFT_F32 && t->dtype != GRAFT_F16 && t->dtype != GRAFT_BF16 &&
        t->dtype != GRAFT_F64 && t->dtype != GRAFT_F8_E4M3 && t->dtype != GRAFT_F8_E5M2 &&
        !graft_is_quantized(t->dtype))
        return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor %s%s holds no floating-point numbers",
                          path, w->prefix, s->source[k]);
    *out = t;
    return GRAFT_OK;
}

graft_status graft_weights_check(const graft_weights *w, const graft_graph *g, graft_err *e)
{
    for (size_t i = 0; i < g->n_slots; i++)
        for (size_t k = 0; k < g->slot[i].n_sources; k++) {
            const graft_st_tensor *t;
            graft_status st = find_source(w, &g->slot[i], k, &t, e);
            if (st) return st;
        }
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ content */

static graft_hash tensor_hash(const graft_weights *w, const graft_st_tensor *t)
{
    return graft_tensor_hash(state_of(w, t), t);
}

static graft_hash tensor_sample(const graft_weights *w, const graft_st_tensor *t)
{
    return graft_tensor_sample(state_of(w, t), t);
}

/* The slot's name, by what `part` says of its tensors. */
static graft_status slot_name(const graft_weights *w, const graft_gslot *slot,
                              graft_hash (*part)(const graft_weights *, const graft_st_tensor *),
                              graft_hash *out, graft_err *e)
{
    graft_hash h = {(uint64_t)slot->kind, 0};
    h = graft_hash_mix(h, slot->dim, (size_t)slot->rank * sizeof *slot->dim);
    for (size_t k = 0; k < slot->n_sources; k++) {
        const graft_st_tensor *t;
        graft_status st = find_source(w, slot, k, &t, e);
        if (st) return st;
        graft_hash content = part(w, t);
        h = graft_hash_mix(h, &content, sizeof content);
        const patch_list *list = graft_map_get(&w->patches, slot->source[k]);
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
    return slot_name(w, slot, tensor_hash, out, e);
}

graft_status graft_weights_slot_sample(const graft_weights *w, const graft_gslot *slot,
                                       graft_hash *out, graft_err *e)
{
    return slot_name(w, slot, tensor_sample, out, e);
}

graft_status graft_weights_source(const graft_weights *w, const graft_gslot *slot, size_t k,
                                  bool content, graft_slot_source *out, graft_err *e)
{
    const patch_list *list = graft_map_get(&w->patches, slot->source[k]);
    *out = (graft_slot_source){.rows = slot->rank ? slot->dim[0] : 1};
    graft_status st = find_source(w, slot, k, &out->tensor, e);
    if (st) return st;
    if (slot->kind == GRAFT_SLOT_ROWS) out->rows = slot->rows[k];
    out->patch = list ? list->patch : NULL;
    out->n_patches = list ? list->n : 0;
    out->state = state_of(w, out->tensor);
    out->sample = graft_tensor_sample(out->state, out->tensor);
    if (content) out->content = graft_tensor_hash(out->state, out->tensor);
    return GRAFT_OK;
}

bool graft_weights_slot_hashed(const graft_weights *w, const graft_gslot *slot)
{
    for (size_t k = 0; k < slot->n_sources; k++) {
        const graft_st_tensor *t = graft_weights_find(w, slot->source[k]);
        if (!t || !graft_tensor_known(state_of(w, t))) return false;
    }
    return true;
}

static bool patched(const graft_weights *w, const char *name)
{
    const patch_list *list = graft_map_get(&w->patches, name);
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

bool graft_weights_shared(const graft_weights *w)
{
    return atomic_load(&w->refs) > 1;
}

const graft_weights *graft_weights_owner(const graft_weights *w, size_t i, float *strength)
{
    if (i >= w->n_owners) return NULL;
    *strength = w->owners[i].strength;
    return w->owners[i].set;
}

uint64_t graft_weights_stored_bytes(const graft_weights *w)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < graft_safetensors_count(w->file->file); i++) {
        const graft_st_tensor *t = graft_safetensors_at(w->file->file, i);
        if (!t->part && strncmp(t->name, w->prefix, strlen(w->prefix)) == 0) bytes += t->bytes;
    }
    return bytes;
}

void graft_weights_patch_count(const graft_weights *w, size_t *tensors, size_t *patches)
{
    const graft_map_entry *entry;
    *tensors = *patches = 0;
    for (size_t pos = 0; (entry = graft_map_next(&w->patches, &pos));) {
        const patch_list *list = entry->value;
        size_t before = *patches;
        for (size_t i = 0; i < list->n; i++) *patches += list->patch[i].strength != 0.0f;
        *tensors += *patches > before;
    }
}

void graft_weights_report(const graft_weights *w, const graft_gslot *slot, const graft_log *log)
{
    for (size_t k = 0; k < slot->n_sources; k++) {
        const graft_st_tensor *t = graft_weights_find(w, slot->source[k]);
        graft_tensor_state *s = t ? state_of(w, t) : NULL;
        int none = 0;
        if (!s || !graft_tensor_known(s) || !s->non_finite ||
            !atomic_compare_exchange_strong(&s->warned, &none, 1))
            continue;
        graft_log_printf(log, GRAFT_LOG_WARN, "%s: tensor %s holds values that are not finite",
                         graft_safetensors_path(w->file->file), t->name);
    }
}

graft_status graft_weights_unchanged(const graft_weights *w, graft_err *e)
{
    graft_status st = graft_safetensors_check(w->file->file, e);
    for (size_t i = 0; i < w->n_owners && !st; i++)
        st = graft_weights_unchanged(w->owners[i].set, e);
    return st;
}

void graft_weights_forget(const graft_weights *w, const graft_gslot *slot)
{
    for (size_t k = 0; k < slot->n_sources; k++) {
        const graft_st_tensor *t = graft_weights_find(w, slot->source[k]);
        if (t) graft_safetensors_forget(w->file->file, t);
    }
}

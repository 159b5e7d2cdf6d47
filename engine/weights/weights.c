#include "engine/weights/weights.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/alloc.h"
#include "base/half.h"
#include "base/map.h"
#include "engine/weights/patch.h"
#include "engine/weights/quantized.h"

/* What is known of one tensor of the file; index as in graft_safetensors_at(). */
typedef struct tensor_state {
    _Atomic int known; /* 1: hash and non_finite are set */
    _Atomic int warned;
    bool non_finite;
    _Atomic uint64_t sample; /* hash of a few bytes; 0: not yet known */
    graft_hash hash;
} tensor_state;

/* The file and what was learned of it: shared by a set and all sets patched from it. */
typedef struct weights_file {
    _Atomic int refs;
    graft_safetensors *file;
    tensor_state *state;
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
    tensor_state *state = graft_calloc(graft_safetensors_count(file), sizeof *state);
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

static tensor_state *state_of(const graft_weights *w, const graft_st_tensor *t)
{
    return &w->file->state[t - graft_safetensors_at(w->file->file, 0)];
}

static int64_t count_of(const int64_t *dim, int rank)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dim[i];
    return n;
}

/* Elements that source k of the slot must have. */
static int64_t source_count(const graft_gslot *s, size_t k)
{
    int64_t n = count_of(s->dim, s->rank);
    return s->kind == GRAFT_SLOT_ROWS ? n / s->dim[0] * s->rows[k] : n;
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

#define PIECE ((size_t)256 << 10) /* of the hash */
#define ROWS  ((size_t)512 << 10) /* read again by packing while they are in the cache */

/* True when some of the 16-bit or 32-bit numbers has all bits of `exponent`: infinities, and what
 * is no number. `top` is the highest bit of each, which `exponent` has not: adding the missing bits
 * of the exponent to it carries into that bit wherever one is missing. */
static bool exponent_full_plain(const uint8_t *p, size_t n, uint64_t exponent, uint64_t top)
{
    uint64_t all = ~0ull, v;
    for (; n; p += sizeof v, n -= n < sizeof v ? n : sizeof v) {
        v = 0;
        memcpy(&v, p, n < sizeof v ? n : sizeof v);
        all &= (~v & exponent) + exponent;
    }
    return (all & top) != top;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static bool exponent_full_avx2(const uint8_t *p, size_t n,
                                                               uint64_t exponent, uint64_t top)
{
    __m256i all = _mm256_set1_epi8(-1), all2 = all, e = _mm256_set1_epi64x((long long)exponent);
    uint64_t lane[4];
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m256i a = _mm256_loadu_si256((const void *)(p + i));
        __m256i b = _mm256_loadu_si256((const void *)(p + i + 32));
        all = _mm256_and_si256(all, _mm256_add_epi64(_mm256_andnot_si256(a, e), e));
        all2 = _mm256_and_si256(all2, _mm256_add_epi64(_mm256_andnot_si256(b, e), e));
    }
    all = _mm256_and_si256(all, all2);
    memcpy(lane, &all, sizeof lane);
    return (lane[0] & lane[1] & lane[2] & lane[3] & top) != top ||
           exponent_full_plain(p + i, n - i, exponent, top);
}
#endif

static bool exponent_full(const uint8_t *p, size_t n, uint64_t exponent, uint64_t top)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return exponent_full_avx2(p, n, exponent, top);
#endif
    return exponent_full_plain(p, n, exponent, top);
}

static bool has_non_finite(graft_dtype t, const void *p, size_t n)
{
    switch (t) {
    case GRAFT_F16:
        return exponent_full(p, n, 0x7c007c007c007c00, 0x8000800080008000);
    case GRAFT_BF16:
        return exponent_full(p, n, 0x7f807f807f807f80, 0x8000800080008000);
    case GRAFT_F32:
        return exponent_full(p, n, 0x7f8000007f800000, 0x8000000080000000);
    default:
        return false;
    }
}

/* A tensor on its way through the cache, from its begin to its end. */
typedef struct scan {
    const graft_st_tensor *t;
    tensor_state *state;
    size_t done;
    bool known, non_finite;
    graft_hasher hasher;
} scan;

static void scan_begin(scan *s, const graft_weights *w, const graft_st_tensor *t)
{
    s->t = t;
    s->state = state_of(w, t);
    s->done = 0;
    s->non_finite = false;
    s->known = atomic_load_explicit(&s->state->known, memory_order_acquire) == 1;
    if (!s->known) graft_hasher_init(&s->hasher);
}

/* Takes in at least what comes before `end`. */
static void scan_to(scan *s, size_t end)
{
    size_t bytes = (size_t)s->t->bytes;
    while (!s->known && s->done < end && s->done < bytes) {
        const uint8_t *p = (const uint8_t *)s->t->data + s->done;
        size_t n = bytes - s->done < PIECE ? bytes - s->done : PIECE;
        graft_hasher_add(&s->hasher, p, n);
        s->non_finite |= has_non_finite(s->t->dtype, p, n);
        s->done += n;
    }
}

static graft_hash scan_end(scan *s)
{
    scan_to(s, (size_t)s->t->bytes);
    if (s->known) return s->state->hash;
    graft_hash h = graft_hasher_end(&s->hasher);
    h = graft_hash_mix(h, &s->t->dtype, sizeof s->t->dtype);
    /* Two threads may get here; both write the same values, but only one may write. */
    int none = 0;
    if (atomic_compare_exchange_strong(&s->state->known, &none, 2)) {
        s->state->hash = h;
        s->state->non_finite = s->non_finite;
        atomic_store_explicit(&s->state->known, 1, memory_order_release);
    }
    return h;
}

static graft_hash tensor_hash(const graft_weights *w, const graft_st_tensor *t)
{
    scan s;
    scan_begin(&s, w, t);
    return scan_end(&s);
}

/* Hash of the bytes at a few places. */
static graft_hash tensor_sample(const graft_weights *w, const graft_st_tensor *t)
{
    enum { PLACES = 4, EACH = 64 };
    tensor_state *s = state_of(w, t);
    graft_hash h = {atomic_load_explicit(&s->sample, memory_order_relaxed), 0};
    if (h.lo) return h;
    uint8_t some[PLACES * EACH];
    size_t bytes = (size_t)t->bytes;
    if (bytes <= sizeof some) {
        h = graft_hash128(t->data, bytes);
    } else {
        for (size_t i = 0; i < PLACES; i++) {
            size_t at = (bytes - EACH) / (PLACES - 1) * i;
            memcpy(some + i * EACH, (const uint8_t *)t->data + at, EACH);
        }
        h = graft_hash128(some, sizeof some);
    }
    h = graft_hash_mix(h, &t->bytes, sizeof t->bytes);
    h = (graft_hash){graft_hash_mix(h, &t->dtype, sizeof t->dtype).lo | 1, 0};
    atomic_store_explicit(&s->sample, h.lo, memory_order_relaxed);
    return h;
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
    out->sample = tensor_sample(w, out->tensor);
    if (content) out->content = tensor_hash(w, out->tensor);
    return GRAFT_OK;
}

bool graft_weights_slot_hashed(const graft_weights *w, const graft_gslot *slot)
{
    for (size_t k = 0; k < slot->n_sources; k++) {
        const graft_st_tensor *t = graft_weights_find(w, slot->source[k]);
        if (!t || atomic_load_explicit(&state_of(w, t)->known, memory_order_acquire) != 1)
            return false;
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
        tensor_state *s = t ? state_of(w, t) : NULL;
        int none = 0;
        if (!s || atomic_load_explicit(&s->known, memory_order_acquire) != 1 || !s->non_finite ||
            !atomic_compare_exchange_strong(&s->warned, &none, 1))
            continue;
        graft_log_printf(log, GRAFT_LOG_WARN, "%s: tensor %s holds values that are not finite",
                         graft_safetensors_path(w->file->file), t->name);
    }
}

/* float32 values of source k, patches applied, into dst. */
static graft_status load_f32(const graft_weights *w, const graft_gslot *s, size_t k,
                             const graft_st_tensor *t, float *dst, graft_err *e)
{
    int64_t n = source_count(s, k);
    if (graft_is_quantized(t->dtype))
        graft_quantized_to_f32(t->dtype, t->data, t->shape[0], n / t->shape[0], dst);
    else
        graft_to_f32(t->dtype, t->data, dst, (size_t)n);
    const patch_list *list = graft_map_get(&w->patches, s->source[k]);
    for (size_t i = 0; list && i < list->n; i++) {
        if (list->patch[i].strength == 0.0f) continue;
        graft_status st = graft_patch_apply(&list->patch[i], t, dst, e);
        if (st) return st;
    }
    return GRAFT_OK;
}

/* Joins quantized sources: the values of all, then the scales of all. */
static void join_quantized(const graft_weights *w, const graft_gslot *s, graft_dtype dtype,
                           uint8_t *to)
{
    const graft_st_tensor *t;
    int64_t all = 0, n = count_of(s->dim, s->rank) / s->dim[0];
    for (size_t k = 0; k < s->n_sources; k++) all += source_count(s, k) / n;
    uint8_t *scale = to + graft_quantized_level_bytes(dtype, all, n);
    for (size_t k = 0; k < s->n_sources; k++) {
        find_source(w, s, k, &t, NULL);
        size_t level = (size_t)graft_quantized_level_bytes(dtype, source_count(s, k) / n, n);
        memcpy(to, t->data, level);
        memcpy(scale, (const uint8_t *)t->data + level, (size_t)t->bytes - level);
        to += level;
        scale += t->bytes - level;
    }
}

/* Joins sources of one dtype byte by byte; sets *done to false when that cannot be. */
static graft_status load_joined(const graft_weights *w, const graft_gslot *s, graft_slot_data *out,
                                bool *done, graft_err *e)
{
    size_t total = 0;
    const graft_st_tensor *t;
    *done = false;
    out->dtype = GRAFT_DTYPE_NONE;
    for (size_t k = 0; k < s->n_sources; k++) {
        graft_status st = find_source(w, s, k, &t, e);
        if (st) return st;
        if (patched(w, s->source[k]) || (k && t->dtype != out->dtype)) return GRAFT_OK;
        out->dtype = t->dtype;
        total += (size_t)t->bytes;
    }
    bool quantized = graft_is_quantized(out->dtype);
    if (quantized && s->kind == GRAFT_SLOT_TRANSPOSE) return GRAFT_OK;
    *done = true;
    if (s->n_sources == 1 && (quantized || (uintptr_t)t->data % graft_dtype_size(t->dtype) == 0)) {
        out->data = t->data;
        return GRAFT_OK;
    }
    uint8_t *p = graft_malloc_aligned(64, total);
    if (!p) return graft_fail_nomem(e, "weights");
    out->data = out->owned = p;
    if (quantized) {
        join_quantized(w, s, out->dtype, p);
        return GRAFT_OK;
    }
    for (size_t k = 0; k < s->n_sources; k++) {
        find_source(w, s, k, &t, NULL);
        memcpy(p, t->data, (size_t)t->bytes);
        p += t->bytes;
    }
    return GRAFT_OK;
}

static graft_status load_as_f32(const graft_weights *w, const graft_gslot *s, graft_slot_data *out,
                                graft_err *e)
{
    float *p = graft_malloc_aligned(64, (size_t)count_of(s->dim, s->rank) * sizeof *p);
    if (!p) return graft_fail_nomem(e, "weights");
    out->dtype = GRAFT_F32;
    out->data = out->owned = p;
    for (size_t k = 0; k < s->n_sources; k++) {
        const graft_st_tensor *t;
        graft_status st = find_source(w, s, k, &t, e);
        if (!st) st = load_f32(w, s, k, t, p, e);
        if (st) {
            graft_slot_data_finish(out);
            return st;
        }
        p += source_count(s, k);
    }
    return GRAFT_OK;
}

static graft_status transpose(const graft_gslot *s, graft_slot_data *d, graft_err *e)
{
    size_t rows = (size_t)s->dim[0], cols = (size_t)s->dim[1], size = graft_dtype_size(d->dtype);
    uint8_t *p = graft_malloc_aligned(64, rows * cols * size);
    if (!p) return graft_fail_nomem(e, "weights");
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < cols; k++)
            memcpy(p + (i * cols + k) * size, (const uint8_t *)d->data + (k * rows + i) * size,
                   size);
    graft_free(d->owned);
    d->data = d->owned = p;
    return GRAFT_OK;
}

graft_status graft_weights_load(const graft_weights *w, const graft_gslot *slot,
                                graft_slot_data *out, graft_err *e)
{
    bool done;
    *out = (graft_slot_data){0};
    graft_status st = load_joined(w, slot, out, &done, e);
    if (!st && !done) st = load_as_f32(w, slot, out, e);
    if (!st && slot->kind == GRAFT_SLOT_TRANSPOSE) st = transpose(slot, out, e);
    if (st) graft_slot_data_finish(out);
    return st;
}

graft_status graft_slot_data_float(graft_slot_data *d, const graft_gslot *s, graft_err *e)
{
    if (!graft_is_quantized(d->dtype)) return GRAFT_OK;
    int64_t n = count_of(s->dim, s->rank);
    float *p = graft_malloc_aligned(64, (size_t)n * sizeof *p);
    if (!p) return graft_fail_nomem(e, "weights");
    graft_quantized_to_f32(d->dtype, d->data, s->dim[0], n / s->dim[0], p);
    graft_free(d->owned);
    d->dtype = GRAFT_F32;
    d->data = d->owned = p;
    return GRAFT_OK;
}

void graft_slot_data_finish(graft_slot_data *d)
{
    graft_free(d->owned);
    *d = (graft_slot_data){0};
}

/* ------------------------------------------------------------------ in one pass */

struct graft_slot_reader {
    const graft_weights *w;
    const graft_gslot *slot;
    size_t source;
    int64_t row; /* of the source */
    scan scan;
};

/* Whether the sources' bytes are the slot's, and begin where the caller may ask for a row. */
static graft_status readable(const graft_weights *w, const graft_gslot *s, int64_t step, bool *yes,
                             graft_err *e)
{
    const graft_st_tensor *t;
    *yes = s->kind != GRAFT_SLOT_TRANSPOSE && s->rank > 0;
    for (size_t k = 0; k < s->n_sources && *yes; k++) {
        graft_status st = find_source(w, s, k, &t, e);
        if (st) return st;
        *yes = !patched(w, s->source[k]) && !graft_is_quantized(t->dtype) &&
               (uintptr_t)t->data % graft_dtype_size(t->dtype) == 0 &&
               (k + 1 == s->n_sources || s->rows[k] % step == 0);
    }
    return GRAFT_OK;
}

graft_status graft_slot_reader_create(const graft_weights *w, const graft_gslot *slot, int64_t step,
                                      graft_slot_reader **out, graft_err *e)
{
    bool yes;
    *out = NULL;
    graft_status st = readable(w, slot, step, &yes, e);
    if (st || !yes) return st;
    graft_slot_reader *r = graft_malloc_aligned(64, sizeof *r);
    if (!r) return graft_fail_nomem(e, "reading weights");
    r->w = w;
    r->slot = slot;
    r->source = 0;
    r->row = 0;
    *out = r;
    return GRAFT_OK;
}

int64_t graft_slot_reader_next(graft_slot_reader *r, int64_t step, graft_dtype *dtype,
                               const void **data)
{
    const graft_gslot *s = r->slot;
    if (r->source == s->n_sources) return 0;
    const graft_st_tensor *t = graft_weights_find(r->w, s->source[r->source]);
    int64_t all = s->kind == GRAFT_SLOT_ROWS ? s->rows[r->source] : s->dim[0];
    size_t row_bytes = (size_t)t->bytes / (size_t)all;
    if (!r->row) scan_begin(&r->scan, r->w, t);
    int64_t n = (int64_t)(ROWS / (row_bytes * (size_t)step + 1) + 1) * step;
    if (n > all - r->row) n = all - r->row;
    *dtype = t->dtype;
    *data = (const uint8_t *)t->data + (size_t)r->row * row_bytes;
    r->row += n;
    scan_to(&r->scan, (size_t)r->row * row_bytes);
    if (r->row == all) {
        scan_end(&r->scan);
        r->source++;
        r->row = 0;
    }
    return n;
}

void graft_slot_reader_destroy(graft_slot_reader *r)
{
    graft_free(r);
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

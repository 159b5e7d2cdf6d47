#include "engine/weights/pytorch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/map.h"
#include "base/size.h"
#include "base/str.h"
#include "engine/weights/pickle.h"
#include "engine/weights/zip.h"

/* How a pickle may be nested, how often its parts may occur in it, and how often its tensors and
 * their names may fill the file, until it is refused: parts and data can be shared. */
enum { MOST_DEPTH = 32, MOST_VISITS = 1 << 22, MOST_FILLS = 8, MOST_NAME = 1000 };
enum { NAMES_LEFT_OUT = 4, NAME_SHOWN = 60 }; /* of what is not read, in messages */
/* Bytes that a tensor takes in the list of a safetensors file, its name apart. */
enum { LEAST_ENTRY = 50 };

typedef graft_pickle_value value;

/* Bytes that tensors are views of. */
typedef struct storage {
    const uint8_t *data;
    uint64_t bytes;
    uint64_t unit; /* the older layout: bytes of an element */
} storage;

struct graft_pytorch {
    graft_mapping map; /* empty when the bytes are the caller's */
    const uint8_t *data;
    size_t size;
    char *path;
    graft_pickle *pickle;
    graft_zip *zip;  /* NULL: the older layout, where `storage` has them all */
    char *folder;    /* of the archive, ends in '/' */
    graft_map place; /* the older layout: key to an element of `storage` */
    storage *storage;
    graft_st_tensor *tensor;
    size_t n_tensors, cap_tensors;
    char **name; /* of tensor i */
    void **copy; /* of tensors that do not lie in one piece */
    size_t n_names, cap_names, n_copies, cap_copies, left_out;
    graft_str left_out_names; /* of the first of them */
    uint64_t bytes;           /* of all tensors and what lists them */
    const char *part;
};

static graft_status bad(const graft_pytorch *f, graft_err *e, const char *problem)
{
    return graft_fail(e, GRAFT_E_FORMAT, "%s: damaged PyTorch file: %s", f->path, problem);
}

/* ------------------------------------------------------------------ element types */

typedef struct type_name {
    const char *storage, *dtype;
    graft_dtype type; /* GRAFT_DTYPE_NONE: known, but nothing here computes with it */
    uint64_t unit;    /* bytes of an element */
} type_name;

static const type_name type_names[] = {
    {"FloatStorage", "float32", GRAFT_F32, 4},
    {"HalfStorage", "float16", GRAFT_F16, 2},
    {"BFloat16Storage", "bfloat16", GRAFT_BF16, 2},
    {"DoubleStorage", "float64", GRAFT_F64, 8},
    {"LongStorage", "int64", GRAFT_I64, 8},
    {"IntStorage", "int32", GRAFT_I32, 4},
    {"CharStorage", "int8", GRAFT_I8, 1},
    {"ByteStorage", "uint8", GRAFT_U8, 1},
    {"BoolStorage", "bool", GRAFT_BOOL8, 1},
    {"Float8_e4m3fnStorage", "float8_e4m3fn", GRAFT_F8_E4M3, 1},
    {"Float8_e5m2Storage", "float8_e5m2", GRAFT_F8_E5M2, 1},
    {"ShortStorage", "int16", GRAFT_DTYPE_NONE, 2},
    {"ComplexFloatStorage", "complex64", GRAFT_DTYPE_NONE, 8},
    {"ComplexDoubleStorage", "complex128", GRAFT_DTYPE_NONE, 16},
    {"QInt8Storage", "qint8", GRAFT_DTYPE_NONE, 1},
    {"QUInt8Storage", "quint8", GRAFT_DTYPE_NONE, 1},
    {"QInt32Storage", "qint32", GRAFT_DTYPE_NONE, 4},
};

static const type_name *type_of(const value *v)
{
    static const type_name unknown = {"", "", GRAFT_DTYPE_NONE, 0};
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
        if (graft_pickle_is_name(v, "torch", type_names[i].storage) ||
            graft_pickle_is_name(v, "torch", type_names[i].dtype))
            return &type_names[i];
    return &unknown;
}

/* ------------------------------------------------------------------ storages */

/* What is said of a storage: ("storage", its type, its key, where it was, how many elements). */
typedef struct reference {
    char key[64];
    const value *type;
    int64_t elements;
} reference;

static bool read_reference(const value *v, reference *r)
{
    const value *id = v && v->kind == GRAFT_PICKLE_PERSISTENT ? v->args : NULL;
    if (!id || id->kind != GRAFT_PICKLE_TUPLE || id->n < 5 ||
        !graft_pickle_is_text(id->item[0], "storage"))
        return false;
    const value *key = id->item[2], *count = id->item[4];
    if (key->kind != GRAFT_PICKLE_TEXT || key->text.n >= sizeof r->key ||
        memchr(key->text.at, 0, key->text.n) || count->kind != GRAFT_PICKLE_INT ||
        count->number < 0)
        return false;
    if (id->n > 5 && id->item[5]->kind != GRAFT_PICKLE_NONE) return false; /* a view of another */
    memcpy(r->key, key->text.at, key->text.n);
    r->key[key->text.n] = 0;
    r->type = id->item[1];
    r->elements = count->number;
    return true;
}

static graft_status find_storage(const graft_pytorch *f, const reference *r, storage *out,
                                 graft_err *e)
{
    if (!f->zip) {
        const storage *s = graft_map_get(&f->place, r->key);
        if (!s || !s->data) return bad(f, e, "a storage is missing");
        *out = *s;
        return GRAFT_OK;
    }
    char name[320];
    const graft_zip_entry *entry = NULL;
    if ((size_t)snprintf(name, sizeof name, "%sdata/%s", f->folder, r->key) < sizeof name)
        entry = graft_zip_find(f->zip, name);
    if (!entry || !entry->data) return bad(f, e, "a storage is missing, or compressed");
    *out = (storage){.data = entry->data, .bytes = entry->size};
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ tensors */

/* A tensor as the pickle has it: a view of a storage. */
typedef struct view {
    storage s;
    graft_dtype type;
    int rank;
    int64_t offset, size[GRAFT_SAFETENSORS_MAX_RANK], stride[GRAFT_SAFETENSORS_MAX_RANK];
    int64_t elements;
    bool packed; /* lies in one piece, in the order of its dimensions */
} view;

static bool read_numbers(const value *v, int64_t *out, int *n)
{
    if (v->kind != GRAFT_PICKLE_TUPLE || v->n > GRAFT_SAFETENSORS_MAX_RANK) return false;
    for (size_t i = 0; i < v->n; i++) {
        if (v->item[i]->kind != GRAFT_PICKLE_INT || v->item[i]->number < 0) return false;
        out[i] = v->item[i]->number;
    }
    *n = (int)v->n;
    return true;
}

/* The call that makes a tensor: what it calls, and of what. Parameters, and tensors with
 * attributes of their own, wrap one. NULL: v makes no tensor. */
static const value *tensor_args(const value *v, const value **callee)
{
    for (int depth = 0; v && v->kind == GRAFT_PICKLE_OBJECT && depth < 4; depth++) {
        const value *args = v->args;
        *callee = v->callee;
        if (!args || args->kind != GRAFT_PICKLE_TUPLE) return NULL;
        if (graft_pickle_is_name(*callee, "torch._tensor", "_rebuild_from_type_v2") &&
            args->n > 2) {
            *callee = args->item[0];
            args = args->item[2];
            if (args->kind != GRAFT_PICKLE_TUPLE) return NULL;
        }
        if ((graft_pickle_is_name(*callee, "torch._utils", "_rebuild_tensor") ||
             graft_pickle_is_name(*callee, "torch._utils", "_rebuild_tensor_v2") ||
             graft_pickle_is_name(*callee, "torch._utils", "_rebuild_tensor_v3")) &&
            args->n >= 4)
            return args;
        bool wrapped =
            graft_pickle_is_name(*callee, "torch._utils", "_rebuild_parameter") ||
            graft_pickle_is_name(*callee, "torch._utils", "_rebuild_parameter_with_state");
        if (!wrapped || !args->n) return NULL;
        v = args->item[0];
    }
    return NULL;
}

/* Whether v makes a tensor of any kind, as all functions do that PyTorch names so. */
static bool makes_tensor(const value *v)
{
    static const char begin[] = "_rebuild_";
    const value *callee = v->callee;
    size_t n = sizeof begin - 1;
    return (graft_pickle_in_module(callee, "torch._utils") ||
            graft_pickle_in_module(callee, "torch._tensor")) &&
           callee->text.n > n && memcmp(callee->text.at, begin, n) == 0;
}

/* Whether all elements lie in the storage; counts them, and sees whether they are in order. */
static bool measure(view *w)
{
    int64_t last = w->offset, in_order = 1,
            held = (int64_t)(w->s.bytes / graft_dtype_size(w->type));
    if (!graft_size_product(w->size, w->rank, &w->elements)) return false;
    w->packed = true;
    if (!w->elements) return true;
    for (int i = w->rank; i--;) {
        int64_t reach;
        if (w->size[i] == 1) w->stride[i] = 0; /* may be anything, and is not to be counted with */
        if (w->size[i] > 1 && w->stride[i] != in_order) w->packed = false;
        in_order *= w->size[i];
        if (__builtin_mul_overflow(w->size[i] - 1, w->stride[i], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return false;
    }
    return last < held;
}

/* *known false: no tensor of a kind that is read. */
static graft_status read_view(const graft_pytorch *f, const value *v, view *w, bool *known,
                              graft_err *e)
{
    const value *callee = NULL, *args = tensor_args(v, &callee);
    reference r;
    int strides;
    graft_status st;
    *known = false;
    if (!args || !read_reference(args->item[0], &r)) return GRAFT_OK;
    bool third = graft_pickle_is_name(callee, "torch._utils", "_rebuild_tensor_v3");
    w->type = type_of(third && args->n > 6 ? args->item[6] : r.type)->type;
    if (w->type == GRAFT_DTYPE_NONE) return GRAFT_OK;
    if (args->item[1]->kind != GRAFT_PICKLE_INT || args->item[1]->number < 0 ||
        !read_numbers(args->item[2], w->size, &w->rank) ||
        !read_numbers(args->item[3], w->stride, &strides) || strides != w->rank)
        return bad(f, e, "a tensor's shape");
    w->offset = args->item[1]->number;
    if ((st = find_storage(f, &r, &w->s, e))) return st;
    if (!measure(w)) return bad(f, e, "a tensor reaches beyond its storage");
    /* More elements than it has room for are the same ones again. */
    *known = (uint64_t)w->elements <= w->s.bytes / graft_dtype_size(w->type);
    return GRAFT_OK;
}

/* Elements in the order of the dimensions. */
static void gather(const view *w, uint8_t *to)
{
    size_t unit = graft_dtype_size(w->type);
    int64_t at[GRAFT_SAFETENSORS_MAX_RANK] = {0}, from = w->offset;
    for (int64_t k = 0; k < w->elements; k++, to += unit) {
        memcpy(to, w->s.data + (size_t)from * unit, unit);
        for (int i = w->rank; i--;) {
            from += w->stride[i];
            if (++at[i] < w->size[i]) break;
            from -= w->stride[i] * w->size[i];
            at[i] = 0;
        }
    }
}

static graft_status place_tensor(graft_pytorch *f, const view *w, graft_st_tensor *t, graft_err *e)
{
    size_t unit = graft_dtype_size(w->type);
    t->dtype = w->type;
    t->rank = w->rank;
    memcpy(t->shape, w->size, (size_t)w->rank * sizeof *t->shape);
    t->bytes = (uint64_t)w->elements * unit;
    /* Of which each is little more than the file. */
    f->bytes += t->bytes + strlen(t->name) + LEAST_ENTRY;
    if (f->bytes / MOST_FILLS > f->size)
        return graft_fail(e, GRAFT_E_LIMIT,
                          "%s: its tensors and their names have many times the file's size",
                          f->path);
    if (w->packed) {
        t->data = w->elements ? w->s.data + (size_t)w->offset * unit : w->s.data;
        return GRAFT_OK;
    }
    if (graft_grow(&f->copy, &f->cap_copies, f->n_copies + 1, sizeof *f->copy))
        return graft_fail_nomem(e, "a tensor");
    void *copy = graft_malloc((size_t)t->bytes);
    if (!copy) return graft_fail_nomem(e, "a tensor");
    f->copy[f->n_copies++] = copy;
    gather(w, copy);
    t->data = copy;
    return GRAFT_OK;
}

static graft_status add_tensor(graft_pytorch *f, const view *w, const char *name, graft_err *e)
{
    graft_st_tensor t = {.name = name};
    graft_status st = place_tensor(f, w, &t, e);
    if (st) return st;
    if (graft_grow(&f->tensor, &f->cap_tensors, f->n_tensors + 1, sizeof *f->tensor) ||
        graft_grow(&f->name, &f->cap_names, f->n_names + 1, sizeof *f->name))
        return graft_fail_nomem(e, "the list of tensors");
    char *copy = graft_strdup(name);
    if (!copy) return graft_fail_nomem(e, "the list of tensors");
    f->name[f->n_names++] = copy;
    t.name = copy;
    f->tensor[f->n_tensors++] = t;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ names */

typedef struct walk {
    graft_pytorch *f;
    graft_str name;
    int visits;
    graft_err *e;
} walk;

static graft_status visit(walk *w, const value *v, int depth);

/* These hold what a module is made of and are no part of its tensors' names. */
static bool is_silent(const value *key)
{
    return graft_pickle_is_text(key, "_parameters") || graft_pickle_is_text(key, "_modules") ||
           graft_pickle_is_text(key, "_buffers");
}

/* False: a key that is no name. */
static bool add_name(graft_str *name, const value *key)
{
    if (key->text.n > MOST_NAME || memchr(key->text.at ? key->text.at : "", 0, key->text.n))
        return false;
    if (key->kind != GRAFT_PICKLE_TEXT && key->kind != GRAFT_PICKLE_INT) return false;
    if (name->len) graft_str_puts(name, ".");
    if (key->kind == GRAFT_PICKLE_TEXT)
        graft_str_append(name, key->text.at, key->text.n);
    else
        graft_str_printf(name, "%" PRId64, key->number);
    return true;
}

static void cut_name(graft_str *name, size_t length)
{
    if (name->data) name->data[name->len = length] = 0;
}

static graft_status visit_pairs(walk *w, const value *v, int depth)
{
    for (size_t i = 0; i + 1 < v->n; i += 2) {
        size_t length = w->name.len;
        if (!is_silent(v->item[i]) && !add_name(&w->name, v->item[i])) continue;
        graft_status st = visit(w, v->item[i + 1], depth);
        if (st) return st;
        cut_name(&w->name, length);
    }
    return GRAFT_OK;
}

static graft_status visit_elements(walk *w, const value *v, int depth)
{
    for (size_t i = 0; i < v->n; i++) {
        size_t length = w->name.len;
        value key = {.kind = GRAFT_PICKLE_INT, .number = (int64_t)i};
        add_name(&w->name, &key);
        graft_status st = visit(w, v->item[i], depth);
        if (st) return st;
        cut_name(&w->name, length);
    }
    return GRAFT_OK;
}

/* Messages name the first of them; what a file says is not for terminals as it is. */
static graft_status leave_out(walk *w)
{
    graft_str *names = &w->f->left_out_names;
    const char *name = w->name.data && w->name.len ? w->name.data : "?";
    if (w->f->left_out++ < NAMES_LEFT_OUT) {
        if (names->len) graft_str_puts(names, ", ");
        for (size_t i = 0; name[i] && i < NAME_SHOWN; i++)
            graft_str_append(names, name[i] < ' ' || name[i] > '~' ? "?" : &name[i], 1);
        if (strlen(name) > NAME_SHOWN) graft_str_puts(names, "...");
    } else if (w->f->left_out == NAMES_LEFT_OUT + 1) {
        graft_str_puts(names, ", ...");
    }
    return names->failed ? graft_fail_nomem(w->e, "the list of tensors") : GRAFT_OK;
}

static graft_status visit_object(walk *w, const value *v, int depth)
{
    view tensor = {0};
    bool known;
    graft_status st = read_view(w->f, v, &tensor, &known, w->e);
    if (st) return st;
    if (known) {
        if (w->name.failed) return graft_fail_nomem(w->e, "a tensor's name");
        return add_tensor(w->f, &tensor, w->name.data ? w->name.data : "", w->e);
    }
    if (makes_tensor(v)) return leave_out(w);
    st = visit_pairs(w, v, depth);
    if (st || !v->state) return st;
    return visit(w, v->state, depth);
}

static graft_status visit(walk *w, const value *v, int depth)
{
    if (++w->visits > MOST_VISITS || depth == MOST_DEPTH)
        return graft_fail(w->e, GRAFT_E_LIMIT, "%s: the pickle is nested too deeply, or in itself",
                          w->f->path);
    switch (v->kind) {
    case GRAFT_PICKLE_DICT:
        return visit_pairs(w, v, depth + 1);
    case GRAFT_PICKLE_LIST:
    case GRAFT_PICKLE_TUPLE:
        return visit_elements(w, v, depth + 1);
    case GRAFT_PICKLE_OBJECT:
        return visit_object(w, v, depth + 1);
    default:
        return GRAFT_OK;
    }
}

static graft_status list_tensors(graft_pytorch *f, const value *from, graft_err *e)
{
    walk w = {.f = f, .name = GRAFT_STR_INIT, .e = e};
    graft_status st = visit(&w, from, 0);
    graft_str_finish(&w.name);
    return st;
}

/* Weights beside what only training needs; of several, the first in this list that has tensors. */
static graft_status choose_part(graft_pytorch *f, graft_err *e)
{
    static const char *const parts[] = {"state_dict", "params_ema", "params", "string_to_param"};
    const value *root = graft_pickle_root(f->pickle);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !f->n_tensors; i++) {
        const value *v = graft_pickle_get(root, parts[i]);
        if (!v) continue;
        graft_status st = list_tensors(f, v, e);
        if (st) return st;
        if (f->n_tensors) f->part = parts[i];
    }
    if (!f->n_tensors) {
        graft_status st = list_tensors(f, root, e);
        if (st) return st;
    }
    if (f->n_tensors) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_NOTFOUND, "%s: no tensors in it", f->path);
}

/* ------------------------------------------------------------------ the zip archive */

static graft_status open_zip(graft_pytorch *f, graft_err *e)
{
    static const char file[] = "/data.pkl";
    const graft_zip_entry *pickle = NULL;
    size_t used;
    graft_status st;
    GRAFT_TRY(graft_zip_open(f->data, f->size, f->path, &f->zip, e));
    for (size_t i = 0; i < graft_zip_count(f->zip) && !pickle; i++) {
        const char *name = graft_zip_at(f->zip, i)->name, *slash = strchr(name, '/');
        if (slash && strcmp(slash, file) == 0) pickle = graft_zip_at(f->zip, i);
    }
    if (!pickle)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: a zip archive, but not a PyTorch file (no data.pkl)", f->path);
    f->folder = graft_strndup(pickle->name, strlen(pickle->name) - sizeof file + 2);
    if (!f->folder) return graft_fail_nomem(e, f->path);
    char name[320];
    snprintf(name, sizeof name, "%.300sconstants.pkl", f->folder);
    if (graft_zip_find(f->zip, name))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a TorchScript program; only files with weights are read", f->path);
    snprintf(name, sizeof name, "%.300sbyteorder", f->folder);
    const graft_zip_entry *order = graft_zip_find(f->zip, name);
    if (order && (!order->data || order->size != 6 || memcmp(order->data, "little", 6) != 0))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: its numbers are not little-endian", f->path);
    if (!pickle->data) return bad(f, e, "its pickle is compressed");
    GRAFT_TRY(graft_pickle_read(pickle->data, pickle->size, f->path, &f->pickle, &used, e));
out:
    return st;
}

/* ------------------------------------------------------------------ the layout before it */

/* The first pickle of the older layout: a number of ten bytes. */
static const uint8_t legacy_begin[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                       0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

/* Lists the storages that the pickle speaks of, and how large their elements are. */
static graft_status list_storages(graft_pytorch *f, graft_err *e)
{
    const value *v;
    reference r;
    size_t n = 0;
    for (size_t i = 0; (v = graft_pickle_at(f->pickle, i)) != NULL; i++) n += read_reference(v, &r);
    f->storage = graft_calloc(n ? n : 1, sizeof *f->storage);
    if (!f->storage) return graft_fail_nomem(e, f->path);
    n = 0;
    for (size_t i = 0; (v = graft_pickle_at(f->pickle, i)) != NULL; i++) {
        if (!read_reference(v, &r) || graft_map_has(&f->place, r.key)) continue;
        f->storage[n].unit = type_of(r.type)->unit;
        if (graft_map_put(&f->place, r.key, &f->storage[n])) return graft_fail_nomem(e, f->path);
        n++;
    }
    return GRAFT_OK;
}

/* The storage of that key begins at *at: its number of elements, in 8 bytes, and the elements. */
static graft_status read_storage(graft_pytorch *f, const value *key, size_t *at, graft_err *e)
{
    char name[64];
    uint64_t n = 0, bytes;
    if (key->kind != GRAFT_PICKLE_TEXT || key->text.n >= sizeof name)
        return bad(f, e, "a storage's key");
    memcpy(name, key->text.at, key->text.n);
    name[key->text.n] = 0;
    storage *s = graft_map_get(&f->place, name);
    if (!s || !s->unit)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a storage whose elements are of no known type", f->path);
    if (f->size - *at < 8) return bad(f, e, "cut short");
    for (int k = 0; k < 8; k++) n |= (uint64_t)f->data[*at + (size_t)k] << (8 * k);
    *at += 8;
    if (__builtin_mul_overflow(n, s->unit, &bytes) || bytes > f->size - *at)
        return bad(f, e, "cut short");
    s->data = f->data + *at;
    s->bytes = bytes;
    *at += (size_t)bytes;
    return GRAFT_OK;
}

static graft_status read_storages(graft_pytorch *f, const value *keys, size_t at, graft_err *e)
{
    if (keys->kind != GRAFT_PICKLE_LIST) return bad(f, e, "no list of storages");
    graft_status st = list_storages(f, e);
    for (size_t i = 0; i < keys->n && st == GRAFT_OK; i++)
        st = read_storage(f, keys->item[i], &at, e);
    return st;
}

static graft_status read_pickle(const graft_pytorch *f, size_t *at, graft_pickle **out,
                                graft_err *e)
{
    size_t used;
    graft_status st = graft_pickle_read(f->data + *at, f->size - *at, f->path, out, &used, e);
    *at += used;
    return st;
}

/* Five pickles: a mark, the version, what machine wrote it, the tensors, the storages' keys. */
static graft_status open_legacy(graft_pytorch *f, graft_err *e)
{
    size_t at = sizeof legacy_begin;
    graft_pickle *version = NULL, *system = NULL, *keys = NULL;
    graft_status st;
    GRAFT_TRY(read_pickle(f, &at, &version, e));
    GRAFT_TRY(read_pickle(f, &at, &system, e));
    GRAFT_TRY(read_pickle(f, &at, &f->pickle, e));
    GRAFT_TRY(read_pickle(f, &at, &keys, e));
    const value *little = graft_pickle_get(graft_pickle_root(system), "little_endian");
    if (graft_pickle_root(version)->number != 1001 || (little && !little->number)) {
        st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                        "%s: a PyTorch file of another version, or not little-endian", f->path);
        goto out;
    }
    GRAFT_TRY(read_storages(f, graft_pickle_root(keys), at, e));
out:
    graft_pickle_free(version);
    graft_pickle_free(system);
    graft_pickle_free(keys);
    return st;
}

/* ------------------------------------------------------------------ open */

/* Whether bytes begin as such a file does. */
static bool looks_like(const void *data, size_t size)
{
    return (size >= 4 && memcmp(data, "PK\3\4", 4) == 0) ||
           (size >= sizeof legacy_begin && memcmp(data, legacy_begin, sizeof legacy_begin) == 0);
}

static graft_status create(const char *what, graft_pytorch **out, graft_err *e)
{
    graft_pytorch *f = graft_calloc(1, sizeof *f);
    if (f) f->path = graft_strdup(what);
    if (f && f->path) {
        *out = f;
        return GRAFT_OK;
    }
    graft_free(f);
    return graft_fail_nomem(e, what);
}

static graft_status parse(graft_pytorch *f, const void *data, size_t size, graft_err *e)
{
    f->data = data;
    f->size = size;
    if (!looks_like(data, size))
        return graft_fail(e, GRAFT_E_FORMAT, "%s: not a file that torch.save() wrote", f->path);
    graft_status st = f->data[0] == 'P' ? open_zip(f, e) : open_legacy(f, e);
    return st ? st : choose_part(f, e);
}

graft_status graft_pytorch_open(const char *path, graft_pytorch **out, graft_err *e)
{
    graft_pytorch *f = NULL;
    graft_status st;
    *out = NULL;
    GRAFT_TRY(create(path, &f, e));
    GRAFT_TRY(graft_file_map(path, &f->map, e));
    GRAFT_TRY(parse(f, f->map.data, f->map.size, e));
    *out = f;
    f = NULL;
out:
    graft_pytorch_close(f);
    return st;
}

graft_status graft_pytorch_open_memory(const void *data, size_t size, const char *what,
                                       graft_pytorch **out, graft_err *e)
{
    graft_pytorch *f = NULL;
    graft_status st;
    *out = NULL;
    GRAFT_TRY(create(what, &f, e));
    GRAFT_TRY(parse(f, data, size, e));
    *out = f;
    f = NULL;
out:
    graft_pytorch_close(f);
    return st;
}

void graft_pytorch_close(graft_pytorch *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->n_names; i++) graft_free(f->name[i]);
    for (size_t i = 0; i < f->n_copies; i++) graft_free(f->copy[i]);
    graft_free(f->name);
    graft_free(f->copy);
    graft_free(f->tensor);
    graft_free(f->storage);
    graft_map_finish(&f->place);
    graft_free(f->folder);
    graft_zip_close(f->zip);
    graft_pickle_free(f->pickle);
    graft_str_finish(&f->left_out_names);
    graft_file_unmap(&f->map);
    graft_free(f->path);
    graft_free(f);
}

const graft_st_tensor *graft_pytorch_tensors(const graft_pytorch *f, size_t *n)
{
    *n = f->n_tensors;
    return f->tensor;
}

const char *graft_pytorch_part(const graft_pytorch *f)
{
    return f->part;
}

size_t graft_pytorch_left_out(const graft_pytorch *f)
{
    return f->left_out;
}

/* Texts are cut off, and nothing in them ends one. */
static bool write_note(const value *v, char *to, size_t size)
{
    if (v && v->kind == GRAFT_PICKLE_BOOL) {
        snprintf(to, size, "%s", v->number ? "true" : "false");
        return true;
    }
    if (!v || v->kind != GRAFT_PICKLE_TEXT || memchr(v->text.at, 0, v->text.n)) return false;
    snprintf(to, size, "%.*s", (int)(v->text.n < size ? v->text.n : size - 1), v->text.at);
    return true;
}

bool graft_pytorch_note_at(const graft_pytorch *f, size_t i, graft_pytorch_note *out)
{
    static const char *const keys[] = {"activation_func", "is_layer_norm", "activate_output"};
    const value *root = graft_pickle_root(f->pickle);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        if (!write_note(graft_pickle_get(root, keys[k]), out->value, sizeof out->value)) continue;
        out->key = keys[k];
        if (i-- == 0) return true;
    }
    return false;
}

const char *graft_pytorch_left_out_names(const graft_pytorch *f)
{
    return f->left_out_names.data ? f->left_out_names.data : "";
}

#include "engine/weights/pickle.h"

#include <string.h>

#include "base/alloc.h"

typedef graft_pickle_value value;

enum { CHUNK = 512 };
typedef struct chunk {
    value v[CHUNK];
} chunk;

struct graft_pickle {
    chunk **chunk;
    size_t n, n_chunks, cap_chunks;
    value *root;
};

typedef struct machine {
    const uint8_t *begin, *p, *end;
    const char *what;
    graft_pickle *k;
    value **stack; /* NULL elements are marks */
    size_t n_stack, cap_stack;
    value **memo; /* NULL: nothing was stored there */
    size_t n_memo, cap_memo;
    bool stopped;
    graft_err *e;
} machine;

typedef graft_status operation(machine *m);

static graft_status bad(const machine *m, const char *problem)
{
    return graft_fail(m->e, GRAFT_E_FORMAT, "%s: damaged pickle: byte %zu: %s", m->what,
                      (size_t)(m->p - m->begin), problem);
}

/* ------------------------------------------------------------------ bytes */

static graft_status take(machine *m, uint64_t n, const uint8_t **out)
{
    if ((uint64_t)(m->end - m->p) < n) return bad(m, "cut short");
    *out = m->p;
    m->p += n;
    return GRAFT_OK;
}

/* Little-endian, `n` bytes of it, at most 8. */
static graft_status take_count(machine *m, int n, uint64_t *out)
{
    const uint8_t *at = NULL;
    graft_status st = take(m, (uint64_t)n, &at);
    *out = 0;
    for (int i = 0; st == GRAFT_OK && i < n; i++) *out |= (uint64_t)at[i] << (8 * i);
    return st;
}

static graft_status take_line(machine *m, graft_pickle_text *out)
{
    const uint8_t *end = memchr(m->p, '\n', (size_t)(m->end - m->p));
    if (!end) return bad(m, "a name that does not end");
    *out = (graft_pickle_text){(const char *)m->p, (size_t)(end - m->p)};
    m->p = end + 1;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ values and the stack */

static graft_status make(machine *m, graft_pickle_kind kind, value **out)
{
    graft_pickle *k = m->k;
    if (k->n == GRAFT_PICKLE_MOST_VALUES)
        return graft_fail(m->e, GRAFT_E_LIMIT, "%s: a pickle of more than %zu values", m->what,
                          GRAFT_PICKLE_MOST_VALUES);
    if (k->n == k->n_chunks * CHUNK) {
        if (graft_grow(&k->chunk, &k->cap_chunks, k->n_chunks + 1, sizeof *k->chunk))
            return graft_fail_nomem(m->e, m->what);
        k->chunk[k->n_chunks] = graft_calloc(1, sizeof **k->chunk);
        if (!k->chunk[k->n_chunks]) return graft_fail_nomem(m->e, m->what);
        k->n_chunks++;
    }
    *out = &k->chunk[k->n / CHUNK]->v[k->n % CHUNK];
    (*out)->kind = kind;
    k->n++;
    return GRAFT_OK;
}

static graft_status push(machine *m, value *v)
{
    if (graft_grow(&m->stack, &m->cap_stack, m->n_stack + 1, sizeof(value *)))
        return graft_fail_nomem(m->e, m->what);
    m->stack[m->n_stack++] = v;
    return GRAFT_OK;
}

static graft_status push_new(machine *m, graft_pickle_kind kind, value **out)
{
    graft_status st = make(m, kind, out);
    return st ? st : push(m, *out);
}

/* The value on top, which stays there. */
static graft_status top(machine *m, value **out)
{
    if (!m->n_stack || !m->stack[m->n_stack - 1]) return bad(m, "an empty stack");
    *out = m->stack[m->n_stack - 1];
    return GRAFT_OK;
}

static graft_status pop(machine *m, value **out)
{
    graft_status st = top(m, out);
    if (st == GRAFT_OK) m->n_stack--;
    return st;
}

/* Takes all above the last mark, and the mark: *n values from *first, valid until the next push. */
static graft_status pop_to_mark(machine *m, value ***first, size_t *n)
{
    size_t i = m->n_stack;
    while (i && m->stack[i - 1]) i--;
    if (!i) return bad(m, "no mark");
    *first = m->stack + i;
    *n = m->n_stack - i;
    m->n_stack = i - 1;
    return GRAFT_OK;
}

static graft_status add_items(machine *m, value *v, value *const *item, size_t n)
{
    if (!n) return GRAFT_OK;
    if (graft_grow(&v->item, &v->cap, v->n + n, sizeof(value *)))
        return graft_fail_nomem(m->e, m->what);
    memcpy(v->item + v->n, item, n * sizeof(value *));
    v->n += n;
    return GRAFT_OK;
}

static graft_status put_elements(machine *m, value *v, value *const *item, size_t n)
{
    if (v->kind == GRAFT_PICKLE_OBJECT) return GRAFT_OK;
    if (v->kind != GRAFT_PICKLE_LIST) return bad(m, "elements for what is no list");
    return add_items(m, v, item, n);
}

static graft_status put_pairs(machine *m, value *v, value *const *item, size_t n)
{
    if (v->kind != GRAFT_PICKLE_DICT && v->kind != GRAFT_PICKLE_OBJECT)
        return bad(m, "pairs for what is no dictionary");
    return n % 2 ? bad(m, "a key without a value") : add_items(m, v, item, n);
}

/* ------------------------------------------------------------------ numbers and texts */

static graft_status op_none(machine *m)
{
    value *v = NULL;
    return push_new(m, GRAFT_PICKLE_NONE, &v);
}

static graft_status push_number(machine *m, graft_pickle_kind kind, int64_t number)
{
    value *v = NULL;
    graft_status st = push_new(m, kind, &v);
    if (st == GRAFT_OK) v->number = number;
    return st;
}

static graft_status op_true(machine *m)
{
    return push_number(m, GRAFT_PICKLE_BOOL, 1);
}

static graft_status op_false(machine *m)
{
    return push_number(m, GRAFT_PICKLE_BOOL, 0);
}

static graft_status push_count(machine *m, int n)
{
    uint64_t count = 0;
    graft_status st = take_count(m, n, &count);
    if (st) return st;
    return push_number(m, GRAFT_PICKLE_INT, n == 4 ? (int32_t)(uint32_t)count : (int64_t)count);
}

static graft_status op_int1(machine *m)
{
    return push_count(m, 1);
}

static graft_status op_int2(machine *m)
{
    return push_count(m, 2);
}

static graft_status op_int4(machine *m)
{
    return push_count(m, 4);
}

/* Two's complement of any length, which comes first, in `n` bytes. */
static graft_status push_long(machine *m, int n)
{
    uint64_t length = 0, bits = 0;
    const uint8_t *at = NULL;
    value *v = NULL;
    graft_status st;
    GRAFT_TRY(take_count(m, n, &length));
    GRAFT_TRY(take(m, length, &at));
    if (length > 8) {
        GRAFT_TRY(push_new(m, GRAFT_PICKLE_BIG, &v));
        v->text = (graft_pickle_text){(const char *)at, (size_t)length};
        return GRAFT_OK;
    }
    for (uint64_t i = 0; i < length; i++) bits |= (uint64_t)at[i] << (8 * i);
    if (length && length < 8 && at[length - 1] & 0x80) bits |= UINT64_MAX << (8 * length);
    return push_number(m, GRAFT_PICKLE_INT, (int64_t)bits);
out:
    return st;
}

static graft_status op_long1(machine *m)
{
    return push_long(m, 1);
}

static graft_status op_long4(machine *m)
{
    return push_long(m, 4);
}

/* The one number of the format that is written big end first. */
static graft_status op_float(machine *m)
{
    const uint8_t *at = NULL;
    uint64_t bits = 0;
    value *v = NULL;
    graft_status st;
    GRAFT_TRY(take(m, 8, &at));
    for (int i = 0; i < 8; i++) bits = bits << 8 | at[i];
    GRAFT_TRY(push_new(m, GRAFT_PICKLE_FLOAT, &v));
    memcpy(&v->real, &bits, sizeof bits);
out:
    return st;
}

static graft_status push_text(machine *m, graft_pickle_kind kind, int n)
{
    uint64_t length = 0;
    const uint8_t *at = NULL;
    value *v = NULL;
    graft_status st;
    GRAFT_TRY(take_count(m, n, &length));
    GRAFT_TRY(take(m, length, &at));
    GRAFT_TRY(push_new(m, kind, &v));
    v->text = (graft_pickle_text){(const char *)at, (size_t)length};
out:
    return st;
}

static graft_status op_text1(machine *m)
{
    return push_text(m, GRAFT_PICKLE_TEXT, 1);
}

static graft_status op_text4(machine *m)
{
    return push_text(m, GRAFT_PICKLE_TEXT, 4);
}

static graft_status op_text8(machine *m)
{
    return push_text(m, GRAFT_PICKLE_TEXT, 8);
}

static graft_status op_bytes1(machine *m)
{
    return push_text(m, GRAFT_PICKLE_BYTES, 1);
}

static graft_status op_bytes4(machine *m)
{
    return push_text(m, GRAFT_PICKLE_BYTES, 4);
}

static graft_status op_bytes8(machine *m)
{
    return push_text(m, GRAFT_PICKLE_BYTES, 8);
}

/* ------------------------------------------------------------------ containers */

static graft_status op_mark(machine *m)
{
    return push(m, NULL);
}

static graft_status op_empty_list(machine *m)
{
    value *v = NULL;
    return push_new(m, GRAFT_PICKLE_LIST, &v);
}

static graft_status op_empty_tuple(machine *m)
{
    value *v = NULL;
    return push_new(m, GRAFT_PICKLE_TUPLE, &v);
}

static graft_status op_empty_dict(machine *m)
{
    value *v = NULL;
    return push_new(m, GRAFT_PICKLE_DICT, &v);
}

/* A new container of what lies above the mark. */
static graft_status push_marked(machine *m, graft_pickle_kind kind)
{
    value **item = NULL, *v = NULL;
    size_t n = 0;
    graft_status st;
    GRAFT_TRY(pop_to_mark(m, &item, &n));
    GRAFT_TRY(make(m, kind, &v));
    GRAFT_TRY(kind == GRAFT_PICKLE_DICT ? put_pairs(m, v, item, n) : add_items(m, v, item, n));
    GRAFT_TRY(push(m, v));
out:
    return st;
}

static graft_status op_tuple(machine *m)
{
    return push_marked(m, GRAFT_PICKLE_TUPLE);
}

static graft_status op_list(machine *m)
{
    return push_marked(m, GRAFT_PICKLE_LIST);
}

static graft_status op_dict(machine *m)
{
    return push_marked(m, GRAFT_PICKLE_DICT);
}

static graft_status push_tuple(machine *m, size_t n)
{
    value *item[3] = {0}, *v;
    graft_status st = GRAFT_OK;
    for (size_t i = n; i--;) GRAFT_TRY(pop(m, &item[i]));
    GRAFT_TRY(push_new(m, GRAFT_PICKLE_TUPLE, &v));
    GRAFT_TRY(add_items(m, v, item, n));
out:
    return st;
}

static graft_status op_tuple1(machine *m)
{
    return push_tuple(m, 1);
}

static graft_status op_tuple2(machine *m)
{
    return push_tuple(m, 2);
}

static graft_status op_tuple3(machine *m)
{
    return push_tuple(m, 3);
}

typedef graft_status put(machine *m, value *v, value *const *item, size_t n);

/* Puts the n values on top, at most 2, into the one below them. */
static graft_status put_top(machine *m, put *into, size_t n)
{
    value *item[2] = {0}, *v = NULL;
    graft_status st = GRAFT_OK;
    for (size_t i = n; i--;) GRAFT_TRY(pop(m, &item[i]));
    GRAFT_TRY(top(m, &v));
    GRAFT_TRY(into(m, v, item, n));
out:
    return st;
}

/* Puts the values above the mark into the one below it. */
static graft_status put_marked(machine *m, put *into)
{
    value **item = NULL, *v = NULL;
    size_t n = 0;
    graft_status st;
    GRAFT_TRY(pop_to_mark(m, &item, &n));
    GRAFT_TRY(top(m, &v));
    GRAFT_TRY(into(m, v, item, n));
out:
    return st;
}

static graft_status op_append(machine *m)
{
    return put_top(m, put_elements, 1);
}

static graft_status op_appends(machine *m)
{
    return put_marked(m, put_elements);
}

static graft_status op_set_item(machine *m)
{
    return put_top(m, put_pairs, 2);
}

static graft_status op_set_items(machine *m)
{
    return put_marked(m, put_pairs);
}

static graft_status op_pop(machine *m)
{
    if (!m->n_stack) return bad(m, "an empty stack");
    m->n_stack--;
    return GRAFT_OK;
}

static graft_status op_pop_mark(machine *m)
{
    value **item = NULL;
    size_t n = 0;
    return pop_to_mark(m, &item, &n);
}

static graft_status op_dup(machine *m)
{
    value *v = NULL;
    graft_status st = top(m, &v);
    return st ? st : push(m, v);
}

/* ------------------------------------------------------------------ memory */

static graft_status put_memo(machine *m, uint64_t i)
{
    value *v = NULL;
    graft_status st;
    GRAFT_TRY(top(m, &v));
    /* Python numbers what it stores one after the other, and stores only what it has made. */
    if (i >= m->k->n) return bad(m, "a place in the memory that is too far away");
    if (graft_grow(&m->memo, &m->cap_memo, (size_t)i + 1, sizeof(value *)))
        return graft_fail_nomem(m->e, m->what);
    while (m->n_memo <= i) m->memo[m->n_memo++] = NULL;
    m->memo[i] = v;
out:
    return st;
}

static graft_status get_memo(machine *m, int n)
{
    uint64_t i = 0;
    graft_status st = take_count(m, n, &i);
    if (st) return st;
    if (i >= m->n_memo || !m->memo[i]) return bad(m, "nothing was stored there");
    return push(m, m->memo[i]);
}

static graft_status op_put1(machine *m)
{
    uint64_t i = 0;
    graft_status st = take_count(m, 1, &i);
    return st ? st : put_memo(m, i);
}

static graft_status op_put4(machine *m)
{
    uint64_t i = 0;
    graft_status st = take_count(m, 4, &i);
    return st ? st : put_memo(m, i);
}

static graft_status op_memoize(machine *m)
{
    return put_memo(m, m->n_memo);
}

static graft_status op_get1(machine *m)
{
    return get_memo(m, 1);
}

static graft_status op_get4(machine *m)
{
    return get_memo(m, 4);
}

/* ------------------------------------------------------------------ names and what they make */

static graft_status op_name(machine *m)
{
    graft_pickle_text module = {0}, name = {0};
    value *v = NULL;
    graft_status st;
    GRAFT_TRY(take_line(m, &module));
    GRAFT_TRY(take_line(m, &name));
    GRAFT_TRY(push_new(m, GRAFT_PICKLE_NAME, &v));
    v->module = module;
    v->text = name;
out:
    return st;
}

static graft_status op_stack_name(machine *m)
{
    value *module = NULL, *name = NULL, *v = NULL;
    graft_status st;
    GRAFT_TRY(pop(m, &name));
    GRAFT_TRY(pop(m, &module));
    if (name->kind != GRAFT_PICKLE_TEXT || module->kind != GRAFT_PICKLE_TEXT)
        return bad(m, "a name that is no text");
    GRAFT_TRY(push_new(m, GRAFT_PICKLE_NAME, &v));
    v->module = module->text;
    v->text = name->text;
out:
    return st;
}

/* A call, or a new object of a class: what Python would make of the two on top. */
static graft_status op_object(machine *m)
{
    value *args = NULL, *callee = NULL, *v = NULL;
    graft_status st;
    GRAFT_TRY(pop(m, &args));
    GRAFT_TRY(pop(m, &callee));
    GRAFT_TRY(push_new(m, GRAFT_PICKLE_OBJECT, &v));
    v->args = args;
    v->callee = callee;
out:
    return st;
}

/* The same with arguments by name, which are dropped. */
static graft_status op_object_named(machine *m)
{
    value *named = NULL;
    graft_status st = pop(m, &named);
    return st ? st : op_object(m);
}

static graft_status op_build(machine *m)
{
    value *state = NULL, *v = NULL;
    graft_status st;
    GRAFT_TRY(pop(m, &state));
    GRAFT_TRY(top(m, &v));
    v->state = state;
out:
    return st;
}

static graft_status op_persistent(machine *m)
{
    value *name = NULL, *v = NULL;
    graft_status st;
    GRAFT_TRY(pop(m, &name));
    GRAFT_TRY(push_new(m, GRAFT_PICKLE_PERSISTENT, &v));
    v->args = name;
out:
    return st;
}

/* ------------------------------------------------------------------ the whole */

static graft_status op_protocol(machine *m)
{
    uint64_t version = 0;
    graft_status st = take_count(m, 1, &version);
    if (st) return st;
    return version <= 5 ? GRAFT_OK : bad(m, "a protocol above 5");
}

static graft_status op_frame(machine *m)
{
    uint64_t length; /* for those who read in pieces */
    return take_count(m, 8, &length);
}

static graft_status op_stop(machine *m)
{
    graft_status st = pop(m, &m->k->root);
    m->stopped = true;
    return st;
}

static operation *const operations[256] = {
    ['N'] = op_none,        [0x88] = op_true,      [0x89] = op_false,      ['K'] = op_int1,
    ['M'] = op_int2,        ['J'] = op_int4,       [0x8a] = op_long1,      [0x8b] = op_long4,
    ['G'] = op_float,       ['U'] = op_text1,      ['T'] = op_text4,       [0x8c] = op_text1,
    ['X'] = op_text4,       [0x8d] = op_text8,     ['C'] = op_bytes1,      ['B'] = op_bytes4,
    [0x8e] = op_bytes8,     [0x96] = op_bytes8,    ['('] = op_mark,        [']'] = op_empty_list,
    [')'] = op_empty_tuple, ['}'] = op_empty_dict, [0x8f] = op_empty_list, ['t'] = op_tuple,
    ['l'] = op_list,        ['d'] = op_dict,       [0x91] = op_list,       [0x85] = op_tuple1,
    [0x86] = op_tuple2,     [0x87] = op_tuple3,    ['a'] = op_append,      ['e'] = op_appends,
    [0x90] = op_appends,    ['s'] = op_set_item,   ['u'] = op_set_items,   ['0'] = op_pop,
    ['1'] = op_pop_mark,    ['2'] = op_dup,        ['q'] = op_put1,        ['r'] = op_put4,
    [0x94] = op_memoize,    ['h'] = op_get1,       ['j'] = op_get4,        ['c'] = op_name,
    [0x93] = op_stack_name, ['R'] = op_object,     [0x81] = op_object,     [0x92] = op_object_named,
    ['b'] = op_build,       ['Q'] = op_persistent, [0x80] = op_protocol,   [0x95] = op_frame,
    ['.'] = op_stop,
};

static graft_status run(machine *m)
{
    graft_status st = GRAFT_OK;
    if (m->end - m->p < 2 || m->p[0] != 0x80)
        return graft_fail(m->e, GRAFT_E_FORMAT, "%s: not a pickle of protocol 2 or later", m->what);
    while (st == GRAFT_OK && !m->stopped) {
        if (m->p == m->end) return bad(m, "cut short");
        operation *op = operations[*m->p++];
        if (!op)
            return graft_fail(m->e, GRAFT_E_UNSUPPORTED,
                              "%s: pickle byte %zu: opcode 0x%02x is not read", m->what,
                              (size_t)(m->p - m->begin) - 1, m->p[-1]);
        st = op(m);
    }
    return st;
}

graft_status graft_pickle_read(const void *data, size_t size, const char *what, graft_pickle **out,
                               size_t *used, graft_err *e)
{
    machine m = {
        .begin = data, .p = data, .end = (const uint8_t *)data + size, .what = what, .e = e};
    *out = NULL;
    *used = 0;
    m.k = graft_calloc(1, sizeof *m.k);
    if (!m.k) return graft_fail_nomem(e, what);
    graft_status st = run(&m);
    graft_free(m.stack);
    graft_free(m.memo);
    if (st) {
        graft_pickle_free(m.k);
        return st;
    }
    *out = m.k;
    *used = (size_t)(m.p - m.begin);
    return GRAFT_OK;
}

void graft_pickle_free(graft_pickle *k)
{
    if (!k) return;
    for (size_t i = 0; i < k->n; i++) graft_free(k->chunk[i / CHUNK]->v[i % CHUNK].item);
    for (size_t i = 0; i < k->n_chunks; i++) graft_free(k->chunk[i]);
    graft_free(k->chunk);
    graft_free(k);
}

const graft_pickle_value *graft_pickle_root(const graft_pickle *k)
{
    return k->root;
}

const graft_pickle_value *graft_pickle_at(const graft_pickle *k, size_t i)
{
    return i < k->n ? &k->chunk[i / CHUNK]->v[i % CHUNK] : NULL;
}

static bool equal(graft_pickle_text a, const char *b)
{
    return a.n == strlen(b) && memcmp(a.at, b, a.n) == 0;
}

bool graft_pickle_is_text(const graft_pickle_value *v, const char *text)
{
    return v && v->kind == GRAFT_PICKLE_TEXT && equal(v->text, text);
}

bool graft_pickle_in_module(const graft_pickle_value *v, const char *module)
{
    return v && v->kind == GRAFT_PICKLE_NAME && equal(v->module, module);
}

bool graft_pickle_is_name(const graft_pickle_value *v, const char *module, const char *name)
{
    return graft_pickle_in_module(v, module) && equal(v->text, name);
}

const graft_pickle_value *graft_pickle_get(const graft_pickle_value *v, const char *key)
{
    if (v->kind != GRAFT_PICKLE_DICT && v->kind != GRAFT_PICKLE_OBJECT) return NULL;
    for (size_t i = 0; i + 1 < v->n; i += 2)
        if (graft_pickle_is_text(v->item[i], key)) return v->item[i + 1];
    return NULL;
}

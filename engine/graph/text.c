/* The text form, version 1. One line each, in this order:
 *
 *     graft-graph 1
 *     slot plain [320,4,3,3] 320 "input_blocks.0.0.weight"
 *     literal int32 2 00000000ffffffff
 *     %0 f32 [2,4,64,64] input 0
 *     %1 f32 [320,4,3,3] weight 0
 *     %2 f32 [2,64,64,320] temp
 *     %3 f32 [2,4096,320] view %2 +0 [1310720,320,1]
 *     conv2d %2 = %0 %1 - - - | kernel_h=3 eps=0x1p-3
 *     output %3
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/graph/graph.h"

static const struct {
    graft_dtype dtype;
    const char *name;
} dtype_names[] = {{GRAFT_F32, "f32"}, {GRAFT_F16, "f16"}, {GRAFT_BF16, "bf16"},
                   {GRAFT_I8, "i8"},   {GRAFT_U8, "u8"},   {GRAFT_I32, "i32"},
                   {GRAFT_I64, "i64"}, {GRAFT_F64, "f64"}};
#define N_DTYPES (sizeof dtype_names / sizeof *dtype_names)

static const char *const slot_kinds[] = {"plain", "rows",  "transpose", "crop",   "last",
                                         "more",  "first", "sum",       "bottom", "later"};

/* Attributes in the order of the structure: one table for printing and parsing. */
static const struct {
    const char *name;
    size_t offset;
    bool real;
} attr_fields[] = {
#define INT_FIELD(f)                                                                               \
    {                                                                                              \
#f, offsetof(graft_attrs, f), false                                                        \
    }
#define REAL_FIELD(f)                                                                              \
    {                                                                                              \
#f, offsetof(graft_attrs, f), true                                                         \
    }
    INT_FIELD(kernel_h), INT_FIELD(kernel_w), INT_FIELD(stride_h),   INT_FIELD(stride_w),
    INT_FIELD(pad_top),  INT_FIELD(pad_left), INT_FIELD(pad_bottom), INT_FIELD(pad_right),
    INT_FIELD(upsample), INT_FIELD(up_h),     INT_FIELD(up_w),       INT_FIELD(groups),
    INT_FIELD(heads),    INT_FIELD(causal),   INT_FIELD(act),        REAL_FIELD(eps),
    REAL_FIELD(scale),   REAL_FIELD(shift),   INT_FIELD(quant)};
#define N_ATTRS (sizeof attr_fields / sizeof *attr_fields)

static const char *dtype_name(graft_dtype t)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (dtype_names[i].dtype == t) return dtype_names[i].name;
    return "?";
}

static void print_dims(graft_str *s, int rank, const int64_t *dim)
{
    graft_str_puts(s, "[");
    for (int i = 0; i < rank; i++) graft_str_printf(s, "%s%lld", i ? "," : "", (long long)dim[i]);
    graft_str_puts(s, "]");
}

static void print_value(const graft_graph *g, size_t i, graft_str *s)
{
    const graft_gvalue *v = &g->value[i];
    graft_str_printf(s, "%%%zu %s ", i, dtype_name(v->dtype));
    print_dims(s, v->rank, v->dim);
    if (v->root != (graft_vid)i) {
        graft_str_printf(s, " view %%%d +%lld ", v->root, (long long)v->offset);
        print_dims(s, v->rank, v->stride);
    } else if (v->kind == GRAFT_VALUE_TEMP) {
        graft_str_puts(s, " temp");
    } else {
        static const char *const kinds[] = {"input", "weight", "const"};
        graft_str_printf(s, " %s %d", kinds[v->kind], v->index);
    }
    graft_str_puts(s, "\n");
}

static void print_node(const graft_gnode *n, graft_str *s)
{
    graft_str_printf(s, "%s %%%d =", graft_op_name(n->op), n->out);
    for (int k = 0; k < graft_op_input_count(n->op); k++) {
        if (n->in[k] >= 0)
            graft_str_printf(s, " %%%d", n->in[k]);
        else
            graft_str_puts(s, " -");
    }
    graft_str_puts(s, " |");
    for (size_t k = 0; k < N_ATTRS; k++) {
        const char *p = (const char *)&n->attrs + attr_fields[k].offset;
        if (attr_fields[k].real && *(const float *)p != 0.0f)
            graft_str_printf(s, " %s=%a", attr_fields[k].name, (double)*(const float *)p);
        if (!attr_fields[k].real && *(const int32_t *)p)
            graft_str_printf(s, " %s=%d", attr_fields[k].name, *(const int32_t *)p);
    }
    graft_str_puts(s, "\n");
}

void graft_graph_print(const graft_graph *g, graft_str *out)
{
    graft_str_puts(out, "graft-graph 1\n");
    for (size_t i = 0; i < g->n_slots; i++) {
        const graft_gslot *s = &g->slot[i];
        graft_str_printf(out, "slot %s ", slot_kinds[s->kind]);
        print_dims(out, s->rank, s->dim);
        if (s->hadamard) graft_str_printf(out, " hadamard %d", s->hadamard);
        for (size_t k = 0; k < s->n_sources; k++) {
            graft_str_printf(out, " %lld ", (long long)s->rows[k]);
            graft_str_json(out, s->source[k]);
        }
        graft_str_puts(out, "\n");
    }
    for (size_t i = 0; i < g->n_literals; i++) {
        const graft_graph_literal *l = &g->literal[i];
        const uint8_t *p = l->data;
        graft_str_printf(out, "literal %s %lld ", dtype_name(l->dtype), (long long)l->count);
        for (size_t k = 0; k < (size_t)l->count * graft_dtype_size(l->dtype); k++)
            graft_str_printf(out, "%02x", p[k]);
        graft_str_puts(out, "\n");
    }
    for (size_t i = 0; i < g->n_values; i++) print_value(g, i, out);
    for (size_t i = 0; i < g->n_nodes; i++) print_node(&g->node[i], out);
    for (size_t i = 0; i < g->n_outputs; i++) graft_str_printf(out, "output %%%d\n", g->output[i]);
}

graft_status graft_graph_hash(const graft_graph *g, graft_hash *out, graft_err *e)
{
    graft_str s = GRAFT_STR_INIT;
    graft_graph_print(g, &s);
    graft_status st = s.failed ? graft_fail_nomem(e, "graph text") : GRAFT_OK;
    if (!st) *out = graft_hash128(s.data, s.len);
    graft_str_finish(&s);
    return st;
}

/* ------------------------------------------------------------------ parsing */

typedef struct parser {
    const char *p, *end;
    int line;
    graft_graph *g;
    graft_err *e;
} parser;

static graft_status syntax(parser *ps, const char *what)
{
    return graft_fail(ps->e, GRAFT_E_FORMAT, "graph text, line %d: %s", ps->line, what);
}

static void skip_space(parser *ps)
{
    while (ps->p < ps->end && *ps->p == ' ') ps->p++;
}

static bool take(parser *ps, const char *word)
{
    size_t n = strlen(word);
    skip_space(ps);
    if ((size_t)(ps->end - ps->p) < n || memcmp(ps->p, word, n) != 0) return false;
    ps->p += n;
    return true;
}

/* A word of letters, digits and underscores, cut at 31 characters. */
static bool take_word(parser *ps, char out[32])
{
    size_t n = 0;
    skip_space(ps);
    while (ps->p < ps->end && (isalnum((unsigned char)*ps->p) || *ps->p == '_')) {
        if (n < 31) out[n++] = *ps->p;
        ps->p++;
    }
    out[n] = 0;
    return n > 0;
}

static bool take_int(parser *ps, int64_t *out)
{
    skip_space(ps);
    const char *start = ps->p;
    bool negative = ps->p < ps->end && *ps->p == '-';
    if (negative) ps->p++;
    int64_t v = 0;
    const char *digits = ps->p;
    while (ps->p < ps->end && isdigit((unsigned char)*ps->p)) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *ps->p - '0', &v)) {
            ps->p = start;
            return false;
        }
        ps->p++;
    }
    *out = negative ? -v : v;
    return ps->p > digits;
}

static bool take_dims(parser *ps, int32_t *rank, int64_t *dim)
{
    *rank = 0;
    if (!take(ps, "[")) return false;
    if (take(ps, "]")) return true;
    do {
        if (*rank == GRAFT_MAX_RANK || !take_int(ps, &dim[(*rank)++])) return false;
    } while (take(ps, ","));
    return take(ps, "]");
}

static bool take_dtype(parser *ps, graft_dtype *out)
{
    char word[32];
    if (!take_word(ps, word)) return false;
    for (size_t i = 0; i < N_DTYPES; i++)
        if (strcmp(dtype_names[i].name, word) == 0) {
            *out = dtype_names[i].dtype;
            return true;
        }
    return false;
}

/* A quoted name without escapes other than \" and \\; graft_free. */
static char *take_name(parser *ps)
{
    if (!take(ps, "\"")) return NULL;
    graft_str s = GRAFT_STR_INIT;
    while (ps->p < ps->end && *ps->p != '"' && *ps->p != '\n') {
        if (*ps->p == '\\' && ps->p + 1 < ps->end) ps->p++;
        graft_str_append(&s, ps->p++, 1);
    }
    if (ps->p >= ps->end || *ps->p != '"') {
        graft_str_finish(&s);
        return NULL;
    }
    ps->p++;
    return graft_str_take(&s);
}

static graft_status parse_slot(parser *ps)
{
    graft_graph *g = ps->g;
    if (graft_grow(&g->slot, &g->cap_slots, g->n_slots + 1, sizeof *g->slot))
        return graft_fail_nomem(ps->e, "graph text");
    graft_gslot *s = &g->slot[g->n_slots++];
    memset(s, 0, sizeof *s);
    int kind = take(ps, "plain")       ? 0
               : take(ps, "rows")      ? 1
               : take(ps, "transpose") ? 2
               : take(ps, "crop")      ? 3
               : take(ps, "last")      ? 4
               : take(ps, "more")      ? 5
               : take(ps, "first")     ? 6
               : take(ps, "sum")       ? 7
               : take(ps, "bottom")    ? 8
               : take(ps, "later")     ? 9
                                       : -1;
    if (kind < 0 || !take_dims(ps, &s->rank, s->dim)) return syntax(ps, "bad slot");
    s->kind = (graft_slot_kind)kind;
    size_t cap_source = 0, cap_rows = 0;
    int64_t rows;
    if (take(ps, "hadamard")) {
        if (!take_int(ps, &rows) || rows < 0 || rows > INT32_MAX) return syntax(ps, "bad slot");
        s->hadamard = (int32_t)rows;
    }
    while (take_int(ps, &rows)) {
        if (graft_grow(&s->source, &cap_source, s->n_sources + 1, sizeof *s->source) ||
            graft_grow(&s->rows, &cap_rows, s->n_sources + 1, sizeof *s->rows))
            return graft_fail_nomem(ps->e, "graph text");
        s->rows[s->n_sources] = rows;
        s->source[s->n_sources] = take_name(ps);
        if (!s->source[s->n_sources]) return syntax(ps, "a slot's source has no name");
        s->n_sources++;
    }
    return GRAFT_OK;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static graft_status parse_literal(parser *ps)
{
    graft_graph *g = ps->g;
    graft_graph_literal l = {0};
    if (!take_dtype(ps, &l.dtype) || !take_int(ps, &l.count) || l.count < 0)
        return syntax(ps, "bad literal");
    skip_space(ps);
    size_t size = graft_dtype_size(l.dtype);
    if (l.count > (ps->end - ps->p) / 2 / (int64_t)size) return syntax(ps, "literal cut short");
    if (graft_grow(&g->literal, &g->cap_literals, g->n_literals + 1, sizeof *g->literal))
        return graft_fail_nomem(ps->e, "graph text");
    uint8_t *p = graft_malloc((size_t)l.count * size);
    if (!p) return graft_fail_nomem(ps->e, "graph text");
    l.data = p;
    g->literal[g->n_literals++] = l;
    for (size_t i = 0; i < (size_t)l.count * size; i++, ps->p += 2) {
        int hi = hex_digit(ps->p[0]), lo = hex_digit(ps->p[1]);
        if (hi < 0 || lo < 0) return syntax(ps, "bad hexadecimal digit");
        p[i] = (uint8_t)(hi << 4 | lo);
    }
    return GRAFT_OK;
}

static bool take_vid(parser *ps, graft_vid *out)
{
    int64_t n;
    if (!take(ps, "%") || !take_int(ps, &n) || n < 0 || n >= (int64_t)ps->g->n_values) return false;
    *out = (graft_vid)n;
    return true;
}

static graft_status parse_value(parser *ps)
{
    graft_graph *g = ps->g;
    graft_gvalue v = {0};
    int64_t id, index = 0;
    if (!take_int(ps, &id) || id != (int64_t)g->n_values || !take_dtype(ps, &v.dtype) ||
        !take_dims(ps, &v.rank, v.dim))
        return syntax(ps, "bad value");
    v.root = (graft_vid)id;
    int64_t s = 1, checked = 1;
    for (int i = v.rank - 1; i >= 0; i--) {
        v.stride[i] = s;
        if (v.dim[i] < 0 || __builtin_mul_overflow(checked, v.dim[i] ? v.dim[i] : 1, &checked))
            return syntax(ps, "shape out of range");
        s *= v.dim[i];
    }
    if (take(ps, "view")) {
        int32_t rank;
        int64_t root; /* may follow: passes make values that others then are views of */
        if (!take(ps, "%") || !take_int(ps, &root) || root < 0 || root > INT32_MAX || root == id ||
            !take(ps, "+") || !take_int(ps, &v.offset) || !take_dims(ps, &rank, v.stride) ||
            rank != v.rank)
            return syntax(ps, "bad view");
        v.root = (graft_vid)root;
        v.kind = GRAFT_VALUE_TEMP; /* until all roots are known */
    } else if (take(ps, "temp")) {
        v.kind = GRAFT_VALUE_TEMP;
    } else {
        v.kind = take(ps, "input")    ? GRAFT_VALUE_INPUT
                 : take(ps, "weight") ? GRAFT_VALUE_WEIGHT
                 : take(ps, "const")  ? GRAFT_VALUE_CONST
                                      : GRAFT_VALUE_TEMP;
        if (v.kind == GRAFT_VALUE_TEMP || !take_int(ps, &index) || index < 0 || index > INT32_MAX)
            return syntax(ps, "bad value");
        v.index = (int32_t)index;
    }
    if (graft_grow(&g->value, &g->cap_values, g->n_values + 1, sizeof *g->value))
        return graft_fail_nomem(ps->e, "graph text");
    g->value[g->n_values++] = v;
    if (v.kind != GRAFT_VALUE_INPUT || v.root != (graft_vid)id) return GRAFT_OK;
    if (v.index != (int32_t)g->n_inputs) return syntax(ps, "inputs out of order");
    if (graft_grow(&g->input, &g->cap_inputs, g->n_inputs + 1, sizeof *g->input))
        return graft_fail_nomem(ps->e, "graph text");
    g->input[g->n_inputs++] = (graft_vid)id;
    return GRAFT_OK;
}

static graft_status parse_attrs(parser *ps, graft_attrs *a)
{
    char word[32];
    while (take_word(ps, word)) {
        size_t k = 0;
        while (k < N_ATTRS && strcmp(attr_fields[k].name, word) != 0) k++;
        if (k == N_ATTRS || !take(ps, "=")) return syntax(ps, "unknown attribute");
        char *p = (char *)a + attr_fields[k].offset;
        int64_t n;
        if (attr_fields[k].real) {
            char text[48], *stop;
            size_t len = 0;
            while (ps->p < ps->end && (uint8_t)*ps->p > ' ' && len < sizeof text - 1)
                text[len++] = *ps->p++;
            text[len] = 0;
            *(float *)p = (float)graft_str_to_double(text, &stop);
            if (stop == text || *stop) return syntax(ps, "bad number");
        } else if (take_int(ps, &n) && n >= INT32_MIN && n <= INT32_MAX) {
            *(int32_t *)p = (int32_t)n;
        } else {
            return syntax(ps, "bad number");
        }
    }
    return GRAFT_OK;
}

static graft_status parse_node(parser *ps, const char *op)
{
    graft_graph *g = ps->g;
    graft_gnode n = {0};
    for (n.op = 1; n.op < GRAFT_OP_END && strcmp(graft_op_name(n.op), op) != 0; n.op++) {
    }
    if (n.op == GRAFT_OP_END) return syntax(ps, "unknown operator");
    if (!take_vid(ps, &n.out) || !take(ps, "=")) return syntax(ps, "bad output");
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++) n.in[k] = GRAFT_NO_VALUE;
    for (int k = 0; k < graft_op_input_count(n.op); k++)
        if (!take(ps, "-") && !take_vid(ps, &n.in[k])) return syntax(ps, "bad input");
    if (!take(ps, "|")) return syntax(ps, "no | before the attributes");
    graft_status st = parse_attrs(ps, &n.attrs);
    if (st) return st;
    if (graft_grow(&g->node, &g->cap_nodes, g->n_nodes + 1, sizeof *g->node))
        return graft_fail_nomem(ps->e, "graph text");
    g->node[g->n_nodes++] = n;
    return GRAFT_OK;
}

static graft_status parse_line(parser *ps)
{
    char word[32];
    graft_vid v;
    if (take(ps, "%")) return parse_value(ps);
    if (!take_word(ps, word)) return syntax(ps, "empty line");
    if (strcmp(word, "slot") == 0) return parse_slot(ps);
    if (strcmp(word, "literal") == 0) return parse_literal(ps);
    if (strcmp(word, "output") != 0) return parse_node(ps, word);
    if (!take_vid(ps, &v)) return syntax(ps, "bad output");
    graft_graph_output(ps->g, v);
    return graft_graph_status(ps->g, ps->e);
}

/* Views get kind and index of their roots. */
static graft_status resolve_views(parser *ps)
{
    graft_graph *g = ps->g;
    for (size_t i = 0; i < g->n_values; i++) {
        graft_gvalue *v = &g->value[i];
        if ((size_t)v->root >= g->n_values) return syntax(ps, "a view of no value");
        v->kind = g->value[v->root].kind;
        v->index = g->value[v->root].index;
    }
    return GRAFT_OK;
}

graft_status graft_graph_parse(const char *text, size_t n, graft_graph **out, graft_err *e)
{
    parser ps = {text, text + n, 1, graft_graph_create(), e};
    graft_status st = GRAFT_OK;
    if (!ps.g) return graft_fail_nomem(e, "graph text");
    if (!take(&ps, "graft-graph 1\n")) {
        st = syntax(&ps, "not a graph of version 1");
        goto out;
    }
    while (ps.p < ps.end) {
        ps.line++;
        GRAFT_TRY(parse_line(&ps));
        skip_space(&ps);
        if (ps.p >= ps.end || *ps.p++ != '\n') {
            st = syntax(&ps, "something left at the end of the line");
            goto out;
        }
    }
    GRAFT_TRY(resolve_views(&ps));
    GRAFT_TRY(graft_graph_verify(ps.g, e));
    *out = ps.g;
    ps.g = NULL;
out:
    graft_graph_destroy(ps.g);
    return st;
}

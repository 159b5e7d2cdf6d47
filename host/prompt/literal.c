#include "host/prompt/literal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

void graft_literal_finish(graft_literal *l)
{
    graft_free(l->text);
    memset(l, 0, sizeof *l);
}

void graft_literal_fault_finish(graft_literal_fault *f)
{
    graft_free(f->details);
    graft_free(f->exception);
    memset(f, 0, sizeof *f);
}

static void put_text(graft_literal *out, graft_kind kind, char *text)
{
    out->text = text;
    out->value.kind = kind;
    out->value.u.s = text;
}

/* Messages show values as Python prints them, because clients compare them. */
static void put_float(graft_str *s, double v)
{
    graft_str number = GRAFT_STR_INIT;
    for (int digits = 15; digits <= 17 && !number.failed; digits++) {
        graft_str_finish(&number);
        graft_str_printf(&number, "%.*g", digits, v);
        if (!number.failed && graft_str_to_double(number.data, NULL) == v) break;
    }
    graft_str_puts(s, number.failed ? "?" : number.data);
    if (isfinite(v) && !number.failed && !strpbrk(number.data, ".e")) graft_str_puts(s, ".0");
    graft_str_finish(&number);
}

static void put_quoted(graft_str *s, const char *text)
{
    char quote = strchr(text, '\'') && !strchr(text, '"') ? '"' : '\'';
    graft_str_append(s, &quote, 1);
    for (; *text; text++) {
        if (*text == '\\' || *text == quote) graft_str_puts(s, "\\");
        if (*text == '\n')
            graft_str_puts(s, "\\n");
        else
            graft_str_append(s, text, 1);
    }
    graft_str_append(s, &quote, 1);
}

static void put_item(graft_str *s, const cJSON *item, bool quote)
{
    double v;
    if (cJSON_IsString(item) && quote) {
        put_quoted(s, item->valuestring);
    } else if (cJSON_IsString(item)) {
        graft_str_puts(s, item->valuestring);
    } else if (cJSON_IsBool(item)) {
        graft_str_puts(s, cJSON_IsTrue(item) ? "True" : "False");
    } else if (cJSON_IsNull(item)) {
        graft_str_puts(s, "None");
    } else if (cJSON_IsNumber(item) && graft_json_f64(item, &v) && v != floor(v)) {
        put_float(s, v);
    } else if (cJSON_IsArray(item) || cJSON_IsObject(item)) {
        bool list = cJSON_IsArray(item);
        graft_str_puts(s, list ? "[" : "{");
        for (const cJSON *member = item->child; member; member = member->next) {
            if (member != item->child) graft_str_puts(s, ", ");
            if (!list) {
                put_quoted(s, member->string);
                graft_str_puts(s, ": ");
            }
            put_item(s, member, true);
        }
        graft_str_puts(s, list ? "]" : "}");
    } else {
        char *text = graft_json_print(item);
        if (text)
            graft_str_puts(s, text);
        else
            s->failed = true;
        graft_free(text);
    }
}

static const char *python_type(const cJSON *item)
{
    if (cJSON_IsArray(item)) return "list";
    if (cJSON_IsObject(item)) return "dict";
    return "NoneType";
}

/* "name, value, reason": the value cannot become one of the input's type. */
static graft_status cannot_convert(const graft_input *in, const cJSON *item, graft_str *reason,
                                   graft_literal_fault *fault, graft_err *e)
{
    graft_str details = GRAFT_STR_INIT;
    fault->type = "invalid_input_type";
    snprintf(fault->message, sizeof fault->message,
             "Failed to convert an input value to a %s value", in->type);
    fault->exception = graft_str_take(reason);
    graft_str_printf(&details, "%s, ", in->name);
    put_item(&details, item, false);
    graft_str_printf(&details, ", %s", fault->exception ? fault->exception : "");
    fault->details = graft_str_take(&details);
    return fault->exception && fault->details ? GRAFT_OK : graft_fail_nomem(e, "a message");
}

static graft_status out_of_range(const graft_input *in, bool small, const char *value,
                                 const char *end, graft_literal_fault *fault, graft_err *e)
{
    fault->type = small ? "value_smaller_than_min" : "value_bigger_than_max";
    snprintf(fault->message, sizeof fault->message, "Value %.60s %s than %s of %.60s", value,
             small ? "smaller" : "bigger", small ? "min" : "max", end);
    fault->details = graft_strdup(in->name);
    return fault->details ? GRAFT_OK : graft_fail_nomem(e, "a message");
}

/* An integer of any sign with 64 bits; `over`: even bigger. */
struct wide {
    bool negative, over;
    uint64_t size;
};

static struct wide wide_from_double(double v)
{
    struct wide w = {v < 0, false, 0};
    v = trunc(fabs(v));
    w.over = !(v < 0x1p64);
    if (!w.over) w.size = (uint64_t)v;
    return w;
}

/* Python's int(text): white space around, a sign, digits with single underscores between them. */
static bool wide_from_text(const char *s, struct wide *w)
{
    *w = (struct wide){false, false, 0};
    while (isspace((unsigned char)*s)) s++;
    if (*s == '+' || *s == '-') w->negative = *s++ == '-';
    if (!isdigit((unsigned char)*s)) return false;
    for (; isdigit((unsigned char)*s); s++) {
        if (__builtin_mul_overflow(w->size, 10, &w->size) ||
            __builtin_add_overflow(w->size, (uint64_t)(*s - '0'), &w->size))
            w->over = true;
        if (s[1] == '_' && isdigit((unsigned char)s[2])) s++;
    }
    while (isspace((unsigned char)*s)) s++;
    return !*s;
}

static bool read_wide(const cJSON *item, struct wide *w, graft_str *reason)
{
    int64_t i;
    uint64_t u;
    double f;
    *w = (struct wide){false, false, 0};
    if (cJSON_IsBool(item)) {
        w->size = cJSON_IsTrue(item);
    } else if (graft_json_u64(item, &u)) {
        w->size = u;
    } else if (graft_json_i64(item, &i)) {
        *w = (struct wide){true, false, 0 - (uint64_t)i};
    } else if (graft_json_f64(item, &f)) {
        if (!isfinite(f)) {
            graft_str_printf(reason, "cannot convert float %s to integer",
                             isnan(f) ? "NaN" : "infinity");
            return false;
        }
        *w = wide_from_double(f);
    } else if (cJSON_IsString(item)) {
        if (wide_from_text(item->valuestring, w)) return true;
        graft_str_puts(reason, "invalid literal for int() with base 10: ");
        put_quoted(reason, item->valuestring);
        return false;
    } else {
        graft_str_printf(reason,
                         "int() argument must be a string, a bytes-like object or a real number, "
                         "not '%s'",
                         python_type(item));
        return false;
    }
    return true;
}

void graft_literal_int_range(const graft_input *in, long double *min, long double *max)
{
    bool u64 = in->flags & GRAFT_INPUT_U64;
    long double low = u64 ? 0 : -0x1p63L, high = u64 ? 0x1p64L - 1 : 0x1p63L - 1;
    *min = low;
    *max = high;
    if (in->min < in->max) {
        if (in->min > low) *min = in->min;
        if (in->max < high) *max = in->max;
    }
}

static graft_status read_int(const graft_input *in, const cJSON *item, bool left,
                             graft_literal *out, graft_literal_fault *fault, graft_err *e)
{
    struct wide w;
    graft_str reason = GRAFT_STR_INIT;
    if (!read_wide(item, &w, &reason)) return cannot_convert(in, item, &reason, fault, e);
    long double min, max, v = w.over ? (long double)INFINITY : (long double)w.size;
    if (w.negative) v = -v;
    graft_literal_int_range(in, &min, &max);
    bool fits = in->flags & GRAFT_INPUT_U64 ? v >= 0 : v >= -0x1p63L && v < 0x1p63L;
    if (fits && !w.over) {
        out->value.kind = GRAFT_INT;
        out->value.u.i = (int64_t)(w.negative ? 0 - w.size : w.size);
    }
    if (v >= min && v <= max) return GRAFT_OK;
    if (left && out->value.kind == GRAFT_INT) return GRAFT_OK;
    char value[64], end[64];
    if (w.over && graft_json_is_number(item) && !cJSON_IsRaw(item))
        snprintf(value, sizeof value, "%.0f", item->valuedouble);
    else if (w.over)
        snprintf(value, sizeof value, "%.60s", item->valuestring ? item->valuestring : "");
    else
        snprintf(value, sizeof value, "%s%llu", w.negative && w.size ? "-" : "",
                 (unsigned long long)w.size);
    snprintf(end, sizeof end, "%.0Lf", v < min ? min : max);
    return out_of_range(in, v < min, value, end, fault, e);
}

/* Python's float(text), less the spellings of infinity and NaN, which no input can use. */
static bool float_from_text(const char *s, double *out)
{
    char *end;
    while (isspace((unsigned char)*s)) s++;
    if (!*s || s[strspn(s, "0123456789+-.eE \t\r\n")]) return false;
    *out = graft_str_to_double(s, &end);
    if (end == s) return false;
    while (isspace((unsigned char)*end)) end++;
    return !*end;
}

static graft_status read_float(const graft_input *in, const cJSON *item, bool left,
                               graft_literal *out, graft_literal_fault *fault, graft_err *e)
{
    double v = 0;
    graft_str reason = GRAFT_STR_INIT;
    bool ok = true;
    if (cJSON_IsBool(item)) {
        v = cJSON_IsTrue(item);
    } else if (cJSON_IsString(item)) {
        ok = float_from_text(item->valuestring, &v);
        if (!ok) {
            graft_str_puts(&reason, "could not convert string to float: ");
            put_quoted(&reason, item->valuestring);
        }
    } else if (!graft_json_f64(item, &v)) {
        ok = false;
        graft_str_printf(&reason, "float() argument must be a string or a real number, not '%s'",
                         python_type(item));
    }
    if (ok && !isfinite(v)) {
        ok = false;
        graft_str_puts(&reason, "the number is not finite");
    }
    if (!ok) return cannot_convert(in, item, &reason, fault, e);
    out->value.kind = GRAFT_FLOAT;
    out->value.u.f = v;
    if (left || !(in->min < in->max) || (v >= in->min && v <= in->max)) return GRAFT_OK;
    graft_str value = GRAFT_STR_INIT, end = GRAFT_STR_INIT;
    put_float(&value, v);
    put_float(&end, v < in->min ? in->min : in->max);
    graft_status st = value.failed || end.failed
                          ? graft_fail_nomem(e, "a message")
                          : out_of_range(in, v < in->min, value.data, end.data, fault, e);
    graft_str_finish(&value);
    graft_str_finish(&end);
    return st;
}

static bool truth(const cJSON *item)
{
    double v;
    if (cJSON_IsBool(item)) return cJSON_IsTrue(item);
    if (cJSON_IsString(item)) return item->valuestring[0] != 0;
    if (cJSON_IsArray(item) || cJSON_IsObject(item)) return item->child;
    return graft_json_f64(item, &v) && v != 0;
}

static graft_status not_in_list(const graft_input *in, const cJSON *item, const graft_choices *c,
                                graft_literal_fault *fault, graft_err *e)
{
    graft_str s = GRAFT_STR_INIT;
    fault->type = "value_not_in_list";
    snprintf(fault->message, sizeof fault->message, "Value not in list");
    graft_str_printf(&s, "%s: ", in->name);
    put_item(&s, item, true);
    graft_str_puts(&s, " not in ");
    fault->no_config = c->count > GRAFT_OFFERS_LONG;
    if (fault->no_config) {
        graft_str_printf(&s, "(list of length %zu)", c->count);
    } else {
        graft_str_puts(&s, "[");
        for (size_t i = 0; i < c->count; i++) {
            if (i) graft_str_puts(&s, ", ");
            put_quoted(&s, c->name[i]);
        }
        graft_str_puts(&s, "]");
    }
    fault->details = graft_str_take(&s);
    return fault->details ? GRAFT_OK : graft_fail_nomem(e, "a message");
}

/* Workflows that were made on Windows have a back-slash between the folders of a file's name. */
static void turn_slashes(char *name)
{
    for (; *name; name++)
        if (*name == '\\') *name = '/';
}

static graft_status read_choice(const graft_offer *c, const graft_input *in, const cJSON *item,
                                bool left, graft_literal *out, graft_literal_fault *fault,
                                graft_err *e)
{
    if (!cJSON_IsString(item)) return not_in_list(in, item, &c->choices, fault, e);
    char *text = graft_strdup(item->valuestring);
    if (!text) return graft_fail_nomem(e, "an input");
    bool there = left || graft_offers_has(c, text);
    if (!there) {
        turn_slashes(text);
        there = graft_offers_has(c, text);
    }
    if (there) {
        put_text(out, GRAFT_CHOICE, text);
        return GRAFT_OK;
    }
    graft_free(text);
    return not_in_list(in, item, &c->choices, fault, e);
}

static graft_status read_string(const cJSON *item, graft_literal *out, graft_err *e)
{
    graft_str s = GRAFT_STR_INIT;
    put_item(&s, item, false);
    char *text = graft_str_take(&s);
    if (!text) return graft_fail_nomem(e, "an input");
    put_text(out, GRAFT_STRING, text);
    return GRAFT_OK;
}

/* The type that a literal has by the way it is written; NULL when no socket takes it. */
static const char *written_as(const cJSON *item)
{
    int64_t whole;
    if (cJSON_IsString(item)) return "STRING";
    if (cJSON_IsBool(item)) return "BOOLEAN";
    if (!graft_json_is_number(item)) return NULL;
    return !graft_json_is_fraction(item) && graft_json_i64(item, &whole) ? "INT" : "FLOAT";
}

/* The same, among those that the socket takes: one kind of number stands in for the other. */
static const char *taken_as(const graft_input *in, const cJSON *item)
{
    int64_t whole;
    const char *type = written_as(item);
    if (!type || graft_schema_match(type, in->type)) return type;
    if (strcmp(type, "INT") == 0 && graft_schema_match("FLOAT", in->type)) return "FLOAT";
    bool may = strcmp(type, "FLOAT") == 0 && graft_schema_match("INT", in->type);
    return may && graft_json_i64(item, &whole) ? "INT" : NULL;
}

/* A literal on a socket that takes any type, or one of several, becomes what its form suggests. */
static graft_status read_any(const graft_input *in, const cJSON *item, bool left,
                             graft_literal *out, graft_literal_fault *fault, graft_err *e)
{
    const char *type = left ? written_as(item) : taken_as(in, item);
    if (!type) {
        fault->type = "bad_linked_input";
        snprintf(fault->message, sizeof fault->message,
                 "Bad linked input, must be a length-2 list of [node_id, slot_index]");
        fault->details = graft_strdup(in->name);
        return fault->details ? GRAFT_OK : graft_fail_nomem(e, "a message");
    }
    if (strcmp(type, "STRING") == 0) return read_string(item, out, e);
    if (strcmp(type, "BOOLEAN") == 0) {
        out->value.kind = GRAFT_BOOL;
        out->value.u.i = cJSON_IsTrue(item);
    } else if (strcmp(type, "INT") == 0 && graft_json_i64(item, &out->value.u.i)) {
        out->value.kind = GRAFT_INT;
    } else if (graft_json_f64(item, &out->value.u.f)) {
        out->value.kind = GRAFT_FLOAT;
    }
    return GRAFT_OK;
}

graft_status graft_literal_read(const graft_offer *choices, const graft_input *in,
                                const cJSON *item, bool left, graft_literal *out,
                                graft_literal_fault *fault, graft_err *e)
{
    memset(out, 0, sizeof *out);
    memset(fault, 0, sizeof *fault);
    if (strcmp(in->type, "INT") == 0) return read_int(in, item, left, out, fault, e);
    if (strcmp(in->type, "FLOAT") == 0) return read_float(in, item, left, out, fault, e);
    if (strcmp(in->type, "STRING") == 0) return read_string(item, out, e);
    if (graft_schema_combo(in)) return read_choice(choices, in, item, left, out, fault, e);
    if (strcmp(in->type, "BOOLEAN") == 0) {
        out->value.kind = GRAFT_BOOL;
        out->value.u.i = truth(item);
        return GRAFT_OK;
    }
    return read_any(in, item, left, out, fault, e);
}

cJSON *graft_literal_json(const graft_input *in, const graft_arg *value)
{
    switch (value->kind) {
    case GRAFT_INT:
        return in->flags & GRAFT_INPUT_U64 ? graft_json_new_u64((uint64_t)value->u.i)
                                           : graft_json_new_i64(value->u.i);
    case GRAFT_FLOAT: /* elsewhere its form is all that tells it from an INT */
        return strcmp(in->type, "FLOAT") == 0 ? cJSON_CreateNumber(value->u.f)
                                              : graft_json_new_fraction(value->u.f);
    case GRAFT_BOOL:
        return cJSON_CreateBool(value->u.i != 0);
    case GRAFT_STRING:
    case GRAFT_CHOICE:
        return cJSON_CreateString(value->u.s);
    default:
        return cJSON_CreateNull();
    }
}

graft_status graft_literal_initial(const graft_input *in, graft_literal *out, graft_err *e)
{
    memset(out, 0, sizeof *out);
    if (!graft_schema_widget(in)) return GRAFT_OK;
    bool text = strcmp(in->type, "STRING") == 0 || graft_schema_combo(in);
    if (text && in->initial.s) {
        char *copy = graft_strdup(in->initial.s);
        if (!copy) return graft_fail_nomem(e, "an input");
        put_text(out, graft_schema_combo(in) ? GRAFT_CHOICE : GRAFT_STRING, copy);
    } else if (!text) {
        out->value.u = in->initial;
        out->value.kind = strcmp(in->type, "INT") == 0     ? GRAFT_INT
                          : strcmp(in->type, "FLOAT") == 0 ? GRAFT_FLOAT
                                                           : GRAFT_BOOL;
    }
    return GRAFT_OK;
}

cJSON *graft_literal_from_text(const graft_input *in, const char *text)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    struct wide w;
    double v;
    if (strcmp(in->type, "INT") == 0 && wide_from_text(text, &w) && !w.over) {
        if (!w.negative) return graft_json_new_u64(w.size);
        if (w.size <= (uint64_t)INT64_MAX) return graft_json_new_i64(-(int64_t)w.size);
    }
    if (strcmp(in->type, "FLOAT") == 0 && float_from_text(text, &v) && isfinite(v))
        return cJSON_CreateNumber(v);
    if (strcmp(in->type, "BOOLEAN") == 0)
        for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
            if (strcasecmp(text, yes[i]) == 0) return cJSON_CreateTrue();
            if (strcasecmp(text, no[i]) == 0) return cJSON_CreateFalse();
        }
    return cJSON_CreateString(text);
}

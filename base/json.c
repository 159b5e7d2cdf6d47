#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

/* cJSON is lenient and keeps numbers as doubles, so the text is read twice: `scan` is strict about
 * JSON's grammar (RFC 8259) and copies it with each big integer turned into a string that begins
 * with MARK, a byte that UTF-8 cannot hold; cJSON then builds the tree and `unmark` turns those
 * strings into raw items. Likewise POINT marks whole numbers that are written as fractions. */
#define MARK  '\xff'
#define POINT '\xfe'

static bool parse_double(const char *text, double *out)
{
    char *end;
    *out = graft_str_to_double(text, &end);
    return end != text && !*end;
}

typedef struct scan {
    const char *begin, *p, *end;
    graft_str out;
    const char *fault;
    const char *at; /* where it is */
    bool python, marked;
} scan;

static bool fault(scan *s, const char *at, const char *what)
{
    if (!s->fault) {
        s->fault = what;
        s->at = at;
    }
    return false;
}

static int peek(const scan *s)
{
    return s->p < s->end ? (unsigned char)*s->p : -1;
}

static void skip_space(scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool digits(scan *s)
{
    if (!is_digit(peek(s))) return fault(s, s->p, "a digit was expected");
    while (is_digit(peek(s))) s->p++;
    return true;
}

/* True for a number of at most 60 characters that has no fraction, however it is written. */
static bool is_whole(const char *from, size_t n)
{
    char text[64];
    double v;
    memcpy(text, from, n);
    text[n] = 0;
    return parse_double(text, &v) && isfinite(v) && v == floor(v);
}

static bool scan_number(scan *s)
{
    const char *from = s->p;
    bool whole = true;
    if (peek(s) == '-') s->p++;
    const char *first = s->p;
    if (!digits(s)) return false;
    size_t n_digits = (size_t)(s->p - first);
    if (*first == '0' && n_digits > 1) return fault(s, first, "a number begins with 0");
    if (peek(s) == '.') {
        whole = false;
        s->p++;
        if (!digits(s)) return false;
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        whole = false;
        s->p++;
        if (peek(s) == '+' || peek(s) == '-') s->p++;
        if (!digits(s)) return false;
    }
    /* 2^53 has 16 digits; shorter ones are exact as doubles. cJSON cuts numbers at 63 characters,
     * so long ones of any form are kept as text, too. */
    bool big = (whole && n_digits >= 16) || s->p - from > 60;
    bool point = !big && !whole && is_whole(from, (size_t)(s->p - from));
    char mark = big ? MARK : POINT;
    if (big || point) {
        s->marked = true;
        graft_str_puts(&s->out, "\"");
        graft_str_append(&s->out, &mark, 1);
    }
    graft_str_append(&s->out, from, (size_t)(s->p - from));
    if (big || point) graft_str_puts(&s->out, "\"");
    return true;
}

/* The 4 digits at p, -1 if they are none. */
static int hex4(const scan *s, const char *p)
{
    int v = 0;
    if (s->end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int c = p[i], d = is_digit(c)            ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

/* The escape after a back-slash. Python writes lone surrogates of broken file names as they are;
 * they have no UTF-8, so U+FFFD stands for them, as in browsers' decoders. */
static bool scan_escape(scan *s)
{
    const char *from = s->p++;
    int c = peek(s);
    if (c != 'u') {
        if (c <= 0 || !strchr("\"\\/bfnrt", c)) return fault(s, from, "unknown escape in a string");
        s->p++;
        graft_str_append(&s->out, from, 2);
        return true;
    }
    int v = hex4(s, s->p + 1);
    if (v < 0) return fault(s, from, "\\u needs 4 hexadecimal digits");
    if (v == 0) return fault(s, from, "a string holds \\u0000");
    s->p += 5;
    bool pair = v >= 0xd800 && v <= 0xdbff && s->end - s->p >= 6 && s->p[0] == '\\' &&
                s->p[1] == 'u' && hex4(s, s->p + 2) >= 0xdc00 && hex4(s, s->p + 2) <= 0xdfff;
    if (pair) s->p += 6;
    if (!pair && v >= 0xd800 && v <= 0xdfff)
        graft_str_puts(&s->out, "\xef\xbf\xbd");
    else
        graft_str_append(&s->out, from, (size_t)(s->p - from));
    return true;
}

static bool scan_string(scan *s)
{
    const char *open = s->p, *run = s->p++;
    for (;;) {
        int c = peek(s);
        if (c < 0) return fault(s, open, "a string without an end");
        if (c < 0x20) return fault(s, s->p, "a control character in a string");
        if (c == '\\') {
            graft_str_append(&s->out, run, (size_t)(s->p - run));
            if (!scan_escape(s)) return false;
            run = s->p;
            continue;
        }
        size_t n = graft_str_utf8(s->p, s->end);
        if (!n) return fault(s, s->p, "a string is not UTF-8");
        s->p += n;
        if (c == '"') break;
    }
    graft_str_append(&s->out, run, (size_t)(s->p - run));
    return true;
}

static bool scan_word(scan *s, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return fault(s, s->p, "a value was expected");
    s->p += n;
    graft_str_append(&s->out, word, n);
    return true;
}

/* What Python writes for numbers that JSON does not have; false when it is something else. */
static bool scan_not_finite(scan *s)
{
    static const char *const word[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; s->python && i < sizeof word / sizeof *word; i++) {
        size_t n = strlen(word[i]);
        if ((size_t)(s->end - s->p) < n || memcmp(s->p, word[i], n) != 0) continue;
        s->p += n;
        graft_str_puts(&s->out, "null");
        return true;
    }
    return false;
}

static bool scan_value(scan *s, int depth);

static bool scan_list(scan *s, int depth, bool object)
{
    int close = object ? '}' : ']';
    if (depth >= GRAFT_JSON_MAX_DEPTH) return fault(s, s->p, "nested too deeply");
    graft_str_append(&s->out, s->p++, 1);
    skip_space(s);
    for (bool first = true; peek(s) != close || !first; first = false) {
        if (object) {
            if (peek(s) != '"') return fault(s, s->p, "a member's name was expected");
            if (!scan_string(s)) return false;
            skip_space(s);
            if (peek(s) != ':') return fault(s, s->p, "\":\" was expected");
            graft_str_append(&s->out, s->p++, 1);
        }
        if (!scan_value(s, depth + 1)) return false;
        if (peek(s) == close) break;
        if (peek(s) != ',')
            return fault(s, s->p,
                         object ? "\",\" or \"}\" was expected" : "\",\" or \"]\" was expected");
        graft_str_append(&s->out, s->p++, 1);
        skip_space(s);
    }
    graft_str_append(&s->out, s->p++, 1);
    return true;
}

/* A value and the white space around it. */
static bool scan_value(scan *s, int depth)
{
    bool good;
    skip_space(s);
    int c = peek(s);
    if (c == '{' || c == '[')
        good = scan_list(s, depth, c == '{');
    else if (c == '"')
        good = scan_string(s);
    else if (scan_not_finite(s))
        good = true;
    else if (c == '-' || is_digit(c))
        good = scan_number(s);
    else
        good = scan_word(s, c == 't' ? "true" : c == 'f' ? "false" : "null");
    skip_space(s);
    return good;
}

/* Strings of the marked forms become numbers in place: the digits move to the front. Depth is
 * bounded by `scan`. */
static void unmark(cJSON *item)
{
    for (; item; item = item->next) {
        char mark = cJSON_IsString(item) ? item->valuestring[0] : 0;
        if (mark == MARK || mark == POINT) {
            double v = 0;
            memmove(item->valuestring, item->valuestring + 1, strlen(item->valuestring));
            (void)parse_double(item->valuestring, &v);
            item->type = (item->type & ~0xff) | (mark == MARK ? cJSON_Raw : cJSON_Number);
            if (mark == POINT)
                cJSON_SetNumberHelper(item, v);
            else
                item->valuedouble = v;
        }
        if (item->child) unmark(item->child);
    }
}

static graft_status fail_at(const scan *s, const char *what, graft_err *e)
{
    size_t line = 1, column = 1;
    for (const char *p = s->begin; p < s->at; p++) {
        column++;
        if (*p == '\n') {
            line++;
            column = 1;
        }
    }
    return graft_fail(e, GRAFT_E_FORMAT, "%s: line %zu, column %zu: %s", what, line, column,
                      s->at >= s->end ? "the text ends too early" : s->fault);
}

static graft_status check_size(size_t n, const char *what, graft_err *e)
{
    return n > GRAFT_JSON_MAX_BYTES
               ? graft_fail(e, GRAFT_E_LIMIT, "%s: more than %zu bytes of JSON", what,
                            GRAFT_JSON_MAX_BYTES)
               : GRAFT_OK;
}

/* The tree of a text that is known to be good, so that all that can fail is memory. */
static graft_status build(const scan *s, const char *what, cJSON **out, graft_err *e)
{
    *out = s->out.failed ? NULL : cJSON_ParseWithLength(s->out.data, s->out.len);
    if (!*out) return graft_fail_nomem(e, what);
    if (s->marked) unmark(*out);
    return GRAFT_OK;
}

static graft_status parse(const char *text, size_t n, const char *what, bool python, cJSON **out,
                          graft_err *e)
{
    *out = NULL;
    graft_status st = check_size(n, what, e);
    if (st) return st;
    scan s = {.begin = text, .p = text, .end = text + n, .out = GRAFT_STR_INIT, .python = python};
    bool good = scan_value(&s, 0);
    if (good && s.p < s.end) good = fault(&s, s.p, "more text after the value");
    st = good ? build(&s, what, out, e) : fail_at(&s, what, e);
    graft_str_finish(&s.out);
    return st;
}

graft_status graft_json_parse(const char *text, size_t n, const char *what, cJSON **out,
                              graft_err *e)
{
    return parse(text, n, what, false, out, e);
}

graft_status graft_json_parse_python(const char *text, size_t n, const char *what, cJSON **out,
                                     graft_err *e)
{
    return parse(text, n, what, true, out, e);
}

graft_status graft_json_find_object(const char *text, size_t n, const char *what, cJSON **out,
                                    graft_err *e)
{
    const char *end = text + n;
    *out = NULL;
    graft_status st = check_size(n, what, e);
    for (const char *p = memchr(text, '{', n); p && !*out && !st;
         p = memchr(p + 1, '{', (size_t)(end - p) - 1)) {
        scan s = {.begin = p, .p = p, .end = end, .out = GRAFT_STR_INIT, .python = true};
        if (scan_value(&s, 0)) st = build(&s, what, out, e);
        graft_str_finish(&s.out);
    }
    return st;
}

/* The text of a raw item if it is a number that `scan` put there or graft_json_new_* made. */
static const char *raw_number(const cJSON *item)
{
    if (!cJSON_IsRaw(item) || !item->valuestring) return NULL;
    const char *p = item->valuestring;
    return is_digit(p[*p == '-']) ? p : NULL;
}

bool graft_json_i64(const cJSON *item, int64_t *out)
{
    const char *raw = raw_number(item);
    if (raw) {
        char *end;
        errno = 0;
        long long v = strtoll(raw, &end, 10);
        if (errno || *end) return false;
        *out = v;
        return true;
    }
    if (!cJSON_IsNumber(item)) return false;
    double v = item->valuedouble;
    if (!(v >= -0x1p63 && v < 0x1p63) || v != floor(v)) return false;
    *out = (int64_t)v;
    return true;
}

bool graft_json_u64(const cJSON *item, uint64_t *out)
{
    const char *raw = raw_number(item);
    if (raw) {
        char *end;
        errno = 0;
        if (raw[0] == '-') return false;
        unsigned long long v = strtoull(raw, &end, 10);
        if (errno || *end) return false;
        *out = v;
        return true;
    }
    if (!cJSON_IsNumber(item)) return false;
    double v = item->valuedouble;
    if (!(v >= 0 && v < 0x1p64) || v != floor(v)) return false;
    *out = (uint64_t)v;
    return true;
}

bool graft_json_f64(const cJSON *item, double *out)
{
    const char *raw = raw_number(item);
    if (!raw && !cJSON_IsNumber(item)) return false;
    if (raw) return parse_double(raw, out);
    *out = item->valuedouble;
    return true;
}

/* cJSON's own printer keeps 15 digits, hence the limit. */
static cJSON *new_integer(double v, const char *text)
{
    return fabs(v) < 1e15 ? cJSON_CreateNumber(v) : cJSON_CreateRaw(text);
}

cJSON *graft_json_new_i64(int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)v);
    return new_integer((double)v, text);
}

cJSON *graft_json_new_u64(uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    return new_integer((double)v, text);
}

bool graft_json_is_number(const cJSON *item)
{
    return cJSON_IsNumber(item) || raw_number(item);
}

bool graft_json_is_fraction(const cJSON *item)
{
    const char *raw = raw_number(item);
    if (raw) return strpbrk(raw, ".eE");
    return cJSON_IsNumber(item) &&
           (item->valuestring || item->valuedouble != floor(item->valuedouble));
}

cJSON *graft_json_new_fraction(double v)
{
    char text[40];
    cJSON *item = cJSON_CreateNumber(v);
    if (!item || v != floor(v)) return item;
    /* A string's own text becomes the number's, so that cJSON frees it as it was made. */
    snprintf(text, sizeof text, "%.17e", v);
    cJSON *holder = cJSON_CreateString(text);
    if (holder) {
        item->valuestring = holder->valuestring;
        holder->valuestring = NULL;
    } else {
        cJSON_Delete(item);
        item = NULL;
    }
    cJSON_Delete(holder);
    return item;
}

/* JSON has no NaN or infinity. */
static void print_double(graft_str *s, double v)
{
    if (isfinite(v))
        graft_str_double(s, v);
    else
        graft_str_puts(s, "null");
}

static void print_number(graft_str *s, const cJSON *item)
{
    const size_t at = s->len;
    print_double(s, item->valuedouble);
    if (item->valuestring && !s->failed && !strpbrk(s->data + at, ".e")) graft_str_puts(s, ".0");
}

static void print_item(graft_str *s, const cJSON *item)
{
    const char *close = cJSON_IsObject(item) ? "}" : "]";
    switch (item->type & 0xff) {
    case cJSON_False:
        graft_str_puts(s, "false");
        break;
    case cJSON_True:
        graft_str_puts(s, "true");
        break;
    case cJSON_Number:
        print_number(s, item);
        break;
    case cJSON_String:
        graft_str_json(s, item->valuestring ? item->valuestring : "");
        break;
    case cJSON_Raw:
        graft_str_puts(s, item->valuestring ? item->valuestring : "null");
        break;
    case cJSON_Array:
    case cJSON_Object:
        graft_str_puts(s, *close == '}' ? "{" : "[");
        for (const cJSON *child = item->child; child; child = child->next) {
            if (child != item->child) graft_str_puts(s, ",");
            if (*close == '}') {
                graft_str_json(s, child->string ? child->string : "");
                graft_str_puts(s, ":");
            }
            print_item(s, child);
        }
        graft_str_puts(s, close);
        break;
    default:
        graft_str_puts(s, "null");
        break;
    }
}

char *graft_json_print(const cJSON *item)
{
    graft_str s = GRAFT_STR_INIT;
    print_item(&s, item);
    return graft_str_take(&s);
}

const char *graft_json_str(const cJSON *object, const char *name, const char *fallback)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) && item->valuestring ? item->valuestring : fallback;
}

int64_t graft_json_int(const cJSON *object, const char *name, int64_t fallback)
{
    int64_t v;
    return graft_json_i64(cJSON_GetObjectItemCaseSensitive(object, name), &v) ? v : fallback;
}

double graft_json_num(const cJSON *object, const char *name, double fallback)
{
    double v;
    return graft_json_f64(cJSON_GetObjectItemCaseSensitive(object, name), &v) ? v : fallback;
}

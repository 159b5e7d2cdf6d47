#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/text/unicode.h"
#include "engine/texts.h"

#define MAX_PATTERN 20000             /* bytes */
#define MAX_STEPS   5000000           /* of one search: some tenths of a second */
#define MAX_KIB     65536             /* that it may take */
#define MAX_RESULT  ((size_t)1 << 26) /* bytes of a text that is made */

struct graft_regex {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *code;
    pcre2_match_data *match;
    uint32_t groups;
};

static void *reserve(size_t bytes, void *ctx)
{
    (void)ctx;
    return graft_malloc(bytes);
}

static void release(void *p, void *ctx)
{
    (void)ctx;
    graft_free(p);
}

/* ------------------------------------------------------------------ patterns */

static int hex_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* \xHH, \uHHHH, \UHHHHHHHH. Returns where it ends; NULL: it is none. */
static const char *put_code(const char *at, graft_str *s)
{
    size_t digits = at[1] == 'x' ? 2 : at[1] == 'u' ? 4 : 8;
    uint32_t code = 0;
    for (size_t i = 0; i < digits; i++) {
        const int v = hex_of(at[2 + i]);
        if (v < 0) return NULL;
        code = code << 4 | (uint32_t)v;
    }
    graft_str_printf(s, "\\x{%x}", (unsigned)code);
    return at + 2 + digits;
}

/* An escape, of which PCRE2 knows others. NULL: Python does not know it. */
static const char *put_escape(const char *at, bool in_class, graft_str *s)
{
    const char c = at[1];
    if (!c) return NULL;
    if (c == 'x' || c == 'u' || c == 'U') return put_code(at, s);
    if (c == 'v')
        graft_str_puts(s, "\\x{b}");
    else if (c == 'Z' && !in_class)
        graft_str_puts(s, "\\z");
    else if (is_letter(c) && !strchr(in_class ? "abdDsSwWfnrt" : "AabBdDsSwWfnrt", c))
        return NULL;
    else
        graft_str_append(s, at, 2);
    return at + 2;
}

/* {,n} is {0,n}. */
static bool is_open_range(const char *at)
{
    if (at[0] != '{' || at[1] != ',' || !is_digit(at[2])) return false;
    at += 2;
    while (is_digit(*at)) at++;
    return *at == '}';
}

/* Python's expression as PCRE2's. */
static graft_status translate(const char *pattern, graft_str *s, graft_err *e)
{
    const char *in_class = NULL; /* where its first member may be */
    for (const char *at = pattern; *at;) {
        if (*at == '\\') {
            const char *after = put_escape(at, in_class, s);
            if (!after)
                return graft_fail(e, GRAFT_E_FORMAT, "bad escape at character %lld",
                                  (long long)(at - pattern));
            at = after;
            continue;
        }
        if (!in_class && at[0] == '(' && at[1] == '*')
            return graft_fail(e, GRAFT_E_FORMAT, "nothing to repeat at character %lld",
                              (long long)(at - pattern) + 1);
        if (!in_class && is_open_range(at)) {
            graft_str_puts(s, "{0");
            at++;
            continue;
        }
        if (in_class && *at == '[') graft_str_puts(s, "\\"); /* no name of a class */
        if (in_class && *at == ']' && at > in_class) {
            in_class = NULL;
        } else if (!in_class && *at == '[') {
            in_class = at + 1 + (at[1] == '^');
            graft_str_append(s, at, (size_t)(in_class - at));
            at = in_class;
            continue;
        }
        graft_str_append(s, at++, 1);
    }
    return s->failed ? graft_fail_nomem(e, "an expression") : GRAFT_OK;
}

static graft_status refused(int error, graft_err *e)
{
    PCRE2_UCHAR why[160] = "";
    pcre2_get_error_message(error, why, sizeof why);
    if (error == PCRE2_ERROR_NOMEMORY || error == PCRE2_ERROR_HEAP_FAILED)
        return graft_fail_nomem(e, "an expression");
    return graft_fail(e, GRAFT_E_FORMAT, "%s", (const char *)why);
}

static graft_status compile(graft_regex *r, const char *text, graft_regex_options o, graft_err *e)
{
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    int error = 0;
    size_t at = 0;
    if (o.any_case) options |= PCRE2_CASELESS;
    if (o.multiline) options |= PCRE2_MULTILINE | PCRE2_ALT_CIRCUMFLEX;
    if (o.dotall) options |= PCRE2_DOTALL;
    pcre2_compile_context *c = pcre2_compile_context_create(r->memory);
    if (!c) return graft_fail_nomem(e, "an expression");
    pcre2_set_max_pattern_length(c, MAX_PATTERN);
    pcre2_set_newline(c, PCRE2_NEWLINE_LF);
    r->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, options, &error, &at, c);
    pcre2_compile_context_free(c);
    if (!r->code) return refused(error, e);
    r->match = pcre2_match_data_create_from_pattern(r->code, r->memory);
    pcre2_pattern_info(r->code, PCRE2_INFO_CAPTURECOUNT, &r->groups);
    return r->match ? GRAFT_OK : graft_fail_nomem(e, "an expression");
}

graft_status graft_regex_create(const char *pattern, graft_regex_options options, graft_regex **out,
                                graft_err *e)
{
    graft_regex *r = graft_calloc(1, sizeof *r);
    graft_str text = GRAFT_STR_INIT;
    graft_status st;
    *out = NULL;
    if (!r) return graft_fail_nomem(e, "an expression");
    r->memory = pcre2_general_context_create(reserve, release, NULL);
    if (r->memory) r->limits = pcre2_match_context_create(r->memory);
    st = r->limits ? GRAFT_OK : graft_fail_nomem(e, "an expression");
    graft_str_append(&text, "", 0);
    if (!st) st = translate(pattern, &text, e);
    if (!st) st = compile(r, text.data, options, e);
    graft_str_finish(&text);
    if (st) {
        graft_regex_destroy(r);
        return st;
    }
    pcre2_set_match_limit(r->limits, MAX_STEPS);
    pcre2_set_heap_limit(r->limits, MAX_KIB);
    *out = r;
    return GRAFT_OK;
}

void graft_regex_destroy(graft_regex *r)
{
    if (!r) return;
    pcre2_match_data_free(r->match);
    pcre2_code_free(r->code);
    pcre2_match_context_free(r->limits);
    pcre2_general_context_free(r->memory);
    graft_free(r);
}

int64_t graft_regex_groups(const graft_regex *r)
{
    return r->groups;
}

/* ------------------------------------------------------------------ searches */

/* What is looked for in which text, and where the last match was. */
typedef struct search {
    graft_regex *r;
    const char *text;
    size_t length, at;
    bool empty; /* the last one: the next is another, or longer */
} search;

static graft_status next_match(search *s, bool *found, graft_err *e)
{
    *found = false;
    const int n = pcre2_match(s->r->code, (PCRE2_SPTR)s->text, s->length, s->at,
                              s->empty ? PCRE2_NOTEMPTY_ATSTART : 0, s->r->match, s->r->limits);
    if (n == PCRE2_ERROR_NOMATCH) return GRAFT_OK;
    if (n == PCRE2_ERROR_NOMEMORY) return graft_fail_nomem(e, "a search");
    if (n == PCRE2_ERROR_MATCHLIMIT || n == PCRE2_ERROR_HEAPLIMIT || n == PCRE2_ERROR_DEPTHLIMIT)
        return graft_fail(e, GRAFT_E_LIMIT, "the expression takes too long to look for");
    if (n < 0) return graft_fail(e, GRAFT_E_FORMAT, "the text is no UTF-8");
    const size_t *place = pcre2_get_ovector_pointer(s->r->match);
    if (place[1] < place[0]) /* \K in a look-ahead, which Python does not have */
        return graft_fail(e, GRAFT_E_FORMAT, "the expression ends before it begins");
    s->at = place[1];
    s->empty = place[1] == place[0];
    *found = true;
    return GRAFT_OK;
}

static search begin(graft_regex *r, const char *text)
{
    return (search){.r = r, .text = text, .length = strlen(text)};
}

/* A group that is no part of the match is empty. */
static void put_group(const search *s, size_t group, graft_str *out)
{
    const size_t *place = pcre2_get_ovector_pointer(s->r->match) + 2 * group;
    if (place[0] == PCRE2_UNSET) return;
    graft_str_append(out, s->text + place[0], place[1] - place[0]);
}

static graft_status taken(graft_str *s, char **out, graft_err *e)
{
    *out = graft_str_take(s);
    return *out ? GRAFT_OK : graft_fail_nomem(e, "a text");
}

static graft_status check_size(const graft_str *s, graft_err *e)
{
    if (s->len <= MAX_RESULT) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_LIMIT, "the text becomes longer than %zu bytes", MAX_RESULT);
}

graft_status graft_regex_search(graft_regex *r, const char *text, bool *found, graft_err *e)
{
    search s = begin(r, text);
    return next_match(&s, found, e);
}

graft_status graft_regex_extract(graft_regex *r, const char *text, int64_t group, bool all,
                                 char **out, graft_err *e)
{
    search s = begin(r, text);
    graft_str result = GRAFT_STR_INIT;
    bool found = false, more = false;
    *out = NULL;
    graft_status st = GRAFT_OK;
    graft_str_append(&result, "", 0);
    if (group < 0 || group > r->groups) goto out;
    do {
        GRAFT_TRY(next_match(&s, &found, e));
        if (!found) break;
        if (more) graft_str_puts(&result, "\n");
        put_group(&s, (size_t)group, &result);
        more = true;
        GRAFT_TRY(check_size(&result, e));
    } while (all);
out:
    if (!st) st = taken(&result, out, e);
    graft_str_finish(&result);
    return st;
}

/* ------------------------------------------------------------------ replacing */

static void put_char(uint32_t cp, graft_str *out)
{
    uint8_t bytes[4];
    graft_str_append(out, (const char *)bytes, graft_unicode_encode(cp, bytes));
}

static graft_status bad_template(graft_err *e, const char *why, size_t at)
{
    return graft_fail(e, GRAFT_E_FORMAT, "%s at character %zu", why, at);
}

/* `<…>` behind \g: a number or a name. *at is moved behind it. */
static graft_status group_of(const search *s, const char *with, const char **at, size_t *group,
                             graft_err *e)
{
    const char *from = *at + 1, *end = **at == '<' ? strchr(from, '>') : NULL;
    char name[64];
    if (!end || end == from || (size_t)(end - from) >= sizeof name)
        return bad_template(e, "missing group name", (size_t)(*at - with));
    memcpy(name, from, (size_t)(end - from));
    name[end - from] = 0;
    *at = end + 1;
    if (strspn(name, "0123456789") == strlen(name) && strlen(name) < 6) {
        *group = 0;
        for (const char *p = name; *p; p++) *group = *group * 10 + (size_t)(*p - '0');
    } else {
        const int n = pcre2_substring_number_from_name(s->r->code, (PCRE2_SPTR)name);
        if (n < 0) return bad_template(e, "unknown group name", (size_t)(from - with));
        *group = (size_t)n;
    }
    if (*group <= s->r->groups) return GRAFT_OK;
    return bad_template(e, "invalid group reference", (size_t)(from - with));
}

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

/* \0…, and \ooo with three octal digits, are characters; else up to two digits are a group. */
static graft_status put_number(const search *s, const char *with, const char **at, graft_str *out,
                               graft_err *e)
{
    const char *p = *at;
    size_t octal = 0;
    while (octal < 3 && is_octal(p[octal])) octal++;
    if (p[0] == '0' || octal == 3) {
        uint32_t code = 0;
        for (size_t i = 0; i < octal; i++) code = code * 8 + (uint32_t)(p[i] - '0');
        *at = p + octal;
        if (!code || code > 0377) return bad_template(e, "bad octal escape", (size_t)(p - with));
        put_char(code, out);
        return GRAFT_OK;
    }
    size_t group = (size_t)(p[0] - '0');
    *at = p + 1;
    if (is_digit(p[1])) {
        group = group * 10 + (size_t)(p[1] - '0');
        *at = p + 2;
    }
    if (group > s->r->groups) return bad_template(e, "invalid group reference", (size_t)(p - with));
    put_group(s, group, out);
    return GRAFT_OK;
}

/* Appends what stands in the place of a match. */
static graft_status put_template(const search *s, const char *with, graft_str *out, graft_err *e)
{
    static const char names[] = "abfnrtv\\", values[] = "\a\b\f\n\r\t\v\\";
    for (const char *at = with; *at;) {
        const char *next = *at == '\\' && at[1] ? at + 2 : NULL;
        const char *known = next ? strchr(names, at[1]) : NULL;
        graft_status st = GRAFT_OK;
        if (!next) {
            if (*at == '\\') return bad_template(e, "bad escape (end of pattern)", strlen(with));
            next = at + 1;
            graft_str_append(out, at, 1);
        } else if (known) {
            graft_str_append(out, &values[known - names], 1);
        } else if (is_digit(at[1])) {
            next = at + 1;
            st = put_number(s, with, &next, out, e);
        } else if (at[1] == 'g') {
            size_t group = 0;
            st = group_of(s, with, &next, &group, e);
            if (!st) put_group(s, group, out);
        } else if (is_letter(at[1])) {
            return bad_template(e, "bad escape", (size_t)(at - with));
        } else {
            graft_str_append(out, at, 2);
        }
        if (st) return st;
        at = next;
    }
    return GRAFT_OK;
}

/* Also where nothing will be replaced: as if every group were empty. */
static graft_status check_template(graft_regex *r, const char *with, graft_err *e)
{
    graft_str none = GRAFT_STR_INIT;
    const search s = begin(r, "");
    size_t *place = pcre2_get_ovector_pointer(r->match);
    for (size_t i = 0; i < 2 * ((size_t)r->groups + 1); i++) place[i] = PCRE2_UNSET;
    graft_status st = put_template(&s, with, &none, e);
    graft_str_finish(&none);
    return st;
}

graft_status graft_regex_replace(graft_regex *r, const char *text, const char *with, int64_t count,
                                 char **out, graft_err *e)
{
    search s = begin(r, text);
    graft_str result = GRAFT_STR_INIT;
    size_t from = 0;
    bool found = false;
    graft_status st = GRAFT_OK;
    *out = NULL;
    graft_str_append(&result, "", 0);
    GRAFT_TRY(check_template(r, with, e));
    for (int64_t n = 0; !count || n < count; n++) {
        GRAFT_TRY(next_match(&s, &found, e));
        if (!found) break;
        const size_t start = pcre2_get_ovector_pointer(r->match)[0];
        graft_str_append(&result, text + from, start - from);
        GRAFT_TRY(put_template(&s, with, &result, e));
        GRAFT_TRY(check_size(&result, e));
        from = s.at;
    }
    graft_str_puts(&result, text + from);
    st = taken(&result, out, e);
out:
    graft_str_finish(&result);
    return st;
}

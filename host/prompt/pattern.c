#include "host/prompt/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/alloc.h"

#define MAX_TEXT  1000   /* bytes of an expression */
#define MAX_STEPS 200000 /* of one search: some milliseconds */
#define MAX_KIB   4096   /* that it may take */

struct graft_pattern {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *code;
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

static graft_status refused(int error, const char *text, graft_err *e)
{
    PCRE2_UCHAR why[160] = "";
    pcre2_get_error_message(error, why, sizeof why);
    if (error == PCRE2_ERROR_NOMEMORY || error == PCRE2_ERROR_HEAP_FAILED)
        return graft_fail_nomem(e, "an expression");
    const bool large = error == PCRE2_ERROR_PATTERN_TOO_LARGE ||
                       error == PCRE2_ERROR_PATTERN_STRING_TOO_LONG ||
                       error == PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP;
    return graft_fail(e, large ? GRAFT_E_LIMIT : GRAFT_E_FORMAT, "the expression /%.60s/: %s", text,
                      (const char *)why);
}

/* As in JavaScript: unknown escapes are what is escaped, [] is nothing, and $ is the very end. */
static graft_status compile(graft_pattern *p, const char *text, graft_err *e)
{
    const uint32_t options = PCRE2_UTF | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_ALT_BSUX |
                             PCRE2_MATCH_UNSET_BACKREF | PCRE2_DOLLAR_ENDONLY |
                             PCRE2_NEVER_BACKSLASH_C;
    int error = 0;
    size_t at = 0;
    pcre2_compile_context *c = pcre2_compile_context_create(p->memory);
    if (!c) return graft_fail_nomem(e, "an expression");
    pcre2_set_max_pattern_length(c, MAX_TEXT);
    pcre2_set_newline(c, PCRE2_NEWLINE_ANYCRLF);
    pcre2_set_compile_extra_options(c, PCRE2_EXTRA_BAD_ESCAPE_IS_LITERAL | PCRE2_EXTRA_ALT_BSUX);
    p->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, options, &error, &at, c);
    pcre2_compile_context_free(c);
    return p->code ? GRAFT_OK : refused(error, text, e);
}

graft_status graft_pattern_create(const char *text, graft_pattern **out, graft_err *e)
{
    graft_pattern *p = graft_calloc(1, sizeof *p);
    graft_status st = GRAFT_OK;
    *out = NULL;
    if (!p) return graft_fail_nomem(e, "an expression");
    p->memory = pcre2_general_context_create(reserve, release, NULL);
    if (p->memory) p->limits = pcre2_match_context_create(p->memory);
    if (!p->limits) st = graft_fail_nomem(e, "an expression");
    if (!st) st = compile(p, text, e);
    if (st) {
        graft_pattern_destroy(p);
        return st;
    }
    pcre2_set_match_limit(p->limits, MAX_STEPS);
    pcre2_set_heap_limit(p->limits, MAX_KIB);
    *out = p;
    return GRAFT_OK;
}

void graft_pattern_destroy(graft_pattern *p)
{
    if (!p) return;
    pcre2_code_free(p->code);
    pcre2_match_context_free(p->limits);
    pcre2_general_context_free(p->memory);
    graft_free(p);
}

graft_status graft_pattern_find(const graft_pattern *p, const char *text, bool *found, graft_err *e)
{
    pcre2_match_data *d = pcre2_match_data_create(1, p->memory);
    *found = false;
    if (!d) return graft_fail_nomem(e, "an expression");
    const int n = pcre2_match(p->code, (PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, 0, d, p->limits);
    pcre2_match_data_free(d);
    *found = n >= 0;
    if (n >= 0 || n == PCRE2_ERROR_NOMATCH) return GRAFT_OK;
    if (n == PCRE2_ERROR_NOMEMORY) return graft_fail_nomem(e, "an expression");
    if (n == PCRE2_ERROR_MATCHLIMIT || n == PCRE2_ERROR_HEAPLIMIT || n == PCRE2_ERROR_DEPTHLIMIT)
        return graft_fail(e, GRAFT_E_LIMIT, "an expression that takes too long to look for");
    return graft_fail(e, GRAFT_E_FORMAT, "a text that is no UTF-8");
}

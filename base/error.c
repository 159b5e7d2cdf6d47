#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* A text that was cut within a character, or names a file in some other encoding, is UTF-8 again:
 * a question mark stands for the bytes that are none. */
static void mend(char *text)
{
    char *to = text;
    const char *end = text + strlen(text);
    bool gap = false;
    for (const char *p = text; p < end;) {
        size_t n = graft_str_utf8(p, end);
        if (n) {
            memmove(to, p, n);
            to += n;
        } else if (!gap) {
            *to++ = '?';
        }
        gap = !n;
        p += n ? n : 1;
    }
    *to = 0;
}

graft_status graft_fail(graft_err *e, graft_status code, const char *fmt, ...)
{
    if (!e) return code;
    e->code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    mend(e->text);
    return code;
}

graft_status graft_err_prefix(graft_err *e, graft_status code, const char *fmt, ...)
{
    if (!e) return code;
    char old[sizeof e->text];
    memcpy(old, e->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n < sizeof e->text - 3)
        snprintf(e->text + n, sizeof e->text - (size_t)n, ": %.*s",
                 (int)(sizeof e->text - (size_t)n - 3), old[0] ? old : graft_status_text(code));
    mend(e->text);
    e->code = code;
    return code;
}

graft_status graft_fail_nomem(graft_err *e, const char *what)
{
    return graft_fail(e, GRAFT_E_NOMEM, "out of memory: %s", what);
}

const char *graft_status_text(graft_status code)
{
    switch (code) {
#define GRAFT_STATUS_CASE(name, number, text)                                                      \
    case number:                                                                                   \
        return text;
        GRAFT_STATUS_MAP(GRAFT_STATUS_CASE)
#undef GRAFT_STATUS_CASE
    default:
        return "unknown error";
    }
}

#include "base/str.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void graft_str_finish(graft_str *s)
{
    graft_free(s->data);
    *s = (graft_str)GRAFT_STR_INIT;
}

void graft_str_append(graft_str *s, const char *text, size_t n)
{
    if (s->failed) return;
    if (n > (size_t)-1 - s->len - 1 || graft_grow(&s->data, &s->cap, s->len + n + 1, 1)) {
        s->failed = true;
        return;
    }
    if (n) memcpy(s->data + s->len, text, n);
    s->len += n;
    s->data[s->len] = 0;
}

void graft_str_puts(graft_str *s, const char *text)
{
    graft_str_append(s, text, strlen(text));
}

/* A constant of the C library: making it costs nothing and cannot fail. */
static locale_t c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double graft_str_to_double(const char *text, char **end)
{
    return strtod_l(text, end, c_locale());
}

void graft_str_printf(graft_str *s, const char *fmt, ...)
{
    va_list ap, again;
    locale_t own = uselocale(c_locale());
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || s->failed || graft_grow(&s->data, &s->cap, s->len + (size_t)n + 1, 1)) {
        s->failed = true;
    } else {
        vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    }
    va_end(again);
    uselocale(own);
}

void graft_str_double(graft_str *s, double v)
{
    const size_t at = s->len;
    for (int precision = 15; precision <= 17 && !s->failed; precision++) {
        s->len = at;
        graft_str_printf(s, "%.*g", precision, v);
        if (!s->failed && graft_str_to_double(s->data + at, NULL) == v) break;
    }
}

void graft_str_json(graft_str *s, const char *text)
{
    const char *run = text, *p = text; /* what needs no escape goes in one piece */
    const char *end = text + strlen(text);
    graft_str_puts(s, "\"");
    for (size_t n; p < end; p += n) {
        unsigned char c = (unsigned char)*p;
        n = graft_str_utf8(p, end);
        if (n && c >= 0x20 && c != '"' && c != '\\') continue;
        graft_str_append(s, run, (size_t)(p - run));
        run = p + 1;
        if (!n) {
            graft_str_puts(s, "\xef\xbf\xbd");
            n = 1;
        } else if (c >= 0x20)
            graft_str_printf(s, "\\%c", c);
        else if (c == '\n')
            graft_str_puts(s, "\\n");
        else
            graft_str_printf(s, "\\u%04x", c);
    }
    graft_str_append(s, run, (size_t)(p - run));
    graft_str_puts(s, "\"");
}

char *graft_str_take(graft_str *s)
{
    if (!s->failed && !s->data) graft_str_append(s, "", 0);
    char *text = s->failed ? NULL : s->data;
    if (s->failed) graft_free(s->data);
    *s = (graft_str)GRAFT_STR_INIT;
    return text;
}

bool graft_str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool graft_str_ends(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

size_t graft_str_utf8(const char *at, const char *end)
{
    const unsigned char *p = (const unsigned char *)at;
    size_t left = (size_t)(end - at), n;
    unsigned char low = 0x80, high = 0xbf;
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
    n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (p[0] == 0xe0) low = 0xa0;
    if (p[0] == 0xed) high = 0x9f; /* no surrogates */
    if (p[0] == 0xf0) low = 0x90;
    if (p[0] == 0xf4) high = 0x8f;
    if (left < n || p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < n; i++)
        if (p[i] < 0x80 || p[i] > 0xbf) return 0;
    return n;
}

bool graft_str_is_utf8(const void *text, size_t n)
{
    const char *p = text, *end = p + n;
    while (p < end) {
        size_t length = graft_str_utf8(p, end);
        if (!length) return false;
        p += length;
    }
    return true;
}

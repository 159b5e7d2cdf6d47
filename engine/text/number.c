#include "engine/text/number.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/text/unicode.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Brings text[0..n) to ASCII: digits of other scripts, white space; '?' for what no number holds.
 * `out` has room for n characters. */
static size_t to_ascii(const char *text, size_t n, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < n; len++) {
        uint32_t cp;
        i += graft_unicode_decode((const uint8_t *)text + i, n - i, &cp);
        int digit = graft_unicode_digit(cp);
        if (digit >= 0)
            out[len] = (char)('0' + digit);
        else if (cp < 0x80) /* float() does not strip the separators 1c-1f */
            out[len] = cp == ' ' || (cp >= '\t' && cp <= '\r') ? ' ' : cp > ' ' ? (char)cp : '?';
        else
            out[len] = graft_unicode_is_space(cp) ? ' ' : '?';
    }
    return len;
}

/* Takes out each '_' that has a digit on both sides; false if another is there. */
static bool drop_underscores(char *s, size_t *n)
{
    size_t len = 0;
    for (size_t i = 0; i < *n; i++) {
        if (s[i] != '_')
            s[len++] = s[i];
        else if (i == 0 || i + 1 == *n || !is_digit(s[i - 1]) || !is_digit(s[i + 1]))
            return false;
        else
            continue; /* s[i - 1] still holds the digit: writing never passes reading */
    }
    *n = len;
    return true;
}

/* Digits with at most one point and an exponent, and nothing of what strtod() knows beyond that. */
static bool is_decimal(const char *s)
{
    size_t digits = 0;
    if (*s == '+' || *s == '-') s++;
    for (; is_digit(*s); s++) digits++;
    if (*s == '.')
        for (s++; is_digit(*s); s++) digits++;
    if (digits == 0) return false;
    if (*s == 'e' || *s == 'E') {
        s++;
        if (*s == '+' || *s == '-') s++;
        if (!is_digit(*s)) return false;
        while (is_digit(*s)) s++;
    }
    return *s == '\0';
}

static bool is_named(const char *s)
{
    if (*s == '+' || *s == '-') s++;
    return strcasecmp(s, "inf") == 0 || strcasecmp(s, "infinity") == 0 || strcasecmp(s, "nan") == 0;
}

graft_status graft_number_parse(const char *text, size_t n, double *value, bool *ok, graft_err *e)
{
    *ok = false;
    if (n == 0) return GRAFT_OK;
    char *buffer = graft_malloc(n + 1), *s = buffer;
    if (!buffer) return graft_fail_nomem(e, "a weight");
    size_t len = to_ascii(text, n, s);
    while (len > 0 && *s == ' ') s++, len--;
    while (len > 0 && s[len - 1] == ' ') len--;
    if (drop_underscores(s, &len)) {
        s[len] = '\0';
        if (is_decimal(s) || is_named(s)) {
            *value = graft_str_to_double(s, NULL);
            *ok = true;
        }
    }
    graft_free(buffer);
    return GRAFT_OK;
}

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/text/number.h"
#include "engine/text/unicode.h"

/* The character at `at`, which is before `end`, and where the next one begins. */
static const char *next(const char *at, const char *end, uint32_t *cp)
{
    return at + graft_unicode_decode((const uint8_t *)at, (size_t)(end - at), cp);
}

/* Behind the first n characters. */
static const char *behind(const char *text, const char *end, int64_t n)
{
    uint32_t cp;
    while (n-- > 0 && text < end) text = next(text, end, &cp);
    return text;
}

static graft_status take(graft_str *s, char **out, graft_err *e)
{
    *out = graft_str_take(s);
    graft_str_finish(s);
    return *out ? GRAFT_OK : graft_fail_nomem(e, "a text");
}

static graft_status copy(const char *from, const char *to, char **out, graft_err *e)
{
    graft_str s = GRAFT_STR_INIT;
    graft_str_append(&s, from, to > from ? (size_t)(to - from) : 0);
    return take(&s, out, e);
}

graft_status graft_text_number(const char *text, double *out, graft_err *e)
{
    bool ok;
    graft_status st = graft_number_parse(text, strlen(text), out, &ok, e);
    if (st || (ok && isfinite(*out))) return st;
    return graft_fail(e, GRAFT_E_ARG, "\"%.60s\" is no number", text);
}

int64_t graft_text_length(const char *text)
{
    const char *end = text + strlen(text);
    int64_t n = 0;
    for (uint32_t cp; text < end; n++) text = next(text, end, &cp);
    return n;
}

/* An index as it is written, of n characters. */
static int64_t counted(int64_t index, int64_t n)
{
    if (index < 0) return index < -n ? 0 : index + n;
    return index > n ? n : index;
}

graft_status graft_text_part(const char *text, int64_t start, int64_t end, char **out, graft_err *e)
{
    const char *stop = text + strlen(text);
    int64_t n = graft_text_length(text);
    const char *from = behind(text, stop, counted(start, n));
    return copy(from, behind(text, stop, counted(end, n)), out, e);
}

graft_status graft_text_trim(const char *text, bool begin, bool end, char **out, graft_err *e)
{
    const char *stop = text + strlen(text), *from = text, *to = text, *at = text;
    bool blank = begin; /* so far */
    while (at < stop) {
        uint32_t cp;
        const char *after = next(at, stop, &cp);
        bool space = graft_unicode_is_space(cp);
        blank = blank && space;
        if (blank) from = to = after;
        if (!space || !end) to = after;
        at = after;
    }
    return copy(from, to, out, e);
}

graft_status graft_text_replace(const char *text, const char *find, const char *with, char **out,
                                graft_err *e)
{
    const char *end = text + strlen(text), *at;
    graft_str s = GRAFT_STR_INIT;
    size_t n = strlen(find);
    while (n && (at = strstr(text, find))) {
        graft_str_append(&s, text, (size_t)(at - text));
        graft_str_puts(&s, with);
        text = at + n;
    }
    while (!n && text < end) {
        uint32_t cp;
        const char *after = next(text, end, &cp);
        graft_str_puts(&s, with);
        graft_str_append(&s, text, (size_t)(after - text));
        text = after;
    }
    graft_str_append(&s, text, (size_t)(end - text));
    if (!n) graft_str_puts(&s, with);
    return take(&s, out, e);
}

static size_t in_case(const uint32_t *in, size_t n, graft_text_case to, uint32_t *out)
{
    switch (to) {
    case GRAFT_TEXT_LOWER:
        return graft_unicode_lower(in, n, out);
    case GRAFT_TEXT_UPPER:
        return graft_unicode_upper(in, n, out);
    default:
        return graft_unicode_title(in, n, to == GRAFT_TEXT_CAPITALIZE, out);
    }
}

graft_status graft_text_in_case(const char *text, graft_text_case to, char **out, graft_err *e)
{
    const char *end = text + strlen(text);
    size_t room = (size_t)(end - text), n = 0;
    uint32_t *in = graft_malloc_array(room + 1, sizeof *in);
    uint32_t *other = graft_malloc_array(room + 1, 3 * sizeof *other);
    graft_str s = GRAFT_STR_INIT;
    *out = NULL;
    graft_status st = in && other ? GRAFT_OK : graft_fail_nomem(e, "a text");
    while (!st && text < end) text = next(text, end, &in[n++]);
    size_t count = st ? 0 : in_case(in, n, to, other);
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4];
        graft_str_append(&s, (const char *)bytes, graft_unicode_encode(other[i], bytes));
    }
    graft_str_append(&s, "", 0);
    if (!st) st = take(&s, out, e);
    graft_str_finish(&s);
    graft_free(in);
    graft_free(other);
    return st;
}

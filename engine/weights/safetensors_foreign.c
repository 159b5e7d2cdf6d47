#include "engine/weights/safetensors_foreign.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

enum { LOOKED_AT = 256 };

/* In any case, as HTML may be written. */
static bool begins(const uint8_t *p, size_t n, const char *word)
{
    size_t length = strlen(word);
    return n >= length && strncasecmp((const char *)p, word, length) == 0;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* UTF-8 without control characters; a character at the end may be cut by our own limit. */
static bool is_text(const uint8_t *p, size_t n)
{
    for (size_t i = 0, step; i < n; i += step) {
        step = graft_str_utf8((const char *)p + i, (const char *)p + n);
        if (!step) return i > 0 && n == LOOKED_AT && n - i < 4;
        if (p[i] < 0x20 && !is_space(p[i])) return false;
    }
    return n > 0;
}

const char *graft_safetensors_foreign(const uint8_t *bytes, size_t size)
{
    size_t n = size < LOOKED_AT ? size : LOOKED_AT, at = 0;
    if (!is_text(bytes, n)) return NULL;
    if (begins(bytes, n, "version https://git-lfs"))
        return "a Git LFS pointer: the file itself was not downloaded (\"git lfs pull\" does that)";
    if (begins(bytes, n, "\xef\xbb\xbf")) at = 3;
    while (at < n && is_space(bytes[at])) at++;
    if (begins(bytes + at, n - at, "<!doctype") || begins(bytes + at, n - at, "<html"))
        return "a web page, not a model: perhaps the download needs an account, or another link";
    return "text, not a safetensors file";
}

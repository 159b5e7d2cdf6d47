/* Texts of WebP files, which stand in EXIF: RIFF and TIFF are read here, no picture is. */
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/webp.h"

enum { RIFF_HEADER = 12, CHUNK_HEADER = 8, TIFF_HEADER = 8, ENTRY = 12, ASCII = 2 };

typedef struct tiff {
    const uint8_t *data;
    size_t size;
    bool little; /* the lowest byte comes first */
} tiff;

/* `bytes` bytes from `at` on, which are there. */
static uint32_t number(const tiff *t, size_t at, int bytes)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | t->data[at + (size_t)(t->little ? bytes - 1 - i : i)];
    return v;
}

/* What stands behind "key:" in an entry's text; NULL: it is another one's. */
static const uint8_t *value_of(const tiff *t, size_t entry, const char *key, size_t *n)
{
    const size_t size = number(t, entry + 4, 4), own = strlen(key);
    /* Four bytes have room where otherwise their place stands. */
    const size_t from = size > 4 ? number(t, entry + 8, 4) : entry + 8;
    if (number(t, entry + 2, 2) != ASCII || from > t->size || size > t->size - from) return NULL;
    const uint8_t *text = t->data + from, *end = memchr(text, 0, size);
    *n = end ? (size_t)(end - text) : size;
    if (*n <= own || strncasecmp((const char *)text, key, own) != 0 || text[own] != ':')
        return NULL;
    *n -= own + 1;
    return text + own + 1;
}

/* The first directory of a TIFF file (TIFF 6.0, section 2), which EXIF is. */
static const uint8_t *find(const uint8_t *exif, size_t size, const char *key, size_t *n)
{
    const size_t mark = size >= 6 && memcmp(exif, "Exif\0\0", 6) == 0 ? 6 : 0;
    tiff t = {exif + mark, size - mark, true};
    if (t.size < TIFF_HEADER || (memcmp(t.data, "II", 2) && memcmp(t.data, "MM", 2))) return NULL;
    t.little = t.data[0] == 'I';
    size_t at = number(&t, 4, 4);
    if (at > t.size || t.size - at < 2) return NULL;
    size_t entries = number(&t, at, 2);
    for (at += 2; entries > 0 && t.size - at >= ENTRY; entries--, at += ENTRY) {
        const uint8_t *value = value_of(&t, at, key, n);
        if (value) return value;
    }
    return NULL;
}

graft_status graft_webp_read_text(const uint8_t *data, size_t size, const char *key, char **out,
                                  graft_err *e)
{
    *out = NULL;
    if (!graft_webp_is(data, size)) return graft_fail(e, GRAFT_E_FORMAT, "not a WebP");
    for (size_t at = RIFF_HEADER; at < size && size - at >= CHUNK_HEADER;) {
        const tiff chunk = {data + at, CHUNK_HEADER, true};
        const size_t n = number(&chunk, 4, 4), left = size - at - CHUNK_HEADER;
        if (n > left) return graft_fail(e, GRAFT_E_FORMAT, "the WebP is cut off");
        const uint8_t *value = NULL;
        size_t length = 0;
        if (memcmp(data + at, "EXIF", 4) == 0)
            value = find(data + at + CHUNK_HEADER, n, key, &length);
        if (value) {
            *out = graft_strndup((const char *)value, length);
            return *out ? GRAFT_OK : graft_fail_nomem(e, "the text of a WebP");
        }
        at += CHUNK_HEADER + n + n % 2;
    }
    return graft_fail(e, GRAFT_E_NOTFOUND, "the WebP has no text \"%s\"", key);
}

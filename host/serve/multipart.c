#include "host/serve/multipart.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "host/serve/http.h"

/* The value of `name` in "form-data; name=value; name=\"value\""; false when it is not there or
 * does not fit. */
static bool parameter(const char *text, const char *name, char *out, size_t room)
{
    size_t n = strlen(name);
    for (const char *p = strchr(text, ';'); p; p = strchr(p, ';')) {
        p += 1 + strspn(p + 1, " \t");
        if (strncasecmp(p, name, n) != 0 || p[n] != '=') {
            /* A quoted value may hold a semicolon. */
            size_t skip = strcspn(p, "=;");
            if (p[skip] == '=' && p[skip + 1] == '"') {
                p += skip + 2;
                while (*p && *p != '"') p += *p == '\\' && p[1] ? 2 : 1;
            }
            continue;
        }
        p += n + 1;
        size_t len = 0;
        bool quoted = *p == '"';
        if (quoted) p++;
        for (; *p && (quoted ? *p != '"' : !strchr("; \t", *p)); p++) {
            if (quoted && *p == '\\' && (p[1] == '"' || p[1] == '\\')) p++;
            if (len + 1 >= room) return false;
            out[len++] = *p;
        }
        out[len] = 0;
        return !quoted || *p == '"';
    }
    return false;
}

static const uint8_t *search(const uint8_t *p, const uint8_t *end, const char *what, size_t n)
{
    return p < end ? memmem(p, (size_t)(end - p), what, n) : NULL;
}

/* Reads one part's headers into *part; `p` … `end` are the lines. */
static bool read_headers(const uint8_t *p, const uint8_t *end, graft_multipart_part *part)
{
    char line[1024];
    bool found = false;
    while (p < end) {
        const uint8_t *stop = search(p, end, "\r\n", 2);
        if (!stop) stop = end;
        size_t n = (size_t)(stop - p);
        if (n >= sizeof line || memchr(p, 0, n)) return false;
        memcpy(line, p, n);
        line[n] = 0;
        if (strncasecmp(line, "content-disposition:", 20) == 0) {
            found = parameter(line + 20, "name", part->name, sizeof part->name);
            if (!parameter(line + 20, "filename", part->filename, sizeof part->filename))
                part->filename[0] = 0;
        }
        p = stop + 2;
    }
    return found;
}

graft_status graft_multipart_parse(const char *content_type, const uint8_t *body, size_t size,
                                   graft_multipart *out, graft_err *e)
{
    char boundary[80], mark[90];
    out->count = 0;
    if (!content_type || strncasecmp(content_type, "multipart/form-data", 19) != 0 ||
        !parameter(content_type, "boundary", boundary, 71) || !boundary[0])
        return graft_fail(e, GRAFT_E_FORMAT, "the body is not multipart/form-data");
    if (!size) return graft_fail(e, GRAFT_E_FORMAT, "the body is empty");
    size_t n = (size_t)snprintf(mark, sizeof mark, "\r\n--%s", boundary);
    const uint8_t *p = body, *end = body + size;
    /* The first mark has no line end before it, unless there is a preamble. */
    if (size >= n - 2 && memcmp(p, mark + 2, n - 2) == 0)
        p += n - 2;
    else if ((p = search(p, end, mark, n)))
        p += n;
    while (p && end - p >= 2 && memcmp(p, "--", 2) != 0) {
        const uint8_t *line = search(p, end, "\r\n", 2);
        const uint8_t *blank = line ? search(line, end, "\r\n\r\n", 4) : NULL;
        const uint8_t *stop = blank ? search(blank + 2, end, mark, n) : NULL;
        if (!stop) return graft_fail(e, GRAFT_E_FORMAT, "a part of the body has no end");
        if (out->count == GRAFT_MULTIPART_MAX)
            return graft_fail(e, GRAFT_E_LIMIT, "the body has too many parts");
        graft_multipart_part *part = &out->part[out->count];
        memset(part, 0, sizeof *part);
        if (!read_headers(line + 2, blank, part))
            return graft_fail(e, GRAFT_E_FORMAT, "a part of the body has no name");
        part->data = blank + 4;
        part->size = stop > part->data ? (size_t)(stop - part->data) : 0;
        out->count++;
        p = stop + n;
    }
    if (!p || end - p < 2) return graft_fail(e, GRAFT_E_FORMAT, "the body has no end");
    return GRAFT_OK;
}

const graft_multipart_part *graft_multipart_find(const graft_multipart *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->part[i].name, name) == 0) return &m->part[i];
    return NULL;
}

bool graft_multipart_text(const graft_multipart *m, const char *name, char *out, size_t room)
{
    const graft_multipart_part *p = graft_multipart_find(m, name);
    out[0] = 0;
    if (!p || p->size >= room || memchr(p->data, 0, p->size) ||
        !graft_str_is_utf8(p->data, p->size))
        return false;
    memcpy(out, p->data, p->size);
    out[p->size] = 0;
    return true;
}

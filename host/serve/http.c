#include "host/serve/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"

void graft_http_request_finish(graft_http_request *q)
{
    char **const text[] = {&q->path,       &q->host,         &q->origin,        &q->authorization,
                           &q->cookie,     &q->content_type, &q->if_none_match, &q->accept_encoding,
                           &q->fetch_site, &q->fetch_mode,   &q->fetch_dest,    &q->range,
                           &q->if_range};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) graft_free(*text[i]);
    for (size_t i = 0; i < q->n_arg; i++) graft_free(q->arg[i]);
    graft_free(q->arg);
    graft_free(q->body);
    memset(q, 0, sizeof *q);
}

const char *graft_http_arg(const graft_http_request *q, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < q->n_arg; i++) {
        if (strncmp(q->arg[i], name, n) != 0) continue;
        if (q->arg[i][n] == '=') return q->arg[i] + n + 1;
        if (!q->arg[i][n]) return "";
    }
    return NULL;
}

bool graft_http_arg_bool(const graft_http_request *q, const char *name, bool fallback)
{
    const char *v = graft_http_arg(q, name);
    if (!v) return fallback;
    return strcasecmp(v, "true") == 0 || strcmp(v, "1") == 0 || strcasecmp(v, "yes") == 0;
}

typedef graft_status (*parser)(const char *text, size_t n, const char *what, cJSON **out,
                               graft_err *e);

static graft_status read_body(const graft_http_request *q, parser parse, cJSON **out, graft_err *e)
{
    *out = NULL;
    if (!q->body_size) return GRAFT_OK;
    if (!graft_str_is_utf8(q->body, q->body_size))
        return graft_fail(e, GRAFT_E_FORMAT, "the body is not UTF-8");
    return parse((const char *)q->body, q->body_size, "the body", out, e);
}

graft_status graft_http_json(const graft_http_request *q, cJSON **out, graft_err *e)
{
    return read_body(q, graft_json_parse, out, e);
}

graft_status graft_http_json_python(const graft_http_request *q, cJSON **out, graft_err *e)
{
    return read_body(q, graft_json_parse_python, out, e);
}

graft_http_blob *graft_http_blob_create(void *data, size_t size)
{
    graft_http_blob *b = data ? graft_calloc(1, sizeof *b) : NULL;
    if (!b) {
        graft_free(data);
        return NULL;
    }
    char hex[33];
    graft_hash_hex(graft_hash128(data, size), hex);
    snprintf(b->etag, sizeof b->etag, "\"%s\"", hex);
    b->refs = 1;
    b->size = size;
    b->data = data;
    return b;
}

void graft_http_blob_release(graft_http_blob *b)
{
    if (!b || --b->refs) return;
    graft_free(b->data);
    graft_free(b);
}

void graft_http_response_init(graft_http_response *r)
{
    r->status = 200;
    r->type = NULL;
    r->n_header = 0;
    r->body = NULL;
    r->blob = NULL;
    r->fd = -1;
    r->size = 0;
    r->close = false;
}

void graft_http_response_finish(graft_http_response *r)
{
    graft_free(r->body);
    graft_http_blob_release(r->blob);
    if (r->fd >= 0) close(r->fd);
    graft_http_response_init(r);
}

void graft_http_empty(graft_http_response *r, int status)
{
    bool ends = r->close;
    graft_http_response_finish(r);
    r->status = status;
    r->close = ends;
}

void graft_http_header(graft_http_response *r, const char *name, const char *value)
{
    size_t at = r->n_header;
    for (size_t i = 0; i < r->n_header; i++)
        if (strcmp(r->header[i].name, name) == 0) at = i;
    if (at == GRAFT_HTTP_MAX_HEADERS) return;
    if (at == r->n_header) r->n_header++;
    r->header[at].name = name;
    char *out = r->header[at].value;
    snprintf(out, sizeof r->header[at].value, "%s", value);
    for (; *out; out++)
        if ((uint8_t)*out < 0x20 || (uint8_t)*out >= 0x7f) *out = '_';
}

graft_status graft_http_text(graft_http_response *r, int status, const char *text, graft_err *e)
{
    graft_http_empty(r, status);
    r->body = (uint8_t *)graft_strdup(text);
    if (!r->body) return graft_fail_nomem(e, "an answer");
    r->type = "text/plain; charset=utf-8";
    r->size = strlen(text);
    return GRAFT_OK;
}

graft_status graft_http_str(graft_http_response *r, int status, graft_str *s, graft_err *e)
{
    graft_http_empty(r, status);
    size_t n = s->len;
    r->body = (uint8_t *)graft_str_take(s);
    if (!r->body) return graft_fail_nomem(e, "an answer");
    r->type = "application/json; charset=utf-8";
    r->size = n;
    return GRAFT_OK;
}

graft_status graft_http_tree(graft_http_response *r, int status, const cJSON *json, graft_err *e)
{
    graft_http_empty(r, status);
    char *text = json ? graft_json_print(json) : NULL;
    if (!text) return graft_fail_nomem(e, "an answer");
    r->body = (uint8_t *)text;
    r->type = "application/json; charset=utf-8";
    r->size = strlen(text);
    return GRAFT_OK;
}

graft_status graft_http_error(graft_http_response *r, int status, const char *text, graft_err *e)
{
    graft_str s = GRAFT_STR_INIT;
    graft_str_puts(&s, "{\"error\":");
    graft_str_json(&s, text);
    graft_str_puts(&s, "}");
    return graft_http_str(r, status, &s, e);
}

void graft_http_blob_answer(graft_http_response *r, const graft_http_request *q, graft_http_blob *b,
                            const char *type)
{
    graft_http_empty(r, 200);
    graft_http_header(r, "etag:", b->etag);
    graft_http_header(r, "cache-control:", "no-cache");
    if (q->if_none_match && strstr(q->if_none_match, b->etag)) {
        r->status = 304;
        return;
    }
    b->refs++;
    r->blob = b;
    r->size = b->size;
    r->type = type;
}

const char *graft_http_type(const char *name)
{
    static const struct {
        const char *suffix, *type;
    } known[] = {{".html", "text/html; charset=utf-8"},
                 {".htm", "text/html; charset=utf-8"},
                 {".js", "text/javascript; charset=utf-8"},
                 {".mjs", "text/javascript; charset=utf-8"},
                 {".css", "text/css; charset=utf-8"},
                 {".json", "application/json; charset=utf-8"},
                 {".map", "application/json; charset=utf-8"},
                 {".txt", "text/plain; charset=utf-8"},
                 {".md", "text/markdown; charset=utf-8"},
                 {".svg", "image/svg+xml"},
                 {".wasm", "application/wasm"},
                 {".woff", "font/woff"},
                 {".woff2", "font/woff2"},
                 {".ttf", "font/ttf"},
                 {".ico", "image/x-icon"},
                 {".png", "image/png"},
                 {".jpg", "image/jpeg"},
                 {".jpeg", "image/jpeg"},
                 {".webp", "image/webp"},
                 {".gif", "image/gif"},
                 {".bmp", "image/bmp"},
                 {".avif", "image/avif"},
                 {".mp4", "video/mp4"},
                 {".webm", "video/webm"},
                 {".mp3", "audio/mpeg"},
                 {".wav", "audio/wav"},
                 {".flac", "audio/flac"},
                 {".ogg", "audio/ogg"},
                 {".opus", "audio/ogg"}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
        if (strcasecmp(dot, known[i].suffix) == 0) return known[i].type;
    return "application/octet-stream";
}

bool graft_http_type_inert(const char *type)
{
    if (strcmp(type, "image/svg+xml") == 0) return false;
    return graft_str_starts(type, "image/") || graft_str_starts(type, "video/") ||
           graft_str_starts(type, "audio/");
}

/* What follows a word of a list, up to the comma: parameters, of which one may be a weight of 0. */
static bool is_weightless(const char *p)
{
    for (p += strspn(p, " \t"); *p == ';'; p += strspn(p, " \t")) {
        p += 1 + strspn(p + 1, " \t");
        if (strncasecmp(p, "q=0", 3) == 0) {
            const char *end = p + 3 + strspn(p + 3, ".0");
            if (!*end || strchr(",; \t", *end)) return true;
        }
        p += strcspn(p, ",;");
    }
    return false;
}

bool graft_http_has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; *p;) {
        p += strspn(p, ", \t");
        size_t len = strcspn(p, ",; \t");
        if (len == n && strncasecmp(p, word, n) == 0) return !is_weightless(p + len);
        p += strcspn(p, ",");
    }
    return false;
}

/* The page: files of the web root. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "host/serve/routes.h"
#include "host/serve/stored.h"

static const char no_page[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Graft</title>"
    "<p>The server runs. There is no editor page beside this program; name one with --web-root, or "
    "send prompts to <code>POST /prompt</code>.</p></html>";

static graft_status not_found(graft_http_response *r, graft_err *e)
{
    return graft_http_text(r, 404, "404: Not Found", e);
}

/* A compressed copy beside the file, made when the page was built; -1 without one. */
static int open_gzip(const char *path, struct stat *info)
{
    graft_str name = GRAFT_STR_INIT;
    graft_str_printf(&name, "%s.gz", path);
    int fd = name.failed ? -1 : graft_stored_open(name.data, info);
    graft_str_finish(&name);
    return fd;
}

static const char *cache_of(const char *type)
{
    return graft_str_starts(type, "image/") || graft_str_starts(type, "font/")
               ? "public, max-age=86400"
               : "no-cache";
}

static void answer_file(graft_http_response *r, const graft_http_request *q, const char *path,
                        int fd, const struct stat *plain)
{
    struct stat info = *plain;
    const char *type = graft_http_type(path);
    int gzip = -1;
    if (q->accept_encoding && graft_http_has_word(q->accept_encoding, "gzip"))
        gzip = open_gzip(path, &info);
    if (gzip >= 0) {
        close(fd);
        fd = gzip;
    }
    graft_http_empty(r, 200);
    graft_http_header(r, "cache-control:", cache_of(type));
    graft_http_header(r, "vary:", "Accept-Encoding");
    if (graft_stored_known(r, q, &info, gzip >= 0 ? "-gz" : "")) {
        close(fd);
        return;
    }
    if (gzip >= 0) graft_http_header(r, "content-encoding:", "gzip");
    r->fd = fd;
    r->size = (size_t)info.st_size;
    r->type = type;
    if (graft_str_starts(type, "text/html")) {
        graft_http_header(r, "x-frame-options:", "SAMEORIGIN");
        graft_http_header(r, "referrer-policy:", "no-referrer");
    }
}

graft_status graft_serve_file(const char *root, const char *name, const graft_http_request *q,
                              graft_http_response *r, graft_err *e)
{
    char *path = NULL;
    struct stat info;
    graft_status st = graft_path_inside(root, name, &path, NULL);
    if (st == GRAFT_E_NOMEM) return graft_fail_nomem(e, "a path");
    if (st) return not_found(r, e);
    int fd = graft_stored_open(path, &info);
    if (fd >= 0) answer_file(r, q, path, fd, &info);
    graft_free(path);
    return fd >= 0 ? GRAFT_OK : not_found(r, e);
}

/* `rest` is the path, from its slash on. */
graft_status graft_route_static(graft_serve *s, const graft_http_request *q, const char *rest,
                                graft_http_response *r, graft_err *e)
{
    const char *name = rest + (*rest == '/');
    if (!*name) name = "index.html";
    if (s->web_root) return graft_serve_file(s->web_root, name, q, r, e);
    if (strcmp(name, "index.html") != 0) return not_found(r, e);
    graft_status st = graft_http_text(r, 200, no_page, e);
    r->type = "text/html; charset=utf-8";
    return st;
}

/* The scripts below the web root's extensions/, as URLs. */
graft_status graft_route_extensions(graft_serve *s, const graft_http_request *q, const char *rest,
                                    graft_http_response *r, graft_err *e)
{
    static const char *const suffix[] = {".js", NULL};
    char **names = NULL, *root = s->web_root ? graft_path_join(s->web_root, "extensions") : NULL;
    size_t n = 0;
    graft_str t = GRAFT_STR_INIT;
    graft_status st = GRAFT_OK;
    (void)q, (void)rest;
    if (root) st = graft_dir_list(root, suffix, &names, &n, e);
    graft_free(root);
    if (st) return st;
    graft_str_puts(&t, "[");
    for (size_t i = 0; i < n; i++) {
        graft_str url = GRAFT_STR_INIT;
        graft_str_printf(&url, "/extensions/%s", names[i]);
        graft_str_puts(&t, i ? "," : "");
        graft_str_json(&t, url.data ? url.data : "");
        graft_str_finish(&url);
    }
    graft_str_puts(&t, "]");
    graft_names_free(names, n);
    return graft_http_str(r, 200, &t, e);
}

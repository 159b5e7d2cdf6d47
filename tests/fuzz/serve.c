/* Any bytes as a request to the server, behind the library that reads HTTP:
 *
 *     POST /prompt?x=1
 *     host: localhost
 *     (an empty line, then the body)
 *
 * It gets an answer with a proper status, and nothing is written outside of the folder. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "host/serve/routes.h"
#include "tests/fuzz/fuzz.h"

static void require(int cond)
{
    if (!cond) abort();
}

static void fill_logs(graft_serve *s)
{
    for (int i = 0; i < GRAFT_LOGS_LINES; i++) graft_logs_line(&s->logs, GRAFT_LOG_INFO, "");
}

static char root[] = "/tmp/graft-fuzz-XXXXXX";

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info, (void)type, (void)at;
    return remove(path);
}
static void clean_up(void)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static char *folder(const char *name)
{
    char *path = graft_path_join(root, name);
    require(path && graft_dir_make(path, NULL) == GRAFT_OK);
    return path;
}

static void drain(graft_serve *s)
{
    for (graft_hub_message *m = graft_hub_take(&s->hub), *next; m; m = next) {
        next = m->next;
        graft_hub_release(m);
    }
}

/* A server without sockets and without a worker: what is queued stays there. */
static graft_serve *serve(void)
{
    static graft_serve s;
    static graft_options o;
    if (s.users) return &s;
    const graft_store_limits limits = {64, 1 << 20, 64, 1 << 20};
    const graft_log log = {NULL, NULL};
    graft_err e = GRAFT_ERR_INIT;
    int64_t interrupted;
    require(mkdtemp(root) != NULL && atexit(clean_up) == 0);
    o.models = folder("models");
    o.input = folder("input");
    o.output = folder("output");
    o.temp = folder("temp");
    o.plugins = (char *)HOST_TEST_PLUGINS;
    s.options = &o;
    s.max_upload = 1 << 20;
    s.security.listen = "127.0.0.1";
    graft_hub_init(&s.hub);
    graft_logs_init(&s.logs, &s.hub, true);
    graft_sink_init(&s.sink, &s.hub, &s.logs);
    char *db = graft_path_join(root, "queue.sqlite");
    require(db && graft_store_open(db, &limits, &s.store, &interrupted, &e) == GRAFT_OK);
    graft_free(db);
    graft_queue_init(&s.queue, s.store, &s.hub);
    require(graft_session_init(&s.session, &o, &log, &e) == GRAFT_OK && s.session.plugins == 1);
    s.web_root = folder("web");
    s.users = folder("user");
    fill_logs(&s);
    return &s;
}

static int digit(char c)
{
    const char *at = c ? strchr("0123456789abcdef", c | 32) : NULL;
    return at ? (int)(at - "0123456789abcdef") : -1;
}

/* A copy with %XX taken apart, as the library does it; zero bytes are refused there. */
static char *decode(const char *text, size_t n)
{
    char *out = graft_malloc(n + 1);
    size_t k = 0;
    require(out != NULL);
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '%' && i + 2 < n && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
            c = (char)(digit(text[i + 1]) * 16 + digit(text[i + 2]));
            i += 2;
        }
        if (c) out[k++] = c;
    }
    out[k] = 0;
    return out;
}

static void read_target(graft_http_request *q, const char *p, size_t n)
{
    const char *mark = memchr(p, '?', n), *end = p + n;
    size_t cap = 0;
    q->path = decode(p, mark ? (size_t)(mark - p) : n);
    for (p = mark; p && p < end && q->n_arg < 64;) {
        p++;
        const char *stop = memchr(p, '&', (size_t)(end - p));
        if (!stop) stop = end;
        require(graft_grow(&q->arg, &cap, q->n_arg + 1, sizeof *q->arg) == GRAFT_OK);
        q->arg[q->n_arg++] = decode(p, (size_t)(stop - p));
        p = stop;
    }
}

static void read_header(graft_http_request *q, const char *p, size_t n)
{
    const struct {
        const char *name;
        char **where;
    } known[] = {{"host: ", &q->host},
                 {"origin: ", &q->origin},
                 {"authorization: ", &q->authorization},
                 {"cookie: ", &q->cookie},
                 {"content-type: ", &q->content_type},
                 {"if-none-match: ", &q->if_none_match},
                 {"accept-encoding: ", &q->accept_encoding},
                 {"range: ", &q->range},
                 {"if-range: ", &q->if_range},
                 {"sec-fetch-site: ", &q->fetch_site},
                 {"sec-fetch-mode: ", &q->fetch_mode},
                 {"sec-fetch-dest: ", &q->fetch_dest}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t len = strlen(known[i].name);
        if (n < len || strncasecmp(p, known[i].name, len) != 0 || *known[i].where) continue;
        char *text = graft_malloc(n - len + 1);
        require(text != NULL);
        memcpy(text, p + len, n - len);
        text[n - len] = 0;
        *known[i].where = text;
    }
}

/* The next line, without its end; NULL when there is none. */
static const char *line(const char **p, const char *end, size_t *n)
{
    const char *start = *p, *stop = start < end ? memchr(start, '\n', (size_t)(end - start)) : NULL;
    if (!stop) return NULL;
    *n = (size_t)(stop - start);
    *p = stop + 1;
    return start;
}

static int read_request(graft_http_request *q, const char *p, const char *end)
{
    static const struct {
        const char *name;
        graft_method method;
    } methods[] = {{"GET ", GRAFT_HTTP_GET},       {"POST ", GRAFT_HTTP_POST},
                   {"PUT ", GRAFT_HTTP_PUT},       {"PATCH ", GRAFT_HTTP_PATCH},
                   {"DELETE ", GRAFT_HTTP_DELETE}, {"OPTIONS ", GRAFT_HTTP_OPTIONS}};
    size_t n;
    const char *first = line(&p, end, &n);
    for (size_t i = 0; first && i < sizeof methods / sizeof *methods; i++) {
        size_t len = strlen(methods[i].name);
        if (n <= len || memcmp(first, methods[i].name, len) != 0 || q->method) continue;
        q->method = methods[i].method;
        read_target(q, first + len, n - len);
    }
    if (!q->method) return 0;
    const char *header;
    while ((header = line(&p, end, &n)) && n) read_header(q, header, n);
    q->body_size = (size_t)(end - p);
    if (!q->body_size) return 1;
    q->body = graft_malloc(q->body_size); /* no byte more, so that a sanitizer sees the next one */
    require(q->body != NULL);
    memcpy(q->body, p, q->body_size);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned calls;
    graft_serve *s = serve();
    graft_http_request q = {0};
    graft_http_response r;
    if (!size) { /* what is made once */
        data = (const uint8_t *)"GET /object_info\naccept-encoding: gzip\n\n";
        size = strlen((const char *)data);
    }
    graft_http_response_init(&r);
    if (read_request(&q, (const char *)data, (const char *)data + size)) {
        graft_serve_answer(s, &q, &r);
        require(r.status >= 200 && r.status <= 507 && r.status != 500);
        require(!(r.body && r.blob) && r.n_header <= GRAFT_HTTP_MAX_HEADERS);
        for (size_t i = 0; i < r.n_header; i++) require(!strpbrk(r.header[i].value, "\r\n"));
    }
    graft_http_response_finish(&r);
    graft_http_request_finish(&q);
    if (++calls % 32 == 0) {
        int64_t changed = 0;
        graft_queue_delete(&s->queue, NULL, &changed, NULL);
    }
    drain(s);
    return 0;
}

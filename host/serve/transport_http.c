#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "host/serve/transport_inside.h"

#define BODY_TIME 20.0 /* seconds after which a body must have come this quickly: */
#define BODY_RATE 1024 /* bytes a second */

static char *header(struct lws *wsi, enum lws_token_indexes token, bool *ok)
{
    int n = lws_hdr_total_length(wsi, token);
    if (n <= 0) return NULL;
    char *text = graft_malloc((size_t)n + 1);
    if (!text || lws_hdr_copy(wsi, text, n + 1, token) < 0) {
        graft_free(text);
        *ok = false;
        return NULL;
    }
    return text;
}

/* False for a text that was cut short by a zero byte, or holds a byte that no address may. The
 * library decodes an address before it looks for the line's end: %0a ends it there. */
static bool printable(const char *text, int n)
{
    for (int i = 0; i < n; i++)
        if ((uint8_t)text[i] < 0x20 || text[i] == 0x7f) return false;
    return true;
}

/* A whole request line, and the name that HTTP/1.1 asks for. */
static bool well_formed(struct lws *wsi)
{
    char version[16];
    if (lws_hdr_copy(wsi, version, sizeof version, WSI_TOKEN_HTTP) <= 0) return false;
    if (strcmp(version, "HTTP/1.0") == 0) return true;
    return strcmp(version, "HTTP/1.1") == 0 && lws_hdr_total_length(wsi, WSI_TOKEN_HOST) > 0;
}

/* A header that the library has no number for; `name` in lower case with a colon. */
static char *custom(struct lws *wsi, const char *name, bool *ok)
{
    int len = (int)strlen(name), n = lws_hdr_custom_length(wsi, name, len);
    if (n <= 0) return NULL;
    char *text = graft_malloc((size_t)n + 1);
    if (!text || lws_hdr_custom_copy(wsi, text, n + 1, name, len) < 0) {
        graft_free(text);
        *ok = false;
        return NULL;
    }
    return text;
}

static bool read_args(struct lws *wsi, graft_http_request *q)
{
    size_t cap = 0;
    for (int i = 0; i < 64; i++) {
        int n = lws_hdr_fragment_length(wsi, WSI_TOKEN_HTTP_URI_ARGS, i);
        if (n <= 0) break;
        char *text = graft_malloc((size_t)n + 1);
        if (!text || graft_grow(&q->arg, &cap, q->n_arg + 1, sizeof *q->arg) ||
            lws_hdr_copy_fragment(wsi, text, n + 1, WSI_TOKEN_HTTP_URI_ARGS, i) < 0 ||
            !printable(text, n)) {
            graft_free(text);
            return false;
        }
        text[n] = 0;
        q->arg[q->n_arg++] = text;
    }
    return true;
}

bool graft_conn__read(struct lws *wsi, graft_http_request *q)
{
    static const struct {
        enum lws_token_indexes token;
        graft_method method;
    } methods[] = {
        {WSI_TOKEN_GET_URI, GRAFT_HTTP_GET},        {WSI_TOKEN_HEAD_URI, GRAFT_HTTP_GET},
        {WSI_TOKEN_POST_URI, GRAFT_HTTP_POST},      {WSI_TOKEN_PUT_URI, GRAFT_HTTP_PUT},
        {WSI_TOKEN_PATCH_URI, GRAFT_HTTP_PATCH},    {WSI_TOKEN_DELETE_URI, GRAFT_HTTP_DELETE},
        {WSI_TOKEN_OPTIONS_URI, GRAFT_HTTP_OPTIONS}};
    bool ok = true;
    for (size_t i = 0; ok && !q->path && i < sizeof methods / sizeof *methods; i++) {
        q->path = header(wsi, methods[i].token, &ok);
        if (!q->path) continue;
        ok = printable(q->path, lws_hdr_total_length(wsi, methods[i].token));
        q->method = methods[i].method;
        q->head = methods[i].token == WSI_TOKEN_HEAD_URI;
    }
    if (!q->path || !ok || !well_formed(wsi)) return false;
    q->tls = lws_is_ssl(wsi);
    q->host = header(wsi, WSI_TOKEN_HOST, &ok);
    q->origin = header(wsi, WSI_TOKEN_ORIGIN, &ok);
    q->authorization = header(wsi, WSI_TOKEN_HTTP_AUTHORIZATION, &ok);
    q->cookie = header(wsi, WSI_TOKEN_HTTP_COOKIE, &ok);
    q->content_type = header(wsi, WSI_TOKEN_HTTP_CONTENT_TYPE, &ok);
    q->if_none_match = header(wsi, WSI_TOKEN_HTTP_IF_NONE_MATCH, &ok);
    q->accept_encoding = header(wsi, WSI_TOKEN_HTTP_ACCEPT_ENCODING, &ok);
    q->range = header(wsi, WSI_TOKEN_HTTP_RANGE, &ok);
    q->if_range = header(wsi, WSI_TOKEN_HTTP_IF_RANGE, &ok);
    q->fetch_site = custom(wsi, "sec-fetch-site:", &ok);
    q->fetch_mode = custom(wsi, "sec-fetch-mode:", &ok);
    q->fetch_dest = custom(wsi, "sec-fetch-dest:", &ok);
    return read_args(wsi, q) && ok;
}

static void begin_sending(graft_transport *t, graft_conn *c, struct lws *wsi)
{
    c->sending = wsi;
    c->was_sent = SIZE_MAX; /* the first look does not count */
    c->next = t->sending;
    t->sending = c;
}

static void end_sending(graft_transport *t, graft_conn *c)
{
    graft_conn **at = &t->sending;
    if (!c->sending) return;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    c->sending = NULL;
}

/* Whether the library holds something for a connection that it could serve. */
static bool holds_some(graft_transport *t)
{
    return lws_service_adjust_timeout(t->context, 1, 0) == 0;
}

void graft_conn__look(graft_transport *t)
{
    if (!t->sending || !holds_some(t)) return;
    for (graft_conn *c = t->sending; c; c = c->next) {
        if (c->later || c->due) continue;
        if (c->sent == c->was_sent)
            lws_set_timeout(c->sending, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_ASYNC);
        c->was_sent = c->sent;
    }
}

void graft_conn__reset(graft_transport *t, graft_conn *c)
{
    end_sending(t, c);
    if (c->later) graft_later__leave(c);
    if (!c->active) return;
    t->bodies -= (int64_t)c->cap;
    graft_http_request_finish(&c->q);
    graft_http_response_finish(&c->r);
    c->active = c->answered = c->due = false;
    c->refused = 0;
    c->unwanted = false;
    c->cap = c->sent = 0;
    c->expect = c->got = 0;
    c->chunked = false;
    c->chunks = (graft_chunked){0};
}

static bool put_header(struct lws *wsi, const char *name, const char *value, uint8_t **p,
                       uint8_t *end)
{
    return lws_add_http_header_by_name(wsi, (const uint8_t *)name, (const uint8_t *)value,
                                       (int)strlen(value), p, end) == 0;
}

/* Afterwards `c` is gone: the library makes a new one for the next request. */
static int done(graft_transport *t, graft_conn *c, struct lws *wsi)
{
    bool ends = c->r.close;
    end_sending(t, c);
    lws_set_opaque_user_data(wsi, t);
    if (ends || lws_http_transaction_completed(wsi)) return -1;
    graft_ready__writable(t, wsi);
    return 0;
}

/* Sends the headers, and a short body with them. */
static int send_answer(graft_transport *t, graft_conn *c, struct lws *wsi)
{
    uint8_t buffer[LWS_PRE + GRAFT_CONN_HEAD + GRAFT_CONN_PIECE], *start = buffer + LWS_PRE,
                                                                  *p = start;
    uint8_t *end = start + GRAFT_CONN_HEAD;
    char length[24];
    graft_http_response *r = &c->r;
    bool bodyless = r->status == 204 || r->status == 304;
    c->answered = true;
    if (c->q.method == GRAFT_HTTP_GET) t->credit -= 1;
    if (bodyless && r->size) graft_http_empty(r, r->status);
    if (lws_add_http_header_status(wsi, (unsigned)r->status, &p, end)) return -1;
    bool ok = true;
    if (!bodyless) {
        snprintf(length, sizeof length, "%zu", r->size);
        ok = put_header(wsi, "content-type:", r->type ? r->type : "application/octet-stream", &p,
                        end) &&
             put_header(wsi, "content-length:", length, &p, end);
    }
    for (size_t i = 0; ok && i < r->n_header; i++)
        ok = put_header(wsi, r->header[i].name, r->header[i].value, &p, end);
    if (ok && r->close) ok = put_header(wsi, "connection:", "close", &p, end);
    if (!ok || lws_finalize_http_header(wsi, &p, end)) return -1;
    bool whole = c->q.head || !r->size;
    const uint8_t *body = r->body ? r->body : r->blob ? r->blob->data : NULL;
    if (!whole && body && r->size <= GRAFT_CONN_PIECE) {
        memcpy(p, body, r->size);
        p += r->size;
        whole = true;
    }
    int n = (int)(p - start);
    if (lws_write(wsi, start, (size_t)n, whole ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP_HEADERS) < n)
        return -1;
    if (whole) return done(t, c, wsi);
    begin_sending(t, c, wsi);
    t->hurry = true;
    lws_callback_on_writable(wsi);
    return 0;
}

int graft_conn__write(graft_transport *t, graft_conn *c, struct lws *wsi)
{
    uint8_t buffer[LWS_PRE + GRAFT_CONN_PIECE], *start = buffer + LWS_PRE;
    graft_http_response *r = &c->r;
    if (c->due) {
        c->due = false;
        end_sending(t, c);
        lws_set_timeout(wsi, PENDING_TIMEOUT_HTTP_CONTENT, 20);
        return send_answer(t, c, wsi);
    }
    if (!c->active || !c->answered || c->sent >= r->size) return 0;
    size_t n = r->size - c->sent < GRAFT_CONN_PIECE ? r->size - c->sent : GRAFT_CONN_PIECE;
    if (r->fd >= 0) {
        ssize_t got = read(r->fd, start, n);
        if (got <= 0) return -1; /* the file became shorter: the client sees a broken answer */
        n = (size_t)got;
    } else {
        memcpy(start, (r->body ? r->body : r->blob->data) + c->sent, n);
    }
    c->sent += n;
    bool last = c->sent == r->size;
    if (lws_write(wsi, start, n, last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) < (int)n) return -1;
    if (last) return done(t, c, wsi);
    t->hurry = true;
    lws_callback_on_writable(wsi);
    return 0;
}

static int answer(graft_transport *t, graft_conn *c, struct lws *wsi)
{
    if (graft_serve_takes_long(&c->q) && graft_later__begin(t, c, wsi)) {
        begin_sending(t, c, wsi);
        return 0;
    }
    graft_serve_answer(t->serve, &c->q, &c->r);
    return send_answer(t, c, wsi);
}

static int refuse(graft_transport *t, graft_conn *c, struct lws *wsi, int status, bool ends)
{
    graft_http_empty(&c->r, status);
    c->r.close = ends;
    return send_answer(t, c, wsi);
}

/* How long the body is; -1: it comes in pieces. False for nonsense, which a length beside pieces
 * is, too: what stands before this server might go by the other one. */
static bool body_size(struct lws *wsi, int64_t *size)
{
    char text[32];
    *size = 0;
    if (lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) > 0) {
        *size = -1;
        return lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) <= 0;
    }
    if (lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) <= 0) return true;
    if (lws_hdr_copy(wsi, text, sizeof text, WSI_TOKEN_HTTP_CONTENT_LENGTH) < 0) return false;
    size_t n = strspn(text, "0123456789");
    if (!n || n > 18 || text[n]) return false;
    *size = strtoll(text, NULL, 10);
    return true;
}

/* Some clients wait with a long body until they hear that it is welcome. */
static int go_on(struct lws *wsi)
{
    uint8_t buffer[LWS_PRE + 32];
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    memcpy(buffer + LWS_PRE, text, sizeof text - 1);
    int n = lws_write(wsi, buffer + LWS_PRE, sizeof text - 1, LWS_WRITE_HTTP_HEADERS_CONTINUATION);
    return n < 0 ? -1 : 0;
}

/* What is done about a body before it comes: nobody fills the room for bodies who may not ask, or
 * hears that one is welcome. */
static int await_body(graft_transport *t, graft_conn *c, struct lws *wsi)
{
    bool asks = lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_EXPECT) > 0;
    c->unwanted = graft_security_check(&t->serve->security, &c->q) != GRAFT_VERDICT_OK;
    c->began = graft_clock_now();
    if (!asks) return 0;
    if (!c->unwanted) return go_on(wsi);
    c->r.close = true;
    return answer(t, c, wsi);
}

/* Whether this request came together with the one before it on the same connection. The library
 * then takes the head of the request for its body, and loops for ever over what is left (4.1.6; no
 * answer is sent to anybody again). It does not tell what it holds for a connection, only that it
 * holds something for some. Those that receive a long answer are left out of the question; another
 * client that sends many requests at once can cause this one to be refused. */
static bool came_along(graft_transport *t, struct lws *wsi)
{
    if (!lws_get_opaque_user_data(wsi) || !holds_some(t)) return false;
    for (graft_conn *c = t->sending; c; c = c->next) lws_rx_flow_control(c->sending, 0);
    bool held = holds_some(t);
    for (graft_conn *c = t->sending; c; c = c->next)
        if (!(c->later && c->later->q.method != GRAFT_HTTP_GET)) lws_rx_flow_control(c->sending, 1);
    return held;
}

/* The library takes what follows the headers of these methods for a body without an end, of up to
 * 100 MiB. Where ours is, it does not learn: the connection closes behind the answer. */
static int begin_chunks(graft_transport *t, graft_conn *c, struct lws *wsi)
{
    const int methods = GRAFT_HTTP_POST | GRAFT_HTTP_PUT | GRAFT_HTTP_PATCH;
    char coding[16];
    if (lws_hdr_copy(wsi, coding, sizeof coding, WSI_TOKEN_HTTP_TRANSFER_ENCODING) <= 0 ||
        strcasecmp(coding, "chunked") != 0)
        return refuse(t, c, wsi, 501, true);
    if (!(c->q.method & methods)) return refuse(t, c, wsi, 411, true);
    if (came_along(t, wsi)) return refuse(t, c, wsi, 503, true);
    c->chunked = c->r.close = true;
    c->expect = t->serve->max_upload;
    return await_body(t, c, wsi);
}

int graft_conn__not_http(struct lws *wsi)
{
    static const char text[] = "HTTP/1.1 405 Method Not Allowed\r\nallow: GET\r\n"
                               "content-length: 0\r\nconnection: close\r\n\r\n";
    uint8_t out[LWS_PRE + sizeof text];
    memcpy(out + LWS_PRE, text, sizeof text - 1);
    lws_write(wsi, out + LWS_PRE, sizeof text - 1, LWS_WRITE_RAW);
    return -1;
}

int graft_conn__request(graft_transport *t, graft_conn *c, struct lws *wsi)
{
    int64_t size;
    graft_conn__reset(t, c);
    c->active = true;
    graft_http_response_init(&c->r);
    if (!graft_conn__read(wsi, &c->q)) return refuse(t, c, wsi, 400, true);
    if (!body_size(wsi, &size)) return refuse(t, c, wsi, 400, true);
    if (size < 0) return begin_chunks(t, c, wsi);
    if (c->q.method == GRAFT_HTTP_GET || !size) {
        /* Without a length the library would wait for a body that does not come. */
        c->r.close = size || (c->q.method & (GRAFT_HTTP_POST | GRAFT_HTTP_PUT | GRAFT_HTTP_PATCH) &&
                              lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) <= 0);
        return answer(t, c, wsi);
    }
    if (came_along(t, wsi)) return refuse(t, c, wsi, 503, true);
    c->expect = size;
    bool large = size > t->serve->max_upload;
    bool asks = lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_EXPECT) > 0;
    if (large && (asks || size > 8 * t->serve->max_upload)) return refuse(t, c, wsi, 413, true);
    if (large) c->refused = 413; /* a client that is still sending would not read the answer */
    return await_body(t, c, wsi);
}

/* False when the bytes may not be held. */
static bool reserve(graft_transport *t, graft_conn *c, size_t need)
{
    if (need <= c->cap) return true;
    size_t cap = c->cap ? 2 * c->cap : 4096;
    if (cap > (size_t)c->expect) cap = (size_t)c->expect;
    if (cap < need) cap = need;
    if (t->bodies + (int64_t)(cap - c->cap) > GRAFT_CONN_BODIES) return false;
    uint8_t *p = graft_realloc(c->q.body, cap, 1);
    if (!p) return false;
    t->bodies += (int64_t)(cap - c->cap);
    c->q.body = p;
    c->cap = cap;
    return true;
}

static void drop_body(graft_transport *t, graft_conn *c)
{
    t->bodies -= (int64_t)c->cap;
    graft_free(c->q.body);
    c->q.body = NULL;
    c->q.body_size = c->cap = 0;
}

/* One that there is no room for is read to its end all the same: who is still sending would not
 * read the answer. */
static void keep(graft_transport *t, graft_conn *c, const void *data, size_t n)
{
    if (c->refused || c->unwanted) return;
    if (!reserve(t, c, c->q.body_size + n)) {
        c->refused = 503;
        return drop_body(t, c);
    }
    memcpy(c->q.body + c->q.body_size, data, n);
    c->q.body_size += n;
}

static int take_chunks(graft_transport *t, graft_conn *c, struct lws *wsi, const uint8_t *in,
                       size_t n)
{
    const uint8_t *end = in + n, *data;
    size_t size;
    for (;;) {
        switch (graft_chunked_next(&c->chunks, &in, end, &data, &size)) {
        case GRAFT_CHUNKED_MORE:
            return 0;
        case GRAFT_CHUNKED_BAD:
            return refuse(t, c, wsi, 400, true);
        case GRAFT_CHUNKED_END:
            lws_set_timeout(wsi, NO_PENDING_TIMEOUT, 0);
            return c->refused ? refuse(t, c, wsi, c->refused, true) : answer(t, c, wsi);
        case GRAFT_CHUNKED_DATA:
            if (size > (size_t)c->expect - c->q.body_size) c->refused = 413;
            keep(t, c, data, size);
        }
    }
}

int graft_conn__body(graft_transport *t, graft_conn *c, struct lws *wsi, const void *data, size_t n)
{
    if (!c->active || c->answered || c->later || c->due) return 0;
    t->hurry = true;
    c->got += (int64_t)n;
    if (!c->chunked && c->got > c->expect) return -1;
    /* The library gives up when nothing comes; this is for a client that sends a byte now and then.
     */
    double time = graft_clock_now() - c->began;
    bool slow = time > BODY_TIME && (double)c->got < time * BODY_RATE;
    if (slow && (c->chunked || c->got < c->expect)) return -1;
    if (c->chunked) return take_chunks(t, c, wsi, data, n);
    keep(t, c, data, n);
    return 0;
}

int graft_conn__complete(graft_transport *t, graft_conn *c, struct lws *wsi)
{
    if (!c->active || c->answered || c->later || c->due) return 0;
    if (c->chunked) return refuse(t, c, wsi, 413, true); /* more than the library takes */
    if (c->refused) return refuse(t, c, wsi, c->refused, false);
    return answer(t, c, wsi);
}

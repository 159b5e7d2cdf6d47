#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "host/serve/routes.h"
#include "host/serve/transport_inside.h"
#include "base/tree.h"

static bool is_ws_path(const char *path)
{
    return strcmp(path, "/ws") == 0 || strcmp(path, "/api/ws") == 0;
}

/* Answers a refused handshake; `text` is the body or "". */
static int refuse(struct lws *wsi, int status, const char *text)
{
    uint8_t buffer[LWS_PRE + 1024], *start = buffer + LWS_PRE, *p = start, *end = start + 512;
    char length[24];
    int digits = snprintf(length, sizeof length, "%zu", strlen(text));
    if (lws_add_http_header_status(wsi, (unsigned)status, &p, end) ||
        lws_add_http_header_by_name(
            wsi, (const uint8_t *)"content-length:", (const uint8_t *)length, digits, &p, end) ||
        lws_add_http_header_by_name(wsi, (const uint8_t *)"connection:", (const uint8_t *)"close",
                                    5, &p, end) ||
        lws_finalize_http_header(wsi, &p, end))
        return -1;
    memcpy(p, text, strlen(text));
    lws_write(wsi, start, (size_t)(p - start) + strlen(text), LWS_WRITE_HTTP_HEADERS);
    return -1;
}

int graft_ws__confirm(graft_transport *t, struct lws *wsi, const char *protocol)
{
    graft_http_request q = {0};
    int status = 0;
    t->hurry = true;
    /* Some clients offer HTTP/2 without TLS with every request; the library would accept. */
    if (!protocol || strcasecmp(protocol, "websocket") != 0)
        return refuse(wsi, 400, "400: only HTTP/1.1 and WebSocket are spoken here\n");
    /* The library would hang up: it accepts the names of its own protocols alone. */
    if (lws_hdr_total_length(wsi, WSI_TOKEN_PROTOCOL) > 0)
        return refuse(wsi, 400, "400: no Sec-WebSocket-Protocol is spoken here\n");
    if (!graft_conn__read(wsi, &q) || q.method != GRAFT_HTTP_GET || q.head) {
        status = 400;
    } else {
        q.upgrade = true;
        graft_verdict v = graft_security_check(&t->serve->security, &q);
        if (v == GRAFT_VERDICT_TOKEN)
            status = 401;
        else if (v != GRAFT_VERDICT_OK)
            status = 403;
        else if (!is_ws_path(q.path))
            status = 404;
    }
    graft_http_request_finish(&q);
    return status ? refuse(wsi, status, "") : 0;
}

/* The id that a client gives itself, or one at random; NULL when out of memory. */
static char *id_of(const graft_http_request *q)
{
    const char *wanted = graft_http_arg(q, "clientId");
    uint8_t bytes[16] = {0};
    char made[33];
    if (wanted && *wanted && graft_str_is_utf8(wanted, strlen(wanted))) return graft_strdup(wanted);
    if (getrandom(bytes, sizeof bytes, 0) < 0) memset(bytes, 1, sizeof bytes);
    for (int i = 0; i < 16; i++) snprintf(made + 2 * i, 3, "%02x", bytes[i]);
    return graft_strdup(made);
}

static void pop(graft_ws *w)
{
    graft_ws_item *item = w->first;
    w->first = item->next;
    if (!w->first) w->last = &w->first;
    w->waiting -= item->message->plain_size;
    graft_hub_release(item->message);
    graft_free(item);
}

/* What was not sent yet waits for the client's next socket. */
static void keep_unsent(graft_transport *t, graft_ws *w)
{
    for (; w->first; pop(w)) {
        graft_hub_message *m = w->first->message;
        if (m->client && strcmp(m->client, w->id) == 0) graft_mail__keep(&t->mail, m);
    }
}

/* Nothing more is sent, and nothing is kept for it. */
static void give_up(graft_ws *w)
{
    w->doomed = true;
    while (w->first) pop(w);
}

/* An older socket of the same client gives way. It is closed with 1000, as nothing else is: the
 * editor page then takes another id. */
static void replace(graft_transport *t, const char *id)
{
    for (graft_ws *w = t->clients; w; w = w->next)
        if (strcmp(w->id, id) == 0 && !w->doomed) {
            keep_unsent(t, w);
            give_up(w);
            w->id[0] = 0;
            lws_callback_on_writable(w->wsi);
        }
}

static void send_own(graft_transport *t, graft_ws *w, graft_str *s)
{
    graft_hub_message *m = graft_hub_message_create(s);
    if (m) graft_ws__queue(t, w, m);
    graft_hub_release(m);
}

int graft_ws__open(graft_transport *t, graft_conn *c, struct lws *wsi)
{
    graft_str s = GRAFT_STR_INIT;
    graft_http_request q = {0};
    graft_ws *w = graft_calloc(1, sizeof *w);
    if (w && graft_conn__read(wsi, &q)) w->id = id_of(&q);
    graft_http_request_finish(&q);
    if (!w || !w->id) {
        graft_free(w);
        return -1;
    }
    graft_transport__deliver(t); /* what was said before comes before what is said now */
    replace(t, w->id);
    w->wsi = wsi;
    w->last = &w->first;
    w->next = t->clients;
    t->clients = w;
    c->ws = w;
    graft_queue_status(&t->serve->queue, w->id, &s);
    send_own(t, w, &s);
    graft_mail__hand_over(t, w);
    graft_sink_resume(&t->serve->sink, w->id, &s);
    send_own(t, w, &s);
    return 0;
}

static size_t size_of(const graft_ws *w, const graft_hub_message *m)
{
    return w->inbox.rich && m->rich ? m->rich_size : m->plain_size;
}

void graft_ws__queue(graft_transport *t, graft_ws *w, graft_hub_message *m)
{
    if (w->doomed || (m->log && !w->logs)) return;
    /* A late picture is worth nothing. */
    if (m->binary && m->rich && w->waiting > ((size_t)1 << 20)) return;
    graft_ws_item *item = graft_malloc(sizeof *item);
    bool first = !w->first;
    if (!item || w->waiting > GRAFT_WS_BACKLOG) {
        graft_free(item);
        give_up(w);
        /* It may never take a closing frame, either. */
        lws_set_timeout(w->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_ASYNC);
    } else {
        item->next = NULL;
        item->message = m;
        m->refs++;
        *w->last = item;
        w->last = &item->next;
        w->waiting += m->plain_size;
    }
    lws_callback_on_writable(w->wsi);
    if (first) graft_ready__writable(t, w->wsi);
}

int graft_ws__write(graft_ws *w, struct lws *wsi)
{
    if (!w) return -1;
    while (w->first && !w->doomed) {
        graft_hub_message *m = w->first->message;
        size_t n = size_of(w, m);
        uint8_t *data = w->inbox.rich && m->rich ? m->rich : m->plain;
        int sent = lws_write(wsi, data + GRAFT_HUB_HEADROOM, n,
                             m->binary ? LWS_WRITE_BINARY : LWS_WRITE_TEXT);
        if (sent < (int)n) return -1;
        pop(w);
        if (w->first && lws_send_pipe_choked(wsi)) {
            lws_callback_on_writable(wsi);
            return 0;
        }
    }
    if (!w->doomed) return 0;
    bool replaced = !w->id[0];
    lws_close_reason(wsi, replaced ? LWS_CLOSE_STATUS_NORMAL : LWS_CLOSE_STATUS_POLICY_VIOLATION,
                     NULL, 0);
    return -1;
}

void graft_ws__close(graft_transport *t, graft_conn *c)
{
    graft_ws *w = c->ws;
    if (!w) return;
    for (graft_ws **at = &t->clients; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    keep_unsent(t, w);
    graft_inbox_finish(&w->inbox);
    graft_free(w->id);
    graft_free(w);
    c->ws = NULL;
}

int graft_ws__receive(graft_transport *t, graft_ws *w, const void *data, size_t n)
{
    if (!w) return -1;
    bool last = lws_is_final_fragment(w->wsi) && !lws_remaining_packet_payload(w->wsi);
    graft_str s = GRAFT_STR_INIT;
    switch (graft_inbox_take(&w->inbox, data, n, last, lws_frame_is_binary(w->wsi))) {
    case GRAFT_INBOX_OK:
        return 0;
    case GRAFT_INBOX_FEATURES:
        graft_str_puts(&s, "{\"type\":\"feature_flags\",\"data\":");
        graft_serve_features(t->serve, &s);
        graft_str_puts(&s, "}");
        send_own(t, w, &s);
        return 0;
    case GRAFT_INBOX_TOO_LONG:
        lws_close_reason(w->wsi, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, NULL, 0);
        return -1;
    case GRAFT_INBOX_NOMEM:
        break;
    }
    return -1;
}

void graft_ws__subscribe(void *ctx, const char *client, bool on)
{
    graft_transport *t = ctx;
    for (graft_ws *w = t->clients; w; w = w->next)
        if (strcmp(w->id, client) == 0) w->logs = on;
}

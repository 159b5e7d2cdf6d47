#include "host/serve/transport.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "host/serve/transport_inside.h"

#define KEEP_ALIVE_US (4 * LWS_US_PER_SEC) /* clients take 10 s of silence for a dead server */
#define ACCEPTED      64                   /* connections in one round */
#define GATHER_MS     20                   /* how long requests are gathered while a job runs */
#define AT_ONCE       100                  /* requests a second that are not gathered */
#define CREDIT        50
#define WHOLE_SECONDS 0.1 /* while they are, between two of the library's own rounds */

static void wake(void *ctx)
{
    graft_transport *t = ctx;
    atomic_store(&t->woken, true);
    lws_cancel_service(t->context);
}

void graft_transport__deliver(graft_transport *t)
{
    graft_hub_message *m = graft_hub_take(&t->serve->hub), *next;
    for (; m; m = next) {
        next = m->next;
        m->next = NULL;
        bool there = !m->client;
        for (graft_ws *w = t->clients; w; w = w->next) {
            bool its = m->client && strcmp(m->client, w->id) == 0;
            if (w->doomed || (m->client && !its && !m->everybody)) continue;
            graft_ws__queue(t, w, m);
            there |= its;
        }
        if (!there) graft_mail__keep(&t->mail, m);
        graft_hub_release(m);
    }
}

static void keep_alive(lws_sorted_usec_list_t *sul)
{
    graft_transport *t = lws_container_of(sul, graft_transport, timer);
    graft_conn__look(t);
    if (t->clients) {
        graft_str s = GRAFT_STR_INIT;
        graft_queue_status(&t->serve->queue, NULL, &s);
        graft_hub_message *m = graft_hub_message_create(&s);
        for (graft_ws *w = t->clients; m && w; w = w->next) graft_ws__queue(t, w, m);
        graft_hub_release(m);
    }
    lws_sul_schedule(t->context, 0, &t->timer, keep_alive, KEEP_ALIVE_US);
}

static graft_transport *transport_of(struct lws *wsi)
{
    return lws_context_user(lws_get_context(wsi));
}

/* The library reads no request before it could send more; with room for several pieces that is at
 * once, and not when the client has confirmed the last answer. */
static void make_room(struct lws *wsi)
{
    const int room = 4 * GRAFT_CONN_PIECE;
    setsockopt(lws_get_socket_fd(wsi), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
}

/* All that wait, up to a number: the others have their turn in the next round. */
static void take_connections(graft_transport *t)
{
    int fd;
    for (int i = 0; i < ACCEPTED && (fd = graft_listener_accept(&t->listener)) >= 0; i++)
        lws_adopt_socket_vhost(t->vhost, fd); /* closes what it cannot take */
    t->hurry = true;
}

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                    size_t len)
{
    graft_conn *c = user;
    switch (reason) {
    case LWS_CALLBACK_EVENT_WAIT_CANCELLED:
        graft_later__deliver(transport_of(wsi));
        graft_transport__deliver(transport_of(wsi));
        return 0;
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
        transport_of(wsi)->hurry = true;
        make_room(wsi);
        graft_ready__add(transport_of(wsi), lws_get_socket_fd(wsi));
        return 0;
    case LWS_CALLBACK_RAW_RX_FILE:
        take_connections(transport_of(wsi));
        return 0;
    case LWS_CALLBACK_RAW_RX:
        return graft_conn__not_http(wsi);
    case LWS_CALLBACK_HTTP:
        return graft_conn__request(transport_of(wsi), c, wsi);
    case LWS_CALLBACK_HTTP_BODY:
        return graft_conn__body(transport_of(wsi), c, wsi, in, len);
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        return graft_conn__complete(transport_of(wsi), c, wsi);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return graft_conn__write(transport_of(wsi), c, wsi);
    case LWS_CALLBACK_HTTP_DROP_PROTOCOL:
    case LWS_CALLBACK_CLOSED_HTTP:
        if (c) graft_conn__reset(transport_of(wsi), c);
        return 0;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return graft_ws__confirm(transport_of(wsi), wsi, in);
    case LWS_CALLBACK_ESTABLISHED:
        return graft_ws__open(transport_of(wsi), c, wsi);
    case LWS_CALLBACK_RECEIVE:
        return graft_ws__receive(transport_of(wsi), c->ws, in, len);
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return graft_ws__write(c->ws, wsi);
    case LWS_CALLBACK_CLOSED:
        graft_ws__close(transport_of(wsi), c);
        return 0;
    default:
        return 0;
    }
}

static void silent(int level, const char *line)
{
    (void)level, (void)line;
}

/* Without a port: connections come from our own listener. */
static struct lws_context *make_context(graft_transport *t, const graft_serve_options *o)
{
    /* Pings come later than the library's other timers: it keeps all in one sorted list, and would
     * pass every client's ping to put in a request's timer. */
    static const lws_retry_bo_t idle = {.secs_since_valid_ping = 90,
                                        .secs_since_valid_hangup = 120};
    struct lws_context_creation_info info = {0};
    info.port = CONTEXT_PORT_NO_LISTEN_SERVER;
    info.protocols = t->protocol;
    info.user = t;
    info.gid = info.uid = -1;
    info.server_string = "graft/" GRAFT_VERSION;
    info.options = LWS_SERVER_OPTION_VALIDATE_UTF8;
    info.max_http_header_data = 16384;
    info.pt_serv_buf_size = 65536;
    info.timeout_secs = 20; /* to send a request's headers, and between two pieces of its body */
    info.keepalive_timeout = 75;
    info.retry_and_idle_policy = &idle;
    if (o->tls_cert) {
        info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
        info.ssl_cert_filepath = o->tls_cert;
        info.ssl_private_key_filepath = o->tls_key;
        info.alpn = "http/1.1";
    }
    return lws_create_context(&info);
}

/* Gives the listening socket to the library, which closes it in any case. */
static bool watch_listener(graft_transport *t)
{
    const lws_sock_file_fd_type fd = {.filefd = t->listener.fd};
    t->vhost = lws_get_vhost_by_name(t->context, "default");
    if (!t->vhost || !lws_adopt_descriptor_vhost(t->vhost, LWS_ADOPT_RAW_FILE_DESC, fd,
                                                 t->protocol[0].name, NULL))
        return false;
    graft_ready__add(t, t->listener.fd);
    return true;
}

/* The library closes the listening socket once it has it. */
static void drop(graft_transport *t)
{
    if (t->vhost) t->listener.fd = -1;
    graft_later__stop(t);
    if (t->context) lws_context_destroy(t->context);
    graft_later__finish(t);
    graft_listener_close(&t->listener);
    graft_ready__finish(t);
    graft_mail__finish(&t->mail);
    graft_free(t);
}

graft_status graft_transport_create(graft_serve *s, graft_transport **out, graft_err *e)
{
    const graft_serve_options *o = &s->options->serve;
    graft_transport *t = graft_calloc(1, sizeof *t);
    *out = NULL;
    if (!t) return graft_fail_nomem(e, "the server");
    t->serve = s;
    graft_mail__init(&t->mail);
    t->protocol[0] = (struct lws_protocols){.name = "http",
                                            .callback = on_event,
                                            .per_session_data_size = sizeof(graft_conn),
                                            .rx_buffer_size = GRAFT_INBOX_MAX,
                                            .tx_packet_size = GRAFT_CONN_HEAD + GRAFT_CONN_PIECE};
    atomic_init(&t->stop, 0);
    atomic_init(&t->woken, false);
    t->ready = -1;
    lws_set_log_level(0, silent);
    graft_status st = graft_listener_open(&t->listener, o->listen, o->port, e);
    if (st) {
        graft_free(t);
        return st;
    }
    graft_ready__init(t, o->tls_cert);
    graft_later__init(t);
    t->context = make_context(t, o);
    if (!t->context || !watch_listener(t)) {
        st = graft_fail(e, GRAFT_E_IO, "cannot listen at %s:%d: %s", o->listen, t->listener.port,
                        o->tls_cert ? "the certificate or the key cannot be used"
                                    : "the library did not start");
        drop(t);
        return st;
    }
    graft_hub_set_wake(&s->hub, wake, t);
    s->subscribe = graft_ws__subscribe;
    s->subscribe_ctx = t;
    lws_sul_schedule(t->context, 0, &t->timer, keep_alive, KEEP_ALIVE_US);
    *out = t;
    return GRAFT_OK;
}

void graft_transport_destroy(graft_transport *t)
{
    if (!t) return;
    graft_hub_set_wake(&t->serve->hub, NULL, NULL);
    drop(t);
}

int graft_transport_port(const graft_transport *t)
{
    return t->listener.port;
}

/* Every time this thread wakes up, a thread that computes loses its processor, and all others wait
 * for it at the next barrier. So when many requests come while a job runs, those of GATHER_MS are
 * answered together. A few do not wait: each costs a credit, and time earns them. Nothing that is
 * half done waits, and nothing that changes something. */
void graft_transport_run(graft_transport *t)
{
    const struct timespec pause = {0, GATHER_MS * 1000000L};
    double last = graft_clock_now(), whole = last;
    bool gather = false;
    t->credit = CREDIT;
    while (!atomic_load(&t->stop)) {
        t->hurry = false;
        if (gather && t->ready >= 0 && last - whole < WHOLE_SECONDS) {
            if (atomic_exchange(&t->woken, false)) {
                graft_later__deliver(t);
                graft_transport__deliver(t);
            }
            graft_ready__serve(t);
        } else {
            if (lws_service(t->context, 0) < 0) break;
            whole = graft_clock_now();
        }
        graft_ready__flush(t);
        double now = graft_clock_now();
        t->credit += (now - last) * AT_ONCE;
        if (t->credit > CREDIT) t->credit = CREDIT;
        if (t->credit < -1) t->credit = -1;
        last = now;
        gather = !t->hurry && t->credit < 0 && graft_queue_busy(&t->serve->queue);
        if (gather) nanosleep(&pause, NULL);
    }
}

void graft_transport_stop(graft_transport *t)
{
    atomic_store(&t->stop, 1);
    lws_cancel_service(t->context);
}
